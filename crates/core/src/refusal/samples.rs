//! Values of the samples.

use alloc::{vec, vec::Vec};

use super::{Conflict, Shortage, TakenSeat};
use crate::{
    id::Id,
    money::{Currency, Money},
    seat::{Seat, SeatState},
    time::Timestamp,
};

pub(super) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

pub(super) fn seat(row: u16, seat: u16) -> Seat {
    Seat { row, seat }
}

pub(super) fn taken() -> Vec<TakenSeat> {
    vec![TakenSeat { seat: seat(1, 5), state: SeatState::Held }, TakenSeat { seat: seat(1, 7), state: SeatState::Sold }]
}

pub(super) fn euro(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a good currency") }
}

pub(super) fn dollar() -> Currency {
    Currency::new("USD").expect("a good currency")
}

pub(super) fn short(product: &str, free: u64, held: u64) -> Shortage {
    Shortage { product: id(product), wanted: 3, free, held }
}

/// On 12 April 2026 from noon to one.
pub(super) fn conflict() -> Conflict {
    Conflict {
        begin: Timestamp(1_775_995_200_000),
        end: Timestamp(1_775_998_800_000),
        why: "booking/choir is there".into(),
        booking: Some("choir".into()),
    }
}
