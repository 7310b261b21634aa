//! A machine with its disk, clock and current process.

use std::{
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use boxoffice_core::{
    command::{CartCommand, Command, SessionCommand},
    id::Request,
    rules::Rules,
    version::{NEWEST, NEXT},
};
use boxoffice_env::{PeerAddress, World};
use boxoffice_node::{
    admission::OverloadSettings,
    api::{Failure, ReplyTo},
    config::{NodeConfig, ReplicationConfig},
    error::NodeError,
    node::{Node, NodeHandle},
    tasks::Gate,
    verify::verify,
};
use boxoffice_storage::{
    fsync::Fsync,
    identity::{self, ClusterId, Joining, draw_disk_id},
    renewal,
    snapshot_files::KeepRule,
};
use boxoffice_wire::FirstCommand;
use rand::{Rng, rngs::SmallRng};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    clock::{SimClock, Skew},
    disk::SimDisk,
    gateway::{GatewayClient, SimGateway},
    network::SimNetwork,
    rng::{SimRng, rng},
    settings::{Flips, Settings},
    trace::Trace,
    wall_clocks::WallClocks,
};

/// The limit for a node's start without faults, in milliseconds.
const START_MS: u64 = 60_000;
/// Between two kept snapshots of a shard, in milliseconds.
const KEPT_SNAPSHOTS_MS: u64 = 20_000;

/// How long after it was read everything on a disk is read again, in milliseconds.
const SCRUB_MS: u64 = 30_000;
/// The same in a run of flips, which waits for it.
const SCRUB_OF_FLIPS_MS: u64 = 4_000;

/// A machine's role in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It was never a member.
    Spare,
    Member,
    /// A draining member. Its process may end when it is removed.
    Leaving,
    /// It was a member.
    Gone,
}

/// A machine and the process on it.
pub(crate) struct Machine {
    /// The number of its node.
    pub(crate) number: u64,
    /// Held by the task that injects a fault or operates it.
    pub(crate) fault_lock: tokio::sync::Mutex<()>,
    role: Mutex<Role>,
    disk: Mutex<SimDisk>,
    disks: AtomicU64,
    /// The names of snapshots that have a changed byte.
    rotted: Mutex<Vec<String>>,
    seed: u64,
    /// The error of its wall clock.
    pub(crate) skew: Skew,
    /// The error of all wall clocks.
    wall_clocks: Skew,
    drift_ppm: i64,
    rng: Arc<SimRng>,
    config: NodeConfig,
    network: SimNetwork,
    gateway: Arc<SimGateway>,
    trace: Arc<Trace>,
    process: Mutex<Process>,
    /// Processes so far.
    lives: AtomicU64,
    /// The last end of a pause, 0 without one.
    went_on_ms: AtomicU64,
    /// Whether it has the next program, which reads one version more.
    has_next: AtomicBool,
    /// Compared and different checksums of replicas, of all ended processes.
    checksums: [AtomicU64; 2],
    /// Whether its last start was refused because its disk is damaged.
    refused_damage: AtomicBool,
}

#[derive(Default)]
struct Process {
    node: Option<Node>,
    gate: Gate,
    /// Commands that came during a pause.
    waiting: Vec<(Command, Option<Request>, ReplyTo)>,
}

/// A node's address for other nodes and clients. It is not used.
pub(crate) fn address(number: u64) -> String {
    format!("10.0.0.{number}:7000")
}

