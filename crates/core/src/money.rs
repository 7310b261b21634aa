//! Money in whole minor units of a currency, never a float.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The highest price of one seat, place, unit or slot, in minor units.
pub const PRICE_MAX: i64 = 1_000_000_000_000;

/// The highest total of a cart, in minor units. Every JSON number up to it is exact.
pub const AMOUNT_MAX: i64 = (1 << 53) - 1;

/// An ISO 4217 code of three capital letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u8; 3]")]
pub struct Currency([u8; 3]);

impl TryFrom<[u8; 3]> for Currency {
    type Error = &'static str;

    fn try_from(code: [u8; 3]) -> Result<Currency, &'static str> {
        if code.iter().all(u8::is_ascii_uppercase) {
            Ok(Currency(code))
        } else {
            Err("a currency is three capital letters")
        }
    }
}

impl Currency {
    /// The currency with this code, or `None` if it is not three capital letters.
    pub fn new(code: &str) -> Option<Currency> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        Currency::try_from(bytes).ok()
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
    pub amount: i64,
    pub currency: Currency,
}
