//! Events, the content of the log. They carry absolute values and are applied without checks.

mod cart;
mod cluster;
mod code;
mod customer;
mod directory;
mod product;
mod resource;
mod session;
mod venue;

use alloc::vec::Vec;

use boxoffice_declare::Stored;

pub use self::{
    cart::{CartEvent, CodeUse, GrownLine, NewLine, Owed, QuotaClaim, Reserved},
    cluster::ClusterEvent,
    code::CodeEvent,
    customer::CustomerEvent,
    directory::DirectoryEvent,
    product::ProductEvent,
    resource::ResourceEvent,
    session::SessionEvent,
    venue::VenueEvent,
};
use crate::{
    answer::{At, KeptAnswer},
    id::{CartId, HoldId, Request},
    planted,
    time::Timestamp,
};

/// An event of an entity. Each raises the entity's version by one.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Event {
    #[n(0)]
    Venue(#[n(0)] VenueEvent),
    #[n(1)]
    Session(#[n(0)] SessionEvent),
    #[n(2)]
    Cart(#[n(0)] CartEvent),
    #[n(3)]
    Product(#[n(0)] ProductEvent),
    #[n(4)]
    Resource(#[n(0)] ResourceEvent),
    #[n(5)]
    Customer(#[n(0)] CustomerEvent),
    #[n(6)]
    Directory(#[n(0)] DirectoryEvent),
    #[n(7)]
    Cluster(#[n(0)] ClusterEvent),
    #[n(8)]
    Code(#[n(0)] CodeEvent),
}

/// An answer that is remembered, so that a repeat of its request gets the same (P9).
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Remembered {
    #[n(0)]
    pub request: Request,
    #[n(1)]
    pub answer: KeptAnswer,
    /// The versions of the entities that were asked for it, in the order of its lines. The entity's own version is that of this
    /// event.
    #[n(2)]
    pub asked: Vec<At>,
}

impl Remembered {
    /// An answer that needed no other entity.
    pub fn alone(request: Request, answer: KeptAnswer) -> Remembered {
        Remembered { request, answer, asked: Vec::new() }
    }
}

/// Events of holds of any inventory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum HoldEvent {
    /// The cart keeps the hold for longer.
    #[n(0)]
    Extended {
        #[n(0)]
        hold: HoldId,
        /// When the cart is asked again, the grace included.
        #[n(1)]
        deadline: Timestamp,
    },
    /// An unknown hold was released. It is remembered, because the ask for it may still be on its way.
    #[n(1)]
    Remembered {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        revision: u64,
    },
    /// The cart is terminal, so its released holds are forgotten.
    #[n(2)]
    Forgotten(#[n(0)] CartId),
}

impl Event {
    /// Whether only the next version has it.
    #[cfg(debug_assertions)]
    pub fn is_rehearsed(&self) -> bool {
        matches!(self, Event::Cart(CartEvent::Rehearsed))
    }

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
        | Event::Customer(CustomerEvent::QuotaReleased { expired, .. })
        | Event::Code(CodeEvent::UsesReleased { expired, .. }) = &mut self
        {
            *expired = true;
        }
        self
    }
}
