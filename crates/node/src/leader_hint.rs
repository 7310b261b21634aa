//! The leader hint of a shard.

use boxoffice_core::stored::Stored;
use boxoffice_shard::NodeId;

/// The leader of a shard and its term, as a replica or another node knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub(crate) struct LeaderInfo {
    /// The term. 0 if there is no replica, or none that has known a leader since it began.
    #[n(0)]
    pub(crate) term: u64,
    /// Its leader; `None` if there is none, or none is known.
    #[n(1)]
    pub(crate) leader: Option<NodeId>,
}

/// A node's hint about the leader of a shard. A wrong hint only costs time, because a node that does not lead says so.
///
/// A message about a leader may arrive long after the next election. The hint of the later term wins.
#[derive(Debug, Default)]
pub(crate) struct LeaderHint {
    /// The leader that the replica here knows.
    follows: LeaderInfo,
    /// The leader that another node named, if the replica here knows none as new.
    named: Option<LeaderInfo>,
    /// The node that was asked last without success.
    last_failed: Option<NodeId>,
    /// The other nodes that have a replica, the preferred leader first.
    pub(crate) replica_nodes: Vec<NodeId>,
}

impl LeaderHint {
    /// The node to ask at this attempt. `None` if no node is known.
    pub(crate) fn leader(&self, attempt: u16) -> Option<NodeId> {
        self.hinted().or_else(|| {
            let turn = usize::from(attempt) % self.replica_nodes.len().max(1);
            self.replica_nodes.get(turn).copied()
        })
    }

    /// The hinted leader. `None` where [`LeaderHint::leader`] would only try one replica after the other.
    pub(crate) fn known(&self) -> Option<NodeId> {
        self.hinted()
    }

    /// The term in which a node is known to lead, or to have led.
    pub(crate) fn term_of(&self, node: NodeId) -> Option<u64> {
        let leads_in = [Some(self.follows), self.named].into_iter().flatten();
        leads_in.filter(|info| info.leader == Some(node)).map(|info| info.term).max()
    }

    fn hinted(&self) -> Option<NodeId> {
        let mut leaders = self.named.and_then(|named| named.leader).into_iter().chain(self.follows.leader);
        leaders.find(|node| Some(*node) != self.last_failed)
    }

    /// The leader that the replica here knows.
    pub(crate) fn follows(&self) -> LeaderInfo {
        self.follows
    }

    /// Sets the leader that the replica here knows.
    pub(crate) fn follow(&mut self, info: LeaderInfo) {
        self.follows = info;
        self.last_failed = None;
        let is_old =
            |named: &mut LeaderInfo| named.term < info.term || (named.term == info.term && info.leader.is_some());
        self.named.take_if(is_old);
    }

    /// The node `asked` did not take a message, and named this leader. Returns whether there is another node to ask at once.
    /// Hints that name the node `here` are ignored, because it knows itself whether it leads.
    pub(crate) fn correct(&mut self, asked: NodeId, said: LeaderInfo, here: NodeId) -> bool {
        let term = self.term_of(asked);
        if said.term > 0 && term.is_some_and(|term| said.term < term) {
            // It has been elected since it said so.
            return false;
        }
        if said.leader.is_none() && self.follows == (LeaderInfo { term: said.term, leader: Some(asked) }) {
            // It is elected and has not begun to lead yet, or has just ended. The replica here will learn of the next leader.
            return false;
        }
        let before = self.hinted();
        if said.leader != Some(asked) {
            self.last_failed = Some(asked);
            self.named.take_if(|named| named.leader == Some(asked));
        }
        let newest = self.named.map_or(0, |named| named.term).max(self.follows.term);
        if said.term >= newest && said.leader.is_some_and(|leader| leader != here) {
            self.named = Some(said);
        }
        let now = self.hinted();
        if now == Some(asked) {
            // It leads, in another term than hinted.
            return self.term_of(asked) > term;
        }
        now != before && now.is_some()
    }

