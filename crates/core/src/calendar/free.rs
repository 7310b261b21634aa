//! The search for free slots. It finds the earliest that fit, one after the other.
//!
//! Within a stretch that is open and free, the first slot begins as early as it can. That is at the beginning of the window, at
//! the opening, or at the end of a booking and the buffers after it. The next slot begins where the one before and its buffers
//! end, so all slots found could be booked together. With a step, every slot is found that begins on the raster of the step and
//! fits by itself, so slots may overlap each other. The raster counts from local midnight, by the clocks of the calendar's zone.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::{
    Calendar, Profile,
    slot::{DAY_MS, SLOT_SPAN_MAX_MS, Slot},
    terms::Terms,
    widened,
    zone::Zone,
};
use crate::{
    planted,
    time::{TIMESTAMP_MAX, Timestamp},
};

/// The most free slots one search finds.
pub const FREE_SLOTS_MAX: usize = 1_000;

/// The terms of a search. A search looks once at each booking and at each open time of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSearch {
    /// No slot begins before this.
    pub from: Timestamp,
    /// No slot ends after this. At most 366 days after `from`.
    pub to: Timestamp,
    /// The length of each slot, in milliseconds.
    pub length_ms: u64,
    /// How many are enough, at most [`FREE_SLOTS_MAX`].
    pub count: usize,
    /// Slots begin on a raster of this, in milliseconds. At most a day. Without it, they begin anywhere.
    pub step_ms: Option<u64>,
    /// Where the raster begins after local midnight, in milliseconds. Less than the step.
    pub align_ms: u64,
}

impl FreeSearch {
    /// Checks the search.
    ///
    /// # Errors
    /// A text that names what is out of bounds.
    pub fn validate(&self) -> Result<(), SmolStr> {
        if self.from >= self.to || self.to > TIMESTAMP_MAX {
            return Err(SmolStr::new_static("the window ends after it begins and before the year 10000"));
        }
        if self.to.0 - self.from.0 > SLOT_SPAN_MAX_MS {
            return Err(format_smolstr!("the window is at most {} days", SLOT_SPAN_MAX_MS / DAY_MS));
        }
        if !(1..=SLOT_SPAN_MAX_MS).contains(&self.length_ms) {
            return Err(format_smolstr!("a slot is 1 to {SLOT_SPAN_MAX_MS} ms long, not {}", self.length_ms));
        }
        if !(1..=FREE_SLOTS_MAX).contains(&self.count) {
            return Err(format_smolstr!("1 to {FREE_SLOTS_MAX} free slots are found, not {}", self.count));
        }
        match self.step_ms {
            Some(step_ms) if !(1..=DAY_MS).contains(&step_ms) => {
                Err(format_smolstr!("a step is 1 to {DAY_MS} ms, not {step_ms}"))
            }
            None if self.align_ms > 0 => Err(SmolStr::new_static("only a step has an alignment")),
            Some(step_ms) if self.align_ms >= step_ms => {
                Err(format_smolstr!("an alignment is less than its step of {step_ms} ms, not {} ms", self.align_ms))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Calendar {
    /// The first slots that fit beside the bookings, under the current terms, in order. The raster of a step is one of the clocks of
    /// `zone`.
    ///
    /// # Errors
    /// A text that names what is out of bounds.
    ///
    /// # Panics
    /// If the capacity is zero.
    pub fn free_slots(
        &self,
        now: Timestamp,
        search: &FreeSearch,
        terms: &Terms,
        zone: &Zone,
    ) -> Result<Vec<Slot>, SmolStr> {
        search.validate()?;
        // Time that has passed is never offered.
        let from = if planted::is("a slot in the past") { now.min(search.from) } else { now };
        let from = search.from.max(from.after(terms.notice_ms));
        // The horizon limits beginnings. The window's end limits ends.
        let latest = terms.latest(now).map_or(TIMESTAMP_MAX, |latest| latest.after(search.length_ms));
        let to = search.to.min(latest);
        let Some(window) = Slot::new(from, to) else { return Ok(Vec::new()) };
        match &terms.hours {
            Some(hours) => Ok(self.fill(window, search, terms, hours.open(from, to), zone)),
            None => Ok(self.fill(window, search, terms, core::iter::once((from, to)), zone)),
        }
    }

    /// Walks through the open stretches and the full ones side by side, always forward.
    fn fill(
        &self,
        window: Slot,
        search: &FreeSearch,
        terms: &Terms,
        open: impl Iterator<Item = (Timestamp, Timestamp)>,
        zone: &Zone,
    ) -> Vec<Slot> {
        assert!(terms.capacity > 0, "a resource has room for one booking at least");
        let gap_ms = terms.buffers().gap_ms();
        let beside = self.beside(window, None, terms.buffers());
        let levels = Profile::new(beside.map(|(_, booked)| widened(booked, terms.buffers())));
        let mut full = levels.filter(|level| level.count >= terms.capacity as usize).peekable();
        let mut found = Vec::new();
        let mut at = window.begin();
        for (opens, closes) in open {
            at = at.max(opens);
            loop {
                at = aligned(at, search, zone);
                let Some(slot) = Slot::of_length(at, search.length_ms).filter(|slot| slot.end() <= closes) else {
                    break;
                };
                while full.next_if(|level| level.end <= at.0).is_some() {}
                let (_, widened_end) = widened(slot, terms.buffers());
                match full.peek() {
                    Some(level) if level.begin < widened_end => at = Timestamp(level.end),
                    Some(_) | None => {
                        found.push(slot);
                        if found.len() == search.count {
                            return found;
                        }
                        at = match search.step_ms {
                            None => Timestamp(slot.end().0 + gap_ms),
                            Some(_) => Timestamp(slot.begin().0 + 1),
                        };
                    }
                }
            }
        }
        found
    }
}

/// The first instant from `at` on at which the clocks are on the raster of the search.
fn aligned(at: Timestamp, search: &FreeSearch, zone: &Zone) -> Timestamp {
    let Some(step_ms) = search.step_ms.filter(|_| !planted::is("a raster that is ignored")) else { return at };
    let align_ms = search.align_ms;
    // Two days are longer than any step. Where the clocks change on the way, the count starts anew.
    for stretch in zone.stretches(at, Timestamp(at.0 + 2 * DAY_MS)) {
        let local = (stretch.begin.0 as i64 + stretch.offset_ms).rem_euclid(DAY_MS as i64) as u64;
        let next = local.saturating_sub(align_ms).next_multiple_of(step_ms) + align_ms;
        // The raster of the next day begins anew.
        let next = if next < DAY_MS { next } else { DAY_MS + align_ms };
        let instant = Timestamp(stretch.begin.0 + next - local);
        if instant < stretch.end {
            return instant;
        }
    }
    TIMESTAMP_MAX
}
