//! Nodes that the caller starts itself: `boxoffice serve` processes whose data directories are removed with them.

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
use rand::{TryRngCore, rngs::OsRng};

use crate::{node_controller::NodeController, run_certificate::RunCertificate};

/// How long an orderly stop may take before the process is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// How long a node may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long a cluster may take until every shard has its replicas.
const SETTLE_LIMIT: Duration = Duration::from_secs(120);

/// The pause between two checks of the shards.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Ports for the nodes of a cluster, below the ephemeral ports. Otherwise a client that retries a port where no process
/// listens could get that port as its own source port, and connect to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The configuration of nodes that are not to have the shipped one: anonymous clients may do everything that buyers do.
/// The node's own configuration comes after it.
const OPEN_CONFIG: &str = include_str!("../../../config/open.toml");

/// Copies of each shard, if there are enough nodes.
const REPLICAS: usize = 3;

/// How to start nodes.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    /// The program `boxoffice`.
    pub program: PathBuf,
    /// The beginning of the paths of a node's files. The number of a cluster's node and the kind of each file follow
    /// it.
    pub files: PathBuf,
    /// When changes become durable, as in `--fsync`.
    pub fsync: &'static str,
    /// The text of the configuration file.
    pub config: String,
    /// The nodes have the configuration that is shipped, besides this text. Otherwise anonymous clients may do
    /// everything that buyers do, without budgets and shares, because all of a run comes from one address.
    pub is_shipped: bool,
    /// The admin token. The nodes get it from the environment, because every user of the machine can read a command
    /// line.
    pub admin_token: String,
    /// The file to which the nodes append their log. The default is the standard error of this process.
    pub log: Option<PathBuf>,
    /// The connections of clients and between nodes are encrypted with it.
    pub certificate: Option<RunCertificate>,
    /// The port of a cluster's first node. The others take the next ones. Free ports if absent.
    pub port: Option<u16>,
}

/// Why local nodes do not serve.
#[derive(Debug, thiserror::Error)]
pub enum LocalNodeError {
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("cannot start {}: {error}", program.display())]
    Program { program: PathBuf, error: io::Error },
    #[error("the node did not start; see its output above")]
    Ended,
    #[error("a node did not serve within {} s; see its output above", START_LIMIT.as_secs())]
    Silent,
    #[error("no free port on this machine")]
    NoPort,
    #[error("port {0} is in use by another program; take another one")]
    PortTaken(u16),
    #[error("no randomness: {0}")]
    NoRandomness(String),
    /// The nodes serve, but their replicas do not get to their places.
    #[error("these nodes do not form a cluster: {0}")]
    NotPlaced(String),
}

/// A node process. Dropping it stops the process and removes its data.
#[derive(Debug)]
pub struct LocalNode {
    child: Child,
    program: PathBuf,
    /// The arguments of every start.
    args: Vec<String>,
    data_dir: PathBuf,
    log: Option<PathBuf>,
    admin_token: String,
    /// The secret of the cluster's nodes, which the node gets from the environment like the token.
    peer_secret: Option<String>,
    /// Where the node listens.
    pub address: String,
    /// The operators' port of a cluster's node, by which other nodes join. It never speaks TLS.
    operators: Option<SocketAddr>,
}

impl LocalNode {
    /// Starts a node on a free loopback port, and waits until it serves.
    ///
    /// # Errors
    /// [`LocalNodeError`]. The output of the process is on this process's standard error.
    pub fn start(launch: &LaunchConfig) -> Result<LocalNode, LocalNodeError> {
        LocalNode::launch("", launch, None, &["--listen".into(), "127.0.0.1:0".into()])
    }

