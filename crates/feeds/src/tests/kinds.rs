//! Watchers of products, resources, carts and customers rebuild the committed states without gaps. They see each purchase once,
//! in order.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use boxoffice_core::{
    answer::{CartState, CartView, Purchase, StockCounts},
    id::{CartId, Entity, Id, OrderId},
    money::{Currency, Money},
    time::Timestamp,
};
use boxoffice_wire::{
    Encoding,
    body::PurchaseCursor,
    call::Since,
    feed::{CartSnapshot, Ended, ProductSnapshot, PurchasesDelta, PurchasesSnapshot, ResourceSnapshot, SnapshotBody},
    reply::{Event, RawEvent, ServerFrame},
    view as seen,
};
use bytes::Bytes;
use proptest::prelude::*;
use tracing_mutex::parkinglot::Mutex;

use super::{
    super::{Commit, DAYS_MAX, FeedSource, FeedUpdate, Feeds, InitialState, NoFeed, Watcher},
    EPOCH, frame_of, hub, id, since, story, wait, watch,
};

/// The state of an entity that a watcher must see. A customer's versions are cursors.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown<C = CartView> {
    Product(StockCounts),
    Resource(u64),
    Cart(C),
    Customer,
}

/// The state as a watcher reads it.
type Seen = Shown<seen::CartView>;

impl Shown {
    fn seen(&self) -> Seen {
        match self {
            Shown::Product(counts) => Shown::Product(*counts),
            Shown::Resource(bookings) => Shown::Resource(*bookings),
            Shown::Cart(cart) => Shown::Cart(cart.into()),
            Shown::Customer => Shown::Customer,
        }
    }
}

struct Entry {
    /// From version 1, or from a customer's cursor 0.
    versions: BTreeMap<u64, Shown>,
    /// By their version.
    days: BTreeMap<u64, BTreeSet<u32>>,
    purchases: Vec<Purchase>,
    watched: bool,
}

/// A replica with every version of its entities.
#[derive(Default)]
struct Replica {
    entities: Mutex<BTreeMap<Entity, Entry>>,
    pages: Mutex<usize>,
}

/// A change of an entity.
#[derive(Clone, Debug)]
enum Change {
    /// A product's held units, a resource's days, a cart's deadline or a customer's purchases, by the entity's kind.
    Go(Vec<u32>),
    /// A cart ends.
    End,
    /// A change that watchers do not see. A customer does not even get a version.
    Inside,
}

fn product() -> Entity {
    Entity::Product(id("mug"))
}

fn resource() -> Entity {
    Entity::Resource(id("desk"))
}

fn cart(number: u128) -> Entity {
    Entity::Cart(CartId(number))
}

fn customer() -> Entity {
    Entity::Customer(id("ada"))
}

fn all() -> [Entity; 6] {
    [product(), resource(), cart(1), cart(2), customer(), Entity::Customer(id("bob"))]
}

fn view(number: u128) -> CartView {
    CartView {
        id: CartId(number),
        state: CartState::Active,
        customer: None,
        opened_at: Timestamp(1_000),
        modified_at: Timestamp(1_000),
        deadline: Timestamp(2_000),
        lines: Vec::new(),
        lines_version: 0,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    }
}

fn purchase(cursor: u64) -> Purchase {
    let total = Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") };
    Purchase {
        cursor,
        order: OrderId(u128::from(cursor) << 64),
        at: Timestamp(cursor),
        total,
        zone: None,
        items: Vec::new(),
    }
}

impl Replica {
    fn new() -> Arc<Replica> {
        let replica = Replica::default();
        for entity in all() {
            let (first, shown) = match &entity {
                Entity::Product(_) => (1, Shown::Product(StockCounts { free: 1_000, held: 0, sold: 0 })),
                Entity::Resource(_) => (1, Shown::Resource(0)),
                Entity::Cart(id) => (1, Shown::Cart(view(id.0))),
                _ => (0, Shown::Customer),
            };
            let versions = BTreeMap::from([(first, shown)]);
            let entry = Entry { versions, days: BTreeMap::new(), purchases: Vec::new(), watched: false };
            replica.entities.lock().insert(entity, entry);
        }
        Arc::new(replica)
    }

