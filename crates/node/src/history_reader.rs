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
use smol_str::SmolStr;

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
    beside(shared, move |shared| {
        let HistoryQuery { entity, seat, limit, before } = &query;
        let limit = usize::try_from(*limit).map_or(HISTORY_MAX, |limit| limit.min(HISTORY_MAX));
        read(shared, &Query { entity, seat: *seat, limit, before: *before })
    })
    .await
}

/// Reads beside the threads that sell, unless too many others do.
///
/// # Errors
/// [`HistoryError`].
pub(crate) async fn beside<T: Send + 'static>(
    shared: &Arc<Shared>,
    read: impl FnOnce(&Shared) -> Result<T, HistoryError> + Send + 'static,
) -> Result<T, HistoryError> {
    if shared.histories.available_permits() == 0 {
        return Err(HistoryError::Busy);
    }
    let (selling, only_tasks) = (shared.tasks.selling.clone(), shared.tasks.only());
    let shared = Arc::clone(shared);
    let reading = move || {
        let _one = shared.histories.try_acquire().map_err(|_| HistoryError::Busy)?;
        read(&shared)
    };
    match only_tasks || planted::is("a history is read by the thread that sells") {
        true => reading(),
        false => selling.spawn_blocking(reading).await.map_err(|_| HistoryError::Down)?,
    }
}

/// A turn of an entity, as a walk meets it.
pub(crate) struct ReadTurn {
    /// The place in the shard's log.
    pub(crate) index: u64,
    pub(crate) stamp: Stamp,
    /// The name of the key or the operator that asked for it.
    pub(crate) by: Option<SmolStr>,
    pub(crate) events: Vec<Event>,
    /// Its bytes in the log.
    pub(crate) bytes: Bytes,
}

/// What is made of an entity's turns, which come newest first.
pub(crate) trait Taker {
    /// Whether the walk goes on when nothing more is taken, to learn where the entries begin.
    const LOOKS_ON: bool;

    /// Takes a turn. `version` is the entity's with all of its events. Returns how many events are taken, from the last one on.
    fn take(&mut self, turn: ReadTurn, version: u64) -> Result<u64, HistoryError>;

    /// Whether it takes no more.
    fn is_done(&self) -> bool;
}

/// The end of a walk.
pub(crate) struct Walked<T> {
    pub(crate) taker: T,
    /// The entity's version when the walk began.
    pub(crate) now: u64,
    /// The version of the newest event that the walk has not met.
    pub(crate) version: u64,
    /// The first entry from which on all are here, if the taker looks on.
    pub(crate) first: u64,
}

/// Walks back from an entity's state of now through the log and the archives.
///
/// # Errors
/// [`HistoryError`].
pub(crate) fn walk_back<T: Taker>(
    shared: &Shared,
    entity: &Entity,
    taker: impl Fn() -> T,
) -> Result<Walked<T>, HistoryError> {
    for _ in 0..ATTEMPTS {
        if let Some(walked) = walk(shared, entity, taker())? {
            return Ok(walked);
        }
    }
    // Segments are archived faster than the disk reads them.
    Err(HistoryError::Busy)
}

fn read(shared: &Shared, query: &Query<'_>) -> Result<HistoryPart, HistoryError> {
    let shard = shared.lead_of(query.entity).id;
    let Walked { taker, now, version, .. } =
        walk_back(shared, query.entity, || Page { query, shard, found: Vec::new() })?;
    Ok(taker.close(now, version))
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

/// The events of a query.
struct Page<'a> {
    query: &'a Query<'a>,
    shard: ShardId,
    /// Newest first.
    found: Vec<HistoryEntry>,
}

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.found.len() == self.query.limit
    }

    fn close(mut self, now: u64, version: u64) -> HistoryPart {
        let is_full = self.is_full();
        self.found.reverse();
        HistoryPart { entries: self.found, version: now, from: version + 1, is_full }
    }
}

