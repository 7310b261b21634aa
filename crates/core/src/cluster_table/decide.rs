//! Decisions of the cluster's table.

use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{ClusterTable, FIRST_GENERATION};
use crate::{
    cluster::{
        ADDRESS_BYTES_MAX, Copies, GENERATIONS, INVITATIONS_MAX, Invitation, Member, MemberState, NODE_MAX, Place,
        REPLICAS_MAX, Renewed, Replica,
    },
    command::{Admission, INVITATION_HASH_BYTES, INVITATION_MS_MAX, Machine, Move, Replacing},
    event::ClusterEvent,
    id::Request,
    planted,
    refusal::Refusal,
    time::Timestamp,
    version::{RENEWS, ReadVersions},
};

/// The fewest voters that tolerate the loss of one.
const VOTERS_SAFE: usize = 3;

/// The event to write, or `None` if nothing changes.
type Decided = Result<Option<ClusterEvent>, Refusal>;

/// Founds the cluster with its first node, which may repeat it.
pub(crate) fn found(
    cluster: Option<&ClusterTable>,
    at: Timestamp,
    node: u64,
    machine: &Machine,
    (shards, replicas): (u16, u8),
) -> Decided {
    if let Some(cluster) = cluster {
        return match cluster.members.get(&node) {
            Some(member) if member.disk == Some(machine.disk) => Ok(None),
            Some(_) | None => Err(Refusal::AlreadyFounded),
        };
    }
    check_node(node)?;
    check_machine(machine)?;
    if shards == 0 || !(1..=REPLICAS_MAX).contains(&replicas) {
        return Err(bad(format_smolstr!("a cluster has data shards, with 1 to {REPLICAS_MAX} copies each")));
    }
    let cluster_version = versions(machine)?.newest;
    let member = Box::new(Member::new(machine, MemberState::Serving, FIRST_GENERATION, at));
    Ok(Some(ClusterEvent::Founded { node, member, shards, replicas, cluster_version }))
}

impl ClusterTable {
    /// Makes a machine a member. `at` is running time, `now` is true time. Returns its id and the event to write.
    pub(crate) fn join(
        &self,
        (at, now): (Timestamp, Timestamp),
        wanted: Option<u64>,
        machine: &Machine,
        admission: &Admission,
        request: Request,
    ) -> Result<(u64, Option<ClusterEvent>), Refusal> {
        check_machine(machine)?;
        if let Some(versions) = machine.versions {
            let fit = versions.check(self.cluster_version);
            fit.map_err(|why| bad(format_smolstr!("the machine runs program {}: {why}", machine.program)))?;
        }
        if let Admission::Replacing(replacing) = admission {
            return self.renew(now, wanted, machine, replacing, request);
        }
        let invitation = self.admitted(at, machine, admission)?;
        let known = self.members.iter().find(|(_, member)| member.disk == Some(machine.disk)).map(|(node, _)| *node);
        let node = match (wanted, known) {
            (Some(wanted), Some(known)) if wanted != known => {
                return Err(bad(format_smolstr!("this disk is that of node {known}, not of node {wanted}")));
            }
            (Some(node), _) | (None, Some(node)) => node,
            (None, None) => (1..=NODE_MAX).find(|node| !self.members.contains_key(node)).ok_or_else(too_many)?,
        };
        check_node(node)?;
        let member = match self.members.get(&node) {
            None => Member::new(machine, MemberState::Joining, FIRST_GENERATION, now),
            Some(member) if member.state == MemberState::Gone => return Err(Refusal::NodeGone { node }),
            Some(member) if member.disk == Some(machine.disk) => return Ok((node, None)),
            // Its disk was lost, and this one replaces it.
            Some(member) if member.disk.is_none() => member.on(machine),
            Some(_) => return Err(Refusal::DiskDiffers { node }),
        };
        let member = Box::new(member);
        Ok((node, Some(ClusterEvent::MemberPut { node, member, request: Some(request), invitation })))
    }

    /// Checks that a machine may join. Returns the hash of the invitation that it uses up, if it shows one.
    fn admitted(
        &self,
        at: Timestamp,
        machine: &Machine,
        admission: &Admission,
    ) -> Result<Option<[u8; INVITATION_HASH_BYTES]>, Refusal> {
        match admission {
            Admission::Vouched => Ok(None),
            Admission::Invitation(hash) => {
                let known = self.invitations.get(hash).filter(|known| known.admits(at, machine.disk));
                known.map(|_| Some(*hash)).ok_or(Refusal::NotInvited)
            }
            Admission::Nothing | Admission::AdminProof(_) if planted::is("a proof without an invitation") => Ok(None),
            Admission::Nothing | Admission::AdminProof(_) | Admission::Replacing(_) => Err(Refusal::NotInvited),
        }
    }

