//! One cart pays in one currency, and its total has a maximum. A request that breaks either rule is refused by name, holds
//! nothing, and leaves the cart as it was.

use std::sync::Arc;

use crate::common::{
    self, Answer, Encoding, Home, Port, Rng, Shopper, Theatre, eventually,
    fixture::{audit, event, places, product, room, stock},
};
use serde_json::{Value, json};

/// A hold of every kind, each in a currency of its own: the currency, and a line.
async fn open_everything(port: &Port) -> Vec<(&'static str, Value)> {
    let price = |currency: &str| json!({"amount": 700, "currency": currency});
    let theatre = Theatre::open(port, 1, (10, 20), None).await;
    event(port, "finals", 1_000, json!({"areas": [{"id": "yard", "capacity": 1_000, "price": price("USD")}]})).await;
    product(port, "pen", 1_000, json!({"price": price("GBP")})).await;
    product(port, "hot", 1_000, json!({"price": price("JPY"), "hold": "at_checkout"})).await;
    room(port, "court", json!({"capacity": 1_000, "rate": price("CHF")})).await;
    vec![
        ("EUR", json!({"session": theatre.session(), "count": 1})),
        ("USD", json!({"session": "finals", "area": "yard", "quantity": 1})),
        ("GBP", json!({"product": "pen", "quantity": 1})),
        ("JPY", json!({"product": "hot", "quantity": 1})),
        ("CHF", json!({"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn currencies_do_not_mix() {
    let mut rng = Rng::of_test("currencies_do_not_mix");
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(Encoding::Json).await);
    let wants = open_everything(&port).await;
    let hold = async |buyer: &Shopper, lines: &[&Value]| buyer.ask("cart.hold_all", json!({"lines": lines})).await;
    let says = |answer: Answer, theirs: &str, asked: &str| {
        let no = answer.no(101, "bad_request");
        let words = no["message"].as_str().expect("a message");
        let names_all = [theirs, asked, "use another cart"].iter().all(|word| words.contains(word));
        assert!(names_all, "{theirs} and {asked}: {words}");
    };
    let mut orders = 0;
    for (mine, first) in &wants {
        for (other, second) in wants.iter().filter(|(other, _)| other != mine) {
            let buyer = Shopper::new(&port, &mut rng);
            // In one request, before the cart exists.
            says(hold(&buyer, &[first, second]).await, mine, other);
            buyer.port.read("cart.get", buyer.body(json!({}))).await.no(701, "not_found");
            // In later requests, also among other lines.
            hold(&buyer, &[first]).await.ok();
            let cart = buyer.get().await;
            says(hold(&buyer, &[second]).await, mine, other);
            says(hold(&buyer, &[first, second]).await, mine, other);
            assert_eq!(buyer.get().await, cart, "a refusal changes nothing");
            let order = buyer.checkout().await.ok();
            assert_eq!((&order["total"]["currency"], order["lines"].as_array().map(Vec::len)), (&json!(mine), Some(1)));
            orders += 1;
        }
    }
    let audit = eventually("nothing is held any more", async || {
        let audit = audit(&port).await;
        (audit["holds"] == 0).then_some(audit)
    })
    .await;
    assert_eq!(
        (&audit["orders"], audit["order_totals"].as_array().map(Vec::len)),
        (&json!(orders), Some(5)),
        "{audit}"
    );
    // An emptied cart keeps its currency.
    let buyer = Shopper::new(&port, &mut rng);
    hold(&buyer, &[&wants[2].1]).await.ok();
    buyer.release(1).await.ok();
    says(hold(&buyer, &[&wants[0].1]).await, "GBP", "EUR");
    hold(&buyer, &[&wants[2].1]).await.ok();
    assert_eq!(buyer.checkout().await.ok()["total"], json!({"amount": 700, "currency": "GBP"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_have_an_end() {
    const HIGH_PRICE: u64 = 1_000_000_000_000;
    /// The most units in one total: below 2^53 minor units.
    const UNITS_MAX: u64 = 9_007;
    let mut rng = Rng::of_test("sums_have_an_end");
    let home = Home::new();
    let server = home.start();
    for encoding in Encoding::BOTH {
        let port = Arc::new(server.port(encoding).await);
        let (gold, vault, finals) =
            (format!("gold-{encoding:?}"), format!("vault-{encoding:?}"), format!("f-{encoding:?}"));
        let price = json!({"amount": HIGH_PRICE, "currency": "EUR"});
        product(&port, &gold, 2_000_000, json!({"price": price})).await;
        event(&port, &finals, 1_000_000, json!({"areas": [{"id": "yard", "capacity": 1_000_000, "price": price}]}))
            .await;
        room(&port, &vault, json!({"rate": {"amount": HIGH_PRICE, "currency": "EUR", "per_ms": 1_000}})).await;
        let nothing = async || {
            eventually("nothing is held", async || {
                let free = stock(&port, &gold).await == [2_000_000, 0, 0]
                    && places(&port, &finals).await == [1_000_000, 0, 0]
                    && port.read("resource.get", json!({"id": vault})).await.ok()["bookings"] == 0;
                free.then_some(())
            })
            .await;
        };
        let buyer = Shopper::new(&port, &mut rng);
        let most = |answer: Answer| {
            let no = answer.no(101, "bad_request");
            assert!(no["message"].as_str().is_some_and(|words| words.contains("more than any cart may")), "{no}");
        };
        most(buyer.stock(&gold, 1_000_000).await);
        most(buyer.stock(&gold, UNITS_MAX as i64 + 1).await);
        most(buyer.places(&finals, "yard", 1_000_000).await);
        let both = json!({"lines": [{"product": gold, "quantity": 5_000},
            {"session": finals, "area": "yard", "quantity": 5_000}]});
        most(buyer.ask("cart.hold_all", both).await);
        // One hour costs more than the maximum price.
        let noon = 1_900_000_800_000;
        let hour = buyer.slot(&vault, common::time(&port, noon), common::time(&port, noon + 3_600_000)).await;
        hour.no(502, "bad_interval");
        nothing().await;

        buyer.stock(&gold, UNITS_MAX as i64).await.ok();
        most(buyer.set(1, UNITS_MAX as i64 + 1).await);
        most(buyer.stock(&gold, 1).await);
        most(buyer.places(&finals, "yard", 1).await);
        assert_eq!(stock(&port, &gold).await, [2_000_000 - UNITS_MAX, UNITS_MAX, 0]);
        let order = buyer.checkout().await.ok();
        assert_eq!(order["total"], json!({"amount": UNITS_MAX * HIGH_PRICE, "currency": "EUR"}));
        let refund = json!({"order": buyer.cart(), "reason": "second thoughts"});
        let refund = port.ask("order.refund", &gold, refund).await.ok();
        assert_eq!(refund["amount"]["amount"], UNITS_MAX * HIGH_PRICE);
        nothing().await;
    }
    let audit = audit(&server.port(Encoding::Json).await).await;
    assert_eq!(
        audit["order_totals"],
        json!([{"currency": "EUR", "orders": 2, "amount": 2 * UNITS_MAX * HIGH_PRICE}]),
        "{audit}"
    );
}
