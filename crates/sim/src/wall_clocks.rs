//! The wall clocks of the world. All clocks are set together, and outages last for hours. Deadlines and dates in
//! answers are checked against them.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, CartState},
    time::Timestamp,
};
use boxoffice_wire::status::ShardStatus;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    clock::{BEGIN_MS, Skew},
    shown::Times,
    tally::Tally,
};

/// The tolerance for times in answers, in milliseconds.
const REPORTED_MS: i64 = 1_000;
/// How long the cluster may take to notice that a clock was set, in milliseconds.
const FINDS_OUT_MS: u64 = 30_000;

/// All wall clocks of the world.
pub(crate) struct WallClocks {
    /// How far all of them are ahead of the run.
    all: Skew,
    changes: Mutex<Changes>,
}

#[derive(Default)]
struct Changes {
    /// When a clock was last set, in milliseconds of the run.
    last_ms: Option<u64>,
    /// Machines with a wrong clock.
    odd: BTreeMap<u64, i64>,
    /// Outages that take no time of the run: their end, and their length in milliseconds.
    outages: Vec<(u64, u64)>,
    /// All clocks were set while processes ran.
    were_set: bool,
    /// Counts of checked times.
    tally: Tally,
}

/// The limit for a change of a shard's distance from true time between two checks while no clock is set, in
/// milliseconds. A new leader may lose the age of a message.
const DISTANCE_MS: u64 = 3_000;

/// The distance of each shard from true time, by the leader of its highest term so far.
#[derive(Default)]
pub(crate) struct Distances(BTreeMap<u32, (u64, i64)>);

impl Distances {
    /// Checks the shards that one node leads, and returns violations. Valid while no clock was set.
    pub(crate) fn look(&mut self, shards: &[ShardStatus]) -> Vec<String> {
        let mut wrong = Vec::new();
        for ShardStatus { shard, term, distance_ms, .. } in shards.iter().filter(|status| status.role == "leader") {
            let (last_term, last_ms) = *self.0.entry(*shard).or_insert((*term, *distance_ms));
            if *term < last_term {
                continue;
            }
            self.0.insert(*shard, (*term, *distance_ms));
            if last_ms.abs_diff(*distance_ms) > DISTANCE_MS {
                wrong.push(format!(
                    "shard {shard} is {distance_ms} ms from true time in term {term}, and was {last_ms} in term {last_term}, though no clock was set"
                ));
            }
        }
        wrong
    }
}

impl Changes {
    /// Whether all clocks were right since long before a request.
    fn was_right_since(&self, called_ms: u64) -> bool {
        self.odd.is_empty() && self.last_ms.is_none_or(|last_ms| last_ms + FINDS_OUT_MS < called_ms)
    }

    /// The length of outages between request and answer.
    fn off_between(&self, (called_ms, acked_ms): Times) -> i64 {
        let between = self.outages.iter().filter(|(at_ms, _)| (called_ms..=acked_ms).contains(at_ms));
        between.map(|(_, for_ms)| *for_ms as i64).sum()
    }

    /// Counts a checked time.
    fn count_check(&mut self, what: &'static str, called_ms: u64) {
        self.tally.count(what);
        if self.outages.last().is_some_and(|(at_ms, _)| at_ms + FINDS_OUT_MS > called_ms) {
            self.tally.count("of these within 30 s of an outage");
        }
        if self.were_set {
            self.tally.count("of these after all clocks were set");
        }
    }
}

impl WallClocks {
    pub(crate) fn new() -> WallClocks {
        WallClocks { all: Skew::default(), changes: Mutex::default() }
    }

    /// How far all wall clocks are ahead of the run. Every clock shares it.
    pub(crate) fn all(&self) -> Skew {
        self.all.clone()
    }

    /// Sets the error of one machine's clock.
    pub(crate) fn set_one(&self, machine: u64, wrong_ms: i64, now_ms: u64) {
        let mut changes = self.changes.lock();
        changes.last_ms = Some(now_ms);
        match wrong_ms {
            0 => _ = changes.odd.remove(&machine),
            _ => _ = changes.odd.insert(machine, wrong_ms),
        }
    }

    /// Sets all clocks to `ahead_ms` ahead of the run.
    pub(crate) fn set_all(&self, ahead_ms: i64, now_ms: u64) {
        self.all.set(ahead_ms);
        let mut changes = self.changes.lock();
        (changes.last_ms, changes.were_set) = (Some(now_ms), true);
    }

    /// All machines were off for a time that does not pass in the run.
    pub(crate) fn were_off(&self, for_ms: u64, now_ms: u64) {
        self.all.set(self.all.get() + for_ms as i64);
        let mut changes = self.changes.lock();
        changes.outages.push((now_ms, for_ms));
        changes.tally.add("simulated seconds of outages", for_ms / 1_000);
    }

