//! The status of a group, for operators.

use crate::name::{NodeId, ReplicaId};
use crate::snapshot::Members;

/// The role of a replica in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    /// It has a vote and follows, or waits for a leader.
    Follower,
    Candidate,
    /// It receives everything and does not vote. Also a replica that has received nothing yet.
    Learner,
    /// It is not a member any more and waits to be dropped.
    Retired,
}

/// One group, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// This node's replica.
    pub replica: ReplicaId,
    pub role: Role,
    /// The raft term.
    pub term: u64,
    /// The leader, if it is known.
    pub leader: Option<NodeId>,
    /// The last entry of the log.
    pub last_index: u64,
    /// The last entry known to be committed.
    pub committed: u64,
    /// The last entry returned as an output.
    pub applied: u64,
    /// The members as of the last entry applied.
    pub members: Members,
    /// The version of the newest target configuration received. 0 before the first.
    pub target_version: u64,
    /// True time less running time as of the last entry returned, milliseconds.
    pub distance_ms: i64,
    /// On the leader: whether a majority of the voters confirms its true time. `None` on other nodes.
    pub confirmed: Option<bool>,
    /// On the leader: all other members. Empty on other nodes.
    pub followers: Vec<FollowerStatus>,
}

/// A member as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStatus {
    pub replica: ReplicaId,
    /// The last entry it is known to have.
    pub matched: u64,
    /// Whether a message arrived within the longest election timeout.
    pub active: bool,
}
