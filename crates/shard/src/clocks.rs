//! The wall clocks of other machines, and the time that a majority of a shard's voters confirms.
//!
//! Nodes ask each other for the time. The error of a reading is half of its round trip. A reading is stored relative to
//! the monotonic clock, so that a step of this machine's wall clock does not change it.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::NodeId;
use crate::now::Now;
use crate::snapshot::Members;

/// Clocks that differ by no more than this agree, in milliseconds.
pub(crate) const AGREE_MS: i64 = 500;

/// How long a better reading outranks a newer one, in milliseconds.
const KEEP_MS: u64 = 5_000;

/// Older readings are ignored, in milliseconds.
const FRESH_MS: u64 = 10_000;

/// Readings with a longer round trip are ignored, in milliseconds.
const ROUND_MAX_MS: u64 = 2_000;

/// Another node's reading of its wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// When this node asked, by its monotonic clock, in milliseconds.
    pub asked_ms: u64,
    /// When the answer arrived, by the same clock.
    pub answered_ms: u64,
    /// The other node's wall clock, milliseconds since 1970.
    pub wall_ms: u64,
}

/// True time as far as a shard's voters know it, milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrueTime {
    /// A majority of the voters agrees with it.
    Confirmed(u64),
    /// No majority agrees. This is the earliest of the known clocks.
    Unconfirmed(u64),
}

impl TrueTime {
    pub(crate) fn ms(self) -> u64 {
        match self {
            TrueTime::Confirmed(ms) | TrueTime::Unconfirmed(ms) => ms,
        }
    }

    pub(crate) fn is_confirmed(self) -> bool {
        matches!(self, TrueTime::Confirmed(_))
    }
}

/// One clock against this node's monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    node: NodeId,
    // The other wall clock less our monotonic clock, and the error of that.
    shift_ms: i64,
    error_ms: i64,
    mono_ms: u64,
}

impl Reading {
    fn agrees(&self, other: &Reading, within_ms: i64) -> bool {
        let apart = self.shift_ms.saturating_sub(other.shift_ms).saturating_abs();
        apart <= within_ms + self.error_ms + other.error_ms
    }
}

/// The clocks of other machines.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    readings: BTreeMap<NodeId, Reading>,
}

impl Clocks {
    /// Stores the answer of a node.
    pub(crate) fn record(&mut self, node: NodeId, read: ClockReading) {
        let ClockReading { asked_ms, answered_ms, wall_ms } = read;
        let round_ms = answered_ms.saturating_sub(asked_ms);
        if round_ms > ROUND_MAX_MS {
            return;
        }
        let shift_ms = (wall_ms as i64).saturating_sub((asked_ms + round_ms / 2) as i64);
        let reading = Reading { node, shift_ms, error_ms: (round_ms / 2) as i64, mono_ms: answered_ms };
        let known = self.readings.entry(node).or_insert(reading);
        let is_old = answered_ms.saturating_sub(known.mono_ms) > KEEP_MS;
        // A reading that contradicts the old one means that the clock was set since.
        if is_old || reading.error_ms <= known.error_ms || !known.agrees(&reading, 0) {
            *known = reading;
        }
    }

    /// True time according to the voters of a shard, as the node `own` knows it now. `None` until a majority of their
    /// clocks is known.
    pub(crate) fn true_time(&self, own: NodeId, now: Now, members: &Members) -> Option<TrueTime> {
        let known_clocks = self.known_clocks(own, now, members);
        is_majority(&known_clocks, members).then(|| judge(own, now, members, &known_clocks))
    }

    /// The same from the known clocks, even if they are few.
    pub(crate) fn best_time(&self, own: NodeId, now: Now, members: &Members) -> TrueTime {
        judge(own, now, members, &self.known_clocks(own, now, members))
    }

