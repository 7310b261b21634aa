//! The history of an entity, for another node.

use std::sync::Arc;

use boxoffice_env::Lane;
use boxoffice_shard::NodeId;

use crate::{
    found::{HistoryError, HistoryFound, NoHistory, Wanted},
    history_reader::read_here,
    message::Message,
    shared::Shared,
};

/// Another node asks what is here.
pub(crate) fn answer(shared: &Arc<Shared>, from: NodeId, tag: u64, wanted: Wanted<'static>) {
    if shared.is_elsewhere(&wanted.entity) {
        return tell(shared, from, tag, Err(NoHistory::Elsewhere));
    }
    // Before it is a task: there are no more of them than are read at a time.
    if shared.histories.available_permits() == 0 {
        return tell(shared, from, tag, Err(NoHistory::Busy));
    }
    let at = Arc::clone(shared);
    shared.tasks.sell(async move {
        let found = read_here(&at, wanted).await.map_err(|error| match error {
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

fn tell(shared: &Shared, to: NodeId, tag: u64, found: Result<HistoryFound, NoHistory>) {
    let send = |result: Result<HistoryFound, NoHistory>| {
        shared.world.net.send(to, Lane::Calls, Message::Told { tag, result }.encode())
    };
    if let Err(why) = send(found) {
        // Too long for a frame, or no room; if the link is lost the other node knows.
        let _ = send(Err(NoHistory::Broken(why.to_string())));
    }
}
