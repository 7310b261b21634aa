//! A disk in memory that loses unsynced data at a power cut.
//!
//! It may lose everything that a real disk may lose. That is any subset of the sectors written since the last sync of their file,
//! and any of the name changes since the last sync of their directory.
//!
//! A failed sync does what Linux does and marks the sectors as clean. They can be read, by later processes too, but no
//! later sync writes them, and a power cut may take them. Only sectors that are written again become durable with the
//! next sync.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing_mutex::parkinglot::Mutex;

use super::disk::{Disk, DiskFile, DiskLock, OpenMode};

/// Bytes that a disk writes atomically.
pub const SECTOR_BYTES: usize = 512;

/// The disk. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    directories: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<NameChange>,
    files: Vec<Content>,
    locks: BTreeSet<PathBuf>,
    /// Counts crashes. Handles and locks of an earlier epoch are dead.
    epoch: u64,
    capacity_bytes: Option<u64>,
    /// The next write stops after this many bytes because the disk is full.
    short_write: Option<usize>,
    syncs_fail: bool,
    /// File syncs that succeed before one fails.
    syncs_until_one_fails: Option<u64>,
    changes_left: Option<u64>,
    changes: u64,
}

#[derive(Clone)]
enum NameChange {
    Set(PathBuf, usize),
    Unset(PathBuf),
    Rename(PathBuf, PathBuf, usize),
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    durable_length: usize,
    /// The durable content of each sector that was changed since the last sync.
    before: BTreeMap<usize, OnDisk>,
    /// The durable content of sectors that a failed sync marked as clean.
    lost: BTreeMap<usize, OnDisk>,
}

/// The durable content of a sector. `None` if it is missing or zero.
type OnDisk = Option<Box<[u8; SECTOR_BYTES]>>;

