//! Nodes of one's own: `boxoffice serve` processes with data directories that go away with them.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, mpsc},
    time::{Duration, Instant},
};

use boxoffice_client::{AdminToken, Client, ClientConfig, ClusterStatus, NodeStatus};
use boxoffice_wire::cluster::node_of;

use crate::Keeper;

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

/// What every node is set to: strangers may do everything that buyers do. The rest of its configuration comes after it.
const OPEN: &str = include_str!("../../../config/open.toml");

/// What nodes of a cluster of one's own show each other.
const SECRET: &str = "nodes-of-one-load-run";

/// Copies of each shard, where there are so many nodes.
const REPLICAS: usize = 3;

/// What nodes are started with.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program `boxoffice`.
    pub program: PathBuf,
    /// What the paths of a node's files begin with: the number of a cluster's node and what each file is stand behind it.
    pub files: PathBuf,
    /// When changes are made durable, in the words of `--fsync`.
    pub fsync: &'static str,
    /// The text of the configuration file.
    pub config: String,
    /// What operators show them: not on the command line, where everybody on this machine could read it.
    pub admin_token: String,
    /// Where what they say besides is added to; this process's standard error if nowhere.
    pub log: Option<PathBuf>,
}

/// Why nodes of one's own do not serve.
#[derive(Debug, thiserror::Error)]
pub enum LocalNodeError {
    /// The configuration file.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the file system says.
        error: io::Error,
    },
    /// The program.
    #[error("cannot start {}: {error}", program.display())]
    Program {
        /// Which program.
        program: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It ended without having served.
    #[error("the node did not start; what it said stands above")]
    Ended,
    /// It takes too long.
    #[error("a node did not serve within {} s; what it said stands above", START_TIME.as_secs())]
    Silent,
    /// All ports are taken.
    #[error("no free port on this machine")]
    NoPort,
    /// They serve, but not as a whole.
    #[error("the nodes are no cluster: {0}")]
    NoCluster(String),
}

/// A node process. Dropping it stops the process and removes its data.
#[derive(Debug)]
pub struct LocalNode {
    child: Child,
    program: PathBuf,
    /// What it is started with, again and again.
    args: Vec<String>,
    data_dir: PathBuf,
    log: Option<PathBuf>,
    admin_token: String,
    /// Where it listens.
    pub address: String,
}

impl LocalNode {
    /// Starts a node on a free loopback port and waits until it serves.
    ///
    /// # Errors
    /// [`LocalNodeError`]; what the process said is on this one's standard error.
    pub fn start(launch: &Launch) -> Result<LocalNode, LocalNodeError> {
        LocalNode::launch("", launch, &["--listen".into(), "127.0.0.1:0".into()])
    }

    /// Starts a node whose files have this in their names, with more arguments, and waits until it serves.
    fn launch(name: &str, launch: &Launch, more: &[String]) -> Result<LocalNode, LocalNodeError> {
        let mut data_dir = launch.files.clone().into_os_string();
        data_dir.push(name);
        let data_dir = PathBuf::from(data_dir);
        let files = files_of(&data_dir);
        for (path, text) in files.iter().zip([OPEN, &launch.config]) {
            std::fs::write(path, text).map_err(|error| LocalNodeError::File { path: path.clone(), error })?;
        }
        // It ends with this process, however that ends: its input is a pipe from here.
        let mut args: Vec<String> =
            ["serve", "--until-input-ends", "--drain-ms", "0", "--fsync", launch.fsync].map(Into::into).into();
        args.extend(files.iter().flat_map(|file| ["--config".into(), file.display().to_string()]));
        args.extend(["--data-dir".into(), data_dir.display().to_string()]);
        args.extend_from_slice(more);
        let (program, log, admin_token) = (launch.program.clone(), launch.log.clone(), launch.admin_token.clone());
        let child = spawn(&program, &args, log.as_deref(), &admin_token)?;
        let mut node = LocalNode { child, program, args, data_dir, log, admin_token, address: String::new() };
        node.address = node.serves()?;
        Ok(node)
    }

    /// Waits until it says where it serves.
    fn serves(&mut self) -> Result<String, LocalNodeError> {
        let stdout = self.child.stdout.take().expect("its output is piped");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // Ends with the line that names the address, or with the process.
            let _ = BufReader::new(stdout).read_line(&mut line);
            // Whoever started it may have lost patience.
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(START_TIME).map_err(|_| LocalNodeError::Silent)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        address.map(str::to_owned).ok_or(LocalNodeError::Ended)
    }

