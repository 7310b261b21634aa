//! A shop: products by quantity, changes of carts, orders, and one cart over everything on sale.

use std::sync::Arc;

use crate::common::{
    self, Answer, Encoding, Home, Rng, Server, Shopper, Theatre, eventually,
    fixture::{audit, places, product, purchases, room, stock, stock_is},
    http, recorded, time,
};
use serde_json::{Value, json};

async fn shop(encoding: Encoding) -> (Home, Server, Arc<common::Port>) {
    let home = Home::new();
    let server = home.start();
    let port = Arc::new(server.port(encoding).await);
    (home, server, port)
}

/// Bytes in this encoding: base64, or a list of numbers for the bytes of MessagePack.
fn blob(encoding: Encoding, bytes: usize) -> Value {
    match encoding {
        // Three zero bytes are four letters in base64.
        Encoding::Json => "AAAA".repeat(bytes / 3).into(),
        Encoding::MsgPack => vec![0; bytes].into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_is_put_and_read() {
    let (_home, server, port) = shop(Encoding::Json).await;
    let colours = json!({"properties": {"size": "L", "colour": "red"}, "blob": blob(Encoding::Json, 1_023)});
    let put = product(&port, "shirt", 100, colours.clone()).await;
    assert_eq!(put["properties"], json!({"colour": "red", "size": "L"}));
    assert_eq!((&put["blob"], &put["counts"]), (&colours["blob"], &json!({"free": 100, "held": 0, "sold": 0})));
    assert_eq!(port.read("product.get", json!({"id": "shirt"})).await.ok(), put);
    // The same product in the other encoding, with binary data.
    let packed = server.port(Encoding::MsgPack).await.read("product.get", json!({"id": "shirt"})).await.ok();
    assert_eq!(packed["blob"], blob(Encoding::MsgPack, 1_023));
    assert_eq!(packed["properties"], put["properties"]);
    // A repeated put changes nothing, not even the version.
    let body = json!({"id": "shirt", "name": "shirt", "price": {"amount": 350, "currency": "EUR"}, "stock": 100,
        "properties": colours["properties"], "blob": colours["blob"]});
    let Answer::Ok(_, first) = port.ask("product.put", "again", body.clone()).await else { panic!("put again") };
    let Answer::Ok(_, second) = port.read("product.get", json!({"id": "shirt"})).await else { panic!("it is there") };
    assert_eq!(first, second);

    // A hold keeps its price, whatever the product costs later (P7).
    let mut rng = Rng::of_test("a_product_is_put_and_read");
    let (early, late) = (Shopper::new(&port, &mut rng), Shopper::new(&port, &mut rng));
    early.stock("shirt", 2).await.ok();
    let mut dearer = body.clone();
    dearer["price"]["amount"] = 500.into();
    port.ask("product.put", "dearer", dearer.clone()).await.ok();
    late.stock("shirt", 2).await.ok();
    // A further unit costs what it costs when it is held.
    early.stock("shirt", 1).await.ok();
    assert_eq!(early.get().await["total"]["amount"], 2 * 350 + 500);
    assert_eq!(early.checkout().await.ok()["total"]["amount"], 2 * 350 + 500);
    assert_eq!(late.checkout().await.ok()["total"]["amount"], 2 * 500);
    // Stock follows puts, but never falls below the units taken.
    dearer["stock"] = 8.into();
    port.ask("product.put", "fewer", dearer.clone()).await.ok();
    assert_eq!(stock(&port, "shirt").await, [3, 0, 5]);
    dearer["stock"] = 4.into();
    port.ask("product.put", "too-few", dearer.clone()).await.no(402, "bad_quantity");
    dearer["stock"] = 8.into();
    dearer["price"]["currency"] = "USD".into();
    port.ask("product.put", "abroad", dearer).await.no(703, "currency_fixed");
    assert_eq!(stock(&port, "shirt").await, [3, 0, 5]);
    audit(&port).await;
}

/// A line keeps the tax with which it was begun, and an order sums the taxes of its lines, rounded for each unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_contain_the_tax_of_their_product() {
    let mut rng = Rng::of_test("units_contain_the_tax_of_their_product");
    let (_home, server, _) = shop(Encoding::Json).await;
    for encoding in Encoding::BOTH {
        let port = Arc::new(server.port(encoding).await);
        let (book, late) = (format!("book-{encoding:?}"), format!("late-{encoding:?}"));
        let put = async |id: &str, hold: &str, rate: u32| {
            let body = json!({
                "id": id, "name": id, "price": {"amount": 350, "currency": "EUR"}, "stock": 100, "hold": hold,
                "tax": {"rate": rate, "code": "reduced"},
            });
            port.ask("product.put", &format!("{id}-{rate}"), body).await
        };
        assert_eq!(put(&book, "at_add", 700).await.ok()["tax"], json!({"rate": 700, "code": "reduced"}));
        put(&late, "at_checkout", 700).await.ok();
        put(&book, "at_add", 100_001).await.no(101, "bad_request");

        let buyer = Shopper::new(&port, &mut rng);
        let held = buyer.stock(&book, 2).await.ok();
        assert_eq!(held["lines"][0]["tax"], json!({"rate": 700, "code": "reduced"}));
        buyer.stock(&late, 1).await.ok();
        put(&book, "at_add", 1_900).await.ok();
        let grown = buyer.set(1, 3).await.ok();
        assert_eq!(grown["lines"][0]["tax"]["rate"], 700, "{grown}");
        let order = buyer.checkout().await.ok();
        // 350 × 7 / 107 is 22.9, so 23 for each of four units.
        let taxes = json!([{"rate": 700, "code": "reduced", "amount": 4 * 23}]);
        assert_eq!((&order["taxes"], &buyer.order().await["taxes"]), (&taxes, &taxes));

        let buyer = Shopper::new(&port, &mut rng);
        let held = buyer.stock(&book, 1).await.ok();
        assert_eq!(held["lines"][0]["tax"]["rate"], 1_900);
        // 350 × 19 / 119 is 55.9.
        let order = buyer.checkout().await.ok();
        assert_eq!(order["taxes"], json!([{"rate": 1_900, "code": "reduced", "amount": 56}]));
    }
    server.stop();
}

/// Worked examples 5, 6 and 7, in both encodings on one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_held_changed_and_sold() {
    let mut rng = Rng::of_test("units_are_held_changed_and_sold");
    let (_home, server, _) = shop(Encoding::Json).await;
    for encoding in Encoding::BOTH {
        let port = Arc::new(server.port(encoding).await);
        let (book, map) = (format!("book-{encoding:?}"), format!("map-{encoding:?}"));
        product(&port, &book, 100, Value::Null).await;
        product(&port, &map, 1, Value::Null).await;
        let buyer = Shopper::new(&port, &mut rng);
        let held = buyer.stock(&book, 1).await.ok();
        let line = json!({"line": 1, "product": book, "name": book, "quantity": 1, "price": 350, "total": 350});
        assert_eq!((&held["cart"], &held["lines"]), (&json!(buyer.cart()), &json!([line])));
        let shipping = json!({"recipient": "Ada", "address": "12 St James's Square", "method": "post"});
        let order = buyer.ask("cart.checkout", json!({"payment": recorded(), "shipping": shipping})).await.ok();
        assert_eq!(order["total"], json!({"amount": 350, "currency": "EUR"}));
        assert_eq!((&order["shipping"], &order["payment"]), (&shipping, &recorded()));
        assert_eq!((&order["lines"], &order["payment_status"]), (&json!([line]), &json!({"state": "recorded"})));
        assert_eq!(buyer.order().await["lines"], order["lines"]);
        assert_eq!(stock(&port, &book).await, [99, 0, 1]);

        // Two holds of the same product share one line. Its quantity is raised, lowered, raised too far, and released.
        let buyer = Shopper::new(&port, &mut rng);
        buyer.stock(&book, 1).await.ok();
        let held = buyer.stock(&book, 1).await.ok();
        assert_eq!(
            held["lines"],
            json!([{"line": 1, "product": book, "name": book, "quantity": 2, "price": 350, "total": 700}])
        );
        assert_eq!(stock(&port, &book).await, [97, 2, 1]);
        let cart = buyer.set(1, 4).await.ok();
        assert_eq!((&cart["lines"][0]["quantity"], &cart["total"]["amount"]), (&json!(4), &json!(1_400)));
        assert_eq!(stock(&port, &book).await, [95, 4, 1]);
        let no = buyer.set(1, 1_000).await.no(401, "out_of_stock");
        assert_eq!(no["shortages"], json!([{"product": book, "wanted": 996, "free": 95, "held": 0}]));
        let no = buyer.stock(&book, 96).await.no(401, "out_of_stock");
        assert_eq!(no["shortages"], json!([{"product": book, "wanted": 96, "free": 95, "held": 0}]));
        assert_eq!((stock(&port, &book).await, &buyer.get().await["lines"]), ([95, 4, 1], &cart["lines"]));
        assert_eq!(buyer.set(1, 3).await.ok()["lines"][0]["quantity"], 3);
        stock_is(&port, &book, [96, 3, 1]).await;
        assert_eq!(buyer.set(1, 0).await.ok()["lines"], json!([]));
        stock_is(&port, &book, [99, 0, 1]).await;
        buyer.checkout().await.no(304, "cart_empty");

        // The last unit.
        let (first, second) = (Shopper::new(&port, &mut rng), Shopper::new(&port, &mut rng));
        first.stock(&map, 1).await.ok();
        let no = second.stock(&map, 1).await.no(401, "out_of_stock");
        assert_eq!(no["shortages"], json!([{"product": map, "wanted": 1, "free": 0, "held": 1}]));
        first.cancel().await.ok();
        stock_is(&port, &map, [1, 0, 0]).await;
        second.stock(&map, 1).await.ok();
        second.checkout().await.ok();
        assert_eq!(stock(&port, &map).await, [0, 0, 1]);
    }
    let port = server.port(Encoding::Json).await;
    let audit = audit(&port).await;
    assert_eq!(audit["stock"], json!({"free": 198, "held": 0, "sold": 4}));
    assert_eq!(audit["order_totals"], json!([{"currency": "EUR", "orders": 4, "amount": 4 * 350}]));
}

