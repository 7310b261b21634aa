//! Writes refuse unknown fields, at every depth, in both encodings. Reads ignore them.
//!
//! The bodies are generated from the schemas, so new ops and fields are tested without a change here.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::common::{other_requests, requests};
use crate::{
    Call, Encoding, Op, Rejection, Request,
    schema::{self, components},
};

/// Marks the maps that have named fields. Other maps have the names of data (prices, properties, days).
const CLOSED: &str = "\u{0}closed";

/// A field that no op has, before all others.
const STRAY: &str = "a_stray";

/// Bodies that the schema allows, with every field and every alternative of each. Leaves out values that JSON cannot express in
/// the encoding.
fn instances(schema: &Value, encoding: Encoding) -> Vec<Value> {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().expect("a path has an end");
        return match (name, encoding) {
            ("Time", Encoding::MsgPack) => vec![json!(4_079_703_600_000u64)],
            ("Id", _) => vec![json!("hamlet")],
            ("Day", _) => vec![json!("2026-12-24")],
            ("WallTime", _) => vec![json!("2026-03-29T10:00")],
            ("Currency", _) => vec![json!("EUR")],
            ("Token" | "CartId" | "OrderId", _) => vec![json!("0f1e2d3c4b5a69788796a5b4c3d2e1f0")],
            ("Address", _) => vec![json!("10.0.0.1:7180")],
            ("Entity", _) => vec![json!("session/hamlet")],
            _ => instances(&components()[name], encoding),
        };
    }
    if let Some(shapes) = schema["anyOf"].as_array() {
        return shapes.iter().flat_map(|shape| instances(shape, encoding)).collect();
    }
    if let Some(words) = schema["enum"].as_array() {
        return vec![words[0].clone()];
    }
    match schema["type"].as_str().unwrap_or_else(|| panic!("no kind of value: {schema}")) {
        "null" => vec![Value::Null],
        "boolean" => vec![json!(true)],
        "number" => vec![json!(0.5)],
        "integer" => vec![schema["minimum"].as_i64().map_or(json!(1), |least| json!(least.max(1)))],
        "string" if schema["contentEncoding"] == "base64" && encoding == Encoding::MsgPack => Vec::new(),
        "string" if schema["contentEncoding"] == "base64" => vec![json!("AAH+/w==")],
        "string" if schema["format"] == "date-time" => vec![json!("2099-04-12T19:00:00Z")],
        "string" if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("{32}")) => {
            vec![json!("0f1e2d3c4b5a69788796a5b4c3d2e1f0")]
        }
        // A locale.
        "string" if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with("^[A-Za-z]{2,8}")) => {
            vec![json!("da")]
        }
        "string" => vec![json!("x")],
        "array" => {
            let times = schema["minItems"].as_u64().unwrap_or(1).max(1) as usize;
            instances(&schema["items"], encoding).into_iter().map(|item| json!(vec![item; times])).collect()
        }
        "object" if schema["additionalProperties"].is_object() => {
            let name = instances(&schema["propertyNames"], encoding).remove(0);
            let name = name.as_str().expect("names are text");
            instances(&schema["additionalProperties"], encoding).into_iter().map(|value| json!({name: value})).collect()
        }
        "object" => {
            let fields = schema["properties"].as_object().expect("a map has fields");
            let fields: Vec<(&String, Vec<Value>)> =
                fields.iter().map(|(name, field)| (name, instances(field, encoding))).collect();
            let mut first = Map::from_iter([(CLOSED.to_owned(), Value::Null)]);
            first.extend(fields.iter().filter_map(|(name, values)| Some(((*name).clone(), values.first()?.clone()))));
            let mut all = vec![Value::Object(first.clone())];
            for (name, values) in &fields {
                for value in values.iter().skip(1) {
                    let mut other = first.clone();
                    other.insert((*name).clone(), value.clone());
                    all.push(Value::Object(other));
                }
            }
            all
        }
        other => panic!("no kind of value: {other}"),
    }
}

