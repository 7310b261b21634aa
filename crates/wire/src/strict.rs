//! Strict reading of bodies. Unknown fields are found and named, at every depth.
//!
//! Otherwise a misspelt optional field would be dropped silently. With `limit` for `limits`, a session would have no limits.
//! Requests are strict and not the types: answers are read with the same types leniently.

use std::fmt;

use serde::{
    de::{
        DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess,
        Visitor, value::UnitDeserializer,
    },
    forward_to_deserialize_any,
};

use crate::{Encoding, Op, rejection::Rejection, repr::shortened};

/// The maximum of names in a refusal. The rest is only counted.
const SHOWN_MAX: usize = 5;

/// Unknown fields, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    shown: Vec<String>,
    more: usize,
}

impl Unknown {
    /// Adds a field in the map at `path`. `known` are the names of the map.
    fn note(&mut self, path: &Path<'_>, name: &str, known: &[&str]) {
        self.add(|| {
            let shown = match path {
                Path::Body => shortened(name).into_owned(),
                Path::Field { .. } | Path::Element { .. } => format!("{path}.{}", shortened(name)),
            };
            match closest(name, known) {
                Some(meant) => format!("`{shown}` (did you mean `{meant}`?)"),
                None => format!("`{shown}`"),
            }
        });
    }

    /// Adds a field of an envelope.
    pub(crate) fn note_field(&mut self, name: &str, known: &[&str]) {
        self.note(&Path::Body, name, known);
    }

    fn add(&mut self, shown: impl FnOnce() -> String) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(shown());
        } else {
            self.more += 1;
        }
    }

    /// Refuses a request with unknown fields, if its op is strict.
    pub(crate) fn refuse_of(&self, op: Op) -> Result<(), Rejection> {
        match self.words() {
            Some(words) if op.is_strict() => Err(Rejection::bad_request(words)),
            Some(_) | None => Ok(()),
        }
    }

    /// The fields in words. `None` if there are none.
    fn words(&self) -> Option<String> {
        if self.shown.is_empty() {
            return None;
        }
        let fields = if self.shown.len() + self.more == 1 { "field" } else { "fields" };
        let more = if self.more == 0 { String::new() } else { format!(" and {} more", self.more) };
        Some(format!("unknown {fields} {}{more}", self.shown.join(", ")))
    }
}

/// The value of these bytes, if every field in them is known.
///
/// # Errors
/// The names of unknown fields, and other errors, in words.
pub(crate) fn read<T: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<T, String> {
    let mut unknown = Unknown::default();
    let read = match encoding {
        Encoding::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            T::deserialize(Strict { inner: &mut deserializer, path: &Path::Body, unknown: &mut unknown })
                .and_then(|value| deserializer.end().map(|()| value))
                .map_err(|error| error.to_string())
        }
        Encoding::MsgPack => {
            let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
            T::deserialize(Strict { inner: &mut deserializer, path: &Path::Body, unknown: &mut unknown })
                .map_err(|error| error.to_string())
        }
    };
    match (unknown.words(), read) {
        (None, read) => read,
        (Some(words), Ok(_)) => Err(words),
        // A missing field has often been misspelt, so both are told.
        (Some(words), Err(reason)) => Err(format!("{words}; {reason}")),
    }
}

/// The known name that was probably meant.
fn closest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // A longer name is not a misspelling, and the distance costs the product of both lengths.
    const NAME_BYTES_MAX: usize = 32;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let distances = known.iter().map(|known| (distance(lower.as_bytes(), known.as_bytes()), *known));
    let (distance, known) = distances.min()?;
    // A third of the letters may be wrong. So `seat` means `seats`, and `row` does not mean `rid`.
    (distance <= known.len() / 3).then_some(known)
}

/// The Levenshtein distance.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The path to a value in a body.
#[derive(Clone, Copy)]
enum Path<'p> {
    Body,
    Field { of: &'p Path<'p>, name: &'p str },
    Element { of: &'p Path<'p>, index: usize },
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Body => Ok(()),
            Path::Field { of: Path::Body, name } => f.write_str(&shortened(name)),
            Path::Field { of, name } => write!(f, "{of}.{}", shortened(name)),
            Path::Element { of, index } => write!(f, "{of}[{index}]"),
        }
    }
}

/// A deserializer that notes unknown fields, at every depth.
struct Strict<'a, D> {
    inner: D,
    path: &'a Path<'a>,
    unknown: &'a mut Unknown,
}

impl<'a, D> Strict<'a, D> {
    /// The strict visitor. `fields` are the names of a map with named fields.
    fn visit<V>(self, visitor: V, fields: Option<&'static [&'static str]>) -> (D, StrictVisitor<'a, V>) {
        (self.inner, StrictVisitor { visitor, fields, path: self.path, unknown: self.unknown })
    }
}

/// Methods of a deserializer whose values may have fields inside.
macro_rules! visits {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let (inner, visitor) = self.visit(visitor, None);
            inner.$method(visitor)
        }
    )*};
}

