//! Money in whole minor units of a currency, never a float.

use core::fmt;

use boxoffice_declare::Stored;

use crate::stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer};

/// The highest price of one seat, place, unit or slot, in minor units.
pub const PRICE_MAX: i64 = 1_000_000_000_000;

/// The highest total of a cart, in minor units. Every JSON number up to it is exact.
pub const AMOUNT_MAX: i64 = (1 << 53) - 1;

/// An ISO 4217 code of three capital letters. A stored code is read if it is text, so that another rule makes nothing unreadable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Encode for Currency {
    fn encode(&self, out: &mut Writer) {
        self.as_str().encode(out);
    }
}

impl Decode for Currency {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("currency")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Currency, Error> {
        let code: [u8; 3] =
            stored::text(from)?.as_bytes().try_into().map_err(|_| Error::message("a currency has three letters"))?;
        Ok(Currency(code))
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Money {
    #[n(0)]
    pub amount: i64,
    #[n(1)]
    pub currency: Currency,
}
