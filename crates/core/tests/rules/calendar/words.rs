//! Short constructors.

use boxoffice_core::{
    calendar::{BookingKey, Buffers, Civil, Date, Hours, OpenTime, Slot, Zone},
    id::Id,
    time::Timestamp,
};

pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

pub(crate) fn key(name: &str) -> BookingKey {
    BookingKey::Named(Id::new(name).expect("a good id"))
}

pub(crate) fn zone(name: &str) -> Zone {
    Zone::new(name).unwrap_or_else(|| panic!("{name} is a zone"))
}

pub(crate) fn civil(text: &str) -> Civil {
    Civil::parse(text).unwrap_or_else(|| panic!("{text} is a local time"))
}

pub(crate) fn date(text: &str) -> Date {
    Date::parse(text).unwrap_or_else(|| panic!("{text} is a day"))
}

/// The instant of a local time in UTC. A time without a day is on 1 January 2026.
pub(crate) fn at(text: &str) -> Timestamp {
    let text = if text.contains('T') { text.to_owned() } else { format!("2026-01-01T{text}") };
    Zone::utc().instant(civil(&text)).expect("UTC has every time once")
}

/// A slot between two times in the format of [`at`].
pub(crate) fn slot(begin: &str, end: &str) -> Slot {
    Slot::new(at(begin), at(end)).unwrap_or_else(|| panic!("{begin} to {end} is a slot"))
}

/// An instant in UTC.
pub(crate) fn utc(instant: Timestamp) -> String {
    Zone::utc().civil(instant).expect("within the years").to_string()
}

/// A slot in local time, with its length in minutes.
pub(crate) fn shown(zone: &Zone, slot: Slot) -> String {
    let civil = |instant| zone.civil(instant).expect("within the years");
    format!("{} to {}, {} min", civil(slot.begin()), civil(slot.end()), slot.length_ms() / MINUTE)
}

pub(crate) fn buffers(before_min: u64, after_min: u64) -> Buffers {
    Buffers { before_ms: before_min * MINUTE, after_ms: after_min * MINUTE }
}

/// Times of a day, in the format `09:00-12:00 13:00-24:00`.
pub(crate) fn times(text: &str) -> Vec<OpenTime> {
    let minute = |clock: &str| {
        let (hour, minute) = clock.split_once(':').expect("hours and minutes");
        hour.parse::<u16>().expect("a number") * 60 + minute.parse::<u16>().expect("a number")
    };
    let time = |range: &str| {
        let (open, close) = range.split_once('-').expect("from and to");
        OpenTime { open: minute(open), close: minute(close) }
    };
    text.split_whitespace().map(time).collect()
}

/// The same hours on every day.
pub(crate) fn daily(zone_name: &str, text: &str) -> Hours {
    Hours::new(zone(zone_name), std::array::from_fn(|_| times(text)), []).expect("good hours")
}
