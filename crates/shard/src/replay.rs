//! From snapshots and log records back to the ends of all logs, at a restart.

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{Entry, EntryType, HardState};

use crate::config::Config;
use crate::name::{NodeId, Position, ShardId};
use crate::record::{EntryKind, Record};
use crate::snapshot::SnapshotMeta;
use crate::tail::Tail;

/// Why an engine cannot start from what is on disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The disk holds a shard that the configuration does not name.
    #[error("the disk holds shard {shard}, which this node is not configured for; was the number of shards changed?")]
    UnknownShard {
        /// The shard.
        shard: ShardId,
    },
    /// Entries between the snapshot and the log are missing.
    #[error(
        "shard {shard}: the snapshot ends at entry {snapshot} and the log begins at {log}; a snapshot or a part of the \
         log was removed: rejoin the cluster as a new node"
    )]
    Gap {
        /// The shard.
        shard: ShardId,
        /// The last entry in the snapshot, 0 without one.
        snapshot: u64,
        /// The first entry in the log.
        log: u64,
    },
    /// The log names a later snapshot than the one found.
    #[error(
        "shard {shard}: the log names a snapshot up to entry {named}, the newest one found ends at {found}; a snapshot \
         was removed: rejoin the cluster as a new node"
    )]
    SnapshotMissing {
        /// The shard.
        shard: ShardId,
        /// The last entry of the snapshot that the log names.
        named: u64,
        /// The last entry of the snapshot found, 0 without one.
        found: u64,
    },
    /// The configuration cannot work.
    #[error("the configuration cannot work: {0}")]
    Config(String),
}

/// One shard as it is on disk.
pub(crate) struct Revived {
    pub(crate) meta: SnapshotMeta,
    pub(crate) tail: Tail,
    pub(crate) term: u64,
    pub(crate) vote: NodeId,
    /// The entries on disk are not the ones of the tail; a reset must be written before the next ones.
    pub(crate) reset_due: bool,
}

/// Puts together all shards of the configuration.
pub(crate) fn replay(
    config: &Config,
    snapshots: impl IntoIterator<Item = SnapshotMeta>,
    records: impl IntoIterator<Item = Record>,
) -> Result<BTreeMap<ShardId, Revived>, RestoreError> {
    let mut found: BTreeMap<ShardId, Found> = config
        .groups
        .iter()
        .map(|(shard, voters)| (*shard, Found::new(SnapshotMeta::born(*shard, voters.clone()))))
        .collect();
    for meta in snapshots {
        let shard = meta.shard;
        let place = found.get_mut(&shard).ok_or(RestoreError::UnknownShard { shard })?;
        if meta.position >= place.meta.position {
            *place = Found::new(meta);
        }
    }
    for record in records {
        let shard = record.shard();
        let place = found.get_mut(&shard).ok_or(RestoreError::UnknownShard { shard })?;
        place.read(record, config.tail_entries);
    }
    found.into_iter().map(|(shard, place)| Ok((shard, place.revive()?))).collect()
}

/// What is found of one shard.
struct Found {
    meta: SnapshotMeta,
    // Without gaps.
    entries: VecDeque<Entry>,
    term: u64,
    vote: NodeId,
    commit: u64,
    // The newest snapshot that the log names.
    named: u64,
}

impl Found {
    fn new(meta: SnapshotMeta) -> Found {
        Found { meta, entries: VecDeque::new(), term: 0, vote: 0, commit: 0, named: 0 }
    }

    fn read(&mut self, record: Record, tail_entries: u64) {
        match record {
            Record::Entry { position, kind, payload, .. } => {
                let mut entry = Entry { index: position.index, term: position.term, data: payload, ..Entry::default() };
                entry.set_entry_type(entry_type(kind));
                self.put(entry, tail_entries);
            }
            Record::State { term, vote, commit, .. } => (self.term, self.vote, self.commit) = (term, vote, commit),
            Record::Snapshot { index, .. } => self.named = self.named.max(index),
            Record::Reset { index, .. } => {
                self.named = self.named.max(index);
                self.entries.clear();
            }
        }
    }

