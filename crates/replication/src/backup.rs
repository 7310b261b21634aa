//! What a running node gives away for a backup: the newest snapshot of each shard and the records of its history, as a restart would
//! read them, and the entries of the log after the snapshots.
//!
//! First come snapshots and records, and the mark of the backup is raised after them. So a record may be newer than its snapshot, as at a
//! restart, but never newer than the mark. No replica stops for it, and no state is copied for it in memory.

mod collected;

use boxoffice_shard::{Record, ShardId};
use boxoffice_storage::{archive_files::ArchiveError, history::HistoryStoreError, log, snapshot_files::SnapshotError};
use bytes::Bytes;

pub use collected::{Collected, Gap};

use crate::{error::ReplicationError, replication::Replication};

/// One shard of a node, as a backup may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    pub shard: ShardId,
    /// The last entry in its newest snapshot. 0 without one.
    pub snapshot: u64,
    /// The last entry that was known to be committed a moment ago.
    pub committed: u64,
    /// The newest mark up to that entry. 0 before the first.
    pub mark: u64,
}

/// The shards of a node and the segments of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub shards: Vec<ShardPlace>,
    /// The segment with the first entry after all places that were asked about, or the oldest one that is kept.
    pub first_segment: u64,
    /// The segment that is being written.
    pub last_segment: u64,
    /// The highest mark that the node knows. What it has given away before is in the cut at every higher one.
    pub mark: u64,
}

/// What of a node is read for a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The newest snapshot of a shard, as it is on disk.
    Snapshot(ShardId),
    /// A segment of the log with the entries of all shards, as records that follow one another.
    Segment(u64),
}

impl<T> Replication<T> {
    /// The shards that have a replica here, and the segments with entries after `after`, which has the last entry by shard.
    ///
    /// # Errors
    /// As the disk says.
    pub fn backup_places(&self, after: impl Fn(ShardId) -> u64) -> Result<Places, ReplicationError> {
        let mark = self.mark.get();
        let snapshots = self.snapshot_files.list()?;
        let newest = |shard: ShardId| snapshots.iter().filter(|name| name.shard == shard).map(|name| name.index).max();
        let here = self.shards.iter().filter(|state| state.replica_here().is_some());
        let places = here.map(|state| {
            let (committed, mark) = *state.marked.lock();
            ShardPlace { shard: state.id, snapshot: newest(state.id).unwrap_or(0), committed, mark }
        });
        let shards: Vec<ShardPlace> = places.collect();
        // The archives come first: a segment that is archived between the listings is then in the second one.
        let archived = self.archives.list()?;
        let in_use = log::segment_numbers(&*self.world.disk, &self.log_dir)?;
        let mut first_segment = in_use.first().copied().unwrap_or(1);
        // The entries after a shard's newest snapshot are in segments in use, since a restart needs them.
        let is_older = |place: &&ShardPlace| after(place.shard) < place.snapshot;
        let mut missing: Vec<ShardId> = shards.iter().filter(is_older).map(|place| place.shard).collect();
        for number in archived.into_iter().rev() {
            if missing.is_empty() || number + 1 < first_segment {
                break;
            }
            let Some(table) = self.archives.table(number)? else { break };
            // Before the first entry of a segment, the entries of its shard are in older ones.
            missing
                .retain(|shard| table.firsts.get(shard).is_none_or(|first| *first == 0 || *first > after(*shard) + 1));
            first_segment = first_segment.min(number);
        }
        Ok(Places { shards, first_segment, last_segment: in_use.last().copied().unwrap_or(0), mark })
    }

    /// The bytes of a part and a number that tells them from others under the same name: the last entry of a snapshot, and 0 for a
    /// segment. `None` if it is not here any more. May wait for the disk.
    ///
    /// # Errors
    /// As the disk says, or that the part is damaged.
    pub fn backup_part(&self, part: Part) -> Result<Option<(u64, Bytes)>, ReplicationError> {
        match part {
            Part::Snapshot(shard) => {
                let newest = self.snapshot_files.load_newest(shard);
                match newest {
                    Ok(newest) => Ok(newest.map(|newest| (newest.index, newest.payload.into()))),
                    // It was replaced by a newer one while it was opened.
                    Err(SnapshotError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
            Part::Segment(number) => Ok(self.segment(number)?.map(|records| (0, records))),
        }
    }

    fn segment(&self, number: u64) -> Result<Option<Bytes>, ReplicationError> {
        let mut records = Vec::new();
        if let Some(table) = self.archives.table(number)? {
            let read = table.records(|record: Record| record.encode(&mut records));
            return match read {
                Ok(()) => Ok(Some(records.into())),
                Err(ArchiveError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        let (disk, dir) = (&*self.world.disk, &self.log_dir);
        let read = log::read_segment(disk, dir, number, &mut |record| records.extend_from_slice(record.payload));
        // The segment is not reused as long as it has its name.
        if !log::segment_numbers(disk, dir)?.contains(&number) {
            // It may have become an archive meanwhile.
            return match self.archives.table(number)? {
                Some(_) => self.segment(number),
                None => Ok(None),
            };
        }
        read?;
        Ok(Some(records.into()))
    }

    /// About `bytes` of a shard's records behind the key `after`, with the key of the last one. The key is `None` if there are no more.
    ///
    /// # Errors
    /// As the store's export.
    pub fn backup_records(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        bytes: usize,
    ) -> Result<(Vec<Bytes>, Option<Bytes>), HistoryStoreError> {
        self.history.export(shard, after, bytes)
    }
}
