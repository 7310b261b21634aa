//! The simulated network: the links between all nodes, and the task that delivers frames.

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
use boxoffice_node::frame_info::{FrameInfo, frame_info};
use bytes::Bytes;
use rand::rngs::SmallRng;
use tokio::{runtime::Handle, sync::Notify, time::sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    frame_capture,
    link_model::{Delivery, LinkFaults, LinkModel},
    trace::Trace,
};

/// A silent link is closed after this time, in milliseconds.
const SILENCE_MS: u64 = 3_000;
/// The interval of link updates, in milliseconds.
const UPDATE_MS: u64 = 100;

/// The network of a run. Clones share it.
#[derive(Clone)]
pub(crate) struct SimNetwork(Arc<Inner>);

struct Inner {
    /// Held by the task that injects a fault into the links.
    fault_lock: tokio::sync::Mutex<()>,
    trace: Arc<Trace>,
    state: Mutex<State>,
    /// A frame was sent that arrives before the task wakes.
    sent: Notify,
    /// The next wake-up of the task, in microseconds of the run.
    wakes_us: AtomicU64,
}

struct State {
    link_model: LinkModel,
    rng: SmallRng,
    nodes: BTreeMap<NodeId, Endpoint>,
    /// Established links, the lower number first.
    up: BTreeMap<(NodeId, NodeId), u64>,
    /// The number of links so far.
    links: u64,
    /// Links that a node's new table does not list.
    closed: BTreeSet<(NodeId, NodeId)>,
    /// Directions with frames of a killed process under way. The receiver learns of its end after them.
    dying: BTreeSet<(NodeId, NodeId)>,
    planned_kills: BTreeMap<NodeId, PlannedKill>,
    /// Holds that their carts disowned, with the inventory and the millisecond of the run.
    disowned: BTreeMap<HoldId, (Entity, u64)>,
    /// The beginning of silence on established links, in milliseconds of the run.
    silent: BTreeMap<(NodeId, NodeId), u64>,
}

/// A kill that is due after some messages of a node.
struct PlannedKill {
    /// The kind of messages to count, or any.
    kind: Option<&'static str>,
    /// Messages before the last one.
    left: u64,
    /// The last message was sent. Later ones are dropped.
    is_due: bool,
    /// Wakes the task that kills the node.
    kill_is_due: Arc<Notify>,
}

/// A running process.
struct Endpoint {
    local: Local,
    inbox: Arc<dyn PeerInbox>,
    peers: BTreeSet<NodeId>,
    /// The events that wait while the process is paused.
    paused: Option<Vec<NetEvent>>,
}

/// An event for a process.
enum NetEvent {
    Frame(NodeId, Lane, Bytes),
    Link(NodeId, bool),
}

impl NetEvent {
    fn notify(self, inbox: &dyn PeerInbox) {
        match self {
            NetEvent::Frame(from, lane, frame) => inbox.frame(from, lane, frame),
            NetEvent::Link(node, up) => inbox.link(node, up),
        }
    }
}

/// Events to be delivered without the lock, in order.
type Notifications = Vec<(Arc<dyn PeerInbox>, NetEvent)>;

impl SimNetwork {
    pub(crate) fn new(trace: &Arc<Trace>, rng: SmallRng) -> SimNetwork {
        let state = State {
            link_model: LinkModel::default(),
            rng,
            nodes: BTreeMap::new(),
            up: BTreeMap::new(),
            links: 0,
            closed: BTreeSet::new(),
            dying: BTreeSet::new(),
            planned_kills: BTreeMap::new(),
            disowned: BTreeMap::new(),
            silent: BTreeMap::new(),
        };
        let (state, wakes_us) = (Mutex::new(state), AtomicU64::new(0));
        SimNetwork(Arc::new(Inner {
            fault_lock: tokio::sync::Mutex::default(),
            trace: Arc::clone(trace),
            state,
            sent: Notify::new(),
            wakes_us,
        }))
    }

