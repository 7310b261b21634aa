//! The identity of a data directory, and its lock.
//!
//! The file `identity.toml` is readable and must not be edited. It has a checksum. The file `lock` is locked while the
//! directory is open, until the process ends.
//!
//! The identity holds the highest version of the cluster under which anything in the directory may be written, and the text of the
//! release that raised it, which a program that does not read that version quotes. It is durable before the first such byte is. Keys
//! that this program does not know are passed over, since a later one of the same version may have added them.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use boxoffice_core::version::{ClusterVersion, NEWEST, OLDEST_READ, OtherVersion};
use boxoffice_env::{Disk, DiskLock, NodeId, OpenMode, PeerAddress, World};
use serde::{Deserialize, Serialize};
use tracing_mutex::parkinglot::Mutex;

use crate::log::Start;
use crate::peer_positions::{self, PeerPositions};

mod error;

pub use error::IdentityError;

/// The first version that places entities by the first bits of their hashes. In earlier versions, carts had other ids and most
/// entities other shards.
const FORMAT_BY_PREFIX: u32 = 3;
const FILE: &str = "identity.toml";
/// The last key of the file. Its value is the checksum of everything before it.
pub(crate) const CHECKSUM: &str = "checksum = ";
const LOCK: &str = "lock";
const DISK: &str = "disk";
pub(crate) const LOG: &str = "log";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const HISTORY: &str = "history";
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const EPOCH: &str = "epoch";
/// More than the positions of any cluster need.
const PEER_POSITIONS_BYTES_MAX: u64 = 1 << 20;
/// More than the text of any release has.
const RELEASE_CHARS_MAX: usize = 40;
/// More than any identity needs.
const FILE_BYTES_MAX: u64 = 4096;

/// The random number of a cluster from its foundation, 32 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u128);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl std::str::FromStr for ClusterId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ClusterId, Self::Err> {
        hex128(text).map(ClusterId).ok_or("a cluster id has 32 hexadecimal digits")
    }
}

pub(crate) fn hex128(text: &str) -> Option<u128> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// The owner of a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// A random number from the creation of the data directory, so that an emptied disk is another one. The log's
    /// owner.
    pub disk: u128,
    /// The cluster's number of shards. It determines the placement of keys and never changes.
    pub shards: u16,
    /// Wall time of the creation, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// The log was opened once. From then on a missing log is an error.
    pub has_log: bool,
    /// Nodes of the cluster that this one joined, its first contacts. Empty if it founded the cluster.
    pub peers: Vec<PeerAddress>,
    /// Replicas of this node with a lower generation were on another disk, which was lost.
    pub generation_min: u64,
}

/// A cluster's answer to a node that asked to join it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    pub cluster: ClusterId,
    /// The data directory as the cluster knows it: [`draw_disk_id`].
    pub disk: u128,
    /// Its nodes.
    pub peers: Vec<PeerAddress>,
    /// Replicas of this node with a lower generation were on a disk that was lost. 0 if none was.
    pub generation_min: u64,
}

/// The identity that the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The cluster. `None` for the directory's one, or a newly founded one.
    pub cluster: Option<ClusterId>,
    /// The node to be.
    pub node: NodeId,
    pub shards: u16,
    /// The cluster to join, if the directory is created now.
    pub joining: Option<Joining>,
    /// The highest version that the program reads. A directory that is founded now gets it. One that joins a cluster begins with the
    /// lowest version of the program, and the cluster raises it.
    pub reads_up_to: ClusterVersion,
}

/// An open data directory, locked by this process.
pub struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    /// The highest version under which anything in it may be written.
    version: Mutex<ClusterVersion>,
    _lock: Box<dyn DiskLock>,
}

