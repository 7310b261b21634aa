//! The send queues of one connection, and their turns.

use std::collections::VecDeque;

use boxoffice_env::Lane;
use bytes::Bytes;

/// Bytes that a lane may write in its turn while others wait (deficit round robin). So all waiting lanes get the same
/// share for any length of frames. A bulk frame of 256 KiB takes four rounds, and calls have 64 KiB in each.
const QUANTUM_BYTES: usize = 64 * 1024;

/// Bytes of one write, or one longer frame. A new frame waits for one write at most.
const BATCH_BYTES: usize = 128 * 1024;

/// The bound of one lane's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneBound {
    pub frames: usize,
    /// Bytes of these frames. A single longer frame fits too.
    pub bytes: usize,
}

/// The bounds of the queues to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Some passes of all shards. Dropped frames are sent again.
    pub consensus: LaneBound,
    /// As many calls as a node has under way.
    pub calls: LaneBound,
    /// If it is full, the watching node begins anew with a snapshot.
    pub feeds: LaneBound,
    /// Enough to keep the connection busy while the sender prepares more.
    pub bulk: LaneBound,
}

impl Default for QueueBounds {
    fn default() -> QueueBounds {
        QueueBounds {
            consensus: LaneBound { frames: 4_096, bytes: 32 << 20 },
            calls: LaneBound { frames: 16_384, bytes: 32 << 20 },
            feeds: LaneBound { frames: 16_384, bytes: 16 << 20 },
            bulk: LaneBound { frames: 64, bytes: 4 << 20 },
        }
    }
}

/// One of the two connections of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    /// Only consensus.
    Consensus,
    /// Calls, feeds and bulk.
    Common,
}

impl LinkKind {
    pub(super) const BOTH: [LinkKind; 2] = [LinkKind::Consensus, LinkKind::Common];

    pub(super) fn of(lane: Lane) -> LinkKind {
        match lane {
            Lane::Consensus => LinkKind::Consensus,
            Lane::Calls | Lane::Feeds | Lane::Bulk => LinkKind::Common,
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            LinkKind::Consensus => 0,
            LinkKind::Common => 1,
        }
    }

    pub(super) fn from_index(index: u8) -> Option<LinkKind> {
        LinkKind::BOTH.get(usize::from(index)).copied()
    }
}

/// The lanes of one connection.
#[derive(Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// The queue in turn.
    turn: usize,
    /// The connection has ended.
    closed: bool,
}

#[derive(Debug)]
struct Queue {
    lane: Lane,
    bound: LaneBound,
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes that it may still write in its turn.
    share: usize,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// The frame is queued. `first` if all queues were empty.
    Taken {
        first: bool,
    },
    Full,
    Closed,
}

impl Queues {
    pub(super) fn new(link_kind: LinkKind, bounds: &QueueBounds) -> Queues {
        let queue = |lane, bound| Queue { lane, bound, frames: VecDeque::new(), bytes: 0, share: 0 };
        let queues = match link_kind {
            LinkKind::Consensus => vec![queue(Lane::Consensus, bounds.consensus)],
            LinkKind::Common => {
                vec![queue(Lane::Calls, bounds.calls), queue(Lane::Feeds, bounds.feeds), queue(Lane::Bulk, bounds.bulk)]
            }
        };
        Queues { queues, turn: 0, closed: false }
    }

    /// Queues a frame in its lane.
    ///
    /// # Panics
    /// If the lane belongs to the other connection.
    pub(super) fn push(&mut self, lane: Lane, frame: Bytes) -> Pushed {
        if self.closed {
            return Pushed::Closed;
        }
        let first = self.is_empty();
        let queue = self.queues.iter_mut().find(|queue| queue.lane == lane).expect("a lane of this connection");
        let fits = queue.frames.len() < queue.bound.frames && queue.bytes + frame.len() <= queue.bound.bytes;
        if !fits && !queue.frames.is_empty() {
            return Pushed::Full;
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        Pushed::Taken { first }
    }

    /// Moves the next frames to `batch`, about [`BATCH_BYTES`] by turns.
    pub(super) fn take(&mut self, batch: &mut Vec<(Lane, Bytes)>) {
        let mut taken = 0;
        while taken < BATCH_BYTES && !self.is_empty() {
            let alone = self.queues.iter().filter(|queue| !queue.frames.is_empty()).count() == 1;
            let queue = &mut self.queues[self.turn];
            match queue.frames.front().map(Bytes::len) {
                Some(length) if alone || length <= queue.share => {
                    let frame = queue.frames.pop_front().expect("it was seen");
                    queue.bytes -= length;
                    queue.share = if queue.frames.is_empty() { 0 } else { queue.share.saturating_sub(length) };
                    taken += length;
                    batch.push((queue.lane, frame));
                }
                Some(_) | None => self.next_turn(),
            }
        }
    }

    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % self.queues.len();
        let queue = &mut self.queues[self.turn];
        queue.share = if queue.frames.is_empty() { 0 } else { queue.share + QUANTUM_BYTES };
    }

