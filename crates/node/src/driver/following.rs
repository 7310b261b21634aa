//! What a replica that follows has to apply, and does some at a time. Code and memory that one turn has brought into the
//! processor's caches serve the next ones. A leader's own turns, and those that somebody here watches, are applied at once.

use boxoffice_core::planted;
use boxoffice_shard::{Position, ShardId, Turns};

use super::Driver;
use crate::error::NodeError;

/// How long an entry waits for others, in milliseconds: no longer than changes of a feed wait for each other.
const WAIT_MS: u64 = 20;
/// With so many bytes of entries none waits any longer.
const BYTES_MAX: usize = 1 << 20;

/// Committed entries that are still to be applied.
#[derive(Default)]
pub(super) struct Unapplied {
    /// By shard, in order.
    entries: Vec<Vec<(Position, Turns)>>,
    /// The shards that have some.
    shards: Vec<ShardId>,
    bytes: usize,
    /// Since when the first of them waits, in monotonic milliseconds.
    since_ms: u64,
}

impl Unapplied {
    /// None of any of so many shards.
    pub(super) fn new(shards: usize) -> Unapplied {
        Unapplied { entries: (0..shards).map(|_| Vec::new()).collect(), ..Unapplied::default() }
    }

    /// When they are to be applied, if there are any.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let wait_ms = if self.bytes < BYTES_MAX { WAIT_MS } else { 0 };
        (!self.shards.is_empty()).then_some(self.since_ms + wait_ms)
    }

    fn push(&mut self, shard: ShardId, entry: (Position, Turns), now_ms: u64) {
        if self.shards.is_empty() {
            self.since_ms = now_ms;
        }
        let entries = &mut self.entries[usize::from(shard)];
        if entries.is_empty() {
            self.shards.push(shard);
        }
        self.bytes += entry.1.bytes();
        entries.push(entry);
    }
}

impl Driver {
    /// Whether an entry that nobody here waits for may wait.
    pub(super) fn may_wait(&self, shard: ShardId) -> bool {
        let cell = &self.shared.cells[usize::from(shard)];
        self.reigns[usize::from(shard)].is_none() && cell.replica.lock().watched.is_empty()
    }

    /// Takes an entry to be applied later.
    pub(super) fn apply_later(&mut self, shard: ShardId, position: Position, turns: Turns) {
        self.unapplied.push(shard, (position, turns), self.now_ms);
    }

    /// Applies what waits of one shard: before anything else is done with its replica.
    ///
    /// # Errors
    /// As [`Driver::apply`].
    pub(super) fn catch_up(&mut self, shard: ShardId) -> Result<(), NodeError> {
        if self.unapplied.entries[usize::from(shard)].is_empty() {
            return Ok(());
        }
        self.unapplied.shards.retain(|of| *of != shard);
        self.apply_waiting(shard)
    }

    /// Applies everything that waits.
    ///
    /// # Errors
    /// As [`Driver::apply`].
    pub(super) fn catch_up_all(&mut self) -> Result<(), NodeError> {
        let mut shards = std::mem::take(&mut self.unapplied.shards);
        for shard in shards.drain(..) {
            self.apply_waiting(shard)?;
        }
        self.unapplied.shards = shards;
        Ok(())
    }

    fn apply_waiting(&mut self, shard: ShardId) -> Result<(), NodeError> {
        let mut entries = std::mem::take(&mut self.unapplied.entries[usize::from(shard)]);
        for (position, turns) in entries.drain(..) {
            self.unapplied.bytes -= turns.bytes();
            self.apply(shard, position, &turns, &mut [])?;
        }
        self.unapplied.entries[usize::from(shard)] = entries;
        Ok(())
    }

    /// The same before the node leads the shard.
    pub(super) fn catch_up_to_lead(&mut self, shard: ShardId) -> Result<(), NodeError> {
        match planted::is("a new leader that has not caught up") {
            true => Ok(()),
            false => self.catch_up(shard),
        }
    }
}
