//! How consecutive deltas become one, for watchers that are behind.

use boxoffice_core::answer::AreaCounts;
use boxoffice_wire::feed::{CartDelta, CountsDelta, Delta, ProductDelta, ResourceDelta};

use super::commit::keep_last;

/// A delta that can take in the one after it.
pub(super) trait Merge {
    /// Takes in the next delta. What both touch has the state of the next one.
    fn absorb(&mut self, next: &Self);

    /// The number of its entries, by which its length grows. At least 1.
    fn entries(&self) -> usize;
}

impl Merge for Delta {
    fn absorb(&mut self, next: &Delta) {
        (self.to, self.counts) = (next.to, next.counts);
        self.changes.extend_from_slice(&next.changes);
        self.changes.sort_by_key(|(seat, _)| *seat);
        keep_last(&mut self.changes, |(seat, _)| *seat);
        absorb_areas(&mut self.areas, &next.areas);
        self.sale = next.sale.or(self.sale);
    }

    fn entries(&self) -> usize {
        1 + self.changes.len() + self.areas.len()
    }
}

impl Merge for CountsDelta {
    fn absorb(&mut self, next: &CountsDelta) {
        (self.to, self.counts) = (next.to, next.counts);
        absorb_areas(&mut self.areas, &next.areas);
        self.sale = next.sale.or(self.sale);
    }

    fn entries(&self) -> usize {
        1 + self.areas.len()
    }
}

impl Merge for ProductDelta {
    fn absorb(&mut self, next: &ProductDelta) {
        (self.to, self.counts) = (next.to, next.counts);
    }

    fn entries(&self) -> usize {
        1
    }
}

impl Merge for ResourceDelta {
    fn absorb(&mut self, next: &ResourceDelta) {
        (self.to, self.bookings) = (next.to, next.bookings);
        self.days.extend_from_slice(&next.days);
        self.days.sort_unstable();
        self.days.dedup();
    }

    fn entries(&self) -> usize {
        1 + self.days.len()
    }
}

impl Merge for CartDelta {
    fn absorb(&mut self, next: &CartDelta) {
        self.to = next.to;
        self.cart.clone_from(&next.cart);
    }

    fn entries(&self) -> usize {
        1
    }
}

fn absorb_areas(areas: &mut Vec<AreaCounts>, next: &[AreaCounts]) {
    areas.extend_from_slice(next);
    areas.sort_by(|one, other| one.area.cmp(&other.area));
    keep_last(areas, |area| area.area.clone());
}
