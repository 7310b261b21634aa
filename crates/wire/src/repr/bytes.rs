//! Bytes: base64 in JSON, bytes in MessagePack.

use std::fmt;

use base64::{Engine as _, display::Base64Display, engine::general_purpose::STANDARD};
use serde::{Deserializer, Serializer, de::Visitor};
use serde_json::{Value, json};

use super::{
    read_text,
    shape::{Narrow, Shapes},
};

pub(crate) fn serialize<S: Serializer>(bytes: impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.collect_str(&Base64Display::new(bytes.as_ref(), &STANDARD))
    } else {
        serializer.serialize_bytes(bytes.as_ref())
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    if deserializer.is_human_readable() {
        read_text(deserializer, "base64", |text| STANDARD.decode(text).ok())
    } else {
        deserializer.deserialize_bytes(Plain)
    }
}

struct Plain;

impl Visitor<'_> for Plain {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_owned())
    }
}
/// The schema of bytes with a maximum length.
pub(crate) struct Base64(pub(crate) Option<usize>);

impl Narrow for Base64 {
    fn narrow(self, _: Value, _: &mut Shapes) -> Value {
        let mut schema = json!({"type": "string", "contentEncoding": "base64"});
        if let Some(bytes_max) = self.0 {
            schema["maxLength"] = json!(bytes_max.div_ceil(3) * 4);
        }
        schema
    }
}
