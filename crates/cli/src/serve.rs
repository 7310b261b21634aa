//! `boxoffice serve`: a node and its ports, until it is stopped or fails.

mod membership;
mod offered;
mod reachable;
mod renewal;
mod settings;
mod signals;
mod stuck;

use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    sync::Arc,
    thread,
    time::Duration,
};

use boxoffice_edge::{Certificate, Edge, Limits};
use boxoffice_node::{
    contain,
    error::NodeError,
    node::{Node, NodeHandle, Runtimes},
};
use boxoffice_storage::identity;
use rustix::fs::Mode;
use tokio::{runtime, sync::oneshot};

use self::{
    membership::{become_member, secrets, world},
    settings::settings,
    signals::{Signals, Stop},
    stuck::StuckWatch,
};
use crate::{
    args::Serve,
    certificates::Reloading,
    config::{Config, DEFAULT},
    descriptors::{self, Demand, Shares},
    failure::{Failure, Outcome},
    invitation::Invitation,
    log,
    peer_secret::{self, PeerSecret},
    version::VERSION,
};

/// How long a stopping node waits for answers under way.
const STOP_TIMEOUT_MS: u64 = 5_000;

/// Makes this machine a member of the cluster whose invitation is on the standard input, and runs its node.
pub fn join(args: &Serve) -> Outcome {
    if std::io::stdin().is_terminal() {
        eprintln!("Paste the line that `boxoffice admin invite` prints, then press Enter:");
    }
    let invitation = Invitation::read_from(&mut std::io::stdin().lock())?;
    run_invited(args, Some(invitation))
}

/// Runs a node.
pub fn run(args: &Serve) -> Outcome {
    run_invited(args, None)
}

fn run_invited(args: &Serve, invited: Option<Invitation>) -> Outcome {
    if args.print_config {
        // The reader may have closed the pipe.
        let _ = std::io::stdout().write_all(DEFAULT.as_bytes());
        return Ok(());
    }
    // What is wrong with the configuration is an object too, if the log has objects.
    log::start(&args.log, args.log_json)?;
    let mut config = settings(args)?;
    if args.check {
        return check(&config);
    }
    // Files that libraries write into the data directory are private as well.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if let Some(invited) = &invited {
        accept(&mut config, invited)?;
    }
    let (config, shares) = with_descriptors(config)?;
    stop_on_panic();
    let selling = runtime_of("selling", selling_threads(config.selling_threads), 0)?;
    let watching = runtime_of("watching", config.watching_threads, config.watching_nice)?;
    let runtimes = Runtimes { selling: selling.handle().clone(), watching: watching.handle().clone() };
    let watched = [("actors and buyers", selling.handle()), ("feeds and watchers", watching.handle())];
    let stuck_watch = config.stuck.map(|limit| StuckWatch::start(&watched, limit)).transpose();
    let stuck_watch = stuck_watch.map_err(|error| no_threads("looking at the others", &error))?;
    let outcome = selling.block_on(serve(config, invited, shares, runtimes, args.until_input_ends));
    drop(stuck_watch);
    watching.shutdown_background();
    selling.shutdown_background();
    outcome
}

/// Reads what the configuration names, and changes nothing.
fn check(config: &Config) -> Outcome {
    config.operators.address(config.edge.listen).map_err(Failure::Usage)?;
    certificate(config)?;
    // The reader may have closed the pipe.
    let _ = writeln!(std::io::stdout(), "the configuration is good: a node would start with it");
    Ok(())
}

/// The certificate of the clients' port, if it speaks TLS.
fn certificate(config: &Config) -> Result<Option<Certificate>, Failure> {
    let Some(files) = &config.tls else { return Ok(None) };
    let loaded = Certificate::load(files.clone()).map_err(|error| {
        let key = if error.file == files.key { "listen.tls_key" } else { "listen.tls_certificate" };
        let place = config.places.get(key).map_or("", String::as_str);
        Failure::Usage(format!("{place}{error}"))
    });
    loaded.map(Some)
}

/// Writes the secret of an invitation into the node's file, and joins where the invitation says.
fn accept(config: &mut Config, invited: &Invitation) -> Outcome {
    let Some(peers) = &mut config.peers else {
        return Err(Failure::Usage(
            "a node that joins others has a port for them: set peers.listen (--peers-listen), and the other settings that \
             `boxoffice serve` takes"
                .into(),
        ));
    };
    let path = match &peers.secret {
        PeerSecret::File { path, .. } => path.clone(),
        PeerSecret::Set(_) => {
            return Err(Failure::Usage(
                "the invitation has the secret of the nodes: leave out peers.secret (BOXOFFICE_PEERS_SECRET)".into(),
            ));
        }
    };
    peer_secret::write_invited(&path, &invited.secret)?;
    log::say(&format!("{} has the secret of the cluster's nodes", path.display()));
    peers.join.clone_from(&invited.addresses);
    Ok(())
}

