//! Commands to the cluster from operators, from machines that want to join, and from its own nodes.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::version::ReadVersions;

/// Bytes of the proof of a machine that wants to join.
pub const PROOF_BYTES: usize = 32;

/// Bytes of the hash of an invitation.
pub const INVITATION_HASH_BYTES: usize = 32;

/// The longest life of an invitation, in milliseconds: a week.
pub const INVITATION_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Commands to the cluster. Only commands of clients have a request id. A repeated report of a node has no second effect.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ClusterCommand {
    /// The first node founds the cluster and has every shard. It may repeat this with the same disk.
    #[n(0)]
    Found {
        #[n(0)]
        node: u64,
        #[n(1)]
        machine: Box<Machine>,
        /// The number of data shards, besides the directory. At least 1.
        #[n(2)]
        shards: u16,
        /// How many copies each data shard is to have, 1 to 7.
        #[n(3)]
        replicas: u8,
    },
    /// `admin.join`. A machine wants to be a member. Each repeat gets the same id.
    #[n(1)]
    Join {
        /// The wanted id. The next free one if absent.
        #[n(2)]
        node: Option<u64>,
        #[n(0)]
        machine: Box<Machine>,
        /// The proof that the machine knows the secret of the cluster. The node that is asked checks it.
        #[n(3)]
        proof: Option<[u8; PROOF_BYTES]>,
        #[n(1)]
        admission: Admission,
    },
    /// `admin.invite`. An operator invites one machine to join.
    #[n(2)]
    Invite {
        /// The SHA-256 hash of the invitation. The invitation itself never leaves its maker's and the machine's hands.
        #[n(0)]
        hash: [u8; INVITATION_HASH_BYTES],
        /// How long it is valid, up to [`INVITATION_MS_MAX`].
        #[n(1)]
        for_ms: u64,
    },
    /// A member has started with these addresses and this program.
    #[n(3)]
    Arrived {
        #[n(0)]
        node: u64,
        #[n(1)]
        machine: Box<Machine>,
    },
    /// `admin.drain` moves everything away from a member.
    #[n(4)]
    Drain {
        #[n(0)]
        node: u64,
        /// Even if shards are left with one voter.
        #[n(1)]
        force: bool,
    },
    /// `admin.undrain` ends the draining of a member.
    #[n(5)]
    Undrain {
        #[n(0)]
        node: u64,
    },
    /// `admin.remove` removes a member.
    #[n(6)]
    Remove {
        #[n(0)]
        node: u64,
        /// Even if shards are left with one voter.
        #[n(1)]
        force: bool,
    },
    /// `admin.replace`. A member has lost its disk. Another disk replaces it under the same id.
    #[n(7)]
    Replace {
        #[n(0)]
        node: u64,
    },
    /// The placement reconciler gives shards new targets.
    #[n(8)]
    Place {
        /// The version of the table that the plan is based on. Any other version refuses it.
        #[n(0)]
        based_on: u64,
        #[n(1)]
        moves: Vec<Move>,
    },
    /// A shard has reached the target of this version.
    #[n(9)]
    Reached {
        #[n(0)]
        shard: u16,
        /// The version of its place.
        #[n(1)]
        version: u64,
    },
    /// A drained member has no replica left.
    #[n(10)]
    Retire {
        #[n(0)]
        node: u64,
    },
    /// `admin.nodes` lists members and places.
    #[n(11)]
    Get,
    /// `admin.finish_upgrade`, or the leader's own decision after a while: the cluster's version becomes the highest that every
    /// member reads.
    #[n(12)]
    FinishUpgrade {
        /// The members that the deciding node has no link to. It fills them in.
        #[n(0)]
        down: Vec<u64>,
    },
}

/// Why a machine that knows the secret of the nodes may become a member.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Admission {
    /// It shows nothing besides its proof.
    #[n(0)]
    Nothing,
    /// It shows an invitation with this hash.
    #[n(1)]
    Invitation(#[n(0)] [u8; INVITATION_HASH_BYTES]),
    /// It claims to know the admin token of the node that is asked, which replaces this by `Vouched` if it does.
    #[n(2)]
    AdminProof(#[n(0)] [u8; PROOF_BYTES]),
    /// An operator asks for it, or there are no credentials of operators yet. The node that is asked decides this.
    #[n(3)]
    Vouched,
    /// The data directory of a member is damaged, and its machine wants another disk id. It proves that it has both the secret of the
    /// nodes and the damaged directory.
    #[n(4)]
    Replacing(#[n(0)] Replacing),
}

/// A damaged data directory that is to be replaced.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Replacing {
    /// The random name of the damaged data directory.
    #[n(0)]
    pub disk: u128,
    /// The members that the deciding node has no link to. It fills them in.
    #[n(1)]
    pub down: Vec<u64>,
    /// How long ago the last node of the cluster must have replaced its disk, in milliseconds. The deciding node fills it in.
    #[n(2)]
    pub rest_ms: u64,
}

impl Replacing {
    /// The wish of a machine with this data directory.
    pub fn of(disk: u128) -> Replacing {
        Replacing { disk, down: Vec::new(), rest_ms: 0 }
    }
}

/// A machine that is, or wants to be, a member.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Machine {
    /// The random name of its data directory.
    #[n(0)]
    pub disk: u128,
    /// Host and port of its address for other members.
    #[n(1)]
    pub peer: SmolStr,
    /// Host and port of its address for clients.
    #[n(2)]
    pub client: SmolStr,
    /// The version of the program that it runs.
    #[n(3)]
    pub program: SmolStr,
    /// The versions of the cluster that its program reads. `None` if a machine that wants to join does not say.
    #[n(4)]
    pub versions: Option<ReadVersions>,
}

/// A new target for a shard, in nodes. The table assigns the replicas.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Move {
    #[n(0)]
    pub shard: u16,
    /// Nodes with a copy that votes. At least one.
    #[n(2)]
    pub voters: Vec<u64>,
    /// Nodes with a copy that does not vote.
    #[n(3)]
    pub learners: Vec<u64>,
    /// The voter that should lead.
    #[n(1)]
    pub leader: u64,
}
