//! The client port over real sockets, with a node that answers as each test requires.

mod access_ends;
pub(crate) mod client;
mod common;
mod slow_client;

mod closes;
mod connections;
mod counted;
mod customers;
mod envelope;
mod fan_out;
mod full_port;
mod guesses;
mod http;
mod isolation;
mod new_keys;
mod page;
mod permissions;
mod requests;
mod roles;
mod slow_watchers;
mod theatre;
mod unread;
mod watching;
mod web;
