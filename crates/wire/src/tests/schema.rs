//! The schemas match the program: every op, example, refusal and frame.

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_core::refusal::{Kind, Refusal, rows};
use bytes::BytesMut;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::common::{other_requests, refused_lines, requests, server_frames};
use crate::{
    Encoding, Op, Request,
    encode::Verdict,
    http,
    schema::{self, HttpMethods, body_of_query, components, document, standalone},
};

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&standalone(schema))
        .unwrap_or_else(|why| panic!("{why}: {schema}"))
}

/// The same, but without undescribed fields, for frames of this crate.
fn strict(schema: &Value) -> Validator {
    let mut schema = standalone(schema);
    close(&mut schema);
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap_or_else(|why| panic!("{why}: {schema}"))
}

/// Forbids unnamed fields in all maps.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let names_fields = map.get("type") == Some(&json!("object")) && map.contains_key("properties");
            if names_fields && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".into(), json!(false));
            }
            map.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The shapes that an op may answer with.
fn shapes(answer: &Value) -> Vec<Value> {
    answer.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![answer.clone()])
}

fn check(what: &str, validator: &Validator, value: &Value) {
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}\n{value}");
}

fn read(op: Op, body: &Value) -> Result<Request, crate::Rejection> {
    let rid = op.changes().then_some("c1-000042");
    Request::from_parts(Encoding::Json, 7, op, rid, None, Some(body.to_string().as_bytes()))
}

