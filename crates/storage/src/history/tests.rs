//! Compares a shard that evicts entities, under every order of writing, syncing, evicting, snapshots and power cuts, with one
//! that keeps them all.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use boxoffice_core::{
    answer::{CartState, KeptAnswer},
    event::{CartEvent, Event, Remembered},
    id::{CartId, Entity, HoldId, Id, Request, RequestHash},
    state_map::{Cut, EvictionCandidate, State, StateMap},
    time::Timestamp,
    version::{ClusterVersion, NEWEST, WriteVersion},
};
use boxoffice_env::{MemoryStores, StoreSettings, Stores};
use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::{HistoryStore, HistoryStoreError, Replay, ReplayOutcome, Totals, entity_key, shard_key};

const DIR: &str = "/data/history";
const SHARD: u16 = 3;

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn open(stores: &MemoryStores, store_batches: u64) -> Result<HistoryStore, HistoryStoreError> {
    HistoryStore::open(
        stores,
        dir(),
        &StoreSettings::default(),
        7,
        &[(SHARD, store_batches)],
        &WriteVersion::new(NEWEST),
    )
}

fn remembered() -> Remembered {
    Remembered::alone(Request { id: RequestHash(1), body: 1 }, KeptAnswer::Done)
}

/// The next events of a cart after `had` events. The cart ends, and later sessions ask about its holds. Every second cart is a
/// tombstone before it is opened.
fn next(id: CartId, had: u64) -> Vec<Event> {
    let was_refused = id.0.is_multiple_of(2);
    let opened = CartEvent::Opened {
        at: Timestamp(1),
        customer: None,
        ttl_ms: 1_000,
        age_ends_at: Timestamp(10_000),
        deadline: Timestamp(1_001),
        remembered: None,
        known: was_refused,
    };
    let hold = |request| HoldId { cart: id, request: RequestHash(request), part: 0, attempt: 0 };
    let session = Entity::Session(Id::new("s").expect("an id"));
    let event = match had {
        0 if was_refused => CartEvent::Disowned { holds: vec![(session, hold(0), 1)] },
        1 if was_refused => CartEvent::Delivered { numbers: vec![0], sold: Vec::new() },
        2 if was_refused => opened,
        3 if was_refused => CartEvent::Canceled { at: Timestamp(2), remembered: remembered() },
        0 => opened,
        1 => CartEvent::Canceled { at: Timestamp(2), remembered: remembered() },
        had if had % 2 == 0 => CartEvent::Disowned { holds: vec![(session, hold(had), 1)] },
        // It owes one message at a time, and the first one has number 0.
        had => CartEvent::Delivered { numbers: vec![(had - 3) / 2], sold: Vec::new() },
    };
    vec![Event::Cart(event)]
}

struct Shard {
    stores: MemoryStores,
    history: HistoryStore,
    kept: StateMap,
    /// Every entry, beginning with index 1.
    log: Vec<(Entity, Vec<Event>)>,
    applied: u64,
    replaying: Replay,
    /// The reference, in which all entities stay in memory.
    all: StateMap,
    taken: Vec<EvictionCandidate>,
    written: Vec<EvictionCandidate>,
    store_batches: u64,
    /// The last two, the newest at the end.
    snapshots: Vec<(u64, u64, Cut)>,
}

#[derive(Clone, Debug)]
enum Step {
    Happen(u8),
    Take,
    Write,
    Sync,
    Snapshot,
    PowerCut {
        /// A bit for each half of an unsynced batch.
        kept: u16,
        older_snapshot: bool,
        replayed: u8,
    },
    Replay(u8),
    /// One step of the scan that fills the filter.
    Fill,
    /// The disk is full, or has room again.
    Full(bool),
}

