//! Feeds: a snapshot, then deltas, in versions without a gap.
//!
//! A feed's number is the node's number for the entity. It is the same for all watchers, so one encoded frame serves them all.
//! A customer's feed counts purchases instead of versions, so that it can be resumed after any time.

use boxoffice_core::{
    answer::{AreaCounts, SaleMark, SeatCounts, StockCounts},
    id::Entity,
    seat::SeatState,
};
use serde::{Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{
    from_body::{FromBody, bodies},
    repr::{
        Base64, Day, FromWire, ToWire, WireRepr, WireWrite,
        shape::{Each, Shapes, shapes},
    },
    view::{CartView, Purchase},
};

/// The body of a snapshot, `{"feed":3,"snapshot":{…}}`. Each kind of entity has its own type.
pub trait SnapshotBody: Serialize + FromBody {
    /// The body of a delta, `{"feed":3,"delta":{…}}`.
    type Delta: DeltaBody;

    /// The entity of the snapshot.
    fn entity(&self) -> &Entity;
}

/// The changes between two versions, or two cursors.
pub trait DeltaBody: Serialize + FromBody {
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

        bodies! { $($snapshot, $delta,)+ Ended }

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
    /// The whole state of a session at a version.
    #[derive(Eq)]
    pub struct Snapshot {
        pub entity: Entity,
        /// Versions of different epochs cannot be compared.
        pub epoch: u64,
        pub version: u64,
        pub counts: SeatCounts,
        /// Places by area and state.
        pub areas?: Vec<AreaCounts>,
        /// Two bits a seat, packed as in `session.map`.
        pub seats: Vec<u8> as "crate::repr::bytes" = Base64(None),
        /// The mark of its offers and terms. Absent without offers if the terms have never changed.
        pub sale?: Option<SaleMark>,
    }

    /// The changes of a session from a version to a later one. States are absolute, so a delta may be applied twice.
    #[derive(Eq)]
    pub struct Delta {
        pub from: u64,
        pub to: u64,
        /// The changed seats by index in layout order with their new states. Each seat stands once.
        pub changes: Vec<(u32, SeatState)>,
        pub counts: SeatCounts,
        /// The changed areas with their new counts. Each area stands once. A new one is added at the end.
        pub areas?: Vec<AreaCounts>,
        /// The mark of its offers and terms, if it changed. Read the session again then.
        pub sale?: Option<SaleMark>,
    }

    /// The counts of a session at a version, for lists of sessions.
    #[derive(Eq)]
    pub struct CountsSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        pub counts: SeatCounts,
        /// Places by area and state.
        pub areas?: Vec<AreaCounts>,
        /// The mark of its offers and terms. Absent without offers if the terms have never changed.
        pub sale?: Option<SaleMark>,
    }

    /// The changed counts of a session from a version to a later one.
    #[derive(Eq)]
    pub struct CountsDelta {
        pub from: u64,
        pub to: u64,
        pub counts: SeatCounts,
        /// The changed areas with their new counts. Each area stands once. A new one is added at the end.
        pub areas?: Vec<AreaCounts>,
        /// The mark of its offers and terms, if it changed. Read the session again then.
        pub sale?: Option<SaleMark>,
    }

    /// The counts of a product at a version.
    #[derive(Eq)]
    pub struct ProductSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        pub counts: StockCounts,
    }

    /// The changed counts of a product from a version to a later one.
    #[derive(Eq)]
    pub struct ProductDelta {
        pub from: u64,
        pub to: u64,
        pub counts: StockCounts,
    }

    /// The state of a resource at a version. `resource.bookings` reads its calendar.
    #[derive(Eq)]
    pub struct ResourceSnapshot {
        pub entity: Entity,
        pub epoch: u64,
        pub version: u64,
        /// The number of bookings, including held ones.
        pub bookings: u64,
    }

    /// The days on which a resource's bookings changed.
    #[derive(Eq)]
    pub struct ResourceDelta {
        pub from: u64,
        pub to: u64,
        /// The UTC days with new, ended or newly sold bookings, as days since 1970-01-01, ascending, each once.
        pub days: Vec<u32> as "days" = Each(Day),
        /// The number of bookings after the change.
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

    /// A changed cart from a version to a later one. It is the whole cart, since carts are small.
    #[derive(Eq)]
    pub struct CartDelta {
        pub from: u64,
        pub to: u64,
        pub cart: CartView,
    }

    /// The purchases of a customer after the watcher's cursor.
    #[derive(Eq)]
    pub struct PurchasesSnapshot {
        pub entity: Entity,
        /// Cursors of different epochs cannot be compared. Absent from nodes of 0.2.0.
        pub epoch?: Option<u64>,
        /// The cursor before the first purchase.
        pub from: u64,
        /// The cursor of the last purchase.
        pub to: u64,
        /// The purchases by cursor, without a gap.
        pub purchases: Vec<Purchase>,
    }

    /// Further purchases of a customer.
    #[derive(Eq)]
    pub struct PurchasesDelta {
        /// The cursor before the first purchase.
        pub from: u64,
        /// The cursor of the last purchase.
        pub to: u64,
        /// The purchases by cursor, without a gap.
        pub purchases: Vec<Purchase>,
    }

    /// The end of a feed, `{"feed":3,"ended":{…}}`.
    #[derive(Eq)]
    pub struct Ended as FeedEnded {
        /// The name of the refusal or failure that ended it.
        pub name: SmolStr,
    }
}

/// `{"notice":"draining","reconnect_ms":1500}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub name: SmolStr,
    /// When to reconnect, in milliseconds from now, jittered for each connection.
    pub reconnect_ms: Option<u64>,
}

/// A seat and its state: `[7, "held"]`.
impl WireWrite for (u32, SeatState) {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0, ToWire(&self.1)).serialize(serializer)
    }
}

impl WireRepr for (u32, SeatState) {
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
