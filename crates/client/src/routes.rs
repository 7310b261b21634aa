//! Sends requests straight to the node that leads the shard of their entity.
//!
//! A node that gets a request for an entity that another node leads forwards it, which costs both nodes a hop. A client
//! with [`ClientConfig::to_leaders`] asks its node for the shard map, connects to the leaders it needs and sends
//! requests to them. An answer that came by a hop names the leader. A wrong entry costs that hop or a part of the
//! deadline and nothing else, since every node takes every request.
//!
//! The map is a hint from one node. A connection to a leader is used once that node's hello has said that it is this
//! node of this cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::cluster::{NodeAddress, ShardMap};
use smol_str::SmolStr;
use tokio::{runtime::Handle, time::Instant};

use crate::{config::ClientConfig, connection::ConnectionHandle, connection_task::ExpectedNode};

/// The shortest time between two requests for the shard map.
const REFRESH_AFTER: Duration = Duration::from_secs(1);

/// The same if the reason is a leader that is not connected, or has no address in the map.
const REFRESH_AFTER_FOR_ADDRESS: Duration = Duration::from_secs(5);

/// The same after a useless answer: the node does not know the op, or sent no address that this client can connect to.
const REFRESH_AFTER_USELESS: Duration = Duration::from_secs(60);

/// The client asks for a new map when its map is older.
const MAP_AGE_MAX: Duration = Duration::from_secs(60);

/// How long the client does not connect again to a node whose connection closed for good: the node is not the one that
/// the map names, or it refused this client.
const RECONNECT_AFTER_CLOSED: Duration = Duration::from_secs(60);

/// Nodes of a map that are used, and so the maximum of connections to leaders.
const NODES_MAX: usize = 64;

/// The leader of each shard, as far as known, and the connections to leaders.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The runtime in which the client was started. Its callers may be outside of any runtime.
    pub(crate) runtime: Handle,
    state: Mutex<RoutesState>,
}

#[derive(Debug, Default)]
struct RoutesState {
    /// The newest map, updated by what answers said since then.
    map: ShardMap,
    received_at: Option<Instant>,
    /// The cluster of the node that sent the map. Empty if this client may not see it.
    cluster: SmolStr,
    /// The node that sent the map was not at a local address. Addresses that are local to that node mean other machines
    /// here, so the client does not connect to them.
    only_remote: bool,
    /// When a map was last requested.
    requested_at: Option<Instant>,
    /// No map is requested before this time.
    not_before: Option<Instant>,
    leaders: BTreeMap<u64, LeaderConnection>,
}

/// A connection to a leader.
#[derive(Debug)]
struct LeaderConnection {
    address: String,
    connection: Arc<ConnectionHandle>,
    /// When the client noticed that the connection was closed for good.
    closed_since: Option<Instant>,
}

impl Routes {
    pub(crate) fn new(runtime: Handle) -> Routes {
        Routes { runtime, state: Mutex::default() }
    }

    /// The connection to the leader of an entity's shard. `None` if the client's own connection is as good: the
    /// client's own node is the leader, no leader is known, or there is no connection to the leader.
    ///
    /// Also returns whether the caller should request a new map, as all methods here that return a `bool`.
    pub(crate) fn leader_of(&self, entity: &Entity, own: &ConnectionHandle) -> (Option<Arc<ConnectionHandle>>, bool) {
        let mut state = self.state();
        let Some(leader) = state.map.leader_of(entity) else {
            return (None, state.claim_request(REFRESH_AFTER));
        };
        let connection = match own.node() {
            Some(node) if node == leader => None,
            _ => state.connection(leader, own, &self.runtime),
        };
        let is_missing =
            connection.as_ref().is_some_and(|connection| !connection.has_hello() && !connection.is_closed());
        let is_due = (is_missing || state.is_map_old(Instant::now())) && state.claim_request(REFRESH_AFTER_FOR_ADDRESS);
        (connection.filter(|connection| connection.has_hello()), is_due)
    }

