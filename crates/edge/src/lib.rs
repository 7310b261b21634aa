//! The client port of a node: WebSocket connections, the same commands by HTTP, health, metrics and the page for people.
//!
//! A connection is one task. It waits for the first event (an answer, a change in a feed, a timer, bytes on the socket),
//! takes in everything that has arrived, and writes everything that is due with one flush. Selling and watching have a
//! runtime each. A connection begins on the selling one and moves to the watching one with its first `watch`.

// In reading order: the node behind the port, the configuration, the counters, the port, HTTP connections, routes, callers
// and their budgets, submitted commands, WebSocket connections, the HTTP API, the page.
pub mod backend;
pub mod config;
#[doc(hidden)]
pub mod decoders;
pub mod metrics;
mod node;
mod rates;

pub mod server;

mod heads;
mod http_connection;
mod isolation;
mod proxy;
mod stream;
mod tls;

mod coding;
mod etag;
mod failures;
mod handshakes;
mod http;
mod inner_read;
mod key_questions;
mod key_ring;
mod planted;
mod read_delay;
mod shared;

mod access;
mod access_end;
mod admission;
mod auth_failures;
pub mod budgets;
mod caller;
mod codes;
mod denials;
mod holders;
mod members;
mod network;
mod origins;
mod roster;
pub mod token;
mod unsent;
mod venues;

mod answer_queue;
mod batch;
mod fan_out;
mod submission;
mod title;

mod connection;

mod packed_layouts;

mod api;

mod page;
mod page_files;

pub use backend::Backend;
pub use config::{
    ADMIN_TOKEN_CHARS_MIN, EdgeConfig, EdgeError, Limits, PageConfig, WEBHOOK_SECRET_BYTES_MIN, WebConfig,
};
pub use proxy::{Network, Proxies, ProxyWay};
pub use server::{Edge, Notice};
pub use tls::{Certificate, TlsError, TlsFiles};
