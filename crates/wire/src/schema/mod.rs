//! The bodies and answers of every op as JSON Schema, made from the shapes that serde reads and writes. The OpenAPI document
//! is made from the schemas, query strings are read by them, and tests check real answers against them. Everything about an op
//! stands at its struct ([`crate::body`]).

// In reading order: statuses, the document and query strings.
pub mod status;

mod document;
mod query;

use std::sync::LazyLock;

use serde_json::{Value, json};

pub use document::document;
pub use query::{CART_TOKEN_HEADER, body_of_query, with_cart_token};

pub use crate::op::HttpMethods;
use crate::{
    Op, feed,
    repr::{
        Done, WireRepr,
        shape::{Field, SCHEMAS, Shapes, map},
    },
    view::At,
};

/// The body and the answer of an op.
#[derive(Clone, Debug)]
pub struct OpSchema {
    /// A summary in a few words.
    pub summary: &'static str,
    /// The schema of the body.
    pub request: Value,
    /// The name of that schema among the components.
    pub request_name: &'static str,
    /// Valid bodies. They work on a fresh node, each after the examples of the ops before it.
    pub examples: Vec<Value>,
    /// The schema of the body of an ok.
    pub answer: Value,
    /// The methods of `/v1/{op}`.
    pub methods: HttpMethods,
    /// A need of its examples that a fresh node does not meet, if any.
    pub examples_need: Option<&'static str>,
}

/// The schemas of all ops, by their numbers, and the shapes that they refer to.
struct Table {
    ops: Vec<OpSchema>,
    components: Value,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// The schema of an op.
pub fn of(op: Op) -> &'static OpSchema {
    &TABLE.ops[op as usize]
}

/// The shapes that schemas refer to, by name: `#/components/schemas/…` of the document.
pub fn components() -> &'static Value {
    &TABLE.components
}

/// Shapes with a path of their own and an `ETag`.
const RESOURCES: [&str; 2] = ["Layout", "Map"];

impl Table {
    fn new() -> Table {
        let mut shapes = Shapes::default();
        let mut schema = |(number, op): (usize, Op)| {
            assert_eq!(op as usize, number, "the ops are counted in the order of their table");
            let facts = op.facts();
            let request = (facts.body)(&mut shapes);
            let (request_name, request) = shapes.at(&request).expect("bodies have names");
            let (request_name, request) = (request_name, request.clone());
            let answer = match facts.answers {
                [] => Done::schema(&mut shapes),
                [answer] => answer(&mut shapes),
                several => json!({"anyOf": several.iter().map(|answer| answer(&mut shapes)).collect::<Vec<_>>()}),
            };
            let read =
                |example: &&str| serde_json::from_str(example).unwrap_or_else(|why| panic!("{}: {why}", op.name()));
            let examples = facts.examples.iter().map(read).collect();
            let (summary, methods, examples_need) = (facts.summary, facts.methods, facts.examples_need);
            OpSchema { summary, request, request_name, examples, answer, methods, examples_need }
        };
        let ops: Vec<OpSchema> = Op::ALL.into_iter().enumerate().map(&mut schema).collect();
        feed::schemas(&mut shapes);
        let at = Vec::<At>::schema(&mut shapes);
        let field = |name, is_needed, schema| Field { name, is_needed, schema, words: &[] };
        let mut components = shapes.into_components();
        for (op, schema) in Op::ALL.into_iter().zip(&ops) {
            let fields = [field("ok", true, schema.answer.clone()), field("at", false, at.clone())];
            components.insert(ok_name(op, schema), map(fields, &[], &[]));
        }
        for shape in RESOURCES {
            components.insert(format!("{shape}Ok"), map([field("ok", true, component(shape))], &[], &[]));
        }
        Table { ops, components: Value::Object(components) }
    }
}

/// A shape by its name among the components.
fn component(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{name}")})
}

/// The name of the answer to a granted request, after its body if that has a name, else after the op.
fn ok_name(op: Op, schema: &OpSchema) -> String {
    let answer = schema.answer["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name = answer.map_or_else(|| op.name().split(['.', '_']).map(capital).collect(), str::to_owned);
    name + "Ok"
}

/// A schema that contains everything it refers to.
pub fn standalone(schema: &Value) -> Value {
    json!({"allOf": [schema], "components": {"schemas": components()}})
}
