//! Instants, days and local times.

use boxoffice_core::time::{TIMESTAMP_MAX, Timestamp};
use jiff::{SignedDuration, civil::DateTime, fmt::temporal::DateTimePrinter};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{
    WireRepr, WireWrite, read_text,
    shape::{Shapes, With, described, named},
};

named! {
    /// A day of the calendar, as `2026-04-12`.
    pub(crate) struct Day as Day = With("format", "date");
    /// A local time, as `2026-03-29T10:00`.
    pub(crate) struct WallTime as WallTime =
        With("pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$");
}

impl WireWrite for Timestamp {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_u64(self.0);
        }
        let text = rfc3339(*self).ok_or_else(|| S::Error::custom("a time beyond the year 9999"))?;
        serializer.serialize_str(&text)
    }
}

impl WireRepr for Timestamp {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        if deserializer.is_human_readable() {
            return read_text(deserializer, "a time (RFC 3339, from 1970 to 9999)", timestamp);
        }
        let millis = Timestamp(u64::deserialize(deserializer)?);
        if millis <= TIMESTAMP_MAX { Ok(millis) } else { Err(D::Error::custom("a time beyond the year 9999")) }
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let schema = json!({"type": "string", "format": "date-time"});
        shapes.named::<Timestamp>("Time", |_| described(schema, &["RFC 3339, from 1970 to 9999."]))
    }
}

/// RFC 3339 in UTC with milliseconds. `None` beyond the year 9999.
pub fn rfc3339(time: Timestamp) -> Option<String> {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let millis = i64::try_from(time.0).ok()?;
    if let Ok(instant) = jiff::Timestamp::from_millisecond(millis) {
        return Some(PRINTER.timestamp_to_string(&instant));
    }
    // The library's instants end a day before the year 9999 does, so that they are within it in every zone. Ours do not.
    let last = EPOCH.checked_add(SignedDuration::from_millis(millis)).ok()?;
    Some(PRINTER.datetime_to_string(&last) + "Z")
}

/// The instant of an RFC 3339 text, from 1970 to 9999, rounded down to milliseconds.
pub fn timestamp(text: &str) -> Option<Timestamp> {
    let millis = match text.parse::<jiff::Timestamp>() {
        Ok(instant) => instant.as_millisecond(),
        Err(_) => last_hours(text)?,
    };
    let millis = Timestamp(u64::try_from(millis).ok()?);
    (millis <= TIMESTAMP_MAX).then_some(millis)
}

/// Milliseconds since 1970 of a text in UTC after the library's last instant.
fn last_hours(text: &str) -> Option<i64> {
    let local = text.strip_suffix(['Z', 'z'])?;
    let time = local.get(10..)?.strip_prefix(['T', 't', ' '])?;
    if !time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')) {
        return None;
    }
    let last: DateTime = local.parse().ok()?;
    let millis = i64::try_from(last.duration_since(EPOCH).as_millis()).ok()?;
    (millis > jiff::Timestamp::MAX.as_millisecond()).then_some(millis)
}

/// The beginning of 1970.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The day with this number since 1970-01-01, as `2026-04-12`. `None` beyond the year 9999.
pub fn day_text(day: u32) -> Option<SmolStr> {
    let text = rfc3339(Timestamp(u64::from(day) * DAY_MS))?;
    text.split_once('T').map(|(day, _)| SmolStr::new(day))
}

/// The number of a day since 1970-01-01, from its text.
pub fn day(text: &str) -> Option<u32> {
    let begin = is_date(text).then(|| timestamp(&format!("{text}T00:00:00Z")))??;
    u32::try_from(begin.0 / DAY_MS).ok()
}

/// Whether this is the text of a day, as `2026-04-12`.
pub(crate) fn is_date(text: &str) -> bool {
    fits(text, "dddd-dd-dd") && text.parse::<jiff::civil::Date>().is_ok()
}

/// The local time of a text, as `2026-04-12T12:30` with optional seconds.
pub(crate) fn wall_time(text: &str) -> Option<jiff::civil::DateTime> {
    (fits(text, "dddd-dd-ddTdd:dd") || fits(text, "dddd-dd-ddTdd:dd:dd")).then(|| text.parse().ok())?
}

/// Whether a text matches a pattern, in which `d` is a digit.
fn fits(text: &str, pattern: &str) -> bool {
    let digit_or_same =
        |(byte, pattern): (u8, u8)| if pattern == b'd' { byte.is_ascii_digit() } else { byte == pattern };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(digit_or_same)
}
