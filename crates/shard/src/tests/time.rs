//! The time of a shard on three machines whose clocks are stopped, set and contradicted.

use super::{
    member::{Habit, Member, turn_of},
    network::Network,
    rng::Rng,
};
use crate::{ClockReading, Config, Input, NodeId, Now, Output, ShardTime};

const SHARD: u16 = 1;
const NOON_MS: u64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;

/// Three nodes that replicate one shard.
struct Cluster {
    members: Vec<Member>,
    off: Vec<NodeId>,
    rng: Rng,
    /// True time since noon. All monotonic clocks show it.
    since_ms: u64,
    /// The error of each wall clock.
    wrong_ms: [i64; 3],
    /// Nodes ask each other for the time.
    compares: bool,
    completions: u64,
    /// The terms that began: the leader, its time, and whether that was confirmed.
    terms: Vec<(NodeId, ShardTime, bool)>,
    /// Running time and distance of each entry, as the nodes applied it.
    stamps: Vec<(u64, i64)>,
}

impl Cluster {
    fn new() -> Cluster {
        let nodes = [1, 2, 3];
        let config = |node| Config::born(node, 5, SHARD, &nodes);
        let mut members: Vec<_> = nodes.iter().map(|node| Member::new(config(*node), Habit::Correct)).collect();
        members.iter_mut().for_each(Member::start);
        Cluster {
            members,
            off: Vec::new(),
            rng: Rng::new(5),
            since_ms: 1_000,
            wrong_ms: [0; 3],
            compares: true,
            completions: 0,
            terms: Vec::new(),
            stamps: Vec::new(),
        }
    }

    fn led() -> Cluster {
        let mut cluster = Cluster::new();
        cluster.run(30);
        cluster.sell();
        cluster
    }

    fn is_on(&self, node: NodeId) -> bool {
        !self.off.contains(&node)
    }

    fn now(&self, node: NodeId) -> Now {
        let wrong_ms = self.wrong_ms[usize::try_from(node - 1).unwrap()];
        Now { wall_ms: (NOON_MS + self.since_ms).saturating_add_signed(wrong_ms), mono_ms: self.since_ms }
    }

    fn true_ms(&self) -> u64 {
        NOON_MS + self.since_ms
    }

    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.since_ms += 100;
            for node in 1..=3 {
                let reads: Vec<_> = (1..=3).filter(|other| *other != node && self.is_on(*other)).collect();
                let reads = reads.into_iter().map(|other| {
                    let now = self.now(other);
                    let read = ClockReading { asked_ms: now.mono_ms, answered_ms: now.mono_ms, wall_ms: now.wall_ms };
                    Input::Clock { node: other, read }
                });
                let reads: Vec<_> = reads.filter(|_| self.compares).collect();
                if self.is_on(node) {
                    let inbox = &mut self.members[usize::try_from(node - 1).unwrap()].inbox;
                    inbox.extend(reads);
                    inbox.push(Input::Tick);
                }
            }
            while self.pass() {}
        }
    }

    fn pass(&mut self) -> bool {
        let mut sent = Vec::new();
        for place in 0..3 {
            let from = self.members[place].id();
            if !self.is_on(from) {
                continue;
            }
            let now = self.now(from);
            let outputs = self.members[place].work(now, None, &mut self.rng, |message| sent.push((from, message)));
            for output in outputs {
                match output {
                    Output::BecameLeader { shard: SHARD, time, confirmed, .. } => {
                        self.terms.push((from, time, confirmed))
                    }
                    Output::Apply { shard: SHARD, stamp, .. } => {
                        self.stamps.push((stamp.running_ms, stamp.distance_ms));
                    }
                    _ => {}
                }
            }
        }
        sent.retain(|(_, message)| self.is_on(message.to));
        let any = !sent.is_empty();
        for (from, message) in sent {
            let input = Input::Message { from, shard: message.shard, bytes: message.bytes };
            self.members[usize::try_from(message.to - 1).unwrap()].inbox.push(input);
        }
        any
    }

    fn leader(&self) -> Option<usize> {
        (0..3).find(|place| {
            let member = &self.members[*place];
            self.is_on(member.id()) && member.epochs.contains_key(&SHARD)
        })
    }

    /// Commits a turn. Returns its stamp.
    fn sell(&mut self) -> (u64, i64) {
        let leader = self.leader().expect("there is a leader");
        self.completions += 1;
        let member = &mut self.members[leader];
        let (completion, epoch) = (self.completions, member.epochs[&SHARD]);
        member.inbox.push(Input::Propose {
            shard: SHARD,
            epoch,
            events: turn_of(completion, 20),
            joint: None,
            completion,
        });
        while self.pass() {}
        *self.stamps.last().expect("it is applied")
    }

    /// Running time and true time less running time, as the leader has them.
    fn time(&self) -> (u64, u64) {
        let engine = self.members[self.leader().expect("there is a leader")].engine.as_ref().unwrap();
        let distance_ms = engine.group(SHARD).unwrap().distance_ms;
        let true_ms = engine.true_ms(SHARD).unwrap();
        (true_ms.saturating_add_signed(-distance_ms), true_ms)
    }

    /// All processes end, and start again after this long.
    fn stop_all(&mut self, for_ms: u64) {
        for member in &mut self.members {
            member.crash(&mut self.rng);
        }
        self.since_ms += for_ms;
        self.terms.clear();
        self.members.iter_mut().for_each(Member::start);
    }

    fn turn_off(&mut self, place: usize) {
        let id = self.members[place].id();
        self.off.push(id);
        self.members[place].crash(&mut self.rng);
    }

    fn turn_on(&mut self, place: usize) {
        let id = self.members[place].id();
        self.off.retain(|off| *off != id);
        self.members[place].start();
    }
}

