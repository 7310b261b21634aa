//! What a resource is told or asked.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::{id::Id, money::Currency, time::Timestamp};

/// What a resource is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceCommand {
    /// Create or change it: `resource.put`. It remembers its last puts; bookings that exist stay.
    Put(Box<ResourceDetails>),
    /// `resource.get`.
    Get,
    /// `resource.reserve`: books time without a cart, once or again and again: all of it, or a refusal with every conflict.
    Reserve {
        /// The booking's id, chosen by the client. Bookings of a series have `.1`, `.2`, … behind it.
        booking: Id,
        /// When.
        when: When,
        /// When again.
        repeat: Option<Repeat>,
        /// Anything worth saying; kept beside the calendar.
        details: SmolStr,
    },
    /// `resource.cancel`: the booking, or with `series` every booking of the series.
    Cancel {
        /// Which booking or series.
        booking: Id,
        /// Whether it is a series.
        series: bool,
    },
    /// `resource.move`: to another time; refused with the old time kept if that does not fit.
    Move {
        /// Which booking.
        booking: Id,
        /// When now.
        when: When,
    },
    /// `resource.is_available`.
    IsAvailable(When),
    /// `resource.bookings`: those that overlap `[from, to)`, by begin, then id.
    Bookings {
        /// From.
        from: Timestamp,
        /// Up to.
        to: Timestamp,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this one: begin and id as told.
        after: Option<(Timestamp, SmolStr)>,
    },
    /// `resource.free_slots`: the first free slots of a length.
    FreeSlots {
        /// From.
        from: Timestamp,
        /// Up to.
        to: Timestamp,
        /// How long a slot is to be, in milliseconds.
        length_ms: u64,
        /// How many; 1 to 1 000.
        count: u32,
    },
    /// `admin.audit`.
    Audit,
}

/// What is known of a resource besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name; names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// How many bookings there may be at an instant; at least 1.
    pub capacity: u32,
    /// The IANA name of the zone it stands in.
    pub zone: SmolStr,
    /// When it may be booked; always if absent.
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    pub after_ms: u64,
    /// A booking begins at the earliest so long from now, in milliseconds.
    pub notice_ms: u64,
    /// A booking ends at the latest so long from now, in milliseconds.
    pub horizon_ms: Option<u64>,
    /// What a slot costs in a cart.
    pub rate: Rate,
    /// How long carts with slots of it live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    pub limits: Limits,
}

/// What time costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Minor units.
    pub amount: i64,
    /// Of what.
    pub currency: Currency,
    /// For every begun span of so many milliseconds; for the whole slot if absent.
    pub per_ms: Option<u64>,
}

/// When a resource may be booked, in times on its wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningHours {
    /// By weekday from Monday on: spans of minutes of the day, `[open, close)`, up to 1440.
    pub week: [Vec<(u16, u16)>; 7],
    /// Days that differ, as `2026-12-24`, with their own spans; none of them means closed.
    pub exceptions: Vec<(SmolStr, Vec<(u16, u16)>)>,
}

/// A slot as a client says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Instants: `[begin, end)`.
    Utc {
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
    },
    /// Times on the wall where the resource is, as `2026-03-29T02:30` with seconds if need be.
    Local {
        /// From.
        begin: SmolStr,
        /// Up to, exclusive.
        end: SmolStr,
    },
}

/// When a booking comes again. Times on the wall stay the same across changes of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// In days, weeks or months.
    pub every: Every,
    /// Every how many of them; at least 1.
    pub interval: u32,
    /// When it is enough.
    pub until: Until,
}

/// The measure of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Days.
    Day,
    /// Weeks, on these weekdays: 1 is Monday, 7 Sunday; the weekday of the first booking if there is none.
    Week(Vec<u8>),
    /// Months, on the day of the month of the first booking; months without it are left out.
    Month,
}

/// The end of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// After so many bookings, the first one counted.
    Count(u32),
    /// With the last one that begins on or before this day, as `2026-12-31`.
    Date(SmolStr),
}