impl DataDirectory {
    /// Opens and locks the data directory at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`IdentityError`]: it is in use, belongs to another node, has another version or is unreadable. Then only the file `lock`
    /// was changed.
    pub fn open(world: &World, path: &Path, wanted: &Wanted) -> Result<Self, IdentityError> {
        let disk = &*world.disk;
        disk.create_dir_all(path).map_err(failed("create", path))?;
        let lock = lock(disk, path)?;
        if let Err(error) = disk.restrict_to_owner(path) {
            tracing::warn!(dir = %path.display(), %error, "others may be able to read the data directory; make it 0700");
        }
        let (identity, version) = match read_file(disk, path)? {
            Some((identity, version)) => {
                check(path, &identity, wanted)?;
                if version > wanted.reads_up_to {
                    let raised_by = version.release().unwrap_or_default().to_owned();
                    let version = OtherVersion { found: version.number().into() };
                    return Err(IdentityError::Newer { dir: path.to_owned(), version, raised_by });
                }
                // The process before may have ended between the file's name and the directory's sync.
                disk.sync_dir(path).map_err(failed("sync", path))?;
                (identity, version)
            }
            None => {
                refuse_orphans(disk, path)?;
                let founded = || Joining {
                    cluster: wanted.cluster.unwrap_or_else(|| ClusterId(world.rng.u128())),
                    disk: world.rng.u128(),
                    peers: Vec::new(),
                    generation_min: 0,
                };
                let Joining { cluster, disk: of_disk, peers, generation_min } =
                    wanted.joining.clone().unwrap_or_else(founded);
                let identity = Identity {
                    cluster,
                    node: wanted.node,
                    disk: of_disk,
                    shards: wanted.shards,
                    created_at_ms: world.clock.wall_ms(),
                    has_log: false,
                    peers,
                    generation_min,
                };
                let version = if wanted.joining.is_some() { OLDEST_READ } else { wanted.reads_up_to };
                write(disk, path, &identity, version)?;
                (identity, version)
            }
        };
        Ok(DataDirectory { path: path.to_owned(), identity, version: Mutex::new(version), _lock: lock })
    }

    /// The highest version under which anything in it may be written.
    pub fn version(&self) -> ClusterVersion {
        *self.version.lock()
    }

    /// Lets bytes of this version into the directory. The identity says so durably when this returns, so it must be called before
    /// the first such byte is appended, installed or stored.
    ///
    /// # Errors
    /// [`IdentityError::Io`]. Then no such byte may be written.
    pub fn raise(&self, disk: &dyn Disk, version: ClusterVersion) -> Result<(), IdentityError> {
        let mut highest = self.version.lock();
        if version > *highest {
            write(disk, &self.path, &self.identity, version)?;
            *highest = version;
        }
        Ok(())
    }

    /// Its owner.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory of the log.
    pub fn log_dir(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Whether the log must exist, for [`Log::open`](crate::log::Log::open).
    pub fn log_start(&self) -> Start {
        match self.identity.has_log {
            true => Start::Existing,
            false => Start::New,
        }
    }

    /// The directory of the snapshots.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    /// The directory of the history store.
    pub fn history_dir(&self) -> PathBuf {
        history_dir(&self.path)
    }

    /// The directory of old segments of the log.
    pub fn archive_dir(&self) -> PathBuf {
        self.path.join(ARCHIVE)
    }

    /// The saved durable positions of other nodes.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn load_peer_positions(&self, disk: &dyn Disk) -> Result<PeerPositions, IdentityError> {
        let path = self.path.join(peer_positions::FILE);
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(PeerPositions::default()),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let mut bytes =
            vec![0; file.length().map_err(failed("measure", &path))?.min(PEER_POSITIONS_BYTES_MAX) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
        Ok(PeerPositions::read(&bytes).unwrap_or_else(|why| {
            // Old copies are not detected until the nodes have announced positions again.
            tracing::warn!(file = %path.display(), why, "what other nodes have said of their disks cannot be read");
            PeerPositions::default()
        }))
    }

    /// Saves the durable positions of other nodes, if there is anything new.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn save_peer_positions(&self, disk: &dyn Disk, peer_positions: &PeerPositions) -> Result<(), IdentityError> {
        match peer_positions.take_unsaved(self.version()) {
            Some(news) => write_file(disk, &self.path, peer_positions::FILE, &news),
            None => Ok(()),
        }
    }

