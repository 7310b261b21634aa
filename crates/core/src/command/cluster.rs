//! Commands to the cluster: of operators, of machines that want to join, and of its own nodes.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Bytes of the proof of a machine that wants to join.
pub const PROOF_BYTES: usize = 32;

/// Commands to the cluster. Only commands of clients have a request id. A repeated report of a node has no second effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterCommand {
    /// The first node founds the cluster and has every shard. It may repeat this with the same disk.
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
    /// `admin.join`: a machine wants to be a member. Each repeat gets the same id.
    Join {
        /// The wanted id; the next free one if absent.
        node: Option<u64>,
        /// What it is.
        machine: Box<Machine>,
        /// The proof that the machine knows the secret of the cluster. The node that is asked checks it.
        proof: Option<[u8; PROOF_BYTES]>,
    },
    /// A member has started with these addresses and this program.
    Arrived {
        node: u64,
        /// What it is.
        machine: Box<Machine>,
    },
    /// `admin.drain`: move everything away from a member.
    Drain {
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.undrain`: end the draining of a member.
    Undrain { node: u64 },
    /// `admin.remove`: remove a member.
    Remove {
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.replace`: a member has lost its disk. Another disk replaces it under the same id.
    Replace { node: u64 },
    /// The placement reconciler gives shards new targets.
    Place {
        /// The version of the table that the plan is based on. Any other version refuses it.
        based_on: u64,
        /// Which shards, and where to.
        moves: Vec<Move>,
    },
    /// A shard has reached the target of this version.
    Reached {
        /// Which shard.
        shard: u16,
        /// The version of its place.
        version: u64,
    },
    /// A drained member has no replica left.
    Retire { node: u64 },
    /// `admin.nodes`: members and places.
    Get,
}

/// A machine that is, or wants to be, a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The random name of its data directory.
    pub disk: u128,
    /// Its address for other members: host and port.
    pub peer: SmolStr,
    /// Its address for clients: host and port.
    pub client: SmolStr,
    /// The version of the program it runs.
    pub program: SmolStr,
}

/// A new target for a shard, in nodes. The table assigns the replicas.
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
