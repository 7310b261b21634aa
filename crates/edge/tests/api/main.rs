//! The HTTP API of a real node: what it answers is what its document says, and what the protocol's document shows.

#[path = "../asking/mod.rs"]
mod asking;

mod house;

mod document;
mod histories;
mod metrics;
mod resources;
mod schemas;
mod webhook;
