//! The node's write-ahead log. All shards share it, and one sync covers all their entries.
//!
//! Records are appended to preallocated segments, which were filled with zeros and synced ahead of time. A record names
//! the last entry of each of its shards. When snapshots cover all entries of the oldest segments, those are released.
//! Every segment begins with a checkpoint, written by the log's owner when [`Log::wants_checkpoint`], so that nothing
//! else needs an older segment.
//!
//! A record that [`Log::sync`] has covered is never lost silently. [`Log::open`] delivers it, or names the damage. A
//! power cut may take unsynced records from the end. Everything that [`Log::open`] delivers is durable, even if a sync
//! failed in an earlier process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_core::planted;
use boxoffice_env::{Disk, DiskFile, OpenMode, Rng, store::is_no_space};

mod config;
mod error;
mod group_commit;
mod record;
mod recovery;
mod segment;
mod segment_allocator;

pub use config::{LogConfig, Preallocation, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use error::LogError;
pub use group_commit::{GroupCommit, LogWriter};
pub use record::{Kind, LastEntry};
pub use recovery::{Recovery, TornEnd, check_segment, cold_segments, read_segment, segment_numbers, segment_path};

use recovery::ScannedSegment;
use segment::{NewSegment, PAGE, Segment};
use segment_allocator::SegmentAllocator;

/// A write buffer that grew beyond this for a large record is freed.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

/// Whether a log must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The node never opened one. A missing log is created.
    New,
    /// The node has opened one. A missing log is an error.
    Existing,
}

/// A record that is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its sequence number: 1, 2, 3 and so on, across restarts.
    pub seq: u64,
    pub kind: Kind,
    pub payload: &'a [u8],
}

/// How much can be written without new space on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    /// Bytes left in the active and the preallocated segment.
    pub bytes: u64,
    /// The part of these bytes that only vital records may use when there is no space.
    pub reserve_bytes: u64,
    /// The disk has no room for another segment.
    pub no_space: bool,
}

impl Headroom {
    /// Whether a record of `bytes` fits without touching the reserve. Ask before a step that cannot be undone, such as
    /// proposing entries.
    pub fn admits(&self, bytes: u64) -> bool {
        !self.no_space || self.bytes >= bytes.saturating_add(self.reserve_bytes)
    }
}

/// The last entry of each shard in a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LastEntries(BTreeMap<u16, u64>);

impl LastEntries {
    fn raise(&mut self, last_entry: LastEntry) {
        let last = self.0.entry(last_entry.shard).or_default();
        *last = last_entry.last_index.max(*last);
    }

    fn are_below(&self, first_needed: &dyn Fn(u16) -> u64) -> bool {
        self.0.iter().all(|(&shard, &last)| last < first_needed(shard))
    }
}

/// A segment with records.
struct UsedSegment {
    segment: Segment,
    last_entries: LastEntries,
    /// Its newest checkpoint, once each writer has written one.
    checkpoint_seq: Option<u64>,
    /// The writers that have written a checkpoint.
    checkpoints: BTreeSet<usize>,
}

impl UsedSegment {
    fn new(segment: Segment) -> UsedSegment {
        UsedSegment {
            segment,
            last_entries: LastEntries::default(),
            checkpoint_seq: None,
            checkpoints: BTreeSet::new(),
        }
    }
}

impl From<ScannedSegment> for UsedSegment {
    fn from(read: ScannedSegment) -> UsedSegment {
        let checkpoints = BTreeSet::new();
        UsedSegment {
            segment: read.segment,
            last_entries: read.last_entries,
            checkpoint_seq: read.checkpoint_seq,
            checkpoints,
        }
    }
}

/// A due sync.
struct PendingSync {
    /// The last record that it covers.
    seq: u64,
    file: Arc<dyn DiskFile>,
}

/// The log, open for appending. One thread owns it, or several share it by a [`GroupCommit`]. Its calls block.
pub struct Log {
    config: LogConfig,
    dir: PathBuf,
    allocator: SegmentAllocator,
    /// Released segments that are still to be discarded, oldest first.
    retired: VecDeque<Segment>,
    /// Segments before the active one, oldest first.
    older: VecDeque<UsedSegment>,
    active: UsedSegment,
    /// The position of the next record in the active segment.
    at: u64,
    /// Bytes from there on that a failed write on a full disk may have touched.
    partial_write_bytes: u64,
    next_seq: u64,
    synced: u64,
    /// The sequence number of the last seal.
    last_seal: u64,
    buffer: Vec<u8>,
    /// The failure that ended the log.
    unusable: Option<String>,
}