    /// Notes the leader of an entity's shard. An answer named it, since it came from there by a hop.
    #[must_use]
    pub(crate) fn learn_leader(&self, entity: &Entity, leader: u64) -> bool {
        let mut state = self.state();
        state.set_leader(entity, leader);
        // An unknown leader is a new member, or there is no map yet.
        let is_known = state.map.nodes.iter().any(|node| node.node == leader);
        !is_known && state.claim_request(REFRESH_AFTER_FOR_ADDRESS)
    }

    /// A leader did not do what it was asked for.
    #[must_use]
    pub(crate) fn refresh(&self) -> bool {
        self.state().claim_request(REFRESH_AFTER)
    }

    /// Drops a connection over which a request about this entity got no answer. The client does not take the node for
    /// the leader of that entity any more, and sends it nothing until it has accepted another connection.
    #[must_use]
    pub(crate) fn drop_silent(&self, entity: &Entity, connection: &ConnectionHandle) -> bool {
        let mut state = self.state();
        let leader = state.leaders.iter().find(|(_, leader)| leader.connection.id == connection.id);
        if let Some(leader) = leader.map(|(node, _)| *node) {
            state.leaders.remove(&leader);
            if state.map.leader_of(entity) == Some(leader) {
                state.set_leader(entity, 0);
            }
        }
        state.claim_request(REFRESH_AFTER)
    }

    /// The node refused to send its map: it is older than the op, or does not allow it to this client. All requests go
    /// through that node.
    pub(crate) fn on_map_refused(&self) {
        self.state().not_before = Some(Instant::now() + REFRESH_AFTER_USELESS);
    }

    /// Replaces the map, and closes the connections to nodes that lead nothing in the new map.
    pub(crate) fn set_map(&self, mut map: ShardMap, own: &ConnectionHandle) {
        // Without the own node's hello there is no cluster that leaders could be compared with.
        let Some(hello) = own.hello() else { return };
        let (now, only_remote) = (Instant::now(), !own.is_local());
        let leading: BTreeSet<u64> = map.leaders.iter().copied().filter(|node| *node > 0).collect();
        truncate_nodes(&mut map.nodes, &leading);
        let mut state = self.state();
        if (&state.cluster, state.only_remote) != (&hello.cluster, only_remote) {
            state.leaders.clear();
            state.cluster = hello.cluster.clone();
            state.only_remote = only_remote;
        }
        state.leaders.retain(|node, leader| {
            let is_same_address = address_of(&map, *node).is_some_and(|address| address == leader.address);
            leading.contains(node) && is_same_address && !leader.may_reconnect(now)
        });
        let is_useless = !map.nodes.iter().any(|node| plaintext_address(&node.client).is_some());
        state.not_before = is_useless.then(|| now + REFRESH_AFTER_USELESS);
        state.map = map;
        state.received_at = Some(now);
    }

    fn state(&self) -> MutexGuard<'_, RoutesState> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }
}

impl RoutesState {
    /// Whether a map may be requested now: it was not within `interval`. If so, it counts as requested.
    fn claim_request(&mut self, interval: Duration) -> bool {
        let now = Instant::now();
        let is_due = self.requested_at.is_none_or(|requested| now >= requested + interval)
            && self.not_before.is_none_or(|not_before| now >= not_before);
        if is_due {
            self.requested_at = Some(now);
        }
        is_due
    }

    fn is_map_old(&self, now: Instant) -> bool {
        self.received_at.is_none_or(|received| now >= received + MAP_AGE_MAX)
    }

    /// Sets the leader of an entity's shard. 0 is none.
    fn set_leader(&mut self, entity: &Entity, leader: u64) {
        let slot = self.map.shard_of(entity).and_then(|shard| self.map.leaders.get_mut(shard));
        if let Some(slot) = slot {
            *slot = leader;
        }
    }

