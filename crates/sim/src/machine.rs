//! A machine: what a node's process runs on, and what outlives it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use boxoffice_core::{command::Command, id::Request, time::Rules};
use boxoffice_node::{
    config::NodeConfig,
    door::{Failure, ReplyTo},
    node::{Node, NodeHandle},
    tasks::Gate,
    world::{NoGateway, NoPeers, World},
};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use crate::{
    clock::{SimClock, Skew},
    dice::{SimRng, dice},
    disk::SimDisk,
    settings::Settings,
    trace::Trace,
};

/// How long a node may take from its start until it serves, when nothing is in its way.
const START_MS: u64 = 60_000;

/// A machine and the process on it.
pub(crate) struct Machine {
    /// The number of its node.
    pub(crate) number: u64,
    /// Its disk.
    pub(crate) disk: SimDisk,
    /// How wrong its wall clock is.
    pub(crate) skew: Skew,
    drift_ppm: i64,
    rng: Arc<SimRng>,
    config: NodeConfig,
    trace: Arc<Trace>,
    process: Mutex<Process>,
}

#[derive(Default)]
struct Process {
    node: Option<Node>,
    gate: Gate,
    /// Commands that came while it stood still.
    waiting: Vec<(Command, Option<Request>, ReplyTo)>,
}

impl Machine {
    /// A machine that is off.
    pub(crate) fn new(number: u64, settings: &Settings, trace: &Arc<Trace>) -> Machine {
        let mut lots: SmallRng = dice(settings.seed, "machine", number);
        let rules = Rules { hold_ttl_ms: settings.hold_ttl_ms, ..Rules::default() };
        let config = NodeConfig {
            data_dir: PathBuf::from("/data"),
            node_id: number,
            shards: settings.shards,
            log_segment_bytes: 256 << 10,
            snapshot_entries: [50, 500, 5_000][lots.random_range(0..3)],
            history_archive_bytes: [0, 1 << 20][lots.random_range(0..2)],
            rules: Arc::new(rules),
            ..NodeConfig::default()
        };
        Machine {
            number,
            disk: SimDisk::new(dice(settings.seed, "disk", number)),
            skew: Skew::default(),
            drift_ppm: lots.random_range(-200..=200),
            rng: Arc::new(SimRng::new(settings.seed, number)),
            config,
            trace: Arc::clone(trace),
            process: Mutex::default(),
        }
    }

    /// Starts the process.
    ///
    /// # Errors
    /// Why it does not start, in words.
    pub(crate) fn start(&self) -> Result<(), String> {
        let gate = Gate::new();
        let world = World {
            clock: Arc::new(SimClock::new(self.trace.begun(), self.drift_ppm, self.skew.clone())),
            rng: Arc::<SimRng>::clone(&self.rng),
            net: Arc::new(NoPeers),
            disk: Arc::new(self.disk.clone()),
            stores: Arc::new(self.disk.clone()),
            gateway: Arc::new(NoGateway),
        };
        let node = Node::start_as_tasks(self.config.clone(), world, &Handle::current(), gate.clone());
        let node = node.map_err(|error| error.to_string())?;
        self.trace.note(&format!("node {} starts", self.number));
        *self.process.lock() = Process { node: Some(node), gate, waiting: Vec::new() };
        Ok(())
    }

    /// The way to the process, if there is one and it does not stand still.
    pub(crate) fn handle(&self) -> Option<NodeHandle> {
        let process = self.process.lock();
        process.node.as_ref().filter(|_| !process.gate.is_shut()).map(|node| node.handle().clone())
    }

    /// Resolves with the reason when the process cannot go on; never if there is none.
    pub(crate) async fn failed(&self) -> String {
        let handle = self.process.lock().node.as_ref().map(|node| node.handle().clone());
        match handle {
            Some(handle) => handle.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the process where it stands: a kill. What it wrote stays.
    pub(crate) fn kill(&self) {
        self.end("is killed");
        self.disk.process_end();
    }

    /// The power goes.
    pub(crate) fn power_cut(&self) {
        self.end("loses its power");
        self.disk.power_cut();
    }

    fn end(&self, how: &str) {
        let process = std::mem::take(&mut *self.process.lock());
        if process.node.is_some() {
            self.trace.note(&format!("node {} {how}", self.number));
        }
        // Whoever waits for an answer hears `unknown`; outside the lock, since that may call back.
        drop(process);
    }

    /// Stops the process where it stands until [`Machine::resume`]; what is sent to it waits.
    pub(crate) fn pause(&self) {
        self.trace.note(&format!("node {} stands still", self.number));
        self.process.lock().gate.shut();
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        self.trace.note(&format!("node {} goes on", self.number));
        let (waiting, handle) = {
            let mut process = self.process.lock();
            process.gate.open();
            (std::mem::take(&mut process.waiting), process.node.as_ref().map(|node| node.handle().clone()))
        };
        let Some(handle) = handle else { return };
        for (command, request, reply) in waiting {
            handle.submit(command, request, reply);
        }
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
        handle.submit(command, request, reply);
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
