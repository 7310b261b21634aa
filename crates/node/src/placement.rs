//! The placement reconciler follows the cluster's table in this node's copy of the directory, and applies it on this node.
//!
//! Every node passes the members to its links and the target configurations to its shards, and drops replicas that the table has
//! given up. The node that leads the directory also plans the next moves. It decides nothing that is not committed. Two
//! reconcilers that both take themselves for the leader only propose twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    cluster::{Copies, Member, MemberState, Place, Replica},
    cluster_table::{ClusterTable, Upgrade},
    command::{Admission, ClusterCommand, Command, Machine, Move, Replacing},
    id::{Request, RequestHash},
    planted,
    state_map::State,
    version::{ClusterVersion, RENEWS},
};
use boxoffice_env::{Lane, PeerAddress, PeerAdmission, PeerHello, PeerRejection};
use boxoffice_shard::{
    DIRECTORY, Input as EngineInput, NodeId, ReplicaId, ShardId, TargetConfig,
    placement::{self, Situation},
};
use boxoffice_storage::{
    identity::Identity,
    members,
    renewal::{self, Finding},
};
use boxoffice_wire::repr::rfc3339;
use smol_str::{SmolStr, format_smolstr};
use tracing_mutex::parkinglot::Mutex;

#[cfg(debug_assertions)]
use boxoffice_core::version::NEXT;

use crate::{
    api::{self, ReplySink, ReplyTo},
    cluster_copy::{check_versions, cluster, table, unlinked},
    error::NodeError,
    message::Message,
    routing,
    shared::Shared,
};

/// How often the table is checked without news, in milliseconds.
const LOOK_MS: u64 = 250;
/// The timeout of the reconciler's own commands, in milliseconds.
const OP_TIMEOUT_MS: u64 = 3_000;
/// How often clocks are compared, in milliseconds.
const COMPARE_MS: u64 = 1_000;

/// How often a node with a damaged disk asks for another one, in milliseconds.
const RENEW_MS: u64 = 5_000;

/// A node that has never served waits this long for a node that does not refuse it, in milliseconds.
const REFUSED_MS: u64 = 10_000;

/// How long a drained node is sent leave notices before it is removed, in milliseconds.
const LEAVE_NOTICE_MS: u64 = 500;

/// The reconciler's commands. Each is under way at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlacementOp {
    Found,
    Arrived,
    Place,
    Retire,
    FinishUpgrade,
    Renew,
    Reached(ShardId),
}

impl PlacementOp {
    fn tag(self) -> u64 {
        match self {
            PlacementOp::Found => 0,
            PlacementOp::Arrived => 1,
            PlacementOp::Place => 2,
            PlacementOp::Retire => 3,
            PlacementOp::FinishUpgrade => 4,
            PlacementOp::Renew => 5,
            PlacementOp::Reached(shard) => 1 << 16 | u64::from(shard),
        }
    }

    fn of(tag: u64) -> PlacementOp {
        match tag {
            0 => PlacementOp::Found,
            1 => PlacementOp::Arrived,
            2 => PlacementOp::Place,
            3 => PlacementOp::Retire,
            4 => PlacementOp::FinishUpgrade,
            5 => PlacementOp::Renew,
            tag => PlacementOp::Reached(tag as ShardId),
        }
    }
}

/// Takes the answers to the reconciler's commands.
struct Answers {
    shared: Weak<Shared>,
    received: Mutex<Vec<(PlacementOp, api::Result)>>,
}

impl ReplySink for Answers {
    fn answer(&self, tag: u64, result: api::Result) {
        self.received.lock().push((PlacementOp::of(tag), result));
        if let Some(shared) = self.shared.upgrade() {
            shared.placement_changed.notify_one();
        }
    }
}

