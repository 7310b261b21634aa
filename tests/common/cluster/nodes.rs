//! Several nodes as child processes, each with a home that outlives it, and the network between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, timeout},
};

use super::{
    cluster_status::ClusterStatus,
    failover_client::{Endpoints, FailoverClient},
    faketime,
    links::Links,
};
use crate::common::{
    Answer, Encoding, Faults, Gateway, Home, Port, Refused, Rng, SECRET as GATEWAY_SECRET, Server, TIMEOUT,
    with_ulimit, write_control,
};

/// Few shards. Each has its own elections.
pub(crate) const SHARDS: usize = 4;

/// The secret that the nodes of all clusters of this program share, drawn when it starts.
pub(crate) static SECRET: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; 32];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).expect("the system has randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
});

/// Small segments and frequent snapshots, so that a node that was away for a while receives one. Little memory for writing the
/// store, so that it writes tables. Nodes replace their damaged disks one right after the other. Holds outlive the longest run, so every hold that was not released is there at the final count.
const CONFIG: &str = "[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 300\n\n[history]\nmemtable_bytes = 1_048_576\n\n\
                      [repair]\nrest_hours = 0\n\n[carts]\nhold_ttl_ms = 10_800_000\n";

/// Time after a grant until the session asks its cart about it, with a gateway, in milliseconds.
pub(crate) const CONFIRM_MS: u64 = 3_000;

/// Configuration of payments through this gateway, appended to the section of carts. Retries are fast, so that no payment stays
/// open for long.
fn payments_config(gateway: SocketAddr) -> String {
    format!(
        "confirm_ms = {CONFIRM_MS}\n\n[payments]\nurl = \"http://{gateway}\"\nwebhook_secret = \"{GATEWAY_SECRET}\"\n\
         timeout_ms = 600\nagain_ms = 50\nwait_ms = 1_000\n\n"
    )
}

/// Time limit of one request to one node before it is repeated.
const SOON: Duration = Duration::from_secs(2);

/// How often a wait for the cluster prints its reason.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// The kind of nodes of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// Nodes at the start.
    pub(crate) nodes: usize,
    /// The most nodes.
    pub(crate) places: usize,
    /// With the fault library: kill -9 is a power cut.
    pub(crate) faults: bool,
    /// With clocks that can be set.
    pub(crate) clocks: bool,
    /// With a payment gateway. Holds left behind by a crash are free again after seconds.
    pub(crate) gateway: bool,
}

pub(crate) struct Cluster {
    plan: Plan,
    /// Panics planted in its nodes.
    planted: &'static str,
    /// The limit of file descriptors of each process, if any.
    descriptors: Option<u64>,
    nodes: Vec<Node>,
    pub(crate) links: Links,
    pub(crate) endpoints: Arc<Endpoints>,
    /// It sends webhooks to the first node.
    pub(crate) gateway: Option<Gateway>,
}

/// The home of a node, running or not.
pub(crate) struct Node {
    pub(crate) id: u64,
    home: Home,
    client: SocketAddr,
    peers: SocketAddr,
    joins: bool,
    server: Option<Server>,
    paused: bool,
    /// It was started.
    began: bool,
    /// It was drained.
    gone: bool,
    /// Its disk does not sync, or did not, so it may end because of that.
    sick: bool,
    /// It starts with the next program, which reads one version more.
    has_next: bool,
    /// It starts with this program in place of the one that is tested.
    program: Option<std::path::PathBuf>,
}

