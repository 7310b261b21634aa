//! `boxoffice serve`: a node and its door, until it is told to stop or cannot go on.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use boxoffice_core::{cluster::NODE_MAX, command::Machine};
use boxoffice_edge::{Certificate, Edge, EdgeConfig, Limits, Runtimes as EdgeRuntimes, TlsFiles, WebConfig};
use boxoffice_env::{PeerAddress, World, secret::Secret};
use boxoffice_links::{PeerConfig, PeerTls, TcpNet};
use boxoffice_node::{
    contain,
    error::NodeError,
    node::{Node, NodeHandle, Runtimes},
};
use boxoffice_payment::HttpGateway;
use boxoffice_storage::{
    fsync::Fsync,
    identity::{self, IdentityError, Joining},
};
use boxoffice_wire::joining;
use rustix::fs::Mode;
use tokio::{
    runtime,
    signal::unix::{self, Signal, SignalKind},
    sync::oneshot,
};

use crate::{
    args::{FsyncWord, Serve},
    certificates::Reloading,
    config::{Config, DEFAULT, PeersConfig, Web, check_url, parse_operators},
    descriptors::{self, Shares, Wanted},
    failure::{Failure, Outcome},
    join, reach,
};

/// How long answers under way are waited for at the end.
const PATIENCE_MS: u64 = 5_000;
/// How long a cluster is asked to let this node in.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);
impl FsyncWord {
    /// The durability this word stands for.
    pub fn fsync(self) -> Fsync {
        match self {
            FsyncWord::Always => Fsync::Always,
            FsyncWord::Interval => Fsync::Interval(100),
            FsyncWord::Never => Fsync::Never,
        }
    }

    /// The word as it stands on a command line.
    pub fn word(self) -> &'static str {
        match self {
            FsyncWord::Always => "always",
            FsyncWord::Interval => "interval",
            FsyncWord::Never => "never",
        }
    }
}

/// Runs a node.
pub fn run(args: &Serve) -> Outcome {
    if args.print_config {
        // The reader has closed the pipe.
        let _ = std::io::stdout().write_all(DEFAULT.as_bytes());
        return Ok(());
    }
    let config = settings(args)?;
    start_logging(&args.log, args.log_json)?;
    // What libraries write into the data directory is not for other users to read either.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let (config, shares, limits) = with_descriptors(config)?;
    stop_on_panic();
    let selling = runtime_of("selling", selling_threads(config.selling_threads), 0)?;
    let watching = runtime_of("watching", config.watching_threads, config.watching_nice)?;
    let runtimes = Runtimes { selling: selling.handle().clone(), watching: watching.handle().clone() };
    let outcome = selling.block_on(serve(config, (shares, limits), runtimes, args.until_input_ends));
    watching.shutdown_background();
    selling.shutdown_background();
    outcome
}

/// Raises the limit of file descriptors, and fits what was asked for into it.
fn with_descriptors(mut config: Config) -> Result<(Config, Shares, Limits), Failure> {
    let wanted = Wanted {
        connections: config.connections_max,
        is_said: config.connections_said,
        has_peers: config.peers.is_some(),
        calls: config.gateway.as_ref().map_or(0, |gateway| gateway.concurrency),
    };
    let shares = descriptors::share(descriptors::raise(), &wanted).map_err(Failure::Usage)?;
    let limits = Limits { frame_bytes_max: config.frame_bytes_max, ..descriptors::door(&shares, &wanted) };
    config.budgets.connections = descriptors::of_one_network(config.budgets.connections, &shares);
    if let Some(gateway) = &mut config.gateway
        && shares.calls < gateway.concurrency
    {
        tracing::warn!(
            calls = shares.calls,
            configured = gateway.concurrency,
            "there are file descriptors for fewer calls to the payment gateway than payments.under_way"
        );
        gateway.concurrency = shares.calls;
    }
    Ok((config, shares, limits))
}

