//! What happened to one entity: its events, from the log and from the archives of its old segments, while the node runs.
//!
//! They are read backwards, a segment at a time, and numbered down from the entity's version now. So the numbers are right
//! however much of the beginning is gone; what is found begins with version 1 only if nothing of it is.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use boxoffice_core::{event::Event, id::Entity, seat::Seat, time::Timestamp};
use boxoffice_env::Disk;
use boxoffice_shard::{EntryKind, Record, ShardId, Stamp, Turns};
use boxoffice_storage::{
    archive_files::{ArchiveError, ArchiveFiles},
    codec,
    history::HistoryStoreError,
    log::{self, LogError},
};
use boxoffice_wire::happening::is_about;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    node::NodeHandle,
    routing::{NoHistory, WantedHistory},
    shared::Shared,
};

/// The most events of one answer.
pub const HISTORY_MAX: usize = 1_000;
/// Histories read at a time: each has up to two segments of the log in memory.
pub(crate) const HISTORIES_MAX: usize = 2;
/// How often reading begins anew because a segment went into the archive meanwhile.
const ATTEMPTS: usize = 8;

/// One event of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The entity's shard.
    pub shard: ShardId,
    /// The place in the shard's log; events of one turn have the same.
    pub index: u64,
    /// The shard's time when it was decided.
    pub time: Timestamp,
    /// The entity's version with this event: its first has 1.
    pub version: u64,
    /// What happened.
    pub event: Event,
    /// The name of the key or the operator that asked for it.
    pub by: Option<SmolStr>,
}

/// A part of what happened to an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFound {
    /// The events, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// The entity's version now; 0 if there is no such entity.
    pub version: u64,
    /// Everything that is older than this version was not looked at: 1 if it was looked at from the beginning on.
    pub from: u64,
    /// Whether looking ended because as many were found as were asked for.
    pub is_full: bool,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Others are being read.
    #[error("histories of other entities are being read; try again in a moment")]
    Busy,
    /// A segment of the log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] HistoryStoreError),
    /// Something in the log cannot be understood.
    #[error("the log cannot be understood: {0}; was it written by a newer version?")]
    Undecodable(String),
    /// The node goes down.
    #[error("the node is going down")]
    Down,
    /// The shard has no replica here, and no node that has one answers.
    #[error("no node that has a copy of it answers; try again in a moment")]
    Elsewhere,
    /// Another node cannot read it.
    #[error("node {node}: {why}")]
    Other {
        /// Which.
        node: u64,
        /// Its words.
        why: String,
    },
}

impl HistoryFound {
    /// Whether nothing more need be looked for.
    fn is_whole(&self) -> bool {
        self.version > 0 && (self.from == 1 || self.is_full)
    }

    /// With what another node found that is older than this. One that lacks what is in between adds nothing.
    fn on(mut self, older: HistoryFound) -> HistoryFound {
        if self.version == 0 {
            return older;
        }
        if older.version.saturating_add(1) < self.from || older.from >= self.from {
            return self;
        }
        self.from = older.from;
        self.is_full = older.is_full;
        self.entries.splice(0..0, older.entries);
        self
    }
}

impl NodeHandle {
    /// The last events of an entity with versions before `before` (`None`: up to now), oldest first, at most `limit` and at
    /// most [`HISTORY_MAX`]. Empty if there is no such entity, or if everything before is gone from the archives.
    ///
    /// It reads backwards from now, so the further back, the longer it takes: a tenth of a second for each segment of the
    /// log that has something of the entity, far less for others.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub async fn history(
        &self,
        entity: &Entity,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>, HistoryError> {
        self.history_of(entity, None, limit, before).await.map(|found| found.entries)
    }

    /// The same, only what changed one seat if one is named, and how far was looked. What this node does not have, because
    /// the shard has no replica here or a young one, other nodes are asked for.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub async fn history_of(
        &self,
        entity: &Entity,
        seat: Option<Seat>,
        limit: usize,
        before: Option<u64>,
    ) -> Result<HistoryFound, HistoryError> {
        let shared = &self.shared;
        let (limit, before) = (limit.min(HISTORY_MAX), before.unwrap_or(u64::MAX));
        let wanted = |limit: usize, before| WantedHistory {
            entity: Cow::Owned(entity.clone()),
            seat,
            limit: u32::try_from(limit).expect("at most a thousand"),
            before,
        };
        let mut found = match shared.is_elsewhere(entity) {
            true => Err(HistoryError::Elsewhere),
            false => Ok(read_here(shared, wanted(limit, before)).await?),
        };
        if shared.is_alone() {
            return found;
        }
        let homes = shared.cell_of(entity).belief.lock().homes.clone();
        for node in homes {
            if found.as_ref().is_ok_and(HistoryFound::is_whole) {
                break;
            }
            let (had, upto) = found.as_ref().map_or((0, before), |found| match found.version {
                0 => (0, before),
                _ => (found.entries.len(), before.min(found.from)),
            });
            let older = shared.far_histories.ask(shared, node, wanted(limit - had, upto)).await;
            found = match (found, older) {
                (Ok(found), Ok(older)) => Ok(found.on(older)),
                (Err(_), Ok(older)) => Ok(older),
                (found @ (Ok(_) | Err(HistoryError::Other { .. })), Err(_)) => found,
                (Err(_), Err(NoHistory::Broken(why))) => Err(HistoryError::Other { node, why }),
                (Err(_), Err(NoHistory::Busy)) => Err(HistoryError::Busy),
                (Err(error), Err(NoHistory::Elsewhere)) => Err(error),
            };
        }
        found
    }
}

