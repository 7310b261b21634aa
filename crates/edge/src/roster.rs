//! The connections of a port by network, and which of them end when the port is full.
//!
//! A newcomer of a network with few connections takes the place of a connection of a network with many, so that nobody is
//! locked out. First go connections that have sent nothing for a while, then those of the network with most connections. Of
//! these the silent ones go first, then those without an open cart and without a feed.
//!
//! The others go last, and only as far as their network has more than its **share**. Of N networks that fill the port, the
//! share is the port over N + 1. In general it is the largest number to which the n largest networks can be cut so that they
//! leave 1/(n + 1) of the port to all others, for each n.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::id::CartId;
use boxoffice_node::metrics_text::MetricsText;
use tokio::{sync::Notify, time::Instant};
use tracing_mutex::parkinglot::Mutex;

use crate::{network::ClientNetwork, planted};

/// A connection that has sent nothing for so long goes before all others. A shorter silence may be that of a slow link.
const SILENCE: Duration = Duration::from_secs(2);

/// Networks that are looked at for one newcomer, those with most connections first. That bounds its cost.
const NETWORKS_SEEN: usize = 256;

/// A network with no more connections than these is no large one.
const FEW: usize = 2;

/// Open carts that are remembered for a connection.
const CARTS_KEPT: usize = 8;

/// The connections of a port.
#[derive(Debug)]
pub(crate) struct Roster {
    connections_max: usize,
    state: Mutex<State>,
    next: AtomicU64,
    /// Connections that have ended for others, by what they were.
    ended: [AtomicU64; 3],
}

#[derive(Debug, Default)]
struct State {
    /// The connections of each network, in the order in which they go.
    networks: BTreeMap<ClientNetwork, BTreeMap<Rank, Arc<End>>>,
    by_count: BTreeSet<(usize, ClientNetwork)>,
}

/// The rank of a connection in its network: its kind, since when it is of that kind or until when, and its number.
type Rank = (Kind, Instant, u64);

/// What a connection is worth to its client, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// It has sent no request.
    Silent,
    Plain,
    /// It has an open cart or a feed.
    Kept,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Silent, Kind::Plain, Kind::Kept];

    fn name(self) -> &'static str {
        match self {
            Kind::Silent => "silent",
            Kind::Plain => "plain",
            Kind::Kept => "kept",
        }
    }
}

/// Ends a connection.
#[derive(Debug, Default)]
pub(crate) struct End {
    is_ended: AtomicBool,
    wake: Notify,
}

impl End {
    /// The connection ends now.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Waits until the connection must end.
    pub(crate) async fn ended(&self) {
        while !self.is_ended.load(Ordering::Relaxed) {
            self.wake.notified().await;
        }
    }
}

/// The place of a connection in the roster of its port.
#[derive(Debug)]
pub(crate) struct Place {
    roster: Arc<Roster>,
    number: u64,
    end: Arc<End>,
    held: Mutex<Held>,
}

/// Why a place has its rank.
#[derive(Debug)]
struct Held {
    /// The network that it counts for. `None` if it ends for nobody: a connection of staff, or of a proxy that carries
    /// requests of many clients.
    network: Option<ClientNetwork>,
    begun: Instant,
    has_spoken: bool,
    has_feeds: bool,
    /// Open carts, and when they end if nothing happens.
    carts: Vec<(CartId, Instant)>,
    rank: Option<Rank>,
}

impl Roster {
    pub(crate) fn new(connections_max: usize) -> Roster {
        Roster { connections_max, state: Mutex::default(), next: AtomicU64::new(0), ended: Default::default() }
    }

    /// Adds a connection that has sent nothing yet.
    pub(crate) fn enter(self: &Arc<Roster>, network: Option<ClientNetwork>, now: Instant) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let held = Held { network, begun: now, has_spoken: false, has_feeds: false, carts: Vec::new(), rank: None };
        let place = Place { roster: Arc::clone(self), number, end: Arc::default(), held: Mutex::new(held) };
        place.change(|_| {});
        place
    }

    /// Ends a connection for a newcomer of this network. Returns whether one has ended. `silence` is how long a connection may
    /// have been silent.
    pub(crate) fn make_room(&self, newcomer: Option<ClientNetwork>, silence: Silence, now: Instant) -> bool {
        if planted::is("a full port makes no room") {
            return false;
        }
        let mut state = self.state.lock();
        let Some((network, rank)) = state.first_to_go(newcomer, silence, self.connections_max, now) else {
            return false;
        };
        let end = state.remove(network, rank).expect("it was found");
        drop(state);
        self.ended[rank.0 as usize].fetch_add(1, Ordering::Relaxed);
        end.end();
        true
    }

    /// Writes how many connections have ended for others.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let name = "boxoffice_edge_made_room_total";
        text.describe(name, "counter", "Connections of clients that were ended because the port was full, by kind.");
        let count = |kind: Kind| self.ended[kind as usize].load(Ordering::Relaxed);
        text.samples(name, "kind", Kind::ALL.map(|kind| (kind.name(), count(kind))));
    }
}

/// Which silent connections go before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Those that are silent for a while.
    Long,
    /// All of them.
    Any,
}

