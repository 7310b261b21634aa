//! Times in files: RFC 3339, the venue's local time like `2026-12-24T19:30`, or relative like `+1d 19:30` and `+90m`. Those of a sale may
//! also be before the start, like `-1h`.

use std::fmt;

use boxoffice_core::{
    calendar::{Civil, CivilError, Date, Zone},
    time::{TIMESTAMP_MAX, Timestamp},
};
use boxoffice_wire::repr;
use serde::{Deserialize, Deserializer, de};

use crate::local_time::with_offset;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// An instant, a local time, or a time relative to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    /// By the clocks of the venue.
    Local(Civil),
    /// A time after the other one.
    Later {
        span_ms: u64,
    },
    /// A time before the other one.
    Earlier {
        span_ms: u64,
    },
    /// A time of day, days after the other one.
    OnDay {
        /// Days, counted by the calendar of the clock. Days before the other one are negative.
        days: i64,
        clock: Clock,
    },
}

/// A time of day, by the clocks of the venue or with an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    minutes: u64,
    east_minutes: Option<i64>,
}

/// A text that is not an instant.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no time; write RFC 3339 like 2026-12-24T19:30:00Z, the venue's own time like 2026-12-24T19:30, or from now like \
     \"+1d 19:30\" or \"+90m\""
)]
pub struct WhenError(String);

impl When {
    /// Reads a text.
    ///
    /// # Errors
    /// [`WhenError`] has the valid forms.
    pub fn read(text: &str) -> Result<When, WhenError> {
        let read = match text.strip_prefix('+') {
            Some(relative) => later(relative),
            None => repr::timestamp(text).map(When::At).or_else(|| local(text)),
        };
        read.ok_or_else(|| WhenError(text.to_owned()))
    }

    /// Whether it is relative.
    pub fn is_relative(self) -> bool {
        match self {
            When::At(_) | When::Local(_) => false,
            When::Later { .. } | When::Earlier { .. } | When::OnDay { .. } => true,
        }
    }

    /// The instant. A relative one is counted from `from`, and a local time is that of `zone`.
    ///
    /// # Errors
    /// It is before 1970 or beyond the year 9999, or the clocks of the zone show it never or twice.
    pub fn after(self, from: Timestamp, zone: &Zone) -> Result<Timestamp, String> {
        let is_before = matches!(self, When::Earlier { .. }) || matches!(self, When::OnDay { days, .. } if days < 0);
        let too_far = || match is_before {
            true => "its time is before 1970".to_owned(),
            false => "its time is beyond the year 9999".to_owned(),
        };
        let at = match self {
            When::At(at) => Some(at.0),
            When::Later { span_ms } => from.0.checked_add(span_ms),
            When::Earlier { span_ms } => from.0.checked_sub(span_ms),
            When::Local(local) => return instant(zone, local),
            When::OnDay { days, clock: Clock { minutes, east_minutes: None } } => {
                let today = zone.civil(from).ok_or_else(too_far)?.date();
                let day = days_after(today, days);
                let time_ms = u32::try_from(minutes * MINUTE_MS).ok();
                let local = day.zip(time_ms).and_then(|(day, time_ms)| Civil::new(day, time_ms));
                return instant(zone, local.ok_or_else(too_far)?);
            }
            When::OnDay { days, clock: Clock { minutes, east_minutes: Some(east_minutes) } } => {
                let east_ms = east_minutes * MINUTE_MS as i64;
                let local_day = from.0.checked_add_signed(east_ms).map(|local| local / DAY_MS);
                let local = local_day.and_then(|day| {
                    day.checked_add_signed(days)?.checked_mul(DAY_MS)?.checked_add(minutes * MINUTE_MS)
                });
                local.and_then(|local| local.checked_add_signed(-east_ms))
            }
        };
        at.filter(|at| *at <= TIMESTAMP_MAX.0).map(Timestamp).ok_or_else(too_far)
    }
}

