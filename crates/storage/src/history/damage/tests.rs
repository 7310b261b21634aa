//! Records around damaged blocks, in memory and in the tables of the real store.

#![allow(clippy::disallowed_methods, reason = "a test damages files")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use boxoffice_core::{
    id::{CartId, Entity, Id},
    state_map::{EvictionCandidate, State},
    version::{NEWEST, WriteVersion},
};
use boxoffice_env::{FjallStores, MemoryStores, StoreSettings, Stores};
use boxoffice_shard::ShardId;
use bytes::Bytes;
use proptest::prelude::*;

use super::{
    super::{HistoryStore, HistoryStoreError, Lookup, entity_key, record, tests::ended},
    Number, SEARCH_BYTES,
};

const SHARD: ShardId = 3;
const RECORDS: u128 = 300;

fn dir() -> &'static Path {
    Path::new("/data/history")
}

fn open(stores: &dyn Stores, dir: &Path, settings: &StoreSettings) -> Result<HistoryStore, HistoryStoreError> {
    HistoryStore::open(stores, dir, settings, 7, &[], &WriteVersion::new(NEWEST))
}

/// A cart anywhere among the keys.
fn cart(number: u128) -> Entity {
    Entity::Cart(CartId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)))
}

fn leaving(number: u128, index: u64, state: &Arc<State>) -> EvictionCandidate {
    EvictionCandidate { entity: cart(number), state: Arc::clone(state), index, began: None }
}

fn state() -> Arc<State> {
    ended(1).remove(0).state
}

fn write(history: &HistoryStore, numbers: impl Iterator<Item = u128>) {
    let state = state();
    let records: Vec<_> = numbers.map(|number| leaving(number, 1, &state)).collect();
    for records in records.chunks(100) {
        history.write(&[(SHARD, records.to_vec())]).expect("room");
    }
    history.sync().expect("a good disk");
}

fn seen(history: &HistoryStore) -> BTreeSet<Entity> {
    let mut seen = BTreeSet::new();
    history.for_each_record(SHARD, |stored| _ = seen.insert(stored.entity)).expect("room");
    seen
}

fn is_damaged<T>(found: Result<T, HistoryStoreError>) -> bool {
    matches!(found, Err(HistoryStoreError::Damaged { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Everything beside the damaged blocks is found, and nothing in them is taken for missing.
    #[test]
    fn records_beside_damaged_blocks_are_found(
        blocks in proptest::collection::vec((0..RECORDS as usize, 1..25_usize), 1..4),
    ) {
        let stores = MemoryStores::new();
        let history = open(&stores, dir(), &StoreSettings::default()).expect("a new store");
        write(&history, 0..RECORDS);
        let keys: Vec<Bytes> =
            stores.keys(dir()).into_iter().filter(|key| key.starts_with(b"e")).collect();
        let mut bad = BTreeSet::new();
        for (first, count) in &blocks {
            let last = (first + count - 1).min(keys.len() - 1);
            stores.damage_block(dir(), &keys[*first], &keys[last]);
            bad.extend(keys[*first..=last].iter().cloned());
        }
        // Another process fills its filter by a scan.
        stores.process_end();
        let history = open(&stores, dir(), &StoreSettings::default()).expect("a store");
        while history.fill_filter().expect("room") {}
        for number in 0..RECORDS {
            let (entity, is_bad) = (cart(number), bad.contains(&entity_key(SHARD, &cart(number))));
            prop_assert_ne!(history.look_up(SHARD, &entity), Lookup::None);
            match history.get(SHARD, &entity) {
                Ok(Some(stored)) => prop_assert!(!is_bad && stored.entity == entity),
                other => prop_assert!(is_bad && is_damaged(other)),
            }
        }
        // A gap at the end has no end.
        let is_bounded = keys.last().is_some_and(|last| !bad.contains(last));
        let of_next = history.look_up(SHARD + 1, &cart(RECORDS + 77));
        prop_assert_eq!(of_next, if is_bounded { Lookup::None } else { Lookup::Unread });
        let seen = seen(&history);
        if blocks.len() == 1 {
            prop_assert_eq!(seen.len(), keys.len() - bad.len());
        }
        prop_assert!(seen.iter().all(|entity| !bad.contains(&entity_key(SHARD, entity))));
        prop_assert!(history.is_damaged(SHARD) && !history.is_damaged(SHARD + 1));
        prop_assert!(!history.has_exact_totals(SHARD));
        let (_, count) = history.damages();
        prop_assert!(count >= bad.len() as u64);
        prop_assert!(is_damaged(history.export(SHARD, None, usize::MAX)));
    }
}

#[test]
fn a_record_that_is_behind_stays_so_until_its_shard_is_removed() {
    let stores = MemoryStores::new();
    let history = open(&stores, dir(), &StoreSettings::default()).expect("a new store");
    write(&history, 0..3);
    let key = entity_key(SHARD, &cart(1));
    stores.damage_block(dir(), &key, &key);
    assert!(is_damaged(history.get(SHARD, &cart(1))));
    assert_eq!(history.look_up(SHARD, &cart(1)), Lookup::Unread, "the next read may succeed");
    history.mark_behind(SHARD, &cart(1)).expect("room");
    assert_eq!(history.look_up(SHARD, &cart(1)), Lookup::Behind);
    // A newer record of the entity, which the replica has applied nothing to, does not heal it.
    stores.power_cut(&mut || false);
    let history = open(&stores, dir(), &StoreSettings::default()).expect("a store");
    history.import(SHARD, &[record::encode(NEWEST, &leaving(1, 9, &state()))]).expect("room");
    assert!(history.is_behind(SHARD, &cart(1)) && is_damaged(history.get(SHARD, &cart(1))));
    assert!(history.get(SHARD, &cart(2)).expect("a good record").is_some());
    // The shard moves away, and another replica of it comes.
    history.mark_dropped(SHARD);
    while history.remove_some(SHARD).expect("room") {}
    assert!(!history.is_damaged(SHARD) && history.has_exact_totals(SHARD));
    history.import(SHARD, &[record::encode(NEWEST, &leaving(1, 9, &state()))]).expect("room");
    assert_eq!(history.get(SHARD, &cart(1)).expect("a good record").map(|stored| stored.index), Some(9));
    drop(history);
    let history = open(&stores, dir(), &StoreSettings::default()).expect("a store");
    assert_eq!(history.damages(), (Vec::new(), 0));
}

#[test]
fn a_record_takes_the_place_of_one_that_cannot_be_read() {
    let stores = MemoryStores::new();
    let history = open(&stores, dir(), &StoreSettings::default()).expect("a new store");
    write(&history, 0..3);
    let key = entity_key(SHARD, &cart(1));
    stores.damage_block(dir(), &key, &key);
    history.import(SHARD, &[record::encode(NEWEST, &leaving(1, 9, &state()))]).expect("room");
    assert_eq!(history.get(SHARD, &cart(1)).expect("a good record").map(|stored| stored.index), Some(9));
    assert!(!history.is_damaged(SHARD), "everything can be read again");
    assert!(!history.has_exact_totals(SHARD), "it was counted twice");
}

/// The files of a store's tables.
fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(tables(&path));
        } else if path.parent().is_some_and(|dir| dir.ends_with("tables")) {
            found.push(path);
        }
    }
    found
}

