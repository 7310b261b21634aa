//! A time as a clock on the wall shows it, without a zone.

use core::fmt;

use super::date::{Date, number};

/// Milliseconds of a day of 24 hours.
const DAY_MS: i64 = super::slot::DAY_MS as i64;

/// A local date and time of day, to the millisecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    date: Date,
    /// Since midnight by the clock, less than 24 hours.
    time_ms: u32,
}

impl Civil {
    /// This time of this day, in milliseconds by the clock since midnight, or `None` if it is 24 hours or more.
    pub fn new(date: Date, time_ms: u32) -> Option<Civil> {
        (i64::from(time_ms) < DAY_MS).then_some(Civil { date, time_ms })
    }

    /// The time in a text like `2026-03-29T02:30`, optionally with seconds (`:00`) and milliseconds (`.000`), never with an
    /// offset.
    pub fn parse(text: &str) -> Option<Civil> {
        let (date, time) = text.split_at_checked(10)?;
        let &[b'T', h0, h1, b':', m0, m1, ref rest @ ..] = time.as_bytes() else { return None };
        let (second, milli) = match *rest {
            [] => (0, 0),
            [b':', s0, s1] => (number(&[s0, s1])?, 0),
            [b':', s0, s1, b'.', t0, t1, t2] => (number(&[s0, s1])?, number(&[t0, t1, t2])?),
            _ => return None,
        };
        let (hour, minute) = (number(&[h0, h1])?, number(&[m0, m1])?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let seconds = (u32::from(hour) * 60 + u32::from(minute)) * 60 + u32::from(second);
        Civil::new(Date::parse(date)?, seconds * 1000 + u32::from(milli))
    }

    /// The day.
    pub fn date(self) -> Date {
        self.date
    }

    /// The time of day, in milliseconds by the clock since midnight.
    pub fn time_ms(self) -> u32 {
        self.time_ms
    }

    /// The same time of another day.
    pub(super) fn on(self, date: Date) -> Civil {
        Civil { date, ..self }
    }

    /// The instant at which a clock in UTC shows this time, in milliseconds since 1970-01-01.
    pub(super) fn as_utc_ms(self) -> i64 {
        self.date.days() * DAY_MS + i64::from(self.time_ms)
    }

    /// The time that a clock in UTC shows at an instant.
    pub(super) fn from_utc_ms(ms: i64) -> Option<Civil> {
        let date = Date::from_days(ms.div_euclid(DAY_MS))?;
        Civil::new(date, u32::try_from(ms.rem_euclid(DAY_MS)).expect("less than a day"))
    }
}

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.time_ms / 1000, self.time_ms % 1000);
        write!(f, "{}T{:02}:{:02}", self.date, seconds / 3600, seconds / 60 % 60)?;
        match (seconds % 60, millis) {
            (0, 0) => Ok(()),
            (second, 0) => write!(f, ":{second:02}"),
            (second, millis) => write!(f, ":{second:02}.{millis:03}"),
        }
    }
}

impl fmt::Debug for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