/// The placement reconciler of one node.
struct Reconciler {
    identity: Identity,
    answers: Arc<Answers>,
    under_way: BTreeSet<PlacementOp>,
    arrived: bool,
    peers: Vec<PeerAddress>,
    /// By shard: the version of the target configuration that the engine knows.
    sent_targets: BTreeMap<ShardId, u64>,
    /// Drained nodes without replicas, and since when they get leave notices.
    leave_notices: BTreeMap<NodeId, u64>,
    /// When clocks are compared again.
    compare_at_ms: u64,
    /// The machine's clock is off.
    clock_is_off: bool,
    /// This node should not lead.
    avoids_leadership: bool,
    /// Shards that another replica should lead.
    avoided_shards: BTreeSet<ShardId>,
    /// It was being drained when the table was looked at last.
    draining: bool,
    /// Whether this node has known a leader of every shard at one time.
    has_served: bool,
    /// Since when every other member refuses this node.
    refused_ms: Option<u64>,
    /// The version of the table that the links know the members of.
    peers_version: u64,
    /// Where the other members serve clients, as it is written down.
    saved_members: BTreeMap<NodeId, String>,
    /// The version of the table that was planned last, and the resulting moves.
    planned: (u64, Vec<Move>),
    /// The version that other nodes were told last.
    told_version: Option<ClusterVersion>,
    /// The upgrade that has begun, as the log has told it.
    upgrade: Option<Upgrade>,
    /// When the last member stopped holding it back, in monotonic milliseconds.
    settled_since_ms: Option<u64>,
    /// A part of the disk cannot be read, and the cluster is asked for another one.
    finding: Option<Finding>,
    /// When it is asked again, in monotonic milliseconds.
    renew_at_ms: u64,
    /// Why it has not granted one, as the log has told it.
    not_renewed: SmolStr,
}

/// Reconciles until the node is gone.
pub(crate) async fn run(weak: Weak<Shared>, identity: Identity) {
    let answers = Arc::new(Answers { shared: weak.clone(), received: Mutex::default() });
    let mut reconciler = Reconciler {
        identity,
        answers,
        under_way: BTreeSet::new(),
        arrived: false,
        peers: Vec::new(),
        sent_targets: BTreeMap::new(),
        leave_notices: BTreeMap::new(),
        compare_at_ms: 0,
        clock_is_off: false,
        avoids_leadership: false,
        avoided_shards: BTreeSet::new(),
        draining: false,
        has_served: false,
        refused_ms: None,
        peers_version: 0,
        saved_members: BTreeMap::new(),
        planned: (0, Vec::new()),
        told_version: None,
        upgrade: None,
        settled_since_ms: None,
        finding: None,
        renew_at_ms: 0,
        not_renewed: SmolStr::default(),
    };
    loop {
        let Some(shared) = weak.upgrade() else { return };
        shared.epochs.save(&*shared.world.disk);
        if let Err(error) = reconciler.step(&shared) {
            shared.fail(error);
            return;
        }
        let news = shared.placement_changed.notified();
        tokio::select! {
            biased;
            () = news => {}
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
        }
    }
}

/// Whether this node accepts a peer with this handshake.
///
/// # Errors
/// Why not.
pub(crate) fn admit(shared: &Shared, hello: &PeerHello) -> Result<PeerAdmission, PeerRejection> {
    // A node that has just joined knows only the node that it asked.
    let Some(state) = table(shared) else { return Ok(PeerAdmission::Unlisted) };
    let node = hello.node;
    let is_later = hello.table > cluster(&state).version();
    check_versions(shared, cluster(&state), hello)?;
    match cluster(&state).members().get(&node) {
        None if is_later => Ok(PeerAdmission::Unlisted),
        None => Err(format!("node {node} is not a member; start it with --join").into()),
        // It never comes back, however old this copy of the table is.
        Some(member) if member.state == MemberState::Gone => {
            Err(PeerRejection { why: removal_notice(shared, node, member), permanent: true })
        }
        Some(member) if !is_later && member.disk.is_some_and(|disk| disk != hello.disk) => Err(format!(
            "node {node} has another data directory ({:032x}) than the cluster knows ({:032x}); if its disk was lost, say so \
             with `boxoffice admin replace {node}` and join again",
            hello.disk,
            member.disk.unwrap_or_default()
        )
        .into()),
        Some(_) if planted::is("a disk put back from an old copy is let in") => Ok(PeerAdmission::AsListed),
        Some(_) => match shared.replication.peer_positions.check(hello) {
            Ok(()) => Ok(PeerAdmission::AsListed),
            Err(why) => Err(PeerRejection { why, permanent: true }),
        },
    }
}

