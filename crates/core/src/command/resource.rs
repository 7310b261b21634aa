//! Commands to a resource.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{limits::Limits, want::Details};
use crate::{calendar::BookingName, id::Id, money::Currency, time::Timestamp};

/// Commands to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceCommand {
    /// `resource.put` creates or changes the resource, which remembers its last puts. Existing bookings stay.
    Put(Box<ResourceDetails>),
    /// `resource.get`.
    Get,
    /// `resource.reserve` books time without a cart, once or repeatedly. It books all or nothing, and a refusal names every
    /// conflict.
    Reserve {
        /// The booking's id, chosen by the client. Bookings of a series have `.1`, `.2`, … after it.
        booking: Id,
        when: When,
        repeat: Option<Repeat>,
        /// Free text, kept beside the calendar.
        details: Details,
    },
    /// `resource.cancel` of the booking, or with `series` of every booking of the series. The cart of a booking that a cart made
    /// releases it, or refunds it.
    Cancel {
        /// Which booking or series.
        booking: BookingName,
        series: bool,
    },
    /// `resource.move` to another time. If that does not fit, it is refused and the old time stays.
    Move { booking: BookingName, when: When },
    /// `resource.is_available`.
    IsAvailable(When),
    /// `resource.bookings` that overlap `[from, to)`, by begin, then public name.
    Bookings {
        from: Timestamp,
        to: Timestamp,
        /// The most entries, 1 to 1 000.
        limit: u32,
        /// Continue after the booking with this begin and public name.
        after: Option<(Timestamp, BookingName)>,
    },
    /// `resource.free_slots` finds the first free slots of a length.
    FreeSlots {
        from: Timestamp,
        to: Timestamp,
        /// The length of a slot, in milliseconds.
        length_ms: u64,
        /// The number of slots, 1 to 1 000.
        count: u32,
        /// Slots begin on a raster of this since local midnight, in milliseconds, and may overlap each other.
        step_ms: Option<u64>,
        /// Where the raster begins after midnight, in milliseconds.
        align_ms: u64,
    },
    /// `admin.audit`.
    Audit,
}

/// The details of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetails {
    pub name: SmolStr,
    /// Other properties by name. Names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// The most bookings at an instant, at least 1.
    pub capacity: u32,
    /// The IANA name of its zone.
    pub zone: SmolStr,
    /// When it may be booked. Always if absent.
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    pub after_ms: u64,
    /// The least time from now to the begin of a booking, in milliseconds.
    pub notice_ms: u64,
    /// The most time from now to the begin of a booking, in milliseconds.
    pub horizon_ms: Option<u64>,
    /// The price of a slot in a cart.
    pub rate: Rate,
    /// How long carts with slots of it live untouched. By default, as the rules say.
    pub hold_ttl_ms: Option<u64>,
    pub limits: Limits,
}

/// The price of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// In minor units.
    pub amount: i64,
    pub currency: Currency,
    /// The span that the price is for, in milliseconds. A begun span counts in full. Without a span the price is for the whole
    /// slot.
    pub per_ms: Option<u64>,
}

/// When a resource may be booked, in local times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningHours {
    /// By weekday from Monday on, as spans of minutes of the day, `[open, close)`, up to 1440.
    pub week: [Vec<(u16, u16)>; 7],
    /// Days with their own spans, as `2026-12-24`. A day without spans is closed.
    pub exceptions: Vec<(SmolStr, Vec<(u16, u16)>)>,
}

/// A slot in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Instants `[begin, end)`.
    Utc { begin: Timestamp, end: Timestamp },
    /// Local times of the resource, as `2026-03-29T02:30`, optionally with seconds.
    Local {
        begin: SmolStr,
        /// Up to, exclusive.
        end: SmolStr,
    },
}

/// The recurrence of a booking. Local times stay the same across changes of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    pub every: Every,
    /// The step in that unit, at least 1.
    pub interval: u32,
    pub until: Until,
}

/// The unit of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    Day,
    /// On these weekdays, where 1 is Monday and 7 is Sunday. Without weekdays, on the weekday of the first booking.
    Week(Vec<u8>),
    /// On the day of the month of the first booking. Months without it are left out.
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