/// A day some days after another one, or before it.
fn days_after(day: Date, days: i64) -> Option<Date> {
    if days >= 0 {
        return day.days_later(u32::try_from(days).ok()?);
    }
    // Days of UTC are all of the same length.
    let utc = Zone::utc();
    let midnight = utc.instant(Civil::new(day, 0)?).ok()?;
    let earlier = midnight.0.checked_sub(days.unsigned_abs().checked_mul(DAY_MS)?)?;
    Some(utc.civil(Timestamp(earlier))?.date())
}

/// A time of a session's sale: an instant, a local time, or one before or after the start of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleTime(When);

/// A text that is no time of a sale.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no time; write RFC 3339 like 2026-12-24T19:30:00Z, the venue's own time like 2026-12-24T19:30, or from the start of the \
     session like \"-1h\", \"-30d 10:00\" or \"+15m\""
)]
pub struct SaleTimeError(String);

impl SaleTime {
    /// Reads a text.
    ///
    /// # Errors
    /// [`SaleTimeError`] has the valid forms.
    pub fn read(text: &str) -> Result<SaleTime, SaleTimeError> {
        let read = match text.strip_prefix('-') {
            Some(relative) => later(relative).and_then(|later| match later {
                When::Later { span_ms } => Some(When::Earlier { span_ms }),
                When::OnDay { days, clock } => Some(When::OnDay { days: -days, clock }),
                When::At(_) | When::Local(_) | When::Earlier { .. } => None,
            }),
            None => When::read(text).ok(),
        };
        read.map(SaleTime).ok_or_else(|| SaleTimeError(text.to_owned()))
    }

    /// The instant, in a session that starts at this time in this zone.
    ///
    /// # Errors
    /// As [`When::after`].
    pub fn of(self, starts_at: Timestamp, zone: &Zone) -> Result<Timestamp, String> {
        self.0.after(starts_at, zone)
    }
}

/// The instant of a local time.
fn instant(zone: &Zone, local: Civil) -> Result<Timestamp, String> {
    zone.instant(local).map_err(|error| match error {
        CivilError::DoesNotExist { before, after } => format!(
            "{local} does not exist in {zone}, because the clocks go forward over it; write {} or {}",
            with_offset(zone, before),
            with_offset(zone, after),
        ),
        CivilError::ExistsTwice { first, second } => format!(
            "{local} exists twice in {zone}, because the clocks go back; write {} or {}",
            with_offset(zone, first),
            with_offset(zone, second),
        ),
        CivilError::OutOfRange => "its time is before 1970 or beyond the year 9999".into(),
    })
}

/// `2026-12-24T19:30`, or with a blank, optionally with seconds.
fn local(text: &str) -> Option<When> {
    Civil::parse(&text.replacen(' ', "T", 1)).map(When::Local)
}

/// `1d 19:30`, `1d12h`, `90m`.
fn later(text: &str) -> Option<When> {
    let (spans, clock) = match text.split_once([' ', 'T']) {
        Some((spans, clock)) => (spans, Some(self::clock(clock.trim())?)),
        None => (text, None),
    };
    let (mut span_ms, mut rest) = (0u64, spans.trim());
    if rest.is_empty() {
        return None;
    }
    let mut only_days = true;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next()?;
        let unit_ms = match unit {
            'd' => DAY_MS,
            'h' => HOUR_MS,
            'm' => MINUTE_MS,
            _ => return None,
        };
        only_days &= unit == 'd';
        span_ms = span_ms.checked_add(number.checked_mul(unit_ms)?)?;
        rest = rest[digits + 1..].trim_start();
    }
    match clock {
        None => Some(When::Later { span_ms }),
        Some(clock) if only_days => Some(When::OnDay { days: i64::try_from(span_ms / DAY_MS).ok()?, clock }),
        Some(_) => None,
    }
}

/// `19:30`, `19:30Z`, `19:30+02:00`.
fn clock(text: &str) -> Option<Clock> {
    let at = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(at);
    let east_minutes = match zone.chars().next() {
        None => None,
        Some('Z') => Some((zone.len() == 1).then_some(0)?),
        Some(sign) => {
            let minutes = i64::try_from(minutes(&zone[1..])?).ok()?;
            Some(if sign == '-' { -minutes } else { minutes })
        }
    };
    Some(Clock { minutes: minutes(time)?, east_minutes })
}

