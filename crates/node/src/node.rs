//! A node from start to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use boxoffice_core::{
    command::{Command, VenueCommand},
    id::Request,
    stored,
    version::{OLDEST_READ, WriteVersion},
};
use boxoffice_env::{Local, World};
use boxoffice_feeds::{FeedSettings, Feeds};
use boxoffice_replication::{
    runner::Runner,
    running::{Opened, Running},
};
use boxoffice_storage::identity::Identity;
use boxoffice_wire::{
    FirstCommand,
    limits::{HALL_FRAME_BYTES_MAX, IMPORT_FRAME_BYTES_MAX},
};
use smol_str::{SmolStr, format_smolstr};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    actor,
    actor_pool::ActorPool,
    admission::Admission,
    api::{CallTimes, ReplyTo},
    backup_reads::BackupReads,
    clocks::Clocks,
    config::NodeConfig,
    contain::PanicLog,
    disk_pace::DiskPace,
    error::{Failed, NodeError},
    feed_source::Watched,
    history_query::HISTORIES_MAX,
    metrics::Metrics,
    outbound::Outbound,
    peer_receiver::PeerReceiver,
    pending::histories::PendingReads,
    placement,
    remote_feeds::RemoteFeeds,
    replicated::{self, CommittedTurns, Replicated},
    routing,
    samples::Samples,
    shard_lead::{ShardLead, Shards},
    shared::Shared,
    tasks::{Gate, Tasks},
    timers::Timers,
    upkeep,
};

/// How long a stopping node waits for others to take over its leaderships, in milliseconds.
const HAND_OVER_MS: u64 = 2_000;

/// The two runtimes of a node. Selling must not wait for watching.
#[derive(Clone)]
pub struct Runtimes {
    /// Actors and the connections that sell.
    pub selling: Handle,
    /// Feeds and the connections that watch. A round of changes for thousands of them does not delay sales.
    pub watching: Handle,
}

/// A running node. [`Node::stop`] ends it in good order. Dropping it is a crash.
pub struct Node {
    handle: NodeHandle,
    /// Taken when it stops.
    replication: Option<Running>,
}

/// A handle of a node. Any number of users may have a clone.
#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) identity: Identity,
}

impl Node {
    /// Starts a node from its data directory, which is created if it does not exist. It serves as soon as its shards have
    /// leaders ([`NodeHandle::ready`]).
    ///
    /// # Errors
    /// [`NodeError`]: the directory is in use, another node's, damaged or cannot be written.
    pub fn start(config: NodeConfig, world: World, runtimes: &Runtimes) -> Result<Node, NodeError> {
        Node::start_with(config, world, runtimes, None)
    }

