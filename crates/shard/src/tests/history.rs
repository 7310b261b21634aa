//! Records requests, answers and applied entries, and checks that they are consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::member::{Completion, Member, completion_of};
use crate::{Members, NodeId, Output, Position, Received, RejectReason, ReplicaId, ShardId, SnapshotMeta, Stamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Done,
    Never,
    Unknown,
}

struct Asked {
    shard: ShardId,
    fate: Fate,
    // For a read: the index that must be applied, and the previous proposals of the same node.
    floor: u64,
    before: Option<Completion>,
    is_read: bool,
}

#[derive(Clone, PartialEq)]
struct Entry {
    position: Position,
    stamp: Stamp,
    turns: Vec<Completion>,
    chain: Option<u128>,
}

#[derive(Default)]
pub(crate) struct History {
    asked: BTreeMap<Completion, Asked>,
    // By shard and index: the entry that the first node applied.
    entries: BTreeMap<(ShardId, u64), Entry>,
    // By shard: the highest acknowledged index.
    answered: BTreeMap<ShardId, u64>,
    applied: BTreeMap<(NodeId, ShardId), u64>,
    // By shard and index: the members.
    members: BTreeMap<(ShardId, u64), (Members, u64)>,
    next: Completion,
    pub(crate) trace: Trace,
}

/// A hash of all outputs, in order.
pub(crate) struct Trace(pub(crate) u64);

impl Default for Trace {
    fn default() -> Trace {
        Trace(0xcbf2_9ce4_8422_2325)
    }
}

impl std::fmt::Write for Trace {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        for byte in part.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

impl History {
    pub(crate) fn ask_proposal(&mut self, shard: ShardId) -> Completion {
        self.ask(shard, None, false)
    }

    /// A read on a node whose last proposal to the shard, in this epoch, was `before`.
    pub(crate) fn ask_read(&mut self, shard: ShardId, before: Option<Completion>) -> Completion {
        self.ask(shard, before, true)
    }

    fn ask(&mut self, shard: ShardId, before: Option<Completion>, is_read: bool) -> Completion {
        self.next += 1;
        let floor = self.answered.get(&shard).copied().unwrap_or(0);
        let asked = Asked { shard, fate: Fate::UnderWay, floor, before, is_read };
        self.asked.insert(self.next, asked);
        self.next
    }

    /// A read that is answered at once from the node's state.
    pub(crate) fn read_without_quorum(&mut self, node: NodeId, shard: ShardId) {
        let completion = self.ask(shard, None, true);
        let index = self.applied.get(&(node, shard)).copied().unwrap_or(0);
        self.done(node, completion, shard, index);
    }

    /// The node crashed, and its pending requests get no answer.
    pub(crate) fn crashed(&mut self, node: NodeId) {
        self.applied.retain(|(applied, _), _| *applied != node);
    }

    pub(crate) fn started(&mut self, member: &Member) {
        let engine = member.engine.as_ref().unwrap();
        for meta in engine.shards().filter_map(|shard| engine.snapshot_meta(shard)) {
            self.applied.insert((member.id(), meta.shard), meta.position.index);
        }
    }

    pub(crate) fn take(&mut self, node: NodeId, output: &Output<Completion>) {
        write!(self.trace, "{node} {output:?}").unwrap();
        match output {
            Output::Apply { shard, position, stamp, turns, chain } => {
                let turns = turns.iter().map(completion_of).collect();
                let entry = Entry { position: *position, stamp: *stamp, turns, chain: *chain };
                self.apply(node, *shard, entry);
            }
            Output::Restore(Received { meta, .. }) => {
                self.applied.insert((node, meta.shard), meta.position.index);
            }
            Output::Completed { completion, shard, index } => self.done(node, *completion, *shard, *index),
            Output::ProposalDropped { completion, why, .. } => {
                let asked = self.asked.get_mut(completion).unwrap();
                assert_eq!(asked.fate, Fate::UnderWay, "{completion} was answered twice");
                asked.fate = match why {
                    RejectReason::NotLeader | RejectReason::Refused => Fate::Never,
                    RejectReason::Ended => Fate::Unknown,
                };
            }
            Output::Removed { shard, .. } => _ = self.applied.remove(&(node, *shard)),
            Output::Message(_)
            | Output::TargetReached { .. }
            | Output::BecameLeader { .. }
            | Output::BecameFollower { .. }
            | Output::SnapshotDue { .. }
            | Output::CutSnapshot { .. }
            | Output::Fatal { .. } => (),
        }
    }

