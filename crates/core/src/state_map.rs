//! The committed entities of one shard that are in memory, and when they want to be woken.

mod audit;
mod cut;
mod eviction;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    vec::Vec,
};
use core::fmt;

use crate::{
    answer::{Answer, CartState},
    cart::Cart,
    cluster_table::ClusterTable,
    code::Code,
    customer::Customer,
    directory::Directory,
    event::{Event, SessionEvent, VenueEvent},
    id::{Entity, HoldId, Request},
    inventory::Inventory,
    layout::Layout,
    payment::PaymentCounts,
    planted,
    portion::Portion,
    product::Product,
    resource::Resource,
    session::Session,
    shared_map::SharedMap,
    time::Timestamp,
    venue::Venue,
};

pub use audit::ShardAudit;
pub use cut::Cut;
pub use eviction::EvictionCandidate;

/// How long until a due entity is named again, in milliseconds, unless its state changes before.
pub const DUE_AGAIN_MS: u64 = 1_000;

/// How many events and messages an entity may have. One turn has far fewer than there are numbers above it.
const COUNT_MAX: u64 = u64::MAX - (1 << 32);

/// The state of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Venue(Box<Venue>),
    Session(Session),
    Cart(Box<Cart>),
    Product(Box<Product>),
    Resource(Box<Resource>),
    Customer(Box<Customer>),
    Directory(Box<Directory>),
    Cluster(Box<ClusterTable>),
    Code(Box<Code>),
}

impl State {
    /// An entity's state after its first event.
    ///
    /// # Panics
    /// If the event cannot be the first of such an entity.
    pub fn first(entity: &Entity, event: &Event) -> State {
        match (entity, event) {
            (Entity::Venue(id), Event::Venue(VenueEvent::Put { details, request, .. })) => {
                State::Venue(Box::new(Venue::created(id.clone(), details.clone(), *request)))
            }
            (Entity::Session(id), Event::Session(SessionEvent::Opened(opening))) => {
                assert_eq!(*id, opening.session.id, "a session is opened under another id");
                State::Session(Session::opened(opening))
            }
            (Entity::Cart(id), Event::Cart(event)) => {
                let mut cart = Box::new(Cart::blank(*id));
                cart.apply(event);
                State::Cart(cart)
            }
            (Entity::Product(id), Event::Product(event)) => State::Product(Box::new(Product::first(id.clone(), event))),
            (Entity::Resource(id), Event::Resource(event)) => {
                State::Resource(Box::new(Resource::first(id.clone(), event)))
            }
            (Entity::Customer(id), Event::Customer(event)) => {
                State::Customer(Box::new(Customer::first(id.clone(), event)))
            }
            (Entity::Code(id), Event::Code(event)) => State::Code(Box::new(Code::first(id.clone(), event))),
            (Entity::Directory, Event::Directory(event)) => {
                let mut directory = Directory::new();
                directory.apply(event);
                State::Directory(Box::new(directory))
            }
            (Entity::Cluster, Event::Cluster(event)) => State::Cluster(Box::new(ClusterTable::first(event))),
            (entity, event) => panic!("{entity} cannot begin with {event:?}"),
        }
    }

    /// Writes one event. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event is of another kind of entity, or breaks a promise.
    pub fn apply(&mut self, event: &Event) {
        match (self, event) {
            (State::Venue(venue), Event::Venue(event)) => venue.apply(event),
            (State::Session(session), Event::Session(event)) => session.apply(event),
            (State::Cart(cart), Event::Cart(event)) => cart.apply(event),
            (State::Product(product), Event::Product(event)) => product.apply(event),
            (State::Resource(resource), Event::Resource(event)) => resource.apply(event),
            (State::Customer(customer), Event::Customer(event)) => customer.apply(event),
            (State::Code(code), Event::Code(event)) => code.apply(event),
            (State::Directory(directory), Event::Directory(event)) => directory.apply(event),
            (State::Cluster(cluster), Event::Cluster(event)) => cluster.apply(event),
            (state, event) => panic!("{event:?} happened to {state:?}"),
        }
    }

