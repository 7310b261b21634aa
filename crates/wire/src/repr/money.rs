//! Money and prices.

use boxoffice_core::money::{Currency, Money, PRICE_MAX};
use serde::{Deserializer, Serializer};
use serde_json::Value;

use super::{
    WireRepr, WireWrite, read_text,
    shape::{Field, Narrow, Shapes, map, shapes},
    text::pattern_schema,
};

impl WireWrite for Currency {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl WireRepr for Currency {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Currency, D::Error> {
        read_text(deserializer, "a currency (three capital letters)", Currency::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        pattern_schema::<Currency>(shapes, "Currency", "^[A-Z]{3}$", "An ISO 4217 code.")
    }
}

shapes! {
    /// An amount in minor units.
    remote Money {
        amount: i64 = -(1i64 << 53)..=1 << 53,
        currency: Currency,
    }
}

/// The schema of the money that one seat, place or unit costs.
pub(crate) struct Price;

impl Narrow for Price {
    fn narrow(self, _: Value, shapes: &mut Shapes) -> Value {
        shapes.named::<Price>("Price", |shapes| {
            let words: &[&str] = &["The price of one seat, place or unit in minor units."];
            let amount = Field {
                name: "amount",
                is_needed: true,
                schema: (0..=PRICE_MAX).narrow(i64::schema(shapes), shapes),
                words: &[],
            };
            let currency = Field { name: "currency", is_needed: true, schema: Currency::schema(shapes), words: &[] };
            map([amount, currency], &[], words)
        })
    }
}
