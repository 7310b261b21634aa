//! Snapshot files. Each has one snapshot of one shard, and the newest two of each shard are kept.
//!
//! A file is written under a temporary name, synced, renamed, and its directory synced. So a file with its final name is
//! complete. If the newest one is damaged later, the older one is used, with a warning. So the log keeps the entries that the
//! *older* one needs ([`SnapshotFiles::oldest_index`]).

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_core::{planted, version::ClusterVersion};
use boxoffice_env::{Disk, DiskFile, OpenMode};
use boxoffice_shard::SnapshotMeta;

use crate::snapshot;

mod error;
mod kept;

pub use error::SnapshotError;
pub use kept::{KeepRule, KeptSnapshot, KeptSnapshots};

/// Snapshots kept of each shard.
pub const KEPT: usize = 2;
/// Bytes of a payload in which its description ends.
const DESCRIPTION_BYTES: u64 = 4 << 10;
const MAGIC: &[u8; 8] = b"BOXOSNAP";
const HEADER: usize = 64;
const HEADER_CRC_AT: usize = 60;
/// Payload is written and read in pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// Bytes written between two syncs, so that a large snapshot does not delay the log's syncs.
const SYNC_EVERY: u64 = 8 << 20;

/// The directory of a node's snapshots. Several threads may use clones, one thread for each shard.
#[derive(Clone)]
pub struct SnapshotFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Where some of the older ones go.
    kept: Option<KeptSnapshots>,
}

/// A snapshot that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The log index of its state.
    pub index: u64,
    pub payload: Vec<u8>,
    /// What is wrong with damaged newer snapshots.
    pub warnings: Vec<String>,
    /// Their log indexes, the newest first.
    pub damaged: Vec<u64>,
}

/// A snapshot file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    pub shard: u16,
    /// The log index.
    pub index: u64,
}

impl SnapshotName {
    /// The name of the file.
    pub fn file_name(&self) -> String {
        format!("{}-{}.snap", self.shard, self.index)
    }

    /// The snapshot in a file's name, `None` for other files.
    pub fn parse(name: &str) -> Option<SnapshotName> {
        let (shard, index) = name.strip_suffix(".snap")?.split_once('-')?;
        let parsed = SnapshotName { shard: shard.parse().ok()?, index: index.parse().ok()? };
        // "+1-02.snap" has the same numbers and is no snapshot.
        (parsed.file_name() == name).then_some(parsed)
    }
}