    /// As [`Node::start`], without any thread. The whole node consists of tasks of one runtime, and while the gate is shut none
    /// of them goes on. If the runtime has one thread and its time is paused, and the world is simulated, everything happens in
    /// one order. Dropping the node ends its tasks and actors.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_as_tasks(config: NodeConfig, world: World, runtime: &Handle, gate: Gate) -> Result<Node, NodeError> {
        let runtimes = Runtimes { selling: runtime.clone(), watching: runtime.clone() };
        Node::start_with(config, world, &runtimes, Some(gate))
    }

    fn start_with(
        mut config: NodeConfig,
        world: World,
        runtimes: &Runtimes,
        gate: Option<Gate>,
    ) -> Result<Node, NodeError> {
        Arc::make_mut(&mut config.rules).gateway = world.gateway.is_configured();
        let tasks = Arc::new(Tasks::new(runtimes.selling.clone(), runtimes.watching.clone(), gate));
        config.replication.is_alone = config.peer_address.is_empty();
        let opened = Opened::open(config.replication.clone(), &world, runner(&tasks))?;
        let identity = opened.directory().identity().clone();
        let epochs = Arc::clone(&opened.epochs);
        let admission = Arc::new(Admission::new(config.overload, world.clock.monotonic_ms()));
        let lead = |state: &Arc<_>| ShardLead::new(Arc::clone(state), Arc::clone(&admission), Arc::clone(&world.clock));
        let shards = opened.replication.shards.iter().map(lead).map(Arc::new).collect();
        let shards = Arc::new(Shards::new(shards));
        let epoch = epochs.epoch();
        let (coalesce_ms, depth) = (config.feed_tick_ms, config.feed_depth);
        let feed_settings = FeedSettings { coalesce_ms, depth, epoch, ..FeedSettings::default() };
        let shared = Arc::new_cyclic(|weak: &std::sync::Weak<Shared>| {
            let feeds = Feeds::new(Arc::new(Watched(weak.clone())), feed_settings, Arc::clone(&world.clock));
            let replication = Arc::clone(&opened.replication);
            Shared {
                remote_feeds: Arc::new(RemoteFeeds::new(
                    world.clone(),
                    Arc::clone(&shards),
                    Arc::clone(&replication),
                    feeds.clone(),
                )),
                feeds,
                replication,
                heard_version: WriteVersion::new(OLDEST_READ),
                timers: Timers::default(),
                pool: ActorPool::default(),
                tasks,
                metrics: Metrics::default(),
                admission,
                panic_log: PanicLog::default(),
                samples: Samples::default(),
                draining: AtomicBool::new(false),
                backups: BackupReads::default(),
                remote_histories: PendingReads::default(),
                remote_states: PendingReads::default(),
                calls: Arc::default(),
                outbound: Outbound::new(&world, &shards, config.replication.node_id, config.replication.is_alone),
                transfers: Arc::clone(&opened.transfers),
                clocks: Clocks::new(&*world.clock),
                disk_pace: DiskPace::default(),
                epochs,
                placement_changed: Notify::new(),
                reached: Mutex::default(),
                histories: tokio::sync::Semaphore::new(HISTORIES_MAX),
                failed: tokio::sync::watch::Sender::new(None),
                started_ms: world.clock.monotonic_ms(),
                cluster: identity.cluster,
                config,
                world,
                shards,
            }
        });
        let (committed, turns) = mpsc::unbounded_channel();
        shared.tasks.sell(relay(Arc::clone(&shared), turns));
        let feeds = shared.feeds.clone();
        shared.tasks.watch(async move { feeds.run().await });
        shared.tasks.sell(upkeep::run(Arc::downgrade(&shared)));
        let local = Local { cluster: identity.cluster.0, node: identity.node, disk: identity.disk };
        shared.world.net.start(local, Arc::new(PeerReceiver(Arc::downgrade(&shared))), opened.handle());
        shared.tasks.sell(routing::run(Arc::downgrade(&shared)));
        shared.tasks.sell(routing::ask_again(Arc::downgrade(&shared)));
        shared.tasks.sell(opened.transfer());
        // A node that no other can reach founds no cluster. It does once it is given an address.
        if !shared.is_alone() {
            shared.tasks.sell(placement::run(Arc::downgrade(&shared), identity.clone()));
        }
        let replication = opened.start(&Replicated::new(Arc::clone(&shared), committed))?;
        Ok(Node { handle: NodeHandle { shared, identity }, replication: Some(replication) })
    }

    /// The handle of this node.
    pub fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Ends the node in good order. It takes no new commands, waits up to `timeout_ms` for the answers under way, writes its
    /// decisions, and stops.
    ///
    /// # Errors
    /// Why the replication had ended before, or could not write the rest.
    pub async fn stop(mut self, timeout_ms: u64) -> Result<(), NodeError> {
        let shared = Arc::clone(&self.handle.shared);
        shared.draining.store(true, Ordering::Relaxed);
        shared.placement_changed.notify_one();
        let began_ms = shared.world.clock.monotonic_ms();
        let until_ms = began_ms + timeout_ms;
        // Other nodes, if there are any, take over its leaderships before it ends.
        while shared.leads_for_others() && shared.world.clock.monotonic_ms() < began_ms + timeout_ms.min(HAND_OVER_MS) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        while shared.shards.iter().any(|lead| lead.under_way() > 0) && shared.world.clock.monotonic_ms() < until_ms {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        shared.replication.replicators.stop();
        let running = self.replication.take().expect("a node stops once");
        let result = running.ended().await.map_err(|error| replicated::node_error(&shared, error));
        for lead in shared.shards.iter() {
            let ended = lead.leader_state.lock().end(|actor| {
                actor.mailbox.stop(None);
                true
            });
            drop(ended);
        }
        shared.pool.stop();
        result
    }
}

impl Drop for Node {
    /// Only tasks can be aborted. A process with threads ends as a whole.
    fn drop(&mut self) {
        let shared = &self.handle.shared;
        if !shared.tasks.only() {
            // A simulation sees every panic itself.
            #[cfg(debug_assertions)]
            crate::contain::planted::check(&shared.metrics);
            return;
        }
        shared.draining.store(true, Ordering::Relaxed);
        shared.tasks.abort();
        for lead in shared.shards.iter() {
            let ended = lead.leader_state.lock().end(|actor| {
                actor.mailbox.kill();
                true
            });
            drop(ended);
        }
        shared.pool.kill();
        // The callers of queued inputs hear `unknown`.
        shared.replication.replicators.clear();
    }
}

