//! What the ops and their rejections say today, as files. A change of a row is a change that clients, operators or the edge
//! notice.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire --lib` writes the files. Rows of inputs that no test has any more stay in
//! `messages.txt` until the file is removed and written anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
    sync::{LazyLock, Mutex},
};

use boxoffice_core::id::RequestHash;
use expect_test::expect_file;
use serde_json::{Value, json};

use super::common::optional;
use crate::{
    Encoding, Head, Op, Request,
    request::FirstCommand,
    schema::{self, components},
    version::added,
};

/// The messages of the inputs of other tests.
static MESSAGES: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(|| {
    let text = std::fs::read_to_string(messages_path()).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.split_once(" => "));
    Mutex::new(rows.map(|(input, message)| (input.to_owned(), message.to_owned())).collect())
});

fn messages_path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/tests/frozen_ops/messages.txt"].iter().collect()
}

/// Checks that this input is refused with the frozen message. Adds the row if `UPDATE_EXPECT` is set.
///
/// # Panics
/// Another message is frozen, or none.
#[track_caller]
pub(super) fn message(input: &str, code: u16, message: &str) {
    let key = shown(input);
    let row = format!("{code} {}", line(message));
    let mut messages = MESSAGES.lock().expect("no test panics while it writes");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        messages.insert(key, row);
        let text = messages.iter().map(|(input, row)| format!("{input} => {row}\n")).collect::<String>();
        std::fs::write(messages_path(), text).expect("the file can be written");
        return;
    }
    let frozen = messages.get(&key).cloned();
    drop(messages);
    assert_eq!(frozen.as_deref(), Some(row.as_str()), "the message of {key}");
}

/// A text in one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An input in one line. A long one is cut, and its hash tells it from others.
fn shown(input: &str) -> String {
    const SHOWN_CHARS: usize = 240;
    let input = line(input);
    match input.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}… {} bytes {:016x}", &input[..end], input.len(), RequestHash::of(&input).0),
        None => input,
    }
}

/// The head of a request with these fields besides the op's name.
fn first_command(op: Op, body: &Value) -> Option<FirstCommand> {
    let frame = json!({"id": 1, "op": op.name(), "rid": "r", "body": body}).to_string();
    Head::read(Encoding::Json, frame.as_bytes()).expect("a head").first_command()
}

/// Whether the document has this header of an op.
fn has_header(op: Op, header: &str) -> bool {
    let document: Value = serde_json::from_str(schema::document()).expect("JSON");
    let parameters = &document["paths"][format!("/v1/{}", op.name())]["post"]["parameters"];
    parameters.as_array().into_iter().flatten().any(|parameter| parameter["name"] == header)
}

fn names<T: std::fmt::Debug>(values: &[T]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join("+")
}

#[test]
fn the_facts_of_every_op_are_frozen() {
    let mut text = String::new();
    for op in Op::ALL {
        let (row, schema) = (op.permission(), schema::of(op));
        let first = match first_command(op, schema.examples.first().expect("an example")) {
            None => "never",
            Some(FirstCommand::Read) => "read",
            Some(FirstCommand::OpenCart { .. }) => "opens a cart",
        };
        let fields =
            added().iter().filter(|added| added.op == op).map(|added| format!("{}@{}", added.field, added.minor));
        let facts = [
            ("changes", op.changes().to_string()),
            ("strict", op.is_strict().to_string()),
            ("roles", names(row.roles)),
            ("or", names(row.or)),
            ("owner", format!("{:?}", row.owner)),
            ("venues", format!("{:?}", row.venues)),
            ("batch", format!("{:?}", row.batch)),
            ("weight", op.weight().to_string()),
            ("shed at the head", first.to_owned()),
            ("begins a cart", op.begins_cart().to_string()),
            ("importers", op.is_for_importers().to_string()),
            ("customer headers", has_header(op, "Boxoffice-Customer").to_string()),
            ("patience header", has_header(op, "Boxoffice-Patience-Ms").to_string()),
            ("methods", format!("{:?}", schema.methods)),
            ("examples need", schema.examples_need.unwrap_or_default().to_owned()),
            ("body", schema.request_name.to_owned()),
            ("answer", schema.answer.to_string()),
            ("newer fields", fields.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")),
            ("summary", schema.summary.to_owned()),
        ];
        writeln!(text, "{}", op.name()).expect("text");
        for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
            writeln!(text, "    {name}: {fact}").expect("text");
        }
    }
    expect_file!["frozen_ops/ops.txt"].assert_eq(&text);
}

