//! Products, areas, resources, orders and purchases.

use serde_json::{Value, json};

use super::Stage;
use crate::common::{self, Answer, Encoding};

/// Invalid requests for products, areas, resources, orders and purchases, over both protocols. Each is refused by name, and the
/// whole audit stays the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_goods_requests_are_refused() {
    let mut stage = Stage::new("invalid_goods_requests_are_refused", Encoding::Json).await;
    let port = std::sync::Arc::new(stage.server.port(Encoding::Json).await);
    common::fixture::product(&port, "pen", 10, json!({"hold": "at_checkout"})).await;
    common::fixture::product(&port, "ink", 10, Value::Null).await;
    common::fixture::product(&port, "dollar", 10, json!({"price": {"amount": 100, "currency": "USD"}})).await;
    common::fixture::event(&port, "finals", 10, Value::Null).await;
    common::fixture::room(&port, "court", Value::Null).await;
    let anns = common::Shopper::new(&port, &mut stage.rng);
    anns.ask("cart.hold_stock", json!({"product": "ink", "quantity": 2, "customer": "ann"})).await.ok();
    anns.checkout().await.ok();
    let mine = common::Shopper::new(&port, &mut stage.rng);
    mine.ask("cart.hold_stock", json!({"product": "ink", "quantity": 1, "customer": "bob"})).await.ok();
    port.ask(
        "resource.reserve",
        "b",
        json!({"resource": "court", "booking": "taken",
        "begin": "2030-01-01T10:00:00Z", "end": "2030-01-01T11:00:00Z"}),
    )
    .await
    .ok();
    let unknown = "99999999999999999999999999999999";
    let (anns_cart, anns_order) = (anns.cart(), anns.cart());
    let changed = |base: &Value, change: Value| {
        let mut body = base.clone();
        body.as_object_mut().expect("fields").extend(change.as_object().expect("fields").clone());
        body
    };
    let product = json!({"id": "new", "name": "New", "price": {"amount": 1, "currency": "EUR"}, "stock": 1});
    let product = |change: Value| ("product.put", changed(&product, change));
    let resource =
        json!({"id": "new", "name": "New", "zone": "Europe/Berlin", "rate": {"amount": 1, "currency": "EUR"}});
    let resource = |change: Value| ("resource.put", changed(&resource, change));
    let session = json!({"id": "new", "venue": "arena", "hall": "finals", "title": "finals",
        "starts_at": "2031-01-01T20:00:00Z", "ends_at": "2031-01-01T22:00:00Z",
        "areas": [{"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}}]});
    let session = |change: Value| ("session.create", changed(&session, change));
    let area = |change: Value| {
        let area = json!({"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}});
        session(json!({"areas": [changed(&area, change)]}))
    };
    let slot =
        json!({"resource": "court", "booking": "new", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"});
    let reserve = |change: Value| ("resource.reserve", changed(&slot, change));
    let again = |repeat: Value| reserve(json!({"repeat": repeat}));
    let bobs = |change: Value| changed(&json!({"token": mine.token}), change);
    let stock = |quantity: Value| ("cart.hold_stock", bobs(json!({"product": "ink", "quantity": quantity})));
    let places = |quantity: Value| {
        ("cart.hold_places", bobs(json!({"session": "finals", "area": "yard", "quantity": quantity})))
    };
    let time =
        |begin: &str, end: &str| ("cart.hold_slot", bobs(json!({"resource": "court", "begin": begin, "end": end})));
    let pay = |payment: Value| ("cart.checkout", bobs(json!({"payment": payment})));
    let refund = |change: Value| ("order.refund", changed(&json!({"order": anns_order, "reason": "why"}), change));
    let (huge, control) = ("x".repeat(5_000), "a\u{7}b");
    let bad = [
        product(json!({"price": {"amount": -1, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1_000_000_000_001u64, "currency": "EUR"}})),
        product(json!({"price": {"amount": i64::MAX, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1.5, "currency": "EUR"}})),
        product(json!({"price": {"amount": 1, "currency": "euro"}})),
        product(json!({"price": 1})),
        product(json!({"name": ""})),
        product(json!({"name": control})),
        product(json!({"id": "no id"})),
        product(json!({"hold": "never"})),
        product(json!({"hold_ttl_ms": 0})),
        product(json!({"hold_ttl_ms": u64::MAX})),
        product(json!({"blob": "no base64!"})),
        product(json!({"properties": {"": "x"}})),
        product(json!({"properties": ["x"]})),
        ("product.get", json!({})),
        session(json!({"areas": []})),
        area(json!({"price": {"amount": -1, "currency": "EUR"}})),
        session(json!({"areas": [
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}},
            {"id": "b", "capacity": 1, "price": {"amount": 1, "currency": "USD"}}]})),
        session(json!({"areas": [
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}},
            {"id": "a", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}}]})),
        session(json!({"starts_at": "2031-01-01T22:00:00Z"})),
        resource(json!({"zone": "Europe/Atlantis"})),
        resource(json!({"zone": ""})),
        resource(json!({"rate": {"amount": -1, "currency": "EUR"}})),
        resource(json!({"rate": {"amount": 1, "currency": "EUR", "per_ms": 0}})),
        resource(json!({"before_ms": -1})),
        resource(json!({"after_ms": u64::MAX})),
        resource(json!({"horizon_ms": 0})),
        resource(json!({"hours": {"week": [[], [], []]}})),
        resource(json!({"hours": {"week": [[[600, 540]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[[600, 1_441]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[[0, 600], [540, 700]], [], [], [], [], [], []]}})),
        resource(json!({"hours": {"week": [[], [], [], [], [], [], []], "exceptions": {"2030-02-30": []}}})),
        reserve(json!({"begin": null})),
        reserve(json!({"local_begin": "2030-01-01T12:00", "local_end": "2030-01-01T13:00"})),
        reserve(json!({"begin": "yesterday"})),
        again(json!({"every": "year", "count": 2})),
        again(json!({"every": "day"})),
        again(json!({"every": "day", "count": 2, "until": "2030-02-01"})),
        again(json!({"every": "day", "count": 0})),
        again(json!({"every": "day", "count": 1_000_000})),
        again(json!({"every": "day", "count": 2, "interval": 0})),
        again(json!({"every": "day", "count": 2, "weekdays": [1]})),
        again(json!({"every": "week", "count": 2, "weekdays": [0]})),
        again(json!({"every": "week", "count": 2, "weekdays": [8]})),
        again(json!({"every": "day", "until": "2030-02-30"})),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T00:00:00Z", "to": "2030-01-02T00:00:00Z", "length_ms": 1, "count": 0}),
        ),
        ("cart.hold_stock", bobs(json!({"product": "dollar", "quantity": 1}))),
        ("cart.hold_stock", bobs(json!({"product": "ink", "quantity": 1, "customer": "ann"}))),
        (
            "cart.checkout",
            bobs(json!({"customer": "ann", "payment": {"recorded": {"method": "card", "transaction_id": "1"}}})),
        ),
        ("cart.hold_all", bobs(json!({"lines": [{"product": "ink"}]}))),
        ("cart.hold_all", bobs(json!({"lines": [{"product": "ink", "session": "finals", "quantity": 1}]}))),
        ("cart.hold_all", bobs(json!({"lines": [{"resource": "court", "begin": "2030-01-01T12:00:00Z"}]}))),
        pay(json!({})),
        pay(json!({"recorded": {"method": "card", "transaction_id": "1"}, "gateway": {"source": "ok"}})),
        pay(json!({"recorded": {"method": "", "transaction_id": "1"}})),
        pay(json!({"gateway": {"source": ""}})),
        // No gateway is configured.
        pay(json!({"gateway": {"source": "ok"}})),
        pay(json!({"gateway": {"source": "ok", "on_decline": "perhaps"}})),
        refund(json!({"reason": ""})),
        refund(json!({"lines": []})),
        refund(json!({"lines": [1, 1]})),
        refund(json!({"lines": [-1]})),
        refund(json!({"order": "abc"})),
        ("customer.purchases", json!({"customer": "ann", "limit": 0})),
        ("customer.purchases", json!({"customer": "ann", "cursor": -1})),
        ("admin.settle", json!({"cart": anns_cart, "attempt": 1, "outcome": "perhaps"})),
        ("admin.audit", json!({"entity": "planet/mars"})),
        ("admin.history", json!({"entity": "product/ink", "seat": [0, 0]})),
    ];
    let quantities = [
        product(json!({"stock": -1})),
        product(json!({"stock": 1.5})),
        product(json!({"stock": 1u64 << 53})),
        product(json!({"stock": u64::MAX})),
        product(json!({"limits": {"per_order": 0}})),
        product(json!({"limits": {"per_customer": {"quota": "q", "max": -5}}})),
        product(json!({"id": "ink", "name": "ink", "price": {"amount": 350, "currency": "EUR"}, "stock": 2})),
        area(json!({"capacity": 0})),
        area(json!({"capacity": -1})),
        area(json!({"capacity": 10_000_001})),
        area(json!({"capacity": u64::MAX})),
        resource(json!({"capacity": 0})),
        resource(json!({"capacity": 1_000_000_000_000u64})),
        stock(json!(0)),
        stock(json!(-3)),
        stock(json!(0.5)),
        stock(json!(1_000_001)),
        stock(json!(u64::MAX)),
        stock(json!(i64::MIN)),
        stock(json!(1e300)),
        places(json!(0)),
        places(json!(-1)),
        places(json!(4_294_967_297u64)),
        (
            "cart.hold_all",
            bobs(json!({"lines": [{"product": "ink", "quantity": 1}, {"product": "ink", "quantity": -1}]})),
        ),
        (
            "cart.hold_all",
            bobs(json!({"lines": [{"product": "pen", "quantity": 1_000_000}, {"product": "pen", "quantity": 1}]})),
        ),
        ("cart.set_quantity", bobs(json!({"line": 1, "quantity": -1}))),
        ("cart.set_quantity", bobs(json!({"line": 1, "quantity": 1_000_001}))),
    ];
    let intervals = [
        reserve(json!({"end": "2030-01-01T12:00:00Z"})),
        reserve(json!({"end": "2030-01-01T11:00:00Z"})),
        reserve(json!({"end": "2130-01-01T13:00:00Z"})),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "2030-01-01T12:00", "local_end": "2030-01-01T11:00"}),
        ),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "noon", "local_end": "2030-01-01T11:00"}),
        ),
        (
            "resource.reserve",
            json!({"resource": "court", "booking": "new", "local_begin": "2030-01-01T12:00", "local_end": "2130-01-01T12:00"}),
        ),
        (
            "resource.move",
            json!({"resource": "court", "booking": "taken", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T12:00:00Z"}),
        ),
        (
            "resource.is_available",
            json!({"resource": "court", "begin": "2030-01-01T12:00:00Z", "end": "2130-01-01T12:00:00Z"}),
        ),
        (
            "resource.bookings",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2130-01-01T12:00:00Z"}),
        ),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2030-01-01T11:00:00Z", "length_ms": 1}),
        ),
        (
            "resource.free_slots",
            json!({"resource": "court", "from": "2030-01-01T12:00:00Z", "to": "2030-01-02T11:00:00Z", "length_ms": 0}),
        ),
        time("2030-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
        time("2030-01-01T12:00:00Z", "2030-01-01T11:00:00Z"),
        time("2030-01-01T12:00:00Z", "2130-01-01T12:00:00Z"),
    ];
    let too_large = [
        product(json!({"name": huge})),
        product(json!({"blob": "AAAA".repeat(342)})),
        product(json!({"properties": {"p": huge}})),
        product(json!({"properties": {"p".repeat(65): "x"}})),
        product(
            json!({"properties": (0..65).map(|number| (format!("p{number}"), json!("x"))).collect::<serde_json::Map<_, _>>()}),
        ),
        area(json!({"name": huge})),
        resource(json!({"name": huge})),
        reserve(json!({"details": huge})),
        ("cart.checkout", bobs(json!({"payment": {"recorded": {"method": huge, "transaction_id": "1"}}}))),
        ("cart.checkout", bobs(json!({"payment": {"gateway": {"source": huge}}}))),
        (
            "cart.checkout",
            bobs(
                json!({"payment": {"recorded": {"method": "card", "transaction_id": "1"}}, "shipping": {"address": huge}}),
            ),
        ),
        refund(json!({"reason": huge})),
        refund(json!({"lines": (1..=51).collect::<Vec<_>>()})),
        ("session.cancel", json!({"id": "finals", "reason": huge})),
        (
            "cart.hold_all",
            bobs(json!({"lines": (0..51).map(|_| json!({"product": "ink", "quantity": 1})).collect::<Vec<_>>()})),
        ),
    ];
    let others = vec![
        // The unit of a product or resource never changes.
        (
            product(json!({"id": "ink", "price": {"amount": 350, "currency": "USD"}, "stock": 10})),
            703,
            "currency_fixed",
        ),
        (resource(json!({"id": "court", "rate": {"amount": 1, "currency": "USD"}})), 703, "currency_fixed"),
        (("cart.hold_stock", bobs(json!({"product": "pencil", "quantity": 1}))), 403, "no_such_product"),
        (("product.get", json!({"id": "pencil"})), 403, "no_such_product"),
        (("resource.get", json!({"id": "attic"})), 701, "not_found"),
        (
            (
                "resource.reserve",
                json!({"resource": "attic", "booking": "b", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"}),
            ),
            701,
            "not_found",
        ),
        (
            (
                "cart.hold_slot",
                bobs(json!({"resource": "attic", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"})),
            ),
            701,
            "not_found",
        ),
        (("cart.hold_places", bobs(json!({"session": "finals", "area": "moat", "quantity": 1}))), 701, "not_found"),
        (("cart.hold_places", bobs(json!({"session": "nowhere", "area": "yard", "quantity": 1}))), 701, "not_found"),
        (("cart.set_quantity", bobs(json!({"line": 9, "quantity": 1}))), 303, "no_such_line"),
        (("cart.set_quantity", json!({"token": unknown, "line": 1, "quantity": 1})), 701, "not_found"),
        // Another cart and its order: only the token opens a cart, and only operators refund.
        (("cart.set_quantity", bobs(json!({"cart": anns_cart, "line": 1, "quantity": 1}))), 305, "not_your_cart"),
        (
            (
                "cart.checkout",
                bobs(json!({"cart": anns_cart, "payment": {"recorded": {"method": "card", "transaction_id": "1"}}})),
            ),
            305,
            "not_your_cart",
        ),
        (("order.refund", json!({"order": unknown, "reason": "why"})), 701, "not_found"),
        (("order.refund", json!({"order": mine.cart(), "reason": "not an order yet"})), 701, "not_found"),
        (("order.get", json!({"order": mine.cart()})), 701, "not_found"),
        (refund(json!({"lines": [9]})), 303, "no_such_line"),
        (reserve(json!({"booking": "taken"})), 503, "id_in_use"),
        (reserve(json!({"begin": "2030-01-01T10:59:59.999Z"})), 501, "slot_taken"),
        (("resource.cancel", json!({"resource": "court", "booking": "nobody"})), 505, "no_such_booking"),
        (("resource.cancel", json!({"resource": "court", "booking": "taken", "series": true})), 505, "no_such_booking"),
        (("admin.settle", json!({"cart": anns_cart, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
        (("admin.settle", json!({"cart": unknown, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
        (("admin.release", json!({"cart": unknown, "line": 1})), 701, "not_found"),
        (("admin.release", json!({"cart": mine.cart(), "line": 7})), 303, "no_such_line"),
        (("admin.history", json!({"entity": "product/pencil"})), 701, "not_found"),
        (("session.cancel", json!({"id": "nowhere", "reason": "why"})), 701, "not_found"),
    ];
    let named = |code: u64, name: &'static str| move |(op, body)| ((op, body), code, name);
    let wrong = bad.into_iter().map(named(101, "bad_request"));
    let wrong = wrong.chain(quantities.into_iter().map(named(402, "bad_quantity")));
    let wrong = wrong.chain(intervals.into_iter().map(named(502, "bad_interval")));
    let wrong = wrong.chain(too_large.into_iter().map(named(103, "too_large"))).chain(others);
    // An ended cart leaves memory at any time.
    let counts = async || {
        let mut audit = common::fixture::audit(&port).await;
        audit["carts_archived"] = Value::Null;
        audit
    };
    let before = counts().await;
    let mut failures = Vec::new();
    for (number, ((op, body), code, name)) in wrong.enumerate() {
        let text = body.to_string();
        let shown: String = text.chars().take(200).collect();
        let rid = format!("wrong-{number}");
        let answers = [
            port.ask(op, &rid, body.clone()).await,
            common::http::ask(stage.server.address(), op, Some(&rid), &body).await,
        ];
        for answer in answers {
            match answer {
                Answer::No(no) if (no.code, no.name.as_str()) == (code, name) => {}
                other => failures.push(format!("{op} {shown} must be refused with {code} {name}: {other:?}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(counts().await, before, "a refusal changed something");
    assert_eq!(mine.checkout().await.ok()["total"]["amount"], 350);
    stage.sells().await;
}
