//! Applies committed entries.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

#[cfg(debug_assertions)]
use boxoffice_core::version::NEXT;
use boxoffice_core::{event::Event as EntityEvent, id::Entity, planted};
use boxoffice_shard::{DIRECTORY, Position, ShardId, Stamp, Turns};
use boxoffice_storage::{
    chain_file::{CHAIN_EVERY, ChainPlace},
    codec,
    fsync::Fsync,
    history::{ReplayLookup, ReplayOutcome},
};

use super::Replicator;
use crate::{
    error::ReplicationError,
    history_reads::Found,
    owner::{Completion, Event, Owner, ProposedTurn},
};

/// How far an entry is applied.
#[derive(Default)]
pub(super) struct Progress {
    /// Turns that are applied.
    done: usize,
    /// The changed entities. `None` if the entry is not compared with other replicas.
    changed: Option<BTreeSet<Entity>>,
    /// The chain of the shard's entries with this one.
    chain: Option<u128>,
    /// Records that were read for it.
    pub(super) found: BTreeMap<Entity, Found>,
}

/// The result of applying an entry.
#[derive(PartialEq, Eq)]
pub(super) enum Applied {
    Whole,
    /// A record of the store is missing for the next turn.
    Waits,
}

/// What comes of the events of an entity that is not in memory.
enum Brought {
    Outcome(ReplayOutcome),
    /// Its record is damaged. The events are left out, as is noted durably.
    Behind,
    /// Its record has to be read.
    Unread,
}

impl<O: Owner> Replicator<O> {
    /// The beginning of an entry. Notes the place of the chain there, if it is one to be kept. Without syncs none ever is.
    pub(super) fn progress(
        &mut self,
        shard: ShardId,
        (position, stamp): (Position, Stamp),
        chain: Option<u128>,
    ) -> Progress {
        let keeps = self.replication.config.fsync != Fsync::Never && position.index.is_multiple_of(CHAIN_EVERY);
        if let Some(chain) = chain.filter(|_| keeps) {
            let Position { index, term } = position;
            self.chain_places.push(ChainPlace { shard, index, term, chain, at_ms: stamp.true_ms() });
        }
        Progress { changed: self.compares(position.index).then(BTreeSet::new), chain, ..Progress::default() }
    }

    /// Applies a committed entry from where it was left. The completions from the place `first` of those in `completed` wait for
    /// it, if this node proposed it. Their events are not decoded from the entry again.
    pub(super) fn apply(
        &mut self,
        shard: ShardId,
        position: Position,
        turns: &Turns,
        (first, progress): (usize, &mut Progress),
    ) -> Result<Applied, ReplicationError> {
        let mut completed = std::mem::take(&mut self.completed);
        let applied = self.apply_own(shard, position, turns, (&mut completed[first..], progress));
        self.completed = completed;
        applied
    }

