//! What a value says, without what is absent. So a field that is added later changes no text of a value that does not use it.

use std::{iter::Peekable, str::Chars};

/// Fields that are in memory only, by their structs. They are made anew when a value is read, or by those that have it.
const NOT_STORED: [(&str, &str); 13] = [
    ("Booked", "layout"),
    ("Book", "counts"),
    ("Book", "held"),
    ("Book", "places"),
    ("Book", "sold"),
    ("Customer", "posted"),
    ("Customer", "quotas"),
    ("Hall", "layout"),
    ("Holds", "due"),
    ("Product", "taken"),
    ("Resource", "place"),
    ("Resource", "series"),
    ("Session", "layout"),
];

/// How `Debug` writes a field that is left out.
const ABSENT: [&str; 5] = ["None", "[]", "{}", "false", "\"\""];

/// What `Debug` has written of a value, without its absent fields.
pub(crate) fn present(debug: &str) -> String {
    let mut rest = debug.chars().peekable();
    let value = value(&mut rest);
    assert_eq!(rest.next(), None, "{debug} does not end after {value}");
    value
}

fn value(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(&char) = rest.peek() {
        match char {
            ',' | ')' | ']' | '}' => break,
            ':' if rest.clone().nth(1) == Some(' ') => break,
            '"' => string(rest, &mut text),
            '(' | '[' | '{' => {
                rest.next();
                group(char, rest, &mut text);
            }
            _ => text.extend(rest.next()),
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn string(rest: &mut Peekable<Chars<'_>>, text: &mut String) {
    text.extend(rest.next());
    while let Some(char) = rest.next() {
        text.push(char);
        match char {
            '"' => return,
            '\\' => text.extend(rest.next()),
            _ => {}
        }
    }
}

/// The items up to the end of a group, behind the name of a struct or a variant, if it has one.
fn group(open: char, rest: &mut Peekable<Chars<'_>>, text: &mut String) {
    let name = text.trim_end().to_owned();
    let mut items: Vec<(Option<String>, String)> = Vec::new();
    let close = loop {
        while rest.next_if(|char| [' ', ','].contains(char)).is_some() {}
        // A slot ends otherwise than it begins.
        if let Some(close) = rest.next_if(|char| [')', ']', '}'].contains(char)) {
            break close;
        }
        assert!(rest.peek().is_some(), "{name} does not end");
        let first = value(rest);
        items.push(match rest.next_if_eq(&':') {
            Some(_) => {
                rest.next();
                (Some(first), value(rest))
            }
            None => (None, first),
        });
    };
    if !name.is_empty() {
        match open {
            '{' => items.retain(|(field, value)| {
                let field = field.as_deref().unwrap_or_default();
                !ABSENT.contains(&value.as_str()) && !NOT_STORED.contains(&(&name, field))
            }),
            '(' => while items.pop_if(|(_, value)| ABSENT.contains(&value.as_str())).is_some() {},
            _ => {}
        }
        if items.is_empty() {
            *text = name;
            return;
        }
    }
    text.push(open);
    for (place, (name, value)) in items.iter().enumerate() {
        if place > 0 {
            text.push_str(", ");
        }
        if let Some(name) = name {
            text.push_str(name);
            text.push_str(": ");
        }
        text.push_str(value);
    }
    text.push(close);
}

#[test]
fn absent_fields_are_left_out() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "they are only written")]
    enum Made {
        Closed { by: Option<u8>, names: Vec<&'static str> },
        Moved(u8, Option<u8>, bool),
        Holds { due: u8, at: (u8, Option<u8>), why: &'static str },
    }
    let said = |made: Made| present(&format!("{made:?}"));
    assert_eq!(said(Made::Closed { by: None, names: Vec::new() }), "Closed");
    assert_eq!(
        said(Made::Closed { by: Some(1), names: vec!["a, \"b\"}", ""] }),
        r#"Closed {by: Some(1), names: ["a, \"b\"}", ""]}"#
    );
    assert_eq!(said(Made::Moved(1, None, false)), "Moved(1)");
    assert_eq!(said(Made::Moved(1, None, true)), "Moved(1, None, true)");
    assert_eq!(said(Made::Holds { due: 3, at: (1, None), why: "" }), "Holds {at: (1, None)}");
}
