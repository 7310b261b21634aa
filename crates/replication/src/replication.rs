//! The state that the parts of the replication share, and that the node reads.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    planted,
    version::{ClusterVersion, WriteVersion},
};
use boxoffice_env::{DurablePosition, NodeId, World};
use boxoffice_shard::{KnownMark, ShardId};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    chain_file::ChainFile,
    history::{Damage, HistoryStore},
    identity::DataDirectory,
    peer_positions::PeerPositions,
    snapshot_files::{KeptSnapshots, SnapshotFiles, SnapshotName},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    config::ReplicationConfig,
    error::ReplicationError,
    history_reads::HistoryReads,
    metrics::Metrics,
    replicators::Replicators,
    shard_state::{NodeLayouts, ShardState},
    sync_times::SyncTimes,
};

/// The replication of a node. Its loops are in [`Running`](crate::running::Running).
pub struct Replication<T> {
    pub config: ReplicationConfig,
    pub world: World,
    /// The shards by number. The first one is the directory's.
    pub shards: Vec<Arc<ShardState>>,
    /// The layouts of all shards.
    pub(crate) layouts: Arc<NodeLayouts>,
    /// The queues of the replicators.
    pub replicators: Replicators<T>,
    pub metrics: Metrics,
    /// How long syncs of the log have taken lately.
    pub sync_times: SyncTimes,
    /// The disk is nearly full. No new changes are taken.
    pub read_only: AtomicBool,
    /// When the last message of the directory's leader arrived, if that is another node, in monotonic milliseconds.
    pub directory_heard_ms: AtomicU64,
    /// The store of ended entities. It is closed before the lock on the data directory ends.
    pub history: HistoryStore,
    /// Reads of the store for those who must not wait.
    pub reads: HistoryReads,
    /// Old segments of the log.
    pub archives: ArchiveFiles,
    /// Snapshots that are kept beside them.
    pub(crate) kept_snapshots: KeptSnapshots,
    /// Known places of the chains of the shards.
    pub chain: ChainFile,
    /// The directory of the segments in use.
    pub log_dir: PathBuf,
    /// The snapshots, kept ones too.
    pub snapshot_files: SnapshotFiles,
    /// The store has no room for entities that leave memory.
    pub(crate) history_full: AtomicBool,
    /// Damaged snapshots that another one has to take the place of, for the replicators.
    pub(crate) damaged_snapshots: Mutex<Vec<SnapshotName>>,
    /// What a look at everything on the disk has found, if it cannot be mended here.
    pub(crate) found: Mutex<Option<String>>,
    /// The durable positions that other nodes have announced.
    pub peer_positions: PeerPositions,
    /// A random number of this process.
    pub(crate) run: u64,
    /// The last record of the log that is durable.
    pub(crate) durable: AtomicU64,
    /// The version under which this node writes.
    pub version: WriteVersion,
    /// The highest mark that this node knows.
    pub mark: KnownMark,
    /// Holds the lock on the data directory.
    pub(crate) directory: DataDirectory,
}

impl<T> Replication<T> {
    /// A shard.
    pub fn shard(&self, shard: ShardId) -> &Arc<ShardState> {
        &self.shards[usize::from(shard)]
    }

    /// Writes under a version from now on, or goes on under a higher one. The data directory says so durably before.
    ///
    /// # Errors
    /// This program does not read the version, or the directory cannot be written.
    pub fn raise(&self, version: ClusterVersion) -> Result<(), ReplicationError> {
        if version <= self.version.get() {
            return Ok(());
        }
        let reads_up_to = self.config.reads_up_to;
        if version > reads_up_to {
            return Err(ReplicationError::Newer { version, reads_up_to });
        }
        self.directory.raise(&*self.world.disk, version)?;
        self.version.raise(version);
        tracing::info!(%version, "everything is written under this version from now on");
        Ok(())
    }

    /// The highest mark that this node knows, for a message to another node. `None` if there is none, or messages carry none yet.
    pub fn mark_to_send(&self) -> Option<u64> {
        self.mark.above(0, self.version.get()).filter(|_| !planted::is("a mark that no message carries"))
    }

    /// The durable end of this node's log.
    pub fn durable_position(&self) -> DurablePosition {
        let disk = self.directory.identity().disk as u64;
        DurablePosition { disk, run: self.run, durable: self.durable.load(Ordering::Relaxed) }
    }

    /// What of the disk cannot be read any more and cannot be mended here, in words. What is in memory is good. `None` if nothing is
    /// known.
    pub fn damage(&self) -> Option<String> {
        if let Some(found) = &*self.found.lock() {
            return Some(found.clone());
        }
        let (damages, count) = self.history.damages();
        let Damage { shard, entity, .. } = damages.first()?;
        let first = entity.as_ref().map_or_else(|| "records of a block".to_owned(), ToString::to_string);
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        Some(format!("the store is damaged: {first} of shard {shard}{more} cannot be read"))
    }

    /// Whether the disk is nearly full.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Counts a frame with a valid checksum that cannot be decoded. The other node runs another version of the program.
    pub fn not_understood(&self, from: NodeId, why: &str) {
        self.metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(from, why, "a message of another node cannot be understood: does it run another version?");
    }
}
