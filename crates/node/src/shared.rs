//! The state that all parts of a node share. The ways between its parts are functions of [`crate::routing`] and [`crate::actor`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use boxoffice_core::{
    id::Entity,
    version::{NodeVersions, ReadVersions, WriteVersion},
};
use boxoffice_env::World;
use boxoffice_feeds::Feeds;
use boxoffice_replication::{error::ReplicationError, replication::Replication, transfer::Transfers};
use boxoffice_shard::NodeId;
use boxoffice_storage::{data_epoch::EpochTracker, identity::ClusterId};

use crate::{
    actor_pool::ActorPool,
    admission::Admission,
    as_of_query::Then,
    backup_reads::BackupReads,
    clocks::Clocks,
    config::NodeConfig,
    contain::PanicLog,
    disk_pace::DiskPace,
    error::{Failed, NodeError},
    history_query::HistoryPart,
    metrics::Metrics,
    outbound::Outbound,
    pending::{calls::ForwardedCalls, histories::PendingReads},
    pending_commit::PendingCommit,
    remote_feeds::RemoteFeeds,
    samples::{Sample, Samples},
    shard_lead::{ShardLead, Shards},
    tasks::Tasks,
    timers::Timers,
    watched::Committed,
};

/// The parts of a node that all others reach.
pub(crate) struct Shared {
    pub(crate) config: NodeConfig,
    pub(crate) cluster: ClusterId,
    pub(crate) world: World,
    /// The shards by number. The first is the directory's.
    pub(crate) shards: Arc<Shards>,
    pub(crate) replication: Arc<Replication<PendingCommit>>,
    pub(crate) timers: Timers,
    pub(crate) pool: ActorPool,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) feeds: Feeds,
    pub(crate) metrics: Metrics,
    /// Decides which commands are taken.
    pub(crate) admission: Arc<Admission>,
    pub(crate) panic_log: PanicLog,
    pub(crate) samples: Samples,
    /// The node is going down and takes no new commands.
    pub(crate) draining: AtomicBool,
    /// Histories being read.
    pub(crate) histories: tokio::sync::Semaphore,
    /// What is read for backups.
    pub(crate) backups: BackupReads,
    /// Histories that are read at other nodes.
    pub(crate) remote_histories: PendingReads<HistoryPart>,
    /// States of the past that are read at other nodes.
    pub(crate) remote_states: PendingReads<Then>,
    /// Clients' calls that may be at other nodes. Shared, so that its background task does not keep the node alive.
    pub(crate) calls: Arc<ForwardedCalls>,
    /// Messages to entities of shards that other nodes lead.
    pub(crate) outbound: Outbound,
    /// Snapshots on their way from and to other nodes.
    pub(crate) transfers: Arc<Transfers>,
    /// Feeds of entities that are on other nodes, and of ours that others watch.
    pub(crate) remote_feeds: Arc<RemoteFeeds>,
    /// The wall clocks of the nodes.
    pub(crate) clocks: Clocks,
    /// The pace of the disks of the nodes.
    pub(crate) disk_pace: DiskPace,
    /// The epoch that versions belong to.
    pub(crate) epochs: Arc<EpochTracker>,
    /// The highest version under which another node is known to write.
    pub(crate) heard_version: WriteVersion,
    /// Wakes the placement reconciler.
    pub(crate) placement_changed: tokio::sync::Notify,
    /// Shards led here that have reached the target configuration of this version.
    pub(crate) reached: tracing_mutex::parkinglot::Mutex<std::collections::BTreeMap<u16, u64>>,
    /// Why the node cannot go on, once it cannot.
    pub(crate) failed: tokio::sync::watch::Sender<Option<Failed>>,
    /// When it was started, in monotonic milliseconds.
    pub(crate) started_ms: u64,
}

impl Shared {
    /// The node cannot go on.
    pub(crate) fn fail(&self, error: NodeError) {
        self.replication.replicators.fail(ReplicationError::Owner(Box::new(error)));
    }

    /// The shard an entity lives in.
    pub(crate) fn lead_of(&self, entity: &Entity) -> &Arc<ShardLead> {
        self.shards.of(entity)
    }

    /// The places of committed entities.
    pub(crate) fn stores(&self) -> Committed<'_> {
        Committed { shards: &self.shards, replication: &self.replication }
    }

    /// A reading of the counters.
    pub(crate) fn sample(&self) -> Sample {
        Sample::of(&self.metrics, &self.replication.metrics, self.world.clock.monotonic_ms())
    }

    /// The versions of the cluster that this program reads, and the one under which it writes.
    pub(crate) fn versions(&self) -> NodeVersions {
        let reads = ReadVersions { newest: self.config.replication.reads_up_to, ..ReadVersions::own() };
        NodeVersions { reads, writes: self.replication.version.get() }
    }

    /// The highest mark that this node knows, for a message to another node. `None` if there is none, or messages carry none yet.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.replication.mark_to_send()
    }

    /// Whether there is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.replication.config.is_alone
    }

    /// Whether an entity's shard has no replica here.
    pub(crate) fn is_elsewhere(&self, entity: &Entity) -> bool {
        !self.is_alone() && self.lead_of(entity).replica_here().is_none()
    }

    /// Whether a shard is on other nodes only, as the cluster's table says.
    pub(crate) fn is_remote(&self, lead: &ShardLead) -> bool {
        lead.replica_here().is_none() && !lead.leader_hint.lock().replica_nodes.is_empty()
    }

    /// The known leader of a shard.
    pub(crate) fn leader_of(&self, lead: &ShardLead) -> Option<NodeId> {
        if lead.leads() { Some(self.config.replication.node_id) } else { lead.leader_hint.lock().known() }
    }

    /// `Ok` if every shard has a known leader, else the number of shards without one.
    pub(crate) fn all_have_leaders(&self) -> Result<(), usize> {
        let is_led = |lead: &ShardLead| lead.leads() || lead.known_leader().is_some() || self.is_remote(lead);
        match self.shards.iter().filter(|lead| !is_led(lead)).count() {
            0 => Ok(()),
            without => Err(without),
        }
    }

    /// Whether this node leads a shard that another node could lead.
    pub(crate) fn leads_for_others(&self) -> bool {
        !self.is_alone() && self.shards.iter().any(|lead| lead.leads() && lead.state.voters.load(Ordering::Relaxed) > 1)
    }
}
