//! Compares Boxoffice with Redis and PostgreSQL on the same purchase: open a cart, hold five named seats of an 80-seat
//! session all or none, check out with an order. These are three round trips, each durable (flushed) before its answer.
//! This program drives all systems in a closed loop, turn by turn. With `--nodes 3` each step is on a second server as
//! well before its answer. Needs `crates/bench/setup-peers.sh` to have run once.

mod boxoffice;
mod child;
mod drive;
mod postgres_sync;
mod redis_always;
mod report;
mod system;

use std::{
    fmt,
    future::Future,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use boxoffice_load::machine::DiskFloor;
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    boxoffice::Boxoffice,
    child::Server,
    drive::{Failed, Shape, WINDOW_S},
    postgres_sync::Postgres,
    redis_always::Redis,
    report::Report,
    system::System,
};

/// The price of one seat, in minor units.
pub(crate) const PRICE: i64 = 1_000;

/// How long a server may take to answer its first request.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flow {
    /// Opens a cart, holds five named seats, checks out.
    Theatre,
    /// Holds five named seats in a new cart, checks out.
    TwoSteps,
    /// Puts five products into a cart, one after the other, and orders.
    Cart,
}

/// How many Boxoffice nodes; the peers get as many copies as these keep of what they acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Nodes {
    /// One of everything.
    #[value(name = "1")]
    One,
    /// A cluster of three, which acknowledges what two of them have; the peers have a replica each.
    #[value(name = "3")]
    Three,
}

/// Compares Boxoffice with Redis (appendfsync always) and PostgreSQL (synchronous_commit on) on one purchase.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// What is bought.
    #[arg(long, value_enum, default_value_t = Flow::Theatre)]
    flow: Flow,
    /// Boxoffice nodes; with 3 of them Redis and PostgreSQL have a replica that every step waits for.
    #[arg(long, value_enum, default_value_t = Nodes::One)]
    nodes: Nodes,
    /// Clients of Boxoffice send to the node that leads what they are about; a connection is then one to each node that they need.
    #[arg(long)]
    to_leaders: bool,
    /// Purchases of each system in each turn.
    #[arg(long, default_value_t = 40_000)]
    flows: u32,
    /// Turns of each system with each number of clients and connections; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    clients: Vec<usize>,
    /// Connections that all clients share; a connection for each client is measured as well.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Only these systems: boxoffice, redis, postgres.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Threads of this program.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The program `boxoffice`; the one beside this program if it is not said.
    #[arg(long)]
    boxoffice: Option<PathBuf>,
    /// The Redis server.
    #[arg(long, default_value = "redis-server")]
    redis: String,
    /// The directory of `initdb` and `postgres`; found by itself if they are where Debian puts them.
    #[arg(long)]
    postgres_bin: Option<PathBuf>,
    /// Writes all figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Tries to connect until the server answers.
pub(crate) async fn starting<E: fmt::Display, F: Future<Output = Result<(), E>>>(
    server: &mut Server,
    connect: impl Fn() -> F,
) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        match connect().await {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > START_LIMIT => {
                return Err(format!("no answer after {START_LIMIT:?}: {error}\n{}", server.log_tail()).into());
            }
            Err(_) => {
                server.check_alive()?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn shapes(options: &Options) -> Vec<Shape> {
    let shared =
        options.clients.iter().map(|&clients| Shape { clients, connections: options.connections.min(clients) });
    let each = options.clients.iter().map(|&clients| Shape { clients, connections: clients });
    shared.chain(each).collect()
}

/// The directory of all servers' directories. Servers that run as another user must be able to pass through it.
fn directory() -> Result<tempfile::TempDir, Failed> {
    let everyone_through = std::fs::Permissions::from_mode(0o711);
    Ok(tempfile::Builder::new().prefix("peers-").permissions(everyone_through).tempdir()?)
}

async fn start(options: &Options, directory: &Path) -> Result<Vec<System>, Failed> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut systems = Vec::new();
    if wanted("boxoffice") {
        let program = options.boxoffice.clone().or_else(boxoffice::find);
        let program = program.ok_or("no program boxoffice beside this one; build it, or give --boxoffice")?;
        systems
            .push(System::Boxoffice(Boxoffice::start(&program, (options.nodes, options.to_leaders), directory).await?));
    }
    if wanted("redis") {
        systems.push(System::Redis(Redis::start(&options.redis, options.nodes, directory).await?));
    }
    if wanted("postgres") {
        let found = options.postgres_bin.clone().or_else(postgres_sync::find_bin);
        let bin = found.ok_or("no initdb found; run crates/bench/setup-peers.sh or give --postgres-bin")?;
        systems.push(System::Postgres(Postgres::start(&bin, options.nodes, directory).await?));
    }
    Ok(systems)
}

async fn compare(options: &Options) -> Result<Report, Failed> {
    let directory = directory()?;
    // The systems are stopped before their directory is removed.
    let systems = start(options, directory.path()).await?;
    let floor = DiskFloor::measure(directory.path())?;
    let mut report = Report::new(options.flow, options.nodes, options.flows, options.rounds, floor);
    for round in 1..=options.rounds {
        for shape in shapes(options) {
            for system in &systems {
                let turn = system
                    .turn(options.flow, shape, options.flows)
                    .await
                    .map_err(|error| format!("{}: {}", system.name(), in_full(&*error)))?;
                let slowest = turn.slowest.map(|share| format!(", slowest {WINDOW_S} s {share:.2} of the median"));
                eprintln!(
                    "round {round}/{}: {:18} {shape}: {:.0} flows/s, mean {:.2} ms, p99 {:.2} ms{}",
                    options.rounds,
                    turn.system,
                    turn.flows_per_second,
                    turn.mean_ms,
                    turn.p99_ms,
                    slowest.unwrap_or_default()
                );
                report.turns.push(turn);
            }
        }
    }
    report.floor_after = DiskFloor::measure(directory.path())?;
    Ok(report)
}

/// Ends early at a signal, so that the servers are stopped and their directories removed.
async fn until_interrupted(compare: impl Future<Output = Result<Report, Failed>>) -> Result<Report, Failed> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
        compared = compare => compared,
    }
}

/// An error with all its causes.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut builder = if options.threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let compared = builder
        .worker_threads(options.threads)
        .enable_all()
        .build()
        .map_err(Failed::from)
        .and_then(|runtime| runtime.block_on(until_interrupted(compare(&options))))
        .and_then(|report| {
            print!("{report}");
            match &options.json {
                Some(path) => Ok(std::fs::write(path, report.json()?)?),
                None => Ok(()),
            }
        });
    match compared {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {}", in_full(&*error));
            ExitCode::FAILURE
        }
    }
}
