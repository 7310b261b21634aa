//! The epoch of versions. Versions of one epoch belong to one history, across restarts and on all nodes.
//!
//! A restore from a backup rolls the data back, and so does a power cut if `fsync` is not `always`. Versions are then
//! reused for other states. The data does not show that, so a file beside it does. The file contains its own identity
//! (a copy is another file) and the machine's boot. If they do not match, the node draws a new epoch and announces it
//! to the other nodes. The youngest epoch wins.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use boxoffice_core::id::hash64;
use boxoffice_core::stored::Stored;
use boxoffice_env::{Disk, FileIdentity, OpenMode, World};
use boxoffice_shard::NodeId;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    fsync::Fsync,
    identity::{DataDirectory, EPOCH},
};

/// The file, and its temporary name.
const FILE: &str = EPOCH;
const UNFINISHED: &str = "epoch.tmp";

/// More than the size of any such file.
const BYTES_MAX: u64 = 1_024;

/// Epochs have 52 bits, so that a client without 64-bit integers can hold them.
const EPOCH_MAX: u64 = (1 << 52) - 1;

/// An epoch with the time when it was drawn. The youngest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct DataEpoch {
    /// In milliseconds since 1970, 0 for a cluster's first one.
    #[n(0)]
    born_ms: u64,
    #[n(1)]
    epoch: u64,
}

impl DataEpoch {
    /// A cluster's first epoch, the same on all its nodes.
    fn first(cluster: u128) -> DataEpoch {
        DataEpoch { born_ms: 0, epoch: cluster as u64 & EPOCH_MAX }
    }

    /// A new epoch, younger than `before`.
    fn new_after(cluster: u128, node: NodeId, now_ms: u64, before: Option<DataEpoch>) -> DataEpoch {
        let born_ms = now_ms.max(before.map_or(1, |before| before.born_ms + 1));
        let seed = [&cluster.to_be_bytes()[..], &node.to_be_bytes(), &born_ms.to_be_bytes()].concat();
        DataEpoch { born_ms, epoch: hash64(&seed) & EPOCH_MAX }
    }

    /// The number of the epoch.
    pub fn epoch(self) -> u64 {
        self.epoch
    }
}

/// A node's current epoch, with its file.
pub struct EpochTracker {
    path: PathBuf,
    /// The disk distinguishes a file from its copies.
    detects_copies: bool,
    known: Mutex<Known>,
}

struct Known {
    data_epoch: DataEpoch,
    /// The file has it.
    saved: bool,
    /// Nodes with a link to this one.
    linked: BTreeSet<NodeId>,
}

/// The content of the file.
struct Saved {
    data_epoch: DataEpoch,
    file_identity: FileIdentity,
}

impl EpochTracker {
    /// Reads the epoch from the data directory, or draws a new one if the data may have been rolled back.
    pub fn open(world: &World, directory: &DataDirectory, fsync: Fsync) -> EpochTracker {
        let identity = directory.identity();
        let (cluster, node) = (identity.cluster.0, identity.node);
        let path = directory.file(FILE);
        // A simulated disk cannot detect copies, and is never rolled back.
        let detects_copies = matches!(world.disk.file_identity(&directory.file("")), Ok(Some(_)));
        let saved = if detects_copies { read(&*world.disk, &path) } else { Ok(None) };
        let data_epoch = match &saved {
            Ok(None) if !detects_copies || !identity.has_log => DataEpoch::first(cluster),
            Ok(Some((saved, file_identity))) if fits(&saved.file_identity, file_identity, fsync) => saved.data_epoch,
            saved => {
                let before = saved.as_ref().ok().and_then(|saved| saved.as_ref()).map(|(saved, _)| saved.data_epoch);
                let new_after = DataEpoch::new_after(cluster, node, world.clock.wall_ms(), before);
                tracing::warn!(
                    epoch = new_after.epoch,
                    "the data may have been rolled back, by a restore or a power cut: every watcher begins anew"
                );
                new_after
            }
        };
        let known = Known { data_epoch, saved: !detects_copies, linked: BTreeSet::new() };
        let tracker = EpochTracker { path, detects_copies, known: Mutex::new(known) };
        tracker.save(&*world.disk);
        tracker
    }

    /// The number of the current epoch.
    pub fn epoch(&self) -> u64 {
        self.known.lock().data_epoch.epoch
    }

    /// A link to another node is up. Returns the epoch to be announced to it. Without detection of copies only the
    /// cluster's first epoch exists, and there is nothing to announce.
    pub fn linked(&self, node: NodeId) -> Option<DataEpoch> {
        let mut known = self.known.lock();
        known.linked.insert(node);
        self.detects_copies.then_some(known.data_epoch)
    }

    /// A link to another node is lost.
    pub fn unlinked(&self, node: NodeId) {
        self.known.lock().linked.remove(&node);
    }