    fn put(&mut self, entry: Entry, tail_entries: u64) {
        while self.entries.back().is_some_and(|last| last.index >= entry.index) {
            self.entries.pop_back();
        }
        // Old parts of the log are removed a piece at a time, so entries that a snapshot covers may lack
        // a beginning. Whether it is only those is checked at the end.
        if self.entries.back().is_some_and(|last| last.index + 1 < entry.index) {
            self.entries.clear();
        }
        if entry.index + tail_entries > self.meta.position.index {
            self.entries.push_back(entry);
        }
    }

    fn revive(self) -> Result<Revived, RestoreError> {
        let shard = self.meta.shard;
        let snapshot = self.meta.position;
        if self.named > snapshot.index {
            return Err(RestoreError::SnapshotMissing { shard, named: self.named, found: snapshot.index });
        }
        let mut tail = self.tail()?;
        let last = tail.last();
        // A log that was not synced may have lost the state that came with its entries or its snapshot.
        let (term, vote) = match last.term.max(snapshot.term) {
            newer if newer > self.term => (newer, 0),
            _ => (self.term, self.vote),
        };
        let hard =
            HardState { term, vote, commit: self.commit.max(snapshot.index).min(last.index), ..HardState::default() };
        tail.start_with(hard, self.meta.members.conf_state());
        Ok(Revived { reset_due: tail.is_empty() && !self.entries.is_empty(), meta: self.meta, tail, term, vote })
    }

    fn tail(&self) -> Result<Tail, RestoreError> {
        let snapshot = self.meta.position;
        let Some(first) = self.entries.front() else {
            return Ok(Tail::after(snapshot));
        };
        if first.index > snapshot.index + 1 {
            return Err(RestoreError::Gap { shard: self.meta.shard, snapshot: snapshot.index, log: first.index });
        }
        if first.index == snapshot.index + 1 {
            return Ok(self.tail_after(snapshot));
        }
        let mut tail = self.tail_after(Position { index: first.index - 1, term: 0 });
        // A log that ends before the snapshot, or disagrees with it, was being replaced by it.
        if tail.term_at(snapshot.index) != Some(snapshot.term) {
            return Ok(Tail::after(snapshot));
        }
        // The term before the first entry is not known, so the first one becomes the place before the rest.
        tail.forget(first.index);
        Ok(tail)
    }

    fn tail_after(&self, before: Position) -> Tail {
        let mut tail = Tail::after(before);
        let (front, back) = self.entries.as_slices();
        tail.append(front);
        tail.append(back);
        tail
    }
}

