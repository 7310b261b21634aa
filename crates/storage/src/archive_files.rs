//! Compressed old segments of the log. Only requests for the history of an entity need them.
//!
//! ```text
//! header, 64 bytes: magic, the version under which it was written, checksums, number, sizes
//! pieces: length, packed length, checksum of the packed bytes (4 bytes each), then the packed bytes (LZ4 block)
//! table: for each shard (2 bytes) the first index of its entries (8); then the entities' key hashes (8), ascending
//! ```
//!
//! All numbers are little-endian. A piece holds complete records of the log (entries and resets) as they were written.
//! A file is written under a temporary name, synced, renamed, and its directory synced.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_core::{
    id::{Entity, hash64},
    version::{ClusterVersion, WriteVersion},
};
use boxoffice_env::{Disk, DiskFile, OpenMode};
use boxoffice_shard::{EntryKind, Record, ShardId, Turns};
use bytes::Bytes;

use crate::codec;
use crate::log::{self, LogError};

mod error;

pub use error::ArchiveError;
use error::failed;

const MAGIC: &[u8; 8] = b"BOXOARCH";
const HEADER: usize = 64;
const HEADER_CRC_AT: usize = 60;
const PIECE_HEAD: usize = 12;
/// Bytes of records that are compressed together.
const PIECE: usize = 256 << 10;
const SHARD_BYTES: usize = 10;
/// More than any piece, which may contain one large record.
const PIECE_MAX: usize = 1 << 30;
/// The most bytes that one byte of an LZ4 block can stand for.
const LZ4_RATIO_MAX: usize = 255;

/// The directory of a node's archives.
pub struct ArchiveFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The version under which archives are written.
    version: WriteVersion,
}

/// The table of an archive, read before its records.
pub struct RecordIndex {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// Where the table begins and the pieces end.
    end: u64,
    /// The first index of each shard's entries, 0 if a snapshot replaced older entries.
    pub firsts: BTreeMap<ShardId, u64>,
    hashes: Vec<u64>,
}

