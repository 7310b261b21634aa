//! Snapshots that are kept beside the archives, so that the state at an instant of the past can be found: the newest of them before it,
//! and the archived entries after it.
//!
//! A node keeps two snapshots of each shard for itself. One that it no longer needs moves here if the newest one here is old enough,
//! so keeping one writes nothing. One without all the entries after it is of no use and is removed.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_env::{Disk, OpenMode};
use boxoffice_shard::{ShardId, Stamp};

use super::{SnapshotError, SnapshotFiles, SnapshotName, failed};

/// Which snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepRule {
    /// Between two snapshots of a shard there are at least this many milliseconds.
    pub every_ms: u64,
    /// Snapshots of each shard. The oldest go first.
    pub count_max: usize,
}

/// The kept snapshots of a node, in the directory of its archives.
#[derive(Clone)]
pub struct KeptSnapshots {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    rule: KeepRule,
}

/// A snapshot from which a state can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSnapshot {
    /// The last entry in it.
    pub name: SnapshotName,
    /// The time of that entry.
    pub stamp: Stamp,
}

impl SnapshotFiles {
    /// The readable snapshots of a shard, kept ones too, oldest first.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn all_of(&self, shard: ShardId) -> Result<Vec<KeptSnapshot>, SnapshotError> {
        let mut found = self.described(shard)?;
        if let Some(kept) = &self.kept {
            found.extend(kept.files().described(shard)?);
        }
        found.sort_unstable_by_key(|kept| kept.name);
        // The process may have ended while one was moved.
        found.dedup();
        Ok(found)
    }

    /// The payload of a snapshot, here or kept. `None` if it is gone or damaged.
    ///
    /// # Errors
    /// [`SnapshotError::OtherVersion`], [`SnapshotError::Io`].
    pub fn load_any(&self, name: SnapshotName) -> Result<Option<Vec<u8>>, SnapshotError> {
        let kept = self.kept.as_ref().map(KeptSnapshots::files);
        for files in [Some(self), kept.as_ref()].into_iter().flatten() {
            match files.load(name) {
                Ok(Ok(payload)) => return Ok(Some(payload)),
                Ok(Err(why)) => tracing::warn!(why, "a snapshot is passed over"),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn described(&self, shard: ShardId) -> Result<Vec<KeptSnapshot>, SnapshotError> {
        let mut found = Vec::new();
        for name in self.list()?.into_iter().filter(|name| name.shard == shard) {
            match self.describe(name) {
                Ok(Ok(meta)) => found.push(KeptSnapshot {
                    name,
                    stamp: Stamp { running_ms: meta.stamp_ms, distance_ms: meta.distance_ms },
                }),
                Ok(Err(why)) => tracing::warn!(why, "a snapshot is passed over"),
                // It was moved or removed meanwhile.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

impl KeptSnapshots {
    /// Those in the directory `dir`, which exists.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, rule: KeepRule) -> KeptSnapshots {
        KeptSnapshots { disk, dir: dir.to_owned(), rule }
    }

    fn files(&self) -> SnapshotFiles {
        SnapshotFiles { disk: Arc::clone(&self.disk), dir: self.dir.clone(), kept: None }
    }

    /// All of them.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn list(&self) -> Result<Vec<SnapshotName>, SnapshotError> {
        self.files().list()
    }

    /// Reads one whole. `Ok(Err)` says what is damaged.
    ///
    /// # Errors
    /// [`SnapshotError::OtherVersion`], [`SnapshotError::Io`].
    pub fn check(&self, name: SnapshotName) -> Result<Result<(), String>, SnapshotError> {
        Ok(self.files().load(name)?.map(|_| ()))
    }

    /// Bytes of all of them.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn bytes(&self) -> Result<u64, SnapshotError> {
        self.files().list()?.into_iter().map(|name| self.length(name)).sum()
    }

    /// The length of one, 0 if it is gone.
    fn length(&self, name: SnapshotName) -> Result<u64, SnapshotError> {
        let path = self.dir.join(name.file_name());
        match self.disk.open(&path, OpenMode::Read) {
            Ok(file) => file.length().map_err(failed("measure", &path)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(failed("open", &path)(error)),
        }
    }

    /// Takes a snapshot from where it is no longer needed, if one is due. Returns whether it did.
    pub(super) fn take(&self, from: &SnapshotFiles, name: SnapshotName) -> Result<bool, SnapshotError> {
        if self.rule.count_max == 0 {
            return Ok(false);
        }
        // A damaged one is not worth keeping.
        let Ok(meta) = from.describe(name)? else { return Ok(false) };
        let at_ms = Stamp { running_ms: meta.stamp_ms, distance_ms: meta.distance_ms }.true_ms();
        let newest = self.files().described(name.shard)?.pop();
        let due_ms = newest.map_or(0, |newest| newest.stamp.true_ms().saturating_add(self.rule.every_ms));
        if at_ms < due_ms || newest.is_some_and(|newest| newest.name >= name) {
            return Ok(false);
        }
        let (old, new) = (from.dir.join(name.file_name()), self.dir.join(name.file_name()));
        self.disk.rename(&old, &new).map_err(failed("rename", &old))?;
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))?;
        Ok(true)
    }

    /// Removes those that are too many, those beyond `bytes_max` in total, and those without all the entries after them. `first` is
    /// the first entry of a shard that is still archived, if it is known.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn prune(&self, bytes_max: u64, mut first: impl FnMut(ShardId) -> Option<u64>) -> Result<(), SnapshotError> {
        let mut by_shard: BTreeMap<ShardId, VecDeque<SnapshotName>> = BTreeMap::new();
        for name in self.files().list()? {
            by_shard.entry(name.shard).or_default().push_back(name);
        }
        for (shard, names) in &mut by_shard {
            let first = first(*shard).unwrap_or(0);
            while let Some(oldest) = names.front()
                && (names.len() > self.rule.count_max || oldest.index.saturating_add(1) < first)
            {
                self.remove(*oldest)?;
                names.pop_front();
            }
        }
        let mut bytes = self.bytes()?;
        while bytes > bytes_max && by_shard.values().any(|names| !names.is_empty()) {
            // Every shard gives its oldest, so that all of them reach about equally far back.
            for oldest in by_shard.values_mut().filter_map(VecDeque::pop_front) {
                bytes = bytes.saturating_sub(self.length(oldest)?);
                self.remove(oldest)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove_all(&self, shard: ShardId) -> Result<(), SnapshotError> {
        self.files().list()?.into_iter().filter(|name| name.shard == shard).try_for_each(|name| self.remove(name))
    }

    /// Removes one. Without a sync of the directory it may come back after a power cut, and be removed again.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn remove(&self, name: SnapshotName) -> Result<(), SnapshotError> {
        let path = self.dir.join(name.file_name());
        self.files().remove_if_there(&path)
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::NEWEST;
    use boxoffice_env::MemoryDisk;
    use boxoffice_shard::{Epoch, Members, Position, ReplicaId, SnapshotMeta};

    use super::*;
    use crate::snapshot;

    const HOUR_MS: u64 = 3_600_000;

    fn open(disk: &MemoryDisk, rule: KeepRule) -> (SnapshotFiles, KeptSnapshots) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        disk.create_dir_all(Path::new("/archive")).unwrap();
        let kept = KeptSnapshots::new(Arc::clone(&disk), Path::new("/archive"), rule);
        (SnapshotFiles::open(disk, Path::new("/snapshots")).unwrap().keeping(kept.clone()), kept)
    }

    /// Saves a snapshot of this hour. Its index is ten times that.
    fn save(files: &SnapshotFiles, shard: ShardId, hour: u64) {
        let meta = SnapshotMeta {
            version: NEWEST,
            shard,
            replica: ReplicaId::new(1, 1),
            position: Position { index: 10 * hour, term: 1 },
            stamp_ms: hour * HOUR_MS,
            distance_ms: 7,
            epoch: Epoch(1),
            sequence: 1,
            placed: 0,
            mark: None,
            chain: None,
            payment_epoch: None,
            members: Members::default(),
        };
        files.save(NEWEST, shard, 10 * hour, &snapshot::encode(&meta, 0, &[0; 100])).unwrap();
    }

    fn indexes(kept: &KeptSnapshots) -> Vec<(u16, u64)> {
        kept.files().list().unwrap().iter().map(|name| (name.shard, name.index)).collect()
    }

    #[test]
    fn a_snapshot_that_is_no_longer_needed_is_kept_if_the_last_one_is_old_enough() {
        let disk = MemoryDisk::new();
        let (files, kept) = open(&disk, KeepRule { every_ms: 24 * HOUR_MS, count_max: 9 });
        for hour in [1, 5, 24, 25, 26, 60, 61, 62] {
            save(&files, 1, hour);
        }
        save(&files, 2, 3);
        assert_eq!(indexes(&kept), [(1, 10), (1, 250), (1, 600)]);
        disk.power_cut(&mut || false);
        let (files, kept) = open(&disk, KeepRule { every_ms: 0, count_max: 9 });
        let all = files.all_of(1).unwrap();
        assert!(all.iter().map(|one| one.name.index).eq([10, 250, 600, 610, 620]), "{all:?}");
        assert_eq!(all[1].stamp.true_ms(), 25 * HOUR_MS + 7);
        assert!(files.load_any(all[1].name).unwrap().is_some() && files.load_any(all[4].name).unwrap().is_some());
        assert_eq!(files.load_any(SnapshotName { shard: 1, index: 5 }).unwrap(), None);
        // A damaged one is neither kept nor in the list.
        let file = disk.open(Path::new("/snapshots/1-610.snap"), OpenMode::Write).unwrap();
        file.write_all_at(&[0; 8], 0).unwrap();
        assert_eq!(files.all_of(1).unwrap().len(), 4);
        save(&files, 1, 63);
        assert_eq!(indexes(&kept).len(), 3);
        save(&files, 1, 64);
        assert_eq!(indexes(&kept), [(1, 10), (1, 250), (1, 600), (1, 620)]);
        files.remove_all(1).unwrap();
        assert_eq!(indexes(&kept), []);
        let (files, kept) = open(&disk, KeepRule { every_ms: 0, count_max: 0 });
        (70..74).for_each(|hour| save(&files, 1, hour));
        assert_eq!(indexes(&kept), [], "none are kept");
    }

    #[test]
    fn kept_snapshots_go_when_they_are_many_large_or_without_the_entries_after_them() {
        let disk = MemoryDisk::new();
        let (files, kept) = open(&disk, KeepRule { every_ms: 0, count_max: 4 });
        for hour in 1..=8 {
            save(&files, 1, hour);
            save(&files, 2, hour);
        }
        assert_eq!(indexes(&kept).len(), 12);
        kept.prune(u64::MAX, |_| None).unwrap();
        assert!(indexes(&kept).iter().map(|(_, index)| *index).eq([30, 40, 50, 60, 30, 40, 50, 60]));
        kept.prune(u64::MAX, |shard| (shard == 1).then_some(42)).unwrap();
        assert_eq!(indexes(&kept), [(1, 50), (1, 60), (2, 30), (2, 40), (2, 50), (2, 60)]);
        kept.prune(u64::MAX, |shard| (shard == 2).then_some(41)).unwrap();
        assert_eq!(indexes(&kept), [(1, 50), (1, 60), (2, 40), (2, 50), (2, 60)], "all entries from 41 on are there");
        let bytes = kept.bytes().unwrap();
        kept.prune(bytes - 1, |_| None).unwrap();
        assert_eq!(indexes(&kept), [(1, 60), (2, 50), (2, 60)]);
        kept.prune(0, |_| None).unwrap();
        assert_eq!((indexes(&kept), kept.bytes().unwrap()), (vec![], 0));
    }

    #[test]
    fn a_power_cut_while_one_is_kept_leaves_it_in_one_of_the_places() {
        for stop in 0..14 {
            let disk = MemoryDisk::new();
            let (files, _) = open(&disk, KeepRule { every_ms: 0, count_max: 4 });
            (1..=2).for_each(|hour| save(&files, 1, hour));
            disk.stop_after(stop);
            let meta = files.describe(SnapshotName { shard: 1, index: 20 }).unwrap().unwrap();
            let saved = files.save(NEWEST, 1, 30, &snapshot::encode(&meta, 0, &[0; 100]));
            disk.power_cut(&mut || stop % 2 == 0);
            let (files, _) = open(&disk, KeepRule { every_ms: 0, count_max: 4 });
            let all: Vec<u64> = files.all_of(1).unwrap().iter().map(|one| one.name.index).collect();
            assert!(all.contains(&20), "{all:?} after {stop} changes, {saved:?}");
            assert!(all.windows(2).all(|two| two[0] < two[1]), "{all:?}");
        }
    }
}
