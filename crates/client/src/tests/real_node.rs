//! Watches of every kind against a real node with a real client listener.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    access::Role,
    answer::{CartState, StockCounts},
    command::{HoldPolicy, Limits, ProductDetails},
    id::OrderId,
    money::{Currency, Money},
};
use boxoffice_edge::{Edge, EdgeConfig, Runtimes};
use boxoffice_env::World;
use boxoffice_node::{
    config::{NodeConfig, ReplicationConfig},
    node::{Node, Runtimes as NodeRuntimes},
};
use boxoffice_storage::fsync::Fsync;
use tokio::{runtime::Handle, time::timeout};

use crate::{Cart, Client, ClientConfig, Encoding, Error, Id, LivePurchases, Watch, recorded};

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn id(text: &str) -> Id {
    Id::new(text).expect("a valid id")
}

async fn buy(client: &Client) -> OrderId {
    let cart = Cart::new(client).with_customer(&id("ada"));
    cart.hold_stock(&id("mug"), 1).await.expect("held");
    cart.checkout(recorded("card", "t"), None).await.expect("sold").value.order.id
}

/// The orders of the next purchases, up to the cursor `to`.
async fn purchases(watch: &mut Watch<LivePurchases>, to: u64) -> Vec<OrderId> {
    let mut orders = Vec::new();
    while watch.state().is_none_or(|state| state.cursor() < to) {
        let state = timeout(TIMEOUT, watch.next()).await.expect("purchases in time").expect("a state");
        orders.extend(state.new_purchases().iter().map(|purchase| purchase.order));
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_every_kind_work_in_both_encodings() {
    let data = tempfile::tempdir().expect("a directory");
    let config = NodeConfig {
        replication: ReplicationConfig {
            data_dir: data.path().join("data"),
            shards: 2,
            fsync: Fsync::Never,
            log_segment_bytes: 1 << 20,
            ..ReplicationConfig::default()
        },
        ..NodeConfig::default()
    };
    let (selling, watching) = (Handle::current(), Handle::current());
    let runtimes = NodeRuntimes { selling: selling.clone(), watching: watching.clone() };
    let node = Node::start(config, World::standalone(), &runtimes).expect("a node");
    while node.handle().ready().is_err() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut edge = EdgeConfig { anonymous: Some(Role::Admin), ..EdgeConfig::default() };
    edge.listen.set_port(0);
    let edge = Edge::bind(edge, Arc::new(node.handle().clone()), Runtimes { selling, watching }).expect("a free port");
    let address = edge.local_addr().to_string();
    let edge_task = tokio::spawn(edge.run(std::future::pending()));

    let mut orders = Vec::new();
    for encoding in Encoding::ALL {
        let config = ClientConfig { encoding, ..ClientConfig::new([address.clone()]) };
        let client = Client::connect(config).await.expect("a connection");
        let before = orders.len() as u64;
        // Each round buys one unit, then two.
        let sold = before / 2 * 3;
        let details = ProductDetails {
            name: "Mug".into(),
            properties: Vec::new(),
            blob: Vec::new(),
            price: Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") },
            stock: 100,
            hold: HoldPolicy::AtAdd,
            hold_ttl_ms: None,
            limits: Limits::default(),
        };
        client.product_put(&id("mug"), details).await.expect("a product");

        let mut bought = client.watch_purchases(&id("ada"), before);
        let (order, received) = tokio::join!(buy(&client), purchases(&mut bought, before + 1));
        orders.push(order);
        assert_eq!(received, [order]);

        let mut stock = client.watch_product(&id("mug"));
        let first = *timeout(TIMEOUT, stock.next()).await.expect("a state").expect("a state").counts();
        assert_eq!(first, StockCounts { free: 99 - sold, held: 0, sold: sold + 1 });

        let cart = Cart::new(&client).with_customer(&id("ada"));
        cart.open(None, None).await.expect("opened");
        let mut mine = cart.watch();
        let opened = timeout(TIMEOUT, mine.next()).await.expect("a state").expect("a state");
        assert_eq!(opened.cart().state, CartState::Active);
        cart.hold_stock(&id("mug"), 2).await.expect("held");
        orders.push(cart.checkout(recorded("card", "t"), None).await.expect("sold").value.order.id);
        let end = loop {
            match timeout(TIMEOUT, mine.next()).await.expect("it ends") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(&end, Error::Refused(no) if no.code == 301 && no.name == "cart_not_active"), "{end:?}");
        assert_eq!(mine.state().expect("its last state").cart().order, orders.last().copied());
        assert_eq!(purchases(&mut bought, before + 2).await, orders[before as usize + 1..]);
        while stock.state().expect("a state").counts().sold < sold + 3 {
            timeout(TIMEOUT, stock.next()).await.expect("a state").expect("a state");
        }
        // A later watch with an older cursor gets all purchases after that cursor.
        assert_eq!(purchases(&mut client.watch_purchases(&id("ada"), 0), before + 2).await, orders);
    }
    edge_task.abort();
    node.stop(10_000).await.expect("an orderly stop");
}