/// The version of the cluster's table here. 0 if there is none.
pub(crate) fn version(shared: &Shared) -> u64 {
    table(shared).as_deref().map_or(0, |state| cluster(state).version())
}

/// When this node last replaced its damaged disk, in milliseconds since 1970.
pub(crate) fn renewed_ms(shared: &Shared) -> Option<u64> {
    let state = table(shared)?;
    let member = cluster(&state).members().get(&shared.config.replication.node_id)?;
    member.renewed.map(|renewed| renewed.at.0)
}

/// The members that are not gone, and where clients reach them.
pub(crate) fn client_addresses(shared: &Shared) -> Vec<(NodeId, SmolStr)> {
    let Some(state) = table(shared) else { return Vec::new() };
    let members = cluster(&state).members().iter().filter(|(_, member)| member.state != MemberState::Gone);
    members.map(|(node, member)| (*node, member.client.clone())).collect()
}

/// The message for the operator of a member that is gone.
fn removal_notice(shared: &Shared, node: NodeId, member: &Member) -> String {
    let at = rfc3339(member.since).unwrap_or_default();
    format!(
        "node {node} was removed from cluster {} at {at}; join anew with an empty data directory: the number {node} is never \
         given again",
        shared.cluster
    )
}

/// Why a node ends that has lost its copy of the directory.
pub(crate) fn why_not_a_member(shared: &Shared) -> NodeError {
    let node = shared.config.replication.node_id;
    let table = table(shared);
    match table.as_deref().map(|state| cluster(state).members().get(&node)) {
        // The directory is the last thing that is taken from a node that is drained.
        Some(Some(member)) if member.state == MemberState::Draining => NodeError::Drained { node },
        Some(Some(member)) if member.state == MemberState::Gone => {
            NodeError::Removed(removal_notice(shared, node, member))
        }
        _ => NodeError::NotAMember { node, why: "it was removed, or replaced by another disk".into() },
    }
}

/// The leader of the directory says that this node was drained and has no replica left.
pub(crate) fn on_leave_notice(shared: &Shared) {
    let node = shared.config.replication.node_id;
    let drained =
        |state: &State| cluster(state).members().get(&node).is_none_or(|member| member.state == MemberState::Draining);
    if table(shared).as_deref().is_none_or(drained) {
        shared.fail(NodeError::Drained { node });
    }
}

impl Reconciler {
    fn step(&mut self, shared: &Arc<Shared>) -> Result<(), NodeError> {
        self.check_refusals(shared)?;
        let received = std::mem::take(&mut *self.answers.received.lock());
        for (op, result) in received {
            self.under_way.remove(&op);
            self.answered(op, result)?;
        }
        let state = table(shared);
        self.raise(shared, state.as_deref().map(cluster))?;
        let Some(cluster) = state.as_deref().map(cluster) else {
            self.publish_peers(shared, self.identity.peers.clone());
            if self.identity.peers.is_empty() {
                if shared.shards[usize::from(DIRECTORY)].leads() {
                    self.found(shared);
                }
            } else {
                let peers = self.identity.peers.iter().map(|peer| peer.node).collect();
                shared.shards[usize::from(DIRECTORY)].leader_hint.lock().replica_nodes = peers;
                self.announce(shared);
            }
            return Ok(());
        };
        self.check_self(shared, cluster)?;
        self.compare_with_others(shared);
        shared.remote_feeds.send_owed();
        if std::mem::replace(&mut self.peers_version, cluster.version()) != cluster.version() {
            let others = cluster.members().iter().filter(|(_, member)| member.state != MemberState::Gone);
            let peers = others.map(|(node, member)| PeerAddress { node: *node, address: member.peer.to_string() });
            self.publish_peers(shared, peers.filter(|peer| peer.node != self.identity.node).collect());
            self.save_members(shared, cluster);
        }
        for (shard, place) in (0..).zip(cluster.places()) {
            self.follow(shared, cluster, shard, place);
        }
        self.report(shared, cluster);
        self.announce(shared);
        self.renew(shared, cluster)?;
        if shared.shards[usize::from(DIRECTORY)].leads() {
            self.plan_moves(shared, cluster);
            self.finish_upgrade(shared, cluster);
        } else {
            (self.upgrade, self.settled_since_ms) = (None, None);
        }
        Ok(())
    }

