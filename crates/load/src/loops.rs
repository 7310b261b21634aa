//! The two load models. In an open loop flows start on a schedule. In a closed loop each client starts its next flow
//! when its last one has ended.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_workload::arrival::{FlowNumber, OpenLoop};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

use crate::{
    LoadError,
    connection_pool::ConnectionPool,
    flow::{self, Flow},
    run_context::RunContext,
    scenario::ClosedLoopSpec,
};

/// The most flows under way. An arrival beyond this is not started and counts as failed.
pub const FLOWS_UNDER_WAY_MAX: u32 = 200_000;

/// Groups of arrivals between the clock's thread and the loop. Beyond this the thread waits, and the report shows the
/// delay.
const ARRIVALS_QUEUE: usize = 1_024;

/// Flows that have ended. The progress bar reads them while the run goes on.
#[derive(Clone, Default)]
pub(crate) struct FinishedFlows(Arc<Mutex<Vec<Flow>>>);

impl FinishedFlows {
    pub(crate) fn push(&self, flow: Flow) {
        self.0.lock().expect("no thread panics while it holds the lock").push(flow);
    }

    /// The number of ended flows, and the result of `look` on those from number `from` on.
    pub(crate) fn since<T>(&self, from: usize, look: impl Fn(&[Flow]) -> T) -> (usize, T) {
        let flows = self.0.lock().expect("no thread panics while it holds the lock");
        (flows.len(), look(&flows[from..]))
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> Vec<Flow> {
        std::mem::take(&mut *self.0.lock().expect("no thread panics while it holds the lock"))
    }
}

/// Starts every flow at its time, and waits until the last one has ended.
pub(crate) async fn open_loop(
    connections: Arc<ConnectionPool>,
    context: Arc<RunContext>,
    schedule: OpenLoop,
    finished: &FinishedFlows,
) -> Result<(), LoadError> {
    let (arrivals_tx, mut arrivals) = mpsc::channel(ARRIVALS_QUEUE);
    let start = context.start;
    // The runtime's timers count milliseconds. A sleeping thread is accurate to some hundredths of one.
    let clock = std::thread::Builder::new()
        .name("load-clock".into())
        .spawn({
            let context = context.clone();
            move || send_arrivals(&context, schedule, start, &arrivals_tx)
        })
        .map_err(|error| LoadError::System { what: "start the clock's thread", error })?;

    // A flow gives its permit back at its end, also if it panics.
    let under_way = Arc::new(Semaphore::new(FLOWS_UNDER_WAY_MAX as usize));
    while let Some(due) = arrivals.recv().await {
        for (intended, number) in due {
            let intended_us = intended.as_micros() as u64;
            let Ok(permit) = Arc::clone(&under_way).try_acquire_owned() else {
                finished.push(Flow::not_started(&context, number, intended_us, "too many flows under way"));
                continue;
            };
            let client = connections.client().clone();
            let (context, finished) = (context.clone(), finished.clone());
            tokio::spawn(async move {
                finished.push(flow::run(context, client, number, Some(intended_us), None).await);
                drop(permit);
            });
        }
    }
    clock.join().map_err(|_| LoadError::Internal("the clock's thread panicked"))?;
    // All permits are back when all flows have ended.
    let _ = under_way.acquire_many(FLOWS_UNDER_WAY_MAX).await;
    Ok(())
}

/// Sends arrivals when they are due. Arrivals of one instant are sent together.
fn send_arrivals(
    context: &RunContext,
    schedule: OpenLoop,
    start: Instant,
    arrivals_tx: &mpsc::Sender<Vec<(Duration, FlowNumber)>>,
) {
    let mut arrivals = schedule.arrivals().peekable();
    while let Some(&(at, _)) = arrivals.peek() {
        let wait = (start + at).saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if context.stop_arrivals.load(Ordering::Relaxed) {
            return;
        }
        let passed = start.elapsed();
        let due: Vec<_> = std::iter::from_fn(|| arrivals.next_if(|&(at, _)| at <= passed)).collect();
        context.arrived.fetch_add(due.len() as u64, Ordering::Relaxed);
        if !due.is_empty() && arrivals_tx.blocking_send(due).is_err() {
            // The loop has ended because the run was given up.
            return;
        }
    }
}

/// Runs the scenario's clients until all flows are used up.
pub(crate) async fn closed_loop(
    connections: Arc<ConnectionPool>,
    context: Arc<RunContext>,
    spec: &ClosedLoopSpec,
    groups: u32,
    finished: &FinishedFlows,
) -> Result<(), LoadError> {
    let next = Arc::new(AtomicU32::new(0));
    let (flows, think) = (spec.flows, Duration::from_millis(spec.think_ms));
    let clients: Vec<JoinHandle<()>> = (0..spec.clients)
        .map(|_| {
            let client = connections.client().clone();
            let (context, next, finished) = (context.clone(), next.clone(), finished.clone());
            tokio::spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= flows {
                        return;
                    }
                    let number = FlowNumber { group: index % groups, index: index / groups };
                    let block = match &context.seat_blocks {
                        Some(pool) => match pool.take().await {
                            Some(block) => Some(block),
                            None => return,
                        },
                        None => None,
                    };
                    finished.push(flow::run(context.clone(), client.clone(), number, None, block).await);
                    if !think.is_zero() {
                        tokio::time::sleep(think).await;
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.map_err(|_| LoadError::Internal("a client's task panicked"))?;
    }
    Ok(())
}
