//! Quantities of requests. Any number is read, so that an invalid one is refused as `bad_quantity` and not as a bad body.

use std::fmt;

use boxoffice_core::refusal::Refusal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use smol_str::{SmolStr, format_smolstr};

use crate::{rejection::Rejection, repr::plain_repr};

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
    /// The quantity, if it is from `least` to `most`.
    ///
    /// # Errors
    /// `bad_quantity` with the reason.
    pub(crate) fn within(&self, name: &str, least: u64, most: u64) -> Result<u64, Rejection> {
        let refused = |said: &dyn fmt::Display| {
            Refusal::BadQuantity(format_smolstr!("`{name}` is a whole number from {least} to {most}, not {said}"))
        };
        match self {
            Quantity::Whole(number) if (least..=most).contains(number) => Ok(*number),
            Quantity::Whole(number) => Err(refused(number).into()),
            Quantity::Other(said) => Err(refused(said).into()),
        }
    }

    /// [`Quantity::within`] for 32 bits.
    pub(crate) fn within_u32(&self, name: &str, least: u32, most: u32) -> Result<u32, Rejection> {
        let number = self.within(name, least.into(), most.into())?;
        Ok(u32::try_from(number).expect("it is at most a number of 32 bits"))
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