/// An address whose port is never assigned automatically, so that a restarted node finds its port free.
///
/// Test programs run in parallel. Each reserves a range of ports by listening on the first port until it ends, so that no other
/// program takes the port of a stopped node.
pub(crate) fn free_address() -> SocketAddr {
    // Clusters that the program itself starts use higher ports.
    const FIRST: u16 = 10_000;
    const RANGES: u16 = 20;
    const PORTS: u16 = 500;
    static RANGE: LazyLock<TcpListener> = LazyLock::new(|| {
        let mut firsts = (0..RANGES).map(|range| SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + range * PORTS)));
        firsts.find_map(|first| TcpListener::bind(first).ok()).expect("a range of ports is free")
    });
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = RANGE.local_addr().expect("the node listens").port();
    for _ in 1..PORTS {
        let port = first + 1 + NEXT.fetch_add(1, Relaxed) % (PORTS - 1);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free");
}

impl Cluster {
    /// Starts nodes, and waits until all replicas are in place.
    pub(crate) async fn start(plan: Plan) -> Cluster {
        Cluster::found(plan).await.started().await
    }

    /// The same with this many shards besides the directory's.
    pub(crate) async fn start_with_shards(plan: Plan, shards: usize) -> Cluster {
        Cluster::found_with_shards(plan, shards).await.started().await
    }

    /// The same with panics planted in every node, in the syntax of the node's `contain::planted`.
    pub(crate) async fn start_planted(plan: Plan, planted: &'static str) -> Cluster {
        let cluster = Cluster { planted, ..Cluster::found(plan).await };
        cluster.started().await
    }

    /// The same with a limit of file descriptors for each node.
    pub(crate) async fn start_limited(plan: Plan, descriptors: u64) -> Cluster {
        let cluster = Cluster { descriptors: Some(descriptors), ..Cluster::found(plan).await };
        cluster.started().await
    }

    /// Ends all nodes and restarts them without planted panics.
    pub(crate) async fn restart_unplanted(&mut self) {
        self.planted = "";
        let nodes = self.running();
        nodes.iter().for_each(|id| self.kill(*id));
        self.start_nodes(&nodes).await;
        self.ready().await;
    }

    /// Starts the nodes of a cluster that was founded.
    pub(crate) async fn started(mut self) -> Cluster {
        let plan = self.plan;
        let cluster = &mut self;
        let before = Instant::now();
        cluster.start_node(1).await;
        let others: Vec<u64> = (2..=plan.nodes as u64).collect();
        cluster.start_nodes(&others).await;
        cluster.ready().await;
        println!("{} nodes are ready after {:?}", plan.nodes, before.elapsed());
        self
    }

    /// Creates homes without starting nodes.
    pub(crate) async fn found(plan: Plan) -> Cluster {
        Cluster::found_with_shards(plan, SHARDS).await
    }

    async fn found_with_shards(plan: Plan, shards: usize) -> Cluster {
        let peers: Vec<SocketAddr> = (0..plan.places).map(|_| free_address()).collect();
        let links = Links::new(&peers).await;
        let clients: Vec<SocketAddr> = peers.iter().map(|_| free_address()).collect();
        let gateway = plan.gateway.then(|| Gateway::with_webhooks_to(clients[0]));
        let more = gateway.as_ref().map_or_else(String::new, |gateway| payments_config(gateway.address()));
        let torn = Rng::of_test("units that power cuts lose");
        let nodes = (1..).zip(peers).zip(&clients).map(|((id, peers), &client)| {
            let links = format!("[peers]\nlisten = \"{peers}\"\n\n{}", links.routes(id));
            // Each node divides its shards among its threads in its own way.
            let replicating = id % 3 + 1;
            let threads = format!("[threads]\nreplicating = {replicating}\n\n");
            let home = Home::with_config(&format!("[node]\nshards = {shards}\n\n{threads}{CONFIG}{more}{links}"));
            let home = if plan.faults { home.with_torn_units(torn.fork(id)) } else { home };
            Node {
                id,
                home,
                client,
                peers,
                joins: id != 1,
                server: None,
                paused: false,
                began: false,
                gone: false,
                sick: false,
                has_next: false,
                program: None,
            }
        });
        let nodes: Vec<Node> = nodes.collect();
        let endpoints = Endpoints::new(nodes.iter().map(|node| node.client).collect());
        Cluster { plan, planted: "", descriptors: None, nodes, links, endpoints, gateway }
    }