fn settings(args: &Serve) -> Result<Config, Failure> {
    let mut config = Config::layered(&args.config).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(listen) = &args.listen {
        config.listen = listen
            .parse::<SocketAddr>()
            .map_err(|_| Failure::Usage(format!("--listen {listen}: this is not an address like 127.0.0.1:7180")))?;
    }
    if let Some(listen) = &args.ops_listen {
        config.operators = parse_operators(listen).map_err(|why| Failure::Usage(format!("--ops-listen: {why}")))?;
    }
    if let Some(data_dir) = &args.data_dir {
        config.node.data_dir.clone_from(data_dir);
    }
    if let Some(word) = args.fsync {
        config.node.fsync = word.fsync();
    }
    if let Some(token) = reach::token(args.admin_token.as_ref(), args.admin_token_file.as_deref())? {
        config.admin_token = Some(token);
    }
    if let Some(secret) = reach::token(args.customer_secret.as_ref(), args.customer_secret_file.as_deref())? {
        config.customer_secret = Some(Secret(secret));
    }
    if !config.listen.ip().is_loopback() {
        check_reachable(&config)?;
    }
    with_peers(args, with_web(args, config)?)
}

/// What the command line says about browsers.
fn with_web(args: &Serve, mut config: Config) -> Result<Config, Failure> {
    let web = &mut config.web;
    for (flag, said, url) in
        [("--public-url", &args.public_url, &mut web.public_url), ("--advertise", &args.advertise, &mut web.advertise)]
    {
        if let Some(said) = said {
            check_url(said).map_err(|why| Failure::Usage(format!("{flag}: {why}")))?;
            *url = Some(said.clone());
        }
    }
    if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
        web.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
    }
    if let Some(drain_ms) = args.drain_ms {
        web.drain = Duration::from_millis(drain_ms);
    }
    Ok(config)
}

/// Whether a node that other machines can reach knows operators and customers from strangers.
fn check_reachable(config: &Config) -> Result<(), Failure> {
    let address = config.listen;
    let lacks = if config.admin_token.is_none() {
        "no admin token: set listen.admin_token_file or BOXOFFICE_ADMIN_TOKEN (16 or more characters)"
    } else if config.customer_secret.is_none() && config.token_keys.is_empty() {
        "neither a customer secret nor a token key, so anybody could name any customer: set \
         listen.customer_secret_file, BOXOFFICE_CUSTOMER_SECRET or listen.token_keys"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "{address} can be reached from other machines, and there is {lacks}; or listen on 127.0.0.1"
    )))
}

/// Who may do what, in one line.
fn who_may(config: &Config, operators: SocketAddr) -> String {
    let strangers = match config.anonymous {
        Some(role) => format!("strangers may {}", role.name()),
        None => "strangers may do nothing".into(),
    };
    let recorded =
        if config.recorded_by_anyone { "ANYBODY MAY RECORD PAYMENTS" } else { "the role desk records payments" };
    let customers = match (&config.customer_secret, config.token_keys.is_empty()) {
        (None, true) => "customers are not checked",
        (Some(_), true) => "customers show tokens",
        (None, false) => "customers show short-lived tokens",
        (Some(_), false) => "customers show tokens, short-lived or not",
    };
    let operators = match &config.admin_token {
        Some(_) => "operators show a key or the admin token".to_owned(),
        None => format!("operators need no key at {operators}, as long as no key has the role admin"),
    };
    format!("{strangers}; {recorded}; {customers}; {operators}")
}

/// What the command line says about other nodes, and whether all of it fits together.
fn with_peers(args: &Serve, mut config: Config) -> Result<Config, Failure> {
    if let Some(node) = args.node {
        if !(1..=NODE_MAX).contains(&node) {
            return Err(Failure::Usage(format!("--node {node}: the number of a node is from 1 to {NODE_MAX}")));
        }
        config.wanted_node = Some(node);
        config.node.node_id = node;
    }
    let said = &mut config.said;
    if let Some(listen) = &args.peers_listen {
        said.listen(listen).map_err(|why| Failure::Usage(format!("--peers-listen: {why}")))?;
    }
    if let Some(advertise) = &args.peers_advertise {
        said.advertise(advertise);
    }
    if args.peers_plain {
        said.plain();
    }
    if let Some(secret) = reach::token(args.peers_secret.as_ref(), args.peers_secret_file.as_deref())? {
        said.secret(&secret);
    }
    if !args.join.is_empty() {
        said.join(&args.join);
    }
    // A secret in the environment does no harm to a node that is alone.
    if !said.listens() && (args.peers_advertise.is_some() || !args.join.is_empty()) {
        return Err(Failure::Usage("a node with --join or --peers-advertise has a --peers-listen as well".into()));
    }
    config.peers = said.clone().settled().map_err(Failure::Usage)?;
    Ok(config)
}