    /// Gives the member whose data directory is damaged another one under the same id. All its replicas are lost, so every shard must
    /// have a live majority without it, and no other member may be without some of its replicas.
    fn renew(
        &self,
        now: Timestamp,
        wanted: Option<u64>,
        machine: &Machine,
        replacing: &Replacing,
        request: Request,
    ) -> Result<(u64, Option<ClusterEvent>), Refusal> {
        let node = wanted.ok_or_else(|| bad("a machine that replaces a disk says which node it is"))?;
        let member = self.present(node)?;
        if member.disk == Some(machine.disk) {
            return Ok((node, None));
        }
        if member.disk != Some(replacing.disk) {
            return Err(Refusal::DiskDiffers { node });
        }
        if !self.cluster_version.has(RENEWS) {
            let why = format_smolstr!("that comes with version {RENEWS} of the cluster, so finish the upgrade first");
            return Err(Refusal::NotRenewed { node, why });
        }
        self.check_renewal(now, node, member, replacing)?;
        let renewed = Member {
            first_generation: self.next_generation,
            renewed: Some(Renewed { at: now, from: replacing.disk }),
            ..member.on(machine).turned(MemberState::Joining, now)
        };
        let member = Box::new(renewed);
        Ok((node, Some(ClusterEvent::MemberPut { node, member, request: Some(request), invitation: None })))
    }

    fn check_renewal(
        &self,
        now: Timestamp,
        node: u64,
        member: &Member,
        Replacing { disk: _, down, rest_ms }: &Replacing,
    ) -> Result<(), Refusal> {
        let refused = |why: SmolStr| Err(Refusal::NotRenewed { node, why });
        if member.state == MemberState::Draining {
            return refused("it is being drained".into());
        }
        // A single vote of this node is gone for good, and nothing that waits brings it back.
        let has_only_vote = |copies: &Copies| copies.voters.len() == 1 && copies.voters[0].node == node;
        let shards = self.shards_where(|place| place.possible().any(has_only_vote));
        if !shards.is_empty() && !planted::is("a replacement without a majority") {
            return Err(Refusal::QuorumWouldBeLost { node, shards });
        }
        let others = self.members.iter().filter(|(other, member)| **other != node && member.state != MemberState::Gone);
        let unfinished =
            others.into_iter().find(|(other, member)| member.disk.is_none() || self.lacks_replicas(**other));
        if let Some((other, _)) = unfinished.filter(|_| !planted::is("two replacements at once")) {
            return refused(format_smolstr!("node {other} is still getting what it lost with its disk"));
        }
        let is_there = |voter: &&Replica| {
            let is_whole = self.is_whole(**voter) || planted::is("two replacements at once");
            voter.node != node && is_whole && !down.contains(&voter.node)
        };
        let is_lost = |copies: &Copies| copies.voters.iter().filter(is_there).count() * 2 <= copies.voters.len();
        let shards = self.shards_where(|place| place.possible().any(is_lost));
        if let Some(first) = shards.first().filter(|_| !planted::is("a replacement without a majority")) {
            let count = shards.len();
            let down = match down.is_empty() {
                true => SmolStr::default(),
                false => format_smolstr!("; down are {down:?}"),
            };
            return refused(format_smolstr!(
                "{count} of the shards, the first of them {first}, would have no majority that is up{down}"
            ));
        }
        // Clocks that were set back since then say nothing about how long ago it was.
        let last = self.members.iter().filter_map(|(other, member)| Some((member.renewed?.at, *other))).max();
        if let Some((at, other)) = last.filter(|(at, _)| (*at..at.after(*rest_ms)).contains(&now)) {
            let hours = |ms: u64| ms / 3_600_000;
            return refused(format_smolstr!(
                "node {other} replaced its disk {} h ago, and {} h are to pass (repair.rest_hours)",
                hours(now.0.saturating_sub(at.0)),
                hours(*rest_ms)
            ));
        }
        Ok(())
    }

    /// Whether shards still count on replicas of a member that were on a disk that is lost.
    fn lacks_replicas(&self, node: u64) -> bool {
        let is_lost = |replica: Replica| replica.node == node && !self.is_whole(replica);
        self.shards.iter().any(|place| place.possible().flat_map(Copies::all).any(is_lost))
    }

