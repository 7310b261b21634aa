//! The cluster as operators, and machines that join, see it: members, and where each shard should be.

use boxoffice_core::{
    answer::ClusterView,
    cluster::{Copies, Member, Place, Replica},
    id::Entity,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::form;

/// The answer to `admin.nodes` and `admin.join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// How many changes the cluster has had.
    pub version: u64,
    /// Of `admin.join`: the member the asker is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
    /// How many copies each data shard is to have.
    pub replicas: u8,
    /// Every member there ever was, by id.
    pub members: Vec<MemberStatus>,
    /// Every shard, by number; 0 is the directory's.
    pub places: Vec<PlaceStatus>,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its id.
    pub node: u64,
    /// `joining`, `serving`, `draining` or `gone`.
    pub state: SmolStr,
    /// Whether it has no disk: another one is awaited in the place of one that was lost.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub awaits_disk: bool,
    /// Where other members reach it: host and port.
    pub peer: SmolStr,
    /// Where clients reach it: host and port.
    pub client: SmolStr,
    /// The version of the program it runs.
    pub program: SmolStr,
    /// When its state last changed.
    #[serde(with = "form")]
    pub since: Timestamp,
    /// Its replicas of lower generations were on a disk that was lost.
    #[serde(default)]
    pub first_generation: u64,
}

/// Where a shard should be. A replica is `node.generation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceStatus {
    /// Which shard.
    pub shard: u32,
    /// The replicas that vote.
    pub voters: Vec<SmolStr>,
    /// The replicas that do not.
    pub learners: Vec<SmolStr>,
    /// The voter that should lead.
    pub leader: SmolStr,
    /// Where it comes from, while it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CopiesStatus>,
}

/// The replicas of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesStatus {
    /// Those that vote.
    pub voters: Vec<SmolStr>,
    /// Those that do not.
    pub learners: Vec<SmolStr>,
}

/// The answer to `shards`: who leads which shard, as far as the node knows. It is a hint: every node takes every request, and
/// sends on what another node leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMap {
    /// The node that leads each shard, by the shard's number (0 is the directory's); 0 where the node knows of none.
    pub leaders: Vec<u64>,
    /// Where clients reach each member. A node that is alone tells no address, and neither does one with a public address of
    /// those members that have none of their own.
    pub nodes: Vec<NodeAddress>,
}

/// Where clients reach a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The node.
    pub node: u64,
    /// Its URL.
    pub client: SmolStr,
}

impl ShardMap {
    /// The shard of an entity: 1 + ⌊`h` × data shards / 65 536⌋, where `h` is its hash prefix; 0 for the directory. `None` if the
    /// map has no such shard.
    pub fn shard_of(&self, entity: &Entity) -> Option<usize> {
        let data_shards = self.leaders.len().checked_sub(1).filter(|shards| *shards > 0)?;
        match entity {
            Entity::Directory | Entity::Cluster => Some(0),
            Entity::Venue(_)
            | Entity::Session(_)
            | Entity::Product(_)
            | Entity::Resource(_)
            | Entity::Cart(_)
            | Entity::Customer(_) => Some(1 + ((usize::from(entity.hash_prefix()) * data_shards) >> u16::BITS)),
        }
    }

    /// Who leads an entity's shard.
    pub fn leader_of(&self, entity: &Entity) -> Option<u64> {
        self.leaders.get(self.shard_of(entity)?).copied().filter(|node| *node > 0)
    }
}

impl From<&ClusterView> for ClusterStatus {
    fn from(view: &ClusterView) -> ClusterStatus {
        ClusterStatus {
            version: view.version,
            node: view.own,
            replicas: view.replicas,
            members: view.members.iter().map(|(node, member)| MemberStatus::of(*node, member)).collect(),
            places: (0..).zip(&view.places).map(|(shard, place)| PlaceStatus::of(shard, place)).collect(),
        }
    }
}

impl MemberStatus {
    fn of(node: u64, member: &Member) -> MemberStatus {
        MemberStatus {
            node,
            state: SmolStr::new_static(member.state.name()),
            awaits_disk: member.disk.is_none(),
            peer: member.peer.clone(),
            client: member.client.clone(),
            program: member.program.clone(),
            since: member.since,
            first_generation: member.first_generation,
        }
    }
}

impl PlaceStatus {
    fn of(shard: u32, place: &Place) -> PlaceStatus {
        let CopiesStatus { voters, learners } = CopiesStatus::of(&place.aim);
        let from = place.moving().then(|| CopiesStatus::of(&place.settled));
        PlaceStatus { shard, voters, learners, leader: text(&place.leader), from }
    }
}

impl CopiesStatus {
    fn of(copies: &Copies) -> CopiesStatus {
        let texts = |replicas: &[Replica]| replicas.iter().map(text).collect();
        CopiesStatus { voters: texts(&copies.voters), learners: texts(&copies.learners) }
    }
}

fn text(replica: &Replica) -> SmolStr {
    format_smolstr!("{replica}")
}

/// The node of a replica that is written like this.
pub fn node_of(replica: &str) -> Option<u64> {
    let (node, generation) = replica.split_once('.')?;
    generation.parse::<u64>().ok()?;
    node.parse().ok()
}
