//! The names of the fields that serde reads of a type: schemas are held against them.

use std::fmt;

use serde::{
    de::{DeserializeOwned, Deserializer, Error, Visitor},
    forward_to_deserialize_any,
};

/// The names of the fields of a type that is read as a map with named fields.
///
/// # Panics
/// If it is read as anything else: then there are no names to compare with.
pub(super) fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut seen = None;
    // It ends as soon as the names are known.
    let _ = T::deserialize(Look(&mut seen));
    seen.unwrap_or_else(|| panic!("{} is not read field by field", std::any::type_name::<T>()))
}

struct Look<'a>(&'a mut Option<&'static [&'static str]>);

#[derive(Debug)]
struct Enough;

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only the names were wanted")
    }
}

impl std::error::Error for Enough {}

impl Error for Enough {
    fn custom<T: fmt::Display>(_: T) -> Enough {
        Enough
    }
}

impl<'de> Deserializer<'de> for Look<'_> {
    type Error = Enough;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Enough> {
        *self.0 = Some(fields);
        Err(Enough)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Enough> {
        Err(Enough)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
