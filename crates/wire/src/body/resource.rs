//! The ops on resources and their calendars. A time is `begin` and `end`, or `local_begin` and `local_end`.

use boxoffice_core::{
    calendar::{BookingName, CART_BOOKING_PREFIX, is_reserved},
    command::{Command, Details, Every, OpeningHours, Rate, Repeat, ResourceCommand, ResourceDetails, Until, When},
    cursor::read_by_time,
    id::Id,
    refusal::Refusal,
    text::Name,
    time::Timestamp,
};
use boxoffice_declare::{op, shape};
use smol_str::SmolStr;

use super::{Get, LimitsBody};
use crate::{
    call::Shape,
    convert::{Converted, after, at_most, distinct, interval, price, properties, span},
    limits::{
        AHEAD_MS_MAX, BUFFER_MS_MAX, EXCEPTIONS_MAX, INTERVAL_MS_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX,
        RESOURCE_CAPACITY_MAX, SERIES_INTERVAL_MAX, SERIES_MAX, SPANS_MAX, ZONE_BYTES_MAX,
    },
    quantity::Quantity,
    rejection::Rejection,
    reply::{Available, BookingPage, FreeSlots},
    repr::{
        Day, WallTime, is_date,
        shape::{Each, WHOLE_MAX, With},
        wall_time,
    },
    view::ResourceView,
};

/// Create or change a resource.
#[op("resource.put", desk, venues(Refused), frame(Import), weight(15), answers(ResourceView))]
#[example(r#"{"after_ms": 900000, "hours": {"exceptions": {"2099-12-24": [[540, 720]], "2099-12-25": []}, "week": [[[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[540, 720], [780, 1080]], [[600, 720]], []]}, "id": "room-5", "name": "Room 5", "notice_ms": 3600000, "properties": {"floor": "2"}, "rate": {"amount": 2000, "currency": "EUR", "per_ms": 3600000}, "zone": "Europe/London"}"#)]
#[example(r#"{"capacity": 2, "id": "projector", "name": "Projectors", "rate": {"amount": 1500, "currency": "EUR"}, "zone": "Europe/London"}"#)]
#[derive(Eq)]
pub struct ResourcePut {
    pub id: Id,
    pub name: Name,
    #[optional]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// The maximum of bookings at an instant. 1 if absent.
    #[within(1..=RESOURCE_CAPACITY_MAX)]
    pub capacity: Option<Quantity>,
    /// The IANA name of its time zone.
    #[narrow(With("pattern", format!("^[A-Za-z0-9/_+-]{{1,{ZONE_BYTES_MAX}}}$")))]
    pub zone: SmolStr,
    /// When it may be booked. Always if absent.
    pub hours: Option<OpeningHours>,
    /// The time that is kept free before every booking.
    #[optional]
    #[within(0..=BUFFER_MS_MAX)]
    pub before_ms: u64,
    /// The time that is kept free after every booking.
    #[optional]
    #[within(0..=BUFFER_MS_MAX)]
    pub after_ms: u64,
    /// The least time from now to a booking.
    #[optional]
    #[within(0..=AHEAD_MS_MAX)]
    pub notice_ms: u64,
    /// The most time from now to a booking.
    #[within(1..=AHEAD_MS_MAX)]
    pub horizon_ms: Option<u64>,
    pub rate: Rate,
    /// The time to live of carts with slots of it, instead of the default.
    #[narrow(1..=WHOLE_MAX)]
    pub hold_ttl_ms: Option<u64>,
    #[optional]
    pub limits: LimitsBody,
}

impl ResourcePut {
    fn command(self) -> Converted<Command> {
        let details = ResourceDetails {
            name: self.name.into_plain(),
            properties: properties(self.properties)?,
            capacity: self.capacity.map_or(1, |capacity| capacity.checked_u32()),
            zone: zone(self.zone)?,
            hours: self.hours.map(hours).transpose()?,
            before_ms: self.before_ms,
            after_ms: self.after_ms,
            notice_ms: self.notice_ms,
            horizon_ms: self.horizon_ms,
            rate: rate(self.rate)?,
            hold_ttl_ms: self.hold_ttl_ms,
            limits: self.limits.try_into()?,
        };
        Ok(Command::Resource(self.id, ResourceCommand::Put(Box::new(details))))
    }
}

/// Read a resource.
#[op("resource.get", read, weight(1), answers(ResourceView))]
#[example(r#"{"id": "room-5"}"#)]
pub struct ResourceGet(pub Get);

