//! Payments through a gateway that misbehaves: nobody is charged without a sale, nothing is sold without a charge, whatever
//! dies in between (P11). After each story the gateway's ledger is held against the node's orders.

mod common;

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_core::time::Timestamp;
use boxoffice_wire::webhook::sign;
use common::{
    Answer, Dice, Encoding, Gateway, Home, Port, SECRET, Server, Shopper, Theatre, eventually, http, recorded,
    town::{audit, event, places, places_are, product, purchases, stock, stock_is},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

/// A place costs so much.
const PRICE: i64 = 1_000;

/// How long after an unknown outcome the gateway is asked again, and how long one call may take.
const SOON: &str = "timeout_ms = 400\nagain_ms = 40\nwait_ms = 20_000\n";

/// The configuration of every node here but for its payments.
const CONFIG: &str = "[log]\nsegment_bytes = 1_048_576\n\n[carts]\nask_again_ms = 50\n\n";

/// The configuration of a node that pays through this gateway.
fn config(gateway: SocketAddr, more: &str) -> String {
    format!("{CONFIG}[payments]\nurl = \"http://{gateway}\"\nwebhook_secret = \"{SECRET}\"\n{more}")
}

/// A node, its gateway, and an event of which everything here is sold.
struct Stage {
    home: Home,
    gateway: Gateway,
    server: Server,
    port: Arc<Port>,
    dice: Dice,
}

impl Stage {
    async fn new(test: &str, more: &str) -> Stage {
        // The gateway tells the node, so that its address has to be known before it is there.
        let node = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
        let gateway = Gateway::telling(node);
        let home = Home::with_config(&config(gateway.address(), more));
        let server = home.start_at(node);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        event(&port, "finals", 500, Value::Null).await;
        Stage { home, gateway, server, port, dice: Dice::of_test(test) }
    }

    /// A buyer with so many places in the cart.
    async fn holding(&mut self, quantity: i64) -> Shopper {
        let buyer = Shopper::new(&self.port, &mut self.dice);
        let body = json!({"session": "finals", "area": "yard", "quantity": quantity, "customer": "ann"});
        buyer.ask("cart.hold_places", body).await.ok();
        buyer
    }

    /// Kills the node without warning and starts it again.
    async fn crash(self) -> Stage {
        let Stage { home, gateway, server, port, dice } = self;
        let address = server.address();
        drop(port);
        server.kill();
        let server = home.start_at(address);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        Stage { home, gateway, server, port, dice }
    }

    /// The same buyer after a crash.
    fn again(&self, buyer: &Shopper) -> Shopper {
        Shopper::with(&self.port, buyer.token.clone())
    }

    /// Every charge is the one of an order, or is given up, or was never one: money and sales agree.
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
                // The capture, or the void, failed for good: it is the operator's.
                ("authorized", Answer::Ok(order, _)) => {
                    assert_eq!(order["payment_status"]["state"], "capture_failed", "{key}: {order}");
                    kept += 1;
                }
                ("authorized", Answer::No(_)) => {
                    let source = charge["source"].as_str().expect("a source");
                    assert!(source.contains("void-fails"), "{key} stays set aside and nothing was sold: {charge}");
                }
                ("voided" | "declined", _) => {
                    assert_eq!((&charge["captured"], &charge["refunded"]), (&json!(0), &json!(0)), "{charge}");
                }
                (state, order) => panic!("{key} is {state}, and of the order there is {order:?}"),
            }
        }
        assert_eq!(audit["payments"]["captured"], captured, "an order without its charge: {audit} {ledger}");
        assert_eq!(audit["payments"]["failed"], kept, "{audit} {ledger}");
        assert_eq!(audit["payments"]["authorized"], 0, "{audit}");
        audit
    }
}

