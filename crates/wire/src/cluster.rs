//! The cluster as operators and joining machines see it: members, and the target place of each shard.

use boxoffice_core::{
    answer::{ClusterView, InvitationView},
    cluster::{self, ADDRESS_BYTES_MAX, Copies, Member, NODE_MAX, Place, REPLICAS_MAX},
    id::Entity,
    time::Timestamp,
};
use smol_str::{SmolStr, format_smolstr};

use crate::repr::shape::{Each, With, named, shapes};

named! {
    /// A member of the cluster.
    pub(crate) struct Node as Node = 1..=NODE_MAX;
    /// Host and port, or another name without spaces.
    pub(crate) struct Address as Address = With("pattern", format!("^[!-~]{{1,{ADDRESS_BYTES_MAX}}}$"));
    /// A copy of a shard: the node it is on, and its generation.
    pub(crate) struct Replica as Replica = With("pattern", "^[0-9]+\\.[0-9]+$");
}

shapes! {
    #[derive(Eq)]
    pub struct ClusterStatus as Cluster {
        /// The version of the cluster: the number of its changes.
        pub version: u64,
        /// The id of the member that joined, in the answer to `admin.join`.
        pub node?: Option<u64> = Node,
        /// The wanted number of copies of each data shard.
        pub replicas: u8 = 1..=REPLICAS_MAX,
        /// All members, by id, including those that are gone.
        pub members: Vec<MemberStatus>,
        /// All shards, by number. 0 is the directory's.
        pub places: Vec<PlaceStatus>,
        /// The version under which all nodes write. It is raised when an upgrade is finished.
        pub cluster_version!: u32,
    }

    #[derive(Eq)]
    pub struct InvitationStatus as Invitation {
        /// No machine uses it from then on.
        pub ends_at: Timestamp,
        /// The cluster's id.
        pub cluster: SmolStr,
        /// Where clients reach the members that serve.
        pub clients: Vec<SmolStr> = Each(Address),
        /// The secret of the cluster's nodes.
        pub secret: SmolStr,
    }

    #[derive(Eq)]
    pub struct MemberStatus as Member {
        pub node: u64 = Node,
        /// `joining`, `serving`, `draining` or `gone`.
        pub state: SmolStr = ["joining", "serving", "draining", "gone"],
        /// Whether it lost its disk and waits for another one.
        pub awaits_disk?: bool,
        /// The address for other members, host and port.
        pub peer: SmolStr = Address,
        /// The address for clients, host and port.
        pub client: SmolStr = Address,
        /// The version of its program.
        pub program: SmolStr,
        /// The highest version of the cluster that its program reads. Absent until it has started.
        pub reads_up_to?: Option<u32>,
        /// When its state last changed.
        pub since: Timestamp,
        /// The lowest generation of its replicas. Those of lower generations were on a disk that was lost.
        pub first_generation!: u64,
    }

    /// The wanted place of a shard.
    #[derive(Eq)]
    pub struct PlaceStatus as Place {
        pub shard: u32,
        pub voters: Vec<SmolStr> = Each(Replica),
        /// The replicas that do not vote.
        pub learners: Vec<SmolStr> = Each(Replica),
        /// The voter that should lead.
        pub leader: SmolStr = Replica,
        /// The old place, while the shard moves.
        pub from?: Option<CopiesStatus>,
    }

    /// The replicas of a shard.
    #[derive(Eq)]
    pub struct CopiesStatus as Copies {
        pub voters: Vec<SmolStr> = Each(Replica),
        pub learners: Vec<SmolStr> = Each(Replica),
    }

    #[derive(Default, Eq)]
    pub struct ShardMap {
        /// The leader of each shard, by the shard's number (0 is the directory's). 0 if the node knows none.
        pub leaders: Vec<u64> = Each(0..=NODE_MAX),
        /// Where clients reach each member. A node that is alone tells no address, and neither does one with a public address of
        /// those members that have none of their own.
        pub nodes: Vec<NodeAddress>,
    }

    /// A node's address for clients.
    #[derive(Eq)]
    pub struct NodeAddress {
        pub node: u64 = Node,
        pub client: SmolStr = Address,
    }
}

impl ShardMap {
    /// The shard of an entity: 1 + ⌊`h` × data shards / 65 536⌋, where `h` is its hash prefix, or 0 for the directory. `None` if
    /// the map has no such shard.
    pub fn shard_of(&self, entity: &Entity) -> Option<usize> {
        let data_shards = self.leaders.len().checked_sub(1).filter(|shards| *shards > 0)?;
        match entity {
            Entity::Directory | Entity::Cluster => Some(0),
            Entity::Venue(_)
            | Entity::Session(_)
            | Entity::Product(_)
            | Entity::Resource(_)
            | Entity::Cart(_)
            | Entity::Customer(_)
            | Entity::Code(_) => Some(1 + ((usize::from(entity.hash_prefix()) * data_shards) >> u16::BITS)),
        }
    }

    /// The leader of an entity's shard.
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
            cluster_version: view.cluster_version.number().into(),
        }
    }
}

impl From<&InvitationView> for InvitationStatus {
    fn from(view: &InvitationView) -> InvitationStatus {
        InvitationStatus {
            ends_at: view.ends_at,
            cluster: view.cluster.clone().unwrap_or_default(),
            clients: view.clients.clone(),
            secret: view.secret.clone().unwrap_or_default(),
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
            reads_up_to: member.versions.map(|versions| versions.newest.number().into()),
            since: member.since,
            first_generation: member.first_generation,
        }
    }
}

impl PlaceStatus {
    fn of(shard: u32, place: &Place) -> PlaceStatus {
        let CopiesStatus { voters, learners } = CopiesStatus::of(&place.target);
        let from = place.moving().then(|| CopiesStatus::of(&place.last_reached));
        PlaceStatus { shard, voters, learners, leader: text(&place.leader), from }
    }
}

impl CopiesStatus {
    fn of(copies: &Copies) -> CopiesStatus {
        let texts = |replicas: &[cluster::Replica]| replicas.iter().map(text).collect();
        CopiesStatus { voters: texts(&copies.voters), learners: texts(&copies.learners) }
    }
}

fn text(replica: &cluster::Replica) -> SmolStr {
    format_smolstr!("{replica}")
}

/// The node of a replica with this text.
pub fn node_of(replica: &str) -> Option<u64> {
    let (node, generation) = replica.split_once('.')?;
    generation.parse::<u64>().ok()?;
    node.parse().ok()
}
