//! The HTTP API of a real node. Its answers match the OpenAPI document and the examples in the protocol.

mod test_node;

mod absent;
mod document;
mod histories;
mod metrics;
mod resources;
mod schemas;
mod webhook;