#[test]
fn after_a_stop_of_all_nodes_the_first_stamp_is_true_time() {
    for for_ms in [90_000, 184_000, 7_200_000] {
        let mut cluster = Cluster::led();
        cluster.stop_all(for_ms);
        cluster.run(30);
        let (running_ms, distance_ms) = cluster.sell();
        assert_eq!((running_ms, distance_ms), (cluster.true_ms(), 0));
        assert!(cluster.terms.iter().all(|(_, time, confirmed)| *confirmed && time.base_ms > NOON_MS + for_ms));
    }
}

#[test]
fn a_term_waits_a_limited_time_for_the_clocks_of_a_majority() {
    let mut cluster = Cluster::led();
    cluster.compares = false;
    cluster.stop_all(90_000);
    cluster.run(15);
    assert_eq!(cluster.terms, [], "elected, but without known clocks");
    cluster.compares = true;
    cluster.run(1);
    assert!(matches!(cluster.terms[..], [(_, _, true)]), "{:?}", cluster.terms);
    cluster.compares = false;
    cluster.stop_all(90_000);
    cluster.run(40);
    assert!(matches!(cluster.terms[..], [(_, _, false)]), "{:?}", cluster.terms);
}

#[test]
fn a_new_leader_continues_running_time_despite_changed_clocks() {
    for set_ms in [0, HOUR_MS, -HOUR_MS] {
        let mut cluster = Cluster::led();
        cluster.run(10);
        let leader = cluster.leader().unwrap();
        cluster.turn_off(leader);
        cluster.wrong_ms = [set_ms; 3];
        cluster.run(30);
        let (running_ms, true_ms) = cluster.time();
        let truth = cluster.true_ms().saturating_add_signed(set_ms);
        assert!(running_ms.abs_diff(cluster.true_ms()) <= 200, "{running_ms} at {}", cluster.true_ms());
        assert!(true_ms.abs_diff(truth) <= 200, "{true_ms} at {truth}");
        assert!(cluster.stamps.is_sorted_by_key(|(running_ms, _)| *running_ms));
    }
}

#[test]
fn a_change_of_all_clocks_is_followed_at_once() {
    let mut cluster = Cluster::led();
    for set_ms in [HOUR_MS, -HOUR_MS, 0, 600] {
        cluster.wrong_ms = [set_ms; 3];
        cluster.run(2);
        let (running_ms, distance_ms) = cluster.sell();
        assert_eq!((running_ms, distance_ms), (cluster.true_ms(), set_ms));
        // The others know it as well.
        let distance = |member: &Member| member.engine.as_ref().unwrap().group(SHARD).unwrap().distance_ms;
        cluster.run(2);
        assert_eq!(cluster.members.iter().map(distance).collect::<Vec<_>>(), [set_ms; 3]);
    }
    cluster.wrong_ms[cluster.leader().unwrap()] = 9 * HOUR_MS;
    cluster.run(10);
    assert_eq!(cluster.sell().1, 600, "one clock alone is not followed");
}

#[test]
fn downtime_and_a_wrong_clock_are_distinguished() {
    // The clocks are an hour behind. Then all nodes are down for a while.
    let mut cluster = Cluster::led();
    cluster.wrong_ms = [-HOUR_MS; 3];
    cluster.run(2);
    cluster.stop_all(90_000);
    cluster.run(30);
    assert_eq!(cluster.sell(), (cluster.true_ms(), -HOUR_MS), "the distance does not change");
    // The clocks are corrected while the nodes run. Deadlines do not move.
    cluster.wrong_ms = [0; 3];
    cluster.run(2);
    assert_eq!(cluster.sell(), (cluster.true_ms(), 0));
}

