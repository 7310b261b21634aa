//! The history of an entity, wherever it is.

use std::borrow::Cow;

use boxoffice_core::{id::Entity, seat::Seat};

pub use crate::history_query::{HISTORY_MAX, HistoryEntry, HistoryError, HistoryPart};
use crate::{
    history_query::{HistoryQuery, NoHistory},
    history_reader::read_here,
    message::Message,
    node::NodeHandle,
};

impl NodeHandle {
    /// The last events of an entity with versions before `before` (`None`: up to now), oldest first, at most `limit` and at
    /// most [`HISTORY_MAX`]. Empty if there is no such entity, or if everything before is gone from the archives.
    ///
    /// It reads backwards from now, so the further back, the longer it takes. Each segment of the log that has something of the
    /// entity takes a tenth of a second, others far less.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub async fn history(
        &self,
        entity: &Entity,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>, HistoryError> {
        self.history_of(entity, None, limit, before).await.map(|found| found.entries)
    }

    /// The same for one seat, if one is named, with the oldest version that was read. Other nodes are asked for the part that
    /// this node lacks, because the shard has no replica here or a young one.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub async fn history_of(
        &self,
        entity: &Entity,
        seat: Option<Seat>,
        limit: usize,
        before: Option<u64>,
    ) -> Result<HistoryPart, HistoryError> {
        let shared = &self.shared;
        let (limit, before) = (limit.min(HISTORY_MAX), before.unwrap_or(u64::MAX));
        let query = |limit: usize, before| HistoryQuery {
            entity: Cow::Owned(entity.clone()),
            seat,
            limit: u32::try_from(limit).expect("at most a thousand"),
            before,
        };
        let mut found = match shared.is_elsewhere(entity) {
            true => Err(HistoryError::Elsewhere),
            false => match read_here(shared, query(limit, before)).await {
                // Another replica can.
                Err(error @ HistoryError::Store(_)) if !shared.is_alone() => Err(error),
                read => Ok(read?),
            },
        };
        if shared.is_alone() {
            return found;
        }
        let replica_nodes = shared.lead_of(entity).leader_hint.lock().replica_nodes.clone();
        for node in replica_nodes {
            if found.as_ref().is_ok_and(HistoryPart::is_whole) {
                break;
            }
            let (had, upto) = found.as_ref().map_or((0, before), |found| match found.version {
                0 => (0, before),
                _ => (found.entries.len(), before.min(found.from)),
            });
            let ask = |tag| Message::History { tag, query: query(limit - had, upto) };
            let older = shared.remote_histories.ask(&shared.world, node, ask).await;
            found = match (found, older) {
                (Ok(found), Ok(older)) => Ok(found.on(older)),
                (Err(_), Ok(older)) => Ok(older),
                (found @ (Ok(_) | Err(HistoryError::Other { .. })), Err(_)) => found,
                (Err(_), Err(NoHistory::Broken(why))) => Err(HistoryError::Other { node, why }),
                (Err(_), Err(NoHistory::Busy)) => Err(HistoryError::Busy),
                (Err(error), Err(NoHistory::Elsewhere)) => Err(error),
            };
        }
        found
    }
}
