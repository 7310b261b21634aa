//! Applying a log again over a store that may be ahead of it: who has left with what is about to happen.

use std::collections::BTreeMap;

use boxoffice_core::{
    event::Event,
    id::Entity,
    planted,
    state_map::{State, StateMap},
};
use boxoffice_shard::ShardId;

use super::{Past, PastError};

/// What became of an entity that was not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// It never left: it begins now.
    New,
    /// It is in memory again.
    Back,
    /// It has left with what is about to happen to it.
    Already,
}

/// One shard's log, applied from its snapshot on.
#[derive(Clone, Debug)]
pub struct Replay {
    shard: ShardId,
    /// Up to where the store told at the start, or was told by another node. What begins behind it begins for the first time.
    upto: u64,
    /// Entities that were found to have left, with the place up to which their records tell: they are read once, not at
    /// every entry. Empty behind `upto`.
    left: BTreeMap<Entity, u64>,
}

impl Replay {
    /// Of a shard of which the store told up to `upto` when the node started.
    pub fn new(shard: ShardId, upto: u64) -> Replay {
        Replay { shard, upto, left: BTreeMap::new() }
    }

    /// Another node's records came into the store, which tell up to here.
    pub fn imported(&mut self, upto: u64) {
        self.upto = self.upto.max(upto);
    }

    /// Before something happens at `index` to an entity that is not in memory: puts it back if it has left, unless its
    /// record has that already.
    ///
    /// # Errors
    /// [`PastError::Store`], [`PastError::BadRecord`].
    pub fn bring_back(
        &mut self,
        past: &Past,
        kept: &mut StateMap,
        index: u64,
        (entity, events): (&Entity, &[Event]),
    ) -> Result<Brought, PastError> {
        if index > self.upto {
            self.left.clear();
            if State::never_archived(events) {
                return Ok(Brought::New);
            }
        }
        if self.left.get(entity).is_some_and(|record| *record >= index) {
            return Ok(Brought::Already);
        }
        let Some(stored) = past.get(self.shard, entity)? else { return Ok(Brought::New) };
        if stored.index >= index && !planted::is("entries applied twice after a restart") {
            self.left.insert(stored.entity, stored.index);
            return Ok(Brought::Already);
        }
        kept.reload(stored.entity, stored.state);
        Ok(Brought::Back)
    }
}
