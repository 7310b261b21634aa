//! A run under overload. It offers multiples of the capacity: first with clients that ignore `retry_after_ms`, then with clients
//! that obey it, then beside a process that keeps the node's processors busy. After each phase it measures how soon the node has
//! recovered, and the capacity again. A phase during which the capacity changed is drawn anew.

mod buyers;
mod connection;
mod phase_stats;
mod purchase;
mod readiness_probe;

use std::{
    io,
    path::PathBuf,
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    buyers::{Buyers, GeneratorPart, LoadModel, UntriedBlocks},
    phase_stats::PhaseStats,
    readiness_probe::ReadinessProbe,
};
use crate::{
    LoadError,
    connection_pool::ConnectionPool,
    loops::FinishedFlows,
    machine::{process_cpu, process_memory, processors_of},
    progress::Progress,
    report::{Overload, OverloadPhase, Report, Unfit},
    run_context::RunContext,
    scenario::OverloadSpec,
};

/// The most by which the capacities before and after a phase may differ, as a share of the larger one.
const CAPACITY_DIFFERS_MAX: f64 = 0.05;

/// The least of the wanted rate that a phase must have offered.
const OFFERED_MIN: f64 = 0.97;

/// The state that all phases share.
struct PhaseRunner {
    /// One for each generator at work.
    buyers: Vec<Buyers>,
    blocks: Arc<UntriedBlocks>,
    context: Arc<RunContext>,
    addresses: Vec<String>,
    spec: OverloadSpec,
    pid: Option<u32>,
    progress: Progress,
    /// The capacity that was measured last.
    capacity: Capacity,
    /// The phases so far, each with its number at the generators.
    phases: Vec<(usize, OverloadPhase)>,
}

/// What the node can do, in a closed loop.
#[derive(Clone, Copy, Debug, Default)]
struct Capacity {
    /// Purchases a second.
    per_s: f64,
    /// Processor time of a purchase, in microseconds, if that is known.
    purchase_cpu_us: Option<f64>,
}

/// The load of a phase.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// In percent of the capacity.
    percent: u32,
    obeys: bool,
    /// Beside a process that keeps the node's processors busy.
    is_crowded: bool,
}

/// Runs all phases. The flows that may have got something are added to `finished`.
pub(crate) async fn run(
    connections: &ConnectionPool,
    context: &Arc<RunContext>,
    spec: &OverloadSpec,
    pid: Option<u32>,
    (finished, progress): (&FinishedFlows, &Progress),
) -> Result<Overload, LoadError> {
    let addresses = connections.addresses();
    // Read first, because a run takes minutes.
    let earlier = earlier_rounds(&spec.earlier)?;
    let readiness_probe = ReadinessProbe::start(addresses[0].clone());
    let (context, spec, flows, progress) = (Arc::clone(context), spec.clone(), finished.clone(), progress.clone());
    let judged = spec.clone();
    let phases = tokio::task::spawn_blocking(move || {
        let blocks = Arc::new(UntriedBlocks::of(&context));
        let mut runner = PhaseRunner {
            blocks,
            buyers: Vec::new(),
            context,
            addresses,
            spec,
            pid,
            progress,
            capacity: Capacity::default(),
            phases: Vec::new(),
        };
        runner.add_generator()?;
        runner.run(&flows)
    });
    let mut overload = phases.await.map_err(|_| LoadError::Internal("the buyers' thread panicked"))??;
    overload.ready = readiness_probe.stop();
    overload.judge(&judged, &earlier);
    Ok(overload)
}

/// The reports of earlier rounds, by their files.
fn earlier_rounds(files: &[String]) -> Result<Vec<Overload>, LoadError> {
    let read = |file: &String| {
        let path = PathBuf::from(file);
        let read = Report::read(&path).and_then(|report| {
            report.overload.ok_or_else(|| io::Error::other("this is no report of a run under overload"))
        });
        read.map_err(|error| LoadError::File { path, error })
    };
    files.iter().map(read).collect()
}

