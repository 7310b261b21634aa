//! Decoding of the refusals of several lines. There is at least one, and none is of several lines itself. Only a broken node
//! could write others, which would have no number or no end.

use alloc::vec::Vec;
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, EnumAccess, Error, Visitor},
    forward_to_deserialize_any,
};

use super::{LineRefusal, Refusal};

/// The name of the only refusal that has others in it.
const SEVERAL: &str = "Lines";

/// At least one refusal of a line.
pub(super) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LineRefusal>, D::Error> {
    let lines = Vec::<LineRefusal>::deserialize(deserializer)?;
    if lines.is_empty() { Err(D::Error::custom("a refusal of no lines")) } else { Ok(lines) }
}

/// The refusal of one line. Its kind is checked before it is read, because lines in lines could be as deep as there are bytes.
pub(super) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Refusal, D::Error> {
    Refusal::deserialize(One(deserializer))
}

/// Reads an enum, or the name of a variant, unless it is [`SEVERAL`].
struct One<T>(T);

/// The name of a variant, by number or text, among these.
struct Named<T> {
    inner: T,
    variants: &'static [&'static str],
}

fn refused<E: Error>() -> E {
    E::custom("a refusal of lines in one of lines")
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for One<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, D::Error> {
        Err(D::Error::custom("a refusal is one of several kinds"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Named { inner: visitor, variants })
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Passes the name of the enum's variant to the check.
impl<'de, V: Visitor<'de>> Visitor<'de> for Named<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let Named { inner, variants } = self;
        inner.visit_enum(Named { inner: access, variants })
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Named<A> {
    type Error = A::Error;
    type Variant = A::Variant;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, A::Variant), A::Error> {
        let Named { inner, variants } = self;
        inner.variant_seed(Named { inner: seed, variants })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Named<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let Named { inner, variants } = self;
        inner.deserialize(Name { inner: deserializer, variants })
    }
}

/// The name of the variant itself.
struct Name<T> {
    inner: T,
    variants: &'static [&'static str],
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Name<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let Name { inner, variants } = self;
        inner.deserialize_identifier(Name { inner: visitor, variants })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Name<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V::Value, E> {
        let name = usize::try_from(number).ok().and_then(|number| self.variants.get(number));
        if name == Some(&SEVERAL) { Err(refused()) } else { self.inner.visit_u64(number) }
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        if name == SEVERAL { Err(refused()) } else { self.inner.visit_str(name) }
    }
}
