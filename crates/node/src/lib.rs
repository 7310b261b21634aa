//! The node: actors and I/O around the pure crates.

pub mod door;
pub mod feeds;
