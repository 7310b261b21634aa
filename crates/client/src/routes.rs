//! The shortest way: requests go to the node that leads the shard of what they are about.
//!
//! A node that is asked for what another one leads sends the request on, which costs both of them a hop. Here the client asks
//! its node for the shard map, connects to the leaders it needs, and sends to them. An answer that came by a hop names the
//! leader. A wrong belief costs that hop or a part of the deadline, and nothing else: every node takes every request.
//!
//! The map is a hint from one node. A connection to a leader is used once that node's hello has said that it is this node of
//! this cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::{
    Op,
    body::Empty,
    cluster::{NodeAddress, ShardMap},
};
use smol_str::SmolStr;
use tokio::{runtime::Handle, time::Instant};
use tracing::debug;

use crate::{
    client::{Client, Shared},
    config::ClientConfig,
    error::Error,
    post::ExpectedNode,
};

/// How long after a shard map was asked for the next one is, at least.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The same if it is asked for because a leader is not connected, or has no address in the map.
const ASK_AGAIN_FOR_ADDRESS: Duration = Duration::from_secs(5);

/// The same after an answer that was no use: the node does not know the op, or no address that this client can connect to.
const ASK_AGAIN_IF_USELESS: Duration = Duration::from_secs(60);

/// A map that is older is asked for again.
const MAP_AGE_MAX: Duration = Duration::from_secs(60);

/// How long a node is let alone whose connection was given up: it is another node than the map says, or it refused this client.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// How long the map may take.
const MAP_DEADLINE: Duration = Duration::from_secs(2);

/// Nodes of a map that are looked at, and so connections to leaders.
const NODES_MAX: usize = 64;

/// Who leads what, and the connections to leaders.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Where the client was started. Its callers may be outside of any runtime.
    runtime: Handle,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The newest map, with what answers said since.
    map: ShardMap,
    /// When that map came.
    taken: Option<Instant>,
    /// The cluster of the node that told it; empty if this client may not see it.
    cluster: SmolStr,
    /// That node was not at a local address: addresses that are local to it lead somewhere else from here.
    only_remote: bool,
    /// When a map was asked for last.
    asked: Option<Instant>,
    /// None is asked for before.
    rests_until: Option<Instant>,
    leaders: BTreeMap<u64, LeaderConnection>,
}

/// A connection to a node that leads.
#[derive(Debug)]
struct LeaderConnection {
    address: String,
    connection: Arc<Shared>,
    /// When it was seen to be closed for good.
    given_up: Option<Instant>,
}

impl Routes {
    /// Of a client that is started in this runtime.
    pub(crate) fn new(runtime: Handle) -> Routes {
        Routes { runtime, known: Mutex::default() }
    }

    /// The connection to the leader of an entity's shard; `None` if `client`'s own connection is as good as any: it leads there
    /// itself, or no leader is known, or there is no connection to it.
    pub(crate) fn leader_of(self: &Arc<Self>, entity: &Entity, client: &Client) -> Option<Arc<Shared>> {
        let mut known = self.known();
        let Some(leader) = known.map.leader_of(entity) else {
            self.ask(known, ASK_AGAIN, client);
            return None;
        };
        let connection = match client.shared.node() {
            Some(own) if own == leader => None,
            _ => known.connection(leader, client, &self.runtime),
        };
        let is_missing = connection.as_ref().is_some_and(|there| !there.is_introduced() && !there.is_closed());
        if is_missing || known.is_old(Instant::now()) {
            self.ask(known, ASK_AGAIN_FOR_ADDRESS, client);
        }
        connection.filter(|there| there.is_introduced())
    }

    /// A node that sent a request about this entity on has named the leader.
    pub(crate) fn learn(self: &Arc<Self>, entity: &Entity, leader: u64, client: &Client) {
        let mut known = self.known();
        known.believe(entity, leader);
        if !known.map.nodes.iter().any(|node| node.node == leader) {
            // A new member, or the first answer.
            self.ask(known, ASK_AGAIN_FOR_ADDRESS, client);
        }
    }

    /// A leader did not do what it was asked for.
    pub(crate) fn doubt(self: &Arc<Self>, client: &Client) {
        self.ask(self.known(), ASK_AGAIN, client);
    }

    /// A request about this entity got no answer over this connection. The node is not believed to lead there any more, and is
    /// sent nothing until it has accepted another connection.
    pub(crate) fn is_silent(self: &Arc<Self>, entity: &Entity, connection: &Shared, client: &Client) {
        let mut known = self.known();
        let leader = known.leaders.iter().find(|(_, leader)| leader.connection.number == connection.number);
        if let Some(leader) = leader.map(|(node, _)| *node) {
            known.leaders.remove(&leader);
            if known.map.leader_of(entity) == Some(leader) {
                known.believe(entity, 0);
            }
        }
        self.ask(known, ASK_AGAIN, client);
    }

