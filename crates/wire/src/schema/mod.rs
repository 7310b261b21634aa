//! What every op takes and answers, as JSON Schema: the one table from which the OpenAPI document is made, by which query
//! strings are read, and against which tests hold real answers.
//!
//! A new op needs its entry in [`ops`] (the compiler asks for it) and, if it answers with something new, a component in
//! [`components`]. The names of fields are compared with those that serde reads, so neither can change alone.

// In reading order: how schemas are written, the shapes they share, refusals, the ops, what is made of them.
mod build;
mod names;

mod components;
mod refusals;
pub mod status;

mod ops;

mod document;
mod query;

use std::sync::LazyLock;

use serde_json::Value;

pub use document::document;
pub use query::body_of_query;
pub use refusals::{REFUSALS, RefusalRow};

use crate::Op;
use build::{component, list, map, needed, optional};

/// What an op takes and answers.
#[derive(Clone, Debug)]
pub struct OpSchema {
    /// In a few words.
    pub summary: &'static str,
    /// The schema of the body.
    pub request: Value,
    /// The name of that schema among the components.
    pub request_name: &'static str,
    /// Bodies that work: on a fresh node, each after those of the ops before it.
    pub examples: Vec<Value>,
    /// The schema of the body of an ok.
    pub answer: Value,
    /// Where it can be asked.
    pub doors: Doors,
    /// What its examples need that a fresh node does not have, if anything.
    pub examples_need: Option<&'static str>,
}

/// Where an op can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doors {
    /// On WebSocket connections only: it is about the connection.
    Sockets,
    /// Also by `POST`.
    Post,
    /// Also by `POST` and, with its fields in the query string, by `GET`.
    PostAndGet,
}

/// The schema of an op.
pub fn of(op: Op) -> &'static OpSchema {
    static TABLE: LazyLock<Vec<(Op, OpSchema)>> =
        LazyLock::new(|| Op::ALL.into_iter().map(|op| (op, ops::schema(op))).collect());
    let (same, schema) = &TABLE[op as usize];
    assert_eq!(*same, op, "the ops are counted in the order of their table");
    schema
}

/// The shapes that schemas refer to, by name: `#/components/schemas/…` of the document.
pub fn components() -> &'static Value {
    static COMPONENTS: LazyLock<Value> = LazyLock::new(|| {
        let mut shapes = components::components();
        for op in Op::ALL {
            let schema = of(op);
            shapes.insert(schema.request_name.to_owned(), schema.request.clone());
            let ok = map([needed("ok", schema.answer.clone()), optional("at", list(component("At")))]);
            shapes.insert(ok_name(op, schema), ok);
        }
        for shape in RESOURCES {
            shapes.insert(format!("{shape}Ok"), map([needed("ok", component(shape))]));
        }
        Value::Object(shapes)
    });
    &COMPONENTS
}

/// What has a path of its own, with an `ETag`.
const RESOURCES: [&str; 2] = ["Layout", "Map"];

/// The name of what a granted request is answered with: after its body if that has a name, else after the op.
fn ok_name(op: Op, schema: &OpSchema) -> String {
    let answer = schema.answer["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name = answer.map_or_else(|| op.name().split(['.', '_']).map(capital).collect(), str::to_owned);
    name + "Ok"
}

/// A schema that stands alone: what it refers to is in it.
pub fn standalone(schema: &Value) -> Value {
    serde_json::json!({"allOf": [schema], "components": {"schemas": components()}})
}
