//! Seat maps that are read by the clock while flows buy.

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
    counter::Counter,
    plan::Plan,
    report::{Latency, Reads},
    scenario::ReadsSpec,
};

/// Reads under way at most; one beyond this is not sent and counts as failed.
const UNDER_WAY_MAX: usize = 20_000;

/// How often it is looked how many are due.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What came of the reads.
#[derive(Default)]
struct Answers {
    latencies_us: Vec<u64>,
    failed: BTreeMap<String, u64>,
}

impl Answers {
    fn fail(&mut self, why: &str) {
        *self.failed.entry(why.to_owned()).or_default() += 1;
    }
}

/// Reads maps until all flows have ended, and waits for the last answers.
pub(crate) async fn run(counter: &Counter, plan: &Plan, spec: &ReadsSpec) -> Option<Reads> {
    let house = plan.picker.as_ref()?.house().clone();
    let answers: Arc<Mutex<Answers>> = Arc::default();
    let under_way = Arc::new(AtomicUsize::new(0));
    let mut random = SmallRng::seed_from_u64(plan.run_seed.seed ^ u64::from(spec.per_second));
    let start = plan.start;
    let mut offered = 0;
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    while !plan.over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let due = plan.now_us() * u64::from(spec.per_second) / 1_000_000;
        for number in offered..due {
            if under_way.load(Ordering::Relaxed) >= UNDER_WAY_MAX {
                answers.lock().expect("nobody panics with the answers").fail("too many reads under way");
                continue;
            }
            under_way.fetch_add(1, Ordering::Relaxed);
            let session = house.session_id(random.random_range(0..house.sessions_all()));
            let (client, answers, under_way) = (counter.client().clone(), answers.clone(), under_way.clone());
            let intended_us = number * 1_000_000 / u64::from(spec.per_second);
            tokio::spawn(async move {
                let map = client.session_map(&session).await;
                let took_us = (start.elapsed().as_micros() as u64).saturating_sub(intended_us);
                let mut answers = answers.lock().expect("nobody panics with the answers");
                match map {
                    Ok(_) => answers.latencies_us.push(took_us),
                    Err(Error::Refused(no)) => answers.fail(no.name.as_str()),
                    Err(Error::Failed(fail)) => answers.fail(fail.kind.name()),
                    Err(Error::Unknown(_)) => answers.fail("no answer in time"),
                    Err(Error::Closed(_) | Error::Protocol(_)) => answers.fail("the connection broke"),
                }
                under_way.fetch_sub(1, Ordering::Relaxed);
            });
        }
        offered = due;
    }
    let seconds = start.elapsed().as_secs_f64();
    while under_way.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let Answers { mut latencies_us, failed } =
        std::mem::take(&mut *answers.lock().expect("nobody panics with the answers"));
    let done = latencies_us.len() as u64;
    Some(Reads { offered, done, failed, a_second: done as f64 / seconds, latency: Latency::of(&mut latencies_us) })
}
