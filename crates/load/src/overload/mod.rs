//! A run under overload: the capacity is measured first, then buyers come at multiples of it, once with clients that ignore
//! when to try again and once with clients that obey; after each phase it is seen how soon everything is as before.

mod crowd;
mod health;
mod line;
mod sale;
mod seen;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    crowd::{Crowd, Pressure},
    health::Health,
};
use crate::{
    LoadError,
    counter::Counter,
    drive::Ended,
    machine::{process_cpu, process_memory},
    plan::Plan,
    progress::Progress,
    report::{Overload, OverloadPhase},
    scenario::OverloadSpec,
};

/// What the phases share.
struct Runner {
    crowd: Crowd,
    spec: OverloadSpec,
    pid: Option<u32>,
}

/// Runs all phases; the flows that got anything are told in `ended`.
pub(crate) async fn run(
    counter: &Counter,
    plan: &Arc<Plan>,
    spec: &OverloadSpec,
    pid: Option<u32>,
    (ended, progress): (&Ended, &Progress),
) -> Result<Overload, LoadError> {
    let addresses = counter.addresses();
    let health = Health::watch(addresses[0].clone());
    let (plan, spec, flows, progress) = (Arc::clone(plan), spec.clone(), ended.clone(), progress.clone());
    let phases = tokio::task::spawn_blocking(move || {
        let crowd = Crowd::connect(&addresses, spec.connections, plan)
            .map_err(|error| LoadError::Machine { what: "connect the crowd", error })?;
        Runner { crowd, spec, pid }.phases(&flows, &progress)
    });
    let mut overload = phases.await.map_err(|_| LoadError::Broken("the crowd's thread panicked"))??;
    overload.ready = health.end();
    Ok(overload)
}

impl Runner {
    fn phases(mut self, ended: &Ended, progress: &Progress) -> Result<Overload, LoadError> {
        let spec = self.spec.clone();
        progress.begin("overload", 2 + 2 * spec.percents.len() as u64);
        let warm_up = self.phase("warm-up", Pressure::Closed(spec.clients), spec.capacity_ms / 2);
        progress.add(1);
        let capacity = self.phase("capacity", Pressure::Closed(spec.clients), spec.capacity_ms);
        progress.add(1);
        let mut overload = Overload { capacity: capacity.goodput, ..Overload::default() };
        let cpu_a_sale_us = match (capacity.cpu_s, capacity.bought) {
            (Some(cpu_s), bought @ 1..) => Some(cpu_s * 1e6 / bought as f64),
            (None, _) | (Some(_), 0) => None,
        };
        overload.phases.extend([warm_up, capacity]);
        for obeys in [false, true] {
            for &percent in &spec.percents {
                let name = format!("{percent} %{}", if obeys { ", obeying" } else { "" });
                let per_s = overload.capacity * f64::from(percent) / 100.0;
                let mut phase = self.phase(&name, Pressure::Open { per_s, obeys }, spec.phase_ms);
                (phase.percent, phase.obeys) = (percent, obeys);
                let spent_us =
                    phase.cpu_s.zip(cpu_a_sale_us).map(|(cpu_s, each)| cpu_s * 1e6 - each * phase.bought as f64);
                // Of few refusals nothing can be told: what a purchase takes differs from phase to phase.
                if phase.refused > 5 * phase.bought {
                    phase.refusal_cpu_us = spent_us.map(|spent_us| spent_us / phase.refused as f64);
                }
                let calm = Pressure::Open { per_s: overload.capacity / 2.0, obeys: true };
                self.crowd.disperse();
                self.crowd.begin(calm);
                let from_us = self.crowd.now_us();
                self.crowd.run(Duration::from_millis(spec.recovery_ms));
                phase.recovery_ms = self.crowd.seen().recovered_ms(from_us);
                overload.phases.push(phase);
                progress.add(1);
            }
        }
        overload.left_holding = self.crowd.finish();
        self.crowd.take_flows().into_iter().for_each(|flow| ended.push(flow));
        overload.judge(&spec);
        Ok(overload)
    }

    fn phase(&mut self, name: &str, pressure: Pressure, ms: u64) -> OverloadPhase {
        let cpu = || self.pid.and_then(|pid| process_cpu(pid).ok());
        let (cpu_before, begun) = (cpu(), Instant::now());
        self.crowd.begin(pressure);
        self.crowd.run(Duration::from_millis(ms));
        let took_s = begun.elapsed().as_secs_f64();
        let cpu_s = cpu_before.and_then(|before| Some(cpu()?.saturating_sub(before).as_secs_f64()));
        let memory = self.pid.and_then(process_memory);
        self.crowd.seen().phase(name, took_s, self.spec.settle_ms, (cpu_s, memory))
    }
}
