//! Merges of a store's tables.
//!
//! fjall merges in its own thread. That thread ends with the first merge that fails, and the store refuses every write from then on, at
//! the next start as well. So fjall is told to merge nothing ([`never`]), and a thread of ours merges by the same library and rules.
//!
//! A merge reads every block of its tables, so one damaged block fails it. Then the damaged tables are searched for, and everything
//! from the highest of their levels on is moved into the last level and stays there unmerged. Moving reads no block and keeps newer
//! tables before older ones. What is written afterwards is merged in the levels between. So the store goes on, and its last level
//! grows no more.
//!
//! The names of the damaged tables are kept in the file `damaged`, since they are known only after a merge has failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use boxoffice_core::planted;
use bytes::Bytes;
use fjall::{Database, Keyspace};
use lsm_tree::compaction::{Leveled, MoveDown, PullDown};
use lsm_tree::{AbstractTree, Table, TableId};

use super::super::disk::{Disk, OpenMode};
use super::super::os_disk::{OsDisk, is_out_of_descriptors};
use super::super::store::{DamagedTable, StoreSettings, is_no_space};
use super::{NUMBER_KEY, Numbers, TREES};

/// The last level. A store's first table is put there, so it is never empty and anything can be moved on top of it.
const LAST: u8 = 6;
/// Tables of the first level that are merged together.
const FIRST_TABLES: usize = 4;
/// How much larger each level is than the one before it, where the last one is left out.
const LEVEL_RATIO: u64 = 8;
/// How often the thread looks whether there is something to merge.
const PAUSE: Duration = Duration::from_millis(100);
/// After a failure that no damaged table explains, such as a full disk.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The file with the names of damaged tables, and the one beside which it is made.
const DAMAGED: &str = "damaged";
const DAMAGED_NEW: &str = "damaged.new";
const TABLES: &str = "tables";

/// A strategy with which fjall merges nothing: no level is ever as large.
pub(super) fn never() -> Arc<Leveled> {
    if planted::is("the library merges by itself") {
        return Arc::new(Leveled::default());
    }
    Arc::new(Leveled::default().with_l0_threshold(u8::MAX).with_table_target_size(1 << 40))
}

/// Puts the first table into the last level of a new store. It has the [`Numbers`] of no batch, and does not pass through the journal.
pub(super) fn begin(tree: &Keyspace) -> Result<(), lsm_tree::Error> {
    let tree = &tree.tree;
    if tree.level_table_count(usize::from(LAST)).unwrap_or(0) > 0 {
        return Ok(());
    }
    // A process may have ended in between.
    if tree.table_count() == 0 {
        tree.insert(NUMBER_KEY, Numbers::default().encode(), 0);
        tree.flush_active_memtable(0)?;
    }
    tree.compact(Arc::new(Leveled::default()), 0)
}

/// The damaged tables of a store. It outlives a reopening.
#[derive(Default)]
pub(super) struct DamagedTables {
    count: AtomicUsize,
    tables: Mutex<Vec<DamagedTable>>,
}

impl DamagedTables {
    /// Those behind the first `known`.
    pub(super) fn after(&self, known: usize) -> Vec<DamagedTable> {
        if self.count.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        self.lock().get(known..).unwrap_or_default().to_vec()
    }

