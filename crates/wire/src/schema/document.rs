//! The OpenAPI document, made from the table of ops.

use std::{collections::BTreeMap, sync::LazyLock};

use boxoffice_core::refusal::{Kind, Row, rows};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{
    HttpMethods, OpSchema, RESOURCES, component, components, of, ok_name,
    query::{is_nested, is_secret},
    status,
};
use crate::{
    Op,
    customer::TOKEN_DIGITS,
    limits::{DEADLINE_MS, DEADLINE_MS_MAX},
    repr::shape::SCHEMAS,
};

/// The OpenAPI document of the HTTP API, as JSON. Its paths are in the order of the ops.
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> =
        LazyLock::new(|| serde_json::to_string(&Document::new()).expect("a document of JSON is JSON"));
    &DOCUMENT
}

#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    paths: InOrder,
    components: Value,
}

/// A JSON map that keeps the order of its entries.
struct InOrder(Vec<(String, Value)>);

impl Serialize for InOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Document {
    fn new() -> Document {
        let endings = endings();
        let statuses: Vec<u16> = endings.keys().copied().collect();
        let mut paths: Vec<(String, Value)> = Vec::new();
        for op in Op::ALL {
            let schema = of(op);
            if schema.methods == HttpMethods::None {
                continue;
            }
            let mut methods = json!({"post": by_post(op, schema, &statuses)});
            if schema.methods == HttpMethods::PostAndGet {
                methods["get"] = by_get(op, schema, &statuses);
            }
            paths.push((format!("/v1/{}", op.name()), methods));
        }
        for shape in RESOURCES {
            let name = shape.to_lowercase();
            paths.push((format!("/v1/sessions/{{id}}/{name}"), json!({"get": resource(&name, shape, &statuses)})));
        }
        let responses: Map<String, Value> =
            endings.iter().map(|(status, response)| (response_name(*status), response.clone())).collect();
        let mut shapes = BTreeMap::new();
        for part in paths.iter().map(|(_, methods)| methods).chain(responses.values()) {
            collect(part, &mut shapes);
        }
        let admin =
            json!({"type": "http", "scheme": "bearer", "description": "The operators' token, where one is set."});
        Document {
            openapi: "3.1.0",
            info: json!({
                "title": "Boxoffice",
                "version": env!("CARGO_PKG_VERSION"),
                "summary": "Seats, places, products and time, held and sold.",
                "description": "The commands of client protocol v1 over HTTP; `/v1/ws` speaks the same over WebSocket.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            }),
            paths: InOrder(paths),
            components: json!({
                "schemas": shapes, "responses": responses, "securitySchemes": {"operators": admin},
            }),
        }
    }
}

/// Adds the shapes that a part of the document refers to. Shapes of WebSocket connections only are left out.
fn collect(part: &Value, shapes: &mut BTreeMap<&'static str, &'static Value>) {
    match part {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(SCHEMAS));
            if let Some((name, shape)) = name.and_then(|name| components().as_object()?.get_key_value(name))
                && shapes.insert(name, shape).is_none()
            {
                collect(shape, shapes);
            }
            fields.values().for_each(|field| collect(field, shapes));
        }
        Value::Array(list) => list.iter().for_each(|item| collect(item, shapes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn by_post(op: Op, schema: &OpSchema, statuses: &[u16]) -> Value {
    let examples: Map<String, Value> = schema
        .examples
        .iter()
        .enumerate()
        .map(|(number, body)| (format!("{}", number + 1), json!({"value": body})))
        .collect();
    let mut parameters = if op.changes() { vec![request_id(), deadline()] } else { vec![deadline()] };
    parameters.extend(op.begins_cart().then(patience));
    let mut operation = operation(op, schema, statuses, op.name().replace('.', "_"), parameters);
    operation["requestBody"] = json!({
        "required": schema.request.get("required").is_some(),
        "content": {"application/json": {"schema": component(schema.request_name), "examples": examples}},
    });
    operation
}

fn by_get(op: Op, schema: &OpSchema, statuses: &[u16]) -> Value {
    let required = schema.request.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut parameters = vec![deadline()];
    for (name, field) in schema.request["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&json!(name));
        let mut parameter = match is_secret(field) {
            true => json!({"name": "Boxoffice-Cart-Token", "in": "header", "required": is_required}),
            false => json!({"name": name, "in": "query", "required": is_required}),
        };
        let example = schema.examples.iter().find_map(|body| body.get(name));
        if is_nested(field) {
            // Written as JSON, because query strings have no lists and maps.
            parameter["content"] = json!({"application/json": {"schema": field}});
        } else {
            parameter["schema"] = field.clone();
            if let Some(example) = example {
                parameter["example"] = example.clone();
            }
        }
        parameters.push(parameter);
    }
    operation(op, schema, statuses, format!("{}_by_query", op.name().replace('.', "_")), parameters)
}

fn operation(op: Op, schema: &OpSchema, statuses: &[u16], id: String, mut parameters: Vec<Value>) -> Value {
    if op.is_about_a_customer() {
        parameters.extend(customer());
    }
    let granted = json!({
        "description": status::meaning(status::OK),
        "content": {"application/json": {"schema": component(&ok_name(op, schema))}},
    });
    let mut operation = json!({
        "operationId": id,
        "summary": schema.summary,
        "tags": [op.name().split('.').next()],
        "parameters": parameters,
        "responses": responses(granted, statuses),
    });
    if !op.needs().is_empty() {
        // The configuration decides what callers without credentials may do.
        operation["security"] = json!([{"operators": []}, {}]);
        operation["x-roles"] = op.needs().iter().map(|role| role.name()).collect();
    }
    operation
}

fn responses(granted: Value, statuses: &[u16]) -> Value {
    let mut responses = json!({"200": granted});
    for status in statuses {
        let name = response_name(*status);
        responses[status.to_string()] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    responses
}

/// The layout or the map of a session, with an entity tag.
fn resource(name: &str, shape: &str, statuses: &[u16]) -> Value {
    let body = json!({"schema": component(&format!("{shape}Ok"))});
    let tag = json!({"ETag": {"description": "Changes with the answer.", "schema": {"type": "string"}}});
    let granted = json!({
        "description": status::meaning(status::OK),
        "headers": tag,
        "content": {
            "application/json": body, "application/msgpack": {}, "application/vnd.msgpack": {},
        },
    });
    let mut responses = responses(granted, statuses);
    responses["304"] = json!({"description": "It is still what `If-None-Match` names.", "headers": tag});
    let known = json!({
        "name": "If-None-Match", "in": "header", "description": "The `ETag` of what the client has.",
        "schema": {"type": "string"},
    });
    json!({
        "operationId": format!("session_{name}_resource"),
        "summary": format!("The {name} of a session, with an `ETag`; JSON or MessagePack, by `Accept`."),
        "tags": ["session"],
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": component("Id"), "example": "hamlet-tonight"},
            known,
            deadline(),
        ],
        "responses": responses,
    })
}

fn request_id() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": true, "example": "c1-000042",
        "description": "The request id: repeat a command with the same one and it happens once.",
        "schema": {"type": "string", "pattern": "^[!-~]([ -~]{0,62}[!-~])?$"},
    })
}

fn deadline() -> Value {
    let words = format!("How long the client waits; {DEADLINE_MS} if absent, at most {DEADLINE_MS_MAX}.");
    json!({
        "name": "Boxoffice-Deadline-Ms", "in": "header", "description": words,
        "schema": {"type": "integer", "minimum": 1, "maximum": DEADLINE_MS_MAX},
    })
}

fn patience() -> Value {
    json!({
        "name": "Boxoffice-Patience-Ms", "in": "header",
        "description": "How long the buyer will still be there, if longer than the client waits. An overloaded node refuses to begin \
                        a purchase that would take longer.",
        "schema": {"type": "integer", "minimum": 1},
    })
}

fn customer() -> [Value; 2] {
    let token = format!("^[0-9a-f]{{{TOKEN_DIGITS}}}$");
    [
        json!({
            "name": "Boxoffice-Customer", "in": "header", "schema": component("Id"),
            "description": "The customer it is asked for, where customers have tokens.",
        }),
        json!({
            "name": "Boxoffice-Customer-Token", "in": "header", "schema": {"type": "string", "pattern": token},
            "description": "That customer's token: HMAC-SHA256 of the id under the node's secret.",
        }),
    ]
}

fn response_name(status: u16) -> String {
    format!("Status{status}")
}

/// The responses that are not an ok, by status. `x-codes` and the description have their codes and names.
fn endings() -> BTreeMap<u16, Value> {
    let mut endings: BTreeMap<u16, Vec<(u16, &str, String)>> = BTreeMap::new();
    let mut add = |status: u16, code, name, words| endings.entry(status).or_default().push((code, name, words));
    let rows: BTreeMap<u16, &Row> = rows().map(|row| (row.code, row)).collect();
    for row in rows.values().filter(|row| row.kind != Kind::Failure) {
        let details = if row.fields.is_empty() { String::new() } else { format!(" ({})", row.fields.join(", ")) };
        let (meaning, _) = row.cause.split_once('.').expect("a sentence");
        add(row.http, row.code, row.name, format!("{} {}{details}: {meaning}", row.code, row.name));
    }
    for status in [status::WRONG_METHOD, status::TOO_SLOW] {
        add(status, 101, "bad_request", "101 bad_request".to_owned());
    }
    for row in rows.values().filter(|row| row.kind == Kind::Failure) {
        add(row.http, row.code, row.name, format!("{} {}", row.code, row.name));
    }
    endings.into_iter().map(|(status, rows)| (status, ending(status, &rows))).collect()
}

fn ending(status: u16, rows: &[(u16, &str, String)]) -> Value {
    let codes: Map<String, Value> = rows.iter().map(|(code, name, _)| (code.to_string(), json!(name))).collect();
    let words: Vec<&str> = rows.iter().map(|row| row.2.as_str()).collect();
    let shape = if status < 500 { "Refused" } else { "Failed" };
    let mut response = json!({
        "description": format!("{} {}.", status::meaning(status), words.join("; ")), "x-codes": codes,
        "content": {"application/json": {"schema": component(shape)}},
    });
    if status == 503 {
        response["headers"] = json!({"Retry-After": {"description": "In seconds.", "schema": {"type": "integer"}}});
    }
    response
}