impl PhaseRunner {
    fn run(mut self, finished: &FinishedFlows) -> Result<Overload, LoadError> {
        let spec = self.spec.clone();
        let offers = |percents: &[u32], obeys, is_crowded| {
            percents.iter().map(move |&percent| Offer { percent, obeys, is_crowded }).collect::<Vec<_>>()
        };
        let quiet = [offers(&spec.percents, false, false), offers(&spec.obeying, true, false)].concat();
        let crowded = [offers(&spec.crowded, false, true), offers(&spec.crowded, true, true)].concat();
        self.progress.begin("overload", 1 + (quiet.len() + crowded.len()) as u64);
        self.measure_capacity(spec.capacity_ms);
        self.progress.add(1);
        let first = self.capacity;
        self.draw_all(&quiet)?;
        if !crowded.is_empty() {
            let crowd = Crowd::start(self.pid)
                .map_err(|error| LoadError::System { what: "keep the node's processors busy", error })?;
            self.measure_capacity(spec.capacity_ms);
            self.draw_all(&crowded)?;
            drop(crowd);
        }
        self.on_each(|buyers| buyers.drain());
        let mut overload = Overload { capacity: first.per_s, watches: spec.watches, ..Overload::default() };
        for (number, mut phase) in std::mem::take(&mut self.phases) {
            for ends in self.buyers.iter().filter_map(|buyers| buyers.ends_of(number)) {
                phase.granted += ends.granted;
                phase.not_bought += ends.not_bought;
            }
            overload.phases.push(phase);
        }
        overload.left_holding = self.buyers.iter().map(Buyers::left_holding).sum();
        overload.sold_out = self.buyers.iter().any(Buyers::is_sold_out);
        let flows = self.buyers.iter_mut().flat_map(Buyers::take_flows);
        flows.for_each(|flow| finished.push(flow));
        Ok(overload)
    }

    /// Draws each phase until it says something, or often enough.
    fn draw_all(&mut self, offers: &[Offer]) -> Result<(), LoadError> {
        for offer in offers {
            // What follows would say nothing.
            if self.buyers.iter().any(Buyers::is_sold_out) {
                return Ok(());
            }
            for draw in 0..=self.spec.redraws {
                let (number, mut phase) = self.overload_phase(*offer);
                let reason = self.unfit(&phase);
                let is_last = draw == self.spec.redraws;
                phase.unfit = reason.clone();
                phase.is_drawn_anew = reason.is_some() && !is_last;
                self.phases.push((number, phase));
                match reason {
                    None => break,
                    Some(Unfit::Offered(_)) if !is_last && self.buyers.len() < self.spec.generators as usize => {
                        self.add_generator()?;
                    }
                    Some(_) => {}
                }
            }
            self.progress.add(1);
        }
        Ok(())
    }

    /// Why a phase says nothing about the node.
    fn unfit(&self, phase: &OverloadPhase) -> Option<Unfit> {
        let (before, after) = (phase.capacity_before, phase.capacity_after);
        let differs = (before - after).abs() / before.max(after).max(f64::MIN_POSITIVE);
        let wanted = before * f64::from(phase.percent) / 100.0 * phase.seconds;
        let offered = phase.offered as f64 / wanted.max(f64::MIN_POSITIVE);
        if offered < OFFERED_MIN {
            Some(Unfit::Offered(offered))
        } else if differs > CAPACITY_DIFFERS_MAX {
            Some(Unfit::Capacity(differs))
        } else {
            None
        }
    }

    /// Offers a load, measures how soon the node has recovered, and then the capacity again.
    fn overload_phase(&mut self, offer: Offer) -> (usize, OverloadPhase) {
        let Offer { percent, obeys, is_crowded } = offer;
        let before = self.capacity;
        let per_s = before.per_s * f64::from(percent) / 100.0;
        let crowded = if is_crowded { ", crowded" } else { "" };
        let name = format!("{percent} %{}{crowded}", if obeys { ", obeying" } else { "" });
        let (number, mut phase) = self.phase(LoadModel::Open { per_s, obeys }, self.spec.phase_ms);
        (phase.name, phase.percent, phase.obeys, phase.crowded) = (name, percent, obeys, is_crowded);
        // The cost of a purchase varies between phases, so a few refusals are not enough to measure their cost.
        if phase.refused > 5 * phase.bought {
            let spent_us =
                phase.cpu_s.zip(before.purchase_cpu_us).map(|(cpu_s, each)| cpu_s * 1e6 - each * phase.bought as f64);
            phase.refusal_cpu_us = spent_us.map(|spent_us| spent_us / phase.refused as f64);
        }
        phase.recovery_ms = self.recover(before.per_s);
        self.measure_capacity(self.spec.capacity_ms);
        (phase.capacity_before, phase.capacity_after) = (before.per_s, self.capacity.per_s);
        (number, phase)
    }

    /// Measures how many purchases a second the clients of a closed loop get.
    fn measure_capacity(&mut self, ms: u64) {
        self.on_each(|buyers| buyers.drop_waiting());
        let (_, phase) = self.phase_after(LoadModel::Closed(self.spec.clients), ms / 4, ms);
        let purchase_cpu_us = match (phase.cpu_s, phase.bought) {
            (Some(cpu_s), bought @ 1..) => Some(cpu_s * 1e6 / bought as f64),
            (None, _) | (Some(_), 0) => None,
        };
        self.capacity = Capacity { per_s: phase.goodput, purchase_cpu_us };
    }

