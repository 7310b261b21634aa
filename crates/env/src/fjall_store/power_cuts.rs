//! Power cuts of a real store: each part of its journal that was not synced is lost by itself.
//!
//! A story writes a store and takes images of its directory. The bytes that differ between the image after the last sync and the
//! one at the cut were not synced, so a disk may have any of their units. After each cut the store must open with every synced
//! batch and with no half of another. `BOXOFFICE_SEED` replays a failed run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use tempfile::TempDir;

use super::super::store::{KeyValue, Store, StoreError, StoreSettings, Stores};
use super::FjallStores;

const SEED: u64 = 7;
/// Cuts of all stories together, times `BOXOFFICE_RANDOM`, the factor of all random tests.
const CUTS: usize = 1_000;
/// The units that a disk writes as a whole.
const UNITS: [usize; 2] = [512, 4_096];
const NOISE: usize = 1 << 20;
const COUNT: &[u8] = b"count";
/// The tables of the store.
const TABLES: &str = "keyspaces/1/tables";
/// The file that names the list of the store's tables.
const CURRENT: &str = "keyspaces/1/current";

fn seed() -> u64 {
    std::env::var("BOXOFFICE_SEED").map_or(SEED, |seed| seed.parse().expect("BOXOFFICE_SEED is a number"))
}

fn cuts() -> usize {
    CUTS * std::env::var("BOXOFFICE_RANDOM").map_or(1, |text| text.parse().expect("a number"))
}

/// In memory where that is possible, because no power is cut here.
fn tempdir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a temporary directory")
}

/// Random bytes, from which values are taken.
fn noise() -> &'static Bytes {
    static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
        let mut bytes = vec![0; NOISE];
        SmallRng::seed_from_u64(0).fill_bytes(&mut bytes);
        Bytes::from(bytes)
    });
    &BYTES
}

/// What a batch writes and what it removes. It depends on its number alone.
fn batch(number: u64, large: bool) -> (Vec<KeyValue>, Vec<Bytes>) {
    let mut rng = SmallRng::seed_from_u64(number);
    let key = |number: u64, part: u64| Bytes::from(format!("record/{number:06}/{part}"));
    let mut pairs = vec![(Bytes::from_static(COUNT), Bytes::copy_from_slice(&number.to_be_bytes()))];
    for part in 0..rng.random_range(1..4) {
        let length = match rng.random_range(0..10) {
            _ if large => 256 << 10,
            0..4 => rng.random_range(20..300),
            4..8 => 1_000,
            _ => rng.random_range(4_096..10_000),
        };
        // The store compresses values of one letter.
        let value = match !large && rng.random_bool(0.5) {
            true => Bytes::from(vec![b'a'; length]),
            false => noise().slice_ref(&noise()[rng.random_range(0..=NOISE - length)..][..length]),
        };
        pairs.push((key(number, part), value));
    }
    let gone = if number > 2 && number.is_multiple_of(3) { vec![key(number - 2, 0)] } else { Vec::new() };
    (pairs, gone)
}

/// How many batches a store has, as the last one says.
fn count(store: &dyn Store) -> Result<u64, String> {
    let count = store.get(COUNT).map_err(|error| error.to_string())?;
    Ok(count.and_then(|count| Some(u64::from_be_bytes(count[..].try_into().ok()?))).unwrap_or(0))
}

/// The content after the first `count` batches.
fn expected(count: u64, large: bool) -> BTreeMap<Bytes, Bytes> {
    let mut pairs = BTreeMap::new();
    for number in 1..=count {
        let (written, gone) = batch(number, large);
        pairs.extend(written);
        gone.iter().for_each(|key| _ = pairs.remove(key));
    }
    pairs
}

/// A file's length, and its bytes without the zeros at the end.
#[derive(Clone, PartialEq, Eq)]
struct File {
    bytes: Vec<u8>,
    length: usize,
}

/// The files of a directory by their relative path.
type Image = BTreeMap<PathBuf, File>;

fn image(dir: &Path) -> Image {
    loop {
        // The file that names the tables' list is read first and again at the end, because the store may change it meanwhile.
        let current = || fs::read(dir.join(CURRENT)).ok();
        let before = current();
        let mut files = Image::new();
        let whole = read_files(dir, dir, &mut files).is_ok();
        if whole && before == current() {
            return files;
        }
    }
}

