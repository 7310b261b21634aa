//! States of entities that clients have seen.

use boxoffice_core::{
    answer::{AreaCounts, MapView, SeatCounts, StockCounts},
    id::OrderId,
};

/// The times of a request and its answer, in milliseconds of the run.
pub(crate) type Times = (u64, u64);

/// The state of an entity at a version as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The seats (two bits each) and areas of a session.
    Map(Vec<u8>, Vec<AreaCounts>),
    /// The counts of a session.
    Counts(SeatCounts, Vec<AreaCounts>),
    /// A product.
    Stock(StockCounts),
    /// The purchase of a customer at this cursor.
    Purchase(OrderId),
}

/// The state in a map.
pub(crate) fn shown_by(map: &MapView) -> Shown {
    Shown::Map(map.seats.clone(), map.areas.clone())
}
