//! Commands of clients, checked as far as possible without any state.

mod cart;
mod cluster;
mod code;
mod customer;
mod directory;
mod hash;
mod limits;
mod offer;
mod product;
mod resource;
mod session;
mod venue;
mod want;

use boxoffice_declare::Stored;

pub use self::{
    cart::{CartCommand, Expect, Payment, Purpose, Shipping, WantedLine, owns},
    cluster::{
        Admission, ClusterCommand, INVITATION_HASH_BYTES, INVITATION_MS_MAX, Machine, Move, PROOF_BYTES, Replacing,
    },
    code::{CODE_USES_MAX, CodeCommand, CodeDetails, ShownCode},
    customer::CustomerCommand,
    directory::{DirectoryCommand, Title},
    limits::{CustomerLimit, Limits},
    offer::{
        ALLOTMENTS_MAX, Allotment, Counter, OFFER_ATTRIBUTES_MAX, OFFER_COUNTERS_MAX, OFFERS_MAX, Offer, Offering,
        PRICE_TYPES_MAX, PriceChange, PriceType,
    },
    product::{HoldPolicy, ProductCommand, ProductDetails},
    resource::{Every, OpeningHours, Rate, Repeat, ResourceCommand, ResourceDetails, Until, When},
    session::{Area, NewSession, SessionChange, SessionCommand, SessionExtras},
    venue::{VenueCommand, VenueDetails},
    want::{BestWish, BuyAs, Details, Want},
};
use crate::id::{CartId, Entity, Id};

/// A command, addressed to the entity that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Command {
    #[n(0)]
    Venue(#[n(0)] Id, #[n(1)] VenueCommand),
    #[n(1)]
    Session(#[n(0)] Id, #[n(1)] SessionCommand),
    #[n(2)]
    Cart(#[n(0)] CartId, #[n(1)] CartCommand),
    #[n(3)]
    Product(#[n(0)] Id, #[n(1)] ProductCommand),
    #[n(4)]
    Resource(#[n(0)] Id, #[n(1)] ResourceCommand),
    #[n(5)]
    Customer(#[n(0)] Id, #[n(1)] CustomerCommand),
    #[n(6)]
    Directory(#[n(0)] DirectoryCommand),
    #[n(7)]
    Cluster(#[n(0)] ClusterCommand),
    #[n(8)]
    Code(#[n(0)] Id, #[n(1)] CodeCommand),
}

impl Command {
    /// The entity that decides this command.
    pub fn entity(&self) -> Entity {
        match self {
            Command::Venue(id, _) => Entity::Venue(id.clone()),
            Command::Session(id, _) => Entity::Session(id.clone()),
            Command::Cart(id, _) => Entity::Cart(*id),
            Command::Product(id, _) => Entity::Product(id.clone()),
            Command::Resource(id, _) => Entity::Resource(id.clone()),
            Command::Customer(id, _) => Entity::Customer(id.clone()),
            Command::Code(id, _) => Entity::Code(id.clone()),
            Command::Directory(_) => Entity::Directory,
            Command::Cluster(_) => Entity::Cluster,
        }
    }
}