impl ResourceGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Resource(self.0.id, ResourceCommand::Get))
    }
}

/// Book time of a resource without a cart, once or repeatedly, all or none.
#[op("resource.reserve", desk, venues(Refused), pace(Limited), weight(12), answers(BookingPage))]
#[example(
    r#"{"begin": "2099-04-13T08:00:00Z", "booking": "talk", "end": "2099-04-13T09:00:00Z", "resource": "room-5"}"#
)]
#[example(r#"{"booking": "choir", "details": "with a piano", "local_begin": "2099-04-13T13:00", "local_end": "2099-04-13T14:30", "repeat": {"count": 10, "every": "week", "interval": 2, "weekdays": [1, 3]}, "resource": "room-5"}"#)]
#[derive(Eq)]
#[one_of([begin, end] [local_begin, local_end])]
pub struct ResourceReserve {
    pub resource: Id,
    pub booking: Id,
    pub begin: Option<Timestamp>,
    /// The end, exclusive.
    pub end: Option<Timestamp>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_begin: Option<SmolStr>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_end: Option<SmolStr>,
    pub repeat: Option<RepeatBody>,
    #[optional]
    pub details: Details,
}

impl ResourceReserve {
    fn command(self) -> Converted<Command> {
        if is_reserved(&self.booking) {
            let words = format!("only the bookings of carts have names that begin with `{CART_BOOKING_PREFIX}`");
            return Err(Rejection::bad_request(words));
        }
        let reserve = ResourceCommand::Reserve {
            booking: self.booking,
            when: when(self.begin, self.end, self.local_begin, self.local_end)?,
            repeat: self.repeat.map(repeat).transpose()?,
            details: self.details,
        };
        Ok(Command::Resource(self.resource, reserve))
    }
}

/// The repetitions of the booking: a number, the first booking included, or up to a day.
#[shape("Repeat")]
#[derive(Default, Eq)]
#[one_of([count] [until])]
pub struct RepeatBody {
    #[narrow(["day", "week", "month"])]
    pub every: SmolStr,
    /// The number of days, weeks or months between bookings. 1 if absent.
    #[within(1..=SERIES_INTERVAL_MAX)]
    pub interval: Option<u32>,
    /// The weekdays, 1 is Monday and 7 Sunday. With `week` only.
    #[optional]
    #[narrow(((0..=7, Each(1..=7)), With("uniqueItems", true)))]
    pub weekdays: Vec<u8>,
    #[within(1..=SERIES_MAX)]
    pub count: Option<u32>,
    #[narrow(Day)]
    pub until: Option<SmolStr>,
}

/// End a booking by its name, a cart's too, or all bookings of a series.
#[op("resource.cancel", desk, venues(Refused), weight(12), answers())]
#[example(r#"{"booking": "choir", "resource": "room-5", "series": true}"#)]
#[derive(Eq)]
pub struct ResourceCancel {
    pub resource: Id,
    pub booking: Id,
    /// Whether `booking` is the name of a series, which ends as a whole.
    #[optional]
    pub series: bool,
}

impl ResourceCancel {
    fn command(self) -> Converted<Command> {
        let booking = booking(&self.booking)?;
        Ok(Command::Resource(self.resource, ResourceCommand::Cancel { booking, series: self.series }))
    }
}

/// Move a booking to another time.
#[op("resource.move", desk, venues(Refused), weight(12), answers(BookingPage))]
#[example(
    r#"{"begin": "2099-04-14T09:00:00Z", "booking": "talk", "end": "2099-04-14T10:00:00Z", "resource": "room-5"}"#
)]
#[derive(Eq)]
#[one_of([begin, end] [local_begin, local_end])]
pub struct ResourceMove {
    pub resource: Id,
    pub booking: Id,
    pub begin: Option<Timestamp>,
    /// The end, exclusive.
    pub end: Option<Timestamp>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_begin: Option<SmolStr>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_end: Option<SmolStr>,
}

impl ResourceMove {
    fn command(self) -> Converted<Command> {
        let when = when(self.begin, self.end, self.local_begin, self.local_end)?;
        Ok(Command::Resource(self.resource, ResourceCommand::Move { booking: booking(&self.booking)?, when }))
    }
}