impl ArchiveFiles {
    /// Opens the directory `dir`, creates it if it does not exist, and removes temporary files. Archives are written under `version`.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, version: &WriteVersion) -> Result<ArchiveFiles, ArchiveError> {
        disk.create_dir_all(dir).map_err(failed("create", dir))?;
        for name in disk.list(dir).map_err(failed("list", dir))? {
            if name.ends_with(".tmp") {
                let path = dir.join(name);
                disk.remove(&path).map_err(failed("remove", &path))?;
            }
        }
        // The process before may have ended between a name and the directory's sync.
        disk.sync_dir(dir).map_err(failed("sync", dir))?;
        Ok(ArchiveFiles { disk, dir: dir.to_owned(), version: version.clone() })
    }

    /// The archived segments, oldest first.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn list(&self) -> Result<Vec<u64>, ArchiveError> {
        let names = self.disk.list(&self.dir).map_err(failed("list", &self.dir))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_in(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The first entry of a shard that is archived, if it is known.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn first_of(&self, shard: ShardId) -> Result<Option<u64>, ArchiveError> {
        for number in self.list()? {
            if let Some(&first) = self.table(number)?.as_ref().and_then(|table| table.firsts.get(&shard)) {
                return Ok((first > 0).then_some(first));
            }
        }
        Ok(None)
    }

    /// Bytes of all archives.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn bytes(&self) -> Result<u64, ArchiveError> {
        self.list()?.into_iter().map(|number| self.length(number)).sum()
    }

    /// Archives segment `number` of the log in `log_dir` unless it is archived, then removes the oldest archives beyond
    /// `bytes_max` in total.
    ///
    /// # Errors
    /// [`ArchiveError`]. No temporary file is left.
    pub fn archive(&self, log_dir: &Path, number: u64, bytes_max: u64) -> Result<(), ArchiveError> {
        if !self.list()?.contains(&number) {
            loop {
                match self.save(log_dir, number) {
                    // The oldest archive makes room for a newer one.
                    Err(ArchiveError::Full { .. }) if self.remove_oldest()? => {}
                    other => break other?,
                }
            }
        }
        while self.bytes()? > bytes_max && self.remove_oldest()? {}
        Ok(())
    }

    fn save(&self, log_dir: &Path, number: u64) -> Result<(), ArchiveError> {
        let aside = self.dir.join(format!("{}.tmp", name(number)));
        match self.disk.remove(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &aside)(error)),
            _ => {}
        }
        let file = self.disk.open(&aside, OpenMode::Create).map_err(failed("create", &aside))?;
        let saved = self.fill(&aside, &*file, log_dir, number);
        if saved.is_err() {
            // If this fails, the next start removes it.
            let _ = self.disk.remove(&aside);
        }
        saved
    }

    fn fill(&self, aside: &Path, file: &dyn DiskFile, log_dir: &Path, number: u64) -> Result<(), ArchiveError> {
        let mut packer =
            Packer { file, at: HEADER as u64, records: Vec::new(), firsts: BTreeMap::new(), hashes: Vec::new() };
        let mut packed: Result<(), PackError> = Ok(());
        log::read_segment(&*self.disk, log_dir, number, &mut |record| {
            if packed.is_ok() {
                packed = packer.pack(record.payload);
            }
        })?;
        let packed = packed.and_then(|()| Ok(packer.close(self.version.get(), number)?));
        packed.map_err(|error| match error {
            PackError::Bad(why) => {
                ArchiveError::Damaged { file: log_dir.to_owned(), why: format!("segment {number}: {why}") }
            }
            PackError::Disk(error) => failed("write", aside)(error),
        })?;
        let path = self.dir.join(name(number));
        self.disk.rename(aside, &path).map_err(failed("rename", aside))?;
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }

    /// Reads an archive to its end.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`] and the other errors of reading one.
    pub fn check(&self, number: u64) -> Result<(), ArchiveError> {
        match self.table(number)? {
            Some(index) => index.records(|_| {}),
            None => Ok(()),
        }
    }

    /// Removes an archive.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn remove(&self, number: u64) -> Result<(), ArchiveError> {
        let path = self.path(number);
        self.disk.remove(&path).map_err(failed("remove", &path))?;
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }

    /// The file of an archive.
    pub fn path(&self, number: u64) -> PathBuf {
        self.dir.join(name(number))
    }

    fn remove_oldest(&self) -> Result<bool, ArchiveError> {
        let Some(&oldest) = self.list()?.first() else { return Ok(false) };
        let path = self.dir.join(name(oldest));
        self.disk.remove(&path).map_err(failed("remove", &path))?;
        self.disk.sync_dir(&self.dir).map_err(failed("sync", &self.dir))?;
        Ok(true)
    }

    fn length(&self, number: u64) -> Result<u64, ArchiveError> {
        let path = self.dir.join(name(number));
        let file = self.disk.open(&path, OpenMode::Read).map_err(failed("open", &path))?;
        file.length().map_err(failed("measure", &path))
    }

    /// Reads the table of archive `number`, `None` if it does not exist.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::OtherVersion`], [`ArchiveError::Io`].
    pub fn table(&self, number: u64) -> Result<Option<RecordIndex>, ArchiveError> {
        let path = self.dir.join(name(number));
        let file = match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("open", &path))?,
        };
        let bad = |why: &str| ArchiveError::Damaged { file: path.clone(), why: why.to_owned() };
        let length = file.length().map_err(failed("measure", &path))?;
        if length < HEADER as u64 {
            return Err(bad("it is cut short"));
        }
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).map_err(failed("read", &path))?;
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        if &header[..8] != MAGIC || u32_at(HEADER_CRC_AT) != crc32c::crc32c(&header[..HEADER_CRC_AT]) {
            return Err(bad("it does not begin like an archive"));
        }
        ClusterVersion::read(u32_at(8))
            .map_err(|version| ArchiveError::OtherVersion { file: path.clone(), version })?;
        let (end, shards, hashes) = (u64_at(24), u32_at(32) as usize, u32_at(36) as usize);
        let table = shards * SHARD_BYTES + hashes * 8;
        if u64_at(16) != number || end < HEADER as u64 || end.checked_add(table as u64) != Some(length) {
            return Err(bad("it does not have the number and length it was saved with"));
        }
        let mut bytes = vec![0; table];
        file.read_exact_at(&mut bytes, end).map_err(failed("read", &path))?;
        if crc32c::crc32c(&bytes) != u32_at(12) {
            return Err(bad("its table has a bad checksum"));
        }
        let (of_shards, of_hashes) = bytes.split_at(shards * SHARD_BYTES);
        let firsts = of_shards.chunks_exact(SHARD_BYTES).map(|row| {
            let (shard, first) = row.split_at(2);
            (u16::from_le_bytes(shard.try_into().expect("two")), u64::from_le_bytes(first.try_into().expect("eight")))
        });
        let hashes = of_hashes.chunks_exact(8).map(|hash| u64::from_le_bytes(hash.try_into().expect("eight")));
        Ok(Some(RecordIndex { file, end, firsts: firsts.collect(), hashes: hashes.collect(), path: path.clone() }))
    }
}

