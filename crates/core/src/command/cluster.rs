//! What the cluster is told or asked: by operators, by machines that want to join, and by its own nodes.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Bytes of what a machine that wants to join shows.
pub const PROOF_BYTES: usize = 32;

/// What the cluster is told or asked. Only what clients send has a request id: what nodes say by themselves may come
/// any number of times and has the same effect once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterCommand {
    /// The first node makes the cluster of itself: it has every shard. Its own disk may say so again.
    Found {
        /// Its id.
        node: u64,
        /// What it is.
        machine: Box<Machine>,
        /// How many data shards there are, besides the directory's; at least 1.
        shards: u16,
        /// How many copies each data shard is to have; 1 to 7.
        replicas: u8,
    },
    /// `admin.join`: a machine wants to be a member. Answered with its id, however often it asks.
    Join {
        /// Which member it wants to be; the next free one if absent.
        node: Option<u64>,
        /// What it is.
        machine: Box<Machine>,
        /// What shows that whoever asks knows the secret of the cluster's nodes; looked at by the node that was asked.
        proof: Option<[u8; PROOF_BYTES]>,
    },
    /// A member has started: where it is now, and what it runs.
    Arrived {
        /// Which.
        node: u64,
        /// What it is.
        machine: Box<Machine>,
    },
    /// `admin.drain`: everything is to be moved away from a member.
    Drain {
        /// Which.
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.undrain`: it may keep what it has, and get more.
    Undrain {
        /// Which.
        node: u64,
    },
    /// `admin.remove`: a member will not come back.
    Remove {
        /// Which.
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.replace`: a member has lost its disk; another one comes in its place, under its id.
    Replace {
        /// Which.
        node: u64,
    },
    /// The keeper of the placement gives shards other aims.
    Place {
        /// The version of the cluster this was thought out for; refused at any other.
        based_on: u64,
        /// Which shards, and where to.
        moves: Vec<Move>,
    },
    /// A shard's leader has brought its members to the aim of this version.
    Reached {
        /// Which shard.
        shard: u16,
        /// The version of its place.
        version: u64,
    },
    /// A member that was drained has nothing any more.
    Retire {
        /// Which.
        node: u64,
    },
    /// `admin.nodes`: members and places.
    Get,
}

/// A machine that is, or wants to be, a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The random name of its data directory.
    pub disk: u128,
    /// Where other members reach it: host and port.
    pub peer: SmolStr,
    /// Where clients reach it: host and port.
    pub client: SmolStr,
    /// The version of the program it runs.
    pub program: SmolStr,
}

/// Another aim for a shard, in nodes; which replicas these are is the cluster's business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which shard.
    pub shard: u16,
    /// Nodes with a copy that votes; at least one.
    pub voters: Vec<u64>,
    /// Nodes with a copy that does not.
    pub learners: Vec<u64>,
    /// The voter that should lead.
    pub leader: u64,
}
