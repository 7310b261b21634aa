//! Backups of the cluster while it sells under faults, and what they are worth: each cut is restored into an empty directory, and
//! everything in it is compared as an audit does. An effect without its cause is a violation.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use boxoffice_env::{MemoryDisk, MemoryStores, World};
use boxoffice_node::{
    backup::{
        BackupSource, Collected, MarkCut, Part, Places, Record, RestoreError, ShardId, ShardPlace, Target,
        restore::restore,
    },
    node::NodeHandle,
    verify::verify,
};
use bytes::Bytes;
use rand::{
    Rng,
    rngs::SmallRng,
    seq::{IndexedRandom, SliceRandom},
};
use tokio::{sync::watch, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::{client_stub::ClientStub, faults::FaultStats, rng::rng, settings::Settings};

/// The mean time between two backups, in milliseconds.
const MEAN_MS: u64 = 20_000;
/// How long the base of a backup gets more marks, in milliseconds.
const MARKED_MS: u64 = 12_000;
/// How long a shard without a leader is waited for, in milliseconds.
const WAIT_MS: u64 = 20_000;
/// How often is looked whether every shard has the mark, in milliseconds.
const LOOK_MS: u64 = 50;
/// Bytes of records that are read at once.
const RECORD_BYTES: usize = 4 << 10;

/// Backs up until told to stop. Returns how many cuts were restored.
pub(crate) async fn back_up(
    client: Arc<ClientStub>,
    stats: Arc<Mutex<FaultStats>>,
    settings: Settings,
    mut stop: watch::Receiver<bool>,
) -> u64 {
    let mut rng = rng(settings.seed, "cuts", 0);
    let mut cuts = 0;
    loop {
        let pause_ms = rng.random_range(1..2 * MEAN_MS);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stops| *stops) => return cuts,
            () = sleep(Duration::from_millis(pause_ms)) => {}
        }
        match Backup::take(&client, settings, &mut rng).await {
            Some(backup) => cuts += backup.check(&client, &stats, settings.shards),
            None => client.trace.note("a backup was given up"),
        }
    }
}

/// The parts of a backup, in memory.
struct Backup {
    shards: u16,
    snapshots: BTreeMap<ShardId, Bytes>,
    records: BTreeMap<ShardId, Vec<Bytes>>,
    entries: Vec<Record>,
    collected: Collected,
    /// The highest mark that was known when the snapshots and records were read.
    base_mark: u64,
    /// The last mark.
    mark: u64,
}

impl Backup {
    /// Takes one. `None` if a node was lost meanwhile, or a shard had no leader.
    async fn take(client: &ClientStub, settings: Settings, rng: &mut SmallRng) -> Option<Backup> {
        // One node after the other until each shard has one, as an operator would name them.
        let mut nodes: Vec<NodeHandle> = client.members().iter().filter_map(|machine| machine.handle()).collect();
        nodes.shuffle(rng);
        let mut backup = Backup {
            shards: settings.shards,
            snapshots: BTreeMap::new(),
            records: BTreeMap::new(),
            entries: Vec::new(),
            collected: Collected::default(),
            base_mark: 0,
            mark: 0,
        };
        let mut places: Vec<(NodeHandle, Vec<ShardId>)> = Vec::new();
        for node in &nodes {
            let here = node.backup_places(|_| 0).await.ok()?.shards;
            let mut taken = Vec::new();
            for ShardPlace { shard, .. } in here {
                if backup.collected.last(shard).is_none() {
                    backup.base(node, shard).await?;
                    taken.push(shard);
                }
            }
            backup.base_mark = backup.base_mark.max(node.backup_places(|_| 0).await.ok()?.mark);
            places.push((node.clone(), taken));
        }
        if (0..=settings.shards).any(|shard| backup.collected.last(shard).is_none()) {
            return None;
        }
        // The marks that are raised at intervals come before that of the backup.
        sleep(Duration::from_millis(rng.random_range(0..MARKED_MS))).await;
        backup.mark = nodes.choose(rng)?.raise_mark()?;
        for (node, taken) in &places {
            let mut waited_ms = 0;
            let places = loop {
                let after: BTreeMap<ShardId, u64> =
                    taken.iter().map(|shard| (*shard, backup.collected.last(*shard).unwrap_or(0))).collect();
                let places =
                    node.backup_places(move |shard| after.get(&shard).copied().unwrap_or(u64::MAX)).await.ok()?;
                let of = |shard: &ShardId| places.shards.iter().find(|place| place.shard == *shard);
                if taken.iter().all(|shard| of(shard).is_some_and(|place| place.mark >= backup.mark)) {
                    break places;
                }
                if waited_ms > WAIT_MS {
                    return None;
                }
                waited_ms += LOOK_MS;
                sleep(Duration::from_millis(LOOK_MS)).await;
            };
            backup.log(node, taken, &places).await?;
        }
        Some(backup)
    }