    /// A node says that it leads. Returns whether that is news.
    pub(crate) fn announced(&mut self, info: LeaderInfo) -> bool {
        let newest = self.named.map_or(0, |named| named.term).max(self.follows.term);
        if info.term < newest || self.named == Some(info) {
            return false;
        }
        self.named = Some(info);
        self.last_failed.take_if(|failed| Some(*failed) == info.leader);
        true
    }

    /// A node cannot be reached. A node that was only named, and may be dead, must not hide the one that the replica here
    /// follows. If it is that one, there is no better hint until the replica follows another.
    pub(crate) fn unreachable(&mut self, node: NodeId) {
        self.named.take_if(|named| named.leader == Some(node));
        if self.follows.leader != Some(node) {
            self.last_failed = Some(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NodeId = 1;

    fn info(term: u64, leader: impl Into<Option<NodeId>>) -> LeaderInfo {
        LeaderInfo { term, leader: leader.into() }
    }

    /// At node 1 of three.
    fn following(term: u64, leader: impl Into<Option<NodeId>>) -> LeaderHint {
        LeaderHint { follows: info(term, leader), replica_nodes: vec![2, 3], ..LeaderHint::default() }
    }

    #[test]
    fn a_hint_to_a_dead_node_does_not_hide_the_leader() {
        let mut leader_hint = following(5, 2);
        assert_eq!(leader_hint.leader(0), Some(2));
        assert!(leader_hint.correct(2, info(6, 3), HERE), "2 leads no more and names its successor");
        assert_eq!(leader_hint.leader(0), Some(3));
        leader_hint.unreachable(3);
        assert_eq!(leader_hint.leader(0), Some(2));
        leader_hint.unreachable(2);
        assert_eq!(leader_hint.leader(0), Some(2), "no other node is asked before there is another leader");
    }

    #[test]
    fn a_hint_from_before_an_election_is_ignored_after_it() {
        for old in [info(4, HERE), info(4, 3), info(4, None)] {
            let mut leader_hint = following(5, 2);
            assert!(!leader_hint.correct(2, old, HERE));
            assert_eq!(leader_hint.leader(0), Some(2), "{old:?}");
        }
        let mut leader_hint = following(5, 2);
        assert!(!leader_hint.correct(3, info(4, 2), HERE), "old, and of another one");
        assert_eq!(leader_hint.leader(0), Some(2));
    }

    #[test]
    fn an_elected_node_that_does_not_lead_yet_stays_the_hint() {
        let mut leader_hint = following(6, 3);
        assert!(!leader_hint.correct(3, info(6, None), HERE), "it is asked again later");
        assert_eq!((leader_hint.known(), leader_hint.leader(0)), (Some(3), Some(3)));
        // Its hint about a later term is used.
        assert!(leader_hint.correct(3, info(7, 2), HERE));
        assert_eq!(leader_hint.known(), Some(2));
    }

    #[test]
    fn a_hint_that_names_this_node_is_ignored() {
        let mut leader_hint = following(5, 2);
        leader_hint.correct(2, info(5, HERE), HERE);
        assert_eq!([0, 1].map(|attempt| leader_hint.leader(attempt)), [Some(2), Some(3)], "all other nodes are asked");
        assert!(leader_hint.correct(3, info(6, 2), HERE));
        assert_eq!([0, 1].map(|attempt| leader_hint.leader(attempt)), [Some(2); 2]);
    }

    #[test]
    fn a_node_without_a_replica_learns_the_leader_from_answers() {
        let mut leader_hint = LeaderHint { replica_nodes: vec![2, 3, 4], ..LeaderHint::default() };
        assert_eq!([0, 1, 2, 3].map(|attempt| leader_hint.leader(attempt)), [Some(2), Some(3), Some(4), Some(2)]);
        assert!(leader_hint.correct(2, info(7, 3), HERE));
        assert_eq!([0, 1, 2].map(|attempt| leader_hint.leader(attempt)), [Some(3); 3]);
        // It is elected and has not begun.
        assert!(!leader_hint.correct(3, info(7, 3), HERE));
        assert_eq!(leader_hint.leader(0), Some(3));
        // It does not lead any more and knows no leader.
        leader_hint.correct(3, info(7, None), HERE);
        assert_eq!([0, 1, 2].map(|attempt| leader_hint.leader(attempt)), [Some(2), Some(3), Some(4)]);
        // Node 2 does not know yet that this leadership has ended.
        leader_hint.correct(2, info(7, 3), HERE);
        assert_eq!(leader_hint.leader(0), Some(3));
        assert!(leader_hint.correct(3, info(8, 4), HERE));
        assert_eq!(leader_hint.leader(0), Some(4));
    }

    #[test]
    fn a_leader_in_another_term_than_hinted_is_asked_again_at_once() {
        let mut leader_hint = LeaderHint { replica_nodes: vec![2, 3], ..LeaderHint::default() };
        assert_eq!(leader_hint.term_of(2), None);
        assert!(leader_hint.correct(2, info(7, 2), HERE), "it leads, and was asked without a term");
        assert_eq!((leader_hint.leader(0), leader_hint.term_of(2)), (Some(2), Some(7)));
        assert!(leader_hint.correct(2, info(9, 2), HERE));
        assert!(!leader_hint.correct(2, info(9, 2), HERE), "nothing new");
        assert_eq!((leader_hint.leader(0), leader_hint.term_of(2)), (Some(2), Some(9)));
        let mut leader_hint = following(5, 2);
        assert!(leader_hint.correct(2, info(7, 2), HERE), "the replica here has not heard of its second election");
        assert_eq!((leader_hint.leader(0), leader_hint.term_of(2)), (Some(2), Some(7)));
    }

    #[test]
    fn a_node_without_a_replica_does_not_lead() {
        let mut leader_hint = LeaderHint { replica_nodes: vec![2, 3], ..LeaderHint::default() };
        leader_hint.correct(2, info(7, 4), HERE);
        assert_eq!(leader_hint.leader(0), Some(4));
        // The shard was moved away from it since.
        leader_hint.correct(4, info(0, None), HERE);
        assert_eq!([0, 1].map(|attempt| leader_hint.leader(attempt)), [Some(2), Some(3)]);
        leader_hint.correct(2, info(8, 3), HERE);
        assert_eq!(leader_hint.leader(0), Some(3));
    }

    #[test]
    fn a_new_leader_that_says_so_is_asked_although_the_old_one_says_nothing() {
        let mut leader_hint = LeaderHint { replica_nodes: vec![2, 3, 4], ..LeaderHint::default() };
        leader_hint.correct(3, info(6, 4), HERE);
        leader_hint.correct(2, info(7, 4), HERE);
        assert_eq!(leader_hint.leader(0), Some(4));
        // Node 4 has stopped, and 2 was the last that was asked without success.
        assert!(leader_hint.announced(info(8, 2)));
        assert_eq!(leader_hint.leader(0), Some(2));
        assert!(!leader_hint.announced(info(8, 2)) && !leader_hint.announced(info(7, 4)), "nothing new");
        assert_eq!(leader_hint.leader(0), Some(2));
    }

    #[test]
    fn the_replica_here_overrules_older_hints() {
        let mut leader_hint = following(5, 2);
        leader_hint.correct(2, info(6, 3), HERE);
        leader_hint.follow(info(6, None));
        assert_eq!(leader_hint.leader(0), Some(3), "it has heard of the term and not of who won");
        leader_hint.follow(info(7, 2));
        assert_eq!(leader_hint.leader(0), Some(2));
        leader_hint.follow(info(8, None));
        assert_eq!([0, 1].map(|attempt| leader_hint.leader(attempt)), [Some(2), Some(3)]);
    }
}