/// Minutes of `hh:mm`.
fn minutes(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<When, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = When;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time like 2026-12-24T19:30:00Z or \"+1d 19:30\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<When, E> {
                When::read(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn shown(text: &str, from: &str, zone: &Zone) -> String {
        let from = repr::timestamp(from).expect("a time");
        match When::read(text).map(|when| when.after(from, zone)) {
            Ok(Ok(at)) => repr::rfc3339(at).expect("a time before the year 10000"),
            Ok(Err(error)) => error,
            Err(error) => error.to_string(),
        }
    }

    /// In this order in UTC, Copenhagen, New York and Kathmandu.
    fn everywhere(inputs: &[&str], from: &str) -> String {
        let mut text = String::new();
        for input in inputs {
            text += &format!("{input}\n");
            for name in ["UTC", "Europe/Copenhagen", "America/New_York", "Asia/Kathmandu"] {
                let zone = Zone::new(name).expect("a zone");
                text += &format!("  {name:<18} {}\n", shown(input, from, &zone));
            }
        }
        text
    }

    #[test]
    fn times_are_fixed_local_or_counted_from_another() {
        let inputs = [
            "2026-12-24T19:30:00Z",
            "2026-12-24T19:30:00+01:00",
            "2026-12-24T19:30",
            "2026-12-24 19:30",
            "+1d 19:30",
            "+0d 19:30",
            "+1d 19:30+02:00",
            "+1d 00:30-05:00",
            "+1d 19:30Z",
            "+90m",
            "+3d",
        ];
        // It is still the 21st in New York, and already the 22nd in Copenhagen and Kathmandu.
        expect![[r#"
            2026-12-24T19:30:00Z
              UTC                2026-12-24T19:30:00.000Z
              Europe/Copenhagen  2026-12-24T19:30:00.000Z
              America/New_York   2026-12-24T19:30:00.000Z
              Asia/Kathmandu     2026-12-24T19:30:00.000Z
            2026-12-24T19:30:00+01:00
              UTC                2026-12-24T18:30:00.000Z
              Europe/Copenhagen  2026-12-24T18:30:00.000Z
              America/New_York   2026-12-24T18:30:00.000Z
              Asia/Kathmandu     2026-12-24T18:30:00.000Z
            2026-12-24T19:30
              UTC                2026-12-24T19:30:00.000Z
              Europe/Copenhagen  2026-12-24T18:30:00.000Z
              America/New_York   2026-12-25T00:30:00.000Z
              Asia/Kathmandu     2026-12-24T13:45:00.000Z
            2026-12-24 19:30
              UTC                2026-12-24T19:30:00.000Z
              Europe/Copenhagen  2026-12-24T18:30:00.000Z
              America/New_York   2026-12-25T00:30:00.000Z
              Asia/Kathmandu     2026-12-24T13:45:00.000Z
            +1d 19:30
              UTC                2026-11-22T19:30:00.000Z
              Europe/Copenhagen  2026-11-23T18:30:00.000Z
              America/New_York   2026-11-23T00:30:00.000Z
              Asia/Kathmandu     2026-11-23T13:45:00.000Z
            +0d 19:30
              UTC                2026-11-21T19:30:00.000Z
              Europe/Copenhagen  2026-11-22T18:30:00.000Z
              America/New_York   2026-11-22T00:30:00.000Z
              Asia/Kathmandu     2026-11-22T13:45:00.000Z
            +1d 19:30+02:00
              UTC                2026-11-23T17:30:00.000Z
              Europe/Copenhagen  2026-11-23T17:30:00.000Z
              America/New_York   2026-11-23T17:30:00.000Z
              Asia/Kathmandu     2026-11-23T17:30:00.000Z
            +1d 00:30-05:00
              UTC                2026-11-22T05:30:00.000Z
              Europe/Copenhagen  2026-11-22T05:30:00.000Z
              America/New_York   2026-11-22T05:30:00.000Z
              Asia/Kathmandu     2026-11-22T05:30:00.000Z
            +1d 19:30Z
              UTC                2026-11-22T19:30:00.000Z
              Europe/Copenhagen  2026-11-22T19:30:00.000Z
              America/New_York   2026-11-22T19:30:00.000Z
              Asia/Kathmandu     2026-11-22T19:30:00.000Z
            +90m
              UTC                2026-11-22T00:40:00.000Z
              Europe/Copenhagen  2026-11-22T00:40:00.000Z
              America/New_York   2026-11-22T00:40:00.000Z
              Asia/Kathmandu     2026-11-22T00:40:00.000Z
            +3d
              UTC                2026-11-24T23:10:00.000Z
              Europe/Copenhagen  2026-11-24T23:10:00.000Z
              America/New_York   2026-11-24T23:10:00.000Z
              Asia/Kathmandu     2026-11-24T23:10:00.000Z
        "#]]
        .assert_eq(&everywhere(&inputs, "2026-11-21T23:10:00Z"));
    }

    #[test]
    fn a_time_that_the_clocks_skip_or_show_twice_is_refused_with_the_two_that_may_be_meant() {
        let inputs =
            ["2027-03-28T02:30", "2026-10-25T02:30", "2027-03-14T02:30", "2026-11-01T01:30", "2026-10-25T02:30+01:00"];
        expect![[r#"
            2027-03-28T02:30
              UTC                2027-03-28T02:30:00.000Z
              Europe/Copenhagen  2027-03-28T02:30 does not exist in Europe/Copenhagen, because the clocks go forward over it; write 2027-03-28T01:30+01:00 or 2027-03-28T03:30+02:00
              America/New_York   2027-03-28T06:30:00.000Z
              Asia/Kathmandu     2027-03-27T20:45:00.000Z
            2026-10-25T02:30
              UTC                2026-10-25T02:30:00.000Z
              Europe/Copenhagen  2026-10-25T02:30 exists twice in Europe/Copenhagen, because the clocks go back; write 2026-10-25T02:30+02:00 or 2026-10-25T02:30+01:00
              America/New_York   2026-10-25T06:30:00.000Z
              Asia/Kathmandu     2026-10-24T20:45:00.000Z
            2027-03-14T02:30
              UTC                2027-03-14T02:30:00.000Z
              Europe/Copenhagen  2027-03-14T01:30:00.000Z
              America/New_York   2027-03-14T02:30 does not exist in America/New_York, because the clocks go forward over it; write 2027-03-14T01:30-05:00 or 2027-03-14T03:30-04:00
              Asia/Kathmandu     2027-03-13T20:45:00.000Z
            2026-11-01T01:30
              UTC                2026-11-01T01:30:00.000Z
              Europe/Copenhagen  2026-11-01T00:30:00.000Z
              America/New_York   2026-11-01T01:30 exists twice in America/New_York, because the clocks go back; write 2026-11-01T01:30-04:00 or 2026-11-01T01:30-05:00
              Asia/Kathmandu     2026-10-31T19:45:00.000Z
            2026-10-25T02:30+01:00
              UTC                2026-10-25T01:30:00.000Z
              Europe/Copenhagen  2026-10-25T01:30:00.000Z
              America/New_York   2026-10-25T01:30:00.000Z
              Asia/Kathmandu     2026-10-25T01:30:00.000Z
        "#]].assert_eq(&everywhere(&inputs, "2026-10-24T12:00:00Z"));
        // The day after has 25 hours in Copenhagen, and a time after the change is counted by the calendar.
        expect![[r#"
            +1d 02:30
              UTC                2026-10-25T02:30:00.000Z
              Europe/Copenhagen  2026-10-25T02:30 exists twice in Europe/Copenhagen, because the clocks go back; write 2026-10-25T02:30+02:00 or 2026-10-25T02:30+01:00
              America/New_York   2026-10-25T06:30:00.000Z
              Asia/Kathmandu     2026-10-24T20:45:00.000Z
            +1d 19:30
              UTC                2026-10-25T19:30:00.000Z
              Europe/Copenhagen  2026-10-25T18:30:00.000Z
              America/New_York   2026-10-25T23:30:00.000Z
              Asia/Kathmandu     2026-10-25T13:45:00.000Z
        "#]].assert_eq(&everywhere(&["+1d 02:30", "+1d 19:30"], "2026-10-24T12:00:00Z"));
    }

    #[test]
    fn times_of_a_sale_are_before_the_start_and_after_it() {
        let start = repr::timestamp("2027-03-28T17:30:00Z").expect("a time");
        let shown = |text: &str| {
            let mut shown = format!("{text}\n");
            for name in ["Europe/Copenhagen", "America/New_York"] {
                let zone = Zone::new(name).expect("a zone");
                let at = SaleTime::read(text).expect("a time").of(start, &zone);
                let at = at.map_or_else(|why| why, |at| repr::rfc3339(at).expect("a time").to_string());
                shown += &format!("  {name:<18} {at}\n");
            }
            shown
        };
        let inputs =
            ["-1h", "-1d", "-1d 10:00", "-0d 09:00", "-14d 02:30", "-1d 10:00Z", "+0m", "+15m", "2027-01-08T10:00"];
        // The clocks go forward in Copenhagen on the 28th, and in New York on the 14th.
        expect![[r#"
            -1h
              Europe/Copenhagen  2027-03-28T16:30:00.000Z
              America/New_York   2027-03-28T16:30:00.000Z
            -1d
              Europe/Copenhagen  2027-03-27T17:30:00.000Z
              America/New_York   2027-03-27T17:30:00.000Z
            -1d 10:00
              Europe/Copenhagen  2027-03-27T09:00:00.000Z
              America/New_York   2027-03-27T14:00:00.000Z
            -0d 09:00
              Europe/Copenhagen  2027-03-28T07:00:00.000Z
              America/New_York   2027-03-28T13:00:00.000Z
            -14d 02:30
              Europe/Copenhagen  2027-03-14T01:30:00.000Z
              America/New_York   2027-03-14T02:30 does not exist in America/New_York, because the clocks go forward over it; write 2027-03-14T01:30-05:00 or 2027-03-14T03:30-04:00
            -1d 10:00Z
              Europe/Copenhagen  2027-03-27T10:00:00.000Z
              America/New_York   2027-03-27T10:00:00.000Z
            +0m
              Europe/Copenhagen  2027-03-28T17:30:00.000Z
              America/New_York   2027-03-28T17:30:00.000Z
            +15m
              Europe/Copenhagen  2027-03-28T17:45:00.000Z
              America/New_York   2027-03-28T17:45:00.000Z
            2027-01-08T10:00
              Europe/Copenhagen  2027-01-08T09:00:00.000Z
              America/New_York   2027-01-08T15:00:00.000Z
        "#]]
        .assert_eq(&inputs.map(shown).concat());
        assert!(shown("-99999999d").contains("its time is before 1970"));
        for text in ["-", "-1", "--1h", "-+1h", "1h", "-2027-01-08T10:00", "yesterday"] {
            let why = SaleTime::read(text).expect_err(text).to_string();
            assert!(why.contains("from the start of the session like \"-1h\""), "{why}");
        }
        // A session itself does not start before the import.
        assert!(When::read("-1h").is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        let shown = |text: &str| shown(text, "2026-11-21T23:10:00Z", &Zone::utc());
        for text in [
            "",
            "+",
            "+1",
            "+d",
            "tomorrow",
            "+1d 25:00",
            "+1h 19:30",
            "+1d 19:30+99:00",
            "+1d 1930",
            "+é",
            "2026-02-30T19:30",
        ] {
            let error = When::read(text).expect_err(text).to_string();
            assert!(error.contains("is no time; write RFC 3339"), "{error}");
        }
        assert_eq!(shown("+99999999999d"), "its time is beyond the year 9999");
        assert_eq!(shown("+99999999999d 19:30"), "its time is beyond the year 9999");
        assert!(shown("+999999999999999999999d").contains("is no time"));
    }
}
