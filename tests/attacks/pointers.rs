//! Tests elsewhere, by file and name: they are there, and speak of what they are said to reach.

use std::{fs, path::Path};

/// A test elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    file: &'static str,
    test: &'static str,
    called: Option<&'static str>,
}

/// The test with this name in this file.
pub(crate) const fn at(file: &'static str, test: &'static str) -> Pointer {
    Pointer { file, test, called: None }
}

impl Pointer {
    /// The test uses this function of the same file, which speaks of it.
    pub(crate) const fn through(self, called: &'static str) -> Pointer {
        Pointer { called: Some(called), ..self }
    }

    /// # Panics
    /// If there is no such test, or none of these words is in it.
    pub(crate) fn check(&self, words: &[&str]) {
        let Pointer { file, test, called } = self;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut body = body_of(&text, test, true).unwrap_or_else(|| panic!("{file} has no test {test}"));
        if let Some(called) = called {
            assert!(has_word(&body, called), "{test} in {file} does not use {called}");
            body = body_of(&text, called, false).unwrap_or_else(|| panic!("{file} has no {called}"));
        }
        let is_there = words.iter().any(|word| has_word(&body, word));
        assert!(is_there, "{test} in {file} says none of {words:?}");
    }
}

/// The text of a function; if it has to be a test, of one that is.
fn body_of(text: &str, test: &str, is_test: bool) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let name = format!("fn {test}(");
    let first = lines.iter().position(|line| line.contains(&name))?;
    let before = &lines[first.saturating_sub(4)..first];
    if is_test && !before.iter().any(|line| line.trim_start().starts_with("#[") && line.contains("test")) {
        return None;
    }
    let indent = lines[first].len() - lines[first].trim_start().len();
    let end = format!("{}}}", " ".repeat(indent));
    let length = lines[first..].iter().position(|line| *line == end)?;
    // The `n` of a line end within a text is no part of the word behind it.
    Some(lines[first..first + length].join("\n").replace("\\n", "  "))
}

/// Whether a word stands in a text, and not as a part of a longer one. Digits are compared without `_`.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let stands = |text: &str| {
        text.match_indices(word).any(|(at, found)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + found.len()..].chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    };
    stands(text) || (word.bytes().all(|digit| digit.is_ascii_digit()) && stands(&text.replace('_', "")))
}

#[test]
fn a_pointer_that_leads_nowhere_is_found() {
    let text = "#[test]\nfn one() {\n    two(1_000);\n}\n\nfn called() {\n}\n";
    let body = body_of(text, "one", true).expect("it is there");
    assert!(has_word(&body, "1000") && has_word(&body, "two") && !has_word(&body, "100") && !has_word(&body, "tw"));
    assert_eq!(body_of(text, "called", true), None, "that is no test");
    assert_eq!(body_of(text, "three", true), None);
}
