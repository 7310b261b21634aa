//! Commands to a resource.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::{limits::Limits, want::Details};
use crate::{calendar::BookingName, id::Id, money::Currency, time::Timestamp};

/// Commands to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ResourceCommand {
    /// `resource.put` creates or changes the resource, which remembers its last puts. Existing bookings stay.
    #[n(0)]
    Put(#[n(0)] Box<ResourceDetails>),
    /// `resource.get`.
    #[n(1)]
    Get,
    /// `resource.reserve` books time without a cart, once or repeatedly. It books all or nothing, and a refusal names every
    /// conflict.
    #[n(2)]
    Reserve {
        /// The booking's id, chosen by the client. Bookings of a series have `.1`, `.2`, … after it.
        #[n(0)]
        booking: Id,
        #[n(1)]
        when: When,
        #[n(3)]
        repeat: Option<Repeat>,
        /// Free text, kept beside the calendar.
        #[n(2)]
        details: Details,
    },
    /// `resource.cancel` of the booking, or with `series` of every booking of the series. The cart of a booking that a cart made
    /// releases it, or refunds it.
    #[n(3)]
    Cancel {
        /// Which booking or series.
        #[n(0)]
        booking: BookingName,
        #[n(1)]
        series: bool,
    },
    /// `resource.move` to another time. If that does not fit, it is refused and the old time stays.
    #[n(4)]
    Move {
        #[n(0)]
        booking: BookingName,
        #[n(1)]
        when: When,
    },
    /// `resource.is_available`.
    #[n(5)]
    IsAvailable(#[n(0)] When),
    /// `resource.bookings` that overlap `[from, to)`, by begin, then public name.
    #[n(6)]
    Bookings {
        #[n(0)]
        from: Timestamp,
        #[n(1)]
        to: Timestamp,
        /// The most entries, 1 to 1 000.
        #[n(2)]
        limit: u32,
        /// Continue after the booking with this begin and public name.
        #[n(3)]
        after: Option<(Timestamp, BookingName)>,
    },
    /// `resource.free_slots` finds the first free slots of a length.
    #[n(7)]
    FreeSlots {
        #[n(0)]
        from: Timestamp,
        #[n(1)]
        to: Timestamp,
        /// The length of a slot, in milliseconds.
        #[n(2)]
        length_ms: u64,
        /// The number of slots, 1 to 1 000.
        #[n(3)]
        count: u32,
        /// Slots begin on a raster of this since local midnight, in milliseconds, and may overlap each other.
        #[n(5)]
        step_ms: Option<u64>,
        /// Where the raster begins after midnight, in milliseconds.
        #[n(4)]
        align_ms: u64,
    },
    /// `admin.audit`.
    #[n(8)]
    Audit,
}

/// The details of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ResourceDetails {
    #[n(6)]
    pub name: SmolStr,
    /// Other properties by name. Names are unique and ascend.
    #[n(7)]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// The most bookings at an instant, at least 1.
    #[n(0)]
    pub capacity: u32,
    /// The IANA name of its zone.
    #[n(8)]
    pub zone: SmolStr,
    /// When it may be booked. Always if absent.
    #[n(9)]
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    #[n(1)]
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    #[n(2)]
    pub after_ms: u64,
    /// The least time from now to the begin of a booking, in milliseconds.
    #[n(3)]
    pub notice_ms: u64,
    /// The most time from now to the begin of a booking, in milliseconds.
    #[n(10)]
    pub horizon_ms: Option<u64>,
    /// The price of a slot in a cart.
    #[n(4)]
    pub rate: Rate,
    /// How long carts with slots of it live untouched. By default, as the rules say.
    #[n(11)]
    pub hold_ttl_ms: Option<u64>,
    #[n(5)]
    pub limits: Limits,
}

/// The price of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Rate {
    /// In minor units.
    #[n(0)]
    pub amount: i64,
    #[n(1)]
    pub currency: Currency,
    /// The span that the price is for, in milliseconds. A begun span counts in full. Without a span the price is for the whole
    /// slot.
    #[n(2)]
    pub per_ms: Option<u64>,
}

/// When a resource may be booked, in local times.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct OpeningHours {
    /// By weekday from Monday on, as spans of minutes of the day, `[open, close)`, up to 1440.
    #[n(0)]
    pub week: [Vec<(u16, u16)>; 7],
    /// Days with their own spans, as `2026-12-24`. A day without spans is closed.
    #[n(1)]
    pub exceptions: Vec<(SmolStr, Vec<(u16, u16)>)>,
}

/// A slot in a request.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum When {
    /// Instants `[begin, end)`.
    #[n(0)]
    Utc {
        #[n(0)]
        begin: Timestamp,
        #[n(1)]
        end: Timestamp,
    },
    /// Local times of the resource, as `2026-03-29T02:30`, optionally with seconds.
    #[n(1)]
    Local {
        #[n(0)]
        begin: SmolStr,
        /// Up to, exclusive.
        #[n(1)]
        end: SmolStr,
    },
}

/// The recurrence of a booking. Local times stay the same across changes of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Repeat {
    #[n(0)]
    pub every: Every,
    /// The step in that unit, at least 1.
    #[n(1)]
    pub interval: u32,
    #[n(2)]
    pub until: Until,
}

/// The unit of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Every {
    #[n(0)]
    Day,
    /// On these weekdays, where 1 is Monday and 7 is Sunday. Without weekdays, on the weekday of the first booking.
    #[n(1)]
    Week(#[n(0)] Vec<u8>),
    /// On the day of the month of the first booking. Months without it are left out.
    #[n(2)]
    Month,
}

/// The end of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Until {
    /// After this number of bookings, including the first.
    #[n(0)]
    Count(#[n(0)] u32),
    /// With the last one that begins on or before this day, as `2026-12-31`.
    #[n(1)]
    Date(#[n(0)] SmolStr),
}
