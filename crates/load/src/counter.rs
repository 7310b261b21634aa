//! The counter: the connections of a run, shared by all its flows.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use boxoffice_client::{AdminToken, Client, ClientConfig, ClusterStatus, RetryCounts};

use crate::{LoadError, report::Server, scenario::ConnectSpec};

/// Buffers of a connection, in bytes: a run sends very much over few connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// How long a node may take to say something of itself, in milliseconds.
const NODE_DEADLINE_MS: u64 = 60_000;

/// How long the server's hello may take after the connection stands.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Connections to each of the nodes, in turn.
pub(crate) struct Counter {
    clients: Vec<Client>,
    next: AtomicUsize,
    addresses: Mutex<Vec<String>>,
    admin_token: Option<AdminToken>,
}

impl Counter {
    /// Opens all connections: each to one node, at least one to each. What a node does not do is repeated at the next one.
    pub(crate) async fn open(
        addresses: &[String],
        connect: &ConnectSpec,
        admin_token: Option<AdminToken>,
    ) -> Result<Counter, LoadError> {
        let nodes = addresses.len().max(1);
        let mut clients = Vec::new();
        for address in addresses.iter().cycle().take((connect.connections as usize).max(nodes)) {
            let config = ClientConfig {
                wait_for_connection: nodes == 1,
                to_leaders: connect.to_leaders && nodes > 1,
                ..config(address, connect.deadline_ms, admin_token.clone())
            };
            let client = Client::connect(config).await;
            clients.push(client.map_err(|error| LoadError::Connect { addresses: address.clone(), error })?);
        }
        let apart: Vec<Client> = clients.clone();
        for (number, client) in clients.iter_mut().enumerate() {
            // Those of the same round that go to the other nodes; the last round may not have them all.
            let round = number - number % nodes;
            let other = |step: usize| {
                let place = (number + step) % nodes;
                apart.get(round + place).unwrap_or(&apart[place])
            };
            *client = client.with_fallbacks((1..nodes).map(other));
        }
        let addresses = Mutex::new(addresses.to_vec());
        Ok(Counter { clients, next: AtomicUsize::new(0), addresses, admin_token })
    }

    /// The next connection in turn.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }

    /// All connections.
    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Where the nodes are.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.addresses.lock().expect("nobody panics with the addresses").clone()
    }

    /// There is one more node, which is asked in the end as all others are.
    pub(crate) fn add(&self, address: String) {
        self.addresses.lock().expect("nobody panics with the addresses").push(address);
    }

    /// How often requests of all connections were repeated so far, by why.
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

    /// A connection of its own to one node: what it says of itself must come from itself.
    pub(crate) async fn node(&self, address: &str) -> Result<Client, LoadError> {
        let client = Client::connect(config(address, NODE_DEADLINE_MS, self.admin_token.clone())).await;
        client.map_err(|error| LoadError::Connect { addresses: address.to_owned(), error })
    }

    /// The same to each node.
    pub(crate) async fn each_node(&self) -> Result<Vec<Client>, LoadError> {
        let mut clients = Vec::new();
        for address in &self.addresses() {
            clients.push(self.node(address).await?);
        }
        Ok(clients)
    }

    /// As this one, with connections to one node only, which nobody steps in for.
    pub(crate) async fn at(&self, address: &str) -> Result<Counter, LoadError> {
        let clients = vec![self.node(address).await?, self.node(address).await?];
        let addresses = Mutex::new(vec![address.to_owned()]);
        Ok(Counter { clients, next: AtomicUsize::new(0), addresses, admin_token: self.admin_token.clone() })
    }

    /// What the cluster says of its members and shards.
    pub(crate) async fn cluster(&self) -> Result<ClusterStatus, LoadError> {
        let asked = self.client().with_deadline(Duration::from_millis(NODE_DEADLINE_MS)).nodes().await;
        Ok(asked.map_err(|error| LoadError::Asked { what: "its cluster", error })?.value)
    }

    /// Who serves, as the nodes say themselves.
    pub(crate) async fn server(&self) -> Result<Server, LoadError> {
        let mut server = Server { addresses: self.addresses(), ..Server::default() };
        for client in self.each_node().await? {
            let status = client.status().await.map_err(|error| LoadError::Asked { what: "its status", error })?.value;
            server.cluster = status.cluster.to_string();
            server.version = status.version.to_string();
            // What is promised of everything is what the node with the fewest copies promises.
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

    /// The server's clock, read afresh, in milliseconds since 1970.
    pub(crate) async fn server_time_ms(&self) -> Result<u64, LoadError> {
        let nodes = self.each_node().await?;
        let said = tokio::time::timeout(HELLO_LIMIT, async {
            loop {
                if let Some(hello) = nodes.iter().find_map(Client::server_hello) {
                    return hello.time.0;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        said.await.map_err(|_| LoadError::Silent { limit: HELLO_LIMIT })
    }
}

fn config(address: &str, deadline_ms: u64, admin_token: Option<AdminToken>) -> ClientConfig {
    ClientConfig {
        admin_token,
        deadline: Duration::from_millis(deadline_ms),
        name: concat!("boxoffice-load ", env!("CARGO_PKG_VERSION")).into(),
        buffer_bytes: BUFFER_BYTES,
        ..ClientConfig::new([address])
    }
}