    /// Starts a node with `name` in the paths of its files and with more arguments, and waits until it serves.
    fn launch(
        name: &str,
        launch: &LaunchConfig,
        peer_secret: Option<String>,
        more: &[String],
    ) -> Result<LocalNode, LocalNodeError> {
        let mut data_dir = launch.files.clone().into_os_string();
        data_dir.push(name);
        let data_dir = PathBuf::from(data_dir);
        let files = files_of(&data_dir);
        let mut config = launch.config.clone();
        if let Some(RunCertificate { certificate, key, .. }) = &launch.certificate {
            let pem = pem_files_of(&data_dir);
            write(&pem[0], certificate)?;
            write(&pem[1], key)?;
            config.push_str(&tls_config(&pem, peer_secret.is_some()));
        }
        let base = if launch.is_shipped { "" } else { OPEN_CONFIG };
        for (path, text) in files.iter().zip([base, &config]) {
            write(path, text)?;
        }
        // The node ends with this process, however this process ends, because its input is a pipe from here.
        let mut args: Vec<String> =
            ["serve", "--until-input-ends", "--drain-ms", "0", "--fsync", launch.fsync].map(Into::into).into();
        args.extend(files.iter().flat_map(|file| ["--config".into(), file.display().to_string()]));
        args.extend(["--data-dir".into(), data_dir.display().to_string()]);
        args.extend_from_slice(more);
        let (program, log, admin_token) = (launch.program.clone(), launch.log.clone(), launch.admin_token.clone());
        let child = spawn(&program, &args, log.as_deref(), (&admin_token, peer_secret.as_deref()))?;
        let (address, operators) = (String::new(), None);
        let mut node = LocalNode { child, program, args, data_dir, log, admin_token, peer_secret, address, operators };
        node.address = node.wait_until_serving()?;
        Ok(node)
    }