    /// Changes an entity. Returns the commit if it is watched.
    fn change(&self, entity: &Entity, change: &Change) -> Option<Commit> {
        let mut entities = self.entities.lock();
        let entry = entities.get_mut(entity).expect("a known entity");
        let (from, shown) = entry.versions.last_key_value().map(|(from, shown)| (*from, shown.clone()))?;
        let mut to = from + 1;
        let numbers = if let Change::Go(numbers) = change { &numbers[..] } else { &[] };
        let (shown, update) = match shown {
            Shown::Product(counts) => {
                let held = numbers.iter().map(|number| u64::from(number % 10)).sum::<u64>();
                let counts =
                    if numbers.is_empty() { counts } else { StockCounts { free: 1_000 - held, held, sold: 0 } };
                (Shown::Product(counts), FeedUpdate::Product(counts))
            }
            Shown::Resource(bookings) => {
                let days: BTreeSet<u32> = numbers.iter().map(|number| number % 3_000).collect();
                let bookings = bookings + days.len() as u64;
                entry.days.insert(to, days.clone());
                (Shown::Resource(bookings), FeedUpdate::Resource { days: Some(days), bookings })
            }
            Shown::Cart(mut cart) => {
                let active = cart.state == CartState::Active;
                match change {
                    Change::Go(_) if active => cart.deadline = cart.deadline.after(1),
                    Change::End if active => {
                        cart.state = [CartState::Done, CartState::Expired, CartState::Canceled][to as usize % 3];
                    }
                    Change::Go(_) | Change::End | Change::Inside => {}
                }
                (Shown::Cart(cart.clone()), FeedUpdate::Cart(Box::new(cart)))
            }
            Shown::Customer => {
                to = from + numbers.len() as u64;
                let new: Vec<Purchase> = (from + 1..=to).map(purchase).collect();
                entry.purchases.extend(new.iter().cloned());
                (Shown::Customer, FeedUpdate::Purchases(new))
            }
        };
        entry.versions.insert(to, shown);
        (entry.watched && from < to).then(|| Commit { entity: entity.clone(), from, to, update })
    }

    fn seen(&self, entity: &Entity, version: u64) -> Option<Seen> {
        self.entities.lock()[entity].versions.get(&version).map(Shown::seen)
    }

    fn last_seen(&self, entity: &Entity) -> (u64, Seen) {
        let (version, shown) = self.latest(entity);
        (version, shown.seen())
    }

    fn latest(&self, entity: &Entity) -> (u64, Shown) {
        let entities = self.entities.lock();
        let (version, shown) = entities[entity].versions.last_key_value().expect("there is a first version");
        (*version, shown.clone())
    }

    /// Days that changed in the versions after `from` up to `to`.
    fn days(&self, entity: &Entity, from: u64, to: u64) -> Vec<u32> {
        let entities = self.entities.lock();
        let days: BTreeSet<u32> =
            entities[entity].days.range(from + 1..=to).flat_map(|(_, days)| days).copied().collect();
        days.into_iter().collect()
    }
}

impl FeedSource for Replica {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        let mut entities = self.entities.lock();
        let entry = entities.get_mut(entity).ok_or(NoFeed::NotFound)?;
        entry.watched = true;
        let (version, shown) = entry.versions.last_key_value().ok_or(NoFeed::NotFound)?;
        let version = *version;
        Ok(match shown.clone() {
            Shown::Product(counts) => InitialState::Product { version, counts },
            Shown::Resource(bookings) => InitialState::Resource { version, bookings },
            Shown::Cart(cart) => InitialState::Cart { version, cart: Box::new(cart) },
            Shown::Customer => InitialState::Customer { newest: version },
        })
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        false
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        panic!("unexpected request for {entity} elsewhere")
    }

    fn end(&self, entity: &Entity) {
        self.entities.lock().get_mut(entity).expect("it was begun").watched = false;
    }

    fn purchases(&self, customer: &Id, after: u64, limit: u32) -> Option<Vec<Purchase>> {
        *self.pages.lock() += 1;
        let purchases = &self.entities.lock()[&Entity::Customer(customer.clone())].purchases;
        Some(purchases[after as usize..].iter().take(limit as usize).cloned().collect())
    }
}

