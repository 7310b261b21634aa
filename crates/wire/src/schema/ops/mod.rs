//! The ops: what each takes, bodies that work, and what it answers.

// In the order of the ops.
mod catalogue;
mod session;
mod stock;

mod calendar;

mod admin;
mod cart;
mod cluster;
mod keys;
mod order;

use boxoffice_core::{id::CartToken, portion::LINE_QUANTITY_MAX};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Doors, OpSchema,
    build::{Field, about, component, count, either, id, map, needed, object, optional, some, text, whole, words},
};
use crate::{
    Op, body, form,
    limits::{BATCH_ITEMS_MAX, CLIENT_NAME_BYTES_MAX, FEEDS_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX},
};

/// The token of the cart that the examples fill and buy.
const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// The token of the cart that the examples open and cancel.
const OTHER_TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f1";

/// The token of the cart that loses its line to an operator.
const THIRD_TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f2";

/// What this op takes and answers.
pub(super) fn schema(op: Op) -> OpSchema {
    match op {
        Op::Hello => hello(),
        Op::Shards => cluster::shards(),
        Op::VenuePut => catalogue::venue_put(),
        Op::VenueGet => catalogue::venue_get(),
        Op::VenueSearch => catalogue::venue_search(),
        Op::HallPut => catalogue::hall_put(),
        Op::HallGet => catalogue::hall_get(),
        Op::TitlePut => catalogue::title_put(),
        Op::TitleGet => catalogue::title_get(),
        Op::TitleSearch => catalogue::title_search(),
        Op::SessionCreate => session::create(),
        Op::SessionGet => session::get(),
        Op::SessionSearch => session::search(),
        Op::SessionMap => session::map(),
        Op::SessionBlock => session::seats("Keep seats off sale."),
        Op::SessionUnblock => session::seats("Put seats back on sale."),
        Op::SessionCancel => session::cancel(),
        Op::ProductPut => stock::product_put(),
        Op::ProductGet => stock::product_get(),
        Op::ResourcePut => stock::resource_put(),
        Op::ResourceGet => stock::resource_get(),
        Op::ResourceReserve => calendar::reserve(),
        Op::ResourceCancel => calendar::cancel(),
        Op::ResourceMove => calendar::change(),
        Op::ResourceIsAvailable => calendar::is_available(),
        Op::ResourceBookings => calendar::bookings(),
        Op::ResourceFreeSlots => calendar::free_slots(),
        Op::CartOpen => cart::open(),
        Op::CartGet => cart::get(),
        Op::CartHoldSeats => cart::hold_seats(),
        Op::CartHoldBest => cart::hold_best(),
        Op::CartHoldPlaces => cart::hold_places(),
        Op::CartHoldStock => cart::hold_stock(),
        Op::CartHoldSlot => cart::hold_slot(),
        Op::CartHoldAll => cart::hold_all(),
        Op::CartSetQuantity => cart::set_quantity(),
        Op::CartRelease => cart::release(),
        Op::CartCancel => cart::cancel(),
        Op::CartCheckout => order::checkout(),
        Op::OrderGet => order::get(),
        Op::OrderRefund => order::refund(),
        Op::CustomerPurchases => order::purchases(),
        Op::Watch => watch(),
        Op::Unwatch => asks::<body::Unwatch>("Follow it no longer.", [needed("feed", count())])
            .example(json!({"feed": 3}))
            .on_sockets_only(),
        Op::Batch => batch(),
        Op::AdminStatus => admin::status(),
        Op::AdminAudit => admin::audit(),
        Op::AdminHistory => admin::history(),
        Op::AdminRelease => admin::release(),
        Op::AdminSettle => admin::settle(),
        Op::AdminNodes => cluster::nodes(),
        Op::AdminJoin => cluster::join(),
        Op::AdminDrain => cluster::drain(),
        Op::AdminUndrain => cluster::undrain(),
        Op::AdminRemove => cluster::remove(),
        Op::AdminReplace => cluster::replace(),
        Op::AdminKeys => keys::list(),
        Op::AdminKeyCreate => keys::create(),
        Op::AdminKeyRevoke => keys::revoke(),
    }
    .finished(op)
}

/// An op with these fields, which are those of `T`; it answers with nothing.
fn asks<T: DeserializeOwned>(summary: &'static str, fields: impl IntoIterator<Item = Field>) -> OpSchema {
    OpSchema {
        summary,
        request: object::<T>(fields),
        request_name: std::any::type_name::<T>().rsplit("::").next().expect("a path has an end"),
        examples: Vec::new(),
        answer: component("Done"),
        doors: Doors::PostAndGet,
        examples_need: None,
    }
}

