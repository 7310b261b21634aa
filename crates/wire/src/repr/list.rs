//! Lists with bounds, and lists with a maximum length.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
    ser::SerializeSeq,
};
use serde_json::{Value, json};
use smol_str::format_smolstr;

use super::{FromWire, WireRepr, WireWrite, shape::Shapes};
use crate::{bound::OutOfBounds, newer::Newer};

/// A list of `MIN` to `MAX` values, for the bodies of requests. One more is read, to see that there are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// The list as commands have it.
    pub fn into_plain(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MIN: usize, const MAX: usize> Default for List<T, MIN, MAX> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T, const MIN: usize, const MAX: usize> FromIterator<T> for List<T, MIN, MAX> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        List(values.into_iter().collect())
    }
}

impl<T: WireWrite, const MIN: usize, const MAX: usize> WireWrite for List<T, MIN, MAX> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

impl<T: WireRepr, const MIN: usize, const MAX: usize> WireRepr for List<T, MIN, MAX> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_list(deserializer, MAX).map(List)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let mut schema = json!({"type": "array", "items": T::schema(shapes), "maxItems": MAX});
        if MIN > 0 {
            schema["minItems"] = json!(MIN);
        }
        schema
    }

    fn newer(newer: &mut Newer) {
        newer.each(T::newer);
    }

    fn check_field(&self, name: &str) -> Result<(), OutOfBounds> {
        match self.0.len() {
            length if length < MIN => Err(OutOfBounds::Bad(format_smolstr!("`{name}` is empty"))),
            length if length > MAX => Err(OutOfBounds::TooLarge(format_smolstr!("`{name}` has at most {MAX} entries"))),
            _ => self.0.check_field(name),
        }
    }
}

/// A list of at most `MAX` values. One more is read, to see that there are too many.
pub(crate) struct Bounded<const MAX: usize>;

impl<const MAX: usize> Bounded<MAX> {
    pub(crate) fn serialize<T: WireRepr, S: Serializer>(values: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        values.write(serializer)
    }

    pub(crate) fn deserialize<'de, T: WireRepr, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        read_list(deserializer, MAX)
    }
}

/// [`Bounded`] for an optional list.
pub(crate) struct OptionalBounded<const MAX: usize>;

impl<const MAX: usize> OptionalBounded<MAX> {
    pub(crate) fn serialize<T: WireRepr, S: Serializer>(
        values: &Option<Vec<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values.write(serializer)
    }

    pub(crate) fn deserialize<'de, T: WireRepr, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        Ok(Option::<AtMost<T, MAX>>::deserialize(deserializer)?.map(|AtMost(values)| values))
    }
}

struct AtMost<T, const MAX: usize>(Vec<T>);

impl<'de, T: WireRepr, const MAX: usize> Deserialize<'de> for AtMost<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AtMost<T, MAX>, D::Error> {
        read_list(deserializer, MAX).map(AtMost)
    }
}

/// Entries reserved before a list is read. A larger claimed length is not trusted.
const RESERVED_ENTRIES: usize = 32;

/// Reads a list of at most this many values and one more.
pub(super) fn read_list<'de, T: WireRepr, D: Deserializer<'de>>(
    deserializer: D,
    max: usize,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(ListVisitor { max, of: PhantomData })
}

struct ListVisitor<T> {
    max: usize,
    of: PhantomData<T>,
}

impl<'de, T: WireRepr> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::with_capacity(list.size_hint().unwrap_or(0).min(RESERVED_ENTRIES));
        while let Some(FromWire(value)) = list.next_element::<FromWire<T>>()? {
            values.push(value);
            if values.len() > self.max {
                while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(values)
    }
}

/// A list written directly from an iterator that knows its length.
pub(crate) struct ListOf<F>(pub(crate) F);

impl<F, I> Serialize for ListOf<F>
where
    F: Fn() -> I,
    I: ExactSizeIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = (self.0)();
        let mut list = serializer.serialize_seq(Some(values.len()))?;
        for value in values {
            list.serialize_element(&value)?;
        }
        list.end()
    }
}
