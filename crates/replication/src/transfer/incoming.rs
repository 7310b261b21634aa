//! Snapshots that are being pulled.

use std::collections::BTreeMap;

use boxoffice_shard::{NodeId, ShardId};
use bytes::Bytes;

/// Snapshots pulled at once. Others wait.
const AT_ONCE: usize = 2;
/// Snapshots of a shard that wait for raft to take them. One is about to be taken, and one is next.
const RECEIVED_MAX: usize = 2;
/// A snapshot is given up after this many milliseconds without a piece.
const PATIENCE_MS: u64 = 5_000;

/// Incoming snapshots.
#[derive(Default)]
pub(super) struct Incoming {
    /// By shard. One is pulled at a time.
    pulls: BTreeMap<ShardId, Pull>,
    /// Offers that wait, the newest of each shard.
    waiting: BTreeMap<ShardId, Offered>,
    /// Completely pulled snapshots that raft has not taken yet, oldest first. Another leader's may come meanwhile.
    received: BTreeMap<ShardId, Vec<(u64, Pulled)>>,
}

struct Offered {
    from: NodeId,
    token: u64,
    raft: Bytes,
}

struct Pull {
    of: Offered,
    memory: Vec<u8>,
    next: u64,
    heard_ms: u64,
}

/// The pulled state of a snapshot, with the number of durable store batches that it depends on.
pub(super) type Pulled = (Bytes, u64);

/// Pulls that begin: the sender and the token of each.
type Begins = Vec<(NodeId, u64)>;

impl Incoming {
    pub(super) fn offered(&mut self, from: NodeId, shard: ShardId, token: u64, raft: Bytes, now_ms: u64) -> Begins {
        self.pulls.retain(|_, pull| now_ms.saturating_sub(pull.heard_ms) < PATIENCE_MS);
        let same = |of: &Offered| of.from == from && of.token == token;
        if self.pulls.get(&shard).is_some_and(|pull| same(&pull.of)) {
            return Vec::new();
        }
        // A newer offer is of a newer leader, or of a snapshot that took too long.
        self.pulls.remove(&shard);
        self.waiting.insert(shard, Offered { from, token, raft });
        self.begin(now_ms)
    }

    fn begin(&mut self, now_ms: u64) -> Begins {
        let mut begins = Vec::new();
        while self.pulls.len() < AT_ONCE {
            let Some((shard, of)) = self.waiting.pop_first() else { break };
            begins.push((of.from, of.token));
            self.pulls.insert(shard, Pull { of, memory: Vec::new(), next: 0, heard_ms: now_ms });
        }
        begins
    }

    fn pull(&mut self, from: NodeId, token: u64) -> Option<(ShardId, &mut Pull)> {
        let mut pulls = self.pulls.iter_mut();
        let (shard, pull) = pulls.find(|(_, pull)| pull.of.from == from && pull.of.token == token)?;
        Some((*shard, pull))
    }

    /// The shard of a piece, if it is the next one of a pull.
    pub(super) fn expects(&mut self, from: NodeId, token: u64, piece: u64, now_ms: u64) -> Option<ShardId> {
        let (shard, pull) = self.pull(from, token)?;
        if pull.next != piece {
            return None;
        }
        pull.next += 1;
        pull.heard_ms = now_ms;
        Some(shard)
    }

    pub(super) fn memory(&mut self, from: NodeId, token: u64, bytes: &[u8]) {
        if let Some((_, pull)) = self.pull(from, token) {
            pull.memory.extend_from_slice(bytes);
        }
    }

    /// A snapshot is complete, and so many batches of its shard are durable in the store. Returns raft's message, and the pulls that
    /// may begin now.
    pub(super) fn end(&mut self, from: NodeId, token: u64, store_batches: u64) -> (Option<Bytes>, Begins) {
        let Some((shard, pull)) = self.pull(from, token) else { return (None, Vec::new()) };
        let now_ms = pull.heard_ms;
        let pull = self.pulls.remove(&shard).expect("it was looked at");
        let received = self.received.entry(shard).or_default();
        received.push((token, (pull.memory.into(), store_batches)));
        // Raft may never take a snapshot, if it knows more already.
        received.drain(..received.len().saturating_sub(RECEIVED_MAX));
        (Some(pull.of.raft), self.begin(now_ms))
    }

    /// Bytes of the memory part so far.
    pub(super) fn size(&mut self, from: NodeId, token: u64) -> usize {
        self.pull(from, token).map_or(0, |(_, pull)| pull.memory.len())
    }

    pub(super) fn gone(&mut self, from: NodeId, token: u64) -> Begins {
        let Some((shard, pull)) = self.pull(from, token) else { return Vec::new() };
        let now_ms = pull.heard_ms;
        self.pulls.remove(&shard);
        self.begin(now_ms)
    }

