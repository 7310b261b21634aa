//! What watchers are sent: a snapshot, then changes, in versions without a gap.
//!
//! A feed's number is the node's number for the entity, the same for all its watchers: one encoded frame serves them all.
//! A customer's feed counts purchases instead of versions, so that it can be taken up again after any time.

use boxoffice_core::{
    answer::{AreaCounts, CartView, Purchase, SeatCounts, StockCounts},
    id::Entity,
    seat::SeatState,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, Of, On},
    form_answer::Each,
};

/// What a snapshot says: `{"feed":3,"snapshot":{…}}`. One type for each kind of entity that is watched.
pub trait SnapshotBody: Serialize + DeserializeOwned {
    /// What a delta says after it: `{"feed":3,"delta":{…}}`.
    type Delta: DeltaBody;

    /// Of what it is.
    fn entity(&self) -> &Entity;
}

/// What a delta says: what changed between two versions, or two cursors.
pub trait DeltaBody: Serialize + DeserializeOwned {
    /// The version, or the cursor, before.
    fn from(&self) -> u64;

    /// The version, or the cursor, after.
    fn to(&self) -> u64;
}

macro_rules! snapshot_bodies {
    ($($snapshot:ident: $delta:ident),+ $(,)?) => {$(
        impl SnapshotBody for $snapshot {
            type Delta = $delta;

            fn entity(&self) -> &Entity {
                &self.entity
            }
        }

        impl DeltaBody for $delta {
            fn from(&self) -> u64 {
                self.from
            }

            fn to(&self) -> u64 {
                self.to
            }
        }
    )+};
}

snapshot_bodies! {
    Snapshot: Delta,
    CountsSnapshot: CountsDelta,
    ProductSnapshot: ProductDelta,
    ResourceSnapshot: ResourceDelta,
    CartSnapshot: CartDelta,
    PurchasesSnapshot: PurchasesDelta,
}

/// Everything of a session, at a version.
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
    /// Places by area and state.
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaCounts>,
    /// Two bits a seat, packed as in `session.map`.
    #[serde(with = "form::bytes")]
    pub seats: Vec<u8>,
}

/// What changed of a session after a version, up to another. States are absolute: applying a delta twice harms nothing.
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
    /// Areas that changed, as they are after; each once.
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaCounts>,
}

/// A session in counts, at a version: what a list of sessions shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsSnapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// As in [`Snapshot`].
    pub epoch: u64,
    /// At which version.
    pub version: u64,
    /// Seats by state.
    #[serde(with = "form")]
    pub counts: SeatCounts,
    /// Places by area and state.
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaCounts>,
}

/// A session in counts after a version, at another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsDelta {
    /// The version before.
    pub from: u64,
    /// The version after.
    pub to: u64,
    /// Seats by state, after.
    #[serde(with = "form")]
    pub counts: SeatCounts,
    /// Areas that changed, as they are after; each once.
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<AreaCounts>,
}

/// Everything that changes of a product, at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductSnapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// As in [`Snapshot`].
    pub epoch: u64,
    /// At which version.
    pub version: u64,
    /// Units by state.
    #[serde(with = "form")]
    pub counts: StockCounts,
}

/// A product after a version, at another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDelta {
    /// The version before.
    pub from: u64,
    /// The version after.
    pub to: u64,
    /// Units by state, after.
    #[serde(with = "form")]
    pub counts: StockCounts,
}

/// What a resource is like, at a version. Its calendar is read with `resource.bookings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSnapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// As in [`Snapshot`].
    pub epoch: u64,
    /// At which version.
    pub version: u64,
    /// How many bookings it has, held ones counted.
    pub bookings: u64,
}

/// On which days a resource's bookings changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDelta {
    /// The version before.
    pub from: u64,
    /// The version after.
    pub to: u64,
    /// UTC days on which bookings came, went or became sold, as days since 1970-01-01, ascending, each once.
    #[serde(with = "days")]
    pub days: Vec<u32>,
    /// How many bookings it has after.
    pub bookings: u64,
}

/// A cart at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartSnapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// As in [`Snapshot`].
    pub epoch: u64,
    /// At which version.
    pub version: u64,
    /// The cart.
    #[serde(with = "form")]
    pub cart: CartView,
}

/// A cart after a version, at another: the whole of it, for it is small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartDelta {
    /// The version before.
    pub from: u64,
    /// The version after.
    pub to: u64,
    /// The cart, after.
    #[serde(with = "form")]
    pub cart: CartView,
}

/// The purchases of a customer after the cursor the watcher had, up to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchasesSnapshot {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// The cursor before the first of them.
    pub from: u64,
    /// The cursor of the last of them.
    pub to: u64,
    /// By cursor, without a gap.
    #[serde(with = "form")]
    pub purchases: Vec<Purchase>,
}

/// Further purchases of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchasesDelta {
    /// The cursor before the first of them.
    pub from: u64,
    /// The cursor of the last of them.
    pub to: u64,
    /// By cursor, without a gap.
    #[serde(with = "form")]
    pub purchases: Vec<Purchase>,
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

/// Days: `2026-04-12` in both encodings.
mod days {
    use serde::{de::Error as _, ser::Error as _};

    use super::{Deserialize, Deserializer, Each, Serialize, Serializer, SmolStr};
    use crate::form;

    pub(super) fn serialize<S: Serializer>(days: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        if days.iter().any(|day| form::day_text(*day).is_none()) {
            return Err(S::Error::custom("a day beyond the year 9999"));
        }
        Each(|| days.iter().map(|day| form::day_text(*day).unwrap_or_default())).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        let texts = Vec::<SmolStr>::deserialize(deserializer)?;
        let day = |text: SmolStr| form::day(&text).ok_or_else(|| D::Error::custom("a day is as `2026-04-12`"));
        texts.into_iter().map(day).collect()
    }
}