impl MemoryDisk {
    /// An empty disk without a capacity.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Another disk with the same content that no process uses.
    pub fn copy(&self) -> MemoryDisk {
        let mut state = self.state.lock().clone();
        state.locks.clear();
        state.epoch += 1;
        MemoryDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Limits the total bytes of all files. More is refused as `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// Makes every sync of a file fail, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.state.lock().syncs_fail = fail;
    }

    /// Makes only the next sync of a file fail.
    pub fn fail_next_sync(&self) {
        self.fail_sync_after(0);
    }

    /// Makes one sync of a file fail after `syncs` successful ones.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.state.lock().syncs_until_one_fails = Some(syncs);
    }

    /// The next write writes only the sectors within its first `bytes`, never all of them, and fails with
    /// `StorageFull`.
    pub fn cut_next_write(&self, bytes: usize) {
        self.state.lock().short_write = Some(bytes);
    }

    /// Undoes [`MemoryDisk::cut_next_write`].
    pub fn cut_no_write(&self) {
        self.state.lock().short_write = None;
    }

    /// Makes everything after `changes` more changes (writes, syncs, names) fail, until [`MemoryDisk::power_cut`] or
    /// [`MemoryDisk::process_end`].
    pub fn stop_after(&self, changes: u64) {
        self.state.lock().changes_left = Some(changes);
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Ends the process that uses the disk. Open files and locks end, and no data is lost.
    pub fn process_end(&self) {
        let mut state = self.state.lock();
        state.epoch += 1;
        state.locks.clear();
        state.changes_left = None;
    }

    /// Cuts the power. `keeps` decides for every unsynced sector, length and name change whether it reached the disk. The sectors
    /// of failed syncs are among them. Open files and locks end.
    pub fn power_cut(&self, keeps: &mut dyn FnMut() -> bool) {
        self.process_end();
        let mut state = self.state.lock();
        let changes = std::mem::take(&mut state.name_changes);
        let State { durable_names, files, .. } = &mut *state;
        for change in changes {
            if keeps() {
                change.apply(durable_names);
            }
        }
        for file in files {
            file.power_cut(keeps);
        }
        state.names = state.durable_names.clone();
    }
}

impl State {
    fn change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => return Err(io::Error::other("the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        self.changes += 1;
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|&id| self.files[id].bytes.len() as u64).sum()
    }

    fn room_for(&self, more: usize) -> io::Result<()> {
        match self.capacity_bytes {
            Some(capacity) if more > 0 && self.used_bytes() + more as u64 > capacity => {
                Err(ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Set(path, id) => {
                names.insert(path.clone(), *id);
            }
            NameChange::Unset(path) => {
                names.remove(path);
            }
            NameChange::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Set(path, _) | NameChange::Unset(path) => path.parent() == Some(dir),
            NameChange::Rename(from, to, _) => from.parent() == Some(dir) || to.parent() == Some(dir),
        }
    }
}

impl Content {
    /// Saves the durable content of the sectors of `from..to` before they change.
    fn remember(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES) {
            if let Some(on_disk) = self.lost.remove(&sector) {
                // It is dirty again, so the next sync writes it.
                self.before.insert(sector, on_disk);
                continue;
            }
            let bytes = &self.bytes;
            self.before.entry(sector).or_insert_with(|| {
                let start = (sector * SECTOR_BYTES).min(bytes.len());
                let end = (start + SECTOR_BYTES).min(bytes.len());
                let held = &bytes[start..end];
                held.iter().any(|byte| *byte != 0).then(|| {
                    let mut old = Box::new([0; SECTOR_BYTES]);
                    old[..held.len()].copy_from_slice(held);
                    old
                })
            });
        }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        self.remember(at, end);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    fn set_length(&mut self, length: usize) {
        if length < self.bytes.len() {
            self.remember(length, self.bytes.len());
        }
        self.bytes.resize(length, 0);
    }

    fn sync(&mut self) {
        self.before.clear();
        self.durable_length = self.bytes.len();
    }

    /// A failed sync marks its sectors as clean.
    fn fail_sync(&mut self) {
        self.lost.append(&mut self.before);
    }

    fn power_cut(&mut self, keeps: &mut dyn FnMut() -> bool) {
        let length = match self.bytes.len() == self.durable_length || keeps() {
            true => self.bytes.len(),
            false => self.durable_length,
        };
        self.fail_sync();
        for (sector, old) in std::mem::take(&mut self.lost) {
            if keeps() {
                continue;
            }
            let start = sector * SECTOR_BYTES;
            if self.bytes.len() < start + SECTOR_BYTES {
                self.bytes.resize(start + SECTOR_BYTES, 0);
            }
            let sector = &mut self.bytes[start..start + SECTOR_BYTES];
            match old {
                Some(old) => sector.copy_from_slice(&*old),
                None => sector.fill(0),
            }
        }
        self.bytes.resize(length, 0);
        self.durable_length = length;
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        let id = match (state.names.get(path), mode) {
            (Some(_), OpenMode::Create) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(&id), OpenMode::Read | OpenMode::Write) => id,
            (None, OpenMode::Read | OpenMode::Write) => return Err(ErrorKind::NotFound.into()),
            (None, OpenMode::Create) => {
                let known = path.parent().is_some_and(|dir| state.directories.contains(dir));
                if !known {
                    return Err(ErrorKind::NotFound.into());
                }
                state.change()?;
                state.files.push(Content::default());
                let id = state.files.len() - 1;
                state.change_name(NameChange::Set(path.to_owned(), id));
                id
            }
        };
        let epoch = state.epoch;
        Ok(Arc::new(MemoryFile { state: self.state.clone(), id, epoch, mode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let id = *state.names.get(from).ok_or(ErrorKind::NotFound)?;
        state.change()?;
        let change = NameChange::Rename(from.to_owned(), to.to_owned(), id);
        state.change_name(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.names.contains_key(path) {
            return Err(ErrorKind::NotFound.into());
        }
        state.change()?;
        state.change_name(NameChange::Unset(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        let (durable, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.name_changes).into_iter().partition(|change| change.is_in(dir));
        for change in durable {
            change.apply(&mut state.durable_names);
        }
        state.name_changes = rest;
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if !state.directories.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if !state.directories.contains(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let names =
            state.directories.iter().filter(|path| path.parent() == Some(dir)).filter_map(|path| path.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// The move is durable when this returns.
    fn move_dir(&self, from: &Path, to: Option<&Path>) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.directories.contains(from) {
            return Err(ErrorKind::NotFound.into());
        }
        state.change()?;
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.map(Path::to_owned),
            Ok(rest) => to.map(|to| to.join(rest)),
            Err(_) => Some(path.to_owned()),
        };
        let State { directories, names, durable_names, name_changes, .. } = &mut *state;
        name_changes.retain(|change| match change {
            NameChange::Set(path, _) | NameChange::Unset(path) => !path.starts_with(from),
            NameChange::Rename(one, other, _) => !one.starts_with(from) && !other.starts_with(from),
        });
        *directories = directories.iter().filter_map(|path| moved(path)).collect();
        *names = names.iter().filter_map(|(path, id)| Some((moved(path)?, *id))).collect();
        durable_names.retain(|path, _| !path.starts_with(from));
        let below = names.iter().filter(|(path, _)| to.is_some_and(|to| path.starts_with(to)));
        durable_names.extend(below.map(|(path, id)| (path.clone(), *id)));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.directories.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.capacity_bytes.map_or(u64::MAX, |all| all.saturating_sub(state.used_bytes())))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        match self.open(path, OpenMode::Create) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let mut state = self.state.lock();
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        let epoch = state.epoch;
        Ok(Some(Box::new(MemoryLock { state: self.state.clone(), path: path.to_owned(), epoch })))
    }
}

struct MemoryLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
    epoch: u64,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.epoch == self.epoch {
            state.locks.remove(&self.path);
        }
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    id: usize,
    epoch: u64,
    mode: OpenMode,
}

impl MemoryFile {
    fn state(&self) -> io::Result<tracing_mutex::parkinglot::MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("this file was open before the power cut"));
        }
        Ok(state)
    }

    fn changing(&self) -> io::Result<tracing_mutex::parkinglot::MutexGuard<'_, State>> {
        if self.mode == OpenMode::Read {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut state = self.state()?;
        state.change()?;
        Ok(state)
    }
}

fn position(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(|_| ErrorKind::InvalidInput.into())
}

impl DiskFile for MemoryFile {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let at = position(at)?;
        let state = self.state()?;
        let held = state.files[self.id].bytes.get(at..at + bytes.len());
        bytes.copy_from_slice(held.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let at = position(at)?;
        let mut state = self.changing()?;
        let length = state.files[self.id].bytes.len();
        state.room_for((at + bytes.len()).saturating_sub(length))?;
        if let Some(cut) = state.short_write.take() {
            // Whole sectors are written.
            let end = (at + cut.min(bytes.len().saturating_sub(1))) / SECTOR_BYTES * SECTOR_BYTES;
            state.files[self.id].write(&bytes[..end.saturating_sub(at)], at);
            return Err(ErrorKind::StorageFull.into());
        }
        state.files[self.id].write(bytes, at);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.changing()?;
        let this_one_fails = state.syncs_until_one_fails == Some(0);
        state.syncs_until_one_fails = state.syncs_until_one_fails.take().and_then(|left| left.checked_sub(1));
        if state.syncs_fail || this_one_fails {
            state.files[self.id].fail_sync();
            return Err(io::Error::other("the disk does not sync"));
        }
        state.files[self.id].sync();
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.state()?.files[self.id].bytes.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = position(length)?;
        let mut state = self.changing()?;
        let old = state.files[self.id].bytes.len();
        state.room_for(length.saturating_sub(old))?;
        state.files[self.id].set_length(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::contract;
    use super::*;

    fn file(disk: &MemoryDisk, name: &str) -> Arc<dyn DiskFile> {
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.open(&Path::new("/data").join(name), OpenMode::Create).unwrap()
    }

    #[test]
    fn it_meets_the_contract_of_a_disk() {
        contract::check(&MemoryDisk::new(), Path::new("/data/below"));
    }

    #[test]
    fn a_power_cut_takes_unsynced_sectors_and_names() {
        let disk = MemoryDisk::new();
        let one = file(&disk, "one");
        one.write_all_at(&[1; 1_024], 0).unwrap();
        one.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        one.write_all_at(&[2; 1_000], 100).unwrap();
        drop(file(&disk, "two"));
        let mut answers = [false, false, false, true].into_iter();
        disk.power_cut(&mut || answers.next().unwrap_or(false));
        assert!(one.length().is_err(), "a handle from before the power cut");
        assert_eq!(disk.list(Path::new("/data")).unwrap(), ["one"]);
        let one = disk.open(Path::new("/data/one"), OpenMode::Read).unwrap();
        let mut bytes = vec![0; 1_024];
        one.read_exact_at(&mut bytes, 0).unwrap();
        // Name lost, new length lost, first sector old, second sector new.
        assert_eq!(bytes[..512], [1; 512]);
        assert_eq!(bytes[512..], [2; 512]);
    }

    #[test]
    fn data_of_a_failed_sync_is_readable_and_lost() {
        let disk = MemoryDisk::new();
        let path = Path::new("/data/one");
        let one = file(&disk, "one");
        one.write_all_at(&[1; 1_024], 0).unwrap();
        one.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        one.write_all_at(&[2; 1_024], 0).unwrap();
        disk.fail_next_sync();
        assert!(one.sync_data().is_err());
        let read = || {
            let mut bytes = [0; 1_024];
            disk.open(path, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
            (bytes[0], bytes[600])
        };
        // Another process reads it, but its sync only writes that process's own sectors.
        disk.process_end();
        assert_eq!(read(), (2, 2));
        let one = disk.open(path, OpenMode::Write).unwrap();
        one.write_all_at(&[2; 512], 512).unwrap();
        one.sync_data().unwrap();
        disk.power_cut(&mut || false);
        assert_eq!(read(), (1, 2));
    }

    #[test]
    fn it_is_full_at_its_capacity() {
        let disk = MemoryDisk::new();
        let one = file(&disk, "one");
        disk.set_capacity(Some(1_000));
        one.write_all_at(&[1; 1_000], 0).unwrap();
        assert_eq!(disk.free_bytes(Path::new("/data")).unwrap(), 0);
        let error = one.write_all_at(&[1], 1_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        one.write_all_at(&[2; 10], 990).unwrap();
        disk.fail_syncs(true);
        assert!(one.sync_data().is_err());
        disk.stop_after(1);
        one.write_all_at(&[3], 0).unwrap();
        assert!(one.write_all_at(&[3], 0).is_err());
        disk.process_end();
        let one = disk.open(Path::new("/data/one"), OpenMode::Write).unwrap();
        disk.cut_next_write(600);
        assert_eq!(one.write_all_at(&[7; 900], 0).unwrap_err().kind(), ErrorKind::StorageFull);
        let mut bytes = [0; 514];
        one.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes[0], bytes[511], bytes[512]), (7, 7, 1));
    }
}