#[test]
fn disagreeing_voters_use_the_earliest_clock_until_a_majority_agrees() {
    for (one, third_ms) in [(0, 0), (1, 0), (0, 10_000), (1, 10_000)] {
        let mut cluster = Cluster::led();
        cluster.turn_off(2);
        cluster.stop_all(90_000);
        cluster.members[2].crash(&mut cluster.rng);
        cluster.wrong_ms[one] = 10_000;
        cluster.run(40);
        assert!(matches!(cluster.terms[..], [(_, _, false)]), "{:?}", cluster.terms);
        assert_eq!(cluster.sell(), (cluster.true_ms(), 0), "the earlier of the two");
        cluster.wrong_ms[2] = third_ms;
        cluster.turn_on(2);
        cluster.run(40);
        let (running_ms, distance_ms) = cluster.sell();
        assert!(running_ms.abs_diff(cluster.true_ms()) <= 200 && distance_ms.abs_diff(third_ms) <= 200);
        let led = &cluster.members[cluster.leader().unwrap()];
        assert_eq!(led.engine.as_ref().unwrap().group(SHARD).unwrap().confirmed, Some(true));
    }
}

/// A node that has just started pauses for 20 s and then reads older messages of its leader. The other two are down meanwhile,
/// and one of them restarts. No node knows the running time.
#[test]
fn a_delayed_message_does_not_tell_the_time() {
    const PAUSE_MS: u64 = 20_000;
    let mut cluster = Cluster::led();
    let leader = cluster.leader().unwrap();
    let (paused, starts) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.turn_off(paused);
    cluster.turn_off(starts);
    cluster.turn_on(paused);
    // Its heartbeats are on their way.
    cluster.since_ms += 100;
    cluster.members[leader].inbox.extend([Input::Tick, Input::Tick]);
    cluster.pass();
    assert!(!cluster.members[paused].inbox.is_empty(), "a message waits");
    cluster.turn_off(leader);
    cluster.terms.clear();
    cluster.since_ms += PAUSE_MS;
    cluster.turn_on(starts);
    cluster.run(40);
    let late_ms = |time: &ShardTime| (cluster.true_ms() - time.at(cluster.since_ms)).cast_signed();
    assert!(matches!(&cluster.terms[..], [(_, time, true)] if late_ms(time).abs() <= 200), "{:?}", cluster.terms);
}

/// The leadership goes around 16 times, on a network in which messages take up to some milliseconds and among clocks that differ a
/// little.
///
/// Returns how much longer lives are after each change, in microseconds.
fn lives_longer_us() -> Vec<i64> {
    let mut all_longer_us = Vec::new();
    for (seed, delay_ms) in [(0, 1), (1, 1), (2, 1), (3, 12), (4, 12)] {
        let mut network = Network::new(seed, 3, (0, delay_ms));
        network.wrong_ms = vec![0, 40, -40];
        assert!(network.run(20_000_000, Network::is_led), "seed {seed}: no leaders");
        let (mut leader, began_us) = (network.leaders()[&SHARD].1, network.now_us + 1_000_000);
        network.run(began_us, |_| false);
        // Running time in microseconds, and its distance from true time.
        let times = |network: &mut Network, leader: NodeId| {
            network.work(leader);
            let engine = network.member(leader).engine.as_ref().unwrap();
            let distance_ms = engine.group(SHARD).unwrap().distance_ms;
            let running_ms = engine.true_ms(SHARD).unwrap().saturating_add_signed(-distance_ms);
            (1_000 * running_ms.cast_signed(), distance_ms)
        };
        let (running_us, told_distance_ms) = times(&mut network, leader);
        for change in 0..16 {
            let to = leader % 3 + 1;
            network.member(leader).inbox.push(Input::TransferLeader { shard: SHARD, to });
            network.work(leader);
            let leads = |network: &Network| network.leaders().get(&SHARD).is_some_and(|(_, leads)| *leads == to);
            assert!(network.run(network.now_us + 20_000_000, leads), "seed {seed}: {to} does not take over");
            network.run(network.now_us + 200_000, |_| false);
            leader = network.leaders()[&SHARD].1;
            let (now_us, distance_ms) = times(&mut network, leader);
            // A deadline is kept in running time.
            assert_eq!(distance_ms, told_distance_ms, "seed {seed}, change {change}: the told deadline moves");
            let longer_us = running_us + (network.now_us - began_us).cast_signed() - now_us;
            all_longer_us.push(longer_us);
        }
    }
    all_longer_us
}

/// Clocks are read in whole milliseconds, so a life may seem this much shorter, in microseconds.
const ROUNDING_US: i64 = 2_000;

#[test]
fn a_told_deadline_and_a_life_stay_the_same_when_the_leader_changes() {
    let longer_us = lives_longer_us();
    assert!(longer_us.iter().all(|longer_us| (-ROUNDING_US..=20_000).contains(longer_us)), "{longer_us:?}");
}

/// Tests the test.
#[cfg(feature = "planted")]
#[test]
fn a_reading_of_time_that_is_rounded_up_is_caught() {
    crate::planted::plant(Some("a reading of time that is rounded up"));
    let shortest_us = lives_longer_us().into_iter().min().unwrap();
    assert!(shortest_us < -3 * ROUNDING_US, "the bug shortens a life only by {} us", -shortest_us);
}
