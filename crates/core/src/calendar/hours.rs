//! Opening hours of a resource by the clocks of its place, for each weekday and for single days that differ.
//!
//! An instant is open exactly if its local time, in the zone, lies in the open times of its local day. So an hour that the clocks
//! skip is not open, and one that they show twice is open twice.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::{
    date::{Date, Weekday},
    slot::{DAY_MS, Slot},
    zone::{Stretch, Zone},
};
use crate::{shared_map::SharedMap, time::Timestamp};

/// The most open times of one day.
pub const OPEN_TIMES_MAX: usize = 24;

/// The most days with hours of their own. They are enough for the public holidays of many years.
pub const EXCEPTIONS_MAX: usize = 1_000;

/// Minutes of a day by the clock.
const DAY_MINUTES: u16 = 24 * 60;

const MINUTE_MS: i64 = 60_000;

/// Open from one minute of the local day up to, not including, another. To be open past midnight, a day is open until 24:00 and
/// the next from 0:00, which makes one stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenTime {
    /// Minutes after midnight by the clock, below 1440.
    pub open: u16,
    /// Minutes after midnight by the clock, up to 1440 (24:00).
    pub close: u16,
}

/// The hours of a week in a zone, and of single days. Times of a day are in order and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    zone: Zone,
    /// From Monday.
    weekly: [Vec<OpenTime>; 7],
    exceptions: SharedMap<Date, Vec<OpenTime>>,
}

impl Hours {
    /// Hours of each weekday from Monday on, and of days that differ. A day without times is closed.
    ///
    /// # Errors
    /// A text that says what is wrong: a time that ends before it begins or after 24:00, times of a day that overlap, a day
    /// named twice, too many times or days.
    pub fn new(
        zone: Zone,
        weekly: [Vec<OpenTime>; 7],
        exceptions: impl IntoIterator<Item = (Date, Vec<OpenTime>)>,
    ) -> Result<Hours, SmolStr> {
        let exceptions: Vec<_> = exceptions.into_iter().take(EXCEPTIONS_MAX + 1).collect();
        let mut dates: Vec<Date> = exceptions.iter().map(|(date, _)| *date).collect();
        dates.sort_unstable();
        if let Some(pair) = dates.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format_smolstr!("{}: named twice", pair[0]));
        }
        if dates.len() > EXCEPTIONS_MAX {
            return Err(format_smolstr!("at most {EXCEPTIONS_MAX} days have hours of their own"));
        }
        let hours = Hours::decided(zone, weekly, exceptions);
        for day in Weekday::ALL {
            check(hours.weekly(day)).map_err(|reason| format_smolstr!("{day:?}: {reason}"))?;
        }
        for (date, times) in hours.exceptions() {
            check(times).map_err(|reason| format_smolstr!("{date}: {reason}"))?;
        }
        Ok(hours)
    }

    /// Hours that were checked when they were decided. Another bound makes nothing unreadable.
    pub fn decided(
        zone: Zone,
        mut weekly: [Vec<OpenTime>; 7],
        exceptions: impl IntoIterator<Item = (Date, Vec<OpenTime>)>,
    ) -> Hours {
        weekly.iter_mut().for_each(|times| times.sort_unstable());
        let sorted = |(date, mut times): (Date, Vec<OpenTime>)| {
            times.sort_unstable();
            (date, times)
        };
        Hours { zone, weekly, exceptions: exceptions.into_iter().map(sorted).collect() }
    }

    /// The zone of the hours.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The hours of a weekday.
    pub fn weekly(&self, day: Weekday) -> &[OpenTime] {
        &self.weekly[day.number()]
    }

    /// The days that differ, in order.
    pub fn exceptions(&self) -> impl Iterator<Item = (Date, &[OpenTime])> {
        self.exceptions.iter().map(|(date, times)| (*date, times.as_slice()))
    }

    /// Whether all of a slot is open.
    pub fn covers(&self, slot: Slot) -> bool {
        let mut covered = slot.begin();
        for (open, close) in self.open(slot.begin(), slot.end()) {
            if open > covered {
                return false;
            }
            covered = close;
        }
        covered >= slot.end()
    }

    /// The open stretches of a window, cut to it, in order. Each is as long as it can be, so none touches the next.
    pub fn open(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let mut parts = self.zone.stretches(from, to).flat_map(|stretch| self.parts(stretch)).peekable();
        core::iter::from_fn(move || {
            let (open, mut close) = parts.next()?;
            while let Some((_, later)) = parts.next_if(|(open, _)| *open == close) {
                close = later;
            }
            Some((open, close))
        })
    }

    /// The open times of each local day of a stretch without a clock change, cut to the stretch.
    fn parts(&self, stretch: Stretch) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let day_ms = DAY_MS as i64;
        let (from, to) = (stretch.begin.0 as i64 + stretch.offset_ms, stretch.end.0 as i64 + stretch.offset_ms);
        let days = from.div_euclid(day_ms)..=(to - 1).div_euclid(day_ms);
        let instant = move |local: i64| Timestamp((local.clamp(from, to) - stretch.offset_ms) as u64);
        days.flat_map(move |day| {
            self.of_day(day).iter().filter_map(move |time| {
                let at = |minute: u16| instant(day * day_ms + i64::from(minute) * MINUTE_MS);
                let (open, close) = (at(time.open), at(time.close));
                (open < close).then_some((open, close))
            })
        })
    }

    /// The times of a local day, counted from 1970-01-01.
    fn of_day(&self, day: i64) -> &[OpenTime] {
        match Date::from_days(day).and_then(|date| self.exceptions.get(&date)) {
            Some(times) => times,
            None => self.weekly(Weekday::of_day(day)),
        }
    }
}

/// Checks the times of a day, which are in order.
fn check(times: &[OpenTime]) -> Result<(), SmolStr> {
    if times.len() > OPEN_TIMES_MAX {
        return Err(format_smolstr!("at most {OPEN_TIMES_MAX} times a day"));
    }
    for OpenTime { open, close } in times.iter() {
        if open >= close {
            return Err(format_smolstr!("closes at minute {close}, which is not after it opens at {open}"));
        }
        if *close > DAY_MINUTES {
            return Err(format_smolstr!("closes at minute {close}; a day has {DAY_MINUTES}"));
        }
    }
    match times.windows(2).find(|pair| pair[0].close > pair[1].open) {
        Some(pair) => Err(format_smolstr!("opens at minute {} before it closes at {}", pair[1].open, pair[0].close)),
        None => Ok(()),
    }
}
