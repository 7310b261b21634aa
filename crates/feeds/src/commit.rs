//! Commits that are handed to the hub, and how several become one.

use std::collections::BTreeSet;

use boxoffice_core::stored::Stored;
use boxoffice_core::{
    answer::{AreaCounts, CartView, Purchase, SaleMark, StockCounts},
    id::Entity,
    seat::SeatState,
};

/// Days that one delta of a resource can name. Beyond it watchers receive a snapshot, which means that any day may have
/// changed.
pub const DAYS_MAX: usize = 1_024;

/// A customer's purchases that wait to be published. Beyond it they are read from the store.
pub(super) const PURCHASES_WAITING_MAX: usize = 1_024;

/// A change of one entity by one pass of the replication thread.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Commit {
    #[n(0)]
    pub entity: Entity,
    /// Its version before, or a customer's cursor.
    #[n(1)]
    pub from: u64,
    /// Its version after, or a customer's cursor.
    #[n(2)]
    pub to: u64,
    #[n(3)]
    pub update: FeedUpdate,
}

/// The changed parts of an entity with their new state.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum FeedUpdate {
    /// Seats and areas of a session. The last entry of a seat or area counts.
    #[n(0)]
    Session {
        /// Seats by index in layout order, with their new state.
        #[n(0)]
        seats: Vec<(u32, SeatState)>,
        /// Areas with their new counts.
        #[n(1)]
        areas: Vec<AreaCounts>,
        /// The mark of its offers and terms, if that changed.
        #[n(2)]
        sale: Option<SaleMark>,
    },
    #[n(1)]
    Product(#[n(0)] StockCounts),
    /// The bookings of a resource.
    #[n(2)]
    Resource {
        /// UTC days with changed bookings, as days since 1970-01-01. `None` for more than [`DAYS_MAX`].
        #[n(1)]
        days: Option<BTreeSet<u32>>,
        #[n(0)]
        bookings: u64,
    },
    /// The whole cart.
    #[n(3)]
    Cart(#[n(0)] Box<CartView>),
    /// A customer's purchases between the two cursors, or none if they must be read from the store.
    #[n(4)]
    Purchases(#[n(0)] Vec<Purchase>),
    /// Unknown, because the replica received a whole state.
    #[n(5)]
    Lost,
}

impl Commit {
    /// Commits of an entity were not handed in, so its feed must restart.
    pub fn lost(entity: Entity) -> Commit {
        // Its version is behind all others, so that there is a gap before it.
        Commit { entity, from: u64::MAX - 1, to: u64::MAX, update: FeedUpdate::Lost }
    }

    /// Merges the next commit of the same entity into this one.
    pub(super) fn absorb(&mut self, next: Commit) {
        assert_eq!(self.to, next.from, "commits of {} have a gap", self.entity);
        self.to = next.to;
        match (&mut self.update, next.update) {
            (
                FeedUpdate::Session { seats, areas, sale },
                FeedUpdate::Session { seats: more, areas: others, sale: later },
            ) => {
                seats.extend(more);
                areas.extend(others);
                *sale = later.or(*sale);
            }
            (FeedUpdate::Product(counts), FeedUpdate::Product(now)) => *counts = now,
            (FeedUpdate::Resource { days, bookings }, FeedUpdate::Resource { days: more, bookings: now }) => {
                *days = union(days.take(), more);
                *bookings = now;
            }
            (FeedUpdate::Cart(cart), FeedUpdate::Cart(now)) => *cart = now,
            (FeedUpdate::Purchases(purchases), FeedUpdate::Purchases(more)) => {
                purchases.extend(more);
                if purchases.len() > PURCHASES_WAITING_MAX {
                    purchases.clear();
                }
            }
            (update, other) => panic!("{other:?} follows {update:?}"),
        }
    }

    /// Keeps only the last entry of each seat and area, ordered by seat and area.
    pub(super) fn reduce(&mut self) {
        if let FeedUpdate::Session { seats, areas, sale: _ } = &mut self.update {
            seats.sort_by_key(|(seat, _)| *seat);
            keep_last(seats, |(seat, _)| *seat);
            areas.sort_by(|one, other| one.area.cmp(&other.area));
            keep_last(areas, |area| area.area.clone());
        }
    }

    /// The number of entries that [`Commit::reduce`] may reduce.
    pub(super) fn entries(&self) -> usize {
        match &self.update {
            FeedUpdate::Session { seats, areas, sale } => seats.len() + areas.len() + usize::from(sale.is_some()),
            FeedUpdate::Product(_)
            | FeedUpdate::Resource { .. }
            | FeedUpdate::Cart(_)
            | FeedUpdate::Purchases(_)
            | FeedUpdate::Lost => 0,
        }
    }
}

fn union(days: Option<BTreeSet<u32>>, more: Option<BTreeSet<u32>>) -> Option<BTreeSet<u32>> {
    let (mut days, more) = (days?, more?);
    days.extend(more);
    (days.len() <= DAYS_MAX).then_some(days)
}

/// Keeps the last of adjacent entries with the same key.
pub(super) fn keep_last<T, K: PartialEq>(entries: &mut Vec<T>, key: impl Fn(&T) -> K) {
    entries.dedup_by(|later, kept| {
        let same = key(later) == key(kept);
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
}
