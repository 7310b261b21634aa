//! Generated reference pages: `docs/reference/configuration.md` from the comments of `config/boxoffice.toml`, and
//! `docs/reference/command-line.md` from `boxoffice help`.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice --test house reference` writes them again.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use toml::{Table, Value};

/// The marks around the keys in the page of the configuration.
const KEYS_BEGIN: &str = "<!-- The keys up to the end mark are made of config/boxoffice.toml by tests/reference.rs. \
    UPDATE_EXPECT=1 writes them down again. -->\n";
const KEYS_END: &str = "<!-- end -->\n";

/// The page of the command line up to the first command.
const COMMANDS_HEAD: &str = "# Command line

<!-- Made of what `boxoffice help` prints by tests/reference.rs. Change crates/cli/src/args.rs, then run it with UPDATE_EXPECT=1. -->

What `boxoffice help COMMAND` prints for every command. [Configuration](configuration.md) has the keys of the configuration file, and
[First sale](../start/first-sale.md) uses some of the commands.
";

/// The most characters of a command's first line of help.
const FIRST_LINE_MAX: usize = 70;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a page with its expected text, or writes it.
pub(crate) fn check(page: &str, drawn: &str) {
    let path = root().join(page);
    if fs::read_to_string(&path).is_ok_and(|page| page == drawn) {
        return;
    }
    assert!(std::env::var_os("UPDATE_EXPECT").is_some(), "{page} differs from its source");
    fs::write(path, drawn).expect("the page can be written");
}

/// A value as the page shows it.
fn built_in(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "none".into(),
        Value::Array(list) if list.is_empty() => "none".into(),
        Value::Table(table) if table.is_empty() => "none".into(),
        Value::String(text) => format!("`{text}`"),
        Value::Integer(number) => {
            let digits = number.to_string();
            let apart: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().map(|part| str::from_utf8(part).expect("digits")).collect();
            apart.join(" ")
        }
        other => other.to_string(),
    }
}

/// The keys of the configuration, in a table per section. A comment before a key belongs to it and to the following keys without
/// a comment. A comment before an empty line belongs to the section.
fn keys() -> String {
    let file = fs::read_to_string(root().join("config/boxoffice.toml")).expect("the built-in configuration");
    let values: Table = file.parse().expect("the built-in configuration is TOML");
    let (mut text, mut section, mut comment) = (String::from(KEYS_BEGIN), String::new(), String::new());
    let mut rows: Vec<(Vec<String>, String)> = Vec::new();
    let write_rows = |text: &mut String, rows: &mut Vec<(Vec<String>, String)>, section: &str| {
        if rows.is_empty() {
            return;
        }
        text.push_str("\n| key | built in | what it is |\n|---|---|---|\n");
        for (names, comment) in rows.drain(..) {
            assert!(!comment.is_empty(), "{section}.{} has no comment", names[0]);
            let shown: Vec<String> = names.iter().map(|name| format!("`{section}.{name}`")).collect();
            let value = built_in(&values[section][&names[0]]);
            let comment = comment.replace('|', "\\|");
            writeln!(text, "| {} | {value} | {comment} |", shown.join(", ")).expect("text");
        }
    };
    for line in file.lines().chain([""]) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            write_rows(&mut text, &mut rows, &section);
            section = name.to_owned();
            write!(text, "\n## {section}\n").expect("text");
        } else if let Some(words) = line.strip_prefix('#') {
            comment.push_str(if comment.is_empty() { "" } else { " " });
            comment.push_str(words.trim());
        } else if let Some((name, _)) = line.split_once(" = ") {
            match rows.last_mut() {
                Some((names, _)) if comment.is_empty() => names.push(name.to_owned()),
                _ => rows.push((vec![name.to_owned()], std::mem::take(&mut comment))),
            }
        } else if !section.is_empty() && !comment.is_empty() {
            write!(text, "\n{}\n", std::mem::take(&mut comment)).expect("text");
        } else {
            comment.clear();
        }
    }
    write_rows(&mut text, &mut rows, &section);
    text.push('\n');
    text.push_str(KEYS_END);
    text
}

#[test]
fn the_configuration_page_lists_every_key_and_default() {
    let page = "docs/reference/configuration.md";
    let mut text = fs::read_to_string(root().join(page)).expect("the page");
    let begin = text.find(KEYS_BEGIN).expect("the page has the mark where the keys begin");
    let end = begin + text[begin..].find(KEYS_END).expect("the page has the mark where they end") + KEYS_END.len();
    text.replace_range(begin..end, &keys());
    check(page, &text);
}

/// Writes the help of a command and of its subcommands.
fn write_help(text: &mut String, command: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_boxoffice"))
        .arg("help")
        .args(command)
        // The help shows environment variables, so they are removed.
        .env_clear()
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let help = String::from_utf8(output.stdout).expect("help is text");
    let name = ["boxoffice"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
    let first = help.lines().next().expect("a first line");
    assert!(
        first.chars().count() <= FIRST_LINE_MAX && !first.ends_with('.'),
        "the first line of `{name}` is a line of at most {FIRST_LINE_MAX} characters without a full stop: {first}"
    );
    write!(text, "\n## {name}\n\n```text\n").expect("text");
    help.trim_end().lines().for_each(|line| writeln!(text, "{}", line.trim_end()).expect("text"));
    text.push_str("```\n");
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in below.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().expect("a name");
        if name != "help" {
            write_help(text, &[command, &[name]].concat());
        }
    }
}

#[test]
fn the_command_line_page_equals_the_help() {
    let mut text = String::from(COMMANDS_HEAD);
    write_help(&mut text, &[]);
    check("docs/reference/command-line.md", &text);
}