    /// The length of all outages until `now_ms`.
    pub(crate) fn off_ms(&self, now_ms: u64) -> u64 {
        self.changes.lock().outages.iter().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, for_ms)| for_ms).sum()
    }

    /// Whether all clocks were set while processes ran.
    pub(crate) fn were_set(&self) -> bool {
        self.changes.lock().were_set
    }

    /// When wall clocks show this instant, in milliseconds of the run, unless they are set before.
    pub(crate) fn run_ms(&self, at: Timestamp) -> u64 {
        at.0.saturating_sub(BEGIN_MS).saturating_add_signed(-self.all.get())
    }

    /// What wall clocks show at this time of the run, unless they are set before.
    pub(crate) fn at_ms(&self, run_ms: u64) -> Timestamp {
        Timestamp((BEGIN_MS + run_ms).saturating_add_signed(self.all.get()))
    }

    /// Whether something was sold before its sale opened at this instant. Nothing is judged once a clock was set, because an offer that
    /// has opened stays open.
    pub(crate) fn is_early(&self, opens_at: Timestamp, acked_ms: u64) -> bool {
        self.were_never_set() && acked_ms as i64 + REPORTED_MS < opens_at.0 as i64 - BEGIN_MS as i64 - self.all.get()
    }

    /// Whether no clock was ever set, so that earlier answers stay true.
    pub(crate) fn were_never_set(&self) -> bool {
        self.changes.lock().last_ms.is_none()
    }

    pub(crate) fn tally(&self) -> Tally {
        self.changes.lock().tally.clone()
    }

    /// Checks the times in an answer if all clocks were right since long before its request.
    pub(crate) fn wrong(&self, answer: &Answer, life_ms: u64, (called_ms, acked_ms): Times) -> Option<String> {
        let mut changes = self.changes.lock();
        if !changes.was_right_since(called_ms) {
            return None;
        }
        // An answer from before an outage has the wall time of then.
        let off_ms = changes.off_between((called_ms, acked_ms));
        let run_ms = |at: Timestamp| at.0 as i64 - BEGIN_MS as i64 - self.all.get();
        let (from_ms, to_ms) = (called_ms as i64 - REPORTED_MS - off_ms, acked_ms as i64 + REPORTED_MS);
        let (reported_ms, fits) = match answer {
            Answer::Held(held) => {
                let reported_ms = run_ms(held.deadline);
                // Some sessions and products have a shorter life, down to half of it.
                let life_ms = life_ms as i64;
                (reported_ms, (from_ms + life_ms / 2..=to_ms + life_ms).contains(&reported_ms))
            }
            Answer::Cart(view) if view.state == CartState::Active => {
                let reported_ms = run_ms(view.deadline);
                (reported_ms, (from_ms..=to_ms + life_ms as i64).contains(&reported_ms))
            }
            _ => return None,
        };
        changes.count_check("told deadlines judged", called_ms);
        (!fits).then(|| {
            format!(
                "a deadline is told as {reported_ms} ms of the run, asked at {called_ms} and answered at {acked_ms} ms"
            )
        })
    }

    /// Checks the date of a new order.
    pub(crate) fn wrong_date(&self, at: Timestamp, (called_ms, acked_ms): Times) -> Option<String> {
        let mut changes = self.changes.lock();
        if !changes.was_right_since(called_ms) {
            return None;
        }
        changes.count_check("dates judged", called_ms);
        let off_ms = changes.off_between((called_ms, acked_ms));
        let reported_ms = at.0 as i64 - BEGIN_MS as i64 - self.all.get();
        let fits = (called_ms as i64 - REPORTED_MS - off_ms..=acked_ms as i64 + REPORTED_MS).contains(&reported_ms);
        (!fits).then(|| {
            format!(
                "an order is dated {reported_ms} ms of the run, asked for at {called_ms} and answered at {acked_ms} ms"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{answer::Held, id::CartId, money::Currency};

    use super::*;

    fn held(deadline_ms: i64) -> Answer {
        let deadline = Timestamp(BEGIN_MS.saturating_add_signed(deadline_ms));
        let currency = Currency::new("EUR").expect("a currency");
        Answer::Held(Held { cart: CartId(1), lines: Vec::new(), currency, deadline, lines_version: 0 })
    }

    #[test]
    fn a_deadline_that_is_not_now_and_life_is_wrong() {
        let wall_clocks = WallClocks::new();
        let wrong = |wall_clocks: &WallClocks, reported_ms| {
            wall_clocks.wrong(&held(reported_ms), 60_000, (100_000, 100_300)).is_some()
        };
        assert!(!wrong(&wall_clocks, 160_000) && !wrong(&wall_clocks, 161_200) && !wrong(&wall_clocks, 130_000));
        assert!(wrong(&wall_clocks, 128_000) && wrong(&wall_clocks, 162_000) && wrong(&wall_clocks, 100_000));
        wall_clocks.were_off(3_600_000, 90_000);
        assert!(
            !wrong(&wall_clocks, 3_760_000) && wrong(&wall_clocks, 160_000),
            "times right after an outage are right"
        );
        wall_clocks.were_off(1_000_000, 100_100);
        assert!(!wrong(&wall_clocks, 3_760_000) && !wrong(&wall_clocks, 4_760_000), "before or after");
        wall_clocks.set_all(3_600_000, 50_000);
        assert!(!wrong(&wall_clocks, 3_760_000) && wrong(&wall_clocks, 160_000));
        wall_clocks.set_one(2, 5, 90_000);
        assert!(!wrong(&wall_clocks, 160_000), "the right clock is unknown");
    }
}