fn read_files(root: &Path, dir: &Path, files: &mut Image) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(root, &path, files)?;
            continue;
        }
        let mut bytes = fs::read(&path)?;
        let length = bytes.len();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        files.insert(path.strip_prefix(root).expect("below the root").to_owned(), File { bytes, length });
    }
    Ok(())
}

fn put(image: &Image, dir: &Path) {
    for (path, file) in image {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, &file.bytes).expect("a written file");
        fs::File::options().write(true).open(&path).expect("a file").set_len(file.length as u64).expect("a length");
    }
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

/// The newest journal, to which batches are added.
fn active(image: &Image) -> PathBuf {
    let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let journals = image.keys().filter(|path| is_journal(path));
    journals.max_by_key(|path| number(path)).expect("a journal").clone()
}

/// A store's directory at a power cut, and what of it was synced.
struct Story {
    name: &'static str,
    /// Whether its batches have large values only.
    large: bool,
    settings: StoreSettings,
    at_sync: Image,
    at_cut: Image,
    synced: u64,
    written: u64,
    begun: Option<(PathBuf, File)>,
}

/// Writes a store.
struct Writer {
    dir: TempDir,
    settings: StoreSettings,
    large: bool,
    store: Arc<dyn Store>,
    written: u64,
    /// A table that was begun, and the file that does not name it yet.
    begun: Option<(PathBuf, File)>,
}

impl Writer {
    fn new(memtable_bytes: u64, large: bool) -> Writer {
        let (dir, settings) = (tempdir(), StoreSettings { memtable_bytes, ..StoreSettings::default() });
        let store = FjallStores.open(dir.path(), &settings, 0).expect("a new store");
        Writer { dir, settings, large, store, written: 0, begun: None }
    }

    /// A writer whose store was opened again, so that its journal ends without zeros.
    fn reopened() -> Writer {
        let mut first = Writer::new(StoreSettings::default().memtable_bytes, false);
        first.write_synced(20);
        let Writer { dir, settings, large, store, written, begun } = first;
        drop(store);
        let store = FjallStores.open(dir.path(), &settings, written).expect("a whole store");
        let mut writer = Writer { dir, settings, large, store, written, begun };
        writer.write_synced(5);
        writer
    }

    fn write(&mut self, batches: u64) {
        for _ in 0..batches {
            self.written += 1;
            let (pairs, gone) = batch(self.written, self.large);
            self.store.change(&pairs, &gone).expect("room");
        }
    }

    fn write_synced(&mut self, batches: u64) {
        for _ in 0..batches {
            self.write(1);
            if self.written.is_multiple_of(4) {
                self.store.sync().expect("a good disk");
            }
        }
        self.store.sync().expect("a good disk");
    }

    fn image(&self) -> Image {
        image(self.dir.path())
    }

    /// The power is cut after `unsynced` more batches.
    fn cut_after(mut self, name: &'static str, unsynced: u64) -> Story {
        let (at_sync, synced) = (self.image(), self.written);
        self.write(unsynced);
        let at_cut = self.image();
        let Writer { settings, large, written, begun, .. } = self;
        Story { name, large, settings, at_sync, at_cut, synced, written, begun }
    }

