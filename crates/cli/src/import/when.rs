//! Instants in files: RFC 3339, or relative like `+1d 19:30` and `+90m`.

use std::fmt;

use boxoffice_core::time::{TIMESTAMP_MAX, Timestamp};
use boxoffice_wire::repr;
use serde::{Deserialize, Deserializer, de};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// An instant, or a time relative to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    /// A time after the other one.
    Later {
        span_ms: u64,
    },
    /// A time of day, days after the other one.
    OnDay {
        /// Days, counted in the clock's own zone.
        days: u64,
        clock: Clock,
    },
}

/// A time of day, with the offset of its zone from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    minutes: u64,
    east_minutes: i64,
}

/// A text that is not an instant.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no time; write RFC 3339 like 2026-12-24T19:30:00Z, or from now like \"+1d 19:30\" or \"+90m\"")]
pub struct WhenError(String);

impl When {
    /// Reads a text.
    ///
    /// # Errors
    /// [`WhenError`] has the valid forms.
    pub fn read(text: &str) -> Result<When, WhenError> {
        let read = match text.strip_prefix('+') {
            Some(relative) => later(relative),
            None => repr::timestamp(text).map(When::At),
        };
        read.ok_or_else(|| WhenError(text.to_owned()))
    }

    /// Whether it is relative.
    pub fn is_relative(self) -> bool {
        !matches!(self, When::At(_))
    }

    /// The instant. A relative one is counted from `from`. `None` beyond the year 9999.
    pub fn after(self, from: Timestamp) -> Option<Timestamp> {
        let at = match self {
            When::At(at) => at.0,
            When::Later { span_ms } => from.0.checked_add(span_ms)?,
            When::OnDay { days, clock } => {
                let east_ms = clock.east_minutes * MINUTE_MS as i64;
                let local_day = from.0.checked_add_signed(east_ms)? / DAY_MS;
                let local = local_day.checked_add(days)?.checked_mul(DAY_MS)?.checked_add(clock.minutes * MINUTE_MS)?;
                local.checked_add_signed(-east_ms)?
            }
        };
        (at <= TIMESTAMP_MAX.0).then_some(Timestamp(at))
    }
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
        Some(clock) if only_days => Some(When::OnDay { days: span_ms / DAY_MS, clock }),
        Some(_) => None,
    }
}

/// `19:30`, `19:30Z`, `19:30+02:00`.
fn clock(text: &str) -> Option<Clock> {
    let at = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(at);
    let east_minutes = match zone.chars().next() {
        None => 0,
        Some('Z') => (zone.len() == 1).then_some(0)?,
        Some(sign) => {
            let minutes = i64::try_from(minutes(&zone[1..])?).ok()?;
            if sign == '-' { -minutes } else { minutes }
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

    fn shown(text: &str, from: &str) -> String {
        let from = repr::timestamp(from).expect("a time");
        match When::read(text).map(|when| when.after(from)) {
            Ok(Some(at)) => repr::rfc3339(at).expect("a time before the year 10000"),
            Ok(None) => "too far".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn times_are_fixed_or_counted_from_another() {
        let inputs = [
            "2026-12-24T19:30:00Z",
            "2026-12-24T19:30:00+01:00",
            "+1d 19:30",
            "+0d 19:30",
            "+1d 19:30+02:00",
            "+1d 00:30-05:00",
            "+90m",
            "+2h30m",
            "+1d 2h",
            "+3d",
        ];
        let shown: Vec<String> =
            inputs.iter().map(|text| format!("{text:<26} {}", shown(text, "2026-11-21T23:10:00Z"))).collect();
        expect![[r#"
            2026-12-24T19:30:00Z       2026-12-24T19:30:00.000Z
            2026-12-24T19:30:00+01:00  2026-12-24T18:30:00.000Z
            +1d 19:30                  2026-11-22T19:30:00.000Z
            +0d 19:30                  2026-11-21T19:30:00.000Z
            +1d 19:30+02:00            2026-11-23T17:30:00.000Z
            +1d 00:30-05:00            2026-11-22T05:30:00.000Z
            +90m                       2026-11-22T00:40:00.000Z
            +2h30m                     2026-11-22T01:40:00.000Z
            +1d 2h                     "+1d 2h" is no time; write RFC 3339 like 2026-12-24T19:30:00Z, or from now like "+1d 19:30" or "+90m"
            +3d                        2026-11-24T23:10:00.000Z
        "#]].assert_eq(&(shown.join("\n") + "\n"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "+", "+1", "+d", "tomorrow", "+1d 25:00", "+1h 19:30", "+1d 19:30+99:00", "+1d 1930", "+é"] {
            let error = When::read(text).expect_err(text).to_string();
            assert!(error.contains("is no time; write RFC 3339"), "{error}");
        }
        assert_eq!(shown("+99999999999d", "2026-11-21T23:10:00Z"), "too far");
        assert!(shown("+999999999999999999999d", "2026-11-21T23:10:00Z").contains("is no time"));
    }
}
