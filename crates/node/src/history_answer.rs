//! The history of an entity, for another node.

use std::sync::Arc;

use boxoffice_env::Lane;
use boxoffice_shard::NodeId;

use crate::{
    history_query::{HistoryError, HistoryPart, HistoryQuery, NoHistory},
    history_reader::read_here,
    message::Message,
    shared::Shared,
};

/// Answers another node with the history that is here.
pub(crate) fn answer(shared: &Arc<Shared>, from: NodeId, tag: u64, query: HistoryQuery<'static>) {
    if shared.is_elsewhere(&query.entity) {
        return reply(shared, from, tag, Err(NoHistory::Elsewhere));
    }
    // Checked before it becomes a task, so that there are no more tasks than histories read at a time.
    if shared.histories.available_permits() == 0 {
        return reply(shared, from, tag, Err(NoHistory::Busy));
    }
    let at = Arc::clone(shared);
    shared.tasks.sell(async move {
        let found = read_here(&at, query).await.map_err(|error| match error {
            HistoryError::Busy => NoHistory::Busy,
            HistoryError::Down | HistoryError::Elsewhere => NoHistory::Elsewhere,
            error @ (HistoryError::Log(_)
            | HistoryError::Archive(_)
            | HistoryError::Store(_)
            | HistoryError::Undecodable(_)
            | HistoryError::Other { .. }) => NoHistory::Broken(error.to_string()),
        });
        reply(&at, from, tag, found);
    });
}

fn reply(shared: &Shared, to: NodeId, tag: u64, found: Result<HistoryPart, NoHistory>) {
    let send = |result: Result<HistoryPart, NoHistory>| {
        shared.world.net.send(to, Lane::Calls, Message::HistoryReply { tag, result }.encode())
    };
    if let Err(why) = send(found) {
        // It is too long for a frame, or there is no room. If the link is lost, the other node knows.
        let _ = send(Err(NoHistory::Broken(why.to_string())));
    }
}
