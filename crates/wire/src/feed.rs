//! What watchers are sent: a snapshot, then changes, in versions without a gap.
//!
//! A feed's number is the node's number for the entity, the same for all its watchers: one encoded frame serves them all.

use boxoffice_core::{answer::SeatCounts, id::Entity, seat::SeatState};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, Of, On},
    form_answer::Each,
};

/// `{"feed":3,"snapshot":{…}}`: everything, at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// Versions of different epochs have nothing to do with each other.
    pub epoch: u64,
    /// At which version.
    pub version: u64,
    /// Seats by state.
    #[serde(with = "form")]
    pub counts: SeatCounts,
    /// Two bits a seat, packed as in `session.map`.
    #[serde(with = "form::bytes")]
    pub seats: Vec<u8>,
}

/// `{"feed":3,"delta":{…}}`: what changed after a version, up to another. States are absolute: applying a delta twice harms nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The version before.
    pub from: u64,
    /// The version after.
    pub to: u64,
    /// Seats by index in layout order, and what they are now; each seat once.
    #[serde(with = "changes")]
    pub changes: Vec<(u32, SeatState)>,
    /// Seats by state, after.
    #[serde(with = "form")]
    pub counts: SeatCounts,
}

/// `{"feed":3,"ended":{…}}`: nothing more will come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The name of the refusal or failure that ended it.
    pub name: SmolStr,
}

/// `{"notice":"draining","reconnect_ms":1500}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What is the matter.
    pub name: SmolStr,
    /// When to reconnect, in milliseconds from now; jittered for each connection.
    pub reconnect_ms: Option<u64>,
}

mod changes {
    use super::{Deserialize, Deserializer, Each, Form, Of, On, SeatState, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(changes: &[(u32, SeatState)], serializer: S) -> Result<S::Ok, S::Error> {
        Each(|| changes.iter().map(|(index, state)| (index, On(state)))).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, SeatState)>, D::Error> {
        Ok(Vec::<Change>::read(deserializer)?.into_iter().map(|Change(index, state)| (index, state)).collect())
    }

    struct Change(u32, SeatState);

    impl Form for Change {
        fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            (self.0, On(&self.1)).serialize(serializer)
        }

        fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Change, D::Error> {
            let (index, Of(state)) = Deserialize::deserialize(deserializer)?;
            Ok(Change(index, state))
        }
    }
}
