//! The client port over real sockets, with a node that answers as each test requires.

mod client;
mod common;

mod connections;
mod customers;
mod envelope;
mod fan_out;
mod http;
mod isolation;
mod page;
mod permissions;
mod requests;
mod roles;
mod theatre;
mod watching;
mod web;
