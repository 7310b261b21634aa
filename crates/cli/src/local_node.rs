//! Nodes of one's own: `boxoffice serve` processes with data directories that go away with them.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, mpsc},
    time::{Duration, Instant},
};

use boxoffice_client::{Client, ClientConfig, ClusterStatus};
use boxoffice_load::Keeper;
use boxoffice_wire::cluster::node_of;

use crate::{args::FsyncWord, failure::Failure, reach::block_on};

/// How long an orderly stop may take before the process is killed.
const STOP_TIME: Duration = Duration::from_secs(10);

/// How long a node may take until it serves.
const START_TIME: Duration = Duration::from_secs(120);

/// How long a cluster may take until every shard has its replicas.
const SETTLE_TIME: Duration = Duration::from_secs(120);

/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Ports for nodes of a cluster. Below those that connections are given: a client that tries again and again where nobody
/// listens could otherwise be given that very port, and meet itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What nodes of a cluster of one's own show each other.
const SECRET: &str = "nodes-of-one-load-run";

/// Copies of each shard, where there are so many nodes.
const REPLICAS: usize = 3;

/// A node process. Dropping it stops the process and removes its data.
#[derive(Debug)]
pub struct LocalNode {
    child: Child,
    /// What it is started with, again and again.
    args: Vec<String>,
    data_dir: PathBuf,
    /// Where it listens.
    pub address: String,
}

impl LocalNode {
    /// Starts a node on a free loopback port and waits until it serves.
    ///
    /// # Errors
    /// [`Failure::Node`] with what the process said.
    pub fn start(fsync: FsyncWord) -> Result<LocalNode, Failure> {
        LocalNode::start_with(fsync, "")
    }

    /// The same with this text as its configuration file.
    ///
    /// # Errors
    /// As [`LocalNode::start`].
    pub fn start_with(fsync: FsyncWord, config: &str) -> Result<LocalNode, Failure> {
        LocalNode::launch("", fsync, config, &["--listen".into(), "127.0.0.1:0".into()])
    }

    /// Starts a node whose files have this in their names, with more arguments, and waits until it serves.
    fn launch(name: &str, fsync: FsyncWord, config: &str, more: &[String]) -> Result<LocalNode, Failure> {
        let data_dir = std::env::temp_dir().join(format!("boxoffice-{}{name}", std::process::id()));
        let word = match fsync {
            FsyncWord::Always => "always",
            FsyncWord::Interval => "interval",
            FsyncWord::Never => "never",
        };
        let file = data_dir.with_extension("toml");
        std::fs::write(&file, config)
            .map_err(|error| Failure::Node(format!("cannot write {}: {error}", file.display())))?;
        let mut args: Vec<String> = ["serve", "--fsync", word, "--config"].map(Into::into).into();
        args.extend([file.display().to_string(), "--data-dir".into(), data_dir.display().to_string()]);
        args.extend_from_slice(more);
        let child = spawn(&args)?;
        let mut node = LocalNode { child, args, data_dir, address: String::new() };
        node.address = node.serves()?;
        Ok(node)
    }

    /// Waits until it says where it serves.
    fn serves(&mut self) -> Result<String, Failure> {
        let stdout = self.child.stdout.take().expect("its output is piped");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // Ends with the line that names the address, or with the process.
            let _ = BufReader::new(stdout).read_line(&mut line);
            // Whoever started it may have lost patience.
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(START_TIME).map_err(|_| {
            Failure::Node(format!("a node did not serve within {} s; what it said stands above", START_TIME.as_secs()))
        })?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        address
            .map(str::to_owned)
            .ok_or_else(|| Failure::Node("the node did not start; what it said stands above".into()))
    }

    /// The process id of the node.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("process {} cannot be killed: {error}", self.pid()))?;
        self.child.wait().map(drop).map_err(|error| format!("process {} does not end: {error}", self.pid()))
    }

    /// Starts it again with the disk it has, and waits until it serves.
    fn start_again(&mut self) -> Result<(), Failure> {
        self.child = spawn(&self.args)?;
        self.serves().map(drop)
    }
}

fn spawn(args: &[String]) -> Result<Child, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::Node(format!("no path to this program: {error}")))?;
    let child = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    child.map_err(|error| Failure::Node(format!("cannot start a node: {error}")))
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
                // It may have ended by itself.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let until = Instant::now() + STOP_TIME;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.data_dir);
        let _ = std::fs::remove_file(self.data_dir.with_extension("toml"));
    }
}

/// Several nodes that are one cluster. Dropping it ends them all.
#[derive(Debug)]
pub struct LocalCluster {
    fsync: FsyncWord,
    config: String,
    nodes: Mutex<Vec<LocalNode>>,
}

