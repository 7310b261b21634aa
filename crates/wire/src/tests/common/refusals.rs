//! Samples of every refusal, from the table.

use std::collections::BTreeSet;

use boxoffice_core::{
    refusal::{LineRefusal, Refusal, Shortage, TakenSeat},
    seat::SeatState,
};
use boxoffice_wire::Rejection;

use super::{id, seat};

/// The first sample of each row by code, and all others.
fn by_code<T>(mut samples: Vec<T>, code: impl Fn(&T) -> u16) -> (Vec<T>, Vec<T>) {
    samples.sort_by_key(|sample| code(sample));
    let mut met = BTreeSet::new();
    samples.into_iter().partition(|sample| met.insert(code(sample)))
}

/// Every refusal of the core once, by code.
pub fn refusals() -> Vec<Refusal> {
    by_code(Refusal::samples(), Refusal::code).0
}

/// More of them: the words for buyers differ, or other fields are shown.
pub fn other_refusals() -> Vec<Refusal> {
    by_code(Refusal::samples(), Refusal::code).1
}

/// Several lines refused at once. The refusal has the number of the first.
pub fn refused_lines() -> Refusal {
    let seats = vec![TakenSeat { seat: seat(1, 5), state: SeatState::Held }];
    let shortages = vec![Shortage { product: id("programme"), wanted: 3, free: 1, held: 6 }];
    Refusal::Lines(vec![
        LineRefusal { line: 0, refusal: Refusal::SeatsTaken(seats) },
        LineRefusal { line: 3, refusal: Refusal::OutOfStock(shortages) },
    ])
}

/// Every rejection of the client port once, by code.
pub fn rejections() -> Vec<Rejection> {
    by_code(Rejection::samples(), Rejection::code).0
}

/// More of them.
pub fn other_rejections() -> Vec<Rejection> {
    by_code(Rejection::samples(), Rejection::code).1
}