    /// Saves a small text beside the data.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn save_file(&self, disk: &dyn Disk, name: &str, text: &str) -> Result<(), IdentityError> {
        write_file(disk, &self.path, name, text.as_bytes())
    }

    /// Records that the log exists.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn record_log_created(&mut self, disk: &dyn Disk) -> Result<(), IdentityError> {
        if !self.identity.has_log {
            let identity = Identity { has_log: true, ..self.identity.clone() };
            write(disk, &self.path, &identity, self.version())?;
            self.identity = identity;
        }
        Ok(())
    }
}

/// The directory of the history store in the data directory `dir`.
pub fn history_dir(dir: &Path) -> PathBuf {
    dir.join(HISTORY)
}

/// The random number for a data directory that is about to join a cluster. It is saved, so that an interrupted join
/// goes on with the same number.
///
/// # Errors
/// [`IdentityError`].
pub fn draw_disk_id(world: &World, path: &Path) -> Result<u128, IdentityError> {
    let disk = &*world.disk;
    disk.create_dir_all(path).map_err(failed("create", path))?;
    let file_path = path.join(DISK);
    match disk.open(&file_path, OpenMode::Read) {
        Ok(file) => {
            let mut digits = [0; 32];
            file.read_exact_at(&mut digits, 0).map_err(failed("read", &file_path))?;
            let found = std::str::from_utf8(&digits).ok().and_then(hex128);
            return found.ok_or_else(|| unreadable(path, format!("{DISK} is not 32 hexadecimal digits")));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("open", &file_path)(error)),
    }
    let drawn = world.rng.u128();
    write_file(disk, path, DISK, format!("{drawn:032x}\n").as_bytes())?;
    Ok(drawn)
}

/// Locks the data directory at `dir` until the value is dropped.
///
/// # Errors
/// [`IdentityError::InUse`], [`IdentityError::Io`].
pub fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>, IdentityError> {
    let lock_file = dir.join(LOCK);
    let lock = disk.lock(&lock_file).map_err(failed("lock", &lock_file))?;
    lock.ok_or_else(|| IdentityError::InUse { dir: dir.to_owned() })
}

/// Reads the owner of the data directory at `dir` without its lock. `None` if it has none.
///
/// # Errors
/// [`IdentityError::Unreadable`], [`IdentityError::OtherPlacement`], [`IdentityError::OtherVersion`],
/// [`IdentityError::Newer`], [`IdentityError::Io`].
pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, IdentityError> {
    Ok(read_file(disk, dir)?.map(|(identity, _)| identity))
}

/// The owner, and the highest version under which anything in the directory may be written.
fn read_file(disk: &dyn Disk, dir: &Path) -> Result<Option<(Identity, ClusterVersion)>, IdentityError> {
    let path = dir.join(FILE);
    let file = match disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", &path)(error)),
    };
    let length = file.length().map_err(failed("measure", &path))?;
    if length > FILE_BYTES_MAX {
        return Err(unreadable(dir, format!("{FILE} has {length} bytes")));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(dir, format!("{FILE} is no text")))?;
    parse(dir, &text).map(Some)
}

/// Whether the node of this data directory has other nodes, or had some. Then only their secret is of use to it.
///
/// # Errors
/// As [`read`].
pub fn has_met_others(disk: &dyn Disk, dir: &Path) -> Result<bool, IdentityError> {
    let Some(identity) = read(disk, dir)? else { return Ok(false) };
    if !identity.peers.is_empty() {
        return Ok(true);
    }
    // The founder of a cluster remembers what others have told of their disks.
    let path = dir.join(peer_positions::FILE);
    match disk.open(&path, OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("open", &path)(error)),
    }
}