impl Machine {
    /// A machine that is off.
    pub(crate) fn new(
        number: u64,
        settings: &Settings,
        (trace, wall_clocks): (&Arc<Trace>, &WallClocks),
        network: &SimNetwork,
        gateway: &Arc<SimGateway>,
        (rules, overload): (Rules, OverloadSettings),
    ) -> Machine {
        let mut draw: SmallRng = rng(settings.seed, "machine", number);
        // Every part of a disk has files then.
        let has_flips = settings.flips != Flips::Drawn;
        let config = NodeConfig {
            replication: ReplicationConfig {
                data_dir: PathBuf::from("/data"),
                node_id: number,
                shards: settings.shards,
                log_segment_bytes: 256 << 10,
                checksum_entries: 1,
                snapshot_entries: [50, 500, if has_flips { 150 } else { 5_000 }][draw.random_range(0..3)],
                scrub_ms: Some(if has_flips { SCRUB_OF_FLIPS_MS } else { SCRUB_MS }),
                fsync: if settings.syncs { Fsync::Always } else { Fsync::Never },
                history_archive_bytes: [if has_flips { 1 << 20 } else { 0 }, 1 << 20][draw.random_range(0..2)],
                kept_snapshots: KeepRule { every_ms: KEPT_SNAPSHOTS_MS, count_max: 30 },
                reads_up_to: NEWEST,
                ..ReplicationConfig::default()
            },
            // The task that upgrades the cluster finishes it.
            upgrade_settle_ms: None,
            mark_ms: 4_000,
            renews_itself: true,
            repair_rest_ms: 0,
            peer_address: address(number),
            client_address: address(number),
            rules: Arc::new(rules),
            overload,
            ..NodeConfig::default()
        };
        Machine {
            number,
            fault_lock: tokio::sync::Mutex::new(()),
            role: Mutex::new(Role::Spare),
            disk: Mutex::new(SimDisk::new(rng(settings.seed, "disk", number))),
            disks: AtomicU64::new(1),
            rotted: Mutex::default(),
            seed: settings.seed,
            skew: Skew::default(),
            wall_clocks: wall_clocks.all(),
            drift_ppm: draw.random_range(-200..=200),
            rng: Arc::new(SimRng::new(settings.seed, number)),
            config,
            network: network.clone(),
            gateway: Arc::clone(gateway),
            trace: Arc::clone(trace),
            process: Mutex::default(),
            lives: AtomicU64::new(0),
            went_on_ms: AtomicU64::new(0),
            has_next: AtomicBool::new(false),
            checksums: Default::default(),
            refused_damage: AtomicBool::new(false),
        }
    }

    pub(crate) fn disk(&self) -> SimDisk {
        self.disk.lock().clone()
    }

    /// Replaces its disk with an empty one.
    pub(crate) fn lose_disk(&self) {
        let number = self.number << 32 | self.disks.fetch_add(1, Ordering::Relaxed);
        *self.disk.lock() = SimDisk::new(rng(self.seed, "disk", number));
    }

    /// Copies its disk while the machine is off.
    pub(crate) fn copy_disk(&self) -> SimDisk {
        let number = self.number << 32 | self.disks.fetch_add(1, Ordering::Relaxed);
        self.disk().copy(rng(self.seed, "disk", number))
    }

    pub(crate) fn put_disk(&self, disk: SimDisk) {
        *self.disk.lock() = disk;
    }

    pub(crate) fn role(&self) -> Role {
        *self.role.lock()
    }

    pub(crate) fn set_role(&self, role: Role) {
        *self.role.lock() = role;
    }