    /// Invites a machine, until `for_ms` after the running time `at`.
    pub(crate) fn invite(
        &self,
        at: Timestamp,
        hash: [u8; INVITATION_HASH_BYTES],
        for_ms: u64,
        request: Request,
    ) -> Result<ClusterEvent, Refusal> {
        if !(1..=INVITATION_MS_MAX).contains(&for_ms) {
            return Err(bad(format_smolstr!("an invitation is valid for 1 to {INVITATION_MS_MAX} ms")));
        }
        if self.invitations.contains_key(&hash) {
            return Err(Refusal::AlreadyExistsDifferently("this invitation".into()));
        }
        if self.invitations.values().filter(|known| known.ends_at > at).count() >= INVITATIONS_MAX {
            return Err(bad(format_smolstr!("there are {INVITATIONS_MAX} invitations; wait until one of them ends")));
        }
        let invitation = Box::new(Invitation { ends_at: at.after(for_ms), used_by: None });
        Ok(ClusterEvent::Invited { at, hash, invitation, request })
    }

    /// A member has started.
    pub(crate) fn arrived(&self, at: Timestamp, node: u64, machine: &Machine) -> Decided {
        check_machine(machine)?;
        let member = self.present(node)?;
        if member.disk != Some(machine.disk) {
            return Err(Refusal::DiskDiffers { node });
        }
        let fit = versions(machine)?.check(self.cluster_version);
        fit.map_err(|why| bad(format_smolstr!("node {node} runs program {}: {why}", machine.program)))?;
        let state = match member.state {
            MemberState::Joining | MemberState::Serving => MemberState::Serving,
            MemberState::Draining | MemberState::Gone => member.state,
        };
        let arrived = member.on(machine).turned(state, at);
        Ok(if arrived == *member { None } else { put(node, arrived, None) })
    }

    /// Moves everything away from a member.
    pub(crate) fn drain(&self, at: Timestamp, node: u64, force: bool, request: Request) -> Decided {
        let member = self.present(node)?;
        match member.state {
            MemberState::Serving | MemberState::Draining => {}
            MemberState::Joining | MemberState::Gone => return Err(not_drainable(node, "it is not serving")),
        }
        let others = self.members.iter().filter(|(other, member)| **other != node && serves(member));
        if others.count() == 0 {
            return Err(not_drainable(node, "no other member serves"));
        }
        self.check_enough_without(node, force)?;
        Ok(put(node, member.turned(MemberState::Draining, at), Some(request)))
    }

    /// Ends the draining of a member.
    pub(crate) fn undrain(&self, at: Timestamp, node: u64, request: Request) -> Decided {
        let member = self.present(node)?;
        match member.state {
            MemberState::Serving | MemberState::Draining => {
                Ok(put(node, member.turned(MemberState::Serving, at), Some(request)))
            }
            MemberState::Joining | MemberState::Gone => Err(not_drainable(node, "it is not serving")),
        }
    }

    /// Removes a member.
    pub(crate) fn remove(&self, at: Timestamp, node: u64, force: bool, request: Request) -> Decided {
        let member = self.present(node)?;
        self.check_quorums_without(node)?;
        self.check_enough_without(node, force)?;
        Ok(put(node, member.turned(MemberState::Gone, at), Some(request)))
    }

    /// Replaces the lost disk of a member.
    pub(crate) fn replace(&self, at: Timestamp, node: u64, request: Request) -> Decided {
        let member = self.present(node)?;
        self.check_quorums_without(node)?;
        // A member that still waits for its new disk has had no new replica since.
        let first_generation = if member.disk.is_none() { member.first_generation } else { self.next_generation };
        let waiting = Member { disk: None, first_generation, ..member.turned(MemberState::Joining, at) };
        Ok(put(node, waiting, Some(request)))
    }

    /// Removes a drained member that has no replica left.
    pub(crate) fn retire(&self, at: Timestamp, node: u64) -> Decided {
        let unknown = Refusal::NoSuchNode { node };
        let member = self.members.get(&node).ok_or(unknown)?;
        match member.state {
            MemberState::Gone => return Ok(None),
            MemberState::Draining => {}
            MemberState::Joining | MemberState::Serving => return Err(not_drainable(node, "it is not being drained")),
        }
        let shards = self.shards_where(|place| place.involves(node));
        if !shards.is_empty() {
            return Err(Refusal::NodeInUse { node, shards });
        }
        Ok(put(node, member.turned(MemberState::Gone, at), None))
    }

