//! What the replication writes into the log: records, their syncs and seals, segments, and what there is room for.

use std::sync::atomic::Ordering;

use boxoffice_core::planted;
use boxoffice_shard::{SnapshotMeta, Write, grows_log};

use super::Driver;
use crate::{
    config::Fsync,
    error::NodeError,
    log::{Kind, LogError, Mark},
    past::Order,
    pieces::pieces,
};

/// When nothing was written for so long, the log is sealed: damage to its last record is then told from an unfinished end.
const REST_MS: u64 = 1_000;
/// With more segments than this, shards that keep the oldest from being released are made to cut a snapshot.
const LOG_SEGMENTS_MAX: usize = 4;
/// The share of a segment that must be left for what is decided already, when the disk has no room for another one.
const HEADROOM_SHARE: u64 = 2;
/// The share of a segment that what others lead must leave when there is no room for another one: for terms and votes.
const OTHERS_SHARE: u64 = 8;
/// With less than this share of a segment left nothing of others is heard any more: even a vote must be written.
const LAST_SHARE: u64 = 64;
/// A piece of what is written in one pass is at most this share of a segment, if it is more than one record.
const PIECE_SHARE: usize = 2;

/// Room in the log for what others lead, where it is scarce.
pub(super) struct Room {
    entries_bytes: u64,
    /// There is none for anything.
    is_last: bool,
}

impl Room {
    /// Whether there is room for what comes of this message; it is taken then.
    pub(super) fn takes(&mut self, message: &[u8]) -> bool {
        if self.is_last || !grows_log(message) {
            return !self.is_last;
        }
        let rest = self.entries_bytes.checked_sub(message.len() as u64);
        self.entries_bytes = rest.unwrap_or(self.entries_bytes);
        rest.is_some()
    }
}

impl Driver {
    /// Gives the last record of a log at rest a witness.
    pub(super) fn seal_at_rest(&mut self, now_ms: u64) -> Result<(), NodeError> {
        if self.unsynced || self.shared.config.fsync == Fsync::Never || now_ms.saturating_sub(self.synced_ms) < REST_MS
        {
            return Ok(());
        }
        match self.log.seal() {
            // The next record is one as well.
            Ok(()) | Err(LogError::Full { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What is left in the log, in bytes, when there is no room for another segment and most of this one is used.
    pub(super) fn low_headroom_bytes(&self) -> Option<u64> {
        let headroom = self.log.headroom();
        let low = headroom.no_space && headroom.bytes < self.shared.config.log_segment_bytes / HEADROOM_SHARE;
        low.then_some(headroom.bytes)
    }

    /// What there is room for of what others lead, `None` if there is enough. Without this limit a member would run out
    /// of its log and end. What leads to no entry is heard: the node votes, follows, and hands its leaderships over.
    pub(super) fn room_for_others(&self) -> Option<Room> {
        let left = self.low_headroom_bytes().filter(|_| !self.shared.is_alone())?;
        let segment_bytes = self.shared.config.log_segment_bytes;
        let entries_bytes = left.saturating_sub(segment_bytes / OTHERS_SHARE);
        Some(Room { entries_bytes, is_last: left < segment_bytes / LAST_SHARE })
    }

    pub(super) fn write(&mut self, write: &Write, now_ms: u64) -> Result<(), NodeError> {
        for received in &write.snapshots {
            self.save(received)?;
        }
        let marks: Vec<Mark> = write.marks.iter().map(|&(shard, last_index)| Mark { shard, last_index }).collect();
        let room = usize::try_from(self.shared.config.log_segment_bytes).unwrap_or(usize::MAX) / PIECE_SHARE;
        for piece in pieces(&write.records, room) {
            match self.log.append(Kind::Ordinary, &[piece], &marks) {
                Ok(_) => {}
                // What is decided already may use the reserve; nothing new is decided from now on.
                Err(LogError::Full { .. }) => {
                    self.set_read_only(true);
                    self.log.append(Kind::Vital, &[piece], &marks)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let metrics = &self.shared.metrics;
        metrics.passes.fetch_add(1, Ordering::Relaxed);
        metrics.log_bytes.fetch_add(write.records.len() as u64, Ordering::Relaxed);
        self.unsynced = true;
        if self.shared.config.fsync == Fsync::Always {
            self.sync(now_ms)?;
        }
        if self.log.wants_checkpoint() {
            self.begin_segment()?;
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, now_ms: u64) -> Result<(), NodeError> {
        let clock = &self.shared.world.clock;
        let began_ns = clock.monotonic_ns();
        if !planted::is("an fsync left out") {
            self.log.sync()?;
        }
        let took_us = (clock.monotonic_ns() - began_ns) / 1_000;
        self.shared.metrics.syncs.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.sync_us.fetch_add(took_us, Ordering::Relaxed);
        self.synced_ms = now_ms;
        self.unsynced = false;
        Ok(())
    }

    /// A new segment of the log begins with everything that is not in entries, so that older ones can go; shards that
    /// still need old entries are told to make a snapshot.
    pub(super) fn begin_segment(&mut self) -> Result<(), NodeError> {
        let mut checkpoint = Vec::new();
        for record in self.engine.checkpoint() {
            record.encode(&mut checkpoint);
        }
        self.log.append(Kind::Checkpoint, &[&checkpoint], &[])?;
        self.log.sync()?;
        self.unsynced = false;
        self.cut_for_release = self.log.segments() > LOG_SEGMENTS_MAX;
        Ok(())
    }

    /// Lets old segments go, and, when there are too many, makes the shards that need them cut snapshots.
    pub(super) fn release_log(&mut self) {
        let (kept, engine) = (&self.snapshots_kept, &self.engine);
        // From the older of the two snapshots on, so that a damaged newest one can be done without. What is of a shard that
        // is elsewhere now nobody needs.
        let first_needed = |shard: u16| match (engine.first_needed(shard), kept.get(usize::from(shard))) {
            (Some(_), Some(_)) if planted::is("a log let go before its snapshots") => u64::MAX,
            (Some(_), Some(kept)) => kept.older + 1,
            (_, None) | (None, _) => u64::MAX,
        };
        match self.shared.config.history_archive_bytes {
            0 => _ = self.log.release(&first_needed),
            _ => {
                self.log.retire(&first_needed).into_iter().for_each(|number| self.keeper.order(Order::Archive(number)))
            }
        }
        if std::mem::take(&mut self.cut_for_release) {
            let metas: Vec<SnapshotMeta> =
                self.shared.cells.iter().filter_map(|cell| self.engine.snapshot_meta(cell.id).cloned()).collect();
            for meta in metas {
                self.cut(meta);
            }
        }
    }
}