    /// The connection to a node, which is opened if there is none. `None` if there is no address to connect to.
    fn connection(&mut self, leader: u64, own: &ConnectionHandle, runtime: &Handle) -> Option<Arc<ConnectionHandle>> {
        if let Some(known) = self.leaders.get_mut(&leader) {
            known.may_reconnect(Instant::now());
            return Some(Arc::clone(&known.connection));
        }
        let address = address_of(&self.map, leader)?;
        let config = ClientConfig {
            addresses: vec![address.clone()],
            wait_for_connection: false,
            to_leaders: false,
            ..ClientConfig::clone(&own.config)
        };
        let expected = ExpectedNode { node: leader, cluster: self.cluster.clone(), only_remote: self.only_remote };
        let connection = ConnectionHandle::start(config, Some(expected), runtime);
        let entry = LeaderConnection { address, connection: Arc::clone(&connection), closed_since: None };
        self.leaders.insert(leader, entry);
        Some(connection)
    }
}

impl LeaderConnection {
    /// Whether the connection closed for good long enough ago. Notes the time when it is first seen closed.
    fn may_reconnect(&mut self, now: Instant) -> bool {
        self.connection.is_closed() && now >= *self.closed_since.get_or_insert(now) + RECONNECT_AFTER_CLOSED
    }
}

/// Shortens the nodes of a map to the number that is used. Leaders come first.
fn truncate_nodes(nodes: &mut Vec<NodeAddress>, leading: &BTreeSet<u64>) {
    nodes.sort_by_key(|node| !leading.contains(&node.node));
    nodes.truncate(NODES_MAX);
}

/// The address of a node, if this library can connect to it.
fn address_of(map: &ShardMap, node: u64) -> Option<String> {
    map.nodes.iter().find(|other| other.node == node).and_then(|node| plaintext_address(&node.client))
}

/// The host and port of an address. `None` if this library cannot connect to it, because it has no TLS.
fn plaintext_address(address: &str) -> Option<String> {
    let address = address.strip_prefix("http://").unwrap_or(address);
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    (has_port && !address.contains('/')).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::connection_task::ConnectionState;

    #[test]
    fn nodes_of_a_map_are_bounded_and_leaders_come_first() {
        let mut nodes: Vec<NodeAddress> =
            (1..=1_000).map(|node| NodeAddress { node, client: "127.0.0.1:1".into() }).collect();
        truncate_nodes(&mut nodes, &BTreeSet::from([900, 7]));
        assert_eq!(nodes.len(), NODES_MAX);
        assert_eq!(nodes[..3].iter().map(|node| node.node).collect::<Vec<u64>>(), [7, 900, 1]);
    }

    #[tokio::test]
    async fn a_remote_node_cannot_make_the_client_connect_to_a_local_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let config = ClientConfig::new(["192.0.2.1:7180"]);
        let own = ConnectionHandle::start(config, None, &Handle::current());
        let map = ShardMap { leaders: vec![2, 2], nodes: vec![NodeAddress { node: 2, client: address.into() }] };
        let mut routes = RoutesState { map, only_remote: true, ..RoutesState::default() };
        let connection = routes.connection(2, &own, &Handle::current()).expect("it has an address");
        let mut state = connection.state.clone();
        let closed = state.wait_for(|state| matches!(state, ConnectionState::Closed(_)));
        drop(tokio::time::timeout(Duration::from_secs(5), closed).await.expect("it closes in time").expect("a state"));
        let accepted = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(accepted.is_err(), "{accepted:?}");
    }

    #[test]
    fn only_plaintext_addresses_are_used() {
        assert_eq!(plaintext_address("127.0.0.1:7180").as_deref(), Some("127.0.0.1:7180"));
        assert_eq!(plaintext_address("http://[::1]:7180").as_deref(), Some("[::1]:7180"));
        for other in ["https://one.tickets.example:8443", "http://one.tickets.example", "one", "one:7180/x"] {
            assert_eq!(plaintext_address(other), None, "{other}");
        }
    }
}