/// A client that rebuilds states and checks each of them against the replica.
struct Reader {
    replica: Arc<Replica>,
    watcher: Watcher,
    encoding: Encoding,
    feeds: BTreeMap<u64, Entity>,
    /// Version and state, or a customer's cursor.
    known: BTreeMap<Entity, (u64, Seen)>,
    snapshots: usize,
    deltas: usize,
    ended: Vec<String>,
}

impl Reader {
    fn new(replica: &Arc<Replica>, feeds: &Feeds, encoding: Encoding) -> Reader {
        Reader {
            replica: Arc::clone(replica),
            watcher: feeds.watcher(),
            encoding,
            feeds: BTreeMap::new(),
            known: BTreeMap::new(),
            snapshots: 0,
            deltas: 0,
            ended: Vec::new(),
        }
    }

    fn watch(&mut self, entity: &Entity) -> Result<u64, NoFeed> {
        let since = self.known.get(entity).map(|(version, shown)| match shown {
            Shown::Customer => Since::Cursor(PurchaseCursor { epoch: Some(EPOCH), cursor: *version }),
            Shown::Product(_) | Shown::Resource(_) | Shown::Cart(_) => since(EPOCH, *version),
        });
        let feed = watch(&mut self.watcher, entity, since)?;
        self.feeds.insert(feed, entity.clone());
        Ok(feed)
    }

    /// Odd portions are those of a watcher that is behind.
    fn pull(&mut self, bytes_max: usize) -> bool {
        let mut frames = Vec::new();
        let more = match bytes_max % 2 {
            0 => self.watcher.pull(self.encoding, bytes_max, |event| frames.push(frame_of(event))),
            _ => self.watcher.pull_behind(self.encoding, bytes_max, |event| frames.push(frame_of(event))),
        };
        for frame in frames {
            self.take(&frame);
        }
        more
    }

    fn settle(&mut self) {
        while self.pull(1_000) {}
    }

