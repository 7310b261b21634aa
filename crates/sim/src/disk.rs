//! A machine's disk with its store: it may be slow, full, sick, or lose its power at any change.

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
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};

/// With less in it, half of a segment may be its end.
const ROTS_FROM: usize = 16 << 10;

/// What outlives the machine's processes. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct SimDisk {
    files: MemoryDisk,
    stores: MemoryStores,
    pace: Arc<Pace>,
}

/// How long a change takes at the most on a disk that nothing troubles, in microseconds.
const QUICK_US: u64 = 500;

/// How long things take.
struct Pace {
    /// A change, at the most, in microseconds.
    change_us: AtomicU64,
    /// Changes of files and stores that were waited for.
    paid: Mutex<u64>,
    rng: Mutex<SmallRng>,
}

impl SimDisk {
    /// An empty disk without end.
    pub(crate) fn new(rng: SmallRng) -> SimDisk {
        let pace = Pace { change_us: AtomicU64::new(QUICK_US), paid: Mutex::new(0), rng: Mutex::new(rng) };
        SimDisk { files: MemoryDisk::new(), stores: MemoryStores::new(), pace: Arc::new(pace) }
    }

    /// Another disk with the same content, copied while no process uses it. The faults of this disk are not in the
    /// copy.
    pub(crate) fn copy(&self, rng: SmallRng) -> SimDisk {
        let empty = SimDisk::new(rng);
        let copy = SimDisk { files: self.files.copy(), stores: self.stores.copy(), pace: empty.pace };
        copy.fail_syncs(false);
        copy.set_room(None);
        copy
    }

    /// The next write finds no room after so many bytes.
    pub(crate) fn cut_next_write(&self, bytes: usize) {
        self.files.cut_next_write(bytes);
    }

    /// From now on each change (write, sync, name) takes up to so long, or as long as on a quick disk if that is more.
    pub(crate) fn set_pace(&self, change: Duration) {
        self.pace.change_us.store(QUICK_US.max(change.as_micros() as u64), Ordering::Relaxed);
    }

    /// From now on no sync works, or all do.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.files.fail_syncs(fail);
        self.stores.fail_syncs(fail);
    }

    /// From now on there is room for `more` bytes of files and as much in stores, or without end.
    pub(crate) fn set_room(&self, more: Option<u64>) {
        self.files.cut_no_write();
        self.files.set_capacity(more.map(|_| u64::MAX));
        let free = self.files.free_bytes(Path::new("/")).unwrap_or(u64::MAX);
        self.files.set_capacity(more.map(|more| u64::MAX - free + more));
        let used = self.stores.used_bytes();
        self.stores.set_capacity(more.map(|more| used + more));
    }

    /// The power goes after so many more changes, in whatever is done then; [`SimDisk::power_cut`] is to follow.
    pub(crate) fn stop_after(&self, changes: u64) {
        self.files.stop_after(changes);
    }

    /// The process ends; what it wrote stays.
    pub(crate) fn process_end(&self) {
        self.files.process_end();
        self.stores.process_end();
    }

    /// The power goes: of what was not synced, anything may be lost.
    pub(crate) fn power_cut(&self) {
        let mut rng = self.pace.rng.lock();
        let keeps_percent = [0, 50, 100][rng.random_range(0..3)];
        let mut keeps = || rng.random_range(0..100) < keeps_percent;
        self.stores.power_cut(&mut keeps);
        self.files.power_cut(&mut keeps);
    }

    /// Changes one bit of what is durable of the log, or of the newest snapshot of some shard; where, in words. Nothing
    /// if there is not enough of it. The end of the log is spared: there, what is damaged cannot be told from what was
    /// never written whole.
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
        // Between records there is padding that is never read.
        let marked: Vec<usize> = (0..written / 2).filter(|at| bytes[*at] != 0).collect();
        let at = *marked.choose(rng)?;
        file.write_all_at(&[bytes[at] ^ 1 << rng.random_range(0..8)], at as u64).ok()?;
        file.sync_data().ok()?;
        Some(format!("{name}, byte {at} of {written}"))
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
        // A spare segment is written in hundreds of pieces; they are not waited for one by one.
        let changes = changes.min(8);
        Duration::from_micros(self.pace.rng.lock().random_range(0..=change_us * changes))
    }
}

impl Stores for SimDisk {
    fn open(&self, dir: &Path, settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
        Stores::open(&self.stores, dir, settings)
    }

    fn exists(&self, dir: &Path) -> bool {
        self.stores.exists(dir)
    }
}
