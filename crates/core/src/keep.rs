//! The keeping: all entities of one shard as committed, and what they want to be woken for.

mod audit;
mod cut;
mod leaving;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    vec::Vec,
};

use crate::{
    answer::CartState,
    cart::Cart,
    cluster_table::ClusterTable,
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

pub use audit::KeptAudit;
pub use cut::Cut;
pub use leaving::Leaving;

/// An entity that was named as due is named again after so many milliseconds, unless its state has changed.
pub const DUE_AGAIN_MS: u64 = 1_000;

/// How many events an entity may have, and messages to others. One turn has far fewer than there are numbers above it.
const COUNT_MAX: u64 = u64::MAX - (1 << 32);

/// What is kept of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A venue.
    Venue(Box<Venue>),
    /// A session.
    Session(Session),
    /// A cart.
    Cart(Box<Cart>),
    /// A product.
    Product(Box<Product>),
    /// A resource.
    Resource(Box<Resource>),
    /// A customer.
    Customer(Box<Customer>),
    /// The directory.
    Directory(Box<Directory>),
    /// The cluster.
    Cluster(Box<ClusterTable>),
}

impl State {
    /// An entity's state after its first event.
    ///
    /// # Panics
    /// If the event cannot be the first of such an entity.
    pub fn first(entity: &Entity, event: &Event) -> State {
        match (entity, event) {
            (Entity::Venue(id), Event::Venue(VenueEvent::Put { details, request })) => {
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
            State::Directory(directory) => directory.version(),
            State::Cluster(cluster) => cluster.version(),
        }
    }

    /// Whether it has had as many events, or messages to others, as can be counted with room for those of one turn.
    pub(crate) fn is_full(&self) -> bool {
        let messages = match self {
            State::Cart(cart) => cart.outbox().next(),
            _ => 0,
        };
        self.version().max(messages) >= COUNT_MAX && !planted::is("a count that goes on for ever")
    }

    /// The side of it that carts hold things of, if it has one.
    pub(crate) fn inventory(&self) -> Option<&dyn Inventory> {
        match self {
            State::Session(session) => Some(session),
            State::Product(product) => Some(&**product),
            State::Resource(resource) => Some(&**resource),
            State::Customer(customer) => Some(&**customer),
            State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => None,
        }
    }

    /// What a live hold has, as its inventory keeps it.
    pub fn held(&self, hold: HoldId) -> Option<Portion> {
        self.inventory()?.held(hold)
    }

    /// What a hold was sold with, as its inventory keeps it; `None` if it was not sold, or was refunded.
    pub fn sold(&self, hold: HoldId) -> Option<Portion> {
        self.inventory()?.sold(hold)
    }

    /// How many released holds an inventory remembers, because their carts may still speak of them.
    pub fn remembered_releases(&self) -> usize {
        self.inventory().map_or(0, |inventory| inventory.remembered_releases())
    }

    /// Why it will not take place, of a canceled session.
    pub(crate) fn canceled(&self) -> Option<&str> {
        match self {
            State::Session(session) => session.canceled(),
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

    /// Steps of its payments that are open.
    pub fn payments(&self) -> PaymentCounts {
        match self {
            State::Cart(cart) => cart.payments(),
            _ => PaymentCounts::default(),
        }
    }

    /// Whether a client's request that comes now repeats one that was granted, or can do no more than that: its cart is
    /// checking out or has ended.
    pub fn knows_request(&self, request: Request) -> bool {
        match self {
            State::Cart(cart) => {
                cart.state().is_some_and(|state| state != CartState::Active) || cart.remembers(request.id)
            }
            State::Resource(resource) => resource.remembers(request.id),
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Customer(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
        }
    }

    /// Whether it is a cart that nobody has opened.
    pub fn is_tombstone(&self) -> bool {
        matches!(self, State::Cart(cart) if cart.is_tombstone())
    }

    /// Whether something is owed to others: the entity is woken when its shard gets a leader.
    pub fn unfinished(&self) -> bool {
        match self {
            State::Venue(venue) => venue.unfinished(),
            // A canceled one wants everything back, and its venue is to know.
            State::Session(session) => {
                session.owes_vacating().is_some()
                    || (session.canceled().is_some() && !session.unwanted(None, 1).is_empty())
            }
            State::Product(_) | State::Resource(_) | State::Customer(_) => false,
            State::Directory(_) | State::Cluster(_) => false,
            State::Cart(cart) => cart.unfinished(),
        }
    }
}

/// All entities of one shard that are in memory. Ended ones may be taken out and kept elsewhere: [`Kept::take_leaving`].
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The place in the shard's log up to which it is applied, as [`Kept::advance`] said.
    index: u64,
    /// Shared with cuts: making one copies references to leaves only.
    entries: SharedMap<Entity, Entry>,
    /// Steps of payments that are open, of all carts in memory.
    payments: PaymentCounts,
    /// Carts in memory that nobody has opened.
    tombstones: u64,
    /// When which entity is looked at whether it is due: at its deadline or, if that has moved on since, before it. Most
    /// deadlines move on several times; so each is put in order once, and not at every move.
    calls: BTreeSet<(Timestamp, Entity)>,
    /// How many entities may leave.
    leaving: usize,
    /// Those of them that were not handed out yet.
    to_hand_out: Vec<Entity>,
    layouts: Layouts,
}

#[derive(Clone, Debug)]
struct Entry {
    state: Arc<State>,
    /// Its instant in `calls`.
    call: Option<Timestamp>,
    /// If it may leave: the place in the log up to which its state tells.
    leaves: Option<u64>,
    /// If it began here and was not handed out since: the place in the log at which it did.
    began: Option<u64>,
}

impl Entry {
    /// What a cut has of an entity: nothing that is only true in one memory.
    fn new(state: Arc<State>) -> Entry {
        Entry { state, call: None, leaves: None, began: None }
    }
}

impl Kept {
    /// Nothing kept yet.
    pub fn new() -> Kept {
        Kept::default()
    }

    /// An entity's committed state.
    pub fn get(&self, entity: &Entity) -> Option<Arc<State>> {
        self.entries.get(entity).map(|entry| Arc::clone(&entry.state))
    }

    /// Whether an entity is in memory.
    pub fn contains(&self, entity: &Entity) -> bool {
        self.entries.contains_key(entity)
    }

    /// Says at which place in the shard's log what is applied from now on stands; it never goes back.
    pub fn advance(&mut self, index: u64) {
        assert!(index >= self.index, "the log goes back from {} to {index}", self.index);
        self.index = index;
    }

    /// The last place given to [`Kept::advance`], or of the cut it was restored from.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Writes what was committed for an entity, and says at which version it is then. One that has left must be put back before,
    /// unless it begins anew.
    ///
    /// # Panics
    /// If a promise is broken: the events were not decided against this state.
    pub fn apply(&mut self, entity: &Entity, events: Vec<Event>) -> u64 {
        let events = match self.apply_in_memory(entity, events) {
            Ok(version) => return version,
            Err(events) => events,
        };
        let began = State::begins(&events).then_some(self.index);
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

    /// Writes what was committed for an entity that is in memory, and says at which version it is then.
    ///
    /// # Errors
    /// The events, if it is not in memory.
    ///
    /// # Panics
    /// As [`Kept::apply`].
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
        // Nobody closes a cart so that it never was opened.
        self.tombstones -= u64::from(tombstone && !state.is_tombstone());
        if let Some(deadline) = state.deadline()
            && entry.call.is_none_or(|call| deadline < call)
        {
            if let Some(call) = entry.call.replace(deadline) {
                self.calls.remove(&(call, entity.clone()));
            }
            self.calls.insert((deadline, entity.clone()));
        }
        let leaves = entry.state.leaves().then_some(self.index);
        self.leaving = self.leaving + usize::from(leaves.is_some()) - usize::from(entry.leaves.is_some());
        entry.leaves = leaves;
        let version = entry.state.version();
        if leaves.is_some() {
            self.to_hand_out.push(entity.clone());
        }
        Ok(version)
    }

    /// Names up to `max` entities that want a wake at `now`, those that wait longest first. One that was named is named
    /// again after [`DUE_AGAIN_MS`], unless its state has changed by then: nobody is named twice in one burst, and no
    /// entity that cannot go on keeps others from being named.
    pub fn due(&mut self, now: Timestamp, max: usize, out: &mut Vec<Entity>) {
        // Also after the end of time it is later than now.
        let again = Timestamp(now.0.saturating_add(DUE_AGAIN_MS));
        for _ in 0..max {
            if self.calls.first().is_none_or(|(call, _)| *call > now) {
                return;
            }
            let (_, entity) = self.calls.pop_first().expect("looked at above");
            let entry = self.entries.get_mut(&entity).expect("only kept entities are called");
            let deadline = entry.state.deadline();
            let is_due = deadline.is_some_and(|deadline| deadline <= now);
            entry.call = if is_due { Some(again) } else { deadline };
            self.calls.extend(entry.call.map(|call| (call, entity.clone())));
            if is_due {
                out.push(entity);
            }
        }
    }

    /// No entity is named by [`Kept::due`] before this instant.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.calls.first().map(|(call, _)| *call)
    }

    /// Entities that owe something to others: to be woken when the shard gets a leader. It looks at all of them, which is seldom
    /// needed; a list beside them would have to be kept at every turn.
    pub fn unfinished(&self) -> impl Iterator<Item = &Entity> {
        self.entities().filter(|(_, state)| state.unfinished()).map(|(entity, _)| entity)
    }

    /// How many steps of payments are open: kept, not counted afresh. They are all here, for no cart with one leaves.
    pub fn payments(&self) -> PaymentCounts {
        self.payments
    }

    /// How many entities are in memory.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept yet.
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
        let call = state.deadline();
        self.calls.extend(call.map(|call| (call, entity.clone())));
        let leaves = state.leaves().then_some(self.index);
        if leaves.is_some() {
            self.leaving += 1;
            self.to_hand_out.push(entity.clone());
        }
        self.entries.insert(entity, Entry { state, call, leaves, began });
    }
}

/// The layouts in use: equal ones are kept once.
#[derive(Clone, Debug, Default)]
struct Layouts {
    by_digest: BTreeMap<u64, Vec<Weak<Layout>>>,
}

impl Layouts {
    /// Replaces the layout of an event by an equal one that is in use already.
    fn share(&mut self, event: &mut Event) {
        let layout = match event {
            Event::Venue(VenueEvent::HallPut { layout: Some(layout), .. }) => layout,
            Event::Venue(VenueEvent::SessionBooked { layout, .. }) => layout,
            Event::Session(SessionEvent::Opened(opening)) => &mut opening.layout,
            _ => return,
        };
        *layout = self.one(layout);
    }

    fn one(&mut self, layout: &Arc<Layout>) -> Arc<Layout> {
        let known = self.by_digest.entry(layout.digest()).or_default();
        known.retain(|known| known.strong_count() > 0);
        let equal = known.iter().filter_map(Weak::upgrade).find(|known| known == layout);
        equal.unwrap_or_else(|| {
            known.push(Arc::downgrade(layout));
            Arc::clone(layout)
        })
    }
}
