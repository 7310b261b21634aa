//! Who leads a shard, as far as a node knows.

use boxoffice_shard::NodeId;
use serde::{Deserialize, Serialize};

/// The leader of a shard and its term, as far as a replica knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Led {
    /// The term; 0 where there is no replica, or none that has heard of a leader since it began.
    pub(crate) term: u64,
    /// Its leader; `None` if there is none, or none is known.
    pub(crate) leader: Option<NodeId>,
}

/// The leader of a shard, as far as a node knows. A wrong hint only costs time: a node that does not lead says so.
///
/// What nodes say of a leader crosses the election of the next one on its way, and may arrive long after it: of two words
/// the one of the later term holds.
#[derive(Debug, Default)]
pub(crate) struct Belief {
    /// What the replica here knows.
    follows: Led,
    /// What another node said, if the replica here knows nothing as new.
    named: Option<Led>,
    /// Who was asked last, and in vain.
    vain: Option<NodeId>,
    /// The other nodes that have a replica, the preferred leader first.
    pub(crate) homes: Vec<NodeId>,
}

impl Belief {
    /// Whom to ask at this attempt; `None` if there is no telling.
    pub(crate) fn leader(&self, attempt: u16) -> Option<NodeId> {
        self.believed().or_else(|| {
            let turn = usize::from(attempt) % self.homes.len().max(1);
            self.homes.get(turn).copied()
        })
    }

    /// The node that is believed to lead; `None` where [`Belief::leader`] would only try one after the other.
    pub(crate) fn known(&self) -> Option<NodeId> {
        self.believed()
    }

    /// The term in which a node is known to lead, or to have led.
    pub(crate) fn term_of(&self, node: NodeId) -> Option<u64> {
        let leads_in = [Some(self.follows), self.named].into_iter().flatten();
        leads_in.filter(|led| led.leader == Some(node)).map(|led| led.term).max()
    }

    fn believed(&self) -> Option<NodeId> {
        let mut leaders = self.named.and_then(|named| named.leader).into_iter().chain(self.follows.leader);
        leaders.find(|node| Some(*node) != self.vain)
    }

    /// What the replica here knows.
    pub(crate) fn follows(&self) -> Led {
        self.follows
    }

    /// The replica here knows this now.
    pub(crate) fn follow(&mut self, led: Led) {
        self.follows = led;
        self.vain = None;
        let is_old = |named: &mut Led| named.term < led.term || (named.term == led.term && led.leader.is_some());
        self.named.take_if(is_old);
    }

    /// The node `asked` did not take what was sent to it, and said this; says whether there is another node to ask at once.
    /// What is said of the node `here` is not believed: it knows itself whether it leads.
    pub(crate) fn correct(&mut self, asked: NodeId, said: Led, here: NodeId) -> bool {
        let term = self.term_of(asked);
        if said.term > 0 && term.is_some_and(|term| said.term < term) {
            // It has been elected since it said so.
            return false;
        }
        if said.leader.is_none() && self.follows == (Led { term: said.term, leader: Some(asked) }) {
            // It is elected and has not begun to lead yet, or has just ended: the replica here hears of the next leader.
            return false;
        }
        let before = self.believed();
        if said.leader != Some(asked) {
            self.vain = Some(asked);
            self.named.take_if(|named| named.leader == Some(asked));
        }
        let newest = self.named.map_or(0, |named| named.term).max(self.follows.term);
        if said.term >= newest && said.leader.is_some_and(|leader| leader != here) {
            self.named = Some(said);
        }
        let now = self.believed();
        if now == Some(asked) {
            // It leads, in another term than was believed.
            return self.term_of(asked) > term;
        }
        now != before && now.is_some()
    }