fn selling_threads(set: usize) -> usize {
    match set {
        0 => thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        set => set,
    }
}

/// A runtime whose threads give way to others by so much: Linux has a niceness for each thread.
fn runtime_of(name: &str, threads: usize, nice: i32) -> Result<runtime::Runtime, Failure> {
    let give_way = move || {
        if nice > 0
            && let Err(error) = rustix::process::setpriority_process(None, nice)
        {
            tracing::warn!(nice, %error, "threads do not give way to others");
        }
    };
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_start(give_way)
        .enable_all()
        .build()
        .map_err(|error| Failure::Node(format!("no threads for {name}: {error}; raise the limit of threads")))
}

fn start_logging(filter: &str, json: bool) -> Outcome {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| Failure::Usage(format!("--log {filter}: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        builder.json().init()
    } else {
        builder.init()
    }
    Ok(())
}

/// A broken invariant ends the process: what it would answer could be wrong. Actors and tasks would otherwise swallow it.
/// Only the panic of a decision, which has changed nothing yet, is the node's to contain.
fn stop_on_panic() {
    #[cfg(debug_assertions)]
    if let Ok(planted) = std::env::var("BOXOFFICE_PLANTED_PANICS") {
        contain::planted::plant(&planted);
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if contain::notes(panic) {
            return;
        }
        report(panic);
        eprintln!("boxoffice: an invariant is broken; the node stops before it could answer wrongly");
        std::process::abort();
    }));
}

async fn serve(
    config: Config,
    (shares, limits): (Shares, Limits),
    runtimes: Runtimes,
    until_input_ends: bool,
) -> Outcome {
    let data_dir = config.node.data_dir.clone();
    let fsync = config.node.fsync;
    let mut signals = Signals::listen(until_input_ends)?;
    let mut config = config;
    let certificate = config.web.tls.take().map(Certificate::load).transpose();
    let certificate = certificate.map_err(|error| Failure::Usage(error.to_string()))?.map(Arc::new);
    let (world, standing) = world(&config, &shares, &runtimes)?;
    become_member(&mut config, &world).await?;
    let node = Node::start(config.node.clone(), world, &runtimes).map_err(|error| Failure::Node(error.to_string()))?;
    let handle = node.handle().clone();
    let operators = config.operators.address(config.listen).map_err(Failure::Usage)?;
    let Web { hsts_s, proxies, public_url, advertise, drain, .. } = config.web.clone();
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let public = public_url.as_deref().map(|url| format!("browsers use {url}, ")).unwrap_or_default();
    let _reloading = Reloading::begin(certificate.clone(), standing)?;
    let edge_config = EdgeConfig {
        listen: config.listen,
        operators: Some(operators),
        admin_token: config.admin_token.clone(),
        anonymous: config.anonymous,
        recorded_by_anyone: config.recorded_by_anyone,
        customer_secret: config.customer_secret.clone(),
        webhook_secrets: config.webhook_secrets.clone(),
        token_keys: config.token_keys.clone(),
        origins: config.origins.clone(),
        limits,
        budgets: config.budgets.clone(),
        page: config.page.clone(),
        web: WebConfig { certificate, hsts_s, proxies, public_url, advertise },
    };
    let has_peers = config.peers.is_some();
    let edge_runtimes = EdgeRuntimes { selling: runtimes.selling, watching: runtimes.watching };
    let edge = match Edge::bind(edge_config, Arc::new(handle.clone()), edge_runtimes) {
        Ok(edge) => edge,
        Err(error) => {
            let _ = node.stop(0).await;
            return Err(Failure::Node(error.to_string()));
        }
    };
    let address = edge.local_addr();
    let edge_operators = edge.operators_addr();
    let notice = edge.notice();
    let (stop, stopping) = oneshot::channel::<()>();
    let door = async {
        edge.run(async {
            // A sender that is gone says the same.
            let _ = stopping.await;
        })
        .await;
    };
    // A node that is alone says nothing before it serves. A member reports while it waits for others.
    let mut door = Some(door);
    let mut opened = None;
    if has_peers {
        opened = door.take().map(tokio::spawn);
    }
    let early = tokio::select! {
        biased;
        ending = ended(&handle, &mut signals) => Some(ending),
        () = ready(&handle) => None,
    };
    let ending = match early {
        Some(ending) => ending,
        None => {
            let operators = edge_operators.unwrap_or(operators);
            // The reader of the output may have closed it once it knew the address.
            let _ = writeln!(
                std::io::stdout(),
                "boxoffice serves on {scheme}://{address}  ({public}operators on http://{operators}, data in {}, fsync {})\n{}",
                data_dir.display(),
                fsync.as_str(),
                who_may(&config, operators)
            );
            opened = opened.or_else(|| door.take().map(tokio::spawn));
            let ending = ended(&handle, &mut signals).await;
            eprintln!("boxoffice: stopping");
            if ending == Ending::Told(Stop::Announced) {
                notice.give();
                announced(&handle, &mut signals, drain).await;
            }
            ending
        }
    };
    drop(stop);
    if let Some(opened) = opened {
        // The door has its own bound on how long it waits for everybody to leave.
        let _ = opened.await;
    }
    let stopped = node.stop(PATIENCE_MS).await;
    match (ending, stopped) {
        // That is how it was to end.
        (_, Err(error @ NodeError::Drained { .. })) => {
            println!("boxoffice: {error}");
            Ok(())
        }
        (_, Err(error @ (NodeError::NotAMember { .. } | NodeError::Removed(_)))) => {
            Err(Failure::Refused(error.to_string()))
        }
        (Ending::Failed(reason), _) => Err(Failure::Node(reason)),
        (Ending::Told(_), Err(error)) => Err(Failure::Node(error.to_string())),
        (Ending::Told(_), Ok(())) => Ok(()),
    }
}

