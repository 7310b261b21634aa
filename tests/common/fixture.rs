//! Creates products, events and rooms over a connection, and reads their counts.

use serde_json::{Value, json};

use super::{eventually, port::Port, theatre::time};

/// A product at 3.50. `more` overrides fields.
pub(crate) async fn product(port: &Port, id: &str, stock: u64, more: Value) -> Value {
    let mut body = json!({"id": id, "name": id, "price": {"amount": 350, "currency": "EUR"}, "stock": stock});
    with(&mut body, more);
    port.ask("product.put", &format!("put-{id}-{stock}"), body).await.ok()
}

/// A hall without seats, and a session in it with one area `yard`, at 10.00 a place (AE).
pub(crate) async fn event(port: &Port, id: &str, capacity: u64, more: Value) -> Value {
    let venue = json!({"id": "arena", "name": "Arena", "city": "Athens"});
    port.ask("venue.put", "put-arena", venue).await.ok();
    let hall = json!({"venue": "arena", "id": id, "name": id, "layout": {"rows": []}});
    port.ask("hall.put", &format!("put-hall-{id}"), hall).await.ok();
    let title = json!({"id": "finals", "name": "The finals"});
    port.ask("title.put", &format!("put-title-{id}"), title).await.ok();
    let mut body = json!({"id": id, "venue": "arena", "hall": id, "title": "finals",
        "starts_at": time(port, 1_900_000_000_000), "ends_at": time(port, 1_900_010_000_000),
        "areas": [{"id": "yard", "capacity": capacity, "price": {"amount": 1_000, "currency": "EUR"}}]});
    with(&mut body, more);
    port.ask("session.create", &format!("create-{id}"), body).await.ok()
}

/// A room in Berlin at 20.00 a begun hour. `more` overrides fields.
pub(crate) async fn room(port: &Port, id: &str, more: Value) -> Value {
    let mut body = json!({"id": id, "name": id, "zone": "Europe/Berlin",
        "rate": {"amount": 2_000, "currency": "EUR", "per_ms": 3_600_000}});
    with(&mut body, more);
    port.ask("resource.put", &format!("put-{id}"), body).await.ok()
}

fn with(body: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        body.as_object_mut().expect("fields").extend(more);
    }
}

/// Free, held and sold units of a product.
pub(crate) async fn stock(port: &Port, product: &str) -> [u64; 3] {
    counts(&port.read("product.get", json!({"id": product})).await.ok()["counts"])
}

/// Free, held and sold places of the area `yard`.
pub(crate) async fn places(port: &Port, session: &str) -> [u64; 3] {
    let session = port.read("session.get", json!({"id": session})).await.ok();
    let area = &session["areas"][0];
    let places = counts(area);
    assert_eq!(Some(places.iter().sum()), area["capacity"].as_u64(), "places are lost (P1): {area}");
    places
}

fn counts(counts: &Value) -> [u64; 3] {
    ["free", "held", "sold"].map(|state| counts[state].as_u64().unwrap_or_else(|| panic!("{state} of {counts}")))
}

/// Waits until a product has these numbers of free, held and sold units.
pub(crate) async fn stock_is(port: &Port, product: &str, expected: [u64; 3]) {
    eventually(&format!("{product} is {expected:?}"), async || (stock(port, product).await == expected).then_some(()))
        .await;
}

/// Waits until the area `yard` has these numbers of free, held and sold places.
pub(crate) async fn places_are(port: &Port, session: &str, expected: [u64; 3]) {
    eventually(&format!("{session} is {expected:?}"), async || (places(port, session).await == expected).then_some(()))
        .await;
}

/// The node's audit once no release is pending. It must find no violation.
pub(crate) async fn audit(port: &Port) -> Value {
    let audit = eventually("no release is pending", async || {
        let audit = port.read("admin.audit", json!({})).await.ok();
        (audit["owed"] == 0).then_some(audit)
    })
    .await;
    assert_eq!(audit["violations"], json!([]), "{audit}");
    audit
}

/// Orders of a customer, in the order of their cursors, which are 1, 2, …
pub(crate) async fn purchases(port: &Port, customer: &str) -> Vec<String> {
    let page = port.read("customer.purchases", json!({"customer": customer, "limit": 1_000})).await.ok();
    let purchases = page["purchases"].as_array().expect("purchases");
    purchases.iter().map(|purchase| purchase["order"].as_str().expect("an order").to_owned()).collect()
}