/// The schema that a reference leads to.
fn resolved(schema: &Value) -> &Value {
    optional::resolved(components(), schema)
}

/// Values that a field of this schema should refuse, or that lie beside its bounds, each with its name.
fn odd_values(schema: &Value) -> Vec<(String, Value)> {
    let schema = resolved(schema);
    let mut odd: Vec<(String, Value)> = vec![("null".into(), Value::Null)];
    let mut add = |name: &str, value: Value| odd.push((name.to_owned(), value));
    match schema["type"].as_str() {
        Some("string") => {
            add("7", json!(7));
            add("empty", json!(""));
            add("a b", json!("a b"));
            add("a control character", json!("a\tb"));
            if let Some(most) = schema["maxLength"].as_u64() {
                add("the longest", json!("x".repeat(most as usize)));
                add("too long", json!("x".repeat(most as usize + 1)));
            }
        }
        Some("integer" | "number") => {
            add("a text", json!("x"));
            add("1.5", json!(1.5));
            add("-1", json!(-1));
            if let Some(least) = schema["minimum"].as_i64().filter(|least| *least > 0) {
                add("too small", json!(least - 1));
            }
            if let Some(most) = schema["maximum"].as_u64() {
                add("the largest", json!(most));
                add("too large", json!(most.saturating_add(1)));
            }
        }
        Some("boolean") => add("7", json!(7)),
        Some("array") => {
            add("7", json!(7));
            add("empty", json!([]));
        }
        Some(_) | None => {
            add("7", json!(7));
            add("a list", json!([]));
        }
    }
    odd
}