/// What this node and the others show each other.
fn secret_of(peers: &PeersConfig) -> Secret {
    peers.secret.clone().unwrap_or_else(|| Secret(joining::ON_LOOPBACK.into()))
}

/// The operating system's, the gateway that the configuration names, and the links to other nodes if there may be some.
fn world(config: &Config, shares: &Shares, runtimes: &Runtimes) -> Result<(World, Weak<TcpNet>), Failure> {
    let mut world = World::standalone();
    let mut standing = Weak::new();
    if let Some(config) = &config.gateway {
        let gateway = HttpGateway::new(config, runtimes.selling.clone());
        world.gateway = Arc::new(gateway.map_err(|error| Failure::Usage(error.to_string()))?);
    }
    if let Some(peers) = &config.peers {
        let secret = secret_of(peers);
        let tls = peers.tls.as_ref().map(|tls| PeerTls {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            authority: tls.authority.clone(),
        });
        let links = PeerConfig {
            tls,
            handshakes_max: shares.strangers,
            descriptors_end: shares.ends_of_links(),
            ..PeerConfig::new(peers.listen, secret)
        };
        let net = TcpNet::new(links, runtimes.selling.clone(), Arc::clone(&world.clock), Arc::clone(&world.rng));
        let net = Arc::new(net.map_err(|error| Failure::Node(error.to_string()))?);
        standing = Arc::downgrade(&net);
        world.net = net;
    }
    Ok((world, standing))
}