impl Shard {
    fn new() -> Shard {
        let stores = MemoryStores::new();
        stores.keep_refused();
        let history = open(&stores, 0).expect("a new store");
        Shard {
            stores,
            history,
            kept: StateMap::new(),
            log: Vec::new(),
            applied: 0,
            replaying: Replay::new(SHARD, 0),
            all: StateMap::new(),
            taken: Vec::new(),
            written: Vec::new(),
            store_batches: 0,
            snapshots: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Happen(cart) => {
                // A decision needs everything committed to be applied.
                self.replay(u8::MAX);
                let id = CartId(u128::from(*cart));
                let entity = Entity::Cart(id);
                let had = self.all.get(&entity).map_or(0, |state| state.version());
                let events = next(id, had);
                self.all.advance(self.log.len() as u64 + 1);
                self.all.apply(&entity, events.clone());
                self.log.push((entity, events));
                self.replay(1);
            }
            Step::Take => self.taken.extend(self.kept.take_evictable()),
            Step::Write => {
                if self.taken.is_empty() {
                    return;
                }
                match self.history.write(&[(SHARD, self.taken.clone())]) {
                    Ok(()) => self.written.append(&mut self.taken),
                    // Like the archive writer: everything unsynced is written again, in order.
                    Err(HistoryStoreError::Store(error)) if error.is_full() => {
                        self.history.will_rewrite();
                        self.taken.splice(0..0, self.written.drain(..));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Sync => {
                self.history.sync().expect("a good disk");
                let batches = self.history.shard(SHARD).expect("a good store").batches;
                for leaving in self.written.drain(..) {
                    self.store_batches = batches;
                    self.kept.evict(&leaving.entity, leaving.index);
                }
            }
            Step::Snapshot => {
                if self.snapshots.len() == 2 {
                    self.snapshots.remove(0);
                }
                self.snapshots.push((self.applied, self.store_batches, self.kept.cut()));
            }
            Step::PowerCut { kept, older_snapshot, replayed } => {
                self.power_cut(*kept, *older_snapshot);
                self.replay(*replayed);
            }
            Step::Replay(count) => self.replay(*count),
            Step::Fill => _ = self.history.fill_filter().expect("a good store"),
            Step::Full(full) => self.stores.set_capacity(full.then(|| self.stores.used_bytes() + 1)),
        }
    }

    fn power_cut(&mut self, mut kept: u16, older_snapshot: bool) {
        self.stores.power_cut(&mut || {
            let reached = kept & 1 == 1;
            kept >>= 1;
            reached
        });
        if older_snapshot && self.snapshots.len() == 2 {
            self.snapshots.pop();
        }
        let (applied, store_batches, kept) = match self.snapshots.last() {
            Some((applied, store_batches, cut)) => (*applied, *store_batches, StateMap::restore(cut.clone())),
            None => (0, 0, StateMap::new()),
        };
        self.history = open(&self.stores, store_batches).expect("the batches that a snapshot needs are durable");
        self.history.check_not_ahead(SHARD, self.log.len() as u64).expect("the store is not ahead of the log");
        let shard = self.history.shard(SHARD).expect("a good store");
        (self.applied, self.kept) = (applied, kept);
        (self.replaying, self.store_batches) = (Replay::new(SHARD, shard.upto), shard.batches);
        self.taken.clear();
        self.written.clear();
    }

    /// Applies like the replication thread.
    fn replay(&mut self, count: u8) {
        let count = if count == u8::MAX { usize::MAX } else { usize::from(count) };
        for (entity, events) in self.log[self.applied as usize..].iter().take(count) {
            self.applied += 1;
            self.kept.advance(self.applied);
            if !self.kept.contains(entity) {
                let outcome = self.replaying.reload(&self.history, &mut self.kept, self.applied, (entity, events));
                if outcome.expect("a good store") == ReplayOutcome::Already {
                    continue;
                }
            }
            self.kept.apply(entity, events.clone());
        }
    }

    /// Memory and store together equal the reference, and the totals are exact.
    fn check(&mut self) {
        self.replay(u8::MAX);
        let mut left = self.history.shard(SHARD).expect("a good store").totals;
        let mut all = Totals::default();
        for (entity, state) in self.all.entities() {
            all.add(&Totals::of(state));
            let stored = self.history.get(SHARD, entity).expect("a good store");
            match self.kept.get(entity) {
                Some(here) => {
                    assert_eq!(here, *state, "{entity} in memory");
                    if let Some(stored) = stored {
                        assert!(here.may_be_archived(), "{entity} must not have a record");
                        left.subtract(&Totals::of(&stored.state));
                    }
                }
                None => assert_eq!(stored.map(|stored| stored.state), Some(Arc::clone(state)), "{entity} in the store"),
            }
        }
        for (_, state) in self.kept.entities() {
            left.add(&Totals::of(state));
        }
        assert_eq!(left, all);
    }
}

/// The first batches, or any of them.
fn kept_halves() -> impl Strategy<Value = u16> {
    prop_oneof![(0..9u32).prop_map(|halves| (1 << halves) - 1), any::<u16>()]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..6u8).prop_map(Step::Happen),
        4 => Just(Step::Take),
        4 => Just(Step::Write),
        3 => Just(Step::Sync),
        2 => Just(Step::Snapshot),
        2 => (kept_halves(), any::<bool>(), prop_oneof![0..9u8, Just(u8::MAX)]).prop_map(
            |(kept, older_snapshot, replayed)| Step::PowerCut { kept, older_snapshot, replayed }
        ),
        1 => (0..9u8).prop_map(Step::Replay),
        2 => Just(Step::Fill),
        1 => any::<bool>().prop_map(Step::Full),
    ];
    vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn no_crash_loses_or_doubles_an_entity(steps in steps()) {
        let mut shard = Shard::new();
        for step in &steps {
            shard.step(step);
            if let Step::Sync | Step::PowerCut { replayed: u8::MAX, .. } = step {
                shard.check();
            }
        }
        shard.check();
        shard.step(&Step::PowerCut { kept: 0, older_snapshot: false, replayed: u8::MAX });
        shard.check();
    }
}

/// Finds a planted bug by random orders of events.
#[cfg(feature = "planted")]
fn hunt(bug: &'static str) {
    use boxoffice_core::planted::plant;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

    let found = (1..=40_u8).find(|seed| {
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[*seed; 32]);
        let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), random);
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        let run = |bug| {
            plant(bug);
            let ended = std::panic::catch_unwind(|| {
                let mut shard = Shard::new();
                steps.iter().for_each(|step| shard.step(step));
                shard.check();
            });
            plant(None);
            ended.is_ok()
        };
        assert!(run(None), "seed {seed} fails without a bug");
        !run(Some(bug))
    });
    println!("{bug}: found after {found:?} random orders");
    assert!(found.is_some(), "the bug is not found");
}

