//! The configuration of a client.

use std::{net::IpAddr, time::Duration};

use boxoffice_core::id::Id;
use boxoffice_wire::{Encoding, limits::REQUESTS_UNDER_WAY_MAX};

use crate::tls::TlsAuthorities;

/// The admin token that authenticates an operator. Its `Debug` output hides it, so it is not written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(pub String);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(secret)")
    }
}

/// The customer that a client acts for, with the token that authenticates it. Its `Debug` output hides the token, so
/// the token is not written to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerCredentials {
    pub id: Id,
    /// The customer's token. It is made from the server's customer secret ([`crate::customer_token`]).
    pub token: String,
}

impl std::fmt::Debug for CustomerCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CustomerCredentials({}, secret)", self.id)
    }
}

/// The addresses of nodes and the client's settings. Start from [`ClientConfig::new`] and change single fields.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Addresses of nodes, as `host:port`. The client tries them in turn.
    pub addresses: Vec<String>,
    /// Connections are encrypted, and nodes show a certificate of one of these authorities. Default: plain connections.
    pub tls: Option<TlsAuthorities>,
    /// The encoding of frames. Default: MessagePack.
    pub encoding: Encoding,
    /// The client's name, which the server's operators see.
    pub name: String,
    /// The admin token, if the server requires one of operators.
    pub admin_token: Option<AdminToken>,
    /// The customer that the client acts for, if the server requires tokens of customers.
    pub customer: Option<CustomerCredentials>,
    /// The client speaks for another one at this address, as a proxy does, and says so (`X-Forwarded-For`). Only nodes that
    /// take this machine for one of their proxies believe it. Default: none.
    pub forwarded_for: Option<IpAddr>,
    /// How long a request and all its retries together may take. Default: 10 seconds.
    pub deadline: Duration,
    /// How long a buyer is still there after a hold was asked for, if that is longer than the deadline. An overloaded node
    /// refuses a hold early if the buyer would be gone before the purchase is over. A shop whose buyers wait at a screen
    /// says minutes. Default: as long as the deadline.
    pub patience: Option<Duration>,
    /// Whether the client retries requests until their deadline. If not, the first failure is the answer. Default: on.
    pub retry: bool,
    /// Whether requests wait while there is no connection. If not, the attempt fails at once. Switch it off for a
    /// client with connections to several nodes ([`crate::Client::with_fallbacks`]), which can send the request to
    /// another one. Default: on.
    pub wait_for_connection: bool,
    /// Whether requests go straight to the node that leads their entity. It saves the hop through a node that only
    /// forwards them. Default: off.
    ///
    /// The client opens a connection to each such node, 64 at most. It learns the addresses from the node that it is
    /// connected to (op `shards`). It does not connect to loopback and link-local addresses, unless its own node is at
    /// such an address. It shows the admin token to every address that it learns. It sends the customer and requests
    /// only to a node whose hello says that it is that leader, of the same cluster.
    ///
    /// Requests that cannot reach their leader go through the client's own node, and so do watches. The client stops
    /// waiting for a leader from which nothing arrives for a third of a request's time.
    ///
    /// Leave it off for a client that reaches its node through a tunnel or a proxy, because there the addresses mean other
    /// machines.
    pub to_leaders: bool,
    /// Requests under way at once. Further requests wait in the client. May not exceed what the server allows one
    /// connection.
    pub under_way_max: usize,
    /// How long one attempt to connect may take. Default: 5 seconds.
    pub connect_timeout: Duration,
    /// Size in bytes of the connection's read buffer and of its write buffer. Default: 4 KiB. A larger buffer helps a
    /// client that sends a lot.
    pub buffer_bytes: usize,
}

impl ClientConfig {
    /// The default configuration with these addresses.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> ClientConfig {
        ClientConfig {
            addresses: addresses.into_iter().map(Into::into).collect(),
            tls: None,
            encoding: Encoding::MsgPack,
            name: concat!("boxoffice-client ", env!("CARGO_PKG_VERSION")).into(),
            admin_token: None,
            customer: None,
            forwarded_for: None,
            deadline: Duration::from_secs(10),
            patience: None,
            retry: true,
            wait_for_connection: true,
            to_leaders: false,
            under_way_max: REQUESTS_UNDER_WAY_MAX,
            connect_timeout: Duration::from_secs(5),
            buffer_bytes: 4 * 1024,
        }
    }

    /// The same configuration for a client that acts for this customer.
    pub fn customer(self, id: Id, token: impl Into<String>) -> ClientConfig {
        ClientConfig { customer: Some(CustomerCredentials { id, token: token.into() }), ..self }
    }
}
