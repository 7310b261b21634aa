//! The client library against servers that the tests control, and against a real node.

mod common;

mod counts;
mod nodes;
mod ops;
mod real_node;
mod requests;
mod watches;