/// The fields of the file but the checksum, which follows them.
#[derive(Serialize, Deserialize)]
struct IdentityFields {
    /// The highest version under which anything in the directory may be written. The name is from before there was one for all.
    format: u32,
    /// The release that raised it.
    raised_by: String,
    cluster: String,
    node: NodeId,
    disk: String,
    shards: u16,
    created_at_ms: u64,
    has_log: bool,
    peers: Vec<String>,
    generation_min: u64,
}

/// The fields that are read before anything else. They keep their names and meanings for ever.
#[derive(Deserialize)]
struct Version {
    format: u32,
    /// Absent before there was one version for all.
    #[serde(default)]
    raised_by: String,
}

fn parse(dir: &Path, text: &str) -> Result<(Identity, ClusterVersion), IdentityError> {
    let malformed = |error: toml::de::Error| {
        let reason = error.message().trim_end_matches('\n');
        unreadable(dir, format!("{FILE} is malformed: {reason}"))
    };
    let Version { format, raised_by } = toml::from_str(text).map_err(malformed)?;
    if format < FORMAT_BY_PREFIX {
        return Err(IdentityError::OtherPlacement { dir: dir.to_owned(), found: format, known: NEWEST });
    }
    let version = ClusterVersion::read(format).map_err(|other| match other.is_newer() {
        true => IdentityError::Newer { dir: dir.to_owned(), version: other, raised_by: printable(&raised_by) },
        false => IdentityError::OtherVersion { dir: dir.to_owned(), version: other },
    })?;
    if text.rsplit_once(CHECKSUM).is_none_or(|(said, found)| found != checksum(said)) {
        return Err(unreadable(dir, format!("the checksum in {FILE} does not match")));
    }
    let fields: IdentityFields = toml::from_str(text).map_err(malformed)?;
    let number = |name: &str, text: &str| {
        hex128(text).ok_or_else(|| unreadable(dir, format!("{FILE}: {name} is not 32 hexadecimal digits")))
    };
    let mut peers = Vec::with_capacity(fields.peers.len());
    for text in &fields.peers {
        let peer = text.split_once('@').and_then(|(node, address)| Some((node.parse().ok()?, address)));
        let (node, address) =
            peer.ok_or_else(|| unreadable(dir, format!("{FILE}: {text:?} is not a node's number and address")))?;
        peers.push(PeerAddress { node, address: address.to_owned() });
    }
    let identity = Identity {
        cluster: ClusterId(number("cluster", &fields.cluster)?),
        node: fields.node,
        disk: number("disk", &fields.disk)?,
        shards: fields.shards,
        created_at_ms: fields.created_at_ms,
        has_log: fields.has_log,
        peers,
        generation_min: fields.generation_min,
    };
    Ok((identity, version))
}

/// A text of a file that may be damaged, for a message.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(RELEASE_CHARS_MAX).collect()
}

/// The value of the last key, with its line's end.
pub(crate) fn checksum(said: &str) -> String {
    format!("\"{:08x}\"\n", crc32c::crc32c(said.as_bytes()))
}

pub(crate) fn write(
    disk: &dyn Disk,
    dir: &Path,
    identity: &Identity,
    version: ClusterVersion,
) -> Result<(), IdentityError> {
    let peers = identity.peers.iter().map(|peer| format!("{}@{}", peer.node, peer.address));
    let fields = IdentityFields {
        format: version.number().into(),
        raised_by: version.release().unwrap_or_default().to_owned(),
        cluster: identity.cluster.to_string(),
        node: identity.node,
        disk: format!("{:032x}", identity.disk),
        shards: identity.shards,
        created_at_ms: identity.created_at_ms,
        has_log: identity.has_log,
        peers: peers.collect(),
        generation_min: identity.generation_min,
    };
    let fields = toml::to_string(&fields).expect("plain fields have a text");
    let said = format!("# Whose data this is. Do not edit: another value loses or mixes data.\n{fields}");
    let text = format!("{said}{CHECKSUM}{}", checksum(&said));
    write_file(disk, dir, FILE, text.as_bytes())
}

