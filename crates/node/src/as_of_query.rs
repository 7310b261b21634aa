//! Queries for the state of an entity at an instant, and their results.

use std::borrow::Cow;

use boxoffice_core::{
    answer::{Answer, MapView},
    id::Entity,
    refusal::Refusal,
    state_map::State,
    stored::Stored,
    time::Timestamp,
};
use boxoffice_shard::ShardId;
use bytes::Bytes;

use crate::{api::Failure, history_query::HistoryError};

/// An entity as it was at an instant.
#[derive(Clone, Debug)]
pub struct AsOf {
    /// The state that it had.
    pub state: State,
    pub shard: ShardId,
    /// The last entry of the shard's log that is known to be in it.
    pub position: u64,
    /// The time of that entry. From then on it was as it is here.
    pub since: Timestamp,
    /// Its next change. `None` if it has not changed since.
    pub until: Option<Timestamp>,
    /// The earliest instant that can be asked for at the node that answered. `None` if there are all since it began.
    pub floor: Option<Timestamp>,
    /// True time less running time then, in milliseconds.
    pub(crate) distance_ms: i64,
}

impl AsOf {
    /// Its audit, recounted, in true time.
    ///
    /// # Panics
    /// Never: only inventories are asked for.
    pub fn audit(&self) -> Answer {
        self.state.audited(self.distance_ms).expect("only inventories are asked for")
    }

    /// The state of every seat, if it is a session.
    pub fn map(&self) -> Option<MapView> {
        match &self.state {
            State::Session(session) => Some(session.map()),
            _ => None,
        }
    }
}

/// Why it is not known how an entity was.
#[derive(Debug, thiserror::Error)]
pub enum AsOfError {
    /// The instant has not come.
    #[error("it is not that late yet: it is {now:?}")]
    Ahead { now: Timestamp },
    /// It is neither a session nor a product nor a resource. Others leave memory when they end.
    #[error("{0} is neither a session nor a product nor a resource")]
    OtherKind(Entity),
    /// It was made later.
    #[error("it did not exist")]
    NotYet,
    /// What is older is no longer kept.
    #[error("nothing is known of it before {floor:?}")]
    Below {
        /// The earliest instant that can be asked for.
        floor: Timestamp,
    },
    /// Its leader refuses to read it, because it does not exist.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its leader does not answer.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The log and the archives cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// A query, here or at another node.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) struct AsOfQuery<'a> {
    #[n(0)]
    pub(crate) entity: Cow<'a, Entity>,
    /// True time. Everything that was decided until then is wanted.
    #[n(1)]
    pub(crate) at: Timestamp,
    /// The entity has had this many events. A replica with fewer does not answer.
    #[n(2)]
    pub(crate) version: u64,
}

/// What a node knows of an entity at an instant.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) enum Then {
    #[n(0)]
    Was(#[n(0)] StoredState),
    /// It was made later.
    #[n(1)]
    NotYet,
    /// The node knows nothing so old.
    #[n(2)]
    Below {
        #[n(0)]
        floor: Timestamp,
    },
    /// The node's replica is behind.
    #[n(3)]
    Behind,
}

/// A state at an instant, as it travels. The fields are those of [`AsOf`].
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) struct StoredState {
    /// A cut with the entity alone.
    #[n(0)]
    pub(crate) cut: Bytes,
    #[n(1)]
    pub(crate) shard: ShardId,
    #[n(2)]
    pub(crate) position: u64,
    #[n(3)]
    pub(crate) since: Timestamp,
    #[n(4)]
    pub(crate) until: Option<Timestamp>,
    #[n(5)]
    pub(crate) floor: Option<Timestamp>,
    #[n(6)]
    pub(crate) distance_ms: i64,
}
