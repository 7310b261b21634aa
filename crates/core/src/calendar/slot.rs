//! A half-open interval of time of a resource, and the buffers between neighbours.

use core::fmt;

use crate::{
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer},
    time::{TIMESTAMP_MAX, Timestamp},
};

/// The longest slot that may be asked for, in milliseconds. It is 366 days.
pub const SLOT_SPAN_MAX_MS: u64 = 366 * DAY_MS;

/// The longest slot that is kept, a century, in milliseconds. It bounds the days on which a booking has pieces, so that damaged bytes
/// do not fill the memory.
const SLOT_SPAN_KEPT_MAX_MS: u64 = 36_600 * DAY_MS;

/// A UTC day, in milliseconds.
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A half-open interval `[begin, end)`. It is never empty or inverted. Its end is the first free instant, so the last second of a day
/// is booked with the day (CAL trap).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    begin: Timestamp,
    end: Timestamp,
}

// Frozen: a list of both ends.
impl Decode for Slot {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("slot")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Slot, Error> {
        let (begin, end) = Decode::decode(from)?;
        Slot::decided(begin, end).ok_or_else(|| Error::message("a slot ends after it begins, and within what is kept"))
    }
}

impl Encode for Slot {
    fn encode(&self, out: &mut Writer) {
        (self.begin, self.end).encode(out);
    }
}

impl Slot {
    /// The slot from `begin` up to, not including, `end`, or `None` if it is empty, inverted or ends after [`TIMESTAMP_MAX`].
    pub fn new(begin: Timestamp, end: Timestamp) -> Option<Slot> {
        (begin < end && end <= TIMESTAMP_MAX).then_some(Slot { begin, end })
    }

    /// The slot between the times of an event, which were checked when it was decided. `None` if it is empty or inverted, or has more
    /// days than memory is kept for.
    pub(crate) fn decided(begin: Timestamp, end: Timestamp) -> Option<Slot> {
        (begin < end && end.0 - begin.0 <= SLOT_SPAN_KEPT_MAX_MS).then_some(Slot { begin, end })
    }

    /// The slot of this length from `begin`, in milliseconds, or `None` where [`Slot::new`] gives none.
    pub fn of_length(begin: Timestamp, length_ms: u64) -> Option<Slot> {
        Slot::new(begin, Timestamp(begin.0.checked_add(length_ms)?))
    }

    /// The first instant that is booked.
    pub fn begin(self) -> Timestamp {
        self.begin
    }

    /// The first instant that is free again.
    pub fn end(self) -> Timestamp {
        self.end
    }

    /// Its length, in milliseconds.
    pub fn length_ms(self) -> u64 {
        self.end.0 - self.begin.0
    }

    /// Whether the two have an instant in common. Slots that touch have none.
    pub fn overlaps(self, other: Slot) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    /// The UTC days on which it has an instant, as days since 1970-01-01.
    pub fn days(self) -> core::ops::RangeInclusive<u32> {
        day_of(self.begin)..=day_of(Timestamp(self.end.0 - 1))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.begin.0, self.end.0)
    }
}

/// The UTC day of an instant, as days since 1970-01-01.
pub(super) fn day_of(instant: Timestamp) -> u32 {
    u32::try_from(instant.0.min(TIMESTAMP_MAX.0) / DAY_MS).expect("there are three million days up to the year 9999")
}

/// Time that a resource needs around each booking, in milliseconds. Both are added to every booking, so two neighbours are
/// `before_ms + after_ms` apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    pub before_ms: u64,
    pub after_ms: u64,
}

impl Buffers {
    /// No time is needed.
    pub const NONE: Buffers = Buffers { before_ms: 0, after_ms: 0 };

    /// The least distance between two neighbours, in milliseconds.
    pub fn gap_ms(self) -> u64 {
        self.before_ms.saturating_add(self.after_ms)
    }
}