fn entry_type(kind: EntryKind) -> EntryType {
    match kind {
        EntryKind::Turns => EntryType::EntryNormal,
        EntryKind::Members => EntryType::EntryConfChangeV2,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use raft::Storage;

    use super::*;

    fn entry(index: u64, term: u64) -> Record {
        Record::Entry { shard: 1, position: Position { index, term }, kind: EntryKind::Turns, payload: Bytes::new() }
    }

    fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Record> {
        range.map(|index| entry(index, term)).collect()
    }

    fn state(term: u64, vote: u64, commit: u64) -> Vec<Record> {
        vec![Record::State { shard: 1, term, vote, commit }]
    }

    fn snapshot(index: u64, term: u64) -> Option<SnapshotMeta> {
        let mut meta = SnapshotMeta::born(1, vec![7]);
        meta.position = Position { index, term };
        Some(meta)
    }

    /// (place before the first entry, last entry, term, vote, commit)
    fn revived(
        snapshot: Option<SnapshotMeta>,
        records: &[Vec<Record>],
    ) -> Result<(u64, Position, u64, u64, u64), RestoreError> {
        let mut config = Config::born(7, 0, 1, &[7]);
        config.tail_entries = 5;
        let mut shards = replay(&config, snapshot, records.concat())?;
        let one = shards.remove(&1).unwrap();
        let hard = one.tail.initial_state().unwrap().hard_state;
        assert_eq!((hard.term, hard.vote), (one.term, one.vote));
        Ok((one.tail.first() - 1, one.tail.last(), one.term, one.vote, hard.commit))
    }

    fn at(index: u64, term: u64) -> Position {
        Position { index, term }
    }

    #[test]
    fn an_empty_disk_is_a_shard_at_its_birth() {
        assert_eq!(revived(None, &[]).unwrap(), (0, at(0, 0), 0, 0, 0));
    }

    #[test]
    fn a_log_alone_is_read_from_its_first_entry() {
        let disk = [state(2, 7, 3), entries(1..=9, 2)];
        assert_eq!(revived(None, &disk).unwrap(), (0, at(9, 2), 2, 7, 3));
    }

    #[test]
    fn an_entry_replaces_what_was_at_and_after_its_place() {
        let disk = [entries(1..=9, 2), entries(6..=7, 3), state(3, 0, 5)];
        assert_eq!(revived(None, &disk).unwrap(), (0, at(7, 3), 3, 0, 5));
    }

    #[test]
    fn a_snapshot_inside_the_log_keeps_a_tail_before_it() {
        let disk = [entries(1..=20, 2), state(2, 7, 12)];
        assert_eq!(revived(snapshot(15, 2), &disk).unwrap(), (11, at(20, 2), 2, 7, 15));
    }

    #[test]
    fn a_snapshot_beyond_the_log_replaces_it() {
        let disk = [entries(1..=12, 2), state(2, 7, 12)];
        assert_eq!(revived(snapshot(15, 3), &disk).unwrap(), (15, at(15, 3), 3, 0, 15));
    }

    #[test]
    fn a_snapshot_that_disagrees_with_the_log_replaces_it() {
        let disk = [entries(1..=20, 2), state(4, 7, 10)];
        assert_eq!(revived(snapshot(15, 3), &disk).unwrap(), (15, at(15, 3), 4, 7, 15));
    }

    #[test]
    fn a_log_whose_beginning_was_removed_needs_its_snapshot() {
        let disk = [entries(1..=3, 1), entries(10..=20, 2)];
        assert_eq!(revived(snapshot(9, 2), &disk).unwrap(), (9, at(20, 2), 2, 0, 9));
        assert_eq!(revived(snapshot(8, 2), &disk), Err(RestoreError::Gap { shard: 1, snapshot: 8, log: 10 }));
    }

    #[test]
    fn a_snapshot_that_the_log_names_must_be_there() {
        let named = vec![Record::Snapshot { shard: 1, index: 9 }];
        assert_eq!(
            revived(snapshot(8, 2), std::slice::from_ref(&named)),
            Err(RestoreError::SnapshotMissing { shard: 1, named: 9, found: 8 })
        );
        assert_eq!(revived(snapshot(9, 2), &[named]).unwrap(), (9, at(9, 2), 2, 0, 9));
    }

    #[test]
    fn a_reset_voids_what_was_written_before() {
        let reset = |index| vec![Record::Reset { shard: 1, index }];
        let disk = [entries(1..=20, 2), reset(15), entries(16..=18, 3)];
        let (before, last, ..) = revived(snapshot(15, 3), &disk).unwrap();
        assert_eq!((before, last), (15, at(18, 3)));
    }

    #[test]
    fn a_state_ahead_of_a_log_that_lost_its_end_is_cut_to_it() {
        let disk = [entries(1..=4, 2), state(3, 7, 9)];
        assert_eq!(revived(None, &disk).unwrap(), (0, at(4, 2), 3, 7, 4));
    }

    #[test]
    fn a_shard_nobody_configured_is_refused() {
        let record = Record::Snapshot { shard: 9, index: 1 };
        let config = Config::born(7, 0, 1, &[7]);
        let refusal = replay(&config, None, [record]).err();
        assert_eq!(refusal, Some(RestoreError::UnknownShard { shard: 9 }));
    }
}
