//! Carts, orders, purchases and feeds of other customers: a customer of the shop tries to use them.

use serde_json::{Value, json};

use super::{
    roles::with_tokens,
    stage::Stage,
    tokens::{self, Shop, good},
    wire::{self, attacker},
};
use crate::common::{Answer, Encoding, Home, Port, checkout};

fn cart_of(token: &str) -> String {
    let token = boxoffice_core::id::CartToken(u128::from_str_radix(token, 16).expect("hexadecimal digits"));
    token.cart().to_string()
}

/// Everything that bob may try on ada's cart: with its id and another token.
fn attempts(cart: &str, token: &str, session: &str) -> Vec<(&'static str, Value)> {
    let body = |more: Value| {
        let mut body = json!({"cart": cart, "token": token});
        body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        body
    };
    let slot = json!({"resource": "room", "begin": "2040-01-01T10:00:00Z", "end": "2040-01-01T11:00:00Z"});
    vec![
        ("cart.open", body(json!({}))),
        ("cart.get", body(json!({}))),
        ("cart.hold_seats", body(json!({"session": session, "seats": [[19, 0]]}))),
        ("cart.hold_best", body(json!({"session": session, "count": 1}))),
        ("cart.hold_places", body(json!({"session": session, "area": "yard", "quantity": 1}))),
        ("cart.hold_stock", body(json!({"product": "pen", "quantity": 1}))),
        ("cart.hold_slot", body(slot.clone())),
        ("cart.hold_all", body(json!({"lines": [slot]}))),
        ("cart.set_quantity", body(json!({"line": 1, "quantity": 2}))),
        ("cart.release", body(json!({"line": 1}))),
        ("cart.cancel", body(json!({}))),
        ("cart.checkout_cancel", body(json!({}))),
        ("cart.checkout", body(json!({"payment": checkout("")["payment"]}))),
        ("watch", json!({"entity": format!("cart/{cart}"), "token": token})),
    ]
}

async fn tries(port: &Port, attempts: Vec<(&'static str, Value)>, code: u64, name: &str) {
    for (number, (op, body)) in attempts.into_iter().enumerate() {
        match port.ask(op, &format!("try-{number}"), body.clone()).await {
            Answer::No(no) => assert_eq!((no.code, no.name.as_str()), (code, name), "{op} {body}: {}", no.body),
            other => panic!("{op} {body} on a foreign cart: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_carts_are_neither_read_nor_changed() {
    let shop = Shop::new();
    let stage =
        Stage::of_home("foreign_carts_are_neither_read_nor_changed", Home::with_config(&with_tokens(&shop))).await;
    let run = stage.start_attack("2 foreign carts and purchases", 20).await;
    let mut rng = stage.rng.fork(100);
    let connect = async |number: u8, token: Option<String>| {
        let port = wire::port(attacker(number), stage.address(), Encoding::Json, token.as_deref()).await;
        port.unwrap_or_else(|error| panic!("{number} cannot connect: {error}"))
    };
    let ada = connect(1, Some(shop.eddsa(&good("ada", "sell")))).await;
    let session = stage.theatre.sessions.last().expect("sessions").clone();
    // Ada has a cart and an order.
    let (open, done) = (rng.token(), rng.token());
    for (token, row) in [(&open, 18), (&done, 17)] {
        let body = json!({"token": token, "customer": "ada", "session": session, "seats": [[row, 1], [row, 2]]});
        ada.ask("cart.hold_seats", "h", body).await.ok();
    }
    let order = ada.ask("cart.checkout", "c", checkout(&done)).await.ok();
    let before = ada.read("cart.get", json!({"token": open})).await.ok();

    let bob_headers = json!({"customer": "bob", "customer_token": tokens::of_customer("bob")});
    let by_customer_token = connect(3, None).await;
    by_customer_token.frame(json!({"op": "hello", "body": bob_headers})).await.ok();
    let others = [
        ("a token", connect(2, Some(shop.eddsa(&good("bob", "sell")))).await),
        ("a shared secret's token", connect(2, Some(tokens::shared(&good("bob", "sell")))).await),
        ("a customer's token", by_customer_token),
        ("nothing", connect(4, None).await),
    ];
    for (shows, other) in &others {
        println!("with {shows}");
        let token = rng.token();
        tries(other, attempts(&cart_of(&open), &token, &session), 305, "not_your_cart").await;
        let named = vec![
            ("cart.open", json!({"token": token, "customer": "ada"})),
            ("cart.hold_seats", json!({"token": token, "customer": "ada", "session": session, "seats": [[19, 0]]})),
            ("cart.checkout", {
                let mut body = checkout(&token);
                body["customer"] = json!("ada");
                body
            }),
            ("customer.purchases", json!({"customer": "ada"})),
            ("watch", json!({"entity": "customer/ada"})),
            ("order.get", json!({"order": order["id"]})),
            ("order.get", json!({"order": order["id"], "names": true})),
        ];
        tries(other, named, 108, "forbidden").await;
        // One connection acts for one customer.
        let hello = json!({"customer": "ada", "customer_token": tokens::of_customer("ada")});
        if *shows != "nothing" {
            other.frame(json!({"op": "hello", "body": hello})).await.no(108, "forbidden");
        }
    }
    // The same over HTTP.
    let headers = tokens::shows_customer("bob", &tokens::of_customer("bob"));
    for (op, body) in [
        ("customer.purchases", json!({"customer": "ada"})),
        ("order.get", json!({"order": order["id"]})),
        ("order.get", json!({"order": order["id"], "names": true})),
        ("cart.get", json!({"cart": cart_of(&open), "token": rng.token()})),
    ] {
        let answer =
            wire::post(attacker(5), stage.address(), op, &headers, &body.to_string()).await.expect("an answer");
        assert_eq!(answer.status, 403, "{op}: {}", answer.body);
    }
    // Nothing of Ada's has changed, and she can read and buy.
    assert_eq!(ada.read("cart.get", json!({"token": open})).await.ok(), before);
    ada.read("order.get", json!({"order": order["id"]})).await.ok();
    assert_eq!(ada.read("customer.purchases", json!({"customer": "ada"})).await.ok()["newest"], 1);
    ada.ask("cart.checkout", "c", checkout(&open)).await.ok();
    assert!(stage.metric("boxoffice_edge_denied_total{reason=\"customer\"}").await >= 5 * others.len() as u64);
    let sold = run.end().await;
    stage.has_sold_exactly(sold + 4).await;
    stage.server.stop();
}