    /// Ends a node that has never served and that all others refuse, with the reason. A refusal that passes by itself (a copy of
    /// the table that is behind) ends before.
    fn check_refusals(&mut self, shared: &Shared) -> Result<(), NodeError> {
        self.has_served |= shared.all_have_leaders().is_ok();
        if self.has_served {
            return Ok(());
        }
        let links = shared.world.net.links();
        let refusals: Option<Vec<String>> =
            links.iter().map(|link| Some(format!("node {}: {}", link.node, link.refused.as_deref()?))).collect();
        let Some(refusals) = refusals.filter(|refusals| !refusals.is_empty()) else {
            self.refused_ms = None;
            return Ok(());
        };
        let now_ms = shared.world.clock.monotonic_ms();
        if now_ms.saturating_sub(*self.refused_ms.get_or_insert(now_ms)) < REFUSED_MS {
            return Ok(());
        }
        let why = format!("every other member refuses it; {}", refusals.join("; "));
        Err(NodeError::NotAMember { node: self.identity.node, why })
    }

    /// Writes under the version of the table, or a higher one that another node writes under, and tells the others.
    fn raise(&mut self, shared: &Shared, cluster: Option<&ClusterTable>) -> Result<(), NodeError> {
        let of_table = cluster.map(ClusterTable::cluster_version);
        let version = of_table.max(Some(shared.heard_version.get())).expect("another node or the table says one");
        shared.replication.raise(version)?;
        let written = shared.replication.version.get();
        if self.told_version.replace(written) != Some(written) {
            self.broadcast(shared, &Message::ClusterVersion(written).encode());
        }
        Ok(())
    }

    /// As the leader of the directory: raises the version of the cluster when every member has had the newer program for long enough.
    /// The log tells who holds an upgrade back.
    fn finish_upgrade(&mut self, shared: &Arc<Shared>, cluster: &ClusterTable) {
        let upgrade = cluster.upgrade(&unlinked(shared, cluster));
        let now_ms = shared.world.clock.monotonic_ms();
        if upgrade != self.upgrade {
            match &upgrade {
                Some(Upgrade { to, held_back_by }) if held_back_by.is_empty() => {
                    tracing::info!(%to, "every member has the program for a higher version of the cluster");
                }
                Some(Upgrade { to, held_back_by }) => tracing::info!(%to, ?held_back_by, "an upgrade is held back"),
                None => {}
            }
            self.upgrade.clone_from(&upgrade);
        }
        if upgrade.is_none_or(|upgrade| !upgrade.held_back_by.is_empty()) {
            self.settled_since_ms = None;
            return;
        }
        let since_ms = *self.settled_since_ms.get_or_insert(now_ms);
        if shared.config.upgrade_settle_ms.is_some_and(|settle_ms| now_ms - since_ms >= settle_ms) {
            self.send(shared, PlacementOp::FinishUpgrade, ClusterCommand::FinishUpgrade { down: Vec::new() });
        }
    }