/// How many payments are open, as the status says: pending and failed. Metrics and audit say the same.
async fn open(node: SocketAddr, port: &Port) -> (u64, u64) {
    eventually("status, metrics and audit agree", async || {
        let counts = |value: &Value| {
            let count = |name: &str| value[name].as_u64().expect("a count");
            (count("payments_pending"), count("payments_failed"))
        };
        let before = counts(&port.read("admin.status", json!({})).await.ok());
        let audit = audit(port).await;
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

/// Waits until so many payments are open.
async fn open_are(node: SocketAddr, port: &Port, expected: (u64, u64)) {
    eventually(&format!("{expected:?} payments are open"), async || (open(node, port).await == expected).then_some(()))
        .await;
}

/// Waits until an order's money stands so.
async fn paid(buyer: &Shopper, state: &str) -> Value {
    eventually(&format!("the payment is {state}"), async || {
        let order = buyer.order().await;
        (order["payment_status"]["state"] == state).then_some(order)
    })
    .await
}

/// Waits until the charges of a cart are these: state, set aside, taken, paid back.
async fn charged(gateway: &Gateway, buyer: &Shopper, expected: &[(&str, i64, i64, i64)]) {
    let expected: Vec<_> = expected.iter().map(|(state, a, c, r)| ((*state).to_owned(), *a, *c, *r)).collect();
    let cart = buyer.cart();
    let mut last = Vec::new();
    eventually(&format!("the charges of {cart} are {expected:?}"), async || {
        let charges = gateway.charges(&cart).await;
        if charges != last {
            println!("{cart}: {charges:?}");
            last.clone_from(&charges);
        }
        (charges == expected).then_some(())
    })
    .await;
}

/// Worked examples 10 and 11, and everything that a gateway can do and still sells: slow, lost, garbage, late, twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_gateway_does_it_is_paid_once() {
    let mut stage = Stage::new("whatever_the_gateway_does_it_is_paid_once", SOON).await;
    let sources = [
        "ok",
        "delay-150",
        "timeout-1",
        "lost-2",
        "error-2",
        "garbage-1",
        "huge-1",
        "late-150",
        "twice",
        "late-60+twice",
        "lost-1+error-1+garbage-1+capture-lost-1+capture-timeout-1",
        "capture-error-2+capture-garbage-1",
        "capture-late-100",
        "capture-twice",
        "capture-delay-150",
    ];
    let mut buyers = Vec::new();
    for _ in sources {
        buyers.push(stage.holding(2).await);
    }
    let orders = join_all(buyers.iter().zip(sources).map(|(buyer, source)| buyer.pay(source))).await;
    for ((buyer, source), order) in buyers.iter().zip(sources).zip(orders) {
        let order = order.ok();
        assert_eq!((&order["id"], &order["total"]["amount"]), (&json!(buyer.cart()), &json!(2 * PRICE)), "{source}");
        assert!(order["payment"]["gateway"].get("source").is_none(), "the source is shown: {order}");
        paid(buyer, "captured").await;
        charged(&stage.gateway, buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    }
    let audit = stage.money_agrees().await;
    assert_eq!((audit["orders"].as_u64(), audit["payments"]["captured"].as_u64()), (Some(15), Some(15)));
    assert_eq!(places(&stage.port, "finals").await, [470, 0, 30]);
    assert_eq!(purchases(&stage.port, "ann").await.len(), 15);
    assert_eq!(open(stage.server.address(), &stage.port).await, (0, 0));
}

/// Declined: everything is given back at once, or kept to try again; another amount is given up; what fails for good is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_that_come_to_nothing() {
    let mut stage = Stage::new("payments_that_come_to_nothing", SOON).await;
    // One is declined while another one buys.
    let (good, bad) = (stage.holding(5).await, stage.holding(5).await);
    let (good_order, bad_order) = tokio::join!(good.pay("ok"), bad.pay("decline"));
    good_order.ok();
    bad_order.no(601, "payment_declined");
    places_are(&stage.port, "finals", [495, 0, 5]).await;
    assert_eq!(bad.state().await, "canceled");
    charged(&stage.gateway, &bad, &[("declined", 0, 0, 0)]).await;
    bad.pay("ok").await.no(301, "cart_not_active");

    // Kept, and paid by another card.
    let buyer = stage.holding(3).await;
    let keep = |source: &str| json!({"payment": {"gateway": {"source": source, "on_decline": "keep"}}});
    buyer.ask("cart.checkout", keep("decline")).await.no(601, "payment_declined");
    let cart = buyer.get().await;
    assert_eq!((&cart["state"], &cart["lines"][0]["quantity"]), (&json!("active"), &json!(3)));
    buyer.set(1, 4).await.ok();
    buyer.ask("cart.checkout", keep("no-such-word")).await.no(601, "payment_declined");
    let order = buyer.ask("cart.checkout", keep("ok")).await.ok();
    assert_eq!(order["total"]["amount"], 4 * PRICE);
    charged(
        &stage.gateway,
        &buyer,
        &[("declined", 0, 0, 0), ("declined", 0, 0, 0), ("captured", 4 * PRICE, 4 * PRICE, 0)],
    )
    .await;

    // Another amount.
    let buyer = stage.holding(1).await;
    let no = buyer.pay("amount-7").await.no(603, "amount_mismatch");
    assert_eq!((&no["asked"], &no["got"]), (&json!(PRICE), &json!(7)));
    charged(&stage.gateway, &buyer, &[("voided", 7, 0, 0)]).await;
    let buyer = stage.holding(1).await;
    buyer.pay("amount-7+void-lost-1+void-error-1").await.no(603, "amount_mismatch");
    charged(&stage.gateway, &buyer, &[("voided", 7, 0, 0)]).await;
    let buyer = stage.holding(1).await;
    buyer.pay("amount-7+void-fails").await.no(603, "amount_mismatch");
    charged(&stage.gateway, &buyer, &[("authorized", 7, 0, 0)]).await;

    // Sold, and the money never came: for the operator to see.
    let buyer = stage.holding(1).await;
    buyer.pay("capture-fails").await.ok();
    let order = paid(&buyer, "capture_failed").await;
    assert_eq!(order["payment_status"]["reason"], "failed as asked");
    let refund = json!({"order": buyer.cart(), "reason": "never paid"});
    let refund = stage.port.ask("order.refund", "r", refund).await.ok();
    assert_eq!(refund["status"]["state"], "failed", "there is nothing to pay back: {refund}");
    places_are(&stage.port, "finals", [491, 0, 9]).await;
    stage.money_agrees().await;
}

/// Refunds go through the gateway as often as it takes, once; by line and whole; what fails is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_that_is_paid_back() {
    let mut stage = Stage::new("money_that_is_paid_back", SOON).await;
    product(&stage.port, "flag", 100, Value::Null).await;
    let refunds = async |buyer: &Shopper, expected: &[&str]| {
        eventually(&format!("refunds are {expected:?}"), async || {
            let order = buyer.order().await;
            let found: Vec<_> =
                order["refunds"].as_array()?.iter().map(|refund| refund["status"]["state"].as_str()).collect();
            (found == expected.iter().map(|state| Some(*state)).collect::<Vec<_>>()).then_some(())
        })
        .await;
    };
    for source in
        ["ok", "refund-lost-1+refund-timeout-1", "refund-error-2", "refund-late-80+refund-twice", "refund-garbage-1"]
    {
        let buyer = stage.holding(4).await;
        buyer.stock("flag", 2).await.ok();
        let total = 4 * PRICE + 2 * 350;
        buyer.pay(source).await.ok();
        let body = |lines: Value| json!({"order": buyer.cart(), "lines": lines, "reason": "ill"});
        let first = stage.port.ask("order.refund", "r1", body(json!([2]))).await.ok();
        assert_eq!((&first["amount"]["amount"], &first["status"]["state"]), (&json!(700), &json!("pending")));
        stage_stock(&stage, 100).await;
        refunds(&buyer, &["refunded"]).await;
        charged(&stage.gateway, &buyer, &[("captured", total, total, 700)]).await;
        stage.port.ask("order.refund", "r2", json!({"order": buyer.cart(), "reason": "ill"})).await.ok();
        refunds(&buyer, &["refunded", "refunded"]).await;
        charged(&stage.gateway, &buyer, &[("captured", total, total, total)]).await;
        places_are(&stage.port, "finals", [500, 0, 0]).await;
    }
    // At once after the sale: the capture comes first, however slow it is.
    let buyer = stage.holding(1).await;
    buyer.pay("capture-delay-200").await.ok();
    stage.port.ask("order.refund", "r3", json!({"order": buyer.cart(), "reason": "at once"})).await.ok();
    refunds(&buyer, &["refunded"]).await;
    charged(&stage.gateway, &buyer, &[("captured", PRICE, PRICE, PRICE)]).await;
    // For good: the places are on sale again all the same.
    let buyer = stage.holding(1).await;
    buyer.pay("refund-fails").await.ok();
    stage.port.ask("order.refund", "r4", json!({"order": buyer.cart(), "reason": "ill"})).await.ok();
    refunds(&buyer, &["failed"]).await;
    assert_eq!(buyer.order().await["refunds"][0]["status"]["reason"], "failed as asked");
    places_are(&stage.port, "finals", [500, 0, 0]).await;
    stage.money_agrees().await;
}

async fn stage_stock(stage: &Stage, free: u64) {
    stock_is(&stage.port, "flag", [free, 0, 0]).await;
}

/// A cart that is being paid does not expire, takes no changes, and is paid once however often one asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_is_being_paid() {
    let mut stage = Stage::new("a_cart_that_is_being_paid", SOON).await;
    event(&stage.port, "quick", 10, json!({"hold_ttl_ms": 150})).await;
    let buyer = Shopper::new(&stage.port, &mut stage.dice);
    buyer.places("quick", "yard", 2).await.ok();
    let pay = buyer.body(json!({"payment": {"gateway": {"source": "timeout-3"}}}));
    let others = [stage.server.port(Encoding::Json).await, stage.server.port(Encoding::MsgPack).await];
    let all = join_all((0..100).map(|number| others[number % 2].ask("cart.checkout", "pay", pay.clone())));
    let meanwhile = async {
        eventually("it is being paid", async || (buyer.state().await == "checking_out").then_some(())).await;
        buyer.places("quick", "yard", 1).await.no(301, "cart_not_active");
        buyer.set(1, 1).await.no(301, "cart_not_active");
        buyer.release(1).await.no(301, "cart_not_active");
        buyer.cancel().await.no(301, "cart_not_active");
        buyer.pay("ok").await.no(301, "cart_not_active");
        let other = json!({"payment": {"gateway": {"source": "ok"}}});
        stage.port.ask("cart.checkout", "pay", buyer.body(other)).await.no(105, "request_id_reused");
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Its deadline is over by now.
        assert_eq!((buyer.state().await.as_str(), places(&stage.port, "quick").await), ("checking_out", [8, 2, 0]));
    };
    let (answers, ()) = tokio::join!(all, meanwhile);
    let totals: Vec<Value> = answers.into_iter().map(|answer| answer.ok()["total"].clone()).collect();
    assert!(totals.iter().all(|total| total["amount"] == 2 * PRICE), "{totals:?}");
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    assert_eq!(places(&stage.port, "quick").await, [8, 0, 2]);
    // Hot products are set aside before the gateway is asked; without them it never is.
    product(&stage.port, "hot", 1, json!({"hold": "at_checkout"})).await;
    let [first, second] = [(); 2].map(|()| Shopper::new(&stage.port, &mut stage.dice));
    first.stock("hot", 1).await.ok();
    second.stock("hot", 1).await.ok();
    let (one, other) = tokio::join!(first.pay("delay-50"), second.pay("delay-50"));
    let (winner, loser, no) = match (one, other) {
        (Answer::Ok(..), no) => (first, second, no),
        (no, Answer::Ok(..)) => (second, first, no),
        both => panic!("one of them gets it: {both:?}"),
    };
    no.no(401, "out_of_stock");
    charged(&stage.gateway, &winner, &[("captured", 350, 350, 0)]).await;
    assert!(stage.gateway.charges(&loser.cart()).await.is_empty(), "nobody pays for what cannot be had");
    assert_eq!((loser.state().await.as_str(), stock(&stage.port, "hot").await), ("active", [0, 0, 1]));
    // Declined, the hot ones go back on the shelf.
    product(&stage.port, "hotter", 1, json!({"hold": "at_checkout"})).await;
    let third = Shopper::new(&stage.port, &mut stage.dice);
    third.stock("hotter", 1).await.ok();
    third.pay("decline").await.no(601, "payment_declined");
    stock_is(&stage.port, "hotter", [1, 0, 0]).await;
    stage.money_agrees().await;
}