    fn take(&mut self, frame: &Bytes) {
        let Ok(ServerFrame::Feed(feed, event)) = ServerFrame::read(self.encoding, frame) else {
            panic!("not a frame of a feed: {frame:?}");
        };
        let entity = self.feeds[&feed].clone();
        let before = self.known.get(&entity).map(|(version, _)| *version);
        match &entity {
            Entity::Product(_) => match self.read::<ProductSnapshot>(event) {
                Event::Snapshot(ProductSnapshot { entity, epoch, version, counts }) => {
                    self.replaced(entity, epoch, version, Shown::Product(counts));
                }
                Event::Delta(delta) => {
                    assert_eq!(Some(delta.from), before, "a gap in the feed of {entity}");
                    self.changed(entity, delta.to, Shown::Product(delta.counts));
                }
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{entity} has {other:?}"),
            },
            Entity::Resource(_) => match self.read::<ResourceSnapshot>(event) {
                Event::Snapshot(ResourceSnapshot { entity, epoch, version, bookings }) => {
                    self.replaced(entity, epoch, version, Shown::Resource(bookings));
                }
                Event::Delta(delta) => {
                    assert_eq!(Some(delta.from), before, "a gap in the feed of {entity}");
                    // A feed that begins while commits wait may name days that changed before.
                    let days = self.replica.days(&entity, delta.from, delta.to);
                    assert!(
                        days.iter().all(|day| delta.days.contains(day)),
                        "{days:?} are not all in {:?}",
                        delta.days
                    );
                    assert!(delta.days.is_sorted_by(|one, other| one < other));
                    self.changed(entity, delta.to, Shown::Resource(delta.bookings));
                }
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{entity} has {other:?}"),
            },
            Entity::Cart(_) => match self.read::<CartSnapshot>(event) {
                Event::Snapshot(CartSnapshot { entity, epoch, version, cart }) => {
                    self.replaced(entity, epoch, version, Shown::Cart(cart));
                }
                Event::Delta(delta) => {
                    assert_eq!(Some(delta.from), before, "a gap in the feed of {entity}");
                    self.changed(entity, delta.to, Shown::Cart(delta.cart));
                }
                Event::Ended(Ended { name }) => {
                    let Some((_, Shown::Cart(cart))) = self.known.get(&entity) else { panic!("an end without a cart") };
                    let expected = match cart.state {
                        seen::CartState::Done | seen::CartState::Canceled => "cart_not_active",
                        seen::CartState::Expired => "cart_expired",
                        seen::CartState::Active | seen::CartState::CheckingOut => panic!("an active cart has ended"),
                    };
                    assert_eq!(name, expected);
                    self.ended.push(name.to_string());
                    assert!(self.pull_nothing_of(feed));
                }
                Event::Stale(stale_ms) => panic!("{entity} is {stale_ms} ms old"),
            },
            _ => match self.read::<PurchasesSnapshot>(event) {
                Event::Snapshot(PurchasesSnapshot { epoch: _, entity: of, from, to, purchases }) => {
                    assert_eq!(of, entity);
                    self.snapshots += 1;
                    self.bought(entity, from, to, &purchases);
                }
                Event::Delta(PurchasesDelta { from, to, purchases }) => {
                    self.deltas += 1;
                    assert!(before.is_some() && from < to);
                    self.bought(entity, from, to, &purchases);
                }
                other @ (Event::Ended(_) | Event::Stale(_)) => panic!("{entity} has {other:?}"),
            },
        }
    }

    fn read<S: SnapshotBody>(&self, event: RawEvent<'_>) -> Event<S> {
        event.read(self.encoding).expect("a readable event")
    }

    fn replaced(&mut self, entity: Entity, epoch: u64, version: u64, shown: Seen) {
        self.snapshots += 1;
        assert_eq!(epoch, EPOCH);
        self.check(entity, version, shown);
    }

    fn changed(&mut self, entity: Entity, version: u64, shown: Seen) {
        self.deltas += 1;
        assert!(self.known[&entity].0 < version);
        self.check(entity, version, shown);
    }

    fn check(&mut self, entity: Entity, version: u64, shown: Seen) {
        let committed = self.replica.seen(&entity, version);
        assert_eq!(Some(&shown), committed.as_ref(), "{entity} had another state at {version} (P14)");
        self.known.insert(entity, (version, shown));
    }

    /// Checks that the purchases follow the last one that was seen.
    fn bought(&mut self, entity: Entity, from: u64, to: u64, purchases: &[seen::Purchase]) {
        let seen = self.known.get(&entity).map_or(0, |(cursor, _)| *cursor);
        assert_eq!(from, seen, "purchases of {entity} are skipped or repeated");
        assert_eq!(to - from, purchases.len() as u64);
        for (cursor, bought) in (from + 1..).zip(purchases) {
            assert_eq!(*bought, purchase(cursor).into());
        }
        self.known.insert(entity, (to, Shown::Customer));
    }

    /// Pulls, and checks that an ended feed is not watched any more.
    fn pull_nothing_of(&mut self, feed: u64) -> bool {
        !self.watcher.unwatch(feed)
    }
}

fn commit(feeds: &Feeds, replica: &Replica, entity: &Entity, change: &Change) {
    feeds.commit(replica.change(entity, change).into_iter().collect());
}

fn go(count: u32) -> Change {
    Change::Go((0..count).collect())
}