/// Mistakes of the seed's code: quantities that add stock, rollbacks that take too much, empty orders, duplicate orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_changes_leave_carts_and_stock_unchanged() {
    let mut rng = Rng::of_test("failed_changes_leave_carts_and_stock_unchanged");
    let (_home, _server, port) = shop(Encoding::MsgPack).await;
    product(&port, "pen", 10, Value::Null).await;
    product(&port, "ink", 2, Value::Null).await;
    let buyer = Shopper::new(&port, &mut rng);
    for quantity in [-3, 0, 1_000_001, i64::MIN, i64::MAX] {
        buyer.stock("pen", quantity).await.no(402, "bad_quantity");
    }
    buyer.ask("cart.hold_stock", json!({"product": "pen", "quantity": 1.5})).await.no(402, "bad_quantity");
    buyer.ask("cart.hold_stock", json!({"product": "pencil", "quantity": 1})).await.no(403, "no_such_product");
    assert_eq!(stock(&port, "pen").await, [10, 0, 0]);
    buyer.stock("pen", 3).await.ok();
    for quantity in [-1, 1_000_001, i64::MAX] {
        buyer.set(1, quantity).await.no(402, "bad_quantity");
    }
    // A failed hold releases only its own units: the line keeps its three, and other carts get none.
    let lines = json!([{"product": "pen", "quantity": 4}, {"product": "ink", "quantity": 3}]);
    let no = buyer.ask("cart.hold_all", json!({"lines": lines})).await.no(401, "out_of_stock");
    assert_eq!(no["shortages"], json!([{"product": "ink", "wanted": 3, "free": 2, "held": 0}]), "{no}");
    stock_is(&port, "pen", [7, 3, 0]).await;
    stock_is(&port, "ink", [2, 0, 0]).await;
    assert_eq!(
        buyer.get().await["lines"],
        json!([{"line": 1, "product": "pen", "name": "pen", "quantity": 3, "price": 350, "total": 1_050}])
    );
    // The same line twice in one request counts once.
    let lines = json!([{"product": "ink", "quantity": 1}, {"product": "ink", "quantity": 1}]);
    let held = buyer.ask("cart.hold_all", json!({"lines": lines})).await.ok();
    assert_eq!(
        held["lines"],
        json!([{"line": 2, "product": "ink", "name": "ink", "quantity": 2, "price": 350, "total": 700}])
    );
    buyer.release(2).await.ok();
    buyer.release(2).await.no(303, "no_such_line");
    stock_is(&port, "ink", [2, 0, 0]).await;

    let order = buyer.checkout().await.ok();
    buyer.checkout().await.no(301, "cart_not_active");
    buyer.stock("pen", 1).await.no(301, "cart_not_active");
    buyer.set(1, 1).await.no(301, "cart_not_active");
    assert_eq!(buyer.order().await["lines"], order["lines"]);
    let new_shopper = Shopper::new(&port, &mut rng);
    new_shopper.checkout().await.no(701, "not_found");
    new_shopper.ask("cart.open", json!({})).await.ok();
    new_shopper.checkout().await.no(304, "cart_empty");
    assert_eq!(stock(&port, "pen").await, [7, 0, 3]);
    assert_eq!(audit(&port).await["orders"], 1);
}

