//! What clients were shown of an entity, and when.

use boxoffice_core::{
    answer::{AreaCounts, MapView, SeatCounts, StockCounts},
    id::OrderId,
};

/// When something was asked and answered, in milliseconds of the run.
pub(crate) type Times = (u64, u64);

/// What watchers are shown of an entity at a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A session: two bits a seat, and its areas.
    Map(Vec<u8>, Vec<AreaCounts>),
    /// A session in counts.
    Counts(SeatCounts, Vec<AreaCounts>),
    /// A product.
    Stock(StockCounts),
    /// What a customer bought with this cursor.
    Purchase(OrderId),
}

/// What a map that was read shows.
pub(crate) fn shown_by(map: &MapView) -> Shown {
    Shown::Map(map.seats.clone(), map.areas.clone())
}