/// What costs nothing needs no gateway to be sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_costs_nothing() {
    let mut stage = Stage::new("an_order_that_costs_nothing", SOON).await;
    product(&stage.port, "sample", 5, json!({"price": {"amount": 0, "currency": "EUR"}})).await;
    let buyer = Shopper::new(&stage.port, &mut stage.dice);
    buyer.stock("sample", 1).await.ok();
    let order = buyer.pay("ok").await.ok();
    assert_eq!(order["total"]["amount"], 0);
    assert_eq!(order["payment_status"]["state"], "recorded", "{order}");
    assert_eq!(stock(&stage.port, "sample").await, [4, 0, 1]);
    // Also if it is set aside only now; and a refund of it asks nobody.
    let free = json!({"hold": "at_checkout", "price": {"amount": 0, "currency": "EUR"}});
    product(&stage.port, "leaflet", 5, free).await;
    let other = Shopper::new(&stage.port, &mut stage.dice);
    other.stock("leaflet", 2).await.ok();
    other.pay("ok").await.ok();
    let refund = json!({"order": other.cart(), "reason": "unwanted"});
    assert_eq!(stage.port.ask("order.refund", "r", refund).await.ok()["status"]["state"], "recorded");
    stock_is(&stage.port, "leaflet", [5, 0, 0]).await;
    assert_eq!(stage.gateway.ledger().await["charges"], json!([]));
    audit(&stage.port).await;
}

