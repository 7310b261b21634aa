//! Commands of clients, checked as far as possible without any state.

mod cart;
mod cluster;
mod customer;
mod directory;
mod hash;
mod limits;
mod product;
mod resource;
mod session;
mod venue;
mod want;

use serde::{Deserialize, Serialize};

pub use self::{
    cart::{CartCommand, Expect, Payment, Purpose, Shipping, WantedLine, owns},
    cluster::{Admission, ClusterCommand, INVITATION_HASH_BYTES, INVITATION_MS_MAX, Machine, Move, PROOF_BYTES},
    customer::CustomerCommand,
    directory::{DirectoryCommand, Title},
    limits::{CustomerLimit, Limits},
    product::{HoldPolicy, ProductCommand, ProductDetails},
    resource::{Every, OpeningHours, Rate, Repeat, ResourceCommand, ResourceDetails, Until, When},
    session::{Area, NewSession, SessionCommand, SessionExtras},
    venue::{VenueCommand, VenueDetails},
    want::{BestWish, Details, Want},
};
use crate::id::{CartId, Entity, Id};

/// A command, addressed to the entity that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Venue(Id, VenueCommand),
    Session(Id, SessionCommand),
    Cart(CartId, CartCommand),
    Product(Id, ProductCommand),
    Resource(Id, ResourceCommand),
    Customer(Id, CustomerCommand),
    Directory(DirectoryCommand),
    Cluster(ClusterCommand),
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
            Command::Directory(_) => Entity::Directory,
            Command::Cluster(_) => Entity::Cluster,
        }
    }
}