    /// Compares clocks and disks with the other nodes. Tells them, and the shards here, whether this node should lead.
    fn compare_with_others(&mut self, shared: &Shared) {
        let clock = &*shared.world.clock;
        let now_ms = clock.monotonic_ms();
        let others = self.peers.iter().map(|peer| peer.node);
        let lacks = now_ms + COMPARE_MS >= self.compare_at_ms + LOOK_MS && shared.clocks.lacks(others, now_ms);
        let compares = lacks || now_ms >= self.compare_at_ms || shared.clocks.was_set(clock);
        if compares {
            self.compare_at_ms = now_ms + COMPARE_MS;
            let ask = Message::Time { asked_ms: now_ms, wall_ms: None }.encode();
            self.broadcast(shared, &ask);
        }
        let off_ms = shared.clocks.off_ms(clock);
        if off_ms.is_some() != self.clock_is_off {
            self.clock_is_off = off_ms.is_some();
            match off_ms {
                Some(off_ms) => {
                    tracing::error!(
                        off_ms,
                        "this machine's clock is off: the others agree that it is, so this node leads nothing"
                    )
                }
                None => tracing::warn!("this machine's clock is right again"),
            }
        }
        #[cfg(debug_assertions)]
        if compares && shared.replication.version.get().has(NEXT) {
            self.broadcast(shared, &Message::Rehearsal.encode());
        }
        let sync_us = shared.replication.sync_times.median_us(now_ms);
        if compares {
            self.broadcast(shared, &Message::SyncTime(sync_us).encode());
        }
        match shared.disk_pace.judge(sync_us, now_ms) {
            Some(true) => {
                tracing::error!(sync_us, "this node's disk is clearly slower than the others', so it leads nothing")
            }
            Some(false) => tracing::warn!(sync_us, "this node's disk is about as quick as the others' again"),
            None => {}
        }
        let avoids_leadership = self.clock_is_off
            || shared.disk_pace.is_slow()
            || shared.draining.load(Ordering::Relaxed)
            || shared.replication.is_read_only();
        let changed = avoids_leadership != self.avoids_leadership;
        if changed {
            self.avoids_leadership = avoids_leadership;
            let node = self.identity.node;
            shared.replication.replicators.avoid_leadership(node, avoids_leadership);
        }
        // Repeated for nodes that have just connected.
        if changed || compares {
            self.broadcast(shared, &Message::AvoidLeadership(avoids_leadership).encode());
        }
        let avoided = shared.shards.iter().filter(|lead| lead.state.avoids.load(Ordering::Relaxed));
        let avoided: BTreeSet<_> = avoided.map(|lead| lead.id).collect();
        let changed = avoided != self.avoided_shards;
        if changed || (compares && !avoided.is_empty()) {
            self.broadcast(shared, &Message::AvoidShards(avoided.clone()).encode());
            self.avoided_shards = avoided;
        }
    }

    fn broadcast(&self, shared: &Shared, message: &bytes::Bytes) {
        for peer in &self.peers {
            // A node that cannot be reached gets the next broadcast.
            let _ = shared.world.net.send(peer.node, Lane::Calls, message.clone());
        }
    }

    fn answered(&mut self, op: PlacementOp, result: api::Result) -> Result<(), NodeError> {
        match (op, result) {
            (PlacementOp::Arrived, Ok(Ok(_))) => self.arrived = true,
            (PlacementOp::Renew, Ok(Ok(_))) => return Err(self.damaged()),
            (PlacementOp::Renew, Ok(Err(refusal))) => {
                let why = format_smolstr!("{refusal}");
                if self.not_renewed != why {
                    tracing::error!(%why, "the cluster grants no other disk yet; this node serves on and asks again");
                    self.not_renewed = why;
                }
            }
            // A refusal by the cluster is permanent.
            (PlacementOp::Arrived | PlacementOp::Found, Ok(Err(refusal))) => {
                return Err(NodeError::NotAMember { node: self.identity.node, why: refusal.to_string() });
            }
            (op, Ok(Err(refusal))) => tracing::debug!(?op, %refusal, "the cluster's table has moved on"),
            (op, Err(failure)) => tracing::debug!(?op, %failure, "will be tried again"),
            (
                PlacementOp::Found
                | PlacementOp::Place
                | PlacementOp::Retire
                | PlacementOp::FinishUpgrade
                | PlacementOp::Reached(_),
                Ok(Ok(_)),
            ) => {}
        }
        Ok(())
    }