/// The session is canceled while it is being paid: the sale stands, and is paid back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_while_it_is_being_paid() {
    let mut stage = Stage::new("canceled_while_it_is_being_paid", SOON).await;
    let theatre = Theatre::open(&stage.port, 1, (2, 8), None).await;
    let session = theatre.session();
    let [paying, paid_for, holding] = [(); 3].map(|()| Shopper::new(&stage.port, &mut stage.dice));
    for (number, buyer) in [&paying, &paid_for, &holding].into_iter().enumerate() {
        buyer.seats(session, json!([[0, number]])).await.ok();
    }
    paid_for.pay("ok").await.ok();
    let cancel = async {
        eventually("it is being paid", async || (paying.state().await == "checking_out").then_some(())).await;
        stage.port.ask("session.cancel", "c", json!({"id": session, "reason": "fire"})).await.ok();
    };
    let (order, ()) = tokio::join!(paying.pay("delay-300"), cancel);
    order.ok();
    for buyer in [&paying, &paid_for] {
        charged(&stage.gateway, buyer, &[("captured", PRICE, PRICE, PRICE)]).await;
        eventually("the refund is written", async || {
            (buyer.order().await["refunds"][0]["status"]["state"] == "refunded").then_some(())
        })
        .await;
    }
    eventually("nothing of it is held or sold", async || {
        let map = theatre.map(&stage.port, session).await;
        (map.held + map.sold == 0).then_some(())
    })
    .await;
    assert_eq!(holding.get().await["lines"], json!([]));
    stage.money_agrees().await;
}

/// Killed before the authorization is answered, during the capture, during a refund: it goes on by itself, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_stage_of_a_payment() {
    let mut stage = Stage::new("killed_at_each_stage_of_a_payment", SOON).await;
    for source in ["delay-300", "capture-delay-300", "late-300", "decline+delay-300", "amount-5+void-delay-300"] {
        let buyer = stage.holding(2).await;
        let pay = buyer.body(json!({"payment": {"gateway": {"source": source}}}));
        let port = Arc::clone(&stage.port);
        let asked = {
            let pay = pay.clone();
            tokio::spawn(async move { port.ask("cart.checkout", "pay", pay).await })
        };
        // The gateway has decided, and the node has not heard of it yet; or the capture is under way.
        let stages: &[&str] = match source {
            "capture-delay-300" => &["captured"],
            "late-300" => &["pending"],
            "decline+delay-300" => &["declined"],
            "amount-5+void-delay-300" => &["voided"],
            _ => &["authorized"],
        };
        eventually("the gateway has heard of it", async || {
            let charges = stage.gateway.charges(&buyer.cart()).await;
            charges.iter().any(|charge| stages.contains(&charge.0.as_str())).then_some(())
        })
        .await;
        stage = stage.crash().await;
        drop(asked.await);
        let buyer = stage.again(&buyer);
        // Nobody has to come back for it.
        match source {
            "decline+delay-300" => {
                charged(&stage.gateway, &buyer, &[("declined", 0, 0, 0)]).await;
                eventually("it is canceled", async || (buyer.state().await == "canceled").then_some(())).await;
            }
            "amount-5+void-delay-300" => {
                charged(&stage.gateway, &buyer, &[("voided", 5, 0, 0)]).await;
                eventually("it is canceled", async || (buyer.state().await == "canceled").then_some(())).await;
            }
            _ => {
                charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
                paid(&buyer, "captured").await;
                let order = stage.port.ask("cart.checkout", "pay", pay).await.ok();
                assert_eq!((&order["id"], &order["total"]["amount"]), (&json!(buyer.cart()), &json!(2 * PRICE)));
            }
        }
    }
    places_are(&stage.port, "finals", [494, 0, 6]).await;
    // During the refund.
    let buyer = stage.holding(2).await;
    buyer.pay("refund-delay-300").await.ok();
    paid(&buyer, "captured").await;
    let refund = json!({"order": buyer.cart(), "reason": "ill"});
    stage.port.ask("order.refund", "r", refund.clone()).await.ok();
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 2 * PRICE)]).await;
    stage = stage.crash().await;
    let buyer = stage.again(&buyer);
    eventually("the refund is written", async || {
        (buyer.order().await["refunds"][0]["status"]["state"] == "refunded").then_some(())
    })
    .await;
    assert_eq!(stage.port.ask("order.refund", "r", refund).await.ok()["number"], 1);
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 2 * PRICE)]).await;
    places_are(&stage.port, "finals", [494, 0, 6]).await;
    stage.money_agrees().await;
}

