//! Rebuilds the tails of all logs from snapshots and records, at a restart.

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{Entry, EntryType, HardState};

use crate::batch;
use crate::config::Config;
use crate::name::{FOUNDING, Position, ReplicaId, ShardId};
use crate::record::{EntryKind, Record};
use crate::restore_error::RestoreError;
use crate::snapshot::SnapshotMeta;
use crate::tail::Tail;

/// One shard as it is on disk.
pub(crate) struct Revived {
    pub(crate) meta: SnapshotMeta,
    pub(crate) tail: Tail,
    pub(crate) term: u64,
    pub(crate) vote: Option<ReplicaId>,
    /// Membership changes in the tail that may be uncommitted, by index.
    pub(crate) changes: Vec<u64>,
    /// Nothing is on disk yet. A record of the replica must be written first.
    pub(crate) replica_due: bool,
    /// The entries on disk differ from the tail. A reset must be written before the next ones.
    pub(crate) reset_due: bool,
}

impl Revived {
    /// A replica that a leader's first message creates.
    pub(crate) fn joining(shard: ShardId, replica: ReplicaId) -> Revived {
        let meta = SnapshotMeta::joining(shard, replica);
        let tail = Tail::after(meta.position);
        Revived { meta, tail, term: 0, vote: None, changes: Vec::new(), replica_due: true, reset_due: false }
    }
}

/// A node as it is on disk.
pub(crate) struct Restored {
    pub(crate) revived: BTreeMap<ShardId, Revived>,
    /// The highest generation that is gone, by shard.
    pub(crate) gone: BTreeMap<ShardId, u64>,
}

/// Rebuilds a node from its disk. The configuration applies to shards that have no records, because the first write of a node
/// need not contain all its shards.
pub(crate) fn replay(
    config: &Config,
    snapshots: impl IntoIterator<Item = SnapshotMeta>,
    records: impl IntoIterator<Item = Record>,
) -> Result<Restored, RestoreError> {
    let known =
        |shard: ShardId| if shard <= config.shards { Ok(()) } else { Err(RestoreError::UnknownShard { shard }) };
    let snapshots: Vec<_> = snapshots.into_iter().collect();
    snapshots.iter().try_for_each(|meta| known(meta.shard))?;
    let mut found =
        Replay { config, snapshots, places: BTreeMap::new(), gone: BTreeMap::new(), early: BTreeMap::new() };
    for record in records {
        known(record.shard())?;
        found.read(record)?;
    }
    if let Some(shard) = found.early.keys().next() {
        return Err(RestoreError::NoReplica { shard: *shard });
    }
    let mut revived = found.born()?;
    for (shard, place) in found.places {
        revived.insert(shard, place.revive()?);
    }
    Ok(Restored { revived, gone: found.gone })
}

/// The result so far.
struct Replay<'a> {
    config: &'a Config,
    snapshots: Vec<SnapshotMeta>,
    places: BTreeMap<ShardId, Found>,
    gone: BTreeMap<ShardId, u64>,
    // Records of a shard whose replica is not known yet. If older parts of the log were removed, the first write may
    // precede the checkpoint that names the replicas.
    early: BTreeMap<ShardId, Vec<Record>>,
}