#[test]
fn every_example_is_valid_by_its_schema() {
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
fn required_fields_are_required() {
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
fn the_sample_of_every_op_matches_its_schema() {
    for sample in requests().into_iter().chain(other_requests()) {
        let op = Op::from_name(sample.name).expect("an op");
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        check(sample.name, &strict(&schema::of(op).request), &frame["body"]);
    }
}

#[test]
fn bodies_refused_for_their_shape_do_not_match_the_schema() {
    let token = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let hold = |line: Value| (Op::CartHoldAll, json!({"token": token, "lines": [line]}));
    let times = |more: Value| {
        let mut body = json!({"resource": "room-5", "booking": "choir"});
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        (Op::ResourceReserve, body)
    };
    let day = json!({"begin": "2026-04-12T12:00:00Z", "end": "2026-04-12T13:00:00Z"});
    let repeated = |repeat: Value| {
        let mut body = day.clone();
        body["repeat"] = repeat;
        times(body)
    };
    let bodies = [
        hold(json!({"session": "a"})),
        hold(json!({"session": "a", "seats": [[0, 0]], "count": 1})),
        hold(json!({"session": "a", "product": "b", "quantity": 1, "seats": [[0, 0]]})),
        hold(json!({"product": "b", "quantity": 0})),
        hold(json!({"resource": "c", "begin": "2026-04-12T12:00:00Z"})),
        times(json!({})),
        times(json!({"begin": "2026-04-12T12:00:00Z", "local_end": "2026-04-12T13:00"})),
        times(json!({"local_begin": "2026-04-12 12:00", "local_end": "2026-04-12T13:00"})),
        repeated(json!({"every": "day"})),
        repeated(json!({"every": "day", "count": 2, "until": "2026-12-31"})),
        repeated(json!({"every": "year", "count": 2})),
        repeated(json!({"every": "day", "count": 401})),
        (Op::SessionSearch, json!({})),
        (Op::SessionSearch, json!({"venue": "globe", "city": "London"})),
        (Op::CartCheckout, json!({"token": token, "payment": {}})),
        (Op::CartCheckout, json!({"token": token, "payment": {"gateway": {}}})),
        (Op::AdminHistory, json!({"entity": "theatre/globe"})),
        (Op::CartHoldStock, json!({"token": token, "product": "b", "quantity": 1_000_001})),
    ];
    for (op, body) in bodies {
        assert!(!validator(&schema::of(op).request).is_valid(&body), "{}: {body}", op.name());
        read(op, &body).expect_err(&format!("{}: {body}", op.name()));
    }
}

#[test]
fn sample_answers_match_the_schema_of_an_op() {
    let done = json!({"$ref": "#/components/schemas/Done"});
    let shapes: BTreeMap<String, Validator> = Op::ALL
        .into_iter()
        .flat_map(|op| shapes(&schema::of(op).answer))
        .filter(|shape| *shape != done)
        .map(|shape| (shape.to_string(), strict(&shape)))
        .collect();
    let at = strict(&json!({"$ref": "#/components/schemas/At"}));
    let mut met = BTreeSet::new();
    for sample in server_frames().iter().filter(|sample| sample.name.starts_with("ok ")) {
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        let body = &frame["ok"];
        let is_done = body.as_object().is_some_and(serde_json::Map::is_empty);
        let fits = shapes.iter().filter(|(_, shape)| shape.is_valid(body)).map(|(name, _)| name);
        let fits: Vec<&String> = fits.collect();
        assert!(is_done || !fits.is_empty(), "{} is not an answer of any op:\n{body}", sample.name);
        met.extend(fits);
        for version in frame["at"].as_array().into_iter().flatten() {
            check(sample.name, &at, version);
        }
    }
    let unmet: Vec<&String> = shapes.keys().filter(|name| !met.contains(name)).collect();
    assert!(unmet.is_empty(), "no sample answers {unmet:?}");
}

#[test]
fn frames_of_feeds_match_their_schemas() {
    let shapes =
        ["Snapshot", "CountsSnapshot", "ProductSnapshot", "ResourceSnapshot", "CartSnapshot", "PurchasesSnapshot"];
    let deltas = shapes.map(|name| name.replace("Snapshot", "Delta"));
    let named = |names: Vec<&str>| -> BTreeMap<String, Validator> {
        let schema = |name: &str| strict(&json!({"$ref": format!("#/components/schemas/{name}")}));
        names.into_iter().map(|name| (name.to_owned(), schema(name))).collect()
    };
    let kinds = [
        ("snapshot", named(shapes.to_vec())),
        ("delta", named(deltas.iter().map(String::as_str).collect())),
        ("ended", named(vec!["FeedEnded"])),
    ];
    let mut met = BTreeSet::new();
    for sample in server_frames() {
        let frame: Value = serde_json::from_str(&sample.json).expect("JSON");
        for (kind, shapes) in kinds.iter().filter(|(kind, _)| !frame["feed"].is_null() && !frame[*kind].is_null()) {
            let fits = shapes.iter().filter(|(_, shape)| shape.is_valid(&frame[*kind])).map(|(name, _)| name);
            let fits: Vec<&String> = fits.collect();
            assert!(!fits.is_empty(), "{}: {frame}", sample.name);
            met.extend(fits.into_iter().cloned());
        }
    }
    let unmet: Vec<&String> =
        kinds.iter().flat_map(|(_, shapes)| shapes.keys()).filter(|name| !met.contains(*name)).collect();
    assert!(unmet.is_empty(), "no sample is a {unmet:?}");
}

/// A refusal as an HTTP answer.
fn written(refusal: &Refusal) -> Value {
    let mut out = BytesMut::new();
    http::verdict(Encoding::Json, &mut out, &Verdict::No(refusal.clone()));
    serde_json::from_slice(&out).expect("JSON")
}

#[test]
fn every_refusal_and_failure_is_in_the_document() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let responses = &document["components"]["responses"];
    let (no, fail) = ("#/components/schemas/No", "#/components/schemas/Fail");
    let (no, fail) = (strict(&json!({"$ref": no})), strict(&json!({"$ref": fail})));
    let frames: BTreeMap<String, Value> = server_frames()
        .into_iter()
        .map(|sample| (sample.name.to_owned(), serde_json::from_str(&sample.json).expect("JSON")))
        // Only the first of each name, because a refusal of several lines has the name of the first.
        .rev()
        .collect();
    let response = |status: u16, code: u16, name: &str| {
        let response = &responses[format!("Status{status}")];
        assert_eq!(response["x-codes"][code.to_string()], name, "{code} is not documented with status {status}");
        let words = response["description"].as_str().expect("words");
        assert!(words.contains(&format!("{code} {name}")), "{code} {name} is not described: {words}");
        validator(&response["content"]["application/json"]["schema"])
    };
    for row in rows() {
        let (schema, kind) = if row.kind == Kind::Failure { (&fail, "fail") } else { (&no, "no") };
        let body = &frames[row.name][kind];
        check(row.name, schema, body);
        check(row.name, &response(row.http, row.code, row.name), &json!({kind: body}));
        if row.kind != Kind::Failure {
            let details: BTreeSet<&str> = body.as_object().expect("a map").keys().map(String::as_str).collect();
            let expected: BTreeSet<&str> = ["code", "name", "message"].iter().chain(row.fields).copied().collect();
            assert_eq!(details, expected, "the details of {}", row.name);
        }
    }
    let several = written(&refused_lines());
    assert!(several["no"]["lines"].is_array(), "{several}");
    check("several lines", &no, &several["no"]);
    check("several lines", &response(409, 201, "seats_taken"), &several);
}

#[test]
fn every_reference_in_the_document_resolves() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let mut references = 0;
    let mut rest = vec![&document];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(path)) = map.get("$ref") {
                    let pointer = path.strip_prefix('#').expect("a reference into the document");
                    assert!(document.pointer(pointer).is_some(), "{path} has no target");
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
fn bodies_are_named() {
    // Generators invent a type name for each schema without one.
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let inline = |content: &Value| {
        let schemas = content.as_object().into_iter().flatten().map(|(_, media)| &media["schema"]);
        schemas.filter(|schema| schema.is_object() && schema["$ref"].is_null()).count()
    };
    let mut bodies = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for operation in methods.as_object().expect("methods").values() {
            let responses = operation["responses"].as_object().expect("responses").values();
            for content in responses.chain([&operation["requestBody"]]).map(|body| &body["content"]) {
                assert_eq!(inline(content), 0, "{path}: {content}");
                bodies += usize::from(content.is_object());
            }
        }
    }
    assert!(bodies > 100, "only {bodies}");
    for (name, response) in document["components"]["responses"].as_object().expect("responses") {
        assert_eq!(inline(&response["content"]), 0, "{name}");
    }
}

