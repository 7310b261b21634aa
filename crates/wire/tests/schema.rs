//! The schemas say what the program does: every op, every example, every refusal, every frame.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_wire::{
    Encoding, FailKind, Op, Request,
    schema::{self, Doors, REFUSALS, body_of_query, components, document, standalone, status},
};
use common::{refusals, rejections, requests, server_frames};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&standalone(schema))
        .unwrap_or_else(|why| panic!("{why}: {schema}"))
}

fn check(what: &str, validator: &Validator, value: &Value) {
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}\n{value}");
}

fn read(op: Op, body: &Value) -> Result<Request, boxoffice_wire::Rejection> {
    let rid = op.changes().then_some("c1-000042");
    Request::from_parts(Encoding::Json, 7, op, rid, None, Some(body.to_string().as_bytes()))
}

#[test]
fn every_example_is_taken_and_is_what_its_schema_says() {
    for op in Op::ALL {
        let schema = schema::of(op);
        let request = validator(&schema.request);
        for example in &schema.examples {
            check(op.name(), &request, example);
            read(op, example).unwrap_or_else(|why| panic!("{}: {why}\n{example}", op.name()));
        }
    }
}

#[test]
fn what_is_needed_is_needed() {
    for op in Op::ALL {
        let schema = schema::of(op);
        for name in schema.request["required"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("a name");
            let mut body = schema.examples[0].clone();
            let there = body.as_object_mut().expect("a map").remove(name);
            assert!(there.is_some(), "the first example of {} has no `{name}`", op.name());
            let refused = read(op, &body).expect_err(&format!("{} without `{name}`", op.name()));
            assert_eq!(refused.name(), "bad_request", "{} without `{name}`", op.name());
        }
    }
}

#[test]
fn the_sample_of_every_op_is_what_its_schema_says() {
    for sample in requests() {
        let op = Op::from_name(sample.name).expect("an op");
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        check(sample.name, &validator(&schema::of(op).request), &frame["body"]);
    }
}

#[test]
fn what_the_samples_answer_is_what_some_op_answers() {
    let answers: Vec<Validator> = Op::ALL.into_iter().map(|op| validator(&schema::of(op).answer)).collect();
    // `Done` fits every map, so it must not be what a sample with fields is taken for.
    let done = validator(&json!({"$ref": "#/components/schemas/Done"}));
    let mut seen = 0;
    for sample in server_frames().iter().filter(|sample| sample.name.starts_with("ok ")) {
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        let body = &frame["ok"];
        let is_done = done.is_valid(body) && body.as_object().is_some_and(serde_json::Map::is_empty);
        let fits = Op::ALL.into_iter().zip(&answers).any(|(op, answer)| {
            schema::of(op).answer != json!({"$ref": "#/components/schemas/Done"}) && answer.is_valid(body)
        });
        assert!(is_done || fits, "{} is no answer of any op:\n{body}", sample.name);
        for at in frame["at"].as_array().into_iter().flatten() {
            check(sample.name, &validator(&json!({"$ref": "#/components/schemas/At"})), at);
        }
        seen += 1;
    }
    assert!(seen > 10, "only {seen} samples");
}

#[test]
fn every_refusal_and_failure_is_in_the_document() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let responses = &document["components"]["responses"];
    let (no, fail) = ("#/components/schemas/No", "#/components/schemas/Fail");
    let (no, fail) = (validator(&json!({"$ref": no})), validator(&json!({"$ref": fail})));
    let frames: BTreeMap<String, Value> = server_frames()
        .into_iter()
        .map(|sample| (sample.name.to_owned(), serde_json::from_str(&sample.json).expect("JSON")))
        .collect();
    let response = |status: u16| {
        let schema = &responses[format!("Status{status}")]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{status} is not in the document");
        validator(schema)
    };
    let refused = refusals().into_iter().map(|no| (no.code(), no.name()));
    let rejected = rejections().into_iter().map(|no| (no.code(), no.name()));
    let mut codes = BTreeSet::new();
    for (code, name) in refused.chain(rejected) {
        let row = REFUSALS.iter().find(|row| row.code == code).unwrap_or_else(|| panic!("{code} {name} has no row"));
        assert_eq!(row.name, name);
        let body = &frames[name]["no"];
        check(name, &no, body);
        check(name, &response(status::of_refusal(code, name)), &json!({"no": body}));
        let details: BTreeSet<&str> = body.as_object().expect("a map").keys().map(String::as_str).collect();
        let said: BTreeSet<&str> = ["code", "name", "message"].iter().chain(row.details).copied().collect();
        assert_eq!(details, said, "the details of {name}");
        codes.insert(code);
    }
    assert_eq!(codes.len(), REFUSALS.len(), "a refusal that nobody has is documented");
    for kind in FailKind::ALL {
        let body = &frames[kind.name()]["fail"];
        check(kind.name(), &fail, body);
        check(kind.name(), &response(status::of_failure(kind)), &json!({"fail": body}));
    }
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let mut references = 0;
    let mut rest = vec![&document];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(path)) = map.get("$ref") {
                    let pointer = path.strip_prefix('#').expect("a reference into the document");
                    assert!(document.pointer(pointer).is_some(), "{path} leads nowhere");
                    references += 1;
                }
                rest.extend(map.values());
            }
            Value::Array(list) => rest.extend(list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    assert!(references > 100, "only {references}");
    for name in components().as_object().expect("a map").keys() {
        validator(&json!({"$ref": format!("#/components/schemas/{name}")}));
    }
}

#[test]
fn every_op_has_its_paths() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    for op in Op::ALL {
        let path = &document["paths"][format!("/v1/{}", op.name())];
        let (post, get) = (!path["post"].is_null(), !path["get"].is_null());
        let expected = match schema::of(op).doors {
            Doors::Sockets => (false, false),
            Doors::Post => (true, false),
            Doors::PostAndGet => (true, true),
        };
        assert_eq!((post, get), expected, "{}", op.name());
        assert!(!(get && op.changes()), "{} changes something and is a GET", op.name());
    }
}

#[test]
fn query_strings_are_bodies() {
    let body = |op, query: &[(&str, &str)]| {
        let fields = query.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        body_of_query(op, fields).map(|body| serde_json::from_slice::<Value>(&body).expect("JSON"))
    };
    let search = [("venue", "12"), ("limit", "7"), ("from", "2099-04-01T00:00:00Z"), ("unheard_of", "{")];
    let expected = json!({"venue": "12", "limit": 7, "from": "2099-04-01T00:00:00Z"});
    assert_eq!(body(Op::SessionSearch, &search), Ok(expected));
    assert_eq!(body(Op::AdminStatus, &[]), Ok(json!({})));
    let resume = [("entity", "session/hamlet"), ("resume", "{\"epoch\":1,\"version\":2}")];
    let expected = json!({"entity": "session/hamlet", "resume": {"epoch": 1, "version": 2}});
    assert_eq!(body(Op::Watch, &resume), Ok(expected));
    for wrong in [&[("venue", "globe"), ("limit", "many")][..], &[("venue", "a"), ("venue", "b")], &[("limit", "")]] {
        assert_eq!(body(Op::SessionSearch, wrong).expect_err("refused").code(), 101, "{wrong:?}");
    }
}
