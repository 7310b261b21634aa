//! A machine's disk and store. They may be slow or full, fail, or lose power at any change.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_env::{
    Disk, DiskFile, DiskLock, MemoryDisk, MemoryStores, OpenMode, Store, StoreError, StoreSettings, Stores,
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tracing_mutex::parkinglot::Mutex;

/// The smallest segment whose first half is certainly not its end.
const ROTS_FROM: usize = 16 << 10;

/// A part of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Log,
    Snapshots,
    Store,
    Archives,
    KeptSnapshots,
    Chain,
    Identity,
    /// The small files beside the identity.
    Notes,
}

impl Part {
    pub(crate) const ALL: [Part; 8] = [
        Part::Log,
        Part::Snapshots,
        Part::Store,
        Part::Archives,
        Part::KeptSnapshots,
        Part::Chain,
        Part::Identity,
        Part::Notes,
    ];

    /// Its name in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Part::Log => "log",
            Part::Snapshots => "snapshots",
            Part::Store => "store",
            Part::Archives => "archives",
            Part::KeptSnapshots => "kept snapshots",
            Part::Chain => "chain",
            Part::Identity => "identity",
            Part::Notes => "notes",
        }
    }

    fn dir(self) -> &'static str {
        match self {
            Part::Log => "log",
            Part::Snapshots => "snapshots",
            Part::Store => "history",
            Part::Archives | Part::KeptSnapshots | Part::Chain => "archive",
            Part::Identity | Part::Notes => "",
        }
    }

    /// Whether a file of its directory is of this part.
    fn has(self, name: &str) -> bool {
        let is_snapshot = name.ends_with(".snap");
        match self {
            Part::Log => name.ends_with(".log"),
            Part::Snapshots | Part::KeptSnapshots => is_snapshot,
            Part::Archives => !is_snapshot && name != "chain" && !name.ends_with(".tmp"),
            Part::Chain => name == "chain",
            Part::Identity => name == "identity.toml",
            Part::Notes => !["identity.toml", "lock"].contains(&name),
            Part::Store => false,
        }
    }
}

/// A machine's disk, which outlives its processes. Clones share it.
#[derive(Clone)]
pub(crate) struct SimDisk {
    files: MemoryDisk,
    stores: MemoryStores,
    pace: Arc<Pace>,
}

/// The longest time of a change without a fault, in microseconds.
const QUICK_US: u64 = 500;

/// A read of the store takes as long as this many changes at most, so up to 2 s on the slowest disk.
const READ_CHANGES: u64 = 4;

struct Pace {
    /// The longest time of a change, in microseconds.
    change_us: AtomicU64,
    /// Changes of files and stores that the caller has waited for.
    paid: Mutex<u64>,
    rng: Mutex<SmallRng>,
}

impl SimDisk {
    /// An empty disk without a capacity.
    pub(crate) fn new(rng: SmallRng) -> SimDisk {
        let pace = Pace { change_us: AtomicU64::new(QUICK_US), paid: Mutex::new(0), rng: Mutex::new(rng) };
        SimDisk { files: MemoryDisk::new(), stores: MemoryStores::new(), pace: Arc::new(pace) }
    }

    /// Another disk with the same content and without faults. Call it while no process uses this disk.
    pub(crate) fn copy(&self, rng: SmallRng) -> SimDisk {
        let empty = SimDisk::new(rng);
        let copy = SimDisk { files: self.files.copy(), stores: self.stores.copy(), pace: empty.pace };
        copy.fail_syncs(false);
        copy.set_room(None);
        copy
    }

    /// The next write finds no room after this many bytes.
    pub(crate) fn cut_next_write(&self, bytes: usize) {
        self.files.cut_next_write(bytes);
    }

    /// Sets the longest time of a change (write, sync, name), at least that of a quick disk.
    pub(crate) fn set_pace(&self, change: Duration) {
        self.pace.change_us.store(QUICK_US.max(change.as_micros() as u64), Ordering::Relaxed);
    }