    /// Waits until the node prints its address.
    fn wait_until_serving(&mut self) -> Result<String, LocalNodeError> {
        let stdout = self.child.stdout.take().expect("its output is piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // Reading ends with the line that names the address, or with the process.
            let _ = BufReader::new(stdout).read_line(&mut line);
            // The caller may have stopped waiting.
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(START_LIMIT).map_err(|_| LocalNodeError::Silent)?;
        let address = line.split("://").nth(1).and_then(|rest| rest.split_whitespace().next());
        address.map(str::to_owned).ok_or(LocalNodeError::Ended)
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM, and does not wait.
    fn request_stop(&mut self) {
        if self.is_running()
            && let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
        {
            // The process may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// The node's admin token.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// The process id of the node.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL.
    fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("cannot kill process {}: {error}", self.pid()))?;
        self.child.wait().map(drop).map_err(|error| format!("process {} does not end: {error}", self.pid()))
    }

    /// Sends SIGTERM, and waits until the process has ended.
    fn stop(&mut self) -> Result<(), String> {
        self.request_stop();
        let until = Instant::now() + STOP_LIMIT;
        while self.is_running() {
            if Instant::now() > until {
                return Err(format!("process {} did not stop after SIGTERM", self.pid()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Starts the node again with its data, and waits until it serves.
    fn restart(&mut self) -> Result<(), LocalNodeError> {
        self.spawn_again()?;
        self.wait_until_serving().map(drop)
    }

    /// Starts the node again with its data, and does not wait.
    fn spawn_again(&mut self) -> Result<(), LocalNodeError> {
        self.child =
            spawn(&self.program, &self.args, self.log.as_deref(), (&self.admin_token, self.peer_secret.as_deref()))?;
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), LocalNodeError> {
    std::fs::write(path, text).map_err(|error| LocalNodeError::File { path: path.to_owned(), error })
}

/// The files of a node's certificate and its key.
fn pem_files_of(data_dir: &Path) -> [PathBuf; 2] {
    ["certificate.pem", "key.pem"].map(|extension| data_dir.with_extension(extension))
}

/// The configuration of a node that encrypts.
fn tls_config([certificate, key]: &[PathBuf; 2], has_peers: bool) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    let files = format!("tls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n");
    let peers = format!("[peers]\n{files}tls_authority = \"{certificate}\"\n");
    format!("[listen]\n{files}{}", if has_peers { peers } else { String::new() })
}

/// The configuration files of a node: the common one and its own.
fn files_of(data_dir: &Path) -> [PathBuf; 2] {
    ["open.toml", "toml"].map(|extension| data_dir.with_extension(extension))
}

fn spawn(
    program: &Path,
    args: &[String],
    log: Option<&Path>,
    (admin_token, peer_secret): (&str, Option<&str>),
) -> Result<Child, LocalNodeError> {
    let mut command = Command::new(program);
    command.env("BOXOFFICE_ADMIN_TOKEN", admin_token);
    if let Some(secret) = peer_secret {
        command.env("BOXOFFICE_PEERS_SECRET", secret);
    }
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
        if self.is_running() {
            // A process that does not stop in time is killed.
            let _ = self.stop();
            let _ = self.kill();
        }
        let _ = std::fs::remove_dir_all(&self.data_dir);
        for file in files_of(&self.data_dir).into_iter().chain(pem_files_of(&self.data_dir)) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Several nodes that form a cluster. Dropping it stops them all.
#[derive(Debug)]
pub struct LocalCluster {
    launch: LaunchConfig,
    /// What the nodes prove to each other, drawn for this cluster.
    peer_secret: String,
    nodes: Mutex<Vec<LocalNode>>,
}

/// One node of a local cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalNodeStatus {
    /// Where the node listens while its process runs.
    pub address: String,
    /// The process id of the node, or of its last process.
    pub pid: u32,
    /// Whether that process runs.
    pub is_running: bool,
}

impl Drop for LocalCluster {
    /// Tells all nodes to stop at once, so that they stop side by side.
    fn drop(&mut self) {
        self.nodes().iter_mut().for_each(LocalNode::request_stop);
    }
}

impl LocalCluster {
    /// Starts nodes on free loopback ports, and waits until each serves. It does not wait for the shards, see
    /// [`LocalCluster::wait_until_placed`].
    ///
    /// # Errors
    /// As [`LocalNode::start`].
    pub fn start(nodes: usize, launch: LaunchConfig) -> Result<LocalCluster, LocalNodeError> {
        let mut secret = [0; 32];
        OsRng.try_fill_bytes(&mut secret).map_err(|error| LocalNodeError::NoRandomness(error.to_string()))?;
        let peer_secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let cluster = LocalCluster { launch, peer_secret, nodes: Mutex::default() };
        for _ in 0..nodes {
            cluster.add_node()?;
        }
        Ok(cluster)
    }

    /// The cluster's admin token.
    pub fn admin_token(&self) -> &str {
        &self.launch.admin_token
    }

    /// The addresses of the nodes, in order.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.address.clone()).collect()
    }

    /// The process ids of the nodes, in order.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes().iter().map(LocalNode::pid).collect()
    }

    /// The state of each node, in order.
    pub fn node_statuses(&self) -> Vec<LocalNodeStatus> {
        let status = |node: &mut LocalNode| LocalNodeStatus {
            address: node.address.clone(),
            pid: node.pid(),
            is_running: node.is_running(),
        };
        self.nodes().iter_mut().map(status).collect()
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<LocalNode>> {
        self.nodes.lock().expect("no thread panics while it holds the lock")
    }

    /// Starts one more node, and returns its address. The first node founds the cluster, the others join it.
    fn add_node(&self) -> Result<String, LocalNodeError> {
        let mut nodes = self.nodes();
        let number = nodes.len() + 1;
        let part = usize::from(PORTS.end - PORTS.start) / 3;
        let listen = match self.launch.port {
            Some(first) => given_port(first, number)?,
            None => free_port(number)?,
        };
        let (peers, operators) = (free_port(number + part)?, free_port(number + 2 * part)?);
        let mut args: Vec<String> = vec!["--node".into(), number.to_string(), "--listen".into(), listen.to_string()];
        args.extend(["--ops-listen".into(), operators.to_string()]);
        args.extend(["--peers-listen".into(), peers.to_string()]);
        let members = nodes.iter().filter_map(|node| node.operators);
        args.extend(members.flat_map(|operators| ["--join".into(), operators.to_string()]));
        let mut node = LocalNode::launch(&format!("-{number}"), &self.launch, Some(self.peer_secret.clone()), &args)?;
        node.operators = Some(operators);
        let address = node.address.clone();
        nodes.push(node);
        Ok(address)
    }

    /// Waits until no shard moves, each has as many voters as possible, and each is led by the node that should lead
    /// it. Each node must report this itself, because it may learn it later than the directory.
    ///
    /// # Errors
    /// [`LocalNodeError::NotPlaced`] if the replicas do not get to their places.
    pub async fn wait_until_placed(&self) -> Result<(), LocalNodeError> {
        let addresses = self.addresses();
        let voters = if addresses.len() < REPLICAS { 1 } else { REPLICAS };
        let client = Client::connect(self.launch.operator(addresses.clone())).await;
        let client = client.map_err(|error| LocalNodeError::NotPlaced(error.to_string()))?;
        let until = Instant::now() + SETTLE_LIMIT;
        loop {
            let problem = match client.nodes().await {
                Ok(reply) if is_placed(&reply.value, addresses.len(), voters) => {
                    let nodes = ask_each(&addresses, &self.launch).await;
                    let promised = nodes.iter().flatten().filter(|node| node.durability.replicas as usize >= voters);
                    match (led_elsewhere(&reply.value, &nodes), promised.count()) {
                        (0, promised) if promised == nodes.len() => return Ok(()),
                        (0, promised) => format!("only {promised} nodes promise {voters} copies of everything"),
                        (elsewhere, _) => format!("{elsewhere} shards are not led by the node that should lead them"),
                    }
                }
                Ok(reply) => {
                    let moving = reply.value.places.iter().filter(|place| place.from.is_some()).count();
                    format!("{moving} of {} shards are still moving", reply.value.places.len())
                }
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                return Err(LocalNodeError::NotPlaced(problem));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

impl LaunchConfig {
    /// The configuration of an operator's client.
    fn operator(&self, addresses: Vec<String>) -> ClientConfig {
        let tls = self.certificate.as_ref().map(|certificate| certificate.authorities.clone());
        ClientConfig { admin_token: Some(AdminToken(self.admin_token.clone())), tls, ..ClientConfig::new(addresses) }
    }
}

fn is_placed(cluster: &ClusterStatus, nodes: usize, voters: usize) -> bool {
    let serving = cluster.members.iter().filter(|member| member.state == "serving").count();
    serving == nodes && cluster.places.iter().all(|place| place.from.is_none() && place.voters.len() >= voters)
}

/// The status of each node. `None` for a node that does not answer.
async fn ask_each(addresses: &[String], launch: &LaunchConfig) -> Vec<Option<NodeStatus>> {
    let mut nodes = Vec::new();
    for address in addresses {
        let status = async { Client::connect(launch.operator(vec![address.clone()])).await?.status().await }.await;
        nodes.push(status.ok().map(|reply| reply.value));
    }
    nodes
}

/// The number of shards that are not led by the node that should lead them.
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

/// The port of the node with this number, from 1, if the first node has `first`.
fn given_port(first: u16, number: usize) -> Result<SocketAddr, LocalNodeError> {
    let port = u16::try_from(usize::from(first) + number - 1).map_err(|_| LocalNodeError::NoPort)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(address) {
        Ok(_) => Ok(address),
        Err(_) => Err(LocalNodeError::PortTaken(port)),
    }
}

/// A free port of this machine. The search begins at a place that depends on the process and on `turn`, so that
/// concurrent runs rarely choose the same port.
fn free_port(turn: usize) -> Result<SocketAddr, LocalNodeError> {
    let count = usize::from(PORTS.end - PORTS.start);
    let first = std::process::id() as usize * 7 + turn;
    let free =
        (0..count).map(|step| SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + ((first + step) % count) as u16)));
    let mut free = free.filter(|address| TcpListener::bind(address).is_ok());
    free.next().ok_or(LocalNodeError::NoPort)
}

impl NodeController for LocalCluster {
    fn kill(&self, node: usize) -> Result<(), String> {
        self.nodes().get_mut(node).ok_or_else(|| format!("there is no node {node}"))?.kill()
    }

    fn stop(&self, node: usize) -> Result<(), String> {
        self.nodes().get_mut(node).ok_or_else(|| format!("there is no node {node}"))?.stop()
    }

    fn start(&self, node: usize) -> Result<(), String> {
        let mut nodes = self.nodes();
        let node = nodes.get_mut(node).ok_or_else(|| format!("there is no node {node}"))?;
        node.restart().map_err(|error| error.to_string())
    }

    fn restart_all(&self) -> Result<(), String> {
        let mut nodes = self.nodes();
        nodes.iter_mut().try_for_each(LocalNode::kill)?;
        // No node serves before most of them run.
        let again = |nodes: &mut [LocalNode]| {
            nodes.iter_mut().try_for_each(LocalNode::spawn_again)?;
            nodes.iter_mut().try_for_each(|node| node.wait_until_serving().map(drop))
        };
        again(&mut nodes).map_err(|error: LocalNodeError| error.to_string())
    }

    fn add(&self) -> Result<String, String> {
        self.add_node().map_err(|error| error.to_string())
    }
}
