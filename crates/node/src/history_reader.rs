//! Reads the events of one entity, from the log and from the archives of its old segments, while the node runs.
//!
//! They are read backwards, a segment at a time, and numbered down from the entity's version now. So the numbers are right even
//! if the beginning is gone. The events found begin with version 1 only if nothing is gone.

use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{event::Event, id::Entity, planted, seat::Seat, time::Timestamp};
use boxoffice_env::Disk;
use boxoffice_shard::{EntryKind, Record, ShardId, Stamp, Turns};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    codec,
    log::{self},
};
use boxoffice_wire::event_text::is_about;
use bytes::Bytes;

use crate::{
    history_query::{HISTORY_MAX, HistoryEntry, HistoryError, HistoryPart, HistoryQuery},
    shared::Shared,
};

/// How often reading starts over because a segment went into the archive meanwhile.
const ATTEMPTS: usize = 8;

/// Reads this node's log and archives.
///
/// # Errors
/// [`HistoryError`].
pub(crate) async fn read_here(shared: &Arc<Shared>, query: HistoryQuery<'static>) -> Result<HistoryPart, HistoryError> {
    if shared.histories.available_permits() == 0 {
        return Err(HistoryError::Busy);
    }
    let (selling, only_tasks) = (shared.tasks.selling.clone(), shared.tasks.only());
    let shared = Arc::clone(shared);
    let reading = move || {
        let _one = shared.histories.try_acquire().map_err(|_| HistoryError::Busy)?;
        let HistoryQuery { entity, seat, limit, before } = &query;
        let limit = usize::try_from(*limit).map_or(HISTORY_MAX, |limit| limit.min(HISTORY_MAX));
        read(&shared, &Query { entity, seat: *seat, limit, before: *before })
    };
    match only_tasks || planted::is("a history is read by the thread that sells") {
        true => reading(),
        false => selling.spawn_blocking(reading).await.map_err(|_| HistoryError::Down)?,
    }
}

/// A query for a history.
struct Query<'a> {
    entity: &'a Entity,
    /// Only events that changed this seat.
    seat: Option<Seat>,
    limit: usize,
    before: u64,
}

impl Query<'_> {
    fn has(&self, version: u64, event: &Event) -> bool {
        version < self.before && self.seat.is_none_or(|seat| is_about(event, seat))
    }
}

fn read(shared: &Shared, query: &Query<'_>) -> Result<HistoryPart, HistoryError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match walk(shared, query) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if attempt < ATTEMPTS => {}
            // Segments are archived faster than the disk reads them.
            Ok(None) => return Err(HistoryError::Busy),
            Err(error) => return Err(error),
        }
    }
}

/// Reads from the newest segment on. `None` if a segment went away meanwhile.
fn walk(shared: &Shared, query: &Query<'_>) -> Result<Option<HistoryPart>, HistoryError> {
    let disk = &*shared.world.disk;
    let mut reader = BackwardReader::begin(shared, query)?;
    if reader.version == 0 {
        return Ok(Some(reader.close()));
    }
    // The archives come first. A segment that is archived between the two listings is then in neither, and the gap is
    // noticed below.
    let archived: BTreeSet<u64> = shared.replication.archives.list()?.into_iter().collect();
    let in_use: BTreeSet<u64> = log::segment_numbers(disk, &shared.replication.log_dir)?.into_iter().collect();
    let Some(&newest) = in_use.last() else { return Ok(None) };
    for number in (1..=newest).rev() {
        let read = match (archived.contains(&number), in_use.contains(&number)) {
            (true, _) => reader.archived(&shared.replication.archives, number)?,
            (false, true) => reader.in_use(disk, &shared.replication.log_dir, number)?,
            // It may have been archived between the two listings. If not, the older segments are gone.
            (false, false) => match shared.replication.archives.table(number)? {
                Some(_) => false,
                None => break,
            },
        };
        if !read {
            // The oldest archive is removed when there are too many. Nothing older is left then.
            let oldest_is_gone = archived.first() == Some(&number);
            return Ok(oldest_is_gone.then(|| reader.close()));
        }
        if reader.is_done() {
            break;
        }
    }
    Ok(Some(reader.close()))
}

/// Turns of the entity in one segment, in order: index, stamp, bytes.
type StoredTurn = (u64, Stamp, Bytes);