/// Says who this node is in its cluster: as its data directory says, or, if there is none yet and it is to join one, as
/// that cluster says.
async fn become_member(config: &mut Config, world: &World) -> Outcome {
    let Some(peers) = &config.peers else { return Ok(()) };
    config.node.peer_address.clone_from(&peers.advertise);
    let advertised = config.web.advertise.clone();
    config.node.client_address = advertised.unwrap_or_else(|| peers.client_address(config.listen));
    config.node.peer_routes.clone_from(&peers.routes);
    let secret = secret_of(peers);
    config.node.peer_secret = Some(secret.clone());
    let failed = |error: IdentityError| Failure::Node(error.to_string());
    let known = identity::read(&*world.disk, &config.node.data_dir).map_err(failed)?;
    if let Some(identity) = &known {
        if config.wanted_node.is_none() {
            config.node.node_id = identity.node;
        }
        if !identity.peers.is_empty() {
            config.node.shards = identity.shards;
        }
    }
    if peers.join.is_empty() {
        return Ok(());
    }
    if let Some(identity) = known {
        // Who has joined is held to its cluster by the links. Who founded one may be told to join another by mistake.
        let found = if identity.peers.is_empty() { join::cluster_at(&peers.join, &secret).await } else { None };
        return match found.filter(|found| *found != identity.cluster.to_string()) {
            None => Ok(()),
            Some(found) => Err(Failure::Refused(format!(
                "{} belongs to cluster {}, and what answers at {} is cluster {found}; name the right data directory, or an \
                 empty one to join anew",
                config.node.data_dir.display(),
                identity.cluster,
                peers.join.join(", ")
            ))),
        };
    }
    let disk = identity::draw_disk_id(world, &config.node.data_dir).map_err(failed)?;
    let machine = Machine {
        disk,
        peer: config.node.peer_address.as_str().into(),
        client: config.node.client_address.as_str().into(),
        program: env!("CARGO_PKG_VERSION").into(),
    };
    let joiner = join::Joiner { node: config.wanted_node, machine, secret };
    let joined = join::join(&peers.join, &joiner, JOIN_PATIENCE).await?;
    let strange = |why: &str| Failure::Node(format!("the cluster's answer is not understood: {why}"));
    let own = joined.members.iter().find(|member| member.node == joined.node);
    let own = own.ok_or_else(|| strange("this node is not among its members"))?;
    let others = joined.members.iter().filter(|member| member.node != joined.node && member.state != "gone");
    config.node.node_id = joined.node;
    config.node.shards = joined.shards;
    config.node.replicas = joined.replicas;
    config.node.joining = Some(Joining {
        cluster: joined.cluster.parse().map_err(strange)?,
        disk,
        peers: others.map(|member| PeerAddress { node: member.node, address: member.peer.to_string() }).collect(),
        generation_min: own.first_generation,
    });
    Ok(())
}

async fn ready(handle: &NodeHandle) {
    while handle.ready().is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Why a node ends.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// It cannot go on.
    Failed(String),
    /// It was told to stop.
    Told(Stop),
}

/// How a node was told to stop.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// By a supervisor (SIGTERM): load balancers hear of it first.
    Announced,
    /// By a person at the terminal, or with the program that started it.
    Now,
}

async fn ended(handle: &NodeHandle, signals: &mut Signals) -> Ending {
    tokio::select! {
        biased;
        reason = handle.failed() => Ending::Failed(reason),
        stop = signals.told_to_stop() => Ending::Told(stop),
    }
}

/// Keeps serving for `drain_ms` after the node has said that it stops. A second signal ends the wait.
async fn announced(handle: &NodeHandle, signals: &mut Signals, drain: Duration) {
    tokio::select! {
        () = tokio::time::sleep(drain) => {}
        _ = ended(handle, signals) => {}
    }
}

/// SIGTERM, Ctrl-C and, if that is wanted, the end of the standard input. They are heard from the moment when this is made, so
/// they may be sent as soon as the node says that it serves.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    input: Option<oneshot::Receiver<()>>,
}

impl Signals {
    fn listen(to_input: bool) -> Result<Signals, Failure> {
        let listen =
            |kind| unix::signal(kind).map_err(|error| Failure::Node(format!("cannot listen to signals: {error}")));
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt, input: to_input.then(input_ends).transpose()? })
    }

    async fn told_to_stop(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Stop::Announced,
            _ = self.interrupt.recv() => Stop::Now,
            // A sender that is gone says the same.
            _ = async { self.input.as_mut().expect("asked before").await }, if self.input.is_some() => Stop::Now,
        }
    }
}

/// Resolves when the standard input has ended. It has a thread of its own: a runtime would wait for its reading.
fn input_ends() -> Result<oneshot::Receiver<()>, Failure> {
    let (ended, ends) = oneshot::channel();
    let read = move || {
        // An input that fails has ended as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // The node may be gone already.
        let _ = ended.send(());
    };
    let thread = thread::Builder::new().name("input".into()).spawn(read);
    thread.map(|_| ends).map_err(|error| Failure::Node(format!("no thread for the standard input: {error}")))
}