impl Taker for Page<'_> {
    const LOOKS_ON: bool = false;

    fn take(&mut self, turn: ReadTurn, version: u64) -> Result<u64, HistoryError> {
        let ReadTurn { index, stamp, by, events, .. } = turn;
        let mut taken = 0;
        for mut event in events.into_iter().rev() {
            if self.is_full() || taken == version {
                break;
            }
            let version = version - taken;
            taken += 1;
            if self.query.has(version, &event) {
                let time = Timestamp(stamp.true_ms());
                event.convert_to_true_time(stamp.distance_ms);
                self.found.push(HistoryEntry { shard: self.shard, index, time, version, event, by: by.clone() });
            }
        }
        Ok(taken)
    }

    fn is_done(&self) -> bool {
        self.is_full()
    }
}

/// Reads from the newest segment on. `None` if a segment went away meanwhile.
fn walk<T: Taker>(shared: &Shared, entity: &Entity, taker: T) -> Result<Option<Walked<T>>, HistoryError> {
    let disk = &*shared.world.disk;
    let mut reader = BackwardReader::begin(shared, entity, taker)?;
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
        if reader.end == 0 || (!T::LOOKS_ON && reader.is_done()) {
            break;
        }
    }
    Ok(Some(reader.close()))
}

/// Turns of the entity in one segment, in order: index, stamp, bytes.
type StoredTurn = (u64, Stamp, Bytes);

/// A backward walk through an entity's events.
struct BackwardReader<'a, T> {
    entity: &'a Entity,
    shard: ShardId,
    taker: T,
    /// The entity's version when the walk began.
    now: u64,
    /// The version of the newest event that the walk has not met yet.
    version: u64,
    /// Entries from here on were replaced, or are newer than the state at the beginning.
    end: u64,
    /// The first entry from which on all are here.
    first: u64,
}

impl<'a, T: Taker> BackwardReader<'a, T> {
    /// Begins at the committed state.
    fn begin(shared: &Shared, entity: &'a Entity, taker: T) -> Result<BackwardReader<'a, T>, HistoryError> {
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
        Ok(BackwardReader { entity, shard: lead.id, taker, now: version, version, end, first: end })
    }

    fn is_done(&self) -> bool {
        self.version == 0 || self.end == 0 || self.taker.is_done()
    }

    fn close(self) -> Walked<T> {
        let BackwardReader { taker, now, version, first, .. } = self;
        Walked { taker, now, version, first }
    }

    /// Reads an archive. `false` if it is gone.
    fn archived(&mut self, archives: &ArchiveFiles, number: u64) -> Result<bool, HistoryError> {
        let Some(table) = archives.table(number)? else { return Ok(false) };
        let first = table.firsts.get(&self.shard).copied();
        // A reset says in its record where the entries after it begin.
        if first == Some(0) || (!self.is_done() && table.may_have(self.entity)) {
            let mut segment = SegmentTurns::new(self.shard, self.entity);
            table.records(|record| segment.take(record))?;
            self.take(segment)?;
        } else if let Some(first) = first {
            self.pass(first, None);
        }
        Ok(true)
    }

    /// Reads a segment of the log. `false` if it is gone.
    fn in_use(&mut self, disk: &dyn Disk, dir: &std::path::Path, number: u64) -> Result<bool, HistoryError> {
        let mut segment = SegmentTurns::new(self.shard, self.entity);
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
        let end = self.end;
        for (index, stamp, bytes) in segment.turns.into_iter().rev().filter(|(index, _, _)| *index < end) {
            if self.is_done() {
                break;
            }
            let (_, by, events) = codec::decode(&bytes).map_err(HistoryError::Undecodable)?;
            let taken = self.taker.take(ReadTurn { index, stamp, by, events, bytes }, self.version)?;
            self.version = self.version.saturating_sub(taken);
        }
        self.pass(segment.first, segment.reset);
        Ok(())
    }

    /// A segment is read whose first entry of the shard this is. A snapshot up to `reset` has replaced everything older.
    fn pass(&mut self, first: u64, reset: Option<u64>) {
        self.end = self.end.min(first);
        self.first = self.first.min(reset.map_or(first, |index| index.saturating_add(1)));
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
    /// The last entry of that snapshot.
    reset: Option<u64>,
    error: Option<String>,
}

impl<'a> SegmentTurns<'a> {
    fn new(shard: ShardId, entity: &'a Entity) -> SegmentTurns<'a> {
        SegmentTurns { shard, entity, turns: Vec::new(), first: u64::MAX, reset: None, error: None }
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
            Record::Reset { index, .. } => {
                self.turns.clear();
                self.first = 0;
                self.reset = Some(index);
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