/// A backward walk through an entity's events.
struct BackwardReader<'a> {
    query: &'a Query<'a>,
    shard: ShardId,
    /// The entity's version when the walk began.
    now: u64,
    /// The version of the newest event that the walk has not met yet.
    version: u64,
    /// Entries from here on were replaced, or are newer than the state at the beginning.
    end: u64,
    /// Newest first.
    found: Vec<HistoryEntry>,
}

impl<'a> BackwardReader<'a> {
    /// Begins at the committed state.
    fn begin(shared: &Shared, query: &'a Query<'a>) -> Result<BackwardReader<'a>, HistoryError> {
        let entity = query.entity;
        let lead = shared.lead_of(entity);
        let (index, state) = {
            let replica = lead.state.replica.lock();
            (replica.kept.index(), replica.kept.get(entity))
        };
        let (index, state) = match state {
            Some(state) => (index, Some(state)),
            None => match shared.replication.history.get(lead.id, entity)? {
                Some(stored) => (index.max(stored.index), Some(stored.state)),
                None => (index, None),
            },
        };
        let version = state.map_or(0, |state| state.version());
        let end = index.saturating_add(1);
        Ok(BackwardReader { query, shard: lead.id, now: version, version, end, found: Vec::new() })
    }

    fn is_done(&self) -> bool {
        self.version == 0 || self.is_full() || self.end == 0
    }

    fn is_full(&self) -> bool {
        self.found.len() == self.query.limit
    }

    fn close(mut self) -> HistoryPart {
        let is_full = self.is_full();
        self.found.reverse();
        HistoryPart { entries: self.found, version: self.now, from: self.version + 1, is_full }
    }

    /// Reads an archive. `false` if it is gone.
    fn archived(&mut self, archives: &ArchiveFiles, number: u64) -> Result<bool, HistoryError> {
        let Some(table) = archives.table(number)? else { return Ok(false) };
        if table.may_have(self.query.entity) {
            let mut segment = SegmentTurns::new(self.shard, self.query.entity);
            table.records(|record| segment.take(record))?;
            self.take(segment)?;
        } else if let Some(&first) = table.firsts.get(&self.shard) {
            self.end = self.end.min(first);
        }
        Ok(true)
    }

    /// Reads a segment of the log. `false` if it is gone.
    fn in_use(&mut self, disk: &dyn Disk, dir: &std::path::Path, number: u64) -> Result<bool, HistoryError> {
        let mut segment = SegmentTurns::new(self.shard, self.query.entity);
        let read = log::read_segment(disk, dir, number, &mut |record| match Record::decode_all(Bytes::copy_from_slice(
            record.payload,
        )) {
            Ok(records) => records.into_iter().for_each(|record| segment.take(record)),
            Err(error) => segment.fail(error.to_string()),
        });
        // The segment is not reused as long as it has its name.
        if !log::segment_numbers(disk, dir)?.contains(&number) {
            return Ok(false);
        }
        read?;
        self.take(segment)?;
        Ok(true)
    }

    fn take(&mut self, segment: SegmentTurns<'_>) -> Result<(), HistoryError> {
        if let Some(why) = segment.error {
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
                if self.query.has(version, &event) {
                    let time = Timestamp(stamp.true_ms());
                    event.convert_to_true_time(stamp.distance_ms);
                    self.found.push(HistoryEntry { shard: self.shard, index, time, version, event, by: by.clone() });
                }
            }
        }
        self.end = self.end.min(segment.first);
        Ok(())
    }
}

/// The turns of an entity in one segment.
struct SegmentTurns<'a> {
    shard: ShardId,
    entity: &'a Entity,
    turns: Vec<StoredTurn>,
    /// The first index of the shard in it. Entries from there on in older segments were replaced by these. 0 where a snapshot of
    /// another node replaced everything older.
    first: u64,
    error: Option<String>,
}

impl<'a> SegmentTurns<'a> {
    fn new(shard: ShardId, entity: &'a Entity) -> SegmentTurns<'a> {
        SegmentTurns { shard, entity, turns: Vec::new(), first: u64::MAX, error: None }
    }

    fn fail(&mut self, why: String) {
        self.error.get_or_insert(why);
    }

    fn take(&mut self, record: Record) {
        if record.shard() != self.shard {
            return;
        }
        match record {
            Record::Entry { position, kind, payload, .. } => {
                // An entry replaces everything that was written before at its place and after it.
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
                // A copy, because a slice would keep everything beside it in memory.
                self.turns.push((index, stamp, Bytes::copy_from_slice(turn)));
            }
        }
        Ok(())
    }
}