    /// A node cannot be reached. One that another node named, dead maybe, must not hide the one that the replica here
    /// follows; if it is that one there is no better until it follows another.
    pub(crate) fn unreachable(&mut self, node: NodeId) {
        self.named.take_if(|named| named.leader == Some(node));
        if self.follows.leader != Some(node) {
            self.vain = Some(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NodeId = 1;

    fn led(term: u64, leader: impl Into<Option<NodeId>>) -> Led {
        Led { term, leader: leader.into() }
    }

    /// At node 1 of three.
    fn following(term: u64, leader: impl Into<Option<NodeId>>) -> Belief {
        Belief { follows: led(term, leader), homes: vec![2, 3], ..Belief::default() }
    }

    #[test]
    fn a_dead_node_that_another_one_names_does_not_hide_who_leads() {
        let mut belief = following(5, 2);
        assert_eq!(belief.leader(0), Some(2));
        assert!(belief.correct(2, led(6, 3), HERE), "2 leads no more and names its successor");
        assert_eq!(belief.leader(0), Some(3));
        belief.unreachable(3);
        assert_eq!(belief.leader(0), Some(2));
        belief.unreachable(2);
        assert_eq!(belief.leader(0), Some(2), "no other node is asked before there is another leader");
    }

    #[test]
    fn what_was_said_before_an_election_is_not_believed_after_it() {
        for old in [led(4, HERE), led(4, 3), led(4, None)] {
            let mut belief = following(5, 2);
            assert!(!belief.correct(2, old, HERE));
            assert_eq!(belief.leader(0), Some(2), "{old:?}");
        }
        let mut belief = following(5, 2);
        assert!(!belief.correct(3, led(4, 2), HERE), "old, and of another one");
        assert_eq!(belief.leader(0), Some(2));
    }

    #[test]
    fn who_is_elected_and_does_not_lead_yet_is_still_the_one_to_ask() {
        let mut belief = following(6, 3);
        assert!(!belief.correct(3, led(6, None), HERE), "it is asked again later");
        assert_eq!((belief.known(), belief.leader(0)), (Some(3), Some(3)));
        // What it says of a later term holds.
        assert!(belief.correct(3, led(7, 2), HERE));
        assert_eq!(belief.known(), Some(2));
    }

    #[test]
    fn who_says_that_this_node_leads_is_not_believed() {
        let mut belief = following(5, 2);
        belief.correct(2, led(5, HERE), HERE);
        assert_eq!([0, 1].map(|attempt| belief.leader(attempt)), [Some(2), Some(3)], "all other nodes are asked");
        assert!(belief.correct(3, led(6, 2), HERE));
        assert_eq!([0, 1].map(|attempt| belief.leader(attempt)), [Some(2); 2]);
    }

    #[test]
    fn a_node_without_a_replica_learns_from_answers() {
        let mut belief = Belief { homes: vec![2, 3, 4], ..Belief::default() };
        assert_eq!([0, 1, 2, 3].map(|attempt| belief.leader(attempt)), [Some(2), Some(3), Some(4), Some(2)]);
        assert!(belief.correct(2, led(7, 3), HERE));
        assert_eq!([0, 1, 2].map(|attempt| belief.leader(attempt)), [Some(3); 3]);
        // It is elected and has not begun.
        assert!(!belief.correct(3, led(7, 3), HERE));
        assert_eq!(belief.leader(0), Some(3));
        // It does not lead any more and knows no leader.
        belief.correct(3, led(7, None), HERE);
        assert_eq!([0, 1, 2].map(|attempt| belief.leader(attempt)), [Some(2), Some(3), Some(4)]);
        // Somebody has not heard of the end of it.
        belief.correct(2, led(7, 3), HERE);
        assert_eq!(belief.leader(0), Some(3));
        assert!(belief.correct(3, led(8, 4), HERE));
        assert_eq!(belief.leader(0), Some(4));
    }

    #[test]
    fn who_leads_in_another_term_than_was_believed_is_asked_again_at_once() {
        let mut belief = Belief { homes: vec![2, 3], ..Belief::default() };
        assert_eq!(belief.term_of(2), None);
        assert!(belief.correct(2, led(7, 2), HERE), "it leads, and was asked without a term");
        assert_eq!((belief.leader(0), belief.term_of(2)), (Some(2), Some(7)));
        assert!(belief.correct(2, led(9, 2), HERE));
        assert!(!belief.correct(2, led(9, 2), HERE), "nothing new");
        assert_eq!((belief.leader(0), belief.term_of(2)), (Some(2), Some(9)));
        let mut belief = following(5, 2);
        assert!(belief.correct(2, led(7, 2), HERE), "the replica here has not heard of its second election");
        assert_eq!((belief.leader(0), belief.term_of(2)), (Some(2), Some(7)));
    }

    #[test]
    fn who_has_no_replica_any_more_does_not_lead() {
        let mut belief = Belief { homes: vec![2, 3], ..Belief::default() };
        belief.correct(2, led(7, 4), HERE);
        assert_eq!(belief.leader(0), Some(4));
        // The shard was moved away from it since.
        belief.correct(4, led(0, None), HERE);
        assert_eq!([0, 1].map(|attempt| belief.leader(attempt)), [Some(2), Some(3)]);
        belief.correct(2, led(8, 3), HERE);
        assert_eq!(belief.leader(0), Some(3));
    }

    #[test]
    fn the_replica_here_overrules_what_is_older() {
        let mut belief = following(5, 2);
        belief.correct(2, led(6, 3), HERE);
        belief.follow(led(6, None));
        assert_eq!(belief.leader(0), Some(3), "it has heard of the term and not of who won");
        belief.follow(led(7, 2));
        assert_eq!(belief.leader(0), Some(2));
        belief.follow(led(8, None));
        assert_eq!([0, 1].map(|attempt| belief.leader(attempt)), [Some(2), Some(3)]);
    }
}
