//! The client library against servers that answer as each test wants, and against a real node.

mod common;

mod counts;
mod nodes;
mod real_node;
mod requests;
mod watches;
