//! How the door is set up, and why it does not open.

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

/// The door's address, who may come in, and how much of everything.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// Where to listen; port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// Where operators connect, besides; without, there are no metrics. Port 0 lets the system choose one.
    pub operators: Option<SocketAddr>,
    /// What an operator may show instead of a key. Without one, and without a key with the role admin, the operators' port asks
    /// for nothing, so it must be a loopback address.
    pub admin_token: Option<String>,
    /// The role of callers who show nothing; none if absent.
    pub anonymous: Option<Role>,
    /// Whether everybody may say that a cart was paid elsewhere, and not only the role desk.
    pub recorded_by_anyone: bool,
    /// What the tokens of customers are made with, at least 16 bytes.
    pub customer_secret: Option<Secret>,
    /// Secrets that webhooks may be signed with, each of at least [`WEBHOOK_SECRET_BYTES_MIN`] bytes; none if there are no
    /// webhooks. Several while one takes the place of another.
    pub webhook_secrets: Vec<Secret>,
    /// The keys of short-lived tokens. Without these and without a customer secret, everybody may name any customer.
    pub token_keys: TokenKeys,
    /// Pages that may connect besides the node's own, as `scheme://host[:port]`. A request without an `Origin` does not come
    /// from a page.
    pub origins: Vec<String>,
    /// How much of everything.
    pub limits: Limits,
    /// How much of everything one stranger may take.
    pub budgets: BudgetConfig,
    /// What the page is told.
    pub page: PageConfig,
    /// How clients of the web reach it.
    pub web: WebConfig,
}

/// The shortest secret of webhooks, in bytes: a shorter one could be guessed.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

/// How clients of the web reach the door.
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    /// The certificate of the clients' port; without one it does not speak TLS.
    pub certificate: Option<Arc<Certificate>>,
    /// How long browsers are told to come back with TLS only, in seconds; 0 = they are not told. It is said only where the
    /// port speaks TLS or the public address begins with `https`.
    pub hsts_s: u64,
    /// Proxies in front of it.
    pub proxies: Proxies,
    /// Scheme, host and perhaps port that browsers use for the cluster, like `https://tickets.example`.
    pub public_url: Option<String>,
    /// The same of this node alone.
    pub advertise: Option<String>,
}

impl WebConfig {
    /// Whether browsers come by TLS, here or to a proxy in front.
    pub(crate) fn is_secure(&self) -> bool {
        self.certificate.is_some() || self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }
}

/// What the page is told that no node knows of itself.
#[derive(Clone, Debug, Default)]
pub struct PageConfig {
    /// Products that it offers.
    pub products: Vec<Id>,
    /// Resources whose calendars it shows.
    pub resources: Vec<Id>,
    /// Whether payments go through a gateway.
    pub gateway: bool,
    /// The address of what starts and kills the nodes of a demonstration.
    pub demo: Option<String>,
    /// The script through which it takes cards: the path of one of its own files, or the address of the payment provider's.
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
            webhook_secrets: Vec::new(),
            token_keys: TokenKeys::default(),
            origins: Vec::new(),
            limits: Limits::default(),
            budgets: BudgetConfig::default(),
            page: PageConfig::default(),
            web: WebConfig::default(),
        }
    }
}

/// How much, and how long, the door allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at the same time; more are told 503. Each takes a file descriptor.
    pub connections_max: usize,
    /// Connections that are being told so at the same time; more are closed without a word.
    pub turned_away_max: usize,
    /// A connection whose file descriptor has this number or a higher one is closed, and none is accepted for a moment: the
    /// rest is for the node's own files and links.
    pub descriptors_end: u64,
    /// The same of the operators' port: connections at the same time.
    pub operator_connections_max: usize,
    /// And the file descriptor from which on it accepts none.
    pub operator_descriptors_end: u64,
    /// Requests under way on one connection; more are told `busy`.
    pub requests_under_way_max: usize,
    /// Feeds of one connection.
    pub feeds_max: usize,
    /// Bytes of memory of all WebSocket messages that have not come whole; a connection that needs more is closed.
    pub frame_bytes_max: u64,
    /// HTTP requests whose body is read or whose answer is waited for, on all connections together; more are told `busy`.
    pub http_requests_max: usize,
    /// A node that has not heard the directory's leader for longer does nothing for keys that only desks and operators may do.
    pub directory_silence_max: Duration,
    /// How much later each further wrong key or token of a network is answered.
    pub guess_step: Duration,
    /// How long the head of an HTTP request may take.
    pub header_timeout: Duration,
    /// How long a connection may take to send its first frame.
    pub first_frame_timeout: Duration,
    /// How long a frame may take to arrive whole.
    pub whole_frame_timeout: Duration,
    /// How often the server pings.
    pub ping_every: Duration,
    /// How long it waits for the pong.
    pub pong_timeout: Duration,
    /// How long a client may read nothing of what is written to it, by HTTP as by WebSocket.
    pub stall_timeout: Duration,
    /// How long the last frames and the close may take.
    pub close_timeout: Duration,
    /// How long connections may take to end when the door closes.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            turned_away_max: 64,
            descriptors_end: u64::MAX,
            operator_connections_max: 64,
            operator_descriptors_end: u64::MAX,
            requests_under_way_max: limits::REQUESTS_UNDER_WAY_MAX,
            feeds_max: limits::FEEDS_MAX,
            frame_bytes_max: 256 << 20,
            http_requests_max: 4_096,
            directory_silence_max: Duration::from_secs(5),
            guess_step: Duration::from_millis(500),
            header_timeout: Duration::from_secs(10),
            first_frame_timeout: Duration::from_millis(limits::FIRST_FRAME_MS),
            whole_frame_timeout: Duration::from_millis(limits::WHOLE_FRAME_MS),
            ping_every: Duration::from_millis(limits::PING_MS),
            pong_timeout: Duration::from_millis(limits::PONG_MS),
            stall_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The address is another one's.
    #[error("{address} is in use by another program: stop it, or listen on another port")]
    Occupied {
        /// Where it was tried.
        address: SocketAddr,
    },
    /// The system does not allow it.
    #[error("not allowed to listen on {address}: ports below 1024 are for root; choose a higher one")]
    NotAllowed {
        /// Where it was tried.
        address: SocketAddr,
    },
    /// The address is not one of this machine.
    #[error("{address} is no address of this machine: listen on one that is, or on 127.0.0.1")]
    NotHere {
        /// Where it was tried.
        address: SocketAddr,
    },
    /// Everybody could administer.
    #[error(
        "operators' port {address} can be reached from other machines and no admin token is set, so anybody could \
         administer: set `listen.admin_token`, or let `ops.listen` be on 127.0.0.1"
    )]
    Unguarded {
        /// Where it was tried.
        address: SocketAddr,
    },
    /// A token that is no secret.
    #[error("the admin token is empty: set one of at least 16 characters, or none and listen on 127.0.0.1")]
    EmptyToken,
    /// A secret that can be found by trying.
    #[error("the customer secret is too short: set one of at least {SECRET_BYTES_MIN} characters, or none")]
    ShortCustomerSecret,
    /// Anything else.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was tried.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

impl EdgeError {
    /// What the system said about `address`.
    pub(crate) fn listening(address: SocketAddr, source: io::Error) -> EdgeError {
        match source.kind() {
            io::ErrorKind::AddrInUse => EdgeError::Occupied { address },
            io::ErrorKind::PermissionDenied => EdgeError::NotAllowed { address },
            io::ErrorKind::AddrNotAvailable => EdgeError::NotHere { address },
            _ => EdgeError::Listen { address, source },
        }
    }
}
