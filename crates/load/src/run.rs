//! A run from its first connection to its verdict.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use boxoffice_client::{AdminToken, Error};
use boxoffice_workload::{check::Breach, flow::PickerError, history::History};
use rand::{TryRngCore, rngs::OsRng};

use crate::{
    audit::{self, NodeTotals},
    bank::Bank,
    counter::Counter,
    drive::{self, Ended},
    faults::{self, Faults},
    flow::End,
    gallery, judge,
    keeper::Keeper,
    machine::{CpuTimes, DiskFloor, own_cpu, process_memory, who_listens},
    measure, overload,
    plan::Plan,
    progress::Progress,
    reads,
    report::{FORMAT, Machine, Memory, Outages, Report, Times},
    scenario::{Scenario, ScenarioError},
    setup::{self, Terms},
    storm,
    watching::{Marks, Watching},
};

/// Between the last preparation and the first flow: time for everything to be ready.
const LEAD: Duration = Duration::from_millis(100);

/// What to run, and where.
#[derive(Clone, Debug, Default)]
pub struct RunConfig {
    /// Nodes, as `host:port`.
    pub addresses: Vec<String>,
    /// The name of a scenario that comes with the program, or a file.
    pub scenario: String,
    /// Settings that change it: `closed_loop.clients=64`.
    pub overrides: Vec<String>,
    /// Where `report.json` and `report.html` go, and where the disk is measured; nothing is written if absent.
    pub out_dir: Option<PathBuf>,
    /// The JSON of an earlier run to compare with.
    pub baseline: Option<PathBuf>,
    /// What the run's choices are drawn from; another one each time if absent.
    pub seed: Option<u64>,
    /// A directory on the disk the servers write to, where its raw flush time is measured; `out_dir` or the directory for
    /// temporary files if absent.
    pub disk_dir: Option<PathBuf>,
    /// The admin token, where the nodes ask operators for one.
    pub admin_token: Option<AdminToken>,
    /// The server's process, whose memory is told; if absent, the one that listens on the first address, if it is here.
    pub server_pid: Option<u32>,
    /// Whoever keeps the nodes, if the scenario does something to them.
    pub keeper: Option<Arc<dyn Keeper>>,
    /// No progress bar.
    pub quiet: bool,
}