/// Whether a time is free, and the conflicts if not.
#[op("resource.is_available", read, weight(2), answers(Available))]
#[example(r#"{"begin": "2099-04-13T08:00:00Z", "end": "2099-04-13T09:00:00Z", "resource": "room-5"}"#)]
#[example(r#"{"local_begin": "2099-04-14T10:30", "local_end": "2099-04-14T11:30", "resource": "room-5"}"#)]
#[derive(Eq)]
#[one_of([begin, end] [local_begin, local_end])]
pub struct ResourceIsAvailable {
    pub resource: Id,
    pub begin: Option<Timestamp>,
    /// The end, exclusive.
    pub end: Option<Timestamp>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_begin: Option<SmolStr>,
    /// The local time of the resource.
    #[narrow(WallTime)]
    pub local_end: Option<SmolStr>,
}

impl ResourceIsAvailable {
    fn command(self) -> Converted<Command> {
        let when = when(self.begin, self.end, self.local_begin, self.local_end)?;
        Ok(Command::Resource(self.resource, ResourceCommand::IsAvailable(when)))
    }
}

/// The bookings that overlap a time, held and bought ones.
#[op("resource.bookings", read, weight(6), answers(BookingPage))]
#[example(r#"{"from": "2099-04-13T00:00:00Z", "limit": 1, "resource": "room-5", "to": "2099-04-20T00:00:00Z"}"#)]
#[derive(Eq)]
pub struct ResourceBookings {
    pub resource: Id,
    /// Only bookings that end after this time.
    pub from: Timestamp,
    /// Only bookings that begin before this time.
    pub to: Timestamp,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
    /// The cursor of the page before.
    pub cursor: Option<SmolStr>,
}

impl ResourceBookings {
    fn command(self) -> Converted<(Command, Shape)> {
        let ((from, to), limit) = (interval(self.from, self.to)?, self.limit.unwrap_or(PAGE_ENTRIES));
        let after = after(self.cursor, |cursor| read_by_time(cursor, BookingName::parse))?;
        let bookings = ResourceCommand::Bookings { from, to, limit, after };
        Ok((Command::Resource(self.resource, bookings), Shape::Page { limit }))
    }
}

/// The first free slots of a length.
#[op("resource.free_slots", read, weight(5), answers(FreeSlots))]
#[example(r#"{"count": 3, "from": "2099-04-13T00:00:00Z", "length_ms": 3600000, "resource": "room-5", "to": "2099-04-20T00:00:00Z"}"#)]
#[derive(Eq)]
pub struct ResourceFreeSlots {
    pub resource: Id,
    /// The earliest begin of a slot.
    pub from: Timestamp,
    /// The latest end of a slot.
    pub to: Timestamp,
    #[narrow(1..=INTERVAL_MS_MAX)]
    pub length_ms: u64,
    /// The maximum number of slots, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub count: Option<u32>,
    /// Slots begin on a raster of this, counted from local midnight of the resource, and may overlap each other. Without it each
    /// begins as early as it can, and all can be booked together.
    #[within(1..=DAY_MS)]
    pub step_ms: Option<u64>,
    /// Where the raster begins after midnight. Less than `step_ms`.
    #[optional]
    #[within(0..=DAY_MS - 1)]
    pub align_ms: u64,
}

impl ResourceFreeSlots {
    fn command(self) -> Converted<Command> {
        let (from, to) = interval(self.from, self.to)?;
        if !(1..=INTERVAL_MS_MAX).contains(&self.length_ms) {
            return Err(Refusal::BadInterval("`length_ms` is from 1 millisecond to 366 days".into()).into());
        }
        let count = self.count.unwrap_or(PAGE_ENTRIES);
        let ResourceFreeSlots { length_ms, step_ms, align_ms, .. } = self;
        if align_ms > 0 && step_ms.is_none_or(|step_ms| align_ms >= step_ms) {
            return Err(Rejection::bad_request("`align_ms` is less than `step_ms`, and needs one"));
        }
        let slots = ResourceCommand::FreeSlots { from, to, length_ms, count, step_ms, align_ms };
        Ok(Command::Resource(self.resource, slots))
    }
}