/// What this node's log and archives tell.
///
/// # Errors
/// [`HistoryError`].
pub(crate) async fn read_here(
    shared: &Arc<Shared>,
    wanted: WantedHistory<'static>,
) -> Result<HistoryFound, HistoryError> {
    if shared.histories.available_permits() == 0 {
        return Err(HistoryError::Busy);
    }
    let (selling, only_tasks) = (shared.tasks.selling.clone(), shared.tasks.only());
    let shared = Arc::clone(shared);
    let reading = move || {
        let _one = shared.histories.try_acquire().map_err(|_| HistoryError::Busy)?;
        let WantedHistory { entity, seat, limit, before } = &wanted;
        let limit = usize::try_from(*limit).map_or(HISTORY_MAX, |limit| limit.min(HISTORY_MAX));
        read(&shared, &Wanted { entity, seat: *seat, limit, before: *before })
    };
    match only_tasks {
        true => reading(),
        false => selling.spawn_blocking(reading).await.map_err(|_| HistoryError::Down)?,
    }
}

/// What is asked for.
struct Wanted<'a> {
    entity: &'a Entity,
    /// Only what changed this seat.
    seat: Option<Seat>,
    limit: usize,
    before: u64,
}

impl Wanted<'_> {
    fn has(&self, version: u64, event: &Event) -> bool {
        version < self.before && self.seat.is_none_or(|seat| is_about(event, seat))
    }
}

fn read(shared: &Shared, wanted: &Wanted<'_>) -> Result<HistoryFound, HistoryError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match walk(shared, wanted) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if attempt < ATTEMPTS => {}
            // The disk is slower than the log: what is left of it is told by the error of the last attempt.
            Ok(None) => return Err(HistoryError::Busy),
            Err(error) => return Err(error),
        }
    }
}

/// Reads from the newest segment on; `None` if a segment went away meanwhile.
fn walk(shared: &Shared, wanted: &Wanted<'_>) -> Result<Option<HistoryFound>, HistoryError> {
    let disk = &*shared.world.disk;
    let mut back = Back::begin(shared, wanted)?;
    if back.version == 0 {
        return Ok(Some(back.close()));
    }
    // The archives first: a segment that goes there between the two looks is then in neither, and the gap is noticed below.
    let archived: BTreeSet<u64> = shared.archives.list()?.into_iter().collect();
    let in_use: BTreeSet<u64> = log::segment_numbers(disk, &shared.log_dir)?.into_iter().collect();
    let Some(&newest) = in_use.last() else { return Ok(None) };
    for number in (1..=newest).rev() {
        let read = match (archived.contains(&number), in_use.contains(&number)) {
            (true, _) => back.archived(&shared.archives, number)?,
            (false, true) => back.in_use(disk, &shared.log_dir, number)?,
            // It may have gone into the archive between the two looks; else what is older is gone.
            (false, false) => match shared.archives.table(number)? {
                Some(_) => false,
                None => break,
            },
        };
        if !read {
            // The oldest archive goes when there are too many of them; nothing older is left then.
            let oldest_is_gone = archived.first() == Some(&number);
            return Ok(oldest_is_gone.then(|| back.close()));
        }
        if back.is_done() {
            break;
        }
    }
    Ok(Some(back.close()))
}

/// Turns of the entity in one segment, in order: index, stamp, bytes.
type Turn = (u64, Stamp, Bytes);

/// The way back through an entity's events.
struct Back<'a> {
    wanted: &'a Wanted<'a>,
    shard: ShardId,
    /// The entity's version when the way began.
    now: u64,
    /// The version of the newest event that was not met yet.
    version: u64,
    /// Entries from here on were replaced, or are newer than what is read.
    end: u64,
    /// Newest first.
    found: Vec<HistoryEntry>,
}