    /// The known clocks of voters, our own first.
    fn known_clocks(&self, own: NodeId, now: Now, members: &Members) -> Vec<Reading> {
        let voters = [&members.voters, &members.voters_outgoing].into_iter().flatten();
        let nodes: BTreeSet<NodeId> = voters.map(|replica| replica.node()).collect();
        let ours = Reading { node: own, shift_ms: now.shift_ms(), error_ms: 0, mono_ms: now.mono_ms };
        let others = nodes.iter().filter(|node| **node != own).filter_map(|node| self.readings.get(node));
        let fresh = others.filter(|reading| now.mono_ms.saturating_sub(reading.mono_ms) <= FRESH_MS);
        let ours = nodes.contains(&own).then_some(ours);
        ours.into_iter().chain(fresh.copied()).collect()
    }
}

fn judge(own: NodeId, now: Now, members: &Members, known_clocks: &[Reading]) -> TrueTime {
    let instant = |shift_ms: i64| now.mono_ms.saturating_add_signed(shift_ms);
    // Our own clock is compared with the others first, then the most exact one.
    let mut judges: Vec<&Reading> = known_clocks.iter().collect();
    judges.sort_by_key(|reading| (reading.node != own, reading.error_ms, reading.node));
    for judge in judges {
        let agree: Vec<Reading> =
            known_clocks.iter().filter(|reading| reading.agrees(judge, AGREE_MS)).copied().collect();
        if is_majority(&agree, members) {
            // An error must not shorten a life, so the reading counts as the earliest that it may be.
            return TrueTime::Confirmed(instant(judge.shift_ms.saturating_sub(judge.error_ms)));
        }
    }
    let earliest = known_clocks.iter().map(|reading| reading.shift_ms.saturating_sub(reading.error_ms)).min();
    TrueTime::Unconfirmed(instant(earliest.unwrap_or_else(|| now.shift_ms())))
}

