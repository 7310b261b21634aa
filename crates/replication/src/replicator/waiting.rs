//! Shards that wait for records of the store.
//!
//! An entry may change an entity that has left memory. Its record is read elsewhere ([`crate::history_reader`]), since a disk may take
//! seconds. Meanwhile everything behind the entry waits in order, and the shard's group goes on voting and following. A replica that
//! waits for long gives its leadership away.

use std::{collections::VecDeque, sync::atomic::Ordering};

use boxoffice_core::{id::Entity, planted};
use boxoffice_shard::{Input as EngineInput, Output, Position, ShardId, Stamp, Turns};

use super::{
    Replicator,
    applying::{Applied, Progress},
};
use crate::{
    error::ReplicationError,
    history_reads::Found,
    owner::{Event, Owner},
};

/// A replica that has waited for this many milliseconds is not ready, and should not lead.
const WAITS_MS: u64 = 200;

/// While this many bytes of entries wait behind one, the replica takes no further entries. The leader sends them again.
const BEHIND_BYTES_MAX: usize = 16 << 20;

/// An entry that waits, with everything behind it.
pub(super) struct Waiting<T> {
    /// Its number, because answers to an earlier one may come late.
    wait: u64,
    since_ms: u64,
    position: Position,
    turns: Turns,
    /// The completions that wait for the entry.
    own: Vec<(T, u64)>,
    progress: Progress,
    /// Reads without an answer.
    reads: usize,
    /// A read found no room, and is repeated at the next tick.
    again: bool,
    /// The engine's later outputs for the shard, in order.
    rest: VecDeque<Output<T>>,
    /// Bytes of the entries in `rest`.
    rest_bytes: usize,
}

impl<T> Waiting<T> {
    /// Whether no further entries may come, because memory would have no bound.
    pub(super) fn is_full(&self) -> bool {
        self.rest_bytes >= BEHIND_BYTES_MAX && !planted::is("what waits for the store has no bound")
    }
}

/// The bytes of an output that has no bound of its own.
fn bytes_of<T>(output: &Output<T>) -> usize {
    match output {
        Output::Apply { turns, .. } => turns.bytes(),
        _ => 0,
    }
}

/// The shard whose state an output depends on.
fn shard_of<T>(output: &Output<T>) -> Option<ShardId> {
    match output {
        Output::Apply { shard, .. }
        | Output::Completed { shard, .. }
        | Output::BecameLeader { shard, .. }
        | Output::BecameFollower { shard, .. }
        | Output::Removed { shard, .. } => Some(*shard),
        Output::Restore(received) => Some(received.meta.shard),
        Output::SnapshotDue { meta } | Output::CutSnapshot { meta, .. } => Some(meta.shard),
        // Proposals that are over, and messages of the group.
        Output::Message(_) | Output::ProposalDropped { .. } | Output::TargetReached { .. } | Output::Fatal { .. } => {
            None
        }
    }
}

impl<O: Owner> Replicator<O> {
    pub(super) fn is_waiting(&self, shard: ShardId) -> bool {
        self.waiting[usize::from(shard)].is_some()
    }

    /// Keeps an output of a shard that waits for later. Otherwise returns it.
    pub(super) fn put_off(&mut self, output: Output<O::Completion>) -> Option<Output<O::Completion>> {
        if self.waiting_shards == 0 {
            return Some(output);
        }
        let Some(shard) = shard_of(&output) else { return Some(output) };
        let Some(waiting) = self.waiting[usize::from(shard)].as_mut() else { return Some(output) };
        match output {
            // The state that waits is gone. A later replica must not meet what is done for this one.
            Output::Removed { .. } => {
                self.give_up(shard);
                Some(output)
            }
            // Its clients must learn at once where to go. A leadership that was to begin later is over as well.
            Output::BecameFollower { .. } => {
                waiting.rest.retain(|later| !matches!(later, Output::BecameLeader { .. }));
                Some(output)
            }
            later => {
                waiting.rest_bytes += bytes_of(&later);
                waiting.rest.push_back(later);
                None
            }
        }
    }

    /// Does not apply what waits. Its completions are handed out, because it is committed.
    fn give_up(&mut self, shard: ShardId) {
        let Some(waiting) = self.waiting[usize::from(shard)].take() else { return };
        self.waiting_shards -= 1;
        self.completed.extend(waiting.own);
        for output in waiting.rest {
            if let Output::Completed { completion, index, .. } = output {
                self.completed.push((completion, index));
            }
        }
    }

    /// Applies an entry whose completions are those in `completed` from the place `first` on, or begins to wait.
    pub(super) fn apply_or_wait(
        &mut self,
        (shard, position, chain): (ShardId, Position, Option<u128>),
        stamp: Stamp,
        turns: Turns,
        first: usize,
    ) -> Result<(), ReplicationError> {
        self.set_distance(shard, stamp.distance_ms);
        let mut progress = self.progress(shard, (position, stamp), chain);
        if self.apply(shard, position, &turns, (first, &mut progress))? == Applied::Whole {
            return Ok(());
        }
        let own = self.completed.split_off(first);
        let since_ms = self.replication.world.clock.monotonic_ms();
        let wait = self.next_wait;
        self.next_wait += 1;
        let rest = VecDeque::new();
        let (reads, again, rest_bytes) = (0, false, 0);
        let waiting = Waiting { wait, since_ms, position, turns, own, progress, reads, again, rest, rest_bytes };
        self.waiting_shards += 1;
        self.due_ms[usize::from(shard)] = None;
        self.ask_for_records(shard, Box::new(waiting))
    }

