//! The rules of Boxoffice, as values and functions: what a command does to a venue, a session, a product, a resource, a
//! customer or a cart.
//!
//! There is no clock, socket, thread or randomness. Time is a parameter, and the same inputs in the same order give the same
//! state on every machine. `decide` reads and answers. `apply` writes and cannot fail. [`host::Host`] joins the two and returns
//! what has to be asked, answered and waited for.
#![no_std]

extern crate alloc;

// In reading order: words, messages, tools, entities, hosts, states.
pub mod access;
pub mod cluster;
pub mod id;
pub mod layout;
pub mod money;
pub mod payment;
pub mod portion;
pub mod seat;
pub mod time;

pub mod answer;
pub mod ask;
pub mod command;
pub mod event;
pub mod refusal;

pub mod packing;
pub mod shared_map;

mod best;
mod changes;
mod holds;
#[cfg(test)]
mod holds_model;
mod inventory;
mod memory;
mod push_exact;
mod seat_bits;
mod taken;
mod terms;
mod true_time;

pub mod calendar;

pub mod cart;
pub mod cluster_table;
pub mod customer;
pub mod directory;
pub mod product;
pub mod resource;
pub mod rules;
pub mod session;
pub mod venue;

pub mod host;
pub mod state_map;

#[doc(hidden)]
pub mod planted;
