//! Bodies of the ops on resources and their calendars. A time is `begin` and `end`, or `local_begin` and `local_end`.

use boxoffice_core::{
    command::{Every, OpeningHours, Rate, Repeat, ResourceDetails, Until, When},
    id::Id,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{form, quantity::Quantity};

/// Of `resource.put`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourcePut {
    /// Which resource.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name.
    #[serde(with = "form::properties", default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// How many bookings there may be at an instant; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// The IANA name of the zone it stands in.
    pub zone: SmolStr,
    /// When it may be booked; always if absent.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_ms: u64,
    /// A booking begins at the earliest so long from now, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notice_ms: u64,
    /// A booking ends at the latest so long from now, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon_ms: Option<u64>,
    /// What a slot costs in a cart.
    #[serde(with = "form")]
    pub rate: Rate,
    /// How long carts with slots of it live untouched, if not as the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
    pub limits: LimitsBody,
}

impl ResourcePut {
    /// The body that says this.
    pub fn new(id: Id, details: ResourceDetails) -> ResourcePut {
        let ResourceDetails {
            name,
            properties,
            capacity,
            zone,
            hours,
            before_ms,
            after_ms,
            notice_ms,
            horizon_ms,
            rate,
            hold_ttl_ms,
            limits,
        } = details;
        let (capacity, limits) = (Some(capacity.into()), limits.into());
        ResourcePut {
            id,
            name,
            properties,
            capacity,
            zone,
            hours,
            before_ms,
            after_ms,
            notice_ms,
            horizon_ms,
            rate,
            hold_ttl_ms,
            limits,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Of `resource.reserve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceReserve {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// The booking's id, chosen by the client.
    #[serde(with = "form")]
    pub booking: Id,
    /// From.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Up to, exclusive.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// From, on the wall where the resource is: `2026-03-29T02:30`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_begin: Option<SmolStr>,
    /// Up to, exclusive, on the wall where the resource is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_end: Option<SmolStr>,
    /// When again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatBody>,
    /// Anything worth saying.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub details: SmolStr,
}

impl ResourceReserve {
    /// The body that says this.
    pub fn new(resource: Id, booking: Id, when: When, repeat: Option<Repeat>, details: SmolStr) -> ResourceReserve {
        let (begin, end, local_begin, local_end) = split(when);
        let repeat = repeat.map(RepeatBody::from);
        ResourceReserve { resource, booking, begin, end, local_begin, local_end, repeat, details }
    }
}

/// When a booking comes again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatBody {
    /// `day`, `week` or `month`.
    pub every: SmolStr,
    /// Every how many of them; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u32>,
    /// On which weekdays, with `week`: 1 is Monday, 7 Sunday.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weekdays: Vec<u8>,
    /// After so many bookings, the first one counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// With the last one that begins on or before this day: `2026-12-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<SmolStr>,
}

impl From<Repeat> for RepeatBody {
    fn from(Repeat { every, interval, until }: Repeat) -> RepeatBody {
        let (every, weekdays) = match every {
            Every::Day => ("day", Vec::new()),
            Every::Week(weekdays) => ("week", weekdays),
            Every::Month => ("month", Vec::new()),
        };
        let (count, until) = match until {
            Until::Count(count) => (Some(count), None),
            Until::Date(date) => (None, Some(date)),
        };
        RepeatBody { every: every.into(), interval: Some(interval), weekdays, count, until }
    }
}

/// Of `resource.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceCancel {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// Which booking or series.
    #[serde(with = "form")]
    pub booking: Id,
    /// Whether it is a series.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub series: bool,
}

/// Of `resource.move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceMove {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// Which booking.
    #[serde(with = "form")]
    pub booking: Id,
    /// From.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Up to, exclusive.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// From, on the wall where the resource is: `2026-03-29T02:30`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_begin: Option<SmolStr>,
    /// Up to, exclusive, on the wall where the resource is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_end: Option<SmolStr>,
}

impl ResourceMove {
    /// The body that says this.
    pub fn new(resource: Id, booking: Id, when: When) -> ResourceMove {
        let (begin, end, local_begin, local_end) = split(when);
        ResourceMove { resource, booking, begin, end, local_begin, local_end }
    }
}

/// Of `resource.is_available`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceIsAvailable {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// From.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// Up to, exclusive.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// From, on the wall where the resource is: `2026-03-29T02:30`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_begin: Option<SmolStr>,
    /// Up to, exclusive, on the wall where the resource is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_end: Option<SmolStr>,
}

impl ResourceIsAvailable {
    /// The body that says this.
    pub fn new(resource: Id, when: When) -> ResourceIsAvailable {
        let (begin, end, local_begin, local_end) = split(when);
        ResourceIsAvailable { resource, begin, end, local_begin, local_end }
    }
}

type Times = (Option<Timestamp>, Option<Timestamp>, Option<SmolStr>, Option<SmolStr>);

fn split(when: When) -> Times {
    match when {
        When::Utc { begin, end } => (Some(begin), Some(end), None, None),
        When::Local { begin, end } => (None, None, Some(begin), Some(end)),
    }
}

/// Of `resource.bookings`: those that overlap `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceBookings {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// From.
    #[serde(with = "form")]
    pub from: Timestamp,
    /// Up to.
    #[serde(with = "form")]
    pub to: Timestamp,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended, as its answer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SmolStr>,
}

/// Of `resource.free_slots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFreeSlots {
    /// Which resource.
    #[serde(with = "form")]
    pub resource: Id,
    /// From.
    #[serde(with = "form")]
    pub from: Timestamp,
    /// Up to.
    #[serde(with = "form")]
    pub to: Timestamp,
    /// How long a slot is to be, in milliseconds.
    pub length_ms: u64,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}
