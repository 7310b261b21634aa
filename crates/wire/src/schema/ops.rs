//! The ops: what each takes, bodies that work, and what it answers.

use boxoffice_core::{id::CartToken, layout::LAYOUT_SEATS_MAX, seat::HOLD_SEATS_MAX};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Doors, OpSchema,
    build::{
        Field, about, component, count, either, flag, id, list, map, milliseconds, name, needed, object, one_of,
        optional, some, text, time, whole, words,
    },
};
use crate::{
    Op, body, form,
    limits::{
        BATCH_ITEMS_MAX, CART_LINES_MAX, CLIENT_NAME_BYTES_MAX, COMMENTS_BYTES_MAX, NAME_BYTES_MAX, PAGE_ENTRIES_MAX,
        REQUEST_ID_BYTES_MAX,
    },
};

/// The token of the cart that the examples fill and buy.
const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// The token of the cart that the examples open and cancel.
const OTHER_TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f1";

/// What this op takes and answers.
pub(super) fn schema(op: Op) -> OpSchema {
    match op {
        Op::Hello => asks::<body::ClientHello>(
            "Who the client is.",
            [optional("client", text(CLIENT_NAME_BYTES_MAX)), optional("token", words())],
        )
        .example(json!({"client": "box office 3"}))
        .on_sockets_only(),
        Op::VenuePut => asks::<body::VenuePut>(
            "Create or change a venue.",
            [
                needed("id", id()),
                needed("name", name(NAME_BYTES_MAX)),
                optional("city", text(NAME_BYTES_MAX)),
                optional("position", component("Position")),
                optional("comments", text(COMMENTS_BYTES_MAX)),
            ],
        )
        .example(json!({"id": "globe", "name": "The Globe", "city": "London", "position": {"lon": -0.0972, "lat": 51.5081}}))
        .for_operators(),
        Op::VenueGet => asks::<body::Get>("Read a venue.", [needed("id", id())])
            .example(json!({"id": "globe"}))
            .answers(component("Venue")),
        Op::HallPut => asks::<body::HallPut>(
            "Create or change a hall.",
            [
                needed("venue", id()),
                needed("id", id()),
                needed("name", name(NAME_BYTES_MAX)),
                needed("layout", component("WrittenLayout")),
            ],
        )
        .example(json!({"venue": "globe", "id": "main", "name": "Main", "layout": {"rows": 5, "seats": 16}}))
        .example(json!({"venue": "globe", "id": "studio", "name": "Studio", "layout": {"rows": [
            {"label": "A", "section": "stalls", "count": 8, "gaps": [4]},
            {"label": "B", "category": "box", "seats": [{"label": "left", "accessible": true}, null, {"label": "right"}]},
        ]}}))
        .for_operators(),
        Op::HallGet => asks::<body::HallGet>("Read a hall.", [needed("venue", id()), needed("id", id())])
            .example(json!({"venue": "globe", "id": "studio"}))
            .answers(component("Hall")),
        Op::SessionCreate => asks::<body::SessionCreate>(
            "Create a session; it has the hall for its time.",
            [
                needed("id", id()),
                needed("venue", id()),
                needed("hall", id()),
                needed("title", id()),
                needed("starts_at", time()),
                needed("ends_at", time()),
                needed("prices", component("Prices")),
                optional("hold_ttl_ms", milliseconds()),
            ],
        )
        .example(session("hamlet-0412", 12))
        .example(session("hamlet-0413", 13))
        .answers(component("Session"))
        .for_operators(),
        Op::SessionGet => asks::<body::Get>("Read a session.", [needed("id", id())])
            .example(json!({"id": "hamlet-0412"}))
            .answers(component("Session")),
        Op::SessionSearch => asks::<body::SessionSearch>(
            "Sessions of a venue, by start.",
            [
                needed("venue", id()),
                optional("title", id()),
                optional("hall", id()),
                optional("from", time()),
                optional("to", time()),
                optional("limit", whole(1, i64::from(PAGE_ENTRIES_MAX))),
                optional("cursor", about(words(), "Where the page before ended, as its answer said.")),
            ],
        )
        .example(json!({"venue": "globe", "title": "hamlet", "from": "2099-04-01T00:00:00Z", "limit": 1}))
        .example(json!({"venue": "globe"}))
        .answers(component("SessionPage")),
        Op::SessionMap => asks::<body::SessionMap>(
            "The state of every seat of a session.",
            [needed("id", id()), optional("view", one_of(&["2,1,0"]))],
        )
        .example(json!({"id": "hamlet-0412"}))
        .example(json!({"id": "hamlet-0412", "view": "2,1,0"}))
        .answers(either(&[component("Map"), component("ThreeStates")])),
        Op::SessionBlock => session_seats("Keep seats off sale."),
        Op::SessionUnblock => session_seats("Put seats back on sale."),
        Op::CartOpen => in_cart::<body::CartOpen>(
            "Open a cart.",
            [optional("customer", id()), optional("ttl_ms", milliseconds())],
        )
        .example(json!({"token": TOKEN, "customer": "ada", "ttl_ms": 600_000}))
        .example(json!({"token": OTHER_TOKEN}))
        .answers(component("Cart")),
        Op::CartGet => in_cart::<body::CartOnly>("Read a cart.", [])
            .example(json!({"token": TOKEN}))
            .answers(component("Cart")),
        Op::CartHoldSeats => in_cart::<body::HoldSeats>(
            "Hold named seats.",
            [needed("session", id()), needed("seats", hold_seats()), optional("best_effort", flag())],
        )
        .example(json!({"token": TOKEN, "session": "hamlet-0412", "seats": [[1, 5], [1, 6], [1, 7]]}))
        .answers(component("Held")),
        Op::CartHoldBest => in_cart::<body::HoldBest>(
            "Hold the best seats there are.",
            [
                needed("session", id()),
                needed("count", whole(1, HOLD_SEATS_MAX as i64)),
                optional("category", id()),
                optional("section", id()),
                optional("accessible", whole(0, HOLD_SEATS_MAX as i64)),
                optional("split", flag()),
            ],
        )
        .example(json!({"token": TOKEN, "session": "hamlet-0412", "count": 2, "category": "standard", "split": true}))
        .answers(component("Held")),
        Op::CartHoldAll => in_cart::<body::HoldAll>(
            "Hold several lines, all or none.",
            [needed("lines", some(wanted_line(), CART_LINES_MAX))],
        )
        .example(json!({"token": TOKEN, "lines": [
            {"session": "hamlet-0412", "seats": [[3, 5]]}, {"session": "hamlet-0413", "count": 1},
        ]}))
        .answers(component("Held")),
        Op::CartRelease => in_cart::<body::Release>(
            "Give a line, or seats of it, back.",
            [needed("line", whole(0, i64::from(u32::MAX))), optional("seats", hold_seats())],
        )
        .example(json!({"token": TOKEN, "line": 1, "seats": [[1, 6]]}))
        .answers(component("Cart")),
        Op::CartCancel => in_cart::<body::CartOnly>("Give everything back.", [])
            .example(json!({"token": OTHER_TOKEN}))
            .answers(component("Cart")),
        Op::CartCheckout => in_cart::<body::Checkout>(
            "Buy what the cart holds.",
            [needed("payment", component("Payment")), optional("customer", id())],
        )
        .example(json!({"token": TOKEN, "payment": {"recorded": {"method": "card", "transaction_id": "4711"}}}))
        .answers(component("Order")),
        Op::OrderGet => asks::<body::OrderGet>("Read an order.", [needed("order", component("OrderId"))])
            .example(json!({"order": example_order()}))
            .answers(component("Order")),
        Op::Watch => asks::<body::Watch>(
            "Follow a session's map.",
            [
                needed("entity", component("Entity")),
                optional("resume", object::<body::ResumeBody>([needed("epoch", count()), needed("version", count())])),
            ],
        )
        .example(json!({"entity": "session/hamlet-0412", "resume": {"epoch": 1, "version": 391}}))
        .answers(component("Watching"))
        .on_sockets_only(),
        Op::Unwatch => asks::<body::Unwatch>("Follow it no longer.", [needed("feed", count())])
            .example(json!({"feed": 3}))
            .on_sockets_only(),
        Op::Batch => OpSchema {
            request: map([needed("items", some(batch_item(), BATCH_ITEMS_MAX))]),
            ..asks::<body::Empty>("Several commands at once, each answered by itself.", [])
        }
        .example(json!({"items": [
            {"op": "venue.put", "rid": "i-1", "body": {"id": "rose", "name": "The Rose"}},
            {"op": "venue.get", "body": {"id": "rose"}},
        ]}))
        .answers(map([needed("items", list(component("Ended")))]))
        .by_post_only()
        .for_operators(),
        Op::AdminStatus => asks::<body::Empty>("How the node is.", [])
            .example(json!({}))
            .answers(component("NodeStatus"))
            .for_operators(),
        Op::AdminAudit => asks::<body::Audit>(
            "What an entity, or the whole node, holds, counted afresh.",
            [optional("entity", component("Entity"))],
        )
        .example(json!({}))
        .example(json!({"entity": "session/hamlet-0412"}))
        .answers(either(&[component("NodeAudit"), component("SessionAudit"), component("CartAudit")]))
        .for_operators(),
        _ => asks::<body::Empty>("NOT DESCRIBED YET", []).example(json!({})),
    }
    .finished(op)
}

