//! Outcomes of payments: paid once, declined, refunded, free of charge.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{FAST_RETRIES, PRICE, Stage, charged, open, paid};
use crate::common::{
    Shopper, eventually,
    fixture::{audit, places, places_are, product, purchases, stock, stock_is},
};

/// Worked examples 10 and 11, and every gateway fault that still ends in a sale: slow, lost, malformed, late and duplicate
/// answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_paid_once_despite_gateway_faults() {
    let mut stage = Stage::new("an_order_is_paid_once_despite_gateway_faults", FAST_RETRIES).await;
    let sources = [
        "ok",
        "delay-150",
        "timeout-1",
        "lost-2",
        "error-2",
        "garbage-1",
        "huge-1",
        "late-150",
        "twice",
        "late-60+twice",
        "lost-1+error-1+garbage-1+capture-lost-1+capture-timeout-1",
        "capture-error-2+capture-garbage-1",
        "capture-late-100",
        "capture-twice",
        "capture-delay-150",
    ];
    let mut buyers = Vec::new();
    for _ in sources {
        buyers.push(stage.holding(2).await);
    }
    let orders = join_all(buyers.iter().zip(sources).map(|(buyer, source)| buyer.pay(source))).await;
    for ((buyer, source), order) in buyers.iter().zip(sources).zip(orders) {
        let order = order.ok();
        assert_eq!((&order["id"], &order["total"]["amount"]), (&json!(buyer.cart()), &json!(2 * PRICE)), "{source}");
        assert!(order["payment"]["gateway"].get("source").is_none(), "the source is shown: {order}");
        paid(buyer, "captured").await;
        charged(&stage.gateway, buyer, &[("captured", 2 * PRICE, 2 * PRICE, 0)]).await;
    }
    let audit = stage.money_agrees().await;
    assert_eq!((audit["orders"].as_u64(), audit["payments"]["captured"].as_u64()), (Some(15), Some(15)));
    assert_eq!(places(&stage.port, "finals").await, [470, 0, 30]);
    assert_eq!(purchases(&stage.port, "ann").await.len(), 15);
    assert_eq!(open(stage.server.address(), &stage.port).await, (0, 0));
}

/// Declined: everything is released at once, or kept for another attempt. A wrong amount is voided. Permanent failures are
/// reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_payments_release_or_keep_the_cart() {
    let mut stage = Stage::new("failed_payments_release_or_keep_the_cart", FAST_RETRIES).await;
    // One payment is declined while another cart buys.
    let (good, bad) = (stage.holding(5).await, stage.holding(5).await);
    let (good_order, bad_order) = tokio::join!(good.pay("ok"), bad.pay("decline"));
    good_order.ok();
    bad_order.no(601, "payment_declined");
    places_are(&stage.port, "finals", [495, 0, 5]).await;
    assert_eq!(bad.state().await, "canceled");
    charged(&stage.gateway, &bad, &[("declined", 0, 0, 0)]).await;
    bad.pay("ok").await.no(301, "cart_not_active");

    // The cart is kept, and paid by another card.
    let buyer = stage.holding(3).await;
    let keep = |source: &str| json!({"payment": {"gateway": {"source": source, "on_decline": "keep"}}});
    buyer.ask("cart.checkout", keep("decline")).await.no(601, "payment_declined");
    let cart = buyer.get().await;
    assert_eq!((&cart["state"], &cart["lines"][0]["quantity"]), (&json!("active"), &json!(3)));
    buyer.set(1, 4).await.ok();
    buyer.ask("cart.checkout", keep("no-such-word")).await.no(601, "payment_declined");
    let order = buyer.ask("cart.checkout", keep("ok")).await.ok();
    assert_eq!(order["total"]["amount"], 4 * PRICE);
    charged(
        &stage.gateway,
        &buyer,
        &[("declined", 0, 0, 0), ("declined", 0, 0, 0), ("captured", 4 * PRICE, 4 * PRICE, 0)],
    )
    .await;

    // A wrong amount.
    let buyer = stage.holding(1).await;
    let no = buyer.pay("amount-7").await.no(603, "amount_mismatch");
    assert_eq!((&no["asked"], &no["got"]), (&json!(PRICE), &json!(7)));
    charged(&stage.gateway, &buyer, &[("voided", 7, 0, 0)]).await;
    let buyer = stage.holding(1).await;
    buyer.pay("amount-7+void-lost-1+void-error-1").await.no(603, "amount_mismatch");
    charged(&stage.gateway, &buyer, &[("voided", 7, 0, 0)]).await;
    let buyer = stage.holding(1).await;
    buyer.pay("amount-7+void-fails").await.no(603, "amount_mismatch");
    charged(&stage.gateway, &buyer, &[("authorized", 7, 0, 0)]).await;

    // Sold, but the capture failed: an operator sees it.
    let buyer = stage.holding(1).await;
    buyer.pay("capture-fails").await.ok();
    let order = paid(&buyer, "capture_failed").await;
    assert_eq!(order["payment_status"]["reason"], "failed as asked");
    let refund = json!({"order": buyer.cart(), "reason": "never paid"});
    let refund = stage.port.ask("order.refund", "r", refund).await.ok();
    assert_eq!(refund["status"]["state"], "failed", "there is nothing to pay back: {refund}");
    places_are(&stage.port, "finals", [491, 0, 9]).await;
    stage.money_agrees().await;
}

