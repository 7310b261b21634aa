//! Every public function, type, trait, constant and module says what it is. Fields and variants whose names say it need no comment,
//! so the compiler's own lint asks for too much.

use std::{fs, path::Path};

use crate::modules::sources;

/// The kinds of items that need a comment.
const KINDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

/// The name of the public item that begins in this line, with its kind.
fn public_item(line: &str) -> Option<(&str, &str)> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace().peekable();
    while words.next_if(|word| matches!(*word, "async" | "unsafe" | "extern" | "\"C\"")).is_some() {}
    let mut kind = words.next()?;
    if kind == "const" && words.next_if(|word| *word == "fn").is_some() {
        kind = "fn";
    }
    let name = words.next()?.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    (KINDS.contains(&kind) || kind == "mod").then_some((kind, name))
}

/// Whether a macro or a use of one begins in this line and goes on in the next.
fn is_macro(line: &str) -> bool {
    let name = line.split('!').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
    is_name && line.contains("! ") && line.ends_with('{')
}

/// Whether the lines before an item end with a comment on it. Attributes may stand between.
fn has_comment(before: &[&str]) -> bool {
    let mut lines = before.iter().rev().map(|line| line.trim()).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("///") || line.starts_with("#[doc") {
            return true;
        }
        // An attribute ends in this line. It may have begun before.
        if line.ends_with(']') {
            if !line.starts_with("#[") {
                while lines.next_if(|line| !line.starts_with("#[")).is_some() {}
                lines.next();
            }
            continue;
        }
        return false;
    }
    false
}

#[test]
fn every_public_item_has_a_comment() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    for directory in fs::read_dir(crates).expect("crates").map(|entry| entry.expect("an entry").path().join("src")) {
        let mut files = Vec::new();
        if directory.is_dir() {
            sources(&directory, &mut files);
            files.extend([directory.join("lib.rs")].into_iter().filter(|path| path.is_file()));
        }
        for file in files {
            let text = fs::read_to_string(&file).expect("sources are text");
            let lines: Vec<&str> = text.lines().collect();
            let mut in_macro = false;
            for (at, line) in lines.iter().enumerate() {
                // Items that a macro makes have the comments of its uses.
                in_macro = if in_macro { *line != "}" } else { is_macro(line) };
                let Some((kind, name)) = public_item(line).filter(|_| !in_macro) else { continue };
                if kind == "mod" && line.ends_with(';') {
                    let inside = [
                        file.with_file_name(format!("{name}.rs")),
                        file.with_file_name(name).join("mod.rs"),
                        file.with_extension("").join(format!("{name}.rs")),
                    ];
                    let head = inside.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
                    if head.starts_with("//!") {
                        continue;
                    }
                }
                if !has_comment(&lines[..at]) {
                    missing.push(format!("{}:{}: {kind} {name}", file.display(), at + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "these need a comment:\n{}", missing.join("\n"));
}

#[test]
fn items_without_a_comment_are_found() {
    assert_eq!(public_item("    pub const fn new(a: u8) -> Self {"), Some(("fn", "new")));
    assert_eq!(public_item("pub const MAX: u8 = 1;"), Some(("const", "MAX")));
    assert_eq!(public_item("pub struct Line<T> {"), Some(("struct", "Line")));
    assert_eq!(public_item("    pub lines: Vec<u8>,"), None);
    assert_eq!(public_item("pub(crate) fn f() {"), None);
    assert!(is_macro("shapes! {") && is_macro("macro_rules! shapes {") && !is_macro("pub struct Line {"));
    assert!(has_comment(&["/// A line.", "#[derive(Debug)]"]));
    assert!(has_comment(&["/// A line.", "#[serde(", "    tag = \"kind\",", ")]"]));
    assert!(!has_comment(&["}", "#[derive(Debug)]"]));
    assert!(!has_comment(&["/// A line.", "pub a: u8,", "#[must_use]"]));
}