/// Sixty payments at sixty different stages when the node dies, twice: each ends as it would have, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_many_payments() {
    const BUYERS: usize = 60;
    let mut stage = Stage::new("killed_in_the_middle_of_many_payments", SOON).await;
    let mut sold = 0;
    for round in 0..2 {
        let mut buyers = Vec::new();
        for number in 0..BUYERS {
            let buyer = stage.holding(1).await;
            let (delay_ms, capture_ms) = (stage.dice.below(250), stage.dice.below(250));
            let what = ["ok", "ok", "ok", "ok", "lost-1", "late-60", "decline", "amount-3"][number % 8];
            buyers.push((buyer, format!("delay-{delay_ms}+{what}+capture-delay-{capture_ms}")));
        }
        let asked = join_all(buyers.iter().map(|(buyer, source)| {
            let pay = buyer.body(json!({"payment": {"gateway": {"source": source}}}));
            buyer.port.ask("cart.checkout", "pay", pay)
        }));
        let wait = Duration::from_millis(100 + stage.dice.below(150) as u64);
        let Stage { home, gateway, server, port, dice } = stage;
        let address = server.address();
        let crash = async {
            tokio::time::sleep(wait).await;
            server.kill();
            home.start_at(address)
        };
        let (answers, server) = tokio::join!(asked, crash);
        let known = answers.iter().filter(|answer| !answer.is_unknown()).count();
        println!("round {round}: {known} of {BUYERS} were answered before the node died");
        drop(port);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        stage = Stage { home, gateway, server, port, dice };
        // Everybody asks again, with the same request id.
        let repeats = buyers.iter().zip(answers).map(async |((buyer, source), before)| {
            let buyer = stage.again(buyer);
            let pay = buyer.body(json!({"payment": {"gateway": {"source": source}}}));
            let after = stage.port.ask("cart.checkout", "pay", pay).await;
            match (source.contains("decline") || source.contains("amount"), before) {
                (false, before) => {
                    let order = after.ok();
                    if let Answer::Ok(before, _) = before {
                        assert_eq!((&before["total"], &before["lines"]), (&order["total"], &order["lines"]));
                    }
                }
                // A refusal is decided afresh: the cart is over by now, or it is refused again.
                (true, Answer::Ok(before, _)) => panic!("{source} was sold: {before}"),
                (true, _) => match after {
                    Answer::No(no) => assert!([301, 601, 603].contains(&no.code), "{source}: {}", no.body),
                    other => panic!("{source}: {other:?}"),
                },
            }
        });
        join_all(repeats).await;
        eventually("no charge is under way", async || {
            let ledger = stage.gateway.ledger().await;
            let open =
                |charge: &Value| ["pending", "authorized"].contains(&charge["state"].as_str().unwrap_or_default());
            (!ledger["charges"].as_array()?.iter().any(open)).then_some(())
        })
        .await;
        let audit = stage.money_agrees().await;
        sold += buyers.iter().filter(|(_, source)| !source.contains("decline") && !source.contains("amount")).count();
        assert_eq!(audit["orders"], sold, "{audit}");
    }
}

/// Nobody is there: the places stay held beyond their time, the buyer hears that it is not known yet, and when the gateway is
/// there again it is paid. A gateway that has forgotten everything cannot capture, and the order says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_dies_and_comes_back() {
    let stage = Stage::new("the_gateway_dies_and_comes_back", "timeout_ms = 200\nagain_ms = 40\nwait_ms = 300\n").await;
    event(&stage.port, "quick", 10, json!({"hold_ttl_ms": 200})).await;
    let Stage { gateway, port, mut dice, server: _server, home: _home } = stage;
    let node = gateway.address();
    let at = gateway.kill();
    assert_eq!(at, node);
    let buyer = Shopper::new(&port, &mut dice);
    buyer.places("quick", "yard", 2).await.ok();
    let pay = buyer.body(json!({"payment": {"gateway": {"source": "ok"}}}));
    port.ask("cart.checkout", "pay", pay.clone()).await.no(602, "payment_pending");
    assert_eq!((buyer.state().await.as_str(), places(&port, "quick").await), ("checking_out", [8, 2, 0]));
    // An unknown outcome frees nothing, and repeating it asks nothing twice.
    port.ask("cart.checkout", "pay", pay.clone()).await.no(602, "payment_pending");
    assert_eq!(port.read("admin.audit", json!({})).await.ok()["carts"]["checking_out"], 1);
    let gateway = Gateway::start_at(at);
    eventually("it is paid", async || (buyer.state().await == "done").then_some(())).await;
    port.ask("cart.checkout", "pay", pay).await.ok();
    charged(&gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    paid(&buyer, "captured").await;

    // It dies with what it had set aside before that is captured.
    let other = Shopper::new(&port, &mut dice);
    other.places("finals", "yard", 1).await.ok();
    other.pay("capture-error-1000").await.ok();
    let at = gateway.kill();
    let gateway = Gateway::start_at(at);
    let order = paid(&other, "capture_failed").await;
    assert_eq!(order["payment_status"]["reason"], "there is no such authorization");
    assert_eq!(places(&port, "finals").await, [499, 0, 1]);
    assert!(gateway.charges(&other.cart()).await.is_empty());
    audit(&port).await;
}

