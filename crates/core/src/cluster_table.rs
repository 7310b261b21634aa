//! The cluster's table of the members, and of the places where each shard's replicas should be. There is one table. It is small,
//! and every node has a copy.
//!
//! A place is a target. The voters of a shard are decided by that shard's own log. Its leader moves the shard to the target
//! step by step, and reports when it is there.

mod decide;
mod upgrade;

use alloc::{collections::BTreeMap, vec, vec::Vec};

use boxoffice_declare::Stored;

use crate::{
    answer::{ClusterView, InvitationView},
    changes::Changes,
    cluster::{Copies, Invitation, Member, MemberState, Place, Replica},
    command::INVITATION_HASH_BYTES,
    event::ClusterEvent,
    id::Request,
    refusal::Refusal,
    version::ClusterVersion,
};

pub(crate) use decide::found;
pub use upgrade::Upgrade;

/// The generation of the founder's replicas.
const FIRST_GENERATION: u64 = 1;

/// The members and places of the cluster, as one replicated entity.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ClusterTable {
    #[n(0)]
    version: u64,
    /// By shard. Shard 0 is the directory.
    #[n(5)]
    shards: Vec<Place>,
    #[n(6)]
    members: BTreeMap<u64, Member>,
    /// The generation of the next replica. None is ever given twice.
    #[n(1)]
    next_generation: u64,
    /// How many copies each data shard is to have.
    #[n(2)]
    replicas: u8,
    /// Changes of operators and joiners, each with its member.
    #[n(3)]
    changes: Changes<u64>,
    /// Everything on disks and links may be written under this version.
    #[n(4)]
    cluster_version: ClusterVersion,
    /// By hash.
    #[n(7)]
    invitations: BTreeMap<[u8; INVITATION_HASH_BYTES], Invitation>,
}

impl ClusterTable {
    /// The cluster after its first event.
    ///
    /// # Panics
    /// If it is not its founding.
    pub(crate) fn first(event: &ClusterEvent) -> ClusterTable {
        let ClusterEvent::Founded { node, member, shards, replicas, cluster_version } = event else {
            panic!("a cluster cannot begin with {event:?}");
        };
        let own = Replica { node: *node, generation: FIRST_GENERATION };
        let place = Place::founding(Copies { voters: vec![own], learners: Vec::new() }, own);
        ClusterTable {
            version: 1,
            shards: vec![place; usize::from(*shards) + 1],
            members: BTreeMap::from([(*node, (**member).clone())]),
            next_generation: FIRST_GENERATION + 1,
            replicas: *replicas,
            changes: Changes::default(),
            cluster_version: *cluster_version,
            invitations: BTreeMap::new(),
        }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version under which everything is written.
    pub fn cluster_version(&self) -> ClusterVersion {
        self.cluster_version
    }

    /// The generation that the next replica gets.
    pub fn next_generation(&self) -> u64 {
        self.next_generation
    }

    /// Where each shard should be, by shard. Shard 0 is the directory.
    pub fn places(&self) -> &[Place] {
        &self.shards
    }

    /// All members, also removed ones, by id.
    pub fn members(&self) -> &BTreeMap<u64, Member> {
        &self.members
    }

    /// How many copies each data shard is to have.
    pub fn replicas(&self) -> u8 {
        self.replicas
    }

    /// The table as its nodes and operators see it. `own` is the member that asks.
    pub fn view(&self, own: Option<u64>) -> ClusterView {
        ClusterView {
            version: self.version,
            own,
            replicas: self.replicas,
            cluster_version: self.cluster_version,
            members: self.members.clone(),
            places: self.shards.clone(),
        }
    }

    /// An invitation, with the addresses where the machine may ask. `None` if it is not known.
    pub(crate) fn invitation(&self, hash: &[u8; INVITATION_HASH_BYTES]) -> Option<InvitationView> {
        let invitation = self.invitations.get(hash)?;
        let serving = self.members.values().filter(|member| member.state == MemberState::Serving);
        let clients = serving.map(|member| member.client.clone()).collect();
        Some(InvitationView { ends_at: invitation.ends_at, clients, cluster: None, secret: None })
    }

    /// The version and the member of a change that was granted before. Refused if its request id was used for something else.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<(u64, u64), Refusal>> {
        let known = self.changes.answered(request)?;
        Some(known.map(|known| (known.version, known.detail)))
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If it is the founding, or about an unknown shard or place.
    pub(crate) fn apply(&mut self, event: &ClusterEvent) {
        self.version += 1;
        match event {
            ClusterEvent::Founded { node, .. } => panic!("node {node} founds a cluster that is there"),
            ClusterEvent::MemberPut { node, member, request, invitation } => {
                if let Some(hash) = invitation {
                    let used = self.invitations.get_mut(hash).expect("only a known invitation admits a machine");
                    used.used_by = member.disk;
                }
                self.members.insert(*node, (**member).clone());
                if let Some(request) = request {
                    self.changes.remember(*request, self.version, *node);
                }
            }
            ClusterEvent::Invited { at, hash, invitation, request } => {
                self.invitations.retain(|_, known| known.ends_at > *at);
                self.invitations.insert(*hash, (**invitation).clone());
                // No member's number is 0.
                self.changes.remember(*request, self.version, 0);
            }
            ClusterEvent::Placed { places, next_generation } => {
                assert!(*next_generation >= self.next_generation, "a generation would be given twice");
                self.next_generation = *next_generation;
                for (shard, place) in places {
                    let before = &mut self.shards[usize::from(*shard)];
                    assert!(place.version > before.version, "the target of shard {shard} goes back");
                    *before = place.clone();
                }
            }
            ClusterEvent::Reached { shard, version } => {
                let place = &mut self.shards[usize::from(*shard)];
                assert_eq!(place.version, *version, "shard {shard} reached a target it does not have");
                place.reached = *version;
                place.last_reached = place.target.clone();
                place.given_up.clear();
            }
            ClusterEvent::Raised { cluster_version, request } => {
                assert!(*cluster_version >= self.cluster_version, "the version of the cluster goes back");
                self.cluster_version = *cluster_version;
                if let Some(request) = request {
                    // No member's number is 0.
                    self.changes.remember(*request, self.version, 0);
                }
            }
        }
    }
}
