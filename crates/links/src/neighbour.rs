//! Another node, as this one deals with it: its place in the table, and the connections that stand.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use boxoffice_env::{Clock, Lane, LinkStatus, NodeId, NotSent, PeerInbox};
use bytes::Bytes;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::watch;

use super::{
    counts::Counts,
    link::Connection,
    queues::{Pushed, Road},
    refusal::{Failure, Refusal},
};

/// Kept for as long as this node runs, also when the other leaves the table, so that what is told of it stays in order.
pub(super) struct Neighbour {
    pub(super) node: NodeId,
    clock: Arc<dyn Clock>,
    roads: Mutex<[Option<Arc<Connection>>; 2]>,
    standing: watch::Sender<Standing>,
    notes: Mutex<Notes>,
    pub(super) counts: Counts,
}

/// What decides whether it is dialed and what is told of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// It is in the table, and dialed.
    pub(super) member: bool,
    /// It may be linked with although it is not in the table.
    guest: bool,
    /// By [`Road::index`]: its connection stands.
    pub(super) stands: [bool; 2],
    /// Connections that were lost.
    losses: u64,
    /// Since when it is up or down, by the wall clock.
    since_ms: u64,
}

impl Standing {
    pub(super) fn is_up(&self) -> bool {
        self.stands == [true, true]
    }
}

#[derive(Default)]
struct Notes {
    address: String,
    program: Option<SmolStr>,
    last_error: Option<String>,
    /// The words of the refusal that the last dial ended with, if it was one.
    refused: Option<String>,
}

