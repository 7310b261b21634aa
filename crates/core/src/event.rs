//! What happened: the content of the log. Events carry absolute values and are applied without a question.

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

/// Something that happened to an entity. Each raises the entity's version by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// To a venue.
    Venue(VenueEvent),
    /// To a session.
    Session(SessionEvent),
    /// To a cart.
    Cart(CartEvent),
    /// To a product.
    Product(ProductEvent),
    /// To a resource.
    Resource(ResourceEvent),
    /// To a customer.
    Customer(CustomerEvent),
    /// To the directory.
    Directory(DirectoryEvent),
    /// To the cluster.
    Cluster(ClusterEvent),
}

/// An answer kept so that a repeat of its request gets the same (P9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The request.
    pub request: Request,
    /// What it was answered.
    pub answer: Answer,
    /// Where those stood that were asked for it, in the order of its lines. Where the entity itself stands follows: it is
    /// the version with this event.
    pub asked: Vec<At>,
}

impl Remembered {
    /// An answer for which nobody else was asked.
    pub fn alone(request: Request, answer: Answer) -> Remembered {
        Remembered { request, answer, asked: Vec::new() }
    }
}

/// What happens to the holds of an inventory, whatever it is that they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldEvent {
    /// The cart said that the hold is its own for longer.
    Extended {
        /// Which hold.
        hold: HoldId,
        /// When the cart is asked again: what it said, and the grace.
        deadline: Timestamp,
    },
    /// A hold that has nothing was spoken of as released: it is remembered, for the ask for it may still be on its way.
    Remembered {
        /// Which hold.
        hold: HoldId,
        /// Its revision.
        revision: u64,
    },
    /// The cart is terminal: its released holds need not be remembered.
    Forgotten(CartId),
}

impl Event {
    /// The same release, because the cart's time was over.
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