impl SnapshotFiles {
    /// Opens the directory `dir`, creates it if it does not exist, and removes temporary files of an earlier process.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<SnapshotFiles, SnapshotError> {
        disk.create_dir_all(dir).map_err(failed("create", dir))?;
        let names = disk.list(dir).map_err(failed("list", dir))?;
        for unfinished in names.iter().filter(|name| name.ends_with(".tmp")) {
            let path = dir.join(unfinished);
            disk.remove(&path).map_err(failed("remove", &path))?;
        }
        // The process before may have ended between a name and the directory's sync.
        disk.sync_dir(dir).map_err(failed("sync", dir))?;
        Ok(SnapshotFiles { disk, dir: dir.to_owned(), kept: None })
    }

    /// Gives snapshots that are no longer needed here to `kept`, which may keep them.
    #[must_use]
    pub fn keeping(self, kept: KeptSnapshots) -> SnapshotFiles {
        SnapshotFiles { kept: Some(kept), ..self }
    }

    /// The existing snapshots, by shard and index.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn list(&self) -> Result<Vec<SnapshotName>, SnapshotError> {
        let names = self.disk.list(&self.dir).map_err(failed("list", &self.dir))?;
        let mut found: Vec<_> = names.iter().filter_map(|name| SnapshotName::parse(name)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The index of the oldest snapshot of `shard`. Log entries after it are needed in case the newer one is damaged.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn oldest_index(&self, shard: u16) -> Result<Option<u64>, SnapshotError> {
        let all = self.list()?;
        Ok(all.into_iter().find(|name| name.shard == shard).map(|name| name.index))
    }

    /// Saves a snapshot durably, and removes all but the newest two. `version` is that of its payload.
    ///
    /// # Errors
    /// [`SnapshotError::Full`], [`SnapshotError::Io`]. The earlier snapshots stay.
    pub fn save(&self, version: ClusterVersion, shard: u16, index: u64, payload: &[u8]) -> Result<(), SnapshotError> {
        let mut writer = self.begin(version, shard, index)?;
        writer.write(payload)?;
        writer.finish()
    }

    /// Reserves room for a snapshot of `shard` with a payload of at most `bytes`, in place of an earlier reservation.
    ///
    /// # Errors
    /// [`SnapshotError::Full`], [`SnapshotError::Io`]. Then nothing is reserved.
    pub fn reserve(&self, shard: u16, bytes: u64) -> Result<(), SnapshotError> {
        let room = self.room(shard);
        self.remove_if_there(&room)?;
        let file = self.disk.open(&room, OpenMode::Create).map_err(failed("create", &room))?;
        let (zeros, length) = (vec![0; PIECE], HEADER as u64 + bytes);
        let mut at = 0;
        while at < length {
            let piece = &zeros[..PIECE.min((length - at) as usize)];
            if let Err(error) = file.write_all_at(piece, at) {
                // If this fails, the next start removes it.
                let _ = self.disk.remove(&room);
                return Err(refused("write", &room, error));
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// As [`SnapshotFiles::save`], but in the reserved room, so that it works on a full disk.
    ///
    /// # Errors
    /// As [`SnapshotFiles::save`]. `Full` only if too little room was reserved.
    pub fn save_reserved(
        &self,
        version: ClusterVersion,
        shard: u16,
        index: u64,
        payload: &[u8],
    ) -> Result<(), SnapshotError> {
        let (room, needed) = (self.room(shard), (HEADER + payload.len()) as u64);
        let is_enough = |file: &Arc<dyn DiskFile>| file.length().is_ok_and(|length| length >= needed);
        let Some(file) = self.disk.open(&room, OpenMode::Write).ok().filter(is_enough) else {
            return self.save(version, shard, index, payload);
        };
        let name = SnapshotName { shard, index };
        let aside = self.aside(name);
        self.disk.rename(&room, &aside).map_err(failed("rename", &room))?;
        let mut writer = self.writer(version, name, aside, file);
        writer.write(payload)?;
        let aside = &writer.aside;
        writer.file.set_length(needed).map_err(failed("cut", aside))?;
        writer.finish()
    }

    fn room(&self, shard: u16) -> PathBuf {
        self.dir.join(format!("{shard}.room.tmp"))
    }

    fn aside(&self, name: SnapshotName) -> PathBuf {
        self.dir.join(format!("{}.tmp", name.file_name()))
    }

    fn remove_if_there(&self, path: &Path) -> Result<(), SnapshotError> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes one snapshot.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn remove(&self, name: SnapshotName) -> Result<(), SnapshotError> {
        self.remove_if_there(&self.dir.join(name.file_name()))?;
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }

    /// Removes every snapshot of `shard`, kept ones too.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn remove_all(&self, shard: u16) -> Result<(), SnapshotError> {
        if let Some(kept) = &self.kept {
            kept.remove_all(shard)?;
        }
        for name in self.list()?.into_iter().filter(|name| name.shard == shard) {
            let path = self.dir.join(name.file_name());
            self.disk.remove(&path).map_err(failed("remove", &path))?;
        }
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }

    /// Begins a snapshot whose payload, of this version, comes in pieces.
    ///
    /// # Errors
    /// [`SnapshotError::Full`], [`SnapshotError::Io`].
    pub fn begin(&self, version: ClusterVersion, shard: u16, index: u64) -> Result<SnapshotWriter, SnapshotError> {
        let name = SnapshotName { shard, index };
        let aside = self.aside(name);
        self.remove_if_there(&aside)?;
        let file = self.disk.open(&aside, OpenMode::Create).map_err(failed("create", &aside))?;
        Ok(self.writer(version, name, aside, file))
    }

    fn writer(
        &self,
        version: ClusterVersion,
        name: SnapshotName,
        aside: PathBuf,
        file: Arc<dyn DiskFile>,
    ) -> SnapshotWriter {
        let files = self.clone();
        SnapshotWriter { files, version, name, aside, file, length: 0, unsynced: 0, crc: 0, is_finished: false }
    }

    /// The newest valid snapshot of `shard`, `None` without any.
    ///
    /// # Errors
    /// [`SnapshotError::AllBad`], [`SnapshotError::OtherVersion`], [`SnapshotError::Io`].
    pub fn load_newest(&self, shard: u16) -> Result<Option<Loaded>, SnapshotError> {
        let (mut reasons, mut damaged) = (Vec::new(), Vec::new());
        let all = self.list()?;
        for name in all.into_iter().rev().filter(|name| name.shard == shard) {
            match self.load(name)? {
                Ok(payload) => {
                    let index = name.index;
                    return Ok(Some(Loaded { index, payload, warnings: reasons, damaged }));
                }
                Err(reason) => {
                    reasons.push(reason);
                    damaged.push(name.index);
                }
            }
        }
        match reasons.is_empty() {
            true => Ok(None),
            false => Err(SnapshotError::AllBad { shard, reasons }),
        }
    }

    /// The payload of one snapshot, or the damage of the file.
    ///
    /// # Errors
    /// [`SnapshotError::OtherVersion`], [`SnapshotError::Io`].
    pub fn load(&self, name: SnapshotName) -> Result<Result<Vec<u8>, String>, SnapshotError> {
        let path = self.dir.join(name.file_name());
        let bad = |what: &str| Ok(Err(format!("{} {what}", path.display())));
        let Opened { file, length, crc: expected } = match self.opened(name)? {
            Ok(opened) => opened,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut payload = vec![0; length as usize];
        let mut crc = 0;
        for (number, piece) in payload.chunks_mut(PIECE).enumerate() {
            let at = (HEADER + number * PIECE) as u64;
            file.read_exact_at(piece, at).map_err(failed("read", &path))?;
            crc = crc32c::crc32c_append(crc, piece);
        }
        match crc == expected {
            true => Ok(Ok(payload)),
            false => bad("has a bad checksum"),
        }
    }

    /// The description of one snapshot, from the beginning of its file, or the damage of the file. The rest of it is not read.
    ///
    /// # Errors
    /// [`SnapshotError::OtherVersion`], [`SnapshotError::Io`].
    pub fn describe(&self, name: SnapshotName) -> Result<Result<SnapshotMeta, String>, SnapshotError> {
        let path = self.dir.join(name.file_name());
        let Opened { file, length, .. } = match self.opened(name)? {
            Ok(opened) => opened,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut begin = vec![0; length.min(DESCRIPTION_BYTES) as usize];
        file.read_exact_at(&mut begin, HEADER as u64).map_err(failed("read", &path))?;
        Ok(snapshot::describe(&begin).map_err(|why| format!("{}: {why}", path.display())))
    }

    /// Opens the file of a snapshot and checks its header, or returns its damage.
    fn opened(&self, name: SnapshotName) -> Result<Result<Opened, String>, SnapshotError> {
        let path = self.dir.join(name.file_name());
        let bad = |what: &str| Ok(Err(format!("{} {what}", path.display())));
        let file = self.disk.open(&path, OpenMode::Read).map_err(failed("open", &path))?;
        let length = file.length().map_err(failed("measure", &path))?;
        let mut header = [0; HEADER];
        if length < HEADER as u64 {
            return bad("is cut short");
        }
        file.read_exact_at(&mut header, 0).map_err(failed("read", &path))?;
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        if &header[..8] != MAGIC {
            return bad("does not begin like a snapshot");
        }
        if u32_at(HEADER_CRC_AT) != crc32c::crc32c(&header[..HEADER_CRC_AT]) {
            return bad("has a bad checksum in its header");
        }
        // It is not damaged, so the older one does not take its place.
        ClusterVersion::read(u32_at(8))
            .map_err(|version| SnapshotError::OtherVersion { file: path.clone(), version })?;
        if (u64_at(16), u64_at(24)) != (u64::from(name.shard), name.index) {
            return bad("is another snapshot under this name");
        }
        if u64_at(32) != length - HEADER as u64 {
            return bad("does not have the length it was saved with");
        }
        Ok(Ok(Opened { file, length: length - HEADER as u64, crc: u32_at(12) }))
    }

    /// Removes all snapshots of `shard` but the newest two, oldest first, or hands them on.
    fn remove_older(&self, shard: u16) -> Result<(), SnapshotError> {
        let mut all = self.list()?;
        all.retain(|name| name.shard == shard);
        let old = all.len().saturating_sub(KEPT);
        for name in &all[..old] {
            let takes = |kept: &KeptSnapshots| kept.take(self, *name);
            if !self.kept.as_ref().map_or(Ok(false), takes)? {
                let path = self.dir.join(name.file_name());
                self.disk.remove(&path).map_err(failed("remove", &path))?;
            }
        }
        match old {
            0 => Ok(()),
            _ => self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir)),
        }
    }
}

/// A file whose header is good, and what that says of the payload.
struct Opened {
    file: Arc<dyn DiskFile>,
    length: u64,
    crc: u32,
}

/// A snapshot being written. Dropped before [`SnapshotWriter::finish`], it leaves nothing.
pub struct SnapshotWriter {
    files: SnapshotFiles,
    version: ClusterVersion,
    name: SnapshotName,
    aside: PathBuf,
    file: Arc<dyn DiskFile>,
    length: u64,
    unsynced: u64,
    crc: u32,
    is_finished: bool,
}

impl SnapshotWriter {
    /// Adds to the payload.
    ///
    /// # Errors
    /// [`SnapshotError::Full`], [`SnapshotError::Io`]. Then drop the writer.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        for piece in bytes.chunks(PIECE) {
            self.put(piece, HEADER as u64 + self.length)?;
            self.crc = crc32c::crc32c_append(self.crc, piece);
            self.length += piece.len() as u64;
            self.unsynced += piece.len() as u64;
            if self.unsynced >= SYNC_EVERY {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Makes the snapshot durable under its name and removes those older than the newest two.
    ///
    /// # Errors
    /// [`SnapshotError::Full`], [`SnapshotError::Io`].
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        let header = self.header();
        self.put(&header, 0)?;
        self.sync()?;
        let SnapshotFiles { disk, dir, .. } = &self.files;
        let path = dir.join(self.name.file_name());
        disk.rename(&self.aside, &path).map_err(failed("rename", &self.aside))?;
        self.is_finished = true;
        disk.sync_dir(dir).map_err(failed("sync", dir))?;
        self.files.remove_older(self.name.shard)
    }

    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&u32::from(self.version.number()).to_le_bytes());
        header[12..16].copy_from_slice(&self.crc.to_le_bytes());
        header[16..24].copy_from_slice(&u64::from(self.name.shard).to_le_bytes());
        header[24..32].copy_from_slice(&self.name.index.to_le_bytes());
        header[32..40].copy_from_slice(&self.length.to_le_bytes());
        let crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn put(&self, bytes: &[u8], at: u64) -> Result<(), SnapshotError> {
        self.file.write_all_at(bytes, at).map_err(|error| self.refused("write", error))
    }

    fn sync(&mut self) -> Result<(), SnapshotError> {
        self.unsynced = 0;
        if planted::is("a snapshot that is not synced") {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| self.refused("sync", error))
    }

    fn refused(&self, doing: &'static str, source: io::Error) -> SnapshotError {
        refused(doing, &self.aside, source)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // If this fails, the next start removes it.
            let _ = self.files.disk.remove(&self.aside);
        }
    }
}