    /// How many events the entity has had.
    pub fn version(&self) -> u64 {
        match self {
            State::Venue(venue) => venue.version(),
            State::Session(session) => session.version(),
            State::Cart(cart) => cart.version(),
            State::Product(product) => product.version(),
            State::Resource(resource) => resource.version(),
            State::Customer(customer) => customer.version(),
            State::Code(code) => code.version(),
            State::Directory(directory) => directory.version(),
            State::Cluster(cluster) => cluster.version(),
        }
    }

    /// Whether it has had as many events or messages as can be counted, with room for those of one turn.
    pub(crate) fn is_full(&self) -> bool {
        let messages = match self {
            State::Cart(cart) => cart.outbox().next(),
            _ => 0,
        };
        self.version().max(messages) >= COUNT_MAX && !planted::is("a count that goes on for ever")
    }

    /// The entity as an inventory, if carts hold things of it.
    pub(crate) fn inventory(&self) -> Option<&dyn Inventory> {
        match self {
            State::Session(session) => Some(session),
            State::Product(product) => Some(&**product),
            State::Resource(resource) => Some(&**resource),
            State::Customer(customer) => Some(&**customer),
            State::Code(code) => Some(&**code),
            State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => None,
        }
    }

    /// The content of a live hold, as its inventory keeps it.
    pub fn held(&self, hold: HoldId) -> Option<Portion> {
        self.inventory()?.held(hold)
    }

    /// The content that a hold was sold with, as its inventory keeps it, or `None` if it was not sold, or was refunded.
    pub fn sold(&self, hold: HoldId) -> Option<Portion> {
        self.inventory()?.sold(hold)
    }

    /// How many released holds an inventory remembers, because their carts may still send messages about them.
    pub fn remembered_releases(&self) -> usize {
        self.inventory().and_then(|inventory| inventory.holds()).map_or(0, |holds| holds.remembered())
    }

    /// The audit of an inventory as clients get it, whose shard's true time is `distance_ms` ahead of its running time.
    pub fn audited(&self, distance_ms: i64) -> Option<Answer> {
        let mut answer = match self {
            State::Session(session) => Answer::SessionAudit(Box::new(session.audit())),
            State::Product(product) => Answer::ProductAudit(Box::new(product.audit())),
            State::Resource(resource) => Answer::ResourceAudit(Box::new(resource.audit())),
            State::Customer(customer) => Answer::CustomerAudit(Box::new(customer.audit())),
            State::Code(code) => Answer::CodeAudit(Box::new(code.audit())),
            State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => return None,
        };
        answer.convert_to_true_time(distance_ms);
        Some(answer)
    }

    /// Why an inventory wants holds and sales back. `None` if it wants none.
    pub(crate) fn reason_to_revoke(&self) -> Option<&str> {
        match self {
            State::Session(session) => session.canceled(),
            State::Resource(_) => Some("the booking was canceled"),
            _ => None,
        }
    }

