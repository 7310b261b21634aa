//! What an operator may know of a group.

use crate::name::{NodeId, ReplicaId};
use crate::snapshot::Members;

/// What a replica does in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It has a vote and follows, or waits for a leader.
    Follower,
    /// It stands for election.
    Candidate,
    /// It receives everything and has no vote; also one that has not received anything yet.
    Learner,
    /// It is not a member any more and waits to be dropped.
    Retired,
}

/// One group, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// This node's replica.
    pub replica: ReplicaId,
    /// What it does.
    pub role: Role,
    /// The raft term.
    pub term: u64,
    /// The leader, if it is known.
    pub leader: Option<NodeId>,
    /// The last entry of the log.
    pub last_index: u64,
    /// The last entry known to be committed.
    pub committed: u64,
    /// The last entry that was put out.
    pub applied: u64,
    /// The members as of the last entry that was applied.
    pub members: Members,
    /// The version of the target configuration last told; 0 before the first.
    pub aim_version: u64,
    /// True time less running time as of the last entry that was put out, milliseconds.
    pub distance_ms: i64,
    /// On the leader: whether a majority of the voters confirms its true time. Elsewhere `None`.
    pub confirmed: Option<bool>,
    /// On the leader: all other members. Empty elsewhere.
    pub followers: Vec<FollowerStatus>,
}

/// A member as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStatus {
    /// Which.
    pub replica: ReplicaId,
    /// The last entry it is known to have.
    pub matched: u64,
    /// Whether it was heard of within the longest election time-out.
    pub active: bool,
}
