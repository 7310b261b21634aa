//! Payments that need an operator.

use std::time::Duration;

use serde_json::{Value, json};

use super::{FAST_RETRIES, PRICE, Stage, charged, open, open_are, paid};
use crate::common::{
    Shopper, eventually,
    fixture::{audit, places, places_are},
};

/// An authorization without an answer: the places stay held until an operator settles it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_settles_an_unanswered_payment() {
    let more = "timeout_ms = 10_000\nagain_ms = 600_000\nwait_ms = 100\n";
    let mut stage = Stage::new("an_operator_settles_an_unanswered_payment", more).await;
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
    // The operator records no authorization. The gateway is told to void it all the same.
    ask("s4", settle(first, 1, "declined", None)).await.ok();
    charged(&stage.gateway, first, &[("voided", PRICE, 0, 0)]).await;
    assert_eq!(first.state().await, "canceled");
    places_are(&stage.port, "finals", [495, 5, 0]).await;
    // The operator records an authorization.
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
    // The gateway does not know this reference, so the capture fails, and the order shows that.
    ask("s7", settle(third, 1, "authorized", Some("auth_999"))).await.ok();
    let order = paid(third, "capture_failed").await;
    assert_eq!(order["payment_status"]["reason"], "this is not its reference");
    places_are(&stage.port, "finals", [495, 0, 5]).await;
    stage.money_agrees().await;
}

/// Payments with unknown outcomes are counted from begin to end, with or without a call to the gateway under way, and after a
/// restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsettled_payments_are_counted() {
    let more = "timeout_ms = 200\nagain_ms = 40\nwait_ms = 3_000\n";
    let mut stage = Stage::new("unsettled_payments_are_counted", more).await;
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
    // A payment that was recorded elsewhere needs no call.
    stage.holding(1).await.checkout().await.ok();
    for _ in 0..10 {
        // Retries do not change the count.
        assert_eq!(open(node, &stage.port).await, (4, 0));
    }
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (4, 0));
    // The operator records their outcomes.
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

/// A permanent failure is recorded with its reason and counted until the operator settles it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_failures_are_settled_by_the_operator() {
    let mut stage = Stage::new("permanent_failures_are_settled_by_the_operator", FAST_RETRIES).await;
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
    // The audit and the histories name them and the reason.
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
        let is_recorded = entries.iter().any(|entry| entry["event"] == event && entry["details"] == details);
        assert!(is_recorded, "{event}: {details} is not in {history}");
    }
    // The failure is final: the node does not retry.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stage.gateway.ledger().await["requests"], requests);
    // The operator settled it by hand.
    let settle = async |buyer: &Shopper, mut body: Value| {
        (body["cart"], body["attempt"]) = (buyer.cart().into(), 1.into());
        stage.port.ask("admin.settle", "seen-to", body).await.ok();
    };
    settle(&void, json!({"outcome": "voided"})).await;
    open_are(node, &stage.port, (0, 2)).await;
    settle(&refund, json!({"outcome": "refunded", "refund": 1})).await;
    open_are(node, &stage.port, (0, 1)).await;
    // The order will never be paid. Its places are on sale again, and nothing else remains to do.
    let body = json!({"order": capture.cart(), "reason": "never paid"});
    stage.port.ask("order.refund", "r2", body).await.ok();
    open_are(node, &stage.port, (0, 0)).await;
    places_are(&stage.port, "finals", [500, 0, 0]).await;
    let found = stage.port.read("admin.audit", cart(&void)).await.ok();
    assert_eq!(found["voids"], json!([{"attempt": 1, "status": {"state": "voided"}}]));
    // Nothing is open, and the carts leave memory.
    eventually("the carts have left memory", async || {
        let status = stage.port.read("admin.status", json!({})).await.ok();
        (status["carts_archived"] == 3).then_some(())
    })
    .await;
    stage = stage.crash().await;
    assert_eq!(open(node, &stage.port).await, (0, 0));
}
