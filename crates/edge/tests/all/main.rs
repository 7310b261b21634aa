//! Connections and the HTTP API over real sockets, with a real node and with one that answers as each test requires.

mod http_client;

mod api;
mod server;