    /// The snapshot and the records of a shard.
    async fn base(&mut self, node: &NodeHandle, shard: ShardId) -> Option<()> {
        let snapshot = node.backup_part(Part::Snapshot(shard)).await.ok()?;
        let index = match &snapshot {
            Some(payload) => boxoffice_storage::snapshot::decode(payload).ok()?.meta.position.index,
            None => 0,
        };
        self.collected.begin(shard, index);
        self.snapshots.extend(snapshot.map(|payload| (shard, payload)));
        let records = self.records.entry(shard).or_default();
        let mut after = None;
        loop {
            let (found, last) = node.backup_records(shard, after, RECORD_BYTES).await.ok()?;
            records.extend(found);
            after = last;
            if after.is_none() {
                return Some(());
            }
        }
    }

    /// The entries of some shards, from the log of a node.
    async fn log(&mut self, node: &NodeHandle, taken: &[ShardId], places: &Places) -> Option<()> {
        self.collected.begin_log();
        for number in places.first_segment..=places.last_segment {
            let mut records = node.backup_part(Part::Segment(number)).await.ok()??;
            while !records.is_empty() {
                let record = Record::decode(&mut records).expect("a node's own records");
                if taken.contains(&record.shard()) {
                    let entries = &mut self.entries;
                    self.collected.take(record, &mut |entry| entries.push(entry)).ok()?;
                }
            }
        }
        for place in places.shards.iter().filter(|place| taken.contains(&place.shard)) {
            let entries = &mut self.entries;
            self.collected.committed(place.shard, place.committed, &mut |entry| entries.push(entry)).ok()?;
        }
        Some(())
    }

    /// Restores each cut into an empty directory and verifies it. Returns how many there were.
    fn check(&self, client: &ClientStub, stats: &Mutex<FaultStats>, shards: u16) -> u64 {
        let marks = self.collected.marks(0).map(|(mark, _)| mark).filter(|mark| *mark > self.base_mark);
        let mut cuts = 0;
        for mark in marks {
            let ends = (0..=self.shards).map(|shard| Some((shard, self.collected.end(shard, mark)?)));
            let Some(ends) = ends.collect::<Option<BTreeMap<_, _>>>() else { continue };
            cuts += 1;
            client.trace.note(&format!("the cut at mark {mark}: {ends:?}"));
            let shards = if mark.is_multiple_of(3) { shards + 2 } else { shards };
            if let Err(found) = self.restored(&MarkCut { mark, ends }, shards) {
                let found = found.into_iter().map(|what| format!("the cut at mark {mark}, restored: {what}"));
                stats.lock().violations.extend(found);
            }
        }
        cuts
    }

    fn restored(&self, cut: &MarkCut, shards: u16) -> Result<(), Vec<String>> {
        let world =
            World { disk: Arc::new(MemoryDisk::new()), stores: Arc::new(MemoryStores::new()), ..World::standalone() };
        let dir = PathBuf::from("/restored");
        let target = Target { dir: &dir, node: 1, shards };
        restore(&world, self, cut, target).map_err(|error| vec![error.to_string()])?;
        match verify(&world, Path::new(&dir), &[]) {
            Ok(verified) if verified.findings.is_empty() => Ok(()),
            Ok(verified) => Err(verified.findings),
            Err(error) => Err(vec![error.to_string()]),
        }
    }
}

impl BackupSource for Backup {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn snapshot(&self, shard: ShardId) -> Result<Option<Bytes>, String> {
        Ok(self.snapshots.get(&shard).cloned())
    }

    fn records(
        &self,
        shard: ShardId,
        see: &mut dyn FnMut(Bytes) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        self.records.get(&shard).into_iter().flatten().cloned().try_for_each(see)
    }

    fn entries(&self, see: &mut dyn FnMut(Record) -> Result<(), RestoreError>) -> Result<(), RestoreError> {
        self.entries.iter().cloned().try_for_each(see)
    }
}
