//! A commit as the hub is told of it, and two of them as one.

use std::collections::BTreeSet;

use boxoffice_core::{
    answer::{AreaCounts, CartView, Purchase, StockCounts},
    id::Entity,
    seat::SeatState,
};
use serde::{Deserialize, Serialize};

/// Days one delta of a resource names; with more of them its watchers get a snapshot, which says that any may have
/// changed.
pub const DAYS_MAX: usize = 1_024;

/// Purchases of a customer that wait to be published; beyond this they are read again from where they are kept.
pub(super) const PURCHASES_WAITING_MAX: usize = 1_024;

/// What one pass of the replication thread changed in one entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Which entity.
    pub entity: Entity,
    /// Its version before; of a customer the cursor.
    pub from: u64,
    /// Its version after; of a customer the cursor.
    pub to: u64,
    /// What is different.
    pub update: FeedUpdate,
}

/// What is different after a commit, as it is then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedUpdate {
    /// Of a session; a later entry of a seat or an area counts more than an earlier one.
    Session {
        /// Seats by index in layout order, with the state they have now.
        seats: Vec<(u32, SeatState)>,
        /// Areas as they are now.
        areas: Vec<AreaCounts>,
    },
    /// Of a product: its units.
    Product(StockCounts),
    /// Of a resource.
    Resource {
        /// UTC days on which bookings came, went or became sold, as days since 1970-01-01; `None` for more than
        /// [`DAYS_MAX`].
        days: Option<BTreeSet<u32>>,
        /// How many bookings it has now.
        bookings: u64,
    },
    /// Of a cart: all of it.
    Cart(Box<CartView>),
    /// Of a customer: the purchases between the two cursors, or none if they are to be read where they are kept.
    Purchases(Vec<Purchase>),
    /// Nobody knows what: the replica was given a whole state.
    Lost,
}

impl Commit {
    /// Says that commits of an entity were not handed in: its feed begins anew.
    pub fn lost(entity: Entity) -> Commit {
        // Behind every version there is, so that there is a gap in front of it.
        Commit { entity, from: u64::MAX - 1, to: u64::MAX, update: FeedUpdate::Lost }
    }

    /// Makes this commit and the next one of the same entity one.
    pub(super) fn absorb(&mut self, next: Commit) {
        assert_eq!(self.to, next.from, "commits of {} have a gap", self.entity);
        self.to = next.to;
        match (&mut self.update, next.update) {
            (FeedUpdate::Session { seats, areas }, FeedUpdate::Session { seats: more, areas: others }) => {
                seats.extend(more);
                areas.extend(others);
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

    /// Leaves one entry a seat and an area, the last one, in the order of seats and of areas.
    pub(super) fn reduce(&mut self) {
        if let FeedUpdate::Session { seats, areas } = &mut self.update {
            seats.sort_by_key(|(seat, _)| *seat);
            keep_last(seats, |(seat, _)| *seat);
            areas.sort_by(|one, other| one.area.cmp(&other.area));
            keep_last(areas, |area| area.area.clone());
        }
    }

    /// How many entries it has that [`Commit::reduce`] may make fewer.
    pub(super) fn entries(&self) -> usize {
        match &self.update {
            FeedUpdate::Session { seats, areas } => seats.len() + areas.len(),
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

/// Of neighbours with the same key leaves the last.
fn keep_last<T, K: PartialEq>(entries: &mut Vec<T>, key: impl Fn(&T) -> K) {
    entries.dedup_by(|later, kept| {
        let same = key(later) == key(kept);
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
}