impl State {
    fn insert(&mut self, network: ClientNetwork, rank: Rank, end: Arc<End>) {
        let members = self.networks.entry(network).or_default();
        self.by_count.remove(&(members.len(), network));
        members.insert(rank, end);
        self.by_count.insert((members.len(), network));
    }

    fn remove(&mut self, network: ClientNetwork, rank: Rank) -> Option<Arc<End>> {
        let members = self.networks.get_mut(&network)?;
        let count = members.len();
        let removed = members.remove(&rank)?;
        self.by_count.remove(&(count, network));
        if members.is_empty() {
            self.networks.remove(&network);
        } else {
            self.by_count.insert((members.len(), network));
        }
        Some(removed)
    }

    /// The networks with most connections, and how many each has.
    fn largest(&self) -> impl Iterator<Item = (usize, ClientNetwork)> {
        self.by_count.iter().rev().take(NETWORKS_SEEN).copied()
    }

    fn first_to_go(
        &self,
        newcomer: Option<ClientNetwork>,
        silence: Silence,
        connections_max: usize,
        now: Instant,
    ) -> Option<(ClientNetwork, Rank)> {
        let has = newcomer.and_then(|network| self.networks.get(&network)).map_or(0, BTreeMap::len);
        let first = |network| self.networks[&network].keys().next().copied().expect("it has connections");
        for (count, network) in self.largest() {
            let rank @ (kind, since, _) = first(network);
            let is_long = silence == Silence::Any || now.saturating_duration_since(since) >= SILENCE;
            if kind == Kind::Silent && is_long && (count > has || Some(network) == newcomer) {
                return Some((network, rank));
            }
        }
        let mut share = None;
        for (count, network) in self.largest() {
            // An exchange between networks with as many would go on for ever.
            if count < has + 2 {
                return None;
            }
            let rank @ (kind, until, _) = first(network);
            let mut is_above = || count > *share.get_or_insert_with(|| self.share(connections_max));
            if kind != Kind::Kept || until <= now || is_above() {
                return Some((network, rank));
            }
        }
        None
    }

    /// The largest number to which the n largest networks can be cut so that they leave 1/(n + 1) of the port to all others, for
    /// each n.
    fn share(&self, connections_max: usize) -> usize {
        let counts = self.largest().map(|(count, _)| count).take_while(|count| *count > FEW);
        let counts: Vec<usize> = counts.collect();
        let leaves_enough = |share: usize| {
            let mut taken = 0;
            (1..).zip(&counts).all(|(networks, count)| {
                taken += share.min(*count);
                taken * (networks + 1) <= connections_max * networks
            })
        };
        let (mut fits, mut too_many) = (0, connections_max + 1);
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if leaves_enough(middle) { fits = middle } else { too_many = middle }
        }
        fits
    }
}

impl Place {
    /// Waits until the connection must end.
    pub(crate) async fn ended(&self) {
        self.end.ended().await;
    }

    /// Ends the connection.
    pub(crate) fn end_handle(&self) -> Arc<End> {
        Arc::clone(&self.end)
    }

    /// The network for which the connection counts, if it may end for others.
    pub(crate) fn set_network(&self, network: Option<ClientNetwork>) {
        self.change(|held| held.network = network);
    }

    /// The connection has sent a request.
    pub(crate) fn spoke(&self) {
        self.change(|held| held.has_spoken = true);
    }

    pub(crate) fn set_feeds(&self, has_feeds: bool) {
        self.change(|held| held.has_feeds = has_feeds);
    }

    /// A cart was opened or changed over the connection and lives until then, or it has ended.
    pub(crate) fn set_cart(&self, cart: CartId, until: Option<Instant>) {
        self.change(|held| {
            held.carts.retain(|(other, _)| *other != cart);
            if held.carts.len() == CARTS_KEPT {
                held.carts.remove(0);
            }
            held.carts.extend(until.map(|until| (cart, until)));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        let mut held = self.held.lock();
        let before = held.rank.zip(held.network);
        change(&mut held);
        let rank = held.rank(self.number);
        let after = held.network.map(|network| (rank, network));
        if before == after {
            return;
        }
        let mut state = self.roster.state.lock();
        if let Some((rank, network)) = before {
            state.remove(network, rank);
        }
        held.rank = after.map(|(rank, _)| rank);
        // One that must end has left the roster for good.
        if let Some((rank, network)) = after
            && !self.end.is_ended.load(Ordering::Relaxed)
        {
            state.insert(network, rank, Arc::clone(&self.end));
        }
    }
}

impl Held {
    fn rank(&self, number: u64) -> Rank {
        // A feed goes on until its client closes it, or does not answer a ping.
        let feed = self.has_feeds.then(|| self.begun + Duration::from_secs(u64::from(u32::MAX)));
        let until = feed.or_else(|| self.carts.iter().map(|(_, until)| *until).max());
        match (until, self.has_spoken) {
            (Some(until), _) => (Kind::Kept, until, number),
            (None, true) => (Kind::Plain, self.begun, number),
            (None, false) => (Kind::Silent, self.begun, number),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.set_network(None);
    }
}

#[cfg(test)]
mod tests;
