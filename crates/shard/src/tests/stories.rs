//! One engine step by step: its inputs and outputs.

use bytes::Bytes;

use super::disk::Disk;
use crate::{
    Config, Engine, Epoch, Input, Now, Output, Record, RejectReason, ReplicaId, RestoreError, ShardId, ShardTime,
};

/// A single node, new or after a restart.
struct Node {
    config: Config,
    engine: Engine<&'static str>,
    disk: Disk,
    now: Now,
}

impl Node {
    fn new() -> Node {
        Node::with(|_| ())
    }

    fn with(adjust: impl FnOnce(&mut Config)) -> Node {
        let mut config = Config::founding(1, 5, 2);
        adjust(&mut config);
        Node {
            engine: Engine::restore(config.clone(), [], []).unwrap(),
            config,
            disk: Disk::default(),
            now: Now { wall_ms: 5_000, mono_ms: 70 },
        }
    }

    /// One pass, which must be enough. Returns its outputs as text.
    fn pass(&mut self, inputs: Vec<Input<&'static str>>) -> Vec<String> {
        let write = self.engine.step(self.now, inputs);
        assert!(write.messages.is_empty(), "a node that is alone sends nothing");
        if write.must_sync() {
            self.disk.append(&write);
            self.disk.sync();
        }
        let mut out = Vec::new();
        self.engine.persisted(&mut out);
        out.iter().map(draw).collect()
    }

    fn only_pass(&mut self, inputs: Vec<Input<&'static str>>) -> Vec<String> {
        let drawn = self.pass(inputs);
        assert!(!self.engine.has_ready(), "one pass is enough: {drawn:?}");
        drawn
    }

    fn restart(&mut self) {
        let metas = self.disk.snapshots().map(|(meta, _)| meta.clone());
        self.engine = Engine::restore(self.config.clone(), metas, self.disk.records()).unwrap();
    }
}

fn draw(output: &Output<&'static str>) -> String {
    match output {
        Output::Apply { shard, position, stamp, turns, .. } => {
            let turns: Vec<_> = turns.iter().map(String::from_utf8_lossy).collect();
            let (index, term) = (position.index, position.term);
            let (running_ms, distance_ms) = (stamp.running_ms, stamp.distance_ms);
            match (distance_ms, turns.is_empty()) {
                (0, false) => format!("{shard}: apply {index}.{term} at {running_ms}: {}", turns.join(", ")),
                _ => format!("{shard}: apply {index}.{term} at {running_ms}{distance_ms:+}: {}", turns.join(", ")),
            }
        }
        Output::Completed { completion, shard, index } => format!("{shard}: {completion} done at {index}"),
        Output::ProposalDropped { completion, shard, why } => format!("{shard}: {completion} lost, {why:?}"),
        Output::BecameLeader { shard, epoch, time, confirmed: true } => {
            let ShardTime { base_ms, distance_ms, .. } = time;
            let away = if *distance_ms == 0 { String::new() } else { format!("{distance_ms:+}") };
            format!("{shard}: lead {} from {base_ms}{away}", epoch.0)
        }
        Output::BecameFollower { shard, leader, term } => format!("{shard}: follow {leader:?} in {term}"),
        Output::SnapshotDue { meta } => {
            format!("{}: snapshot due at {}", meta.shard, meta.position.index)
        }
        other => format!("{other:?}"),
    }
}