/// Methods of a deserializer whose values have nothing inside.
macro_rules! passes {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    visits! { deserialize_any deserialize_option deserialize_seq deserialize_map }

    passes! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let (inner, visitor) = self.visit(visitor, Some(fields));
        inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        let (inner, visitor) = self.visit(visitor, None);
        inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let (inner, visitor) = self.visit(visitor, None);
        inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let (inner, visitor) = self.visit(visitor, None);
        inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let (inner, visitor) = self.visit(visitor, None);
        inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

struct StrictVisitor<'a, V> {
    visitor: V,
    fields: Option<&'static [&'static str]>,
    path: &'a Path<'a>,
    unknown: &'a mut Unknown,
}

/// Methods of a visitor that take a plain value.
macro_rules! takes {
    ($($method:ident $value:ty,)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $value) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    takes! {
        visit_bool bool, visit_i64 i64, visit_i128 i128, visit_u64 u64, visit_u128 u128, visit_f64 f64,
        visit_char char, visit_str &str, visit_borrowed_str &'de str, visit_string String,
        visit_bytes &[u8], visit_borrowed_bytes &'de [u8], visit_byte_buf Vec<u8>,
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict { inner, path: self.path, unknown: self.unknown })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict { inner, path: self.path, unknown: self.unknown })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        if self.fields.is_some() {
            // Serde would read a list as the fields in their order.
            let path = self.path;
            return Err(A::Error::custom(format_args!("`{path}` is a map of fields, not a list")));
        }
        self.visitor.visit_seq(Elements { inner, index: 0, path: self.path, unknown: self.unknown })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let key = Key::Known("");
        self.visitor.visit_map(Fields { inner, fields: self.fields, key, path: self.path, unknown: self.unknown })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(inner)
    }
}

struct Elements<'a, A> {
    inner: A,
    index: usize,
    path: &'a Path<'a>,
    unknown: &'a mut Unknown,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let path = Path::Element { of: self.path, index: self.index };
        self.index += 1;
        self.inner.next_element_seed(Seed { seed, path: &path, unknown: self.unknown })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The name of the next value's field.
enum Key {
    /// One of the names of the map.
    Known(&'static str),
    /// A name of a map that has any names.
    Any(String),
    /// A name that the map does not have.
    Unknown(String),
}

struct Fields<'a, A> {
    inner: A,
    /// The known names. `None` for a map with any names.
    fields: Option<&'static [&'static str]>,
    key: Key,
    path: &'a Path<'a>,
    unknown: &'a mut Unknown,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(KeySeed { seed, fields: self.fields, key: &mut self.key })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let name = match &self.key {
            Key::Known(name) => name,
            Key::Any(name) => name.as_str(),
            Key::Unknown(name) => {
                // `null` is the same as absent.
                if !self.inner.next_value::<IsNothing>()?.0 {
                    self.unknown.note(self.path, name, self.fields.unwrap_or_default());
                }
                return seed.deserialize(UnitDeserializer::new());
            }
        };
        let path = Path::Field { of: self.path, name };
        self.inner.next_value_seed(Seed { seed, path: &path, unknown: self.unknown })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Seed<'a, S> {
    seed: S,
    path: &'a Path<'a>,
    unknown: &'a mut Unknown,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Strict { inner, path: self.path, unknown: self.unknown })
    }
}

/// Reads the name of a field and remembers it.
struct KeySeed<'a, S> {
    seed: S,
    fields: Option<&'static [&'static str]>,
    key: &'a mut Key,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(KeyDeserializer { inner, fields: self.fields, key: self.key })
    }
}

struct KeyDeserializer<'a, D> {
    inner: D,
    fields: Option<&'static [&'static str]>,
    key: &'a mut Key,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for KeyDeserializer<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        // Names are text. Serde would also read numbers and bytes as names.
        self.inner.deserialize_str(KeyVisitor { visitor, fields: self.fields, key: self.key })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

struct KeyVisitor<'a, V> {
    visitor: V,
    fields: Option<&'static [&'static str]>,
    key: &'a mut Key,
}

impl<V> KeyVisitor<'_, V> {
    fn remember(&mut self, name: &str) {
        *self.key = match self.fields {
            None => Key::Any(name.to_owned()),
            Some(fields) => match fields.iter().find(|field| **field == name) {
                Some(field) => Key::Known(field),
                None => Key::Unknown(shortened(name).into_owned()),
            },
        };
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KeyVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(mut self, name: &str) -> Result<V::Value, E> {
        self.remember(name);
        self.visitor.visit_str(name)
    }

    fn visit_borrowed_str<E: serde::de::Error>(mut self, name: &'de str) -> Result<V::Value, E> {
        self.remember(name);
        self.visitor.visit_borrowed_str(name)
    }
}

/// Whether a value is `null`.
struct IsNothing(bool);

impl<'de> serde::Deserialize<'de> for IsNothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IsNothing, D::Error> {
        Ok(IsNothing(Option::<IgnoredAny>::deserialize(deserializer)?.is_none()))
    }
}