/// A repeat of a failed payment gets the same answer, also after a restart. The gateway is asked once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_of_a_failed_payment_gets_the_same_answer() {
    let mut stage = Stage::new("a_repeat_of_a_failed_payment_gets_the_same_answer", FAST_RETRIES).await;
    let pay =
        |source: &str, on_decline: &str| json!({"payment": {"gateway": {"source": source, "on_decline": on_decline}}});
    let (kept, gone, other) = (stage.holding(1).await, stage.holding(1).await, stage.holding(1).await);
    let cases = [
        (&kept, pay("late-1300+decline", "keep"), 601, "payment_declined"),
        (&gone, pay("decline", "release"), 601, "payment_declined"),
        (&other, pay("amount-7", "release"), 603, "amount_mismatch"),
    ];
    for (buyer, body, code, name) in &cases {
        for _ in 0..2 {
            buyer.ask_as("card 1", "cart.checkout", body.clone()).await.no(*code, name);
        }
    }
    stage = stage.crash().await;
    for (buyer, body, code, name) in &cases {
        stage.again(buyer).ask_as("card 1", "cart.checkout", body.clone()).await.no(*code, name);
    }
    let ended = |cart: Value| (cart["state"].clone(), cart["ended"].clone());
    let (kept, gone, other) = (stage.again(&kept), stage.again(&gone), stage.again(&other));
    assert_eq!(ended(kept.get().await), (json!("active"), Value::Null));
    let why = json!({"why": "declined", "by": "gateway", "reason": "declined as asked"});
    assert_eq!(ended(gone.get().await), (json!("canceled"), why));
    let why = json!({"why": "amount_mismatch", "by": "gateway", "asked": PRICE, "asked_currency": "EUR",
        "got": 7, "got_currency": "EUR"});
    assert_eq!(ended(other.get().await), (json!("canceled"), why));
    charged(&stage.gateway, &kept, &[("declined", 0, 0, 0)]).await;
    charged(&stage.gateway, &gone, &[("declined", 0, 0, 0)]).await;
    // Another card is another request. The declined request stays declined.
    kept.ask_as("card 2", "cart.checkout", pay("ok", "keep")).await.ok();
    kept.ask_as("card 1", "cart.checkout", pay("late-1300+decline", "keep")).await.no(601, "payment_declined");
    stage.money_agrees().await;
}

/// A cart is sold only as the buyer saw it: the same total, the same lines, and the amount paid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_differs_from_the_expectation_is_not_sold() {
    let mut stage = Stage::new("a_cart_that_differs_from_the_expectation_is_not_sold", FAST_RETRIES).await;
    product(&stage.port, "flag", 100, Value::Null).await;
    let buyer = stage.holding(2).await;
    buyer.stock("flag", 1).await.ok();
    let seen = buyer.get().await;
    let total = 2 * PRICE + 350;
    assert_eq!(seen["total"]["amount"], total);
    let release = json!({"cart": buyer.cart(), "line": 2, "reason": "counted wrong"});
    stage.port.ask("admin.release", "op", release).await.ok();
    let money = |amount: i64| json!({"amount": amount, "currency": "EUR"});
    let gateway = |expect: Value| json!({"payment": {"gateway": {"source": "ok"}}, "expect": expect});
    let no = buyer.ask("cart.checkout", gateway(json!({"total": money(total)}))).await.no(308, "cart_differs");
    assert_eq!(
        (&no["expected"], &no["actual"]),
        (&json!({"total": money(total)}), &json!({"total": money(2 * PRICE)}))
    );
    let no = buyer.ask("cart.checkout", gateway(json!({"lines": seen["lines_version"]}))).await.no(308, "cart_differs");
    let now = buyer.get().await;
    assert_eq!((&no["expected"]["lines"], &no["actual"]["lines"]), (&seen["lines_version"], &now["lines_version"]));
    let paid = json!({"payment": {"recorded": {"method": "cash", "transaction_id": "1", "amount": money(total)}}});
    buyer.ask("cart.checkout", paid).await.no(308, "cart_differs");
    assert_eq!(now["taken"][0]["line"]["product"], "flag", "{now}");
    assert_eq!((&now["taken"][0]["by"], &now["taken"][0]["reason"]), (&json!("operator"), &json!("counted wrong")));
    let order = buyer.ask("cart.checkout", gateway(json!({"lines": now["lines_version"]}))).await.ok();
    assert_eq!(order["total"]["amount"], 2 * PRICE);
    stage.money_agrees().await;
}

