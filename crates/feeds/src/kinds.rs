//! The publisher of each kind of entity.

use boxoffice_core::id::Entity;

use super::{
    InitialState, View,
    publisher::{Publisher, StatePublisher},
    purchases::PurchasePublisher,
    seats::{SessionCounts, SessionState},
    states::{CartFeedState, ProductState, ResourceState},
};

/// The publisher of an entity with this initial state. `terms` are its epoch and the depth of its ring.
pub(super) fn publisher(entity: &Entity, view: View, terms: (u64, usize), initial: InitialState) -> Box<dyn Publisher> {
    match initial {
        InitialState::Session(map) => match view {
            View::Whole => Box::new(StatePublisher::from_initial(entity, terms, SessionState::new(map))),
            View::Counts => {
                Box::new(StatePublisher::from_initial(entity, terms, SessionCounts(SessionState::new(map))))
            }
        },
        InitialState::Product { version, counts } => {
            Box::new(StatePublisher::from_initial(entity, terms, ProductState { version, counts }))
        }
        InitialState::Resource { version, bookings } => {
            Box::new(StatePublisher::from_initial(entity, terms, ResourceState { version, bookings }))
        }
        InitialState::Cart { version, cart } => {
            Box::new(StatePublisher::from_initial(entity, terms, CartFeedState { version, cart }))
        }
        InitialState::Customer { newest } => match entity {
            Entity::Customer(customer) => Box::new(PurchasePublisher::from_initial(customer.clone(), terms.0, newest)),
            other => panic!("{other} begins as a customer"),
        },
    }
}