/// A customer may have many carts over time. An expired cart stays readable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_shops_again() {
    let mut rng = Rng::of_test("a_customer_shops_again");
    let (_home, _server, port) = shop(Encoding::MsgPack).await;
    product(&port, "tea", 50, Value::Null).await;
    product(&port, "milk", 50, json!({"hold_ttl_ms": 150})).await;
    let mut orders = Vec::new();
    for quantity in 1..=3 {
        let buyer = Shopper::new(&port, &mut rng);
        let body = json!({"product": "tea", "quantity": quantity, "customer": "ann"});
        buyer.ask("cart.hold_stock", body).await.ok();
        let order = buyer.checkout().await.ok();
        assert_eq!((&order["customer"], &order["total"]["amount"]), (&json!("ann"), &json!(350 * quantity)));
        orders.push(buyer.cart());
    }
    audit(&port).await;
    assert_eq!(purchases(&port, "ann").await, orders);

    // The cart lives as long as its shortest line allows.
    let buyer = Shopper::new(&port, &mut rng);
    buyer.ask("cart.hold_stock", json!({"product": "tea", "quantity": 5, "customer": "ann"})).await.ok();
    buyer.stock("milk", 7).await.ok();
    let lines = buyer.get().await["lines"].clone();
    stock_is(&port, "tea", [44, 0, 6]).await;
    stock_is(&port, "milk", [50, 0, 0]).await;
    let cart = buyer.get().await;
    assert_eq!((&cart["state"], &cart["lines"]), (&json!("expired"), &lines));
    buyer.checkout().await.no(302, "cart_expired");
    buyer.stock("tea", 1).await.no(302, "cart_expired");
    buyer.cancel().await.no(302, "cart_expired");
    assert_eq!(purchases(&port, "ann").await, orders);
    let again = Shopper::new(&port, &mut rng);
    again.ask("cart.hold_stock", json!({"product": "tea", "quantity": 44, "customer": "ann"})).await.ok();
    assert_eq!(stock(&port, "tea").await, [0, 44, 6]);
    again.cancel().await.ok();
    audit(&port).await;
}

