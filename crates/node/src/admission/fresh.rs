//! How many commands are under way that came within the last second. Older ones wait for something other than processors and
//! must not keep new ones out.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{STAY_MAX_MS, WINDOW_MS};

/// Slices of time that are counted apart: those of the last [`STAY_MAX_MS`].
const SLICES: usize = (STAY_MAX_MS / WINDOW_MS + 1) as usize;

/// By slice: its number in the upper half, how many of its commands are under way in the lower half.
#[derive(Default)]
pub(super) struct Fresh([AtomicU64; SLICES]);

impl Fresh {
    /// A command came then. One that lay unread for longer than all slices is not counted, because its slot has a later slice.
    pub(super) fn add(&self, came_ms: u64) {
        let (slot, number) = self.slot(came_ms);
        let added = |packed: u64| match (packed >> 32).cmp(&number) {
            std::cmp::Ordering::Less => Some(number << 32 | 1),
            std::cmp::Ordering::Equal => Some(packed + 1),
            std::cmp::Ordering::Greater => None,
        };
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    /// A command that came then is over. Its slice may be forgotten by now.
    pub(super) fn remove(&self, came_ms: u64) {
        let (slot, number) = self.slot(came_ms);
        let removed = |packed: u64| (packed >> 32 == number && packed as u32 > 0).then(|| packed - 1);
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, removed);
    }

    /// How many are under way that came lately.
    pub(super) fn count(&self, now_ms: u64) -> usize {
        let newest = (now_ms / WINDOW_MS) as u32;
        let counted = self.0.iter().map(|slot| slot.load(Ordering::Relaxed));
        let lately = counted.filter(|packed| newest.wrapping_sub((packed >> 32) as u32) < SLICES as u32);
        lately.map(|packed| packed as u32 as usize).sum()
    }

    fn slot(&self, at_ms: u64) -> (&AtomicU64, u64) {
        let number = at_ms / WINDOW_MS;
        (&self.0[number as usize % SLICES], u64::from(number as u32))
    }
}
