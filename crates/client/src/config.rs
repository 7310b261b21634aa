//! What a client is told when it is made.

use std::time::Duration;

use boxoffice_wire::{Encoding, limits::REQUESTS_UNDER_WAY_MAX};

/// What operators show the server; never written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(pub String);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(secret)")
    }
}

/// Where to connect to, and how to behave.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Nodes, as `host:port`; tried in turn.
    pub addresses: Vec<String>,
    /// How frames are written.
    pub encoding: Encoding,
    /// What this client calls itself, for the server's operators.
    pub name: String,
    /// The admin token, where the server asks operators for one.
    pub admin_token: Option<AdminToken>,
    /// How long a request may take, all its repeats together. 10 seconds.
    pub deadline: Duration,
    /// Whether requests are repeated until their deadline. Without it the first failure is the answer.
    pub retry: bool,
    /// Requests under way at once; more wait in the client. At most what the server allows one connection.
    pub under_way_max: usize,
    /// How long one attempt to connect may take. 5 seconds.
    pub connect_timeout: Duration,
    /// Bytes of the read and of the write buffer of the connection. 4 KiB; more helps a client that sends very much.
    pub buffer_bytes: usize,
}

impl ClientConfig {
    /// The usual behaviour, with these addresses.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> ClientConfig {
        ClientConfig {
            addresses: addresses.into_iter().map(Into::into).collect(),
            encoding: Encoding::MsgPack,
            name: concat!("boxoffice-client ", env!("CARGO_PKG_VERSION")).into(),
            admin_token: None,
            deadline: Duration::from_secs(10),
            retry: true,
            under_way_max: REQUESTS_UNDER_WAY_MAX,
            connect_timeout: Duration::from_secs(5),
            buffer_bytes: 4 * 1024,
        }
    }
}
