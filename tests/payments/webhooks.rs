//! Webhooks of the gateway.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use boxoffice_core::time::Timestamp;
use boxoffice_wire::webhook::sign;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{PRICE, Stage, charged, paid};
use crate::common::{
    SECRET,
    fixture::{audit, places},
    http,
};

/// A webhook needs a valid signature, acts once, and has no effect on an ended payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_need_a_signature_and_act_once() {
    let mut stage = Stage::new(
        "webhooks_need_a_signature_and_act_once",
        "timeout_ms = 10_000\nagain_ms = 600_000\nwait_ms = 20_000\n",
    )
    .await;
    let node = stage.server.address();
    let buyer = stage.holding(2).await;
    // The call gets no answer, and a retry takes ten minutes, so only a webhook can settle it.
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
    // Webhooks of unknown carts and attempts have no effect, accepted or not.
    let unknown = json!({"id": "evt-2", "key": format!("{}-1", "ab".repeat(16)), "status": "declined", "reason": "no"});
    webhook(node, SECRET, 0, &unknown).await;
    let never = json!({"id": "evt-3", "key": format!("{}-7", buyer.cart()), "status": "declined", "reason": "no"});
    webhook(node, SECRET, 0, &never).await;
    assert_eq!(buyer.state().await, "checking_out");
    // The right webhook, twice, and several times concurrently.
    for _ in 0..3 {
        let (status, text) = webhook(node, SECRET, 0, &says(2 * PRICE)).await;
        assert!((200..300).contains(&status), "{status} {text}");
    }
    paying.await.expect("it is answered").ok();
    let once_more = says(2 * PRICE);
    join_all((0..10).map(|_| webhook(node, SECRET, 0, &once_more))).await;
    paid(&buyer, "captured").await;
    // A late decline does not change a sale.
    let late = json!({"id": "evt-4", "key": key, "status": "declined", "reason": "too late"});
    webhook(node, SECRET, 0, &late).await;
    paid(&buyer, "captured").await;
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    let audit = audit(&stage.port).await;
    assert_eq!((audit["orders"].as_u64(), audit["payments"]["captured"].as_u64()), (Some(1), Some(1)));
    assert_eq!(places(&stage.port, "finals").await, [498, 0, 2]);
}

/// Posts a webhook as the gateway would, signed with this secret at this many seconds from now.
async fn webhook(node: SocketAddr, secret: &str, shift_s: i64, body: &Value) -> (u16, String) {
    let text = body.to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let at = Timestamp((now + shift_s * 1_000) as u64);
    let header = format!("boxoffice-signature: {}\r\n", sign(secret.as_bytes(), at, text.as_bytes()));
    http::raw_post(node, "/v1/payments/webhook", &header, &text).await
}
