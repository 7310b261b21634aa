//! The counter: the connections of a run, shared by all its flows.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use boxoffice_client::{AdminToken, Client, ClientConfig};

use crate::{LoadError, report::Server, scenario::ConnectSpec};

/// Buffers of a connection, in bytes: a run sends very much over few connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// How long the server's hello may take after the connection stands.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Connections to all addresses in turn.
pub(crate) struct Counter {
    clients: Vec<Client>,
    next: AtomicUsize,
    addresses: Vec<String>,
    admin_token: Option<AdminToken>,
}

impl Counter {
    /// Opens all connections.
    pub(crate) async fn open(
        addresses: &[String],
        connect: &ConnectSpec,
        admin_token: Option<AdminToken>,
    ) -> Result<Counter, LoadError> {
        let mut clients = Vec::new();
        for number in 0..connect.connections as usize {
            // Each connection begins with another address and falls back to the others.
            let mut turned = addresses.to_vec();
            turned.rotate_left(number % addresses.len().max(1));
            let client = Client::connect(config(turned, connect.deadline_ms, admin_token.clone())).await;
            clients.push(client.map_err(|error| LoadError::Connect { addresses: addresses.join(", "), error })?);
        }
        Ok(Counter { clients, next: AtomicUsize::new(0), addresses: addresses.to_vec(), admin_token })
    }

    /// The next connection in turn.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }

    /// All connections.
    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// A connection of its own to each address: what nodes say of themselves must come from themselves.
    pub(crate) async fn each_node(&self) -> Result<Vec<Client>, LoadError> {
        let mut clients = Vec::new();
        for address in &self.addresses {
            let client = Client::connect(config(vec![address.clone()], 60_000, self.admin_token.clone())).await;
            clients.push(client.map_err(|error| LoadError::Connect { addresses: address.clone(), error })?);
        }
        Ok(clients)
    }

    /// Who serves, as the nodes say themselves.
    pub(crate) async fn server(&self) -> Result<Server, LoadError> {
        let mut server = Server { addresses: self.addresses.clone(), ..Server::default() };
        for client in self.each_node().await? {
            let status = client.status().await.map_err(|error| LoadError::Asked { what: "its status", error })?.value;
            server.cluster = status.cluster.to_string();
            server.version = status.version.to_string();
            server.replicas = status.durability.replicas;
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
                if let Some(hello) = nodes.iter().find_map(Client::server) {
                    return hello.time.0;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        said.await.map_err(|_| LoadError::Silent { limit: HELLO_LIMIT })
    }
}

fn config(addresses: Vec<String>, deadline_ms: u64, admin_token: Option<AdminToken>) -> ClientConfig {
    ClientConfig {
        admin_token,
        deadline: Duration::from_millis(deadline_ms),
        name: concat!("boxoffice-load ", env!("CARGO_PKG_VERSION")).into(),
        buffer_bytes: BUFFER_BYTES,
        ..ClientConfig::new(addresses)
    }
}
