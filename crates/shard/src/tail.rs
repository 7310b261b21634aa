//! The tail of one shard's log, in memory. Raft reads it, and it serves followers that lag a little.

use std::cell::RefCell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::name::{Position, ReplicaId};

/// The bytes of an entry in a message beside its data. The size limit needs only an estimate.
const ENTRY_OVERHEAD_BYTES: u64 = 24;

fn bytes_of(entry: &Entry) -> u64 {
    entry.data.len() as u64
}

/// Entries without gaps, after a position whose term is known.
pub(crate) struct Tail {
    hard: HardState,
    conf: ConfState,
    // The entry before the first one kept.
    before: Position,
    entries: VecDeque<Entry>,
    // The size of their data.
    bytes: u64,
    // A snapshot that waits for raft to send it, and the followers that raft requested one for.
    prepared: Option<Snapshot>,
    wanted: RefCell<Vec<u64>>,
}

impl Tail {
    /// An empty tail after `before`.
    pub(crate) fn after(before: Position) -> Tail {
        Tail {
            hard: HardState::default(),
            conf: ConfState::default(),
            before,
            entries: VecDeque::new(),
            bytes: 0,
            prepared: None,
            wanted: RefCell::default(),
        }
    }

    /// The state that raft reads once, when the group is created.
    pub(crate) fn start_with(&mut self, hard: HardState, conf: ConfState) {
        self.hard = hard;
        self.conf = conf;
    }

    pub(crate) fn first(&self) -> u64 {
        self.before.index + 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.before, |entry| Position { index: entry.index, term: entry.term })
    }

    /// The term of the entry at `index`, if it is known.
    pub(crate) fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.before.index {
            return Some(self.before.term);
        }
        self.entries.get(self.offset(index)?).map(|entry| entry.term)
    }

    /// The membership changes after `index`.
    pub(crate) fn changes_after(&self, index: u64) -> Vec<u64> {
        let changes = self.entries.iter().filter(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        changes.map(|entry| entry.index).filter(|change| *change > index).collect()
    }

    fn offset(&self, index: u64) -> Option<usize> {
        usize::try_from(index.checked_sub(self.first())?).ok()
    }

    /// Appends entries, replacing existing ones from the index of the first one on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let offset = self.offset(first.index).expect("entries before the kept ones are never written again");
        assert!(offset <= self.entries.len(), "a gap in the log before {}", first.index);
        self.bytes -= self.entries.drain(offset..).map(|entry| bytes_of(&entry)).sum::<u64>();
        self.bytes += entries.iter().map(bytes_of).sum::<u64>();
        self.entries.extend(entries.iter().cloned());
    }

    /// Drops everything, because the log continues after a snapshot.
    pub(crate) fn reset(&mut self, before: Position) {
        self.before = before;
        self.entries.clear();
        self.bytes = 0;
        self.prepared = None;
    }

    /// Drops the entries up to `index`.
    pub(crate) fn forget(&mut self, index: u64) {
        while self.before.index < index {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= bytes_of(&entry);
            self.before = Position { index: entry.index, term: entry.term };
        }
    }

    /// Drops the entries that a snapshot up to `index` covers, except some for followers that lag a little.
    pub(crate) fn forget_behind(&mut self, index: u64, entries_max: u64, bytes_max: u64) {
        let index = self.may_be_forgotten(index);
        let covered = self.offset(index + 1).unwrap_or(0).min(self.entries.len());
        let mut bytes = 0;
        let kept = (self.entries.range(..covered).rev())
            .zip(0..entries_max)
            .take_while(|(entry, _)| {
                bytes += bytes_of(entry);
                bytes <= bytes_max
            })
            .count() as u64;
        self.forget(index.saturating_sub(kept));
    }

    /// Drops the oldest entries up to `applied` while all of them together are larger than `bytes_max`.
    pub(crate) fn forget_beyond(&mut self, applied: u64, bytes_max: u64) {
        let until = self.may_be_forgotten(applied);
        while self.bytes > bytes_max && self.before.index < until {
            self.forget(self.first());
        }
    }

    /// A follower that receives a snapshot continues after it, so those entries must stay.
    fn may_be_forgotten(&self, index: u64) -> u64 {
        self.prepared.as_ref().map_or(index, |prepared| index.min(prepared.get_metadata().index))
    }

    /// The followers that raft requested a snapshot for since the last call.
    pub(crate) fn take_wanted(&self) -> impl Iterator<Item = ReplicaId> {
        self.wanted.take().into_iter().filter_map(ReplicaId::from_bits)
    }

    /// Keeps a snapshot for raft to send. `None` frees it.
    pub(crate) fn prepare(&mut self, snapshot: Option<Snapshot>) {
        self.prepared = snapshot;
    }

    /// The kept snapshot, if the entries after it are still here and the receiver is among its members. Otherwise the receiver
    /// would refuse it for ever.
    fn prepared_for(&self, to: u64, index_min: u64) -> Option<&Snapshot> {
        self.prepared.as_ref().filter(|snapshot| {
            let meta = snapshot.get_metadata();
            let conf = meta.get_conf_state();
            let knows = [conf.get_voters(), conf.get_learners(), conf.get_voters_outgoing()]
                .iter()
                .any(|list| list.contains(&to));
            knows && meta.index >= index_min && meta.index >= self.before.index
        })
    }
}

