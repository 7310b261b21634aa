//! Which line an entity has, by its kind.

use boxoffice_core::id::Entity;

use super::{
    Beginning, View,
    line::{Line, States},
    purchases::Purchases,
    seats::{Counts, Seats},
    states::{CalendarAt, CartAt, StockAt},
};

/// The feed of an entity, from its beginning on. `terms` are its epoch and how many deltas it keeps.
pub(super) fn begun(entity: &Entity, view: View, terms: (u64, usize), beginning: Beginning) -> Box<dyn Line> {
    match beginning {
        Beginning::Session(map) => match view {
            View::Whole => Box::new(States::begun(entity, terms, Seats::new(map))),
            View::Counts => Box::new(States::begun(entity, terms, Counts(Seats::new(map)))),
        },
        Beginning::Product { version, counts } => Box::new(States::begun(entity, terms, StockAt { version, counts })),
        Beginning::Resource { version, bookings } => {
            Box::new(States::begun(entity, terms, CalendarAt { version, bookings }))
        }
        Beginning::Cart { version, cart } => Box::new(States::begun(entity, terms, CartAt { version, cart })),
        Beginning::Customer { newest } => match entity {
            Entity::Customer(customer) => Box::new(Purchases::begun(customer.clone(), newest)),
            other => panic!("{other} begins as a customer"),
        },
    }
}
