//! The published states of products, resources and carts.

use boxoffice_core::{
    answer::{CartState, CartView, StockCounts},
    id::Entity,
    refusal::Refusal,
};
use boxoffice_wire::feed::{CartDelta, CartSnapshot, ProductDelta, ProductSnapshot, ResourceDelta, ResourceSnapshot};
use smol_str::SmolStr;

use super::{DAYS_MAX, FeedUpdate, publisher::PublishedState};

/// A product's units.
pub(super) struct ProductState {
    pub(super) version: u64,
    pub(super) counts: StockCounts,
}

impl PublishedState for ProductState {
    type Snapshot = ProductSnapshot;

    const IS_SMALL: bool = true;
    const WEIGHT_MAX: usize = usize::MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(ProductDelta, usize)> {
        let FeedUpdate::Product(counts) = update else { panic!("a product is told {update:?}") };
        let delta = ProductDelta { from: self.version, to, counts };
        *self = ProductState { version: to, counts };
        Some((delta, 0))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> ProductSnapshot {
        ProductSnapshot { entity: entity.clone(), epoch, version: self.version, counts: self.counts }
    }
}

/// A resource's number of bookings.
pub(super) struct ResourceState {
    pub(super) version: u64,
    pub(super) bookings: u64,
}

impl PublishedState for ResourceState {
    type Snapshot = ResourceSnapshot;

    const IS_SMALL: bool = false;
    /// Days in all deltas. A watcher with more changed days reads all of them.
    const WEIGHT_MAX: usize = 4 * DAYS_MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(ResourceDelta, usize)> {
        let FeedUpdate::Resource { days, bookings } = update else { panic!("a resource is told {update:?}") };
        let from = std::mem::replace(&mut self.version, to);
        self.bookings = bookings;
        let days: Vec<u32> = days?.into_iter().collect();
        let weight = days.len();
        Some((ResourceDelta { from, to, days, bookings }, weight))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> ResourceSnapshot {
        ResourceSnapshot { entity: entity.clone(), epoch, version: self.version, bookings: self.bookings }
    }
}

/// A cart. Its end is its last state, so the last delta or snapshot contains it.
pub(super) struct CartFeedState {
    pub(super) version: u64,
    pub(super) cart: Box<CartView>,
}

impl PublishedState for CartFeedState {
    type Snapshot = CartSnapshot;

    // Each delta is a whole cart.
    const IS_SMALL: bool = true;
    const WEIGHT_MAX: usize = usize::MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(CartDelta, usize)> {
        let FeedUpdate::Cart(cart) = update else { panic!("a cart is told {update:?}") };
        let delta = CartDelta { from: self.version, to, cart: (&*cart).into() };
        *self = CartFeedState { version: to, cart };
        Some((delta, 0))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> CartSnapshot {
        CartSnapshot { entity: entity.clone(), epoch, version: self.version, cart: (&*self.cart).into() }
    }

    fn end_reason(&self) -> Option<&'static str> {
        match self.cart.state {
            CartState::Active | CartState::CheckingOut => None,
            state @ (CartState::Done | CartState::Canceled) => {
                Some(Refusal::CartNotActive(SmolStr::new_static(state.as_str())).name())
            }
            CartState::Expired => Some(Refusal::CartExpired.name()),
        }
    }
}