    /// The same, with the completions `own` of the entry. The events come from them if they have all turns of the entry, or else from
    /// the entry.
    fn apply_own(
        &mut self,
        shard: ShardId,
        position: Position,
        turns: &Turns,
        (own, progress): (&mut [(O::Completion, u64)], &mut Progress),
    ) -> Result<Applied, ReplicationError> {
        // The events of an entry that had to wait are taken from the entry.
        let is_own = own.iter_mut().flat_map(|(completion, _)| completion.proposed()).count() == turns.len();
        let mut proposed = own.iter_mut().flat_map(|(completion, _)| completion.proposed());
        let state = self.replication.shard(shard);
        let mut replica = state.replica.lock();
        replica.kept.advance(position.index);
        replica.kept.set_distance(state.distance_ms.load(Ordering::Relaxed));
        let mut count = 0;
        for turn in turns.iter().skip(progress.done) {
            let read = || {
                codec::decode(turn).map_err(|why| ReplicationError::Undecodable { shard, index: position.index, why })
            };
            let (entity, mut events, until, reloaded) = match proposed.next().filter(|_| is_own) {
                Some(ProposedTurn { entity, until, events, reloaded }) => {
                    #[cfg(debug_assertions)]
                    assert_eq!(
                        read().map(|(entity, _, events)| (entity, events)).ok(),
                        Some((entity.clone(), events.clone()))
                    );
                    if planted::is("a leader that applies less than it proposed") && events.len() > 1 {
                        events.pop();
                    }
                    (Cow::Borrowed(entity), std::mem::take(events), Some(until), reloaded)
                }
                None => {
                    let (entity, _, mut events) = read()?;
                    let forgets = planted::is("a follower that forgets an event of a turn");
                    if forgets && self.replication.config.node_id == 2 && events.len() > 1 {
                        events.pop();
                    }
                    (Cow::Owned(entity), events, None, None)
                }
            };
            #[cfg(debug_assertions)]
            assert!(
                self.replication.version.get().has(NEXT) || !events.iter().any(EntityEvent::is_rehearsed),
                "{entity} has an event that came before its version"
            );
            if let Some(changed) = &mut progress.changed {
                changed.insert(Entity::clone(&entity));
            }
            // Other nodes have only the log. If the actor decided on anything else, nothing of it may be announced.
            let check = |entity: &Entity, found: u64| match until {
                Some(decided) if decided != found => {
                    let (index, entity) = (position.index, entity.clone());
                    Err(ReplicationError::Diverged { shard, index, entity, found, decided })
                }
                Some(_) | None => Ok(()),
            };
            let is_watched = replica.watched.contains(&entity);
            if !is_watched {
                match replica.kept.apply_in_memory(&entity, events) {
                    Ok(version) => {
                        check(&entity, version)?;
                        (count, progress.done) = (count + 1, progress.done + 1);
                        continue;
                    }
                    Err(back) => events = back,
                }
            }
            let in_memory = replica.kept.contains(&entity);
            if !in_memory {
                let replay = &mut self.replays[usize::from(shard)];
                let brought = if let Some(state) = reloaded {
                    // Only this leader changes the entity, so it is as the decision found it.
                    replica.kept.reload(Entity::clone(&entity), Arc::clone(state));
                    Brought::Outcome(ReplayOutcome::Back)
                } else {
                    match replay.look_up(&self.replication.history, position.index, (&entity, &events)) {
                        ReplayLookup::New => Brought::Outcome(ReplayOutcome::New),
                        ReplayLookup::Already => Brought::Outcome(ReplayOutcome::Already),
                        ReplayLookup::Behind => Brought::Behind,
                        ReplayLookup::Read if planted::is("read under the mutex") => {
                            let history = &self.replication.history;
                            let at = (&*entity, &events[..]);
                            Brought::Outcome(replay.reload(history, &mut replica.kept, position.index, at)?)
                        }
                        ReplayLookup::Read => match progress.found.remove(&*entity) {
                            Some(Found::Record(stored)) => {
                                Brought::Outcome(replay.found(&mut replica.kept, position.index, stored))
                            }
                            Some(Found::Behind) => Brought::Behind,
                            Some(Found::Later) | None => Brought::Unread,
                        },
                    }
                };
                match brought {
                    Brought::Outcome(ReplayOutcome::New) => {}
                    Brought::Outcome(ReplayOutcome::Already) | Brought::Behind => {
                        // The entity is not as it was right after this entry.
                        progress.changed = None;
                        // Its feed may have begun with the older state that was in memory at first.
                        if replica.watched.contains(&entity) {
                            self.changes.push(O::lost(entity.into_owned()));
                        }
                        (count, progress.done) = (count + 1, progress.done + 1);
                        continue;
                    }
                    Brought::Outcome(ReplayOutcome::Back) => {
                        self.replication.metrics.put_back.fetch_add(1, Ordering::Relaxed);
                    }
                    Brought::Unread => {
                        drop(replica);
                        self.count(count);
                        return Ok(Applied::Waits);
                    }
                }
            }
            let before = if is_watched { O::before(&replica.kept, &entity, &events) } else { None };
            check(&entity, replica.kept.apply(&entity, events))?;
            self.changes.extend(before.and_then(|before| O::change(before, &replica.kept, entity.into_owned())));
            (count, progress.done) = (count + 1, progress.done + 1);
        }
        let deadline = replica.kept.next_deadline();
        let changed = progress.changed.take().and_then(|changed| replica.kept.cut_of(&changed));
        drop(replica);
        if let Some(changed) = changed {
            self.compare(shard, &changed, progress.chain)?;
        }
        self.set_due(shard, deadline);
        if shard == DIRECTORY {
            self.owner.on(Event::DirectoryChanged);
        }
        self.replication.shard(shard).applied.store(position.index, Ordering::Relaxed);
        self.replication.metrics.entries.fetch_add(1, Ordering::Relaxed);
        self.count(count);
        Ok(Applied::Whole)
    }

    fn count(&self, turns: u64) {
        self.replication.metrics.turns.fetch_add(turns, Ordering::Relaxed);
    }

    /// The entities of the rest of an entry whose records have to be read.
    ///
    /// # Errors
    /// [`ReplicationError::Undecodable`].
    pub(super) fn unread(
        &mut self,
        shard: ShardId,
        index: u64,
        turns: &Turns,
        progress: &Progress,
    ) -> Result<BTreeSet<Entity>, ReplicationError> {
        let mut unread = BTreeSet::new();
        let mut rest: Vec<(Entity, Vec<EntityEvent>)> = Vec::new();
        for turn in turns.iter().skip(progress.done) {
            let (entity, _, events) =
                codec::decode(turn).map_err(|why| ReplicationError::Undecodable { shard, index, why })?;
            rest.push((entity, events));
        }
        {
            let kept = &self.replication.shard(shard).replica.lock().kept;
            rest.retain(|(entity, _)| !kept.contains(entity) && !progress.found.contains_key(entity));
        }
        let replay = &mut self.replays[usize::from(shard)];
        for (entity, events) in rest {
            let looked = replay.look_up(&self.replication.history, index, (&entity, &events));
            if looked == ReplayLookup::Read {
                unread.insert(entity);
            }
        }
        Ok(unread)
    }
}