/// Posts a webhook as a gateway would, signed with this secret so many seconds from now.
async fn webhook(node: SocketAddr, secret: &str, shift_s: i64, body: &Value) -> (u16, String) {
    let text = body.to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let at = Timestamp((now + shift_s * 1_000) as u64);
    let header = format!("boxoffice-signature: {}\r\n", sign(secret.as_bytes(), at, text.as_bytes()));
    http::raw_post(node, "/v1/payments/webhook", &header, &text).await
}

/// Webhooks are believed if they are signed, and only then; they act once, late ones for what is over not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_webhook_may_do() {
    let mut stage =
        Stage::new("what_a_webhook_may_do", "timeout_ms = 10_000\nagain_ms = 600_000\nwait_ms = 20_000\n").await;
    let node = stage.server.address();
    let buyer = stage.holding(2).await;
    // It is never answered, and asked again only in ten minutes: a webhook is all there is.
    let paying = {
        let buyer = stage.again(&buyer);
        let pay = json!({"payment": {"gateway": {"source": "timeout"}}});
        tokio::spawn(async move { buyer.ask_as("pay", "cart.checkout", pay).await })
    };
    charged(&stage.gateway, &buyer, &[("authorized", 2 * PRICE, 0, 0)]).await;
    let key = format!("{}-1", buyer.cart());
    let says = |amount: i64| {
        json!({"id": "evt-1", "key": key, "status": "authorized", "reference": "auth_1",
            "amount": {"amount": amount, "currency": "EUR"}})
    };
    let refused = async |secret: &str, shift_s: i64, body: Value| {
        let (status, text) = webhook(node, secret, shift_s, &body).await;
        assert!((400..500).contains(&status), "{body}: {status} {text}");
        (status, text)
    };
    refused("another-secret-altogether", 0, says(2 * PRICE)).await;
    refused(SECRET, -400, says(2 * PRICE)).await;
    refused(SECRET, 400, says(2 * PRICE)).await;
    refused(SECRET, 0, json!({"id": "evt-1", "key": key, "status": "pending"})).await;
    refused(SECRET, 0, json!({"id": "evt-1", "key": "nonsense", "status": "declined"})).await;
    refused(SECRET, 0, json!("hello")).await;
    let (status, _) = http::raw_post(node, "/v1/payments/webhook", "", &says(2 * PRICE).to_string()).await;
    assert!((400..500).contains(&status), "without a signature: {status}");
    let header = format!("boxoffice-signature: t=1,v1={}\r\n", "0".repeat(64));
    let (status, _) = http::raw_post(node, "/v1/payments/webhook", &header, &says(2 * PRICE).to_string()).await;
    assert!((400..500).contains(&status), "a signature of zeros: {status}");
    assert_eq!(buyer.state().await, "checking_out");
    // Of carts nobody knows, and attempts that never were: taken or not, nothing comes of it.
    let unknown = json!({"id": "evt-2", "key": format!("{}-1", "ab".repeat(16)), "status": "declined", "reason": "no"});
    webhook(node, SECRET, 0, &unknown).await;
    let never = json!({"id": "evt-3", "key": format!("{}-7", buyer.cart()), "status": "declined", "reason": "no"});
    webhook(node, SECRET, 0, &never).await;
    assert_eq!(buyer.state().await, "checking_out");
    // The true one, twice, and once more by many.
    for _ in 0..3 {
        let (status, text) = webhook(node, SECRET, 0, &says(2 * PRICE)).await;
        assert!((200..300).contains(&status), "{status} {text}");
    }
    paying.await.expect("it is answered").ok();
    let once_more = says(2 * PRICE);
    join_all((0..10).map(|_| webhook(node, SECRET, 0, &once_more))).await;
    paid(&buyer, "captured").await;
    // A decline that comes late changes nothing of what is sold.
    let late = json!({"id": "evt-4", "key": key, "status": "declined", "reason": "too late"});
    webhook(node, SECRET, 0, &late).await;
    paid(&buyer, "captured").await;
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    let audit = audit(&stage.port).await;
    assert_eq!((audit["orders"].as_u64(), audit["payments"]["captured"].as_u64()), (Some(1), Some(1)));
    assert_eq!(places(&stage.port, "finals").await, [498, 0, 2]);
}