    /// A node that is not a member any more, or not with this disk, stops.
    fn check_self(&mut self, shared: &Shared, cluster: &ClusterTable) -> Result<(), NodeError> {
        let node = self.identity.node;
        let Some(member) = cluster.members().get(&node) else { return Ok(()) };
        let was_draining = std::mem::replace(&mut self.draining, member.state == MemberState::Draining);
        let why = if member.state == MemberState::Gone {
            return Err(match was_draining && !cluster.places().iter().any(|place| place.involves(node)) {
                true => NodeError::Drained { node },
                false => NodeError::Removed(removal_notice(shared, node, member)),
            });
        } else if member.disk.is_some() && member.disk == self.finding.as_ref().map(|finding| finding.next) {
            return Err(self.damaged());
        } else if member.disk.is_some_and(|disk| disk != self.identity.disk) || (member.disk.is_none() && self.arrived)
        {
            "it was replaced: another disk is a member under its id".to_owned()
        } else {
            return Ok(());
        };
        Err(NodeError::NotAMember { node, why })
    }

    fn publish_peers(&mut self, shared: &Shared, mut peers: Vec<PeerAddress>) {
        for peer in &mut peers {
            if let Some(address) = shared.config.peer_routes.get(&peer.node) {
                peer.address.clone_from(address);
            }
        }
        if self.peers != peers {
            shared.world.net.set_peers(&peers);
            shared.remote_feeds.retain_nodes(|node| peers.iter().any(|peer| peer.node == node));
            self.peers = peers;
        }
    }

    /// Asks the cluster for another disk if a part of this one cannot be read. What was read before is good, so the node serves until it
    /// is granted.
    fn renew(&mut self, shared: &Arc<Shared>, cluster: &ClusterTable) -> Result<(), NodeError> {
        let now_ms = shared.world.clock.monotonic_ms();
        let may_ask = shared.config.renews_itself && self.arrived && cluster.cluster_version().has(RENEWS);
        if !may_ask || now_ms < self.renew_at_ms {
            return Ok(());
        }
        let Some(why) = shared.replication.damage() else { return Ok(()) };
        self.renew_at_ms = now_ms + RENEW_MS;
        let dir = &shared.config.replication.data_dir;
        let finding = match renewal::note(&shared.world, dir, &self.identity, (&why, true)) {
            Ok(finding) => finding,
            Err(error) => {
                tracing::error!(%error, why, "what was found cannot be noted");
                return Ok(());
            }
        };
        if self.finding.is_none() {
            tracing::error!(
                why,
                "a part of the disk cannot be read: this node serves on, and asks its cluster for another disk"
            );
        }
        let machine = Machine { disk: finding.next, ..self.machine(shared) };
        let join = ClusterCommand::Join {
            node: Some(self.identity.node),
            machine: Box::new(machine),
            // The links have proved it.
            proof: None,
            admission: Admission::Replacing(Replacing::of(self.identity.disk)),
        };
        // One number is granted once.
        let request = Request { id: RequestHash(finding.next as u64), body: 0 };
        self.finding = Some(finding);
        self.send_as(shared, PlacementOp::Renew, join, Some(request));
        Ok(())
    }

    /// Why the node ends when another disk is granted.
    fn damaged(&self) -> NodeError {
        let why = self.finding.as_ref().map_or_else(String::new, |finding| finding.why.clone());
        NodeError::Damaged(why)
    }