    /// Held by the task that injects a fault into the links.
    pub(crate) fn fault_lock(&self) -> &tokio::sync::Mutex<()> {
        &self.0.fault_lock
    }

    /// The network as one node sees it.
    pub(crate) fn net(&self, node: NodeId) -> SimNet {
        SimNet { node, network: self.clone() }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut LinkModel) -> T) -> T {
        change(&mut self.0.state.lock().link_model)
    }

    pub(crate) fn set_link_faults(&self, link_faults: LinkFaults) {
        self.change(|link_model| link_model.set_link_faults(link_faults));
    }

    /// Ends a process with its links and all frames under way.
    pub(crate) fn end(&self, node: NodeId) {
        let notifications = {
            let mut state = self.0.state.lock();
            state.nodes.remove(&node);
            state.planned_kills.remove(&node);
            state.link_model.end(node);
            state.dying.retain(|&(_, to)| to != node);
            let gone: Vec<_> = state.up.keys().copied().filter(|&(one, other)| one == node || other == node).collect();
            gone.into_iter().flat_map(|link| state.down(link)).collect()
        };
        notify(notifications);
    }

    /// Ends a killed process. Its sent frames arrive, because the kernel has them, and then its links end.
    pub(crate) fn end_of_process(&self, node: NodeId) {
        {
            let mut state = self.0.state.lock();
            state.nodes.remove(&node);
            state.planned_kills.remove(&node);
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

    /// Plans a kill after `left` more messages of this kind, or of any. Wait for [`SimNetwork::kill_is_due`].
    pub(crate) fn plan_kill(&self, node: NodeId, kind: Option<&'static str>, left: u64) {
        let planned = PlannedKill { kind, left, is_due: false, kill_is_due: Arc::new(Notify::new()) };
        self.0.state.lock().planned_kills.insert(node, planned);
    }

    /// When a cart disowned this hold towards an inventory, in milliseconds of the run.
    pub(crate) fn disowned_ms(&self, hold: HoldId, of: &Entity) -> Option<u64> {
        self.0.state.lock().disowned.get(&hold).filter(|(entity, _)| entity == of).map(|(_, at_ms)| *at_ms)
    }

    /// Whether a cart has disowned any hold.
    pub(crate) fn disowns(&self, cart: CartId) -> bool {
        let of = |request, part, attempt| HoldId { cart, request: RequestHash(request), part, attempt };
        let (first, last) = (of(0, 0, 0), of(u64::MAX, u16::MAX, u16::MAX));
        self.0.state.lock().disowned.range(first..=last).next().is_some()
    }

    /// Cancels a planned kill, and returns whether it was due.
    pub(crate) fn cancel_kill(&self, node: NodeId) -> bool {
        self.0.state.lock().planned_kills.remove(&node).is_some_and(|planned| planned.is_due)
    }

    /// Resolves when a planned kill is due.
    pub(crate) async fn kill_is_due(&self, node: NodeId) {
        let due = self.0.state.lock().planned_kills.get(&node).map(|planned| Arc::clone(&planned.kill_is_due));
        match due {
            Some(kill_is_due) => kill_is_due.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Pauses a process. It sends nothing, and events for it wait.
    pub(crate) fn pause(&self, node: NodeId) {
        if let Some(endpoint) = self.0.state.lock().nodes.get_mut(&node) {
            endpoint.paused.get_or_insert_default();
        }
    }

    /// Delivers the waiting events of a process and ends its pause.
    pub(crate) fn resume(&self, node: NodeId) {
        let notifications: Notifications = {
            let mut state = self.0.state.lock();
            let Some(endpoint) = state.nodes.get_mut(&node) else { return };
            let inbox = Arc::clone(&endpoint.inbox);
            endpoint.paused.take().into_iter().flatten().map(|event| (Arc::clone(&inbox), event)).collect()
        };
        notify(notifications);
    }

    /// Delivers frames and updates links until it is dropped.
    pub(crate) async fn run(self) {
        let mut update_ms = 0;
        loop {
            let now_us = self.0.trace.begun().elapsed().as_micros() as u64;
            let notifications = {
                let mut state = self.0.state.lock();
                let mut notifications = Notifications::new();
                for delivery in state.link_model.arrived(now_us) {
                    state.arrive(delivery, &mut notifications);
                }
                state.report_ended_processes(&mut notifications);
                if now_us / 1_000 >= update_ms {
                    update_ms = now_us / 1_000 + UPDATE_MS;
                    state.update_links(now_us / 1_000, &mut notifications);
                }
                notifications
            };
            for (_, event) in &notifications {
                if let NetEvent::Link(node, up) = event {
                    self.0.trace.note(&format!("link to {node}: {}", if *up { "up" } else { "down" }));
                }
            }
            notify(notifications);
            // The delivered events may have caused new frames.
            let next_us = self.0.state.lock().link_model.next_us().unwrap_or(u64::MAX).min(update_ms * 1_000);
            self.0.wakes_us.store(next_us, Ordering::Relaxed);
            let wait = Duration::from_micros(next_us.saturating_sub(now_us).max(1));
            tokio::select! {
                biased;
                () = self.0.sent.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }
}

fn frame_info_if(lane: Lane, frame: &[u8]) -> Option<FrameInfo> {
    matches!(lane, Lane::Calls).then(|| frame_info(frame)).flatten()
}

fn notify(notifications: Notifications) {
    for (inbox, event) in notifications {
        event.notify(&*inbox);
    }
}

fn link(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl State {
    fn arrive(&mut self, Delivery { from, to, lane, frame }: Delivery, notifications: &mut Notifications) {
        if !self.up.contains_key(&link(from, to)) && !self.dying.contains(&(from, to)) {
            return;
        }
        self.deliver(to, NetEvent::Frame(from, LANES[usize::from(lane)], frame), notifications);
    }

    /// Reports the end of killed processes to peers that have received their last frames.
    fn report_ended_processes(&mut self, notifications: &mut Notifications) {
        let ended: Vec<_> =
            self.dying.iter().copied().filter(|&(from, to)| !self.link_model.is_under_way(from, to)).collect();
        for (from, to) in ended {
            self.dying.remove(&(from, to));
            self.deliver(to, NetEvent::Link(from, false), notifications);
        }
    }

    fn deliver(&mut self, node: NodeId, event: NetEvent, notifications: &mut Notifications) {
        let Some(endpoint) = self.nodes.get_mut(&node) else { return };
        match &mut endpoint.paused {
            Some(waiting) => waiting.push(event),
            None => notifications.push((Arc::clone(&endpoint.inbox), event)),
        }
    }

    /// Loses a link with all frames under way, and reports it to both nodes.
    fn down(&mut self, (one, other): (NodeId, NodeId)) -> Notifications {
        let mut notifications = Notifications::new();
        if self.up.remove(&(one, other)).is_some() {
            for (from, to) in [(one, other), (other, one)] {
                self.link_model.drain(from, to);
                self.deliver(to, NetEvent::Link(from, false), &mut notifications);
            }
        }
        self.silent.remove(&(one, other));
        notifications
    }

    /// Whether frames pass both ways.
    fn is_connected(&self, (one, other): (NodeId, NodeId)) -> bool {
        let paused = |node| self.nodes.get(&node).is_none_or(|endpoint: &Endpoint| endpoint.paused.is_some());
        self.link_model.is_open(one, other) && self.link_model.is_open(other, one) && !paused(one) && !paused(other)
    }

    fn update_links(&mut self, now_ms: u64, notifications: &mut Notifications) {
        let numbers: Vec<NodeId> = self.nodes.keys().copied().collect();
        let pairs = numbers
            .iter()
            .enumerate()
            .flat_map(|(place, &one)| numbers[place + 1..].iter().map(move |&other| (one, other)));
        let pairs: Vec<_> = pairs.collect();
        for pair in pairs {
            // A node that no table lists is not dialed.
            let knows = |one: NodeId, other| self.nodes[&one].peers.contains(&other);
            let wanted = knows(pair.0, pair.1) || knows(pair.1, pair.0);
            let connected = self.is_connected(pair);
            let closed = self.closed.remove(&pair);
            match (self.up.contains_key(&pair), wanted && !closed, connected) {
                (true, false, _) => notifications.extend(self.down(pair)),
                (true, true, true) => _ = self.silent.remove(&pair),
                (true, true, false) => {
                    let since_ms = *self.silent.entry(pair).or_insert(now_ms);
                    // A connection loses nothing in the middle, so a cut ends it sooner or later.
                    let is_cut = !self.link_model.is_open(pair.0, pair.1) || !self.link_model.is_open(pair.1, pair.0);
                    if now_ms - since_ms >= SILENCE_MS || (is_cut && now_ms > since_ms) {
                        notifications.extend(self.down(pair));
                    }
                }
                (false, true, true) if self.is_end_reported(pair) && self.agree(pair) => {
                    self.links += 1;
                    self.up.insert(pair, self.links);
                    self.deliver(pair.0, NetEvent::Link(pair.1, true), notifications);
                    self.deliver(pair.1, NetEvent::Link(pair.0, true), notifications);
                }
                (false, ..) => {}
            }
        }
    }

    /// Whether the end of both earlier processes was reported.
    fn is_end_reported(&self, (one, other): (NodeId, NodeId)) -> bool {
        !self.dying.contains(&(one, other)) && !self.dying.contains(&(other, one))
    }

    /// Whether both nodes admit each other.
    fn agree(&self, (one, other): (NodeId, NodeId)) -> bool {
        let takes = |endpoint: &Endpoint, other: &Endpoint| {
            let Local { cluster, node, disk } = other.local;
            let (version, program, table) = (1, "simulated".into(), other.inbox.table());
            let durable_position = other.inbox.durable_position();
            let versions = other.inbox.versions();
            let hello = PeerHello { cluster, node, disk, version, program, table, durable_position, versions };
            match endpoint.inbox.admit(&hello) {
                // The operator stops a removed node.
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

/// The network as one node sees it.
pub(crate) struct SimNet {
    node: NodeId,
    network: SimNetwork,
}

impl Net for SimNet {
    fn start(&self, local: Local, inbox: Arc<dyn PeerInbox>, _: Option<&Handle>) {
        assert_eq!(local.node, self.node, "a node starts as another one");
        let endpoint = Endpoint { local, inbox, peers: BTreeSet::new(), paused: None };
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
        if state.planned_kills.get(&self.node).is_some_and(|planned| planned.is_due) {
            return Ok(connection);
        }
        if let Some(FrameInfo { kind, disowned }) = frame_info_if(lane, &frame) {
            if let Some((to, hold)) = disowned {
                state.disowned.entry(hold).or_insert((to, now_us / 1_000));
            }
            let planned = state.planned_kills.get_mut(&self.node);
            if let Some(planned) = planned.filter(|planned| planned.kind.is_none_or(|of| of == kind)) {
                planned.is_due = planned.left == 0;
                planned.left = planned.left.saturating_sub(1);
                if planned.is_due {
                    planned.kill_is_due.notify_one();
                }
            }
        }
        frame_capture::frame(lane, &frame);
        let State { link_model, rng, .. } = &mut *state;
        link_model.send(rng, now_us, Delivery { from: self.node, to, lane: lane as u8, frame });
        let next_us = link_model.next_us();
        drop(state);
        if next_us.is_some_and(|next_us| next_us < self.network.0.wakes_us.load(Ordering::Relaxed)) {
            self.network.0.sent.notify_one();
        }
        Ok(connection)
    }

    fn damaged(&self) -> u64 {
        // Damaged frames are tested over real sockets.
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
