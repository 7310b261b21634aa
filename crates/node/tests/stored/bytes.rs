//! Golden bytes: values of all stored types with what they say. Each must be read as the same and written as the same bytes by
//! every later program.

use std::{fmt::Write, fs};

use boxoffice_core::{command::Command, stored};
use expect_test::expect_file;

use crate::{
    released::{NEXT, folder, hex, releases, unhex},
    text, types, values,
};

const FILE: &str = "bytes.txt";

/// The most bytes of the file. It has one line for each value, and `values` bounds how deep and long they are.
const FILE_BYTES_MAX: usize = 1_000_000;

/// A type whose values refer to each other, so they are not made of the schema. `folds` has some.
const CUT: &str = "Cut";

/// The line of a value: its type, its bytes, the hash of a command, and what it says.
fn line(schema: &stored::Schema, name: &str, bytes: &[u8]) -> Result<String, String> {
    let again = schema.again(name).ok_or_else(|| format!("{name} is gone"))?;
    let at = format!("{name} {}", hex(bytes));
    let (said, written) = again(bytes).map_err(|why| format!("{at} is not read any more: {why}"))?;
    if written != bytes {
        return Err(format!("{at} is written as {}", hex(&written)));
    }
    let said = text::present(&said);
    match name {
        "Command" => {
            let hash = stored::read::<Command>(bytes)?.hash64();
            Ok(format!("{at} {hash:016x} {said}"))
        }
        _ => Ok(format!("{at} {said}")),
    }
}

/// What of a file with golden bytes is not so any more.
fn breaks(schema: &stored::Schema, lines: &str) -> Vec<String> {
    let mut found = Vec::new();
    for released in lines.lines() {
        let (name, rest) = released.split_once(' ').expect("a type and bytes");
        let (bytes, _) = rest.split_once(' ').expect("bytes and what they say");
        match line(schema, name, &unhex(bytes)) {
            Ok(today) if today == released => {}
            Ok(today) => found.push(format!("{released}\n    says now {today}")),
            Err(why) => found.push(why),
        }
    }
    found
}

#[test]
fn golden_bytes_are_of_all_types() {
    let schema = types();
    let (mut lines, mut refused) = (String::new(), Vec::new());
    for (name, _) in schema.types().filter(|(name, _)| *name != CUT) {
        for value in values::of(&schema, name) {
            match line(&schema, name, &value) {
                Ok(line) => writeln!(lines, "{line}").expect("text takes it"),
                Err(why) => refused.push(why),
            }
        }
    }
    assert!(refused.is_empty(), "{} values are not read as they are made:\n{}", refused.len(), refused.join("\n"));
    assert!(lines.len() < FILE_BYTES_MAX, "{} bytes", lines.len());
    expect_file![folder(NEXT).join(FILE)].assert_eq(&lines);
    check(NEXT);
}

/// Checks the golden bytes of a release.
fn check(release: &str) {
    let lines = fs::read_to_string(folder(release).join(FILE)).expect("the bytes of a release");
    let found = breaks(&types(), &lines);
    assert!(found.is_empty(), "{release}:\n{}", found.join("\n"));
}

#[test]
fn golden_bytes_are_read_and_written_as_in_every_release() {
    releases().iter().for_each(|release| check(release));
}

#[test]
fn a_value_that_is_read_otherwise_is_found() {
    let found = |line: &str| breaks(&types(), line).pop().unwrap_or_default();
    assert_eq!(found("SeatState 01 Held"), "");
    assert_eq!(found("SeatState 02 Held"), "SeatState 02 Held\n    says now SeatState 02 Sold");
    let unread = "SeatState 09 is not read any more: decode error: variant 9 is unknown to this program";
    assert_eq!(found("SeatState 09 Lost"), unread);
    assert_eq!(
        found("At 8306180700 At"),
        "At 8306180700 is not read any more: decode error: a number or a length is longer than it has to be"
    );
    assert_eq!(found("Seat 01 Held"), "Seat is gone");
    let get = "Command 830162733100 ";
    assert!(found(&format!("{get}0123456789abcdef Session")).contains("says now Command 830162733100"));
}
