//! The directory of a backup.
//!
//! ```text
//! backup.json            what it has: parts, files with checksums, cuts; written last, under a temporary name
//! 1/snapshot-7           the snapshot of shard 7, as its node had it. Absent if its entries begin with the first one
//! 1/records-7            the records of its ended entities, each with its length before it (4 bytes, little-endian)
//! 1/entries              the entries of all shards behind the snapshots, each as a record of the log with its length before it
//! 2/entries              what came later
//! ```
//!
//! A part with snapshots begins anew, and one without goes on after the part before. All files are readable by their owner alone.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use boxoffice_node::backup::{BackupSink, BackupSource, MarkCut, Record, RestoreError, ShardId};
use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, progress::Progress};

const MANIFEST: &str = "backup.json";
/// The file of a part with the entries of all shards.
const ENTRIES: &str = "entries";
/// The version of the directory's format.
const FORMAT: u32 = 1;

/// What a backup has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// Why it cannot be restored, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The cluster that it is of, 32 hexadecimal digits.
    pub cluster: String,
    /// The number of shards besides the directory.
    pub shards: u16,
    /// The version of the program that took the last part.
    pub program: String,
    pub parts: Vec<Part>,
}

/// What was taken at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its directory.
    pub number: u32,
    /// It has the state of each shard, and does not need the parts before.
    pub is_full: bool,
    /// The last mark.
    pub mark: u64,
    /// By shard, the last entry in it.
    pub ends: BTreeMap<ShardId, u64>,
    /// What it can be restored to, ascending.
    pub cuts: Vec<Cut>,
    pub files: Vec<FileSum>,
}

/// A cut through all shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    pub mark: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// By shard, the first entry behind it.
    pub ends: BTreeMap<ShardId, u64>,
}

/// A file of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSum {
    pub name: String,
    pub bytes: u64,
    /// BLAKE3, 64 hexadecimal digits.
    pub blake3: String,
}

impl FileSum {
    /// Compares the file with its checksum. Returns what is wrong, in words.
    fn check(&self, dir: &Path, progress: &Progress) -> Result<(), String> {
        let FileSum { name, bytes: length, blake3 } = self;
        let path = dir.join(name);
        let (found, hash) =
            sum(&path, progress).map_err(|error| format!("cannot read {} of the backup: {error}", path.display()))?;
        match (found, &hash) == (*length, blake3) {
            true => Ok(()),
            false => Err(format!(
                "{} is not as it was written: it has {found} bytes and BLAKE3 {hash}, and had {length} and {blake3}",
                path.display()
            )),
        }
    }
}

impl Manifest {
    /// A backup that has nothing yet.
    pub fn new(cluster: String, shards: u16) -> Manifest {
        let incomplete = Some("it has not been taken to its end".to_owned());
        Manifest {
            format: FORMAT,
            incomplete,
            cluster,
            shards,
            program: crate::version::VERSION.into(),
            parts: Vec::new(),
        }
    }

    /// Reads that of a directory. `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Manifest>, Failure> {
        let path = dir.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?,
        };
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| Failure::Refused(format!("{} is no list of a backup: {error}", path.display())))?;
        if manifest.format != FORMAT {
            let found = manifest.format;
            return Err(Failure::Refused(format!(
                "{} has format {found}, and this program reads {FORMAT}",
                path.display()
            )));
        }
        Ok(Some(manifest))
    }

    /// Reads that of a backup that can be restored.
    ///
    /// # Errors
    /// There is none, or it is incomplete.
    pub fn complete(dir: &Path) -> Result<Manifest, Failure> {
        let manifest = Manifest::read(dir)?
            .ok_or_else(|| Failure::Usage(format!("{} is no backup: it has no {MANIFEST}", dir.display())))?;
        match &manifest.incomplete {
            Some(why) => Err(Failure::Refused(format!(
                "the backup in {} is incomplete: {why}; take it again with `boxoffice backup {0}`",
                dir.display()
            ))),
            None => Ok(manifest),
        }
    }

    /// Writes it durably in place of the one before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("it has only strings and numbers");
        let (aside, path) = (dir.join(format!("{MANIFEST}.tmp")), dir.join(MANIFEST));
        let written = || {
            let mut file = create(&aside)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            File::open(dir)?.sync_all()
        };
        written().map_err(|error| Failure::Refused(format!("cannot write {}: {error}", path.display())))
    }

    /// What is wrong with the files of all parts, in words.
    pub fn changed_files(&self, dir: &Path) -> Vec<String> {
        let progress = comparing(&self.parts);
        let files = self.parts.iter().flat_map(|part| &part.files);
        files.filter_map(|file| file.check(dir, &progress).err()).collect()
    }

    /// The parts that belong to a cut: from the last full part before it on.
    fn parts_of(&self, mark: u64) -> &[Part] {
        let last = self.parts.iter().position(|part| part.cuts.iter().any(|cut| cut.mark == mark)).unwrap_or(0);
        let full = self.parts[..=last].iter().rposition(|part| part.is_full).unwrap_or(0);
        &self.parts[full..=last]
    }

    /// The last cut that is not after an instant, in milliseconds since 1970, or the last of all.
    ///
    /// # Errors
    /// Every cut is later. The first of them.
    pub fn cut_at(&self, at_ms: Option<u64>) -> Result<&Cut, Option<&Cut>> {
        let mut cuts = self.parts.iter().flat_map(|part| &part.cuts);
        let first = cuts.clone().next();
        cuts.rfind(|cut| at_ms.is_none_or(|at_ms| cut.at_ms <= at_ms)).ok_or(first)
    }
}