/// Raises the limit of file descriptors, and fits the configured limits into it.
fn with_descriptors(mut config: Config) -> Result<(Config, Shares), Failure> {
    let demand = Demand {
        connections: config.edge.limits.connections_max,
        is_configured: config.connections_configured,
        has_peers: config.peers.is_some(),
        calls: config.gateway.as_ref().map_or(0, |gateway| gateway.concurrency),
    };
    let shares = descriptors::share(descriptors::raise(), &demand).map_err(Failure::Usage)?;
    let Limits { frame_bytes_max, unsent_bytes_max, handshake_percent, .. } = config.edge.limits;
    let limits = descriptors::edge_limits(&shares, &demand);
    config.edge.limits = Limits { frame_bytes_max, unsent_bytes_max, handshake_percent, ..limits };
    let budgets = &mut config.edge.budgets;
    budgets.connections = descriptors::of_one_network(budgets.connections, &shares);
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
    Ok((config, shares))
}

/// The permissions of callers, in one line.
fn permissions(config: &Config, operators: SocketAddr) -> String {
    let strangers = match config.edge.anonymous {
        Some(role) => format!("strangers may {}", role.name()),
        None => "strangers may do nothing".into(),
    };
    let recorded =
        if config.edge.recorded_by_anyone { "ANYBODY MAY RECORD PAYMENTS" } else { "the role desk records payments" };
    let customers = match (&config.edge.customer_secret, config.edge.token_keys.is_empty()) {
        (None, true) => "customers are not checked",
        (Some(_), true) => "customers show tokens",
        (None, false) => "customers show short-lived tokens",
        (Some(_), false) => "customers show tokens, short-lived or not",
    };
    let operators = match &config.edge.admin_token {
        Some(_) => "operators show a key or the admin token".to_owned(),
        None => format!("operators need no key at {operators}, as long as no key has the role admin"),
    };
    format!("{strangers}; {recorded}; {customers}; {operators}")
}

fn selling_threads(set: usize) -> usize {
    match set {
        0 => thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        set => set,
    }
}

/// A runtime whose threads have this niceness. Linux has one for each thread.
fn runtime_of(name: &str, threads: usize, nice: i32) -> Result<runtime::Runtime, Failure> {
    let set_niceness = move || {
        if nice > 0
            && let Err(error) = rustix::process::setpriority_process(None, nice)
        {
            tracing::warn!(nice, %error, "the niceness of threads cannot be set");
        }
    };
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .on_thread_start(set_niceness)
        .enable_all()
        .build()
        .map_err(|error| no_threads(name, &error))
}

fn no_threads(name: &str, error: &std::io::Error) -> Failure {
    Failure::Node(format!("no threads for {name}: {error}; raise the limit of threads"))
}

/// Lets a panic end the process, because answers after a broken invariant could be wrong. Tasks would otherwise swallow it.
/// The node contains only panics of decisions, which have changed nothing yet.
fn stop_on_panic() {
    #[cfg(debug_assertions)]
    if let Ok(planted) = std::env::var("BOXOFFICE_PLANTED_PANICS") {
        contain::planted::plant(&planted);
    }
    #[cfg(debug_assertions)]
    if let Ok(planted) = std::env::var("BOXOFFICE_PLANTED_CORE") {
        boxoffice_core::planted::plant_everywhere(&planted);
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if contain::notes(panic) {
            return;
        }
        log::panicked(panic, &report);
        log::say("an invariant is broken; the node stops before it could answer wrongly");
        std::process::abort();
    }));
}

