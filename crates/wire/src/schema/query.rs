//! Query strings as bodies. The schema of a field says how its value is read.

use std::borrow::Cow;

use serde_json::{Map, Value};
use smol_str::format_smolstr;

use super::{components, of};
use crate::{Op, Rejection, repr::shortened};

/// The header with the token of the cart that a read is about.
pub const CART_TOKEN_HEADER: &str = "boxoffice-cart-token";

/// The schema of carts' tokens, the secrets that bodies of reads have.
const SECRET: &str = "Token";

/// The fields of a query string as a JSON body.
///
/// A secret must not be in it, because proxies and browsers keep addresses. It comes as a header, or in the body of a `POST`.
///
/// Text is plain. Numbers, booleans, lists and maps are JSON. Unknown fields are ignored as in the bodies of reads, because
/// only reads have query strings.
///
/// # Errors
/// `bad_request` for a value of the wrong type, a field that comes twice, or a secret.
pub fn body_of_query<'a>(
    op: Op,
    fields: impl IntoIterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<Vec<u8>, Rejection> {
    let properties = &of(op).request["properties"];
    let mut body = Map::new();
    for (name, value) in fields {
        let Some(schema) = properties.get(&*name) else { continue };
        if is_secret(schema) {
            return Err(Rejection::bad_request(format_smolstr!(
                "`{name}` is secret, and addresses are kept in logs: send it as the header Boxoffice-Cart-Token, or POST the body"
            )));
        }
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

/// The body of a read with the token of the header [`CART_TOKEN_HEADER`], if the op takes one and the body has none.
///
/// # Errors
/// `bad_request` if the body has another token. A body that is no map is left as it is.
pub fn with_cart_token(op: Op, body: &[u8], token: &str) -> Result<Option<Vec<u8>>, Rejection> {
    let Some(field) = secret_field(op) else { return Ok(None) };
    let mut body: Map<String, Value> = match body {
        [] => Map::new(),
        body => match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(_) => return Ok(None),
        },
    };
    match body.get(field) {
        Some(Value::String(there)) if there == token => Ok(None),
        Some(_) => Err(Rejection::bad_request("the body has another token than the header Boxoffice-Cart-Token")),
        None => {
            body.insert(field.to_owned(), Value::String(token.to_owned()));
            Ok(Some(serde_json::to_vec(&body).expect("a map of JSON is JSON")))
        }
    }
}

/// The field of an op's body that has a cart's token.
fn secret_field(op: Op) -> Option<&'static str> {
    let properties = of(op).request["properties"].as_object()?;
    properties.iter().find(|(_, schema)| is_secret(schema)).map(|(name, _)| name.as_str())
}

/// Whether the values of a field are secret.
pub(super) fn is_secret(schema: &Value) -> bool {
    schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) == Some(SECRET)
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
