//! The net of a run: what links every node to every other, and the task that carries frames from one to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::id::{CartId, Entity, HoldId, RequestHash};
use boxoffice_env::{Lane, LinkStatus, Local, Net, NodeId, NotSent, PeerAddress, PeerAdmission, PeerHello, PeerInbox};
use boxoffice_node::overheard::{Overheard, overhear};
use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use tokio::{runtime::Handle, sync::Notify, time::sleep};

use crate::{
    frame_capture,
    link_model::{Delivery, LinkFaults, LinkModel},
    trace::Trace,
};

/// A link on which nothing is heard for so long is given up, in milliseconds.
const SILENCE_MS: u64 = 3_000;
/// Links are looked at so often, in milliseconds.
const LOOK_MS: u64 = 100;

/// The net of a run. Clones are the same net.
#[derive(Clone)]
pub(crate) struct SimNetwork(Arc<Inside>);

struct Inside {
    /// Held by the task that does something to the links.
    hand: tokio::sync::Mutex<()>,
    trace: Arc<Trace>,
    state: Mutex<State>,
    /// Something was sent that arrives before the carrier looks again.
    sent: Notify,
    /// When that is, in microseconds of the run.
    looks_us: AtomicU64,
}

struct State {
    link_model: LinkModel,
    rng: SmallRng,
    nodes: BTreeMap<NodeId, Endpoint>,
    /// Links that stand, the lower number first.
    up: BTreeMap<(NodeId, NodeId), u64>,
    /// How many links there were.
    links: u64,
    /// Links that a node no longer wants, as its table says.
    closed: BTreeSet<(NodeId, NodeId)>,
    /// Ways on which the last messages of a process that was killed are still under way: who receives them hears of its
    /// end afterwards.
    dying: BTreeSet<(NodeId, NodeId)>,
    /// Nodes that are to be killed when they have sent so many more messages, and who is told then.
    aims: BTreeMap<NodeId, Aim>,
    /// Holds that their carts said not to be theirs, to which inventory, and when in milliseconds of the run.
    disowned: BTreeMap<HoldId, (Entity, u64)>,
    /// Since when nothing was heard on links that stand, in milliseconds of the run.
    silent: BTreeMap<(NodeId, NodeId), u64>,
}

/// A node that is to be killed.
struct Aim {
    /// By messages of this kind; of any, if absent.
    kind: Option<&'static str>,
    /// How many it sends before the last.
    left: u64,
    /// It has sent it: nothing it says is heard any more.
    is_struck: bool,
    /// Who kills it.
    struck: Arc<Notify>,
}

/// A process that is linked.
struct Endpoint {
    local: Local,
    inbox: Arc<dyn PeerInbox>,
    peers: BTreeSet<NodeId>,
    /// It stands still: what comes for it waits.
    still: Option<Vec<Heard>>,
}

/// What a process is told.
enum Heard {
    Frame(NodeId, Lane, Bytes),
    Link(NodeId, bool),
}

impl Heard {
    fn tell(self, inbox: &dyn PeerInbox) {
        match self {
            Heard::Frame(from, lane, frame) => inbox.frame(from, lane, frame),
            Heard::Link(node, up) => inbox.link(node, up),
        }
    }
}

/// Things to be told once the lock is free, in order.
type Told = Vec<(Arc<dyn PeerInbox>, Heard)>;

impl SimNetwork {
    /// A net without anybody.
    pub(crate) fn new(trace: &Arc<Trace>, rng: SmallRng) -> SimNetwork {
        let state = State {
            link_model: LinkModel::default(),
            rng,
            nodes: BTreeMap::new(),
            up: BTreeMap::new(),
            links: 0,
            closed: BTreeSet::new(),
            dying: BTreeSet::new(),
            aims: BTreeMap::new(),
            disowned: BTreeMap::new(),
            silent: BTreeMap::new(),
        };
        let (state, looks_us) = (Mutex::new(state), AtomicU64::new(0));
        SimNetwork(Arc::new(Inside {
            hand: tokio::sync::Mutex::default(),
            trace: Arc::clone(trace),
            state,
            sent: Notify::new(),
            looks_us,
        }))
    }

    /// Held by the task that does something to the links.
    pub(crate) fn hand(&self) -> &tokio::sync::Mutex<()> {
        &self.0.hand
    }

    /// A node's way into it.
    pub(crate) fn net(&self, node: NodeId) -> SimNet {
        SimNet { node, network: self.clone() }
    }