/// Makes a directory that only its owner can read, if there is none.
///
/// # Errors
/// It cannot be made.
pub fn make_dir(dir: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| Failure::Usage(format!("cannot make {}: {error}", dir.display())))
}

/// The file of a part with the records of a shard.
fn records_of(shard: ShardId) -> String {
    format!("records-{shard}")
}

fn put(file: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::Error::other("a record of 4 GiB"))?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(bytes)
}

/// Calls `see` with each of the records in a file, which is whole as its checksum has shown.
fn each(
    path: &Path,
    progress: &Progress,
    see: &mut dyn FnMut(Bytes) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    let failed = |error: io::Error| RestoreError::Source(format!("cannot read {}: {error}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    loop {
        let mut length = [0; 4];
        match file.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(failed)?,
        }
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        file.read_exact(&mut bytes).map_err(failed)?;
        progress.add(size_of::<u32>() as u64 + bytes.len() as u64);
        see(bytes.into())?;
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A file of a part while it is written. It is made durable in small pieces, in room that it has before, so that the log of a node that
/// has the same disk is not held up: neither by many bytes at once nor by the file system, which writes down where new blocks are.
struct Growing {
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
    /// Bytes since the last time that it was durable.
    unsynced: usize,
    /// Bytes that it has room for.
    room: u64,
}

/// How many bytes of a file are written before it is made durable.
const SYNC_BYTES: usize = 256 << 10;

/// The least and the most room that a file gets at once.
const ROOM_BYTES: (u64, u64) = (1 << 20, 16 << 20);

impl Growing {
    fn create(path: &Path) -> io::Result<BufWriter<Growing>> {
        Ok(BufWriter::new(Growing {
            file: create(path)?,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            unsynced: 0,
            room: 0,
        }))
    }

    /// Makes all of it durable. Returns its length and hash.
    fn finish(writer: &mut BufWriter<Growing>) -> io::Result<(u64, String)> {
        writer.flush()?;
        let Growing { file, hasher, bytes, .. } = writer.get_ref();
        file.set_len(*bytes)?;
        file.sync_all()?;
        Ok((*bytes, hasher.finalize().to_hex().to_string()))
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(SYNC_BYTES)];
        if self.bytes + bytes.len() as u64 > self.room {
            let more = self.room.clamp(ROOM_BYTES.0, ROOM_BYTES.1);
            // A file system without it is slower. A full disk is noticed by the write.
            let _ = fallocate(&self.file, FallocateFlags::empty(), self.room, more);
            self.room += more;
        }
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        self.unsynced += written;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A part while it is written. Dropped before [`Writing::finish`], it leaves a directory that the next backup removes.
pub struct Writing {
    dir: PathBuf,
    aside: PathBuf,
    number: u32,
    /// By name.
    files: BTreeMap<String, BufWriter<Growing>>,
    /// Bytes so far.
    pub bytes: u64,
}

impl Writing {
    /// Begins the part of this number.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(dir: &Path, number: u32) -> Result<Writing, Failure> {
        let aside = dir.join(format!("{number}.tmp"));
        let failed = |error: io::Error| Failure::Refused(format!("cannot write {}: {error}", aside.display()));
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed)?,
        }
        make_dir(&aside)?;
        let entries = Growing::create(&aside.join(ENTRIES)).map_err(failed)?;
        let files = BTreeMap::from([(ENTRIES.to_owned(), entries)]);
        Ok(Writing { dir: dir.to_owned(), aside, number, files, bytes: 0 })
    }

    /// Makes it durable under its name. Returns its files.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<Vec<FileSum>, Failure> {
        let aside = self.aside.clone();
        let failed = |error: io::Error| Failure::Refused(format!("cannot write {}: {error}", aside.display()));
        let mut files = Vec::new();
        for (name, writer) in &mut self.files {
            let (bytes, blake3) = Growing::finish(writer).map_err(failed)?;
            files.push(FileSum { name: format!("{}/{name}", self.number), bytes, blake3 });
        }
        let path = self.dir.join(self.number.to_string());
        let placed = || {
            if path.exists() {
                // A backup that came this far and did not write its list.
                fs::remove_dir_all(&path)?;
            }
            File::open(&aside)?.sync_all()?;
            fs::rename(&aside, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        placed().map_err(failed)?;
        Ok(files)
    }
}

impl BackupSink for Writing {
    fn begin(&mut self, shard: ShardId, snapshot: Option<Bytes>) -> Result<(), String> {
        let (snapshot_name, records_name) = (format!("snapshot-{shard}"), records_of(shard));
        let path = self.aside.join(&snapshot_name);
        let mut begun = || {
            self.files.insert(records_name.clone(), Growing::create(&self.aside.join(&records_name))?);
            match &snapshot {
                Some(payload) => {
                    let mut file = Growing::create(&path)?;
                    file.write_all(payload)?;
                    self.files.insert(snapshot_name.clone(), file);
                    Ok(())
                }
                None if self.files.remove(&snapshot_name).is_some() => fs::remove_file(&path),
                None => Ok(()),
            }
        };
        begun().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.bytes += snapshot.map_or(0, |payload| payload.len() as u64);
        Ok(())
    }

    fn record(&mut self, shard: ShardId, record: Bytes) -> Result<(), String> {
        let file = self.files.get_mut(&records_of(shard)).expect("a shard begins before its records");
        self.bytes += record.len() as u64;
        put(file, &record).map_err(|error| format!("cannot write records of shard {shard}: {error}"))
    }

    fn entry(&mut self, entry: Record) -> Result<(), String> {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        self.bytes += bytes.len() as u64;
        let file = self.files.get_mut(ENTRIES).expect("it is there from the beginning");
        put(file, &bytes).map_err(|error| format!("cannot write entries: {error}"))
    }
}

/// The progress of comparing all files with their checksums.
fn comparing(parts: &[Part]) -> Progress {
    let bytes = parts.iter().flat_map(|part| &part.files).map(|file| file.bytes).sum();
    Progress::of_bytes("comparing checksums", Some(bytes))
}

fn sum(path: &Path, progress: &Progress) -> io::Result<(u64, String)> {
    let (mut file, mut hasher, mut length) = (File::open(path)?, blake3::Hasher::new(), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((length, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(&piece[..read]);
        length += read as u64;
        progress.add(read as u64);
    }
}

/// A backup that can be restored, at one of its cuts.
pub struct Reading<'a> {
    dir: &'a Path,
    shards: u16,
    parts: &'a [Part],
    /// The bytes that are read, from the first one on.
    progress: OnceLock<Progress>,
}

impl<'a> Reading<'a> {
    /// The parts that a cut needs.
    pub fn at(dir: &'a Path, manifest: &'a Manifest, cut: &Cut) -> Reading<'a> {
        Reading { dir, shards: manifest.shards, parts: manifest.parts_of(cut.mark), progress: OnceLock::new() }
    }

    /// Compares every file with its checksum. Returns how many bytes they have.
    ///
    /// # Errors
    /// A file is missing, or has other bytes than were written.
    pub fn check(&self) -> Result<u64, Failure> {
        let (mut bytes, progress) = (0, comparing(self.parts));
        for file in self.parts.iter().flat_map(|part| &part.files) {
            file.check(self.dir, &progress)
                .map_err(|why| Failure::Refused(format!("{why}; use another copy of the backup")))?;
            bytes += file.bytes;
        }
        Ok(bytes)
    }

    fn progress(&self) -> &Progress {
        self.progress.get_or_init(|| {
            let files = self.parts.iter().flat_map(|part| &part.files);
            // Entries are read twice.
            let read = files.map(|file| file.bytes * if file.name.ends_with(ENTRIES) { 2 } else { 1 }).sum();
            Progress::of_bytes("reading the backup", Some(read))
        })
    }

    fn has(&self, name: &str) -> bool {
        self.parts[0].files.iter().any(|file| file.name == name)
    }
}

impl BackupSource for Reading<'_> {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn snapshot(&self, shard: ShardId) -> Result<Option<Bytes>, String> {
        let name = format!("{}/snapshot-{shard}", self.parts[0].number);
        if !self.has(&name) {
            return Ok(None);
        }
        let path = self.dir.join(name);
        let read = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        self.progress().add(read.len() as u64);
        Ok(Some(read.into()))
    }

    fn records(
        &self,
        shard: ShardId,
        see: &mut dyn FnMut(Bytes) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        let name = format!("{}/{}", self.parts[0].number, records_of(shard));
        if self.has(&name) { each(&self.dir.join(name), self.progress(), see) } else { Ok(()) }
    }

    fn entries(&self, see: &mut dyn FnMut(Record) -> Result<(), RestoreError>) -> Result<(), RestoreError> {
        for part in self.parts {
            each(&self.dir.join(part.number.to_string()).join(ENTRIES), self.progress(), &mut |mut bytes| {
                let record = Record::decode(&mut bytes)
                    .map_err(|why| RestoreError::Source(format!("an entry of part {}: {why}", part.number)))?;
                see(record)
            })?;
        }
        Ok(())
    }
}

impl Cut {
    /// For the restore.
    pub fn to_mark_cut(&self) -> MarkCut {
        MarkCut { mark: self.mark, ends: self.ends.clone() }
    }
}
