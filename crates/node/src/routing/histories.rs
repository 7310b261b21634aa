//! Histories that are read at other nodes: of entities whose shard has no replica here, or whose replica here is younger than
//! they are. No clocks: an answer is waited for as long as the link to the other node stands, or until nobody wants it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use boxoffice_core::{id::Entity, seat::Seat};
use boxoffice_env::Lane;
use boxoffice_shard::NodeId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Message;
use crate::{
    history::{self, HistoryError, HistoryFound},
    shared::Shared,
};

/// Histories that are waited for; beyond this whoever asks hears `busy`.
const WAITING_MAX: usize = 64;

/// What is asked for, wherever it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted<'a> {
    /// Of which entity.
    pub(crate) entity: Cow<'a, Entity>,
    /// Only what changed this seat.
    pub(crate) seat: Option<Seat>,
    /// At most so many events.
    pub(crate) limit: u32,
    /// Only what is older than this version.
    pub(crate) before: u64,
}

/// Why another node has no history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NoHistory {
    /// It has no replica of the shard, or is lost.
    Elsewhere,
    /// It reads others.
    Busy,
    /// Something there cannot be read: its own words.
    Broken(String),
}

/// What comes back from another node.
type Told = Result<HistoryFound, NoHistory>;

/// Who waits for what another node finds.
#[derive(Default)]
pub(crate) struct Histories(Mutex<BTreeMap<u64, (NodeId, oneshot::Sender<Told>)>>);

impl Histories {
    /// Asks another node, and waits for what it finds.
    pub(crate) async fn ask(&self, shared: &Shared, node: NodeId, wanted: Wanted<'_>) -> Told {
        let tag = shared.world.rng.u64();
        let (told, tells) = oneshot::channel();
        {
            let mut waiting = self.0.lock();
            if waiting.len() >= WAITING_MAX {
                return Err(NoHistory::Busy);
            }
            waiting.insert(tag, (node, told));
        }
        let _waits = Waits { histories: self, tag };
        let message = Message::History { tag, wanted }.encode();
        shared.world.net.send(node, Lane::Calls, message).map_err(|_| NoHistory::Elsewhere)?;
        tells.await.unwrap_or(Err(NoHistory::Elsewhere))
    }

    /// A node tells what it found.
    pub(super) fn told(&self, from: NodeId, tag: u64, told: Told) {
        let mut waiting = self.0.lock();
        if waiting.get(&tag).is_some_and(|(node, _)| *node == from)
            && let Some((_, waits)) = waiting.remove(&tag)
        {
            // Who gave up does not mind.
            let _ = waits.send(told);
        }
    }

    /// A node is lost: what it was asked is asked elsewhere.
    pub(super) fn lost(&self, node: NodeId) {
        self.0.lock().retain(|_, (at, _)| *at != node);
    }
}

/// One who waits; it is forgotten when it gives up.
struct Waits<'a> {
    histories: &'a Histories,
    tag: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.histories.0.lock().remove(&self.tag);
    }
}

/// Another node asks what is here.
pub(super) fn answer(shared: &Arc<Shared>, from: NodeId, tag: u64, wanted: Wanted<'static>) {
    if shared.is_elsewhere(&wanted.entity) {
        return tell(shared, from, tag, Err(NoHistory::Elsewhere));
    }
    // Before it is a task: there are no more of them than are read at a time.
    if shared.histories.available_permits() == 0 {
        return tell(shared, from, tag, Err(NoHistory::Busy));
    }
    let at = Arc::clone(shared);
    shared.tasks.sell(async move {
        let found = history::read_here(&at, wanted).await.map_err(|error| match error {
            HistoryError::Busy => NoHistory::Busy,
            HistoryError::Down | HistoryError::Elsewhere => NoHistory::Elsewhere,
            error @ (HistoryError::Log(_)
            | HistoryError::Archive(_)
            | HistoryError::Store(_)
            | HistoryError::Undecodable(_)
            | HistoryError::Other { .. }) => NoHistory::Broken(error.to_string()),
        });
        tell(&at, from, tag, found);
    });
}

fn tell(shared: &Shared, to: NodeId, tag: u64, found: Told) {
    let send = |result: Told| shared.world.net.send(to, Lane::Calls, Message::Told { tag, result }.encode());
    if let Err(why) = send(found) {
        // Too long for a frame, or no room; if the link is lost the other node knows.
        let _ = send(Err(NoHistory::Broken(why.to_string())));
    }
}
