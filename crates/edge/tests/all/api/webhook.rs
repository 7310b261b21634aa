//! Webhooks of the payment gateway, taken by a real node whose gateway sets money aside and never says so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boxoffice_core::time::Timestamp;
use boxoffice_env::secret::Secret;
use boxoffice_gateway::{LedgerHandle, Server, Settings};
use boxoffice_payment::GatewayConfig;
use boxoffice_wire::webhook::sign;
use serde_json::{Value, json};

use crate::{
    api::house::House,
    asking::{Asking, Told},
};

const OLD: &str = "the-old-secret-of-a-test";
const NEW: &str = "the-new-secret-of-a-test";
const SESSION: &str = "hamlet-tonight";
const PATH: &str = "/v1/payments/webhook";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(u64::try_from(since.as_millis()).expect("before the end of time"))
}

async fn deliver(asking: &mut Asking, secret: &str, at: Timestamp, body: &Value) -> Told {
    let body = body.to_string();
    let signature = sign(secret.as_bytes(), at, body.as_bytes());
    asking.post(PATH, &[("boxoffice-signature", &signature)], &body).await
}

/// A gateway, a node with it, and a cart whose payment is pending: its key and what the gateway set aside.
async fn pending() -> (House, LedgerHandle, Asking, String, Value) {
    let gateway = Server::bind(Settings::default()).await.expect("a free port");
    let ledger = gateway.ledger();
    let url = format!("http://{}", gateway.address()).parse().expect("an address");
    tokio::spawn(gateway.run(std::future::pending()));
    let config = GatewayConfig { url, timeout_ms: 2_000, api_key: None, concurrency: 8 };
    let webhook_secrets = vec![Secret(NEW.into()), Secret(OLD.into())];
    let house = House::with(Some(config), webhook_secrets).await;
    house.furnish().await;
    let mut asking = Asking::connect(house.address).await;
    let token = format!("{:032x}", 1);
    let hold = json!({"token": token, "session": SESSION, "seats": [[1, 5]]});
    let held = asking.command("cart.hold_seats", "1", &hold).await;
    assert_eq!(held.status, 200, "{held:?}");
    let paid = json!({"token": token, "payment": {"gateway": {"source": "timeout"}}});
    let told = asking.command("cart.checkout", "2", &paid).await;
    assert_eq!(told.code(), 602, "the gateway does not answer: {told:?}");
    // It is on its way to the gateway, or there already.
    let charge = loop {
        match ledger.view().charges.into_iter().find(|charge| charge.reference.is_some()) {
            Some(charge) => break charge,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let amount = json!({"amount": charge.authorized, "currency": charge.currency.as_str()});
    let reference = charge.reference.expect("it set the money aside");
    let body = json!({"id": "evt-1", "key": charge.key, "status": "authorized", "reference": reference.as_str(), "amount": amount});
    (house, ledger, asking, token, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_decides_a_pending_payment_once() {
    let (house, ledger, mut asking, token, body) = pending().await;
    let told = deliver(&mut asking, NEW, now(), &body).await;
    assert_eq!((told.status, told.code()), (200, 0), "{told:?}");
    // It was answered after the decision was committed: the order is there.
    let cart = asking.command("cart.get", "3", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("done"), "{cart}");
    // Replays, also signed with the secret that goes, change nothing.
    let order = cart["order"].clone();
    for secret in [NEW, OLD, NEW] {
        let told = deliver(&mut asking, secret, now(), &body).await;
        assert_eq!(told.status, 200, "{told:?}");
    }
    // A late and opposite word changes nothing either: the decision stands.
    let declined = json!({"id": "evt-2", "key": body["key"], "status": "declined", "reason": "second thoughts"});
    assert_eq!(deliver(&mut asking, NEW, now(), &declined).await.status, 200);
    let again = asking.command("cart.get", "4", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(again, cart);
    // The repeat of the checkout that was told `payment_pending` gets the order; the money is taken once.
    let paid = json!({"token": token, "payment": {"gateway": {"source": "timeout"}}});
    let told = asking.command("cart.checkout", "2", &paid).await;
    assert_eq!((told.status, &told.json()["ok"]["id"]), (200, &order), "{told:?}");
    for _ in 0..2_000 {
        let charge = ledger.view().charges.into_iter().next().expect("the charge");
        if charge.captured > 0 {
            assert_eq!((charge.captured, ledger.view().charges.len()), (charge.authorized, 1));
            let metrics = asking.get("/metrics", &[]).await;
            let text = String::from_utf8(metrics.body).expect("text");
            assert!(text.contains("boxoffice_edge_webhooks_total{outcome=\"ok\"} 5"), "{text}");
            return house.close().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing was taken: {:?}", ledger.view().charges);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_believed_only_with_its_signature() {
    let (house, _ledger, mut asking, token, body) = pending().await;
    let text = body.to_string();
    let good = sign(NEW.as_bytes(), now(), text.as_bytes());
    // Somebody else; nobody; the same with another body.
    assert_eq!(deliver(&mut asking, "another-secret-of-a-test", now(), &body).await.status, 401);
    assert_eq!(asking.post(PATH, &[], &text).await.status, 401);
    let forged = text.replace("evt-1", "evt-2");
    assert_eq!(asking.post(PATH, &[("boxoffice-signature", &good)], &forged).await.status, 401);
    // What cannot be read, is too old, or says nothing.
    for header in ["", "t=1", "t=x,v1=00"] {
        let told = asking.post(PATH, &[("boxoffice-signature", header)], &text).await;
        assert_eq!((told.status, told.code()), (400, 101), "{header}: {told:?}");
    }
    let twice = [("boxoffice-signature", good.as_str()), ("boxoffice-signature", good.as_str())];
    assert_eq!(asking.post(PATH, &twice, &text).await.status, 400);
    let told = deliver(&mut asking, NEW, Timestamp(now().0 - 600_000), &body).await;
    assert_eq!((told.status, told.code()), (400, 101), "{told:?}");
    for wrong in [json!({}), json!({"id": "e", "key": body["key"], "status": "pending"}), json!([1])] {
        assert_eq!(deliver(&mut asking, NEW, now(), &wrong).await.status, 400, "{wrong}");
    }
    // Payments that never were: of no cart, and of an attempt that the cart never made.
    let mut other = body.clone();
    other["key"] = json!(format!("{:032x}-1", 77));
    assert_eq!(deliver(&mut asking, NEW, now(), &other).await.status, 404);
    other["key"] = json!(body["key"].as_str().expect("a key").replace("-1", "-9"));
    assert_eq!(deliver(&mut asking, NEW, now(), &other).await.status, 404);
    assert_eq!(asking.get(PATH, &[]).await.status, 405);
    // Nothing of all this was taken for true.
    let cart = asking.command("cart.get", "9", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("checking_out"), "{cart}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_gateway_no_payment_through_it_is_begun() {
    let house = House::furnished().await;
    let mut asking = Asking::connect(house.address).await;
    let token = format!("{:032x}", 1);
    let hold = json!({"token": token, "session": SESSION, "seats": [[1, 5]]});
    assert_eq!(asking.command("cart.hold_seats", "1", &hold).await.status, 200);
    let paid = json!({"token": token, "payment": {"gateway": {"source": "ok"}}});
    let told = asking.command("cart.checkout", "2", &paid).await;
    assert_eq!((told.status, told.code()), (400, 101), "{told:?}");
    assert!(told.json()["no"]["message"].as_str().is_some_and(|words| words.contains("no gateway is configured")));
    let cart = asking.command("cart.get", "3", &json!({"token": token})).await.json()["ok"].clone();
    assert_eq!(cart["state"], json!("active"), "it goes on: {cart}");
    // And nobody is believed to be a gateway.
    let body = json!({"id": "evt-1", "key": format!("{:032x}-1", 1), "status": "captured"});
    assert_eq!(deliver(&mut asking, "", now(), &body).await.status, 401);
    house.close().await;
}
