//! The shortest way: requests go to the node that leads the shard of what they are about.
//!
//! A node that is asked for what another one leads sends the request on, which costs both of them a hop. Here the client asks
//! its node once for the shard map, connects to the leaders it needs, and sends to them. An answer that came by a hop names the
//! leader. A wrong belief costs that hop and nothing else: every node takes every request.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::{Op, body::Empty, cluster::ShardMap};
use tokio::time::Instant;
use tracing::debug;

use crate::{
    client::{Client, Shared},
    config::ClientConfig,
};

/// How long after a shard map was asked for the next one is.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Who leads what, and the connections to leaders.
#[derive(Debug, Default)]
pub(crate) struct Routes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    map: ShardMap,
    /// When the map was asked for last.
    asked: Option<Instant>,
    /// By node: its address, and the connection.
    nodes: BTreeMap<u64, (String, Arc<Shared>)>,
}

impl Routes {
    /// The connection to the leader of an entity's shard; `None` if `client`'s own connection is as good as any: it leads there
    /// itself, or no leader is known, or there is no connection to it.
    pub(crate) fn leader_of(self: &Arc<Self>, entity: &Entity, client: &Client) -> Option<Arc<Shared>> {
        let mut known = self.known();
        let Some(leader) = known.map.leader_of(entity) else {
            self.ask(known, client);
            return None;
        };
        if client.shared.node() == Some(leader) {
            return None;
        }
        if !known.nodes.contains_key(&leader) {
            let address =
                known.map.nodes.iter().find(|node| node.node == leader).and_then(|node| plain(&node.client))?;
            let config = ClientConfig {
                addresses: vec![address.clone()],
                wait_for_connection: false,
                to_leaders: false,
                ..ClientConfig::clone(&client.shared.config)
            };
            known.nodes.insert(leader, (address, Shared::start(config)));
        }
        let (_, connection) = &known.nodes[&leader];
        connection.is_connected().then(|| Arc::clone(connection))
    }

    /// A node that sent a request about this entity on has named the leader.
    pub(crate) fn learn(self: &Arc<Self>, entity: &Entity, leader: u64, client: &Client) {
        let mut known = self.known();
        let place = known.map.shard_of(entity).and_then(|shard| known.map.leaders.get_mut(shard));
        if let Some(place) = place {
            *place = leader;
        }
        if !known.map.nodes.iter().any(|node| node.node == leader) {
            // A new member, or the first answer.
            self.ask(known, client);
        }
    }

    /// A leader did not do what it was asked for.
    pub(crate) fn doubt(self: &Arc<Self>, client: &Client) {
        self.ask(self.known(), client);
    }

    /// Asks for the shard map in the background, if it was not asked for a moment ago.
    fn ask(self: &Arc<Self>, mut known: MutexGuard<'_, Known>, client: &Client) {
        let now = Instant::now();
        if known.asked.is_some_and(|asked| now < asked + ASK_AGAIN) {
            return;
        }
        known.asked = Some(now);
        drop(known);
        let client = Client { routes: None, request_id: None, ..client.clone() };
        let routes = Arc::downgrade(self);
        tokio::spawn(async move {
            match client.read::<ShardMap, _>(Op::Shards, &Empty {}).await {
                Ok(map) => _ = routes.upgrade().inspect(|routes| routes.take(map.value)),
                // An older node: everything goes through it.
                Err(error) => debug!(%error, "no shard map"),
            }
        });
    }

    fn take(&self, map: ShardMap) {
        let mut known = self.known();
        let address = |node| map.nodes.iter().find(|other| other.node == node).and_then(|node| plain(&node.client));
        known.nodes.retain(|node, (at, _)| address(*node).is_some_and(|address| address == *at));
        known.map = map;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}

/// The host and port of an address; `None` if this library does not speak to it: it has no TLS.
fn plain(address: &str) -> Option<String> {
    let address = address.strip_prefix("http://").unwrap_or(address);
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    (has_port && !address.contains('/')).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_addresses_in_the_clear_are_dialed() {
        assert_eq!(plain("127.0.0.1:7180").as_deref(), Some("127.0.0.1:7180"));
        assert_eq!(plain("http://[::1]:7180").as_deref(), Some("[::1]:7180"));
        for other in ["https://one.tickets.example:8443", "http://one.tickets.example", "one", "one:7180/x"] {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
