//! Another node: whether it is listed in the table, and its connections.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use boxoffice_env::{Clock, Lane, LinkStatus, NodeId, NotSent, PeerInbox};
use bytes::Bytes;
use smol_str::SmolStr;
use tokio::sync::watch;
use tracing_mutex::parkinglot::Mutex;

use super::{
    counts::TrafficCounts,
    link::Connection,
    queues::{LinkKind, Pushed},
    refusal::{Failure, Refusal},
};

/// Another node. It is kept while this node runs, also when it leaves the table, so that reports about it stay in
/// order.
pub(super) struct Peer {
    pub(super) node: NodeId,
    clock: Arc<dyn Clock>,
    connections: Mutex<[Option<Arc<Connection>>; 2]>,
    state: watch::Sender<LinkState>,
    notes: Mutex<Notes>,
    pub(super) counts: TrafficCounts,
}

/// The state that decides whether a peer is dialed and what is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkState {
    /// The table lists it, and it is dialed.
    pub(super) listed: bool,
    /// It may link although the table does not list it.
    unlisted_allowed: bool,
    /// By [`LinkKind::index`].
    pub(super) connected: [bool; 2],
    /// Lost connections.
    losses: u64,
    /// Wall time of the last change between up and down.
    since_ms: u64,
}

impl LinkState {
    pub(super) fn is_up(&self) -> bool {
        self.connected == [true, true]
    }
}

#[derive(Default)]
struct Notes {
    address: String,
    program: Option<SmolStr>,
    last_error: Option<String>,
    /// The reason of the refusal that ended the last dial.
    refused: Option<String>,
}

impl Peer {
    pub(super) fn new(node: NodeId, clock: Arc<dyn Clock>) -> Peer {
        let state = LinkState { since_ms: clock.wall_ms(), ..LinkState::default() };
        Peer {
            node,
            clock,
            connections: Mutex::default(),
            state: watch::Sender::new(state),
            notes: Mutex::default(),
            counts: TrafficCounts::default(),
        }
    }