    /// Offers half of the capacity, and measures the time until the node has recovered.
    fn recover(&mut self, capacity: f64) -> Option<u64> {
        self.on_each(|buyers| buyers.drop_waiting());
        self.begin(LoadModel::Open { per_s: capacity / 2.0, obeys: true });
        let from_us = self.buyers[0].now_us();
        self.run_for(self.spec.recovery_ms);
        self.stats().recovered_ms(from_us)
    }

    fn phase(&mut self, load_model: LoadModel, ms: u64) -> (usize, OverloadPhase) {
        self.phase_after(load_model, self.spec.settle_ms, ms)
    }

    /// A phase of `ms` that counts after `settle_ms`. Returns its number at the generators.
    fn phase_after(&mut self, load_model: LoadModel, settle_ms: u64, ms: u64) -> (usize, OverloadPhase) {
        let number = self.begin(load_model);
        self.run_for(settle_ms);
        self.buyers.iter_mut().for_each(Buyers::measure);
        let pid = self.pid;
        let cpu = || pid.and_then(|pid| process_cpu(pid).ok());
        let (cpu_before, begun) = (cpu(), Instant::now());
        self.run_for(ms);
        let took_s = begun.elapsed().as_secs_f64();
        let cpu_s = cpu_before.and_then(|before| Some(cpu()?.saturating_sub(before).as_secs_f64()));
        let mut phase = self.stats().phase(took_s);
        (phase.cpu_s, phase.memory) = (cpu_s, self.pid.and_then(process_memory));
        let processors = self.pid.and_then(processors_of).map(|processors| processors.len() as f64);
        phase.idle = cpu_s.zip(processors).map(|(cpu_s, processors)| (1.0 - cpu_s / (took_s * processors)).max(0.0));
        (number, phase)
    }

    /// Begins a phase at all generators, each with an equal part of the load.
    fn begin(&mut self, load_model: LoadModel) -> usize {
        let of = self.buyers.len() as u32;
        let numbers = self.buyers.iter_mut().map(|buyers| {
            let index = buyers.part().index;
            buyers.begin(match load_model {
                LoadModel::Closed(clients) => LoadModel::Closed(clients / of + u32::from(index < clients % of)),
                LoadModel::Open { per_s, obeys } => LoadModel::Open { per_s: per_s / f64::from(of), obeys },
            })
        });
        numbers.max().expect("there is a generator")
    }

    fn run_for(&mut self, ms: u64) {
        self.on_each(|buyers| buyers.run(Duration::from_millis(ms)));
    }

    /// Does this at all generators at the same time.
    fn on_each(&mut self, run: impl Fn(&mut Buyers) + Sync) {
        let (first, others) = self.buyers.split_first_mut().expect("there is a generator");
        std::thread::scope(|scope| {
            for buyers in others {
                scope.spawn(|| run(buyers));
            }
            run(first);
        });
    }

    fn stats(&self) -> PhaseStats {
        let mut all = PhaseStats::default();
        self.buyers.iter().for_each(|buyers| all.add(buyers.stats()));
        all
    }

    /// Sets another generator to work, on a thread and over connections of its own.
    fn add_generator(&mut self) -> Result<(), LoadError> {
        let part = GeneratorPart { index: self.buyers.len() as u32, of: self.spec.generators };
        let shared = (Arc::clone(&self.context), Arc::clone(&self.blocks));
        let first_phase = self.buyers.first().map_or(0, Buyers::phases);
        let buyers = Buyers::connect(&self.addresses, self.spec.connections, (part, first_phase), shared)
            .map_err(|error| LoadError::System { what: "connect the buyers", error })?;
        self.buyers.push(buyers);
        Ok(())
    }
}

/// Processes that keep the node's processors busy, one for each. They end with this value.
struct Crowd(Vec<Child>);

impl Crowd {
    /// Starts them beside the node with this process id.
    fn start(pid: Option<u32>) -> io::Result<Crowd> {
        let processors = pid.and_then(processors_of);
        let processors = processors.ok_or_else(|| io::Error::other("the node's process is not known here"))?;
        let mut crowd = Crowd(Vec::new());
        for processor in processors {
            let mut command = Command::new("taskset");
            command.args(["-c", &processor.to_string(), "sh", "-c", "while :; do :; done"]);
            crowd.0.push(command.spawn()?);
        }
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