    /// Until the store has begun a table. It syncs its journal before, so everything written is synced then.
    fn until_a_table_is_begun(&mut self) {
        let tables = self.dir.path().join(TABLES);
        let names = || -> BTreeSet<_> {
            fs::read_dir(&tables).expect("tables").map(|entry| entry.expect("an entry").file_name()).collect()
        };
        loop {
            let (before, current) = (names(), self.image().remove(Path::new(CURRENT)).expect("a tree"));
            self.write(1);
            for _ in 0..20 {
                if let Some(table) = names().difference(&before).next() {
                    self.begun = Some((Path::new(TABLES).join(table), current));
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Until there is another journal, to which nothing is written yet.
    fn until_the_journal_is_sealed(&mut self) {
        let journals = |dir: &Path| -> BTreeSet<PathBuf> {
            let paths = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
            paths.filter(|path| is_journal(path)).collect()
        };
        let before = journals(self.dir.path());
        while journals(self.dir.path()).is_subset(&before) {
            self.write(1);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Story {
    /// The journal that is cut, with the bytes that were synced for certain.
    fn journal(&self) -> (PathBuf, &File, File) {
        let path = active(&self.at_cut);
        let written = &self.at_cut[&path];
        let synced = self.at_sync.get(&path).cloned().unwrap_or(File { bytes: Vec::new(), length: written.length });
        (path, written, synced)
    }

    /// The units that differ from what was synced.
    fn unsynced(&self, unit: usize) -> Vec<usize> {
        let (_, written, synced) = self.journal();
        let byte = |file: &File, at: usize| file.bytes.get(at).copied().unwrap_or(0);
        let differs =
            |index: &usize| (index * unit..(index + 1) * unit).any(|at| byte(written, at) != byte(&synced, at));
        // A journal is only added to, so its beginning need not be compared.
        (synced.bytes.len() / unit..written.bytes.len().div_ceil(unit)).filter(differs).collect()
    }

    /// The directory after a power cut that loses these units of the journal, and its end from the byte `end` on.
    fn torn(&self, unit: usize, lost: &[usize], end: Option<usize>) -> Image {
        let (path, written, synced) = self.journal();
        let mut file = written.clone();
        for index in lost {
            for at in index * unit..((index + 1) * unit).min(file.bytes.len()) {
                file.bytes[at] = synced.bytes.get(at).copied().unwrap_or(0);
            }
        }
        if let Some(end) = end {
            file.bytes.truncate(end);
            file.length = end;
        }
        let mut image = self.at_cut.clone();
        image.insert(path, file);
        self.tear_table(&mut image);
        image
    }

    /// A table that nothing names yet may have any content.
    fn tear_table(&self, image: &mut Image) {
        let Some((table, current)) = &self.begun else { return };
        if self.at_cut[Path::new(CURRENT)] == *current {
            let table = image.get_mut(table).expect("it was begun");
            table.bytes.truncate(table.bytes.len() / 2);
        }
    }

    /// Opens what is left, and checks it.
    fn check(&self, image: &Image) -> Result<u64, String> {
        let dir = tempdir();
        put(image, dir.path());
        let open = || FjallStores.open(dir.path(), &self.settings, self.synced).map_err(|error| error.to_string());
        let store = open()?;
        let found = self.content(&*store)?;
        if found < self.synced {
            return Err(format!("{found} batches are left, {} were synced", self.synced));
        }
        // What is written behind the cut lasts.
        let (pairs, gone) = batch(found + 1, self.large);
        store.change(&pairs, &gone).expect("room");
        store.sync().expect("a good disk");
        drop(store);
        let again = count(&*open()?)?;
        if again != found + 1 {
            return Err(format!("{again} batches are left of {}", found + 1));
        }
        Ok(found)
    }

    /// The number of batches. Checks that the store has all of them and nothing else.
    fn content(&self, store: &dyn Store) -> Result<u64, String> {
        let all = store.scan(b"", None, usize::MAX).map_err(|error| error.to_string())?;
        let found: BTreeMap<Bytes, Bytes> = all.into_iter().collect();
        let count = count(store)?;
        match found == expected(count, self.large) {
            true => Ok(count),
            false => Err(format!("it has a part of a batch behind the first {count}")),
        }
    }

    /// Cuts the power often. Returns the failures.
    fn cuts(&self, cuts: usize, rng: &mut SmallRng) -> Vec<String> {
        let mut failures = Vec::new();
        let mut fewest = u64::MAX;
        let mut most = 0;
        for cut in 0..cuts {
            let unit = UNITS[rng.random_range(0..UNITS.len())];
            let units = self.unsynced(unit);
            let (_, written, synced) = self.journal();
            let end = rng.random_bool(0.3).then(|| rng.random_range(synced.bytes.len()..=written.bytes.len()));
            let lost: Vec<usize> = match rng.random_range(0..5) {
                // Each place in turn, with everything behind it intact.
                0 | 1 => vec![units[cut % units.len()]],
                2 => units.iter().copied().filter(|_| rng.random_bool(0.1)).collect(),
                3 => units.iter().copied().filter(|_| rng.random_bool(0.5)).collect(),
                _ => Vec::new(),
            };
            match self.check(&self.torn(unit, &lost, end)) {
                Ok(found) => (fewest, most) = (fewest.min(found), most.max(found)),
                Err(why) => failures.push(format!("cut {cut} of units of {unit} {lost:?}, end {end:?}: {why}")),
            }
        }
        println!(
            "{}: {cuts} cuts, {} failed; {fewest} to {most} batches left, {} synced, {} written",
            self.name,
            failures.len(),
            self.synced,
            self.written
        );
        failures
    }
}

/// The stories, each with its share of the cuts in percent.
fn stories() -> Vec<(Story, usize)> {
    let memtable = StoreSettings::default().memtable_bytes;
    let mut first = Writer::new(memtable, false);
    first.write_synced(20);
    let first = first.cut_after("the first journal, made with zeros", 12);

    let reopened = Writer::reopened().cut_after("a journal that grows after a start", 12);

    let mut table = Writer::new(4 << 20, true);
    table.write_synced(6);
    table.until_a_table_is_begun();
    let table = table.cut_after("while a table is written", 3);

    let mut sealed = Writer::new(memtable, true);
    sealed.until_the_journal_is_sealed();
    let sealed = sealed.cut_after("behind a sealed journal", 3);
    vec![(first, 20), (reopened, 75), (table, 4), (sealed, 1)]
}

/// Cuts the power in all stories. Returns the failures.
fn failures(cuts: usize) -> Vec<String> {
    let seed = seed();
    println!("BOXOFFICE_SEED={seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    stories().iter().flat_map(|(story, percent)| story.cuts(cuts * percent / 100, &mut rng)).collect()
}

#[test]
fn no_power_cut_takes_a_synced_batch() {
    let (cuts, failures) = (cuts(), failures(cuts()));
    assert!(failures.is_empty(), "{} of {cuts} cuts, first {:#?}", failures.len(), &failures[..failures.len().min(5)]);
}

/// A bad disk has changed a byte that was synced. Returns the failures.
fn damages(times: usize) -> Vec<String> {
    let mut rng = SmallRng::seed_from_u64(seed());
    let story = Writer::reopened().cut_after("a damaged journal", 0);
    let (path, written, _) = story.journal();
    let mut failures = Vec::new();
    for _ in 0..times {
        let mut file = written.clone();
        let at = rng.random_range(0..file.bytes.len());
        file.bytes[at] ^= 1 << rng.random_range(0..8);
        let mut image = story.at_cut.clone();
        image.insert(path.clone(), file);
        if let Err(why) = story.check_damaged(&image) {
            failures.push(format!("byte {at}: {why}"));
        }
    }
    failures
}

impl Story {
    /// The store is refused by name and left as it is, and opens with what came before if that is enough.
    fn check_damaged(&self, image: &Image) -> Result<(), String> {
        let dir = tempdir();
        put(image, dir.path());
        match FjallStores.open(dir.path(), &self.settings, self.synced) {
            Err(StoreError::Damaged { last, needed, .. }) if last < self.synced && needed == self.synced => {}
            Err(error) => return Err(error.to_string()),
            Ok(store) => return Err(format!("it opens with {} of {} batches", self.content(&*store)?, self.synced)),
        }
        if self::image(dir.path()) != *image {
            return Err("it is changed".to_owned());
        }
        let store = FjallStores.open(dir.path(), &self.settings, 0).map_err(|error| error.to_string())?;
        self.content(&*store).map(|_| ())
    }
}

#[test]
fn a_damaged_batch_that_was_synced_is_refused_or_told() {
    let failures = damages(50);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use boxoffice_core::planted::plant;
    plant(Some("a journal's end is trusted"));
    assert!(failures(200).iter().any(|failure| failure.contains("ChecksumMismatch")));
    plant(Some("a synced batch is dropped in silence"));
    let damages = damages(50);
    assert!(!damages.is_empty() && damages.iter().all(|failure| failure.contains("it opens with")), "{damages:#?}");
    plant(None);
}
