//! The housekeeping of a replicator, ten times a second: the log, memory, and the state that the rest of the node reads.

use std::{mem, sync::atomic::Ordering};

use boxoffice_core::id::Entity;
use boxoffice_shard::DIRECTORY;
use boxoffice_storage::{fsync::Fsync, log::LogError};

use super::Replicator;
use crate::{
    error::ReplicationError,
    history_writer::Order,
    owner::{Event, Owner},
};

/// Shards whose members are checked in one tick.
const NOTED_A_TICK: usize = 8;
/// How often the durable positions of other nodes are saved, in milliseconds.
const NEIGHBOURS_MS: u64 = 10_000;
/// A starting node takes no part before every other node knows it. It waits this long at most for nodes that do not answer, in
/// milliseconds. That is longer than it takes until the node with the larger number dials.
const ABSENT_MS: u64 = 1_500;
/// It waits this long at most for nodes that refuse it, in milliseconds. A node that has come back from an old copy of its disk
/// learns so meanwhile.
const REFUSED_MS: u64 = 10_000;

impl<O: Owner> Replicator<O> {
    /// Does the housekeeping of one tick.
    pub(super) fn tick(&mut self, now_ms: u64) -> Result<(), ReplicationError> {
        if let Fsync::Interval(interval_ms) = self.replication.config.fsync
            && self.unsynced
            && now_ms.saturating_sub(self.synced_ms) >= interval_ms
        {
            self.sync(now_ms)?;
        }
        self.wait_for_others(now_ms);
        if self.log.wants_checkpoint() {
            match self.write_checkpoint() {
                // It is written when there is room. Until then older segments stay.
                Ok(()) | Err(ReplicationError::Log(LogError::Full { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        self.note_first_needed();
        if self.number == 0 {
            self.tick_of_node(now_ms)?;
        }
        if mem::take(&mut self.left) && !self.leaves {
            self.leaves = true;
            tracing::error!("there is no room for what other nodes lead: it is left until there is some");
        } else if self.leaves && !self.replication.is_read_only() {
            self.leaves = false;
            tracing::warn!("what other nodes lead is taken again");
        }
        self.tick_reads(now_ms)?;
        for state in self.own_shards().filter(|state| !self.is_waiting(state.id)) {
            // Not every entry has turns.
            if let Some(position) = self.engine.applied(state.id) {
                state.applied.store(position.index, Ordering::Relaxed);
            }
            self.note_chain(state.id);
        }
        // Members change without an event about leaders, so some shards are checked in each tick.
        for state in self.own_shards().cycle().skip(self.noted).take(NOTED_A_TICK.min(self.replication.shards.len())) {
            self.note_group(state.id);
        }
        self.noted = (self.noted + NOTED_A_TICK) % self.replication.shards.len();
        self.cut_for_release();
        self.cut_for_damaged();
        self.hand_over();
        Ok(())
    }

    /// Does the part of the housekeeping that is common to all replicators.
    fn tick_of_node(&mut self, now_ms: u64) -> Result<(), ReplicationError> {
        self.seal_at_rest(now_ms)?;
        if now_ms >= self.neighbours_ms + NEIGHBOURS_MS {
            self.neighbours_ms = now_ms;
            self.history.order(Order::Neighbours);
        }
        if let Some(heard_ms) = self.engine.leader_heard_ms(DIRECTORY) {
            self.replication.directory_heard_ms.store(heard_ms, Ordering::Relaxed);
        }
        // A node that has stopped selling resumes only with room for another segment. With less room it would stop again at once.
        let waits_for_room = self.replication.is_read_only() && self.log.headroom().no_space;
        let low = self.low_headroom_bytes().is_some() || waits_for_room;
        self.set_read_only(low || self.replication.history_full.load(Ordering::Relaxed));
        self.log.maintain();
        self.release_log();
        Ok(())
    }

    /// A node that has just started neither votes nor follows before every other node has let it in. If its disk is an old copy,
    /// it may have forgotten votes and entries, and a node that knows it says so.
    fn wait_for_others(&mut self, now_ms: u64) {
        let Some(since_ms) = self.waits_since_ms else { return };
        let links = self.replication.world.net.links();
        let knows_cluster = || self.replication.shard(DIRECTORY).replica.lock().kept.contains(&Entity::Cluster);
        let is_known = !links.is_empty() && knows_cluster() && links.iter().all(|link| link.up);
        let is_refused = links.iter().any(|link| link.refused.is_some());
        let wait_ms = if is_refused { REFUSED_MS } else { ABSENT_MS };
        if is_known || now_ms >= since_ms + wait_ms {
            self.waits_since_ms = None;
        }
    }

    /// Gives entities that may leave memory, and places of the chains, to the history writer, but only when the log is synced. A store that is ahead of the
    /// log after a power cut would take other events at the same places for its own.
    fn hand_over(&mut self) {
        if self.unsynced {
            return;
        }
        // So with the places of the chains: a place of an entry that was lost would contradict the one decided after it.
        if !self.chain_places.is_empty() {
            self.history.order(Order::Chain(mem::take(&mut self.chain_places)));
        }
        // A record of an entry that is applied by half would seem to have all of it.
        for state in self.own_shards().filter(|state| !self.is_waiting(state.id)) {
            let leaving = state.replica.lock().kept.take_evictable();
            if !leaving.is_empty() {
                self.history.order(Order::Leave(state.id, leaving));
            }
        }
    }

    pub(super) fn set_read_only(&self, now: bool) {
        let was = self.replication.read_only.swap(now, Ordering::Relaxed);
        if now && !was {
            tracing::error!("the disk is full: only reads are served until there is space again");
        } else if was && !now {
            tracing::warn!("there is space on the disk again: selling goes on");
        }
        if now != was {
            // Other nodes should lead, or this node may again.
            self.owner.on(Event::ReadOnlyChanged);
        }
    }
}
