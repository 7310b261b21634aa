//! Histories that are read at other nodes: of entities whose shard has no replica here, or whose replica here is younger than
//! they are. No clocks: an answer is waited for as long as the link to the other node stands, or until the caller gives up.

use std::collections::BTreeMap;

use boxoffice_env::{Lane, World};
use boxoffice_shard::NodeId;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    found::{HistoryFound, NoHistory, Wanted},
    message::Message,
};

/// Histories that are waited for; beyond this a caller hears `busy`.
const WAITING_MAX: usize = 64;

/// What comes back from another node.
type Told = Result<HistoryFound, NoHistory>;

/// Who waits for what another node finds.
#[derive(Default)]
pub(crate) struct Histories(Mutex<BTreeMap<u64, (NodeId, oneshot::Sender<Told>)>>);

impl Histories {
    /// Asks another node, and waits for what it finds.
    pub(crate) async fn ask(&self, world: &World, node: NodeId, wanted: Wanted<'_>) -> Told {
        let tag = world.rng.u64();
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
        world.net.send(node, Lane::Calls, message).map_err(|_| NoHistory::Elsewhere)?;
        tells.await.unwrap_or(Err(NoHistory::Elsewhere))
    }

    /// A node tells what it found.
    pub(crate) fn told(&self, from: NodeId, tag: u64, told: Told) {
        let mut waiting = self.0.lock();
        if waiting.get(&tag).is_some_and(|(node, _)| *node == from)
            && let Some((_, waits)) = waiting.remove(&tag)
        {
            // Who gave up does not mind.
            let _ = waits.send(told);
        }
    }

    /// A node is lost: what it was asked is asked elsewhere.
    pub(crate) fn lost(&self, node: NodeId) {
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