/// Runs a node and its ports until the node is stopped or fails.
async fn serve(
    mut config: Config,
    invited: Option<Invitation>,
    shares: Shares,
    runtimes: Runtimes,
    until_input_ends: bool,
) -> Outcome {
    let mut signals = Signals::listen(until_input_ends)?;
    let certificate = certificate(&config)?.map(Arc::new);
    let secrets = secrets(&config).await?;
    let (world, links) = world(&config, secrets.clone(), &shares, &runtimes)?;
    tokio::select! {
        biased;
        _ = signals.stop_requested() => return Ok(()),
        renewed = renewal::go_on(&config, &secrets, &world) => renewed?,
    }
    become_member(&mut config, secrets, invited.as_ref(), &world).await?;
    let data_dir = &config.node.replication.data_dir;
    let identity = identity::read(&*world.disk, data_dir).map_err(|error| Failure::Node(error.to_string()))?;
    let has_data = identity.is_some();
    config.node.program = VERSION.into();
    config.node.renews_itself = config.peers.is_some();
    let node = match Node::start(config.node.clone(), world, &runtimes) {
        Ok(node) => node,
        Err(error) if error.is_damage() => return Err(renewal::begin(&config, &error.to_string())),
        Err(error) => return Err(Failure::Node(error.to_string())),
    };
    let handle = node.handle().clone();
    config.edge.holder_secret = Some(membership::holder_secret(&config)?);
    let operators = config.operators.address(config.edge.listen).map_err(Failure::Usage)?;
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let _reloading = Reloading::begin(certificate.clone(), links)?;
    config.edge.operators = Some(operators);
    config.edge.web.certificate = certificate;
    let edge = match Edge::bind(config.edge.clone(), Arc::new(handle.clone()), runtimes) {
        Ok(edge) => edge,
        Err(error) => {
            let _ = node.stop(0).await;
            return Err(Failure::Node(error.to_string()));
        }
    };
    let (clients, operators) = (edge.local_addr(), edge.operators_addr().unwrap_or(operators));
    let greeting = greeting(&config, scheme, clients, operators);
    let notice = edge.notice();
    let (stop, stopping) = oneshot::channel::<()>();
    let mut edge = Some(edge.run(async move {
        // A dropped sender means the same.
        let _ = stopping.await;
    }));
    // A node that is alone opens its ports when it is ready. A member reports while it waits for others.
    let mut running = None;
    if config.peers.is_some() {
        running = edge.take().map(tokio::spawn);
    }
    let early = tokio::select! {
        biased;
        ending = ended(&handle, &mut signals) => Some(ending),
        () = ready(&handle) => None,
    };
    let ending = match early {
        Some(ending) => ending,
        None => match offered::unknown(&config, &handle, has_data).await {
            Some(wrong) => Ending::Misconfigured(wrong),
            None => {
                // The reader may have closed the output once it knew the address.
                let _ = writeln!(std::io::stdout(), "{greeting}");
                tracing::info!(%clients, %operators, "serves");
                running = running.or_else(|| edge.take().map(tokio::spawn));
                let ending = ended(&handle, &mut signals).await;
                log::say("stopping");
                if ending == Ending::Stopped(Stop::Announced) {
                    notice.give();
                    drain(&handle, &mut signals, config.drain).await;
                }
                ending
            }
        },
    };
    if let Ending::Damaged(why) = &ending {
        return Err(renewal::begin(&config, why));
    }
    drop(stop);
    if let Some(running) = running {
        // The edge itself limits how long it waits for its connections.
        let _ = running.await;
    }
    let stopped = node.stop(STOP_TIMEOUT_MS).await;
    tracing::info!("stopped");
    match (ending, stopped) {
        // A drained node ends as it should.
        (_, Err(error @ NodeError::Drained { .. })) => {
            println!("boxoffice: {error}");
            Ok(())
        }
        (_, Err(error @ (NodeError::NotAMember { .. } | NodeError::Removed(_)))) => {
            Err(Failure::Refused(error.to_string()))
        }
        (Ending::Misconfigured(wrong), _) => Err(Failure::Usage(wrong)),
        (Ending::Failed(reason) | Ending::Damaged(reason), _) => Err(Failure::Node(reason)),
        (Ending::Stopped(_), Err(error)) => Err(Failure::Node(error.to_string())),
        (Ending::Stopped(_), Ok(())) => Ok(()),
    }
}

/// The lines that a node prints when it serves.
fn greeting(config: &Config, scheme: &str, clients: SocketAddr, operators: SocketAddr) -> String {
    let public = config.edge.web.public_url.as_deref().map(|url| format!("browsers use {url}, ")).unwrap_or_default();
    format!(
        "boxoffice serves on {scheme}://{clients}  ({public}operators on http://{operators}, data in {}, fsync {})\n{}",
        config.node.replication.data_dir.display(),
        config.node.replication.fsync.as_str(),
        permissions(config, operators)
    )
}

async fn ready(handle: &NodeHandle) {
    while handle.ready().is_err() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Why a node ends.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Failed(String),
    /// Its data directory is damaged, and it answers nothing any more.
    Damaged(String),
    /// What is configured does not fit what the cluster has.
    Misconfigured(String),
    Stopped(Stop),
}

async fn ended(handle: &NodeHandle, signals: &mut Signals) -> Ending {
    tokio::select! {
        biased;
        failed = handle.failure() => match failed.is_damage {
            true => Ending::Damaged(failed.why),
            false => Ending::Failed(failed.why),
        },
        stop = signals.stop_requested() => Ending::Stopped(stop),
    }
}

/// Keeps serving for this time after the node has announced that it stops. A second signal ends the wait.
async fn drain(handle: &NodeHandle, signals: &mut Signals, time: Duration) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        _ = ended(handle, signals) => {}
    }
}