fn failed<'a>(doing: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> SnapshotError + use<'a> {
    move |source| SnapshotError::Io { doing, file: file.to_owned(), source }
}

fn refused(doing: &'static str, file: &Path, source: io::Error) -> SnapshotError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SnapshotError::Full { file: file.to_owned(), source },
        _ => failed(doing, file)(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use boxoffice_core::version::NEWEST;
    use boxoffice_env::MemoryDisk;

    const DIR: &str = "/data/snapshots";

    fn open(disk: &MemoryDisk) -> SnapshotFiles {
        SnapshotFiles::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap()
    }

    fn payload(size: usize, seed: u8) -> Vec<u8> {
        (0..size).map(|at| (at / 3) as u8 ^ seed).collect()
    }

    fn flip(disk: &MemoryDisk, name: &str, at: u64) {
        let file = disk.open(&Path::new(DIR).join(name), OpenMode::Write).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }

    #[test]
    fn the_newest_two_of_each_shard_are_kept() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        assert_eq!(files.load_newest(1).unwrap(), None);
        for index in [9, 10, 100] {
            files.save(NEWEST, 1, index, &payload(1_000, index as u8)).unwrap();
        }
        files.save(NEWEST, 2, 5, &[]).unwrap();
        let names: Vec<_> = files.list().unwrap().iter().map(SnapshotName::file_name).collect();
        assert_eq!(names, ["1-10.snap", "1-100.snap", "2-5.snap"]);
        disk.power_cut(&mut || false);
        let files = open(&disk);
        assert_eq!(files.oldest_index(1).unwrap(), Some(10));
        assert_eq!(files.oldest_index(3).unwrap(), None);
        let newest = files.load_newest(1).unwrap().unwrap();
        assert_eq!((newest.index, newest.payload), (100, payload(1_000, 100)));
        assert_eq!(files.load_newest(2).unwrap().unwrap().payload, b"");
    }

    #[test]
    fn a_reserved_snapshot_is_saved_on_a_full_disk() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        files.save(NEWEST, 1, 1, &payload(100, 1)).unwrap();
        files.reserve(1, 700).unwrap();
        files.reserve(1, 600).unwrap();
        disk.set_capacity(Some(1 << 20));
        let used = (1 << 20) - disk.free_bytes(Path::new(DIR)).unwrap();
        disk.set_capacity(Some(used));
        assert!(matches!(files.save(NEWEST, 1, 2, &payload(500, 2)), Err(SnapshotError::Full { .. })));
        files.save_reserved(NEWEST, 1, 2, &payload(500, 2)).unwrap();
        disk.power_cut(&mut || false);
        let files = open(&disk);
        let newest = files.load_newest(1).unwrap().unwrap();
        assert_eq!((newest.index, newest.payload, newest.warnings), (2, payload(500, 2), vec![]));
        assert!(matches!(files.reserve(1, 10_000), Err(SnapshotError::Full { .. })));
        assert!(matches!(files.save_reserved(NEWEST, 1, 3, &payload(10_000, 3)), Err(SnapshotError::Full { .. })));
        disk.set_capacity(None);
        files.reserve(1, 10).unwrap();
        files.save_reserved(NEWEST, 1, 3, &payload(500, 3)).unwrap();
        assert_eq!(
            files.load_newest(1).unwrap().unwrap().payload,
            payload(500, 3),
            "also without enough reserved space"
        );
    }

    #[test]
    fn large_payloads_come_in_pieces() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        let whole = payload(10 * PIECE + 17, 3);
        let mut writer = files.begin(NEWEST, 4, 77).unwrap();
        for piece in whole.chunks(300_001) {
            writer.write(piece).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(files.load_newest(4).unwrap().unwrap().payload, whole);
    }

    /// It is whole, so the older one must not take its place.
    #[test]
    fn a_snapshot_of_a_later_version_is_refused_and_not_passed_over() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        files.save(NEWEST, 1, 1, &payload(100, 1)).unwrap();
        let newer = ClusterVersion::numbered(NEWEST.number() + 1);
        files.save(newer, 1, 2, &payload(100, 2)).unwrap();
        assert_eq!(
            files.load_newest(1).unwrap_err().to_string(),
            format!(
                "the snapshot /data/snapshots/1-2.snap was written under version {newer}, this program reads up to {NEWEST}; start a \
                 release that reads it"
            )
        );
        files.save(NEWEST, 1, 3, &payload(100, 3)).unwrap();
        assert_eq!(files.load_newest(1).unwrap().unwrap().index, 3);
    }

    #[test]
    fn a_bad_newest_gives_way_to_the_older_and_both_bad_is_an_error() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        files.save(NEWEST, 1, 1, &payload(100, 1)).unwrap();
        files.save(NEWEST, 1, 2, &payload(100, 2)).unwrap();
        // Every byte except the header's spare ones, which its checksum covers as well.
        for at in 0..HEADER as u64 + 100 {
            flip(&disk, "1-2.snap", at);
            let older = files.load_newest(1).unwrap().unwrap();
            assert_eq!((older.index, older.payload), (1, payload(100, 1)), "byte {at}");
            assert_eq!(older.warnings.len(), 1);
            assert!(older.warnings[0].starts_with("/data/snapshots/1-2.snap "));
            flip(&disk, "1-2.snap", at);
        }
        assert_eq!(files.load_newest(1).unwrap().unwrap().index, 2);
        let newest = disk.open(&Path::new(DIR).join("1-2.snap"), OpenMode::Write).unwrap();
        for length in [HEADER as u64 + 99, 10, 0] {
            newest.set_length(length).unwrap();
            assert_eq!(files.load_newest(1).unwrap().unwrap().index, 1, "{length} bytes");
        }
        flip(&disk, "1-1.snap", 70);
        let error = files.load_newest(1).unwrap_err();
        assert!(matches!(&error, SnapshotError::AllBad { shard: 1, reasons } if reasons.len() == 2));
        // A snapshot under another one's name is rejected.
        files.save(NEWEST, 3, 2, &payload(100, 2)).unwrap();
        disk.rename(&Path::new(DIR).join("3-2.snap"), &Path::new(DIR).join("1-3.snap")).unwrap();
        assert!(matches!(files.load_newest(1), Err(SnapshotError::AllBad { .. })));
    }

    #[test]
    fn a_power_cut_at_any_change_leaves_the_old_or_the_new() {
        for stop in 0..10 {
            for seed in 0..8_u32 {
                let disk = MemoryDisk::new();
                let files = open(&disk);
                files.save(NEWEST, 1, 1, &payload(700, 1)).unwrap();
                disk.stop_after(stop);
                let saved = files.save(NEWEST, 1, 2, &payload(1_400, 2));
                let mut turn = 0;
                disk.power_cut(&mut || {
                    turn += 1;
                    seed >> (turn % 3) & 1 == 1
                });
                let found = open(&disk).load_newest(1).unwrap().unwrap();
                assert_eq!(found.warnings, [""; 0]);
                assert_eq!(found.payload, payload(700 * found.index as usize, found.index as u8));
                assert!(saved.is_err() || found.index == 2);
            }
        }
    }

    #[test]
    fn a_full_disk_is_named_and_leaves_nothing_behind() {
        let disk = MemoryDisk::new();
        let files = open(&disk);
        disk.set_capacity(Some(1_000));
        files.save(NEWEST, 1, 1, &payload(500, 1)).unwrap();
        assert!(matches!(files.save(NEWEST, 1, 2, &payload(500, 2)), Err(SnapshotError::Full { .. })));
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["1-1.snap"]);
        disk.set_capacity(None);
        drop(files.begin(NEWEST, 1, 3).unwrap());
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["1-1.snap"]);
        disk.fail_syncs(true);
        assert!(matches!(files.save(NEWEST, 1, 2, &[]), Err(SnapshotError::Io { doing: "sync", .. })));
        disk.fail_syncs(false);
        disk.open(&Path::new(DIR).join("1-9.snap.tmp"), OpenMode::Create).unwrap();
        assert_eq!(open(&disk).list().unwrap(), [SnapshotName { shard: 1, index: 1 }]);
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["1-1.snap"]);
    }

    #[test]
    fn only_its_own_names_are_snapshots() {
        assert_eq!(SnapshotName::parse("3-14.snap"), Some(SnapshotName { shard: 3, index: 14 }));
        for other in ["3-014.snap", "+3-14.snap", "3-14.snap.tmp", "3.snap", "70000-1.snap", "-.snap"] {
            assert_eq!(SnapshotName::parse(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_other_bytes_are_accepted_as_a_snapshot(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            begins_well in proptest::bool::ANY,
        ) {
            if begins_well {
                bytes.splice(0..bytes.len().min(8), *MAGIC);
            }
            let disk = MemoryDisk::new();
            let files = open(&disk);
            let file = disk.open(&Path::new(DIR).join("1-1.snap"), OpenMode::Create).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            let all_bad = matches!(files.load_newest(1), Err(SnapshotError::AllBad { .. }));
            proptest::prop_assert!(all_bad);
        }
    }
}