impl<'a> Back<'a> {
    /// From what is committed now.
    fn begin(shared: &Shared, wanted: &'a Wanted<'a>) -> Result<Back<'a>, HistoryError> {
        let entity = wanted.entity;
        let cell = shared.cell_of(entity);
        let (index, state) = {
            let replica = cell.replica.lock();
            (replica.kept.index(), replica.kept.get(entity))
        };
        let (index, state) = match state {
            Some(state) => (index, Some(state)),
            None => match shared.history.get(cell.id, entity)? {
                Some(stored) => (index.max(stored.index), Some(stored.state)),
                None => (index, None),
            },
        };
        let version = state.map_or(0, |state| state.version());
        let end = index.saturating_add(1);
        Ok(Back { wanted, shard: cell.id, now: version, version, end, found: Vec::new() })
    }

    fn is_done(&self) -> bool {
        self.version == 0 || self.is_full() || self.end == 0
    }

    fn is_full(&self) -> bool {
        self.found.len() == self.wanted.limit
    }

    fn close(mut self) -> HistoryFound {
        let is_full = self.is_full();
        self.found.reverse();
        HistoryFound { entries: self.found, version: self.now, from: self.version + 1, is_full }
    }

    /// Reads an archive; `false` if it is gone.
    fn archived(&mut self, archives: &ArchiveFiles, number: u64) -> Result<bool, HistoryError> {
        let Some(table) = archives.table(number)? else { return Ok(false) };
        if table.may_have(self.wanted.entity) {
            let mut segment = Found::new(self.shard, self.wanted.entity);
            table.records(|record| segment.take(record))?;
            self.take(segment)?;
        } else if let Some(&first) = table.firsts.get(&self.shard) {
            self.end = self.end.min(first);
        }
        Ok(true)
    }

    /// Reads a segment of the log; `false` if it is there no more.
    fn in_use(&mut self, disk: &dyn Disk, dir: &std::path::Path, number: u64) -> Result<bool, HistoryError> {
        let mut segment = Found::new(self.shard, self.wanted.entity);
        let read = log::read_segment(disk, dir, number, &mut |record| match Record::decode_all(Bytes::copy_from_slice(
            record.payload,
        )) {
            Ok(records) => records.into_iter().for_each(|record| segment.take(record)),
            Err(error) => segment.fail(error.to_string()),
        });
        // Only as long as it has its name it is not written anew.
        if !log::segment_numbers(disk, dir)?.contains(&number) {
            return Ok(false);
        }
        read?;
        self.take(segment)?;
        Ok(true)
    }

    fn take(&mut self, segment: Found<'_>) -> Result<(), HistoryError> {
        if let Some(why) = segment.wrong {
            return Err(HistoryError::Undecodable(why));
        }
        for (index, stamp, turn) in segment.turns.into_iter().rev().filter(|(index, _, _)| *index < self.end) {
            let (_, by, events) = codec::decode(&turn).map_err(HistoryError::Undecodable)?;
            for mut event in events.into_iter().rev() {
                if self.is_done() {
                    return Ok(());
                }
                let version = self.version;
                self.version -= 1;
                if self.wanted.has(version, &event) {
                    let time = Timestamp(stamp.true_ms());
                    event.told(stamp.distance_ms);
                    self.found.push(HistoryEntry { shard: self.shard, index, time, version, event, by: by.clone() });
                }
            }
        }
        self.end = self.end.min(segment.first);
        Ok(())
    }
}

/// What one segment has of an entity.
struct Found<'a> {
    shard: ShardId,
    entity: &'a Entity,
    turns: Vec<Turn>,
    /// The first index of the shard in it: entries from there on in older segments were replaced by these. 0 where a
    /// snapshot of another node replaced everything older.
    first: u64,
    wrong: Option<String>,
}

impl<'a> Found<'a> {
    fn new(shard: ShardId, entity: &'a Entity) -> Found<'a> {
        Found { shard, entity, turns: Vec::new(), first: u64::MAX, wrong: None }
    }

    fn fail(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    fn take(&mut self, record: Record) {
        if record.shard() != self.shard {
            return;
        }
        match record {
            Record::Entry { position, kind, payload, .. } => {
                // An entry replaces what was written at its place and after it before.
                while self.turns.last().is_some_and(|(index, _, _)| *index >= position.index) {
                    self.turns.pop();
                }
                self.first = self.first.min(position.index);
                if kind == EntryKind::Turns
                    && !payload.is_empty()
                    && let Err(why) = self.look(position.index, payload)
                {
                    self.fail(why);
                }
            }
            Record::Reset { .. } => {
                self.turns.clear();
                self.first = 0;
            }
            Record::State { .. } | Record::Snapshot { .. } | Record::Replica { .. } | Record::Gone { .. } => {}
        }
    }

    fn look(&mut self, index: u64, payload: Bytes) -> Result<(), String> {
        let (stamp, turns) = Turns::read(payload).map_err(|error| error.to_string())?;
        for turn in turns.iter() {
            if codec::entity(turn)? == *self.entity {
                // A copy: a slice would keep everything beside it in memory.
                self.turns.push((index, stamp, Bytes::copy_from_slice(turn)));
            }
        }
        Ok(())
    }
}