    pub(crate) fn node(&self, id: u64) -> &Node {
        &self.nodes[id as usize - 1]
    }

    fn node_mut(&mut self, id: u64) -> &mut Node {
        &mut self.nodes[id as usize - 1]
    }

    pub(crate) fn home(&self, id: u64) -> &Home {
        &self.node(id).home
    }

    pub(crate) fn client(&self, id: u64) -> SocketAddr {
        self.node(id).client
    }

    /// The nodes with a process that is not stopped.
    pub(crate) fn running(&self) -> Vec<u64> {
        self.nodes.iter().filter(|node| node.server.is_some() && !node.paused).map(|node| node.id).collect()
    }

    /// The command that serves as this node.
    pub(crate) fn command(&self, id: u64) -> Command {
        let node = self.node(id);
        let door = (1..=self.plan.places as u64).find(|other| *other != id && self.node(*other).server.is_some());
        let door = door.map_or(self.client(if id == 1 { 2 } else { 1 }), |other| self.client(other));
        let mut command = node.command(id, node.joins.then_some(door));
        if self.plan.clocks {
            faketime::set_up(&mut command, &self.clock_file(id));
        }
        if node.has_next {
            command.env("BOXOFFICE_NEXT_VERSION", "1");
        }
        if !self.planted.is_empty() {
            command.env("BOXOFFICE_PLANTED_PANICS", self.planted);
        }
        if let Some(program) = &node.program {
            command = of_program(program, &command);
        }
        match self.descriptors {
            Some(descriptors) => with_ulimit(&command, &format!("-n {descriptors}")),
            None => command,
        }
    }

    /// A command that serves as a foreign node: another home and other addresses.
    pub(crate) fn foreign_command(&self, home: &Home, id: u64, secret: &str, join: Option<SocketAddr>) -> Command {
        let (client, peers) = (free_address(), free_address());
        serve(home, id, client, peers, secret, join)
    }

    /// The file that sets the clock of a node.
    fn clock_file(&self, id: u64) -> std::path::PathBuf {
        self.home(id).path().join("clock")
    }

    /// Sets a node's clock this many seconds off the true time.
    pub(crate) fn set_clock(&self, id: u64, seconds: i64) {
        faketime::set(&self.clock_file(id), seconds);
    }

    pub(crate) async fn start_node(&mut self, id: u64) {
        self.start_nodes(&[id]).await;
    }

    /// Starts nodes in parallel and waits until each serves.
    ///
    /// # Panics
    /// If one does not.
    pub(crate) async fn start_nodes(&mut self, ids: &[u64]) {
        let starts = ids.iter().map(|&id| {
            let command = self.ready_to_start(id);
            async move { (id, spawn_blocking(move || Server::spawn(command)).await.expect("no panic")) }
        });
        for (id, started) in join_all(starts).await {
            self.serves(id, started);
        }
    }