fn propose(shard: ShardId, epoch: u64, events: &str, completion: &'static str) -> Input<&'static str> {
    Input::Propose { shard, epoch: Epoch(epoch), events: events.as_bytes().to_vec(), joint: None, completion }
}

fn read(shard: ShardId, epoch: u64, completion: &'static str) -> Input<&'static str> {
    Input::Read { shard, epoch: Epoch(epoch), completion }
}

#[test]
fn a_single_node_leads_all_shards_after_one_pass() {
    let mut node = Node::new();
    assert!(node.engine.has_ready());
    let expected = ["0: lead 1 from 5000", "1: lead 1 from 5000", "2: lead 1 from 5000"];
    assert_eq!(node.only_pass(vec![]), expected);
    assert_eq!(node.disk.writes(), 1);
    assert_eq!((node.engine.epoch(2), node.engine.leader(2)), (Some(Epoch(1)), Some(1)));
    assert_eq!((node.engine.epoch(3), node.engine.leader(3)), (None, None));
}

#[test]
fn a_pass_makes_one_entry_for_each_shard_and_one_write() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    node.now.mono_ms += 30;
    let out = node.only_pass(vec![
        propose(1, 1, "hold a3", "ann"),
        propose(2, 1, "open", "ben"),
        read(1, 1, "cid"),
        propose(1, 1, "hold a4", "dan"),
    ]);
    let expected = [
        "1: apply 2.1 at 5030: hold a3, hold a4",
        "1: ann done at 2",
        "1: dan done at 2",
        "1: cid done at 2",
        "2: apply 2.1 at 5030: open",
        "2: ben done at 2",
    ];
    assert_eq!(out, expected);
    assert_eq!(node.disk.writes(), 2);
}

#[test]
fn a_read_alone_writes_nothing() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    assert_eq!(node.only_pass(vec![read(1, 1, "ann")]), ["1: ann done at 1"]);
    assert_eq!(node.disk.writes(), 1);
}

#[test]
fn a_tick_of_idle_shards_does_nothing() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    for _ in 0..50 {
        assert_eq!(node.only_pass(vec![Input::Tick]), [""; 0]);
    }
    assert_eq!(node.disk.writes(), 1);
}

#[test]
fn turns_that_do_not_fit_go_into_a_second_entry() {
    let mut node = Node::with(|config| config.entry_bytes = 15);
    node.only_pass(vec![]);
    let turns = ["hold a3", "hold a4", "a turn longer than an entry"];
    let out = node.only_pass(turns.map(|turn| propose(1, 1, turn, "ann")).into());
    let expected = [
        "1: apply 2.1 at 5000: hold a3",
        "1: ann done at 2",
        "1: apply 3.1 at 5000: hold a4",
        "1: ann done at 3",
        "1: apply 4.1 at 5000: a turn longer than an entry",
        "1: ann done at 4",
    ];
    assert_eq!(out, expected);
    assert_eq!(node.disk.writes(), 2);
}

#[test]
fn an_epoch_other_than_the_current_one_is_refused() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    let out = node.only_pass(vec![
        propose(1, 2, "hold a3", "ann"),
        read(1, 0, "ben"),
        propose(9, 1, "hold a3", "cid"),
        read(9, 1, "dan"),
    ]);
    let expected =
        ["1: ann lost, NotLeader", "1: ben lost, NotLeader", "9: cid lost, NotLeader", "9: dan lost, NotLeader"];
    assert_eq!(out, expected);
}

#[test]
fn turns_after_a_refused_one_are_dropped_and_a_new_epoch_begins() {
    let mut node = Node::with(|config| config.turn_bytes_max = 10);
    node.only_pass(vec![]);
    let out = node.pass(vec![
        propose(1, 1, "hold a3", "ann"),
        read(1, 1, "ben"),
        propose(1, 1, "much too big", "cid"),
        propose(1, 1, "hold a4", "dan"),
        read(1, 1, "eve"),
    ]);
    let expected = [
        "1: cid lost, Refused",
        "1: dan lost, NotLeader",
        "1: eve lost, NotLeader",
        "1: apply 2.1 at 5000: hold a3",
        "1: ann done at 2",
        "1: ben done at 2",
        "1: follow None in 1",
    ];
    assert_eq!(out, expected);
    assert_eq!(node.engine.epoch(1), None);
    assert_eq!(node.only_pass(vec![]), ["1: lead 2 from 5000"]);
    let out = node.only_pass(vec![propose(1, 2, "hold a4", "dan")]);
    assert_eq!(out, ["1: apply 4.2 at 5000: hold a4", "1: dan done at 4"]);
}

