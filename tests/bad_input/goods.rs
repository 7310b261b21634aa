//! Products, areas, resources, orders and purchases.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Stage;
use crate::common::{self, Answer, Encoding, Port, Shopper};

/// No cart and no order has this id.
const UNKNOWN: &str = "99999999999999999999999999999999";

/// An op and its body.
type Request = (&'static str, Value);

/// Invalid requests for products, areas, resources, orders and purchases, over both protocols. Each is refused by name, and the
/// whole audit stays the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_goods_requests_are_refused() {
    let mut stage = Stage::new("invalid_goods_requests_are_refused", Encoding::Json).await;
    let port = Arc::new(stage.server.port(Encoding::Json).await);
    put_goods(&port).await;
    let anns = Shopper::new(&port, &mut stage.rng);
    anns.ask("cart.hold_stock", json!({"product": "ink", "quantity": 2, "customer": "ann"})).await.ok();
    anns.checkout().await.ok();
    let bobs = Shopper::new(&port, &mut stage.rng);
    bobs.ask("cart.hold_stock", json!({"product": "ink", "quantity": 1, "customer": "bob"})).await.ok();
    let requests = Requests {
        anns_order: anns.cart(),
        bobs_token: bobs.token.clone(),
        bobs_cart: bobs.cart(),
        huge: "x".repeat(5_000),
    };
    // An ended cart leaves memory at any time.
    let counts = async || {
        let mut audit = common::fixture::audit(&port).await;
        audit["carts_archived"] = Value::Null;
        audit
    };
    let before = counts().await;
    let mut failures = Vec::new();
    for (number, ((op, body), code, name)) in requests.all().into_iter().enumerate() {
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
    assert_eq!(bobs.checkout().await.ok()["total"]["amount"], 350);
    stage.sells().await;
}

/// Products in two currencies, an area, and a room with one booking.
async fn put_goods(port: &Port) {
    common::fixture::product(port, "pen", 10, json!({"hold": "at_checkout"})).await;
    common::fixture::product(port, "ink", 10, Value::Null).await;
    common::fixture::product(port, "dollar", 10, json!({"price": {"amount": 100, "currency": "USD"}})).await;
    common::fixture::event(port, "finals", 10, Value::Null).await;
    common::fixture::room(port, "court", Value::Null).await;
    let booked = json!({"resource": "court", "booking": "taken",
        "begin": "2030-01-01T10:00:00Z", "end": "2030-01-01T11:00:00Z"});
    port.ask("resource.reserve", "b", booked).await.ok();
}

/// The fields of `base` with those of `change` instead of them or beside them.
fn changed(base: &Value, change: Value) -> Value {
    let mut body = base.clone();
    body.as_object_mut().expect("fields").extend(change.as_object().expect("fields").clone());
    body
}

fn product(change: Value) -> Request {
    let base = json!({"id": "new", "name": "New", "price": {"amount": 1, "currency": "EUR"}, "stock": 1});
    ("product.put", changed(&base, change))
}

fn resource(change: Value) -> Request {
    let base = json!({"id": "new", "name": "New", "zone": "Europe/Berlin", "rate": {"amount": 1, "currency": "EUR"}});
    ("resource.put", changed(&base, change))
}

fn session(change: Value) -> Request {
    let base = json!({"id": "new", "venue": "arena", "hall": "finals", "title": "finals",
        "starts_at": "2031-01-01T20:00:00Z", "ends_at": "2031-01-01T22:00:00Z",
        "areas": [{"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}}]});
    ("session.create", changed(&base, change))
}

fn area(change: Value) -> Request {
    let base = json!({"id": "yard", "capacity": 1, "price": {"amount": 1, "currency": "EUR"}});
    session(json!({"areas": [changed(&base, change)]}))
}

fn reserve(change: Value) -> Request {
    let base = json!({"resource": "court", "booking": "new",
        "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"});
    ("resource.reserve", changed(&base, change))
}

fn again(repeat: Value) -> Request {
    reserve(json!({"repeat": repeat}))
}

/// What is asked, in the cart of Bob, about an order of Ann.
struct Requests {
    /// Her cart has the same id.
    anns_order: String,
    bobs_token: String,
    bobs_cart: String,
    /// A longer text than any field takes.
    huge: String,
}

impl Requests {
    /// Every request, with the code and name of its refusal.
    fn all(&self) -> Vec<(Request, u64, &'static str)> {
        let named = |code: u64, name: &'static str| move |request| (request, code, name);
        let bad = self.bad().into_iter().map(named(101, "bad_request"));
        let quantities = self.bad_quantities().into_iter().map(named(402, "bad_quantity"));
        let intervals = self.bad_intervals().into_iter().map(named(502, "bad_interval"));
        let too_large = self.too_large().into_iter().map(named(103, "too_large"));
        bad.chain(quantities).chain(intervals).chain(too_large).chain(self.others()).collect()
    }

    fn bobs(&self, change: Value) -> Value {
        changed(&json!({"token": self.bobs_token}), change)
    }

    fn stock(&self, quantity: Value) -> Request {
        ("cart.hold_stock", self.bobs(json!({"product": "ink", "quantity": quantity})))
    }

    fn places(&self, quantity: Value) -> Request {
        ("cart.hold_places", self.bobs(json!({"session": "finals", "area": "yard", "quantity": quantity})))
    }

    fn time(&self, begin: &str, end: &str) -> Request {
        ("cart.hold_slot", self.bobs(json!({"resource": "court", "begin": begin, "end": end})))
    }

    fn pay(&self, payment: Value) -> Request {
        ("cart.checkout", self.bobs(json!({"payment": payment})))
    }

    fn refund(&self, change: Value) -> Request {
        ("order.refund", changed(&json!({"order": self.anns_order, "reason": "why"}), change))
    }

    /// Fields that are missing, of another type or out of bounds.
    fn bad(&self) -> Vec<Request> {
        let control = "a\u{7}b";
        vec![
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
            ("cart.hold_stock", self.bobs(json!({"product": "dollar", "quantity": 1}))),
            ("cart.hold_stock", self.bobs(json!({"product": "ink", "quantity": 1, "customer": "ann"}))),
            (
                "cart.checkout",
                self.bobs(
                    json!({"customer": "ann", "payment": {"recorded": {"method": "card", "transaction_id": "1"}}}),
                ),
            ),
            ("cart.hold_all", self.bobs(json!({"lines": [{"product": "ink"}]}))),
            ("cart.hold_all", self.bobs(json!({"lines": [{"product": "ink", "session": "finals", "quantity": 1}]}))),
            ("cart.hold_all", self.bobs(json!({"lines": [{"resource": "court", "begin": "2030-01-01T12:00:00Z"}]}))),
            self.pay(json!({})),
            self.pay(json!({"recorded": {"method": "card", "transaction_id": "1"}, "gateway": {"source": "ok"}})),
            self.pay(json!({"recorded": {"method": "", "transaction_id": "1"}})),
            self.pay(json!({"gateway": {"source": ""}})),
            // No gateway is configured.
            self.pay(json!({"gateway": {"source": "ok"}})),
            self.pay(json!({"gateway": {"source": "ok", "on_decline": "perhaps"}})),
            self.refund(json!({"reason": ""})),
            self.refund(json!({"lines": []})),
            self.refund(json!({"lines": [1, 1]})),
            self.refund(json!({"lines": [-1]})),
            self.refund(json!({"order": "abc"})),
            ("customer.purchases", json!({"customer": "ann", "limit": 0})),
            ("customer.purchases", json!({"customer": "ann", "cursor": -1})),
            ("admin.settle", json!({"cart": self.anns_order, "attempt": 1, "outcome": "perhaps"})),
            ("admin.audit", json!({"entity": "planet/mars"})),
            ("admin.history", json!({"entity": "product/ink", "seat": [0, 0]})),
        ]
    }

    /// Quantities that nothing can have.
    fn bad_quantities(&self) -> Vec<Request> {
        vec![
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
            self.stock(json!(0)),
            self.stock(json!(-3)),
            self.stock(json!(0.5)),
            self.stock(json!(1_000_001)),
            self.stock(json!(u64::MAX)),
            self.stock(json!(i64::MIN)),
            self.stock(json!(1e300)),
            self.places(json!(0)),
            self.places(json!(-1)),
            self.places(json!(4_294_967_297u64)),
            (
                "cart.hold_all",
                self.bobs(json!({"lines": [{"product": "ink", "quantity": 1}, {"product": "ink", "quantity": -1}]})),
            ),
            (
                "cart.hold_all",
                self.bobs(
                    json!({"lines": [{"product": "pen", "quantity": 1_000_000}, {"product": "pen", "quantity": 1}]}),
                ),
            ),
            ("cart.set_quantity", self.bobs(json!({"line": 1, "quantity": -1}))),
            ("cart.set_quantity", self.bobs(json!({"line": 1, "quantity": 1_000_001}))),
        ]
    }

    /// Times that end before they begin, or are too long.
    fn bad_intervals(&self) -> Vec<Request> {
        vec![
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
            self.time("2030-01-01T12:00:00Z", "2030-01-01T12:00:00Z"),
            self.time("2030-01-01T12:00:00Z", "2030-01-01T11:00:00Z"),
            self.time("2030-01-01T12:00:00Z", "2130-01-01T12:00:00Z"),
        ]
    }

    /// Texts and lists that are too long.
    fn too_large(&self) -> Vec<Request> {
        let huge = &self.huge;
        vec![
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
            ("cart.checkout", self.bobs(json!({"payment": {"recorded": {"method": huge, "transaction_id": "1"}}}))),
            ("cart.checkout", self.bobs(json!({"payment": {"gateway": {"source": huge}}}))),
            (
                "cart.checkout",
                self.bobs(
                    json!({"payment": {"recorded": {"method": "card", "transaction_id": "1"}}, "shipping": {"address": huge}}),
                ),
            ),
            self.refund(json!({"reason": huge})),
            self.refund(json!({"lines": (1..=51).collect::<Vec<_>>()})),
            ("session.cancel", json!({"id": "finals", "reason": huge})),
            (
                "cart.hold_all",
                self.bobs(json!({"lines": (0..51).map(|_| json!({"product": "ink", "quantity": 1})).collect::<Vec<_>>()})),
            ),
        ]
    }

    /// Requests whose fields are right, and what they name is not there or is another's.
    fn others(&self) -> Vec<(Request, u64, &'static str)> {
        vec![
            // The unit of a product or resource never changes.
            (
                product(json!({"id": "ink", "price": {"amount": 350, "currency": "USD"}, "stock": 10})),
                703,
                "currency_fixed",
            ),
            (resource(json!({"id": "court", "rate": {"amount": 1, "currency": "USD"}})), 703, "currency_fixed"),
            (("cart.hold_stock", self.bobs(json!({"product": "pencil", "quantity": 1}))), 403, "no_such_product"),
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
                    self.bobs(json!({"resource": "attic", "begin": "2030-01-01T12:00:00Z", "end": "2030-01-01T13:00:00Z"})),
                ),
                701,
                "not_found",
            ),
            (("cart.hold_places", self.bobs(json!({"session": "finals", "area": "moat", "quantity": 1}))), 701, "not_found"),
            (("cart.hold_places", self.bobs(json!({"session": "nowhere", "area": "yard", "quantity": 1}))), 701, "not_found"),
            (("cart.set_quantity", self.bobs(json!({"line": 9, "quantity": 1}))), 303, "no_such_line"),
            (("cart.set_quantity", json!({"token": UNKNOWN, "line": 1, "quantity": 1})), 701, "not_found"),
            // Another cart and its order: only the token opens a cart, and only operators refund.
            (("cart.set_quantity", self.bobs(json!({"cart": self.anns_order, "line": 1, "quantity": 1}))), 305, "not_your_cart"),
            (
                (
                    "cart.checkout",
                    self.bobs(json!({"cart": self.anns_order, "payment": {"recorded": {"method": "card", "transaction_id": "1"}}})),
                ),
                305,
                "not_your_cart",
            ),
            (("order.refund", json!({"order": UNKNOWN, "reason": "why"})), 701, "not_found"),
            (("order.refund", json!({"order": self.bobs_cart, "reason": "not an order yet"})), 701, "not_found"),
            (("order.get", json!({"order": self.bobs_cart})), 701, "not_found"),
            (self.refund(json!({"lines": [9]})), 303, "no_such_line"),
            (reserve(json!({"booking": "taken"})), 503, "id_in_use"),
            (reserve(json!({"begin": "2030-01-01T10:59:59.999Z"})), 501, "slot_taken"),
            (("resource.cancel", json!({"resource": "court", "booking": "missing"})), 505, "no_such_booking"),
            (("resource.cancel", json!({"resource": "court", "booking": "taken", "series": true})), 505, "no_such_booking"),
            (("admin.settle", json!({"cart": self.anns_order, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
            (("admin.settle", json!({"cart": UNKNOWN, "attempt": 1, "outcome": "declined"})), 701, "not_found"),
            (("admin.release", json!({"cart": UNKNOWN, "line": 1})), 701, "not_found"),
            (("admin.release", json!({"cart": self.bobs_cart, "line": 7})), 303, "no_such_line"),
            (("admin.history", json!({"entity": "product/pencil"})), 701, "not_found"),
            (("session.cancel", json!({"id": "nowhere", "reason": "why"})), 701, "not_found"),
        ]
    }
}
