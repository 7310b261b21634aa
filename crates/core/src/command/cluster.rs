//! Commands to the cluster from operators, from machines that want to join, and from its own nodes.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Bytes of the proof of a machine that wants to join.
pub const PROOF_BYTES: usize = 32;

/// Bytes of the hash of an invitation.
pub const INVITATION_HASH_BYTES: usize = 32;

/// The longest life of an invitation, in milliseconds: a week.
pub const INVITATION_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Commands to the cluster. Only commands of clients have a request id. A repeated report of a node has no second effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterCommand {
    /// The first node founds the cluster and has every shard. It may repeat this with the same disk.
    Found {
        node: u64,
        machine: Box<Machine>,
        /// The number of data shards, besides the directory. At least 1.
        shards: u16,
        /// How many copies each data shard is to have, 1 to 7.
        replicas: u8,
    },
    /// `admin.join`. A machine wants to be a member. Each repeat gets the same id.
    Join {
        /// The wanted id. The next free one if absent.
        node: Option<u64>,
        machine: Box<Machine>,
        /// The proof that the machine knows the secret of the cluster. The node that is asked checks it.
        proof: Option<[u8; PROOF_BYTES]>,
        admission: Admission,
    },
    /// `admin.invite`. An operator invites one machine to join.
    Invite {
        /// The SHA-256 hash of the invitation. The invitation itself never leaves its maker's and the machine's hands.
        hash: [u8; INVITATION_HASH_BYTES],
        /// How long it is valid, up to [`INVITATION_MS_MAX`].
        for_ms: u64,
    },
    /// A member has started with these addresses and this program.
    Arrived { node: u64, machine: Box<Machine> },
    /// `admin.drain` moves everything away from a member.
    Drain {
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.undrain` ends the draining of a member.
    Undrain { node: u64 },
    /// `admin.remove` removes a member.
    Remove {
        node: u64,
        /// Even if shards are left with one voter.
        force: bool,
    },
    /// `admin.replace`. A member has lost its disk. Another disk replaces it under the same id.
    Replace { node: u64 },
    /// The placement reconciler gives shards new targets.
    Place {
        /// The version of the table that the plan is based on. Any other version refuses it.
        based_on: u64,
        moves: Vec<Move>,
    },
    /// A shard has reached the target of this version.
    Reached {
        shard: u16,
        /// The version of its place.
        version: u64,
    },
    /// A drained member has no replica left.
    Retire { node: u64 },
    /// `admin.nodes` lists members and places.
    Get,
}

/// Why a machine that knows the secret of the nodes may become a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
    /// It shows nothing besides its proof.
    Nothing,
    /// It shows an invitation with this hash.
    Invitation([u8; INVITATION_HASH_BYTES]),
    /// It claims to know the admin token of the node that is asked, which replaces this by `Vouched` if it does.
    AdminProof([u8; PROOF_BYTES]),
    /// An operator asks for it, or there are no credentials of operators yet. The node that is asked decides this.
    Vouched,
}

/// A machine that is, or wants to be, a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The random name of its data directory.
    pub disk: u128,
    /// Host and port of its address for other members.
    pub peer: SmolStr,
    /// Host and port of its address for clients.
    pub client: SmolStr,
    /// The version of the program that it runs.
    pub program: SmolStr,
}

/// A new target for a shard, in nodes. The table assigns the replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub shard: u16,
    /// Nodes with a copy that votes. At least one.
    pub voters: Vec<u64>,
    /// Nodes with a copy that does not vote.
    pub learners: Vec<u64>,
    /// The voter that should lead.
    pub leader: u64,
}
