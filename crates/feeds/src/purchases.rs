//! The publisher of a customer's purchases. Each purchase matters, so none is skipped.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer,
    id::{Entity, Id},
};
use boxoffice_wire::{
    encode,
    feed::{PurchasesDelta, PurchasesSnapshot},
    view::Purchase,
};

use super::{
    FeedSource, FeedUpdate,
    publisher::Publisher,
    reader::{Pulled, Reader},
    ring::{Ring, frame_from},
};

/// Deltas in the ring. A watcher behind it reads from the store.
const DELTAS_MAX: usize = 64;

/// Purchases in all deltas of a ring.
const PURCHASES_MAX: usize = 1_024;

/// Purchases of one snapshot, a frame of some fifty kilobytes.
const PAGE: u32 = 400;

/// Bytes of a purchase in a frame, or a little less.
const PURCHASE_BYTES: usize = 140;

/// Received pages that no watcher has read yet. Beyond it all are dropped, and watchers ask again.
const PAGES_MAX: usize = 16;

/// The publisher of a customer. Its versions are cursors.
pub(super) struct PurchasePublisher {
    customer: Id,
    epoch: u64,
    newest: u64,
    ring: Ring<PurchasesDelta>,
    /// Pages from another node by the cursor before them. `None` while a page is requested.
    pages: BTreeMap<u64, Option<Vec<answer::Purchase>>>,
}

impl PurchasePublisher {
    /// Begins with all purchases up to the cursor `newest` in the store.
    pub(super) fn from_initial(customer: Id, epoch: u64, newest: u64) -> PurchasePublisher {
        let ring = Ring::new(DELTAS_MAX, PURCHASES_MAX);
        PurchasePublisher { customer, epoch, newest, ring, pages: BTreeMap::new() }
    }

    /// Published purchases after a cursor, as many as fit into one frame.
    fn page(&mut self, after: u64, limit: u32, source: &dyn FeedSource) -> Result<Vec<answer::Purchase>, Pulled> {
        if after >= self.newest {
            return Ok(Vec::new());
        }
        let mut page = match self.pages.remove(&after) {
            Some(Some(page)) => page,
            Some(None) => {
                self.pages.insert(after, None);
                return Err(Pulled::Awaited { newly: false });
            }
            None => match source.purchases(&self.customer, after, limit) {
                Some(page) => page,
                None => {
                    self.pages.insert(after, None);
                    return Err(Pulled::Awaited { newly: true });
                }
            },
        };
        // The store may be ahead of the published cursor.
        page.retain(|purchase| purchase.cursor <= self.newest);
        let in_order = (after + 1..).zip(&page).all(|(cursor, purchase)| purchase.cursor == cursor);
        assert!(in_order, "the purchases of {} have a gap after {after}", self.customer);
        if page.len() > limit as usize {
            // The rest of another node's page is read next.
            let rest = page.split_off(limit as usize);
            self.pages.insert(after + page.len() as u64, Some(rest));
        }
        Ok(page)
    }

    /// Gives a watcher a snapshot of the purchases after its cursor, and returns its new cursor.
    fn give_page(&mut self, at: u64, reader: &mut Reader<'_>) -> Result<u64, Pulled> {
        let limit = reader.frame_bytes_max.map_or(PAGE, |bytes_max| purchases_of(bytes_max).min(PAGE));
        let purchases = self.page(at, limit, reader.source)?;
        if purchases.is_empty() && at < self.newest {
            // They cannot be read, and the node is about to end.
            return Err(Pulled::All);
        }
        let to = at + purchases.len() as u64;
        let purchases = purchases.into_iter().map(Purchase::from).collect();
        let (entity, epoch) = (Entity::Customer(self.customer.clone()), Some(self.epoch));
        let snapshot = PurchasesSnapshot { entity, epoch, from: at, to, purchases };
        let (encoding, feed) = (reader.encoding, reader.feed);
        reader.give(frame_from(|out| encode::snapshot(encoding, out, feed, &snapshot)));
        Ok(to)
    }

    /// Gives the next purchases of the ring as one delta of at most `bytes_max`. Returns the new cursor. `None` if the ring does
    /// not reach back to `at`.
    fn give_some(&mut self, at: u64, bytes_max: usize, reader: &mut Reader<'_>) -> Option<u64> {
        let mut limit = purchases_of(bytes_max) as usize;
        let later = |purchase: &&Purchase| purchase.cursor > at;
        let deltas = self.ring.after(at, true)?;
        let mut purchases: Vec<Purchase> =
            deltas.flat_map(|delta| delta.purchases.iter().filter(later)).take(limit).cloned().collect();
        loop {
            purchases.truncate(limit);
            let delta = PurchasesDelta { from: at, to: at + purchases.len() as u64, purchases };
            let (encoding, feed) = (reader.encoding, reader.feed);
            let frame = frame_from(|out| encode::delta(encoding, out, feed, &delta));
            if frame.len() <= bytes_max || limit == 1 {
                reader.give(frame);
                return Some(delta.to);
            }
            (purchases, limit) = (delta.purchases, limit.div_ceil(2));
        }
    }
}

/// How many purchases have about this many bytes.
fn purchases_of(bytes: usize) -> u32 {
    u32::try_from(bytes / PURCHASE_BYTES).unwrap_or(u32::MAX).max(1)
}

impl Publisher for PurchasePublisher {
    fn published(&self) -> u64 {
        self.newest
    }

    fn publish(&mut self, to: u64, update: FeedUpdate) {
        let FeedUpdate::Purchases(purchases) = update else { panic!("a customer is told {update:?}") };
        let from = std::mem::replace(&mut self.newest, to);
        // The initial state may contain some of the purchases already.
        let purchases: Vec<Purchase> =
            purchases.into_iter().filter(|purchase| purchase.cursor > from).map(Purchase::from).collect();
        if purchases.len() as u64 == to - from {
            let weight = purchases.len();
            self.ring.push(PurchasesDelta { from, to, purchases }, weight);
        } else {
            self.ring.clear();
        }
    }

    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (Option<u64>, Pulled) {
        let begins = at.is_none();
        let mut at = at.unwrap_or(0);
        // A new watcher receives a snapshot, even an empty one.
        if begins {
            match self.give_page(at, reader) {
                Ok(reached) => at = reached,
                Err(Pulled::All) => return (Some(at), Pulled::All),
                Err(pulled) => return (None, pulled),
            }
        }
        while at < self.newest {
            if reader.is_full() {
                return (Some(at), Pulled::More);
            }
            if let Some(bytes_max) = reader.frame_bytes_max
                && let Some(reached) = self.give_some(at, bytes_max, reader)
            {
                at = reached;
                continue;
            }
            match self.ring.pull(at, false, reader) {
                Some((reached, Pulled::All)) => at = reached,
                Some((reached, pulled)) => return (Some(reached), pulled),
                None => match self.give_page(at, reader) {
                    Ok(reached) => at = reached,
                    Err(pulled) => return (Some(at), pulled),
                },
            }
        }
        (Some(at), Pulled::All)
    }

    fn purchases_page(&mut self, after: u64, page: Vec<answer::Purchase>) -> bool {
        // A node without the purchases is behind, and is asked again after the time-out.
        if page.is_empty() || self.pages.get(&after) != Some(&None) {
            return false;
        }
        if self.pages.values().flatten().count() >= PAGES_MAX {
            self.pages.clear();
        }
        self.pages.insert(after, Some(page));
        true
    }

    fn forget_page_requests(&mut self) {
        self.pages.retain(|_, page| page.is_some());
    }

    fn end_reason(&self) -> Option<&'static str> {
        None
    }
}