/// Writes the file of the directory `from` into `to` as well.
pub(crate) fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<(), IdentityError> {
    let path = from.join(FILE);
    let file = disk.open(&path, OpenMode::Read).map_err(failed("open", &path))?;
    let mut bytes = vec![0; file.length().map_err(failed("measure", &path))?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
    write_file(disk, to, FILE, &bytes)
}

/// Writes and syncs a temporary file and renames it, so that either the old or the new one exists at any time.
pub(crate) fn write_file(disk: &dyn Disk, dir: &Path, name: &str, text: &[u8]) -> Result<(), IdentityError> {
    let (aside, path) = (dir.join(format!("{name}.tmp")), dir.join(name));
    match disk.remove(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed("remove", &aside)(error));
        }
        _ => {}
    }
    let file = disk.open(&aside, OpenMode::Create).map_err(failed("create", &aside))?;
    file.write_all_at(text, 0).map_err(failed("write", &aside))?;
    file.sync_data().map_err(failed("sync", &aside))?;
    disk.rename(&aside, &path).map_err(failed("rename", &aside))?;
    disk.sync_dir(dir).map_err(failed("sync", dir))
}

/// Refuses data without an identity, because a new identity would lose its owner.
fn refuse_orphans(disk: &dyn Disk, dir: &Path) -> Result<(), IdentityError> {
    for below in [LOG, SNAPSHOTS, HISTORY, ARCHIVE] {
        let names = disk.list(&dir.join(below)).unwrap_or_default();
        if !names.is_empty() {
            return Err(unreadable(dir, format!("{FILE} is missing, but there are files in {below}/")));
        }
    }
    Ok(())
}

fn check(dir: &Path, found: &Identity, wanted: &Wanted) -> Result<(), IdentityError> {
    let dir = || dir.to_owned();
    if let Some(cluster) = wanted.cluster.filter(|&cluster| cluster != found.cluster) {
        let found = found.cluster;
        return Err(IdentityError::OtherCluster { dir: dir(), found, wanted: cluster });
    }
    if found.node != wanted.node {
        let (found, wanted) = (found.node, wanted.node);
        return Err(IdentityError::OtherNode { dir: dir(), found, wanted });
    }
    if found.shards != wanted.shards {
        let (found, wanted) = (found.shards, wanted.shards);
        return Err(IdentityError::OtherShards { dir: dir(), found, wanted });
    }
    Ok(())
}

fn unreadable(dir: &Path, reason: String) -> IdentityError {
    IdentityError::Unreadable {
        dir: dir.to_owned(),
        reason,
        remedy: "restore identity.toml from a backup, or name an empty directory to start anew",
    }
}

