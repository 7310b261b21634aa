//! Query strings as bodies. The schema of a field says how its value is read.

use std::borrow::Cow;

use serde_json::{Map, Value};
use smol_str::format_smolstr;

use super::{components, of};
use crate::{Op, Rejection, repr::shortened};

/// The fields of a query string as a JSON body.
///
/// Text is plain. Numbers, booleans, lists and maps are JSON. Unknown fields are ignored as in the bodies of reads, because
/// only reads have query strings.
///
/// # Errors
/// `bad_request` for a value of the wrong type, or a field that comes twice.
pub fn body_of_query<'a>(
    op: Op,
    fields: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<Vec<u8>, Rejection> {
    let properties = &of(op).request["properties"];
    let mut body = Map::new();
    for (name, value) in fields {
        let Some(schema) = properties.get(&*name) else { continue };
        let value = if is_text(schema) {
            Value::String(value.into_owned())
        } else {
            serde_json::from_str(&value).map_err(|_| {
                let shown = shortened(&value);
                Rejection::bad_request(format_smolstr!("`{name}`: `{shown}` is not written as in JSON"))
            })?
        };
        if body.insert(name.clone().into_owned(), value).is_some() {
            return Err(Rejection::bad_request(format_smolstr!("`{name}` is there once")));
        }
    }
    Ok(serde_json::to_vec(&body).expect("a map of JSON is JSON"))
}

/// The type of the values of a field.
fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        Some(name) => type_of(&components()[name]),
        None => schema["type"].as_str(),
    }
}

/// Whether the values of a field are text.
fn is_text(schema: &Value) -> bool {
    type_of(schema) == Some("string")
}

/// Whether the values of a field are lists or maps, which query strings write as JSON.
pub(super) fn is_nested(schema: &Value) -> bool {
    !matches!(type_of(schema), Some("string" | "integer" | "number" | "boolean"))
}
