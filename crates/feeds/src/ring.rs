//! The last deltas of a feed, each encoded once for all watchers.

use std::collections::VecDeque;

use boxoffice_wire::{Encoding, encode, feed::DeltaBody};
use bytes::{Bytes, BytesMut};

use super::reader::{Pulled, Reader};

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
    deltas: VecDeque<Slot<D>>,
    deltas_max: usize,
    weight: usize,
    weight_max: usize,
}

struct Slot<D> {
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
        self.deltas.push_back(Slot { delta, weight, encoded: Encoded::default() });
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
        let next = self.deltas.partition_point(|slot| slot.delta.to() <= at);
        let from = self.deltas.get(next)?.delta.from();
        if from > at || (from < at && !overlaps) {
            return None;
        }
        let mut at = at;
        for Slot { delta, encoded, .. } in self.deltas.range_mut(next..) {
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
}