/// An authorization nobody ever answers: the places stay held, and an operator says how it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_settles_it() {
    let more = "timeout_ms = 10_000\nagain_ms = 600_000\nwait_ms = 100\n";
    let mut stage = Stage::new("an_operator_settles_it", more).await;
    let buyers = [stage.holding(1).await, stage.holding(2).await, stage.holding(3).await];
    for buyer in &buyers {
        buyer.pay("timeout").await.no(602, "payment_pending");
    }
    assert_eq!(places(&stage.port, "finals").await, [494, 6, 0]);
    let settle = |buyer: &Shopper, attempt: u32, outcome: &str, reference: Option<&str>| json!({"cart": buyer.cart(), "attempt": attempt, "outcome": outcome, "reference": reference});
    let [first, second, third] = &buyers;
    let ask = async |rid: &str, body: Value| stage.port.ask("admin.settle", rid, body).await;
    ask("s1", settle(first, 9, "declined", None)).await.no(701, "not_found");
    ask("s2", settle(first, 1, "authorized", None)).await.no(101, "bad_request");
    ask("s3", settle(first, 1, "perhaps", None)).await.no(101, "bad_request");
    // It was not set aside, as far as the operator knows; the gateway is told to give it up all the same.
    ask("s4", settle(first, 1, "declined", None)).await.ok();
    charged(&stage.gateway, first, &[("voided", PRICE, 0, 0)]).await;
    assert_eq!(first.state().await, "canceled");
    places_are(&stage.port, "finals", [495, 5, 0]).await;
    // It was.
    let ledger = stage.gateway.ledger().await;
    let reference = |buyer: &Shopper| {
        let charges = ledger["charges"].as_array().expect("charges");
        let charge = charges.iter().find(|charge| charge["order"] == buyer.cart()).expect("a charge");
        charge["reference"].as_str().expect("a reference").to_owned()
    };
    let known = reference(second);
    ask("s5", settle(second, 1, "authorized", Some(&known))).await.ok();
    ask("s6", settle(second, 1, "authorized", Some(&known))).await.ok();
    paid(second, "captured").await;
    charged(&stage.gateway, second, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    // Under a name that is not the gateway's it cannot be captured, and the order says so.
    ask("s7", settle(third, 1, "authorized", Some("auth_999"))).await.ok();
    let order = paid(third, "capture_failed").await;
    assert_eq!(order["payment_status"]["reason"], "this is not its reference");
    places_are(&stage.port, "finals", [495, 0, 5]).await;
    stage.money_agrees().await;
}

/// What nobody knows the end of is counted from the first moment to the last, whether or not the gateway is being asked just
/// now, and after a restart too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_settled_is_counted() {
    let more = "timeout_ms = 200\nagain_ms = 40\nwait_ms = 100\n";
    let mut stage = Stage::new("what_is_not_settled_is_counted", more).await;
    let node = stage.server.address();
    assert_eq!(open(node, &stage.port).await, (0, 0));
    let refunded = stage.holding(1).await;
    refunded.pay("refund-error-1000").await.ok();
    paid(&refunded, "captured").await;
    open_are(node, &stage.port, (0, 0)).await;
    let refund = json!({"order": refunded.cart(), "reason": "ill"});
    stage.port.ask("order.refund", "r", refund).await.ok();
    open_are(node, &stage.port, (1, 0)).await;
    let voided = stage.holding(1).await;
    voided.pay("amount-7+void-error-1000").await.no(603, "amount_mismatch");
    open_are(node, &stage.port, (2, 0)).await;
    let sold = stage.holding(1).await;
    sold.pay("capture-error-1000").await.ok();
    open_are(node, &stage.port, (3, 0)).await;
    let unknown = stage.holding(1).await;
    unknown.pay("timeout").await.no(602, "payment_pending");
    open_are(node, &stage.port, (4, 0)).await;
    // What was said elsewhere is not asked of anybody.
    stage.holding(1).await.checkout().await.ok();
    for _ in 0..10 {
        // Asked again and again: in flight or not, they are as many.
        assert_eq!(open(node, &stage.port).await, (4, 0));
    }
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (4, 0));
    // The operator knows how they ended.
    let settle = |buyer: &Shopper, outcome: Value| {
        let mut body = json!({"cart": buyer.cart(), "attempt": 1});
        body.as_object_mut().expect("fields").extend(outcome.as_object().expect("fields").clone());
        body
    };
    let ask = async |rid: &str, body: Value| stage.port.ask("admin.settle", rid, body).await;
    ask("s1", settle(&refunded, json!({"outcome": "voided"}))).await.no(701, "not_found");
    ask("s2", settle(&refunded, json!({"outcome": "refunded", "refund": 2}))).await.no(701, "not_found");
    for rid in ["s3", "s4"] {
        ask(rid, settle(&refunded, json!({"outcome": "refunded", "refund": 1}))).await.ok();
        ask(rid, settle(&voided, json!({"outcome": "voided"}))).await.ok();
        ask(rid, settle(&sold, json!({"outcome": "captured"}))).await.ok();
    }
    open_are(node, &stage.port, (1, 0)).await;
    ask("s5", settle(&unknown, json!({"outcome": "declined"}))).await.ok();
    open_are(node, &stage.port, (0, 0)).await;
    charged(&stage.gateway, &unknown, &[("voided", PRICE, 0, 0)]).await;
    let order = stage.again(&refunded).order().await;
    assert_eq!(order["refunds"][0]["status"], json!({"state": "refunded"}));
    assert_eq!(stage.again(&sold).order().await["payment_status"], json!({"state": "captured"}));
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (0, 0));
}

