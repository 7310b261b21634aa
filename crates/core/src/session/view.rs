//! What is told of a session.

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{Book, Session};
use crate::{
    answer::{HoldView, MapView, SaleView, SeatCounts, SessionAudit, SessionView},
    id::HoldId,
    seat::{Seat, SeatState},
};

impl Session {
    /// What, where, when, for how much, and how many are left.
    pub fn view(&self) -> Arc<SessionView> {
        let terms = &*self.terms;
        Arc::new(SessionView {
            id: terms.id.clone(),
            venue: terms.venue.clone(),
            hall: terms.hall.clone(),
            title: terms.title.clone(),
            starts_at: terms.starts_at,
            ends_at: terms.ends_at,
            prices: self.prices(),
            hold_ttl_ms: terms.hold_ttl_ms,
            counts: self.counts(),
            layout: Arc::clone(&terms.layout),
        })
    }

    /// Seats by state, as counted along the way.
    pub fn counts(&self) -> SeatCounts {
        let counts = self.book.as_deref().map(|book| book.counts).unwrap_or_default();
        SeatCounts {
            free: self.terms.layout.seats() - counts.held - counts.sold - counts.blocked,
            held: counts.held,
            sold: counts.sold,
            blocked: counts.blocked,
        }
    }

    /// The state of every seat.
    pub fn map(&self) -> MapView {
        let seats = self.terms.layout.seats();
        let mut map = vec![0u8; seats.div_ceil(4) as usize];
        if self.book.is_some() {
            for index in 0..seats {
                map[index as usize / 4] |= (self.state(index) as u8) << (index % 4 * 2);
            }
        }
        MapView { session: self.terms.id.clone(), epoch: 0, version: self.version, counts: self.counts(), seats: map }
    }

    /// The seats a live hold has, ascending; none if there is no such hold.
    pub fn held_by(&self, hold: HoldId) -> Vec<Seat> {
        let live = self.book.as_deref().and_then(|book| book.holds.get(&hold));
        live.map_or_else(Vec::new, |live| self.seats(&live.seats))
    }

    /// The seats a hold was sold with, ascending; none if it was not.
    pub fn sold_by(&self, hold: HoldId) -> Vec<Seat> {
        let sale = self.book.as_deref().and_then(|book| book.sales.get(&hold));
        sale.map_or_else(Vec::new, |sale| self.seats(&sale.seats))
    }

    /// How many released holds are still remembered for carts that may speak of them.
    pub fn remembered_releases(&self) -> usize {
        self.book.as_deref().map_or(0, |book| book.released.len())
    }

    /// Everything, counted afresh from the seats.
    pub fn audit(&self) -> SessionAudit {
        let mut states = SeatCounts::default();
        for index in 0..self.terms.layout.seats() {
            match self.state(index) {
                SeatState::Free => states.free += 1,
                SeatState::Held => states.held += 1,
                SeatState::Sold => states.sold += 1,
                SeatState::Blocked => states.blocked += 1,
            }
        }
        let mut audit = SessionAudit {
            session: self.terms.id.clone(),
            counts: states,
            holds: Vec::new(),
            sales: Vec::new(),
            violations: Vec::new(),
        };
        if states != self.counts() {
            audit.violations.push(format_smolstr!("counters say {:?}, the seats say {states:?}", self.counts()));
        }
        if let Some(book) = self.book.as_deref() {
            self.audit_book(book, &mut audit);
        }
        audit
    }

    fn audit_book(&self, book: &Book, audit: &mut SessionAudit) {
        let mut owners: BTreeMap<u32, HoldId> = BTreeMap::new();
        for (&hold, live) in &book.holds {
            self.audit_seats(hold, &live.seats, SeatState::Held, &mut owners, &mut audit.violations);
            let seats = self.seats(&live.seats);
            audit.holds.push(HoldView { hold, revision: live.revision, deadline: live.deadline, seats });
            if !book.due.contains(&(live.deadline, hold)) {
                audit.violations.push(format_smolstr!("hold {hold:?} is in no index of deadlines"));
            }
        }
        let mut sales: Vec<_> = book.sales.iter().collect();
        sales.sort_by_key(|(_, sale)| sale.version);
        for (&hold, sale) in sales {
            self.audit_seats(hold, &sale.seats, SeatState::Sold, &mut owners, &mut audit.violations);
            audit.sales.push(SaleView { order: hold.cart.order(), seats: self.seats(&sale.seats), at: sale.at });
        }
        let owned = owners.len() as u32;
        if owned != audit.counts.held + audit.counts.sold {
            let text = format_smolstr!("{owned} seats have an owner, {:?} need one", audit.counts);
            audit.violations.push(text);
        }
        if book.due.len() != book.holds.len() {
            let text = format_smolstr!("{} holds but {} deadlines", book.holds.len(), book.due.len());
            audit.violations.push(text);
        }
    }

    fn audit_seats(
        &self,
        hold: HoldId,
        seats: &[u32],
        state: SeatState,
        owners: &mut BTreeMap<u32, HoldId>,
        violations: &mut Vec<SmolStr>,
    ) {
        for &index in seats {
            if self.state(index) != state {
                violations.push(format_smolstr!("seat {index} of {hold:?} should be {state:?}"));
            }
            if let Some(other) = owners.insert(index, hold) {
                violations.push(format_smolstr!("seat {index} belongs to {other:?} and {hold:?}"));
            }
        }
    }

    fn seats(&self, indexes: &[u32]) -> Vec<Seat> {
        indexes.iter().map(|index| self.terms.layout.seat(*index)).collect()
    }
}
