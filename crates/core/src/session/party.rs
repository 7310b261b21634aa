//! What a session asks of a party: that it has a least size, and leaves no free seat alone.

use alloc::vec::Vec;

use super::Session;
use crate::{
    command::Want,
    holds::HoldAsk,
    layout::Layout,
    planted,
    refusal::Refusal,
    seat::{Seat, SeatState},
};

/// The neighbour of a seat on one side.
type Side = fn(&Layout, u32) -> Option<u32>;

/// How a hold looks at seats that are kept for an allotment. Before the release they are walls, and after it they are like all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptSeats {
    Walls,
    Free,
}

impl Session {
    /// Checks the seats that a hold is to get, which ascend. The desk may hold what it likes, and a code what is kept for it.
    ///
    /// # Errors
    /// [`Refusal::PartyTooSmall`] and [`Refusal::LeavesSingle`].
    pub(super) fn check_party(&self, ask: &HoldAsk<'_>, seats: &[Seat]) -> Result<(), Refusal> {
        let (no_single_seats, min_party) = self.extra(|extras| (extras.no_single_seats, extras.min_party));
        if ask.desk || (!no_single_seats && min_party.is_none()) {
            return Ok(());
        }
        let layout = &*self.terms.layout;
        let mut taken = super::indexes(layout, seats);
        taken.retain(|seat| self.allotment_of(*seat).is_none());
        if let Some(min) = min_party.filter(|min| seats.len() < usize::from(*min))
            && taken.iter().any(|seat| self.has_run_of(usize::from(min), *seat))
        {
            return Err(Refusal::PartyTooSmall { min: min.into() });
        }
        match ask.want {
            Want::Seats { .. } if no_single_seats => match self.left_alone(&taken) {
                alone if alone.is_empty() => Ok(()),
                alone => Err(Refusal::LeavesSingle(alone.into_iter().map(|seat| layout.seat(seat)).collect())),
            },
            // The best seats leave one alone only if no others are there.
            Want::Seats { .. }
            | Want::Best(_)
            | Want::Places { .. }
            | Want::Units { .. }
            | Want::Slot { .. }
            | Want::Quota { .. }
            | Want::Uses { .. } => Ok(()),
        }
    }

    /// Whether the run of free seats that has this one is at least so long.
    fn has_run_of(&self, least: usize, seat: u32) -> bool {
        let layout = &*self.terms.layout;
        let free_beside = |side: Side| {
            let next = |seat: &u32| side(layout, *seat).filter(|next| self.is_free_for_party(*next, KeptSeats::Walls));
            core::iter::successors(next(&seat), next).take(least).count()
        };
        1 + free_beside(Layout::left_neighbour) + free_beside(Layout::right_neighbour) >= least
    }

    /// The seats that a hold of these leaves alone although it could have left none. A seat counts only if that is so with the seats of
    /// allotments as walls and also with them free, because otherwise the border of an allotment would block a row.
    pub(super) fn left_alone(&self, taken: &[u32]) -> Vec<u32> {
        let layout = &*self.terms.layout;
        let all_views: &[KeptSeats] = if planted::is("an orphan rule that blocks a row at a border") {
            &[KeptSeats::Walls]
        } else {
            &[KeptSeats::Walls, KeptSeats::Free]
        };
        let sides = |seat: &u32| [layout.left_neighbour(*seat), layout.right_neighbour(*seat)];
        let mut alone: Vec<u32> = taken.iter().flat_map(sides).flatten().collect();
        alone.sort_unstable();
        alone.dedup();
        alone.retain(|seat| {
            taken.binary_search(seat).is_err()
                && self.is_free_for_party(*seat, KeptSeats::Walls)
                && all_views.iter().all(|kept| self.is_left_alone(*seat, taken, *kept))
        });
        alone
    }

    /// Whether a free seat beside a hold has no free neighbour left, although another choice of that many seats in its run of free seats
    /// leaves none alone. There is one unless the run has just one seat more than the hold takes of it.
    fn is_left_alone(&self, seat: u32, taken: &[u32], kept: KeptSeats) -> bool {
        let layout = &*self.terms.layout;
        let is_taken = |seat: &u32| taken.binary_search(seat).is_ok();
        let (mut is_alone, mut could_be_helped) = (true, planted::is("a single seat that cannot be helped"));
        for side in [Layout::left_neighbour as Side, Layout::right_neighbour] {
            let beside = side(layout, seat);
            let mut beyond = beside;
            while let Some(passed) = beyond.filter(is_taken) {
                beyond = side(layout, passed);
            }
            let is_free = beyond.is_some_and(|seat| self.is_free_for_party(seat, kept));
            is_alone &= !is_free || beyond != beside;
            could_be_helped |= is_free;
        }
        is_alone && could_be_helped
    }

    fn is_free_for_party(&self, seat: u32, kept: KeptSeats) -> bool {
        let state = match kept {
            KeptSeats::Walls => self.state(seat),
            KeptSeats::Free => self.state_for_desk(seat),
        };
        state == SeatState::Free
    }
}
