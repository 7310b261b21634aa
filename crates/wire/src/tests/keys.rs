//! Keys of requests: equal for a repeat, different for another body, and the same in every release.

use std::fmt::Write;

use boxoffice_core::{
    id::{RequestHash, hash64},
    stored,
};
use expect_test::expect_file;
use serde_json::Value;

use super::common::{other_requests, requests};
use crate::{Call, Encoding, Request};

/// The key and the command of a request that changes something.
fn read(frame: &[u8]) -> Option<(boxoffice_core::id::Request, boxoffice_core::command::Command)> {
    let request = Request::read(Encoding::Json, frame).ok()?;
    match (request.key, request.call) {
        (Some(key), Call::Command(command)) => Some((key, command)),
        _ => None,
    }
}

/// Sessions of the samples, with their names at the time of the golden keys.
const RENAMED: [(&str, &str); 3] =
    [("hamlet-tonight", "hamlet-0412"), ("hamlet-matinee", "hamlet-0413"), ("hamlet-late", "hamlet-0414")];

/// The keys are in logs, snapshots and the store. **They must never change**, because a client may repeat a request after an
/// upgrade, and nodes of two releases run together during an upgrade.
#[test]
fn keys_never_change() {
    let mut text = String::new();
    for sample in requests().into_iter().chain(other_requests()) {
        let frame = RENAMED.iter().fold(sample.json, |frame, (name, before)| frame.replace(name, before));
        let Some((key, command)) = read(frame.as_bytes()) else { continue };
        assert_eq!(key.id, RequestHash::of("c1-000042"), "{}", sample.name);
        assert_eq!(key.body, hash64(&stored::append(&command, Vec::new())), "{}", sample.name);
        writeln!(text, "{} {:016x} {:016x}", sample.name, key.id.0, key.body).expect("text takes text");
    }
    expect_file!["golden/keys.txt"].assert_eq(&text);
}

/// Calls `each` for every value inside `value`, changed to another one and back.
fn changed(root: &mut Value, path: &str, each: &mut impl FnMut(&Value)) {
    let value = root.pointer(path).expect("the pointer exists").clone();
    let others = match &value {
        Value::Null => vec![],
        Value::Bool(value) => vec![(!value).into()],
        Value::Number(_) => vec![
            value.as_i64().map_or(Value::Null, |number| (number + 1).into()),
            value.as_i64().map_or(Value::Null, |number| (number - 1).into()),
            1.into(),
        ],
        Value::String(text) => vec![
            format!("{text}1").into(),
            text.replacen(['1', '2', '0'], "3", 1).into(),
            text.to_uppercase().into(),
            text.get(1..).unwrap_or_default().into(),
        ],
        Value::Array(list) => {
            (0..list.len()).for_each(|index| changed(root, &format!("{path}/{index}"), each));
            vec![list.iter().skip(1).cloned().collect(), list.iter().rev().cloned().collect()]
        }
        Value::Object(map) => {
            map.keys().for_each(|name| changed(root, &format!("{path}/{name}"), each));
            let without = |name: &String| {
                let mut rest = map.clone();
                rest.remove(name);
                Value::Object(rest)
            };
            map.keys().map(without).collect()
        }
    };
    for other in others {
        *root.pointer_mut(path).expect("it is there") = other;
        each(root);
    }
    *root.pointer_mut(path).expect("it is there") = value;
}

#[test]
fn any_difference_in_the_body_changes_the_key() {
    let (mut different, mut equal) = (0, 0);
    for sample in requests().into_iter().chain(other_requests()) {
        let Some((key, command)) = read(sample.json.as_bytes()) else { continue };
        let mut frame: Value = serde_json::from_str(&sample.json).expect("a frame is JSON");
        let mut other_commands = 0;
        changed(&mut frame, "/body", &mut |frame| {
            let Some((other_key, other)) = read(frame.to_string().as_bytes()) else { return };
            assert_eq!(other_key.body == key.body, other == command, "{}: {frame}", sample.name);
            let counted = if other == command { &mut equal } else { &mut other_commands };
            *counted += 1;
        });
        // A body without fields has no other form.
        let has_fields = frame["body"].as_object().is_some_and(|body| !body.is_empty());
        assert!(other_commands > 0 || !has_fields, "no changed body of {} could be read", sample.name);
        different += other_commands;
    }
    assert!(different > 300 && equal > 0, "{different} other bodies and {equal} equal ones");
}
