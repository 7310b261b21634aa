//! Money: whole minor units and a currency, never a float.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The highest price of one seat, place, unit or slot, in minor units.
pub const PRICE_MAX: i64 = 1_000_000_000_000;

/// The highest total of a cart, in minor units: every number of JSON up to here is exact.
pub const AMOUNT_MAX: i64 = (1 << 53) - 1;

/// An ISO 4217 code: three capital letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The currency with this code, or `None` if it is not three capital letters.
    pub fn new(code: &str) -> Option<Currency> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_uppercase).then_some(Currency(bytes))
    }

    /// The three letters.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("a currency is three ASCII letters by construction")
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount in minor units (cents) of a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// Minor units.
    pub amount: i64,
    /// Of what.
    pub currency: Currency,
}