pub(crate) fn failed<'a>(doing: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> IdentityError + use<'a> {
    move |source| IdentityError::Io { doing, file: file.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use boxoffice_env::MemoryDisk;

    const DIR: &str = "/srv/data";
    const WANTED: Wanted = Wanted { cluster: None, node: 7, shards: 32, joining: None, reads_up_to: NEWEST };

    fn world() -> (World, MemoryDisk) {
        let disk = MemoryDisk::new();
        (World { disk: Arc::new(disk.clone()), ..World::standalone() }, disk)
    }

    fn open(world: &World, wanted: Wanted) -> Result<DataDirectory, IdentityError> {
        DataDirectory::open(world, Path::new(DIR), &wanted)
    }

    fn refusal(world: &World, wanted: Wanted) -> IdentityError {
        open(world, wanted).map(|_| ()).expect_err("refused")
    }

    #[test]
    fn an_identity_is_made_once_and_found_again() {
        let (world, disk) = world();
        let mut made = open(&world, WANTED).unwrap();
        let first = made.identity().clone();
        assert_eq!((first.node, first.shards, first.has_log), (7, 32, false));
        made.record_log_created(&disk).unwrap();
        made.record_log_created(&disk).unwrap();
        drop(made);
        disk.power_cut(&mut || false);
        let wanted = Wanted { cluster: Some(first.cluster), ..WANTED };
        let found = open(&world, wanted).unwrap();
        assert_eq!(found.identity(), &Identity { has_log: true, ..first.clone() });
        assert_eq!(first.cluster.to_string().parse(), Ok(first.cluster));
        assert!("abc".parse::<ClusterId>().is_err());
    }

    #[test]
    fn a_power_cut_leaves_the_old_or_the_new_identity() {
        for stop in 0..12 {
            let (world, disk) = world();
            let made = open(&world, WANTED).unwrap();
            let cluster = made.identity().cluster;
            drop(made);
            let mut again = open(&world, WANTED).unwrap();
            disk.stop_after(stop);
            let _ = again.record_log_created(&disk);
            drop(again);
            let mut turn = 0;
            disk.power_cut(&mut || {
                turn += 1;
                turn % 3 != stop % 3
            });
            assert_eq!(open(&world, WANTED).unwrap().identity().cluster, cluster);
        }
    }

    #[test]
    fn each_foreign_directory_is_refused_by_name() {
        let (world, disk) = world();
        let made = open(&world, WANTED).unwrap();
        assert!(matches!(refusal(&world, WANTED), IdentityError::InUse { .. }));
        let cluster = Some(ClusterId(made.identity().cluster.0 ^ 1));
        drop(made);
        let other = refusal(&world, Wanted { cluster, ..WANTED });
        assert!(matches!(other, IdentityError::OtherCluster { .. }));
        let other = refusal(&world, Wanted { node: 8, ..WANTED });
        assert!(matches!(other, IdentityError::OtherNode { found: 7, wanted: 8, .. }));
        let other = refusal(&world, Wanted { shards: 64, ..WANTED });
        assert_eq!(
            other.to_string(),
            "/srv/data was made for 32 shards, 64 are configured; the number can never change: \
             configure 32"
        );
        let path = Path::new(DIR).join(FILE);
        disk.rename(&path, &Path::new(DIR).join("away")).unwrap();
        disk.create_dir_all(&Path::new(DIR).join(LOG)).unwrap();
        disk.open(&Path::new(DIR).join("log/1"), OpenMode::Create).unwrap();
        let orphan = refusal(&world, WANTED).to_string();
        assert!(orphan.contains("identity.toml is missing, but there are files in log/"), "{orphan}");
    }

    fn text(disk: &MemoryDisk) -> String {
        let file = disk.open(&Path::new(DIR).join(FILE), OpenMode::Read).unwrap();
        let mut text = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(&mut text, 0).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Puts a file in place that has this text and its checksum.
    fn put(disk: &MemoryDisk, text: &str) {
        let (said, _) = text.rsplit_once(CHECKSUM).unwrap();
        let text = format!("{said}{CHECKSUM}{}", checksum(said));
        write_file(disk, Path::new(DIR), FILE, text.as_bytes()).unwrap();
    }

    #[test]
    fn a_directory_of_an_earlier_program_is_refused_by_name() {
        let (world, disk) = world();
        drop(open(&world, WANTED).unwrap());
        let written = text(&disk);
        let set_format =
            |format: u32| put(&disk, &written.replace(&format!("format = {NEWEST}"), &format!("format = {format}")));
        for old in [1, 2] {
            set_format(old);
            assert_eq!(
                refusal(&world, WANTED).to_string(),
                format!(
                    "/srv/data has format {old}, from before placement by hash prefix; in format {NEWEST} carts have other ids \
                     and entities other shards, so this program cannot use it: start the version that wrote it, or name \
                     an empty data directory and import into it"
                )
            );
        }
        for old in [3, 4, 15] {
            set_format(old);
            assert_eq!(
                refusal(&world, WANTED).to_string(),
                format!(
                    "/srv/data was written under version {old}, this program reads from 17 on, which release 0.2.0 began; start the \
                     program that made it, or name an empty data directory and import into it"
                )
            );
        }
        set_format(OLDEST_READ.number().into());
        open(&world, WANTED).unwrap();
    }

    /// The whole file may have another form then, so only these two keys are read.
    #[test]
    fn a_directory_of_a_later_version_is_refused_with_the_release_that_raised_it() {
        let (world, disk) = world();
        drop(open(&world, WANTED).unwrap());
        let newer = NEWEST.number() + 1;
        let later = format!("format = {newer}\nraised_by = \"0.3.0\"\ncluster = 7\n");
        write_file(&disk, Path::new(DIR), FILE, later.as_bytes()).unwrap();
        assert_eq!(
            refusal(&world, WANTED).to_string(),
            format!(
                "/srv/data was written under version {newer}, this program reads up to {NEWEST}; release 0.3.0 raised it: start \
                 that release, or a later one"
            )
        );
        assert_eq!(text(&disk), later, "nothing was changed");
    }

    #[test]
    fn keys_that_another_release_has_added_are_passed_over() {
        let (world, disk) = world();
        let identity = open(&world, WANTED).unwrap().identity().clone();
        let more = text(&disk).replace(CHECKSUM, &format!("[added]\nlater = true\n{CHECKSUM}"));
        put(&disk, &more);
        assert_eq!(open(&world, WANTED).unwrap().identity(), &identity);
    }

    /// The version is durable before `raise` returns, whatever a power cut takes, and an error leaves it as it was.
    #[test]
    fn a_raised_version_is_durable_before_anything_is_written_under_it() {
        for stop in 0..12 {
            let (world, disk) = world();
            let made = open(&world, WANTED).unwrap();
            // As if the directory were from an earlier release.
            *made.version.lock() = ClusterVersion::numbered(15);
            let lower = made.version();
            write(&disk, Path::new(DIR), made.identity(), lower).unwrap();
            disk.stop_after(stop);
            let raised = made.raise(&disk, NEWEST);
            assert_eq!(made.version(), if raised.is_ok() { NEWEST } else { lower });
            drop(made);
            let mut turn = 0;
            disk.power_cut(&mut || {
                turn += 1;
                turn % 3 != stop % 3
            });
            let found = text(&disk);
            let format = |version: ClusterVersion| found.contains(&format!("format = {version}\n"));
            assert!(format(NEWEST) || raised.is_err() && format(lower), "{raised:?} after {stop} steps: {found}");
        }
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let (world, disk) = world();
        drop(open(&world, WANTED).unwrap());
        let file = disk.open(&Path::new(DIR).join(FILE), OpenMode::Write).unwrap();
        let mut text = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(&mut text, 0).unwrap();
        for (at, &old) in text.iter().enumerate() {
            let byte = match old {
                b'0'..=b'8' | b'a'..=b'e' | b'#' => old + 1,
                _ => b'#',
            };
            file.write_all_at(&[byte], at as u64).unwrap();
            match open(&world, WANTED) {
                Ok(_) => panic!("the change at {at} is not noticed"),
                Err(
                    IdentityError::Unreadable { .. }
                    | IdentityError::OtherPlacement { .. }
                    | IdentityError::OtherVersion { .. }
                    | IdentityError::Newer { .. },
                ) => {}
                Err(error) => panic!("at {at}: {error}"),
            }
            file.write_all_at(&[old], at as u64).unwrap();
        }
        file.set_length(100).unwrap();
        assert!(matches!(refusal(&world, WANTED), IdentityError::Unreadable { .. }));
        file.set_length(FILE_BYTES_MAX + 1).unwrap();
        assert!(matches!(refusal(&world, WANTED), IdentityError::Unreadable { .. }));
        file.set_length(4).unwrap();
        file.write_all_at(&[0xFF; 4], 0).unwrap();
        assert!(matches!(refusal(&world, WANTED), IdentityError::Unreadable { .. }));
    }

    proptest::proptest! {
        #[test]
        fn no_other_text_is_accepted_as_an_identity(
            text in "(format = 1\n)?(cluster = \"[0-9a-f]{0,33}\"\n)?(node = -?[0-9]{1,20}\n)?.{0,80}",
        ) {
            proptest::prop_assert!(parse(Path::new(DIR), &text).is_err());
        }
    }
}
