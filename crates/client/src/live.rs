//! The current state of products, resources, carts and purchases, kept up to date from a feed.

use boxoffice_core::{
    answer::{AreaCounts, StockCounts},
    id::Entity,
    refusal::Refusal,
};
use boxoffice_wire::{
    body::{PurchaseCursor, Resume, ResumeBody},
    feed::{
        CartDelta, CartSnapshot, ProductDelta, ProductSnapshot, PurchasesDelta, PurchasesSnapshot, ResourceDelta,
        ResourceSnapshot, SnapshotBody,
    },
    reply::Unreadable,
    view::{CartState, CartView, Purchase},
};

/// The effect of a frame on a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The state is newer now.
    Newer,
    /// The frame had nothing new.
    Unchanged,
    /// Frames between the state and this frame are missing. The state did not change.
    Gap,
}

/// A state that a [`crate::Watch`] keeps up to date.
pub trait Live: Sized {
    /// The snapshots of the state's feed.
    type Snapshot: SnapshotBody;

    /// Makes the state from the first snapshot.
    ///
    /// # Errors
    /// [`Unreadable`] if the snapshot contradicts itself.
    fn from_snapshot(snapshot: Self::Snapshot) -> Result<Self, Unreadable>;

    /// Applies a further snapshot. It replaces the whole state, unless it is older.
    ///
    /// # Errors
    /// [`Unreadable`] if the snapshot contradicts itself.
    fn apply_snapshot(&mut self, snapshot: Self::Snapshot) -> Result<Applied, Unreadable>;

    /// Applies a delta.
    ///
    /// # Errors
    /// [`Unreadable`] if the delta contradicts the state.
    fn apply_delta(&mut self, delta: <Self::Snapshot as SnapshotBody>::Delta) -> Result<Applied, Unreadable>;

    /// The position from which to ask for the feed again.
    fn resume(&self) -> ResumeBody;

    /// The refusal that ends the watch, if this is the entity's last state.
    fn end(&self) -> Option<Refusal> {
        None
    }

    /// The state to continue from after a contradiction. `None` to start over with a snapshot.
    fn reset(self) -> Option<Self> {
        None
    }
}

/// Defines states with an epoch and a version that every frame replaces as a whole.
macro_rules! replaced_states {
    ($($(#[$doc:meta])*
        $state:ident, $snapshot:ident, $delta:ident, $field:ident: $value:ty, $field_doc:literal, $end:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $state {
            entity: Entity,
            epoch: u64,
            version: u64,
            $field: $value,
        }

        impl $state {
            #[doc = $field_doc]
            pub fn $field(&self) -> &$value {
                &self.$field
            }

            /// The watched entity.
            pub fn entity(&self) -> &Entity {
                &self.entity
            }

            /// The entity's version. Versions of different epochs cannot be compared.
            pub fn version(&self) -> u64 {
                self.version
            }

            /// The epoch of the version.
            pub fn epoch(&self) -> u64 {
                self.epoch
            }
        }

        impl Live for $state {
            type Snapshot = $snapshot;

            fn from_snapshot(snapshot: $snapshot) -> Result<$state, Unreadable> {
                let $snapshot { entity, epoch, version, $field } = snapshot;
                Ok($state { entity, epoch, version, $field })
            }

            fn apply_snapshot(&mut self, snapshot: $snapshot) -> Result<Applied, Unreadable> {
                if snapshot.epoch == self.epoch && snapshot.version < self.version {
                    return Ok(Applied::Unchanged);
                }
                *self = $state::from_snapshot(snapshot)?;
                Ok(Applied::Newer)
            }

            fn apply_delta(&mut self, delta: $delta) -> Result<Applied, Unreadable> {
                let applied = compare_versions(self.version, delta.from, delta.to);
                if applied == Applied::Newer {
                    self.version = delta.to;
                    self.$field = delta.$field;
                }
                Ok(applied)
            }

            fn resume(&self) -> ResumeBody {
                ResumeBody::version(Resume { epoch: self.epoch, version: self.version })
            }

            fn end(&self) -> Option<Refusal> {
                $end(&self.$field)
            }
        }
    )+};
}

replaced_states! {
    /// The units of a product, at a version.
    LiveStock, ProductSnapshot, ProductDelta, counts: StockCounts, "Units by state.", no_end;
    /// A cart, at a version.
    LiveCart, CartSnapshot, CartDelta, cart: CartView, "The cart's view.", cart_end;
}

fn no_end(_: &StockCounts) -> Option<Refusal> {
    None
}

fn cart_end(cart: &CartView) -> Option<Refusal> {
    match cart.state {
        CartState::Active | CartState::CheckingOut => None,
        CartState::Expired => Some(Refusal::CartExpired),
        state @ (CartState::Done | CartState::Canceled) => Some(Refusal::CartNotActive(state.as_str().into())),
    }
}

/// The effect of a delta between two versions on a state of this version.
pub(crate) fn compare_versions(version: u64, from: u64, to: u64) -> Applied {
    if to <= version {
        Applied::Unchanged
    } else if from > version {
        Applied::Gap
    } else {
        Applied::Newer
    }
}

/// Replaces the counts of the areas that changed, and adds new ones.
pub(crate) fn merge_areas(areas: &mut Vec<AreaCounts>, changed: Vec<AreaCounts>) {
    for area in changed {
        match areas.iter_mut().find(|slot| slot.area == area.area) {
            Some(slot) => *slot = area,
            None => areas.push(area),
        }
    }
}

/// A resource's calendar, at a version: the number of bookings, and the days that changed. Use `resource.bookings` to
/// get the bookings themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveResource {
    entity: Entity,
    epoch: u64,
    version: u64,
    bookings: u64,
    days: Option<Vec<u32>>,
}

