//! Writes the log: records, syncs, seals and segments, within the room that is left.

use std::{mem, sync::atomic::Ordering};

use boxoffice_core::planted;
use boxoffice_shard::{ShardId, SnapshotMeta, Write, grows_log};
use boxoffice_storage::{
    fsync::Fsync,
    log::{Kind, LastEntry, LogError},
};

use super::Replicator;
use crate::{error::ReplicationError, history_writer::Order, owner::Owner, pieces::pieces};

/// The log is sealed after this many milliseconds without a write. Damage to its last record is then distinguished from a
/// torn end.
const REST_MS: u64 = 1_000;
/// With more segments than this, the shards cut snapshots, so that the oldest segments can be released.
const LOG_SEGMENTS_MAX: usize = 4;
/// The share of a segment that must be left for decisions already made, when the disk has no room for another one.
const HEADROOM_SHARE: u64 = 2;
/// The share of a segment that entries of other leaders must leave for terms and votes, when there is no room for another one.
const OTHERS_SHARE: u64 = 8;
/// With less than this share of a segment left, all messages of other nodes are dropped, because even a vote must be written.
const LAST_SHARE: u64 = 64;
/// A piece of the records of one pass is at most this share of a segment, if it is more than one record.
const PIECE_SHARE: usize = 2;

/// Room in the log for shards that other nodes lead, when it is scarce.
pub(super) struct Room {
    entries_bytes: u64,
    /// There is no room for anything.
    is_last: bool,
}

impl Room {
    /// Whether there is room for the records of this message. If so, the room is taken.
    pub(super) fn takes(&mut self, message: &[u8]) -> bool {
        if self.is_last || !grows_log(message) {
            return !self.is_last;
        }
        let rest = self.entries_bytes.checked_sub(message.len() as u64);
        self.entries_bytes = rest.unwrap_or(self.entries_bytes);
        rest.is_some()
    }
}