/// The JSON pointers of the maps with named fields, and the value without their marks.
fn opened(mut value: Value) -> (Vec<String>, Value) {
    fn walk(value: &mut Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if map.remove(CLOSED).is_some() {
                    found.push(at.to_owned());
                }
                map.iter_mut().for_each(|(name, value)| walk(value, &format!("{at}/{name}"), found));
            }
            Value::Array(list) => {
                list.iter_mut().enumerate().for_each(|(index, value)| walk(value, &format!("{at}/{index}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(&mut value, "", &mut found);
    (found, value)
}

/// The name of a pointer's target in a refusal.
fn shown(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).map(|part| match part.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{part}"),
    });
    parts.collect::<String>().trim_start_matches('.').to_owned()
}

/// The value with one more field in the map at this pointer.
fn with(value: &Value, pointer: &str, name: &str, field: Value) -> Value {
    let mut value = value.clone();
    let map = value.pointer_mut(pointer).expect("the map is there").as_object_mut().expect("it is a map");
    map.insert(name.to_owned(), field);
    value
}

fn written(encoding: Encoding, value: &Value) -> Vec<u8> {
    match encoding {
        Encoding::Json => value.to_string().into_bytes(),
        Encoding::MsgPack => rmp_serde::to_vec_named(value).expect("it can be written"),
    }
}

fn read(encoding: Encoding, op: Op, body: &Value) -> Result<Request, Rejection> {
    let rid = op.changes().then_some("c1-000042");
    Request::from_parts(encoding, 7, op, rid, None, Some(&written(encoding, body)))
}

/// The refusal of the only item of a batch.
fn item(encoding: Encoding, op: Op, body: &Value) -> Option<Rejection> {
    let batch = json!({"items": [{"op": op.name(), "rid": "r", "body": body}]});
    match read(encoding, Op::Batch, &batch).expect("a batch").call {
        Call::Batch(mut items) => items.remove(0).err(),
        call => panic!("{call:?} is not a batch"),
    }
}

fn strict_ops() -> impl Iterator<Item = Op> {
    Op::ALL.into_iter().filter(|op| op.is_strict() && *op != Op::Batch)
}

#[test]
fn changes_refuse_unknown_fields_at_every_depth() {
    let mut tried = 0;
    for op in strict_ops() {
        for encoding in Encoding::ALL {
            for instance in instances(&schema::of(op).request, encoding) {
                let (maps, body) = opened(instance);
                assert!(maps.contains(&String::new()), "the body of {} is a map", op.name());
                let error = read(encoding, op, &body).err().map(|why| why.to_string()).unwrap_or_default();
                assert!(!error.contains("unknown field"), "{} does not know its own schema: {error}", op.name());
                for map in maps {
                    let name = shown(&format!("{map}/{STRAY}"));
                    let stray = with(&body, &map, STRAY, json!({"deep": [1]}));
                    let refusals = [read(encoding, op, &stray).err(), item(encoding, op, &stray)];
                    for refused in refusals {
                        let refused = refused.unwrap_or_else(|| panic!("{} takes `{name}` of {stray}", op.name()));
                        let words = refused.to_string();
                        assert_eq!(refused.code(), 101, "{}: {words}", op.name());
                        assert!(words.contains(&format!("unknown field `{name}`")), "{}: {name}: {words}", op.name());
                    }
                    // `null` is the same as absent.
                    let nothing = with(&body, &map, STRAY, Value::Null);
                    let error = read(encoding, op, &nothing).err().map(|why| why.to_string()).unwrap_or_default();
                    assert!(!error.contains("unknown field"), "{}: {name}: {error}", op.name());
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "only {tried} maps were tried");
}

#[test]
fn envelopes_and_batches_are_as_strict() {
    let body = json!({"id": "hamlet", "reason": "the roof leaks"});
    let cancel = json!({"id": 7, "op": "session.cancel", "rid": "r", "body": body});
    let in_batch = |item: &Value, more: &str| {
        let mut batch = json!({"id": 7, "op": "batch", "body": {"items": [item]}});
        if !more.is_empty() {
            batch["body"][more] = json!(true);
        }
        batch
    };
    for encoding in Encoding::ALL {
        let read = |frame: &Value| Request::read(encoding, &written(encoding, frame));
        let refused = |frame: Value| {
            let refused = read(&frame).expect_err("a field too many");
            assert_eq!((refused.id, refused.why.code()), (Some(7), 101));
            refused.why.to_string()
        };
        read(&cancel).expect("a valid request");
        let words = refused(with(&cancel, "", "deadline", json!(50)));
        assert!(words.contains("unknown field `deadline` (did you mean `deadline_ms`?)"), "{words}");
        let words = refused(with(&cancel, "", "patience", json!(50)));
        assert!(words.contains("unknown field `patience` (did you mean `patience_ms`?)"), "{words}");
        let words = refused(with(&cancel, "", "patience_ms", json!("long")));
        assert!(words.contains("`patience_ms` is one whole number"), "{words}");
        let words = refused(in_batch(&cancel, "atomic"));
        assert!(words.contains("unknown field `atomic`"), "{words}");
        let item = |item: &Value| match read(&in_batch(item, "")).expect("a batch").call {
            Call::Batch(mut items) => items.remove(0),
            call => panic!("{call:?} is not a batch"),
        };
        let misspelt = item(&with(&cancel, "", "boddy", json!({}))).expect_err("a field too many");
        assert!(misspelt.to_string().contains("unknown field `boddy` (did you mean `body`?)"), "{misspelt}");
        // Reads are lenient, in a batch as well.
        let get = json!({"op": "session.get", "trace": 1, "body": {"id": "hamlet", "colour": {"deep": [null]}}});
        item(&get).expect("a read");
    }
}

#[test]
fn reads_ignore_unknown_fields() {
    for op in Op::ALL.into_iter().filter(|op| !op.is_strict()) {
        for example in &schema::of(op).examples {
            let (plain, more) = (read(Encoding::Json, op, example), with(example, "", STRAY, json!([{"x": 1}])));
            assert_eq!(read(Encoding::Json, op, &more).expect("a valid request"), plain.expect("a good example"));
        }
    }
}

#[test]
fn refusals_suggest_the_right_name_and_count_the_rest() {
    let check = |op, body: Value, expected: &str| {
        let words = read(Encoding::Json, op, &body).expect_err("a field too many").to_string();
        assert!(words.contains(expected), "{words}");
    };
    let order = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let refund = json!({"order": order, "reason": "rain", "line": [1]});
    check(Op::OrderRefund, refund, "unknown field `line` (did you mean `lines`?)");
    // The missing field was misspelt, so the refusal names both.
    let seat = json!({"token": order, "session": "hamlet", "Seat": [[1, 5]]});
    check(Op::CartHoldSeats, seat.clone(), "unknown field `Seat` (did you mean `seats`?); missing field `seats`");
    let line = json!({"token": order, "lines": [{"product": "programme", "quantity": 1, "qty": 2}]});
    check(Op::CartHoldAll, line, "unknown field `lines[0].qty`;".trim_end_matches(';'));
    let mut many = json!({"id": "hamlet", "reason": "rain"});
    for number in 0..7 {
        many[format!("field_number_{number}")] = json!(number);
    }
    check(Op::SessionCancel, many, "`field_number_4` and 2 more");
    let long = json!({"id": "hamlet", "reason": "rain", "x".repeat(60_000): 1});
    let words = read(Encoding::Json, Op::SessionCancel, &long).expect_err("a field too many").to_string();
    assert!(words.len() < 200, "{words}");
}

#[test]
fn fields_have_names_and_not_positions() {
    // Serde would read these as the fields in their order.
    let listed = json!({"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "payment": {"recorded": ["card", "4711"]}});
    for encoding in Encoding::ALL {
        let words = read(encoding, Op::CartCheckout, &listed).expect_err("a list").to_string();
        assert!(words.contains("`payment.recorded`: invalid type: a list, expected a map of fields"), "{words}");
    }
    let counted = [0x82, 0x00, 0xa1, b'a', 0x01, 0xa1, b'b'];
    let read = Request::from_parts(Encoding::MsgPack, 7, Op::SessionCancel, Some("r"), None, Some(&counted));
    assert!(read.expect_err("numbers are no names").to_string().contains("the name of a field"));
}

#[test]
fn errors_name_the_place_of_the_value_in_the_same_words_in_both_encodings() {
    let token = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let line = |quantity: Value| json!({"token": token, "lines": [{"product": "programme", "quantity": quantity}]});
    let seats = |seats: Value| json!({"token": token, "session": "hamlet-tonight", "seats": seats});
    for (op, body, expected) in [
        (
            Op::CartHoldAll,
            line(json!("two")),
            "body: `lines[0].quantity`: invalid type: string \"two\", expected a whole number",
        ),
        (
            Op::CartHoldSeats,
            seats(json!([[1, 5], [1, 70_000]])),
            "body: `seats[1][1]`: invalid value: integer `70000`, expected a whole number from 0 to 65535",
        ),
        (Op::CartHoldSeats, seats(json!([[1, 5, 9]])), "body: `seats[0]`: 3 elements are too many"),
        (Op::CartHoldSeats, seats(json!([[1]])), "body: `seats[0]`: invalid length 1, expected a list of 2 elements"),
        (Op::CartHoldSeats, json!({"token": token}), "body: missing field `session`"),
    ] {
        for encoding in Encoding::ALL {
            let words = read(encoding, op, &body).expect_err("not such a body").to_string();
            assert!(words.ends_with(expected), "{words}");
        }
    }
}

/// The JSON pointers of all values in this one.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(name, inner)| pointers(inner, &format!("{at}/{name}"), found)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, inner)| pointers(inner, &format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn errors_name_no_type_of_rust() {
    let wrong =
        [Value::Null, json!(true), json!(-1), json!(1e19), json!(0.5), json!("x"), json!([]), json!([[]]), json!({})];
    let (mut errors, mut told) = (0, BTreeSet::new());
    for op in Op::ALL.into_iter().filter(|op| *op != Op::Batch) {
        for body in instances(&schema::of(op).request, Encoding::Json) {
            let (_, body) = opened(body);
            let mut places = Vec::new();
            pointers(&body, "", &mut places);
            for (place, wrong) in places.iter().flat_map(|place| wrong.iter().map(move |wrong| (place, wrong))) {
                let mut body = body.clone();
                *body.pointer_mut(place).expect("a place of the body") = wrong.clone();
                let Err(error) = read(Encoding::Json, op, &body) else { continue };
                errors += 1;
                told.extend(error.to_string().split_once(": ").map(|(_, words)| words.to_owned()));
            }
        }
    }
    assert!(errors > 4_000, "{errors}");
    let rust =
        ["u8", "u16", "u32", "u64", "i64", "f64", "struct", "enum", "tuple", "unit", "option", "sequence", "variant"];
    for words in &told {
        let of_rust = words.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| rust.contains(word));
        assert_eq!(of_rust, None, "{words}");
    }
}

/// The frame with a misspelt name, and the names that were possible there. `None` if there is no name.
fn misspelt(frame: &Value, which: usize, how: usize) -> Option<(Value, String)> {
    fn names(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
        match value {
            Value::Object(map) => {
                // These have the names of data.
                let is_closed = !["/prices", "/properties", "/exceptions"].iter().any(|free| at.ends_with(free));
                for (name, value) in map {
                    if is_closed && !value.is_null() {
                        found.push((at.to_owned(), name.clone()));
                    }
                    names(value, &format!("{at}/{name}"), found);
                }
            }
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(index, value)| names(value, &format!("{at}/{index}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    names(&frame["body"], "/body", &mut found);
    let (at, name) = found.get(which % found.len().max(1))?.clone();
    let mut letters: Vec<char> = name.chars().collect();
    let place = how % letters.len();
    match how / letters.len() % 5 {
        0 => drop(letters.remove(place)),
        1 => letters.insert(place, 'x'),
        2 => letters[place] = letters[place].to_ascii_uppercase(),
        3 => letters.swap(place, 0),
        _ => letters.push('s'),
    }
    let wrong: String = letters.into_iter().collect();
    let mut frame = frame.clone();
    let map = frame.pointer_mut(&at)?.as_object_mut()?;
    if wrong == name || map.contains_key(&wrong) {
        return None;
    }
    let value = map.remove(&name)?;
    map.insert(wrong.clone(), value);
    Some((frame, wrong))
}

proptest! {
    /// A misspelt name is refused and named, unless it is the name of another field.
    #[test]
    fn misspelt_fields_are_refused(sample in any::<prop::sample::Index>(), which in any::<usize>(), how in any::<usize>()) {
        let samples: Vec<_> = requests().into_iter().chain(other_requests()).collect();
        let sample = sample.get(&samples);
        let op = Op::from_name(sample.name).expect("an op");
        prop_assume!(op.is_strict() && op != Op::Batch);
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        let Some((frame, wrong)) = misspelt(&frame, which, how) else { return Ok(()) };
        for encoding in Encoding::ALL {
            match Request::read(encoding, &written(encoding, &frame)) {
                // Times are numbers in MessagePack, so the frame may be refused before the name is read.
                Err(refused) => {
                    let words = refused.why.to_string();
                    // The name with another letter may be another field of the same body, such as `names` for `name`.
                    let is_named = words.contains(&wrong) && ["unknown field", "invalid type"].iter().any(|why| words.contains(why));
                    prop_assert!(is_named || encoding == Encoding::MsgPack || words.contains("missing"), "{wrong}: {words}");
                }
                Ok(request) => {
                    let known = schema::of(op).request.to_string() + &components().to_string();
                    prop_assert!(known.contains(&format!("\"{wrong}\"")), "{wrong} is accepted: {request:?}");
                }
            }
        }
    }
}
