//! A decision that panics fails one request. No node ends, the request is not repeated at another node, and other sales succeed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{
        Answer, Port, Rng,
        fixture::{product, stock_is},
        http,
    },
};

/// A product whose changes panic, one whose holds panic, and one that panics on its own after the first change.
const PLANTED: &str = "product/frail:command product/touchy:ask product/haunted:command product/haunted:wake";

/// How long the product that panics on its own is observed.
const WATCHED: Duration = Duration::from_millis(3_500);

fn product_body(id: &str) -> Value {
    json!({"id": id, "name": id, "price": {"amount": 350, "currency": "EUR"}, "stock": 10})
}

/// Contained panics at all nodes.
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
    let rng = Rng::of_test("a_decision_that_panics_fails_one_request");
    let mut stage = Stage::with(rng, Cluster::start_planted(THREE, PLANTED).await);
    let mut buyers = stage.begin().await;
    buyers.orders(5).await;
    // Leaderships move to their preferred nodes and then stay. No contained panic moves one.
    stage.cluster.led_by_preferred().await;
    let terms = stage.cluster.terms().await;
    let ports = ports(&stage.cluster).await;

    // Each request fails once, whichever node receives it, and the product is never created.
    for (number, port) in ports.iter().enumerate() {
        let answer = port.ask("product.put", &format!("frail-{number}"), product_body("frail")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert_eq!(contained(&stage.cluster).await, number as u64 + 1, "one node panicked, once");
        port.read("product.get", json!({"id": "frail"})).await.no(403, "no_such_product");
    }

    // A hold of the product that panics fails at once. Every other part of the cart still works.
    product(&ports[0], "touchy", 5, Value::Null).await;
    product(&ports[0], "sturdy", 5, Value::Null).await;
    let (token, other) = (stage.rng.token(), stage.rng.token());
    let hold = |token: &str, product: &str| json!({"token": token, "product": product, "quantity": 1});
    for request in ["touch", "touch", "touch-again"] {
        let asked = Instant::now();
        let answer = ports[1].ask("cart.hold_stock", request, hold(&token, "touchy")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert!(asked.elapsed() < Duration::from_secs(1), "the request fails at once");
    }
    // A hold of several products is atomic, so it fails as a whole.
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

    // An entity that panics again on its own cools down, and refuses at once.
    assert_eq!(ports[0].ask("product.put", "haunt", product_body("haunted")).await, Answer::Fail(906));
    let began = Instant::now();
    let before_rest = contained(&stage.cluster).await;
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        let answer = ports[1].ask("product.put", "haunt-again", product_body("haunted")).await;
        assert_eq!(answer, Answer::Fail(906));
        assert!(asked.elapsed() < Duration::from_secs(1), "the request fails at once");
    }
    let more = contained(&stage.cluster).await - before_rest;
    println!("{more} panics of an entity in cooldown in {WATCHED:?}");
    assert!(more <= 8, "{more} panics during the cooldown");

    buyers.orders(10).await;
    assert_eq!(stage.cluster.running(), [1, 2, 3]);
    assert_eq!(stage.cluster.terms().await, terms, "a contained panic cost a leadership");
    let contained_in_all = contained(&stage.cluster).await;
    assert!(contained_in_all >= asked + more, "no actor was restarted: {contained_in_all} panics are counted");
    let log = stage.cluster.running().into_iter().map(|id| stage.cluster.stderr(id)).collect::<String>();
    assert!(log.contains("planted: product/frail decides a command"), "the log names the decision: {log}");
    assert!(log.contains("boxoffice_node::"), "the log names the location: {log}");
    // Carts owe a release to a product as long as its asks panic.
    stage.cluster.restart_unplanted().await;
    stage.end(buyers).await;
    stage.check_everything().await;
}
