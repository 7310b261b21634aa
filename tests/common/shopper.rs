//! One buyer: a cart, its token, and its own request ids.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};

use super::{
    Rng,
    port::{Answer, Port},
};

/// A cart and the connection it is used on.
pub(crate) struct Shopper {
    pub(crate) port: Arc<Port>,
    pub(crate) token: String,
    requests: AtomicU32,
}

impl Shopper {
    /// A buyer with a new token.
    pub(crate) fn new(port: &Arc<Port>, rng: &mut Rng) -> Shopper {
        Shopper::with(port, rng.token())
    }

    /// The cart with this token. Request ids start over.
    pub(crate) fn with(port: &Arc<Port>, token: String) -> Shopper {
        Shopper { port: Arc::clone(port), token, requests: AtomicU32::new(0) }
    }

    /// The id of the cart, and of its order.
    pub(crate) fn cart(&self) -> String {
        let token = boxoffice_core::id::CartToken(u128::from_str_radix(&self.token, 16).expect("hexadecimal digits"));
        token.cart().to_string()
    }

    /// A new request id.
    pub(crate) fn rid(&self) -> String {
        format!("{}-{}", &self.token[..8], self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// The body with the token.
    pub(crate) fn body(&self, mut body: Value) -> Value {
        body["token"] = self.token.as_str().into();
        body
    }

    pub(crate) async fn ask(&self, op: &str, body: Value) -> Answer {
        self.port.ask(op, &self.rid(), self.body(body)).await
    }

    /// Asks under this request id.
    pub(crate) async fn ask_as(&self, rid: &str, op: &str, body: Value) -> Answer {
        self.port.ask(op, rid, self.body(body)).await
    }

    pub(crate) async fn seats(&self, session: &str, seats: Value) -> Answer {
        self.ask("cart.hold_seats", json!({"session": session, "seats": seats})).await
    }

    pub(crate) async fn places(&self, session: &str, area: &str, quantity: i64) -> Answer {
        self.ask("cart.hold_places", json!({"session": session, "area": area, "quantity": quantity})).await
    }

    pub(crate) async fn stock(&self, product: &str, quantity: i64) -> Answer {
        self.ask("cart.hold_stock", json!({"product": product, "quantity": quantity})).await
    }

    pub(crate) async fn slot(&self, resource: &str, begin: Value, end: Value) -> Answer {
        self.ask("cart.hold_slot", json!({"resource": resource, "begin": begin, "end": end})).await
    }

    pub(crate) async fn set(&self, line: u64, quantity: i64) -> Answer {
        self.ask("cart.set_quantity", json!({"line": line, "quantity": quantity})).await
    }

    pub(crate) async fn release(&self, line: u64) -> Answer {
        self.ask("cart.release", json!({"line": line})).await
    }

    pub(crate) async fn cancel(&self) -> Answer {
        self.ask("cart.cancel", json!({})).await
    }

    pub(crate) async fn get(&self) -> Value {
        self.port.read("cart.get", self.body(json!({}))).await.ok()
    }

    pub(crate) async fn state(&self) -> String {
        self.get().await["state"].as_str().expect("a state").to_owned()
    }

    /// A payment that was made elsewhere.
    pub(crate) async fn checkout(&self) -> Answer {
        self.ask("cart.checkout", json!({"payment": recorded()})).await
    }

    /// A payment through the gateway.
    pub(crate) async fn pay(&self, source: &str) -> Answer {
        self.ask("cart.checkout", json!({"payment": {"gateway": {"source": source}}})).await
    }

    pub(crate) async fn order(&self) -> Value {
        self.port.read("order.get", json!({"order": self.cart()})).await.ok()
    }
}

/// A payment that was made elsewhere.
pub(crate) fn recorded() -> Value {
    json!({"recorded": {"method": "card", "transaction_id": "4711"}})
}

/// The body of a checkout of the cart with this token, paid elsewhere.
pub(crate) fn checkout(token: &str) -> Value {
    json!({"token": token, "payment": recorded()})
}
