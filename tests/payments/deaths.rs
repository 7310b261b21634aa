//! Nodes and gateways that crash or stop during payments.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{CONFIG, FAST_RETRIES, PRICE, Stage, charged, config, open, open_are, paid};
use crate::common::{
    Answer, Encoding, Gateway, Shopper, eventually,
    fixture::{audit, event, places, places_are},
    recorded,
};

/// The node is killed before the authorization's answer, during the capture, and during a refund. Each step resumes by itself,
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_stage_of_a_payment() {
    let mut stage = Stage::new("killed_at_each_stage_of_a_payment", FAST_RETRIES).await;
    for source in ["delay-300", "capture-delay-300", "late-300", "decline+delay-300", "amount-5+void-delay-300"] {
        let buyer = stage.holding(2).await;
        let pay = buyer.body(json!({"payment": {"gateway": {"source": source}}}));
        let port = Arc::clone(&stage.port);
        let asked = {
            let pay = pay.clone();
            tokio::spawn(async move { port.ask("cart.checkout", "pay", pay).await })
        };
        // The gateway has decided and the node does not know yet, or the capture is under way.
        let stages: &[&str] = match source {
            "capture-delay-300" => &["captured"],
            "late-300" => &["pending"],
            "decline+delay-300" => &["declined"],
            "amount-5+void-delay-300" => &["voided"],
            _ => &["authorized"],
        };
        eventually("the gateway has received the call", async || {
            let charges = stage.gateway.charges(&buyer.cart()).await;
            charges.iter().any(|charge| stages.contains(&charge.0.as_str())).then_some(())
        })
        .await;
        stage = stage.crash().await;
        drop(asked.await);
        let buyer = stage.again(&buyer);
        // It needs no request of the buyer.
        match source {
            "decline+delay-300" => {
                charged(&stage.gateway, &buyer, &[("declined", 0, 0, 0)]).await;
                eventually("the cart is canceled", async || (buyer.state().await == "canceled").then_some(())).await;
            }
            "amount-5+void-delay-300" => {
                charged(&stage.gateway, &buyer, &[("voided", 5, 0, 0)]).await;
                eventually("the cart is canceled", async || (buyer.state().await == "canceled").then_some(())).await;
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

/// The node dies twice during sixty payments at different stages. Each ends as it would have, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_many_payments() {
    const BUYERS: usize = 60;
    let mut stage = Stage::new("killed_in_the_middle_of_many_payments", FAST_RETRIES).await;
    let mut sold = 0;
    for round in 0..2 {
        let mut buyers = Vec::new();
        for number in 0..BUYERS {
            let buyer = stage.holding(1).await;
            let (delay_ms, capture_ms) = (stage.rng.below(250), stage.rng.below(250));
            let what = ["ok", "ok", "ok", "ok", "lost-1", "late-60", "decline", "amount-3"][number % 8];
            buyers.push((buyer, format!("delay-{delay_ms}+{what}+capture-delay-{capture_ms}")));
        }
        let asked = join_all(buyers.iter().map(|(buyer, source)| {
            let pay = buyer.body(json!({"payment": {"gateway": {"source": source}}}));
            buyer.port.ask("cart.checkout", "pay", pay)
        }));
        let wait = Duration::from_millis(100 + stage.rng.below(150) as u64);
        let Stage { home, gateway, server, port, rng } = stage;
        let address = server.address();
        let crash = async {
            tokio::time::sleep(wait).await;
            server.kill();
            home.start_at(address)
        };
        let (answers, server) = tokio::join!(asked, crash);
        let known = answers.iter().filter(|answer| !answer.is_unknown()).count();
        println!("round {round}: {known} of {BUYERS} were answered before the kill");
        drop(port);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        stage = Stage { home, gateway, server, port, rng };
        // All buyers repeat their requests with the same request id.
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
                // A refusal is decided again: the cart has ended, or the request is refused again.
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

/// Without the gateway the places stay held beyond their time, and the outcome is unknown to the buyer. When the gateway is back,
/// the payment completes. A gateway that lost its state cannot capture, and the order shows that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_crashes_and_restarts() {
    let stage =
        Stage::new("the_gateway_crashes_and_restarts", "timeout_ms = 200\nagain_ms = 40\nwait_ms = 300\n").await;
    event(&stage.port, "quick", 10, json!({"hold_ttl_ms": 200})).await;
    let Stage { gateway, port, mut rng, server: _server, home: _home } = stage;
    let node = gateway.address();
    let at = gateway.kill();
    assert_eq!(at, node);
    let buyer = Shopper::new(&port, &mut rng);
    buyer.places("quick", "yard", 2).await.ok();
    let pay = buyer.body(json!({"payment": {"gateway": {"source": "ok"}}}));
    port.ask("cart.checkout", "pay", pay.clone()).await.no(602, "payment_pending");
    assert_eq!((buyer.state().await.as_str(), places(&port, "quick").await), ("checking_out", [8, 2, 0]));
    // An unknown outcome frees nothing, and a repeat does not charge twice.
    port.ask("cart.checkout", "pay", pay.clone()).await.no(602, "payment_pending");
    assert_eq!(port.read("admin.audit", json!({})).await.ok()["carts"]["checking_out"], 1);
    let gateway = Gateway::start_at(at);
    eventually("the order is paid", async || (buyer.state().await == "done").then_some(())).await;
    port.ask("cart.checkout", "pay", pay).await.ok();
    charged(&gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    paid(&buyer, "captured").await;

    // It dies with the authorization before the capture.
    let other = Shopper::new(&port, &mut rng);
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

/// The gateway is removed from the configuration: its earlier decisions are answered as before, pending payments stay open and
/// are counted, and no payment begins. With the gateway configured again, pending payments resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_taken_out_of_the_configuration() {
    let more = "timeout_ms = 200\nagain_ms = 40\nwait_ms = 300\n";
    let mut stage = Stage::new("the_gateway_is_taken_out_of_the_configuration", more).await;
    let pay = |source: &str| json!({"payment": {"gateway": {"source": source}}});
    let (decided, under_way, new) = (stage.holding(1).await, stage.holding(2).await, stage.holding(3).await);
    let answer = decided.ask_as("pay", "cart.checkout", pay("ok")).await.ok();
    assert_eq!(answer["payment_status"], json!({"state": "authorized"}));
    paid(&decided, "captured").await;
    // It is authorized, but the answer is lost.
    under_way.ask_as("pay", "cart.checkout", pay("timeout-8")).await.no(602, "payment_pending");
    let restart = async |stage: Stage, config: &str| {
        let Stage { home, gateway, server, port, rng } = stage;
        let address = server.address();
        drop(port);
        server.stop();
        home.write_config(config);
        let server = home.start_at(address);
        let port = Arc::new(server.port(Encoding::MsgPack).await);
        Stage { home, gateway, server, port, rng }
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
