//! A decision that panics fails one request, and nothing else: no node ends, the request is not repeated at
//! another node, and sales meanwhile stand.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{
        Answer, Dice, Port, http,
        town::{product, stock_is},
    },
};

/// A product that cannot be changed, one that cannot be held, and one that panics by itself from the first change on.
const PLANTED: &str = "product/frail:command product/touchy:ask product/haunted:command product/haunted:wake";

/// How long the one is watched that panics by itself.
const WATCHED: Duration = Duration::from_millis(3_500);

fn product_body(id: &str) -> Value {
    json!({"id": id, "name": id, "price": {"amount": 350, "currency": "EUR"}, "stock": 10})
}

/// Panics that were contained, at all nodes.
async fn contained(cluster: &Cluster) -> u64 {
    let mut all = 0;
    for id in cluster.running() {
        let (_, text) = http::get(cluster.client(id), "/metrics").await;
        let count = text.lines().find_map(|line| line.strip_prefix("boxoffice_panics_contained_total "));
        all += count.expect("it is counted").parse::<u64>().expect("a number");
    }
    all
}

async fn ports(cluster: &Cluster) -> Vec<Port> {
    let mut ports = Vec::new();
    for id in cluster.running() {
        ports.push(cluster.port(id).await);
    }
    ports
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_that_panics_fails_one_request() {
    let dice = Dice::of_test("a_decision_that_panics_fails_one_request");
    let mut stage = Stage::with(dice, Cluster::start_planted(THREE, PLANTED).await);
    let mut buyers = stage.begin().await;
    buyers.orders(5).await;
    // Leaderships move to where they are to be, and then nowhere: no contained panic costs one.
    stage.cluster.led_where_wanted().await;
    let terms = stage.cluster.terms().await;
    let ports = ports(&stage.cluster).await;

    // Each request fails once, whichever node it comes to, and the product that never was is not there.
    for (number, port) in ports.iter().enumerate() {
        let answer = port.ask("product.put", &format!("frail-{number}"), product_body("frail")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert_eq!(contained(&stage.cluster).await, number as u64 + 1, "one node panicked, once");
        port.read("product.get", json!({"id": "frail"})).await.no(403, "no_such_product");
    }

    // Who wants a hold of what panics is told at once, and everything else that it wants goes on.
    product(&ports[0], "touchy", 5, Value::Null).await;
    product(&ports[0], "sturdy", 5, Value::Null).await;
    let (token, other) = (stage.dice.token(), stage.dice.token());
    let hold = |token: &str, product: &str| json!({"token": token, "product": product, "quantity": 1});
    for request in ["touch", "touch", "touch-again"] {
        let asked = Instant::now();
        let answer = ports[1].ask("cart.hold_stock", request, hold(&token, "touchy")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert!(asked.elapsed() < Duration::from_secs(1), "it is told at once");
    }
    // A hold of several things comes to nothing as a whole.
    let both =
        json!({"token": token, "lines": [{"product": "sturdy", "quantity": 1}, {"product": "touchy", "quantity": 1}]});
    assert_eq!(ports[1].ask("cart.hold_all", "both", both).await, Answer::Fail(906));
    stock_is(&ports[2], "sturdy", [5, 0, 0]).await;
    ports[1].ask("cart.hold_stock", "take", hold(&token, "sturdy")).await.ok();
    ports[2].ask("cart.hold_stock", "take", hold(&other, "sturdy")).await.ok();
    ports[2].read("product.get", json!({"id": "touchy"})).await.ok();
    ports[2].ask("cart.cancel", "end", json!({"token": token})).await.ok();
    let asked = contained(&stage.cluster).await;
    assert!((4..=12).contains(&asked), "{asked} panics are more than asks");

    // What panics again by itself rests, and says so at once.
    assert_eq!(ports[0].ask("product.put", "haunt", product_body("haunted")).await, Answer::Fail(906));
    let began = Instant::now();
    let before_rest = contained(&stage.cluster).await;
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        let answer = ports[1].ask("product.put", "haunt-again", product_body("haunted")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert!(asked.elapsed() < Duration::from_secs(1), "it is told at once");
    }
    let more = contained(&stage.cluster).await - before_rest;
    println!("{more} panics of one that rests in {WATCHED:?}");
    assert!(more <= 8, "{more} panics while it rests");

    buyers.orders(10).await;
    assert_eq!(stage.cluster.running(), [1, 2, 3]);
    assert_eq!(stage.cluster.terms().await, terms, "a contained panic cost a leadership");
    let sprung = contained(&stage.cluster).await;
    assert!(sprung >= asked + more, "no node was started anew: {sprung} panics are counted");
    let told = stage.cluster.running().into_iter().map(|id| stage.cluster.said(id)).collect::<String>();
    assert!(told.contains("planted: product/frail decides a command"), "the log tells what: {told}");
    assert!(told.contains("boxoffice_node::"), "the log tells where: {told}");
    // A release for the product whose asks panic is owed as long as they do.
    stage.cluster.restart_unplanted().await;
    stage.end(buyers).await;
    stage.check_everything().await;
}