    fn add(&self, dir: &Path, table: DamagedTable) {
        let mut tables = self.lock();
        if tables.iter().any(|known| known.file == table.file) {
            return;
        }
        let (dir, file, why) = (dir.display(), &table.file, &table.why);
        tracing::error!(
            %dir, file, why,
            "a table of the store is damaged: it is left as it is and merged no more, and everything else goes on; check the disk, and \
             in a cluster replace this node's data directory"
        );
        tables.push(table);
        self.count.store(tables.len(), Ordering::Release);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<DamagedTable>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that merges. It ends when this is dropped, after the merge that it is at.
pub(super) struct Merges {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether it is set, at the latest after `pause`.
    fn wait(&self, pause: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_set, pause, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_set(&self) -> bool {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Merges {
    /// Starts to merge the tables of the store in `dir`.
    ///
    /// # Errors
    /// The list of damaged tables cannot be read, or no thread can be started.
    pub(super) fn start(
        dir: &Path,
        settings: &StoreSettings,
        (database, tree): (&Database, &Keyspace),
        damaged: &Arc<DamagedTables>,
    ) -> io::Result<Merges> {
        let named = read_names(dir)?;
        // Where the last level has tables over others, something was moved there.
        let has_runs = tree.tree.current_version().level(usize::from(LAST)).is_some_and(|level| level.run_count() > 1);
        let merger = Merger {
            dir: dir.to_owned(),
            first_bytes: settings.memtable_bytes.saturating_mul(FIRST_TABLES as u64),
            database: database.clone(),
            tree: tree.clone(),
            spares_last: !named.is_empty() || has_runs,
            named,
            damaged: Arc::clone(damaged),
            bugs: Bugs {
                is_tried_again: planted::is("a merge that fails is tried again"),
                moves_newer_first: planted::is("newer tables are moved before older ones"),
            },
            stop: Arc::default(),
        };
        let stop = Arc::clone(&merger.stop);
        let thread = thread::Builder::new().name("merges".into()).spawn(move || merger.run())?;
        Ok(Merges { stop, thread: Some(thread) })
    }
}

impl Drop for Merges {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that merges tables of the store has panicked");
        }
    }
}

struct Merger {
    dir: PathBuf,
    /// The size of the level behind the first one, in bytes.
    first_bytes: u64,
    tree: Keyspace,
    database: Database,
    /// Whether the last level has damaged tables, and is left as it is.
    spares_last: bool,
    /// The names of all tables that were ever found damaged.
    named: Vec<String>,
    damaged: Arc<DamagedTables>,
    bugs: Bugs,
    stop: Arc<Stop>,
}

/// Bugs that were planted on the thread that opened the store.
struct Bugs {
    is_tried_again: bool,
    moves_newer_first: bool,
}

impl Merger {
    fn run(mut self) {
        self.look_at_named();
        // The version of the tables in which there was nothing to merge.
        let mut unchanged_at = None;
        let mut pause = PAUSE;
        while !self.stop.wait(pause) {
            let before = self.version();
            pause = PAUSE;
            if unchanged_at == Some(before) {
                continue;
            }
            match self.merge() {
                Ok(()) if self.version() == before => unchanged_at = Some(before),
                Ok(()) => pause = Duration::ZERO,
                Err(error) => pause = self.failed(&error),
            }
        }
    }

    fn version(&self) -> u64 {
        self.tree.tree.current_version().id()
    }

    /// Merges once, if something is to be merged.
    fn merge(&self) -> Result<(), lsm_tree::Error> {
        let tree = &self.tree.tree;
        let next = tree.next_table_id();
        let merged = match self.pair() {
            // Every read is of the newest version, so values that have been replaced can go.
            None if !self.spares_last => tree.compact(Arc::new(Leveled::default()), self.database.visible_seqno()),
            None => Ok(()),
            Some((from, to)) => tree.compact(Arc::new(PullDown(from, to)), self.database.visible_seqno()),
        };
        if merged.is_err() {
            self.remove_leftovers(next);
        }
        merged
    }

    /// The levels to merge where the last one is left out.
    fn pair(&self) -> Option<(u8, u8)> {
        if !self.spares_last {
            return None;
        }
        let version = self.tree.tree.current_version();
        if version.level(0).is_some_and(|first| first.table_count() >= FIRST_TABLES) {
            return Some((0, 1));
        }
        let mut bytes = self.first_bytes.saturating_mul(LEVEL_RATIO);
        for level in 1..LAST - 1 {
            if version.level(usize::from(level)).is_some_and(|tables| tables.size() > bytes) {
                return Some((level, level + 1));
            }
            bytes = bytes.saturating_mul(LEVEL_RATIO);
        }
        None
    }

    /// Removes what a failed merge has written, because on a full disk that takes the room.
    fn remove_leftovers(&self, next: TableId) {
        let tree = &self.tree.tree;
        // A table that is being written is not in the version yet.
        let _flushing = tree.get_flush_lock();
        let version = tree.current_version();
        let dir = self.tree.path().join(TABLES);
        for name in OsDisk.list(&dir).unwrap_or_default() {
            let is_left = |id: TableId| id >= next && version.iter_tables().all(|table| table.id() != id);
            if name.parse().is_ok_and(is_left)
                && let Err(error) = OsDisk.remove(&dir.join(&name))
            {
                tracing::warn!(%error, name, "the rest of a failed merge is left until the next start");
            }
        }
    }

    /// Returns the pause until the next merge.
    fn failed(&mut self, error: &lsm_tree::Error) -> Duration {
        let dir = self.dir.display();
        if is_passing(error) || self.bugs.is_tried_again {
            tracing::warn!(%dir, %error, "tables of the store wait to be merged");
            return PAUSE_AFTER_FAILURE;
        }
        tracing::error!(%dir, %error, "a merge of the store's tables has failed; the damaged table is searched for");
        match self.set_aside() {
            Ok(true) => PAUSE,
            Ok(false) => PAUSE_AFTER_FAILURE,
            Err(error) => {
                tracing::error!(dir = %self.dir.display(), %error, "damaged tables of the store cannot be set aside yet");
                PAUSE_AFTER_FAILURE
            }
        }
    }

    /// Finds the damaged tables that a merge can meet, and moves everything from the highest of their levels on into the last one.
    /// Returns whether there are any.
    fn set_aside(&mut self) -> Result<bool, fjall::Error> {
        let (mut highest, mut found) = (None, Vec::new());
        let version = self.tree.tree.current_version();
        for level in 0..=LAST {
            if level == LAST && self.spares_last {
                break;
            }
            for table in
                version.level(usize::from(level)).iter().flat_map(|level| level.iter()).flat_map(|run| run.iter())
            {
                if let Some(damaged) = self.check(table) {
                    highest = highest.or(Some(level));
                    found.push(damaged);
                }
            }
        }
        drop(version);
        let Some(highest) = highest else { return Ok(false) };
        self.named.extend(found.iter().map(|table| table.file.clone()));
        // The next start has to know before anything is moved.
        write_names(&self.dir, &self.named)?;
        self.spares_last = true;
        // The oldest are moved first, so that no newer table is ever behind an older one.
        let mut levels: Vec<u8> = (highest..LAST).rev().collect();
        if self.bugs.moves_newer_first {
            levels.reverse();
        }
        for level in levels {
            if self.tree.tree.level_table_count(usize::from(level)).unwrap_or(0) > 0 {
                self.tree.tree.compact(Arc::new(MoveDown(level, LAST)), self.database.visible_seqno())?;
            }
        }
        found.into_iter().for_each(|table| self.damaged.add(&self.dir, table));
        Ok(true)
    }

    /// Tells what is damaged in the tables that an earlier process has found.
    fn look_at_named(&self) {
        if self.named.is_empty() {
            return;
        }
        let version = self.tree.tree.current_version();
        for table in version.iter_tables().filter(|table| self.named.contains(&self.file(table))) {
            if let Some(damaged) = self.check(table) {
                self.damaged.add(&self.dir, damaged);
            }
        }
    }

    /// A table's file, below the directory of the store.
    fn file(&self, table: &Table) -> String {
        let tree = self.tree.path().file_name().unwrap_or_default().display();
        format!("{TREES}/{tree}/{TABLES}/{}", table.id())
    }

    /// What of a table is damaged. `None` if nothing is, or if the thread is to end.
    fn check(&self, table: &Table) -> Option<DamagedTable> {
        let mut after: Option<Bytes> = None;
        let mut scan = || -> Result<(), lsm_tree::Error> {
            for item in table.scan()? {
                after = Some(Bytes::copy_from_slice(&item?.key.user_key));
                if self.stop.is_set() {
                    break;
                }
            }
            Ok(())
        };
        let error = scan().err().filter(|error| !is_passing(error))?;
        // A block may still be in the cache, so the end is not searched for behind the beginning.
        let behind = table.iter().rev().map_while(Result::ok).map(|item| Bytes::copy_from_slice(&item.key.user_key));
        let before = behind.take_while(|key| after.as_ref().is_none_or(|after| key > after)).last();
        Some(DamagedTable { file: self.file(table), after, before, why: reason(&error) })
    }
}

/// Whether a retry may help, because nothing is damaged.
fn is_passing(error: &lsm_tree::Error) -> bool {
    matches!(error, lsm_tree::Error::Io(io) if is_no_space(io) || is_out_of_descriptors(io))
}

/// The library's error in words.
fn reason(error: &lsm_tree::Error) -> String {
    match error {
        lsm_tree::Error::ChecksumMismatch { .. } => "the checksum of a block does not match".to_owned(),
        lsm_tree::Error::Io(error) => error.to_string(),
        other => format!("{other:?}"),
    }
}

/// The names of the tables that were found damaged.
fn read_names(dir: &Path) -> io::Result<Vec<String>> {
    let file = match OsDisk.open(&dir.join(DAMAGED), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    // A name that is damaged itself names no table, and still says that there are some.
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

fn write_names(dir: &Path, names: &[String]) -> io::Result<()> {
    let aside = dir.join(DAMAGED_NEW);
    match OsDisk.remove(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = OsDisk.open(&aside, OpenMode::Create)?;
    file.write_all_at(names.join("\n").as_bytes(), 0)?;
    file.sync_data()?;
    OsDisk.rename(&aside, &dir.join(DAMAGED))?;
    OsDisk.sync_dir(dir)
}

#[cfg(test)]
mod tests;