    /// Writes down where the other members serve clients.
    fn save_members(&mut self, shared: &Shared, cluster: &ClusterTable) {
        let others = cluster.members().iter().filter(|(node, _)| **node != self.identity.node);
        let present = others.filter(|(_, member)| member.state != MemberState::Gone);
        let addresses: BTreeMap<NodeId, String> =
            present.map(|(node, member)| (*node, member.client.to_string())).collect();
        if addresses == self.saved_members {
            return;
        }
        // It is tried again with the next change.
        match members::save(&*shared.world.disk, &shared.config.replication.data_dir, &addresses) {
            Ok(()) => self.saved_members = addresses,
            Err(error) => tracing::warn!(%error, "the addresses of the members are not written down"),
        }
    }

    /// Sends the target configuration to the shard's replica here, and drops the replica if it is not in it.
    fn follow(&mut self, shared: &Shared, cluster: &ClusterTable, shard: ShardId, place: &Place) {
        let lead = &shared.shards[usize::from(shard)];
        let nodes = |replicas: &[Replica]| -> Vec<NodeId> {
            replicas.iter().map(|replica| replica.node).filter(|node| *node != place.leader.node).collect()
        };
        let mut replica_nodes = vec![place.leader.node];
        replica_nodes.extend(nodes(&place.target.voters));
        replica_nodes.retain(|node| *node != self.identity.node);
        lead.leader_hint.lock().replica_nodes = replica_nodes;
        let ids = |replicas: &[Replica]| -> Vec<ReplicaId> {
            replicas.iter().map(|replica| ReplicaId::new(replica.node, replica.generation)).collect()
        };
        if self.sent_targets.insert(shard, place.version) != Some(place.version) {
            let leader = Some(ReplicaId::new(place.leader.node, place.leader.generation));
            let (voters, learners) = (ids(&place.target.voters), ids(&place.target.learners));
            let target = TargetConfig { version: place.version, voters, learners, leader };
            shared.replication.replicators.push(shard, EngineInput::Target { shard, target });
        }
        let Some(replica) = lead.state.group_here() else { return };
        // A replica that is not in the table yet is newer than the copy of the table here.
        let is_wanted = ids(&place.target.voters).contains(&replica) || ids(&place.target.learners).contains(&replica);
        if !is_wanted && !place.moving() && replica.generation() < cluster.next_generation() {
            shared.replication.replicators.push(shard, EngineInput::Drop { shard, replica });
        }
    }

    /// Reports the target configurations that shards led here have reached.
    fn report(&mut self, shared: &Arc<Shared>, cluster: &ClusterTable) {
        let reached: Vec<(ShardId, u64)> = {
            let mut reached = shared.reached.lock();
            reached.retain(|shard, version| {
                let place = &cluster.places()[usize::from(*shard)];
                place.version == *version && place.moving() && shared.shards[usize::from(*shard)].leads()
            });
            reached.iter().map(|(shard, version)| (*shard, *version)).collect()
        };
        for (shard, version) in reached {
            self.send(shared, PlacementOp::Reached(shard), ClusterCommand::Reached { shard, version });
        }
    }

    /// Plans the next moves, as the leader of the directory.
    fn plan_moves(&mut self, shared: &Arc<Shared>, cluster: &ClusterTable) {
        let idle = |node: &u64| !cluster.places().iter().any(|place| place.involves(*node));
        let drained =
            cluster.members().iter().find(|(node, member)| member.state == MemberState::Draining && idle(node));
        if let Some((node, _)) = drained {
            self.retire(shared, *node);
        }
        // The moves follow from the table alone.
        if self.planned.0 != cluster.version() {
            self.planned = (cluster.version(), next_moves(cluster));
        }
        if !self.planned.1.is_empty() {
            let moves = self.planned.1.clone();
            self.send(shared, PlacementOp::Place, ClusterCommand::Place { based_on: cluster.version(), moves });
        }
    }

