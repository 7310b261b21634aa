//! References to tests elsewhere, by file and name. The checks show that they exist and contain the expected words.

use std::{
    fs,
    path::{Path, PathBuf},
};

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
    /// The test calls this function of the same file, which contains the words.
    pub(crate) const fn through(self, called: &'static str) -> Pointer {
        Pointer { called: Some(called), ..self }
    }

    /// # Panics
    /// If there is no such test, or it contains none of these words.
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
        assert!(is_there, "{test} in {file} contains none of {words:?}");
    }
}

/// Whether a test of some crate has this word.
pub(crate) fn is_in_a_test(word: &str) -> bool {
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of sources") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                if has_word(&text, word) && tests(&text).any(|test| has_word(&test, word)) {
                    return true;
                }
            }
        }
    }
    false
}

/// The text of every test.
fn tests(text: &str) -> impl Iterator<Item = String> + '_ {
    let names = text.lines().filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("fn "));
    names.filter_map(|rest| body_of(text, rest.split('(').next()?, true))
}

/// The text of a function. With `is_test` it must be a test.
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
    // The `n` of an escaped line end is not part of the following word.
    Some(lines[first..first + length].join("\n").replace("\\n", "  "))
}

/// Whether a text contains a whole word. Digits are compared without `_`.
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
fn a_pointer_without_a_test_is_found() {
    let text = "#[test]\nfn one() {\n    two(1_000);\n}\n\nfn called() {\n}\n";
    let body = body_of(text, "one", true).expect("it is there");
    assert!(has_word(&body, "1000") && has_word(&body, "two") && !has_word(&body, "100") && !has_word(&body, "tw"));
    assert_eq!(body_of(text, "called", true), None, "it is not a test");
    assert_eq!(body_of(text, "three", true), None);
    assert_eq!(tests(text).collect::<Vec<_>>(), [body]);
    assert!(is_in_a_test("Refusal::CartExpired") && !is_in_a_test(&["Refusal", "NotAny"].join("::")));
}