impl Storage for Tail {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard.clone(), self.conf.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let Some(start) = self.offset(low) else {
            return Err(StorageError::Compacted.into());
        };
        let count = usize::try_from(high - low).map_err(|_| StorageError::Unavailable)?;
        if start + count > self.entries.len() {
            return Err(StorageError::Unavailable.into());
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0u64;
        let within = |entry: &&Entry| {
            let first = size == 0;
            size += entry.data.len() as u64 + ENTRY_OVERHEAD_BYTES;
            first || size <= limit
        };
        let range = self.entries.range(start..start + count);
        Ok(range.take_while(within).cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.term_at(index).ok_or_else(|| {
            let error = if index < self.before.index { StorageError::Compacted } else { StorageError::Unavailable };
            error.into()
        })
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().index)
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        self.prepared_for(to, request_index).cloned().ok_or_else(|| {
            let mut wanted = self.wanted.borrow_mut();
            if !wanted.contains(&to) {
                wanted.push(to);
            }
            StorageError::SnapshotTemporarilyUnavailable.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> Entry {
        Entry { index, term, data: vec![0; 76].into(), ..Entry::default() }
    }

    fn tail(before: u64, last: u64) -> Tail {
        let mut tail = Tail::after(Position { index: before, term: 1 });
        tail.append(&(before + 1..=last).map(|index| entry(index, 2)).collect::<Vec<_>>());
        tail
    }

    fn read(tail: &Tail, low: u64, high: u64, limit: Option<u64>) -> raft::Result<Vec<u64>> {
        let entries = tail.entries(low, high, limit, GetEntriesContext::empty(false))?;
        Ok(entries.iter().map(|entry| entry.index).collect())
    }

    #[test]
    fn the_position_before_the_first_entry_has_a_term_but_no_entry() {
        let tail = tail(10, 12);
        assert_eq!((tail.first_index().unwrap(), tail.last_index().unwrap()), (11, 12));
        assert_eq!((tail.term(10).unwrap(), tail.term(11).unwrap()), (1, 2));
        assert_eq!(tail.term(9), Err(StorageError::Compacted.into()));
        assert_eq!(tail.term(13), Err(StorageError::Unavailable.into()));
        assert_eq!(read(&tail, 10, 12, None), Err(StorageError::Compacted.into()));
    }

    #[test]
    fn a_size_limit_still_gives_one_entry() {
        let tail = tail(10, 20);
        assert_eq!(read(&tail, 11, 21, Some(0)).unwrap(), [11]);
        assert_eq!(read(&tail, 11, 21, Some(250)).unwrap(), [11, 12]);
        assert_eq!(read(&tail, 12, 14, None).unwrap(), [12, 13]);
        assert_eq!(read(&tail, 12, 22, None), Err(StorageError::Unavailable.into()));
    }

    #[test]
    fn an_append_replaces_existing_entries() {
        let mut tail = tail(10, 20);
        tail.append(&[entry(13, 5)]);
        assert_eq!(tail.last(), Position { index: 13, term: 5 });
        assert_eq!((tail.term_at(12), tail.term_at(14)), (Some(2), None));
    }

    #[test]
    #[should_panic(expected = "a gap in the log before 22")]
    fn an_append_after_a_gap_is_a_bug() {
        tail(10, 20).append(&[entry(22, 5)]);
    }

    #[test]
    fn a_dropped_entry_leaves_its_term() {
        let mut tail = tail(10, 20);
        tail.forget(15);
        assert_eq!((tail.first(), tail.term_at(15), tail.term_at(14)), (16, Some(2), None));
        tail.forget(40);
        assert_eq!((tail.first(), tail.last().index), (21, 20));
    }

    #[test]
    fn a_few_entries_behind_a_snapshot_are_kept() {
        let first_after = |index, entries_max, bytes_max| {
            let mut tail = tail(10, 20);
            tail.forget_behind(index, entries_max, bytes_max);
            tail.first()
        };
        assert_eq!(first_after(16, 3, 1_000), 14);
        assert_eq!(first_after(16, 3, 160), 15, "two entries of 76 bytes");
        assert_eq!(first_after(16, 0, 1_000), 17);
        assert_eq!(first_after(16, 99, 9_999), 11);
        assert_eq!(first_after(5, 0, 0), 11, "an old snapshot");
    }

    #[test]
    fn applied_entries_beyond_the_byte_limit_are_dropped() {
        let first_after = |applied, bytes_max| {
            let mut tail = tail(10, 20);
            tail.append(&[entry(19, 3), entry(20, 3)]);
            tail.forget_beyond(applied, bytes_max);
            tail.first()
        };
        assert_eq!(first_after(20, 760), 11, "ten entries of 76 bytes");
        assert_eq!(first_after(20, 759), 12);
        assert_eq!(first_after(20, 160), 19);
        assert_eq!(first_after(16, 0), 17, "the others are not applied");
        let mut tail = tail(10, 20);
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = 14;
        tail.prepare(Some(snapshot));
        tail.forget_beyond(20, 0);
        assert_eq!(tail.first(), 15, "a follower continues after the snapshot");
        tail.reset(Position { index: 30, term: 4 });
        tail.append(&[entry(31, 4)]);
        tail.forget_beyond(31, 76);
        assert_eq!(tail.first(), 31, "dropped entries are not counted");
    }

    #[test]
    fn only_a_useful_snapshot_is_sent() {
        let [one, two, three] = [1, 2, 3].map(|node| ReplicaId::new(node, 1));
        let mut tail = tail(10, 20);
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = 15;
        snapshot.mut_metadata().mut_conf_state().set_voters(vec![one.bits(), two.bits()]);
        tail.prepare(Some(snapshot));
        assert_eq!(tail.snapshot(0, two.bits()).unwrap().get_metadata().index, 15);
        assert!(tail.snapshot(0, three.bits()).is_err(), "node 3 is not a member in the snapshot");
        tail.forget(16);
        assert!(tail.snapshot(0, two.bits()).is_err(), "entry 16 was dropped");
        assert!(tail.snapshot(0, three.bits()).is_err());
        assert_eq!(tail.take_wanted().collect::<Vec<_>>(), [three, two]);
        assert_eq!(tail.take_wanted().count(), 0);
    }
}
