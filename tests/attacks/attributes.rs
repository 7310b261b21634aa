//! Offers for customers with an attribute: who has it by a token that the shop has signed, and who only says so.

use serde_json::{Value, json};

use super::{
    roles::with_tokens,
    stage::Stage,
    tokens::{self, Shop, good, shared},
    wire::{self, attacker},
};
use crate::common::{Answer, Encoding, Home, Port, checkout};

/// The claims of a customer with these attributes.
fn claims(customer: &str, attributes: Value) -> Value {
    let mut claims = good(customer, "sell");
    claims["attributes"] = attributes;
    claims
}

/// What `session.get` tells a caller of the offers of a session.
async fn told(port: &Port, session: &str) -> Value {
    let told = port.read("session.get", json!({"id": session, "layout": false})).await.ok();
    assert!(!told.to_string().contains("staff"), "{told}");
    told["offers"].as_array().into_iter().flatten().map(|offer| offer["id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_are_those_of_the_token() {
    let shop = Shop::new();
    let stage = Stage::of_home("attributes_are_those_of_the_token", Home::with_config(&with_tokens(&shop))).await;
    let desk = tokens::key(&stage, "till", "desk").await;
    let desk = Port::show(stage.address(), Encoding::Json, Some(&desk)).await.expect("a key");
    let mut rng = stage.rng.fork(1);
    for (place, encoding) in Encoding::BOTH.into_iter().enumerate() {
        let session = stage.theatre.sessions[place].as_str();
        let offers = json!([
            {"id": "web", "amount_off": 0},
            {"id": "members", "attributes": ["member", "friend"], "set_price": 100},
            {"id": "staff", "attributes": ["staff"], "set_price": 1},
        ]);
        desk.ask("session.change", &rng.token(), json!({"id": session, "offers": offers})).await.ok();
        let list_price = stage.theatre.price;
        let hold = |token: &str, seat: u16| json!({"token": token, "session": session, "seats": [[place, seat]]});
        let price =
            |held: &Value| (held["lines"][0]["prices"][0].clone(), held["lines"][0]["bought_as"][0]["offer"].clone());

        // A customer of the shop who is a member, said in either of the two forms and under either key.
        let all = [
            shop.eddsa(&claims("ada", json!("member"))),
            shop.eddsa(&claims("ada", json!(["singer", "friend"]))),
            shared(&claims("ada", json!(["member"]))),
        ];
        for (seat, token) in (0..).zip(&all) {
            let member = Port::show(stage.address(), encoding, Some(token)).await.expect("a token");
            assert_eq!(told(&member, session).await, json!(["web", "members"]));
            let cart = rng.token();
            let held = member.ask("cart.hold_seats", &rng.token(), hold(&cart, seat)).await.ok();
            assert_eq!(price(&held), (json!(100), json!("members")));
            // The price is that of the hold, whoever pays.
            let order = desk.ask("cart.checkout", &rng.token(), checkout(&cart)).await.ok();
            assert_eq!(order["total"]["amount"], 100);
        }

        // Everybody else pays the list price, and learns of no other: customers without an attribute, those whose token is the secret's,
        // staff and keys, and who only says what he is.
        let customers = tokens::of_customer("ada");
        let plain = shop.eddsa(&good("ada", "sell"));
        let others = shop.eddsa(&claims("ada", json!(["mem", "members", "Member"])));
        let till = shop.eddsa(&{
            let mut claims = claims("eve", json!(["member"]));
            claims["role"] = json!(["sell", "report"]);
            claims
        });
        for (seat, token) in (10..).zip([None, Some(&plain), Some(&others), Some(&till)]) {
            let caller = Port::show(stage.address(), encoding, token.map(String::as_str)).await.expect("a caller");
            assert_eq!(told(&caller, session).await, json!(["web"]), "{token:?}");
            let cart = rng.token();
            let held = caller.ask("cart.hold_seats", &rng.token(), hold(&cart, seat)).await.ok();
            assert_eq!(price(&held), (json!(list_price), json!("web")), "{token:?}");
            let mut named = hold(&cart, seat + 10);
            named["offer"] = json!("members");
            caller.ask("cart.hold_seats", &rng.token(), named).await.no(701, "not_found");
            let mut says = hold(&cart, seat + 10);
            says["attributes"] = json!(["member"]);
            let answer = caller.ask("cart.hold_seats", &rng.token(), says).await;
            assert!(matches!(&answer, Answer::No(no) if no.code == 101), "an unknown field is refused: {answer:?}");
        }
        let body = hold(&rng.token(), 18);
        let headers = format!("{}idempotency-key: {}\r\n", tokens::shows_customer("ada", &customers), rng.token());
        let (from, to) = (attacker(1), stage.address());
        let held = wire::post(from, to, "cart.hold_seats", &headers, &body.to_string()).await.expect("an answer");
        let held: Value = serde_json::from_str(&held.body).expect("JSON");
        assert_eq!(price(&held["ok"]), (json!(list_price), json!("web")), "{held}");

        // A token that says it wrongly is none.
        for wrong in
            [json!("not an id!"), json!(["member", ""]), json!((0..33).map(|at| format!("a{at}")).collect::<Vec<_>>())]
        {
            let wrong = shop.eddsa(&claims("ada", wrong));
            let refused = Port::show(stage.address(), encoding, Some(&wrong)).await;
            assert!(refused.is_err(), "it is let in");
        }

        // The desk says who is entitled by naming the offer.
        let cart = rng.token();
        let held = desk.ask("cart.hold_seats", &rng.token(), hold(&cart, 20)).await.ok();
        assert_eq!(price(&held), (json!(list_price), json!("web")));
        let mut named = hold(&cart, 21);
        named["offer"] = json!("members");
        let held = desk.ask("cart.hold_seats", &rng.token(), named).await.ok();
        assert_eq!(held["lines"][0]["prices"][0], 100);
    }
    stage.audit().await;
}
