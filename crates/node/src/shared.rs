//! What every part of a node shares, and the ways between its parts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU16, Ordering},
};

use boxoffice_core::id::Entity;
use boxoffice_env::World;
use boxoffice_feeds::Feeds;
use boxoffice_replication::{error::ReplicationError, replication::Replication, transfer::Transfers};
use boxoffice_shard::NodeId;
use boxoffice_storage::{data_epoch::EpochTracker, identity::ClusterId};

use crate::{
    admission::Admission,
    cell::{ShardCell, Shards},
    clocks::Clocks,
    config::NodeConfig,
    contain::PanicLog,
    error::NodeError,
    far_feeds::FarFeeds,
    metrics::Metrics,
    pending::{asks::Asked, calls::Calls, histories::Histories, leaderless::Parked},
    pool::Pool,
    samples::{Sample, Samples},
    tasks::Tasks,
    ticket::Ticket,
    timers::Timers,
    watched::Committed,
};

/// The parts of a node that all others reach.
pub(crate) struct Shared {
    pub(crate) config: NodeConfig,
    pub(crate) cluster: ClusterId,
    pub(crate) world: World,
    /// The shards by number; the first is the directory's.
    pub(crate) cells: Arc<Shards>,
    pub(crate) replication: Arc<Replication<Ticket>>,
    pub(crate) timers: Timers,
    pub(crate) pool: Pool,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) feeds: Feeds,
    pub(crate) metrics: Metrics,
    /// Which commands are taken.
    pub(crate) admission: Arc<Admission>,
    pub(crate) panic_log: PanicLog,
    pub(crate) samples: Samples,
    /// The node is going down: no new commands.
    pub(crate) draining: AtomicBool,
    /// Histories being read.
    pub(crate) histories: tokio::sync::Semaphore,
    /// Histories that are read at other nodes.
    pub(crate) far_histories: Histories,
    /// Clients' calls that may be at other nodes. By itself, so that who looks after it does not keep the node alive.
    pub(crate) calls: Arc<Calls>,
    /// Replies, and asks without a reply, for shards whose leader is not known or cannot be sent anything.
    pub(crate) parked: Parked,
    /// Asks that other shards have not replied to. By itself, as the calls are.
    pub(crate) asked: Arc<Asked>,
    /// Snapshots on their way from and to other nodes.
    pub(crate) transfers: Arc<Transfers>,
    /// Feeds of entities that are on other nodes, and of ours that others watch.
    pub(crate) far_feeds: FarFeeds,
    /// What time it is.
    pub(crate) clocks: Clocks,
    /// To which epoch versions belong.
    pub(crate) epochs: Arc<EpochTracker>,
    /// Something happened that the keeper of places wants to look at.
    pub(crate) placing: tokio::sync::Notify,
    /// Shards led here that have reached the target configuration of this version.
    pub(crate) reached: parking_lot::Mutex<std::collections::BTreeMap<u16, u64>>,
    /// Spreads what is sent without knowing a leader.
    pub(crate) turn: AtomicU16,
    /// Why the node cannot go on, once it cannot.
    pub(crate) failed: tokio::sync::watch::Sender<Option<String>>,
    /// When it was started, in monotonic milliseconds.
    pub(crate) started_ms: u64,
}

impl Shared {
    /// The node cannot go on.
    pub(crate) fn fail(&self, error: NodeError) {
        self.replication.replicators.fail(ReplicationError::Owner(Box::new(error)));
    }

    /// The shard an entity lives in.
    pub(crate) fn cell_of(&self, entity: &Entity) -> &Arc<ShardCell> {
        self.cells.of(entity)
    }

    /// Where committed entities are.
    pub(crate) fn stores(&self) -> Committed<'_> {
        Committed { shards: &self.cells, replication: &self.replication }
    }

    /// A reading of the counters.
    pub(crate) fn sample(&self) -> Sample {
        Sample::of(&self.metrics, &self.replication.metrics, self.world.clock.monotonic_ms())
    }

    /// Whether there is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.replication.config.is_alone
    }

    /// Whether an entity's shard has no replica here.
    pub(crate) fn is_elsewhere(&self, entity: &Entity) -> bool {
        !self.is_alone() && self.cell_of(entity).replica_here().is_none()
    }

    /// Whether a shard is on other nodes only, as the cluster's table says.
    pub(crate) fn is_far(&self, cell: &ShardCell) -> bool {
        cell.replica_here().is_none() && !cell.belief.lock().homes.is_empty()
    }

    /// Who leads a shard, as far as is known here.
    pub(crate) fn leader_of(&self, cell: &ShardCell) -> Option<NodeId> {
        if cell.leads() { Some(self.config.node_id) } else { cell.belief.lock().known() }
    }

    /// Whether every shard has a leader, as far as is known here; else how many have none.
    pub(crate) fn all_led(&self) -> Result<(), usize> {
        let is_led = |cell: &ShardCell| cell.leads() || cell.known_leader().is_some() || self.is_far(cell);
        match self.cells.iter().filter(|cell| !is_led(cell)).count() {
            0 => Ok(()),
            without => Err(without),
        }
    }

    /// Whether this node leads a shard that another node could lead.
    pub(crate) fn leads_for_others(&self) -> bool {
        !self.is_alone() && self.cells.iter().any(|cell| cell.leads() && cell.state.voters.load(Ordering::Relaxed) > 1)
    }
}
