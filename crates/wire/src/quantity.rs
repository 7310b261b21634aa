//! Quantities of requests. Any number is read, so that an invalid one is refused as `bad_quantity` and not as a bad body.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    bound::{OutOfBounds, Within},
    rejection::Rejection,
    repr::plain_repr,
};

/// A number in the place of a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A whole number, not negative.
    Whole(u64),
    /// Another number, as it was written.
    Other(SmolStr),
}

plain_repr! {
    Quantity => serde_json::json!({"type": "integer", "minimum": 0});
}

impl Quantity {
    /// The number of a field that is `#[within(…)]`.
    ///
    /// # Panics
    /// The field was not checked.
    pub(crate) fn checked(&self) -> u64 {
        match self {
            Quantity::Whole(number) => *number,
            Quantity::Other(said) => panic!("a quantity that was not checked: {said}"),
        }
    }

    /// [`Quantity::checked`] for bounds of 32 bits.
    ///
    /// # Panics
    /// The field was not checked.
    pub(crate) fn checked_u32(&self) -> u32 {
        u32::try_from(self.checked()).expect("its bound is a number of 32 bits")
    }
}

impl Within for Quantity {
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds> {
        let refused = |said: &dyn fmt::Display| {
            Err(OutOfBounds::Quantity(format_smolstr!("`{name}` is a whole number from {least} to {most}, not {said}")))
        };
        match self {
            Quantity::Whole(number) if (least..=most).contains(number) => Ok(()),
            Quantity::Whole(number) => refused(number),
            Quantity::Other(said) => refused(said),
        }
    }
}

impl TryFrom<Quantity> for u32 {
    type Error = Rejection;

    fn try_from(quantity: Quantity) -> Result<u32, Rejection> {
        let number = match quantity {
            Quantity::Whole(number) => u32::try_from(number).ok(),
            Quantity::Other(_) => None,
        };
        number.ok_or_else(|| Rejection::bad_request("a quantity is a whole number of 32 bits"))
    }
}

impl From<u32> for Quantity {
    fn from(number: u32) -> Quantity {
        Quantity::Whole(number.into())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Quantity::Whole(number) => serializer.serialize_u64(*number),
            Quantity::Other(said) => serializer.serialize_str(said),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(Number)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity::Whole(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(u64::try_from(number).map_or_else(|_| Quantity::Other(format_smolstr!("{number}")), Quantity::Whole))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
        // `e` keeps the text short, whatever the number.
        Ok(Quantity::Other(format_smolstr!("{number:e}")))
    }
}
