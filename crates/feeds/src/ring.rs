//! The last deltas of a feed, each encoded once for all watchers.

use std::collections::VecDeque;

use boxoffice_wire::{Encoding, encode, feed::DeltaBody};
use bytes::{Bytes, BytesMut};

use super::{
    merge::Merge,
    reader::{Pulled, Reader},
};

/// Bytes of an entry of a delta, or more. So many entries are merged before the frame is encoded to see how long it is.
const ENTRY_BYTES: usize = 20;

/// A frame in each encoding, made when it is first needed.
#[derive(Default)]
pub(super) struct Encoded([Option<Bytes>; 2]);

impl Encoded {
    pub(super) fn get(&mut self, encoding: Encoding, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        let place = match encoding {
            Encoding::Json => &mut self.0[0],
            Encoding::MsgPack => &mut self.0[1],
        };
        place.get_or_insert_with(|| frame_from(write)).clone()
    }
}

/// A frame in its own allocation.
pub(super) fn frame_from(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut frame = BytesMut::new();
    write(&mut frame);
    // Trimmed to size, because the ring may keep it.
    Bytes::copy_from_slice(&frame)
}

/// Consecutive deltas.
pub(super) struct Ring<D> {
    deltas: VecDeque<KeptDelta<D>>,
    deltas_max: usize,
    weight: usize,
    weight_max: usize,
}

struct KeptDelta<D> {
    delta: D,
    weight: usize,
    encoded: Encoded,
}

impl<D: DeltaBody> Ring<D> {
    /// A ring for up to `deltas_max` deltas with a total weight of `weight_max`.
    pub(super) fn new(deltas_max: usize, weight_max: usize) -> Ring<D> {
        Ring { deltas: VecDeque::new(), deltas_max, weight: 0, weight_max }
    }

    /// Adds the next delta, and removes the oldest ones beyond the bounds.
    pub(super) fn push(&mut self, delta: D, weight: usize) {
        assert!(self.deltas.back().is_none_or(|last| last.delta.to() == delta.from()), "a ring has no gaps");
        self.weight += weight;
        self.deltas.push_back(KeptDelta { delta, weight, encoded: Encoded::default() });
        while self.deltas.len() > self.deltas_max || self.weight > self.weight_max {
            let oldest = self.deltas.pop_front().expect("the weight is that of deltas");
            self.weight -= oldest.weight;
        }
    }

    /// Removes all deltas, because the next one does not follow them.
    pub(super) fn clear(&mut self) {
        self.deltas.clear();
        self.weight = 0;
    }

    /// Gives the deltas after version `at`. Returns the reader's new version, and what is left. `None` if the ring does
    /// not reach back to `at`. With `overlaps` deltas contain states and not differences, so the first one may begin
    /// before `at`.
    pub(super) fn pull(&mut self, at: u64, overlaps: bool, reader: &mut Reader<'_>) -> Option<(u64, Pulled)> {
        let next = self.next_after(at, overlaps)?;
        let mut at = at;
        for KeptDelta { delta, encoded, .. } in self.deltas.range_mut(next..) {
            if reader.is_full() {
                return Some((at, Pulled::More));
            }
            let feed = reader.feed;
            let encoding = reader.encoding;
            reader.give(encoded.get(encoding, |out| encode::delta(encoding, out, feed, delta)));
            at = delta.to();
        }
        Some((at, Pulled::All))
    }

    /// The index of the delta after version `at`.
    fn next_after(&self, at: u64, overlaps: bool) -> Option<usize> {
        let next = self.deltas.partition_point(|slot| slot.delta.to() <= at);
        let from = self.deltas.get(next)?.delta.from();
        (from == at || (from < at && overlaps)).then_some(next)
    }

    /// The deltas after version `at`. `None` if the ring does not reach back to it. With `overlaps` as [`Ring::pull`].
    pub(super) fn after(&self, at: u64, overlaps: bool) -> Option<impl Iterator<Item = &D>> {
        Some(self.deltas.range(self.next_after(at, overlaps)?..).map(|slot| &slot.delta))
    }
}

impl<D: DeltaBody + Merge + Clone> Ring<D> {
    /// The next frame of at most `bytes_max` for a reader at version `at` that is behind: as many of the next deltas as one as fit.
    /// With them the version to which they lead. A single delta is not divided, so the frame may be longer. `None` if the ring does not
    /// reach back to `at`, or all deltas after it have more than `entries_max` entries.
    pub(super) fn merged(
        &mut self,
        at: u64,
        entries_max: usize,
        bytes_max: usize,
        reader: &Reader<'_>,
    ) -> Option<(Bytes, u64)> {
        let next = self.next_after(at, true)?;
        let waiting: usize = self.deltas.range(next..).map(|slot| slot.delta.entries()).sum();
        if waiting > entries_max {
            return None;
        }
        let (encoding, feed) = (reader.encoding, reader.feed);
        let mut count = self.deltas.len() - next;
        loop {
            if count == 1 {
                // Watchers at the same version share its frame.
                let KeptDelta { delta, encoded, .. } = &mut self.deltas[next];
                return Some((encoded.get(encoding, |out| encode::delta(encoding, out, feed, delta)), delta.to()));
            }
            let mut merged = self.deltas[next].delta.clone();
            let mut taken = 1_usize;
            for KeptDelta { delta, .. } in self.deltas.range(next + 1..next + count) {
                if merged.entries() + delta.entries() > bytes_max / ENTRY_BYTES {
                    break;
                }
                merged.absorb(delta);
                taken += 1;
            }
            if taken > 1 {
                let frame = frame_from(|out| encode::delta(encoding, out, feed, &merged));
                if frame.len() <= bytes_max {
                    return Some((frame, merged.to()));
                }
            }
            count = taken.div_ceil(2);
        }
    }
}