impl OpSchema {
    fn example(mut self, body: Value) -> OpSchema {
        self.examples.push(body);
        self
    }

    fn answers(self, answer: Value) -> OpSchema {
        OpSchema { answer, ..self }
    }

    /// Its fields come in one of these sets.
    fn with_one_of(self, sets: &[&[&str]]) -> OpSchema {
        OpSchema { request: super::build::one_set(self.request, sets), ..self }
    }

    fn on_sockets_only(self) -> OpSchema {
        OpSchema { doors: Doors::Sockets, examples_need: Some("a connection"), ..self }
    }

    fn by_post_only(self) -> OpSchema {
        OpSchema { doors: Doors::Post, ..self }
    }

    fn needing(self, what: &'static str) -> OpSchema {
        OpSchema { examples_need: Some(what), ..self }
    }

    /// What changes something is never asked by `GET`.
    fn finished(self, op: Op) -> OpSchema {
        assert!(!self.examples.is_empty(), "{} has no example", op.name());
        if op.changes() { self.by_post_only() } else { self }
    }
}

fn hello() -> OpSchema {
    asks::<body::ClientHello>(
        "Who the client is.",
        [
            optional("client", text(CLIENT_NAME_BYTES_MAX)),
            optional("token", about(words(), "The operators', where one is set.")),
            optional("customer", about(id(), "The customer this connection acts for, where customers have tokens.")),
            optional("customer_token", about(words(), "That customer's token.")),
        ],
    )
    .example(json!({"client": "box office 3"}))
    .on_sockets_only()
}

fn watch() -> OpSchema {
    let resume = object::<body::ResumeBody>([
        optional("epoch", count()),
        optional("version", count()),
        optional("cursor", about(count(), "Of a customer, instead of epoch and version.")),
    ]);
    asks::<body::Watch>(
        "Follow a session, a product, a resource, a cart or a customer; or a list of sessions, in counts only.",
        [
            optional("entity", component("Entity")),
            optional("sessions", some(id(), FEEDS_MAX)),
            optional("token", about(component("Token"), "Of a cart, which is watched by its owner only.")),
            optional("resume", super::build::one_set(resume, &[&["epoch", "version"], &["cursor"]])),
        ],
    )
    .example(json!({"entity": "session/hamlet-tonight", "resume": {"epoch": 1, "version": 391}}))
    .example(json!({"entity": "product/programme"}))
    .example(json!({"entity": format!("cart/{}", cart_of(TOKEN)), "token": TOKEN}))
    .example(json!({"entity": "customer/ada", "resume": {"cursor": 2}}))
    .example(json!({"sessions": ["hamlet-tonight", "hamlet-matinee"]}))
    .with_one_of(&[&["entity"], &["sessions"]])
    .answers(either(&[component("Watching"), component("CountsWatching")]))
    .on_sockets_only()
}

fn batch() -> OpSchema {
    OpSchema {
        request: map([needed("items", some(component("BatchItem"), BATCH_ITEMS_MAX))]),
        request_name: "Batch",
        ..asks::<body::Empty>("Several commands at once, each answered by itself.", [])
    }
    .example(json!({"items": [
        {"op": "venue.put", "rid": "i-1", "body": {"id": "rose", "name": "The Rose"}},
        {"op": "venue.get", "body": {"id": "rose"}},
    ]}))
    .answers(component("BatchAnswer"))
    .by_post_only()
}

/// How many entries a page has.
fn limit() -> Value {
    about(whole(1, i64::from(PAGE_ENTRIES_MAX)), &format!("Entries at most; {PAGE_ENTRIES} if absent."))
}

/// Where a page begins.
fn cursor() -> Value {
    about(words(), "Where the page before ended, as its answer said.")
}

/// Places or units of one line.
pub(super) fn quantity(least: i64) -> Value {
    whole(least, i64::from(LINE_QUANTITY_MAX))
}

/// The op on one thing, by its id.
fn by_id(summary: &'static str) -> OpSchema {
    asks::<body::Get>(summary, [needed("id", id())])
}

/// The cart, and the order, of an example's token.
fn cart_of(token: &str) -> String {
    let token = form::cart_token(token).unwrap_or(CartToken(0));
    token.cart().order().to_string()
}
