//! Commands to a resource.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::{id::Id, money::Currency, time::Timestamp};

/// Commands to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceCommand {
    /// Create or change it: `resource.put`. It remembers its last puts. Existing bookings stay.
    Put(Box<ResourceDetails>),
    /// `resource.get`.
    Get,
    /// `resource.reserve`: books time without a cart, once or repeatedly. It books all or nothing, and a refusal names every
    /// conflict.
    Reserve {
        /// The booking's id, chosen by the client. Bookings of a series have `.1`, `.2`, … behind it.
        booking: Id,
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
    /// `resource.move`: to another time. If that does not fit, it is refused and the old time stays.
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
        /// The most entries; 1 to 1 000.
        limit: u32,
        /// Continue after this booking: its begin and id.
        after: Option<(Timestamp, SmolStr)>,
    },
    /// `resource.free_slots`: the first free slots of a length.
    FreeSlots {
        /// From.
        from: Timestamp,
        /// Up to.
        to: Timestamp,
        /// The length of a slot, in milliseconds.
        length_ms: u64,
        /// How many; 1 to 1 000.
        count: u32,
    },
    /// `admin.audit`.
    Audit,
}

/// The details of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetails {
    /// Its name.
    pub name: SmolStr,
    /// Other properties by name. Names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// The most bookings at an instant; at least 1.
    pub capacity: u32,
    /// The IANA name of its zone.
    pub zone: SmolStr,
    /// When it may be booked; always if absent.
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    pub after_ms: u64,
    /// The least time from now to the begin of a booking, in milliseconds.
    pub notice_ms: u64,
    /// The most time from now to the end of a booking, in milliseconds.
    pub horizon_ms: Option<u64>,
    /// The price of a slot in a cart.
    pub rate: Rate,
    /// How long carts with slots of it live untouched; as the rules say if absent.
    pub hold_ttl_ms: Option<u64>,
    /// The limits of one order and one customer.
    pub limits: Limits,
}

/// The price of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Minor units.
    pub amount: i64,
    /// Its currency.
    pub currency: Currency,
    /// The span that the price is for, in milliseconds. A begun span counts in full. Without a span the price is for the whole
    /// slot.
    pub per_ms: Option<u64>,
}

/// When a resource may be booked, in local times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningHours {
    /// By weekday from Monday on: spans of minutes of the day, `[open, close)`, up to 1440.
    pub week: [Vec<(u16, u16)>; 7],
    /// Days with their own spans, as `2026-12-24`. A day without spans is closed.
    pub exceptions: Vec<(SmolStr, Vec<(u16, u16)>)>,
}

/// A slot in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Instants: `[begin, end)`.
    Utc {
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
    },
    /// Local times of the resource, as `2026-03-29T02:30`, optionally with seconds.
    Local {
        /// From.
        begin: SmolStr,
        /// Up to, exclusive.
        end: SmolStr,
    },
}

/// When a booking recurs. Local times stay the same across changes of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// In days, weeks or months.
    pub every: Every,
    /// The step in that unit; at least 1.
    pub interval: u32,
    /// When it is enough.
    pub until: Until,
}

/// The measure of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Days.
    Day,
    /// Weeks, on these weekdays: 1 is Monday, 7 is Sunday. Without weekdays, on the weekday of the first booking.
    Week(Vec<u8>),
    /// Months, on the day of the month of the first booking; months without it are left out.
    Month,
}

/// The end of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// After this number of bookings, including the first.
    Count(u32),
    /// With the last one that begins on or before this day, as `2026-12-31`.
    Date(SmolStr),
}
