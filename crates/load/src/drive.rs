//! The loops: flows that start by the clock, and clients that start their next flow when the last one ended.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_workload::arrival::{FlowNumber, OpenLoop};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    LoadError,
    counter::Counter,
    flow::{self, Flow},
    plan::Plan,
    scenario::ClosedLoopSpec,
};

/// Flows under way at most; an arrival beyond this is not started and counts as failed.
pub const FLOWS_UNDER_WAY_MAX: usize = 200_000;

/// Groups of arrivals between the clock's thread and the loop; the thread waits beyond this, and lateness shows.
const ARRIVALS_QUEUE: usize = 1_024;

/// Flows that have ended, for whoever looks on.
#[derive(Clone, Default)]
pub(crate) struct Ended(Arc<Mutex<Vec<Flow>>>);

impl Ended {
    /// One more has ended.
    pub(crate) fn push(&self, flow: Flow) {
        self.0.lock().expect("nobody panics with the list").push(flow);
    }

    /// How many have ended, and what `look` makes of those from number `from` on.
    pub(crate) fn since<T>(&self, from: usize, look: impl Fn(&[Flow]) -> T) -> (usize, T) {
        let flows = self.0.lock().expect("nobody panics with the list");
        (flows.len(), look(&flows[from..]))
    }

    /// All of them.
    pub(crate) fn take(&self) -> Vec<Flow> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with the list"))
    }
}

/// Starts every flow at its time, and waits until the last has ended.
pub(crate) async fn open_loop(
    counter: Arc<Counter>,
    plan: Arc<Plan>,
    schedule: OpenLoop,
    ended: &Ended,
) -> Result<(), LoadError> {
    let (tell, mut arrivals) = mpsc::channel(ARRIVALS_QUEUE);
    let start = plan.start;
    // The runtime's timers count milliseconds; a thread that sleeps is within some hundredths of one.
    let clock = std::thread::Builder::new()
        .name("load-clock".into())
        .spawn({
            let plan = plan.clone();
            move || keep_time(&plan, schedule, start, &tell)
        })
        .map_err(|error| LoadError::Machine { what: "start the clock's thread", error })?;

    let under_way = Arc::new(AtomicUsize::new(0));
    while let Some(due) = arrivals.recv().await {
        for (intended, number) in due {
            let intended_us = intended.as_micros() as u64;
            if under_way.fetch_add(1, Ordering::Relaxed) >= FLOWS_UNDER_WAY_MAX {
                under_way.fetch_sub(1, Ordering::Relaxed);
                ended.push(Flow::not_started(&plan, number, intended_us, "too many flows under way"));
                continue;
            }
            let client = counter.client().clone();
            let (plan, ended, under_way) = (plan.clone(), ended.clone(), under_way.clone());
            tokio::spawn(async move {
                ended.push(flow::run(plan, client, number, Some(intended_us), None).await);
                under_way.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
    clock.join().map_err(|_| LoadError::Broken("the clock's thread panicked"))?;
    while under_way.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Sends arrivals when they are due, those of one instant together.
fn keep_time(plan: &Plan, schedule: OpenLoop, start: Instant, tell: &mpsc::Sender<Vec<(Duration, FlowNumber)>>) {
    let mut arrivals = schedule.arrivals().peekable();
    while let Some(&(at, _)) = arrivals.peek() {
        let wait = (start + at).saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if plan.stop.load(Ordering::Relaxed) {
            return;
        }
        let passed = start.elapsed();
        let due: Vec<_> = std::iter::from_fn(|| arrivals.next_if(|&(at, _)| at <= passed)).collect();
        plan.arrived.fetch_add(due.len() as u64, Ordering::Relaxed);
        if !due.is_empty() && tell.blocking_send(due).is_err() {
            // The loop is gone: the run was given up.
            return;
        }
    }
}

/// Runs so many clients until all flows are used up.
pub(crate) async fn closed_loop(
    counter: Arc<Counter>,
    plan: Arc<Plan>,
    spec: &ClosedLoopSpec,
    groups: u32,
    ended: &Ended,
) -> Result<(), LoadError> {
    let next = Arc::new(AtomicU32::new(0));
    let (flows, think) = (spec.flows, Duration::from_millis(spec.think_ms));
    let clients: Vec<JoinHandle<()>> = (0..spec.clients)
        .map(|_| {
            let client = counter.client().clone();
            let (plan, next, ended) = (plan.clone(), next.clone(), ended.clone());
            tokio::spawn(async move {
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= flows {
                        return;
                    }
                    let number = FlowNumber { group: turn % groups, index: turn / groups };
                    let block = match &plan.pool {
                        Some(pool) => match pool.take().await {
                            Some(block) => Some(block),
                            None => return,
                        },
                        None => None,
                    };
                    ended.push(flow::run(plan.clone(), client.clone(), number, None, block).await);
                    if !think.is_zero() {
                        tokio::time::sleep(think).await;
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.map_err(|_| LoadError::Broken("a client's task panicked"))?;
    }
    Ok(())
}
