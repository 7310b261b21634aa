//! A day as year, month and day, and the days of the week.

use core::fmt;

use jiff::{civil, tz::Offset};

/// Seconds of a day.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// 9999-12-30, as days since 1970-01-01.
const LAST_DAY: i64 = 2_932_895;

/// A day, without a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Since 1970-01-01.
    day: i32,
}

impl Date {
    /// This day, or `None` if it does not exist. Years are 1970 to 9999. The last day of 9999 is excluded, because its end is
    /// after the end of time.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        let date = civil::Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
        let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
        Date::from_days(midnight.as_second().div_euclid(DAY_SECONDS))
    }

    /// The day written as `2026-03-29`.
    pub fn parse(text: &str) -> Option<Date> {
        let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes() else { return None };
        let year = number(&[y0, y1, y2, y3])?;
        Date::new(year, number(&[m0, m1])?.try_into().ok()?, number(&[d0, d1])?.try_into().ok()?)
    }

    /// Which day of the week it is.
    pub fn weekday(self) -> Weekday {
        Weekday::of_day(self.days())
    }

    /// The day `days` later, if there is one.
    pub fn days_later(self, days: u32) -> Option<Date> {
        Date::from_days(self.days() + i64::from(days))
    }

    /// Year, month (1 to 12) and day of the month.
    pub fn year_month_day(self) -> (u16, u8, u8) {
        let midnight =
            jiff::Timestamp::from_second(self.days() * DAY_SECONDS).expect("a day of the years 1970 to 9999");
        let date = Offset::UTC.to_datetime(midnight).date();
        (date.year().unsigned_abs(), date.month().unsigned_abs(), date.day().unsigned_abs())
    }

    /// Days since 1970-01-01.
    pub(super) fn days(self) -> i64 {
        i64::from(self.day)
    }

    /// The day with this number, counted from 1970-01-01.
    pub(super) fn from_days(days: i64) -> Option<Date> {
        (0..=LAST_DAY).contains(&days).then_some(Date { day: days as i32 })
    }
}

/// The number that these digits write.
pub(super) fn number(digits: &[u8]) -> Option<u16> {
    let add = |sum: u16, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0'));
    digits.iter().try_fold(0, add)
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.year_month_day();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A day of the week. Weeks begin on Monday (ISO 8601).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    /// All of them, in order.
    pub const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];

    /// The day of the week of a day counted from 1970-01-01, which was a Thursday.
    pub(super) fn of_day(days: i64) -> Weekday {
        Weekday::ALL[(days + 3).rem_euclid(7) as usize]
    }

    /// Days after Monday.
    pub fn number(self) -> usize {
        self as usize
    }
}

/// One or more days of the week.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Weekdays {
    /// One bit a day. Monday has the lowest.
    bits: u8,
}

impl Weekdays {
    /// These days, or `None` if there is none.
    pub fn new(days: impl IntoIterator<Item = Weekday>) -> Option<Weekdays> {
        let bits = days.into_iter().fold(0, |bits, day| bits | 1 << day.number());
        (bits != 0).then_some(Weekdays { bits })
    }

    /// Whether a day is one of them.
    pub fn contains(self, day: Weekday) -> bool {
        self.bits & 1 << day.number() != 0
    }

    /// The days, in order.
    pub fn iter(self) -> impl Iterator<Item = Weekday> {
        Weekday::ALL.into_iter().filter(move |day| self.contains(*day))
    }
}

impl fmt::Debug for Weekdays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
