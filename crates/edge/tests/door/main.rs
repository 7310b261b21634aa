//! The door over real sockets, with a node behind it that answers as each test wants.

mod common;

mod envelope;
mod guests;
mod requests;
mod watching;
