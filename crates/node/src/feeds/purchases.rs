//! The purchases of a customer as the hub has published them: each says something of its own, so none is passed over.

use boxoffice_core::{
    answer::Purchase,
    id::{Entity, Id},
};
use boxoffice_wire::{
    encode,
    feed::{PurchasesDelta, PurchasesSnapshot},
};

use super::{
    News,
    line::{Line, Reader},
    ring::{Ring, written},
};

/// Deltas that all watchers share; who is behind them reads where the purchases are kept.
const DELTAS_MAX: usize = 64;

/// Purchases of all deltas of a ring together.
const PURCHASES_MAX: usize = 1_024;

/// Purchases of one snapshot: as many as are a frame of some fifty kilobytes.
const PAGE: u32 = 400;

/// The feed of a customer; its versions are cursors.
pub(super) struct Purchases {
    customer: Id,
    newest: u64,
    ring: Ring<PurchasesDelta>,
}

impl Purchases {
    /// Everything up to this cursor is kept already.
    pub(super) fn begun(customer: Id, newest: u64) -> Purchases {
        Purchases { customer, newest, ring: Ring::new(DELTAS_MAX, PURCHASES_MAX) }
    }

    /// Purchases after a cursor that are published, as many as fit into one frame.
    fn page(&self, after: u64, reader: &Reader<'_>) -> Vec<Purchase> {
        if after == self.newest {
            return Vec::new();
        }
        let mut page = reader.source.purchases(&self.customer, after, PAGE);
        // What is kept may be newer than what is published.
        page.retain(|purchase| purchase.cursor <= self.newest);
        let in_order = (after + 1..).zip(&page).all(|(cursor, purchase)| purchase.cursor == cursor);
        assert!(in_order, "the purchases of {} have a gap after {after}", self.customer);
        page
    }
}

impl Line for Purchases {
    fn published(&self) -> u64 {
        self.newest
    }

    fn publish(&mut self, to: u64, news: News) {
        let News::Purchases(purchases) = news else { panic!("a customer is told {news:?}") };
        let from = std::mem::replace(&mut self.newest, to);
        // A commit may tell of purchases that the feed began with.
        let purchases: Vec<Purchase> = purchases.into_iter().filter(|purchase| purchase.cursor > from).collect();
        if purchases.len() as u64 == to - from {
            let weight = purchases.len();
            self.ring.push(PurchasesDelta { from, to, purchases }, weight);
        } else {
            self.ring.clear();
        }
    }

    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (u64, bool) {
        let mut at = match at {
            Some(at) => at,
            // Who begins is told that it has begun, also where there is nothing yet.
            None => self.give_page(0, reader).unwrap_or(0),
        };
        while at < self.newest {
            if reader.is_full() {
                return (at, true);
            }
            if let Some((reached, more)) = self.ring.pull(at, reader) {
                at = reached;
                if more {
                    return (at, true);
                }
                continue;
            }
            let Some(reached) = self.give_page(at, reader) else { break };
            at = reached;
        }
        (at, false)
    }

    fn over(&self) -> Option<&'static str> {
        None
    }
}

impl Purchases {
    /// Gives a watcher a snapshot of its own; where it is then, `None` if the purchases cannot be read.
    fn give_page(&self, at: u64, reader: &mut Reader<'_>) -> Option<u64> {
        let purchases = self.page(at, reader);
        if purchases.is_empty() && at < self.newest {
            return None;
        }
        let to = at + purchases.len() as u64;
        let snapshot = PurchasesSnapshot { entity: Entity::Customer(self.customer.clone()), from: at, to, purchases };
        let (encoding, feed) = (reader.encoding, reader.feed);
        reader.give(written(|out| encode::snapshot(encoding, out, feed, &snapshot)));
        Some(to)
    }
}