impl RecordIndex {
    /// Whether the archive may have events of an entity.
    pub fn may_have(&self, entity: &Entity) -> bool {
        self.hashes.binary_search(&entity.with_key(hash64)).is_ok()
    }

    /// Calls `visit` with every record, in order.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Io`].
    pub fn records(&self, mut visit: impl FnMut(Record)) -> Result<(), ArchiveError> {
        let bad = |why: String| ArchiveError::Damaged { file: self.path.clone(), why };
        let mut at = HEADER as u64;
        while at < self.end {
            let mut head = [0; PIECE_HEAD];
            self.file.read_exact_at(&mut head, at).map_err(failed("read", &self.path))?;
            let number = |place: usize| u32::from_le_bytes(head[place..place + 4].try_into().expect("four"));
            let (plain, packed) = (number(0) as usize, number(4) as usize);
            let next = at + (PIECE_HEAD + packed) as u64;
            if next > self.end || plain > PIECE_MAX || plain > packed.saturating_mul(LZ4_RATIO_MAX) {
                return Err(bad(format!("a piece at byte {at} does not fit")));
            }
            let mut bytes = vec![0; packed];
            self.file.read_exact_at(&mut bytes, at + PIECE_HEAD as u64).map_err(failed("read", &self.path))?;
            if crc32c::crc32c(&bytes) != number(8) {
                return Err(bad(format!("the piece at byte {at} has a bad checksum")));
            }
            let plain = lz4_flex::block::decompress(&bytes, plain).map_err(|error| bad(error.to_string()))?;
            let records = Record::decode_all(Bytes::from(plain)).map_err(|error| bad(error.to_string()))?;
            records.into_iter().for_each(&mut visit);
            at = next;
        }
        Ok(())
    }
}

/// A segment cannot be packed.
enum PackError {
    Bad(String),
    Disk(io::Error),
}

impl From<io::Error> for PackError {
    fn from(error: io::Error) -> PackError {
        PackError::Disk(error)
    }
}

/// An archive being written.
struct Packer<'a> {
    file: &'a dyn DiskFile,
    at: u64,
    records: Vec<u8>,
    firsts: BTreeMap<ShardId, u64>,
    /// Hashes of the entities of all turns. When the table is written, they are ordered and each is there once.
    hashes: Vec<u64>,
}

