//! Histories and states of the past that are read at other nodes, of entities whose shard has no replica here, or whose replica here is younger than
//! they are. There is no timeout. An answer is awaited as long as the link to the other node stands, or until the caller
//! gives up.

use std::collections::BTreeMap;

use boxoffice_env::{Lane, World};
use boxoffice_shard::NodeId;
use tokio::sync::oneshot;
use tracing_mutex::parkinglot::Mutex;

use crate::{history_query::NoHistory, message::Message};

/// Pending queries. Further callers hear `busy`.
const WAITING_MAX: usize = 64;

/// The answer of another node.
type ReadReply<T> = Result<T, NoHistory>;

/// Callers that wait for what another node reads.
pub(crate) struct PendingReads<T>(Mutex<Waiting<T>>);

/// By tag: the node that was asked, and who waits.
type Waiting<T> = BTreeMap<u64, (NodeId, oneshot::Sender<ReadReply<T>>)>;

impl<T> Default for PendingReads<T> {
    fn default() -> PendingReads<T> {
        PendingReads(Mutex::default())
    }
}

impl<T> PendingReads<T> {
    /// Asks another node with the message of a tag, and waits for its answer.
    pub(crate) async fn ask(
        &self,
        world: &World,
        node: NodeId,
        message: impl FnOnce(u64) -> Message<'static>,
    ) -> ReadReply<T> {
        let tag = world.rng.u64();
        let (answered, tells) = oneshot::channel();
        {
            let mut waiting = self.0.lock();
            if waiting.len() >= WAITING_MAX {
                return Err(NoHistory::Busy);
            }
            waiting.insert(tag, (node, answered));
        }
        let _waits = Waits { reads: self, tag };
        world.net.send(node, Lane::Calls, message(tag).encode()).map_err(|_| NoHistory::Elsewhere)?;
        tells.await.unwrap_or(Err(NoHistory::Elsewhere))
    }

    /// A node has answered.
    pub(crate) fn answered(&self, from: NodeId, tag: u64, answered: ReadReply<T>) {
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
struct Waits<'a, T> {
    reads: &'a PendingReads<T>,
    tag: u64,
}

impl<T> Drop for Waits<'_, T> {
    fn drop(&mut self) {
        self.reads.0.lock().remove(&self.tag);
    }
}
