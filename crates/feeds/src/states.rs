//! Products, resources and carts as the hub has published them.

use boxoffice_core::{
    answer::{CartState, CartView, StockCounts},
    id::Entity,
    refusal::Refusal,
};
use boxoffice_wire::feed::{CartDelta, CartSnapshot, ProductDelta, ProductSnapshot, ResourceDelta, ResourceSnapshot};
use smol_str::SmolStr;

use super::{DAYS_MAX, News, line::State};

/// A product's units at a version.
pub(super) struct StockAt {
    pub(super) version: u64,
    pub(super) counts: StockCounts,
}

impl State for StockAt {
    type Snapshot = ProductSnapshot;

    const IS_SMALL: bool = true;
    const WEIGHT_MAX: usize = usize::MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, news: News) -> Option<(ProductDelta, usize)> {
        let News::Product(counts) = news else { panic!("a product is told {news:?}") };
        let delta = ProductDelta { from: self.version, to, counts };
        *self = StockAt { version: to, counts };
        Some((delta, 0))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> ProductSnapshot {
        ProductSnapshot { entity: entity.clone(), epoch, version: self.version, counts: self.counts }
    }
}

/// How many bookings a resource has at a version.
pub(super) struct CalendarAt {
    pub(super) version: u64,
    pub(super) bookings: u64,
}

impl State for CalendarAt {
    type Snapshot = ResourceSnapshot;

    const IS_SMALL: bool = false;
    /// Days of all deltas: who would have to look at so many looks at everything.
    const WEIGHT_MAX: usize = 4 * DAYS_MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, news: News) -> Option<(ResourceDelta, usize)> {
        let News::Resource { days, bookings } = news else { panic!("a resource is told {news:?}") };
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

/// A cart at a version. Its end is its last state, so it is in whatever comes last.
pub(super) struct CartAt {
    pub(super) version: u64,
    pub(super) cart: Box<CartView>,
}

impl State for CartAt {
    type Snapshot = CartSnapshot;

    // Each delta is a whole cart.
    const IS_SMALL: bool = true;
    const WEIGHT_MAX: usize = usize::MAX;

    fn version(&self) -> u64 {
        self.version
    }

    fn apply(&mut self, to: u64, news: News) -> Option<(CartDelta, usize)> {
        let News::Cart(cart) = news else { panic!("a cart is told {news:?}") };
        let delta = CartDelta { from: self.version, to, cart: (*cart).clone() };
        *self = CartAt { version: to, cart };
        Some((delta, 0))
    }

    fn snapshot(&self, entity: &Entity, epoch: u64) -> CartSnapshot {
        CartSnapshot { entity: entity.clone(), epoch, version: self.version, cart: (*self.cart).clone() }
    }

    fn over(&self) -> Option<&'static str> {
        match self.cart.state {
            CartState::Active | CartState::CheckingOut => None,
            state @ (CartState::Done | CartState::Canceled) => {
                Some(Refusal::CartNotActive(SmolStr::new_static(state.as_str())).name())
            }
            CartState::Expired => Some(Refusal::CartExpired.name()),
        }
    }
}
