//! What waits to be written to one connection, and whose turn it is.

use std::collections::VecDeque;

use boxoffice_env::Lane;
use bytes::Bytes;

/// Bytes a lane may write in its turn while others wait: with all lanes waiting each gets the same share, whatever the length
/// of its frames. A frame of bulk (256 KiB) takes four rounds, in each of which calls have their 64 KiB.
const QUANTUM_BYTES: usize = 64 * 1024;

/// Bytes taken for one write, or one frame if it is longer: what comes meanwhile waits at most for them.
const BATCH_BYTES: usize = 128 * 1024;

/// How much may wait in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneBound {
    /// Frames.
    pub frames: usize,
    /// Their bytes. A single frame always has room, even if it is longer.
    pub bytes: usize,
}

/// How much may wait for one node, in each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Of consensus: some passes of all shards. What is dropped is sent again.
    pub consensus: LaneBound,
    /// Of calls: as many as a node lets be under way.
    pub calls: LaneBound,
    /// Of feeds: beyond it the watching node starts anew from a snapshot.
    pub feeds: LaneBound,
    /// Of bulk: enough to keep the connection busy while the sender makes more.
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

/// Which of the two connections of a link.
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
    /// Whose turn it is.
    turn: usize,
    /// No more is taken: the connection has ended.
    closed: bool,
}

#[derive(Debug)]
struct Queue {
    lane: Lane,
    bound: LaneBound,
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes it may still write in its turn.
    share: usize,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It waits; it is the first to wait if so.
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

    /// Takes a frame at the end of its lane.
    ///
    /// # Panics
    /// When the lane is not of this connection.
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

    /// Moves what is to be written next to `batch`: about [`BATCH_BYTES`], by turns.
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

    /// Drops what waits and takes no more; says how many frames there were.
    pub(super) fn close(&mut self) -> usize {
        self.closed = true;
        let left = self.len();
        self.queues.iter_mut().for_each(|queue| queue.frames = VecDeque::new());
        left
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Frames that wait.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.frames.len()).sum()
    }

    /// Whether nothing waits.
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
    fn lanes_that_all_wait_share_alike() {
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
        fn what_is_taken_comes_out_once_and_in_order(pushes in vec((0..3_usize, 0..300_000_usize), 0..60), every in 1..9_usize) {
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
