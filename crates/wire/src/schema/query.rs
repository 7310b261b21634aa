//! Query strings as bodies: `?field=value`, each value read as the schema of its field says.

use std::borrow::Cow;

use serde_json::{Map, Value};
use smol_str::format_smolstr;

use super::{components, of};
use crate::{Op, Rejection, form::shortened};

/// The body, as JSON, that the fields of a query string are.
///
/// Text stands as it is; numbers, yes and no, lists and maps as in JSON. What is no field of the op is ignored, as it is in
/// the bodies of reads; only reads are asked so.
///
/// # Errors
/// `bad_request` for a value that is not of its field's kind, or a field that comes twice.
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

/// Whether the values of a field are text.
pub(super) fn is_text(schema: &Value) -> bool {
    match schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        Some(name) => is_text(&components()[name]),
        None => schema["type"] == "string",
    }
}

/// Whether the values of a field are lists or maps, which query strings have as JSON.
pub(super) fn is_nested(schema: &Value) -> bool {
    match schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        Some(name) => is_nested(&components()[name]),
        None => !matches!(schema["type"].as_str(), Some("string" | "integer" | "number" | "boolean")),
    }
}