    /// Makes every sync fail, or succeed again.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.files.fail_syncs(fail);
        self.stores.fail_syncs(fail);
    }

    /// Sets the free room of files and of stores to `more` bytes each, or removes the limit.
    pub(crate) fn set_room(&self, more: Option<u64>) {
        self.files.cut_no_write();
        self.files.set_capacity(more.map(|_| u64::MAX));
        let free = self.files.free_bytes(Path::new("/")).unwrap_or(u64::MAX);
        self.files.set_capacity(more.map(|more| u64::MAX - free + more));
        let used = self.stores.used_bytes();
        self.stores.set_capacity(more.map(|more| used + more));
    }

    /// Makes everything after `changes` more changes fail. Call [`SimDisk::power_cut`] afterwards.
    pub(crate) fn stop_after(&self, changes: u64) {
        self.files.stop_after(changes);
    }

    /// Ends the process. No data is lost.
    pub(crate) fn process_end(&self) {
        self.files.process_end();
        self.stores.process_end();
    }

    /// Cuts the power. Any unsynced data may be lost.
    pub(crate) fn power_cut(&self) {
        let mut rng = self.pace.rng.lock();
        let keeps_percent = [0, 50, 100][rng.random_range(0..3)];
        let mut keeps = || rng.random_range(0..100) < keeps_percent;
        self.stores.power_cut(&mut keeps);
        self.files.power_cut(&mut keeps);
    }

    /// Changes one bit of the log or of a snapshot, and returns its place. `None` if the file is too short. The end of
    /// the log is spared, because damage there cannot be told from a torn end.
    pub(crate) fn rot(&self, of_log: bool, rng: &mut SmallRng) -> Option<String> {
        let dir = Path::new(if of_log { "/data/log" } else { "/data/snapshots" });
        let names = self.files.list(dir).ok()?;
        let names: Vec<&String> =
            names.iter().filter(|name| name.ends_with(".log") || name.ends_with(".snap")).collect();
        let name = names.choose(rng)?;
        let file = self.files.open(&dir.join(name), OpenMode::Write).ok()?;
        let mut bytes = vec![0; file.length().ok()? as usize];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let written = bytes.iter().rposition(|byte| *byte != 0)? + 1;
        if of_log && written < ROTS_FROM {
            return None;
        }
        // The padding between records is never read.
        let marked: Vec<usize> = (0..written / 2).filter(|at| bytes[*at] != 0).collect();
        let at = *marked.choose(rng)?;
        file.write_all_at(&[bytes[at] ^ 1 << rng.random_range(0..8)], at as u64).ok()?;
        file.sync_data().ok()?;
        Some(format!("{name}, byte {at} of {written}"))
    }

    /// Changes one bit of a written byte of this part, and returns its place. `None` if the part has none.
    pub(crate) fn flip(&self, part: Part, rng: &mut SmallRng) -> Option<String> {
        if part == Part::Store {
            let dir = Path::new("/data/history");
            let keys = self.stores.keys(dir);
            let key = keys.choose(rng)?;
            self.stores.flip(dir, key, &mut |bits| rng.random_range(0..bits));
            return Some(format!("the record at {key:?}"));
        }
        let dir = Path::new("/data").join(part.dir());
        let names = self.files.list(&dir).ok()?;
        let names: Vec<&String> = names.iter().filter(|name| part.has(name)).collect();
        let name = names.choose(rng)?;
        let file = self.files.open(&dir.join(name), OpenMode::Write).ok()?;
        let mut bytes = vec![0; file.length().ok()? as usize];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let written = bytes.iter().rposition(|byte| *byte != 0)? + 1;
        let at = rng.random_range(0..written);
        file.write_all_at(&[bytes[at] ^ 1 << rng.random_range(0..8)], at as u64).ok()?;
        file.sync_data().ok()?;
        Some(format!("{name}, byte {at} of {written}"))
    }

    /// Changes one bit of one record of the store, and returns its key. `None` if it has none.
    pub(crate) fn rot_record(&self, rng: &mut SmallRng) -> Option<String> {
        let dir = Path::new("/data/history");
        // Other keys are of the store as a whole.
        let keys: Vec<_> = self.stores.keys(dir).into_iter().filter(|key| key.starts_with(b"e")).collect();
        let key = keys.choose(rng)?;
        self.stores.damage(dir, key);
        Some(format!("the record at {key:?}"))
    }

    /// Changes of files and stores so far.
    pub(crate) fn changes(&self) -> u64 {
        self.files.changes() + self.stores.changes()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.files.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.files.list_dirs(dir)
    }

    /// A store is not kept.
    fn move_dir(&self, from: &Path, to: Option<&Path>) -> io::Result<()> {
        if self.stores.exists(from) {
            self.stores.remove(from);
            return Ok(());
        }
        self.files.move_dir(from, to)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.files.create_dir_all(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.files.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.files.lock(path)
    }

    fn take_delay(&self) -> Duration {
        let now = self.changes();
        let changes = now - std::mem::replace(&mut *self.pace.paid.lock(), now);
        let change_us = self.pace.change_us.load(Ordering::Relaxed);
        if changes == 0 {
            return Duration::ZERO;
        }
        // A new segment is written in hundreds of pieces, which must not be waited for one by one.
        let changes = changes.min(8);
        Duration::from_micros(self.pace.rng.lock().random_range(0..=change_us * changes))
    }
}

impl Stores for SimDisk {
    fn open(&self, dir: &Path, settings: &StoreSettings, needed: u64) -> Result<Arc<dyn Store>, StoreError> {
        Stores::open(&self.stores, dir, settings, needed)
    }

    fn exists(&self, dir: &Path) -> bool {
        self.stores.exists(dir)
    }

    fn read_delay(&self) -> Duration {
        let read_us = READ_CHANGES * self.pace.change_us.load(Ordering::Relaxed);
        Duration::from_micros(self.pace.rng.lock().random_range(0..=read_us))
    }
}
