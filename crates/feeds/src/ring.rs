//! The last deltas of a feed: what all its watchers share, each encoded once.

use std::collections::VecDeque;

use boxoffice_wire::{Encoding, encode, feed::DeltaBody};
use bytes::{Bytes, BytesMut};

use super::reader::{Pulled, Reader};

/// A frame in each encoding, made when the first watcher wants it.
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

/// A frame of its own.
pub(super) fn frame_from(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut frame = BytesMut::new();
    write(&mut frame);
    // Cut to size: it may be kept for as long as the ring lasts.
    Bytes::copy_from_slice(&frame)
}

/// Deltas without a gap between them.
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
    /// For so many deltas, which weigh so much together.
    pub(super) fn new(deltas_max: usize, weight_max: usize) -> Ring<D> {
        Ring { deltas: VecDeque::new(), deltas_max, weight: 0, weight_max }
    }

    /// Adds the next delta; the oldest ones go.
    pub(super) fn push(&mut self, delta: D, weight: usize) {
        assert!(self.deltas.back().is_none_or(|last| last.delta.to() == delta.from()), "a ring has no gaps");
        self.weight += weight;
        self.deltas.push_back(Slot { delta, weight, encoded: Encoded::default() });
        while self.deltas.len() > self.deltas_max || self.weight > self.weight_max {
            let oldest = self.deltas.pop_front().expect("what weighs is in deltas");
            self.weight -= oldest.weight;
        }
    }

    /// Forgets all deltas: what comes next does not follow them.
    pub(super) fn clear(&mut self) {
        self.deltas.clear();
        self.weight = 0;
    }

    /// Gives the deltas that lead on from `at`; where the reader is then, and what is left. `None` if the ring does not reach
    /// back to `at`. The first delta may begin before `at` if `overlaps` says that deltas name states and not changes: then
    /// it says all there is to say about every version inside it.
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
