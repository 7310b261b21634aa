//! A machine: what a node's process runs on, and what outlives it.

use std::{
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use boxoffice_core::{
    command::{CartCommand, Command, SessionCommand},
    id::Request,
};
use boxoffice_env::{PeerAddress, World};
use boxoffice_node::{
    config::NodeConfig,
    door::{Failure, ReplyTo},
    node::{Node, NodeHandle},
    tasks::Gate,
};
use boxoffice_storage::{
    fsync::Fsync,
    identity::{ClusterId, Joining, draw_disk_id},
};
use boxoffice_wire::FirstCommand;
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use crate::{
    clock::{SimClock, Skew},
    disk::SimDisk,
    gateway::{GatewayClient, SimGateway},
    network::SimNetwork,
    rng::{SimRng, rng},
    settings::Settings,
    trace::Trace,
    wall_clocks::WallClocks,
};

/// How long a node may take from its start until it serves, when nothing is in its way.
const START_MS: u64 = 60_000;

/// What a machine is to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing yet.
    Spare,
    /// A member.
    Member,
    /// A member that is drained: its process may end, since it is none any more.
    Leaving,
    /// It was a member.
    Gone,
}

/// A machine and the process on it.
pub(crate) struct Machine {
    /// The number of its node.
    pub(crate) number: u64,
    /// Held by the task that does something to it.
    pub(crate) fault_lock: tokio::sync::Mutex<()>,
    /// What it is to the cluster.
    role: Mutex<Role>,
    /// Its disk.
    disk: Mutex<SimDisk>,
    disks: AtomicU64,
    seed: u64,
    /// How wrong its wall clock is.
    pub(crate) skew: Skew,
    /// How far all walls are ahead.
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
    /// When it last went on after it had stood still; 0 if it never has.
    went_on_ms: AtomicU64,
    /// Checksums of replicas that its processes compared with other nodes', and those that were different; of the one
    /// that runs when it ends.
    checksums: [AtomicU64; 2],
}

#[derive(Default)]
struct Process {
    node: Option<Node>,
    gate: Gate,
    /// Commands that came while it stood still.
    waiting: Vec<(Command, Option<Request>, ReplyTo)>,
}

