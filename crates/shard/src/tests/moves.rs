//! Membership changes step by step, on a network without losses: nodes that join, are replaced, are removed and lag.

use super::{
    member::{Habit, Member, turn_of},
    rng::Rng,
};
use crate::{ClockReading, Config, Input, NodeId, Now, Output, ReplicaId, Role, TargetConfig};

const SHARD: u16 = 1;
/// Enough for elections, snapshots and a preferred leader.
const LONG: u32 = 120;

/// Node 1 founds the cluster, and the others join.
struct Cluster {
    members: Vec<Member>,
    // Nodes that are switched off.
    off: Vec<NodeId>,
    rng: Rng,
    mono_ms: u64,
    completions: u64,
    // The outputs about members.
    outputs: Vec<String>,
}

impl Cluster {
    fn founded(nodes: u64) -> Cluster {
        let config = |node| match node {
            1 => Config::founding(1, 5, SHARD),
            node => Config::joining(node, 5, SHARD),
        };
        let mut members: Vec<_> = (1..=nodes).map(|node| Member::new(config(node), Habit::Correct)).collect();
        members.iter_mut().for_each(Member::start);
        let mut cluster =
            Cluster { members, off: Vec::new(), rng: Rng::new(5), mono_ms: 0, completions: 0, outputs: Vec::new() };
        cluster.run(3);
        cluster.outputs.clear();
        cluster
    }

    fn at(&mut self, node: NodeId) -> &mut Member {
        &mut self.members[usize::try_from(node - 1).unwrap()]
    }

    /// Runs this many ticks and everything that follows from them.
    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.mono_ms += 100;
            let off = &self.off;
            let on = self.members.iter_mut().filter(|member| !off.contains(&member.id()));
            on.for_each(|member| member.inbox.push(Input::Tick));
            self.compare_clocks();
            while self.pass() {}
        }
    }

    /// All wall clocks show the same.
    fn compare_clocks(&mut self) {
        let read = ClockReading { asked_ms: self.mono_ms, answered_ms: self.mono_ms, wall_ms: 5_000 + self.mono_ms };
        for node in (1..=self.members.len() as u64).filter(|node| !self.off.contains(node)) {
            for member in &mut self.members {
                if member.id() != node {
                    member.inbox.push(Input::Clock { node, read });
                }
            }
        }
    }

    /// One round of passes. Returns whether a message is on its way to a running node.
    fn pass(&mut self) -> bool {
        let now = Now { wall_ms: 5_000 + self.mono_ms, mono_ms: self.mono_ms };
        let mut sent = Vec::new();
        for member in &mut self.members {
            let from = member.id();
            if self.off.contains(&from) {
                continue;
            }
            let outputs = member.work(now, None, &mut self.rng, |message| sent.push((from, message)));
            self.outputs.extend(outputs.iter().filter_map(|output| draw(from, output)));
        }
        sent.retain(|(_, message)| !self.off.contains(&message.to));
        let any = !sent.is_empty();
        for (from, message) in sent {
            let input = Input::Message { from, shard: message.shard, bytes: message.bytes };
            self.at(message.to).inbox.push(input);
        }
        any
    }

    /// Gives some nodes a target configuration.
    fn target(&mut self, to: &[NodeId], target: &TargetConfig) {
        for node in to {
            let target = target.clone();
            self.at(*node).inbox.push(Input::Target { shard: SHARD, target });
        }
    }

    fn drop_replica(&mut self, node: NodeId, replica: ReplicaId) {
        self.at(node).inbox.push(Input::Drop { shard: SHARD, replica });
    }

    /// The leader commits some turns. Returns the leader.
    fn commit_turns(&mut self, turns: u64) -> NodeId {
        let leader = self.leader().expect("there is a leader");
        for _ in 0..turns {
            self.completions += 1;
            let (completion, epoch) = (self.completions, self.at(leader).epochs[&SHARD]);
            let events = turn_of(completion, 20);
            self.at(leader).inbox.push(Input::Propose { shard: SHARD, epoch, events, joint: None, completion });
        }
        self.run(5);
        let last = self.completions;
        assert_eq!(self.at(leader).applied_state[&SHARD].last(), Some(&last));
        leader
    }

    fn leader(&self) -> Option<NodeId> {
        let on = self.members.iter().filter(|member| !self.off.contains(&member.id()));
        on.filter(|member| member.epochs.contains_key(&SHARD)).map(Member::id).next()
    }

    /// The voters and learners as a node knows them.
    fn members(&mut self, node: NodeId) -> Option<String> {
        let group = self.at(node).engine.as_ref().unwrap().group(SHARD)?;
        assert!(!group.members.is_joint());
        Some(format!("{:?} {:?}", group.members.voters, group.members.learners))
    }

    fn role(&mut self, node: NodeId) -> Option<Role> {
        Some(self.at(node).engine.as_ref().unwrap().group(SHARD)?.role)
    }

    fn take_outputs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.outputs)
    }

    fn restart(&mut self, node: NodeId) {
        let mut rng = Rng::new(1);
        self.at(node).crash(&mut rng);
        self.at(node).start();
    }
}

