//! How schemas are written: values of JSON Schema 2020-12, as OpenAPI 3.1 has it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::names::names;
use crate::limits::CART_LINES_MAX;

/// A field of a map.
pub(super) struct Field {
    name: &'static str,
    schema: Value,
    is_needed: bool,
}

/// A field that must be there.
pub(super) fn needed(name: &'static str, schema: Value) -> Field {
    Field { name, schema, is_needed: true }
}

/// A field that may be absent.
pub(super) fn optional(name: &'static str, schema: Value) -> Field {
    Field { name, schema, is_needed: false }
}

/// A map with these fields, which are those of `T`.
///
/// # Panics
/// If they are others: then the schema says what is not so.
pub(super) fn object<T: DeserializeOwned>(fields: impl IntoIterator<Item = Field>) -> Value {
    let fields: Vec<Field> = fields.into_iter().collect();
    let (mut said, mut read) = (fields.iter().map(|field| field.name).collect::<Vec<_>>(), names::<T>().to_vec());
    said.sort_unstable();
    read.sort_unstable();
    assert_eq!(said, read, "the schema of {} has other fields than are read", std::any::type_name::<T>());
    map(fields)
}

/// A map with these fields, which are some of those of `T`: it is read with the fields of its kin.
///
/// # Panics
/// If one of them is none of its fields.
pub(super) fn part_of<T: DeserializeOwned>(fields: impl IntoIterator<Item = Field>) -> Value {
    let (fields, read): (Vec<Field>, _) = (fields.into_iter().collect(), names::<T>());
    for field in &fields {
        assert!(read.contains(&field.name), "`{}` is not read of {}", field.name, std::any::type_name::<T>());
    }
    map(fields)
}

/// The map whose fields, beside what it always needs, come in exactly one of these sets.
pub(super) fn one_set(map: Value, sets: &[&[&str]]) -> Value {
    let needs = |set: &&[&str]| json!({"required": set});
    one_of_sets(map, sets.iter().map(needs).collect())
}

/// The same with schemas of the sets. It is said in a `then` that always applies: generators of clients take a `oneOf` beside
/// the fields for another type.
pub(super) fn one_of_sets(mut map: Value, sets: Vec<Value>) -> Value {
    map["if"] = json!({});
    map["then"] = json!({"oneOf": sets});
    map
}

/// A map with these fields, of which no type of ours knows the names.
pub(super) fn map(fields: impl IntoIterator<Item = Field>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Field { name, schema, is_needed } in fields {
        if is_needed {
            required.push(name);
        }
        properties.insert(name.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The schema with a description beside it.
pub(super) fn about(mut schema: Value, words: &str) -> Value {
    schema["description"] = json!(words);
    schema
}

/// Where the document has its shapes.
pub(super) const SCHEMAS: &str = "#/components/schemas/";

/// A shape by its name among the components.
pub(super) fn component(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{name}")})
}

/// An id chosen by a client.
pub(super) fn id() -> Value {
    component("Id")
}

/// An instant.
pub(super) fn time() -> Value {
    component("Time")
}

/// A text of at most so many bytes.
pub(super) fn text(bytes_max: usize) -> Value {
    json!({"type": "string", "maxLength": bytes_max})
}

/// A text of at least one and at most so many bytes.
pub(super) fn name(bytes_max: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": bytes_max})
}

/// A text in answers, of any length.
pub(super) fn words() -> Value {
    json!({"type": "string"})
}

/// Yes or no.
pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// A whole number between two.
pub(super) fn whole(least: i64, most: i64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// A count, a version, a place in the log: from 0.
pub(super) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// A whole number.
pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

/// Milliseconds that a client asks for.
pub(super) fn milliseconds() -> Value {
    // Beyond 2⁵³ JSON's numbers are not whole in every language.
    milliseconds_up_to(1 << 53)
}

/// Milliseconds that a client asks for, at most so many.
pub(super) fn milliseconds_up_to(most: u64) -> Value {
    whole(1, most as i64)
}

/// At most so many bytes.
pub(super) fn base64(bytes_max: usize) -> Value {
    json!({"type": "string", "contentEncoding": "base64", "maxLength": bytes_max.div_ceil(3) * 4})
}

/// Any number.
pub(super) fn number() -> Value {
    json!({"type": "number"})
}

/// A list.
pub(super) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A list of at least one and at most so many.
pub(super) fn some(items: Value, most: usize) -> Value {
    json!({"type": "array", "items": items, "minItems": 1, "maxItems": most})
}

/// A list of at most so many.
pub(super) fn at_most(items: Value, most: usize) -> Value {
    json!({"type": "array", "items": items, "maxItems": most})
}

/// Two values side by side.
pub(super) fn pair(items: Value) -> Value {
    json!({"type": "array", "items": items, "minItems": 2, "maxItems": 2})
}

/// One of these words.
pub(super) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// One of these shapes.
pub(super) fn either(shapes: &[Value]) -> Value {
    json!({"anyOf": shapes})
}

/// Lines of a cart.
pub(super) fn lines() -> Value {
    at_most(component("Line"), CART_LINES_MAX)
}
