//! What all walls of the world show, and what must follow from it: clocks are set together, outages last for hours, and
//! whoever is told a deadline or a date can tell whether it is right.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, CartState},
    time::Timestamp,
};
use parking_lot::Mutex;

use crate::{
    clock::{BEGIN_MS, Skew},
    oracle::Times,
};

/// What is told may be off by so much, in milliseconds: clocks that agree, and those that are not corrected yet.
const TOLD_MS: i64 = 1_000;
/// So long after a clock was set the cluster may still be finding out, in milliseconds.
const FINDS_OUT_MS: u64 = 30_000;

/// What all walls show.
pub(crate) struct Walls {
    /// How far all of them are ahead of the run.
    all: Skew,
    changes: Mutex<Changes>,
}

#[derive(Default)]
struct Changes {
    /// When a clock was last set, in milliseconds of the run.
    last_ms: Option<u64>,
    /// Machines with a clock of their own.
    odd: BTreeMap<u64, i64>,
    /// Outages that were longer than the run knows: when they ended, and how much longer in milliseconds.
    outages: Vec<(u64, u64)>,
    /// All clocks were set while processes ran.
    were_set: bool,
}

impl Walls {
    pub(crate) fn new() -> Walls {
        Walls { all: Skew::default(), changes: Mutex::default() }
    }

    /// How far all walls are ahead of the run; shared with every clock.
    pub(crate) fn all(&self) -> Skew {
        self.all.clone()
    }

    /// One machine's clock is this wrong from now on.
    pub(crate) fn set_one(&self, machine: u64, wrong_ms: i64, now_ms: u64) {
        let mut changes = self.changes.lock();
        changes.last_ms = Some(now_ms);
        match wrong_ms {
            0 => _ = changes.odd.remove(&machine),
            _ => _ = changes.odd.insert(machine, wrong_ms),
        }
    }

    /// All clocks are set: so far ahead of the run.
    pub(crate) fn set_all(&self, ahead_ms: i64, now_ms: u64) {
        self.all.set(ahead_ms);
        let mut changes = self.changes.lock();
        (changes.last_ms, changes.were_set) = (Some(now_ms), true);
    }

    /// All machines were off for so much longer than the run knows.
    pub(crate) fn were_off(&self, for_ms: u64, now_ms: u64) {
        self.all.set(self.all.get() + for_ms as i64);
        let mut changes = self.changes.lock();
        changes.last_ms = Some(now_ms);
        changes.outages.push((now_ms, for_ms));
    }

    /// How much time outages have taken, until then, that the run knows nothing of.
    pub(crate) fn off_ms(&self, now_ms: u64) -> u64 {
        self.changes.lock().outages.iter().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, for_ms)| for_ms).sum()
    }

    /// Whether all clocks were set while processes ran.
    pub(crate) fn were_set(&self) -> bool {
        self.changes.lock().were_set
    }

    /// What is wrong with the times an answer tells, if all clocks were right from long before it was asked.
    pub(crate) fn wrong(&self, answer: &Answer, life_ms: u64, (called_ms, acked_ms): Times) -> Option<String> {
        let changes = self.changes.lock();
        let steady = changes.odd.is_empty() && changes.last_ms.is_none_or(|last_ms| last_ms + FINDS_OUT_MS < called_ms);
        if !steady {
            return None;
        }
        let run_ms = |at: Timestamp| at.0 as i64 - BEGIN_MS as i64 - self.all.get();
        let (from_ms, to_ms) = (called_ms as i64 - TOLD_MS, acked_ms as i64 + TOLD_MS);
        let (told_ms, fits) = match answer {
            Answer::Held(held) => {
                let told_ms = run_ms(held.deadline);
                // Of some sessions and products the life is shorter, down to half of it.
                let life_ms = life_ms as i64;
                (told_ms, (from_ms + life_ms / 2..=to_ms + life_ms).contains(&told_ms))
            }
            Answer::Cart(view) if view.state == CartState::Active => {
                let told_ms = run_ms(view.deadline);
                (told_ms, (from_ms..=to_ms + life_ms as i64).contains(&told_ms))
            }
            _ => return None,
        };
        (!fits).then(|| {
            format!("a deadline is told as {told_ms} ms of the run, asked at {called_ms} and answered at {acked_ms} ms")
        })
    }

    /// What is wrong with the date of an order that was just decided.
    pub(crate) fn wrong_date(&self, at: Timestamp, (called_ms, acked_ms): Times) -> Option<String> {
        let changes = self.changes.lock();
        let steady = changes.odd.is_empty() && changes.last_ms.is_none_or(|last_ms| last_ms + FINDS_OUT_MS < called_ms);
        let told_ms = at.0 as i64 - BEGIN_MS as i64 - self.all.get();
        let fits = (called_ms as i64 - TOLD_MS..=acked_ms as i64 + TOLD_MS).contains(&told_ms);
        (steady && !fits).then(|| {
            format!("an order is dated {told_ms} ms of the run, asked for at {called_ms} and answered at {acked_ms} ms")
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
        let walls = Walls::new();
        let wrong = |walls: &Walls, told_ms| walls.wrong(&held(told_ms), 60_000, (100_000, 100_300)).is_some();
        assert!(!wrong(&walls, 160_000) && !wrong(&walls, 161_200) && !wrong(&walls, 130_000));
        assert!(wrong(&walls, 128_000) && wrong(&walls, 162_000) && wrong(&walls, 100_000));
        walls.set_all(3_600_000, 50_000);
        assert!(!wrong(&walls, 3_760_000) && wrong(&walls, 160_000));
        walls.set_one(2, 5, 90_000);
        assert!(!wrong(&walls, 160_000), "who is right is not known");
    }
}
