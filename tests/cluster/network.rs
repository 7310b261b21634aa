//! Faults of the links between nodes.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    THREE,
    cluster::{
        Cluster,
        LinkFault::{self, Cut, Silent, Slow, Trickle},
        Stage, leaders_are_stable, refuses_in_time, sustain_fault,
    },
    common::{Encoding, Port, Rng, TIMEOUT, eventually, http},
};

/// A byte is changed again after this time, until a receiver names it.
const CHANGE_AGAIN: Duration = Duration::from_secs(2);

/// A cluster of three: the leader of most shards, and the two others.
async fn first_of_three(cluster: &Cluster) -> (u64, u64, u64) {
    let leader = cluster.a_leader().await;
    let others: Vec<u64> = cluster.running().into_iter().filter(|id| *id != leader).collect();
    (leader, others[0], others[1])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_cannot_reach_each_other() {
    let mut stage = Stage::new(Rng::of_test("nodes_cannot_reach_each_other"), THREE).await;
    stage
        .story("a leader receives but cannot send", async |cluster, buyers, _| {
            let (leader, one, two) = first_of_three(cluster).await;
            cluster.links.set(leader, one, Silent);
            cluster.links.set(leader, two, Silent);
            sustain_fault(buyers).await;
        })
        .await;
    stage
        .story("a leader sends but cannot receive", async |cluster, buyers, _| {
            let (leader, one, two) = first_of_three(cluster).await;
            cluster.links.set(one, leader, Silent);
            cluster.links.set(two, leader, Silent);
            sustain_fault(buyers).await;
        })
        .await;
    stage
        .story("a leader is isolated", async |cluster, buyers, rng| {
            let (leader, ..) = first_of_three(cluster).await;
            cluster.links.around(leader, Silent);
            sustain_fault(buyers).await;
            refuses_in_time(cluster, leader, rng.token()).await;
        })
        .await;
    stage
        .story("every node is isolated", async |cluster, _, rng| {
            cluster.links.everywhere(Cut);
            for id in cluster.running() {
                // The leader stays leader until it notices. From then on no node grants anything.
                eventually("an isolated node leads nothing", async || {
                    let leaders = cluster.leaders().await;
                    (!leaders.values().any(|leader| *leader == id)).then_some(())
                })
                .await;
                refuses_in_time(cluster, id, rng.token()).await;
            }
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_an_isolated_node_learn_that_data_is_stale() {
    let mut stage = Stage::new(Rng::of_test("watchers_of_an_isolated_node_learn_that_data_is_stale"), THREE).await;
    let theatre = stage.play(2, (3, 4), None).await;
    for encoding in Encoding::BOTH {
        let (leader, one, _) = first_of_three(&stage.cluster).await;
        for alone in [leader, one] {
            let port = Port::connect(stage.cluster.client(alone), encoding).await;
            let mut feeds = Vec::new();
            for session in &theatre.sessions {
                let watched = port.read("watch", json!({"entity": format!("session/{session}")})).await;
                feeds.push(watched.ok()["feed"].clone());
            }
            let notified = async |is_stale: fn(u64) -> bool| {
                let mut waiting = feeds.clone();
                while !waiting.is_empty() {
                    let frame = port.next_other().await.expect("it stays connected");
                    if frame["stale_ms"].as_u64().is_some_and(is_stale) {
                        waiting.retain(|feed| *feed != frame["feed"]);
                    }
                }
            };
            stage.cluster.links.around(alone, Silent);
            timeout(TIMEOUT, notified(|ms| ms >= 2_000)).await.expect("watchers learn that data is stale");
            // A new request is answered at once.
            let late = Port::connect(stage.cluster.client(alone), encoding).await;
            let watched = late.read("watch", json!({"entity": format!("session/{}", theatre.sessions[0])})).await;
            let feed = watched.ok()["feed"].clone();
            let frames = [late.next_other().await, late.next_other().await].map(|frame| frame.expect("a frame"));
            assert!(frames.iter().all(|frame| frame["feed"] == feed), "{frames:?}");
            assert!(frames[0].get("snapshot").is_some() && frames[1]["stale_ms"].as_u64() > Some(2_000), "{frames:?}");
            stage.cluster.links.heal();
            timeout(TIMEOUT, notified(|ms| ms == 0)).await.expect("watchers learn that data is fresh again");
            stage.cluster.ready().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn two_of_three_do_not_reach_each_other() {
    let mut stage = Stage::new(Rng::of_test("two_of_three_do_not_reach_each_other"), THREE).await;
    stage
        .story("a bridge: two of three do not reach each other", async |cluster, buyers, _| {
            let (leader, one, two) = first_of_three(cluster).await;
            for between in [(leader, one), (one, two)] {
                cluster.links.both(between.0, between.1, Silent);
                sustain_fault(buyers).await;
                leaders_are_stable(cluster).await;
                cluster.links.both(between.0, between.1, LinkFault::None);
                cluster.ready().await;
            }
        })
        .await;
    stage.check_everything().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_bad() {
    let mut stage = Stage::new(Rng::of_test("links_are_bad"), THREE).await;
    stage
        .story("a link breaks in the midst of frames", async |cluster, buyers, rng| {
            for _ in 0..3 {
                let (leader, one, two) = first_of_three(cluster).await;
                for (from, to) in [(leader, one), (two, leader)] {
                    let before = cluster.links.torn(from, to);
                    cluster.links.tear(from, to, 1 + rng.below(200) as u64);
                    eventually("a connection is torn", async || (cluster.links.torn(from, to) > before).then_some(()))
                        .await;
                }
                buyers.orders(5).await;
            }
        })
        .await;
    stage
        .story("a byte is corrupted in transit", async |cluster, buyers, _| {
            for id in cluster.running() {
                for other in cluster.running().into_iter().filter(|other| *other != id) {
                    cluster.links.corrupt(id, other);
                    eventually("a byte is changed", async || (cluster.links.corrupted(id, other) > 0).then_some(()))
                        .await;
                }
            }
            // Every receiver detects and logs it. A byte of a handshake is refused in other words, and one behind it is lost when
            // the other side closes the connection, so bytes are changed until a frame has one.
            for id in cluster.running() {
                let others: Vec<_> = cluster.running().into_iter().filter(|other| *other != id).collect();
                let (mut changes, mut next) = (0, Instant::now() + CHANGE_AGAIN);
                eventually("the log names a corrupted frame", async || {
                    if Instant::now() >= next {
                        cluster.links.corrupt(others[changes % others.len()], id);
                        (changes, next) = (changes + 1, Instant::now() + CHANGE_AGAIN);
                    }
                    cluster.stderr(id).contains("what came is damaged").then_some(())
                })
                .await;
            }
            buyers.orders(10).await;
        })
        .await;
    stage.check_everything().await;
    // Damage is counted as well.
    for id in stage.cluster.running() {
        let (_, metrics) = http::get(stage.cluster.client(id), "/metrics").await;
        let damaged = metrics.lines().find_map(|line| line.strip_prefix("boxoffice_peer_frames_damaged_total "));
        assert!(damaged.is_some_and(|count| count != "0"), "node {id} counts no damaged frame: {damaged:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `tests/run long` runs it"]
async fn links_are_half_open_and_slow() {
    let mut stage = Stage::new(Rng::of_test("links_are_half_open_and_slow"), THREE).await;
    stage
        .story("a link is half-open", async |cluster, buyers, _| {
            let (leader, one, _) = first_of_three(cluster).await;
            // The other side vanishes without notice. There is only silence.
            cluster.links.both(leader, one, Silent);
            cluster.kill(one);
            sustain_fault(buyers).await;
            cluster.links.heal();
            cluster.start_node(one).await;
            buyers.orders(5).await;
        })
        .await;
    stage
        .story("bytes arrive one by one", async |cluster, buyers, _| {
            let (leader, one, _) = first_of_three(cluster).await;
            cluster.links.both(leader, one, Trickle);
            sustain_fault(buyers).await;
        })
        .await;
    stage
        .story("a link takes five seconds", async |cluster, buyers, _| {
            let (leader, one, _) = first_of_three(cluster).await;
            cluster.links.both(leader, one, Slow(Duration::from_secs(5)));
            sustain_fault(buyers).await;
            // As long as the first slow bytes take.
            tokio::time::sleep(Duration::from_secs(6)).await;
            buyers.orders(5).await;
        })
        .await;
    stage.check_everything().await;
}