impl LocalCluster {
    /// Starts so many nodes on free loopback ports, each with this text as its configuration file, and waits until every
    /// shard has its replicas.
    ///
    /// # Errors
    /// [`Failure::Node`] with what a process said, or that the shards do not come to rest.
    pub fn start(nodes: usize, fsync: FsyncWord, config: &str) -> Result<LocalCluster, Failure> {
        let cluster = LocalCluster { fsync, config: config.to_owned(), nodes: Mutex::default() };
        for _ in 0..nodes {
            cluster.one_more()?;
        }
        cluster.settle(nodes)?;
        Ok(cluster)
    }

    /// Where they listen, by their numbers.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.address.clone()).collect()
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes().iter().map(LocalNode::pid).collect()
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<LocalNode>> {
        self.nodes.lock().expect("nobody panics with the nodes")
    }

    /// Starts one more node; the first founds the cluster, the others join it. Its address.
    fn one_more(&self) -> Result<String, Failure> {
        let mut nodes = self.nodes();
        let number = nodes.len() + 1;
        let (listen, peers) = (free_port(number)?, free_port(number + usize::from(PORTS.end - PORTS.start) / 2)?);
        let mut args: Vec<String> = vec!["--node".into(), number.to_string(), "--listen".into(), listen.to_string()];
        args.extend(["--peers-listen".into(), peers.to_string(), "--peers-secret".into(), SECRET.into()]);
        args.extend(nodes.iter().flat_map(|node| ["--join".into(), node.address.clone()]));
        let node = LocalNode::launch(&format!("-{number}"), self.fsync, &self.config, &args)?;
        let address = node.address.clone();
        nodes.push(node);
        Ok(address)
    }

    /// Waits until no shard moves, and each has as many voters as it can have.
    fn settle(&self, nodes: usize) -> Result<(), Failure> {
        let voters = if nodes < REPLICAS { 1 } else { REPLICAS };
        let addresses = self.addresses();
        block_on(async {
            let failed = |why: String| Failure::Node(format!("the nodes are no cluster: {why}"));
            let client = Client::connect(ClientConfig::new(addresses)).await;
            let client = client.map_err(|error| failed(error.to_string()))?;
            let until = Instant::now() + SETTLE_TIME;
            loop {
                let said = match client.nodes().await {
                    Ok(reply) if is_settled(&reply.value, nodes, voters) => {
                        match led_elsewhere(&reply.value, &self.addresses()).await {
                            0 => return Ok(()),
                            elsewhere => format!("{elsewhere} shards are not led where they should be"),
                        }
                    }
                    Ok(reply) => {
                        let moving = reply.value.places.iter().filter(|place| place.from.is_some()).count();
                        format!("{moving} of {} shards are still moving", reply.value.places.len())
                    }
                    Err(error) => error.to_string(),
                };
                if Instant::now() > until {
                    return Err(failed(said));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }
}

fn is_settled(cluster: &ClusterStatus, nodes: usize, voters: usize) -> bool {
    let serving = cluster.members.iter().filter(|member| member.state == "serving").count();
    serving == nodes && cluster.places.iter().all(|place| place.from.is_none() && place.voters.len() >= voters)
}

/// How many shards are not led by the node that should lead them.
async fn led_elsewhere(cluster: &ClusterStatus, addresses: &[String]) -> usize {
    let mut elsewhere = cluster.places.len();
    for (node, address) in (1..).zip(addresses) {
        let Ok(client) = Client::connect(ClientConfig::new([address])).await else { continue };
        let Ok(status) = client.status().await else { continue };
        let should = |shard: u32| {
            let place = cluster.places.iter().find(|place| place.shard == shard);
            place.is_some_and(|place| node_of(&place.leader) == Some(node))
        };
        let led = status.value.shards.iter().filter(|shard| shard.role == "leader" && should(shard.shard));
        elsewhere -= led.count().min(elsewhere);
    }
    elsewhere
}

/// A port of this machine that nobody listens on. Where it begins to look depends on the process and on `turn`, so that runs
/// side by side seldom want the same.
fn free_port(turn: usize) -> Result<SocketAddr, Failure> {
    let count = usize::from(PORTS.end - PORTS.start);
    let first = std::process::id() as usize * 7 + turn;
    let free =
        (0..count).map(|step| SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + ((first + step) % count) as u16)));
    let mut free = free.filter(|address| TcpListener::bind(address).is_ok());
    free.next().ok_or_else(|| Failure::Node("no free port on this machine".into()))
}

impl Keeper for LocalCluster {
    fn kill(&self, node: usize) -> Result<(), String> {
        self.nodes().get_mut(node).ok_or_else(|| format!("there is no node {node}"))?.kill()
    }

    fn start(&self, node: usize) -> Result<(), String> {
        let mut nodes = self.nodes();
        let node = nodes.get_mut(node).ok_or_else(|| format!("there is no node {node}"))?;
        node.start_again().map_err(|failure| failure.to_string())
    }

    fn add(&self) -> Result<String, String> {
        self.one_more().map_err(|failure| failure.to_string())
    }
}