/// Threads, unless the whole node consists of tasks.
fn runner(tasks: &Arc<Tasks>) -> Runner {
    let spawn = Arc::clone(tasks);
    match tasks.only() {
        true => Runner::Tasks(Arc::new(move |task| spawn.sell(task))),
        false => Runner::Threads,
    }
}

/// Carries out effects that were held back until their commit, on the selling runtime.
async fn relay(shared: Arc<Shared>, mut turns: mpsc::UnboundedReceiver<CommittedTurns>) {
    while let Some(batch) = turns.recv().await {
        shared.admission.batch_taken(!turns.is_empty(), shared.world.clock.monotonic_ms());
        for (completion, index) in batch {
            actor::release_effects(&shared, completion, index);
        }
    }
}

impl NodeHandle {
    /// Takes a command. Its answer goes to `reply`. Never blocks.
    pub fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo) {
        routing::submit(&self.shared, command, request, reply);
    }

    /// Whether the turn of a command fits into the node's log.
    ///
    /// # Errors
    /// Why not, with the name of the setting.
    pub fn check_size(&self, command: &Command) -> Result<(), SmolStr> {
        let config = &self.shared.config.replication;
        let bytes_max = config.command_bytes_max();
        let frame_bytes_max = match command {
            Command::Venue(_, VenueCommand::PutHall { .. }) => HALL_FRAME_BYTES_MAX,
            _ => IMPORT_FRAME_BYTES_MAX,
        };
        // Stored, a command has about as many bytes as its frame, and never twice as many.
        if bytes_max >= 2 * frame_bytes_max {
            return Ok(());
        }
        let bytes = stored::append(command, Vec::new()).len();
        match bytes <= bytes_max {
            true => Ok(()),
            false => Err(format_smolstr!(
                "stored it has {bytes} bytes, and with `log.segment_bytes` = {} at most {bytes_max} fit",
                config.log_segment_bytes
            )),
        }
    }

    /// Whether a command that comes now is shed because of overload, and then after how many milliseconds its client should try
    /// again. Such a command is counted, and must not be submitted. Asking costs less than submitting.
    pub fn sheds(&self, command: &Command, request: Option<Request>, times: CallTimes) -> Option<u32> {
        routing::sheds(&self.shared, command, request, times)
    }

    /// The same for a command of which only the head was read. `command` returns its kind, if that must be known. With `None` the
    /// whole command may still be shed.
    pub fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>, unread_ms: u64) -> Option<u32> {
        routing::sheds_first(&self.shared, command, unread_ms)
    }

    /// Whether the node refuses commands because of overload.
    pub fn is_shedding(&self) -> bool {
        self.shared.admission.is_shedding()
    }

    /// The live feeds of this node.
    pub fn feeds(&self) -> &Feeds {
        &self.shared.feeds
    }

    /// The node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The counters of its replication.
    pub fn replication_metrics(&self) -> &boxoffice_replication::metrics::Metrics {
        &self.shared.replication.metrics
    }

    /// The wall clock of this node, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.shared.world.clock.wall_ms()
    }

    /// The identity of this node.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The node's settings.
    pub fn config(&self) -> &NodeConfig {
        &self.shared.config
    }

    /// Whether every shard can be sold from.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), String> {
        if self.shared.draining.load(Ordering::Relaxed) {
            return Err("draining".into());
        }
        self.shared.all_have_leaders().map_err(|without| format!("{without} shards have no leader yet"))?;
        if self.shared.replication.is_read_only() {
            return Err("read-only: the disk is full".into());
        }
        Ok(())
    }

    /// What of the disk cannot be read here, in words. The node sells everything else. `None` if nothing is known to be damaged.
    pub fn damage(&self) -> Option<String> {
        self.shared.replication.damage()
    }

    /// Resolves with the reason when the node cannot go on.
    pub async fn failed(&self) -> String {
        self.failure().await.why
    }

    /// The same, and whether the data directory is damaged.
    pub async fn failure(&self) -> Failed {
        let mut failed = self.shared.failed.subscribe();
        let reason = failed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The sender lives in what this handle holds.
            None => std::future::pending().await,
        }
    }
}