/// Bodies that differ from a valid one in one place, by what is different.
fn mutants(schema: &Value, body: &Value) -> Vec<(String, Value)> {
    /// `rebuild` puts another value in the place of `value`.
    fn walk(
        place: &str,
        schema: &Value,
        value: &Value,
        rebuild: &dyn Fn(Value) -> Value,
        out: &mut Vec<(String, Value)>,
    ) {
        let schema = resolved(schema);
        match value {
            Value::Object(map) if schema["properties"].is_object() => {
                let with = |name: &str, field: Option<Value>| rebuild(optional::with_field(map, name, field));
                out.push((format!("{place} + unknown"), with("a_stray", Some(json!(1)))));
                for (name, field) in schema["properties"].as_object().expect("fields") {
                    let place = format!("{place}.{name}");
                    if map.contains_key(name) {
                        out.push((format!("{place} absent"), with(name, None)));
                    }
                    for (odd, value) in odd_values(field) {
                        out.push((format!("{place} = {odd}"), with(name, Some(value))));
                    }
                    let is_optional = !schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                    if let Some(default) = optional::default_of(components(), name, field).filter(|_| is_optional) {
                        out.push((format!("{place}{DEFAULT}"), with(name, Some(default))));
                    }
                    if let Some(inner) = map.get(name) {
                        walk(&place, field, inner, &|value| with(name, Some(value)), out);
                    }
                }
            }
            Value::Object(map) if schema["additionalProperties"].is_object() => {
                let Some((name, inner)) = map.iter().next() else { return };
                let with = |name: &str, value| rebuild(json!({name: value}));
                for (odd, value) in odd_values(&schema["propertyNames"]) {
                    if let Some(odd_name) = value.as_str() {
                        out.push((format!("{place} named {odd}"), with(odd_name, inner.clone())));
                    }
                }
                let field = &schema["additionalProperties"];
                for (odd, value) in odd_values(field) {
                    out.push((format!("{place}.* = {odd}"), with(name, value)));
                }
                walk(&format!("{place}.*"), field, inner, &|value| with(name, value), out);
            }
            Value::Array(list) if schema["items"].is_object() => {
                let Some(first) = list.first() else { return };
                let with = |value: Value| {
                    let mut other = list.clone();
                    other[0] = value;
                    rebuild(Value::Array(other))
                };
                out.push((format!("{place} twice the first"), rebuild(json!([first, first]))));
                if let Some(most) = schema["maxItems"].as_u64().filter(|most| *most <= 2_000) {
                    out.push((format!("{place} too many"), rebuild(json!(vec![first; most as usize + 1]))));
                }
                for (odd, value) in odd_values(&schema["items"]) {
                    out.push((format!("{place}[] = {odd}"), with(value)));
                }
                walk(&format!("{place}[]"), &schema["items"], first, &with, out);
            }
            Value::Object(_) | Value::Array(_) => {}
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut out = vec![("body = a list".to_owned(), json!([]))];
    walk("body", schema, body, &|value| value, &mut out);
    out
}

#[test]
fn the_rejections_of_every_op_are_frozen() {
    let mut text = String::new();
    for op in Op::ALL {
        let schema = schema::of(op);
        let rid = op.changes().then_some("r");
        let mut seen = BTreeSet::new();
        for body in &schema.examples {
            for (name, body) in mutants(&schema.request, body) {
                if name.ends_with(DEFAULT) || !seen.insert(name.clone()) {
                    continue;
                }
                let read = Request::from_parts(Encoding::Json, 1, op, rid, None, Some(body.to_string().as_bytes()));
                let ended = match read {
                    Ok(_) => "ok".to_owned(),
                    Err(why) => format!("{} {}", why.code(), line(&why.to_string())),
                };
                writeln!(text, "{} {name} => {ended}", op.name()).expect("text");
            }
        }
    }
    expect_file!["frozen_ops/rejections.txt"].assert_eq(&text);
}

/// The verdict on a body, without the number of the request.
fn read(op: Op, body: &Value) -> Result<Request, String> {
    let rid = op.changes().then_some("r");
    let read = Request::from_parts(Encoding::Json, 1, op, rid, None, Some(body.to_string().as_bytes()));
    read.map_err(|why| format!("{} {why}", why.code()))
}

/// The end of the name of a body in which a field has its default.
const DEFAULT: &str = " = its default";

/// A field that is absent, `null` or has its default is one request, also for a repeat under the same request id.
#[test]
fn the_default_of_a_field_is_as_if_it_were_absent() {
    let mut compared = BTreeSet::new();
    // What a change leaves out stays as it is, which is not the default.
    for op in Op::ALL.into_iter().filter(|op| *op != Op::SessionChange) {
        for example in &schema::of(op).examples {
            let bodies: BTreeMap<String, Value> = mutants(&schema::of(op).request, example).into_iter().collect();
            for (name, body) in &bodies {
                let Some(place) = name.strip_suffix(DEFAULT) else { continue };
                let absent = bodies.get(&format!("{place} absent")).unwrap_or(example);
                let null = &bodies[&format!("{place} = null")];
                let read_absent = read(op, absent);
                assert_eq!(read(op, null), read_absent, "{} {place} = null", op.name());
                assert_eq!(read(op, body), read_absent, "{} {place} with its default: {body}", op.name());
                compared.insert(format!("{} {place}", op.name()));
            }
        }
    }
    assert!(compared.len() > 35, "only {} fields have a default: {compared:?}", compared.len());
}

#[test]
fn null_is_absent_in_every_field() {
    let mut compared = 0;
    for op in Op::ALL {
        for example in &schema::of(op).examples {
            let bodies: BTreeMap<String, Value> = mutants(&schema::of(op).request, example).into_iter().collect();
            for (name, body) in &bodies {
                let Some(place) = name.strip_suffix(" = null") else { continue };
                // Names of data and elements of lists are no fields.
                if place.ends_with(['*', ']']) {
                    continue;
                }
                let absent = bodies.get(&format!("{place} absent")).unwrap_or(example);
                assert_eq!(read(op, body), read(op, absent), "{} {name}", op.name());
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "only {compared} fields are compared");
}
