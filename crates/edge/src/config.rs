//! The configuration of the client port, and why it does not open.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use boxoffice_core::{access::Role, id::Id};
use boxoffice_env::secret::Secret;
use boxoffice_wire::{customer::SECRET_BYTES_MIN, limits};

use crate::{budgets::BudgetConfig, proxy::Proxies, tls::Certificate, token::TokenKeys};

/// Addresses, access, limits and budgets.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// The clients' port. Port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// The operators' port. Without it there are no metrics. Port 0 lets the system choose one.
    pub operators: Option<SocketAddr>,
    /// A token that gives operators all rights, of at least [`ADMIN_TOKEN_CHARS_MIN`] characters. Without it, and without a key with the role admin, the operators' port
    /// needs no credentials, so it must be a loopback address.
    pub admin_token: Option<String>,
    /// The role of callers without credentials, if they have one.
    pub anonymous: Option<Role>,
    /// Whether every caller may record a payment made elsewhere, and not only the role desk.
    pub recorded_by_anyone: bool,
    /// The secret behind customers' tokens, at least 16 bytes.
    pub customer_secret: Option<Secret>,
    /// The secret behind the ids of codes, at least 16 bytes, and the same on all nodes of a cluster for as long as there are codes.
    /// Without one no codes are taken.
    pub code_secret: Option<Secret>,
    /// Secrets that sign webhooks, each of at least [`WEBHOOK_SECRET_BYTES_MIN`] bytes. Several during a rotation. Without
    /// any, no webhook is taken.
    pub webhook_secrets: Vec<Secret>,
    /// The secret behind the hashes of holders, the same on all nodes of a cluster. Without one it is drawn at the start, and
    /// what networks have used is forgotten.
    pub holder_secret: Option<Secret>,
    /// The keys of short-lived tokens. Without these and without a customer secret, every caller may name any customer.
    pub token_keys: TokenKeys,
    /// Pages that may connect besides the node's own, as `scheme://host[:port]`. A request without an `Origin` does not come
    /// from a page.
    pub origins: Vec<String>,
    pub limits: Limits,
    /// Budgets of strangers.
    pub budgets: BudgetConfig,
    pub page: PageConfig,
    pub web: WebConfig,
}

/// The shortest admin token, in characters. A shorter one could be guessed.
pub const ADMIN_TOKEN_CHARS_MIN: usize = 32;

/// The shortest secret of webhooks, in bytes. A shorter one could be guessed.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

/// TLS, proxies and public addresses.
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// The certificate of the clients' port. Without one it does not speak TLS.
    pub certificate: Option<Arc<Certificate>>,
    /// How long browsers must use TLS only (`Strict-Transport-Security`), in seconds. 0 sends no such header. It is sent
    /// only if the port speaks TLS or the public address begins with `https`.
    pub hsts_s: u64,
    /// Proxies in front of the node.
    pub proxies: Proxies,
    /// The cluster's address for browsers, like `https://tickets.example`.
    pub public_url: Option<String>,
    /// The same for this node alone.
    pub advertise: Option<String>,
}

impl WebConfig {
    /// Whether browsers use TLS, to this node or to a proxy in front of it.
    pub(crate) fn is_secure(&self) -> bool {
        self.certificate.is_some() || self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }
}

/// Settings of the page.
#[derive(Clone, Debug, Default)]
pub struct PageConfig {
    /// Products that the page offers.
    pub products: Vec<Id>,
    /// Resources whose calendars the page shows.
    pub resources: Vec<Id>,
    /// Whether payments go through a gateway.
    pub gateway: bool,
    /// The address of the program that starts and kills the nodes of a demonstration.
    pub demo: Option<String>,
    /// The script for card payments: the path of one of the page's own files, or an address of the payment provider.
    pub payment: Option<String>,
}

impl Default for EdgeConfig {
    fn default() -> EdgeConfig {
        EdgeConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7180)),
            operators: None,
            admin_token: None,
            anonymous: Some(Role::Watch),
            recorded_by_anyone: false,
            customer_secret: None,
            code_secret: None,
            webhook_secrets: Vec::new(),
            holder_secret: None,
            token_keys: TokenKeys::default(),
            origins: Vec::new(),
            limits: Limits::default(),
            budgets: BudgetConfig::default(),
            page: PageConfig::default(),
            web: WebConfig::default(),
        }
    }
}