/// A record that is not looked up is counted twice, or replaced by an older one.
#[cfg(feature = "planted")]
#[test]
fn a_record_that_is_not_looked_up_is_found() {
    hunt("a record that is not looked up");
}

#[cfg(feature = "planted")]
#[test]
fn a_filter_that_misses_a_record_is_found() {
    hunt("a filter that misses a record");
}

/// A shard with one cart in the store.
fn one_left() -> Shard {
    let mut shard = Shard::new();
    for step in [Step::Happen(1), Step::Happen(1), Step::Take, Step::Write, Step::Sync] {
        shard.step(&step);
    }
    assert_eq!((shard.kept.len(), shard.store_batches), (0, 2));
    shard
}

#[test]
fn an_archived_cart_is_counted_once_and_reloaded_for_later_events() {
    let mut shard = one_left();
    let totals = |shard: &Shard| shard.history.shard(SHARD).expect("a good store");
    assert_eq!((totals(&shard).upto, totals(&shard).totals.carts(CartState::Canceled)), (2, 1));
    // A session asks about a hold. The cart owes a message again, and stays until that is delivered.
    shard.step(&Step::Happen(1));
    shard.step(&Step::Take);
    assert_eq!((shard.kept.len(), shard.taken.len()), (1, 0));
    shard.step(&Step::Happen(1));
    [Step::Take, Step::Write, Step::Sync].iter().for_each(|step| shard.step(step));
    assert_eq!((shard.kept.len(), totals(&shard).upto), (0, 4));
    assert_eq!(totals(&shard).totals.all_carts(), 1, "counted once");
    let stored =
        shard.history.get(SHARD, &Entity::Cart(CartId(1))).expect("a good store").expect("the cart was archived");
    let State::Cart(cart) = &*stored.state else { panic!("a cart") };
    assert_eq!((stored.index, cart.version(), cart.state()), (4, 4, Some(CartState::Canceled)));
    shard.check();
}

#[test]
fn a_record_is_never_replaced_by_an_older_one() {
    let mut shard = one_left();
    let old = shard.history.get(SHARD, &Entity::Cart(CartId(1))).expect("a good store").expect("the cart was archived");
    let leaving = EvictionCandidate { entity: old.entity.clone(), state: old.state.clone(), index: 9, began: None };
    shard.history.write(&[(SHARD, vec![leaving.clone()])]).expect("room");
    shard.history.write(&[(SHARD, vec![EvictionCandidate { index: 5, ..leaving }])]).expect("room");
    let kept = shard.history.get(SHARD, &old.entity).expect("a good store").expect("the cart was archived");
    assert_eq!(kept.index, 9);
    shard.applied = 2;
    shard.check();
}