    /// The earliest instant at which the entity's host wants a wake because of committed state.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self {
            State::Cart(cart) => cart.deadline(),
            other => other.inventory()?.deadline(),
        }
    }

    /// The earliest instant of true time at which the entity's host wants a wake because of committed state.
    pub fn opens_at(&self) -> Option<Timestamp> {
        match self {
            State::Session(session) => session.next_opening(),
            _ => None,
        }
    }

    /// Steps of its payments that are open.
    pub fn payments(&self) -> PaymentCounts {
        match self {
            State::Cart(cart) => cart.payments(),
            _ => PaymentCounts::default(),
        }
    }

    /// Whether a client's request repeats a granted one, or is for a cart that is checking out or has ended, which grants nothing
    /// new.
    pub fn knows_request(&self, request: Request) -> bool {
        match self {
            State::Cart(cart) => {
                cart.state().is_some_and(|state| state != CartState::Active) || cart.remembers(request.id)
            }
            State::Resource(resource) => resource.remembers(request.id),
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Customer(_) | State::Code(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
        }
    }

    /// Forgets the requests of a cart. Only a planted bug does so.
    #[must_use]
    pub fn without_requests(&self) -> State {
        let mut state = self.clone();
        if let State::Cart(cart) = &mut state {
            cart.forget_requests();
        }
        state
    }

    /// Whether it is a cart that no client has opened.
    pub fn is_tombstone(&self) -> bool {
        matches!(self, State::Cart(cart) if cart.is_tombstone())
    }

    /// Whether it owes messages. Then it is woken when its shard gets a leader.
    pub fn unfinished(&self) -> bool {
        match self {
            State::Venue(venue) => venue.unfinished(),
            // A canceled session wants every hold back and sends its venue a message, and so does one whose sale changes.
            State::Session(session) => {
                session.owes_vacating().is_some()
                    || session.owes_sale_of().is_some()
                    || (session.canceled().is_some() && !session.unwanted(None, 1).is_empty())
            }
            // Operators canceled bookings of carts.
            State::Resource(resource) => {
                !resource.unwanted(None, 1).is_empty() && !planted::is("a revoked booking forgotten")
            }
            State::Product(_) | State::Customer(_) | State::Code(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            State::Cart(cart) => cart.unfinished(),
        }
    }
}

/// All entities of one shard that are in memory. Ended ones may be moved to the store by [`StateMap::take_evictable`].
#[derive(Clone, Debug, Default)]
pub struct StateMap {
    /// The last applied place of the shard's log, set by [`StateMap::advance`].
    index: u64,
    /// Shared with cuts. Making a cut copies references to leaves only.
    entries: SharedMap<Entity, Entry>,
    /// Steps of payments that are open, of all carts in memory.
    payments: PaymentCounts,
    /// Carts in memory that no client has opened.
    tombstones: u64,
    /// When each entity is checked for being due. It is its deadline, or earlier if the deadline has moved on. Most deadlines
    /// move on several times, so an entity is not sorted in again at every move.
    wakes: BTreeSet<(Timestamp, Entity)>,
    /// When entities are to be woken in true time. Such instants are few, and move with every correction of the time.
    openings: BTreeSet<(Timestamp, Entity)>,
    /// True time less running time, in milliseconds, as of the last applied place.
    distance_ms: i64,
    /// How many entities may be evicted.
    evictable: usize,
    /// Evictable entities that were not handed out since they changed.
    eviction_queue: Vec<Entity>,
    layouts: Layouts,
}

#[derive(Clone, Debug)]
struct Entry {
    state: Arc<State>,
    /// Its instant in `wakes`.
    wake_at: Option<Timestamp>,
    /// Its instant in `openings`.
    opens_at: Option<Timestamp>,
    /// The last place of the log in its state, if it may be evicted.
    evictable_at: Option<u64>,
    /// The place in the log at which it began, if it began in this memory and was not handed out since.
    began: Option<u64>,
}

impl Entry {
    /// An entity in a cut, without anything that is only true in one memory.
    fn new(state: Arc<State>) -> Entry {
        Entry { state, wake_at: None, opens_at: None, evictable_at: None, began: None }
    }
}

impl StateMap {
    /// An empty map.
    pub fn new() -> StateMap {
        StateMap::default()
    }

    /// An empty map that shares layouts with others.
    pub fn sharing(pool: Arc<dyn LayoutPool>) -> StateMap {
        let layouts = Layouts { pool: Some(pool), ..Layouts::default() };
        StateMap { layouts, ..StateMap::default() }
    }

    /// An entity's committed state.
    pub fn get(&self, entity: &Entity) -> Option<Arc<State>> {
        self.entries.get(entity).map(|entry| Arc::clone(&entry.state))
    }

    /// Whether an entity is in memory.
    pub fn contains(&self, entity: &Entity) -> bool {
        self.entries.contains_key(entity)
    }

    /// Sets the place in the shard's log of everything that is applied from now on. It never goes back.
    pub fn advance(&mut self, index: u64) {
        assert!(index >= self.index, "the log goes back from {} to {index}", self.index);
        self.index = index;
    }

    /// Sets true time less running time, in milliseconds.
    pub fn set_distance(&mut self, distance_ms: i64) {
        self.distance_ms = distance_ms;
    }

    /// The last place given to [`StateMap::advance`], or of the cut it was restored from.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Applies committed events of an entity and returns its new version. An evicted entity must be reloaded before, unless the
    /// events are its first.
    ///
    /// # Panics
    /// If a promise is broken, because the events were not decided against this state.
    pub fn apply(&mut self, entity: &Entity, events: Vec<Event>) -> u64 {
        let events = match self.apply_in_memory(entity, events) {
            Ok(version) => return version,
            Err(events) => events,
        };
        let began = State::never_archived(&events).then_some(self.index);
        let mut events = events.into_iter();
        let Some(mut first) = events.next() else { return 0 };
        self.layouts.share(&mut first);
        let mut state = State::first(entity, &first);
        for mut event in events {
            self.layouts.share(&mut event);
            state.apply(&event);
        }
        let version = state.version();
        self.insert(entity.clone(), Arc::new(state), began);
        version
    }

    /// Applies committed events of an entity that is in memory and returns its new version.
    ///
    /// # Errors
    /// The events, if it is not in memory.
    ///
    /// # Panics
    /// As [`StateMap::apply`].
    pub fn apply_in_memory(&mut self, entity: &Entity, events: Vec<Event>) -> Result<u64, Vec<Event>> {
        let Some(entry) = self.entries.get_mut(entity) else { return Err(events) };
        let (payments, tombstone) = (entry.state.payments(), entry.state.is_tombstone());
        let state = Arc::make_mut(&mut entry.state);
        for mut event in events {
            self.layouts.share(&mut event);
            state.apply(&event);
        }
        self.payments.add(state.payments());
        self.payments.subtract(payments);
        // An opened cart never becomes a tombstone.
        self.tombstones -= u64::from(tombstone && !state.is_tombstone());
        if let Some(deadline) = state.deadline()
            && entry.wake_at.is_none_or(|wake_at| deadline < wake_at)
        {
            if let Some(wake_at) = entry.wake_at.replace(deadline) {
                self.wakes.remove(&(wake_at, entity.clone()));
            }
            self.wakes.insert((deadline, entity.clone()));
        }
        let opens_at = entry.state.opens_at();
        if opens_at != entry.opens_at {
            let before = core::mem::replace(&mut entry.opens_at, opens_at);
            before.map(|before| self.openings.remove(&(before, entity.clone())));
            self.openings.extend(opens_at.map(|opens_at| (opens_at, entity.clone())));
        }
        let evictable_at = entry.state.is_evictable().then_some(self.index);
        self.evictable =
            self.evictable + usize::from(evictable_at.is_some()) - usize::from(entry.evictable_at.is_some());
        entry.evictable_at = evictable_at;
        let version = entry.state.version();
        if evictable_at.is_some() {
            self.eviction_queue.push(entity.clone());
        }
        Ok(version)
    }

    /// Names up to `max` entities that want a wake at `now`, longest waiting first. An entity is named again after
    /// [`DUE_AGAIN_MS`] unless its state changes before. So no entity is named twice in one burst, and an entity that cannot go
    /// on does not keep others from being named.
    pub fn due(&mut self, now: Timestamp, max: usize, out: &mut Vec<Entity>) {
        // It is later than now even after the end of time.
        let again = Timestamp(now.0.saturating_add(DUE_AGAIN_MS));
        let true_now = now.ahead(self.distance_ms);
        for _ in 0..max {
            if self.openings.first().is_none_or(|(opens_at, _)| *opens_at > true_now) {
                break;
            }
            let (_, entity) = self.openings.pop_first().expect("looked at above");
            let entry = self.entries.get_mut(&entity).expect("only entities in memory are woken");
            let later = again.ahead(self.distance_ms);
            entry.opens_at = Some(later);
            self.openings.insert((later, entity.clone()));
            out.push(entity);
        }
        for _ in 0..max {
            if self.wakes.first().is_none_or(|(wake_at, _)| *wake_at > now) {
                return;
            }
            let (_, entity) = self.wakes.pop_first().expect("looked at above");
            let entry = self.entries.get_mut(&entity).expect("only entities in memory are woken");
            let deadline = entry.state.deadline();
            let is_due = deadline.is_some_and(|deadline| deadline <= now);
            entry.wake_at = if is_due { Some(again) } else { deadline };
            self.wakes.extend(entry.wake_at.map(|wake_at| (wake_at, entity.clone())));
            if is_due {
                out.push(entity);
            }
        }
    }

    /// No entity is named by [`StateMap::due`] before this instant.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let running = self.openings.first().map(|(opens_at, _)| opens_at.ahead(self.distance_ms.saturating_neg()));
        self.wakes.first().map(|(wake_at, _)| *wake_at).into_iter().chain(running).min()
    }

    /// Entities that owe messages. They are woken when the shard gets a leader. This looks at all entities, because it is seldom
    /// needed and a list would have to be updated at every turn.
    pub fn unfinished(&self) -> impl Iterator<Item = &Entity> {
        self.entities().filter(|(_, state)| state.unfinished()).map(|(entity, _)| entity)
    }

    /// How many steps of payments are open, from the counters. A cart with an open step is never evicted.
    pub fn payments(&self) -> PaymentCounts {
        self.payments
    }

    /// How many entities are in memory.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entity is in memory.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entities in memory, in order.
    pub fn entities(&self) -> impl Iterator<Item = (&Entity, &Arc<State>)> {
        self.entries.iter().map(|(entity, entry)| (entity, &entry.state))
    }

    fn insert(&mut self, entity: Entity, state: Arc<State>, began: Option<u64>) {
        self.payments.add(state.payments());
        self.tombstones += u64::from(state.is_tombstone());
        let wake_at = state.deadline();
        self.wakes.extend(wake_at.map(|wake_at| (wake_at, entity.clone())));
        let opens_at = state.opens_at();
        self.openings.extend(opens_at.map(|opens_at| (opens_at, entity.clone())));
        let evictable_at = state.is_evictable().then_some(self.index);
        if evictable_at.is_some() {
            self.evictable += 1;
            self.eviction_queue.push(entity.clone());
        }
        self.entries.insert(entity, Entry { state, wake_at, opens_at, evictable_at, began });
    }
}

