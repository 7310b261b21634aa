//! Real stores with single wrong bits in their tables, which merges meet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::super::super::store::{KeyValue, Store, StoreSettings};
use super::super::FjallStore;
use super::*;

const SETTINGS: StoreSettings = StoreSettings { cache_bytes: 1 << 20, memtable_bytes: 1 << 20 };
const KEYS: u64 = 2_000;
const VALUE_BYTES: usize = 1_000;
const BATCH: u64 = 50;
/// The values of a block, and some more.
const LOST_MAX: usize = 12;
/// Tables of records have more.
const TABLE_BYTES_MIN: u64 = 64 << 10;
/// More than there are if merges go on.
const TABLES_MAX: usize = 40;

fn key(number: u64) -> Bytes {
    Bytes::from(format!("record/{number:06}"))
}

/// A store with what it should have.
struct Model {
    dir: tempfile::TempDir,
    store: Option<FjallStore>,
    values: BTreeMap<Bytes, Bytes>,
    rng: SmallRng,
}

impl Model {
    fn new(seed: u64) -> Model {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Some(FjallStore::new(dir.path(), &SETTINGS, 0).expect("a new store"));
        Model { dir, store, values: BTreeMap::new(), rng: SmallRng::seed_from_u64(seed) }
    }

    fn store(&self) -> &FjallStore {
        self.store.as_ref().expect("it is open")
    }

    /// How many tables the levels have.
    fn levels(&self) -> Vec<usize> {
        let open = self.store().open.read();
        let tree = &open.as_ref().expect("it is open").tree.tree;
        (0..=LAST).map(|level| tree.level_table_count(usize::from(level)).expect("a level")).collect()
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(FjallStore::new(self.dir.path(), &SETTINGS, 0).expect("it opens"));
    }

    fn value(&mut self) -> Bytes {
        let mut bytes = vec![0; VALUE_BYTES];
        self.rng.fill_bytes(&mut bytes);
        Bytes::from(bytes)
    }

    /// Writes these keys, and removes some of them.
    fn write(&mut self, keys: impl Iterator<Item = u64>) -> Result<(), String> {
        let keys: Vec<u64> = keys.collect();
        for keys in keys.chunks(BATCH as usize) {
            let (mut pairs, mut gone): (Vec<KeyValue>, Vec<Bytes>) = Default::default();
            for number in keys {
                pairs.retain(|(written, _)| *written != key(*number));
                if self.rng.random_range(0..10) == 0 {
                    self.values.remove(&key(*number));
                    gone.push(key(*number));
                } else if !gone.contains(&key(*number)) {
                    let value = self.value();
                    self.values.insert(key(*number), value.clone());
                    pairs.push((key(*number), value));
                }
            }
            self.store().change(&pairs, &gone).map_err(|error| error.to_string())?;
        }
        self.store().sync().map_err(|error| error.to_string())
    }

    fn write_some(&mut self, batches: u64) -> Result<(), String> {
        let keys: Vec<u64> = (0..batches * BATCH).map(|_| self.rng.random_range(0..KEYS)).collect();
        self.write(keys.into_iter())
    }

    /// How many values cannot be read. All others must be right.
    fn lost(&self) -> Result<usize, String> {
        let mut lost = 0;
        for number in 0..KEYS {
            match self.store().get(&key(number)) {
                Err(_) => lost += 1,
                Ok(found) if found.as_ref() == self.values.get(&key(number)) => {}
                Ok(found) => {
                    return Err(format!("record {number} is an older one: {:?}", found.map(|found| found.len())));
                }
            }
        }
        Ok(lost)
    }

    /// Files that belong to no table of the store.
    fn left_over(&self) -> Vec<PathBuf> {
        let open = self.store().open.read();
        let tables = open.as_ref().expect("it is open").tree.tree.current_version();
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<TableId>().ok();
        let is_table = |path: &PathBuf| number(path).is_some_and(|id| tables.iter_tables().any(|it| it.id() == id));
        self.tables().into_iter().filter(|path| !is_table(path)).collect()
    }

