//! Bodies of the ops on resources and their calendars. A time is `begin` and `end`, or `local_begin` and `local_end`.

use boxoffice_core::{
    command::{Every, OpeningHours, Rate, Repeat, ResourceDetails, Until, When},
    id::Id,
    time::Timestamp,
};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{
    limits::{
        AHEAD_MS_MAX, BUFFER_MS_MAX, DETAILS_BYTES_MAX, INTERVAL_MS_MAX, NAME_BYTES_MAX, PAGE_ENTRIES_MAX,
        RESOURCE_CAPACITY_MAX, SERIES_INTERVAL_MAX, SERIES_MAX, ZONE_BYTES_MAX,
    },
    quantity::Quantity,
    repr::{
        Day, WallTime,
        shape::{Each, WHOLE_MAX, With, shapes},
    },
};

/// Defines bodies of ops about a time of a resource, between two instants or two local times of the resource.
macro_rules! of_a_time {
    ($($body:ident { $($before:tt)* } time { $($after:tt)* })+) => {
        shapes! {$(
            #[derive(Eq)]
            #[one_of([begin, end] [local_begin, local_end])]
            pub struct $body {
                pub resource: Id,
                $($before)*
                pub begin?: Option<Timestamp>,
                /// The end, exclusive.
                pub end?: Option<Timestamp>,
                /// The local time of the resource.
                pub local_begin?: Option<SmolStr> = WallTime,
                /// The local time of the resource.
                pub local_end?: Option<SmolStr> = WallTime,
                $($after)*
            }
        )+}
    };
}

of_a_time! {
    ResourceReserve {
        pub booking: Id,
    } time {
        pub repeat?: Option<RepeatBody>,
        pub details?: SmolStr = 0..=DETAILS_BYTES_MAX,
    }
    ResourceMove {
        pub booking: Id,
    } time {}
    ResourceIsAvailable {} time {}
}

shapes! {
    /// The repetitions of the booking: a number, the first booking included, or up to a day.
    #[derive(Default, Eq)]
    #[one_of([count] [until])]
    pub struct RepeatBody as Repeat {
        pub every: SmolStr = ["day", "week", "month"],
        /// The number of days, weeks or months between bookings. 1 if absent.
        pub interval?: Option<u32> = 1..=SERIES_INTERVAL_MAX,
        /// The weekdays, 1 is Monday and 7 Sunday. With `week` only.
        pub weekdays?: Vec<u8> = ((0..=7, Each(1..=7)), With("uniqueItems", true)),
        pub count?: Option<u32> = 1..=SERIES_MAX,
        pub until?: Option<SmolStr> = Day,
    }

    #[derive(Eq)]
    pub struct ResourcePut {
        pub id: Id,
        pub name: SmolStr = 1..=NAME_BYTES_MAX,
        pub properties?: Vec<(SmolStr, SmolStr)>,
        /// The maximum of bookings at an instant. 1 if absent.
        pub capacity?: Option<Quantity> = 1..=RESOURCE_CAPACITY_MAX,
        /// The IANA name of its time zone.
        pub zone: SmolStr = With("pattern", format!("^[A-Za-z0-9/_+-]{{1,{ZONE_BYTES_MAX}}}$")),
        /// When it may be booked. Always if absent.
        pub hours?: Option<OpeningHours>,
        /// The time that is kept free before every booking.
        pub before_ms?: u64 = 0..=BUFFER_MS_MAX,
        /// The time that is kept free after every booking.
        pub after_ms?: u64 = 0..=BUFFER_MS_MAX,
        /// The least time from now to a booking.
        pub notice_ms?: u64 = 0..=AHEAD_MS_MAX,
        /// The most time from now to a booking.
        pub horizon_ms?: Option<u64> = 1..=AHEAD_MS_MAX,
        pub rate: Rate,
        /// The time to live of carts with slots of it, instead of the default.
        pub hold_ttl_ms?: Option<u64> = 1..=WHOLE_MAX,
        pub limits?: LimitsBody,
    }

    #[derive(Eq)]
    pub struct ResourceCancel {
        pub resource: Id,
        pub booking: Id,
        /// Whether `booking` is the name of a series, which ends as a whole.
        pub series?: bool,
    }

    #[derive(Eq)]
    pub struct ResourceBookings {
        pub resource: Id,
        /// Only bookings that end after this time.
        pub from: Timestamp,
        /// Only bookings that begin before this time.
        pub to: Timestamp,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
        /// The cursor of the page before.
        pub cursor?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct ResourceFreeSlots {
        pub resource: Id,
        /// The earliest begin of a slot.
        pub from: Timestamp,
        /// The latest end of a slot.
        pub to: Timestamp,
        pub length_ms: u64 = 1..=INTERVAL_MS_MAX,
        /// The maximum number of slots, 100 if absent.
        pub count?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
    }
}

impl ResourcePut {
    /// The body with these details.
    pub fn new(id: Id, details: ResourceDetails) -> ResourcePut {
        ResourcePut {
            id,
            name: details.name,
            properties: details.properties,
            capacity: Some(details.capacity.into()),
            zone: details.zone,
            hours: details.hours,
            before_ms: details.before_ms,
            after_ms: details.after_ms,
            notice_ms: details.notice_ms,
            horizon_ms: details.horizon_ms,
            rate: details.rate,
            hold_ttl_ms: details.hold_ttl_ms,
            limits: details.limits.into(),
        }
    }
}

impl ResourceReserve {
    /// The body with these details.
    pub fn new(resource: Id, booking: Id, when: When, repeat: Option<Repeat>, details: SmolStr) -> ResourceReserve {
        let (begin, end, local_begin, local_end) = split(when);
        let repeat = repeat.map(RepeatBody::from);
        ResourceReserve { resource, booking, begin, end, local_begin, local_end, repeat, details }
    }
}

impl ResourceMove {
    /// The body with these details.
    pub fn new(resource: Id, booking: Id, when: When) -> ResourceMove {
        let (begin, end, local_begin, local_end) = split(when);
        ResourceMove { resource, booking, begin, end, local_begin, local_end }
    }
}

impl ResourceIsAvailable {
    /// The body with these details.
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