impl Log {
    /// Opens the log in `dir`, hands every record to `replay` in order, cuts off a torn end and makes the rest durable.
    /// After an error the replayed records must not be used.
    ///
    /// # Errors
    /// [`LogError::Damaged`] and the other refusals of a log that is not whole or not this node's;
    /// [`LogError::Io`], [`LogError::Full`] when the first segment cannot be made,
    /// [`LogError::BadConfig`].
    pub fn open(
        disk: Arc<dyn Disk>,
        rng: Arc<dyn Rng>,
        dir: &Path,
        config: LogConfig,
        start: Start,
        replay: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Log, Recovery), LogError> {
        config.check()?;
        match start {
            Start::New => disk.create_dir_all(dir).map_err(LogError::io("create", dir))?,
            Start::Existing => {
                if disk.list(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                    return Err(LogError::Missing { dir: dir.to_owned() });
                }
            }
        }
        let unfinished = dir.join(segment::UNFINISHED);
        segment::remove_if_there(&*disk, &unfinished).map_err(LogError::io("remove", &unfinished))?;
        let owner = Some(config.owner);
        let (mut reads, mut recovery) = recovery::read(&*disk, dir, owner, OpenMode::Write, replay)?;
        if reads.is_empty() && start == Start::Existing {
            return Err(LogError::Missing { dir: dir.to_owned() });
        }
        recovery.created = reads.is_empty();

        if recovery.created {
            reads.push(ScannedSegment::empty(first_segment(&*disk, &*rng, dir, &config)?));
        }
        // Segments behind the last one with records, or with the beginning of one, are preallocated.
        let is_cut = |read: &ScannedSegment| {
            recovery.torn_end.as_ref().is_some_and(|torn_end| torn_end.file == read.segment.path)
        };
        let used = reads.iter().rposition(|read| read.records > 0 || is_cut(read)).unwrap_or(0) + 1;
        let preallocated = reads.split_off(used);
        let preallocated = usable_preallocated(&*disk, dir, preallocated, config.segment_bytes)?;
        let mut active = reads.pop().expect("there is a segment");
        let next_number = active.segment.number + preallocated.len() as u64 + 1;

        // The process before may have ended between a write and its sync, or between the name of a segment and the
        // directory's sync. From now on the records that were read must not be lost. A failed sync has left pages that
        // count as written, so only rewritten ones are synced.
        rewrite_tail(&mut active)?;
        disk.sync_dir(dir).map_err(LogError::io("sync", dir))?;
        if let Some(torn_end) = &recovery.torn_end {
            recovery.last_seq += 1;
            skip_torn_end(&mut active, torn_end, recovery.last_seq)?;
        }

        let allocator = SegmentAllocator::open(disk, rng, dir, config.clone(), preallocated, next_number)
            .map_err(LogError::io("start the thread for", dir))?;
        let log = Log {
            config,
            dir: dir.to_owned(),
            allocator,
            retired: VecDeque::new(),
            older: reads.into_iter().map(UsedSegment::from).collect(),
            at: active.end as u64,
            partial_write_bytes: 0,
            active: UsedSegment::from(active),
            next_seq: recovery.last_seq + 1,
            synced: recovery.last_seq,
            last_seal: if recovery.clean_stop { recovery.last_seq } else { 0 },
            buffer: Vec::new(),
            unusable: None,
        };
        log.allocator.maintain();
        Ok((log, recovery))
    }

