//! Webhooks of the payment gateway. The gateway authorizes payments and never answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boxoffice_core::time::Timestamp;
use boxoffice_env::secret::Secret;
use boxoffice_gateway::{LedgerHandle, Server, Settings};
use boxoffice_payment::GatewayConfig;
use boxoffice_wire::webhook::sign;
use serde_json::{Value, json};

use crate::{
    api::test_node::TestNode,
    http_client::{HttpAnswer, HttpClient},
};

const OLD: &str = "the-old-secret-of-a-test";
const NEW: &str = "the-new-secret-of-a-test";
const SESSION: &str = "hamlet-tonight";
const PATH: &str = "/v1/payments/webhook";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(u64::try_from(since.as_millis()).expect("before the end of time"))
}

async fn deliver(http_client: &mut HttpClient, secret: &str, at: Timestamp, body: &Value) -> HttpAnswer {
    let body = body.to_string();
    let signature = sign(secret.as_bytes(), at, body.as_bytes());
    http_client.post(PATH, &[("boxoffice-signature", &signature)], &body).await
}

/// A gateway, its node, and a cart with a pending payment: its key and the authorized amount.
async fn pending() -> (TestNode, LedgerHandle, HttpClient, String, Value) {
    let gateway = Server::bind(Settings::default()).await.expect("a free port");
    let ledger = gateway.ledger();
    let url = format!("http://{}", gateway.address()).parse().expect("an address");
    tokio::spawn(gateway.run(std::future::pending()));
    let config = GatewayConfig { url, timeout_ms: 2_000, api_key: None, concurrency: 8 };
    let webhook_secrets = vec![Secret(NEW.into()), Secret(OLD.into())];
    let test_node = TestNode::with(Some(config), webhook_secrets).await;
    test_node.create_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let token = format!("{:032x}", 1);
    let hold = json!({"token": token, "session": SESSION, "seats": [[1, 5]]});
    let held = http_client.command("cart.hold_seats", "1", &hold).await;
    assert_eq!(held.status, 200, "{held:?}");
    let paid = json!({"token": token, "payment": {"gateway": {"source": "timeout"}}});
    let response = http_client.command("cart.checkout", "2", &paid).await;
    assert_eq!(response.code(), 602, "the gateway does not answer: {response:?}");
    // The request is on its way to the gateway, or there already.
    let charge = loop {
        match ledger.view().charges.into_iter().find(|charge| charge.reference.is_some()) {
            Some(charge) => break charge,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let amount = json!({"amount": charge.authorized, "currency": charge.currency.as_str()});
    let reference = charge.reference.expect("the gateway authorized it");
    let body = json!({"id": "evt-1", "key": charge.key, "status": "authorized", "reference": reference.as_str(), "amount": amount});
    (test_node, ledger, http_client, token, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_decides_a_pending_payment_once() {
    let (test_node, ledger, mut http_client, token, body) = pending().await;
    let response = deliver(&mut http_client, NEW, now(), &body).await;
    assert_eq!((response.status, response.code()), (200, 0), "{response:?}");
    // The answer came after the commit, so the order exists.
    let cart = http_client.command("cart.get", "3", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("done"), "{cart}");
    // Repeats change nothing, even if signed with the old secret.
    let order = cart["order"].clone();
    for secret in [NEW, OLD, NEW] {
        let response = deliver(&mut http_client, secret, now(), &body).await;
        assert_eq!(response.status, 200, "{response:?}");
    }
    // A late webhook with the opposite outcome changes nothing either.
    let declined = json!({"id": "evt-2", "key": body["key"], "status": "declined", "reason": "second thoughts"});
    assert_eq!(deliver(&mut http_client, NEW, now(), &declined).await.status, 200);
    let again = http_client.command("cart.get", "4", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(again, cart);
    // A repeat of the checkout gets the order. The money is captured once.
    let paid = json!({"token": token, "payment": {"gateway": {"source": "timeout"}}});
    let response = http_client.command("cart.checkout", "2", &paid).await;
    assert_eq!((response.status, &response.json()["ok"]["id"]), (200, &order), "{response:?}");
    for _ in 0..2_000 {
        let charge = ledger.view().charges.into_iter().next().expect("the charge");
        if charge.captured > 0 {
            assert_eq!((charge.captured, ledger.view().charges.len()), (charge.authorized, 1));
            let metrics = http_client.get("/metrics", &[]).await;
            let text = String::from_utf8(metrics.body).expect("text");
            assert!(text.contains("boxoffice_edge_webhooks_total{outcome=\"ok\"} 5"), "{text}");
            return test_node.close().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing was captured: {:?}", ledger.view().charges);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_needs_a_valid_signature() {
    let (test_node, _ledger, mut http_client, token, body) = pending().await;
    let text = body.to_string();
    let good = sign(NEW.as_bytes(), now(), text.as_bytes());
    // Another secret, no signature, and the signature of another body.
    assert_eq!(deliver(&mut http_client, "another-secret-of-a-test", now(), &body).await.status, 401);
    assert_eq!(http_client.post(PATH, &[], &text).await.status, 401);
    let forged = text.replace("evt-1", "evt-2");
    assert_eq!(http_client.post(PATH, &[("boxoffice-signature", &good)], &forged).await.status, 401);
    // Unreadable, too old, or empty.
    for header in ["", "t=1", "t=x,v1=00"] {
        let response = http_client.post(PATH, &[("boxoffice-signature", header)], &text).await;
        assert_eq!((response.status, response.code()), (400, 101), "{header}: {response:?}");
    }
    let twice = [("boxoffice-signature", good.as_str()), ("boxoffice-signature", good.as_str())];
    assert_eq!(http_client.post(PATH, &twice, &text).await.status, 400);
    let response = deliver(&mut http_client, NEW, Timestamp(now().0 - 600_000), &body).await;
    assert_eq!((response.status, response.code()), (400, 101), "{response:?}");
    for wrong in [json!({}), json!({"id": "e", "key": body["key"], "status": "pending"}), json!([1])] {
        assert_eq!(deliver(&mut http_client, NEW, now(), &wrong).await.status, 400, "{wrong}");
    }
    // Payments of a cart that does not exist, and of an attempt that the cart never made.
    let mut other = body.clone();
    other["key"] = json!(format!("{:032x}-1", 77));
    assert_eq!(deliver(&mut http_client, NEW, now(), &other).await.status, 404);
    other["key"] = json!(body["key"].as_str().expect("a key").replace("-1", "-9"));
    assert_eq!(deliver(&mut http_client, NEW, now(), &other).await.status, 404);
    assert_eq!(http_client.get(PATH, &[]).await.status, 405);
    // None of them had an effect.
    let cart = http_client.command("cart.get", "9", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("checking_out"), "{cart}");
    test_node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_gateway_no_payment_begins() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let token = format!("{:032x}", 1);
    let hold = json!({"token": token, "session": SESSION, "seats": [[1, 5]]});
    assert_eq!(http_client.command("cart.hold_seats", "1", &hold).await.status, 200);
    let paid = json!({"token": token, "payment": {"gateway": {"source": "ok"}}});
    let response = http_client.command("cart.checkout", "2", &paid).await;
    assert_eq!((response.status, response.code()), (400, 101), "{response:?}");
    assert!(response.json()["no"]["message"].as_str().is_some_and(|words| words.contains("no gateway is configured")));
    let cart = http_client.command("cart.get", "3", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("active"), "the cart stays active: {cart}");
    // No webhook is accepted either.
    let body = json!({"id": "evt-1", "key": format!("{:032x}-1", 1), "status": "captured"});
    assert_eq!(deliver(&mut http_client, "", now(), &body).await.status, 401);
    test_node.close().await;
}
