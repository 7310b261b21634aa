//! What happens to the cluster.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    cluster::{Member, Place},
    id::Request,
};

/// What happens to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterEvent {
    /// Its first node made it of itself, with every shard.
    Founded {
        /// Which.
        node: u64,
        /// What is known of it.
        member: Box<Member>,
        /// How many data shards there are, besides the directory's.
        shards: u16,
        /// How many copies each data shard is to have.
        replicas: u8,
    },
    /// A member came, or something of it changed, or was put as it was.
    MemberPut {
        /// Which.
        node: u64,
        /// What it is now.
        member: Box<Member>,
        /// The request, if an operator or a joiner asked for it.
        request: Option<Request>,
    },
    /// Shards got other aims.
    Placed {
        /// Which shards, and their places now.
        places: Vec<(u16, Place)>,
        /// The next replica gets this generation.
        next_generation: u64,
    },
    /// A shard's members are as they should be.
    Reached {
        /// Which shard.
        shard: u16,
        /// The version of its place.
        version: u64,
    },
}