/// Worked example 15: hot products are reserved at the checkout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_products_are_reserved_at_the_checkout() {
    let mut rng = Rng::of_test("hot_products_are_reserved_at_the_checkout");
    let (_home, _server, port) = shop(Encoding::Json).await;
    for id in ["hot-1", "hot-2"] {
        product(&port, id, 100, json!({"hold": "at_checkout"})).await;
    }
    product(&port, "warm", 100, Value::Null).await;
    let buyer = Shopper::new(&port, &mut rng);
    let held = buyer.stock("hot-1", 1_000).await.ok();
    assert_eq!(
        held["lines"][0],
        json!({"line": 1, "product": "hot-1", "name": "hot-1", "quantity": 1_000, "price": 350, "total": 350_000, "late": true})
    );
    buyer.stock("hot-2", 10).await.ok();
    buyer.stock("warm", 10).await.ok();
    assert_eq!((stock(&port, "hot-1").await, stock(&port, "hot-2").await), ([100, 0, 0], [100, 0, 0]));
    let no = buyer.checkout().await.no(401, "out_of_stock");
    assert_eq!(no["shortages"], json!([{"product": "hot-1", "wanted": 1_000, "free": 100, "held": 0}]), "{no}");
    stock_is(&port, "hot-1", [100, 0, 0]).await;
    stock_is(&port, "hot-2", [100, 0, 0]).await;
    assert_eq!((buyer.state().await.as_str(), stock(&port, "warm").await), ("active", [90, 10, 0]));
    // The same cart, with an available quantity.
    assert_eq!(buyer.set(1, 100).await.ok()["lines"][0]["late"], true);
    assert_eq!(stock(&port, "hot-1").await, [100, 0, 0]);
    let order = buyer.checkout().await.ok();
    assert_eq!(order["total"]["amount"], 350 * 120);
    assert!(order["lines"].as_array().expect("lines").iter().all(|line| line.get("late").is_none()), "{order}");
    assert_eq!(stock(&port, "hot-1").await, [0, 0, 100]);
    // A refused checkout lists everything that is sold out.
    let late = Shopper::new(&port, &mut rng);
    late.stock("hot-1", 1).await.ok();
    late.stock("hot-2", 91).await.ok();
    let no = late.checkout().await.no(401, "out_of_stock");
    let gone = json!([
        {"product": "hot-1", "wanted": 1, "free": 0, "held": 0},
        {"product": "hot-2", "wanted": 91, "free": 90, "held": 0},
    ]);
    assert_eq!(no["shortages"], gone);
    late.cancel().await.ok();
    assert_eq!(audit(&port).await["stock"], json!({"free": 180, "held": 0, "sold": 120}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_has_limits() {
    let mut rng = Rng::of_test("an_order_has_limits");
    let (_home, _server, port) = shop(Encoding::Json).await;
    product(&port, "cup", 100, json!({"limits": {"per_order": 4}})).await;
    let shared = json!({"per_customer": {"quota": "plates", "max": 6}});
    product(&port, "plate", 100, json!({"limits": shared})).await;
    product(&port, "saucer", 100, json!({"limits": shared})).await;
    let buyer = Shopper::new(&port, &mut rng);
    buyer.stock("cup", 3).await.ok();
    buyer.stock("cup", 2).await.no(210, "limit_per_order");
    buyer.set(1, 5).await.no(210, "limit_per_order");
    assert_eq!(buyer.set(1, 4).await.ok()["lines"][0]["quantity"], 4);
    stock_is(&port, "cup", [96, 4, 0]).await;
    // A limit per customer needs a customer.
    buyer.stock("plate", 1).await.no(219, "customer_needed");
    let plates = |customer: &str, product: &str, quantity: u64| json!({"customer": customer, "product": product, "quantity": quantity});
    buyer.ask("cart.hold_stock", plates("ann", "plate", 4)).await.ok();
    let no = buyer.ask("cart.hold_stock", plates("ann", "saucer", 3)).await.no(209, "limit_per_customer");
    assert_eq!((&no["quota"], &no["max"], &no["taken"]), (&json!("plates"), &json!(6), &json!(4)));
    stock_is(&port, "saucer", [100, 0, 0]).await;
    buyer.checkout().await.ok();
    // Bought units count in every later cart of the customer, but not for other customers.
    let later = Shopper::new(&port, &mut rng);
    later.ask("cart.hold_stock", plates("ann", "saucer", 3)).await.no(209, "limit_per_customer");
    later.ask("cart.hold_stock", plates("ann", "saucer", 2)).await.ok();
    let other = Shopper::new(&port, &mut rng);
    other.ask("cart.hold_stock", plates("bob", "saucer", 6)).await.ok();
    // Released and refunded units can be bought again.
    later.cancel().await.ok();
    port.ask("order.refund", "r", json!({"order": buyer.cart(), "lines": [2], "reason": "broken"})).await.ok();
    let again = Shopper::new(&port, &mut rng);
    eventually("the quota is free again", async || {
        let answer = again.ask("cart.hold_stock", plates("ann", "plate", 6)).await;
        matches!(answer, Answer::Ok(..)).then_some(())
    })
    .await;
    audit(&port).await;
}

/// The whole purchase over HTTP and, interleaved, over the WebSocket: both show the same shop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shopping_by_http() {
    let mut rng = Rng::of_test("shopping_by_http");
    let (_home, server, port) = shop(Encoding::MsgPack).await;
    let address = server.address();
    let put = json!({"id": "hat", "name": "Hat", "price": {"amount": 350, "currency": "EUR"}, "stock": 3});
    let (status, _) = http::post(address, "product.put", None, &put).await;
    assert_eq!(status, 400, "a write needs an idempotency key");
    let (status, answer) = http::post(address, "product.put", Some("p"), &put).await;
    assert_eq!((status, &answer["ok"]["counts"]["free"]), (200, &json!(3)));
    let token = rng.token();
    let hold = json!({"token": token, "product": "hat", "quantity": 2});
    let (status, held) = http::post(address, "cart.hold_stock", Some("1"), &hold).await;
    assert_eq!((status, &held["ok"]["lines"][0]["quantity"]), (200, &json!(2)), "{held}");
    // The repeat comes over the other protocol.
    let again = port.ask("cart.hold_stock", "1", hold.clone()).await.ok();
    assert_eq!(again["lines"], held["ok"]["lines"]);
    let (status, no) = http::post(address, "cart.hold_stock", Some("2"), &hold).await;
    assert_eq!((status, no["no"]["code"].as_u64()), (409, Some(401)), "{no}");
    let (status, no) =
        http::post(address, "cart.hold_stock", Some("3"), &json!({"token": token, "product": "hat", "quantity": -3}))
            .await;
    assert_eq!((status, no["no"]["code"].as_u64()), (400, Some(402)), "{no}");
    let (status, no) =
        http::post(address, "cart.hold_stock", Some("4"), &json!({"token": token, "product": "cap", "quantity": 1}))
            .await;
    assert_eq!((status, no["no"]["code"].as_u64()), (404, Some(403)), "{no}");
    let set = json!({"token": token, "line": 1, "quantity": 3});
    assert_eq!(http::ask(address, "cart.set_quantity", Some("5"), &set).await.ok()["total"]["amount"], 1_050);
    let pay = json!({"token": token, "payment": recorded(), "customer": "ann"});
    let order = http::ask(address, "cart.checkout", Some("6"), &pay).await.ok();
    let id = order["id"].as_str().expect("an order");
    let (status, text) = http::get(address, &format!("/v1/order.get?order={id}")).await;
    let read: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &read["ok"]["lines"]), (200, &order["lines"]));
    let over = port.read("order.get", json!({"order": id})).await.ok();
    assert_eq!(over["lines"], order["lines"]);
    audit(&port).await;
    let (status, text) = http::get(address, "/v1/customer.purchases?customer=ann").await;
    assert!(status == 200 && text.contains(id), "{status} {text}");
    let (status, text) = http::get(address, "/v1/product.get?id=hat").await;
    assert!(status == 200 && text.contains(r#""counts":{"free":0,"held":0,"sold":3}"#), "{status} {text}");
}

/// One cart over seats, places, units and time: all or nothing, one order, refunds line by line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cart_holds_every_kind_of_goods() {
    let mut rng = Rng::of_test("one_cart_holds_every_kind_of_goods");
    let (_home, _server, port) = shop(Encoding::Json).await;
    let theatre = Theatre::open(&port, 1, (5, 16), None).await;
    common::fixture::event(&port, "finals", 10, Value::Null).await;
    product(&port, "programme", 10, Value::Null).await;
    room(&port, "box", Value::Null).await;
    let noon = 1_900_000_800_000;
    let lines = |units: u64| {
        json!([
            {"session": theatre.session(), "seats": [[1, 5], [1, 6]]},
            {"session": "finals", "area": "yard", "quantity": 4},
            {"product": "programme", "quantity": units},
            {"resource": "box", "begin": time(&port, noon), "end": time(&port, noon + 5_400_000)},
        ])
    };
    let buyer = Shopper::new(&port, &mut rng);
    let nothing = async || {
        eventually("nothing is held", async || {
            let map = theatre.map(&port, theatre.session()).await;
            let free = map.held == 0
                && places(&port, "finals").await == [10, 0, 0]
                && stock(&port, "programme").await == [10, 0, 0]
                && port.read("resource.get", json!({"id": "box"})).await.ok()["bookings"] == 0;
            free.then_some(())
        })
        .await;
    };
    let no = buyer.ask("cart.hold_all", json!({"lines": lines(11), "customer": "ann"})).await.no(401, "out_of_stock");
    assert_eq!(no["shortages"][0]["product"], "programme", "{no}");
    nothing().await;
    // Every conflict is reported, by line.
    let rival = Shopper::new(&port, &mut rng);
    rival.seats(theatre.session(), json!([[1, 6]])).await.ok();
    rival.slot("box", time(&port, noon), time(&port, noon + 1)).await.ok();
    let no = buyer.ask("cart.hold_all", json!({"lines": lines(11), "customer": "ann"})).await.no(201, "seats_taken");
    let refusals: Vec<_> =
        no["lines"].as_array().expect("lines").iter().map(|line| (&line["line"], &line["name"])).collect();
    let expected =
        [(0, "seats_taken"), (2, "out_of_stock"), (3, "slot_taken")].map(|(line, name)| (json!(line), json!(name)));
    assert_eq!(refusals, expected.iter().map(|(line, name)| (line, name)).collect::<Vec<_>>());
    rival.cancel().await.ok();
    nothing().await;

    let held = buyer.ask("cart.hold_all", json!({"lines": lines(3), "customer": "ann"})).await.ok();
    let kinds: Vec<_> = held["lines"].as_array().expect("lines").iter().map(|line| line["line"].as_u64()).collect();
    assert_eq!(kinds, [Some(1), Some(2), Some(3), Some(4)], "{held}");
    let order = buyer.checkout().await.ok();
    // Two seats at 10.00, four places at 10.00, three programmes at 3.50, two begun hours at 20.00.
    let total = 2 * 1_000 + 4 * 1_000 + 3 * 350 + 2 * 2_000;
    assert_eq!(order["total"], json!({"amount": total, "currency": "EUR"}));
    assert_eq!(theatre.map(&port, theatre.session()).await.sold, 2);
    assert_eq!((places(&port, "finals").await, stock(&port, "programme").await), ([6, 0, 4], [7, 0, 3]));
    let booked = port
        .read("resource.bookings", json!({"resource": "box", "from": time(&port, noon), "to": time(&port, noon + 1)}))
        .await
        .ok();
    assert_eq!(
        (&booked["bookings"][0]["state"], &booked["bookings"][0]["order"]),
        (&json!("sold"), &json!(buyer.cart()))
    );

    // Refunds: by line, then the rest, each once. Everything is on sale again.
    let refund = |lines: Value| json!({"order": buyer.cart(), "lines": lines, "reason": "it rains"});
    let first = port.ask("order.refund", "r1", refund(json!([1, 4]))).await.ok();
    assert_eq!(
        (&first["number"], &first["lines"], &first["amount"]["amount"]),
        (&json!(1), &json!([1, 4]), &json!(6_000))
    );
    assert_eq!(first["status"]["state"], "recorded");
    let mut again = port.ask("order.refund", "r1", refund(json!([4, 1]))).await.ok();
    assert_eq!(again, first, "a repeat gets the first answer");
    port.ask("order.refund", "r2", refund(json!([1]))).await.no(606, "already_refunded");
    port.ask("order.refund", "r3", refund(json!([9]))).await.no(303, "no_such_line");
    eventually("seats and time are on sale again", async || {
        let map = theatre.map(&port, theatre.session()).await;
        let bookings = port.read("resource.get", json!({"id": "box"})).await.ok()["bookings"] == 0;
        (map.sold == 0 && bookings).then_some(())
    })
    .await;
    assert_eq!((places(&port, "finals").await, stock(&port, "programme").await), ([6, 0, 4], [7, 0, 3]));
    again = port.ask("order.refund", "r4", json!({"order": buyer.cart(), "reason": "closed"})).await.ok();
    assert_eq!(
        (&again["number"], &again["lines"], &again["amount"]["amount"]),
        (&json!(2), &json!([2, 3]), &json!(5_050))
    );
    stock_is(&port, "programme", [10, 0, 0]).await;
    common::fixture::places_are(&port, "finals", [10, 0, 0]).await;
    port.ask("order.refund", "r5", json!({"order": buyer.cart(), "reason": "closed"}))
        .await
        .no(606, "already_refunded");
    // The order itself never changes.
    let kept = buyer.order().await;
    assert_eq!((&kept["lines"], &kept["total"]), (&order["lines"], &order["total"]));
    assert_eq!(kept["refunds"].as_array().map(Vec::len), Some(2));
    let audit = audit(&port).await;
    assert_eq!(audit["refund_totals"], json!([{"currency": "EUR", "orders": 2, "amount": total}]));
    // Refunded seats, places, units and time can be sold again.
    let next = Shopper::new(&port, &mut rng);
    next.ask("cart.hold_all", json!({"lines": lines(10)})).await.ok();
    next.checkout().await.ok();
}