    /// Gives shards new targets.
    pub(crate) fn place(&self, based_on: u64, moves: &[Move]) -> Decided {
        if based_on != self.version {
            return Err(Refusal::PlacementStale { version: self.version });
        }
        let mut next_generation = self.next_generation;
        let mut places = Vec::with_capacity(moves.len());
        for (number, wanted) in moves.iter().enumerate() {
            check_move(wanted, self.shards.len())?;
            if moves[..number].iter().any(|other| other.shard == wanted.shard) {
                return Err(bad("a shard is moved twice at once"));
            }
            let before = &self.shards[usize::from(wanted.shard)];
            let mut replicas = |nodes: &[u64]| -> Result<Vec<Replica>, Refusal> {
                // Sorted by node, because the order of the request means nothing.
                let nodes: BTreeSet<u64> = nodes.iter().copied().collect();
                nodes.into_iter().map(|node| self.replica(before, node, &mut next_generation)).collect()
            };
            let target = Copies { voters: replicas(&wanted.voters)?, learners: replicas(&wanted.learners)? };
            let leader = target.voters.iter().find(|voter| voter.node == wanted.leader).copied();
            let leader = leader.ok_or_else(|| bad("the leader of a shard is not one of its voters"))?;
            if target != before.target || leader != before.leader {
                places.push((wanted.shard, before.next(target, leader)));
            }
        }
        Ok((!places.is_empty()).then_some(ClusterEvent::Placed { places, next_generation }))
    }

    /// Notes that a shard has reached a target.
    pub(crate) fn reached(&self, shard: u16, version: u64) -> Decided {
        let place = self.shards.get(usize::from(shard)).ok_or_else(|| bad("there is no such shard"))?;
        if version > place.version {
            return Err(bad("the shard has no such target yet"));
        }
        let news = version == place.version && place.moving();
        Ok(news.then_some(ClusterEvent::Reached { shard, version }))
    }

    /// The replica of a node in a shard. It is the one that it has, or a new one.
    fn replica(&self, before: &Place, node: u64, next_generation: &mut u64) -> Result<Replica, Refusal> {
        let member = self.members.get(&node).ok_or(Refusal::NoSuchNode { node })?;
        let known = before.target.all().find(|replica| replica.node == node);
        let stays = |replica: &Replica| match member.state {
            // The replica is not made again, or not before there is a disk for it. Its vote counts as missing.
            MemberState::Joining | MemberState::Draining | MemberState::Gone => true,
            MemberState::Serving => replica.generation >= member.first_generation,
        };
        match known.filter(stays) {
            Some(known) => Ok(known),
            None if member.state == MemberState::Gone => Err(Refusal::NodeGone { node }),
            // The first message of a new replica ends the one before it, whose vote may still be needed.
            None if before.moving()
                && before.possible().flat_map(Copies::all).any(|old| old.node == node && self.is_whole(old)) =>
            {
                Err(bad("a node that a shard may still be leaving does not get it again before it has left"))
            }
            None if *next_generation >= GENERATIONS && !planted::is("a generation that names another node") => {
                Err(bad("every generation of replicas was given; found another cluster"))
            }
            None => {
                let generation = *next_generation;
                *next_generation += 1;
                Ok(Replica { node, generation })
            }
        }
    }

    /// A member that was not removed.
    fn present(&self, node: u64) -> Result<&Member, Refusal> {
        let member = self.members.get(&node).ok_or(Refusal::NoSuchNode { node })?;
        if member.state == MemberState::Gone { Err(Refusal::NodeGone { node }) } else { Ok(member) }
    }

    /// Checks that every shard keeps a majority of its voters without this node. While a shard moves, only its leader knows its
    /// progress, so every possible set of replicas must keep a majority.
    fn check_quorums_without(&self, node: u64) -> Result<(), Refusal> {
        let is_lost = |copies: &Copies| {
            let votes = copies.voters.iter().any(|voter| voter.node == node);
            let left = copies.voters.iter().filter(|voter| voter.node != node && self.is_whole(**voter)).count();
            votes && left * 2 <= copies.voters.len()
        };
        let shards = self.shards_where(|place| place.possible().any(is_lost));
        if shards.is_empty() { Ok(()) } else { Err(Refusal::QuorumWouldBeLost { node, shards }) }
    }