    /// Removes a node without replicas. It gets a leave notice first, because no node talks to it afterwards.
    fn retire(&mut self, shared: &Arc<Shared>, node: NodeId) {
        let now_ms = shared.world.clock.monotonic_ms();
        let since_ms = *self.leave_notices.entry(node).or_insert(now_ms);
        // If it cannot be reached it will be refused when it comes back.
        let _ = shared.world.net.send(node, Lane::Calls, Message::LeaveNotice.encode());
        if now_ms.saturating_sub(since_ms) >= LEAVE_NOTICE_MS {
            self.send(shared, PlacementOp::Retire, ClusterCommand::Retire { node });
        }
    }

    fn found(&mut self, shared: &Arc<Shared>) {
        let (node, machine) = (self.identity.node, Box::new(self.machine(shared)));
        let found =
            ClusterCommand::Found { node, machine, shards: self.identity.shards, replicas: shared.config.replicas };
        self.send(shared, PlacementOp::Found, found);
    }

    fn announce(&mut self, shared: &Arc<Shared>) {
        if !self.arrived {
            let (node, machine) = (self.identity.node, Box::new(self.machine(shared)));
            self.send(shared, PlacementOp::Arrived, ClusterCommand::Arrived { node, machine });
        }
    }

    fn machine(&self, shared: &Shared) -> Machine {
        Machine {
            disk: self.identity.disk,
            peer: SmolStr::new(&shared.config.peer_address),
            client: SmolStr::new(&shared.config.client_address),
            program: shared.config.program.clone(),
            versions: Some(shared.versions().reads),
        }
    }

    fn send(&mut self, shared: &Arc<Shared>, op: PlacementOp, command: ClusterCommand) {
        self.send_as(shared, op, command, None);
    }

    fn send_as(&mut self, shared: &Arc<Shared>, op: PlacementOp, command: ClusterCommand, request: Option<Request>) {
        if shared.draining.load(Ordering::Relaxed) || !self.under_way.insert(op) {
            return;
        }
        let sink = Arc::clone(&self.answers) as Arc<dyn ReplySink>;
        let reply = ReplyTo::new(sink, op.tag()).with_timeout(OP_TIMEOUT_MS);
        routing::begin_call(shared, Command::Cluster(command), request, reply);
    }
}

/// Nodes outside the target that may still have a replica of a moving shard.
fn leaving(place: &Place) -> Vec<NodeId> {
    let before = place.given_up.iter().chain([&place.last_reached]).flat_map(Copies::all);
    let nodes: BTreeSet<NodeId> = before.map(|replica| replica.node).filter(|node| !place.target.has(*node)).collect();
    if place.moving() { nodes.into_iter().collect() } else { Vec::new() }
}

/// The next moves by the placement policy.
fn next_moves(cluster: &ClusterTable) -> Vec<Move> {
    let replicas = |replicas: &[Replica]| -> Vec<placement::Replica> {
        let placed = |replica: &Replica| placement::Replica { node: replica.node, generation: replica.generation };
        replicas.iter().map(placed).collect()
    };
    let members = cluster.members().iter().map(|(node, member)| placement::Member {
        node: *node,
        state: match member.state {
            MemberState::Joining => placement::MemberState::Joining,
            MemberState::Serving => placement::MemberState::Serving,
            MemberState::Draining => placement::MemberState::Draining,
            MemberState::Gone => placement::MemberState::Gone,
        },
        first_generation: member.first_generation,
    });
    let places = (0..).zip(cluster.places()).map(|(shard, place)| placement::Place {
        shard,
        voters: replicas(&place.target.voters),
        learners: replicas(&place.target.learners),
        leader: place.leader.node,
        moving: place.moving(),
        leaving: leaving(place),
    });
    let situation = Situation {
        members: members.collect(),
        replicas: usize::from(cluster.replicas()),
        places: places.collect(),
        moving_max: placement::MOVING_MAX,
    };
    let moves = placement::plan(&situation).into_iter();
    moves.map(|placement::Move { shard, voters, learners, leader }| Move { shard, voters, learners, leader }).collect()
}
