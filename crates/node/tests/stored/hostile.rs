//! Bytes that no program writes: other forms of a value, cut values, and values in values without an end. A reader refuses them with
//! the reason, and needs no memory and no stack for what they claim.

use std::fs;

use crate::{
    released::{NEXT, folder, unhex},
    types,
};

/// More than any stack has room for.
const DEEP: usize = 1_000_000;

/// The values of `bytes.txt`, each with the name of its type.
fn golden() -> Vec<(String, Vec<u8>)> {
    let lines = fs::read_to_string(folder(NEXT).join("bytes.txt")).expect("the bytes of this program");
    let value = |line: &str| {
        let (name, rest) = line.split_once(' ').expect("a type");
        (name.to_owned(), unhex(rest.split_once(' ').expect("bytes").0))
    };
    lines.lines().map(value).collect()
}

/// Other forms of the same value: a list without a length, and lengths and numbers in more bytes than they need.
fn other_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let Some((&head, rest)) = value.split_first() else { return Vec::new() };
    let (kind, short) = (head & 0xe0, head & 0x1f);
    if short >= 24 {
        return Vec::new();
    }
    let mut forms = vec![[&[kind | 24, short], rest].concat(), [&[kind | 25, 0, short], rest].concat()];
    if [0x40, 0x60, 0x80, 0xa0].contains(&kind) {
        forms.push([&[kind | 31], rest, &[0xff]].concat());
        forms.push([&[kind | 27, 0, 0, 0, 0, 0, 0, 0, short], rest].concat());
    }
    forms
}

#[test]
fn a_value_has_one_form() {
    let schema = types();
    let mut tried = 0;
    for (name, value) in golden() {
        let again = schema.again(&name).expect("a type of this program");
        for form in other_forms(&value) {
            tried += 1;
            let read = again(&form);
            assert!(read.is_err(), "{name}: {form:02x?} is read as {value:02x?} is: {read:?}");
        }
    }
    assert!(tried > 3_000, "{tried} forms");
}

#[test]
fn a_value_that_is_cut_or_goes_on_is_refused() {
    let schema = types();
    for (name, value) in golden() {
        let again = schema.again(&name).expect("a type of this program");
        for end in 0..value.len().min(200) {
            assert!(again(&value[..end]).is_err(), "{name}: {end} bytes of {value:02x?} are read");
        }
        assert!(again(&[&value[..], &[0]].concat()).is_err(), "{name}: {value:02x?} is read with a byte behind it");
    }
}

#[test]
fn values_in_values_without_an_end_are_refused() {
    let schema = types();
    // A list, a list of two, a map and a tag of one.
    for head in [&[0x81][..], &[0x82, 0x00], &[0x82, 0x01], &[0xa1, 0x00], &[0xc1]] {
        let deep = head.repeat(DEEP / head.len());
        for (name, _) in schema.types() {
            assert!(schema.again(name).expect("a type")(&deep).is_err(), "{name}: {head:02x?}");
        }
    }
}

#[test]
fn a_length_that_is_claimed_reserves_nothing() {
    let schema = types();
    for kind in [0x40, 0x60, 0x80, 0xa0] {
        let claims = [&[kind | 27], &(u64::MAX / 2).to_be_bytes()[..], &[0; 40]].concat();
        for (name, _) in schema.types() {
            for bytes in [claims.clone(), [&[0x82, 0x00], &claims[..]].concat(), [&[0x81], &claims[..]].concat()] {
                assert!(schema.again(name).expect("a type")(&bytes).is_err(), "{name}: {bytes:02x?}");
            }
        }
    }
}
