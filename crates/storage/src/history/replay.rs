//! Replays a log over a store that may be ahead of it, and finds the events that records contain already.

use std::collections::BTreeMap;

use boxoffice_core::{
    event::Event,
    id::Entity,
    planted,
    state_map::{State, StateMap},
};
use boxoffice_shard::ShardId;

use super::{HistoryStore, HistoryStoreError, Lookup, StoredEntity};

/// The state of an entity that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// It has no record and begins now.
    New,
    /// It was reloaded into memory.
    Back,
    /// Its record contains the event already.
    Already,
}

/// What an entity that is not in memory needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayLookup {
    /// Nothing. It has no record and begins now.
    New,
    /// Nothing. Its record contains the event already.
    Already,
    /// Nothing helps. Its record is damaged, and it is noted durably that it lacks events.
    Behind,
    /// Its record has to be read.
    Read,
}

/// The replay of one shard's log from its snapshot on.
#[derive(Clone, Debug)]
pub struct Replay {
    shard: ShardId,
    /// The last log index that the store had at the start or that was imported. Entities that begin later are new.
    upto: u64,
    /// The log indices of records that were found, so that each is read once and not at every entry. Empty behind
    /// `upto`.
    left: BTreeMap<Entity, u64>,
}

impl Replay {
    /// `upto` is the last log index in the store at the start.
    pub fn new(shard: ShardId, upto: u64) -> Replay {
        Replay { shard, upto, left: BTreeMap::new() }
    }

    /// Records up to this log index were imported from another node.
    pub fn imported(&mut self, upto: u64) {
        self.upto = self.upto.max(upto);
    }

    /// What an entity that is not in memory needs for its `events` at `index`. Does not read the store.
    pub fn look_up(
        &mut self,
        history: &HistoryStore,
        index: u64,
        (entity, events): (&Entity, &[Event]),
    ) -> ReplayLookup {
        if index > self.upto {
            self.left.clear();
            if State::never_archived(events) {
                return ReplayLookup::New;
            }
        }
        if self.left.get(entity).is_some_and(|record| *record >= index) {
            return ReplayLookup::Already;
        }
        match history.look_up(self.shard, entity) {
            Lookup::None => ReplayLookup::New,
            Lookup::Behind => ReplayLookup::Behind,
            Lookup::Unread => ReplayLookup::Read,
        }
    }

    /// Takes the record that was read for [`ReplayLookup::Read`]. It reloads the entity, unless the record contains the events.
    pub fn found(&mut self, kept: &mut StateMap, index: u64, stored: Option<StoredEntity>) -> ReplayOutcome {
        let Some(stored) = stored else { return ReplayOutcome::New };
        if stored.index >= index && !planted::is("entries applied twice after a restart") {
            self.left.insert(stored.entity, stored.index);
            return ReplayOutcome::Already;
        }
        kept.reload(stored.entity, stored.state);
        ReplayOutcome::Back
    }

    /// Prepares an entity that is not in memory for its `events` at `index`. It reloads the entity, unless its record contains
    /// the events. May wait for the disk.
    ///
    /// # Errors
    /// As [`HistoryStore::get`].
    pub fn reload(
        &mut self,
        history: &HistoryStore,
        kept: &mut StateMap,
        index: u64,
        (entity, events): (&Entity, &[Event]),
    ) -> Result<ReplayOutcome, HistoryStoreError> {
        match self.look_up(history, index, (entity, events)) {
            ReplayLookup::New => Ok(ReplayOutcome::New),
            ReplayLookup::Already => Ok(ReplayOutcome::Already),
            ReplayLookup::Behind | ReplayLookup::Read => {
                let stored = history.get(self.shard, entity)?;
                Ok(self.found(kept, index, stored))
            }
        }
    }
}