#[test]
fn a_tick_is_one_delta_of_each_kind_and_all_share_a_number() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 20);
        let mut readers = Encoding::ALL.map(|encoding| Reader::new(&replica, &feeds, encoding));
        for entity in all() {
            let numbers = readers.each_mut().map(|reader| reader.watch(&entity).expect("the entity exists"));
            assert_eq!(numbers[0], numbers[1]);
        }
        readers.iter_mut().for_each(Reader::settle);
        commit(&feeds, &replica, &product(), &go(1));
        wait(1).await;
        for entity in all() {
            for _ in 0..5 {
                commit(&feeds, &replica, &entity, &go(2));
            }
        }
        wait(20).await;
        for reader in &mut readers {
            reader.settle();
            assert_eq!((reader.snapshots, reader.deltas), (6, 7));
            assert!(all().iter().all(|entity| reader.known[entity] == replica.last_seen(entity)));
        }
        assert_eq!(*replica.pages.lock(), 0, "watchers from the beginning read no page");
    });
}

#[test]
fn a_slow_watcher_gets_the_newest_state_but_every_purchase() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 0);
        let mut slow = Reader::new(&replica, &feeds, Encoding::Json);
        for entity in all() {
            slow.watch(&entity).expect("the entity exists");
        }
        slow.settle();
        for _ in 0..1_500 {
            for entity in all() {
                commit(&feeds, &replica, &entity, &go(1));
            }
            wait(1).await;
        }
        commit(&feeds, &replica, &cart(1), &Change::End);
        commit(&feeds, &replica, &cart(1), &Change::Inside);
        wait(1).await;
        slow.settle();
        assert_eq!(slow.deltas, 0, "the watcher has fallen out of every ring");
        assert!(all().iter().all(|entity| slow.known[entity] == replica.last_seen(entity)));
        assert_eq!(slow.known[&customer()].0, 1_500);
        assert_eq!(slow.ended.len(), 1);
        assert_eq!(slow.watcher.len(), all().len() - 1);
    });
}

#[test]
fn a_customer_can_be_resumed_from_any_cursor() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch(&customer()).expect("customers are always there");
        reader.settle();
        assert_eq!((reader.snapshots, reader.known[&customer()].0), (1, 0), "an empty snapshot");
        commit(&feeds, &replica, &customer(), &go(1));
        wait(1).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (1, 1), "the first purchase is pushed");
        commit(&feeds, &replica, &customer(), &go(999));
        wait(20).await;
        // In the middle of a delta, between two, at the end, and without a cursor (in pages of 400).
        for (cursor, snapshots, deltas) in [(Some(500), 2, 0), (Some(1), 0, 1), (Some(1_000), 0, 0), (None, 3, 0)] {
            let mut other = Reader::new(&replica, &feeds, Encoding::Json);
            other.known.extend(cursor.map(|cursor| (customer(), (cursor, Shown::Customer))));
            other.watch(&customer()).expect("the entity exists");
            other.settle();
            assert_eq!(other.known[&customer()].0, 1_000);
            assert_eq!((other.snapshots, other.deltas), (snapshots, deltas), "after {cursor:?}");
        }
        // The hub does not wait for a purchase that never existed. Everything is sent again, from the first on.
        let mut other = feeds.watcher();
        let mut frames = Vec::new();
        watch(&mut other, &customer(), Some(Since::Cursor(PurchaseCursor { epoch: None, cursor: 5_000 })))
            .expect("the entity exists");
        other.pull(Encoding::Json, 1, |event| frames.push(frame_of(event)));
        let text = String::from_utf8(frames[0].to_vec()).expect("JSON");
        assert!(text.contains(r#""from":0,"to":400"#), "{text}");
    });
}