    /// Appends one record of all `payload` parts and returns its sequence number. It is durable after the next
    /// [`Log::sync`].
    ///
    /// # Errors
    /// [`LogError::Full`] and [`LogError::TooLarge`], which change nothing. [`LogError::Io`], after which the log is
    /// unusable if a write or sync failed. [`LogError::Unusable`].
    pub fn append(&mut self, kind: Kind, payload: &[&[u8]], last_entries: &[LastEntry]) -> Result<u64, LogError> {
        self.check_usable()?;
        let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
        let needed = record::record_bytes(payload_bytes, last_entries.len()) as u64;
        if needed > self.record_bytes_max() {
            return Err(LogError::TooLarge { bytes: needed, max: self.record_bytes_max() });
        }
        self.skip_partial_write()?;
        if kind == Kind::Ordinary && self.would_use_reserve(needed) {
            return Err(self.full(needed));
        }
        if needed > self.bytes_left() {
            if !self.allocator.wait()? {
                return Err(self.full(needed));
            }
            self.next_segment()?;
        }
        self.write(Some(kind), payload, last_entries)
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// [`LogError::Io`]: records since the last success are in doubt, and the log is unusable. The node must end.
    pub fn sync(&mut self) -> Result<(), LogError> {
        match self.begin_sync()? {
            Some(sync) => self.end_sync(sync.seq, sync.file.sync_data()),
            None => Ok(()),
        }
    }

    /// The due sync, if there are unsynced records. Only one sync may run at a time, because the system reports a
    /// failure to one of two only.
    fn begin_sync(&self) -> Result<Option<PendingSync>, LogError> {
        self.check_usable()?;
        let is_due = self.synced < self.last_seq();
        Ok(is_due.then(|| PendingSync { seq: self.last_seq(), file: Arc::clone(&self.active.segment.file) }))
    }

    fn end_sync(&mut self, seq: u64, synced: std::io::Result<()>) -> Result<(), LogError> {
        synced.map_err(|error| self.fail("sync", error))?;
        self.synced = self.synced.max(seq);
        Ok(())
    }

    /// Syncs, and appends a seal, which says that all records before it are durable. So damage to the last record cannot be taken
    /// for a torn end. Call it at an orderly stop, and after a while without appends. Does nothing if nothing was appended since
    /// the last seal, or if the segment has no room.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::sync`].
    pub fn seal(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.skip_partial_write()?;
        if self.last_seq() > self.last_seal && self.bytes_left() >= record::LINE as u64 {
            self.last_seal = self.write(None, &[], &[])?;
            self.sync()?;
        }
        Ok(())
    }

    /// Appends a durable record for the start of a process. From now on the last sequence number is higher than any
    /// that was durable in an earlier process.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::sync`].
    pub fn note_start(&mut self) -> Result<(), LogError> {
        self.skip_partial_write()?;
        match self.bytes_left() >= record::LINE as u64 {
            true => self.last_seal = self.write(None, &[], &[])?,
            false => _ = self.append(Kind::Vital, &[], &[])?,
        }
        self.sync()
    }

    /// Whether `writer` (counted from 0) must append a checkpoint to the active segment next.
    pub fn wants_checkpoint(&self, writer: usize) -> bool {
        self.active.checkpoint_seq.is_none() && !self.active.checkpoints.contains(&writer)
    }

    /// Appends a checkpoint of one writer's shards, as [`Log::append`] does. The segment has a checkpoint once each
    /// writer has appended one. A process that reads the log back does not count one of several, because it cannot know
    /// the other writers' shards.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_checkpoint(&mut self, writer: usize, payload: &[u8]) -> Result<u64, LogError> {
        if self.config.writers == 1 {
            return self.append(Kind::Checkpoint, &[payload], &[]);
        }
        let seq = self.append(Kind::Vital, &[payload], &[])?;
        self.active.checkpoints.insert(writer);
        if self.active.checkpoints.len() == self.config.writers || planted::is("one checkpoint taken for that of all") {
            self.active.checkpoint_seq = Some(seq);
        }
        Ok(seq)
    }

    /// Releases the oldest segments whose entries all lie below the first index that their shard needs (`u64::MAX` for
    /// a dropped shard), if a newer segment has a durable checkpoint. Returns their number. Call it after snapshots
    /// have become durable.
    pub fn release(&mut self, first_needed: &dyn Fn(u16) -> u64) -> usize {
        let retired = self.retire(first_needed);
        if let Some(&last) = retired.last() {
            self.discard(last);
        }
        self.allocator.maintain();
        retired.len()
    }

    /// As [`Log::release`], but the files stay until [`Log::discard`], so that they can be archived. Returns their
    /// numbers, oldest first. A restart undoes it.
    pub fn retire(&mut self, first_needed: &dyn Fn(u16) -> u64) -> Vec<u64> {
        let synced = self.synced;
        let newest_checkpoint = [&self.active]
            .into_iter()
            .chain(self.older.iter().rev())
            .find(|used| used.checkpoint_seq.is_some_and(|seq| seq <= synced))
            .map_or(0, |used| used.segment.number);
        let mut retired = Vec::new();
        while let Some(oldest) = self.older.front() {
            let number = oldest.segment.number;
            if number >= newest_checkpoint || !oldest.last_entries.are_below(first_needed) {
                break;
            }
            let oldest = self.older.pop_front().expect("it was just looked at");
            self.retired.push_back(oldest.segment);
            retired.push(number);
        }
        retired
    }