    /// Another node has announced an epoch. If it wins, returns the nodes to which this one announces it.
    pub fn on_announced(&self, data_epoch: DataEpoch) -> Option<Vec<NodeId>> {
        let mut known = self.known.lock();
        if data_epoch <= known.data_epoch {
            return None;
        }
        (known.data_epoch, known.saved) = (data_epoch, !self.detects_copies);
        Some(known.linked.iter().copied().collect())
    }

    /// Saves the epoch if it is not saved. If that fails, the next start draws a new one.
    pub fn save(&self, disk: &dyn Disk) {
        let data_epoch = {
            let mut known = self.known.lock();
            if std::mem::replace(&mut known.saved, true) {
                return;
            }
            known.data_epoch
        };
        if let Err(error) = write(disk, &self.path, data_epoch) {
            tracing::warn!(%error, path = %self.path.display(), "the epoch cannot be written down");
        }
    }
}

/// Whether a file is still the one that was written, and no data was lost since.
fn fits(saved: &FileIdentity, found: &FileIdentity, fsync: Fsync) -> bool {
    let kept = match fsync {
        Fsync::Always => true,
        Fsync::Interval(_) | Fsync::Never => !found.boot.is_empty() && saved.boot == found.boot,
    };
    saved.file == found.file && kept
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// The content and the identity of the file, `None` if it does not exist.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<(Saved, FileIdentity)>> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let file_identity = disk.file_identity(path)?.ok_or_else(unsupported)?;
    let mut bytes = vec![0; file.length()?.min(BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let saved = parse(&String::from_utf8_lossy(&bytes)).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some((saved, file_identity)))
}

fn parse(text: &str) -> Option<Saved> {
    let mut lines = text.lines();
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(" = ").map(str::to_owned);
    let (epoch, born_ms) = (field("epoch")?.parse().ok()?, field("born_ms")?.parse().ok()?);
    Some(Saved {
        data_epoch: DataEpoch { born_ms, epoch },
        file_identity: FileIdentity { file: field("file")?, boot: field("boot")? },
    })
}

/// Writes a new file, which then replaces the old one.
fn write(disk: &dyn Disk, path: &Path, data_epoch: DataEpoch) -> io::Result<()> {
    let unfinished = path.with_file_name(UNFINISHED);
    match disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = disk.open(&unfinished, OpenMode::Create)?;
    let file_identity = disk.file_identity(&unfinished)?.ok_or_else(unsupported)?;
    let (DataEpoch { born_ms, epoch }, FileIdentity { file: of, boot }) = (data_epoch, file_identity);
    let text = format!("epoch = {epoch}\nborn_ms = {born_ms}\nfile = {of}\nboot = {boot}\n");
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_data()?;
    disk.rename(&unfinished, path)?;
    disk.sync_dir(path.parent().expect("it is in the data directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(data_epoch: DataEpoch) -> EpochTracker {
        let known = Known { data_epoch, saved: true, linked: BTreeSet::new() };
        EpochTracker { path: PathBuf::new(), detects_copies: false, known: Mutex::new(known) }
    }

    #[test]
    fn the_youngest_epoch_wins() {
        let first = DataEpoch::first(7);
        let new_after = DataEpoch::new_after(7, 2, 1_000, Some(first));
        let again = DataEpoch::new_after(7, 1, 10, Some(new_after));
        assert!(first < new_after && new_after < again, "also if the clock has gone back");
        let node = tracker(new_after);
        node.linked(2);
        node.linked(3);
        node.unlinked(3);
        node.linked(4);
        assert_eq!((node.on_announced(first), node.on_announced(new_after)), (None, None));
        assert_eq!(node.on_announced(again), Some(vec![2, 4]));
        assert_eq!(node.epoch(), again.epoch());
    }

    #[test]
    fn a_rollback_is_detected() {
        let file_identity = |file: &str, boot: &str| FileIdentity { file: file.into(), boot: boot.into() };
        let saved = file_identity("1:2:3", "a");
        assert!(
            fits(&saved, &file_identity("1:2:3", "b"), Fsync::Always),
            "every acknowledged change survives a power cut"
        );
        assert!(!fits(&saved, &file_identity("1:9:4", "a"), Fsync::Always), "a copy");
        assert!(fits(&saved, &file_identity("1:2:3", "a"), Fsync::Never), "the same boot of the machine");
        assert!(!fits(&saved, &file_identity("1:2:3", "b"), Fsync::Interval(10)), "the machine was off");
        assert!(!fits(&file_identity("1:2:3", ""), &file_identity("1:2:3", ""), Fsync::Never), "the boot is unknown");
    }

    #[test]
    fn a_written_file_is_read_back() {
        let text = "epoch = 5\nborn_ms = 6\nfile = 1:2:3\nboot = x\n";
        let saved = parse(text).expect("a good file");
        assert_eq!((saved.data_epoch.epoch, saved.data_epoch.born_ms, saved.file_identity.boot.as_str()), (5, 6, "x"));
        for bad in ["", "epoch = x\nborn_ms = 6\nfile = 1\nboot = x\n", "epoch = 5\nborn_ms = 6\n"] {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }
}
