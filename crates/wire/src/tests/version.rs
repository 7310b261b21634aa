//! Fields of requests that are newer than 1.0 are in the table for clients.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    Op,
    schema::{self, components},
    version::{PATIENCE_MINOR, PROTOCOL_MINOR, added},
};

/// The fields of requests in protocol 1.0, which never change: `op field`.
const FIRST: &str = include_str!("golden/fields_1_0.txt");

/// The paths of the fields of a schema, such as `lines[].seats`. `{}` is any name.
fn fields(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().expect("a path has an end");
        return fields(&components()[name], at, found);
    }
    for shape in schema["anyOf"].as_array().into_iter().flatten() {
        fields(shape, at, found);
    }
    if schema["items"].is_object() {
        fields(&schema["items"], &format!("{at}[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        fields(&schema["additionalProperties"], &format!("{at}{{}}"), found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        found.insert(path.clone());
        fields(field, &path, found);
    }
}

#[test]
fn every_field_after_the_first_version_is_in_the_table() {
    let mut known = BTreeSet::new();
    for op in Op::ALL.into_iter().filter(|op| op.is_strict()) {
        let mut found = BTreeSet::new();
        fields(&schema::of(op).request, "", &mut found);
        known.extend(found.into_iter().map(|field| format!("{} {field}", op.name())));
    }
    let first: BTreeSet<String> = FIRST.lines().map(str::to_owned).collect();
    let newer: BTreeSet<String> = added().iter().map(|added| format!("{} {}", added.op.name(), added.field)).collect();
    // The fields inside an added field are as new.
    let is_part_of_addition = |field: &String| {
        let inside =
            |added: &String| field.strip_prefix(added.as_str()).is_some_and(|rest| rest.starts_with(['.', '[', '{']));
        newer.contains(field) || newer.iter().any(inside)
    };
    let new: Vec<&String> = known.difference(&first).filter(|field| !is_part_of_addition(field)).collect();
    assert!(
        new.is_empty(),
        "raise PROTOCOL_MINOR and add to version::added, or clients send them to old nodes: {new:#?}"
    );
    let gone: Vec<&String> = first.union(&newer).filter(|field| !known.contains(*field)).collect();
    assert!(gone.is_empty(), "fields of requests must not be removed: {gone:#?}");
    let both: Vec<&String> = first.intersection(&newer).collect();
    assert!(both.is_empty(), "these are fields of 1.0, but said to be newer: {both:#?}");
}

#[test]
fn the_newest_field_is_as_new_as_the_protocol() {
    let newest = added().iter().map(|added| added.minor).chain([PATIENCE_MINOR]).max();
    assert_eq!(newest, Some(PROTOCOL_MINOR));
    assert!(added().iter().all(|added| (1..=PROTOCOL_MINOR).contains(&added.minor) && added.op.is_strict()));
}
