//! Blocks of seats that flows of a run share: those still to be sold, and those that a flow just got.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Choice, Picker},
};
use rand::Rng;

/// How often a client looks for blocks that are to be tried again.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The seats of a house that are still to be sold, in blocks.
pub(crate) struct SeatBlockPool {
    blocks: Mutex<Blocks>,
    /// Blocks that are not sold, including those that a client is trying.
    left: AtomicU32,
}

/// Blocks that no client is trying to get.
struct Blocks {
    /// Blocks that no client tried yet.
    untried: Vec<FlowNumber>,
    /// Blocks to be tried again, each with the earliest time. All wait equally long, so the times ascend.
    retries: VecDeque<(Instant, FlowNumber)>,
}

impl SeatBlockPool {
    pub(crate) fn new(picker: &Picker, seats: u16) -> SeatBlockPool {
        let house = picker.house();
        let of_group = house.sessions_of_group() * (house.seats_of_session() / u32::from(seats));
        // Clients take blocks from the end, where the blocks of the first sessions are.
        let blocks = (0..of_group).rev();
        let untried: Vec<FlowNumber> =
            blocks.flat_map(|index| (0..house.groups).map(move |group| FlowNumber { group, index })).collect();
        let left = AtomicU32::new(untried.len() as u32);
        SeatBlockPool { left, blocks: Mutex::new(Blocks { untried, retries: VecDeque::new() }) }
    }

    /// A block that the caller may try. `None` when all blocks are sold.
    pub(crate) async fn take(&self) -> Option<FlowNumber> {
        loop {
            {
                let mut blocks = self.blocks.lock().expect("no thread panics while it holds the lock");
                if blocks.retries.front().is_some_and(|(from, _)| *from <= Instant::now()) {
                    return blocks.retries.pop_front().map(|(_, block)| block);
                }
                if let Some(block) = blocks.untried.pop() {
                    return Some(block);
                }
            }
            if self.left.load(Ordering::Relaxed) == 0 {
                return None;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns a block that was not sold. It may be tried again after a while, which is the same for all blocks.
    pub(crate) fn give_back(&self, block: FlowNumber, after: Duration) {
        let mut blocks = self.blocks.lock().expect("no thread panics while it holds the lock");
        blocks.retries.push_back((Instant::now() + after, block));
    }

    /// Records that a block is sold, or that its outcome is unknown. No client tries it again.
    pub(crate) fn mark_finished(&self) {
        self.left.fetch_sub(1, Ordering::Relaxed);
    }

    /// The seats of a block.
    pub(crate) fn choice(picker: &Picker, block: FlowNumber) -> Choice {
        picker.choose(block, 0)
    }
}

/// Capacity of [`RecentHolds`].
const RECENT_HOLDS_MAX: usize = 1_024;

/// Seats that flows got and do not give back. A flow that wants one of them is refused.
#[derive(Default)]
pub(crate) struct RecentHolds {
    choices: Mutex<VecDeque<Choice>>,
}

impl RecentHolds {
    pub(crate) fn put(&self, choice: &Choice) {
        let mut choices = self.choices.lock().expect("no thread panics while it holds the lock");
        if choices.len() == RECENT_HOLDS_MAX {
            choices.pop_front();
        }
        choices.push_back(choice.clone());
    }

    /// A random choice of them. `None` while there is none.
    pub(crate) fn any(&self, random: &mut impl Rng) -> Option<Choice> {
        let choices = self.choices.lock().expect("no thread panics while it holds the lock");
        (!choices.is_empty()).then(|| choices[random.random_range(0..choices.len())].clone())
    }
}