#[test]
fn a_watcher_that_read_ahead_gets_nothing_twice() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::MsgPack);
        reader.watch(&customer()).expect("the entity exists");
        commit(&feeds, &replica, &customer(), &go(1));
        wait(1).await;
        commit(&feeds, &replica, &customer(), &go(3));
        let mut ahead = Reader::new(&replica, &feeds, Encoding::Json);
        ahead.known.insert(customer(), (3, Shown::Customer));
        ahead.watch(&customer()).expect("the entity exists");
        ahead.settle();
        assert_eq!((ahead.snapshots, ahead.deltas), (0, 0));
        wait(20).await;
        ahead.settle();
        reader.settle();
        assert_eq!((ahead.known[&customer()].0, reader.known[&customer()].0), (4, 4));
    });
}

#[test]
fn an_ended_cart_gives_its_last_state_and_an_end() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 20);
        let mut before = Reader::new(&replica, &feeds, Encoding::Json);
        before.watch(&cart(1)).expect("the entity exists");
        before.settle();
        for change in [go(1), Change::End, Change::Inside] {
            commit(&feeds, &replica, &cart(1), &change);
        }
        wait(20).await;
        before.settle();
        assert_eq!((before.snapshots, before.deltas, before.ended.len()), (1, 1, 1));
        let mut after = Reader::new(&replica, &feeds, Encoding::MsgPack);
        after.watch(&cart(1)).expect("the entity exists");
        after.settle();
        assert_eq!((after.snapshots, after.deltas, after.ended.len()), (1, 0, 1));
        assert_eq!(after.known[&cart(1)], replica.last_seen(&cart(1)));
        before.watch(&cart(1)).expect("the entity exists");
        before.settle();
        assert_eq!(
            (before.snapshots, before.deltas, before.ended.len()),
            (1, 1, 2),
            "a watcher with the last state gets only the end"
        );
        wait(1_100).await;
        assert_eq!(feeds.counts(), (0, 0));
    });
}

#[test]
fn too_many_days_are_a_snapshot() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 20);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch(&resource()).expect("the entity exists");
        reader.settle();
        for first in [0, DAYS_MAX as u32] {
            commit(&feeds, &replica, &resource(), &Change::Go((first..first + DAYS_MAX as u32 - 1).collect()));
        }
        wait(20).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (2, 0));
        commit(&feeds, &replica, &resource(), &go(3));
        wait(20).await;
        reader.settle();
        assert_eq!((reader.snapshots, reader.deltas), (2, 1));
    });
}

#[test]
fn lost_purchases_are_read_from_the_store() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        for entity in all() {
            reader.watch(&entity).expect("the entity exists");
        }
        reader.settle();
        for entity in all() {
            replica.change(&entity, &go(2));
        }
        feeds.commit(all().into_iter().map(Commit::lost).collect());
        wait(1).await;
        reader.settle();
        assert!(all().iter().all(|entity| reader.known[entity] == replica.last_seen(entity)));
        assert_eq!((reader.snapshots, reader.deltas), (12, 0));
    });
}

/// An event of the hub.
#[derive(Clone, Debug)]
enum Step {
    Change(usize, Change),
    /// A commit that never reaches the hub.
    Lose(usize),
    Wait(u64),
    Watch(usize, usize),
    Unwatch(usize, usize),
    Pull(usize, usize),
    Reconnect(usize),
    /// A client without a memory.
    Forget(usize),
}