/// Why a run did not come to a report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario's flows cannot be chosen.
    #[error(transparent)]
    Picker(#[from] PickerError),
    /// There is no address.
    #[error("there is no address; give at least one node as host:port")]
    NoAddress,
    /// Nodes are to be killed or added that the run did not start.
    #[error(
        "only nodes that the run started itself are killed or added; leave the addresses out and say how many nodes"
    )]
    NotOurs,
    /// No connection.
    #[error("cannot connect to {addresses}: {error}")]
    Connect {
        /// Where to.
        addresses: String,
        /// Why not.
        error: Error,
    },
    /// A server did not say what it was asked.
    #[error("asked for {what}, a node did not answer: {error}")]
    Asked {
        /// What for.
        what: &'static str,
        /// What came instead.
        error: Error,
    },
    /// A server takes connections and says nothing.
    #[error("a node did not say hello within {limit:?}; is something else listening there?")]
    Silent {
        /// How long it was waited for.
        limit: Duration,
    },
    /// The house could not be made.
    #[error("cannot make the {what} of the run: {why}")]
    Setup {
        /// Which part.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The operating system refused something.
    #[error("cannot {what}: {error}")]
    Machine {
        /// What.
        what: &'static str,
        /// What it says.
        error: io::Error,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the file system says.
        error: io::Error,
    },
    /// A part of the load generator ended in a way it must not.
    #[error("the load generator is broken: {0}")]
    Broken(&'static str),
}

/// Runs a scenario to its report and waits for it. The verdict is in the report; an error means that there is none.
///
/// May be called from anywhere, also from within an async runtime (it blocks the calling thread): it runs on its own one.
///
/// # Errors
/// [`LoadError`]: a scenario or baseline that cannot be read, no connection, a house that cannot be made, an audit that
/// cannot be done. A run without its audit is worth nothing and makes no report.
pub fn run(config: RunConfig) -> Result<Report, LoadError> {
    let thread = thread::Builder::new().name("load".into()).spawn(move || {
        let scenario = Scenario::load(&config.scenario, &config.overrides)?;
        let baseline = config.baseline.as_deref().map(read).transpose()?;
        if config.addresses.is_empty() {
            return Err(LoadError::NoAddress);
        }
        if scenario.faults.any() && config.keeper.is_none() {
            return Err(LoadError::NotOurs);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| LoadError::Machine { what: "start a runtime", error })?;
        let report = runtime.block_on(all(&config, scenario))?;
        if let Some(directory) = &config.out_dir {
            write(directory, "report.json", &report.to_json())?;
            write(directory, "report.html", &report.to_html(baseline.as_ref()))?;
        }
        Ok(report)
    });
    let thread = thread.map_err(|error| LoadError::Machine { what: "start a thread", error })?;
    thread.join().map_err(|_| LoadError::Broken("its thread panicked"))?
}

fn read(path: &Path) -> Result<Report, LoadError> {
    Report::read(path).map_err(|error| LoadError::File { path: path.to_owned(), error })
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), LoadError> {
    let path = directory.join(name);
    fs::create_dir_all(directory).and_then(|()| fs::write(&path, text)).map_err(|error| LoadError::File { path, error })
}

async fn all(config: &RunConfig, scenario: Scenario) -> Result<Report, LoadError> {
    let progress = Progress::new(config.quiet);
    let started_at_ms = now_ms();
    let seed = config.seed.unwrap_or_else(random);
    let prefix = prefix(started_at_ms);
    let house = scenario.house(&prefix);
    let goods = scenario.goods(&prefix);
    let bank = match &scenario.gateway {
        Some(spec) => Some(Bank::open(spec, seed).await?),
        None => None,
    };
    let counter = Counter::open(&config.addresses, &scenario.connect, config.admin_token.clone()).await?;
    let counter = Arc::new(counter);
    let pid = config.server_pid.or_else(|| who_listens(config.addresses.first()?));
    let resident = || pid.and_then(process_memory).unwrap_or(0);
    let memory_before = resident();
    let server = counter.server().await?;

    let begun = Instant::now();
    setup::run(&counter, &house, &Terms::of(&scenario, started_at_ms), &progress).await?;
    setup::goods(&counter, &scenario, &goods, started_at_ms, &progress).await?;
    let setup_s = begun.elapsed().as_secs_f64();
    let memory_set_up = resident();
    let before = NodeTotals::ask(&counter).await?;
    let shards = shards(&counter).await?;

    let mut watching = match &scenario.watchers {
        Some(spec) => Some(Watching::begin(&counter, &house, spec, &progress).await?),
        None => None,
    };

    let disk = config.disk_dir.clone().or_else(|| config.out_dir.clone()).unwrap_or_else(std::env::temp_dir);
    let floor_before = floor(&disk)?;
    let own_before = own_cpu();
    let cpu_before = CpuTimes::now();
    let new_plan = || Plan::new(&scenario, &prefix, seed, started_at_ms, shards, Instant::now() + LEAD);
    let mut plan = Arc::new(new_plan()?);
    let opened = match &scenario.storm {
        Some(spec) => Some(storm::open(&counter, &plan, spec, &progress).await?),
        None => None,
    };
    if opened.is_some() {
        // The run begins when the carts are open.
        plan = Arc::new(new_plan()?);
    }
    let plan_start_ms = now_ms() + plan.start.saturating_duration_since(Instant::now()).as_millis() as u64;
    if let Some(watching) = &mut watching {
        watching.start().await?;
    }
    tokio::time::sleep_until(plan.start.into()).await;
    let ended = Ended::default();
    progress.begin("run", scenario.offered());
    let watched = async {
        match (&scenario.storm, &opened) {
            (Some(spec), Some(opened)) => storm::watch(&counter, &plan, spec, opened).await.map(Some),
            (None, _) | (_, None) => Ok(None),
        }
    };
    let driven = async {
        let driven = match &scenario.overload {
            Some(spec) => overload::run(&counter, &plan, spec, pid, (&ended, &progress)).await.map(Some),
            None => drive(&counter, &plan, &scenario, &ended).await.map(|()| None),
        };
        plan.over.store(true, Ordering::Relaxed);
        driven
    };
    let reading = async {
        match &scenario.reads {
            Some(spec) => Ok(reads::run(&counter, &plan, spec).await),
            None => Ok(None),
        }
    };
    let harmed = async {
        match &config.keeper {
            Some(keeper) if scenario.faults.any() => {
                let keeper = Arc::clone(keeper);
                Faults { counter: &counter, plan: &plan, keeper, spec: &scenario.faults }.run().await
            }
            Some(_) | None => Ok(faults::Done::default()),
        }
    };
    let all = async { tokio::try_join!(driven, watched, reading, harmed) };
    let (overload, seen, reads, harm) = tokio::select! {
        biased;
        all = all => all?,
        () = progress.clone().follow(ended.clone()) => return Err(LoadError::Broken("its progress bar ended")),
    };
    let elapsed = plan.start.elapsed().as_secs_f64();
    let looked_on = match &watching {
        Some(watching) => Some(watching.flows_ended().await?),
        None => None,
    };
    let cpu = cpu_before.and_then(|before| Some(CpuTimes::now()?.since(before)));
    let own = own_before.and_then(|before| Some(own_cpu()?.saturating_sub(before)));
    let floor_after = floor(&disk)?;
    let flows = ended.take();

    let (storm, seen) = match (seen, &opened) {
        (Some(seen), Some(opened)) => {
            let (storm, seen) = storm::report(seen, opened, &flows, plan_start_ms);
            (Some(storm), Some(seen))
        }
        (None, _) | (_, None) => (None, None),
    };
    let outages = (shards > 0).then(|| faults::report(harm, &counter, &plan, &flows));
    // A node that was killed meanwhile has another process now.
    let memory = pid.filter(|_| resident() > 0);
    let memory = memory.map(|pid| Memory { pid, before: memory_before, set_up: memory_set_up, after: resident() });
    let plan_start_us = gallery::now_us() - plan.start.elapsed().as_micros() as u64;
    let marks = if watching.is_some() { Marks::of(&flows, plan_start_us) } else { Marks::default() };
    let figures = measure::flows(plan.offered(), &flows);
    let (done, refused) = (|end: &End| *end == End::Done, |end: &End| matches!(end, End::Refused(_)));
    let mut report = Report {
        format: FORMAT,
        started_at_ms,
        prefix,
        seed,
        server,
        times: Times { setup_s, run_s: measure::run_s(&flows), audit_s: 0.0 },
        done: measure::latencies(&flows, done),
        refused: measure::latencies(&flows, refused),
        steps: measure::steps(&flows),
        timeline: measure::timeline(&flows),
        histogram: measure::histogram(&flows),
        machine: Machine {
            processors: thread::available_parallelism().map_or(1, |count| count.get() as u32),
            floor_before: Some(floor_before),
            floor_after: Some(floor_after),
            cpu,
            client_processors: own.map_or(0.0, |own| own.as_secs_f64() / elapsed),
        },
        memory,
        storm,
        reads,
        watchers: None,
        outages,
        overload,
        audit: Default::default(),
        verdict: Default::default(),
        flows: figures,
        scenario,
    };

    let begun = Instant::now();
    let mut history = History::default();
    for flow in flows {
        history.changes.extend(flow.changes);
        history.carts.push(flow.record);
    }
    history.carts.extend(opened.into_iter().flat_map(|opened| opened.carts));
    // The changes of one booking in the order they were asked for: each is made after the one before was answered.
    history.changes.sort_by_key(|change| change.span.called_us);
    let subject = audit::Subject {
        house: &house,
        goods: &goods,
        history: &history,
        bank: bank.as_ref(),
        calendar: plan.calendar(),
    };
    report.audit = audit::run(&counter, &report.scenario, subject, &before, &progress).await?;
    if let Some(storm) = &report.storm
        && storm.left > 0
    {
        report.audit.findings.add(Breach::WrongTime, || format!("{} abandoned holds are still there", storm.left));
    }
    for early in seen.into_iter().flat_map(|seen| seen.early) {
        report.audit.findings.add(Breach::WrongTime, || early);
    }
    if let (Some(watching), Some(looked_on)) = (watching, looked_on) {
        let watchers = watching.end(&counter, &house, looked_on, marks, report.times.run_s).await?;
        report.watchers = Some(watchers);
    }
    report.times.audit_s = begun.elapsed().as_secs_f64();
    let in_doubt = report.outages.as_ref().map_or(0, Outages::in_doubt);
    report.verdict = judge::judge(&report.scenario.expect, &report.flows, in_doubt, &report.audit);
    judge::beside(report.reads.as_ref(), report.watchers.as_ref(), report.outages.as_ref(), &mut report.verdict);
    judge::overloaded(report.overload.as_ref(), &mut report.verdict);
    progress.clear();
    Ok(report)
}

/// How many data shards a cluster has; of a node that is alone nobody needs to know.
async fn shards(counter: &Counter) -> Result<u16, LoadError> {
    if counter.addresses().len() < 2 {
        return Ok(0);
    }
    let places = counter.cluster().await?.places.len();
    Ok(u16::try_from(places.saturating_sub(1)).unwrap_or(u16::MAX))
}

async fn drive(counter: &Arc<Counter>, plan: &Arc<Plan>, scenario: &Scenario, ended: &Ended) -> Result<(), LoadError> {
    match (scenario.open_plan(), &scenario.closed_loop) {
        (Some(schedule), _) => drive::open_loop(counter.clone(), plan.clone(), schedule, ended).await,
        (None, Some(spec)) => drive::closed_loop(counter.clone(), plan.clone(), spec, scenario.groups(), ended).await,
        (None, None) => Err(LoadError::Broken("a scenario without a loop")),
    }
}

fn floor(directory: &Path) -> Result<DiskFloor, LoadError> {
    fs::create_dir_all(directory)
        .and_then(|()| DiskFloor::measure(directory))
        .map_err(|error| LoadError::File { path: directory.to_owned(), error })
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// 64 bits that differ from run to run.
fn random() -> u64 {
    OsRng.try_next_u64().unwrap_or_else(|_| now_ms())
}

/// What all ids of a run start with: its time and something random, so that runs on one server never meet.
fn prefix(now_ms: u64) -> String {
    format!("l{:x}-{:05x}", now_ms / 1_000, random() & 0xf_ffff)
}
