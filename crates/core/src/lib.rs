//! The rules of Boxoffice. They say what a command does to a venue, a session, a product, a resource, a customer or a cart.
//!
//! There is no clock, socket, thread or randomness. Time is a parameter, and the same inputs in the same order give the same
//! state on every machine. `decide` reads and answers. `apply` writes and cannot fail. [`host::Host`] joins the two. It takes
//! inputs one after the other and returns a [`host::Turn`]. A turn has the events to store, and the effects to carry out now,
//! after the commit, or after a safe read.
//!
//! A product with two units. Two carts ask for both:
//!
//! ```
//! use std::sync::Arc;
//!
//! use boxoffice_core::{
//!     ask::{Ask, Reply},
//!     command::{Command, HoldPolicy, Limits, ProductCommand, ProductDetails, Want},
//!     host::{Effect, Host, Input, Turn},
//!     id::{CartId, Entity, HoldId, Id, Request, RequestHash},
//!     money::{Currency, Money},
//!     refusal::Refusal,
//!     rules::Rules,
//!     time::{Moment, Timestamp},
//! };
//!
//! let mug = Id::new("mug").unwrap();
//! let mut host = Host::new(Entity::Product(mug.clone()), None, Arc::new(Rules::default()));
//! let now = Moment::from(Timestamp(1_000));
//! let mut turn = Turn::default();
//!
//! let details = ProductDetails {
//!     name: "Mug".into(),
//!     properties: Vec::new(),
//!     blob: Vec::new(),
//!     price: Money { amount: 12_00, currency: Currency::new("EUR").unwrap() },
//!     stock: 2,
//!     hold: HoldPolicy::default(),
//!     hold_ttl_ms: None,
//!     limits: Limits::default(),
//!     tax: None,
//! };
//! let command = Command::Product(mug, ProductCommand::Put(Box::new(details)));
//! let request = Some(Request { id: RequestHash::of("put-1"), body: 0 });
//! host.handle(now, Input::Command { from: "operator", request, command, timeout_ms: 10_000 }, &mut turn);
//! assert_eq!(turn.events.len(), 1);
//!
//! let ask = |cart: u128| {
//!     let hold = HoldId { cart: CartId(cart), request: RequestHash::of("hold-1"), part: 0, attempt: 0 };
//!     let want = Want::Units { quantity: 2, now: false };
//!     Input::Ask { from: Entity::Cart(CartId(cart)), ask: Ask::Hold { hold, revision: 1, want, life_ms: 600_000, holder: None, desk: false, code: None, attributes: Vec::new(), customer: None } }
//! };
//! turn.clear();
//! host.handle(now, ask(7), &mut turn);
//! assert!(matches!(&turn.committed[..], [Effect::Reply { reply: Reply::Granted(_), .. }]));
//!
//! turn.clear();
//! // Nothing is committed yet, so the refusal waits for a safe read.
//! host.handle(now, ask(8), &mut turn);
//! let [Effect::Reply { reply: Reply::Refused { refusal, .. }, .. }] = &turn.read[..] else { panic!("{turn:?}") };
//! assert!(matches!(refusal, Refusal::OutOfStock { .. }));
//! ```
#![no_std]

extern crate alloc;

// In reading order: words, messages, tools, entities, hosts, states.
pub mod access;
pub mod cluster;
pub mod holder;
pub mod id;
pub mod layout;
pub mod money;
pub mod names;
pub mod payment;
pub mod portion;
pub mod runs;
pub mod seat;
pub mod text;
pub mod time;

pub mod answer;
pub mod ask;
pub mod command;
pub mod event;
pub mod fairness;
pub mod refusal;

pub mod shared_map;
pub mod stored;

mod best;
mod changes;
mod holds;
#[cfg(test)]
mod holds_model;
mod inventory;
mod memory;
mod push_exact;
#[cfg(test)]
mod random_tests;
mod seat_bits;
mod taken;
mod terms;
mod true_time;

pub mod calendar;

pub mod cart;
pub mod cluster_table;
pub mod code;
pub mod cursor;
pub mod customer;
pub mod directory;
pub mod product;
pub mod resource;
pub mod rules;
pub mod session;
pub mod venue;
pub mod version;

pub mod host;
pub mod state_map;

#[doc(hidden)]
pub mod planted;
