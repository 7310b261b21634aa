//! Connections and the HTTP API over real sockets: before a real node, and before one that answers as each test wants.

mod asking;

mod api;
mod door;