/// What fails for good is written down with its reason and counted, until the operator has seen to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_for_good_is_the_operators() {
    let mut stage = Stage::new("what_fails_for_good_is_the_operators", SOON).await;
    let node = stage.server.address();
    let (void, refund, capture) = (stage.holding(1).await, stage.holding(2).await, stage.holding(3).await);
    void.pay("amount-7+void-error-1+void-fails").await.no(603, "amount_mismatch");
    open_are(node, &stage.port, (0, 1)).await;
    refund.pay("refund-fails").await.ok();
    let body = json!({"order": refund.cart(), "reason": "ill"});
    stage.port.ask("order.refund", "r", body).await.ok();
    open_are(node, &stage.port, (0, 2)).await;
    capture.pay("capture-fails").await.ok();
    open_are(node, &stage.port, (0, 3)).await;
    charged(&stage.gateway, &void, &[("authorized", 7, 0, 0)]).await;
    charged(&stage.gateway, &refund, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (0, 3));
    let requests = stage.gateway.ledger().await["requests"].clone();
    // Where they are, and why.
    let keys = audit(&stage.port).await["failed_keys"].clone();
    let expected = [(&void, "void"), (&refund, "refund-1"), (&capture, "capture")]
        .map(|(buyer, step)| format!("{}-1-{step}", buyer.cart()));
    for key in &expected {
        assert!(keys.as_array().expect("keys").contains(&json!(key)), "{key} is not among {keys}");
    }
    let failed = json!({"state": "failed", "reason": "failed as asked"});
    let cart = |buyer: &Shopper| json!({"entity": format!("cart/{}", buyer.cart())});
    let found = stage.port.read("admin.audit", cart(&void)).await.ok();
    assert_eq!(found["voids"], json!([{"attempt": 1, "status": failed}]));
    assert_eq!(stage.again(&refund).order().await["refunds"][0]["status"], failed);
    for (buyer, event, details) in [
        (&void, "void", "attempt 1: failed: failed as asked"),
        (&refund, "refund", "number 1: failed: failed as asked"),
        (&capture, "payment", "capture failed: failed as asked"),
    ] {
        let history = stage.port.read("admin.history", cart(buyer)).await.ok();
        let entries = history["entries"].as_array().expect("entries");
        let told = entries.iter().any(|entry| entry["event"] == event && entry["details"] == details);
        assert!(told, "{event}: {details} is not in {history}");
    }
    // It is for good: nobody asks again.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stage.gateway.ledger().await["requests"], requests);
    // Done by hand.
    let settle = async |buyer: &Shopper, mut body: Value| {
        (body["cart"], body["attempt"]) = (buyer.cart().into(), 1.into());
        stage.port.ask("admin.settle", "seen-to", body).await.ok();
    };
    settle(&void, json!({"outcome": "voided"})).await;
    open_are(node, &stage.port, (0, 2)).await;
    settle(&refund, json!({"outcome": "refunded", "refund": 1})).await;
    open_are(node, &stage.port, (0, 1)).await;
    // Nobody will ever pay it: the places are on sale again, and that is all there is to do.
    let body = json!({"order": capture.cart(), "reason": "never paid"});
    stage.port.ask("order.refund", "r2", body).await.ok();
    open_are(node, &stage.port, (0, 0)).await;
    places_are(&stage.port, "finals", [500, 0, 0]).await;
    let found = stage.port.read("admin.audit", cart(&void)).await.ok();
    assert_eq!(found["voids"], json!([{"attempt": 1, "status": {"state": "voided"}}]));
    // Nothing is left to see to, and the carts leave memory.
    eventually("they have left memory", async || {
        let status = stage.port.read("admin.status", json!({})).await.ok();
        (status["carts_archived"] == 3).then_some(())
    })
    .await;
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (0, 0));
}

/// The gateway is taken out of the configuration: what was decided through it is answered as before, what is under way stays
/// open and is counted, and nothing new is begun. With the gateway there again, it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_taken_out_of_the_configuration() {
    let more = "timeout_ms = 200\nagain_ms = 40\nwait_ms = 300\n";
    let mut stage = Stage::new("the_gateway_is_taken_out_of_the_configuration", more).await;
    let pay = |source: &str| json!({"payment": {"gateway": {"source": source}}});
    let (decided, under_way, new) = (stage.holding(1).await, stage.holding(2).await, stage.holding(3).await);
    let answer = decided.ask_as("pay", "cart.checkout", pay("ok")).await.ok();
    assert_eq!(answer["payment_status"], json!({"state": "authorized"}));
    paid(&decided, "captured").await;
    // It is set aside, and nobody is told so.
    under_way.ask_as("pay", "cart.checkout", pay("timeout-8")).await.no(602, "payment_pending");
    let restart = async |stage: Stage, config: &str| {
        let Stage { home, gateway, server, port, dice } = stage;
        let address = server.address();
        drop(port);
        server.stop();
        home.write_config(config);
        let server = home.start_at(address);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        Stage { home, gateway, server, port, dice }
    };
    stage = restart(stage, &format!("{CONFIG}[payments]\nwait_ms = 300\nagain_ms = 40\n")).await;
    let node = stage.server.address();
    let [decided, under_way, new] = [&decided, &under_way, &new].map(|buyer| stage.again(buyer));
    assert_eq!(decided.ask_as("pay", "cart.checkout", pay("ok")).await.ok(), answer);
    decided.ask_as("pay", "cart.checkout", pay("other")).await.no(105, "request_id_reused");
    let no = new.ask_as("pay", "cart.checkout", pay("ok")).await.no(101, "bad_request");
    assert!(no["message"].as_str().is_some_and(|words| words.contains("no gateway is configured")), "{no}");
    assert_eq!(new.state().await, "active");
    under_way.ask_as("pay", "cart.checkout", pay("timeout-8")).await.no(602, "payment_pending");
    assert_eq!(under_way.state().await, "checking_out");
    assert_eq!(open(node, &stage.port).await, (1, 0));
    assert_eq!(places(&stage.port, "finals").await, [494, 5, 1]);
    new.ask_as("elsewhere", "cart.checkout", json!({"payment": recorded()})).await.ok();
    let address = stage.gateway.address();
    stage = restart(stage, &config(address, more)).await;
    let [decided, under_way] = [&decided, &under_way].map(|buyer| stage.again(buyer));
    paid(&under_way, "captured").await;
    open_are(node, &stage.port, (0, 0)).await;
    assert_eq!(decided.ask_as("pay", "cart.checkout", pay("ok")).await.ok(), answer);
    charged(&stage.gateway, &under_way, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    places_are(&stage.port, "finals", [494, 0, 6]).await;
    stage.money_agrees().await;
}
