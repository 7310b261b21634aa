//! Recurring bookings, whose local begin and end come again by day, week or month.
//!
//! The local time recurs. A booking from 22:00 to 06:00 lasts eight hours, but seven in the night in which the clocks go forward
//! and nine in the night in which they go back.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::{
    civil::Civil,
    date::{Date, Weekdays},
    slot::{DAY_MS, SLOT_SPAN_MAX_MS, Slot},
    zone::{CivilError, Zone},
};

/// The most times a booking occurs.
pub const OCCURRENCES_MAX: usize = 400;

/// The most days, weeks or months from one occurrence to the next.
pub const INTERVAL_MAX: u16 = 1_000;

/// The frequency of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// Every day.
    Daily,
    /// On these days of the week. The first occurrence is on one of them.
    Weekly { weekdays: Weekdays },
    /// On the day of the month of the first occurrence. Months without that day are skipped.
    Monthly,
}

/// The end of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this number of occurrences, including the first.
    Count(u16),
    /// With the last occurrence that begins on this local day or before.
    Date(Date),
}

/// How a booking recurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub frequency: Frequency,
    /// The step in days, weeks (from Monday) or months. 1 takes each of them.
    pub interval: u16,
    pub until: Until,
}

/// An occurrence without a slot. Its begin or its end is not an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{begin} to {end}: {local}: {error}")]
pub struct Missed {
    /// When the occurrence begins by the clock.
    pub begin: Civil,
    /// When it ends by the clock.
    pub end: Civil,
    /// Which of the two the error is about.
    pub local: Civil,
    pub error: CivilError,
}

/// All occurrences in order. Each is a slot, or the error of its local time.
///
/// # Errors
/// A text that says what is out of bounds. The end is not after the begin by the clock, the slot is longer than 366 days, the
/// first begin is not on a wanted day of the week, there are no occurrences or more than [`OCCURRENCES_MAX`], the interval is not
/// 1 to [`INTERVAL_MAX`], or the recurrence goes on after the year 9999.
pub fn occurrences(
    zone: &Zone,
    first_begin: Civil,
    first_end: Civil,
    repeat: &Repeat,
) -> Result<Vec<Result<Slot, Missed>>, SmolStr> {
    if first_begin >= first_end {
        return Err(format_smolstr!("{first_end} is not after {first_begin}"));
    }
    if first_end.as_utc_ms() - first_begin.as_utc_ms() > (SLOT_SPAN_MAX_MS - DAY_MS) as i64 {
        return Err(SmolStr::new_static("a slot that recurs is at most 365 days long"));
    }
    let last_days = (first_end.date().days() - first_begin.date().days()) as u32;
    let occurrence = |date: Date| {
        let end = date.days_later(last_days).ok_or_else(behind_the_end)?;
        Ok(slot(zone, first_begin.on(date), first_end.on(end)))
    };
    dates(first_begin.date(), repeat)?.into_iter().map(occurrence).collect()
}

/// The slot between two local times.
fn slot(zone: &Zone, begin: Civil, end: Civil) -> Result<Slot, Missed> {
    let instant = |local: Civil| zone.instant(local).map_err(|error| Missed { begin, end, local, error });
    let (from, to) = (instant(begin)?, instant(end)?);
    // The clocks show each of the two once, so they show them in order. Only the end of time can still make this fail.
    Slot::new(from, to).ok_or(Missed { begin, end, local: end, error: CivilError::OutOfRange })
}

/// The days on which the booking begins.
fn dates(first: Date, repeat: &Repeat) -> Result<Vec<Date>, SmolStr> {
    let Repeat { frequency, interval, until } = *repeat;
    if !(1..=INTERVAL_MAX).contains(&interval) {
        return Err(format_smolstr!("the interval is 1 to {INTERVAL_MAX}, not {interval}"));
    }
    let interval = u32::from(interval);
    match frequency {
        Frequency::Daily => collect((0..).map(|number| first.days_later(number * interval).map(Some)), until),
        Frequency::Weekly { weekdays } => {
            if !weekdays.contains(first.weekday()) {
                return Err(format_smolstr!("{first} is a {:?}, which is not one of {weekdays:?}", first.weekday()));
            }
            let weekday = first.weekday().number() as u32;
            // Days after the Monday of the first week. Of that week, days before the first occurrence are left out.
            let days = (0..).flat_map(|week| weekdays.iter().map(move |day| week * 7 * interval + day.number() as u32));
            let days = days.skip_while(|day| *day < weekday);
            collect(days.map(|day| first.days_later(day - weekday).map(Some)), until)
        }
        Frequency::Monthly => {
            let (year, month, day) = first.year_month_day();
            let months = (0..).map(|number| u32::from(year) * 12 + u32::from(month) - 1 + number * interval);
            let date = |months: u32| {
                // After the last year there is no month at all. A month may lack this day.
                let year = u16::try_from(months / 12).ok().filter(|year| *year <= 9999)?;
                Some(Date::new(year, (months % 12) as u8 + 1, day))
            };
            collect(months.map(date), until)
        }
    }
}

/// Dates up to the end. The outer `None` is the end of time, the inner one a month without the day.
fn collect(dates: impl Iterator<Item = Option<Option<Date>>>, until: Until) -> Result<Vec<Date>, SmolStr> {
    let mut found = Vec::new();
    let wanted = match until {
        Until::Count(count) => usize::from(count),
        Until::Date(_) => OCCURRENCES_MAX + 1,
    };
    if !(1..=OCCURRENCES_MAX + 1).contains(&wanted) {
        return Err(too_many());
    }
    for date in dates {
        if found.len() == wanted {
            break;
        }
        let Some(date) = date else { return Err(behind_the_end()) };
        match until {
            Until::Date(last) if date.is_some_and(|date| date > last) => break,
            Until::Date(_) | Until::Count(_) => found.extend(date),
        }
    }
    if found.is_empty() || found.len() > OCCURRENCES_MAX {
        return Err(too_many());
    }
    Ok(found)
}

fn too_many() -> SmolStr {
    format_smolstr!("a booking occurs 1 to {OCCURRENCES_MAX} times")
}

fn behind_the_end() -> SmolStr {
    SmolStr::new_static("the last occurrence is behind the year 9999")
}
