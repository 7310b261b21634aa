//! Samples of frames of feeds.

use boxoffice_core::{
    answer::{SeatCounts, StockCounts},
    id::Entity,
    seat::SeatState,
};
use boxoffice_wire::{
    feed::{
        CartDelta, CartSnapshot, CountsDelta, CountsSnapshot, Delta, ProductDelta, ProductSnapshot, PurchasesDelta,
        PurchasesSnapshot, ResourceDelta, ResourceSnapshot, Snapshot,
    },
    reply::{CountsWatching, SessionFeed},
    view::Purchase,
};

use super::{area_counts, cart, cart_view, counts, empty_cart_view, id, packed, purchase, stock_counts};

pub fn snapshot() -> Snapshot {
    let entity = Entity::Session(id("hamlet-tonight"));
    Snapshot { entity, epoch: 1, version: 391, counts: counts(), areas: Vec::new(), seats: packed(), sale: None }
}

pub fn delta() -> Delta {
    let changes = vec![(0, SeatState::Held), (4, SeatState::Held)];
    Delta {
        from: 391,
        to: 392,
        changes,
        counts: SeatCounts { free: 0, held: 3, ..counts() },
        areas: Vec::new(),
        sale: None,
    }
}

pub fn area_snapshot() -> Snapshot {
    Snapshot { areas: vec![area_counts()], ..snapshot() }
}

pub fn area_delta() -> Delta {
    Delta { changes: Vec::new(), counts: counts(), areas: vec![area_counts()], ..delta() }
}

pub fn watching_counts() -> CountsWatching {
    let feeds = vec![SessionFeed { session: id("hamlet-tonight"), feed: 3 }];
    CountsWatching { feeds, missing: vec![id("hamlet-matinee")], unreachable: vec![id("hamlet-late")] }
}

pub fn counts_snapshot() -> CountsSnapshot {
    let Snapshot { entity, epoch, version, counts, areas, .. } = area_snapshot();
    CountsSnapshot { entity, epoch, version, counts, areas, sale: None }
}

pub fn counts_delta() -> CountsDelta {
    let Delta { from, to, counts, .. } = delta();
    CountsDelta { from, to, counts, areas: Vec::new(), sale: None }
}

pub fn product_snapshot() -> ProductSnapshot {
    ProductSnapshot { entity: Entity::Product(id("programme")), epoch: 1, version: 12, counts: stock_counts() }
}

pub fn product_delta() -> ProductDelta {
    ProductDelta { from: 12, to: 13, counts: StockCounts { free: 6, held: 3, sold: 1 } }
}

pub fn resource_snapshot() -> ResourceSnapshot {
    ResourceSnapshot { entity: Entity::Resource(id("room-5")), epoch: 1, version: 7, bookings: 3 }
}

pub fn resource_delta() -> ResourceDelta {
    ResourceDelta { from: 7, to: 8, days: vec![20_555, 20_556], bookings: 4 }
}

pub fn cart_snapshot() -> CartSnapshot {
    CartSnapshot { entity: Entity::Cart(cart()), epoch: 1, version: 2, cart: (&empty_cart_view()).into() }
}

pub fn cart_delta() -> CartDelta {
    CartDelta { from: 2, to: 3, cart: (&cart_view()).into() }
}

pub fn purchases_snapshot() -> PurchasesSnapshot {
    PurchasesSnapshot {
        entity: Entity::Customer(id("ada")),
        epoch: Some(1),
        from: 2,
        to: 3,
        purchases: vec![purchase().into()],
    }
}

pub fn purchases_delta() -> PurchasesDelta {
    PurchasesDelta { from: 3, to: 4, purchases: vec![Purchase { cursor: 4, ..purchase().into() }] }
}