    /// Asks for every record that the rest of an entry needs.
    fn ask_for_records(
        &mut self,
        shard: ShardId,
        mut waiting: Box<Waiting<O::Completion>>,
    ) -> Result<(), ReplicationError> {
        let unread = self.unread(shard, waiting.position.index, &waiting.turns, &waiting.progress)?;
        waiting.again = false;
        waiting.reads = unread.len();
        let wait = waiting.wait;
        self.waiting[usize::from(shard)] = Some(waiting);
        if unread.is_empty() {
            return self.go_on(shard);
        }
        unread.into_iter().for_each(|entity| self.replication.reads.replay(shard, wait, entity));
        Ok(())
    }

    /// A record was read.
    pub(super) fn read(
        &mut self,
        shard: ShardId,
        wait: u64,
        entity: Entity,
        found: Found,
    ) -> Result<(), ReplicationError> {
        let Some(waiting) = self.waiting[usize::from(shard)].as_mut().filter(|waiting| waiting.wait == wait) else {
            return Ok(());
        };
        waiting.reads -= 1;
        match found {
            Found::Later => waiting.again = true,
            found => _ = waiting.progress.found.insert(entity, found),
        }
        match waiting.reads == 0 && !waiting.again {
            true => self.go_on(shard),
            false => Ok(()),
        }
    }

    /// Applies the entry that waited and what came behind it, as far as the records are there.
    fn go_on(&mut self, shard: ShardId) -> Result<(), ReplicationError> {
        let Some(mut waiting) = self.waiting[usize::from(shard)].take() else { return Ok(()) };
        let Waiting { position, turns, own, progress, rest, .. } = &mut *waiting;
        let first = self.completed.len();
        self.completed.append(own);
        if self.apply(shard, *position, turns, (first, progress))? == Applied::Waits {
            // An entity has left memory meanwhile.
            *own = self.completed.split_off(first);
            return self.ask_for_records(shard, waiting);
        }
        let (mut rest, mut rest_bytes) = (std::mem::take(rest), waiting.rest_bytes);
        self.waiting_shards -= 1;
        // Before it leads, which clients learn at once. If a later entry waits, the next tick says so again.
        self.replication.shard(shard).waits.store(false, Ordering::Relaxed);
        while let Some(output) = rest.pop_front() {
            rest_bytes -= bytes_of(&output);
            let Output::Apply { position, stamp, turns, chain, .. } = output else {
                self.take_output(output)?;
                continue;
            };
            let first = self.completed.len();
            while let Some(Output::Completed { index, .. }) = rest.front()
                && *index == position.index
                && let Some(Output::Completed { completion, index, .. }) = rest.pop_front()
            {
                self.completed.push((completion, index));
            }
            self.apply_or_wait((shard, position, chain), stamp, turns, first)?;
            if let Some(next) = &mut self.waiting[usize::from(shard)] {
                next.rest.append(&mut rest);
                next.rest_bytes += rest_bytes;
                next.since_ms = waiting.since_ms;
            }
        }
        Ok(())
    }

    /// Repeats reads for which there was no room, and publishes which shards wait or are damaged.
    pub(super) fn tick_reads(&mut self, now_ms: u64) -> Result<(), ReplicationError> {
        if self.waiting_shards > 0 {
            for at in 0..self.waiting.len() {
                let waiting = self.waiting[at].take_if(|waiting| waiting.reads == 0 && waiting.again);
                if let Some(waiting) = waiting {
                    self.ask_for_records(at as ShardId, waiting)?;
                }
            }
        }
        self.replication.history.note_damaged_tables();
        let mut changed = false;
        for state in self.own_shards() {
            let waiting = self.waiting[usize::from(state.id)].as_ref();
            let bytes = waiting.map_or(0, |waiting| waiting.rest_bytes);
            state.waiting_bytes.store(bytes as u64, Ordering::Relaxed);
            let waits = waiting.is_some_and(|waiting| now_ms.saturating_sub(waiting.since_ms) >= WAITS_MS);
            if state.waits.swap(waits, Ordering::Relaxed) != waits {
                tracing::warn!(
                    shard = state.id,
                    waits,
                    "the shard waits for the store here, and is not ready meanwhile"
                );
            }
            let avoids = waits || self.replication.history.is_damaged(state.id);
            changed |= state.avoids.swap(avoids, Ordering::Relaxed) != avoids;
        }
        if changed {
            let shards = self.own_shards().filter(|state| state.avoids.load(Ordering::Relaxed)).map(|state| state.id);
            let (node, shards) = (self.replication.config.node_id, shards.collect());
            self.inputs.push(EngineInput::AvoidShards { node, shards });
            self.owner.on(Event::AvoidanceChanged);
        }
        Ok(())
    }
}