    /// Asks for the shard map in the background, if it was not asked for within this time.
    fn ask(self: &Arc<Self>, mut known: MutexGuard<'_, Known>, again: Duration, client: &Client) {
        let now = Instant::now();
        if known.asked.is_some_and(|asked| now < asked + again) || known.rests_until.is_some_and(|until| now < until) {
            return;
        }
        known.asked = Some(now);
        drop(known);
        let client = Client { routes: None, request_id: None, deadline: MAP_DEADLINE, ..client.clone() };
        let routes = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let answer = client.read::<ShardMap, _>(Op::Shards, &Empty {}).await;
            let Some(routes) = routes.upgrade() else { return };
            match answer {
                Ok(map) => routes.take(map.value, &client),
                Err(error) => {
                    debug!(%error, "no shard map");
                    // An older node, or one that does not let this client ask: everything goes through it.
                    if let Error::Refused(_) = error {
                        routes.known().rests_until = Some(Instant::now() + ASK_AGAIN_IF_USELESS);
                    }
                }
            }
        });
    }

    /// Takes a map, and closes the connections to nodes that lead nothing in it.
    fn take(&self, mut map: ShardMap, client: &Client) {
        // Without it there is nothing to compare other nodes with.
        let Some(own) = client.shared.hello() else { return };
        let (now, only_remote) = (Instant::now(), !client.shared.is_local());
        let leading: BTreeSet<u64> = map.leaders.iter().copied().filter(|node| *node > 0).collect();
        bound(&mut map.nodes, &leading);
        let mut known = self.known();
        if (&known.cluster, known.only_remote) != (&own.cluster, only_remote) {
            known.leaders.clear();
            known.cluster = own.cluster.clone();
            known.only_remote = only_remote;
        }
        known.leaders.retain(|node, leader| {
            let is_as_before = address_of(&map, *node).is_some_and(|address| address == leader.address);
            leading.contains(node) && is_as_before && !leader.may_be_tried_again(now)
        });
        let is_useless = !map.nodes.iter().any(|node| plain(&node.client).is_some());
        known.rests_until = is_useless.then(|| now + ASK_AGAIN_IF_USELESS);
        known.map = map;
        known.taken = Some(now);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no thread panics while it holds the lock")
    }
}

impl Known {
    /// Whether the map is to be asked for again although nothing is wrong with it.
    fn is_old(&self, now: Instant) -> bool {
        self.taken.is_none_or(|taken| now >= taken + MAP_AGE_MAX)
    }

    /// From now on this node (0: none) is believed to lead an entity's shard.
    fn believe(&mut self, entity: &Entity, leader: u64) {
        let place = self.map.shard_of(entity).and_then(|shard| self.map.leaders.get_mut(shard));
        if let Some(place) = place {
            *place = leader;
        }
    }

    /// The connection to a node, which is made if there is none; `None` if it has no address to connect to.
    fn connection(&mut self, leader: u64, client: &Client, runtime: &Handle) -> Option<Arc<Shared>> {
        if let Some(there) = self.leaders.get_mut(&leader) {
            there.may_be_tried_again(Instant::now());
            return Some(Arc::clone(&there.connection));
        }
        let address = address_of(&self.map, leader)?;
        let config = ClientConfig {
            addresses: vec![address.clone()],
            wait_for_connection: false,
            to_leaders: false,
            ..ClientConfig::clone(&client.shared.config)
        };
        let expected = ExpectedNode { node: leader, cluster: self.cluster.clone(), only_remote: self.only_remote };
        let connection = Shared::start(config, Some(expected), runtime);
        let entry = LeaderConnection { address, connection: Arc::clone(&connection), given_up: None };
        self.leaders.insert(leader, entry);
        Some(connection)
    }
}

impl LeaderConnection {
    /// Whether it is closed for good, and was seen to be so long enough ago.
    fn may_be_tried_again(&mut self, now: Instant) -> bool {
        self.connection.is_closed() && now >= *self.given_up.get_or_insert(now) + GIVEN_UP
    }
}

/// Leaves the nodes of a map that are looked at; those that lead come first.
fn bound(nodes: &mut Vec<NodeAddress>, leading: &BTreeSet<u64>) {
    nodes.sort_by_key(|node| !leading.contains(&node.node));
    nodes.truncate(NODES_MAX);
}

/// The address of a node, if this library speaks to it.
fn address_of(map: &ShardMap, node: u64) -> Option<String> {
    map.nodes.iter().find(|other| other.node == node).and_then(|node| plain(&node.client))
}

/// The host and port of an address; `None` if this library does not speak to it: it has no TLS.
fn plain(address: &str) -> Option<String> {
    let address = address.strip_prefix("http://").unwrap_or(address);
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    (has_port && !address.contains('/')).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::post::State;

    #[test]
    fn nodes_of_a_map_are_bounded_and_leaders_come_first() {
        let mut nodes: Vec<NodeAddress> =
            (1..=1_000).map(|node| NodeAddress { node, client: "127.0.0.1:1".into() }).collect();
        bound(&mut nodes, &BTreeSet::from([900, 7]));
        assert_eq!(nodes.len(), NODES_MAX);
        assert_eq!(nodes[..3].iter().map(|node| node.node).collect::<Vec<u64>>(), [7, 900, 1]);
    }

    #[tokio::test]
    async fn a_local_address_is_given_up_if_the_node_that_told_it_is_remote() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let config = ClientConfig::new(["192.0.2.1:7180"]);
        let client = Client::start(ClientConfig { to_leaders: true, ..config }).expect("a client");
        let map = ShardMap { leaders: vec![2, 2], nodes: vec![NodeAddress { node: 2, client: address.into() }] };
        let mut known = Known { map, only_remote: true, ..Known::default() };
        let connection = known.connection(2, &client, &Handle::current()).expect("it has an address");
        let mut state = connection.state.clone();
        let closed = state.wait_for(|state| matches!(state, State::Closed(_)));
        drop(tokio::time::timeout(Duration::from_secs(5), closed).await.expect("it is given up").expect("a state"));
        let comes = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(comes.is_err(), "{comes:?}");
    }

    #[test]
    fn only_addresses_in_the_clear_are_dialed() {
        assert_eq!(plain("127.0.0.1:7180").as_deref(), Some("127.0.0.1:7180"));
        assert_eq!(plain("http://[::1]:7180").as_deref(), Some("[::1]:7180"));
        for other in ["https://one.tickets.example:8443", "http://one.tickets.example", "one", "one:7180/x"] {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