/// Layouts of several maps, as the shards of a node have them, so that equal ones share memory.
pub trait LayoutPool: fmt::Debug + Send + Sync {
    /// An equal layout that is in use, or else this one, which is in use from now on.
    fn one(&self, layout: &Arc<Layout>) -> Arc<Layout>;
}

/// The layouts in use. Equal layouts share memory.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    by_digest: BTreeMap<u64, Vec<Weak<Layout>>>,
    /// Those of other maps.
    pool: Option<Arc<dyn LayoutPool>>,
}

impl Layouts {
    /// Replaces the layout of an event by an equal one that is already in use.
    fn share(&mut self, event: &mut Event) {
        let layout = match event {
            Event::Venue(VenueEvent::HallPut { layout: Some(layout), .. }) => layout,
            Event::Venue(VenueEvent::SessionBooked { layout, .. }) => layout,
            Event::Session(SessionEvent::Opened(opening)) => &mut opening.layout,
            _ => return,
        };
        *layout = self.one(layout);
    }

    /// An equal layout that is in use, or else this one, which is in use from now on.
    pub fn one(&mut self, layout: &Arc<Layout>) -> Arc<Layout> {
        let known = self.by_digest.entry(layout.digest()).or_default();
        known.retain(|known| known.strong_count() > 0);
        let equal = known.iter().filter_map(Weak::upgrade).find(|known| known == layout);
        equal.unwrap_or_else(|| {
            let layout = match &self.pool {
                Some(pool) => pool.one(layout),
                None => Arc::clone(layout),
            };
            known.push(Arc::downgrade(&layout));
            layout
        })
    }
}
