//! A node with a clock an hour off: no hold ends early, no deadline moves back, and the node leads nothing. If all
//! clocks change together, nodes follow them.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Plan, SHARDS, Stage},
    common::{Answer, Asked, CartRecord, Encoding, Port, Rng, TIMEOUT, eventually},
};

/// In seconds.
const HOUR: i64 = 3_600;
/// How long a hold lives, in milliseconds.
const LIFE_MS: i64 = 1_800_000;
/// Clocks that are this far apart agree, in milliseconds.
const AGREE_MS: u64 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_is_wrong_by_an_hour() {
    let plan = Plan { nodes: 3, places: 3, faults: false, clocks: true, gateway: false };
    let mut stage = Stage::new(Rng::of_test("a_clock_is_wrong_by_an_hour"), plan).await;
    for (name, seconds) in [("a clock is an hour ahead", HOUR), ("a clock is an hour behind", -HOUR)] {
        // A hold lives for half an hour, so a shard that trusted the clock would end all of them.
        let held = holds(&mut stage).await;
        stage.record.carts.extend(held.iter().cloned());
        let before = deadlines(&stage.cluster, &held).await;
        stage
            .story(name, async |cluster, buyers, _| {
                let wrong = cluster.a_leader().await;
                cluster.set_clock(wrong, seconds);
                eventually("the node with the wrong clock leads nothing", async || {
                    let leaders = cluster.leaders().await;
                    (leaders.len() == 1 + SHARDS && !leaders.values().any(|leader| *leader == wrong)).then_some(())
                })
                .await;
                assert!(
                    cluster.stderr(wrong).contains("clock"),
                    "the log does not mention the clock: {}",
                    cluster.stderr(wrong)
                );
                buyers.orders(10).await;
                // It restarts with the wrong time.
                cluster.kill(wrong);
                cluster.start_node(wrong).await;
                cluster.ready().await;
                buyers.orders(10).await;
                check_deadlines(cluster, &held, &before).await;
                // The other nodes are killed one by one, so it may have to lead.
                for other in cluster.running().into_iter().filter(|id| *id != wrong) {
                    cluster.kill(other);
                    buyers.orders(10).await;
                    cluster.start_node(other).await;
                    cluster.ready().await;
                }
                cluster.set_clock(wrong, 0);
            })
            .await;
        check_deadlines(&stage.cluster, &held, &before).await;
    }
    stage.check_everything().await;
}

/// All clocks change together, while nodes run and while none runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_clocks_are_set_together() {
    let plan = Plan { nodes: 3, places: 3, faults: false, clocks: true, gateway: false };
    let mut stage = Stage::new(Rng::of_test("all_clocks_are_set_together"), plan).await;
    for seconds in [HOUR, -HOUR, 0] {
        // A hold lives for half an hour, so a shift of an hour would expire it.
        let held = holds(&mut stage).await;
        stage.record.carts.extend(held.iter().cloned());
        stage
            .story("all clocks are set together", async |cluster, buyers, _| {
                cluster.running().into_iter().for_each(|id| cluster.set_clock(id, seconds));
                check_new_deadlines(cluster, &held, seconds).await;
                buyers.orders(10).await;
            })
            .await;
        eventually("every shard is led", async || (stage.cluster.leaders().await.len() == 1 + SHARDS).then_some(()))
            .await;
    }
    // Two minutes pass while all nodes are down. Deadlines do not move.
    let held = holds(&mut stage).await;
    stage.record.carts.extend(held.iter().cloned());
    let before = deadlines(&stage.cluster, &held).await;
    let nodes = stage.cluster.running();
    nodes.iter().for_each(|id| stage.cluster.kill(*id));
    nodes.iter().for_each(|id| stage.cluster.set_clock(*id, 120));
    stage.cluster.start_nodes(&nodes).await;
    for (token, (state, deadline)) in deadlines(&stage.cluster, &held).await {
        let (_, promised) = &before[&token];
        assert!(
            state == "active" && deadline.abs_diff(*promised) <= AGREE_MS,
            "{state} until {deadline}, promised {promised}"
        );
    }
    let later = holds(&mut stage).await;
    stage.record.carts.extend(later.iter().cloned());
    check_new_deadlines(&stage.cluster, &later, 120).await;
    stage.check_everything().await;
}

/// New carts have a deadline half an hour after the common clock.
async fn check_new_deadlines(cluster: &Cluster, held: &[CartRecord], seconds: i64) {
    eventually("deadlines follow the common clock", async || {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        let until_ms = now_ms + 1_000 * seconds + LIFE_MS;
        let found = deadlines(cluster, held).await;
        let fits = |(state, deadline): &(String, u64)| {
            state == "active" && (until_ms - 120_000..=until_ms + AGREE_MS as i64).contains(&(*deadline as i64))
        };
        found.values().all(fits).then_some(())
    })
    .await;
}

/// Holds seats in new carts, which are then abandoned.
async fn holds(stage: &mut Stage) -> Vec<CartRecord> {
    let held = stage.play(1, (10, 2), Some(LIFE_MS as u64)).await;
    let failover_client = stage.cluster.failover_client(stage.rng.next());
    let mut carts = Vec::new();
    for row in 0..held.rows {
        let mut cart = CartRecord::new(stage.rng.token());
        let body = json!({"token": cart.token, "session": held.session(), "seats": [[row, 0]]});
        let asked = Asked::new("cart.hold_seats", "held".to_owned(), body);
        let answer = failover_client.ask_within(asked.op, &asked.rid, asked.body.clone(), TIMEOUT).await;
        assert!(matches!(answer, Answer::Ok(..)), "{answer:?}");
        cart.note(asked, &answer);
        carts.push(cart);
    }
    carts
}

/// Every cart is still there, and no deadline has moved back.
async fn check_deadlines(cluster: &Cluster, held: &[CartRecord], before: &BTreeMap<String, (String, u64)>) {
    for (token, (state, deadline)) in deadlines(cluster, held).await {
        let (_, promised) = &before[&token];
        assert!(
            state == "active" && deadline >= *promised,
            "a hold ended early: {state} until {deadline}, promised {promised}"
        );
    }
}

/// The state of each cart, and its deadline in milliseconds.
async fn deadlines(cluster: &Cluster, carts: &[CartRecord]) -> BTreeMap<String, (String, u64)> {
    cluster.ready().await;
    let port = Port::connect(cluster.client(1), Encoding::MsgPack).await;
    let mut deadlines = BTreeMap::new();
    for cart in carts {
        let body: Value = port.read("cart.get", json!({"token": cart.token})).await.ok();
        let state = body["state"].as_str().expect("a state").to_owned();
        deadlines.insert(cart.token.clone(), (state, body["deadline"].as_u64().expect("a deadline")));
    }
    deadlines
}
