//! The connections of a run, which all its flows share.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_client::{AdminToken, Client, ClientConfig, ClusterStatus, RetryCounts, TlsAuthorities};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{LoadError, report::Server, scenario::ConnectSpec};

/// Buffer of a connection, in bytes. A run sends a lot over few connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// The deadline of a node's answer about itself, in milliseconds.
const NODE_DEADLINE_MS: u64 = 60_000;

/// How long the server's hello may take after the connection is open.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Connections to each node, used in turn.
pub(crate) struct ConnectionPool {
    clients: Vec<Client>,
    next: AtomicUsize,
    addresses: Mutex<Vec<String>>,
    credentials: Credentials,
}

/// How a run shows the nodes who it is, and learns that they are the right ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) admin_token: Option<AdminToken>,
    pub(crate) tls: Option<TlsAuthorities>,
}

impl ConnectionPool {
    /// Opens all connections, at least one to each node. A connection goes to one node. If that node does not serve a
    /// request, the client repeats it at the next node.
    pub(crate) async fn open(
        addresses: &[String],
        connect: &ConnectSpec,
        credentials: Credentials,
    ) -> Result<ConnectionPool, LoadError> {
        let nodes = addresses.len().max(1);
        let mut clients = Vec::new();
        for address in addresses.iter().cycle().take((connect.connections as usize).max(nodes)) {
            let config = ClientConfig {
                wait_for_connection: nodes == 1,
                to_leaders: connect.to_leaders && nodes > 1,
                ..config(address, connect.deadline_ms, credentials.clone())
            };
            let client = Client::connect(config).await;
            clients.push(client.map_err(|error| LoadError::Connect { addresses: address.clone(), error })?);
        }
        let apart: Vec<Client> = clients.clone();
        for (number, client) in clients.iter_mut().enumerate() {
            // The connections of the same round to the other nodes. The last round may be incomplete.
            let round = number - number % nodes;
            let other = |step: usize| {
                let place = (number + step) % nodes;
                apart.get(round + place).unwrap_or(&apart[place])
            };
            *client = client.with_fallbacks((1..nodes).map(other));
        }
        let addresses = Mutex::new(addresses.to_vec());
        Ok(ConnectionPool { clients, next: AtomicUsize::new(0), addresses, credentials })
    }

    /// The next connection in turn.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }

    /// Makes a request for each key, `under_way` at a time on each connection. Returns the answers, in any order, or the
    /// first error.
    pub(crate) async fn for_each<K, T, E, Answers: Default + Extend<T>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        under_way: usize,
        ask: impl AsyncFn(&Client, K) -> Result<T, E>,
    ) -> Result<Answers, E> {
        let asked = self.clients.iter().cycle().zip(keys).map(|(client, key)| ask(client, key));
        stream::iter(asked).buffer_unordered(under_way * self.clients.len()).try_collect().await
    }

    /// The addresses of the nodes.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.addresses.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Adds a node that joined. The audit asks it like all others.
    pub(crate) fn add_address(&self, address: String) {
        self.addresses.lock().expect("no thread panics while it holds the lock").push(address);
    }

    /// How often the clients repeated requests so far, by reason.
    pub(crate) fn repeats(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for counts in self.clients.iter().map(Client::retry_counts) {
            let RetryCounts { lost, no_connection, unknown, not_ready, draining, busy, in_progress, refused } = counts;
            for (why, count) in [
                ("connection lost", lost),
                ("no connection", no_connection),
                ("unknown", unknown),
                ("not ready", not_ready),
                ("draining", draining),
                ("busy", busy),
                ("in progress", in_progress),
                ("refused in doubt", refused),
            ] {
                *all.entry(why.into()).or_default() += count;
            }
        }
        all.retain(|_, count| *count > 0);
        all
    }

    /// A separate connection to one node, so that the node's answers about itself come from that node.
    pub(crate) async fn connect_node(&self, address: &str) -> Result<Client, LoadError> {
        let client = Client::connect(config(address, NODE_DEADLINE_MS, self.credentials.clone())).await;
        client.map_err(|error| LoadError::Connect { addresses: address.to_owned(), error })
    }

    /// A separate connection to each node.
    pub(crate) async fn connect_each_node(&self) -> Result<Vec<Client>, LoadError> {
        let mut clients = Vec::new();
        for address in &self.addresses() {
            clients.push(self.connect_node(address).await?);
        }
        Ok(clients)
    }

    /// A pool with connections to one node only. No other node answers in its place.
    pub(crate) async fn only_to(&self, address: &str) -> Result<ConnectionPool, LoadError> {
        let clients = vec![self.connect_node(address).await?, self.connect_node(address).await?];
        let addresses = Mutex::new(vec![address.to_owned()]);
        Ok(ConnectionPool { clients, next: AtomicUsize::new(0), addresses, credentials: self.credentials.clone() })
    }

    /// What the cluster reports about its members and shards.
    pub(crate) async fn cluster_status(&self) -> Result<ClusterStatus, LoadError> {
        let asked = self.client().with_deadline(Duration::from_millis(NODE_DEADLINE_MS)).nodes().await;
        Ok(asked.map_err(|error| LoadError::Query { what: "the cluster's status", error })?.value)
    }

    /// What the nodes report about themselves.
    pub(crate) async fn server_info(&self) -> Result<Server, LoadError> {
        let mut server = Server { addresses: self.addresses(), ..Server::default() };
        for client in self.connect_each_node().await? {
            let status = client.status().await.map_err(|error| LoadError::Query { what: "its status", error })?.value;
            server.cluster = status.cluster.to_string();
            server.version = status.version.to_string();
            // The node with the fewest copies decides what the cluster promises.
            server.replicas = match server.nodes.is_empty() {
                true => status.durability.replicas,
                false => server.replicas.min(status.durability.replicas),
            };
            server.fsync = status.durability.fsync.to_string();
            server.nodes.push(status.node.to_string());
        }
        server.nodes.sort_unstable();
        server.nodes.dedup();
        Ok(server)
    }

    /// The server's clock, in milliseconds since 1970, from a fresh connection.
    pub(crate) async fn server_time_ms(&self) -> Result<u64, LoadError> {
        let nodes = self.connect_each_node().await?;
        let hello_time = tokio::time::timeout(HELLO_LIMIT, async {
            loop {
                if let Some(hello) = nodes.iter().find_map(Client::server_hello) {
                    return hello.time.0;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        hello_time.await.map_err(|_| LoadError::NoHello { limit: HELLO_LIMIT })
    }
}

fn config(address: &str, deadline_ms: u64, credentials: Credentials) -> ClientConfig {
    ClientConfig {
        admin_token: credentials.admin_token,
        tls: credentials.tls,
        deadline: Duration::from_millis(deadline_ms),
        name: concat!("boxoffice-load ", env!("CARGO_PKG_VERSION")).into(),
        buffer_bytes: BUFFER_BYTES,
        ..ClientConfig::new([address])
    }
}
