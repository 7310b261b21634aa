//! A run under overload. It measures the capacity first, and then offers multiples of it: first with clients that
//! ignore `retry_after_ms`, then with clients that obey it. After each phase it measures how soon the node has
//! recovered.

mod buyers;
mod connection;
mod phase_stats;
mod purchase;
mod readiness_probe;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    buyers::{Buyers, LoadModel},
    readiness_probe::ReadinessProbe,
};
use crate::{
    LoadError,
    connection_pool::ConnectionPool,
    loops::FinishedFlows,
    machine::{process_cpu, process_memory},
    progress::Progress,
    report::{Overload, OverloadPhase},
    run_context::RunContext,
    scenario::OverloadSpec,
};

/// The state that all phases share.
struct PhaseRunner {
    buyers: Buyers,
    spec: OverloadSpec,
    pid: Option<u32>,
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
    let readiness_probe = ReadinessProbe::start(addresses[0].clone());
    let (context, spec, flows, progress) = (Arc::clone(context), spec.clone(), finished.clone(), progress.clone());
    let phases = tokio::task::spawn_blocking(move || {
        let buyers = Buyers::connect(&addresses, spec.connections, context)
            .map_err(|error| LoadError::System { what: "connect the buyers", error })?;
        PhaseRunner { buyers, spec, pid }.run(&flows, &progress)
    });
    let mut overload = phases.await.map_err(|_| LoadError::Internal("the buyers' thread panicked"))??;
    overload.ready = readiness_probe.stop();
    Ok(overload)
}

impl PhaseRunner {
    fn run(mut self, finished: &FinishedFlows, progress: &Progress) -> Result<Overload, LoadError> {
        let spec = self.spec.clone();
        progress.begin("overload", 2 + 2 * spec.percents.len() as u64);
        let warm_up = self.phase("warm-up", LoadModel::Closed(spec.clients), spec.capacity_ms / 2);
        progress.add(1);
        let capacity = self.phase("capacity", LoadModel::Closed(spec.clients), spec.capacity_ms);
        progress.add(1);
        let mut overload = Overload { capacity: capacity.goodput, ..Overload::default() };
        let purchase_cpu_us = match (capacity.cpu_s, capacity.bought) {
            (Some(cpu_s), bought @ 1..) => Some(cpu_s * 1e6 / bought as f64),
            (None, _) | (Some(_), 0) => None,
        };
        overload.phases.extend([warm_up, capacity]);
        for obeys in [false, true] {
            for &percent in &spec.percents {
                let mut phase = self.overload_phase(percent, obeys, overload.capacity, purchase_cpu_us);
                phase.recovery_ms = self.recover(overload.capacity);
                overload.phases.push(phase);
                progress.add(1);
            }
        }
        overload.left_holding = self.buyers.drain();
        self.buyers.take_flows().into_iter().for_each(|flow| finished.push(flow));
        overload.judge(&spec);
        Ok(overload)
    }

    /// Offers `percent` percent of the capacity.
    fn overload_phase(
        &mut self,
        percent: u32,
        obeys: bool,
        capacity: f64,
        purchase_cpu_us: Option<f64>,
    ) -> OverloadPhase {
        let name = format!("{percent} %{}", if obeys { ", obeying" } else { "" });
        let per_s = capacity * f64::from(percent) / 100.0;
        let mut phase = self.phase(&name, LoadModel::Open { per_s, obeys }, self.spec.phase_ms);
        (phase.percent, phase.obeys) = (percent, obeys);
        // The cost of a purchase varies between phases, so a few refusals are not enough to measure their cost.
        if phase.refused > 5 * phase.bought {
            let spent_us =
                phase.cpu_s.zip(purchase_cpu_us).map(|(cpu_s, each)| cpu_s * 1e6 - each * phase.bought as f64);
            phase.refusal_cpu_us = spent_us.map(|spent_us| spent_us / phase.refused as f64);
        }
        phase
    }

    /// Offers half of the capacity, and measures the time until the node has recovered.
    fn recover(&mut self, capacity: f64) -> Option<u64> {
        self.buyers.drop_waiting();
        self.buyers.begin(LoadModel::Open { per_s: capacity / 2.0, obeys: true });
        let from_us = self.buyers.now_us();
        self.buyers.run(Duration::from_millis(self.spec.recovery_ms));
        self.buyers.stats().recovered_ms(from_us)
    }

    fn phase(&mut self, name: &str, load_model: LoadModel, ms: u64) -> OverloadPhase {
        let cpu = || self.pid.and_then(|pid| process_cpu(pid).ok());
        let (cpu_before, begun) = (cpu(), Instant::now());
        self.buyers.begin(load_model);
        self.buyers.run(Duration::from_millis(ms));
        let took_s = begun.elapsed().as_secs_f64();
        let cpu_s = cpu_before.and_then(|before| Some(cpu()?.saturating_sub(before).as_secs_f64()));
        let memory = self.pid.and_then(process_memory);
        self.buyers.stats().phase(name, took_s, self.spec.settle_ms, (cpu_s, memory))
    }
}
