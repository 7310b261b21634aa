//! The traffic of a run: its flows, and beside them the expiry burst, the seat map reads and the faults.

use std::sync::{Arc, atomic::Ordering};

use super::prepare::Prepared;
use crate::{
    LoadError, RunConfig,
    expiry_burst::{self, ObservedExpiries, OpenedCarts},
    faults::{FaultInjector, FaultLog},
    flow::Flow,
    hoarders,
    loops::{self, FinishedFlows},
    onsale, overload,
    progress::Progress,
    reads,
    report::{Hoarders, Onsale, Overload, Reads},
    run_context::RunContext,
};

/// The results of a run's traffic.
pub(super) struct Traffic {
    pub(super) flows: Vec<Flow>,
    pub(super) overload: Option<Overload>,
    pub(super) hoarders: Option<Hoarders>,
    pub(super) onsale: Option<Onsale>,
    pub(super) expiries: Option<ObservedExpiries>,
    pub(super) reads: Option<Reads>,
    pub(super) faults: FaultLog,
}

impl Traffic {
    /// Waits for the run's start, and generates its traffic until the last flow has ended.
    pub(super) async fn generate(
        config: &RunConfig,
        prepared: &Prepared,
        context: &Arc<RunContext>,
        opened: Option<&OpenedCarts>,
        progress: &Progress,
    ) -> Result<Traffic, LoadError> {
        tokio::time::sleep_until(context.start.into()).await;
        let finished = FinishedFlows::default();
        progress.begin("run", prepared.scenario.offered());
        let all = async {
            tokio::try_join!(
                run_flows(config, prepared, context, &finished, progress),
                observe_expiries(prepared, context, opened),
                read_maps(prepared, context),
                inject_faults(config, prepared, context),
            )
        };
        let (Special { overload, hoarders, onsale }, expiries, reads, faults) = tokio::select! {
            biased;
            all = all => all?,
            () = progress.clone().follow(finished.clone()) => {
                return Err(LoadError::Internal("its progress bar ended"));
            }
        };
        Ok(Traffic { flows: finished.take(), overload, hoarders, onsale, expiries, reads, faults })
    }
}

/// The results of what replaces the loop.
#[derive(Default)]
struct Special {
    overload: Option<Overload>,
    hoarders: Option<Hoarders>,
    onsale: Option<Onsale>,
}

/// Runs the scenario's loop, its overload phases, its hoarders or its on-sale, and tells the other tasks when all flows have ended.
async fn run_flows(
    config: &RunConfig,
    prepared: &Prepared,
    context: &Arc<RunContext>,
    finished: &FinishedFlows,
    progress: &Progress,
) -> Result<Special, LoadError> {
    let Prepared { scenario, connections, pid, .. } = prepared;
    if let Some(spec) = &scenario.hoarders {
        let places = scenario.house.as_ref().map_or(0, |house| house.places);
        let sold = (connections, &prepared.house, places);
        let ended = hoarders::run(config, sold, spec, context.run_seed.seed, progress).await;
        context.flows_ended.store(true, Ordering::Relaxed);
        return ended.map(|hoarders| Special { hoarders: Some(hoarders), ..Special::default() });
    }
    if let Some(spec) = &scenario.onsale {
        let sold = (spec, &prepared.house, prepared.codes_put_s);
        let ended = onsale::run(config, (connections, context), sold, (finished, progress)).await;
        context.flows_ended.store(true, Ordering::Relaxed);
        return ended.map(|onsale| Special { onsale: Some(onsale), ..Special::default() });
    }
    let ended = match (&scenario.overload, scenario.open_loop_schedule(), &scenario.closed_loop) {
        (Some(spec), _, _) => overload::run(connections, context, spec, *pid, (finished, progress)).await.map(Some),
        (None, Some(schedule), _) => {
            loops::open_loop(connections.clone(), context.clone(), schedule, finished).await.map(|()| None)
        }
        (None, None, Some(spec)) => {
            let (connections, groups) = (connections.clone(), scenario.groups());
            loops::closed_loop(connections, context.clone(), spec, groups, finished).await.map(|()| None)
        }
        (None, None, None) => Err(LoadError::Internal("a scenario without a loop")),
    };
    context.flows_ended.store(true, Ordering::Relaxed);
    ended.map(|overload| Special { overload, ..Special::default() })
}

async fn observe_expiries(
    prepared: &Prepared,
    context: &RunContext,
    opened: Option<&OpenedCarts>,
) -> Result<Option<ObservedExpiries>, LoadError> {
    match (&prepared.scenario.storm, opened) {
        (Some(spec), Some(opened)) => {
            expiry_burst::observe(&prepared.connections, context, spec, opened).await.map(Some)
        }
        (None, _) | (_, None) => Ok(None),
    }
}

async fn read_maps(prepared: &Prepared, context: &RunContext) -> Result<Option<Reads>, LoadError> {
    match &prepared.scenario.reads {
        Some(spec) => Ok(reads::run(&prepared.connections, context, spec).await),
        None => Ok(None),
    }
}

async fn inject_faults(config: &RunConfig, prepared: &Prepared, context: &RunContext) -> Result<FaultLog, LoadError> {
    let spec = &prepared.scenario.faults;
    match &config.node_controller {
        Some(node_controller) if spec.any() => {
            let node_controller = Arc::clone(node_controller);
            FaultInjector { connections: &prepared.connections, context, node_controller, spec }.run().await
        }
        Some(_) | None => Ok(FaultLog::default()),
    }
}
