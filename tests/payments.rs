//! Payments through a faulty gateway: no charge without a sale and no sale without a charge, whatever crashes in between (P11).
//! Each test compares the gateway's ledger with the node's orders.

mod customers;
mod deaths;
mod ledger;
mod meanwhile;
mod operators;
mod outcomes;
mod webhooks;

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use crate::common::{
    Answer, Encoding, Gateway, Home, Port, Rng, SECRET, Server, Shopper, eventually,
    fixture::{audit, event},
    http,
};
use serde_json::{Value, json};

/// The price of a place, in cents.
const PRICE: i64 = 1_000;

/// Fast retries of unknown outcomes, and a short time limit of one call.
const FAST_RETRIES: &str = "timeout_ms = 400\nagain_ms = 40\nwait_ms = 20_000\n";

/// The configuration of every node here, except its payments.
const CONFIG: &str = "[log]\nsegment_bytes = 1_048_576\n\n[carts]\nask_again_ms = 50\n\n";

/// The configuration of a node that pays through this gateway.
fn config(gateway: SocketAddr, more: &str) -> String {
    format!("{CONFIG}[payments]\nurl = \"http://{gateway}\"\nwebhook_secret = \"{SECRET}\"\n{more}")
}

/// A node, its gateway, and an event that is on sale.
struct Stage {
    home: Home,
    gateway: Gateway,
    server: Server,
    port: Arc<Port>,
    rng: Rng,
}

impl Stage {
    async fn new(test: &str, more: &str) -> Stage {
        // The gateway sends webhooks to the node, so the node's address must be known first.
        let node = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
        let gateway = Gateway::with_webhooks_to(node);
        let home = Home::with_config(&config(gateway.address(), more));
        let server = home.start_at(node);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        event(&port, "finals", 500, Value::Null).await;
        Stage { home, gateway, server, port, rng: Rng::of_test(test) }
    }

    /// A buyer with this many places in the cart.
    async fn holding(&mut self, quantity: i64) -> Shopper {
        let buyer = Shopper::new(&self.port, &mut self.rng);
        let body = json!({"session": "finals", "area": "yard", "quantity": quantity, "customer": "ann"});
        buyer.ask("cart.hold_places", body).await.ok();
        buyer
    }

    /// Kills the node and starts it again.
    async fn crash(self) -> Stage {
        let Stage { home, gateway, server, port, rng } = self;
        let address = server.address();
        drop(port);
        server.kill();
        let server = home.start_at(address);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        Stage { home, gateway, server, port, rng }
    }

    /// The same buyer after a crash.
    fn again(&self, buyer: &Shopper) -> Shopper {
        Shopper::with(&self.port, buyer.token.clone())
    }

    /// Checks that every charge belongs to an order, was voided, or never existed. Returns the ledger.
    async fn money_agrees(&self) -> Value {
        let audit = audit(&self.port).await;
        let ledger = self.gateway.ledger().await;
        let (mut captured, mut kept) = (0, 0);
        for charge in ledger["charges"].as_array().expect("charges") {
            let (key, state) = (charge["key"].as_str().expect("a key"), charge["state"].as_str().expect("a state"));
            let cart = &key[..32];
            let order = self.port.read("order.get", json!({"order": cart})).await;
            match (state, order) {
                ("captured", Answer::Ok(order, _)) => {
                    assert_eq!(charge["captured"], order["total"]["amount"], "{key}");
                    assert_eq!(order["payment_status"]["state"], "captured", "{key}");
                    captured += 1;
                }
                // The capture or the void failed permanently. An operator settles it.
                ("authorized", Answer::Ok(order, _)) => {
                    assert_eq!(order["payment_status"]["state"], "capture_failed", "{key}: {order}");
                    kept += 1;
                }
                ("authorized", Answer::No(_)) => {
                    let source = charge["source"].as_str().expect("a source");
                    assert!(source.contains("void-fails"), "{key} stays authorized without a sale: {charge}");
                }
                ("voided" | "declined", _) => {
                    assert_eq!((&charge["captured"], &charge["refunded"]), (&json!(0), &json!(0)), "{charge}");
                }
                (state, order) => panic!("{key} is {state}, and of the order there is {order:?}"),
            }
        }
        assert_eq!(audit["payments"]["captured"], captured, "an order without a charge: {audit} {ledger}");
        assert_eq!(audit["payments"]["failed"], kept, "{audit} {ledger}");
        assert_eq!(audit["payments"]["authorized"], 0, "{audit}");
        audit
    }
}

/// The number of open payments in the status: pending and failed. Waits until metrics and audit agree.
async fn open(node: SocketAddr, port: &Port) -> (u64, u64) {
    eventually("status, metrics and audit agree", async || {
        let counts = |value: &Value| {
            let count = |name: &str| value[name].as_u64().expect("a count");
            (count("payments_pending"), count("payments_failed"))
        };
        let before = counts(&port.read("admin.status", json!({})).await.ok());
        // Pending releases count as well.
        let audit = port.read("admin.audit", json!({})).await.ok();
        assert_eq!(audit["violations"], json!([]), "{audit}");
        let (_, metrics) = http::get(node, "/metrics").await;
        let gauge = |name: &str| {
            let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.unwrap_or_else(|| panic!("no {name}: {metrics}")).parse::<u64>().expect("a number")
        };
        let gauges = (gauge("boxoffice_payments_pending"), gauge("boxoffice_payments_failed"));
        let after = counts(&port.read("admin.status", json!({})).await.ok());
        // A payment may have ended in between.
        (before == after).then(|| assert_eq!((counts(&audit), gauges), (before, before), "{audit}"))?;
        assert_eq!(audit["failed_keys"].as_array().map(Vec::len), Some(before.1 as usize), "{audit}");
        Some(before)
    })
    .await
}

/// Waits until this many payments are open.
async fn open_are(node: SocketAddr, port: &Port, expected: (u64, u64)) {
    eventually(&format!("{expected:?} payments are open"), async || (open(node, port).await == expected).then_some(()))
        .await;
}

/// Waits until the payment of an order is in this state.
async fn paid(buyer: &Shopper, state: &str) -> Value {
    eventually("there is an order", async || (buyer.state().await == "done").then_some(())).await;
    eventually(&format!("the payment is {state}"), async || {
        let order = buyer.order().await;
        (order["payment_status"]["state"] == state).then_some(order)
    })
    .await
}

/// Waits until the charges of a cart are these: state, amounts authorized, captured, refunded. What is voided before the gateway has
/// authorized it has no amount there.
async fn charged(gateway: &Gateway, buyer: &Shopper, expected: &[(&str, i64, i64, i64)]) {
    let expected: Vec<_> = expected.iter().map(|(state, a, c, r)| ((*state).to_owned(), *a, *c, *r)).collect();
    let is = |found: &(String, i64, i64, i64), expected: &(String, i64, i64, i64)| {
        found == expected || found == &("voided".to_owned(), 0, 0, 0) && expected.0 == "voided"
    };
    let cart = buyer.cart();
    let mut last = Vec::new();
    eventually(&format!("the charges of {cart} are {expected:?}"), async || {
        let charges = gateway.charges(&cart).await;
        if charges != last {
            println!("{cart}: {charges:?}");
            last.clone_from(&charges);
        }
        let are = charges.len() == expected.len() && charges.iter().zip(&expected).all(|(found, it)| is(found, it));
        are.then_some(())
    })
    .await;
}
