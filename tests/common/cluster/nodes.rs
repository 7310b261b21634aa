//! Several nodes as child processes, each with a home that outlives it, and the network between them.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    anywhere::{Anywhere, Doors},
    faketime,
    links::Links,
    standing::Standing,
};
use crate::common::{
    Answer, Encoding, Faults, Gateway, Home, PATIENCE, Port, Refused, SECRET as GATEWAY_SECRET, Server, with_ulimit,
    write_control,
};

/// Few shards: each has its own elections.
pub(crate) const SHARDS: usize = 4;

/// What only the nodes of one cluster know.
pub(crate) const SECRET: &str = "known-to-these-nodes-only";

/// Small segments and frequent snapshots: a node that was away for a while gets one. Holds outlive the longest
/// run, so all that were not released are there when all is counted.
const CONFIG: &str =
    "[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 300\n\n[carts]\nhold_ttl_ms = 10_800_000\n";

/// How long after a grant its cart is asked about it, with a gateway, in milliseconds.
pub(crate) const CONFIRM_MS: u64 = 3_000;

/// Configuration of payments through this gateway, behind that of carts. It is asked again soon, so that nothing is open for long.
fn through(gateway: SocketAddr) -> String {
    format!(
        "confirm_ms = {CONFIRM_MS}\n\n[payments]\nurl = \"http://{gateway}\"\nwebhook_secret = \"{GATEWAY_SECRET}\"\n\
         timeout_ms = 600\nagain_ms = 50\nwait_ms = 1_000\n\n"
    )
}

/// How long one question to one node may take before it is asked again.
const SOON: Duration = Duration::from_secs(2);

/// How often who waits for the cluster says what for.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// What kind of nodes they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// How many nodes begin.
    pub(crate) nodes: usize,
    /// How many there may be.
    pub(crate) places: usize,
    /// With the fault library: kill -9 is a power cut.
    pub(crate) faults: bool,
    /// With clocks that can be set.
    pub(crate) clocks: bool,
    /// With a payment gateway beside them, and what a crash leaves behind free again after seconds.
    pub(crate) gateway: bool,
}

pub(crate) struct Cluster {
    plan: Plan,
    /// Panics that are planted in its nodes.
    planted: &'static str,
    /// File descriptors that each process may have, if there is a limit.
    descriptors: Option<u64>,
    nodes: Vec<Node>,
    pub(crate) links: Links,
    pub(crate) doors: Arc<Doors>,
    /// It tells the first node of payments.
    pub(crate) gateway: Option<Gateway>,
}

/// Where a node lives, whether it runs or not.
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
    /// Its disk does not sync, or did not: it may end because of that.
    sick: bool,
}

