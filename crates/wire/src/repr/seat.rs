//! Seats and their states.

use boxoffice_core::seat::{Seat, SeatState};
use serde::{Deserialize, Deserializer, Serializer, ser::SerializeTuple};
use serde_json::Value;

use super::{
    WireRepr, WireWrite, Word,
    shape::{Each, Narrow, Shapes, described},
    words,
};

impl WireWrite for Seat {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.row)?;
        pair.serialize_element(&self.seat)?;
        pair.end()
    }
}

impl WireRepr for Seat {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seat, D::Error> {
        let (row, seat) = <(u16, u16)>::deserialize(deserializer)?;
        Ok(Seat { row, seat })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let words = "`[row, seat]`, counted from 0 in layout order.";
        shapes.named::<Seat>("Seat", |shapes| {
            described(Each(0..=u16::MAX).narrow(<(u16, u16)>::schema(shapes), shapes), &[words])
        })
    }
}

words! {
    SeatState as SeatState { Free: "free", Held: "held", Sold: "sold", Blocked: "blocked" }
}

/// The protocol's word for a state.
pub fn seat_state_text(state: SeatState) -> &'static str {
    state.word()
}
