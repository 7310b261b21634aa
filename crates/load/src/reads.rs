//! Seat maps that the generator reads on a schedule while flows buy.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_client::Error;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    connection_pool::ConnectionPool,
    report::{Latency, Reads},
    run_context::RunContext,
    scenario::ReadsSpec,
};

/// The most reads under way. A read beyond this is not sent and counts as failed.
const UNDER_WAY_MAX: usize = 20_000;

/// How often the generator sends the reads that are due.
const TICK: Duration = Duration::from_millis(1);

/// The outcomes of the reads.
#[derive(Default)]
struct ReadOutcomes {
    latencies_us: Vec<u64>,
    failed: BTreeMap<String, u64>,
}

impl ReadOutcomes {
    fn fail(&mut self, why: &str) {
        *self.failed.entry(why.to_owned()).or_default() += 1;
    }
}

/// Reads maps until all flows have ended, and waits for the last answers.
pub(crate) async fn run(connections: &ConnectionPool, context: &RunContext, spec: &ReadsSpec) -> Option<Reads> {
    let house = context.picker.as_ref()?.house().clone();
    let outcomes: Arc<Mutex<ReadOutcomes>> = Arc::default();
    let under_way = Arc::new(AtomicUsize::new(0));
    let mut random = SmallRng::seed_from_u64(context.run_seed.seed ^ u64::from(spec.per_second));
    let start = context.start;
    let mut offered = 0;
    let mut ticks = tokio::time::interval(TICK);
    while !context.flows_ended.load(Ordering::Relaxed) {
        ticks.tick().await;
        let due = context.now_us() * u64::from(spec.per_second) / 1_000_000;
        for number in offered..due {
            if under_way.load(Ordering::Relaxed) >= UNDER_WAY_MAX {
                outcomes.lock().expect("no thread panics while it holds the lock").fail("too many reads under way");
                continue;
            }
            under_way.fetch_add(1, Ordering::Relaxed);
            let session = house.session_id(random.random_range(0..house.sessions_all()));
            let (client, outcomes, under_way) = (connections.client().clone(), outcomes.clone(), under_way.clone());
            let intended_us = number * 1_000_000 / u64::from(spec.per_second);
            tokio::spawn(async move {
                let map = client.session_map(&session).await;
                let took_us = (start.elapsed().as_micros() as u64).saturating_sub(intended_us);
                let mut outcomes = outcomes.lock().expect("no thread panics while it holds the lock");
                match map {
                    Ok(_) => outcomes.latencies_us.push(took_us),
                    Err(Error::Refused(no)) => outcomes.fail(no.name.as_str()),
                    Err(Error::Failed(fail)) => outcomes.fail(fail.kind.name()),
                    Err(Error::Unknown(_)) => outcomes.fail("no answer in time"),
                    Err(Error::Closed(_) | Error::Protocol(_)) => outcomes.fail("the connection broke"),
                }
                under_way.fetch_sub(1, Ordering::Relaxed);
            });
        }
        offered = due;
    }
    let seconds = start.elapsed().as_secs_f64();
    while under_way.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(TICK).await;
    }
    let ReadOutcomes { mut latencies_us, failed } =
        std::mem::take(&mut *outcomes.lock().expect("no thread panics while it holds the lock"));
    let done = latencies_us.len() as u64;
    Some(Reads { offered, done, failed, a_second: done as f64 / seconds, latency: Latency::of(&mut latencies_us) })
}
