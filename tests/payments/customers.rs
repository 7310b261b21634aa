//! Customers with tokens buy where strangers may only watch.

use boxoffice_core::id::Id;
use boxoffice_wire::customer;
use serde_json::json;

use super::Stage;
use crate::common::{Encoding, Port, http};

const CUSTOMERS: &str = "what the tokens of customers are made with";

const LISTEN: &str =
    "\n[listen]\nanonymous = \"watch\"\ncustomer_secret = \"what the tokens of customers are made with\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_with_a_token_buys_where_strangers_watch() {
    let mut stage = Stage::new("a_customer_with_a_token_buys_where_strangers_watch", LISTEN).await;
    let address = stage.server.address();
    let shown = customer::token(CUSTOMERS.as_bytes(), &Id::new("ada").expect("a good id"));
    let hold =
        |token: &str| json!({"token": token, "session": "finals", "area": "yard", "quantity": 2, "customer": "ada"});
    let pay = |token: &str| json!({"token": token, "customer": "ada", "payment": {"gateway": {"source": "ok"}}});
    // Over a WebSocket, before and after the hello.
    let port = Port::guest(address, Encoding::Json).await;
    let token = stage.rng.token();
    port.ask("cart.open", "o", json!({"token": token})).await.no(107, "unauthenticated");
    port.frame(json!({"op": "hello", "body": {"customer": "ada", "customer_token": shown}})).await.ok();
    port.ask("cart.open", "o", json!({"token": token, "customer": "ada"})).await.ok();
    port.ask("cart.hold_places", "h", hold(&token)).await.ok();
    let order = port.ask("cart.checkout", "c", pay(&token)).await.ok();
    let order = json!({"order": order["id"]});
    port.read("order.get", order.clone()).await.ok();
    // Over HTTP.
    let token = stage.rng.token();
    let ask = async |op: &str, rid: &str, body: &serde_json::Value| {
        let shown =
            format!("boxoffice-customer: ada\r\nboxoffice-customer-token: {shown}\r\nidempotency-key: {rid}\r\n");
        http::raw_post(address, &format!("/v1/{op}"), &shown, &body.to_string()).await
    };
    for (op, body) in [
        ("cart.open", json!({"token": token, "customer": "ada"})),
        ("cart.hold_places", hold(&token)),
        ("cart.checkout", pay(&token)),
        ("customer.purchases", json!({"customer": "ada"})),
    ] {
        let (status, answer) = ask(op, op, &body).await;
        assert_eq!(status, 200, "{op}: {answer}");
    }
    // It is no staff, and no other customer.
    for (op, body) in [
        ("customer.purchases", json!({"customer": "bob"})),
        ("admin.status", json!({})),
        ("venue.put", json!({"id": "v", "name": "V"})),
    ] {
        let (status, answer) = ask(op, op, &body).await;
        assert_eq!(status, 403, "{op}: {answer}");
    }
    port.ask("session.cancel", "x", json!({"id": "finals"})).await.no(108, "forbidden");
    // A stranger watches, and sees nothing of this.
    let (_, stranger) = http::post_as(None, address, "order.get", None, &order).await;
    assert_eq!(stranger["no"]["code"], 107, "{stranger}");
    stage.server.stop();
}
