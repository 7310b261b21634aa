//! Requests to a cart during its payment.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{FAST_RETRIES, PRICE, Stage, charged};
use crate::common::{
    Answer, Encoding, Shopper, Theatre, eventually,
    fixture::{event, places, product, stock, stock_is},
};

/// During its payment a cart does not expire, accepts no change, and is paid once despite repeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_is_being_paid() {
    let mut stage = Stage::new("a_cart_that_is_being_paid", FAST_RETRIES).await;
    event(&stage.port, "quick", 10, json!({"hold_ttl_ms": 150})).await;
    let buyer = Shopper::new(&stage.port, &mut stage.rng);
    buyer.places("quick", "yard", 2).await.ok();
    let pay = buyer.body(json!({"payment": {"gateway": {"source": "timeout-3"}}}));
    let others = [stage.server.port(Encoding::Json).await, stage.server.port(Encoding::MsgPack).await];
    let all = join_all((0..100).map(|number| others[number % 2].ask("cart.checkout", "pay", pay.clone())));
    let meanwhile = async {
        eventually("the cart is being paid", async || (buyer.state().await == "checking_out").then_some(())).await;
        buyer.places("quick", "yard", 1).await.no(301, "cart_not_active");
        buyer.set(1, 1).await.no(301, "cart_not_active");
        buyer.release(1).await.no(301, "cart_not_active");
        buyer.cancel().await.no(301, "cart_not_active");
        buyer.pay("ok").await.no(301, "cart_not_active");
        let other = json!({"payment": {"gateway": {"source": "ok"}}});
        stage.port.ask("cart.checkout", "pay", buyer.body(other)).await.no(105, "request_id_reused");
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Its deadline has passed by now.
        assert_eq!((buyer.state().await.as_str(), places(&stage.port, "quick").await), ("checking_out", [8, 2, 0]));
    };
    let (answers, ()) = tokio::join!(all, meanwhile);
    let totals: Vec<Value> = answers.into_iter().map(|answer| answer.ok()["total"].clone()).collect();
    assert!(totals.iter().all(|total| total["amount"] == 2 * PRICE), "{totals:?}");
    charged(&stage.gateway, &buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    assert_eq!(places(&stage.port, "quick").await, [8, 0, 2]);
    // Hot products are reserved before the gateway is asked. If they are sold out, it is not asked.
    product(&stage.port, "hot", 1, json!({"hold": "at_checkout"})).await;
    let [first, second] = [(); 2].map(|()| Shopper::new(&stage.port, &mut stage.rng));
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
    assert!(stage.gateway.charges(&loser.cart()).await.is_empty(), "no charge for sold-out units");
    assert_eq!((loser.state().await.as_str(), stock(&stage.port, "hot").await), ("active", [0, 0, 1]));
    // After a decline the hot products are on sale again.
    product(&stage.port, "hotter", 1, json!({"hold": "at_checkout"})).await;
    let third = Shopper::new(&stage.port, &mut stage.rng);
    third.stock("hotter", 1).await.ok();
    third.pay("decline").await.no(601, "payment_declined");
    stock_is(&stage.port, "hotter", [1, 0, 0]).await;
    stage.money_agrees().await;
}

/// The session is canceled during the payments: one that is not decided is given up, and one that is decided is refunded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_while_it_is_being_paid() {
    let mut stage = Stage::new("canceled_while_it_is_being_paid", FAST_RETRIES).await;
    let theatre = Theatre::open(&stage.port, 1, (2, 8), None).await;
    let session = theatre.session();
    let [paying, paid_for, holding] = [(); 3].map(|()| Shopper::new(&stage.port, &mut stage.rng));
    for (number, buyer) in [&paying, &paid_for, &holding].into_iter().enumerate() {
        buyer.seats(session, json!([[0, number]])).await.ok();
    }
    paid_for.pay("ok").await.ok();
    let cancel = async {
        eventually("the cart is being paid", async || (paying.state().await == "checking_out").then_some(())).await;
        stage.port.ask("session.cancel", "c", json!({"id": session, "reason": "fire"})).await.ok();
    };
    let (order, ()) = tokio::join!(paying.pay("delay-3000"), cancel);
    let no = order.no(604, "checkout_withdrawn");
    assert!(no["message"].as_str().is_some_and(|message| message.ends_with("fire")), "{no}");
    let cart = paying.get().await;
    assert_eq!((&cart["state"], &cart["lines"]), (&json!("active"), &json!([])));
    assert_eq!((&cart["taken"][0]["by"], &cart["taken"][0]["reason"]), (&json!("session"), &json!("fire")));
    charged(&stage.gateway, &paying, &[("voided", PRICE, 0, 0)]).await;
    charged(&stage.gateway, &paid_for, &[("captured", PRICE, PRICE, PRICE)]).await;
    eventually("the refund is written", async || {
        (paid_for.order().await["refunds"][0]["status"]["state"] == "refunded").then_some(())
    })
    .await;
    eventually("nothing of it is held or sold", async || {
        let map = theatre.map(&stage.port, session).await;
        (map.held + map.sold == 0).then_some(())
    })
    .await;
    assert_eq!(holding.get().await["lines"], json!([]));
    stage.money_agrees().await;
}

/// The gateway may take longer than the tests do.
const PATIENT: &str = "timeout_ms = 10_000\nagain_ms = 40\nwait_ms = 20_000\n";

/// A buyer comes back unpaid from the bank's page: the attempt is ended, and paid in another way. The desk may end it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_by_its_buyer_and_paid_in_another_way() {
    let mut stage = Stage::new("ended_by_its_buyer_and_paid_in_another_way", PATIENT).await;
    let by_desk = stage.holding(2).await;
    let by_buyer = stage.holding(3).await;
    for (buyer, quantity) in [(&by_desk, 2_i64), (&by_buyer, 3)] {
        let stop = async {
            eventually("the cart is being paid", async || (buyer.state().await == "checking_out").then_some(())).await;
            if quantity == 2 {
                let cart = json!({"cart": buyer.cart()});
                stage.port.ask("admin.checkout_cancel", &format!("stop-{}", buyer.cart()), cart).await.ok()
            } else {
                buyer.ask("cart.checkout_cancel", json!({})).await.ok()
            }
        };
        let (order, cart) = tokio::join!(buyer.pay("delay-3000"), stop);
        order.no(605, "checkout_canceled");
        assert_eq!((&cart["state"], &cart["lines"][0]["quantity"]), (&json!("active"), &json!(quantity)));
        buyer.pay("ok").await.ok();
        buyer.ask("cart.checkout_cancel", json!({})).await.no(301, "cart_not_active");
        let (first, second) = (("voided", quantity * PRICE, 0, 0), ("captured", quantity * PRICE, quantity * PRICE, 0));
        charged(&stage.gateway, buyer, &[first, second]).await;
    }
    stage.money_agrees().await;
}
