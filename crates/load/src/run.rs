//! One run, from its first connection to its verdict.

mod conclude;
mod host_sample;
mod prepare;
mod traffic;

use std::{
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    LoadError, RunConfig,
    clock::{now_ms, now_us},
    expiry_burst::{self, OpenedCarts},
    progress::Progress,
    report::Report,
    run_context::RunContext,
    run_watchers::{HoldTimes, RunWatchers},
    scenario::Scenario,
    verdict,
};

use self::{host_sample::HostSample, prepare::Prepared, traffic::Traffic};

/// Time between the last preparation and the first flow, so that everything is ready.
const LEAD: Duration = Duration::from_millis(100);

/// Runs a scenario and waits for its report. The verdict is in the report. An error means that there is no report.
///
/// The run has a thread and a runtime of its own, so the caller may be inside an async runtime. The calling thread
/// blocks.
///
/// # Errors
/// [`LoadError`] if the scenario or the baseline cannot be read, a node cannot be reached, the house cannot be created
/// or the audit cannot be done. A run without an audit proves nothing, so it makes no report.
pub fn run(config: RunConfig) -> Result<Report, LoadError> {
    let thread = thread::Builder::new().name("load".into()).spawn(move || {
        let scenario = Scenario::load(&config.scenario, &config.overrides)?;
        let baseline = config.baseline.as_deref().map(read).transpose()?;
        if let Some(baseline) = &baseline
            && baseline.scenario.name != scenario.name
        {
            return Err(LoadError::OtherBaseline(baseline.scenario.name.clone(), scenario.name));
        }
        if config.addresses.is_empty() {
            return Err(LoadError::NoAddress);
        }
        if scenario.harms_nodes() && config.node_controller.is_none() {
            return Err(LoadError::ForeignNodes);
        }
        let not_encrypted = [
            ("watchers", scenario.watchers.is_some()),
            ("overload phases", scenario.overload.is_some()),
            ("hoarders", scenario.hoarders.is_some()),
        ];
        if let Some((what, _)) = not_encrypted.into_iter().find(|(_, has)| *has && config.tls.is_some()) {
            return Err(LoadError::NotEncrypted(what));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| LoadError::System { what: "start a runtime", error })?;
        let mut report = runtime.block_on(execute(&config, scenario))?;
        if let (Some(baseline), Some(percent)) = (&baseline, config.worse_max) {
            let worse = verdict::worse(&report, baseline, percent);
            report.verdict.passed &= worse.is_empty();
            report.verdict.reasons.extend(worse);
        }
        if let Some(directory) = &config.out_dir {
            write(directory, "report.json", &report.to_json())?;
            write(directory, "report.html", &report.to_html(baseline.as_ref()))?;
        }
        Ok(report)
    });
    let thread = thread.map_err(|error| LoadError::System { what: "start a thread", error })?;
    thread.join().map_err(|_| LoadError::Internal("its thread panicked"))?
}

fn read(path: &Path) -> Result<Report, LoadError> {
    Report::read(path).map_err(|error| LoadError::File { path: path.to_owned(), error })
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), LoadError> {
    let path = directory.join(name);
    fs::create_dir_all(directory).and_then(|()| fs::write(&path, text)).map_err(|error| LoadError::File { path, error })
}

async fn execute(config: &RunConfig, scenario: Scenario) -> Result<Report, LoadError> {
    let progress = Progress::new(config.quiet);
    let prepared = Prepared::new(config, scenario, &progress).await?;
    let mut watchers = match &prepared.scenario.watchers {
        Some(spec) => Some(RunWatchers::connect(&prepared.connections, &prepared.house, spec, &progress).await?),
        None => None,
    };
    let host = HostSample::take(config)?;
    let (context, opened) = begin(&prepared, &progress).await?;
    let start_ms = now_ms() + context.start.saturating_duration_since(Instant::now()).as_millis() as u64;
    if let Some(watchers) = &mut watchers {
        watchers.start_counting().await?;
    }

    let mut traffic = Traffic::generate(config, &prepared, &context, opened.as_ref(), &progress).await?;
    let elapsed_s = context.start.elapsed().as_secs_f64();
    let fleet_traffic = match &watchers {
        Some(watchers) => Some(watchers.traffic_so_far().await?),
        None => None,
    };
    let machine = host.finish(elapsed_s)?;

    let mut report = conclude::report(&prepared, &context, &mut traffic, opened.as_ref(), start_ms, machine);
    let hold_times = match &watchers {
        Some(_) => HoldTimes::of(&traffic.flows, now_us() - context.start.elapsed().as_micros() as u64),
        None => HoldTimes::default(),
    };
    let audit_started = Instant::now();
    conclude::audit(&prepared, &context, traffic, opened, &mut report, &progress).await?;
    if let (Some(watchers), Some(fleet_traffic)) = (watchers, fleet_traffic) {
        let (connections, house, run_s) = (&prepared.connections, &prepared.house, report.times.run_s);
        report.watchers = Some(watchers.finish(connections, house, fleet_traffic, hold_times, run_s).await?);
    }
    report.times.audit_s = audit_started.elapsed().as_secs_f64();
    conclude::judge(&mut report);
    progress.clear();
    Ok(report)
}

/// Starts the run's clock. An expiry burst opens its carts first, and the clock starts again when they are open.
async fn begin(prepared: &Prepared, progress: &Progress) -> Result<(Arc<RunContext>, Option<OpenedCarts>), LoadError> {
    let new_context = || {
        let Prepared { scenario, prefix, seed, started_at_ms, shards, .. } = prepared;
        RunContext::new(scenario, prefix, *seed, *started_at_ms, *shards, Instant::now() + LEAD).map(Arc::new)
    };
    let context = new_context()?;
    let Some(spec) = &prepared.scenario.storm else { return Ok((context, None)) };
    let opened = expiry_burst::open_carts(&prepared.connections, &context, spec, progress).await?;
    Ok((new_context()?, Some(opened)))
}