    /// Changes what the fabric is like.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut LinkModel) -> T) -> T {
        change(&mut self.0.state.lock().link_model)
    }

    /// From now on all links are like this.
    pub(crate) fn set_link_faults(&self, link_faults: LinkFaults) {
        self.change(|link_model| link_model.set_link_faults(link_faults));
    }

    /// A process has ended: its links go with it, and what is under way.
    pub(crate) fn end(&self, node: NodeId) {
        let told = {
            let mut state = self.0.state.lock();
            state.nodes.remove(&node);
            state.aims.remove(&node);
            state.link_model.end(node);
            state.dying.retain(|&(_, to)| to != node);
            let gone: Vec<_> = state.up.keys().copied().filter(|&(one, other)| one == node || other == node).collect();
            gone.into_iter().flat_map(|link| state.down(link)).collect()
        };
        tell(told);
    }

    /// A process was killed: what it has sent arrives, as the kernel has it already, and its links go afterwards.
    pub(crate) fn end_of_process(&self, node: NodeId) {
        {
            let mut state = self.0.state.lock();
            state.nodes.remove(&node);
            state.aims.remove(&node);
            state.link_model.end_of_receiver(node);
            state.dying.retain(|&(_, to)| to != node);
            let gone: Vec<_> = state.up.keys().copied().filter(|&(one, other)| one == node || other == node).collect();
            for (one, other) in gone {
                state.up.remove(&(one, other));
                state.silent.remove(&(one, other));
                state.dying.insert((node, if one == node { other } else { one }));
            }
        }
        self.0.sent.notify_one();
    }

    /// A node is to be killed when it has sent so many more messages, of this kind or of any; [`SimNetwork::struck`] is
    /// to be waited for.
    pub(crate) fn aim(&self, node: NodeId, kind: Option<&'static str>, left: u64) {
        let aim = Aim { kind, left, is_struck: false, struck: Arc::new(Notify::new()) };
        self.0.state.lock().aims.insert(node, aim);
    }

    /// When a cart said to an inventory that this hold is not its own, in milliseconds of the run.
    pub(crate) fn disowned_ms(&self, hold: HoldId, of: &Entity) -> Option<u64> {
        self.0.state.lock().disowned.get(&hold).filter(|(entity, _)| entity == of).map(|(_, at_ms)| *at_ms)
    }

    /// Whether a cart said so of any of its holds.
    pub(crate) fn disowns(&self, cart: CartId) -> bool {
        let of = |request, part, attempt| HoldId { cart, request: RequestHash(request), part, attempt };
        let (first, last) = (of(0, 0, 0), of(u64::MAX, u16::MAX, u16::MAX));
        self.0.state.lock().disowned.range(first..=last).next().is_some()
    }

    /// Ends the aim at this node; whether it has sent its last message and is still there.
    pub(crate) fn spare(&self, node: NodeId) -> bool {
        self.0.state.lock().aims.remove(&node).is_some_and(|aim| aim.is_struck)
    }

    /// Resolves when a node that was aimed at has sent its last message.
    pub(crate) async fn struck(&self, node: NodeId) {
        let aimed = self.0.state.lock().aims.get(&node).map(|aim| Arc::clone(&aim.struck));
        match aimed {
            Some(struck) => struck.notified().await,
            None => std::future::pending().await,
        }
    }

    /// A process stands still: nothing is heard of it, and what comes for it waits.
    pub(crate) fn pause(&self, node: NodeId) {
        if let Some(endpoint) = self.0.state.lock().nodes.get_mut(&node) {
            endpoint.still.get_or_insert_default();
        }
    }

    /// It goes on, with what came meanwhile.
    pub(crate) fn resume(&self, node: NodeId) {
        let told: Told = {
            let mut state = self.0.state.lock();
            let Some(endpoint) = state.nodes.get_mut(&node) else { return };
            let inbox = Arc::clone(&endpoint.inbox);
            endpoint.still.take().into_iter().flatten().map(|heard| (Arc::clone(&inbox), heard)).collect()
        };
        tell(told);
    }

    /// Carries frames, and looks after links, until it is dropped.
    pub(crate) async fn carry(self) {
        let mut look_ms = 0;
        loop {
            let now_us = self.0.trace.begun().elapsed().as_micros() as u64;
            let told = {
                let mut state = self.0.state.lock();
                let mut told = Told::new();
                for delivery in state.link_model.arrived(now_us) {
                    state.arrive(delivery, &mut told);
                }
                state.bury(&mut told);
                if now_us / 1_000 >= look_ms {
                    look_ms = now_us / 1_000 + LOOK_MS;
                    state.look(now_us / 1_000, &mut told);
                }
                told
            };
            for (_, heard) in &told {
                if let Heard::Link(node, up) = heard {
                    self.0.trace.note(&format!("link to {node}: {}", if *up { "up" } else { "down" }));
                }
            }
            tell(told);
            // A node that was told something may have sent something, which is among this.
            let next_us = self.0.state.lock().link_model.next_us().unwrap_or(u64::MAX).min(look_ms * 1_000);
            self.0.looks_us.store(next_us, Ordering::Relaxed);
            let wait = Duration::from_micros(next_us.saturating_sub(now_us).max(1));
            tokio::select! {
                biased;
                () = self.0.sent.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }
}

fn overhear_if(lane: Lane, frame: &[u8]) -> Option<Overheard> {
    matches!(lane, Lane::Calls).then(|| overhear(frame)).flatten()
}

fn tell(told: Told) {
    for (inbox, heard) in told {
        heard.tell(&*inbox);
    }
}

fn link(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl State {
    fn arrive(&mut self, Delivery { from, to, lane, frame }: Delivery, told: &mut Told) {
        if !self.up.contains_key(&link(from, to)) && !self.dying.contains(&(from, to)) {
            return;
        }
        self.hear(to, Heard::Frame(from, LANES[usize::from(lane)], frame), told);
    }

    /// A peer that has heard the last of a killed process hears of its end.
    fn bury(&mut self, told: &mut Told) {
        let heard: Vec<_> =
            self.dying.iter().copied().filter(|&(from, to)| !self.link_model.is_under_way(from, to)).collect();
        for (from, to) in heard {
            self.dying.remove(&(from, to));
            self.hear(to, Heard::Link(from, false), told);
        }
    }

    fn hear(&mut self, node: NodeId, heard: Heard, told: &mut Told) {
        let Some(endpoint) = self.nodes.get_mut(&node) else { return };
        match &mut endpoint.still {
            Some(waiting) => waiting.push(heard),
            None => told.push((Arc::clone(&endpoint.inbox), heard)),
        }
    }

    /// The link is lost: both hear of it, and what was under way is lost.
    fn down(&mut self, (one, other): (NodeId, NodeId)) -> Told {
        let mut told = Told::new();
        if self.up.remove(&(one, other)).is_some() {
            for (from, to) in [(one, other), (other, one)] {
                self.link_model.drain(from, to);
                self.hear(to, Heard::Link(from, false), &mut told);
            }
        }
        self.silent.remove(&(one, other));
        told
    }

    /// Whether something goes both ways.
    fn is_heard(&self, (one, other): (NodeId, NodeId)) -> bool {
        let still = |node| self.nodes.get(&node).is_none_or(|endpoint: &Endpoint| endpoint.still.is_some());
        self.link_model.goes(one, other) && self.link_model.goes(other, one) && !still(one) && !still(other)
    }

    fn look(&mut self, now_ms: u64, told: &mut Told) {
        let numbers: Vec<NodeId> = self.nodes.keys().copied().collect();
        let pairs = numbers
            .iter()
            .enumerate()
            .flat_map(|(place, &one)| numbers[place + 1..].iter().map(move |&other| (one, other)));
        let pairs: Vec<_> = pairs.collect();
        for pair in pairs {
            // A node that is in no table is not dialed.
            let knows = |one: NodeId, other| self.nodes[&one].peers.contains(&other);
            let wanted = knows(pair.0, pair.1) || knows(pair.1, pair.0);
            let heard = self.is_heard(pair);
            let closed = self.closed.remove(&pair);
            match (self.up.contains_key(&pair), wanted && !closed, heard) {
                (true, false, _) => told.extend(self.down(pair)),
                (true, true, true) => _ = self.silent.remove(&pair),
                (true, true, false) => {
                    let since_ms = *self.silent.entry(pair).or_insert(now_ms);
                    // On a connection nothing goes missing in the middle: a cut is its end, sooner or later.
                    let is_cut = !self.link_model.goes(pair.0, pair.1) || !self.link_model.goes(pair.1, pair.0);
                    if now_ms - since_ms >= SILENCE_MS || (is_cut && now_ms > since_ms) {
                        told.extend(self.down(pair));
                    }
                }
                (false, true, true) if self.is_buried(pair) && self.agree(pair) => {
                    self.links += 1;
                    self.up.insert(pair, self.links);
                    self.hear(pair.0, Heard::Link(pair.1, true), told);
                    self.hear(pair.1, Heard::Link(pair.0, true), told);
                }
                (false, ..) => {}
            }
        }
    }

    /// Whether neither has still to hear of the other's end.
    fn is_buried(&self, (one, other): (NodeId, NodeId)) -> bool {
        !self.dying.contains(&(one, other)) && !self.dying.contains(&(other, one))
    }

    /// Whether both deal with each other.
    fn agree(&self, (one, other): (NodeId, NodeId)) -> bool {
        let takes = |endpoint: &Endpoint, other: &Endpoint| {
            let Local { cluster, node, disk } = other.local;
            let (version, program, table) = (1, "simulated".into(), other.inbox.table());
            let durable_position = other.inbox.durable_position();
            match endpoint.inbox.admit(&PeerHello { cluster, node, disk, version, program, table, durable_position }) {
                // A node that was removed is stopped by the operator.
                Err(rejection) if rejection.why.contains("old copy") => {
                    other.inbox.removed(endpoint.local.node, &rejection.why);
                    false
                }
                Ok(PeerAdmission::AsListed) => endpoint.peers.contains(&node),
                Ok(PeerAdmission::Unlisted) => true,
                Err(_) => false,
            }
        };
        let (one, other) = (&self.nodes[&one], &self.nodes[&other]);
        one.local.cluster == other.local.cluster && takes(one, other) && takes(other, one)
    }
}

const LANES: [Lane; 4] = [Lane::Consensus, Lane::Calls, Lane::Feeds, Lane::Bulk];

/// A node's way to the others.
pub(crate) struct SimNet {
    node: NodeId,
    network: SimNetwork,
}

impl Net for SimNet {
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, _: Option<&Handle>) {
        assert_eq!(local.node, self.node, "a node starts as another one");
        let endpoint = Endpoint { local, inbox, peers: BTreeSet::new(), still: None };
        self.network.0.state.lock().nodes.insert(self.node, endpoint);
    }

    fn set_peers(&self, peers: &[PeerAddress]) {
        let mut state = self.network.0.state.lock();
        let Some(endpoint) = state.nodes.get_mut(&self.node) else { return };
        let peers: BTreeSet<NodeId> = peers.iter().map(|peer| peer.node).filter(|node| *node != self.node).collect();
        endpoint.peers.clone_from(&peers);
        let others: Vec<NodeId> = state.nodes.keys().copied().filter(|node| !peers.contains(node)).collect();
        state.closed.extend(others.into_iter().map(|other| link(self.node, other)));
    }

    fn send(&self, to: NodeId, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        let mut state = self.network.0.state.lock();
        let Some(connection) = state.up.get(&link(self.node, to)).copied() else {
            return Err(NotSent::Unreachable(to));
        };
        let now_us = self.network.0.trace.begun().elapsed().as_micros() as u64;
        if state.aims.get(&self.node).is_some_and(|aim| aim.is_struck) {
            return Ok(connection);
        }
        if let Some(Overheard { kind, disowned }) = overhear_if(lane, &frame) {
            if let Some((to, hold)) = disowned {
                state.disowned.entry(hold).or_insert((to, now_us / 1_000));
            }
            if let Some(aim) = state.aims.get_mut(&self.node).filter(|aim| aim.kind.is_none_or(|of| of == kind)) {
                aim.is_struck = aim.left == 0;
                aim.left = aim.left.saturating_sub(1);
                if aim.is_struck {
                    aim.struck.notify_one();
                }
            }
        }
        frame_capture::frame(lane, &frame);
        let State { link_model, rng, .. } = &mut *state;
        link_model.send(rng, now_us, Delivery { from: self.node, to, lane: lane as u8, frame });
        let next_us = link_model.next_us();
        drop(state);
        if next_us.is_some_and(|next_us| next_us < self.network.0.looks_us.load(Ordering::Relaxed)) {
            self.network.0.sent.notify_one();
        }
        Ok(connection)
    }

    fn damaged(&self) -> u64 {
        // Frames are carried whole: what damages them is tested over real sockets.
        0
    }

    fn links(&self) -> Vec<LinkStatus> {
        let state = self.network.0.state.lock();
        let Some(endpoint) = state.nodes.get(&self.node) else { return Vec::new() };
        let status = |&node: &NodeId| LinkStatus {
            node,
            up: state.up.contains_key(&link(self.node, node)),
            ..LinkStatus::default()
        };
        endpoint.peers.iter().map(status).collect()
    }
}