    /// The members of a shard, as a node knows them after a pass.
    pub(crate) fn record_members(&mut self, meta: &SnapshotMeta) {
        let found = (&meta.members, meta.placed);
        let at = (meta.shard, meta.position.index);
        let (members, placed) = self.members.entry(at).or_insert_with(|| (meta.members.clone(), meta.placed));
        assert_eq!((&*members, *placed), found, "the members at {at:?} differ");
    }

    /// A removed replica never comes back.
    fn check_members(&self) {
        let mut present: BTreeMap<ShardId, BTreeSet<ReplicaId>> = BTreeMap::new();
        let mut gone: BTreeSet<(ShardId, ReplicaId)> = BTreeSet::new();
        for ((shard, index), (members, _)) in &self.members {
            let lists = [&members.voters, &members.learners, &members.voters_outgoing];
            let now: BTreeSet<_> = lists.into_iter().flatten().copied().collect();
            let before = present.insert(*shard, now.clone()).unwrap_or_default();
            gone.extend(before.difference(&now).map(|replica| (*shard, *replica)));
            for replica in now {
                assert!(!gone.contains(&(*shard, replica)), "{replica} of shard {shard} returns at {index}");
            }
        }
    }

    fn apply(&mut self, node: NodeId, shard: ShardId, entry: Entry) {
        let index = entry.position.index;
        let applied = self.applied.entry((node, shard)).or_default();
        assert!(index > *applied, "node {node} applied {index} of shard {shard} after {applied}");
        *applied = index;
        let first = self.entries.entry((shard, index)).or_insert_with(|| entry.clone());
        assert!(*first == entry, "node {node} applied something else at {index} of shard {shard}");
    }

    fn done(&mut self, node: NodeId, completion: Completion, shard: ShardId, index: u64) {
        let asked = self.asked.get_mut(&completion).unwrap();
        assert_eq!((asked.shard, asked.fate), (shard, Fate::UnderWay), "{completion} was answered twice");
        asked.fate = Fate::Done;
        if asked.is_read {
            assert!(index >= asked.floor, "a read of shard {shard} missed entry {}", asked.floor);
            let before = asked.before.map(|before| self.asked[&before].fate);
            assert!(
                before.is_none_or(|fate| fate == Fate::Done),
                "a read completed before an earlier proposal, which was {before:?}"
            );
        } else {
            let applied = self.applied[&(node, shard)];
            assert_eq!(applied, index, "node {node} answered {completion} before applying it");
            assert!(self.entries[&(shard, index)].turns.contains(&completion), "{completion} is not in entry {index}");
            let answered = self.answered.entry(shard).or_default();
            *answered = index.max(*answered);
        }
    }

    /// How many proposals were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        let done = |asked: &&Asked| asked.fate == Fate::Done && !asked.is_read;
        self.asked.values().filter(done).count()
    }

    /// Requests that were lost: with an unknown outcome, and certainly without effect.
    pub(crate) fn lost(&self) -> (usize, usize) {
        let count = |fate| self.asked.values().filter(|asked| asked.fate == fate).count();
        (count(Fate::Never), count(Fate::Unknown))
    }

    /// Checks the whole history at the end.
    pub(crate) fn check(&self, members: &[Member]) {
        let mut counts: BTreeMap<Completion, u32> = BTreeMap::new();
        let mut last: BTreeMap<ShardId, (u64, u64)> = BTreeMap::new();
        let mut order: BTreeMap<ShardId, Vec<Completion>> = BTreeMap::new();
        for ((shard, _), entry) in &self.entries {
            let (stamp, term) = last.entry(*shard).or_default();
            assert!(entry.stamp.running_ms >= *stamp, "the running time of shard {shard} went back");
            assert!(entry.position.term >= *term, "a term of shard {shard} went back");
            (*stamp, *term) = (entry.stamp.running_ms, entry.position.term);
            for completion in &entry.turns {
                *counts.entry(*completion).or_default() += 1;
                order.entry(*shard).or_default().push(*completion);
            }
        }
        for (completion, asked) in &self.asked {
            let count = counts.get(completion).copied().unwrap_or(0);
            match asked.fate {
                _ if asked.is_read => assert_eq!(count, 0),
                Fate::Done => assert_eq!(count, 1, "{completion} was acknowledged"),
                Fate::Never => assert_eq!(count, 0, "{completion} was never appended"),
                Fate::UnderWay | Fate::Unknown => assert!(count <= 1, "{completion} was applied twice"),
            }
        }
        self.check_members();
        for member in members {
            for shard in member.engine.as_ref().unwrap().shards() {
                let applied_state = member.applied_state.get(&shard).cloned().unwrap_or_default();
                let ordered = order.get(&shard).cloned().unwrap_or_default();
                assert!(applied_state == ordered, "node {} differs in shard {shard}", member.id());
            }
        }
    }
}