impl LiveResource {
    /// The watched resource.
    pub fn entity(&self) -> &Entity {
        &self.entity
    }

    /// The resource's version. Versions of different epochs cannot be compared.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The epoch of the version.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of bookings, including held ones.
    pub fn bookings(&self) -> u64 {
        self.bookings
    }

    /// UTC days that changed with the last frame, as days since 1970-01-01. `None` after a snapshot, since any day may have
    /// changed.
    pub fn days(&self) -> Option<&[u32]> {
        self.days.as_deref()
    }
}

impl Live for LiveResource {
    type Snapshot = ResourceSnapshot;

    fn from_snapshot(snapshot: ResourceSnapshot) -> Result<LiveResource, Unreadable> {
        let ResourceSnapshot { entity, epoch, version, bookings } = snapshot;
        Ok(LiveResource { entity, epoch, version, bookings, days: None })
    }

    fn apply_snapshot(&mut self, snapshot: ResourceSnapshot) -> Result<Applied, Unreadable> {
        if snapshot.epoch == self.epoch && snapshot.version < self.version {
            return Ok(Applied::Unchanged);
        }
        *self = LiveResource::from_snapshot(snapshot)?;
        Ok(Applied::Newer)
    }

    fn apply_delta(&mut self, delta: ResourceDelta) -> Result<Applied, Unreadable> {
        let applied = compare_versions(self.version, delta.from, delta.to);
        if applied == Applied::Newer {
            self.version = delta.to;
            self.bookings = delta.bookings;
            self.days = Some(delta.days);
        }
        Ok(applied)
    }

    fn resume(&self) -> ResumeBody {
        ResumeBody::version(Resume { epoch: self.epoch, version: self.version })
    }
}

/// The purchases of a customer: those of the last frame, and the cursor from which a later watch can continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivePurchases {
    cursor: PurchaseCursor,
    new: Vec<Purchase>,
}

impl LivePurchases {
    /// The state of a watch that continues after this cursor.
    pub(crate) fn from_cursor(cursor: PurchaseCursor) -> LivePurchases {
        LivePurchases { cursor, new: Vec::new() }
    }

    /// The cursor of the last purchase received. Store it to continue from it later.
    pub fn cursor(&self) -> PurchaseCursor {
        self.cursor
    }

    /// The purchases that were new with the last frame, by cursor. Each purchase is new once in an epoch: after a restore of the cluster
    /// all that it has are new.
    pub fn new_purchases(&self) -> &[Purchase] {
        &self.new
    }

    fn apply(&mut self, from: u64, to: u64, purchases: Vec<Purchase>) -> Result<Applied, Unreadable> {
        let is_complete = to.checked_sub(from) == Some(purchases.len() as u64);
        let is_in_order = (from + 1..).zip(&purchases).all(|(cursor, purchase)| purchase.cursor == cursor);
        if !is_complete || !is_in_order {
            return Err(Unreadable("a frame does not have exactly the purchases between its cursors".into()));
        }
        let seen = self.cursor.cursor;
        let applied = compare_versions(seen, from, to);
        if applied == Applied::Newer {
            self.new = purchases.into_iter().filter(|purchase| purchase.cursor > seen).collect();
            self.cursor.cursor = to;
        }
        Ok(applied)
    }
}

impl Live for LivePurchases {
    type Snapshot = PurchasesSnapshot;

    fn from_snapshot(snapshot: PurchasesSnapshot) -> Result<LivePurchases, Unreadable> {
        let mut state = LivePurchases::from_cursor(PurchaseCursor { epoch: snapshot.epoch, cursor: snapshot.from });
        state.apply(snapshot.from, snapshot.to, snapshot.purchases)?;
        Ok(state)
    }

    fn apply_snapshot(&mut self, snapshot: PurchasesSnapshot) -> Result<Applied, Unreadable> {
        // A node of 0.2.0 tells none.
        let known = snapshot.epoch.or(self.cursor.epoch);
        let before = std::mem::replace(&mut self.cursor.epoch, known);
        if before.is_some() && before != known {
            *self = LivePurchases::from_snapshot(snapshot)?;
            return Ok(Applied::Newer);
        }
        self.apply(snapshot.from, snapshot.to, snapshot.purchases)
    }

    fn apply_delta(&mut self, delta: PurchasesDelta) -> Result<Applied, Unreadable> {
        self.apply(delta.from, delta.to, delta.purchases)
    }

    fn resume(&self) -> ResumeBody {
        ResumeBody::cursor(self.cursor)
    }

    // Purchases that were already returned must not be new again, so the cursor stays.
    fn reset(self) -> Option<LivePurchases> {
        Some(LivePurchases::from_cursor(self.cursor))
    }
}
