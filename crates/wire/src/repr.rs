//! The representation of the core's values on the wire, the same for both encodings.
//!
//! The core's own serialization is for its log. The representation here is for clients and never changes. Ids are text,
//! carts and orders 32 hexadecimal digits, seats `[row, seat]`, states words. Times are RFC 3339 in JSON and milliseconds in
//! MessagePack. Packed maps are base64 in JSON and bytes in MessagePack. Fields use it with `#[serde(with = "repr")]`.

// In reading order: schemas, the parts that other representations use, then the values of the core.
pub mod shape;

mod list;
mod map;
mod text;

pub(crate) mod bytes;
mod id;
mod money;
mod names;
mod seat;
mod time;

pub(crate) mod answer;
pub(crate) mod audit;
pub(crate) mod calendar;
pub(crate) mod layout_cache;
pub(crate) mod line;
pub(crate) mod order;
pub(crate) mod payment;
pub(crate) mod stock;
mod written;

use std::{borrow::Cow, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::{list::read_list, shape::Shapes};
use crate::{bound::OutOfBounds, newer::Newer};

pub(crate) use self::{
    bytes::Base64,
    list::{Bounded, ListOf, OptionalBounded},
    map::{Pairs, map_repr},
    money::Price,
    text::{read_text, shortened},
    time::{Day, WallTime, is_date, wall_time},
};
pub use self::{
    id::{cart_id, cart_token, cart_token_text, entity, order_id},
    list::List,
    seat::seat_state_text,
    time::{day, day_text, rfc3339, timestamp},
};

/// A value that can be written to the wire. The core's answers can only be written: clients read them as views ([`crate::view`]).
pub trait WireWrite {
    /// Writes the value.
    ///
    /// # Errors
    /// Those of the serializer.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

/// A value with a representation on the wire.
pub trait WireRepr: WireWrite + Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// Those of the deserializer, and why the input is not such a value, in words.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// The JSON Schema. For a shape with a name, a reference to its schema in `shapes`.
    fn schema(shapes: &mut Shapes) -> Value;

    /// Adds the fields of the value that are newer than 1.0. A value without fields has none.
    fn newer(_: &mut Newer) {}

    /// Checks the bounds of the fields in the value. A value without fields has none.
    ///
    /// # Errors
    /// The first field out of its bounds, in words.
    fn check(&self) -> Result<(), OutOfBounds> {
        Ok(())
    }

    /// Checks the value as a field of this name. A type that is a bound checks itself.
    ///
    /// # Errors
    /// The first field out of its bounds, in words.
    fn check_field(&self, _name: &str) -> Result<(), OutOfBounds> {
        self.check()
    }
}

/// For `#[serde(with = "repr")]`.
pub(crate) fn serialize<T: WireWrite, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// For `#[serde(with = "repr")]`.
pub(crate) fn deserialize<'de, T: WireRepr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// A value to be written.
pub(crate) struct ToWire<'a, T>(pub(crate) &'a T);

impl<T: WireWrite> Serialize for ToWire<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// A value that was read.
pub(crate) struct FromWire<T>(pub(crate) T);

impl<'de, T: WireRepr> Deserialize<'de> for FromWire<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FromWire<T>, D::Error> {
        T::read(deserializer).map(FromWire)
    }
}

/// Whether a field with this value is omitted.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Represents types by their own serde implementations.
macro_rules! plain_repr {
    ($($($value:ty),+ => $schema:expr;)+) => {$($(
        impl $crate::repr::WireWrite for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl $crate::repr::WireRepr for $value {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn schema(_: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
                $schema
            }
        }
    )+)+};
}
pub(crate) use plain_repr;

plain_repr! {
    u8, u16, u32, u64 => json!({"type": "integer", "minimum": 0});
    i32, i64 => json!({"type": "integer"});
    f64 => json!({"type": "number"});
    bool => json!({"type": "boolean"});
    SmolStr, String, Cow<'static, str> => json!({"type": "string"});
    // A time or a position.
    (u16, u16) => json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2});
    (i32, i32) => json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2});
}

/// The answers of the core that clients read as views of the same names.
pub(crate) mod decided {
    pub(crate) use boxoffice_core::{answer::*, payment::*};
}

/// Writes types as other ones, into which clones of them are converted, by way of a view if one is named.
macro_rules! written_as {
    ($($value:ty: $shape:ty $(= $view:ident)?),+ $(,)?) => {$(
        impl $crate::repr::WireWrite for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let value = self.clone();
                $(let value = $view::from(value);)?
                serde::Serialize::serialize(&<$shape>::from(value), serializer)
            }
        }
    )+};
}
pub(crate) use written_as;

/// Represents a type by another one, with conversions in both directions.
macro_rules! repr_of {
    ($($value:ty: $shape:ty),+ $(,)?) => {$(
        $crate::repr::written_as!($value: $shape);

        impl $crate::repr::WireRepr for $value {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let shape: $shape = serde::Deserialize::deserialize(deserializer)?;
                shape.try_into().map_err(serde::de::Error::custom)
            }

            fn schema(shapes: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
                <$shape as $crate::repr::WireRepr>::schema(shapes)
            }
        }
    )+};
}
pub(crate) use repr_of;