/// One flipped bit anywhere in a table (data blocks, index, filter, description, end): the store is refused by name, or every record
/// is read right or fails by name.
#[test]
fn a_flipped_bit_of_a_table_is_refused_or_fails_by_name() {
    const MANY: u128 = 2_000;
    let temporary = tempfile::tempdir().expect("a directory");
    let dir = temporary.path().join("history");
    let settings = StoreSettings { cache_bytes: 0, memtable_bytes: 64 << 10 };
    let history = open(&FjallStores, &dir, &settings).expect("a new store");
    write(&history, 0..MANY);
    drop(history);
    let largest = |dir: &Path| {
        let length = |path: &PathBuf| fs::metadata(path).expect("a file").len();
        tables(dir).into_iter().max_by_key(length)
    };
    let table = largest(&dir).expect("a table");
    let good = fs::read(&table).expect("a file");
    let (mut refused, mut failed, mut unharmed) = (0, 0, 0);
    let positions = (0..24).map(|part| part * good.len() / 24 + 11).chain([good.len() - 3, good.len() - 40]);
    for at in positions {
        let mut bad = good.clone();
        bad[at] ^= 4;
        fs::write(&table, &bad).expect("written");
        match open(&FjallStores, &dir, &settings) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(dir.to_str().expect("a path")), "{at}: {error}");
                refused += 1;
            }
            Ok(history) => {
                while history.fill_filter().expect("room") {}
                let mut lost = 0;
                for number in 0..MANY {
                    match history.get(SHARD, &cart(number)) {
                        Ok(Some(stored)) => assert_eq!(stored.entity, cart(number)),
                        other => {
                            assert!(is_damaged(other), "byte {at}: record {number} is taken for missing");
                            lost += 1;
                        }
                    }
                }
                let seen = seen(&history).len();
                // Records of other tables between those of the damaged block are missing from a scan as well.
                assert!(seen + 8 * lost >= MANY as usize, "byte {at}: {seen} seen, {lost} lost");
                // A bit of a block of the index stands for many records.
                assert!(lost < MANY as usize / 2, "byte {at}: {lost} lost by one bit");
                failed += usize::from(lost > 0);
                unharmed += usize::from(lost == 0);
            }
        }
        if !table.exists() {
            panic!("byte {at}: the table was removed");
        }
        fs::write(&table, &good).expect("written");
    }
    println!("{refused} refused at the start, {failed} with records that fail by name, {unharmed} without harm");
    assert!(failed > 5, "{refused} refused, {failed} failed, {unharmed} unharmed");
    let history = open(&FjallStores, &dir, &settings).expect("the good table again");
    assert_eq!(seen(&history).len(), MANY as usize);
    let customer = Entity::Customer(Id::new("nobody").expect("an id"));
    assert!(history.get(SHARD, &customer).expect("readable").is_none());
}

#[test]
fn numbers_add_and_halve() {
    let number = |low: u16| {
        let mut bytes = [0; SEARCH_BYTES];
        bytes[SEARCH_BYTES - 2..].copy_from_slice(&low.to_be_bytes());
        Number(bytes)
    };
    assert!(number(255).plus(0) == Some(number(256)) && number(3).plus(8) == Some(number(259)));
    assert!(number(100).middle(&number(201)) == Some(number(150)));
    assert!(number(100).middle(&number(101)).is_none());
    let largest = Number([255; SEARCH_BYTES]);
    assert!(largest.plus(0).is_none() && largest.plus(SEARCH_BYTES * 8 - 1).is_none());
    assert!(largest.middle(&largest).is_none());
    let below = Number::of(b"e", b"e");
    assert!(below.middle(&largest).is_some_and(|middle| middle.0[0] == 127 && middle.0[1] == 255));
}
