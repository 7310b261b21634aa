//! Products, resources, carts and purchases as they are now, kept up to date from a feed.

use boxoffice_core::{
    answer::{AreaCounts, CartState, CartView, Purchase, StockCounts},
    id::Entity,
    refusal::Refusal,
};
use boxoffice_wire::{
    body::{Resume, ResumeBody},
    feed::{
        CartDelta, CartSnapshot, ProductDelta, ProductSnapshot, PurchasesDelta, PurchasesSnapshot, ResourceDelta,
        ResourceSnapshot, SnapshotBody,
    },
    reply::Unreadable,
};

/// What a frame did to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is newer now.
    Newer,
    /// It was as new already.
    Nothing,
    /// Something is missing in between.
    Gap,
}

/// A state that a [`crate::Watch`] keeps up to date.
pub trait Live: Sized {
    /// What its feed's snapshots say.
    type Snapshot: SnapshotBody;

    /// The state that the first snapshot shows.
    ///
    /// # Errors
    /// [`Unreadable`] if it contradicts itself.
    fn begin(snapshot: Self::Snapshot) -> Result<Self, Unreadable>;

    /// Takes a further snapshot: it replaces everything unless it is older.
    ///
    /// # Errors
    /// [`Unreadable`] if it contradicts itself.
    fn replace(&mut self, snapshot: Self::Snapshot) -> Result<Applied, Unreadable>;

    /// Takes a delta.
    ///
    /// # Errors
    /// [`Unreadable`] if it contradicts the state.
    fn apply(&mut self, delta: <Self::Snapshot as SnapshotBody>::Delta) -> Result<Applied, Unreadable>;

    /// From where on the feed is asked for again.
    fn resume(&self) -> ResumeBody;

    /// The refusal that whoever asks for more gets, if nothing can follow this state.
    fn over(&self) -> Option<Refusal> {
        None
    }

    /// What to go on from after a contradiction: nothing, if everything can be had again.
    fn forget(self) -> Option<Self> {
        None
    }
}

/// A state with an epoch and a version that every frame replaces as a whole.
macro_rules! whole_states {
    ($($(#[$doc:meta])*
        $state:ident, $snapshot:ident, $delta:ident, $field:ident: $value:ty, $said:literal, $over:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $state {
            entity: Entity,
            epoch: u64,
            version: u64,
            $field: $value,
        }

        impl $state {
            #[doc = $said]
            pub fn $field(&self) -> &$value {
                &self.$field
            }

            /// Of what it is.
            pub fn entity(&self) -> &Entity {
                &self.entity
            }

            /// Its version; versions of different epochs have nothing to do with each other.
            pub fn version(&self) -> u64 {
                self.version
            }

            /// Its epoch.
            pub fn epoch(&self) -> u64 {
                self.epoch
            }
        }

        impl Live for $state {
            type Snapshot = $snapshot;

            fn begin(snapshot: $snapshot) -> Result<$state, Unreadable> {
                let $snapshot { entity, epoch, version, $field } = snapshot;
                Ok($state { entity, epoch, version, $field })
            }

            fn replace(&mut self, snapshot: $snapshot) -> Result<Applied, Unreadable> {
                if snapshot.epoch == self.epoch && snapshot.version < self.version {
                    return Ok(Applied::Nothing);
                }
                *self = $state::begin(snapshot)?;
                Ok(Applied::Newer)
            }

            fn apply(&mut self, delta: $delta) -> Result<Applied, Unreadable> {
                let applied = order(self.version, delta.from, delta.to);
                if applied == Applied::Newer {
                    self.version = delta.to;
                    self.$field = delta.$field;
                }
                Ok(applied)
            }

            fn resume(&self) -> ResumeBody {
                ResumeBody::version(Resume { epoch: self.epoch, version: self.version })
            }

            fn over(&self) -> Option<Refusal> {
                $over(&self.$field)
            }
        }
    )+};
}

whole_states! {
    /// A product's units.
    LiveStock, ProductSnapshot, ProductDelta, counts: StockCounts, "Units by state.", never;
    /// A buyer's cart.
    LiveCart, CartSnapshot, CartDelta, cart: CartView, "The cart.", ended;
}

fn never(_: &StockCounts) -> Option<Refusal> {
    None
}

fn ended(cart: &CartView) -> Option<Refusal> {
    match cart.state {
        CartState::Active | CartState::CheckingOut => None,
        CartState::Expired => Some(Refusal::CartExpired),
        state @ (CartState::Done | CartState::Canceled) => Some(Refusal::CartNotActive(state.as_str().into())),
    }
}

/// What a delta does to a state of this version.
pub(crate) fn order(version: u64, from: u64, to: u64) -> Applied {
    if to <= version {
        Applied::Nothing
    } else if from > version {
        Applied::Gap
    } else {
        Applied::Newer
    }
}

/// Puts areas that changed in the place of what they were.
///
/// # Errors
/// [`Unreadable`] if there is no such area.
pub(crate) fn merge(areas: &mut [AreaCounts], news: Vec<AreaCounts>) -> Result<(), Unreadable> {
    for area in news {
        let mine = areas.iter_mut().find(|mine| mine.area == area.area);
        *mine.ok_or_else(|| Unreadable("a delta names an area that does not exist".into()))? = area;
    }
    Ok(())
}

/// A resource's calendar: how many bookings, and where it changed. What they are is asked with `resource.bookings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveResource {
    entity: Entity,
    epoch: u64,
    version: u64,
    bookings: u64,
    days: Option<Vec<u32>>,
}

