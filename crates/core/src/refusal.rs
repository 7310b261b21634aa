//! The everyday "no", numbered for life: numbers and names are never reused (protocol).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    id::Id,
    seat::{Seat, SeatState},
};

/// A seat that stood in the way, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenSeat {
    /// Which.
    pub seat: Seat,
    /// Held, sold or blocked.
    pub state: SeatState,
}

/// Why a command was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// 101: the body is not what the command asks for.
    #[error("bad request: {0}")]
    BadRequest(SmolStr),
    /// 104: the command changes something and came without a request id.
    #[error("this command changes something and needs a request id")]
    RequestIdMissing,
    /// 105: the same request id came before with another body.
    #[error("this request id was used before with another body")]
    RequestIdReused,
    /// 106: the first request with this id is still under way.
    #[error("the first request with this id is still under way")]
    InProgress,
    /// 108: not allowed to the caller.
    #[error("not allowed: {0}")]
    Forbidden(SmolStr),
    /// 201: seats are held or sold; every one that stood in the way is named.
    #[error("{} of the seats are taken", .0.len())]
    SeatsTaken(Vec<TakenSeat>),
    /// 202: the layout has no such seats.
    #[error("{} of the seats do not exist", .0.len())]
    NoSuchSeat(Vec<Seat>),
    /// 203: seats named more than once in one request.
    #[error("{} of the seats are named more than once", .0.len())]
    DuplicateSeat(Vec<Seat>),
    /// 204: seats the box office keeps off sale; every seat that stood in the way is named.
    #[error("{} of the seats are blocked", .0.len())]
    SeatBlocked(Vec<TakenSeat>),
    /// 206: no run of that many neighbouring free seats.
    #[error("no {count} neighbouring seats are free ({free} single ones are)")]
    NoAdjacentSeats {
        /// How many were asked for.
        count: u16,
        /// How many seats that fit the wish are free at all.
        free: u32,
    },
    /// 207: the session does not sell: not open yet, or over.
    #[error("the session is not on sale: {0}")]
    SessionClosed(SmolStr),
    /// 208: the hall is booked by another session at that time.
    #[error("the hall is occupied at that time by session {0}")]
    HallOccupied(Id),
    /// 301: the cart is done or canceled.
    #[error("the cart is {0}")]
    CartNotActive(SmolStr),
    /// 302: the cart's deadline has passed.
    #[error("the cart has expired")]
    CartExpired,
    /// 303: the cart has no line with this number.
    #[error("the cart has no line {0}")]
    NoSuchLine(u32),
    /// 304: nothing to check out.
    #[error("the cart is empty")]
    CartEmpty,
    /// 305: the token does not open this cart.
    #[error("the token does not open this cart")]
    NotYourCart,
    /// 306: the cart has as many lines as a cart may have.
    #[error("a cart has at most {0} lines")]
    TooManyLines(u32),
    /// 307: the cart has reached the highest age of an active cart.
    #[error("the cart has reached its highest age")]
    HoldAgeExceeded,
    /// 701: no such venue, hall, session, cart or order.
    #[error("{0} is not known")]
    NotFound(SmolStr),
    /// 702: it exists already with other content.
    #[error("{0} exists already and is different")]
    AlreadyExistsDifferently(SmolStr),
}

impl Refusal {
    /// The number, for life.
    pub fn code(&self) -> u16 {
        self.code_and_name().0
    }

    /// The name, for life.
    pub fn name(&self) -> &'static str {
        self.code_and_name().1
    }

    fn code_and_name(&self) -> (u16, &'static str) {
        match self {
            Refusal::BadRequest(_) => (101, "bad_request"),
            Refusal::RequestIdMissing => (104, "request_id_missing"),
            Refusal::RequestIdReused => (105, "request_id_reused"),
            Refusal::InProgress => (106, "in_progress"),
            Refusal::Forbidden(_) => (108, "forbidden"),
            Refusal::SeatsTaken(_) => (201, "seats_taken"),
            Refusal::NoSuchSeat(_) => (202, "no_such_seat"),
            Refusal::DuplicateSeat(_) => (203, "duplicate_seat"),
            Refusal::SeatBlocked(_) => (204, "seat_blocked"),
            Refusal::NoAdjacentSeats { .. } => (206, "no_adjacent_seats"),
            Refusal::SessionClosed(_) => (207, "session_closed"),
            Refusal::HallOccupied(_) => (208, "hall_occupied"),
            Refusal::CartNotActive(_) => (301, "cart_not_active"),
            Refusal::CartExpired => (302, "cart_expired"),
            Refusal::NoSuchLine(_) => (303, "no_such_line"),
            Refusal::CartEmpty => (304, "cart_empty"),
            Refusal::NotYourCart => (305, "not_your_cart"),
            Refusal::TooManyLines(_) => (306, "too_many_lines"),
            Refusal::HoldAgeExceeded => (307, "hold_age_exceeded"),
            Refusal::NotFound(_) => (701, "not_found"),
            Refusal::AlreadyExistsDifferently(_) => (702, "already_exists_differently"),
        }
    }
}
