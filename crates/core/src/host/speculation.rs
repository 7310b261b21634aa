//! An entity's state with everything proposed so far. The next decision is made against it.

use alloc::{borrow::Cow, sync::Arc, vec, vec::Vec};

use smol_str::format_smolstr;

use super::Turn;
use crate::{
    answer::{Answer, Answered, At, Outcome},
    cart::Cart,
    cluster_table::ClusterTable,
    code::Code,
    customer::Customer,
    directory::Directory,
    event::{CartEvent, Event, VenueEvent},
    id::Entity,
    inventory::Inventory,
    product::Product,
    push_exact::push_exact,
    refusal::Refusal,
    resource::Resource,
    session::Session,
    state_map::State,
    venue::Venue,
};

pub(super) struct Speculation {
    entity: Entity,
    state: Option<Arc<State>>,
}

/// Methods that return the state of one kind of entity.
macro_rules! state_as {
    ($($name:ident: $kind:ident($state:ty),)*) => {
        impl Speculation {
            $(pub(super) fn $name(&self) -> Option<&$state> {
                match self.state()? {
                    State::$kind(state) => Some(state),
                    other => panic!("{} has the state of another kind: {other:?}", self.entity),
                }
            })*
        }
    };
}

state_as! {
    cart: Cart(Cart),
    venue: Venue(Venue),
    session: Session(Session),
    product: Product(Product),
    resource: Resource(Resource),
    customer: Customer(Customer),
    directory: Directory(Directory),
    cluster: Cluster(ClusterTable),
    code: Code(Code),
}

impl Speculation {
    pub(super) fn new(entity: Entity, state: Option<Arc<State>>) -> Speculation {
        Speculation { entity, state }
    }

    pub(super) fn entity(&self) -> &Entity {
        &self.entity
    }

    /// Its state, or `None` before the first event.
    pub(super) fn state(&self) -> Option<&State> {
        self.state.as_deref()
    }

    /// The cart, or one without any event.
    pub(super) fn cart_or_blank(&self) -> Cow<'_, Cart> {
        let Entity::Cart(id) = self.entity else { panic!("{} is no cart", self.entity) };
        self.cart().map_or_else(|| Cow::Owned(Cart::blank(id)), Cow::Borrowed)
    }

    /// The customer, or one without any event.
    pub(super) fn customer_or_unknown(&self) -> Cow<'_, Customer> {
        let Entity::Customer(id) = &self.entity else { panic!("{} is no customer", self.entity) };
        self.customer().map_or_else(|| Cow::Owned(Customer::unknown(id.clone())), Cow::Borrowed)
    }

    /// The entity as an inventory that carts hold things of.
    pub(super) fn inventory(&self) -> Option<&dyn Inventory> {
        Some(self.state()?.inventory().unwrap_or_else(|| panic!("{} is no inventory", self.entity)))
    }

    /// Writes an event of a cart, as [`Speculation::apply`].
    pub(super) fn apply_cart<R>(&mut self, event: CartEvent, turn: &mut Turn<R>) {
        self.apply(Event::Cart(event), turn);
    }

    /// Writes an event of a venue, as [`Speculation::apply`].
    pub(super) fn apply_venue<R>(&mut self, event: VenueEvent, turn: &mut Turn<R>) {
        self.apply(Event::Venue(event), turn);
    }

    /// Writes an event, here and in the turn.
    pub(super) fn apply<R>(&mut self, event: Event, turn: &mut Turn<R>) {
        match &mut self.state {
            Some(state) => Arc::make_mut(state).apply(&event),
            None => self.state = Some(Arc::new(State::first(&self.entity, &event))),
        }
        push_exact(&mut turn.events, event);
    }

    /// The refusal of an entity that does not exist.
    pub(super) fn not_found(&self) -> Refusal {
        Refusal::NotFound(match &self.entity {
            Entity::Venue(id) => format_smolstr!("venue {id}"),
            Entity::Session(id) => format_smolstr!("session {id}"),
            Entity::Cart(id) => format_smolstr!("cart {id}"),
            Entity::Product(id) => return Refusal::NoSuchProduct(id.clone()),
            Entity::Resource(id) => format_smolstr!("resource {id}"),
            Entity::Customer(id) => format_smolstr!("customer {id}"),
            Entity::Code(_) => return Refusal::CodeNotValid,
            Entity::Directory => "the directory".into(),
            Entity::Cluster => "the cluster".into(),
        })
    }

    /// Its version now.
    pub(super) fn at(&self) -> At {
        At { entity: self.entity.clone(), version: self.version(), position: 0 }
    }

    /// How many events it has had.
    pub(super) fn version(&self) -> u64 {
        self.state.as_deref().map_or(0, State::version)
    }

    /// An answer that rests on this entity as it is now.
    pub(super) fn ok(&self, answer: Answer) -> Outcome {
        Ok(Answered { answer, at: vec![self.at()] })
    }

    /// An answer that was given before, when this entity was at `version`.
    pub(super) fn ok_again(&self, answer: Answer, version: u64) -> Outcome {
        Ok(Answered { answer, at: vec![At { version, ..self.at() }] })
    }

    /// An answer that rests on this entity as it is now, and on those it asked.
    pub(super) fn ok_with(&self, answer: Answer, asked: Vec<At>) -> Outcome {
        let mut at = Vec::with_capacity(asked.len() + 1);
        at.push(self.at());
        at.extend(asked);
        Ok(Answered { answer, at })
    }
}
