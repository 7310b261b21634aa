//! The list of stored types. That of each release must be the beginning of today's.

use std::{collections::BTreeMap, fs};

use expect_test::expect_file;

use crate::{
    released::{NEXT, folder, releases},
    types,
};

/// The number and the text of a line, and where it stands: its type, and its variant if it is a field of one.
type Lines<'a> = BTreeMap<(&'a str, Option<u32>, Option<u32>), &'a str>;

/// The lines of a schema by their types, variants and fields.
///
/// # Panics
/// A line is none of a schema.
fn lines(schema: &str) -> Lines<'_> {
    let mut lines = BTreeMap::new();
    let (mut name, mut variant) = ("", 0);
    for line in schema.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let (key, text) = if indent == 0 {
            let (type_name, shape) = text.split_once(": ").unwrap_or((text, ""));
            name = type_name;
            ((name, None, None), shape)
        } else {
            let (number, text) = text.split_once(' ').expect("a number and a name");
            let number: u32 = number.parse().expect("a number");
            match (indent, text.contains(": ")) {
                (2, false) => {
                    variant = number;
                    ((name, Some(number), None), text)
                }
                (2, true) => ((name, None, Some(number)), text),
                (4, true) => ((name, Some(variant), Some(number)), text),
                _ => panic!("{line:?} is no line of a schema"),
            }
        };
        assert_eq!(lines.insert(key, text), None, "{line:?} stands twice at {name}");
    }
    lines
}

/// Whether a field with this shape is left out of a value that does not use it.
fn may_be_absent(shape: &str) -> bool {
    shape.ends_with(['?', ']', '}']) || ["text", "bool"].contains(&shape)
}

/// What of a released schema is not so any more, and what must not have been added to it.
fn breaks(released: &str, today: &str) -> Vec<String> {
    let (released, today) = (lines(released), lines(today));
    let mut found = Vec::new();
    let place = |(name, variant, _): (&str, Option<u32>, Option<u32>)| match variant {
        Some(variant) => format!("{name}, variant {variant}"),
        None => name.to_owned(),
    };
    for (key, before) in &released {
        let place = place(*key);
        let what = match key {
            (_, _, Some(field)) => format!("field {field} of {place}"),
            _ => place.clone(),
        };
        match today.get(key) {
            None => found.push(format!("{what} (`{before}`) is gone")),
            Some(now) if now != before => found.push(format!("{what} was `{before}` and is `{now}`")),
            Some(_) => {}
        }
    }
    for (key, now) in &today {
        let (name, variant, field) = *key;
        let (Some(field), true) = (field, released.contains_key(&(name, variant, None))) else { continue };
        if released.contains_key(key) {
            continue;
        }
        let first = (name, variant, Some(0));
        let last = released.range(first..=(name, variant, Some(u32::MAX))).next_back();
        let what = format!("the new field {field} of {} (`{now}`)", place(*key));
        if last.is_some_and(|((.., last), _)| *last > Some(field)) {
            found.push(format!("{what} is not behind all others"));
        }
        let (_, shape) = now.split_once(": ").expect("a field has a shape");
        if !may_be_absent(shape) {
            found.push(format!("{what} cannot be left out, so older values have none"));
        }
    }
    found
}

#[test]
fn all_stored_types_are_listed() {
    expect_file![folder(NEXT).join("schema.txt")].assert_eq(&types().to_string());
}

#[test]
fn every_released_schema_is_the_beginning_of_todays() {
    let today = types().to_string();
    for release in releases() {
        let released = fs::read_to_string(folder(&release).join("schema.txt")).expect("the schema of a release");
        assert_eq!(breaks(&released, &today), [""; 0], "what {release} has written is read otherwise");
    }
}

/// A made-up released schema.
const RELEASED: &str = "\
Cart
  0 id: u64
  2 note: text?
Event
  0 Opened
    0 by: text?
  1 Closed
Turn: (Cart, [Event])
";

/// Checks what is found when `RELEASED` is changed like this.
#[track_caller]
fn check(from: &str, to: &str, found: &[&str]) {
    assert!(RELEASED.contains(from), "{from}");
    assert_eq!(breaks(RELEASED, &RELEASED.replacen(from, to, 1)), found);
}

#[test]
fn what_may_be_added_is_a_later_field_that_may_be_absent_a_variant_or_a_type() {
    check("    0 by: text?\n", "    0 by: text?\n    1 seats: [Seat]\n", &[]);
    check("  2 note: text?\n", "  2 note: text?\n  3 is_new: bool\n  4 names: {text: text}\n", &[]);
    check("  1 Closed\n", "  1 Closed\n    0 why: text\n  2 Reopened\n    0 at: instant\n", &[]);
    check("Event\n", "Day\n  0 number: u64\nEvent\n", &[]);
}

#[test]
fn a_field_that_is_renumbered_is_found() {
    let gone = "field 0 of Cart (`id: u64`) is gone";
    let between = "the new field 1 of Cart (`id: u64`)";
    check(
        "  0 id",
        "  1 id",
        &[
            gone,
            &format!("{between} is not behind all others"),
            &format!("{between} cannot be left out, so older values have none"),
        ],
    );
}

#[test]
fn a_variant_that_is_used_again_is_found() {
    check("  1 Closed", "  1 Moved", &["Event, variant 1 was `Closed` and is `Moved`"]);
}

#[test]
fn a_field_that_is_removed_is_found() {
    check("  2 note: text?\n", "", &["field 2 of Cart (`note: text?`) is gone"]);
    check("    0 by: text?\n", "", &["field 0 of Event, variant 0 (`by: text?`) is gone"]);
}

#[test]
fn a_type_that_is_changed_or_removed_is_found() {
    check("id: u64", "id: u32", &["field 0 of Cart was `id: u64` and is `id: u32`"]);
    check("(Cart, [Event])", "(Cart, Event)", &["Turn was `(Cart, [Event])` and is `(Cart, Event)`"]);
    check("  1 Closed\n", "", &["Event, variant 1 (`Closed`) is gone"]);
    let gone = ["Event (``) is gone", "Event, variant 0 (`Opened`) is gone"];
    let fields = ["field 0 of Event, variant 0 (`by: text?`) is gone", "Event, variant 1 (`Closed`) is gone"];
    check("Event\n  0 Opened\n    0 by: text?\n  1 Closed\n", "", &[gone[0], gone[1], fields[0], fields[1]]);
}

#[test]
fn a_field_that_older_values_lack_is_found() {
    let words = "the new field 3 of Cart (`at: instant`) cannot be left out, so older values have none";
    check("  2 note: text?\n", "  2 note: text?\n  3 at: instant\n", &[words]);
    let words = "the new field 1 of Cart (`by: text?`) is not behind all others";
    check("  2 note: text?\n", "  1 by: text?\n  2 note: text?\n", &[words]);
}