impl Packer<'_> {
    fn pack(&mut self, payload: &[u8]) -> Result<(), PackError> {
        let bad = |error: &dyn std::fmt::Display| PackError::Bad(error.to_string());
        for record in Record::decode_all(Bytes::copy_from_slice(payload)).map_err(|error| bad(&error))? {
            match &record {
                Record::Entry { shard, position, kind, payload } => {
                    let first = self.firsts.entry(*shard).or_insert(position.index);
                    *first = position.index.min(*first);
                    if *kind == EntryKind::Turns && !payload.is_empty() {
                        let (_, turns) = Turns::read(payload.clone()).map_err(|error| bad(&error))?;
                        for turn in turns.iter() {
                            let entity = codec::entity(turn).map_err(|error| bad(&error))?;
                            self.hashes.push(entity.with_key(hash64));
                        }
                    }
                }
                Record::Reset { shard, .. } => _ = self.firsts.insert(*shard, 0),
                Record::State { .. } | Record::Snapshot { .. } | Record::Replica { .. } | Record::Gone { .. } => {
                    continue;
                }
            }
            record.encode(&mut self.records);
            if self.records.len() >= PIECE {
                self.piece()?;
            }
        }
        Ok(())
    }

    fn piece(&mut self) -> io::Result<()> {
        let packed = lz4_flex::block::compress(&self.records);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a piece is far below 4 GiB").to_le_bytes();
        let head = [length(&self.records), length(&packed), crc32c::crc32c(&packed).to_le_bytes()].concat();
        self.put(&[head, packed].concat())?;
        self.records.clear();
        Ok(())
    }

    fn close(mut self, version: ClusterVersion, number: u64) -> io::Result<()> {
        if !self.records.is_empty() {
            self.piece()?;
        }
        self.hashes.sort_unstable();
        self.hashes.dedup();
        let mut table = Vec::with_capacity(self.firsts.len() * SHARD_BYTES + self.hashes.len() * 8);
        for (shard, first) in &self.firsts {
            table.extend_from_slice(&shard.to_le_bytes());
            table.extend_from_slice(&first.to_le_bytes());
        }
        self.hashes.iter().for_each(|hash| table.extend_from_slice(&hash.to_le_bytes()));
        let mut header = [0; HEADER];
        let count = |count: usize| u32::try_from(count).expect("a segment has far fewer entities").to_le_bytes();
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&u32::from(version.number()).to_le_bytes());
        header[12..16].copy_from_slice(&crc32c::crc32c(&table).to_le_bytes());
        header[16..24].copy_from_slice(&number.to_le_bytes());
        header[24..32].copy_from_slice(&self.at.to_le_bytes());
        header[32..36].copy_from_slice(&count(self.firsts.len()));
        header[36..40].copy_from_slice(&count(self.hashes.len()));
        let crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
        header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        self.put(&table)?;
        self.file.write_all_at(&header, 0)?;
        self.file.sync_data()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// The name of the archive of segment `number`.
fn name(number: u64) -> String {
    format!("{number:016}.boxlog")
}

fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".boxlog")?;
    (digits.len() == 16).then(|| digits.parse().ok()).flatten()
}

impl From<LogError> for ArchiveError {
    fn from(error: LogError) -> ArchiveError {
        ArchiveError::Log(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::NEWEST;
    use boxoffice_env::{MemoryDisk, OsRng};
    use boxoffice_shard::Position;

    use super::*;
    use crate::log::{Kind, Log, LogConfig, Preallocation, SEGMENT_BYTES_MIN, Start};

    /// Archives the first segment of a log under this version.
    fn archived(version: ClusterVersion) -> ArchiveFiles {
        let disk = Arc::new(MemoryDisk::new());
        let dir = Path::new("/data/log");
        let config = LogConfig { preallocation: Preallocation::Inline, ..LogConfig::new(1, SEGMENT_BYTES_MIN) };
        let (mut log, _) = Log::open(disk.clone(), Arc::new(OsRng), dir, config, Start::New, &mut |_| {}).unwrap();
        let position = Position { index: 4, term: 1 };
        let mut record = Vec::new();
        Record::Entry { shard: 3, position, kind: EntryKind::Turns, payload: Bytes::new() }.encode(&mut record);
        log.append(Kind::Ordinary, &[&record], &[]).unwrap();
        log.sync().unwrap();
        drop(log);
        let archives = ArchiveFiles::open(disk, Path::new("/data/archive"), &WriteVersion::new(version)).unwrap();
        archives.archive(dir, 1, u64::MAX).unwrap();
        archives
    }

    #[test]
    fn an_archive_of_a_later_version_is_refused() {
        let read = archived(NEWEST).table(1).unwrap().expect("it was archived");
        assert_eq!(read.firsts, BTreeMap::from([(3, 4)]));
        let newer = ClusterVersion::numbered(NEWEST.number() + 1);
        let refused = archived(newer).table(1).map(|_| ()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "the archive /data/archive/0000000000000001.boxlog was written under version {newer}, this program reads up to {NEWEST}; \
                 start a release that reads it, or remove it: only history is lost with it"
            )
        );
    }
}