    /// Closes the queues and returns the number of dropped frames.
    pub(super) fn close(&mut self) -> usize {
        self.closed = true;
        let left = self.len();
        self.queues.iter_mut().for_each(|queue| queue.frames = VecDeque::new());
        left
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The number of queued frames.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.frames.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.frames.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn frame(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    fn take(queues: &mut Queues) -> Vec<(Lane, usize)> {
        let mut batch = Vec::new();
        queues.take(&mut batch);
        batch.into_iter().map(|(lane, frame)| (lane, frame.len())).collect()
    }

    #[test]
    fn a_call_waits_for_one_frame_of_bulk_at_most() {
        let bound = LaneBound { frames: 1_000, bytes: 64 << 20 };
        let bounds = QueueBounds { consensus: bound, calls: bound, feeds: bound, bulk: bound };
        let mut queues = Queues::new(LinkKind::Common, &bounds);
        for _ in 0..256 {
            assert!(matches!(queues.push(Lane::Bulk, frame(256 << 10)), Pushed::Taken { .. }));
        }
        assert_eq!(take(&mut queues), [(Lane::Bulk, 256 << 10)]);
        queues.push(Lane::Calls, frame(200));
        queues.push(Lane::Feeds, frame(300));
        let next: Vec<_> = take(&mut queues).into_iter().chain(take(&mut queues)).collect();
        let call = next.iter().position(|taken| *taken == (Lane::Calls, 200)).expect("the call is among them");
        let before: usize = next[..call].iter().map(|(_, bytes)| bytes).sum();
        assert!(before <= 256 << 10, "{before}");
    }

    #[test]
    fn waiting_lanes_share_equally() {
        let bound = LaneBound { frames: 1_000_000, bytes: 1 << 30 };
        let bounds = QueueBounds { consensus: bound, calls: bound, feeds: bound, bulk: bound };
        let mut queues = Queues::new(LinkKind::Common, &bounds);
        for _ in 0..64 {
            queues.push(Lane::Bulk, frame(256 << 10));
        }
        for _ in 0..16_384 {
            queues.push(Lane::Feeds, frame(1 << 10));
            queues.push(Lane::Calls, frame(1 << 10));
        }
        let mut written = [0_usize; 3];
        for _ in 0..60 {
            for (lane, bytes) in take(&mut queues) {
                written[[Lane::Calls, Lane::Feeds, Lane::Bulk].iter().position(|one| *one == lane).unwrap()] += bytes;
            }
        }
        let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
        assert!(most - least <= 256 << 10, "{written:?}");
    }

    #[test]
    fn a_full_lane_refuses_and_others_do_not() {
        let bound = LaneBound { frames: 2, bytes: 100 };
        let bounds = QueueBounds { consensus: bound, calls: bound, feeds: bound, bulk: bound };
        let mut queues = Queues::new(LinkKind::Common, &bounds);
        assert_eq!(queues.push(Lane::Calls, frame(500)), Pushed::Taken { first: true });
        assert_eq!(queues.push(Lane::Calls, frame(1)), Pushed::Full);
        assert_eq!(queues.push(Lane::Feeds, frame(1)), Pushed::Taken { first: false });
        assert_eq!(queues.push(Lane::Feeds, frame(1)), Pushed::Taken { first: false });
        assert_eq!(queues.push(Lane::Feeds, frame(1)), Pushed::Full);
        assert_eq!(queues.close(), 3);
        assert_eq!(queues.push(Lane::Feeds, frame(1)), Pushed::Closed);
    }

    proptest! {
        #[test]
        fn queued_frames_come_out_once_and_in_order(pushes in vec((0..3_usize, 0..300_000_usize), 0..60), every in 1..9_usize) {
            let mut queues = Queues::new(LinkKind::Common, &QueueBounds::default());
            let lanes = [Lane::Calls, Lane::Feeds, Lane::Bulk];
            let (mut pushed, mut batch) = (vec![Vec::new(); 3], Vec::new());
            for (number, (lane, bytes)) in pushes.into_iter().enumerate() {
                if matches!(queues.push(lanes[lane], frame(bytes)), Pushed::Taken { .. }) {
                    pushed[lane].push(bytes);
                }
                if number % every == 0 {
                    queues.take(&mut batch);
                }
            }
            while !queues.is_empty() {
                queues.take(&mut batch);
            }
            for (index, lane) in lanes.into_iter().enumerate() {
                let taken: Vec<_> =
                    batch.iter().filter(|(of, _)| *of == lane).map(|(_, frame)| frame.len()).collect();
                prop_assert_eq!(&taken, &pushed[index]);
            }
            prop_assert_eq!(queues.queues.iter().map(|queue| queue.bytes).sum::<usize>(), 0);
        }
    }
}
