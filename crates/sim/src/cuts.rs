//! Backups of the cluster while it sells under faults, and what they are worth: each cut is restored into an empty directory, and
//! everything in it is compared as an audit does. An effect without its cause is a violation.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use boxoffice_core::{
    id::{Request, RequestHash},
    state_map::StateMap,
};
use boxoffice_env::{MemoryDisk, MemoryStores, World};
use boxoffice_node::{
    backup::{
        BackupAnswer, BackupError, BackupPort, BackupSink, BackupSource, Collector, MarkCut, Record, RestoreError,
        ShardId, Target, restore,
    },
    verify::verify,
};
use boxoffice_shard::ring;
use boxoffice_storage::{snapshot, snapshot_files::SnapshotFiles};
use boxoffice_wire::call::BackupQuery;
use bytes::Bytes;
use rand::{Rng, rngs::SmallRng, seq::SliceRandom};
use tokio::{sync::watch, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::{client_stub::ClientStub, faults::FaultStats, machine::Machine, rng::rng, settings::Settings};

/// The mean time between two backups, in milliseconds.
const MEAN_MS: u64 = 20_000;
/// How long the base of a backup gets more marks, in milliseconds.
const MARKED_MS: u64 = 12_000;
/// How long a shard without a leader is waited for, in milliseconds.
const WAIT: Duration = Duration::from_secs(20);
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
        match Backup::take(&client, &mut rng).await {
            Ok((backup, cuts_of)) => {
                cuts += cuts_of.len() as u64;
                for cut in &cuts_of {
                    client.trace.note(&format!("{cut:?}"));
                    if let Err(found) = backup.restored(cut, settings.shards, &client) {
                        let of = |what| format!("the cut at mark {}, restored: {what}", cut.mark);
                        stats.lock().violations.extend(found.into_iter().map(of));
                    }
                }
            }
            Err(why) => client.trace.note(&format!("a backup was given up: {why}")),
        }
    }
}

/// The machine with this node, whichever process it has.
struct Port(Arc<Machine>);

impl BackupPort for Port {
    async fn ask(&self, query: BackupQuery) -> Result<Option<BackupAnswer>, String> {
        let node = self.0.handle().ok_or("it is off")?;
        match node.backup(query).await {
            Ok(answer) => Ok(Some(answer)),
            Err(BackupError::Gone) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The parts of a backup, in memory.
#[derive(Default)]
struct Backup {
    shards: u16,
    snapshots: BTreeMap<ShardId, Bytes>,
    records: BTreeMap<ShardId, Vec<Bytes>>,
    entries: Vec<Record>,
}

impl Backup {
    /// Takes one, with the cuts that it has.
    async fn take(client: &ClientStub, rng: &mut SmallRng) -> Result<(Backup, Vec<MarkCut>), String> {
        let mut ports: Vec<Port> = client.members().into_iter().map(Port).collect();
        ports.shuffle(rng);
        let mut backup = Backup::default();
        let mut collector = Collector::base(&ports, &mut backup).await.map_err(|error| error.to_string())?;
        // The marks that are raised at intervals come before that of the backup.
        sleep(Duration::from_millis(rng.random_range(0..MARKED_MS))).await;
        collector.end(&ports, &mut backup, WAIT).await.map_err(|error| error.to_string())?;
        backup.shards = collector.shards();
        Ok((backup, collector.cuts().into_iter().map(|(_, cut)| cut).collect()))
    }

    /// Restores a cut into an empty directory and verifies it.
    fn restored(&self, cut: &MarkCut, own_shards: u16, client: &ClientStub) -> Result<(), Vec<String>> {
        let (disk, stores) = (Arc::new(MemoryDisk::new()), Arc::new(MemoryStores::new()));
        let world = World { disk, stores, ..World::standalone() };
        let dir = PathBuf::from("/restored");
        // Sometimes into more shards, sometimes into fewer.
        let shards = [own_shards, own_shards + 3, 1][(cut.mark % 3) as usize];
        restore(&world, self, cut, Target { dir: &dir, node: 1, shards }).map_err(|error| vec![error.to_string()])?;
        match verify(&world, &dir, &[]) {
            Ok(verified) if verified.findings.is_empty() => {}
            Ok(verified) => return Err(verified.findings),
            Err(error) => return Err(vec![error.to_string()]),
        }
        let files = SnapshotFiles::open(Arc::clone(&world.disk), &dir.join("snapshots"));
        let files = files.map_err(|error| vec![error.to_string()])?;
        let mut forgotten = Vec::new();
        for shard in 0..=shards {
            let newest = files.load_newest(shard).map_err(|error| vec![error.to_string()])?;
            let newest = newest.ok_or_else(|| vec![format!("shard {shard} has no snapshot")])?;
            let read = snapshot::decode(&Bytes::from(newest.payload)).map_err(|why| vec![why.to_string()])?;
            let kept = StateMap::new().restored(read.cut);
            forgotten.extend(kept.entities().filter_map(|(entity, state)| {
                let end = cut.ends.get(&ring::shard_of(entity.hash_prefix(), own_shards)).copied().unwrap_or(0);
                let oracle = client.oracle.lock();
                let (_, number) = *oracle.granted.get(entity)?.iter().rfind(|(position, _)| *position < end)?;
                let request = Request { id: RequestHash(number), body: number };
                (!state.knows_request(request)).then(|| format!("{entity} forgets the granted request {number}"))
            }));
        }
        if forgotten.is_empty() { Ok(()) } else { Err(forgotten) }
    }
}

impl BackupSink for Backup {
    fn begin(&mut self, shard: ShardId, snapshot: Option<Bytes>) -> Result<(), String> {
        self.records.remove(&shard);
        self.snapshots.remove(&shard);
        self.snapshots.extend(snapshot.map(|payload| (shard, payload)));
        Ok(())
    }

    fn record(&mut self, shard: ShardId, record: Bytes) -> Result<(), String> {
        self.records.entry(shard).or_default().push(record);
        Ok(())
    }

    fn entry(&mut self, entry: Record) -> Result<(), String> {
        self.entries.push(entry);
        Ok(())
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
