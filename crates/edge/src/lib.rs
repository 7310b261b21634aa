//! The client door of a node: one port for WebSocket connections, the same commands by HTTP, health, metrics and the page for people.
//!
//! A connection is one task. It waits for whatever comes first (an answer, something due in a feed, a timer, bytes on the
//! socket), takes in everything that is there, and writes everything that is due with one flush. Selling and watching run
//! on runtimes of their own: a connection begins on the one and moves to the other with its first `watch`.

// In reading order: what is behind the door, how it is set up, what it counts, the port, a connection that speaks HTTP
// (its heads, proxies, its stream, certificates), the pages, who asks and
// what they are told, what is waited for, gone about and looked at before, a connection, the same by HTTP, the page.
pub mod backend;
pub mod config;
#[doc(hidden)]
pub mod decoders;
pub mod metrics;
mod node;
mod rates;

pub mod server;

mod heads;
mod proxy;
mod serving;
mod stream;
mod tls;

mod etag;
mod failures;
mod http;
mod key_ring;
mod shared;

mod access;
pub mod budgets;
mod caller;
mod denials;
mod guesses;
mod members;
mod network;
mod origins;
pub mod token;
mod veil;
mod venues;

mod answers;
mod batch;
mod waiting;

mod errand;
mod title;

mod connection;

mod api;

mod page;

pub use backend::Backend;
pub use config::{EdgeConfig, EdgeError, Limits, PageConfig, WEBHOOK_SECRET_BYTES_MIN, WebConfig};
pub use proxy::{Network, Proxies, ProxyWay};
pub use server::{Edge, Notice, Runtimes};
pub use tls::{Certificate, TlsError, TlsFiles};