    /// Discards the retired segments up to `number`.
    pub fn discard(&mut self, number: u64) {
        while self.retired.front().is_some_and(|oldest| oldest.number <= number) {
            let oldest = self.retired.pop_front().expect("it was just looked at");
            self.allocator.release(oldest);
        }
        self.allocator.maintain();
    }

    /// Preallocates a segment and removes released ones if the log has no thread for that ([`Preallocation::Inline`]).
    /// Call it about once a second.
    pub fn maintain(&mut self) {
        self.allocator.maintain();
    }

    /// How much can be written without new space on the disk. Ask before taking commands.
    pub fn headroom(&self) -> Headroom {
        let preallocated = self.allocator.preallocated();
        Headroom {
            bytes: self.bytes_left() + preallocated.ready_bytes,
            reserve_bytes: self.config.reserve_bytes,
            no_space: preallocated.no_space,
        }
    }

    /// The sequence number of the last record, 0 without one.
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// The sequence number of the last durable record.
    pub fn synced_seq(&self) -> u64 {
        self.synced
    }

    /// The number of segments with needed records, including the active one.
    pub fn segments(&self) -> usize {
        self.older.len() + 1
    }

    /// Released segments whose files are not removed yet.
    pub fn pending_removals(&self) -> usize {
        self.allocator.pending_removals()
    }

    /// The size limit of a record: its payload, 10 bytes a shard, and less than 200 bytes of framing.
    pub fn record_bytes_max(&self) -> u64 {
        self.config.segment_bytes - PAGE as u64
    }

    /// Whether a record goes into the next segment. The active one is synced before.
    fn needs_next_segment(&self, payload_bytes: usize, last_entries: usize) -> bool {
        record::record_bytes(payload_bytes, last_entries) as u64
            > self.bytes_left().saturating_sub(self.partial_write_bytes)
    }

    fn bytes_left(&self) -> u64 {
        self.active.segment.bytes - self.at
    }

    fn would_use_reserve(&self, needed: u64) -> bool {
        let preallocated = self.allocator.preallocated();
        let room = match needed <= self.bytes_left() {
            true => self.bytes_left() + preallocated.ready_bytes,
            // The rest of this segment stays unused.
            false => preallocated.ready_bytes.saturating_sub(PAGE as u64),
        };
        preallocated.no_space && room < needed + self.config.reserve_bytes
    }

    fn full(&self, needed: u64) -> LogError {
        LogError::Full { needed, left: self.headroom().bytes, dir: self.dir.clone() }
    }

    /// Syncs the active segment before the first write to the next one, so that a later segment proves every earlier
    /// one complete.
    fn next_segment(&mut self) -> Result<(), LogError> {
        self.sync()?;
        let next = UsedSegment::new(self.allocator.take());
        assert_eq!(next.segment.number, self.active.segment.number + 1, "segments follow each other");
        self.older.push_back(std::mem::replace(&mut self.active, next));
        self.at = PAGE as u64;
        self.allocator.set_used_bytes(self.at);
        Ok(())
    }

    /// Writes a record, or a seal without a kind, behind the last one. It must fit.
    fn write(&mut self, kind: Option<Kind>, payload: &[&[u8]], last_entries: &[LastEntry]) -> Result<u64, LogError> {
        let seq = self.next_seq;
        let place = (self.active.segment.salt, self.at);
        record::encode(&mut self.buffer, place, (kind, seq, self.synced), payload, last_entries);
        let bytes = self.buffer.len() as u64;
        assert!(bytes <= self.bytes_left(), "record {seq} does not fit where it is written");
        if let Err(error) = self.active.segment.file.write_all_at(&self.buffer, self.at) {
            // Some file systems need new space even here. A part that was written is a torn end, which the next record skips.
            if is_no_space(&error) {
                self.partial_write_bytes = bytes;
                return Err(self.full(bytes));
            }
            return Err(self.fail("write", error));
        }
        self.at += bytes;
        self.allocator.set_used_bytes(self.at);
        self.next_seq += 1;
        last_entries.iter().for_each(|&last_entry| self.active.last_entries.raise(last_entry));
        if kind == Some(Kind::Checkpoint) {
            self.active.checkpoint_seq = Some(seq);
        }
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(seq)
    }

