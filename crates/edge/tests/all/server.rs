//! The client port over real sockets, with a node that answers as each test wants.

mod client;
mod common;

mod customers;
mod envelope;
mod fan_out;
mod connections;
mod http;
mod page;
mod requests;
mod roles;
mod theatre;
mod watching;
mod web;
mod permissions;