impl Replay<'_> {
    fn read(&mut self, record: Record) -> Result<(), RestoreError> {
        let shard = record.shard();
        if let Record::Entry { position, kind: EntryKind::Turns, payload, .. } = &record
            && !payload.is_empty()
        {
            // Before anything is applied.
            let refused = |why| RestoreError::Entry { shard, index: position.index, why };
            batch::version(payload).map_err(refused)?;
        }
        match record {
            Record::Replica { replica, .. } => self.begin(shard, replica),
            Record::Gone { generation, .. } => self.end(shard, generation),
            record => {
                match self.places.get_mut(&shard) {
                    Some(place) => place.read(record, self.config.tail_entries),
                    None => self.early.entry(shard).or_default().push(record),
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, shard: ShardId, replica: ReplicaId) -> Result<(), RestoreError> {
        let node = self.config.node;
        if replica.node() != node {
            return Err(RestoreError::Foreign { shard, replica, node });
        }
        let present = self.places.get(&shard).map(|place| place.meta.replica);
        if present == Some(replica) {
            return Ok(());
        }
        let gone = self.gone.get(&shard).copied().unwrap_or(0);
        let known = present.map_or(gone, ReplicaId::generation);
        if present.is_some() || replica.generation() <= gone {
            return Err(RestoreError::Generation { shard, found: replica.generation(), known });
        }
        let mut place = self.found(shard, replica);
        let early = self.early.remove(&shard).unwrap_or_default();
        early.into_iter().for_each(|record| place.read(record, self.config.tail_entries));
        self.places.insert(shard, place);
        Ok(())
    }

    fn end(&mut self, shard: ShardId, generation: u64) -> Result<(), RestoreError> {
        let gone = self.gone.entry(shard).or_default();
        if generation < *gone {
            return Err(RestoreError::Generation { shard, found: generation, known: *gone });
        }
        *gone = generation;
        self.places.retain(|of, place| *of != shard || place.meta.replica.generation() > generation);
        Ok(())
    }

    /// The newest snapshot of the replica, or its start. Snapshots of other replicas are leftovers.
    fn found(&self, shard: ShardId, replica: ReplicaId) -> Found {
        let own = self.snapshots.iter().filter(|meta| meta.shard == shard && meta.replica == replica);
        let newest = own.max_by_key(|meta| meta.position);
        Found::new(newest.cloned().unwrap_or_else(|| self.beginning(shard, replica)))
    }

    fn beginning(&self, shard: ShardId, replica: ReplicaId) -> SnapshotMeta {
        if replica.generation() != FOUNDING {
            return SnapshotMeta::joining(shard, replica);
        }
        let together = self.config.groups.get(&shard).filter(|voters| voters.contains(&replica));
        SnapshotMeta::born(shard, replica, together.cloned().unwrap_or_else(|| vec![replica]))
    }

    /// The shards that have no records and start here.
    fn born(&self) -> Result<BTreeMap<ShardId, Revived>, RestoreError> {
        let is_new = |shard: &&ShardId| !self.places.contains_key(shard) && !self.gone.contains_key(shard);
        let replica = ReplicaId::new(self.config.node, FOUNDING);
        let born = self.config.groups.keys().filter(is_new).map(|shard| {
            if self.snapshots.iter().any(|meta| meta.shard == *shard) {
                return Err(RestoreError::LogMissing { shard: *shard });
            }
            let revived = Found::new(self.beginning(*shard, replica)).revive()?;
            Ok((*shard, Revived { replica_due: true, ..revived }))
        });
        born.collect()
    }
}

/// The data found for one shard.
struct Found {
    meta: SnapshotMeta,
    // Without gaps.
    entries: VecDeque<Entry>,
    term: u64,
    vote: Option<ReplicaId>,
    commit: u64,
    // The newest snapshot named in the log.
    named: u64,
}

impl Found {
    fn new(meta: SnapshotMeta) -> Found {
        Found { meta, entries: VecDeque::new(), term: 0, vote: None, commit: 0, named: 0 }
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
            Record::Replica { .. } | Record::Gone { .. } => unreachable!("they are read before"),
        }
    }

    fn put(&mut self, entry: Entry, tail_entries: u64) {
        while self.entries.back().is_some_and(|last| last.index >= entry.index) {
            self.entries.pop_back();
        }
        // Old parts of the log are removed piece by piece, so entries that a snapshot covers may be missing at the
        // start. Whether only those are missing is checked at the end.
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
        // A log that was not synced may have lost the state that was written with its entries or its snapshot.
        let (term, vote) = match last.term.max(snapshot.term) {
            newer if newer > self.term => (newer, None),
            _ => (self.term, self.vote),
        };
        // Entries are written before the state that commits them. If they are missing, another snapshot had them, and
        // this one is too old.
        if self.commit > last.index {
            return Err(RestoreError::CommittedMissing { shard, commit: self.commit, found: last.index });
        }
        let commit = self.commit.max(snapshot.index);
        let hard = HardState { term, vote: vote.map_or(0, ReplicaId::bits), commit, ..HardState::default() };
        tail.start_with(hard, self.meta.members.conf_state());
        let reset_due = tail.is_empty() && !self.entries.is_empty();
        let changes = tail.changes_after(commit);
        Ok(Revived { meta: self.meta, tail, term, vote, changes, replica_due: false, reset_due })
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
        // A log that ends before the snapshot, or contradicts it, was being replaced by it.
        if tail.term_at(snapshot.index) != Some(snapshot.term) {
            return Ok(Tail::after(snapshot));
        }
        // The term before the first entry is unknown, so the first entry becomes the base of the tail.
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
    use boxoffice_core::version::{ClusterVersion, NEWEST};
    use bytes::Bytes;
    use raft::Storage;

    use super::*;
    use crate::batch::Header;
    use crate::name::Epoch;

    fn entry(index: u64, term: u64) -> Record {
        Record::Entry { shard: 1, position: Position { index, term }, kind: EntryKind::Turns, payload: Bytes::new() }
    }

    fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Record> {
        range.map(|index| entry(index, term)).collect()
    }

    fn own(generation: u64) -> ReplicaId {
        ReplicaId::new(7, generation)
    }

    fn state(term: u64, vote: u64, commit: u64) -> Vec<Record> {
        let vote = (vote != 0).then(|| ReplicaId::new(vote, 1));
        vec![Record::State { shard: 1, term, vote, commit }]
    }

    fn snapshot(index: u64, term: u64) -> Option<SnapshotMeta> {
        let mut meta = SnapshotMeta::born(1, own(1), vec![own(1)]);
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
        let begin = Record::Replica { shard: 1, replica: own(1) };
        let records = std::iter::once(begin).chain(records.concat());
        let one = replay(&config, snapshot, records)?.revived.remove(&1).unwrap();
        let hard = one.tail.initial_state().unwrap().hard_state;
        let vote = one.vote.map_or(0, ReplicaId::bits);
        assert_eq!((hard.term, hard.vote), (one.term, vote));
        Ok((one.tail.first() - 1, one.tail.last(), one.term, one.vote.map_or(0, ReplicaId::node), hard.commit))
    }

    fn at(index: u64, term: u64) -> Position {
        Position { index, term }
    }

    #[test]
    fn an_empty_disk_is_a_new_shard() {
        assert_eq!(revived(None, &[]).unwrap(), (0, at(0, 0), 0, 0, 0));
        let born = replay(&Config::founding(7, 0, 1), None, []).unwrap().revived;
        assert!(born.len() == 2 && born.values().all(|revived| revived.replica_due));
    }

    #[test]
    fn a_log_alone_is_read_from_its_first_entry() {
        let disk = [state(2, 7, 3), entries(1..=9, 2)];
        assert_eq!(revived(None, &disk).unwrap(), (0, at(9, 2), 2, 7, 3));
    }

    #[test]
    fn an_entry_replaces_those_at_and_after_its_index() {
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
    fn a_snapshot_named_in_the_log_must_exist() {
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

    /// A snapshot from the leader is damaged, and the previous one ends before the first entry on the disk.
    #[test]
    fn missing_committed_entries_are_refused() {
        let refused = |snapshot, disk: &[Vec<Record>]| revived(snapshot, disk).expect_err("a refusal");
        let missing = |commit, found| RestoreError::CommittedMissing { shard: 1, commit, found };
        assert_eq!(refused(snapshot(31, 2), &[state(3, 7, 39)]), missing(39, 31));
        assert_eq!(refused(None, &[entries(1..=4, 2), state(3, 7, 9)]), missing(9, 4));
        assert_eq!(revived(snapshot(39, 3), &[state(3, 7, 39)]).unwrap(), (39, at(39, 3), 3, 7, 39));
    }

    fn refused(records: Vec<Record>) -> RestoreError {
        let config = Config::founding(7, 0, 1);
        replay(&config, None, records).err().expect("a refusal")
    }

    fn replica(generation: u64) -> Record {
        Record::Replica { shard: 1, replica: own(generation) }
    }

    fn gone(generation: u64) -> Record {
        Record::Gone { shard: 1, generation }
    }

    #[test]
    fn a_shard_beyond_the_configured_number_is_refused() {
        let record = Record::Snapshot { shard: 9, index: 1 };
        assert_eq!(refused(vec![record]), RestoreError::UnknownShard { shard: 9 });
    }

    #[test]
    fn an_entry_of_a_later_version_is_refused_before_anything_is_applied() {
        let version = ClusterVersion::numbered(NEWEST.number() + 1);
        let header = Header { version, epoch: Epoch(1), sequence: 1, stamp_ms: 5, distance_ms: 0, mark: None };
        let payload = |header: Header| Bytes::from(batch::seal(header, std::iter::once(&b"sold"[..])));
        let later = |kind, payload| vec![replica(1), Record::Entry { shard: 1, position: at(1, 1), kind, payload }];
        let refusal = refused(later(EntryKind::Turns, payload(header)));
        assert_eq!(
            refusal.to_string(),
            format!(
                "shard 1, entry 1: an entry was written under version {version}, this program reads up to {NEWEST}"
            )
        );
        let config = Config::founding(7, 0, 1);
        for read in [payload(Header { version: NEWEST, ..header }), Bytes::new()] {
            replay(&config, None, later(EntryKind::Turns, read))
                .expect("its own version, and the first entry of a leader");
        }
    }

    #[test]
    fn records_of_replicas_that_contradict_each_other_are_refused() {
        let generation = |found, known| RestoreError::Generation { shard: 1, found, known };
        assert_eq!(refused(vec![entry(1, 1)]), RestoreError::NoReplica { shard: 1 });
        assert_eq!(refused(vec![replica(1), gone(1), entry(1, 1)]), RestoreError::NoReplica { shard: 1 });
        assert_eq!(refused(vec![replica(4), replica(6)]), generation(6, 4));
        assert_eq!(refused(vec![gone(4), replica(4)]), generation(4, 4));
        assert_eq!(refused(vec![gone(4), gone(3)]), generation(3, 4));
        let other = ReplicaId::new(8, 2);
        let foreign = RestoreError::Foreign { shard: 1, replica: other, node: 7 };
        assert_eq!(refused(vec![Record::Replica { shard: 1, replica: other }]), foreign);
    }

    #[test]
    fn a_write_before_the_checkpoint_is_of_the_replica_it_names() {
        let disk = [entry(16, 2), gone(4), replica(6), entry(17, 2)];
        let meta = SnapshotMeta { replica: own(6), ..snapshot(15, 2).unwrap() };
        let restored = replay(&Config::joining(7, 0, 1), [meta], disk).unwrap();
        assert_eq!(restored.revived[&1].tail.last(), at(17, 2));
    }

    #[test]
    fn snapshots_without_a_log_are_refused() {
        let config = Config::founding(7, 0, 1);
        let refusal = replay(&config, snapshot(15, 2), []).err();
        assert_eq!(refusal, Some(RestoreError::LogMissing { shard: 1 }));
    }

    #[test]
    fn the_disk_outranks_the_configuration() {
        let config = Config::founding(7, 0, 1);
        let disk = [replica(1), entry(1, 1), gone(1), gone(5), replica(6), gone(5), replica(6)];
        // The snapshot is of the first replica.
        let restored = replay(&config, snapshot(15, 2), disk).unwrap();
        assert_eq!(restored.gone, [(1, 5)].into());
        // The other shard has no records.
        assert_eq!(restored.revived.keys().collect::<Vec<_>>(), [&0, &1]);
        assert!(restored.revived[&0].replica_due);
        let revived = &restored.revived[&1];
        assert_eq!((&revived.meta, revived.tail.last()), (&SnapshotMeta::joining(1, own(6)), at(0, 0)));
        assert!(!revived.replica_due);
    }

    #[test]
    fn a_founder_restarts_with_any_configuration() {
        let restored = replay(&Config::joining(7, 0, 1), None, [replica(1)]).unwrap();
        assert_eq!(restored.revived[&1].meta, SnapshotMeta::born(1, own(1), vec![own(1)]));
    }
}