#[test]
fn a_store_that_does_not_fit_is_refused_by_name() {
    let shard = one_left();
    let stores = shard.stores.clone();
    let entity = shard.log[0].0.clone();
    drop(shard);
    let refusal = |store_batches| open(&stores, store_batches).map(|_| ()).expect_err("refused").to_string();
    assert!(open(&stores, 2).expect("a complete store").disk_bytes() > 0);
    // Another shard has written since.
    let history = open(&stores, 2).expect("a complete store");
    history.write(&[(SHARD + 1, ended(9))]).expect("room");
    history.sync().expect("a good disk");
    let older = refusal(3);
    assert!(
        older.contains("older than the snapshot of shard 3: its last batch of it is 2, and 3 is needed"),
        "{older}"
    );
    let damaged = refusal(4);
    assert!(damaged.contains("leaves the batches up to 3, and snapshots need 4; nothing was changed"), "{damaged}");
    let newer = open(&stores, 2).expect("a complete store").check_not_ahead(SHARD, 1).expect_err("refused").to_string();
    assert!(newer.contains("tells of shard 3 up to entry 2, the log and snapshots end at 1"), "{newer}");
    let foreign = HistoryStore::open(&stores, dir(), &StoreSettings::default(), 8, &[], &WriteVersion::new(NEWEST))
        .map(|_| ())
        .expect_err("refused");
    assert!(matches!(foreign, HistoryStoreError::Foreign { .. }), "{foreign}");

    stores.damage(dir(), &entity_key(SHARD, &entity));
    let history = open(&stores, 1).expect("records are read on demand");
    let bad = history.get(SHARD, &entity).expect_err("refused").to_string();
    assert!(bad.starts_with("cart/") && bad.contains("cannot be read: its checksum does not match"), "{bad}");
    stores.damage(dir(), &shard_key(SHARD));
    let bad = refusal(1);
    assert!(bad.starts_with("the record of shard 3 in /data/history cannot be understood"), "{bad}");
    stores.remove(dir());
    let gone = refusal(1);
    assert!(gone.starts_with("the history in /data/history is gone: the snapshot of shard 3 needs it"), "{gone}");
    assert!(!stores.exists(dir()), "no new store is created");
}

#[test]
fn records_of_another_version_or_shape_are_refused() {
    let refused = |bytes: &[u8]| super::record::decode(bytes).expect_err("refused");
    let sealed = |mut bytes: Vec<u8>| {
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Bytes::from(bytes)
    };
    assert_eq!(refused(b""), "it is too short");
    assert_eq!(refused(&sealed(vec![])), "it is empty");
    let version = NEWEST.number();
    // Bytes of another version are not decoded, whatever they are.
    let newer = version + 1;
    let expected = format!("it was written under version {newer}, this program reads up to {version}");
    assert_eq!(refused(&sealed(vec![newer, 0xc1])), expected);
    let leaving = &ended(7)[0];
    assert_eq!(refused(&super::record::encode(ClusterVersion::numbered(newer), leaving)), expected);
    super::record::decode(&super::record::encode(NEWEST, leaving)).expect("its own version");
    let older = refused(&sealed(vec![9, 0]));
    assert!(older.starts_with("it was written under version 9, this program reads from 17 on"), "{older}");
    assert!(!refused(&sealed(vec![version, 0xc1])).is_empty());
    let two: BTreeMap<u8, u8> = BTreeMap::new();
    assert!(!refused(&super::record::encode_checked(NEWEST, &two)).is_empty());
}

