//! Clients that send each request to the leader of its entity.

use std::{ops::Range, sync::Arc, time::Duration};

use boxoffice_client::{AdminToken, Cart, Client, ClientConfig, Entity, Id, Order, Seat, recorded};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    THREE,
    cluster::{Cluster, Stage},
    common::{ADMIN, Answer, Rng, Shopper, eventually, fixture::event, http},
};

/// With this many sessions every node leads some.
const SESSIONS: usize = 24;

/// Rows and seats of a hall. A round of purchases takes a row of every session, two seats a cart.
const HALL: (u16, u16) = (90, 4);

/// Calls forwarded by nodes so far.
async fn forwarded(cluster: &Cluster) -> u64 {
    let mut sum = 0;
    for id in cluster.running() {
        let (_, text) = http::get(cluster.client(id), "/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix("boxoffice_calls_forwarded_total "));
        sum += line.and_then(|count| count.trim().parse::<u64>().ok()).expect("the metric is there");
    }
    sum
}

/// The order when all inventories have confirmed its sale.
fn settled(order: Order) -> Order {
    Order { settling: false, ..order }
}

/// Buys two seats of this row of every session, each in its own cart.
async fn buy(client: &Client, sessions: &[String], row: u16) -> Vec<Order> {
    let mut orders = Vec::new();
    for session in sessions {
        let session = Id::new(session).expect("an id");
        let cart = Cart::beside(client, &Entity::Session(session.clone()));
        cart.hold_seats(&session, [Seat { row, seat: 0 }, Seat { row, seat: 1 }]).await.expect("held");
        let order = settled(cart.checkout(recorded("card", "4711"), None).await.expect("sold").value);
        assert_eq!(settled(client.order_get(order.id).await.expect("an order").value), order);
        orders.push(order);
    }
    orders
}

/// Buys row after row until no node forwards a call in a whole round.
async fn bought_directly(cluster: &Cluster, client: &Client, sessions: &[String], rows: &mut Range<u16>) -> Vec<Order> {
    let (before, mut orders) = (rows.start, Vec::new());
    loop {
        let row = rows.next().expect("every round forwarded a call");
        let was = forwarded(cluster).await;
        orders.extend(buy(client, sessions, row).await);
        let sent_on = forwarded(cluster).await - was;
        println!("row {row}: {sent_on} forwarded calls");
        if sent_on == 0 {
            println!("after {} rounds no node forwards a call", row - before);
            return orders;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_to_leaders_also_after_one_has_died() {
    let mut stage = Stage::new(Rng::of_test("requests_go_to_leaders_also_after_one_has_died"), THREE).await;
    let sessions = stage.play(SESSIONS, HALL, None).await.sessions;
    stage.cluster.led_by_preferred().await;
    let own = 1;
    let config = || ClientConfig {
        admin_token: Some(AdminToken(ADMIN.into())),
        ..ClientConfig::new([stage.cluster.client(own).to_string()])
    };
    let client = Client::connect(ClientConfig { to_leaders: true, ..config() }).await.expect("a connection");
    let other = Client::connect(config()).await.expect("a connection");
    let mut rows = 0..HALL.0;

    let mut orders = bought_directly(&stage.cluster, &client, &sessions, &mut rows).await;
    // A client without leader hints needs forwarded calls for the same.
    let was = forwarded(&stage.cluster).await;
    orders.extend(buy(&other, &sessions, rows.next().expect("a row")).await);
    assert!(forwarded(&stage.cluster).await >= was + SESSIONS as u64, "a third of the sessions is led by its node");

    // The leader of some sessions dies. Nothing fails, and requests go to the new leaders.
    let killed = stage.cluster.running().into_iter().find(|id| *id != own).expect("another node");
    stage.cluster.kill(killed);
    orders.extend(buy(&client, &sessions, rows.next().expect("a row")).await);
    orders.extend(bought_directly(&stage.cluster, &client, &sessions, &mut rows).await);

    // It returns and leads again. A stale leader hint costs one forwarded call, once.
    stage.cluster.start_node(killed).await;
    eventually("the node answers", async || stage.cluster.read(killed, "shards", json!({})).await).await;
    stage.cluster.led_by_preferred().await;
    orders.extend(bought_directly(&stage.cluster, &client, &sessions, &mut rows).await);

    for order in &orders {
        assert_eq!(settled(other.order_get(order.id).await.expect("an order").value), *order);
    }
    for session in &sessions {
        let audit = other.audit_session(&Id::new(session).expect("an id")).await.expect("an audit").value;
        assert_eq!((audit.violations, u64::from(audit.counts.sold)), (Vec::new(), 2 * u64::from(rows.start)));
    }
    stage.cluster.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_knows_the_customers_of_all_holds() {
    let mut rng = Rng::of_test("every_node_knows_the_customers_of_all_holds");
    let cluster = Cluster::start(THREE).await;
    let nodes = cluster.running();
    let port = Arc::new(cluster.port(nodes[0]).await);
    event(&port, "finals", 100, json!({})).await;
    // The carts are drawn, so they are in many shards.
    let mut expected = Vec::new();
    for number in 0..24 {
        let shopper = Shopper::new(&port, &mut rng);
        shopper.ask("cart.open", json!({"customer": format!("customer-{number}")})).await.ok();
        shopper.places("finals", "yard", 1).await.ok();
        if number % 2 == 0 {
            shopper.checkout().await.ok();
        }
        expected.push(json!([shopper.cart(), format!("customer-{number}"), number % 2 == 1]));
    }
    expected.sort_by_key(ToString::to_string);
    for node in nodes {
        let port = cluster.port(node).await;
        let found = eventually(&format!("node {node} knows all"), async || {
            let audit = port.read("admin.audit", json!({"entity": "session/finals", "customers": true})).await;
            let Answer::Ok(audit, _) = audit else { return None };
            let of = |list: &str| audit[list].as_array().cloned().unwrap_or_default();
            let entry = |entry: Value| json!([entry["hold"]["cart"], entry["customer"], !entry["since"].is_null()]);
            let mut found: Vec<Value> = of("holds").into_iter().chain(of("sales")).map(entry).collect();
            found.sort_by_key(ToString::to_string);
            (of("sales").len() == expected.len() / 2).then_some(found)
        })
        .await;
        assert_eq!(found, expected, "at node {node}");
    }
    cluster.stop();
}
