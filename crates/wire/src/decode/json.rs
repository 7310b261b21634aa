//! Rewrites JSON as MessagePack.

use std::fmt;

use rmp::encode::{write_bool, write_f64, write_nil, write_sint, write_str, write_uint};
use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

/// The same value in MessagePack. Fields keep their order, also if a name comes twice.
///
/// # Errors
/// The bytes are not exactly one value of JSON.
pub(super) fn to_msgpack(json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(json.len());
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Rewrite(&mut out).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(out)
}

/// Writes the next value to the end of the buffer.
struct Rewrite<'a>(&'a mut Vec<u8>);

/// Writes never fail, because the buffer grows.
const GROWS: &str = "a buffer takes everything";

impl Rewrite<'_> {
    /// Writes the head of a list or a map whose length is not known yet. Returns the place of the length.
    fn head(&mut self, marker: rmp::Marker) -> usize {
        self.0.push(marker.to_u8());
        self.0.extend_from_slice(&[0; 4]);
        self.0.len() - 4
    }

    fn set_length(&mut self, at: usize, length: u32) {
        self.0[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

impl<'de> DeserializeSeed<'de> for Rewrite<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rewrite<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        write_nil(self.0).expect(GROWS);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        write_bool(self.0, value).expect(GROWS);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        write_uint(self.0, number).expect(GROWS);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        write_sint(self.0, number).expect(GROWS);
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        write_f64(self.0, number).expect(GROWS);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        write_str(self.0, text).expect(GROWS);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (at, mut elements) = (self.head(rmp::Marker::Array32), 0);
        while list.next_element_seed(Rewrite(self.0))?.is_some() {
            elements += 1;
        }
        self.set_length(at, elements);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (at, mut pairs) = (self.head(rmp::Marker::Map32), 0);
        while map.next_key_seed(Rewrite(self.0))?.is_some() {
            map.next_value_seed(Rewrite(self.0))?;
            pairs += 1;
        }
        self.set_length(at, pairs);
        Ok(())
    }
}