#[test]
fn records_of_a_dropped_shard_are_removed_in_pieces_and_those_of_the_next_replica_stay() {
    let stores = MemoryStores::new();
    let history = open(&stores, 0).expect("a new store");
    let mut kept = StateMap::new();
    let entity = |cart: u64| Entity::Cart(CartId(u128::from(cart)));
    for cart in 0..700 {
        for had in 0..2 {
            kept.advance(2 * cart + had + 1);
            kept.apply(&entity(cart), next(CartId(u128::from(cart)), had));
        }
    }
    let leaving = kept.take_evictable();
    assert_eq!(leaving.len(), 700);
    history.write(&[(SHARD, leaving.clone())]).expect("room");
    let other = SHARD + 1;
    history.write(&[(other, leaving[..10].to_vec())]).expect("room");
    history.sync().expect("synced");
    let before = history.shard(SHARD).expect("readable");
    assert!(!history.remove_some(SHARD).expect("readable"), "the shard was not dropped");
    history.mark_dropped(SHARD);
    assert!(history.remove_some(SHARD).expect("room"));
    let left = |history: &HistoryStore| {
        let mut sums = Totals::default();
        history.for_each_record(SHARD, |stored| sums.add(&Totals::of(&stored.state))).expect("readable");
        sums
    };
    assert_eq!(
        left(&history),
        history.shard(SHARD).expect("readable").totals,
        "the remaining records match the totals"
    );
    assert!(left(&history).entities < 700);

    // After a power cut the node drops it again. The store has the batches that earlier snapshots need.
    history.sync().expect("synced");
    stores.power_cut(&mut || false);
    let history = open(&stores, before.batches).expect("enough batches");
    history.mark_dropped(SHARD);
    // The next replica's records arrive, and the leftovers are removed first.
    let records: Vec<Bytes> = leaving[..3].iter().map(|leaving| super::record::encode(NEWEST, leaving)).collect();
    history.import(SHARD, &records).expect("room");
    assert!(!history.remove_some(SHARD).expect("readable"), "the shard is not dropped any more");
    assert_eq!((left(&history).entities, history.shard(SHARD).expect("readable").totals.entities), (3, 3));
    assert_eq!(history.shard(other).expect("readable").totals.entities, 10);

    history.mark_dropped(SHARD);
    while history.remove_some(SHARD).expect("room") {}
    let empty = history.shard(SHARD).expect("readable");
    assert_eq!((empty.upto, empty.imported_upto, empty.totals), (0, 0, Totals::default()));
    assert!(empty.batches > before.batches);
    history.check_not_ahead(SHARD, 1).expect("the shard has no entries");
}

/// A canceled cart, ready for eviction.
pub(super) fn ended(number: u128) -> Vec<EvictionCandidate> {
    let id = CartId(number);
    let mut kept = StateMap::new();
    for (index, had) in (1..).zip(0..2) {
        kept.advance(index);
        kept.apply(&Entity::Cart(id), next(id, had));
    }
    kept.take_evictable()
}

/// The records and the totals contain two carts, once each.
fn has_both(history: &HistoryStore) {
    let mut counted = Totals::default();
    history.for_each_record(SHARD, |stored| counted.add(&Totals::of(&stored.state))).expect("good records");
    assert_eq!((counted.all_carts(), counted.carts(CartState::Canceled)), (2, 2));
    assert_eq!(history.shard(SHARD).expect("good").totals, counted);
}

/// A batch that failed on a full disk shows up when the store is reopened. Its records are counted once.
#[test]
fn a_refused_batch_that_shows_up_later_is_counted_once() {
    let stores = MemoryStores::new();
    let history = open(&stores, 0).expect("a new store");
    let (first, second) = (ended(1), ended(3));
    history.write(&[(SHARD, first.clone())]).expect("room");
    stores.keep_refused();
    stores.set_capacity(Some(stores.used_bytes() + 1));
    assert!(history.write(&[(SHARD, second.clone())]).is_err(), "there is no room");
    stores.set_capacity(None);
    // Everything unsynced is written again, in order.
    history.will_rewrite();
    history.write(&[(SHARD, first)]).expect("room");
    history.write(&[(SHARD, second)]).expect("room");
    history.sync().expect("a good disk");
    has_both(&history);
}

/// A full disk is noticed before the write, and earlier batches are written again.
#[test]
fn a_rewritten_batch_is_counted_once() {
    let stores = MemoryStores::new();
    let history = open(&stores, 0).expect("a new store");
    let (first, second) = (ended(1), ended(3));
    history.write(&[(SHARD, first.clone())]).expect("room");
    stores.set_capacity(Some(stores.used_bytes()));
    assert!(history.write(&[(SHARD, second.clone())]).is_err(), "there is no room");
    stores.set_capacity(None);
    history.will_rewrite();
    history.write(&[(SHARD, first), (SHARD, second)]).expect("room");
    history.sync().expect("a good disk");
    has_both(&history);
}

fn cart(number: u128) -> Entity {
    Entity::Cart(CartId(number))
}

/// Whether the store's record of a cart is found.
fn finds(history: &HistoryStore, shard: u16, number: u128) -> bool {
    history.get(shard, &cart(number)).expect("a good store").is_some()
}

