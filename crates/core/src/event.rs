//! Events, the content of the log. They carry absolute values and are applied without checks.

mod cart;
mod cluster;
mod customer;
mod directory;
mod product;
mod resource;
mod session;
mod venue;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use self::{
    cart::{CartEvent, GrownLine, NewLine, Owed, QuotaClaim, Reserved},
    cluster::ClusterEvent,
    customer::CustomerEvent,
    directory::DirectoryEvent,
    product::ProductEvent,
    resource::ResourceEvent,
    session::SessionEvent,
    venue::VenueEvent,
};
use crate::{
    answer::{Answer, At},
    id::{CartId, HoldId, Request},
    planted,
    time::Timestamp,
};

/// An event of an entity. Each raises the entity's version by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    Venue(VenueEvent),
    Session(SessionEvent),
    Cart(CartEvent),
    Product(ProductEvent),
    Resource(ResourceEvent),
    Customer(CustomerEvent),
    Directory(DirectoryEvent),
    Cluster(ClusterEvent),
}

/// An answer that is remembered, so that a repeat of its request gets the same (P9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    pub request: Request,
    pub answer: Answer,
    /// The versions of the entities that were asked for it, in the order of its lines. The entity's own version is that of this
    /// event.
    pub asked: Vec<At>,
}

impl Remembered {
    /// An answer that needed no other entity.
    pub fn alone(request: Request, answer: Answer) -> Remembered {
        Remembered { request, answer, asked: Vec::new() }
    }
}

/// Events of holds of any inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldEvent {
    /// The cart keeps the hold for longer.
    Extended {
        hold: HoldId,
        /// When the cart is asked again, the grace included.
        deadline: Timestamp,
    },
    /// An unknown hold was released. It is remembered, because the ask for it may still be on its way.
    Remembered { hold: HoldId, revision: u64 },
    /// The cart is terminal, so its released holds are forgotten.
    Forgotten(CartId),
}

impl Event {
    /// The same release or sale of a charged hold, with the running time at which it is written.
    pub(crate) fn timed(mut self, at: Timestamp) -> Event {
        if let Event::Session(
            SessionEvent::SeatsReleased { freed_at, .. }
            | SessionEvent::PlacesReleased { freed_at, .. }
            | SessionEvent::SeatsSold { freed_at, .. }
            | SessionEvent::PlacesSold { freed_at, .. },
        )
        | Event::Product(ProductEvent::UnitsReleased { freed_at, .. } | ProductEvent::UnitsSold { freed_at, .. })
        | Event::Resource(
            ResourceEvent::SlotReleased { freed_at, .. } | ResourceEvent::SlotSold { freed_at, .. },
        ) = &mut self
        {
            *freed_at = Some(at);
        }
        self
    }

    /// The same release, marked as an expiry.
    pub(crate) fn by_expiry(mut self) -> Event {
        if planted::is("an expiry told as a release") {
            return self;
        }
        if let Event::Session(
            SessionEvent::SeatsReleased { expired, .. } | SessionEvent::PlacesReleased { expired, .. },
        )
        | Event::Product(ProductEvent::UnitsReleased { expired, .. })
        | Event::Resource(ResourceEvent::SlotReleased { expired, .. })
        | Event::Customer(CustomerEvent::QuotaReleased { expired, .. }) = &mut self
        {
            *expired = true;
        }
        self
    }
}
