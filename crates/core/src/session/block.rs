//! Decisions of a session for the box office about blocked seats, and its cancellation.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::Session;
use crate::{
    event::SessionEvent,
    id::Request,
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatState},
    terms::bad,
};

impl Session {
    /// Cancels the session.
    pub(crate) fn decide_cancel(&self, reason: &SmolStr, request: Request) -> Result<SessionEvent, Refusal> {
        if let Some(reason) = self.canceled() {
            return Err(Refusal::SessionClosed(format_smolstr!("it is canceled already: {reason}")));
        }
        Ok(SessionEvent::Canceled { reason: reason.clone(), request })
    }

    /// Keeps seats off sale, all or none. Blocked seats stay blocked.
    pub(crate) fn decide_block(&self, seats: &[Seat], request: Request) -> Result<SessionEvent, Refusal> {
        let seats = self.in_state(seats, SeatState::Free, SeatState::Blocked)?;
        Ok(SessionEvent::SeatsBlocked { seats, request })
    }

    /// Puts blocked seats back on sale, all or none. Free seats stay free.
    pub(crate) fn decide_unblock(&self, seats: &[Seat], request: Request) -> Result<SessionEvent, Refusal> {
        let index = |seat: &Seat| self.terms.layout.index(*seat);
        let kept = seats.iter().find_map(|seat| {
            let index = index(seat).filter(|index| self.state_for_desk(*index) == SeatState::Free)?;
            Some((*seat, self.allotment_of(index)?))
        });
        if let Some((Seat { row, seat }, number)) = kept {
            let id = &self.terms.offering().expect("it has allotments").allotments[usize::from(number)].id;
            return bad(format_smolstr!(
                "seat {seat} of row {row} is not blocked but kept for allotment {id}, which can be released"
            ));
        }
        let seats = self.in_state(seats, SeatState::Blocked, SeatState::Free)?;
        Ok(SessionEvent::SeatsUnblocked { seats, request })
    }

    /// The seats that are in state `from`, ascending, if all others are in state `to`.
    fn in_state(&self, seats: &[Seat], from: SeatState, to: SeatState) -> Result<Vec<Seat>, Refusal> {
        let layout = &*self.terms.layout;
        if seats.is_empty() {
            return bad("no seats are named; name at least one".into());
        }
        let unknown: Vec<Seat> = seats.iter().copied().filter(|seat| layout.index(*seat).is_none()).collect();
        if !unknown.is_empty() {
            return Err(Refusal::NoSuchSeat(unknown));
        }
        let mut seats = seats.to_vec();
        seats.sort_unstable();
        let mut twice: Vec<Seat> = seats.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        twice.dedup();
        if !twice.is_empty() {
            return Err(Refusal::DuplicateSeat(twice));
        }
        let state = |seat: &Seat| self.state_for_desk(layout.index(*seat).expect("looked up above"));
        let other = |seat: &Seat| ![from, to].contains(&state(seat));
        let taken = |seat: &Seat| TakenSeat { seat: *seat, state: state(seat) };
        let taken: Vec<TakenSeat> = seats.iter().filter(|seat| other(seat)).map(taken).collect();
        if !taken.is_empty() {
            return Err(Refusal::SeatsTaken(taken));
        }
        seats.retain(|seat| state(seat) == from);
        Ok(seats)
    }
}
