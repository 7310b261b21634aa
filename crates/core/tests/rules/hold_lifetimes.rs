//! Checks of the lifetimes of holds (P8) after every commit. A hold of an ended cart is freed by an owed message, or its
//! inventory asks in time. No message shortens the lifetime of a hold. No cart expires before the deadline that its client knows.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, Answered, CartState, HoldView},
    event::{CartEvent, CodeEvent, CustomerEvent, Event, HoldEvent, ProductEvent, ResourceEvent, SessionEvent},
    id::{CartId, Entity, HoldId},
    rules::Rules,
    state_map::{State, StateMap},
    time::Timestamp,
};

/// The history that the checks need.
#[derive(Default)]
pub(crate) struct HoldLifetimes {
    /// When each hold was granted or extended.
    granted: BTreeMap<(Entity, HoldId), Timestamp>,
    /// When each inventory will ask about a hold.
    asks: BTreeMap<(Entity, HoldId), Timestamp>,
    /// When a cart confirmed a hold for this long.
    sent_at: BTreeMap<(Entity, HoldId, u64), Timestamp>,
    /// The longest delay of that message, in milliseconds. The inventory keeps the hold that much longer.
    late_ms: BTreeMap<(Entity, HoldId), u64>,
    /// When each cart expired or was canceled.
    ended: BTreeMap<CartId, Timestamp>,
    /// The last deadline that a cart's clients were told, and the cart's version then.
    shown: BTreeMap<CartId, (u64, Timestamp)>,
    /// The version of a cart at which a line with a shorter lifetime may have been added.
    shortened: BTreeMap<CartId, u64>,
}

impl HoldLifetimes {
    /// The earlier history is unknown, so every hold counts as granted now.
    pub(crate) fn restart_from(&mut self, now: Timestamp, states: &StateMap) {
        *self = HoldLifetimes::default();
        for (entity, state) in states.entities() {
            self.granted.extend(holds(state).iter().map(|hold| ((entity.clone(), hold.hold), now)));
        }
    }

    /// Records an answer to a client. `distance_ms` is the shard's distance from true time, in which deadlines are shown.
    pub(crate) fn answered(&mut self, answered: &Answered, distance_ms: i64) {
        let (cart, deadline) = match &answered.answer {
            Answer::Held(held) => (held.cart, Some(held.deadline)),
            Answer::Cart(view) => (view.id, Some(view.deadline).filter(|_| view.state == CartState::Active)),
            _ => return,
        };
        let (version, shown) = (answered.at[0].version, self.shown.entry(cart).or_default());
        if let Some(deadline) = deadline.filter(|_| version > shown.0) {
            *shown = (version, Timestamp(deadline.0.saturating_add_signed(-distance_ms)));
        }
    }

    /// Records that a cart confirms a hold for this long.
    pub(crate) fn note_sent(&mut self, now: Timestamp, to: &Entity, hold: HoldId, life_ms: u64) {
        self.sent_at.entry((to.clone(), hold, life_ms)).or_insert(now);
    }

    /// Records that the inventory receives that confirmation.
    pub(crate) fn note_received(&mut self, now: Timestamp, inventory: &Entity, hold: HoldId, life_ms: u64) {
        let sent_at = self.sent_at.get(&(inventory.clone(), hold, life_ms)).copied().unwrap_or(now);
        let late_ms = self.late_ms.entry((inventory.clone(), hold)).or_default();
        *late_ms = (*late_ms).max(now.0 - sent_at.0);
    }

