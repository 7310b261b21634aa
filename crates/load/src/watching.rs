//! The watchers of a run: they come in before the first flow, and are held against the server's maps after the last.

use std::time::{Duration, Instant};

use boxoffice_workload::{
    history::{HoldOutcome, HoldRecord},
    house::House,
};

use crate::{
    LoadError,
    counter::Counter,
    flow::Flow,
    gallery::{Answer, Gallery, GallerySpec, Mark, Order, now_us},
    machine::{process_cpu, who_listens},
    progress::Progress,
    report::{Lag, Watchers},
    scenario::WatchersSpec,
};

/// How long all may take to come in.
const COME_IN: Duration = Duration::from_secs(120);

/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Watchers that have come in.
pub(crate) struct Watching {
    gallery: Gallery,
    spec: WatchersSpec,
    came_in: Duration,
    /// The nodes that run here.
    pids: Vec<u32>,
    cpu_before: Vec<Option<Duration>>,
}

/// What they saw until the last flow ended.
pub(crate) struct Meanwhile {
    deliveries: u64,
    cpu: Option<Duration>,
    over_us: u64,
}

impl Watching {
    /// Lets them in, and waits until each has a map.
    pub(crate) async fn begin(
        counter: &Counter,
        house: &House,
        spec: &WatchersSpec,
        progress: &Progress,
    ) -> Result<Watching, LoadError> {
        let addresses = counter.addresses();
        let pids = addresses.iter().filter_map(|address| who_listens(address)).collect();
        progress.begin("watchers", spec.count.into());
        let start = Instant::now();
        let gallery = Gallery::open(GallerySpec {
            addresses,
            watchers: spec.count,
            sessions: (0..spec.sessions).map(|session| house.session_id(session).to_string()).collect(),
            feeds: 1,
            counts: false,
            keep_maps: true,
        });
        let gallery = gallery.map_err(|error| LoadError::Machine { what: "open the gallery", error })?;
        loop {
            let Answer::Standing(standing) = ask(&gallery, Order::Look).await? else { return Err(other()) };
            if standing.is_complete() {
                break;
            }
            if start.elapsed() > COME_IN {
                let why = standing.trouble.unwrap_or_else(|| format!("only {} have a map", standing.whole));
                return Err(LoadError::Setup { what: "watchers", why });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(Watching { gallery, spec: spec.clone(), came_in: start.elapsed(), pids, cpu_before: Vec::new() })
    }

    /// The flows begin.
    pub(crate) async fn start(&mut self) -> Result<(), LoadError> {
        self.cpu_before = self.cpu();
        ask(&self.gallery, Order::Begin).await.map(drop)
    }

    /// The flows have ended.
    pub(crate) async fn flows_ended(&self) -> Result<Meanwhile, LoadError> {
        let over_us = now_us();
        let Answer::Told(tally) = ask(&self.gallery, Order::Tell(Vec::new())).await? else { return Err(other()) };
        let used = |(before, after): (&Option<Duration>, Option<Duration>)| Some(after?.saturating_sub((*before)?));
        let used = self.cpu_before.iter().zip(self.cpu()).filter_map(used);
        let cpu = (!self.pids.is_empty()).then(|| used.sum());
        Ok(Meanwhile { deliveries: tally.deliveries(), cpu, over_us })
    }

    /// Holds their maps against those of the server, when everything has come to rest.
    pub(crate) async fn end(
        self,
        counter: &Counter,
        house: &House,
        meanwhile: Meanwhile,
        marks: Marks,
        run_s: f64,
    ) -> Result<Watchers, LoadError> {
        let mut maps = Vec::new();
        for session in 0..self.spec.sessions {
            let map = counter.client().session_map(&house.session_id(session)).await;
            let map = map.map_err(|error| LoadError::Asked { what: "a session's map", error })?.value;
            maps.push((session, map.version, map.seats.to_vec()));
        }
        let last_us = self.converge(maps.iter().map(|(session, version, _)| (*session, *version)).collect()).await?;
        let mut watchers = Watchers {
            count: self.spec.count,
            sessions: self.spec.sessions,
            came_in_s: self.came_in.as_secs_f64(),
            deliveries_a_second: meanwhile.deliveries as f64 / run_s,
            server_cpu_us: meanwhile.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / meanwhile.deliveries.max(1) as f64),
            converged_ms: last_us.saturating_sub(meanwhile.over_us) as f64 / 1e3,
            ..Watchers::default()
        };
        for (session, version, seats) in maps {
            let compare = Order::Compare { session, version, seats };
            let Answer::Compared { same, different, example } = ask(&self.gallery, compare).await? else {
                return Err(other());
            };
            watchers.same += same;
            watchers.different += different;
            watchers.example = watchers.example.or(example);
        }
        for (marks, is_request) in [(marks.asked, true), (marks.answered, false)] {
            let Answer::Told(tally) = ask(&self.gallery, Order::Tell(marks)).await? else { return Err(other()) };
            let lag = Lag::of(&tally.latencies);
            let place = if is_request { &mut watchers.from_request } else { &mut watchers.from_answer };
            *place = lag;
            watchers.counted(&tally);
        }
        let Answer::Standing(standing) = ask(&self.gallery, Order::Look).await? else { return Err(other()) };
        watchers.example = watchers.example.or(standing.trouble);
        Ok(watchers)
    }

    /// Waits until all have these versions, or their time is over; when the last one came to it.
    async fn converge(&self, versions: Vec<(u32, u64)>) -> Result<u64, LoadError> {
        let start = Instant::now();
        loop {
            let reached = ask(&self.gallery, Order::Reached(versions.clone())).await?;
            let Answer::Reached { behind, last_us } = reached else { return Err(other()) };
            if behind == 0 || start.elapsed() > Duration::from_millis(self.spec.converge_ms) {
                return Ok(last_us);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn cpu(&self) -> Vec<Option<Duration>> {
        // One that was killed meanwhile has no time to tell.
        self.pids.iter().map(|pid| process_cpu(*pid).ok()).collect()
    }
}

/// The holds of a run whose version is known, when they were asked for and when they were answered.
#[derive(Default)]
pub(crate) struct Marks {
    asked: Vec<Mark>,
    answered: Vec<Mark>,
}

impl Marks {
    /// Those of these flows; `start_us` is the run's start by [`now_us`].
    pub(crate) fn of(flows: &[Flow], start_us: u64) -> Marks {
        let mut marks = Marks::default();
        for HoldRecord { session, span, outcome, .. } in flows.iter().flat_map(|flow| &flow.record.holds) {
            if let HoldOutcome::Granted { session_version: Some(version), .. } = outcome {
                let mark = |at_us: u64| Mark { session: *session, version: *version, at_us: start_us + at_us };
                marks.asked.push(mark(span.called_us));
                marks.answered.push(mark(span.returned_us));
            }
        }
        marks
    }
}

async fn ask(gallery: &Gallery, order: Order) -> Result<Answer, LoadError> {
    gallery.ask(order).await.map_err(|error| LoadError::Machine { what: "ask the gallery", error })
}

fn other() -> LoadError {
    LoadError::Broken("the gallery answered something else")
}
