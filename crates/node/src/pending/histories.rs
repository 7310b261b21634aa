//! Histories that are read at other nodes, of entities whose shard has no replica here, or whose replica here is younger than
//! they are. There is no timeout. An answer is awaited as long as the link to the other node stands, or until the caller
//! gives up.

use std::collections::BTreeMap;

use boxoffice_env::{Lane, World};
use boxoffice_shard::NodeId;
use tokio::sync::oneshot;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    history_query::{HistoryPart, HistoryQuery, NoHistory},
    message::Message,
};

/// Pending queries. Further callers hear `busy`.
const WAITING_MAX: usize = 64;

/// The answer of another node.
type HistoryReply = Result<HistoryPart, NoHistory>;

/// Callers that wait for another node's history.
#[derive(Default)]
pub(crate) struct PendingHistories(Mutex<BTreeMap<u64, (NodeId, oneshot::Sender<HistoryReply>)>>);

impl PendingHistories {
    /// Asks another node, and waits for its answer.
    pub(crate) async fn ask(&self, world: &World, node: NodeId, query: HistoryQuery<'_>) -> HistoryReply {
        let tag = world.rng.u64();
        let (answered, tells) = oneshot::channel();
        {
            let mut waiting = self.0.lock();
            if waiting.len() >= WAITING_MAX {
                return Err(NoHistory::Busy);
            }
            waiting.insert(tag, (node, answered));
        }
        let _waits = Waits { histories: self, tag };
        let message = Message::History { tag, query }.encode();
        world.net.send(node, Lane::Calls, message).map_err(|_| NoHistory::Elsewhere)?;
        tells.await.unwrap_or(Err(NoHistory::Elsewhere))
    }

    /// A node has answered.
    pub(crate) fn answered(&self, from: NodeId, tag: u64, answered: HistoryReply) {
        let mut waiting = self.0.lock();
        if waiting.get(&tag).is_some_and(|(node, _)| *node == from)
            && let Some((_, waits)) = waiting.remove(&tag)
        {
            // The caller may have given up.
            let _ = waits.send(answered);
        }
    }

    /// A node is lost. Its pending queries are asked elsewhere.
    pub(crate) fn lost(&self, node: NodeId) {
        self.0.lock().retain(|_, (at, _)| *at != node);
    }
}

/// A waiting caller. It is removed when it gives up.
struct Waits<'a> {
    histories: &'a PendingHistories,
    tag: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.histories.0.lock().remove(&self.tag);
    }
}