fn draw(node: NodeId, output: &Output<u64>) -> Option<String> {
    match output {
        Output::BecameLeader { shard: SHARD, .. } => Some(format!("{node} leads")),
        Output::TargetReached { shard: SHARD, version } => Some(format!("{node} reached {version}")),
        Output::Removed { shard: SHARD, replica } => Some(format!("{node} dropped {replica}")),
        _ => None,
    }
}

fn replica(node: NodeId, generation: u64) -> ReplicaId {
    ReplicaId::new(node, generation)
}

fn target(version: u64, voters: &[(NodeId, u64)], learners: &[(NodeId, u64)]) -> TargetConfig {
    let replicas = |list: &[(NodeId, u64)]| list.iter().map(|(node, nth)| replica(*node, *nth)).collect();
    TargetConfig { version, voters: replicas(voters), learners: replicas(learners), leader: None }
}

const ONE: (NodeId, u64) = (1, 1);
const TWO: (NodeId, u64) = (2, 2);
const THREE: (NodeId, u64) = (3, 3);
const FOUR: (NodeId, u64) = (4, 4);

/// Three voters; node 4 is empty.
fn three_voters() -> Cluster {
    let mut cluster = Cluster::founded(4);
    cluster.commit_turns(3);
    cluster.target(&[1, 2, 3, 4], &target(2, &[ONE, TWO, THREE], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["1 reached 2"]);
    assert_eq!(cluster.members(3).unwrap(), "[1.1, 2.2, 3.3] []");
    cluster
}

#[test]
fn a_founder_has_all_shards_and_a_joining_node_has_none() {
    let mut cluster = Cluster::founded(2);
    let shards = |member: &mut Member| member.engine.as_ref().unwrap().shards().collect::<Vec<_>>();
    assert_eq!(shards(cluster.at(1)), [0, 1]);
    assert_eq!(shards(cluster.at(2)), [0; 0]);
    assert_eq!(cluster.members(1).unwrap(), "[1.1] []");
    assert_eq!(cluster.commit_turns(3), 1);
}

#[test]
fn a_second_node_is_a_learner_and_a_third_makes_three_voters() {
    let mut cluster = Cluster::founded(3);
    cluster.commit_turns(3);
    cluster.target(&[1, 2, 3], &target(2, &[ONE], &[TWO]));
    cluster.run(LONG);
    assert_eq!((cluster.take_outputs(), cluster.role(2)), (vec!["1 reached 2".to_owned()], Some(Role::Learner)));
    assert_eq!(cluster.members(2).unwrap(), "[1.1] [2.2]");
    assert_eq!(cluster.at(2).applied_state[&SHARD], [1, 2, 3]);
    cluster.target(&[1, 2, 3], &target(3, &[ONE, TWO, THREE], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["1 reached 3"]);
    assert_eq!(cluster.members(3).unwrap(), "[1.1, 2.2, 3.3] []");
    let status = cluster.at(1).engine.as_ref().unwrap().group(SHARD).unwrap();
    assert_eq!((status.role, status.target_version, status.followers.len()), (Role::Leader, 3, 2));
    assert!(status.followers.iter().all(|follower| follower.active && follower.matched == status.last_index));
    // Any one of them may be missing.
    cluster.off = vec![1];
    cluster.run(LONG);
    assert_ne!(cluster.commit_turns(2), 1);
}

#[test]
fn a_lost_disk_is_replaced_by_another_replica() {
    let mut cluster = three_voters();
    let mut rng = Rng::new(1);
    cluster.at(3).crash(&mut rng);
    cluster.at(3).lose_disk();
    cluster.at(3).config.generation_min = 5;
    cluster.at(3).start();
    cluster.run(20);
    assert_eq!(cluster.role(3), None, "messages to the lost replica create no new one");
    assert!(cluster.at(3).engine.as_ref().unwrap().dropped_messages() > 0);
    cluster.target(&[1, 2, 3], &target(3, &[ONE, TWO, (3, 5)], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["1 reached 3"]);
    assert_eq!(cluster.members(3).unwrap(), "[1.1, 2.2, 3.5] []");
    assert_eq!(cluster.at(3).applied_state[&SHARD], [1, 2, 3]);
}

#[test]
fn a_replica_that_missed_its_removal_is_dropped_and_stays_gone() {
    let mut cluster = three_voters();
    cluster.off = vec![3];
    cluster.target(&[1, 2, 4], &target(3, &[ONE, TWO, FOUR], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["1 reached 3"]);
    cluster.off.clear();
    cluster.run(LONG);
    assert_eq!(
        (cluster.take_outputs(), cluster.role(3)),
        (vec![], Some(Role::Candidate)),
        "the removed replica does not disturb the others"
    );
    cluster.drop_replica(3, replica(3, 9));
    cluster.run(1);
    assert_eq!(cluster.take_outputs(), [""; 0], "a newer replica is not dropped");
    cluster.drop_replica(3, replica(3, 3));
    cluster.run(1);
    assert_eq!((cluster.take_outputs(), cluster.role(3)), (vec!["3 dropped 3.3".to_owned()], None));
    assert_eq!(cluster.at(3).engine.as_ref().unwrap().first_needed(SHARD), None);
    cluster.restart(3);
    cluster.run(LONG);
    assert_eq!(cluster.role(3), None);
    // It returns as another replica.
    cluster.target(&[1, 2, 3, 4], &target(4, &[ONE, TWO, FOUR], &[(3, 6)]));
    cluster.run(LONG);
    assert_eq!((cluster.take_outputs(), cluster.role(3)), (vec!["1 reached 4".to_owned()], Some(Role::Learner)));
}

#[test]
fn a_newer_replica_ends_the_one_before_it() {
    let mut cluster = three_voters();
    // The directory has recorded that node 3 lost its disk, but it did not.
    cluster.target(&[1, 2, 3], &target(3, &[ONE, TWO, (3, 5)], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["3 dropped 3.3", "1 reached 3"]);
    assert_eq!(cluster.members(3).unwrap(), "[1.1, 2.2, 3.5] []");
    cluster.restart(3);
    cluster.run(3);
    assert_eq!(cluster.at(3).applied_state[&SHARD], [1, 2, 3]);
}

#[test]
fn an_old_target_is_ignored() {
    let mut cluster = three_voters();
    cluster.target(&[1, 2], &target(4, &[ONE, TWO, FOUR], &[]));
    cluster.run(LONG);
    // The next leader knows only an older target configuration.
    cluster.restart(2);
    cluster.restart(4);
    cluster.target(&[2, 4], &target(3, &[ONE, TWO, THREE], &[]));
    cluster.off = vec![1];
    cluster.run(LONG);
    let leader = cluster.commit_turns(1);
    assert_eq!(cluster.members(leader).unwrap(), "[1.1, 2.2, 4.4] []");
    assert!(!cluster.take_outputs().contains(&format!("{leader} reached 3")));
}

#[test]
fn a_target_without_changes_outranks_older_ones() {
    let mut cluster = Cluster::founded(2);
    cluster.target(&[1], &target(3, &[ONE], &[]));
    cluster.run(3);
    assert_eq!(cluster.take_outputs(), ["1 reached 3"]);
    cluster.restart(1);
    cluster.target(&[1], &target(2, &[ONE], &[TWO]));
    cluster.run(LONG);
    assert_eq!((cluster.members(1).unwrap().as_str(), cluster.role(2)), ("[1.1] []", None));
}

#[test]
fn a_leader_outside_the_target_transfers_leadership_and_leaves() {
    let mut cluster = three_voters();
    cluster.target(&[1, 2, 3, 4], &target(3, &[TWO, THREE, FOUR], &[]));
    cluster.run(LONG);
    let leader = cluster.commit_turns(2);
    assert_eq!(cluster.take_outputs(), [format!("{leader} leads"), format!("{leader} reached 3")]);
    assert_eq!(cluster.members(leader).unwrap(), "[2.2, 3.3, 4.4] []");
    // Until the directory records that the target configuration is reached, its vote may be needed.
    assert_eq!(cluster.role(1), Some(Role::Retired));
    cluster.drop_replica(1, replica(1, 1));
    cluster.run(1);
    assert_eq!((cluster.take_outputs(), cluster.role(1)), (vec!["1 dropped 1.1".to_owned()], None));
}

#[test]
fn a_dead_joiner_only_delays_the_move_and_can_be_exchanged() {
    let mut cluster = three_voters();
    cluster.off = vec![3, 4];
    cluster.target(&[1, 2], &target(3, &[ONE, TWO, FOUR], &[]));
    cluster.run(LONG);
    cluster.commit_turns(2);
    assert_eq!(cluster.members(1).unwrap(), "[1.1, 2.2, 3.3] [4.4]");
    cluster.off = vec![4];
    cluster.target(&[1, 2, 3], &target(4, &[ONE, TWO, THREE], &[]));
    cluster.run(LONG);
    assert_eq!(cluster.members(1).unwrap(), "[1.1, 2.2, 3.3] []");
    assert_eq!(cluster.take_outputs(), ["1 reached 4"]);
}

#[test]
fn three_voters_become_one() {
    let mut cluster = three_voters();
    cluster.target(&[1, 2, 3], &target(3, &[TWO], &[THREE]));
    cluster.run(LONG);
    assert_eq!(cluster.commit_turns(1), 2);
    assert_eq!(cluster.take_outputs(), ["2 leads", "2 reached 3"]);
    assert_eq!(cluster.members(3).unwrap(), "[2.2] [3.3]");
}

#[test]
fn the_preferred_leader_leads_once_it_can() {
    let mut cluster = three_voters();
    let preferring = TargetConfig { leader: Some(replica(3, 3)), ..target(3, &[ONE, TWO, THREE], &[]) };
    cluster.off = vec![3];
    cluster.run(20);
    cluster.target(&[1, 2, 3], &preferring);
    cluster.run(LONG);
    assert_eq!((cluster.take_outputs(), cluster.commit_turns(1)), (vec!["1 reached 3".to_owned()], 1));
    cluster.off.clear();
    cluster.run(LONG);
    assert_eq!(cluster.take_outputs(), ["3 leads", "3 reached 3"]);
    cluster.run(10 * LONG);
    assert_eq!(cluster.take_outputs(), [""; 0], "leadership stays there");
}

#[test]
fn a_node_that_avoids_leadership_transfers_it_once() {
    let mut cluster = three_voters();
    let preferring = TargetConfig { leader: Some(replica(1, 1)), ..target(3, &[ONE, TWO, THREE], &[]) };
    cluster.target(&[1, 2, 3], &preferring);
    cluster.run(LONG);
    cluster.take_outputs();
    assert_eq!(cluster.leader(), Some(1));
    for node in [1, 2, 3] {
        cluster.at(node).inbox.push(Input::AvoidLeadership { node: 1, avoid: true });
    }
    cluster.run(20 * LONG);
    let leader = cluster.commit_turns(2);
    assert_ne!(leader, 1);
    // Leadership is announced once, because the leader does not try to transfer it to a preferred leader that avoids it.
    assert_eq!(cluster.take_outputs(), [format!("{leader} leads"), format!("{leader} reached 3")]);
    for node in [1, 2, 3] {
        cluster.at(node).inbox.push(Input::AvoidLeadership { node: 1, avoid: false });
    }
    cluster.run(2 * LONG);
    assert_eq!(cluster.take_outputs(), ["1 leads", "1 reached 3"]);
    // A single voter leads all the same, because a leader that avoids leadership is better than none.
    cluster.at(1).inbox.push(Input::AvoidLeadership { node: 1, avoid: true });
    cluster.off = vec![2];
    cluster.at(3).inbox.push(Input::AvoidLeadership { node: 3, avoid: true });
    cluster.at(1).inbox.push(Input::AvoidLeadership { node: 3, avoid: true });
    cluster.run(2 * LONG);
    cluster.commit_turns(1);
}

#[test]
fn an_idle_cluster_with_targets_writes_nothing() {
    let mut cluster = three_voters();
    let writes: Vec<_> = cluster.members.iter().map(|member| member.disk.writes()).collect();
    cluster.run(LONG);
    assert_eq!(cluster.members.iter().map(|member| member.disk.writes()).collect::<Vec<_>>(), writes);
}