/// A refund goes through the gateway with retries, once, by line or whole. Failures are reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunds_go_through_the_gateway_once() {
    let mut stage = Stage::new("refunds_go_through_the_gateway_once", FAST_RETRIES).await;
    product(&stage.port, "flag", 100, Value::Null).await;
    let refunds = async |buyer: &Shopper, expected: &[&str]| {
        eventually(&format!("refunds are {expected:?}"), async || {
            let order = buyer.order().await;
            let found: Vec<_> =
                order["refunds"].as_array()?.iter().map(|refund| refund["status"]["state"].as_str()).collect();
            (found == expected.iter().map(|state| Some(*state)).collect::<Vec<_>>()).then_some(())
        })
        .await;
    };
    for source in
        ["ok", "refund-lost-1+refund-timeout-1", "refund-error-2", "refund-late-80+refund-twice", "refund-garbage-1"]
    {
        let buyer = stage.holding(4).await;
        buyer.stock("flag", 2).await.ok();
        let total = 4 * PRICE + 2 * 350;
        buyer.pay(source).await.ok();
        let body = |lines: Value| json!({"order": buyer.cart(), "lines": lines, "reason": "ill"});
        let first = stage.port.ask("order.refund", "r1", body(json!([2]))).await.ok();
        assert_eq!((&first["amount"]["amount"], &first["status"]["state"]), (&json!(700), &json!("pending")));
        stage_stock(&stage, 100).await;
        refunds(&buyer, &["refunded"]).await;
        charged(&stage.gateway, &buyer, &[("captured", total, total, 700)]).await;
        stage.port.ask("order.refund", "r2", json!({"order": buyer.cart(), "reason": "ill"})).await.ok();
        refunds(&buyer, &["refunded", "refunded"]).await;
        charged(&stage.gateway, &buyer, &[("captured", total, total, total)]).await;
        places_are(&stage.port, "finals", [500, 0, 0]).await;
    }
    // Right after the sale: the capture comes first, however slow it is.
    let buyer = stage.holding(1).await;
    buyer.pay("capture-delay-200").await.ok();
    stage.port.ask("order.refund", "r3", json!({"order": buyer.cart(), "reason": "at once"})).await.ok();
    refunds(&buyer, &["refunded"]).await;
    charged(&stage.gateway, &buyer, &[("captured", PRICE, PRICE, PRICE)]).await;
    // A permanent failure: the places are on sale again all the same.
    let buyer = stage.holding(1).await;
    buyer.pay("refund-fails").await.ok();
    stage.port.ask("order.refund", "r4", json!({"order": buyer.cart(), "reason": "ill"})).await.ok();
    refunds(&buyer, &["failed"]).await;
    assert_eq!(buyer.order().await["refunds"][0]["status"]["reason"], "failed as asked");
    places_are(&stage.port, "finals", [500, 0, 0]).await;
    stage.money_agrees().await;
}

/// An order that costs nothing needs no gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_costs_nothing() {
    let mut stage = Stage::new("an_order_that_costs_nothing", FAST_RETRIES).await;
    product(&stage.port, "sample", 5, json!({"price": {"amount": 0, "currency": "EUR"}})).await;
    let buyer = Shopper::new(&stage.port, &mut stage.rng);
    buyer.stock("sample", 1).await.ok();
    let order = buyer.pay("ok").await.ok();
    assert_eq!(order["total"]["amount"], 0);
    assert_eq!(order["payment_status"]["state"], "recorded", "{order}");
    assert_eq!(stock(&stage.port, "sample").await, [4, 0, 1]);
    // The same if it is authorized later. Its refund needs no call.
    let free = json!({"hold": "at_checkout", "price": {"amount": 0, "currency": "EUR"}});
    product(&stage.port, "leaflet", 5, free).await;
    let other = Shopper::new(&stage.port, &mut stage.rng);
    other.stock("leaflet", 2).await.ok();
    other.pay("ok").await.ok();
    let refund = json!({"order": other.cart(), "reason": "unwanted"});
    assert_eq!(stage.port.ask("order.refund", "r", refund).await.ok()["status"]["state"], "recorded");
    stock_is(&stage.port, "leaflet", [5, 0, 0]).await;
    assert_eq!(stage.gateway.ledger().await["charges"], json!([]));
    audit(&stage.port).await;
}

async fn stage_stock(stage: &Stage, free: u64) {
    stock_is(&stage.port, "flag", [free, 0, 0]).await;
}