const READERS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let (entity, reader) = (0..all().len(), 0..READERS);
    let change = prop_oneof![
        20 => prop::collection::vec(any::<u32>(), 0..4).prop_map(Change::Go),
        1 => Just(Change::End),
        3 => Just(Change::Inside),
    ];
    prop_oneof![
        30 => (entity.clone(), change).prop_map(|(entity, change)| Step::Change(entity, change)),
        1 => entity.clone().prop_map(Step::Lose),
        8 => (0..50u64).prop_map(Step::Wait),
        1 => Just(Step::Wait(1_500)),
        8 => (reader.clone(), entity.clone()).prop_map(|(reader, entity)| Step::Watch(reader, entity)),
        2 => (reader.clone(), entity).prop_map(|(reader, entity)| Step::Unwatch(reader, entity)),
        12 => (reader.clone(), 1..400usize).prop_map(|(reader, bytes)| Step::Pull(reader, bytes)),
        1 => reader.clone().prop_map(Step::Reconnect),
        1 => reader.prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_rebuilds_what_is_committed(
        coalesce_ms in prop_oneof![Just(0u64), Just(20)],
        steps in prop::collection::vec(step(), 1..400),
    ) {
        story(async {
            let replica = Replica::new();
            let feeds = hub(&replica, coalesce_ms);
            let entities = all();
            let mut readers: Vec<Reader> =
                (0..READERS).map(|reader| Reader::new(&replica, &feeds, Encoding::ALL[reader % 2])).collect();
            for step in steps {
                match step {
                    Step::Change(entity, change) => commit(&feeds, &replica, &entities[entity], &change),
                    Step::Lose(entity) => _ = replica.change(&entities[entity], &go(2)),
                    Step::Wait(ms) => wait(ms).await,
                    Step::Watch(reader, entity) => _ = readers[reader].watch(&entities[entity]).expect("the entity exists"),
                    Step::Unwatch(reader, entity) => {
                        let reader = &mut readers[reader];
                        let feed = reader.feeds.iter().find(|(_, of)| **of == entities[entity]);
                        if let Some(feed) = feed.map(|(feed, _)| *feed) {
                            reader.watcher.unwatch(feed);
                        }
                    }
                    Step::Pull(reader, bytes_max) => _ = readers[reader].pull(bytes_max),
                    Step::Reconnect(reader) => {
                        let known = std::mem::take(&mut readers[reader].known);
                        readers[reader] = Reader::new(&replica, &feeds, Encoding::ALL[reader % 2]);
                        readers[reader].known = known;
                    }
                    Step::Forget(reader) => readers[reader] = Reader::new(&replica, &feeds, Encoding::ALL[reader % 2]),
                }
            }
            // One more commit each reveals a loss before it. Then every watcher has the last state.
            for entity in &entities {
                commit(&feeds, &replica, entity, &go(1));
            }
            wait(100).await;
            for reader in &mut readers {
                let watched: Vec<&Entity> = entities.iter().filter(|entity| reader.watcher.is_watching(entity)).collect();
                reader.settle();
                for entity in watched {
                    assert_eq!(reader.known.get(entity), Some(&replica.last_seen(entity)), "the last of {entity}");
                }
            }
        });
    }
}

/// No purchase is left out and none comes twice, although each frame has only some of a delta's purchases.
#[test]
fn purchases_are_divided_for_a_watcher_that_is_behind() {
    story(async {
        let replica = Replica::new();
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch(&customer()).expect("customers always exist");
        reader.settle();
        for _ in 0..3 {
            feeds.commit(replica.change(&customer(), &Change::Go((0..50).collect())).into_iter().collect());
            wait(1).await;
        }
        let mut longest = 0;
        loop {
            let mut frames = Vec::new();
            let more = reader.watcher.pull_behind(Encoding::Json, 1_000, |event| frames.push(frame_of(event)));
            longest = frames.iter().map(Bytes::len).chain([longest]).max().unwrap_or(0);
            frames.iter().for_each(|frame| reader.take(frame));
            if !more {
                break;
            }
        }
        assert_eq!(reader.known[&customer()].0, 150);
        assert!(longest <= 1_000 && reader.deltas > 15, "{longest} bytes, {} deltas", reader.deltas);
        assert_eq!(reader.snapshots, 1, "none is read from the store again");
        // A new watcher reads the store by short pages.
        let mut other = Reader::new(&replica, &feeds, Encoding::Json);
        other.watch(&customer()).expect("customers always exist");
        while other.pull(1_001) {}
        assert!(other.snapshots > 15 || other.deltas > 15, "{} pages", other.snapshots);
        assert_eq!(other.known[&customer()].0, 150);
    });
}