    /// Whether its process should run.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self.role(), Role::Member | Role::Leaving)
    }

    fn world(&self) -> World {
        World {
            clock: Arc::new(SimClock::new(
                self.trace.begun(),
                self.drift_ppm,
                [self.skew.clone(), self.wall_clocks.clone()],
            )),
            rng: Arc::<SimRng>::clone(&self.rng),
            net: Arc::new(self.network.net(self.number)),
            disk: Arc::new(self.disk()),
            stores: Arc::new(self.disk()),
            gateway: Arc::new(GatewayClient(Arc::clone(&self.gateway))),
        }
    }

    /// The identity of its data directory, drawn before the node joins.
    pub(crate) fn disk_identity(&self) -> u128 {
        draw_disk_id(&self.world(), &self.config.replication.data_dir).expect("a disk without trouble")
    }

    /// Starts the process for the first time, as a new member.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn join(&self, cluster: u128, peers: &[u64], disk: u128, generation_min: u64) -> Result<(), String> {
        self.set_role(Role::Member);
        let peers = peers.iter().map(|&node| PeerAddress { node, address: address(node) }).collect();
        let joining = Joining { cluster: ClusterId(cluster), disk, peers, generation_min };
        self.start_with(Some(joining))
    }

    /// Starts the process.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn start(&self) -> Result<(), String> {
        self.start_with(None)
    }

    fn start_with(&self, joining: Option<Joining>) -> Result<(), String> {
        let gate = Gate::new();
        let mut config = self.config.clone();
        config.replication.joining = joining;
        if self.has_next() {
            (config.replication.reads_up_to, config.program) = (NEXT, "next".into());
        }
        let life = self.lives.load(Ordering::Relaxed);
        config.replication.replicators = rng(self.seed, "replicators", self.number << 32 | life).random_range(1..=3);
        let node = Node::start_as_tasks(config, self.world(), &Handle::current(), gate.clone());
        let is_damage = node.as_ref().is_err_and(NodeError::is_damage);
        self.refused_damage.store(is_damage, Ordering::Relaxed);
        let node = node.map_err(|error| {
            self.network.end(self.number);
            error.to_string()
        })?;
        self.trace.note(&format!("node {} starts", self.number));
        *self.process.lock() = Process { node: Some(node), gate, waiting: Vec::new() };
        self.lives.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether its process has found its disk damaged, or did not start because of that.
    pub(crate) fn found_damage(&self) -> bool {
        let handle = self.process.lock().node.as_ref().map(|node| node.handle().clone());
        let Some(handle) = handle else { return self.refused_damage.load(Ordering::Relaxed) };
        match pin!(handle.failure()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(failed) => failed.is_damage,
            Poll::Pending => false,
        }
    }

    /// Notes that its disk is damaged, while it is off. Returns the id of the disk, and the one that the next is to have.
    pub(crate) fn note_damage(&self, why: &str) -> (u128, u128) {
        let (world, dir) = (self.world(), &self.config.replication.data_dir);
        let identity = identity::read(&*world.disk, dir).expect("a disk").expect("an identity");
        let finding = renewal::note(&world, dir, &identity, (why, false)).expect("a disk without trouble");
        (finding.disk, finding.next)
    }

    /// Replaces its disk, as the cluster has granted it, and starts the process.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn renew(&self, cluster: u128, peers: &[u64], generation_min: u64) -> Result<(), String> {
        let (world, dir) = (self.world(), &self.config.replication.data_dir);
        let identity = identity::read(&*world.disk, dir).expect("a disk").expect("an identity");
        let finding = renewal::noted(&*world.disk, dir, &identity).expect("a disk").expect("it was noted");
        let peers = peers.iter().map(|&node| PeerAddress { node, address: address(node) }).collect();
        let joining = Joining { cluster: ClusterId(cluster), disk: finding.next, peers, generation_min };
        renewal::renew(&world, dir, (&identity, &finding), &joining).map_err(|error| error.to_string())?;
        self.start()
    }

    /// Gives it the next program, or the one before, for its next start.
    pub(crate) fn set_program(&self, has_next: bool) {
        self.has_next.store(has_next, Ordering::Relaxed);
    }

    /// Whether it has the next program.
    pub(crate) fn has_next(&self) -> bool {
        self.has_next.load(Ordering::Relaxed)
    }

    /// The handle of a process that runs and is not paused.
    pub(crate) fn handle(&self) -> Option<NodeHandle> {
        let process = self.process.lock();
        process.node.as_ref().filter(|_| !process.gate.is_shut()).map(|node| node.handle().clone())
    }

    /// The number of its current process.
    pub(crate) fn life(&self) -> u64 {
        self.lives.load(Ordering::Relaxed)
    }

    /// Compared and different checksums of replicas.
    pub(crate) fn checksums(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.checksums[at].load(Ordering::Relaxed))
    }

    /// Whether there is no process, not even a paused one.
    pub(crate) fn is_off(&self) -> bool {
        self.process.lock().node.is_none()
    }

    /// Resolves with the reason when the process fails. Without a process it never does.
    pub(crate) async fn failed(&self) -> String {
        let handle = self.process.lock().node.as_ref().map(|node| node.handle().clone());
        match handle {
            Some(handle) => handle.failed().await,
            None => std::future::pending().await,
        }
    }

    /// The reason of a failed process.
    pub(crate) fn failure(&self) -> Option<String> {
        match pin!(self.failed()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reason) => Some(reason),
            Poll::Pending => None,
        }
    }

    /// Kills the process. Its writes stay.
    pub(crate) fn kill(&self) {
        self.end("is killed", SimNetwork::end_of_process);
        self.disk().process_end();
    }

    /// A byte of this snapshot was changed, and an older one took its place. The file stays until there are two newer ones.
    pub(crate) fn note_rotted(&self, snapshot: &str) {
        self.rotted.lock().push(snapshot.to_owned());
    }

    /// Verifies its data directory while it is off. Returns what is wrong, besides snapshots that the simulation has damaged.
    pub(crate) fn verify(&self) -> Vec<String> {
        let rotted = self.rotted.lock();
        let is_news = |finding: &String| !rotted.iter().any(|snapshot| finding.contains(snapshot));
        match verify(&self.world(), &self.config.replication.data_dir, &[]) {
            Ok(verified) => verified.findings.into_iter().filter(is_news).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    pub(crate) fn power_cut(&self) {
        self.end("loses its power", SimNetwork::end);
        self.disk().power_cut();
    }

    fn end(&self, how: &str, of_links: fn(&SimNetwork, u64)) {
        let process = std::mem::take(&mut *self.process.lock());
        if let Some(node) = &process.node {
            let metrics = node.handle().replication_metrics();
            let counts = [&metrics.checksums_compared, &metrics.checksums_different];
            for (all, count) in self.checksums.iter().zip(counts) {
                all.fetch_add(count.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.trace.note(&format!("node {} {how}", self.number));
        }
        of_links(&self.network, self.number);
        // Waiting clients receive `unknown`. That may call back, so the lock is free.
        drop(process);
    }

    /// Pauses the process until [`Machine::resume`]. Messages for it wait.
    pub(crate) fn pause(&self) {
        self.trace.note(&format!("node {} stands still", self.number));
        self.process.lock().gate.shut();
        self.network.pause(self.number);
    }

    /// Resumes the process with the waiting messages of other nodes, and then those of clients.
    pub(crate) fn resume(&self) {
        self.hear();
        self.go_on();
    }

    /// Resumes the process with the waiting messages of clients. Messages of other nodes wait until [`Machine::hear`].
    pub(crate) fn go_on(&self) {
        self.trace.note(&format!("node {} goes on", self.number));
        self.went_on_ms.store(self.trace.now_ms(), Ordering::Relaxed);
        let (waiting, handle) = {
            let mut process = self.process.lock();
            process.gate.open();
            (std::mem::take(&mut process.waiting), process.node.as_ref().map(|node| node.handle().clone()))
        };
        let Some(handle) = handle else { return };
        for (command, request, reply) in waiting {
            hand_in(&handle, command, request, reply);
        }
    }

    /// Delivers the waiting messages of other nodes.
    pub(crate) fn hear(&self) {
        self.network.resume(self.number);
    }

    /// The last end of a pause in milliseconds of the run, 0 without one.
    pub(crate) fn went_on_ms(&self) -> u64 {
        self.went_on_ms.load(Ordering::Relaxed)
    }

    /// Whether there is a process that is not paused and has not failed.
    pub(crate) fn runs(&self) -> bool {
        self.handle().is_some() && self.failure().is_none()
    }

    /// Submits a command as a connection does.
    pub(crate) fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo) {
        let mut process = self.process.lock();
        let Some(node) = &process.node else {
            drop(process);
            return reply.answer(Err(Failure::NotReady));
        };
        if process.gate.is_shut() {
            return process.waiting.push((command, request, reply));
        }
        let handle = node.handle().clone();
        drop(process);
        hand_in(&handle, command, request, reply);
    }

    /// Waits until the process serves.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) async fn serves(&self) -> Result<(), String> {
        let ready = async {
            loop {
                match self.handle().map(|handle| handle.ready()) {
                    Some(Ok(())) => return,
                    Some(Err(_)) | None => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        tokio::select! {
            biased;
            reason = self.failed() => Err(reason),
            in_time = timeout(Duration::from_millis(START_MS), ready) => {
                in_time.map_err(|_| format!("it did not serve within {START_MS} ms"))
            }
        }
    }
}

/// Submits a command as a connection does. An overloaded node refuses it by its head or by all of it.
fn hand_in(handle: &NodeHandle, command: Command, request: Option<Request>, reply: ReplyTo) {
    let first = match (&command, request) {
        (Command::Cart(cart, CartCommand::Open { .. } | CartCommand::Hold { .. }), Some(request)) => {
            Some(FirstCommand::OpenCart { cart: *cart, rid: request.id, patience_ms: reply.patience_ms() })
        }
        (Command::Cart(_, CartCommand::Get | CartCommand::Order), _)
        | (Command::Session(_, SessionCommand::Get | SessionCommand::Map), _) => Some(FirstCommand::Read),
        _ => None,
    };
    let shed = handle.sheds_first(&|| first, 0).or_else(|| handle.sheds(&command, request, reply.times()));
    match shed {
        Some(retry_after_ms) => reply.answer(Err(Failure::Busy(retry_after_ms))),
        None => handle.submit(command, request, reply),
    }
}