/// An op with these fields, which are those of `T`; it answers with nothing.
fn asks<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    OpSchema {
        summary,
        request: object::<T>(fields),
        examples: Vec::new(),
        answer: component("Done"),
        for_operators: false,
        doors: Doors::PostAndGet,
        examples_need: None,
    }
}

/// An op on a cart: its token, its id if that is to be compared, and these fields.
fn in_cart<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    asks::<T>(
        summary,
        [needed("token", component("Token")), optional("cart", component("CartId"))].into_iter().chain(fields),
    )
}

impl OpSchema {
    fn example(mut self, body: Value) -> OpSchema {
        self.examples.push(body);
        self
    }

    fn answers(self, answer: Value) -> OpSchema {
        OpSchema { answer, ..self }
    }

    fn for_operators(self) -> OpSchema {
        OpSchema { for_operators: true, ..self }
    }

    fn on_sockets_only(self) -> OpSchema {
        OpSchema { doors: Doors::Sockets, examples_need: Some("a connection"), ..self }
    }

    fn by_post_only(self) -> OpSchema {
        OpSchema { doors: Doors::Post, ..self }
    }

    /// What changes something is never asked by `GET`.
    fn finished(self, op: Op) -> OpSchema {
        assert!(!self.examples.is_empty(), "{} has no example", op.name());
        if op.changes() { self.by_post_only() } else { self }
    }
}

