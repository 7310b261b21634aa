//! Compares Boxoffice's fan-out with the leanest fan-out server, with the same watchers, frames and rate, in one run.
//! Also measures the other costs of watching: memory, many sessions, and the effect on sellers.

mod boxoffice;
mod floor;
mod frame;
mod report;
mod sellers;
mod sitting;
mod subscriptions;
mod turn;
mod watchers;

use std::{io, path::PathBuf, process::ExitCode};

use boxoffice_load::{machine::DiskFloor, watcher_fleet};
use clap::{Parser, Subcommand};

use crate::report::Report;

/// An error in words.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The same allocator as Boxoffice, for the floor.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares Boxoffice's fan-out with that of a bare tokio-tungstenite server.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// Connections that watch.
    #[arg(long, default_value_t = 10_000)]
    watchers: u32,
    /// Changes a second.
    #[arg(long, value_delimiter = ',', default_value = "20,40,400")]
    rates: Vec<u32>,
    /// How long each turn lasts.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Sittings of each system; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Nodes of a cluster that the watchers are spread over; the floor is as many processes then.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Only this system: boxoffice or floor.
    #[arg(long)]
    only: Option<String>,
    /// Instead: this many subscriptions, of 1 000 sessions on each connection.
    #[arg(long)]
    subscriptions: Option<u32>,
    /// Sessions that are subscribed to.
    #[arg(long, default_value_t = 1_000)]
    sessions: u32,
    /// Subscribe to the counts of lists of sessions, not to their maps.
    #[arg(long)]
    counts: bool,
    /// Instead: what watchers cost those who sell.
    #[arg(long)]
    sellers: bool,
    /// Purchases of each turn of `--sellers`.
    #[arg(long, default_value_t = 30_000)]
    flows: u32,
    /// Pairs of turns of `--sellers`.
    #[arg(long, default_value_t = 7)]
    pairs: u32,
    /// The program `boxoffice`; the one beside this program if it is not said.
    #[arg(long)]
    boxoffice: Option<PathBuf>,
    /// Writes all figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    process: Option<Process>,
}

/// What this program is in a process that it started itself.
#[derive(Clone, Copy, Debug, Subcommand)]
enum Process {
    /// The floor's server.
    #[command(hide = true)]
    Floor,
    /// A fleet of watchers.
    #[command(hide = true)]
    WatcherFleet,
}

async fn compare(options: &Options, program: &std::path::Path) -> Result<Report, Failed> {
    let disk = std::env::temp_dir();
    let floor = DiskFloor::measure(&disk)?;
    let mut report = Report {
        nodes: options.nodes,
        seconds: options.seconds,
        rounds: options.rounds,
        floor_before: floor,
        floor_after: floor,
        memory: Vec::new(),
        turns: Vec::new(),
    };
    let wanted = |system: &str| options.only.as_deref().is_none_or(|only| only == system);
    for round in 0..options.rounds {
        // The two systems begin in turn.
        for turn in 0..2 {
            if (round + turn) % 2 == 0 && wanted("floor") {
                sitting::floor(options, &mut report).await?;
            } else if (round + turn) % 2 == 1 && wanted("boxoffice") {
                sitting::boxoffice(options, program, &mut report).await?;
            }
        }
    }
    report.floor_after = DiskFloor::measure(&disk)?;
    Ok(report)
}

async fn run(options: &Options) -> Result<(), Failed> {
    let program = options.boxoffice.clone().or_else(boxoffice::find);
    let program = program.ok_or("no program boxoffice beside this one; build it, or give --boxoffice")?;
    let json = if options.sellers {
        let report = sellers::measure(options, &program).await?;
        print!("{report}");
        serde_json::to_string_pretty(&report)?
    } else if let Some(subscriptions) = options.subscriptions {
        let report = subscriptions::measure(options, subscriptions, &program).await?;
        print!("{report}");
        serde_json::to_string_pretty(&report)?
    } else {
        let report = compare(options, &program).await?;
        print!("{report}");
        serde_json::to_string_pretty(&report)?
    };
    match &options.json {
        Some(path) => Ok(std::fs::write(path, json)?),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.process {
        Some(Process::Floor) => floor::serve(),
        Some(Process::WatcherFleet) => {
            watcher_fleet::serve(io::stdin().lock(), io::stdout().lock()).map_err(Failed::from)
        }
        None => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failed::from)
            .and_then(|runtime| runtime.block_on(run(&options))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fanout: {error}");
            ExitCode::FAILURE
        }
    }
}
