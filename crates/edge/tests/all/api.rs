//! The HTTP API of a real node: what it answers is what its document says, and what the protocol's document shows.

mod house;

mod document;
mod histories;
mod metrics;
mod resources;
mod schemas;
mod webhook;