    /// Checks that shards with three voters keep three. With fewer serving members each shard would have a single voter, and
    /// the loss of its disk would lose acknowledged data.
    fn check_enough_without(&self, node: u64, force: bool) -> Result<(), Refusal> {
        let serving = |without: Option<u64>| {
            self.members.iter().filter(|(other, member)| Some(**other) != without && serves(member)).count()
        };
        let (before, left) = (serving(None), serving(Some(node)));
        let falls = usize::from(self.replicas) >= VOTERS_SAFE && before >= VOTERS_SAFE && left < VOTERS_SAFE;
        if falls && !force { Err(Refusal::TooFewLeft { node, serving: left as u64 }) } else { Ok(()) }
    }

    /// Whether a replica's disk is not known to be lost.
    fn is_whole(&self, replica: Replica) -> bool {
        self.members
            .get(&replica.node)
            .is_some_and(|member| member.state != MemberState::Gone && replica.generation >= member.first_generation)
    }

    fn shards_where(&self, matches: impl Fn(&Place) -> bool) -> Vec<u16> {
        (0..).zip(&self.shards).filter(|(_, place)| matches(place)).map(|(shard, _)| shard).collect()
    }
}

fn serves(member: &Member) -> bool {
    member.state == MemberState::Serving
}

fn put(node: u64, member: Member, request: Option<Request>) -> Option<ClusterEvent> {
    Some(ClusterEvent::MemberPut { node, member: Box::new(member), request, invitation: None })
}

fn bad(words: impl Into<SmolStr>) -> Refusal {
    Refusal::BadRequest(words.into())
}

fn too_many() -> Refusal {
    Refusal::TooManyNodes { max: NODE_MAX }
}

fn not_drainable(node: u64, why: &'static str) -> Refusal {
    Refusal::NotDrainable { node, why: SmolStr::new_static(why) }
}

fn check_node(node: u64) -> Result<(), Refusal> {
    if (1..=NODE_MAX).contains(&node) {
        return Ok(());
    }
    Err(bad(format_smolstr!("the id of a node is from 1 to {NODE_MAX}")))
}

fn check_machine(Machine { disk: _, peer, client, program, versions: _ }: &Machine) -> Result<(), Refusal> {
    for (name, text) in [("peer address", peer), ("client address", client), ("program", program)] {
        let good = (1..=ADDRESS_BYTES_MAX).contains(&text.len()) && text.chars().all(|char| char.is_ascii_graphic());
        if !good {
            return Err(bad(format_smolstr!("a node's {name} is 1 to {ADDRESS_BYTES_MAX} printable ASCII characters")));
        }
    }
    Ok(())
}

/// The versions that a node reads, which every node says when it starts.
fn versions(machine: &Machine) -> Result<ReadVersions, Refusal> {
    machine.versions.ok_or_else(|| bad("a node that starts says which versions it reads"))
}

/// Checks that the nodes of a move are distinct, that one votes, and that the shard exists.
fn check_move(wanted: &Move, shards: usize) -> Result<(), Refusal> {
    if usize::from(wanted.shard) >= shards {
        return Err(bad("there is no such shard"));
    }
    if wanted.voters.is_empty() {
        return Err(bad("a shard has at least one voter"));
    }
    let mut nodes: Vec<u64> = wanted.voters.iter().chain(&wanted.learners).copied().collect();
    nodes.sort_unstable();
    if nodes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(bad("a node has one copy of a shard"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;
    use crate::id::RequestHash;

    #[test]
    fn no_node_joins_when_every_id_is_used() {
        let versions = Some(ReadVersions::own());
        let machine = |disk| Machine { disk, peer: "a:1".into(), client: "a:2".into(), program: "1".into(), versions };
        let (at, request) = (Timestamp(1), Request { id: RequestHash(1), body: 1 });
        let member = Member::new(&machine(0), MemberState::Serving, FIRST_GENERATION, at);
        let cluster_version = ReadVersions::own().newest;
        let founded = Box::new(member.clone());
        let founded = ClusterEvent::Founded { node: 1, member: founded, shards: 1, replicas: 3, cluster_version };
        let mut cluster = ClusterTable::first(&founded);
        let gone = Member { disk: None, state: MemberState::Gone, ..member };
        cluster.members.extend((2..=NODE_MAX).map(|node| (node, gone.clone())));
        let join = |cluster: &ClusterTable| cluster.join((at, at), None, &machine(9), &Admission::Vouched, request);
        assert_eq!(join(&cluster), Err(Refusal::TooManyNodes { max: NODE_MAX }));
        cluster.members.remove(&77);
        let (node, _) = join(&cluster).expect("one id is left");
        assert_eq!(node, 77);
    }
}