    /// The table lists it with this address. A new address does not affect existing connections.
    pub(super) fn set_listed(&self, address: &str) {
        address.clone_into(&mut self.notes.lock().address);
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.listed, true));
    }

    /// Lets it link although the table does not list it.
    pub(super) fn allow_unlisted(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.unlisted_allowed, true));
    }

    /// Forbids links with it and closes its connections.
    pub(super) fn disallow(&self, why: &str) {
        let mut connections = self.connections.lock();
        self.state.send_if_modified(|state| {
            let before = state.listed || state.unlisted_allowed;
            (state.listed, state.unlisted_allowed) = (false, false);
            before
        });
        for link_kind in LinkKind::BOTH {
            self.remove(&mut connections, link_kind, why);
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.state.borrow().listed
    }

    fn is_allowed(&self) -> bool {
        let state = self.state.borrow();
        state.listed || state.unlisted_allowed
    }

    pub(super) fn address(&self) -> String {
        self.notes.lock().address.clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// Installs a verified connection and closes an older one, which the other side has given up even if it looks alive
    /// here. If both sides dialed at once, the connection that the smaller number dialed stays. Both sides decide
    /// alike.
    ///
    /// # Errors
    /// [`Refusal`] if the node is not allowed or the older connection stays.
    pub(super) fn install(&self, new: Arc<Connection>, program: SmolStr) -> Result<(), Refusal> {
        let mut connections = self.connections.lock();
        if !self.is_allowed() {
            return Err(Refusal::NotInTable { node: self.node });
        }
        let link_kind = new.link_kind;
        check_newer(connections[link_kind.index()].as_ref(), new.dialer, new.incarnation)?;
        self.remove(&mut connections, link_kind, "the other node made a new one");
        let other = LinkKind::BOTH[1 - link_kind.index()];
        if connections[other.index()].as_ref().is_some_and(|old| old.incarnation != new.incarnation) {
            self.remove(&mut connections, other, "the other node began anew");
        }
        connections[link_kind.index()] = Some(new);
        self.notes.lock().program = Some(program);
        self.update(|state| state.connected[link_kind.index()] = true);
        Ok(())
    }

    /// Whether [`Peer::install`] would refuse such a connection now because of an older one. The dialer is told so before it takes
    /// the connection for established.
    ///
    /// # Errors
    /// [`Refusal::Linked`] if the older connection stays.
    pub(super) fn check_new(&self, link_kind: LinkKind, dialer: NodeId, incarnation: u64) -> Result<(), Refusal> {
        check_newer(self.connections.lock()[link_kind.index()].as_ref(), dialer, incarnation)
    }

    /// Removes a connection that has ended, unless a newer one has replaced it.
    pub(super) fn on_lost(&self, connection: &Arc<Connection>, why: &str) {
        let mut connections = self.connections.lock();
        let link_kind = connection.link_kind;
        if connections[link_kind.index()].as_ref().is_some_and(|state| Arc::ptr_eq(state, connection)) {
            self.remove(&mut connections, link_kind, why);
            self.notes.lock().last_error = Some(why.to_owned());
        }
    }

    fn remove(&self, connections: &mut [Option<Arc<Connection>>; 2], link_kind: LinkKind, why: &str) {
        let Some(old) = connections[link_kind.index()].take() else { return };
        self.counts.dropped.fetch_add(old.close(), Relaxed);
        if self.is_allowed() {
            tracing::warn!(node = self.node, ?link_kind, why, "a connection to another node is over");
        } else {
            tracing::info!(node = self.node, ?link_kind, why, "left another node");
        }
        self.notes.lock().refused = None;
        self.update(|state| {
            state.connected[link_kind.index()] = false;
            state.losses += 1;
        });
    }

    fn update(&self, change: impl FnOnce(&mut LinkState)) {
        self.state.send_modify(|state| {
            let before = state.is_up();
            change(state);
            if state.is_up() != before {
                state.since_ms = self.clock.wall_ms();
            }
        });
    }

    /// Keeps an error, and logs it unless it is the last one again.
    pub(super) fn record_error(&self, what: &str) {
        let mut notes = self.notes.lock();
        if notes.last_error.as_deref() != Some(what) {
            tracing::warn!(node = self.node, address = notes.address, "{what}");
            notes.last_error = Some(what.to_owned());
        }
    }

    /// Records a failed dial.
    pub(super) fn dial_failed(&self, failure: &Failure) {
        let address = self.address();
        self.record_error(&format!("{address}: {failure}"));
        self.notes.lock().refused = failure.refusal();
    }

    /// Queues a frame for the peer. Returns the number of the connection that carries it.
    ///
    /// # Errors
    /// There is no link, or the lane is full. The frame is dropped.
    pub(super) fn send(&self, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        let connection = self.connections.lock()[LinkKind::of(lane).index()].clone();
        let Some(connection) = connection else { return Err(NotSent::Unreachable(self.node)) };
        match connection.push(lane, frame, &self.counts) {
            Pushed::Taken { .. } => Ok(connection.number),
            Pushed::Closed => Err(NotSent::Unreachable(self.node)),
            Pushed::Full => {
                self.counts.dropped.fetch_add(1, Relaxed);
                Err(NotSent::Full(self.node))
            }
        }
    }

    /// Reports to the node whenever the link is up or lost, until it is dropped.
    pub(super) async fn report_changes(&self, inbox: &dyn PeerInbox) {
        let mut watch = self.watch();
        // The number of losses when the link was reported as up.
        let mut announced_up = None;
        loop {
            let state = *watch.borrow_and_update();
            if announced_up.is_some_and(|losses| losses != state.losses) {
                tracing::warn!(node = self.node, "the link to a node is lost");
                inbox.link(self.node, false);
                announced_up = None;
            }
            if state.is_up() && announced_up.is_none() {
                tracing::info!(node = self.node, "a node is linked");
                inbox.link(self.node, true);
                announced_up = Some(state.losses);
            }
            if watch.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn status(&self) -> LinkStatus {
        let queued = self.connections.lock().iter().flatten().map(|connection| connection.queued()).sum();
        let state = *self.state.borrow();
        let notes = self.notes.lock();
        LinkStatus {
            node: self.node,
            address: notes.address.clone(),
            up: state.is_up(),
            since_ms: state.since_ms,
            program: notes.program.clone(),
            last_error: notes.last_error.clone(),
            refused: notes.refused.clone().filter(|_| !state.connected.contains(&true)),
            frames_sent: self.counts.frames_sent.load(Relaxed),
            bytes_sent: self.counts.bytes_sent.load(Relaxed),
            frames_received: self.counts.frames_received.load(Relaxed),
            bytes_received: self.counts.bytes_received.load(Relaxed),
            dropped: self.counts.dropped.load(Relaxed),
            queued,
        }
    }
}

/// Whether a connection of this dialer, with this process of the other node, takes the place of an older one.
fn check_newer(old: Option<&Arc<Connection>>, dialer: NodeId, incarnation: u64) -> Result<(), Refusal> {
    match old {
        Some(old) if old.incarnation == incarnation && old.dialer < dialer => Err(Refusal::Linked { by: old.dialer }),
        Some(_) | None => Ok(()),
    }
}