    /// Records committed events.
    pub(crate) fn record_events(
        &mut self,
        now: Timestamp,
        entity: &Entity,
        events: &[Event],
        states: &StateMap,
        rules: &Rules,
    ) {
        for event in events {
            if let Some(HoldEvent::Extended { hold, deadline }) = of_hold(event) {
                let asks = self.asks.get(&(entity.clone(), *hold));
                assert!(asks.is_none_or(|asks| deadline > asks), "{event:?} shortens a life, which is until {asks:?}");
            }
        }
        match (entity, states.get(entity).as_deref()) {
            (Entity::Cart(id), Some(State::Cart(cart))) => {
                self.record_cart_events(*id, cart.version(), events);
                if matches!(cart.state(), Some(CartState::Canceled | CartState::Expired)) {
                    self.ended.entry(*id).or_insert(now);
                    for (inventory, state) in states.entities() {
                        self.check_freed(inventory, state, Some(*id), states, rules);
                    }
                }
            }
            (_, Some(state)) => {
                let holds = holds(state);
                for event in events {
                    if let Some(hold) = grants(event) {
                        self.granted.insert((entity.clone(), hold), now);
                    }
                }
                self.asks.retain(|(of, _), _| of != entity);
                self.asks.extend(holds.iter().map(|hold| ((entity.clone(), hold.hold), hold.deadline)));
                self.check_freed(entity, state, None, states, rules);
            }
            (_, None) => {}
        }
    }

    fn record_cart_events(&mut self, id: CartId, version: u64, events: &[Event]) {
        for (event, version) in events.iter().zip(version + 1 - events.len() as u64..) {
            match event {
                Event::Cart(CartEvent::LinesAdded { .. }) => _ = self.shortened.insert(id, version),
                Event::Cart(CartEvent::Expired { at, .. }) => {
                    let Some((shown, deadline)) = self.shown.get(&id) else { continue };
                    let shortened = self.shortened.get(&id).is_some_and(|shortened| shortened > shown);
                    assert!(
                        shortened || at >= deadline,
                        "{id} promised {deadline:?} at version {shown} and expired at {at:?}"
                    );
                }
                _ => {}
            }
        }
    }

    /// Holds of ended carts are being released.
    fn check_freed(&self, inventory: &Entity, state: &State, of: Option<CartId>, states: &StateMap, rules: &Rules) {
        for HoldView { hold, deadline, .. } in holds(state) {
            if of.is_some_and(|of| of != hold.cart) {
                continue;
            }
            let Some(ended) = self.ended.get(&hold.cart) else { continue };
            let cart = states.get(&Entity::Cart(hold.cart));
            let owed = match cart.as_deref() {
                Some(State::Cart(cart)) => cart.owes_release(inventory, hold),
                _ => false,
            };
            // During a checkout the cart tells an inventory to ask again later, regardless of the deadline.
            let key = (inventory.clone(), hold);
            let late_ms = self.late_ms.get(&key).copied().unwrap_or_default();
            let asks = ended.after(rules.ask_again_ms + rules.grace_ms + late_ms);
            let granted = self.granted.get(&key).copied().unwrap_or_default();
            let late = granted.after(rules.confirm_ms + rules.grace_ms);
            assert!(
                owed || deadline <= asks.max(late),
                "{inventory} has {hold:?} until {deadline:?}, of a cart that ended at {ended:?} (P8)"
            );
        }
    }
}

/// The live holds of an inventory.
fn holds(state: &State) -> Vec<HoldView> {
    match state {
        State::Session(session) => session.audit().holds,
        State::Product(product) => product.audit().holds,
        State::Resource(resource) => resource.audit().holds,
        State::Customer(customer) => customer.audit().holds,
        State::Code(code) => code.audit().holds,
        State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => Vec::new(),
    }
}

fn of_hold(event: &Event) -> Option<&HoldEvent> {
    match event {
        Event::Session(SessionEvent::Hold(event))
        | Event::Product(ProductEvent::Hold(event))
        | Event::Resource(ResourceEvent::Hold(event))
        | Event::Customer(CustomerEvent::Hold(event))
        | Event::Code(CodeEvent::Hold(event)) => Some(event),
        _ => None,
    }
}

/// The hold that was granted or extended.
fn grants(event: &Event) -> Option<HoldId> {
    match event {
        Event::Session(SessionEvent::SeatsHeld { hold, .. } | SessionEvent::PlacesHeld { hold, .. })
        | Event::Product(ProductEvent::UnitsHeld { hold, .. })
        | Event::Resource(ResourceEvent::SlotHeld { hold, .. })
        | Event::Customer(CustomerEvent::QuotaHeld { hold, .. })
        | Event::Code(CodeEvent::UsesHeld { hold, .. }) => Some(*hold),
        _ => None,
    }
}