    pub(super) fn received(&mut self, shard: ShardId, token: u64) -> Option<Pulled> {
        let received = self.received.get_mut(&shard)?;
        let place = received.iter().position(|(found, _)| *found == token)?;
        // Older ones are of no use any more.
        let (_, state) = received.drain(..=place).next_back()?;
        if received.is_empty() {
            self.received.remove(&shard);
        }
        Some(state)
    }

    /// Snapshots on their way for a shard will be offered anew. `false` if a complete snapshot, with its history, is here and
    /// raft has not taken it yet.
    pub(super) fn let_go(&mut self, shard: ShardId) -> bool {
        self.pulls.remove(&shard);
        self.waiting.remove(&shard);
        !self.received.contains_key(&shard)
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        self.pulls.retain(|_, pull| pull.of.from != node);
        self.waiting.retain(|_, of| of.from != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raft(byte: u8) -> Bytes {
        Bytes::copy_from_slice(&[byte])
    }

    #[test]
    fn raft_gets_a_snapshot_after_all_its_pieces() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.offered(2, 7, 90, raft(1), 0), [(2, 90)]);
        assert_eq!(incoming.offered(2, 7, 90, raft(1), 1), [], "the transfer is running already");
        assert_eq!(incoming.expects(2, 90, 1, 2), None, "the first piece comes first");
        assert_eq!(incoming.expects(3, 90, 0, 2), None, "a piece from another node");
        assert_eq!(incoming.expects(2, 90, 0, 2), Some(7));
        incoming.memory(2, 90, b"so");
        assert_eq!(incoming.expects(2, 90, 0, 2), None, "a repeated piece");
        assert_eq!(incoming.expects(2, 90, 1, 3), Some(7));
        incoming.memory(2, 90, b"me");
        assert_eq!(incoming.received(7, 90), None);
        assert_eq!(incoming.end(2, 90, 5), (Some(raft(1)), vec![]));
        assert_eq!(incoming.received(7, 91), None, "raft asks for another snapshot");
        assert_eq!(incoming.received(7, 90), Some((Bytes::from_static(b"some"), 5)));
        assert_eq!(incoming.received(7, 90), None);
    }

    #[test]
    fn an_abandoned_snapshot_is_dropped_unless_it_is_complete() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.offered(2, 7, 90, raft(1), 0), [(2, 90)]);
        assert_eq!(incoming.expects(2, 90, 0, 1), Some(7));
        assert!(incoming.let_go(7));
        assert_eq!(incoming.expects(2, 90, 1, 2), None);
        assert_eq!(incoming.end(2, 90, 5), (None, vec![]));
        assert_eq!(incoming.offered(2, 7, 91, raft(2), 3), [(2, 91)]);
        assert_eq!(incoming.end(2, 91, 5), (Some(raft(2)), vec![]));
        assert!(!incoming.let_go(7), "raft is about to apply it");
        assert!(incoming.received(7, 91).is_some());
        assert!(incoming.let_go(7));
    }

    #[test]
    fn another_leaders_offer_does_not_replace_a_complete_snapshot() {
        let mut incoming = Incoming::default();
        for (from, token) in [(2, 90), (3, 91)] {
            incoming.offered(from, 7, token, raft(1), 0);
            incoming.expects(from, token, 0, 1);
            incoming.memory(from, token, &[token as u8]);
            incoming.end(from, token, 5);
        }
        assert_eq!(incoming.received(7, 90), Some((Bytes::from_static(&[90]), 5)));
        assert_eq!(incoming.received(7, 91), Some((Bytes::from_static(&[91]), 5)));
        assert_eq!(incoming.received(7, 91), None);
    }

    #[test]
    fn transfers_are_limited_and_the_newest_offer_wins() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.offered(2, 1, 10, raft(1), 0), [(2, 10)]);
        assert_eq!(incoming.offered(2, 2, 20, raft(2), 0), [(2, 20)]);
        assert_eq!(incoming.offered(2, 3, 30, raft(3), 0), []);
        assert_eq!(incoming.offered(3, 3, 31, raft(4), 0), []);
        assert_eq!(incoming.gone(2, 10), [(3, 31)]);
        assert_eq!(incoming.offered(3, 2, 21, raft(5), 1), [(3, 21)], "the offer of a newer leader");
        assert_eq!(incoming.expects(2, 20, 0, 1), None);
    }

    #[test]
    fn transfers_from_lost_or_silent_nodes_are_abandoned() {
        let mut incoming = Incoming::default();
        incoming.offered(2, 1, 10, raft(1), 0);
        incoming.offered(3, 2, 20, raft(2), 0);
        incoming.lost(2);
        assert_eq!(incoming.expects(2, 10, 0, 1), None);
        assert_eq!(incoming.offered(4, 5, 50, raft(3), 1), [(4, 50)]);
        assert_eq!(incoming.offered(4, 6, 60, raft(4), PATIENCE_MS), [(4, 60)], "the offer of node 3 has expired");
        assert_eq!(incoming.expects(3, 20, 0, PATIENCE_MS), None);
    }
}