/// Represents a type by a shape with the same fields. Each is given as the pattern that takes it apart.
macro_rules! same_fields {
    ($($value:ty: [$($values:tt)*] = $shape:ident { $($fields:tt)* }),+ $(,)?) => {$(
        $crate::repr::repr_of!($value: $shape);

        impl From<$value> for $shape {
            fn from($($values)*: $value) -> $shape {
                $shape { $($fields)* }
            }
        }

        impl From<$shape> for $value {
            fn from($shape { $($fields)* }: $shape) -> $value {
                $($values)*
            }
        }
    )+};
}
pub(crate) use same_fields;

/// Represents the variants of an enum by words.
macro_rules! words {
    ($($(#[doc = $words:literal])? $value:ident as $component:ident { $($variant:ident: $word:literal),+ $(,)? })+) => {$(
        impl $crate::repr::WireWrite for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::repr::Word::word(self))
            }
        }

        impl $crate::repr::WireRepr for $value {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::repr::read_text(deserializer, concat!("one of", $(" `", $word, "`"),+), |text| match text {
                    $($word => Some($value::$variant),)+
                    _ => None,
                })
            }

            fn schema(shapes: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
                let words = || serde_json::json!({"type": "string", "enum": [$($word),+]});
                shapes.named::<Self>(stringify!($component), |_| $crate::repr::shape::described(words(), &[$($words)?]))
            }
        }

        impl $crate::repr::Word for $value {
            fn word(&self) -> &'static str {
                match self {
                    $($value::$variant => $word,)+
                }
            }
        }
    )+};
}
pub(crate) use words;

/// Declares views that have the fields of the core's values of the same names, and names the shapes by which both are told.
macro_rules! views {
    ($(
        $(#[doc = $doc:literal])+
        $view:ident by $shape:ident { $($(#[doc = $words:literal])* $field:ident: $type:ty,)+ }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $view {
            $($(#[doc = $words])* pub $field: $type,)+
        }

        $crate::repr::written_as! { $crate::repr::decided::$view: $shape = $view }

        impl From<$crate::repr::decided::$view> for $view {
            fn from(value: $crate::repr::decided::$view) -> $view {
                let $crate::repr::decided::$view { $($field,)+ } = value;
                $view { $($field,)+ }
            }
        }
    )+};
}
pub(crate) use views;

/// Declares views of enums of the core, whose variants are represented by words.
macro_rules! view_words {
    ($($(#[doc = $doc:literal])* $value:ident { $($variant:ident: $word:literal),+ $(,)? })+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $value {
            $($variant,)+
        }

        impl $value {
            /// Its word on the wire.
            pub fn as_str(self) -> &'static str {
                $crate::repr::Word::word(&self)
            }
        }

        $crate::repr::words! { $value as $value { $($variant: $word),+ } }

        impl From<$crate::repr::decided::$value> for $value {
            fn from(value: $crate::repr::decided::$value) -> $value {
                match value {
                    $($crate::repr::decided::$value::$variant => $value::$variant,)+
                }
            }
        }

        impl $crate::repr::WireWrite for $crate::repr::decided::$value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $value::from(*self).write(serializer)
            }
        }
    )+};
}
pub(crate) use view_words;

/// An enum with a word for each variant.
pub(crate) trait Word {
    fn word(&self) -> &'static str;
}

impl<T: WireWrite> WireWrite for Vec<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for value in self {
            list.serialize_element(&ToWire(value))?;
        }
        list.end()
    }
}

impl<T: WireRepr> WireRepr for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        read_list(deserializer, usize::MAX)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        json!({"type": "array", "items": T::schema(shapes)})
    }

    fn newer(newer: &mut Newer) {
        newer.each(T::newer);
    }

    fn check_field(&self, name: &str) -> Result<(), OutOfBounds> {
        self.iter().try_for_each(|value| value.check_field(name))
    }
}

impl<T: WireWrite> WireWrite for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&ToWire(value)),
            None => serializer.serialize_none(),
        }
    }
}

impl<T: WireRepr> WireRepr for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Ok(Option::<FromWire<T>>::deserialize(deserializer)?.map(|FromWire(value)| value))
    }

    fn schema(shapes: &mut Shapes) -> Value {
        T::schema(shapes)
    }

    fn newer(newer: &mut Newer) {
        T::newer(newer);
    }

    fn check(&self) -> Result<(), OutOfBounds> {
        self.as_ref().map_or(Ok(()), T::check)
    }

    fn check_field(&self, name: &str) -> Result<(), OutOfBounds> {
        self.as_ref().map_or(Ok(()), |value| value.check_field(name))
    }
}

impl<T: WireWrite> WireWrite for Arc<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::write(self, serializer)
    }
}

impl<T: WireRepr> WireRepr for Arc<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        T::read(deserializer).map(Arc::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        T::schema(shapes)
    }

    fn newer(newer: &mut Newer) {
        T::newer(newer);
    }
}

/// A map with no fields.
pub(crate) struct Done;

impl Done {
    pub(crate) fn schema(shapes: &mut Shapes) -> Value {
        shapes.named::<Done>("Done", |_| json!({"type": "object", "description": "Done."}))
    }
}

impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_struct("Nothing", 0)?.end()
    }
}