#[test]
fn a_refusal_by_raft_ends_the_epoch_too() {
    let mut node = Node::with(|config| {
        config.entry_bytes = 20;
        config.uncommitted_bytes_max = 52;
    });
    node.only_pass(vec![]);
    let turns = ["ann", "ben", "cid", "dan"].map(|completion| propose(1, 1, "hold a3 a4 a5", completion));
    let out = node.pass(turns.into_iter().chain([read(1, 1, "eve")]).collect());
    let expected = [
        "1: cid lost, Refused",
        "1: dan lost, Refused",
        "1: eve lost, Refused",
        "1: apply 2.1 at 5000: hold a3 a4 a5",
        "1: ann done at 2",
        "1: apply 3.1 at 5000: hold a3 a4 a5",
        "1: ben done at 3",
        "1: follow None in 1",
    ];
    assert_eq!(out, expected);
    assert_eq!(node.only_pass(vec![]), ["1: lead 2 from 5000"]);
}

#[test]
fn a_restart_applies_the_log_again_and_leads_in_a_new_epoch() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    node.only_pass(vec![propose(1, 1, "hold a3", "ann")]);
    // A wall clock that was set back does not affect the shard's running time.
    node.now = Now { wall_ms: 1_000, mono_ms: 0 };
    node.restart();
    let expected =
        ["0: lead 2 from 1000", "1: apply 2.1 at 5000: hold a3", "1: lead 2 from 5000-4000", "2: lead 2 from 1000"];
    assert_eq!(node.pass(vec![]), expected);
    assert_eq!(node.only_pass(vec![]), ["1: apply 4.2 at 5000-4000: "], "proposals follow the distance");
}

#[test]
fn running_time_does_not_follow_the_wall_clock_and_the_distance_does() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    let stamps = [(9_000_000, 80), (10, 90), (10, 60)].map(|(wall_ms, mono_ms)| {
        node.now = Now { wall_ms, mono_ms };
        node.only_pass(vec![propose(1, 1, "x", "ann")])[0].clone()
    });
    let expected = ["apply 2.1 at 5010", "apply 3.1 at 5020", "apply 4.1 at 5020"];
    assert_eq!(stamps, expected.map(|stamp| format!("1: {stamp}: x")));
    let time = ShardTime { base_ms: 5_000, mono_base_ms: 70, distance_ms: 0 };
    assert_eq!((time.at(80), time.at(90)), (5_010, 5_020));
    node.now = Now { wall_ms: 9_000_000, mono_ms: 100 };
    let expected =
        ["0: apply 2.1 at 5030+8994970: ", "1: apply 5.1 at 5030+8994970: ", "2: apply 2.1 at 5030+8994970: "];
    assert_eq!(node.only_pass(vec![Input::Tick]), expected);
    assert_eq!(node.only_pass(vec![Input::Tick]), [""; 0], "the distance is written once");
}

#[test]
fn a_snapshot_shortens_the_log_and_the_restart() {
    let mut node = Node::with(|config| config.snapshot_entries = 4);
    node.only_pass(vec![]);
    let mut drawn = Vec::new();
    for _ in 0..3 {
        drawn = node.only_pass(vec![propose(1, 1, "hold a3", "ann")]);
    }
    assert_eq!(drawn.last().unwrap(), "1: snapshot due at 4");
    assert_eq!(node.engine.first_needed(1), Some(1));
    let meta = node.engine.snapshot_meta(1).unwrap().clone();
    assert_eq!((meta.position.index, meta.epoch, meta.sequence, meta.stamp_ms), (4, Epoch(1), 3, 5_000));
    node.disk.save(meta, Bytes::new());
    node.only_pass(vec![Input::SnapshotSaved { shard: 1, replica: ReplicaId::new(1, 1), index: 4 }]);
    assert_eq!(node.engine.first_needed(1), Some(5));
    node.only_pass(vec![propose(1, 1, "hold a4", "ben")]);
    node.restart();
    let out = node.only_pass(vec![]);
    assert_eq!(out[1..3], ["1: apply 5.1 at 5000: hold a4", "1: lead 2 from 5000"]);
}