    /// Whether the process runs.
    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells it to stop, without waiting for that.
    fn tell_to_stop(&mut self) {
        if self.runs()
            && let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
        {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// What operators show it.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
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

    /// Tells it to stop, and waits until it has.
    fn stop(&mut self) -> Result<(), String> {
        self.tell_to_stop();
        let until = Instant::now() + STOP_TIME;
        while self.runs() {
            if Instant::now() > until {
                return Err(format!("process {} was told to stop and does not", self.pid()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Starts it again with the disk it has, and waits until it serves.
    fn start_again(&mut self) -> Result<(), LocalNodeError> {
        self.child = spawn(&self.program, &self.args, self.log.as_deref(), &self.admin_token)?;
        self.serves().map(drop)
    }
}

/// The configuration files of a node: what all are set to, and its own.
fn files_of(data_dir: &Path) -> [PathBuf; 2] {
    ["open.toml", "toml"].map(|extension| data_dir.with_extension(extension))
}

fn spawn(program: &Path, args: &[String], log: Option<&Path>, admin_token: &str) -> Result<Child, LocalNodeError> {
    let mut command = Command::new(program);
    command.env("BOXOFFICE_ADMIN_TOKEN", admin_token);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(path) = log {
        let file = File::options().create(true).append(true).open(path);
        command.stderr(file.map_err(|error| LocalNodeError::File { path: path.to_owned(), error })?);
    }
    let child = command.spawn();
    child.map_err(|error| LocalNodeError::Program { program: program.to_owned(), error })
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if self.runs() {
            self.tell_to_stop();
            let until = Instant::now() + STOP_TIME;
            while self.runs() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.data_dir);
        for file in files_of(&self.data_dir) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Several nodes that are one cluster. Dropping it ends them all.
#[derive(Debug)]
pub struct LocalCluster {
    launch: Launch,
    nodes: Mutex<Vec<LocalNode>>,
}

/// How one node of a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where it listens, when it runs.
    pub address: String,
    /// Its process, or its last one.
    pub pid: u32,
    /// Whether that runs.
    pub runs: bool,
}

impl Drop for LocalCluster {
    /// All at once: each has to stop, and none for the others.
    fn drop(&mut self) {
        self.nodes().iter_mut().for_each(LocalNode::tell_to_stop);
    }
}

impl LocalCluster {
    /// Starts so many nodes on free loopback ports and waits until each serves; see [`LocalCluster::settle`].
    ///
    /// # Errors
    /// As [`LocalNode::start`].
    pub fn start(nodes: usize, launch: Launch) -> Result<LocalCluster, LocalNodeError> {
        let cluster = LocalCluster { launch, nodes: Mutex::default() };
        for _ in 0..nodes {
            cluster.one_more()?;
        }
        Ok(cluster)
    }

    /// What operators show them.
    pub fn admin_token(&self) -> &str {
        &self.launch.admin_token
    }

    /// Where they listen, by their numbers.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.address.clone()).collect()
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes().iter().map(LocalNode::pid).collect()
    }

    /// How they stand, by their numbers.
    pub fn standing(&self) -> Vec<Standing> {
        let stands =
            |node: &mut LocalNode| Standing { address: node.address.clone(), pid: node.pid(), runs: node.runs() };
        self.nodes().iter_mut().map(stands).collect()
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<LocalNode>> {
        self.nodes.lock().expect("nobody panics with the nodes")
    }

    /// Starts one more node; the first founds the cluster, the others join it. Its address.
    fn one_more(&self) -> Result<String, LocalNodeError> {
        let mut nodes = self.nodes();
        let number = nodes.len() + 1;
        let (listen, peers) = (free_port(number)?, free_port(number + usize::from(PORTS.end - PORTS.start) / 2)?);
        let mut args: Vec<String> = vec!["--node".into(), number.to_string(), "--listen".into(), listen.to_string()];
        args.extend(["--ops-listen".into(), "127.0.0.1:0".into()]);
        args.extend(["--peers-listen".into(), peers.to_string(), "--peers-secret".into(), SECRET.into()]);
        args.extend(nodes.iter().flat_map(|node| ["--join".into(), node.address.clone()]));
        let node = LocalNode::launch(&format!("-{number}"), &self.launch, &args)?;
        let address = node.address.clone();
        nodes.push(node);
        Ok(address)
    }

    /// Waits until no shard moves, each has as many voters as it can have and is led where it should be, and every node says
    /// so of itself: it may know later than the directory.
    ///
    /// # Errors
    /// [`LocalNodeError::NoCluster`] if the shards do not come to rest.
    pub async fn settle(&self) -> Result<(), LocalNodeError> {
        let addresses = self.addresses();
        let voters = if addresses.len() < REPLICAS { 1 } else { REPLICAS };
        let client = Client::connect(operator(addresses.clone(), &self.launch.admin_token)).await;
        let client = client.map_err(|error| LocalNodeError::NoCluster(error.to_string()))?;
        let until = Instant::now() + SETTLE_TIME;
        loop {
            let said = match client.nodes().await {
                Ok(reply) if is_settled(&reply.value, addresses.len(), voters) => {
                    let nodes = ask_each(&addresses, &self.launch.admin_token).await;
                    let promised = nodes.iter().flatten().filter(|node| node.durability.replicas as usize >= voters);
                    match (led_elsewhere(&reply.value, &nodes), promised.count()) {
                        (0, promised) if promised == nodes.len() => return Ok(()),
                        (0, promised) => format!("only {promised} nodes promise {voters} copies of everything"),
                        (elsewhere, _) => format!("{elsewhere} shards are not led where they should be"),
                    }
                }
                Ok(reply) => {
                    let moving = reply.value.places.iter().filter(|place| place.from.is_some()).count();
                    format!("{moving} of {} shards are still moving", reply.value.places.len())
                }
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                return Err(LocalNodeError::NoCluster(said));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn operator(addresses: Vec<String>, admin_token: &str) -> ClientConfig {
    ClientConfig { admin_token: Some(AdminToken(admin_token.to_owned())), ..ClientConfig::new(addresses) }
}

fn is_settled(cluster: &ClusterStatus, nodes: usize, voters: usize) -> bool {
    let serving = cluster.members.iter().filter(|member| member.state == "serving").count();
    serving == nodes && cluster.places.iter().all(|place| place.from.is_none() && place.voters.len() >= voters)
}

/// What each node says of itself, if it does.
async fn ask_each(addresses: &[String], admin_token: &str) -> Vec<Option<NodeStatus>> {
    let mut nodes = Vec::new();
    for address in addresses {
        let status =
            async { Client::connect(operator(vec![address.clone()], admin_token)).await?.status().await }.await;
        nodes.push(status.ok().map(|reply| reply.value));
    }
    nodes
}

/// How many shards are not led by the node that should lead them.
fn led_elsewhere(cluster: &ClusterStatus, nodes: &[Option<NodeStatus>]) -> usize {
    let mut elsewhere = cluster.places.len();
    for (node, status) in (1..).zip(nodes) {
        let Some(status) = status else { continue };
        let should = |shard: u32| {
            let place = cluster.places.iter().find(|place| place.shard == shard);
            place.is_some_and(|place| node_of(&place.leader) == Some(node))
        };
        let led = status.shards.iter().filter(|shard| shard.role == "leader" && should(shard.shard));
        elsewhere -= led.count().min(elsewhere);
    }
    elsewhere
}

/// A port of this machine that nobody listens on. Where it begins to look depends on the process and on `turn`, so that runs
/// side by side seldom want the same.
fn free_port(turn: usize) -> Result<SocketAddr, LocalNodeError> {
    let count = usize::from(PORTS.end - PORTS.start);
    let first = std::process::id() as usize * 7 + turn;
    let free =
        (0..count).map(|step| SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + ((first + step) % count) as u16)));
    let mut free = free.filter(|address| TcpListener::bind(address).is_ok());
    free.next().ok_or(LocalNodeError::NoPort)
}

impl Keeper for LocalCluster {
    fn kill(&self, node: usize) -> Result<(), String> {
        self.nodes().get_mut(node).ok_or_else(|| format!("there is no node {node}"))?.kill()
    }

    fn stop(&self, node: usize) -> Result<(), String> {
        self.nodes().get_mut(node).ok_or_else(|| format!("there is no node {node}"))?.stop()
    }

    fn start(&self, node: usize) -> Result<(), String> {
        let mut nodes = self.nodes();
        let node = nodes.get_mut(node).ok_or_else(|| format!("there is no node {node}"))?;
        node.start_again().map_err(|error| error.to_string())
    }

    fn add(&self) -> Result<String, String> {
        self.one_more().map_err(|error| error.to_string())
    }
}
