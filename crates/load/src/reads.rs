//! Seat maps that the generator reads on a schedule while flows buy.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use boxoffice_client::Error;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::task::JoinSet;

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

/// Reads maps until all flows have ended, and waits for the last answers.
pub(crate) async fn run(connections: &ConnectionPool, context: &RunContext, spec: &ReadsSpec) -> Option<Reads> {
    let house = context.picker.as_ref()?.house().clone();
    let mut reads: JoinSet<Result<u64, String>> = JoinSet::new();
    let (mut latencies_us, mut failed) = (Vec::new(), BTreeMap::new());
    let mut note = |read: Result<u64, String>| match read {
        Ok(latency_us) => latencies_us.push(latency_us),
        Err(why) => *failed.entry(why).or_default() += 1,
    };
    let mut random = SmallRng::seed_from_u64(context.run_seed.seed ^ u64::from(spec.per_second));
    let start = context.start;
    let mut offered = 0;
    let mut ticks = tokio::time::interval(TICK);
    while !context.flows_ended.load(Ordering::Relaxed) {
        ticks.tick().await;
        while let Some(read) = reads.try_join_next() {
            note(read.expect("a read does not panic"));
        }
        let due = context.now_us() * u64::from(spec.per_second) / 1_000_000;
        for number in offered..due {
            if reads.len() >= UNDER_WAY_MAX {
                note(Err("too many reads under way".to_owned()));
                continue;
            }
            let session = house.session_id(random.random_range(0..house.sessions_all()));
            let client = connections.client().clone();
            let intended_us = number * 1_000_000 / u64::from(spec.per_second);
            reads.spawn(async move {
                let map = client.session_map(&session).await;
                let latency_us = (start.elapsed().as_micros() as u64).saturating_sub(intended_us);
                map.map(|_| latency_us).map_err(|error| match error {
                    Error::Refused(no) => no.name.to_string(),
                    Error::Failed(fail) => fail.kind.name().to_owned(),
                    Error::Unknown(_) => "no answer in time".to_owned(),
                    Error::Closed(_) | Error::Protocol(_) => "the connection broke".to_owned(),
                })
            });
        }
        offered = due;
    }
    let seconds = start.elapsed().as_secs_f64();
    reads.join_all().await.into_iter().for_each(note);
    let done = latencies_us.len() as u64;
    Some(Reads { offered, done, failed, a_second: done as f64 / seconds, latency: Latency::of(&mut latencies_us) })
}
