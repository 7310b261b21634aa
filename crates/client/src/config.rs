//! What a client is told when it is made.

use std::time::Duration;

use boxoffice_core::id::Id;
use boxoffice_wire::{Encoding, limits::REQUESTS_UNDER_WAY_MAX};

/// What operators show the server; never written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(pub String);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(secret)")
    }
}

/// The customer a client acts for, with what shows it; the token is never written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownCustomer {
    /// Who.
    pub id: Id,
    /// Its token, as whoever has the server's customer secret makes it ([`boxoffice_wire::customer::token`]).
    pub token: String,
}

impl std::fmt::Debug for ShownCustomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShownCustomer({}, secret)", self.id)
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
    /// The customer it acts for, where the server asks customers for tokens.
    pub customer: Option<ShownCustomer>,
    /// How long a request may take, all its repeats together. 10 seconds.
    pub deadline: Duration,
    /// Whether requests are repeated until their deadline. Without it the first failure is the answer.
    pub retry: bool,
    /// Whether requests wait while there is no connection. Without it they are handed back at once, for a client with
    /// connections to several nodes ([`crate::Client::with_others`]) to send elsewhere.
    pub wait_for_connection: bool,
    /// Whether requests go to the node that leads what they are about, over a connection to each such node, 64 at most. It saves
    /// the way through a node that only sends them on. The addresses come from the node that this client is connected to
    /// (`shards`). The admin token is shown to every address told; the customer and requests only to a node whose hello says that
    /// it is that leader, of the same cluster. Loopback and link-local addresses are not connected to, unless this client's node
    /// is at one. Leave it off for a client that reaches its node through a tunnel or a proxy: the addresses mean other machines
    /// where it is. What cannot be reached there goes through the connection that there is, and so do watches. A leader from which
    /// nothing comes for a third of a request's time is passed over. Off.
    pub to_leaders: bool,
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
            customer: None,
            deadline: Duration::from_secs(10),
            retry: true,
            wait_for_connection: true,
            to_leaders: false,
            under_way_max: REQUESTS_UNDER_WAY_MAX,
            connect_timeout: Duration::from_secs(5),
            buffer_bytes: 4 * 1024,
        }
    }

    /// The same, acting for this customer, whose token this is.
    pub fn customer(self, id: Id, token: impl Into<String>) -> ClientConfig {
        ClientConfig { customer: Some(ShownCustomer { id, token: token.into() }), ..self }
    }
}
