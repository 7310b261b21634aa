//! Events of the cluster.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;

use crate::{
    cluster::{Invitation, Member, Place},
    command::INVITATION_HASH_BYTES,
    id::Request,
    time::Timestamp,
    version::ClusterVersion,
};

/// Events of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ClusterEvent {
    /// The first node founded it, with every shard.
    #[n(0)]
    Founded {
        #[n(0)]
        node: u64,
        #[n(1)]
        member: Box<Member>,
        /// The number of data shards, besides the directory.
        #[n(2)]
        shards: u16,
        /// How many copies each data shard is to have.
        #[n(3)]
        replicas: u8,
        /// The version of the cluster, which is the highest that its first node reads.
        #[n(4)]
        cluster_version: ClusterVersion,
    },
    /// A member was added or changed, or put without a change.
    #[n(1)]
    MemberPut {
        #[n(0)]
        node: u64,
        #[n(1)]
        member: Box<Member>,
        /// The request, if an operator or a joiner asked for it.
        #[n(2)]
        request: Option<Request>,
        /// The hash of the invitation that the machine has used up with it.
        #[n(3)]
        invitation: Option<[u8; INVITATION_HASH_BYTES]>,
    },
    /// An operator invited a machine. Invitations that have ended before `at` are forgotten.
    #[n(2)]
    Invited {
        #[n(0)]
        at: Timestamp,
        /// The hash of the invitation.
        #[n(1)]
        hash: [u8; INVITATION_HASH_BYTES],
        #[n(2)]
        invitation: Box<Invitation>,
        #[n(3)]
        request: Request,
    },
    /// Shards got new targets.
    #[n(3)]
    Placed {
        #[n(1)]
        places: Vec<(u16, Place)>,
        /// The generation of the next replica.
        #[n(0)]
        next_generation: u64,
    },
    /// A shard has reached its target.
    #[n(4)]
    Reached {
        #[n(0)]
        shard: u16,
        /// The version of its place.
        #[n(1)]
        version: u64,
    },
    /// The version of the cluster was raised, because every member reads it, or an operator asked for that and it was as high as it can
    /// be. Each node writes under it as soon as it learns of it.
    #[n(5)]
    Raised {
        #[n(0)]
        cluster_version: ClusterVersion,
        /// The request, if an operator asked for it.
        #[n(1)]
        request: Option<Request>,
    },
}