impl Neighbour {
    pub(super) fn new(node: NodeId, clock: Arc<dyn Clock>) -> Neighbour {
        let standing = Standing { since_ms: clock.wall_ms(), ..Standing::default() };
        Neighbour {
            node,
            clock,
            roads: Mutex::default(),
            standing: watch::Sender::new(standing),
            notes: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// It is in the table, at this address. A link that stands is not touched by a new one.
    pub(super) fn enter(&self, address: &str) {
        address.clone_into(&mut self.notes.lock().address);
        self.standing.send_if_modified(|standing| !std::mem::replace(&mut standing.member, true));
    }

    /// It may link with this node although it is not in the table.
    pub(super) fn welcome(&self) {
        self.standing.send_if_modified(|standing| !std::mem::replace(&mut standing.guest, true));
    }

    /// It is no longer to be linked with.
    pub(super) fn leave(&self, why: &str) {
        let mut roads = self.roads.lock();
        self.standing.send_if_modified(|standing| {
            let before = standing.member || standing.guest;
            (standing.member, standing.guest) = (false, false);
            before
        });
        for road in Road::BOTH {
            self.take_out(&mut roads, road, why);
        }
    }

    pub(super) fn is_member(&self) -> bool {
        self.standing.borrow().member
    }

    fn may_stand(&self) -> bool {
        let standing = self.standing.borrow();
        standing.member || standing.guest
    }

    pub(super) fn address(&self) -> String {
        self.notes.lock().address.clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Makes this verified connection the one of its road. An older one is closed: the other side has given it up, whatever
    /// it looks like from here. Only when both sides dialed each other at once does the older one stay if the node with the
    /// smaller number dialed it; the other side decides the same way, so that they keep the same one.
    ///
    /// # Errors
    /// [`Refusal`] if it may not stand.
    pub(super) fn install(&self, new: Arc<Connection>, program: SmolStr) -> Result<(), Refusal> {
        let mut roads = self.roads.lock();
        if !self.may_stand() {
            return Err(Refusal::NotInTable { node: self.node });
        }
        let road = new.road;
        if let Some(old) = &roads[road.index()]
            && old.life == new.life
            && old.dialer < new.dialer
        {
            return Err(Refusal::Linked { by: old.dialer });
        }
        self.take_out(&mut roads, road, "the other node made a new one");
        let other = Road::BOTH[1 - road.index()];
        if roads[other.index()].as_ref().is_some_and(|old| old.life != new.life) {
            self.take_out(&mut roads, other, "the other node began anew");
        }
        roads[road.index()] = Some(new);
        self.notes.lock().program = Some(program);
        self.stand(|standing| standing.stands[road.index()] = true);
        Ok(())
    }

    /// A connection has ended.
    pub(super) fn lost(&self, connection: &Arc<Connection>, why: &str) {
        let mut roads = self.roads.lock();
        let road = connection.road;
        if roads[road.index()].as_ref().is_some_and(|standing| Arc::ptr_eq(standing, connection)) {
            self.take_out(&mut roads, road, why);
            self.notes.lock().last_error = Some(why.to_owned());
        }
    }

    fn take_out(&self, roads: &mut [Option<Arc<Connection>>; 2], road: Road, why: &str) {
        let Some(old) = roads[road.index()].take() else { return };
        self.counts.dropped.fetch_add(old.close(), Relaxed);
        if self.may_stand() {
            tracing::warn!(node = self.node, ?road, why, "a connection to another node is over");
        } else {
            tracing::info!(node = self.node, ?road, why, "left another node");
        }
        self.notes.lock().refused = None;
        self.stand(|standing| {
            standing.stands[road.index()] = false;
            standing.losses += 1;
        });
    }

    fn stand(&self, change: impl FnOnce(&mut Standing)) {
        self.standing.send_modify(|standing| {
            let before = standing.is_up();
            change(standing);
            if standing.is_up() != before {
                standing.since_ms = self.clock.wall_ms();
            }
        });
    }

    /// Keeps what went wrong, and says it in the log unless it is what was said last.
    pub(super) fn note(&self, what: &str) {
        let mut notes = self.notes.lock();
        if notes.last_error.as_deref() != Some(what) {
            tracing::warn!(node = self.node, address = notes.address, "{what}");
            notes.last_error = Some(what.to_owned());
        }
    }

    /// A dial came to nothing.
    pub(super) fn failed(&self, failure: &Failure) {
        let address = self.address();
        self.note(&format!("{address}: {failure}"));
        self.notes.lock().refused = failure.refusal();
    }

    pub(super) fn send(&self, lane: Lane, frame: Bytes) -> Result<u64, NotSent> {
        let connection = self.roads.lock()[Road::of(lane).index()].clone();
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

    /// Tells the node of each time the link is up and each time it was lost, for as long as it runs.
    pub(super) async fn tell(&self, inbox: &dyn PeerInbox) {
        let mut watch = self.watch();
        // The losses there were when it was told to be up.
        let mut told_up = None;
        loop {
            let standing = *watch.borrow_and_update();
            if told_up.is_some_and(|losses| losses != standing.losses) {
                tracing::warn!(node = self.node, "the link to a node is lost");
                inbox.link(self.node, false);
                told_up = None;
            }
            if standing.is_up() && told_up.is_none() {
                tracing::info!(node = self.node, "a node is linked");
                inbox.link(self.node, true);
                told_up = Some(standing.losses);
            }
            if watch.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn status(&self) -> LinkStatus {
        let queued = self.roads.lock().iter().flatten().map(|connection| connection.queued()).sum();
        let standing = *self.standing.borrow();
        let notes = self.notes.lock();
        LinkStatus {
            node: self.node,
            address: notes.address.clone(),
            up: standing.is_up(),
            since_ms: standing.since_ms,
            program: notes.program.clone(),
            last_error: notes.last_error.clone(),
            refused: notes.refused.clone().filter(|_| !standing.stands.contains(&true)),
            frames_sent: self.counts.frames_sent.load(Relaxed),
            bytes_sent: self.counts.bytes_sent.load(Relaxed),
            frames_received: self.counts.frames_received.load(Relaxed),
            bytes_received: self.counts.bytes_received.load(Relaxed),
            dropped: self.counts.dropped.load(Relaxed),
            queued,
        }
    }
}