/// Limits of the node and of each connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time. More are answered 503. Each takes a file descriptor.
    pub connections_max: usize,
    /// Connections that are being answered 503 at the same time. More are closed without an answer.
    pub turned_away_max: usize,
    /// A connection with this file descriptor or a higher one is closed, and none is accepted for a moment. The rest of
    /// the descriptors is for the node's own files and links.
    pub descriptors_end: u64,
    /// Connections of the operators' port at the same time.
    pub operator_connections_max: usize,
    /// Further connections of the operators' port, which may only ask for `/healthz`, `/readyz` or `/metrics`, once.
    pub probe_places: usize,
    /// How long a connection without a role may be open at the operators' port while it has no request under way.
    pub no_role_timeout: Duration,
    /// [`Limits::descriptors_end`] of the operators' port.
    pub operator_descriptors_end: u64,
    /// Requests under way on one connection. More are answered `busy`.
    pub requests_under_way_max: usize,
    /// Feeds of one connection.
    pub feeds_max: usize,
    /// Memory of all incomplete WebSocket messages, in bytes. A connection that needs more is closed.
    pub frame_bytes_max: u64,
    /// Memory of all answers that clients have not read, in bytes. If there is more, the connections with most of it are cut. 0
    /// is without a limit.
    pub unsent_bytes_max: u64,
    /// Processor time for TLS handshakes, in percent of a core. Beyond it they wait for each other. 0 is without a limit.
    pub handshake_percent: u32,
    /// HTTP requests under way on all connections together. More are answered `busy`.
    pub http_requests_max: usize,
    /// A node that has not heard the directory's leader for longer refuses the ops of desks and operators to keys.
    pub directory_silence_max: Duration,
    /// How much later each further key or token of a network is answered that may be wrong.
    pub auth_failure_step: Duration,
    /// How long the head of an HTTP request may take to arrive.
    pub header_timeout: Duration,
    /// How long a connection may take to send its first frame.
    pub first_frame_timeout: Duration,
    /// How long a frame may take to arrive whole.
    pub whole_frame_timeout: Duration,
    /// How often the server pings.
    pub ping_every: Duration,
    /// How long the server waits for a pong, and longer for a client that reads slowly: a second for each 5 kB before the ping.
    pub pong_timeout: Duration,
    /// How long a client may read nothing while data is sent to it, over HTTP or WebSocket.
    pub stall_timeout: Duration,
    /// How long the last frames and the closing handshake may take.
    pub close_timeout: Duration,
    /// How long connections may take to end while the node drains.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            turned_away_max: 64,
            descriptors_end: u64::MAX,
            operator_connections_max: 64,
            probe_places: 2,
            no_role_timeout: Duration::from_secs(2),
            operator_descriptors_end: u64::MAX,
            requests_under_way_max: limits::REQUESTS_UNDER_WAY_MAX,
            feeds_max: limits::FEEDS_MAX,
            frame_bytes_max: 256 << 20,
            unsent_bytes_max: 64 << 20,
            handshake_percent: 50,
            http_requests_max: 4_096,
            directory_silence_max: Duration::from_secs(5),
            auth_failure_step: Duration::from_millis(500),
            header_timeout: Duration::from_secs(10),
            first_frame_timeout: Duration::from_millis(limits::FIRST_FRAME_MS),
            whole_frame_timeout: Duration::from_millis(limits::WHOLE_FRAME_MS),
            ping_every: Duration::from_millis(limits::PING_MS),
            pong_timeout: Duration::from_millis(limits::PONG_MS),
            // The kernel of a client that reads 5 kB a second may take nothing for 13 s, until half of its buffer of 128 KiB is free.
            stall_timeout: Duration::from_secs(20),
            close_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Why the client port does not open.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// Another program uses the address.
    #[error("{address} is in use by another program: stop it, or listen on another port")]
    Occupied { address: SocketAddr },
    /// The system does not allow it.
    #[error("not allowed to listen on {address}: ports below 1024 are for root; choose a higher one")]
    NotAllowed { address: SocketAddr },
    /// The address does not belong to this machine.
    #[error("{address} is no address of this machine: listen on one that is, or on 127.0.0.1")]
    NotHere { address: SocketAddr },
    /// Anyone could administer.
    #[error(
        "operators' port {address} can be reached from other machines and no admin token is set, so anyone could \
         administer: set `listen.admin_token`, or let `ops.listen` be on 127.0.0.1"
    )]
    Unguarded { address: SocketAddr },
    /// The admin token could be guessed.
    #[error(
        "the admin token is too short: set one of at least {ADMIN_TOKEN_CHARS_MIN} characters (`boxoffice admin token` \
         makes one), or none and listen on 127.0.0.1"
    )]
    ShortAdminToken,
    /// The customer secret could be guessed.
    #[error("the customer secret is too short: set one of at least {SECRET_BYTES_MIN} characters, or none")]
    ShortCustomerSecret,
    /// The secret of codes could be guessed.
    #[error("the secret of codes is too short: set one of at least {SECRET_BYTES_MIN} characters, or none")]
    ShortCodeSecret,
    /// Another error.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

impl EdgeError {
    /// The error of an attempt to listen on `address`.
    pub(crate) fn listening(address: SocketAddr, source: io::Error) -> EdgeError {
        match source.kind() {
            io::ErrorKind::AddrInUse => EdgeError::Occupied { address },
            io::ErrorKind::PermissionDenied => EdgeError::NotAllowed { address },
            io::ErrorKind::AddrNotAvailable => EdgeError::NotHere { address },
            _ => EdgeError::Listen { address, source },
        }
    }
}