#[test]
fn every_op_has_its_paths() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    for op in Op::ALL {
        let path = &document["paths"][format!("/v1/{}", op.name())];
        let (post, get) = (!path["post"].is_null(), !path["get"].is_null());
        let expected = match schema::of(op).methods {
            HttpMethods::None => (false, false),
            HttpMethods::Post => (true, false),
            HttpMethods::PostAndGet => (true, true),
        };
        assert_eq!((post, get), expected, "{}", op.name());
        assert!(!(get && op.changes()), "{} changes something and is a GET", op.name());
    }
}

/// The head of a request has a limit of 16 KiB, and a longer one is answered without a body.
#[test]
fn a_list_in_a_query_is_short() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let parameters = methods["get"]["parameters"].as_array().into_iter().flatten();
        for list in parameters.map(|parameter| &parameter["content"]["application/json"]["schema"]) {
            let is_short = list["maxItems"].as_u64().is_some_and(|items| items <= 32);
            assert!(list["type"] != "array" || is_short, "{path}: {list}");
        }
    }
}

/// A secret in an address lands in the logs of proxies, so no parameter of a query may be one.
#[test]
fn no_query_has_a_secret() {
    let document: Value = serde_json::from_str(document()).expect("the document is JSON");
    let mut headers = 0;
    for op in Op::ALL {
        let parameters = &document["paths"][format!("/v1/{}", op.name())]["get"]["parameters"];
        for parameter in parameters.as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name").to_lowercase();
            let is_secret = ["token", "secret", "password", "proof", "signature", "hash", "key"]
                .iter()
                .any(|word| name.split(['_', '-']).any(|part| part == *word));
            let schema = parameter["schema"]["$ref"].as_str().unwrap_or_default();
            assert!(parameter["in"] == "header" || !(is_secret || schema.ends_with("/Token")), "{op:?}: {name}");
            headers += usize::from(name == "boxoffice-cart-token");
        }
    }
    assert!(headers > 0, "no read takes the token of a cart");
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
    let secret = [("token", "0f1e2d3c4b5a69788796a5b4c3d2e1f0")];
    let refused = body(Op::CartGet, &secret).expect_err("addresses are kept in logs");
    assert_eq!(refused.code(), 101);
    assert!(!refused.to_string().contains("0f1e"), "{refused}");
    let resume = [("entity", "session/hamlet"), ("resume", "{\"epoch\":1,\"version\":2}")];
    let expected = json!({"entity": "session/hamlet", "resume": {"epoch": 1, "version": 2}});
    assert_eq!(body(Op::Watch, &resume), Ok(expected));
    for wrong in [&[("venue", "globe"), ("limit", "many")][..], &[("venue", "a"), ("venue", "b")], &[("limit", "")]] {
        assert_eq!(body(Op::SessionSearch, wrong).expect_err("refused").code(), 101, "{wrong:?}");
    }
}
