//! The bounds of fields. A text or a list has its bound as its type ([`boxoffice_core::text::Text`], [`crate::repr::List`]). A number
//! says it once, with `#[within(…)]`, and the schema and the check are made of it.
//!
//! Only requests are checked, after they were read. So a bound that is lowered later makes nothing unreadable that is stored or
//! answered.

use std::ops::RangeInclusive;

use smol_str::{SmolStr, format_smolstr};

/// A value out of its bounds, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutOfBounds {
    /// It is empty, too small, or has what does not belong there.
    Bad(SmolStr),
    /// It is too long.
    TooLarge(SmolStr),
    /// It is no quantity.
    Quantity(SmolStr),
}

/// A value that may have bounds.
pub(crate) trait Within {
    /// Checks a number.
    ///
    /// # Errors
    /// The field with this name and its bound, in words.
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds>;
}

/// Checks a field.
///
/// # Errors
/// The field and its bound, in words.
///
/// # Panics
/// The bound is negative.
pub(crate) fn check<T: Within, N: Copy + TryInto<u64>>(
    value: &T,
    name: &str,
    bound: RangeInclusive<N>,
) -> Result<(), OutOfBounds> {
    let [least, most] = [*bound.start(), *bound.end()].map(|end| end.try_into().ok().expect("bounds are not negative"));
    value.within(name, least, most)
}

/// The unit stands at the end of the name.
impl Within for u64 {
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds> {
        if (least..=most).contains(self) {
            return Ok(());
        }
        let unit = if name.ends_with("_ms") { " milliseconds" } else { "" };
        Err(OutOfBounds::Bad(format_smolstr!("`{name}` is from {least} to {most}{unit}")))
    }
}

impl Within for u32 {
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds> {
        u64::from(*self).within(name, least, most)
    }
}

impl Within for u16 {
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds> {
        u64::from(*self).within(name, least, most)
    }
}

impl<T: Within> Within for Option<T> {
    fn within(&self, name: &str, least: u64, most: u64) -> Result<(), OutOfBounds> {
        self.as_ref().map_or(Ok(()), |value| value.within(name, least, most))
    }
}
