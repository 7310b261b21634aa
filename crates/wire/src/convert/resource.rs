//! Commands of resources and their calendars.

use boxoffice_core::{
    calendar::{BookingName, CART_BOOKING_PREFIX, is_reserved},
    command::{Command, Every, OpeningHours, Rate, Repeat, ResourceCommand, ResourceDetails, Until, When},
    cursor::read_by_time,
    id::Id,
    refusal::Refusal,
    time::Timestamp,
};
use smol_str::SmolStr;

use super::{Converted, after, at_most, bounded, distinct, interval, limit, price, properties, span, text};
use crate::{
    body,
    call::Shape,
    limits::{
        AHEAD_MS_MAX, BUFFER_MS_MAX, DETAILS_BYTES_MAX, EXCEPTIONS_MAX, INTERVAL_MS_MAX, NAME_BYTES_MAX, PAGE_ENTRIES,
        PAGE_ENTRIES_MAX, RESOURCE_CAPACITY_MAX, SERIES_INTERVAL_MAX, SERIES_MAX, SPANS_MAX, ZONE_BYTES_MAX,
    },
    rejection::Rejection,
    repr::{is_date, wall_time},
};

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;

pub(crate) fn resource_put(body: body::ResourcePut) -> Converted<Command> {
    let details = ResourceDetails {
        name: text("name", body.name, 1, NAME_BYTES_MAX)?,
        properties: properties(body.properties)?,
        capacity: match body.capacity {
            Some(capacity) => capacity.within_u32("capacity", 1, RESOURCE_CAPACITY_MAX)?,
            None => 1,
        },
        zone: zone(body.zone)?,
        hours: body.hours.map(hours).transpose()?,
        before_ms: span("before_ms", body.before_ms, 0, BUFFER_MS_MAX)?,
        after_ms: span("after_ms", body.after_ms, 0, BUFFER_MS_MAX)?,
        notice_ms: span("notice_ms", body.notice_ms, 0, AHEAD_MS_MAX)?,
        horizon_ms: body.horizon_ms.map(|ms| span("horizon_ms", ms, 1, AHEAD_MS_MAX)).transpose()?,
        rate: rate(body.rate)?,
        hold_ttl_ms: body.hold_ttl_ms,
        limits: body.limits.try_into()?,
    };
    Ok(Command::Resource(body.id, ResourceCommand::Put(Box::new(details))))
}

/// Checks the form of a zone's name. The core knows which zones exist.
fn zone(zone: SmolStr) -> Converted<SmolStr> {
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

pub(crate) fn resource_reserve(body: body::ResourceReserve) -> Converted<Command> {
    if is_reserved(&body.booking) {
        let words = format!("only the bookings of carts have names that begin with `{CART_BOOKING_PREFIX}`");
        return Err(Rejection::bad_request(words));
    }
    let reserve = ResourceCommand::Reserve {
        booking: body.booking,
        when: when(body.begin, body.end, body.local_begin, body.local_end)?,
        repeat: body.repeat.map(repeat).transpose()?,
        details: text("details", body.details, 0, DETAILS_BYTES_MAX)?,
    };
    Ok(Command::Resource(body.resource, reserve))
}

fn repeat(body: body::RepeatBody) -> Converted<Repeat> {
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
        (Some(count), None) => Until::Count(bounded("count", count, SERIES_MAX)?),
        (None, Some(date)) if is_date(&date) => Until::Date(date),
        (None, Some(_)) => return Err(Rejection::bad_request("`until` is a day, as `2026-12-31`")),
        (None, None) | (Some(_), Some(_)) => {
            return Err(Rejection::bad_request("a repetition ends with either `count` or `until`"));
        }
    };
    Ok(Repeat { every, interval: bounded("interval", body.interval.unwrap_or(1), SERIES_INTERVAL_MAX)?, until })
}

pub(crate) fn resource_cancel(body: body::ResourceCancel) -> Converted<Command> {
    let booking = booking(&body.booking)?;
    Ok(Command::Resource(body.resource, ResourceCommand::Cancel { booking, series: body.series }))
}

/// The booking with this name.
fn booking(name: &Id) -> Converted<BookingName> {
    let other = || format!("a cart's booking is called `{CART_BOOKING_PREFIX}` and 32 lower-case hexadecimal digits");
    BookingName::parse(name.as_str()).ok_or_else(|| Rejection::bad_request(other()))
}

pub(crate) fn resource_move(body: body::ResourceMove) -> Converted<Command> {
    let when = when(body.begin, body.end, body.local_begin, body.local_end)?;
    Ok(Command::Resource(body.resource, ResourceCommand::Move { booking: booking(&body.booking)?, when }))
}

pub(crate) fn resource_is_available(body: body::ResourceIsAvailable) -> Converted<Command> {
    let when = when(body.begin, body.end, body.local_begin, body.local_end)?;
    Ok(Command::Resource(body.resource, ResourceCommand::IsAvailable(when)))
}

pub(crate) fn resource_bookings(body: body::ResourceBookings) -> Converted<(Command, Shape)> {
    let ((from, to), limit) = (interval(body.from, body.to)?, limit(body.limit)?);
    let after = after(body.cursor, |cursor| read_by_time(cursor, BookingName::parse))?;
    let bookings = ResourceCommand::Bookings { from, to, limit, after };
    Ok((Command::Resource(body.resource, bookings), Shape::Page { limit }))
}

pub(crate) fn resource_free_slots(body: body::ResourceFreeSlots) -> Converted<Command> {
    let (from, to) = interval(body.from, body.to)?;
    if !(1..=INTERVAL_MS_MAX).contains(&body.length_ms) {
        return Err(Refusal::BadInterval("`length_ms` is from 1 millisecond to 366 days".into()).into());
    }
    let count = bounded("count", body.count.unwrap_or(PAGE_ENTRIES), PAGE_ENTRIES_MAX)?;
    let slots = ResourceCommand::FreeSlots { from, to, length_ms: body.length_ms, count };
    Ok(Command::Resource(body.resource, slots))
}