    /// Skips what a failed write on a full disk may have left. A shorter record in its place would leave its end
    /// standing, which looks like damage.
    fn skip_partial_write(&mut self) -> Result<(), LogError> {
        if planted::is("a record over the remains of a longer one") {
            self.partial_write_bytes = 0;
        }
        if self.partial_write_bytes == 0 {
            return Ok(());
        }
        let place = (self.active.segment.salt, self.at);
        record::encode_skip(&mut self.buffer, place, (self.next_seq, self.synced), self.partial_write_bytes);
        if let Err(error) = self.active.segment.file.write_all_at(&self.buffer, self.at) {
            if is_no_space(&error) {
                return Err(self.full(self.partial_write_bytes));
            }
            return Err(self.fail("write", error));
        }
        self.at += std::mem::take(&mut self.partial_write_bytes);
        self.allocator.set_used_bytes(self.at);
        self.next_seq += 1;
        Ok(())
    }

    fn check_usable(&self) -> Result<(), LogError> {
        match &self.unusable {
            Some(reason) => Err(LogError::Unusable { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn fail(&mut self, doing: &'static str, source: std::io::Error) -> LogError {
        let error = LogError::io(doing, &self.active.segment.path)(source);
        self.unusable = Some(error.to_string());
        error
    }
}

/// Reads the log in `dir` of any owner without changing it, for a look into a data directory that no node uses. A torn
/// end is reported and stays.
///
/// # Errors
/// As [`Log::open`].
pub fn inspect(disk: &dyn Disk, dir: &Path, replay: &mut dyn FnMut(Record<'_>)) -> Result<Recovery, LogError> {
    let (reads, recovery) = recovery::read(disk, dir, None, OpenMode::Read, replay)?;
    match reads.is_empty() {
        true => Err(LogError::Missing { dir: dir.to_owned() }),
        false => Ok(recovery),
    }
}

fn first_segment(disk: &dyn Disk, rng: &dyn Rng, dir: &Path, config: &LogConfig) -> Result<Segment, LogError> {
    let new = NewSegment { number: 1, is_recycled: false, pace: &|_| Ok(segment::LARGE_PIECE) };
    segment::make(disk, rng, dir, config, &new).map_err(|source| match is_no_space(&source) {
        true => LogError::Full {
            needed: config.segment_bytes.saturating_add(config.keep_free_bytes),
            left: disk.free_bytes(dir).unwrap_or(0),
            dir: dir.to_owned(),
        },
        false => LogError::io("make a segment in", dir)(source),
    })
}

/// Makes the records of a segment durable. The tail, which no later header proves durable, is rewritten before the
/// sync.
fn rewrite_tail(read: &mut ScannedSegment) -> Result<(), LogError> {
    let Segment { file, path, .. } = &read.segment;
    let tail = std::mem::take(&mut read.tail);
    if !planted::is("a log believed as it is read") {
        let at = (read.end - tail.len()) as u64;
        file.write_all_at(&tail, at).map_err(LogError::io("write", path))?;
    }
    file.sync_data().map_err(LogError::io("sync", path))
}

/// Durably skips a torn end before anything is written behind it. Zeros in its place would not do. If their sync
/// failed, the next start would read zeros, and a power cut would bring the torn end back.
fn skip_torn_end(read: &mut ScannedSegment, torn_end: &TornEnd, seq: u64) -> Result<(), LogError> {
    let Segment { file, path, salt, .. } = &read.segment;
    let passed = torn_end.bytes.next_multiple_of(record::LINE as u64);
    let mut header = Vec::new();
    record::encode_skip(&mut header, (*salt, torn_end.offset), (seq, seq - 1), passed);
    file.write_all_at(&header, torn_end.offset).map_err(LogError::io("write", path))?;
    file.sync_data().map_err(LogError::io("sync", path))?;
    read.end += passed as usize;
    Ok(())
}

/// Removes preallocated segments from the first one of another size on. The last one goes first, so that there is never
/// a gap.
fn usable_preallocated(
    disk: &dyn Disk,
    dir: &Path,
    preallocated: Vec<ScannedSegment>,
    segment_bytes: u64,
) -> Result<VecDeque<Segment>, LogError> {
    let mut usable: VecDeque<Segment> = preallocated.into_iter().map(|read| read.segment).collect();
    while usable.iter().any(|segment| segment.bytes != segment_bytes) {
        let last = usable.pop_back().expect("one of them has another size");
        disk.remove(&last.path).map_err(LogError::io("remove", &last.path))?;
        disk.sync_dir(dir).map_err(LogError::io("sync", dir))?;
    }
    Ok(usable)
}

#[cfg(test)]
mod tests;
