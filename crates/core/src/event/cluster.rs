//! Events of the cluster.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    cluster::{Invitation, Member, Place},
    command::INVITATION_HASH_BYTES,
    id::Request,
    time::Timestamp,
};

/// Events of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterEvent {
    /// The first node founded it, with every shard.
    Founded {
        node: u64,
        member: Box<Member>,
        /// The number of data shards, besides the directory.
        shards: u16,
        /// How many copies each data shard is to have.
        replicas: u8,
    },
    /// A member was added or changed, or put without a change.
    MemberPut {
        node: u64,
        member: Box<Member>,
        /// The request, if an operator or a joiner asked for it.
        request: Option<Request>,
        /// The hash of the invitation that the machine has used up with it.
        invitation: Option<[u8; INVITATION_HASH_BYTES]>,
    },
    /// An operator invited a machine. Invitations that have ended before `at` are forgotten.
    Invited {
        at: Timestamp,
        /// The hash of the invitation.
        hash: [u8; INVITATION_HASH_BYTES],
        invitation: Box<Invitation>,
        request: Request,
    },
    /// Shards got new targets.
    Placed {
        places: Vec<(u16, Place)>,
        /// The generation of the next replica.
        next_generation: u64,
    },
    /// A shard has reached its target.
    Reached {
        shard: u16,
        /// The version of its place.
        version: u64,
    },
}
