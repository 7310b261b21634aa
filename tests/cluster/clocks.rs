//! A node whose clock is wrong by an hour: nobody's hold ends early, no deadline moves back, and the node does not lead.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Plan, SHARDS, Stage},
    common::{Answer, Asked, CartRecord, Dice, Encoding, PATIENCE, Port, eventually},
};

/// In seconds.
const HOUR: i64 = 3_600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_is_wrong_by_an_hour() {
    let plan = Plan { nodes: 3, places: 3, faults: false, clocks: true };
    let mut stage = Stage::new(Dice::of_test("a_clock_is_wrong_by_an_hour"), plan).await;
    for (name, seconds) in [("a clock is an hour ahead", HOUR), ("a clock is an hour behind", -HOUR)] {
        // Half an hour is what a hold lives, so that a shard that believed the clock would end them all.
        let held = holds(&mut stage).await;
        stage.record.carts.extend(held.iter().cloned());
        let before = deadlines(&stage.cluster, &held).await;
        stage
            .story(name, async |cluster, buyers, _| {
                let wrong = cluster.a_leader().await;
                cluster.set_clock(wrong, seconds);
                eventually("who has the wrong time leads nothing", async || {
                    let leaders = cluster.leaders().await;
                    (leaders.len() == 1 + SHARDS && !leaders.values().any(|leader| *leader == wrong)).then_some(())
                })
                .await;
                assert!(cluster.said(wrong).contains("clock"), "it does not say so: {}", cluster.said(wrong));
                buyers.orders(10).await;
                // It starts with the wrong time, and may have to lead: another node goes.
                cluster.kill(wrong);
                cluster.start_node(wrong).await;
                let other = cluster.running().into_iter().find(|id| *id != wrong).expect("another node");
                cluster.kill(other);
                buyers.orders(10).await;
                cluster.start_node(other).await;
                cluster.set_clock(wrong, 0);
            })
            .await;
        let after = deadlines(&stage.cluster, &held).await;
        for (token, (state, deadline)) in &after {
            let (_, told) = &before[token];
            assert!(state == "active" && deadline >= told, "a hold ended early: {state} until {deadline}, told {told}");
        }
    }
    stage.check_everything().await;
}

/// Carts that are held and never come back.
async fn holds(stage: &mut Stage) -> Vec<CartRecord> {
    let held = stage.play(1, (10, 2), None).await;
    let anywhere = stage.cluster.anywhere(stage.dice.next());
    let mut carts = Vec::new();
    for row in 0..held.rows {
        let mut cart = CartRecord::new(stage.dice.token());
        let body = json!({"token": cart.token, "session": held.session(), "seats": [[row, 0]]});
        let (op, rid) = ("cart.hold_seats", "held".to_owned());
        let answer = anywhere.ask_within(op, &rid, body.clone(), PATIENCE).await;
        assert!(matches!(answer, Answer::Ok(..)), "{answer:?}");
        cart.note(Asked { op, rid, body }, &answer);
        carts.push(cart);
    }
    carts
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
