//! Two venues with everything that the requests are about.

use boxoffice_core::id::CartToken;
use serde_json::{Value, json};

use super::{ADA, GLOBE, MARKER, ROYAL};
use crate::common::{Port, Rng, eventually, recorded};

/// The carts and the order of one venue.
pub(super) struct Venue {
    /// The token of a cart with places, and its id.
    pub(super) open: String,
    pub(super) open_cart: String,
    /// The token of a cart that is paid by the first caller that may.
    pub(super) to_pay: String,
    /// An order of Ada.
    pub(super) order: String,
}

pub(super) struct Scene {
    royal: Venue,
    globe: Venue,
    /// An order without a customer, at the royal.
    pub(super) guests_order: String,
}

impl Scene {
    pub(super) fn of(&self, venue: &str) -> &Venue {
        match venue {
            ROYAL => &self.royal,
            GLOBE => &self.globe,
            other => panic!("there is no venue {other}"),
        }
    }

    /// Sets everything up over an operator's connection.
    pub(super) async fn open(port: &Port, rng: &mut Rng) -> Scene {
        let mut items = vec![
            ("title.put", json!({"id": "hamlet", "name": "Hamlet"})),
            ("product.put", {
                let price = json!({"amount": 350, "currency": "EUR"});
                json!({"id": "pen", "name": "Pen", "price": price, "stock": 100_000})
            }),
            ("resource.put", room()),
        ];
        for venue in [ROYAL, GLOBE] {
            let layout = json!({"rows": 60, "seats": 60});
            items.push(("venue.put", json!({"id": venue, "name": venue, "city": "Vienna"})));
            items.push(("hall.put", json!({"venue": venue, "id": "main", "name": "Main", "layout": layout})));
            items.push(("session.create", session(&format!("{venue}-show"), venue, 0)));
            items.push(("session.create", session(&format!("{venue}-off"), venue, 1)));
        }
        for (number, (op, body)) in items.into_iter().enumerate() {
            port.ask(op, &format!("scene-{number}"), body).await.ok();
        }
        let (royal, globe) = (venue(port, ROYAL, rng).await, venue(port, GLOBE, rng).await);
        let (token, guests_order) = held(port, ROYAL, rng, json!({})).await;
        port.ask("cart.checkout", "c", json!({"token": token, "payment": recorded()})).await.ok();
        eventually("Ada's orders are among her purchases", async || {
            let purchases = port.read("customer.purchases", json!({"customer": ADA})).await.ok();
            (purchases["purchases"].as_array()?.len() == 2).then_some(())
        })
        .await;
        Scene { royal, globe, guests_order }
    }
}

async fn venue(port: &Port, venue: &str, rng: &mut Rng) -> Venue {
    let (open, open_cart) = held(port, venue, rng, json!({})).await;
    let (to_pay, _) = held(port, venue, rng, json!({})).await;
    let order = buy_for_ada(port, venue, rng).await;
    Venue { open, open_cart, to_pay, order }
}

/// Ada buys a place. Returns the order.
pub(super) async fn buy_for_ada(port: &Port, venue: &str, rng: &mut Rng) -> String {
    let (token, order) = held(port, venue, rng, json!({"customer": ADA})).await;
    let shipping = json!({"recipient": MARKER, "address": "12 St James's Square", "method": "post"});
    let body = json!({"token": token, "payment": recorded(), "shipping": shipping});
    port.ask("cart.checkout", "c", body).await.ok();
    order
}

/// Holds a place of a venue in a new cart. Returns the token and the cart.
async fn held(port: &Port, venue: &str, rng: &mut Rng, more: Value) -> (String, String) {
    let token = rng.token();
    let mut body = json!({"token": token, "session": format!("{venue}-show"), "area": "yard", "quantity": 1});
    body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    port.ask("cart.hold_places", "h", body).await.ok();
    let cart = CartToken(u128::from_str_radix(&token, 16).expect("hexadecimal digits")).cart().to_string();
    (token, cart)
}

/// The body of a session at a venue, on an evening of its own.
pub(super) fn session(id: &str, venue: &str, number: usize) -> Value {
    let price = json!({"amount": 1_000, "currency": "EUR"});
    let day = format!("20{}-{:02}-{:02}", 30 + number / 336, 1 + number / 28 % 12, 1 + number % 28);
    json!({
        "id": id, "venue": venue, "hall": "main", "title": "hamlet",
        "starts_at": format!("{day}T19:00:00Z"), "ends_at": format!("{day}T22:00:00Z"),
        "prices": {"standard": price},
        "areas": [{"id": "yard", "name": "Yard", "capacity": 100_000, "price": price}],
    })
}

/// The body of the resource.
pub(super) fn room() -> Value {
    let day = json!([[0, 1440]]);
    let week = vec![day; 7];
    json!({
        "id": "room", "name": "Room", "zone": "Europe/London", "capacity": 1_000, "hours": {"week": week},
        "rate": {"amount": 2_000, "currency": "EUR"},
    })
}
