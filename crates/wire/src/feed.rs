//! Feeds: a snapshot, then deltas, in versions without a gap.
//!
//! A feed's number is the node's number for the entity. It is the same for all watchers, so one encoded frame serves them all.
//! A customer's feed counts purchases instead of versions, so that it can be resumed after any time.

use boxoffice_core::{
    answer::{AreaCounts, CartView, Purchase, SeatCounts, StockCounts},
    id::Entity,
    seat::SeatState,
};
use serde::{Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::repr::{
    Base64, Day, WireRepr, FromWire, ToWire,
    shape::{Each, Shapes, shapes},
};

/// The body of a snapshot, `{"feed":3,"snapshot":{…}}`. Each kind of entity has its own type.
pub trait SnapshotBody: Serialize + DeserializeOwned {
    /// The body of a delta, `{"feed":3,"delta":{…}}`.
    type Delta: DeltaBody;

    /// The entity of the snapshot.
    fn entity(&self) -> &Entity;
}

/// The changes between two versions, or two cursors.
pub trait DeltaBody: Serialize + DeserializeOwned {
    /// The version, or the cursor, before.
    fn from(&self) -> u64;

    /// The version, or the cursor, after.
    fn to(&self) -> u64;
}

macro_rules! snapshot_bodies {
    ($($snapshot:ident: $delta:ident),+ $(,)?) => {
        /// Adds the schemas of all events of feeds.
        pub(crate) fn schemas(shapes: &mut Shapes) {
            $($snapshot::schema(shapes); $delta::schema(shapes);)+
            Ended::schema(shapes);
        }

        $(
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

shapes! {
    /// Everything of a session, at a version.
    #[derive(Eq)]
    pub struct Snapshot {
        pub entity: Entity,
        /// Versions of different epochs have nothing to do with each other.
        pub epoch: u64,
        pub version: u64,
        pub counts: SeatCounts,
        /// Places by area and state.
        pub areas?: Vec<AreaCounts>,
        /// Two bits a seat, packed as in `session.map`.
        pub seats: Vec<u8> as "crate::repr::bytes" = Base64(None),
    }

    /// What changed of a session after a version, up to another. States are absolute: applying a delta twice harms nothing.
    #[derive(Eq)]
    pub struct Delta {
        pub from: u64,
        pub to: u64,
        /// Seats by index in layout order, and what they are now; each seat once.
        pub changes: Vec<(u32, SeatState)>,
        pub counts: SeatCounts,
        /// Areas that changed, as they are after; each once.
        pub areas?: Vec<AreaCounts>,
    }

    /// A session in counts, at a version: what a list of sessions shows.
    #[derive(Eq)]
    pub struct CountsSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        pub counts: SeatCounts,
        /// Places by area and state.
        pub areas?: Vec<AreaCounts>,
    }

    /// A session in counts after a version, at another.
    #[derive(Eq)]
    pub struct CountsDelta {
        pub from: u64,
        pub to: u64,
        pub counts: SeatCounts,
        /// Areas that changed, as they are after; each once.
        pub areas?: Vec<AreaCounts>,
    }

    /// Everything that changes of a product, at a version.
    #[derive(Eq)]
    pub struct ProductSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        pub counts: StockCounts,
    }

    /// A product after a version, at another.
    #[derive(Eq)]
    pub struct ProductDelta {
        pub from: u64,
        pub to: u64,
        pub counts: StockCounts,
    }

    /// What a resource is like, at a version. Its calendar is read with `resource.bookings`.
    #[derive(Eq)]
    pub struct ResourceSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        /// How many bookings it has, held ones counted.
        pub bookings: u64,
    }

    /// On which days a resource's bookings changed.
    #[derive(Eq)]
    pub struct ResourceDelta {
        pub from: u64,
        pub to: u64,
        /// UTC days on which bookings came, went or became sold, as days since 1970-01-01, ascending, each once.
        pub days: Vec<u32> as "days" = Each(Day),
        /// How many bookings it has after.
        pub bookings: u64,
    }

    /// A cart at a version.
    #[derive(Eq)]
    pub struct CartSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        pub cart: CartView,
    }

    /// A cart after a version, at another: the whole of it, for it is small.
    #[derive(Eq)]
    pub struct CartDelta {
        pub from: u64,
        pub to: u64,
        pub cart: CartView,
    }

    /// The purchases of a customer after the cursor the watcher had, up to another.
    #[derive(Eq)]
    pub struct PurchasesSnapshot {
        pub entity: Entity,
        /// The cursor before the first of them.
        pub from: u64,
        /// The cursor of the last of them.
        pub to: u64,
        /// By cursor, without a gap.
        pub purchases: Vec<Purchase>,
    }

    /// Further purchases of a customer.
    #[derive(Eq)]
    pub struct PurchasesDelta {
        /// The cursor before the first of them.
        pub from: u64,
        /// The cursor of the last of them.
        pub to: u64,
        /// By cursor, without a gap.
        pub purchases: Vec<Purchase>,
    }

    /// `{"feed":3,"ended":{…}}`: nothing more will come.
    #[derive(Eq)]
    pub struct Ended as FeedEnded {
        /// The name of the refusal or failure that ended it.
        pub name: SmolStr,
    }
}

/// `{"notice":"draining","reconnect_ms":1500}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The notice's name.
    pub name: SmolStr,
    /// When to reconnect, in milliseconds from now; jittered for each connection.
    pub reconnect_ms: Option<u64>,
}

/// A seat and its state: `[7, "held"]`.
impl WireRepr for (u32, SeatState) {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0, ToWire(&self.1)).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(u32, SeatState), D::Error> {
        let (index, FromWire(state)) = serde::Deserialize::deserialize(deserializer)?;
        Ok((index, state))
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let pair = [u32::schema(shapes), SeatState::schema(shapes)];
        json!({"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2})
    }
}

/// Days: `2026-04-12` in both encodings.
mod days {
    use serde::{de::Error as _, ser::Error as _};

    use super::{Deserializer, Serialize, Serializer, SmolStr};
    use crate::repr::{self, ListOf};

    pub(super) fn serialize<S: Serializer>(days: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        if days.iter().any(|day| repr::day_text(*day).is_none()) {
            return Err(S::Error::custom("a day beyond the year 9999"));
        }
        ListOf(|| days.iter().map(|day| repr::day_text(*day).unwrap_or_default())).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        let texts: Vec<SmolStr> = serde::Deserialize::deserialize(deserializer)?;
        let day = |text: SmolStr| repr::day(&text).ok_or_else(|| D::Error::custom("a day is as `2026-04-12`"));
        texts.into_iter().map(day).collect()
    }
}