impl<O: Owner> Replicator<O> {
    /// Seals a log that is at rest.
    pub(super) fn seal_at_rest(&mut self, now_ms: u64) -> Result<(), ReplicationError> {
        let last_seq = self.log.last_seq();
        if self.log_rests.0 != last_seq {
            self.log_rests = (last_seq, now_ms);
        }
        if self.replication.config.fsync == Fsync::Never
            || self.log.synced_seq() < last_seq
            || now_ms.saturating_sub(self.log_rests.1) < REST_MS
        {
            return Ok(());
        }
        match self.log.seal() {
            // Without room for a seal, the next record has the same effect.
            Ok(()) | Err(LogError::Full { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes left in the log, if there is no room for another segment and most of this one is used.
    pub(super) fn low_headroom_bytes(&self) -> Option<u64> {
        let headroom = self.log.headroom();
        let low = headroom.no_space && headroom.bytes < self.replication.config.log_segment_bytes / HEADROOM_SHARE;
        low.then_some(headroom.bytes)
    }

    /// The room for entries of other leaders, `None` if there is enough. Without this limit a member would run out of its log and
    /// end. Messages without entries are accepted, so the node votes, follows, and transfers its leaderships.
    pub(super) fn room_for_others(&self) -> Option<Room> {
        let left = self.low_headroom_bytes().filter(|_| !self.replication.config.is_alone)?;
        let segment_bytes = self.replication.config.log_segment_bytes;
        let entries_bytes = left.saturating_sub(segment_bytes / OTHERS_SHARE);
        Some(Room { entries_bytes, is_last: left < segment_bytes / LAST_SHARE })
    }

    /// Writes what a pass must make durable, as one record if it fits, and syncs it if every pass must be.
    pub(super) fn write(&mut self, write: &Write, now_ms: u64) -> Result<(), ReplicationError> {
        if let Some(version) = write.version {
            self.replication.raise(version)?;
        }
        for received in &write.snapshots {
            self.save(received)?;
        }
        let marks: Vec<LastEntry> =
            write.marks.iter().map(|&(shard, last_index)| LastEntry { shard, last_index }).collect();
        self.note_needed(&marks);
        let room = usize::try_from(self.replication.config.log_segment_bytes).unwrap_or(usize::MAX) / PIECE_SHARE;
        for piece in pieces(&write.records, room) {
            match self.log.append(Kind::Ordinary, piece, &marks) {
                Ok(_) => {}
                // Decisions already made may use the reserve. No new ones are made from now on.
                Err(LogError::Full { .. }) => {
                    self.set_read_only(true);
                    self.log.append(Kind::Vital, piece, &marks)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let metrics = &self.replication.metrics;
        metrics.passes.fetch_add(1, Ordering::Relaxed);
        metrics.log_bytes.fetch_add(write.records.len() as u64, Ordering::Relaxed);
        self.unsynced = true;
        if self.replication.config.fsync == Fsync::Always {
            self.sync(now_ms)?;
        }
        if self.log.wants_checkpoint() {
            self.write_checkpoint()?;
        }
        Ok(())
    }

    /// Makes everything that was written durable, by a sync of its own or by that of another replicator.
    pub(super) fn sync(&mut self, now_ms: u64) -> Result<(), ReplicationError> {
        let clock = &self.replication.world.clock;
        let began_ns = clock.monotonic_ns();
        let by_itself = !planted::is("an fsync left out") && self.log.sync()?;
        if by_itself {
            let took_us = (clock.monotonic_ns() - began_ns) / 1_000;
            self.replication.metrics.syncs.fetch_add(1, Ordering::Relaxed);
            self.replication.metrics.sync_us.fetch_add(took_us, Ordering::Relaxed);
            self.sync_began_ns = Some(began_ns);
        }
        self.synced_ms = now_ms;
        self.unsynced = false;
        Ok(())
    }

    /// Begins a new segment of the log with everything that is not in entries, so that older ones can be released. If there are
    /// too many segments, snapshots are cut.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), ReplicationError> {
        let mut checkpoint = Vec::new();
        for record in self.engine.checkpoint() {
            record.encode(&mut checkpoint);
        }
        self.log.append_checkpoint(&checkpoint)?;
        self.log.sync()?;
        self.unsynced = false;
        self.cut_for_release = self.log.segments() > LOG_SEGMENTS_MAX;
        Ok(())
    }

    /// Sets the first entry of each shard that must stay in the log. It follows the older of the shard's two snapshots, in case
    /// the newest one is damaged. A shard without a replica here needs no entries.
    pub(super) fn note_first_needed(&self) {
        for state in self.own_shards() {
            let first_needed = match self.engine.first_needed(state.id) {
                Some(_) if planted::is("a log let go before its snapshots") => u64::MAX,
                Some(_) => self.snapshots_kept[usize::from(state.id)].older + 1,
                None => u64::MAX,
            };
            state.first_needed.store(first_needed, Ordering::Release);
        }
    }

    /// Marks shards as needed before their entries are appended. Otherwise the first replicator could release the segment of a
    /// replica that has just begun, because its shard had none before.
    fn note_needed(&self, marks: &[LastEntry]) {
        for LastEntry { shard, .. } in marks {
            let first_needed = &self.replication.shard(*shard).first_needed;
            if first_needed.load(Ordering::Relaxed) == u64::MAX {
                first_needed.store(0, Ordering::Release);
            }
        }
    }

    /// Releases old segments.
    pub(super) fn release_log(&mut self) {
        let shards = &self.replication.shards;
        let first_needed = |shard: u16| {
            shards.get(usize::from(shard)).map_or(u64::MAX, |state| state.first_needed.load(Ordering::Acquire))
        };
        match self.replication.config.history_archive_bytes {
            0 => _ = self.log.release(&first_needed),
            _ => {
                self.log.retire(&first_needed).into_iter().for_each(|number| self.history.order(Order::Archive(number)))
            }
        }
    }

    /// Cuts a snapshot in place of a damaged one, once the state is as new.
    pub(super) fn cut_for_damaged(&mut self) {
        let own = |shard: ShardId| self.division.of(shard) == self.number;
        let due: Vec<_> = self.replication.damaged_snapshots.lock().extract_if(.., |name| own(name.shard)).collect();
        for name in due {
            let meta = self.engine.snapshot_meta(name.shard).filter(|_| !self.is_waiting(name.shard));
            match meta.filter(|meta| meta.position.index >= name.index).cloned() {
                Some(meta) => self.cut(meta),
                None if self.engine.group(name.shard).is_some() => self.replication.damaged_snapshots.lock().push(name),
                // Its replica is gone.
                None => {}
            }
        }
    }

    /// Cuts snapshots of the shards when there are too many segments.
    pub(super) fn cut_for_release(&mut self) {
        if mem::take(&mut self.cut_for_release) {
            // The engine is ahead of a replica that waits for the store.
            let whole = self.own_shards().filter(|state| !self.is_waiting(state.id));
            let metas: Vec<SnapshotMeta> =
                whole.filter_map(|state| self.engine.snapshot_meta(state.id).cloned()).collect();
            for meta in metas {
                self.cut(meta);
            }
        }
    }
}