/// An address with a port that no process gets by itself, so that a restarted node finds its port free.
///
/// Test programs run side by side. Each takes a range of ports and listens on the first of them until it ends, so that no other
/// program takes the port of a stopped node.
fn free_address() -> SocketAddr {
    // Clusters that the program itself starts have their ports above.
    const FIRST: u16 = 10_000;
    const RANGES: u16 = 20;
    const PORTS: u16 = 500;
    static RANGE: LazyLock<TcpListener> = LazyLock::new(|| {
        let mut firsts = (0..RANGES).map(|range| SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + range * PORTS)));
        firsts.find_map(|first| TcpListener::bind(first).ok()).expect("a range of ports is free")
    });
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = RANGE.local_addr().expect("it listens").port();
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
    /// Nodes that serve, with all their replicas where they should be.
    pub(crate) async fn start(plan: Plan) -> Cluster {
        Cluster::found(plan).await.started().await
    }

    /// The same with panics planted in every node, as the node's `contain::planted` takes them.
    pub(crate) async fn start_planted(plan: Plan, planted: &'static str) -> Cluster {
        let cluster = Cluster { planted, ..Cluster::found(plan).await };
        cluster.started().await
    }

    /// The same, each with this limit of file descriptors.
    pub(crate) async fn start_limited(plan: Plan, descriptors: u64) -> Cluster {
        let cluster = Cluster { descriptors: Some(descriptors), ..Cluster::found(plan).await };
        cluster.started().await
    }

    /// Ends all nodes and starts them again without what was planted.
    pub(crate) async fn restart_unplanted(&mut self) {
        self.planted = "";
        let nodes = self.running();
        nodes.iter().for_each(|id| self.kill(*id));
        self.start_nodes(&nodes).await;
        self.ready().await;
    }

    async fn started(mut self) -> Cluster {
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

    /// Homes without nodes.
    pub(crate) async fn found(plan: Plan) -> Cluster {
        let peers: Vec<SocketAddr> = (0..plan.places).map(|_| free_address()).collect();
        let links = Links::new(&peers).await;
        let clients: Vec<SocketAddr> = peers.iter().map(|_| free_address()).collect();
        let gateway = plan.gateway.then(|| Gateway::telling(clients[0]));
        let more = gateway.as_ref().map_or_else(String::new, |gateway| through(gateway.address()));
        let nodes = (1..).zip(peers).zip(&clients).map(|((id, peers), &client)| {
            let links = format!("[peers]\nlisten = \"{peers}\"\n\n{}", links.routes(id));
            // Each node divides its shards among its threads in its own way.
            let replicating = id % 3 + 1;
            let threads = format!("[threads]\nreplicating = {replicating}\n\n");
            let home = Home::with_config(&format!("[node]\nshards = {SHARDS}\n\n{threads}{CONFIG}{more}{links}"));
            let home = if plan.faults { home.with_faults() } else { home };
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
            }
        });
        let nodes: Vec<Node> = nodes.collect();
        let doors = Doors::new(nodes.iter().map(|node| node.client).collect());
        Cluster { plan, planted: "", descriptors: None, nodes, links, doors, gateway }
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
        if !self.planted.is_empty() {
            command.env("BOXOFFICE_PLANTED_PANICS", self.planted);
        }
        match self.descriptors {
            Some(descriptors) => with_ulimit(&command, &format!("-n {descriptors}")),
            None => command,
        }
    }

    /// A command that serves as some node from another home, at other addresses: a stranger.
    pub(crate) fn stranger(&self, home: &Home, id: u64, secret: &str, join: Option<SocketAddr>) -> Command {
        let (client, peers) = (free_address(), free_address());
        serve(home, id, client, peers, secret, join)
    }

    /// Where the clock of a node is set.
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

    /// Starts nodes side by side and waits until each serves.
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

    /// Starts every node that is to run and does not, also who ends meanwhile, until all of them serve: one whose disk failed
    /// may only end now, and others may not serve without it.
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

    /// Starts a node that must refuse to.
    pub(crate) async fn refused(&self, command: Command) -> Refused {
        match spawn_blocking(move || Server::spawn(command)).await.expect("no panic") {
            Ok(server) => panic!("the node serves at {}, although it must not", server.address()),
            Err(refused) => refused,
        }
    }

    /// From now on the node is one that joins, whatever it was before.
    pub(crate) fn joins(&mut self, id: u64) {
        self.node_mut(id).joins = true;
    }

    fn take(&mut self, id: u64) -> Server {
        self.node_mut(id).paused = false;
        self.node_mut(id).server.take().unwrap_or_else(|| panic!("node {id} does not run"))
    }

    /// SIGKILL; with the fault library a power cut.
    pub(crate) fn kill(&mut self, id: u64) {
        self.take(id).kill();
    }

    /// SIGTERM, and waits until it has ended well.
    pub(crate) fn terminate(&mut self, id: u64) {
        self.take(id).stop();
    }

    /// The same, of a node whose power may go meanwhile.
    pub(crate) fn terminate_anyhow(&mut self, id: u64) {
        self.signal(id, Signal::TERM);
        let sick = self.node(id).sick;
        let (code, said) = self.ended(id);
        let well = matches!(code, Some(0) | None) || (sick && is_of_disk(code, &said));
        assert!(well, "node {id} was told to stop and ended with {code:?}: {said}");
    }

    /// Waits until a node ends by itself; its exit code, and what it said.
    pub(crate) fn ended(&mut self, id: u64) -> (Option<i32>, String) {
        let (status, said) = self.take(id).ended();
        (status.code(), said)
    }

    /// Whether a node that should run has ended; what it said then.
    pub(crate) fn said(&self, id: u64) -> String {
        self.node(id).server.as_ref().map(Server::stderr).unwrap_or_default()
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self, id: u64) {
        self.signal(id, Signal::STOP);
        self.node_mut(id).paused = true;
    }

    /// SIGCONT.
    pub(crate) fn resume(&mut self, id: u64) {
        self.signal(id, Signal::CONT);
        self.node_mut(id).paused = false;
    }

    /// Sends SIGCONT to every stopped node.
    pub(crate) fn resume_all(&mut self) {
        let paused: Vec<u64> = self.nodes.iter().filter(|node| node.paused).map(|node| node.id).collect();
        paused.into_iter().for_each(|id| self.resume(id));
    }

    /// The nodes that are to run and do not: who lost power by itself is noticed here.
    pub(crate) fn down(&mut self) -> Vec<u64> {
        for node in &mut self.nodes {
            if node.server.as_mut().is_some_and(Server::has_ended) {
                let (status, said) = node.server.take().expect("it ran").ended();
                // Without an exit code the power went; anything else it would have had to say.
                let well = status.code().is_none() || (node.sick && is_of_disk(status.code(), &said));
                assert!(well, "node {} ended with {status}: {said}", node.id);
                node.paused = false;
            }
        }
        self.nodes.iter().filter(|node| node.is_wanted() && node.server.is_none()).map(|node| node.id).collect()
    }

    /// The nodes that are to run, whether they do or not.
    pub(crate) fn wanted(&self) -> Vec<u64> {
        self.nodes.iter().filter(|node| node.is_wanted()).map(|node| node.id).collect()
    }

    /// Restarts nodes that are still ending, until every node that should run answers.
    pub(crate) async fn all_answer(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.start_down().await;
            let answering = self.statuses().await;
            match self.wanted().into_iter().find(|id| !answering.contains_key(id)) {
                None => return,
                Some(silent) if Instant::now() > deadline => panic!("node {silent} does not answer"),
                Some(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// A node that was never started, if there is a place for one more.
    pub(crate) fn newcomer(&self) -> Option<u64> {
        self.nodes.iter().find(|node| !node.began).map(|node| node.id)
    }

    /// Waits until a node that was drained has ended by itself; it does not come back.
    pub(crate) fn gone(&mut self, id: u64) {
        let (code, said) = self.ended(id);
        assert_eq!(code, Some(0), "node {id} was drained: {said}");
        self.node_mut(id).gone = true;
    }

    /// The disk of a node that does not run is lost, and an empty one is in its place.
    pub(crate) fn lose_disk(&mut self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        std::fs::remove_dir_all(&data).expect("a data directory");
        std::fs::create_dir_all(&data).expect("an empty directory");
        // A copy of the lost one is another disk than the table knows from now on.
        match std::fs::remove_dir_all(data.with_extension("copy")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("the copy stays: {error}"),
            Ok(()) | Err(_) => {}
        }
        self.joins(id);
    }

    /// Copies the disk of a node that does not run.
    pub(crate) fn copy_disk(&self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        copy(&data, &data.with_extension("copy"));
    }

    /// A node whose disk was copied, and not lost or put back since.
    pub(crate) fn copied(&self) -> Option<u64> {
        let has_copy = |id: &u64| self.home(*id).data_dir().with_extension("copy").exists();
        self.running().into_iter().find(has_copy)
    }

    /// The copy takes the place of the disk of a node that does not run.
    pub(crate) fn put_copy_back(&self, id: u64) {
        assert!(self.node(id).server.is_none(), "node {id} runs");
        let data = self.home(id).data_dir();
        std::fs::remove_dir_all(&data).expect("a data directory");
        std::fs::rename(data.with_extension("copy"), &data).expect("a copy");
    }

    fn signal(&self, id: u64, signal: Signal) {
        let server = self.node(id).server.as_ref().expect("a node that runs");
        let pid = Pid::from_raw(server.pid() as i32).expect("a process");
        kill_process(pid, signal).expect("a child that can be signalled");
    }

    /// What a node's disk suffers from.
    pub(crate) fn fault(&mut self, id: u64, faults: Faults) {
        self.node_mut(id).sick |= matches!(faults, Faults::SyncFails | Faults::NoSpace);
        write_control(&self.home(id).control_file(), faults);
    }

    /// A connection to a node that runs.
    pub(crate) async fn port(&self, id: u64) -> Port {
        Port::connect(self.client(id), Encoding::BOTH[id as usize % 2]).await
    }

    /// A way in at any node.
    pub(crate) fn anywhere(&self, seed: u64) -> Anywhere {
        Anywhere::new(&self.doors, Encoding::BOTH[seed as usize % 2], seed)
    }

    /// Asks one node, in bounded time.
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
        let anywhere = self.anywhere(0);
        let rid = format!("{op}-{}-{}", std::process::id(), free_rid());
        anywhere.ask_within(op, &rid, body, PATIENCE).await.ok()
    }

    /// Who leads each shard, as the nodes that run say it of themselves: of two the one in the later term.
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

    /// The highest term of each shard that a node that runs has heard of.
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

    /// A node that leads a shard of carts and sessions, one that leads most.
    pub(crate) async fn a_leader(&self) -> u64 {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for (shard, id) in self.leaders().await {
            *counts.entry(id).or_default() += usize::from(shard > 0);
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(id, _)| id).expect("a node leads")
    }

    /// `admin.status` of every node that runs and answers.
    async fn statuses(&self) -> BTreeMap<u64, Value> {
        let asks = self.running().into_iter().map(async |id| (id, self.read(id, "admin.status", json!({})).await));
        join_all(asks).await.into_iter().filter_map(|(id, status)| Some((id, status?))).collect()
    }

    /// The cluster's table, by the first node that answers.
    pub(crate) async fn table(&self) -> Option<Value> {
        for id in self.running() {
            if let Some(table) = self.read(id, "admin.nodes", json!({})).await {
                return Some(table);
            }
        }
        None
    }

    /// The state of each member of the cluster's table.
    pub(crate) async fn members(&self) -> BTreeMap<u64, String> {
        let table = self.table().await.expect("a node that answers");
        let members = table["members"].as_array().expect("members").iter();
        members
            .map(|member| {
                (member["node"].as_u64().expect("a node"), member["state"].as_str().expect("a state").to_owned())
            })
            .collect()
    }

    /// Waits until every node that runs serves and every shard has the replicas and the leader it should have.
    pub(crate) async fn ready(&self) {
        self.until("every shard has its replicas and a leader", async || {
            let standing = self.standing().await?;
            standing.check_ready()
        })
        .await;
    }

    /// Waits until in addition every replica of a shard has applied the same.
    pub(crate) async fn converged(&self) {
        self.until("all replicas have applied the same", async || {
            let standing = self.standing().await?;
            standing.check_ready()?;
            standing.check_applied()
        })
        .await;
    }

    /// Waits until every shard is led by the node that the directory wants to lead it: leaderships move there after a start.
    pub(crate) async fn led_where_wanted(&self) {
        self.until("every shard is led where it is to be", async || {
            let table = self.table().await.ok_or("no node tells the cluster's table")?;
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

    /// Asks again and again until there is no reason any more why not.
    pub(crate) async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
        let mut told = Instant::now();
        let deadline = told + PATIENCE;
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(why) if Instant::now() > deadline => panic!("waited {PATIENCE:?} in vain: {what}: {why}"),
                Err(why) => {
                    if Instant::now() > told + TOLD_EVERY {
                        told = Instant::now();
                        println!("waiting: {what}: {why}");
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// What the nodes that run say now.
    async fn standing(&self) -> Result<Standing, String> {
        let statuses = self.statuses().await;
        if let Some(silent) = self.running().into_iter().find(|id| !statuses.contains_key(id)) {
            return Err(format!("node {silent} does not answer"));
        }
        let table = self.table().await.ok_or("no node tells the cluster's table")?;
        Ok(Standing { statuses, table })
    }

    /// The homes, so that another test of the same kind may look at what was left.
    pub(crate) fn stop(mut self) {
        for id in self.running() {
            self.terminate(id);
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

/// Whether a node ended because its disk does not sync, and said so.
fn is_of_disk(code: Option<i32>, said: &str) -> bool {
    // The store looks at the free space before it begins; the faulty disk shows it as free.
    let is_full = said.contains("fjall") && said.contains("No space left on device");
    code == Some(4) && (said.contains("cannot sync") || is_full)
}

fn free_rid() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Relaxed)
}

impl Node {
    /// Whether it is to run.
    fn is_wanted(&self) -> bool {
        self.began && !self.gone
    }

    fn command(&self, id: u64, join: Option<SocketAddr>) -> Command {
        serve(&self.home, id, self.client, self.peers, SECRET, join)
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
    command.env("NO_COLOR", "1");
    command.args(["--node", &id.to_string(), "--peers-secret", secret]);
    command.args(["--peers-listen", &peers.to_string(), "--peers-advertise", &peers.to_string()]);
    if let Some(join) = join {
        command.args(["--join", &join.to_string()]);
    }
    command
}
