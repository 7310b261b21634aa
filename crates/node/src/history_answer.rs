//! Histories and states of the past, for another node.

use std::sync::Arc;

use boxoffice_core::id::Entity;
use boxoffice_env::Lane;
use boxoffice_shard::NodeId;

use crate::{
    as_of_query::AsOfQuery,
    as_of_reader,
    history_query::{HistoryError, HistoryQuery, NoHistory},
    history_reader,
    message::Message,
    shared::Shared,
};

/// Answers another node with the history that is here.
pub(crate) fn history(shared: &Arc<Shared>, from: NodeId, tag: u64, query: HistoryQuery<'static>) {
    let (entity, at) = (query.entity.clone().into_owned(), Arc::clone(shared));
    let read = async move { history_reader::read_here(&at, query).await };
    answer(shared, from, &entity, read, move |result| Message::HistoryReply { tag, result });
}

/// Answers another node with the state that an entity had, as far as it is known here.
pub(crate) fn as_of(shared: &Arc<Shared>, from: NodeId, tag: u64, query: AsOfQuery<'static>) {
    let (entity, at) = (query.entity.clone().into_owned(), Arc::clone(shared));
    let read = async move { as_of_reader::read_here(&at, query).await };
    answer(shared, from, &entity, read, move |result| Message::AsOfReply { tag, result });
}

fn answer<T: Send + 'static>(
    shared: &Arc<Shared>,
    from: NodeId,
    entity: &Entity,
    read: impl Future<Output = Result<T, HistoryError>> + Send + 'static,
    message: impl Fn(Result<T, NoHistory>) -> Message<'static> + Send + 'static,
) {
    // Checked before it becomes a task, so that there are no more tasks than histories read at a time.
    let refused = match shared.is_elsewhere(entity) {
        true => Some(NoHistory::Elsewhere),
        false => (shared.histories.available_permits() == 0).then_some(NoHistory::Busy),
    };
    if let Some(why) = refused {
        return reply(shared, from, Err(why), &message);
    }
    let at = Arc::clone(shared);
    shared.tasks.sell(async move { reply(&at, from, read.await.map_err(NoHistory::from), &message) });
}

fn reply<T>(
    shared: &Shared,
    to: NodeId,
    found: Result<T, NoHistory>,
    message: &impl Fn(Result<T, NoHistory>) -> Message<'static>,
) {
    let send = |result| shared.world.net.send(to, Lane::Calls, message(result).encode());
    if let Err(why) = send(found) {
        // It is too long for a frame, or there is no room. If the link is lost, the other node knows.
        let _ = send(Err(NoHistory::Broken(why.to_string())));
    }
}