/// Whether these are a majority of the voters, and of the outgoing voters during a joint change.
fn is_majority(known_clocks: &[Reading], members: &Members) -> bool {
    [&members.voters, &members.voters_outgoing].into_iter().filter(|list| !list.is_empty()).all(|list| {
        let among = list.iter().filter(|replica| known_clocks.iter().any(|reading| reading.node == replica.node()));
        2 * among.count() > list.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ReplicaId;

    const MONO: u64 = 1_000_000;
    const WALL: u64 = 1_700_000_000_000;

    fn now() -> Now {
        Now { wall_ms: WALL, mono_ms: MONO }
    }

    fn members(voters: &[NodeId], outgoing: &[NodeId]) -> Members {
        let replicas = |nodes: &[NodeId]| nodes.iter().map(|node| ReplicaId::new(*node, 1)).collect();
        Members { voters_outgoing: replicas(outgoing), ..Members::born(replicas(voters)) }
    }

    /// An answer with this round trip.
    fn read(now: Now, wall_ms: u64, round_ms: u64) -> ClockReading {
        ClockReading { asked_ms: now.mono_ms - round_ms, answered_ms: now.mono_ms, wall_ms }
    }

    /// How far true time is ahead of node 1's clock when the other clocks are this far ahead of it. An error if it is not
    /// confirmed, `None` if too few clocks are known.
    fn known(voters: &[NodeId], outgoing: &[NodeId], ahead_ms: &[(NodeId, i64)]) -> Option<Result<i64, i64>> {
        let mut clocks = Clocks::default();
        for (node, ahead_ms) in ahead_ms {
            clocks.record(*node, read(now(), WALL.saturating_add_signed(*ahead_ms), 0));
        }
        Some(match clocks.true_time(1, now(), &members(voters, outgoing))? {
            TrueTime::Confirmed(ms) => Ok(ms as i64 - WALL as i64),
            TrueTime::Unconfirmed(ms) => Err(ms as i64 - WALL as i64),
        })
    }

    #[test]
    fn one_voter_confirms_itself() {
        assert_eq!(known(&[1], &[], &[(2, 60_000)]), Some(Ok(0)));
    }

    #[test]
    fn the_clocks_of_a_majority_must_be_known() {
        assert_eq!(known(&[1, 2, 3], &[], &[]), None);
        assert_eq!(known(&[1, 2, 3], &[], &[(4, 0), (5, 0)]), None, "they have no vote");
        assert_eq!(known(&[1, 2, 3, 4, 5], &[], &[(2, 0)]), None);
        let none_confirmed = Clocks::default().best_time(1, now(), &members(&[1, 2, 3], &[]));
        assert_eq!(none_confirmed, TrueTime::Unconfirmed(WALL));
    }

    #[test]
    fn an_agreeing_majority_confirms_true_time_and_may_include_our_own_clock() {
        assert_eq!(known(&[1, 2, 3], &[], &[(2, 400), (3, 60_000)]), Some(Ok(0)));
        assert_eq!(known(&[1, 2, 3], &[], &[(2, 60_000), (3, 60_400)]), Some(Ok(60_000)));
        assert_eq!(known(&[1, 2, 3], &[], &[(2, -3_600_000)]), Some(Err(-3_600_000)), "the earlier one");
        assert_eq!(known(&[1, 2, 3], &[], &[(2, 10_000)]), Some(Err(0)), "the earlier one");
        assert_eq!(known(&[2, 3, 4], &[], &[(2, 9_000), (3, 9_100)]), Some(Ok(9_000)), "our node is not a voter");
        let five = [(2, 9_000), (3, 9_100), (4, 9_200), (5, -300)];
        assert_eq!(known(&[1, 2, 3, 4, 5], &[], &five), Some(Ok(9_000)));
    }

    #[test]
    fn a_joint_change_takes_both_majorities() {
        assert_eq!(known(&[1, 2, 3], &[1, 4, 5], &[(2, 10), (4, 10)]), Some(Ok(0)));
        assert_eq!(known(&[1, 2, 3], &[1, 4, 5], &[(2, 10), (3, 10)]), None);
    }

    #[test]
    fn a_slow_answer_is_less_exact_and_a_very_slow_one_is_ignored() {
        let (three, mut clocks) = (members(&[1, 2, 3], &[]), Clocks::default());
        clocks.record(2, read(now(), WALL - 1_200, 1_500));
        assert_eq!(
            clocks.true_time(1, now(), &three),
            Some(TrueTime::Confirmed(WALL)),
            "the true time is within its error"
        );
        clocks.record(2, read(now(), WALL - 1_200, 20));
        assert_eq!(clocks.true_time(1, now(), &three), Some(TrueTime::Unconfirmed(WALL - 1_200)));
        clocks.record(2, read(now(), WALL, ROUND_MAX_MS + 1));
        assert_eq!(clocks.true_time(1, now(), &three), Some(TrueTime::Unconfirmed(WALL - 1_200)));
        clocks.record(2, read(now(), WALL, 500));
        assert_eq!(clocks.true_time(1, now(), &three), Some(TrueTime::Confirmed(WALL)), "the clock was set since");
        let later = Now { wall_ms: WALL + FRESH_MS + 1, mono_ms: MONO + FRESH_MS + 1 };
        assert_eq!(clocks.true_time(1, later, &three), None, "an old reading is ignored");
    }

    #[test]
    fn a_change_of_all_clocks_is_followed_and_of_ours_alone_is_not() {
        let (three, mut clocks) = (members(&[1, 2, 3], &[]), Clocks::default());
        clocks.record(2, read(now(), WALL, 0));
        clocks.record(3, read(now(), WALL, 0));
        let set = Now { wall_ms: WALL + 3_600_000, mono_ms: MONO };
        assert_eq!(clocks.true_time(1, set, &three), Some(TrueTime::Confirmed(WALL)));
        clocks.record(2, read(set, WALL + 3_600_010, 0));
        assert_eq!(clocks.true_time(1, set, &three), Some(TrueTime::Confirmed(WALL + 3_600_000)));
    }
}
