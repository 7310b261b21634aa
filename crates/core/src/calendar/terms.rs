//! The terms under which a resource is booked. They say how many at once, how far apart, when, and how long ahead.

use smol_str::{SmolStr, format_smolstr};

use super::{
    hours::Hours,
    slot::{Buffers, DAY_MS, SLOT_SPAN_MAX_MS, Slot},
};
use crate::time::Timestamp;

/// The most bookings a resource takes at once.
pub const CAPACITY_MAX: u32 = 10_000;

/// The longest buffer before or after a booking, in milliseconds. It is a week.
pub const BUFFER_MAX_MS: u64 = 7 * DAY_MS;

/// The longest notice or horizon, in milliseconds. It is ten years.
const AHEAD_MAX_MS: u64 = 3_660 * DAY_MS;

/// The terms of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How many bookings there may be at one instant, buffers included.
    pub capacity: u32,
    /// Time needed before each booking, in milliseconds. It need not be within the hours.
    pub before_ms: u64,
    /// Time needed after each booking, in milliseconds. It need not be within the hours.
    pub after_ms: u64,
    /// The least time from the ask to the beginning of a slot, in milliseconds. With zero, a slot that has begun may be booked
    /// without a cart, but is neither held nor offered.
    pub notice_ms: u64,
    /// The most time from the ask to the beginning of a slot, in milliseconds. Unlimited if not set.
    pub horizon_ms: Option<u64>,
    /// When it may be used. Always if not set.
    pub hours: Option<Hours>,
}

/// Why a slot cannot be booked, regardless of other bookings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// It is not a bookable interval.
    #[error("{0}")]
    BadInterval(SmolStr),
    /// Some of it is not open.
    #[error("some of the slot is outside the opening hours")]
    OutsideHours,
    /// It begins sooner than the notice allows.
    #[error("the slot begins too soon; {} is the earliest", .earliest.0)]
    TooSoon { earliest: Timestamp },
    /// It begins after the horizon.
    #[error("the slot begins too late; {} is the latest", .latest.0)]
    TooFar { latest: Timestamp },
}

impl Default for Terms {
    /// One booking at a time, at any time.
    fn default() -> Terms {
        Terms { capacity: 1, before_ms: 0, after_ms: 0, notice_ms: 0, horizon_ms: None, hours: None }
    }
}

impl Slot {
    /// The slot that a client asks for.
    ///
    /// # Errors
    /// [`SlotRefusal::BadInterval`] if it is empty, inverted, too long or too late.
    pub fn asked(begin: Timestamp, end: Timestamp) -> Result<Slot, SlotRefusal> {
        let bad = |reason: SmolStr| Err(SlotRefusal::BadInterval(reason));
        if begin >= end {
            return bad(format_smolstr!("a slot ends after it begins: {} is not after {}", end.0, begin.0));
        }
        let Some(slot) = Slot::new(begin, end) else {
            return bad(SmolStr::new_static("a slot ends before the year 10000"));
        };
        slot.refuse_long().map(|()| slot)
    }

    fn refuse_long(self) -> Result<(), SlotRefusal> {
        if self.length_ms() <= SLOT_SPAN_MAX_MS {
            return Ok(());
        }
        let days = SLOT_SPAN_MAX_MS / DAY_MS;
        Err(SlotRefusal::BadInterval(format_smolstr!(
            "a slot is at most {days} days long, not {} ms",
            self.length_ms()
        )))
    }
}

impl Terms {
    /// Checks the terms.
    ///
    /// # Errors
    /// A text that names what is out of bounds.
    pub fn validate(&self) -> Result<(), SmolStr> {
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(format_smolstr!("capacity is 1 to {CAPACITY_MAX}, not {}", self.capacity));
        }
        if self.before_ms > BUFFER_MAX_MS || self.after_ms > BUFFER_MAX_MS {
            return Err(format_smolstr!("a buffer is at most {BUFFER_MAX_MS} ms"));
        }
        if self.notice_ms > AHEAD_MAX_MS || self.horizon_ms.is_some_and(|horizon| horizon > AHEAD_MAX_MS) {
            return Err(format_smolstr!("notice and horizon are at most {AHEAD_MAX_MS} ms"));
        }
        if self.horizon_ms.is_some_and(|horizon| horizon < self.notice_ms) {
            return Err(SmolStr::new_static("the horizon is nearer than the notice: nothing could be booked"));
        }
        Ok(())
    }

    /// The buffers around each booking.
    pub fn buffers(&self) -> Buffers {
        Buffers { before_ms: self.before_ms, after_ms: self.after_ms }
    }

    /// The earliest instant at which a slot asked for now may begin, if notice is needed.
    pub fn earliest(&self, now: Timestamp) -> Option<Timestamp> {
        (self.notice_ms > 0).then(|| now.after(self.notice_ms))
    }

    /// The latest instant at which a slot asked for now may begin, if there is a horizon.
    pub fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        self.horizon_ms.map(|horizon_ms| now.after(horizon_ms))
    }

    /// Whether a slot may be asked for now, regardless of other bookings.
    ///
    /// # Errors
    /// The first reason of length, notice, horizon, hours.
    pub fn check(&self, now: Timestamp, slot: Slot) -> Result<(), SlotRefusal> {
        slot.refuse_long()?;
        if let Some(earliest) = self.earliest(now).filter(|earliest| slot.begin() < *earliest) {
            return Err(SlotRefusal::TooSoon { earliest });
        }
        if let Some(latest) = self.latest(now).filter(|latest| slot.begin() > *latest) {
            return Err(SlotRefusal::TooFar { latest });
        }
        if self.hours.as_ref().is_some_and(|hours| !hours.covers(slot)) {
            return Err(SlotRefusal::OutsideHours);
        }
        Ok(())
    }
}
