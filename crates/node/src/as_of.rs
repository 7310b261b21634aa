//! An entity as it was at an instant, wherever that is known.

use std::{borrow::Cow, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::Answered,
    command::{Command, ProductCommand, ResourceCommand, SessionCommand},
    id::Entity,
    state_map::State,
    time::Timestamp,
    version::CHAINED,
};
use boxoffice_storage::snapshot;
use tokio::sync::oneshot;
use tracing_mutex::parkinglot::Mutex;

pub use crate::as_of_query::{AsOf, AsOfError};
use crate::{
    api::{self, Failure, ReplySink, ReplyTo},
    as_of_query::{AsOfQuery, StoredState, Then},
    as_of_reader::read_here,
    history_query::{HistoryError, NoHistory},
    message::Message,
    node::NodeHandle,
};

/// How long an instant must have passed, in milliseconds. Until then a leader whose clock is behind may still decide something before
/// it. Leaders whose clocks differ by more lead nothing.
const PASSED_MS: u64 = 1_000;

impl NodeHandle {
    /// A session, product or resource as it was at an instant. Everything is in it that was decided until then, and nothing that was
    /// decided later. An instant that has just passed is answered a second after it. Other nodes are asked if this one does not reach
    /// so far back.
    ///
    /// The further back, the longer it takes: the log and the archives are read from now on, and the snapshot of the whole shard.
    ///
    /// # Errors
    /// [`AsOfError`].
    pub async fn as_of(&self, entity: &Entity, at: Timestamp) -> Result<AsOf, AsOfError> {
        let read = read_of(entity).ok_or_else(|| AsOfError::OtherKind(entity.clone()))?;
        let now = Timestamp(self.now_ms());
        if at > now {
            return Err(AsOfError::Ahead { now });
        }
        let left_ms = at.0.saturating_add(PASSED_MS).saturating_sub(now.0);
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
        // The node that answers knows everything that the leader has decided by now.
        let version = self.version_now(read).await?;
        let query = || AsOfQuery { entity: Cow::Owned(entity.clone()), at, version };
        match self.then(entity, query).await? {
            Then::Was(then) => Ok(as_of(entity, then)?),
            Then::NotYet => Err(AsOfError::NotYet),
            Then::Below { floor } => Err(AsOfError::Below { floor }),
            Then::Behind => Err(HistoryError::Elsewhere.into()),
        }
    }

    /// The version of an entity, by its leader.
    async fn version_now(&self, read: Command) -> Result<u64, AsOfError> {
        let (answered, answer) = oneshot::channel();
        self.submit(read, None, ReplyTo::new(Arc::new(Once(Mutex::new(Some(answered)))), 0));
        // Only a read is unknown.
        let Answered { at, .. } = answer.await.unwrap_or(Err(Failure::NotReady))??;
        Ok(at.first().map_or(0, |at| at.version))
    }

    /// The answer of this node, or of the first that has one.
    async fn then(&self, entity: &Entity, query: impl Fn() -> AsOfQuery<'static>) -> Result<Then, HistoryError> {
        let shared = &self.shared;
        let mut found = match shared.is_elsewhere(entity) {
            true => Err(HistoryError::Elsewhere),
            false => read_here(shared, query()).await,
        };
        if shared.is_alone() || shared.replication.version.get() < CHAINED {
            return found;
        }
        let replica_nodes = shared.lead_of(entity).leader_hint.lock().replica_nodes.clone();
        for node in replica_nodes {
            if matches!(found, Ok(Then::Was(_) | Then::NotYet)) {
                break;
            }
            let ask = |tag| Message::AsOf { tag, query: query() };
            let asked = shared.remote_states.ask(&shared.world, node, ask).await;
            found = match (found, asked) {
                (Ok(Then::Below { floor }), Ok(Then::Below { floor: other })) => {
                    Ok(Then::Below { floor: floor.min(other) })
                }
                (found @ Ok(Then::Below { .. }), Ok(Then::Behind) | Err(_)) => found,
                (_, Ok(asked)) => Ok(asked),
                (Err(_), Err(NoHistory::Broken(why))) => Err(HistoryError::Other { node, why }),
                (Err(_), Err(NoHistory::Busy)) => Err(HistoryError::Busy),
                (found, Err(_)) => found,
            };
        }
        found
    }
}

/// The cheapest read of an entity that may be asked for.
fn read_of(entity: &Entity) -> Option<Command> {
    match entity {
        Entity::Session(id) => Some(Command::Session(id.clone(), SessionCommand::Map)),
        Entity::Product(id) => Some(Command::Product(id.clone(), ProductCommand::Get)),
        Entity::Resource(id) => Some(Command::Resource(id.clone(), ResourceCommand::Get)),
        Entity::Venue(_) | Entity::Cart(_) | Entity::Customer(_) | Entity::Code(_) => None,
        Entity::Directory | Entity::Cluster => None,
    }
}

fn as_of(entity: &Entity, then: StoredState) -> Result<AsOf, HistoryError> {
    let StoredState { cut, shard, position, since, until, floor, distance_ms } = then;
    let cut = snapshot::decode_state(&cut).map_err(HistoryError::Undecodable)?;
    let state = cut.entities().find(|(of, _)| *of == entity).map(|(_, state)| State::clone(state));
    let state = state.ok_or_else(|| HistoryError::Undecodable(format!("{entity} is not in its own state")))?;
    Ok(AsOf { state, shard, position, since, until, floor, distance_ms })
}

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for Once {
    fn answer(&self, _: u64, result: api::Result) {
        if let Some(answered) = self.0.lock().take() {
            // The caller may have gone.
            let _ = answered.send(result);
        }
    }
}
