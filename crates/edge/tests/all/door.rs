//! The door over real sockets, with a node behind it that answers as each test wants.

mod client;
mod common;

mod customers;
mod envelope;
mod errands;
mod guests;
mod http;
mod page;
mod requests;
mod roles;
mod theatre;
mod watching;
mod web;
mod who_may;