impl ResourcePut {
    /// The body with these details.
    pub fn new(id: Id, details: ResourceDetails) -> ResourcePut {
        ResourcePut {
            id,
            name: Name::as_said(details.name),
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

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60_000;

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;

/// Checks the form of a zone's name. The core knows which zones exist.
pub(super) fn zone(zone: SmolStr) -> Converted<SmolStr> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'+' | b'-');
    if (1..=ZONE_BYTES_MAX).contains(&zone.len()) && zone.bytes().all(plain) {
        Ok(zone)
    } else {
        Err(Rejection::bad_request("`zone` is the IANA name of a zone, as `Europe/Berlin`"))
    }
}

fn rate(rate: Rate) -> Converted<Rate> {
    price(rate.amount)?;
    if let Some(per_ms) = rate.per_ms {
        span("per_ms", per_ms, 1, INTERVAL_MS_MAX)?;
    }
    Ok(rate)
}

/// Opening hours with sorted spans and days, since their order in the request has no meaning.
fn hours(mut hours: OpeningHours) -> Converted<OpeningHours> {
    at_most(hours.exceptions.len(), EXCEPTIONS_MAX, "days in `exceptions`")?;
    if hours.exceptions.iter().any(|(day, _)| !is_date(day)) {
        return Err(Rejection::bad_request("a day in `exceptions` is as `2026-12-24`"));
    }
    hours.exceptions.sort();
    distinct(&hours.exceptions, |(day, _)| day, "a day is twice in `exceptions`")?;
    hours.week.iter_mut().try_for_each(|day| spans(day))?;
    hours.exceptions.iter_mut().try_for_each(|(_, day)| spans(day))?;
    Ok(hours)
}

fn spans(day: &mut [(u16, u16)]) -> Converted<()> {
    at_most(day.len(), SPANS_MAX, "spans of opening hours a day")?;
    day.sort_unstable();
    let whole = day.iter().all(|(open, close)| open < close && *close <= DAY_MINUTES);
    let apart = day.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    if whole && apart {
        Ok(())
    } else {
        Err(Rejection::bad_request("opening hours are `[open, close]` in minutes up to 1440, and do not overlap"))
    }
}

/// The time between two instants or two local times.
fn when(
    begin: Option<Timestamp>,
    end: Option<Timestamp>,
    local_begin: Option<SmolStr>,
    local_end: Option<SmolStr>,
) -> Converted<When> {
    match (begin, end, local_begin, local_end) {
        (Some(begin), Some(end), None, None) => {
            let (begin, end) = interval(begin, end)?;
            Ok(When::Utc { begin, end })
        }
        (None, None, Some(begin), Some(end)) => local(begin, end),
        _ => Err(Rejection::bad_request("a time is `begin` and `end`, or `local_begin` and `local_end`")),
    }
}

fn local(begin: SmolStr, end: SmolStr) -> Converted<When> {
    let said = |text: &SmolStr| {
        let why = || Refusal::BadInterval("a local time is as `2026-03-29T02:30`".into());
        wall_time(text).ok_or_else(why)
    };
    let (from, to) = (said(&begin)?, said(&end)?);
    if from >= to {
        return Err(Refusal::BadInterval("it ends before it begins, or is empty".into()).into());
    }
    let longest = i128::from(INTERVAL_MS_MAX) * 1_000_000;
    if to.duration_since(from).as_nanos() > longest {
        return Err(Refusal::BadInterval("it is longer than 366 days".into()).into());
    }
    Ok(When::Local { begin, end })
}

fn repeat(body: RepeatBody) -> Converted<Repeat> {
    let mut weekdays = body.weekdays;
    weekdays.sort_unstable();
    let distinct = weekdays.windows(2).all(|pair| pair[0] < pair[1]);
    if !distinct || weekdays.iter().any(|day| !(1..=7).contains(day)) {
        return Err(Rejection::bad_request("`weekdays` are from 1 (Monday) to 7 (Sunday), each once"));
    }
    let every = match body.every.as_str() {
        "week" => Every::Week(weekdays),
        "day" | "month" if !weekdays.is_empty() => {
            return Err(Rejection::bad_request("`weekdays` are of `every` `week`"));
        }
        "day" => Every::Day,
        "month" => Every::Month,
        _ => return Err(Rejection::bad_request("`every` is `day`, `week` or `month`")),
    };
    let until = match (body.count, body.until) {
        (Some(count), None) => Until::Count(count),
        (None, Some(date)) if is_date(&date) => Until::Date(date),
        (None, Some(_)) => return Err(Rejection::bad_request("`until` is a day, as `2026-12-31`")),
        (None, None) | (Some(_), Some(_)) => {
            return Err(Rejection::bad_request("a repetition ends with either `count` or `until`"));
        }
    };
    Ok(Repeat { every, interval: body.interval.unwrap_or(1), until })
}

/// The booking with this name.
fn booking(name: &Id) -> Converted<BookingName> {
    let other = || format!("a cart's booking is called `{CART_BOOKING_PREFIX}` and 32 lower-case hexadecimal digits");
    BookingName::parse(name.as_str()).ok_or_else(|| Rejection::bad_request(other()))
}
