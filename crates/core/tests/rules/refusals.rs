//! Numbers and the stored form of refusals, which stay as they are wherever a row stands in the table.

use std::{collections::BTreeMap, fmt::Write, fs};

use boxoffice_core::{
    refusal::{LineRefusal, Refusal, rows},
    stored,
};
use expect_test::expect_file;

/// Every number that was ever used, with its name, ascending. A number whose row has gone stays in the list.
const NUMBERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/refusals/numbers.txt");

/// `UPDATE_EXPECT=1` adds new numbers. It changes and removes none.
#[test]
fn no_number_or_name_is_used_twice() {
    let mut used: BTreeMap<u16, String> = BTreeMap::new();
    for line in fs::read_to_string(NUMBERS).expect("the list is there").lines() {
        let (code, name) = line.split_once(' ').expect("a number and a name");
        let is_new = used.insert(code.parse().expect("a number"), name.to_string()).is_none();
        assert!(is_new, "{code} is twice in the list");
    }
    let mut codes = BTreeMap::new();
    for row in rows() {
        let twice = codes.insert(row.code, row.name);
        assert_eq!(twice, None, "the number {} has two rows", row.code);
        match used.get(&row.code) {
            Some(name) => assert_eq!(name, row.name, "{} was used before with another name", row.code),
            None => {
                let asked = std::env::var_os("UPDATE_EXPECT").is_some();
                assert!(asked, "{} {} is not in the list of all numbers; UPDATE_EXPECT=1 adds it", row.code, row.name);
                used.insert(row.code, row.name.to_string());
            }
        }
    }
    let mut names: Vec<&String> = used.values().collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name has two numbers: {names:?}");
    let list: String = used.iter().map(|(code, name)| format!("{code} {name}\n")).collect();
    if fs::read_to_string(NUMBERS).expect("the list is there") != list {
        fs::write(NUMBERS, list).expect("the list can be written");
    }
}

/// Every refusal with its bytes, by code and then by bytes, so that the file is the same wherever a row stands.
#[test]
fn the_stored_form_does_not_depend_on_the_place_of_a_row() {
    let mut all = Refusal::samples();
    all.push(Refusal::Lines(vec![LineRefusal { line: 3, refusal: Refusal::CartExpired }]));
    all.push(Refusal::Internal);
    let mut lines: Vec<String> = Vec::new();
    for refusal in &all {
        let bytes = stored::append(refusal, Vec::new());
        assert_eq!(stored::read(&bytes).as_ref(), Ok(refusal));
        let mut line = format!("{} {}: ", refusal.code(), refusal.name());
        bytes.iter().for_each(|byte| write!(line, "{byte:02x}").expect("text takes text"));
        lines.push(line);
    }
    lines.sort();
    lines.push(String::new());
    expect_file!["refusals/stored.txt"].assert_eq(&lines.join("\n"));
}