    /// Starts every node that should run and does not, including nodes that end meanwhile, until all of them serve. A node whose
    /// disk failed may end late, and others may not serve without it.
    pub(crate) async fn start_down(&mut self) {
        let (mut starting, mut starts) = (BTreeSet::new(), JoinSet::new());
        loop {
            for id in self.down() {
                if starting.insert(id) {
                    let command = self.ready_to_start(id);
                    starts.spawn_blocking(move || (id, Server::spawn(command)));
                }
            }
            match timeout(Duration::from_millis(50), starts.join_next()).await {
                Ok(Some(joined)) => {
                    let (id, started) = joined.expect("no panic");
                    starting.remove(&id);
                    self.serves(id, started);
                }
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }

    fn ready_to_start(&self, id: u64) -> Command {
        assert!(self.node(id).server.is_none(), "node {id} runs already");
        if self.plan.clocks && !self.clock_file(id).exists() {
            self.set_clock(id, 0);
        }
        self.command(id)
    }

    fn serves(&mut self, id: u64, started: Result<Server, Refused>) {
        let server = started.unwrap_or_else(|refused| panic!("node {id} does not serve: {refused:?}"));
        let node = self.node_mut(id);
        (node.server, node.paused, node.began) = (Some(server), false, true);
    }

    /// Starts a node that must refuse to start.
    pub(crate) async fn refused(&self, command: Command) -> Refused {
        match spawn_blocking(move || Server::spawn(command)).await.expect("no panic") {
            Ok(server) => panic!("the node serves at {}, but it must refuse to start", server.address()),
            Err(refused) => refused,
        }
    }

    /// From now on the node starts with this program, or with the one that is tested.
    pub(crate) fn set_executable(&mut self, id: u64, program: Option<&std::path::Path>) {
        self.node_mut(id).program = program.map(std::path::Path::to_owned);
    }

    /// From now on the node starts with the next program, or with the one before.
    pub(crate) fn set_program(&mut self, id: u64, has_next: bool) {
        self.node_mut(id).has_next = has_next;
    }

    /// From now on the node starts as a joining node.
    pub(crate) fn start_as_joining(&mut self, id: u64) {
        self.node_mut(id).joins = true;
    }

    fn take(&mut self, id: u64) -> Server {
        self.node_mut(id).paused = false;
        self.node_mut(id).server.take().unwrap_or_else(|| panic!("node {id} does not run"))
    }

    /// Sends SIGKILL. With the fault library this is a power cut.
    pub(crate) fn kill(&mut self, id: u64) {
        self.take(id).kill();
    }

    /// Sends SIGTERM, and waits for a clean exit.
    pub(crate) fn terminate(&mut self, id: u64) {
        self.take(id).stop();
    }

    /// The same for a node that may lose power meanwhile.
    pub(crate) fn terminate_or_lose_power(&mut self, id: u64) {
        self.signal(id, Signal::TERM);
        let sick = self.node(id).sick;
        let (code, output) = self.ended(id);
        let well = matches!(code, Some(0) | None) || (sick && is_of_disk(code, &output));
        assert!(well, "node {id} ended after SIGTERM with {code:?}: {output}");
    }

    /// Waits until a node ends by itself. Returns its exit code and its output.
    pub(crate) fn ended(&mut self, id: u64) -> (Option<i32>, String) {
        let (status, output) = self.take(id).ended();
        (status.code(), output)
    }

    /// The output of a node that should run but has ended.
    pub(crate) fn stderr(&self, id: u64) -> String {
        self.node(id).server.as_ref().map(Server::stderr).unwrap_or_default()
    }

    /// Sends SIGSTOP.
    pub(crate) fn pause(&mut self, id: u64) {
        self.signal(id, Signal::STOP);
        self.node_mut(id).paused = true;
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self, id: u64) {
        self.signal(id, Signal::CONT);
        self.node_mut(id).paused = false;
    }

    /// Sends SIGCONT to every stopped node.
    pub(crate) fn resume_all(&mut self) {
        let paused: Vec<u64> = self.nodes.iter().filter(|node| node.paused).map(|node| node.id).collect();
        paused.into_iter().for_each(|id| self.resume(id));
    }

    /// The nodes that should run and do not. Detects nodes that lost power by themselves.
    pub(crate) fn down(&mut self) -> Vec<u64> {
        for node in &mut self.nodes {
            if node.server.as_mut().is_some_and(Server::has_ended) {
                let (status, output) = node.server.take().expect("it ran").ended();
                // A power cut leaves no exit code. Any other end prints its reason.
                let well = status.code().is_none() || (node.sick && is_of_disk(status.code(), &output));
                assert!(well, "node {} ended with {status}: {output}", node.id);
                node.paused = false;
            }
        }
        self.nodes.iter().filter(|node| node.should_run() && node.server.is_none()).map(|node| node.id).collect()
    }

    /// The nodes that should run.
    pub(crate) fn expected_nodes(&self) -> Vec<u64> {
        self.nodes.iter().filter(|node| node.should_run()).map(|node| node.id).collect()
    }

    /// Restarts nodes that are still ending, until every node that should run answers.
    pub(crate) async fn all_answer(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.start_down().await;
            let answering = self.statuses().await;
            match self.expected_nodes().into_iter().find(|id| !answering.contains_key(id)) {
                None => return,
                Some(silent) if Instant::now() > deadline => panic!("node {silent} does not answer"),
                Some(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// A node that was never started, if one is left.
    pub(crate) fn unstarted_node(&self) -> Option<u64> {
        self.nodes.iter().find(|node| !node.began).map(|node| node.id)
    }

    /// Waits until a drained node has ended by itself. It does not return.
    pub(crate) fn wait_drained(&mut self, id: u64) {
        let (code, output) = self.ended(id);
        assert_eq!(code, Some(0), "node {id} was drained: {output}");
        self.node_mut(id).gone = true;
    }

    /// Replaces the disk of a stopped node with an empty one.
    pub(crate) fn lose_disk(&mut self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        std::fs::remove_dir_all(&data).expect("a data directory");
        std::fs::create_dir_all(&data).expect("an empty directory");
        // A copy of the lost disk is now a different disk than the table expects.
        match std::fs::remove_dir_all(data.with_extension("copy")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("the copy stays: {error}"),
            Ok(()) | Err(_) => {}
        }
        self.start_as_joining(id);
    }

    /// Copies the disk of a stopped node.
    pub(crate) fn copy_disk(&self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        copy(&data, &data.with_extension("copy"));
    }

    /// A node whose disk was copied, and since then neither lost nor put back.
    pub(crate) fn copied(&self) -> Option<u64> {
        let has_copy = |id: &u64| self.home(*id).data_dir().with_extension("copy").exists();
        self.running().into_iter().find(has_copy)
    }

    /// Replaces the disk of a stopped node with its copy.
    pub(crate) fn put_copy_back(&self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        std::fs::remove_dir_all(&data).expect("a data directory");
        std::fs::rename(data.with_extension("copy"), &data).expect("a copy");
    }

    /// The process of a node, if it runs.
    pub(crate) fn pid(&self, id: u64) -> Option<u32> {
        self.node(id).server.as_ref().map(Server::pid)
    }

    fn signal(&self, id: u64, signal: Signal) {
        let server = self.node(id).server.as_ref().expect("a node that runs");
        let pid = Pid::from_raw(server.pid() as i32).expect("a process");
        kill_process(pid, signal).expect("a child that can be signalled");
    }

    /// Sets the disk faults of a node.
    pub(crate) fn fault(&mut self, id: u64, faults: Faults) {
        self.node_mut(id).sick |= matches!(faults, Faults::SyncFails | Faults::NoSpace);
        write_control(&self.home(id).control_file(), faults);
    }

    /// Connects to a running node.
    pub(crate) async fn port(&self, id: u64) -> Port {
        Port::connect(self.client(id), Encoding::BOTH[id as usize % 2]).await
    }

    /// A client that fails over between the nodes.
    pub(crate) fn failover_client(&self, seed: u64) -> FailoverClient {
        FailoverClient::new(&self.endpoints, Encoding::BOTH[seed as usize % 2], seed)
    }

    /// The same without credentials.
    pub(crate) fn failover_guest(&self, seed: u64) -> FailoverClient {
        self.failover_client(seed).without_credentials()
    }

    /// Sends one node a read, with a time limit.
    pub(crate) async fn read(&self, id: u64, op: &str, body: Value) -> Option<Value> {
        let asked = async {
            let port = Port::try_connect(self.client(id), Encoding::Json).await.ok()?;
            match port.read(op, body).await {
                Answer::Ok(body, _) => Some(body),
                Answer::No(_) | Answer::Fail(_) | Answer::Gone => None,
            }
        };
        timeout(SOON, asked).await.ok().flatten()
    }

    /// Sends an operator's change to any node that answers.
    pub(crate) async fn admin(&self, op: &'static str, body: Value) -> Value {
        let failover_client = self.failover_client(0);
        let rid = format!("{op}-{}-{}", std::process::id(), free_rid());
        failover_client.ask_within(op, &rid, body, TIMEOUT).await.ok()
    }

    /// The leader of each shard, as the running nodes report themselves. If two nodes lead one, the one in the later
    /// term counts.
    pub(crate) async fn leaders(&self) -> BTreeMap<u64, u64> {
        let mut leaders: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (id, status) in self.statuses().await {
            for shard in status["shards"].as_array().into_iter().flatten().filter(|shard| shard["role"] == "leader") {
                let (number, term) = (shard["shard"].as_u64().expect("a number"), shard["term"].as_u64());
                let leader = leaders.entry(number).or_default();
                *leader = (*leader).max((term.expect("a term"), id));
            }
        }
        leaders.into_iter().map(|(shard, (_, id))| (shard, id)).collect()
    }

    /// The highest term of each shard among the running nodes.
    pub(crate) async fn terms(&self) -> BTreeMap<u64, u64> {
        let mut terms = BTreeMap::new();
        for status in self.statuses().await.into_values() {
            for shard in status["shards"].as_array().into_iter().flatten() {
                let number = |name: &str| shard[name].as_u64().expect("a number");
                let term: &mut u64 = terms.entry(number("shard")).or_default();
                *term = number("term").max(*term);
            }
        }
        terms
    }

    /// The node that leads most shards of carts and sessions.
    pub(crate) async fn a_leader(&self) -> u64 {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (shard, id) in self.leaders().await {
            *counts.entry(id).or_default() += usize::from(shard > 0);
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(id, _)| id).expect("a node leads")
    }

    /// The followers of the shards of carts and sessions that this node leads.
    pub(crate) async fn followers_of(&self, leader: u64) -> Vec<u64> {
        let leaders = self.leaders().await;
        let led = |shard: &Value| shard["shard"].as_u64().is_some_and(|of| of > 0 && leaders.get(&of) == Some(&leader));
        let follows = |status: &Value| {
            let mut shards = status["shards"].as_array().into_iter().flatten();
            shards.any(|shard| shard["role"] == "follower" && led(shard))
        };
        self.statuses().await.into_iter().filter(|(_, status)| follows(status)).map(|(id, _)| id).collect()
    }

    /// `admin.status` of every running node that answers.
    async fn statuses(&self) -> BTreeMap<u64, Value> {
        let asks = self.running().into_iter().map(async |id| (id, self.read(id, "admin.status", json!({})).await));
        join_all(asks).await.into_iter().filter_map(|(id, status)| Some((id, status?))).collect()
    }

    /// The cluster table of the first node that answers.
    pub(crate) async fn table(&self) -> Option<Value> {
        for id in self.running() {
            if let Some(table) = self.read(id, "admin.nodes", json!({})).await {
                return Some(table);
            }
        }
        None
    }

    /// The state of each member of the cluster table.
    pub(crate) async fn members(&self) -> BTreeMap<u64, String> {
        let table = self.table().await.expect("a node that answers");
        let members = table["members"].as_array().expect("members").iter();
        members
            .map(|member| {
                (member["node"].as_u64().expect("a node"), member["state"].as_str().expect("a state").to_owned())
            })
            .collect()
    }

    /// Waits until every running node serves and every shard has its target replicas and a leader.
    pub(crate) async fn ready(&self) {
        self.until("every shard has its replicas and a leader", async || {
            let cluster_status = self.cluster_status().await?;
            cluster_status.check_ready()
        })
        .await;
    }

    /// The same, and every replica of a shard has applied the same position.
    pub(crate) async fn converged(&self) {
        self.until("all replicas have applied the same", async || {
            let cluster_status = self.cluster_status().await?;
            cluster_status.check_ready()?;
            cluster_status.check_applied()
        })
        .await;
    }

    /// Waits until every shard is led by its preferred leader. Leaderships move there after a start.
    pub(crate) async fn led_by_preferred(&self) {
        self.until("every shard has its preferred leader", async || {
            let table = self.table().await.ok_or("no node returns the cluster table")?;
            let leaders = self.leaders().await;
            for place in table["places"].as_array().ok_or("no places")? {
                let wanted = place["leader"].as_str().and_then(|replica| replica.split_once('.')?.0.parse().ok());
                let shard = place["shard"].as_u64().ok_or("a shard without a number")?;
                if wanted.is_some() && leaders.get(&shard) != wanted.as_ref() {
                    return Err(format!("shard {shard} is led by {:?}: {place}", leaders.get(&shard)));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Calls `ask` until it returns a value. The error is the reason to wait on.
    pub(crate) async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
        let mut reported = Instant::now();
        let deadline = reported + TIMEOUT;
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(why) if Instant::now() > deadline => panic!("timed out after {TIMEOUT:?}: {what}: {why}"),
                Err(why) => {
                    if Instant::now() > reported + REPORT_EVERY {
                        reported = Instant::now();
                        println!("waiting: {what}: {why}");
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// The status of the running nodes.
    async fn cluster_status(&self) -> Result<ClusterStatus, String> {
        let statuses = self.statuses().await;
        if let Some(silent) = self.running().into_iter().find(|id| !statuses.contains_key(id)) {
            return Err(format!("node {silent} does not answer"));
        }
        let table = self.table().await.ok_or("no node returns the cluster table")?;
        Ok(ClusterStatus { statuses, table })
    }

    /// Stops the nodes and verifies what they leave.
    pub(crate) fn stop(mut self) {
        let running = self.running();
        for id in &running {
            self.terminate(*id);
        }
        for id in running {
            self.home(id).is_whole();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a place for the copy");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry").path();
        let place = to.join(entry.file_name().expect("a name"));
        match entry.is_dir() {
            true => copy(&entry, &place),
            false => _ = std::fs::copy(&entry, place).expect("a copied file"),
        }
    }
}

/// Whether a node ended because a disk sync failed, and reported it.
fn is_of_disk(code: Option<i32>, output: &str) -> bool {
    // The store checks the free space first, which the faulty disk reports as free.
    let is_full = output.contains("fjall") && output.contains("No space left on device");
    code == Some(4) && (output.contains("cannot sync") || is_full)
}

fn free_rid() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Relaxed)
}

impl Node {
    /// Whether the node should run.
    fn should_run(&self) -> bool {
        self.began && !self.gone
    }

    fn command(&self, id: u64, join: Option<SocketAddr>) -> Command {
        serve(&self.home, id, self.client, self.peers, &SECRET, join)
    }
}

fn serve(
    home: &Home,
    id: u64,
    client: SocketAddr,
    peers: SocketAddr,
    secret: &str,
    join: Option<SocketAddr>,
) -> Command {
    let mut command = home.command_at(&client.to_string());
    command.env("NO_COLOR", "1").env("BOXOFFICE_PEERS_SECRET", secret);
    command.args(["--node", &id.to_string()]);
    command.args(["--peers-listen", &peers.to_string(), "--peers-advertise", &peers.to_string()]);
    if let Some(join) = join {
        command.args(["--join", &join.to_string()]);
    }
    command
}

/// The same command of another program.
fn of_program(program: &std::path::Path, command: &Command) -> Command {
    let mut other = Command::new(program);
    other.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}