/// Where a node is reached, by other nodes and by clients. Not looked at.
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
    ) -> Machine {
        let mut draw: SmallRng = rng(settings.seed, "machine", number);
        let rules = settings.rules();
        let config = NodeConfig {
            data_dir: PathBuf::from("/data"),
            node_id: number,
            peer_address: address(number),
            client_address: address(number),
            shards: settings.shards,
            log_segment_bytes: 256 << 10,
            checksum_entries: 1,
            snapshot_entries: [50, 500, 5_000][draw.random_range(0..3)],
            fsync: if settings.syncs { Fsync::Always } else { Fsync::Never },
            history_archive_bytes: [0, 1 << 20][draw.random_range(0..2)],
            rules: Arc::new(rules),
            overload: settings.overload(),
            ..NodeConfig::default()
        };
        Machine {
            number,
            fault_lock: tokio::sync::Mutex::new(()),
            role: Mutex::new(Role::Spare),
            disk: Mutex::new(SimDisk::new(rng(settings.seed, "disk", number))),
            disks: AtomicU64::new(1),
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
            checksums: Default::default(),
        }
    }

    /// Its disk.
    pub(crate) fn disk(&self) -> SimDisk {
        self.disk.lock().clone()
    }

    /// It has another disk, an empty one.
    pub(crate) fn lose_disk(&self) {
        let number = self.number << 32 | self.disks.fetch_add(1, Ordering::Relaxed);
        *self.disk.lock() = SimDisk::new(rng(self.seed, "disk", number));
    }

    /// A copy of its disk, of a machine that is off.
    pub(crate) fn copy_disk(&self) -> SimDisk {
        let number = self.number << 32 | self.disks.fetch_add(1, Ordering::Relaxed);
        self.disk().copy(rng(self.seed, "disk", number))
    }

    /// It has this disk from now on.
    pub(crate) fn put_disk(&self, disk: SimDisk) {
        *self.disk.lock() = disk;
    }

    /// What it is to the cluster.
    pub(crate) fn role(&self) -> Role {
        *self.role.lock()
    }

    /// From now on it is this.
    pub(crate) fn set_role(&self, role: Role) {
        *self.role.lock() = role;
    }

    /// Whether its process is to run.
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

    /// The identity of its data directory, drawn before the node is one of a cluster.
    pub(crate) fn disk_identity(&self) -> u128 {
        draw_disk_id(&self.world(), &self.config.data_dir).expect("a disk without trouble")
    }

    /// Starts the process for the first time, in the cluster that took it in.
    ///
    /// # Errors
    /// Why it does not start, in words.
    pub(crate) fn join(&self, cluster: u128, peers: &[u64], disk: u128, generation_min: u64) -> Result<(), String> {
        self.set_role(Role::Member);
        let peers = peers.iter().map(|&node| PeerAddress { node, address: address(node) }).collect();
        let joining = Joining { cluster: ClusterId(cluster), disk, peers, generation_min };
        self.start_with(Some(joining))
    }

    /// Starts the process.
    ///
    /// # Errors
    /// Why it does not start, in words.
    pub(crate) fn start(&self) -> Result<(), String> {
        self.start_with(None)
    }

    fn start_with(&self, joining: Option<Joining>) -> Result<(), String> {
        let gate = Gate::new();
        let mut config = NodeConfig { joining, ..self.config.clone() };
        let life = self.lives.load(Ordering::Relaxed);
        config.replicating = rng(self.seed, "replicators", self.number << 32 | life).random_range(1..=3);
        let node = Node::start_as_tasks(config, self.world(), &Handle::current(), gate.clone());
        let node = node.map_err(|error| {
            self.network.end(self.number);
            error.to_string()
        })?;
        self.trace.note(&format!("node {} starts", self.number));
        *self.process.lock() = Process { node: Some(node), gate, waiting: Vec::new() };
        self.lives.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The way to the process, if there is one and it does not stand still.
    pub(crate) fn handle(&self) -> Option<NodeHandle> {
        let process = self.process.lock();
        process.node.as_ref().filter(|_| !process.gate.is_shut()).map(|node| node.handle().clone())
    }

    /// Which of its processes this is.
    pub(crate) fn life(&self) -> u64 {
        self.lives.load(Ordering::Relaxed)
    }

    /// Checksums of replicas that its processes compared, and those that were different.
    pub(crate) fn checksums(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.checksums[at].load(Ordering::Relaxed))
    }

    /// Whether there is no process, not even one that stands still.
    pub(crate) fn is_off(&self) -> bool {
        self.process.lock().node.is_none()
    }

    /// Resolves with the reason when the process cannot go on; never if there is none.
    pub(crate) async fn failed(&self) -> String {
        let handle = self.process.lock().node.as_ref().map(|node| node.handle().clone());
        match handle {
            Some(handle) => handle.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Why the process cannot go on, if there is one that cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        match pin!(self.failed()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reason) => Some(reason),
            Poll::Pending => None,
        }
    }

    /// Ends the process where it stands: a kill. What it wrote stays.
    pub(crate) fn kill(&self) {
        self.end("is killed", SimNetwork::end_of_process);
        self.disk().process_end();
    }

    /// The power goes.
    pub(crate) fn power_cut(&self) {
        self.end("loses its power", SimNetwork::end);
        self.disk().power_cut();
    }

    fn end(&self, how: &str, of_links: fn(&SimNetwork, u64)) {
        let process = std::mem::take(&mut *self.process.lock());
        if let Some(node) = &process.node {
            let metrics = node.handle().metrics();
            let counts = [&metrics.checksums_compared, &metrics.checksums_different];
            for (all, count) in self.checksums.iter().zip(counts) {
                all.fetch_add(count.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.trace.note(&format!("node {} {how}", self.number));
        }
        of_links(&self.network, self.number);
        // Who waits for an answer hears `unknown`; outside the lock, since that may call back.
        drop(process);
    }

    /// Stops the process where it stands until [`Machine::resume`]; what is sent to it waits.
    pub(crate) fn pause(&self) {
        self.trace.note(&format!("node {} stands still", self.number));
        self.process.lock().gate.shut();
        self.network.pause(self.number);
    }

    /// It goes on, with what other nodes have sent meanwhile, and then with what clients have.
    pub(crate) fn resume(&self) {
        self.hear();
        self.go_on();
    }

    /// It goes on, with what clients have sent meanwhile; what other nodes have sent still waits, until
    /// [`Machine::hear`].
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

    /// What other nodes have sent while it stood still is read.
    pub(crate) fn hear(&self) {
        self.network.resume(self.number);
    }

    /// When it last went on after it had stood still, in milliseconds of the run; 0 if it never has.
    pub(crate) fn went_on_ms(&self) -> u64 {
        self.went_on_ms.load(Ordering::Relaxed)
    }

    /// Whether there is a process that goes on by itself.
    pub(crate) fn runs(&self) -> bool {
        self.handle().is_some() && self.failure().is_none()
    }

    /// Hands in a command as if a connection brought it.
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
    /// Why it does not, in words.
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

/// Hands in a command as a connection does: an overloaded node refuses it after a look at its head, or at all of it, or
/// takes it.
fn hand_in(handle: &NodeHandle, command: Command, request: Option<Request>, reply: ReplyTo) {
    let first = match (&command, request) {
        (Command::Cart(cart, CartCommand::Open { .. } | CartCommand::Hold { .. }), Some(request)) => {
            Some(FirstCommand::OpenCart { cart: *cart, rid: request.id })
        }
        (Command::Cart(_, CartCommand::Get | CartCommand::Order), _)
        | (Command::Session(_, SessionCommand::Get | SessionCommand::Map), _) => Some(FirstCommand::Read),
        _ => None,
    };
    let shed = handle.sheds_first(&|| first).or_else(|| handle.sheds(&command, request));
    match shed {
        Some(retry_after_ms) => reply.answer(Err(Failure::Busy(retry_after_ms))),
        None => handle.submit(command, request, reply),
    }
}