    fn tables(&self) -> Vec<PathBuf> {
        let tables = fs::read_dir(self.dir.path().join("keyspaces/1/tables")).expect("tables");
        tables.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// Tables of records that are not damaged yet.
    fn good_tables(&self) -> Vec<PathBuf> {
        let known = read_names(self.dir.path()).expect("a list");
        let mut tables = self.tables();
        // A merge may remove a table in this moment.
        tables.retain(|path| {
            fs::metadata(path).is_ok_and(|table| table.len() > TABLE_BYTES_MIN) && !known.contains(&self.below(path))
        });
        tables
    }

    fn below(&self, path: &Path) -> String {
        path.strip_prefix(self.dir.path()).expect("below").display().to_string()
    }

    /// Changes a bit of a table of records that is not damaged yet, and returns its name.
    fn damage(&mut self) -> String {
        // Another thread writes tables.
        for _ in 0..600 {
            if !self.good_tables().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.store = None;
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
        let tables = self.good_tables();
        // The newest one is not in the last level.
        let table = tables.into_iter().max_by_key(number).expect("a table");
        let mut bytes = fs::read(&table).expect("a table");
        // The first half has blocks of records.
        let at = self.rng.random_range(0..bytes.len() / 2);
        bytes[at] ^= 1 << self.rng.random_range(0..8);
        fs::write(&table, bytes).expect("a written table");
        let name = self.below(&table);
        self.reopen();
        name
    }

    fn until_told(&self, file: &str) -> Result<(), String> {
        for _ in 0..600 {
            if self.store().damaged(0).iter().any(|table| table.file == file) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{file} is not told to be damaged: {:?}", self.store().damaged(0)))
    }
}

/// Damages one table after the other, each in a level above the one before.
fn damages(seed: u64, times: usize) -> Result<(), String> {
    let mut model = Model::new(seed);
    model.write_some(60)?;
    for time in 1..=times {
        // From the second time on older tables are between the damaged one and the last level.
        while time > 1 && !(model.levels()[1] > 0 && matches!(model.levels()[0], 1..3)) {
            model.write_some(5)?;
            std::thread::sleep(2 * PAUSE);
        }
        let file = model.damage();
        model.write_some(200)?;
        model.until_told(&file)?;
        model.write_some(200)?;
        let lost = model.lost()?;
        if lost > time * LOST_MAX {
            return Err(format!("{lost} values cannot be read"));
        }
        if !model.store().damaged(time).is_empty() || model.store().damaged(time - 1).len() != 1 {
            return Err(format!("damage {time}: {:?}", model.store().damaged(0)));
        }
        // The next start knows it, before anything is merged.
        model.reopen();
        model.until_told(&file)?;
        let tables = model.tables().len();
        if tables > TABLES_MAX {
            return Err(format!("{tables} tables are left unmerged"));
        }
    }
    // What is written anew can be read.
    model.write(0..KEYS)?;
    match model.lost()? {
        0 => Ok(()),
        lost => Err(format!("{lost} new values cannot be read")),
    }
}

#[test]
fn a_store_with_wrong_bits_merges_the_rest_and_goes_on() {
    damages(1, 3).unwrap();
}

/// A store whose first tables are damaged has little in its last level.
#[test]
fn a_young_store_with_a_wrong_bit_goes_on() {
    for seed in 2..5 {
        let mut model = Model::new(seed);
        model.write_some(25 * (seed - 1)).unwrap();
        model.reopen();
        if model.tables().iter().all(|path| fs::metadata(path).expect("a table").len() <= TABLE_BYTES_MIN) {
            model.write_some(30).unwrap();
        }
        let file = model.damage();
        model.write_some(150).unwrap();
        model.until_told(&file).unwrap();
        assert!(model.lost().unwrap() <= LOST_MAX);
    }
}

#[test]
fn the_keys_around_the_damage_are_told() {
    let mut model = Model::new(9);
    model.write_some(60).unwrap();
    let file = model.damage();
    model.write_some(150).unwrap();
    model.until_told(&file).unwrap();
    let DamagedTable { after, before, why, .. } = model.store().damaged(0).remove(0);
    assert!(after.is_none_or(|after| after < before.clone().unwrap_or_default()), "{before:?}");
    assert!(before.is_some(), "the last half of a table is good");
    assert!(why.contains("checksum") || why.contains("Invalid"), "{why}");
}

/// What a merge had written before it failed takes no room.
#[test]
fn a_failed_merge_leaves_no_file() {
    let mut model = Model::new(10);
    model.write_some(60).unwrap();
    let file = model.damage();
    model.write_some(300).unwrap();
    model.until_told(&file).unwrap();
    // A merge under way has files of its own, and the tables of an older version are removed with a later one. So there are writes,
    // and the files are looked at until none is left over.
    for _ in 0..100 {
        if model.left_over().is_empty() {
            return;
        }
        model.write_some(30).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("these files belong to no table: {:?}", model.left_over());
}

#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use boxoffice_core::planted::plant;
    for (bug, told) in [
        ("the library merges by itself", "FjallError: Poisoned"),
        ("a merge that fails is tried again", "is not told to be damaged"),
        ("newer tables are moved before older ones", "is an older one"),
    ] {
        plant(Some(bug));
        let found = damages(1, 3);
        println!("{bug}: {found:?}");
        assert!(found.as_ref().is_err_and(|why| why.contains(told)), "{bug}: {found:?}");
    }
    plant(None);
}