#[test]
fn a_checkpoint_alone_restores_terms_and_snapshots() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    let checkpoint = node.engine.checkpoint();
    let state = Record::State { shard: 1, term: 1, vote: Some(ReplicaId::new(1, 1)), commit: 1 };
    assert!(checkpoint.contains(&state), "{checkpoint:?}");
    assert_eq!(checkpoint.len(), 9);
    let nothing = Engine::<()>::restore(node.config.clone(), [], checkpoint.clone());
    assert_eq!(nothing.err(), Some(RestoreError::CommittedMissing { shard: 0, commit: 1, found: 0 }));
    let snapshots: Vec<_> = (0..3).map(|shard| node.engine.snapshot_meta(shard).unwrap().clone()).collect();
    let mut again = Engine::<()>::restore(node.config.clone(), snapshots, checkpoint).unwrap();
    again.step(node.now, []);
    let mut out = Vec::new();
    again.persisted(&mut out);
    assert_eq!(again.epoch(1), Some(Epoch(2)), "a term is never used twice");
}

#[test]
fn a_gap_in_the_sequence_stops_the_node() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    node.only_pass(vec![propose(1, 1, "hold a3", "ann")]);
    node.only_pass(vec![propose(1, 1, "hold a4", "ben")]);
    let twist = |record: Record| match record {
        Record::Entry { shard: 1, position, kind, payload } if position.index == 3 => {
            let mut payload = payload.to_vec();
            // The version, the count, the epoch, then the sequence, each a byte.
            assert_eq!(payload[3], 2);
            payload[3] = 3;
            let payload = payload.into();
            Record::Entry { shard: 1, position, kind, payload }
        }
        other => other,
    };
    let records = node.disk.records().into_iter().map(twist);
    let mut engine = Engine::<()>::restore(node.config.clone(), [], records).unwrap();
    engine.step(node.now, []);
    let mut out = Vec::new();
    engine.persisted(&mut out);
    let Some(Output::Fatal { shard: 1, why }) = out.last() else {
        panic!("{out:?}");
    };
    assert_eq!(why.to_string(), "entry 3 of epoch 1 follows entry 1 of epoch 1");
    assert!(!engine.has_ready());
    out.clear();
    assert!(!engine.step(node.now, [Input::Tick]).must_sync());
    engine.persisted(&mut out);
    assert_eq!(out, [], "no output after a broken invariant");
}

#[test]
fn a_malformed_or_misdirected_message_is_dropped_and_counted() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    let message = |shard, bytes: &'static [u8]| Input::Message { from: 2, shard, bytes: Bytes::from_static(bytes) };
    let out = node.only_pass(vec![message(1, b"\xff\xff"), message(1, b""), message(9, b"")]);
    assert_eq!(out, [""; 0]);
    assert_eq!(node.engine.dropped_messages(), 3);
}

#[test]
fn a_transfer_to_an_unknown_node_changes_nothing() {
    let mut node = Node::new();
    node.only_pass(vec![]);
    let out = node.only_pass(vec![
        Input::TransferLeader { shard: 1, to: 1 },
        Input::TransferLeader { shard: 1, to: 8 },
        propose(1, 1, "hold a3", "ann"),
    ]);
    assert_eq!(out, ["1: apply 2.1 at 5000: hold a3", "1: ann done at 2"]);
}

#[test]
#[should_panic(expected = "a pass was begun inside a pass")]
fn a_pass_has_two_halves() {
    let mut node = Node::new();
    node.engine.step(node.now, []);
    node.engine.step(node.now, []);
}

#[test]
fn only_appended_proposals_have_an_unknown_outcome() {
    let unknown = [RejectReason::NotLeader, RejectReason::Refused, RejectReason::Ended].map(RejectReason::is_unknown);
    assert_eq!(unknown, [false, false, true]);
}