impl LiveResource {
    /// Of what it is.
    pub fn entity(&self) -> &Entity {
        &self.entity
    }

    /// Its version; versions of different epochs have nothing to do with each other.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many bookings it has, held ones counted.
    pub fn bookings(&self) -> u64 {
        self.bookings
    }

    /// UTC days that changed with the last frame, as days since 1970-01-01; `None` if any may have: it was a snapshot.
    pub fn days(&self) -> Option<&[u32]> {
        self.days.as_deref()
    }
}

impl Live for LiveResource {
    type Snapshot = ResourceSnapshot;

    fn begin(snapshot: ResourceSnapshot) -> Result<LiveResource, Unreadable> {
        let ResourceSnapshot { entity, epoch, version, bookings } = snapshot;
        Ok(LiveResource { entity, epoch, version, bookings, days: None })
    }

    fn replace(&mut self, snapshot: ResourceSnapshot) -> Result<Applied, Unreadable> {
        if snapshot.epoch == self.epoch && snapshot.version < self.version {
            return Ok(Applied::Nothing);
        }
        *self = LiveResource::begin(snapshot)?;
        Ok(Applied::Newer)
    }

    fn apply(&mut self, delta: ResourceDelta) -> Result<Applied, Unreadable> {
        let applied = order(self.version, delta.from, delta.to);
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

/// The purchases of a customer: those of the last frame, and the cursor to go on from after any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LivePurchases {
    cursor: u64,
    new: Vec<Purchase>,
}

impl LivePurchases {
    /// Whoever has seen everything up to this cursor; 0 is before the first purchase.
    pub(crate) fn after(cursor: u64) -> LivePurchases {
        LivePurchases { cursor, new: Vec::new() }
    }

    /// The cursor of the last purchase seen: keep it, and go on from it.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What was new with the last frame, by cursor; each purchase is here once.
    pub fn new_purchases(&self) -> &[Purchase] {
        &self.new
    }

    fn take(&mut self, from: u64, to: u64, purchases: Vec<Purchase>) -> Result<Applied, Unreadable> {
        let counted = to.checked_sub(from) == Some(purchases.len() as u64);
        let in_order = (from + 1..).zip(&purchases).all(|(cursor, purchase)| purchase.cursor == cursor);
        if !counted || !in_order {
            return Err(Unreadable("purchases are not those between their cursors".into()));
        }
        let applied = order(self.cursor, from, to);
        if applied == Applied::Newer {
            let seen = self.cursor;
            self.new = purchases.into_iter().filter(|purchase| purchase.cursor > seen).collect();
            self.cursor = to;
        }
        Ok(applied)
    }
}

impl Live for LivePurchases {
    type Snapshot = PurchasesSnapshot;

    fn begin(snapshot: PurchasesSnapshot) -> Result<LivePurchases, Unreadable> {
        let mut state = LivePurchases::after(snapshot.from);
        state.take(snapshot.from, snapshot.to, snapshot.purchases)?;
        Ok(state)
    }

    fn replace(&mut self, snapshot: PurchasesSnapshot) -> Result<Applied, Unreadable> {
        self.take(snapshot.from, snapshot.to, snapshot.purchases)
    }

    fn apply(&mut self, delta: PurchasesDelta) -> Result<Applied, Unreadable> {
        self.take(delta.from, delta.to, delta.purchases)
    }

    fn resume(&self) -> ResumeBody {
        ResumeBody::cursor(self.cursor)
    }

    // What was seen was seen: the cursor is kept.
    fn forget(self) -> Option<LivePurchases> {
        Some(LivePurchases::after(self.cursor))
    }
}
