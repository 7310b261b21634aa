//! A simulated disk: a log in parts, and one snapshot a shard. A crash loses unsynced data.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::rng::Rng;
use crate::{Record, ShardId, SnapshotMeta, Write};

#[derive(Default)]
pub(crate) struct Disk {
    parts: Vec<Part>,
    snapshots: BTreeMap<ShardId, (SnapshotMeta, Bytes)>,
}

#[derive(Default)]
struct Part {
    writes: Vec<Vec<u8>>,
    synced: usize,
    last: BTreeMap<ShardId, u64>,
}

impl Disk {
    pub(crate) fn save(&mut self, meta: SnapshotMeta, state: Bytes) {
        self.snapshots.insert(meta.shard, (meta, state));
    }

    pub(crate) fn forget(&mut self, shard: ShardId) {
        self.snapshots.remove(&shard);
    }

    pub(crate) fn append(&mut self, write: &Write) {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        let part = self.parts.last_mut().unwrap();
        part.writes.push(write.records.clone());
        for (shard, last) in &write.marks {
            part.last.insert(*shard, *last);
        }
    }

    pub(crate) fn sync(&mut self) {
        self.parts.iter_mut().for_each(|part| part.synced = part.writes.len());
    }

    /// Begins a new part and removes those before it that are not needed any more.
    pub(crate) fn turn_over(&mut self, checkpoint: &[Record], first_needed: impl Fn(ShardId) -> u64) {
        let mut head = Vec::new();
        checkpoint.iter().for_each(|record| record.encode(&mut head));
        self.parts.push(Part { writes: vec![head], ..Part::default() });
        self.sync();
        let needed = |part: &Part| part.last.iter().any(|(shard, last)| *last >= first_needed(*shard));
        let kept = self.parts.iter().position(needed).unwrap_or(self.parts.len() - 1);
        self.parts.drain(..kept);
    }

    /// Any beginning of the data that is not synced may survive a crash.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        for part in &mut self.parts {
            let loose = part.writes.len() - part.synced;
            let kept = part.synced + usize::try_from(rng.below(loose as u64 + 1)).unwrap();
            part.writes.truncate(kept);
            part.synced = kept;
        }
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        let writes = self.parts.iter().flat_map(|part| &part.writes);
        writes.flat_map(|write| Record::decode_all(Bytes::copy_from_slice(write)).unwrap()).collect()
    }

    pub(crate) fn writes(&self) -> usize {
        self.parts.iter().map(|part| part.writes.len()).sum()
    }

    pub(crate) fn snapshots(&self) -> impl Iterator<Item = &(SnapshotMeta, Bytes)> {
        self.snapshots.values()
    }
}