fn session(id: &str, day: u32) -> Value {
    json!({
        "id": id, "venue": "globe", "hall": "main", "title": "hamlet",
        "starts_at": format!("2099-04-{day}T19:00:00Z"), "ends_at": format!("2099-04-{day}T22:00:00Z"),
        "prices": {"standard": {"amount": 1000, "currency": "EUR"}},
    })
}

fn session_seats(summary: &'static str) -> OpSchema {
    let seats = some(component("Seat"), LAYOUT_SEATS_MAX);
    asks::<body::SessionSeats>(summary, [needed("id", id()), needed("seats", seats)])
        .example(json!({"id": "hamlet-0412", "seats": [[0, 0], [0, 1]]}))
        .for_operators()
}

fn hold_seats() -> Value {
    some(component("Seat"), HOLD_SEATS_MAX)
}

fn wanted_line() -> Value {
    let line = object::<body::Line>([
        needed("session", id()),
        optional("seats", hold_seats()),
        optional("best_effort", flag()),
        optional("count", whole(1, HOLD_SEATS_MAX as i64)),
        optional("category", id()),
        optional("section", id()),
        optional("accessible", whole(0, HOLD_SEATS_MAX as i64)),
        optional("split", flag()),
    ]);
    about(line, "Either `seats` (as `cart.hold_seats`) or `count` with its wishes (as `cart.hold_best`).")
}

fn batch_item() -> Value {
    map([
        needed("op", words()),
        optional("rid", name(REQUEST_ID_BYTES_MAX)),
        optional("body", json!({"type": "object"})),
    ])
}

/// The order that the examples' cart becomes.
fn example_order() -> String {
    let token = form::cart_token(TOKEN).unwrap_or(CartToken(0));
    token.cart().order().to_string()
}
