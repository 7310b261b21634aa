//! `boxoffice serve`: a node and its door, until it is told to stop or cannot go on.

use std::{io::Write, net::SocketAddr, pin::pin, sync::Arc, thread, time::Duration};

use boxoffice_core::{cluster::NODE_MAX, command::Machine};
use boxoffice_edge::{Edge, EdgeConfig, Limits, Runtimes as EdgeRuntimes};
use boxoffice_node::{
    config::{Fsync, Secret},
    contain,
    error::NodeError,
    gateway::HttpGateway,
    identity::{self, IdentityError, Joining},
    node::{Node, NodeHandle, Runtimes},
    peers::{PeerConfig, PeerTls, TcpNet},
    world::{Peer, World},
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
    config::{Config, DEFAULT, PeersConfig},
    descriptors::{self, Shares, Wanted},
    failure::{Failure, Outcome},
    join,
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
        // Whoever closed the pipe has read enough.
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
        calls: config.node.payments.gateway.as_ref().map_or(0, |gateway| gateway.concurrency),
    };
    let shares = descriptors::share(descriptors::raise(), &wanted).map_err(Failure::Usage)?;
    let limits = descriptors::door(&shares, &wanted);
    if let Some(gateway) = &mut config.node.payments.gateway
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
    let mut config = Config::load(args.config.as_deref()).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(listen) = &args.listen {
        config.listen = listen
            .parse::<SocketAddr>()
            .map_err(|_| Failure::Usage(format!("--listen {listen}: this is not an address like 127.0.0.1:7180")))?;
    }
    if let Some(data_dir) = &args.data_dir {
        config.node.data_dir.clone_from(data_dir);
    }
    if let Some(word) = args.fsync {
        config.node.fsync = word.fsync();
    }
    if args.admin_token.is_some() {
        config.admin_token.clone_from(&args.admin_token);
    }
    if let Some(secret) = &args.customer_secret {
        config.customer_secret = Some(Secret(secret.clone()));
    }
    with_peers(args, config)
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
    if let Some(secret) = &args.peers_secret {
        said.secret(secret);
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
    let signals = Signals::listen(until_input_ends)?;
    let mut config = config;
    let world = world(&config, &shares, &runtimes)?;
    become_member(&mut config, &world).await?;
    let node = Node::start(config.node.clone(), world, &runtimes).map_err(|error| Failure::Node(error.to_string()))?;
    let handle = node.handle().clone();
    let Config { listen, admin_token, customer_secret, origins, peers, page, .. } = config;
    let edge_config = EdgeConfig { listen, admin_token, customer_secret, origins, limits, page };
    let edge_runtimes = EdgeRuntimes { selling: runtimes.selling, watching: runtimes.watching };
    let edge = match Edge::bind(edge_config, Arc::new(handle.clone()), edge_runtimes) {
        Ok(edge) => edge,
        Err(error) => {
            let _ = node.stop(0).await;
            return Err(Failure::Node(error.to_string()));
        }
    };
    let address = edge.local_addr();
    let (stop, stopping) = oneshot::channel::<()>();
    let door = async {
        edge.run(async {
            // A sender that is gone says the same.
            let _ = stopping.await;
        })
        .await;
    };
    let mut ended = pin!(ended(&handle, signals));
    // Whoever is alone has nothing to say before it serves; a member tells how it is while it waits for others.
    let mut door = Some(door);
    let mut opened = None;
    if peers.is_some() {
        opened = door.take().map(tokio::spawn);
    }
    let early = tokio::select! {
        biased;
        failed = &mut ended => Some(failed),
        () = ready(&handle) => None,
    };
    let failed = match early {
        Some(failed) => failed,
        None => {
            println!(
                "boxoffice serves on http://{address}  (data in {}, fsync {})",
                data_dir.display(),
                fsync.as_str()
            );
            opened = opened.or_else(|| door.take().map(tokio::spawn));
            let failed = ended.await;
            eprintln!("boxoffice: stopping");
            failed
        }
    };
    drop(stop);
    if let Some(opened) = opened {
        // The door has its own bound on how long it waits for everybody to leave.
        let _ = opened.await;
    }
    let stopped = node.stop(PATIENCE_MS).await;
    match (failed, stopped) {
        // That is how it was to end.
        (_, Err(error @ NodeError::Drained { .. })) => {
            println!("boxoffice: {error}");
            Ok(())
        }
        (_, Err(error @ (NodeError::NotAMember { .. } | NodeError::Removed(_)))) => {
            Err(Failure::Refused(error.to_string()))
        }
        (Some(reason), _) => Err(Failure::Node(reason)),
        (None, Err(error)) => Err(Failure::Node(error.to_string())),
        (None, Ok(())) => Ok(()),
    }
}

/// What this node and the others show each other.
fn secret_of(peers: &PeersConfig) -> Secret {
    peers.secret.clone().unwrap_or_else(|| Secret(joining::ON_LOOPBACK.into()))
}

/// The operating system's, the gateway that the configuration names, and the links to other nodes if there may be some.
fn world(config: &Config, shares: &Shares, runtimes: &Runtimes) -> Result<World, Failure> {
    let mut world = World::alone();
    if let Some(config) = &config.node.payments.gateway {
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
            strangers_max: shares.strangers,
            descriptors_end: shares.ends_of_links(),
            ..PeerConfig::new(peers.listen, secret)
        };
        let net = TcpNet::new(links, runtimes.selling.clone(), Arc::clone(&world.clock), Arc::clone(&world.rng));
        world.net = Arc::new(net.map_err(|error| Failure::Node(error.to_string()))?);
    }
    Ok(world)
}

/// Says who this node is in its cluster: as its data directory says, or, if there is none yet and it is to join one, as
/// that cluster says.
async fn become_member(config: &mut Config, world: &World) -> Outcome {
    let Some(peers) = &config.peers else { return Ok(()) };
    config.node.peer_address.clone_from(&peers.advertise);
    config.node.client_address = peers.client_address(config.listen);
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
        let found = if identity.peers.is_empty() { join::cluster_at(&peers.join).await } else { None };
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
    let disk = identity::draw_disk(world, &config.node.data_dir).map_err(failed)?;
    let machine = Machine {
        disk,
        peer: config.node.peer_address.as_str().into(),
        client: config.node.client_address.as_str().into(),
        program: env!("CARGO_PKG_VERSION").into(),
    };
    let joiner = join::Joiner { node: config.wanted_node, machine, secret, admin_token: config.admin_token.clone() };
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
        peers: others.map(|member| Peer { node: member.node, address: member.peer.to_string() }).collect(),
        generation_min: own.first_generation,
    });
    Ok(())
}

async fn ready(handle: &NodeHandle) {
    while handle.ready().is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Waits until the node cannot go on, and why; or is told to stop.
async fn ended(handle: &NodeHandle, mut signals: Signals) -> Option<String> {
    tokio::select! {
        biased;
        reason = handle.failed() => Some(reason),
        () = signals.told_to_stop() => None,
    }
}

/// SIGTERM, Ctrl-C and, if that is wanted, the end of the standard input. They are heard from when this is made on: whoever
/// reads that the node serves may tell it to stop.
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

    async fn told_to_stop(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            // A sender that is gone says the same.
            _ = async { self.input.as_mut().expect("asked before").await }, if self.input.is_some() => {}
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
