//! When a replica campaigns.
//!
//! The voters of a shard have an order, in which each has a slot of its own. So two of them do not ask for votes at the same
//! time, which would split the votes and cost another timeout. The order differs between shards, so that the shards of a dead
//! leader do not all go to the same node.
//!
//! Time is counted in milliseconds in which the node ran. A node that stood still has not missed messages of a leader, so it
//! must read what waits before it campaigns.

use raft::StateRole;

use crate::config::{Config, TICK_MS, scramble};
use crate::name::{ReplicaId, ShardId};
use crate::planted;
use crate::snapshot::Members;

/// How long after the lease of a leader has ended its first successor campaigns, in milliseconds. The others may have received the
/// leader's last message that much later, and grant no vote before the lease has ended for them as well.
const FIRST_MS: u64 = 50;

/// The distance between the campaigns of two replicas, in milliseconds. A vote takes less on links and disks that are well. After
/// each election without a winner it is four times as long, at most twice, so that there is a winner where votes take longer.
const SLOT_MS: u64 = 100;
const WIDER_MAX: u64 = 2;

/// From the second election without a winner on, replicas wait as long again each time, up to this many times as long.
const LONGER_MAX: u64 = 3;

/// Campaigns of several shards at one node are spread over this time, in milliseconds.
const SPREAD_MS: u64 = 30;

/// How much later a replica campaigns whose node avoids leadership, in milliseconds.
const AVOIDANCE_MS: u64 = 500;

/// The longest time between two passes that counts as time in which the node ran, in milliseconds.
pub(crate) const PASS_MS_MAX: u64 = 2 * TICK_MS;

/// The election timeout of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Election {
    // The time in which the node ran, in milliseconds.
    pub(crate) awake_ms: u64,
    // The same when the replica last received a message of a leader, granted its vote, or campaigned.
    since_ms: u64,
    // The last leader that this replica knew, as raft names it, and its term.
    leader: (u64, u64),
    // The place in the order of the voters, and their number.
    rank: u64,
    voters: u64,
}

impl Election {
    /// The timeout of a replica that starts in this term, when its node has run for `awake_ms`.
    pub(crate) fn new(term: u64, awake_ms: u64) -> Election {
        Election { awake_ms, since_ms: awake_ms, leader: (raft::INVALID_ID, term), ..Election::default() }
    }

    /// The timeout begins anew.
    pub(crate) fn restart(&mut self) {
        self.since_ms = self.awake_ms;
    }

    /// How long the timeout has run, in ticks, and at least one.
    pub(crate) fn elapsed_ticks(&self) -> usize {
        usize::try_from((self.awake_ms - self.since_ms) / TICK_MS).unwrap_or(usize::MAX).max(1)
    }

    /// There is this leader in this term. Returns whether it is another one than before.
    pub(crate) fn follow(&mut self, leader: u64, term: u64) -> bool {
        let was = std::mem::replace(&mut self.leader, (leader, term));
        was.0 != leader
    }

    /// Finds the place of a replica among the voters. The last leader has the last one, because it is probably dead.
    pub(crate) fn set_order(&mut self, shard: ShardId, replica: ReplicaId, members: &Members) {
        let key = |replica: u64| (replica == self.leader.0, scramble(replica ^ scramble(u64::from(shard))));
        let voters = [&members.voters, &members.voters_outgoing].into_iter().flatten();
        let mut order: Vec<u64> = voters.map(|replica| replica.bits()).collect();
        order.sort_unstable_by_key(|replica| (key(*replica), *replica));
        order.dedup();
        let before = order.iter().take_while(|other| **other != replica.bits());
        (self.rank, self.voters) = (before.count() as u64, order.len() as u64);
    }

    /// When the replica campaigns if nothing happens before, by the time in which the node ran.
    pub(crate) fn due_ms(&self, config: &Config, (shard, term, state): (ShardId, u64, StateRole)) -> u64 {
        let without_winner = term.saturating_sub(self.leader.1);
        let slot_ms = SLOT_MS << (2 * without_winner.min(WIDER_MAX));
        let drawn = config.drawn(shard, term);
        let wait_ms = match state {
            // The slots of all others lie between two attempts.
            StateRole::PreCandidate => slot_ms.min(SLOT_MS << 2) * self.voters,
            _ if planted::is("election timeouts are drawn") => {
                config.election_ticks as u64 * TICK_MS + drawn % (config.election_ticks as u64 * TICK_MS)
            }
            StateRole::Follower | StateRole::Candidate | StateRole::Leader => {
                let lease_ms = config.election_ticks as u64 * TICK_MS;
                let avoidance_ms = if config.avoids_leadership(shard) { AVOIDANCE_MS } else { 0 };
                (lease_ms + FIRST_MS) * without_winner.clamp(1, LONGER_MAX) + slot_ms * self.rank + avoidance_ms
            }
        };
        self.since_ms + wait_ms + drawn % SPREAD_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(nodes: u64) -> Members {
        Members::born((1..=nodes).map(|node| ReplicaId::new(node, 1)).collect())
    }

    fn rank(shard: ShardId, node: u64, nodes: u64, leader: u64) -> u64 {
        let mut election = Election::new(7, 0);
        election.follow(ReplicaId::new(leader, 1).bits(), 7);
        election.set_order(shard, ReplicaId::new(node, 1), &members(nodes));
        election.rank
    }

    #[test]
    fn each_voter_has_a_place_of_its_own_and_the_last_leader_the_last_one() {
        for shard in 0..40 {
            for leader in 1..=5 {
                let mut ranks: Vec<u64> = (1..=5).map(|node| rank(shard, node, 5, leader)).collect();
                assert_eq!(ranks[leader as usize - 1], 4);
                ranks.sort_unstable();
                assert_eq!(ranks, [0, 1, 2, 3, 4]);
            }
        }
        let first = (0..900).filter(|shard| rank(*shard, 2, 3, 1) == 0).count();
        assert!((350..550).contains(&first), "node 2 succeeds node 1 in {first} of 900 shards");
    }

    #[test]
    fn waits_are_repeatable_in_slots_and_grow_without_a_winner() {
        let config = Config::born(2, 9, 1, &[1, 2, 3]);
        let wait_ms = |rank, term, state| {
            let election = Election { leader: (1, 7), rank, voters: 3, ..Election::default() };
            let due_ms = election.due_ms(&config, (1, term, state));
            assert_eq!(due_ms, election.due_ms(&config, (1, term, state)));
            due_ms - config.drawn(1, term) % SPREAD_MS
        };
        assert_eq!([0, 1, 2].map(|rank| wait_ms(rank, 7, StateRole::Follower)), [550, 650, 750]);
        assert_eq!([8, 9, 10, 11].map(|term| wait_ms(0, term, StateRole::Candidate)), [550, 1_100, 1_650, 1_650]);
        assert_eq!([8, 9, 10, 11].map(|term| wait_ms(1, term, StateRole::Candidate)), [950, 2_700, 3_250, 3_250]);
        assert_eq!([7, 8, 9].map(|term| wait_ms(1, term, StateRole::PreCandidate)), [300, 1_200, 1_200]);
        let mut avoiding = config.clone();
        avoiding.avoid_leadership.insert(2);
        let election = Election { voters: 3, ..Election::new(7, 0) };
        let due_ms = |config| election.due_ms(config, (1, 7, StateRole::Follower));
        assert_eq!(due_ms(&avoiding), due_ms(&config) + AVOIDANCE_MS);
    }
}