/// Lookups without a result, answered by the filter and by the store.
fn lookups(history: &HistoryStore) -> (u64, u64) {
    use std::sync::atomic::Ordering::Relaxed;
    (history.lookups().filtered.load(Relaxed), history.lookups().missed.load(Relaxed))
}

#[test]
fn records_are_found_before_while_and_after_the_filter_is_filled() {
    let stores = MemoryStores::new();
    let all = |history: &HistoryStore, shard, numbers: std::ops::Range<u128>| {
        numbers.into_iter().all(|number| finds(history, shard, number))
    };
    let history = open(&stores, 0).expect("a new store");
    while history.fill_filter().expect("a good store") {}
    for number in 1..=600 {
        history.write(&[(SHARD, ended(number)), (SHARD + 1, ended(1_000 + number))]).expect("room");
    }
    assert!(all(&history, SHARD, 1..601) && all(&history, SHARD + 1, 1_001..1_601));
    history.sync().expect("a good disk");

    // Another process.
    stores.process_end();
    let history = open(&stores, 0).expect("a good store");
    let is_right = |history: &HistoryStore, missed: u64, filtered: u64| {
        assert!(all(history, SHARD, 1..601) && all(history, SHARD + 1, 1_001..1_601));
        let before = lookups(history);
        assert!(!finds(history, SHARD, 5_000) && !finds(history, SHARD + 1, 5_000));
        assert_eq!(lookups(history), (before.0 + filtered, before.1 + missed));
    };
    is_right(&history, 2, 0);
    // The scan has read 512 of the first shard's 600 records, then 168 of the second's.
    for _ in 0..2 {
        assert!(history.fill_filter().expect("a good store"));
        is_right(&history, 2, 0);
    }
    // Records are imported before and behind the scan.
    let imported: Vec<Bytes> = (2_000..2_010).map(|number| super::record::encode(NEWEST, &ended(number)[0])).collect();
    for shard in [0, SHARD, SHARD + 1, SHARD + 2] {
        history.import(shard, &imported).expect("room");
    }
    assert!(history.fill_filter().expect("a good store"));
    is_right(&history, 1, 1);
    while history.fill_filter().expect("a good store") {}
    is_right(&history, 0, 2);
    for shard in [0, SHARD, SHARD + 1, SHARD + 2] {
        assert!(all(&history, shard, 2_000..2_010));
    }
    // A shard is dropped and imported again from another node.
    let (exported, _) = history.export(SHARD, None, usize::MAX).expect("a good store");
    assert_eq!(exported.len(), 610);
    history.mark_dropped(SHARD);
    while history.remove_some(SHARD).expect("room") {}
    assert!(!finds(&history, SHARD, 1) && !finds(&history, SHARD, 2_000));
    history.import(SHARD, &exported).expect("room");
    is_right(&history, 0, 2);
    assert!(all(&history, SHARD, 2_000..2_010));
}

/// The filter contains every record that a reopened store may have: those of a refused batch, and those that were
/// removed without a sync.
#[test]
fn records_of_a_reopened_store_are_found() {
    let stores = MemoryStores::new();
    stores.keep_refused();
    let history = open(&stores, 0).expect("a new store");
    while history.fill_filter().expect("a good store") {}
    let refuse = |history: &HistoryStore, number| {
        stores.set_capacity(Some(stores.used_bytes() + 1));
        assert!(history.write(&[(SHARD, ended(number))]).is_err(), "there is no room");
        stores.set_capacity(None);
    };
    refuse(&history, 1);
    history.write(&[(SHARD, ended(3))]).expect("room");
    assert!(finds(&history, SHARD, 1) && finds(&history, SHARD, 3));
    // The process ends before the store is reopened.
    refuse(&history, 5);
    stores.process_end();
    let history = open(&stores, 0).expect("a good store");
    while history.fill_filter().expect("a good store") {}
    history.write(&[(SHARD, ended(7))]).expect("room");
    assert!([1, 3, 5, 7].iter().all(|number| finds(&history, SHARD, *number)));

    let history = open(&stores, 0).expect("a good store");
    history.mark_dropped(SHARD);
    while history.remove_some(SHARD).expect("room") {}
    while history.fill_filter().expect("a good store") {}
    assert!([1, 3, 5, 7].iter().all(|number| history.may_find(SHARD, &cart(*number))), "these records may reappear");
}
