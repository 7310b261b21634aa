//! The epoch that versions belong to. Versions of one epoch are of one history: they go on across restarts and are the same
//! on every node.
//!
//! A restore from a backup, and a power cut where `fsync` is not `always`, set the data back: versions are then used again,
//! for something else. The data itself does not show that, so a file beside it does. It says which file it is (a copy is
//! another file) and in which life of the machine it was written. Where it does not fit, a new epoch is drawn, and told to
//! the other nodes: the youngest holds.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use boxoffice_core::id::hash64;
use boxoffice_env::{Disk, FileIdentity, OpenMode, World};
use boxoffice_shard::NodeId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{fsync::Fsync, identity::DataDirectory};

/// The file, and its name while it is written.
const FILE: &str = "epoch";
const UNFINISHED: &str = "epoch.tmp";

/// Longer than any such file, in bytes.
const BYTES_MAX: u64 = 1_024;

/// Epochs have 52 bits, so that any client can hold them.
const EPOCH_MAX: u64 = (1 << 52) - 1;

/// An epoch, and when it was drawn: the youngest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DataEpoch {
    /// In milliseconds since 1970; 0 for a cluster's first one.
    born_ms: u64,
    epoch: u64,
}

impl DataEpoch {
    /// A cluster's first one, the same on all its nodes.
    fn first(cluster: u128) -> DataEpoch {
        DataEpoch { born_ms: 0, epoch: cluster as u64 & EPOCH_MAX }
    }

    /// A new one, younger than the one before.
    fn new_after(cluster: u128, node: NodeId, now_ms: u64, before: Option<DataEpoch>) -> DataEpoch {
        let born_ms = now_ms.max(before.map_or(1, |before| before.born_ms + 1));
        let seed = [&cluster.to_be_bytes()[..], &node.to_be_bytes(), &born_ms.to_be_bytes()].concat();
        DataEpoch { born_ms, epoch: hash64(&seed) & EPOCH_MAX }
    }

    /// The epoch itself.
    pub fn epoch(self) -> u64 {
        self.epoch
    }
}

/// What a node knows of it.
pub struct EpochTracker {
    path: PathBuf,
    /// The disk tells a file from its copies.
    told: bool,
    known: Mutex<Known>,
}

struct Known {
    data_epoch: DataEpoch,
    /// It is in the file.
    saved: bool,
    /// Nodes with a link to this one.
    linked: BTreeSet<NodeId>,
}

/// What the file says.
struct Saved {
    data_epoch: DataEpoch,
    file_identity: FileIdentity,
}

impl EpochTracker {
    /// Reads what the data directory says, and draws a new epoch if its data may have been set back.
    pub fn open(world: &World, directory: &DataDirectory, fsync: Fsync) -> EpochTracker {
        let identity = directory.identity();
        let (cluster, node) = (identity.cluster.0, identity.node);
        let path = directory.file(FILE);
        // A simulated disk does not tell, and is never set back.
        let told = matches!(world.disk.file_identity(&directory.file("")), Ok(Some(_)));
        let saved = if told { read(&*world.disk, &path) } else { Ok(None) };
        let data_epoch = match &saved {
            Ok(None) if !told || !identity.has_log => DataEpoch::first(cluster),
            Ok(Some((saved, file_identity))) if fits(&saved.file_identity, file_identity, fsync) => saved.data_epoch,
            saved => {
                let before = saved.as_ref().ok().and_then(|saved| saved.as_ref()).map(|(saved, _)| saved.data_epoch);
                let new_after = DataEpoch::new_after(cluster, node, world.clock.wall_ms(), before);
                tracing::warn!(
                    epoch = new_after.epoch,
                    "the data may have been set back, by a restore or a power cut: whoever watches begins anew"
                );
                new_after
            }
        };
        let known = Known { data_epoch, saved: !told, linked: BTreeSet::new() };
        let tracker = EpochTracker { path, told, known: Mutex::new(known) };
        tracker.save(&*world.disk);
        tracker
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.known.lock().data_epoch.epoch
    }

    /// A link to another node is up: what it is to be told. Nothing but the cluster's first epoch was ever drawn where no disk
    /// tells a file from its copies.
    pub fn linked(&self, node: NodeId) -> Option<DataEpoch> {
        let mut known = self.known.lock();
        known.linked.insert(node);
        self.told.then_some(known.data_epoch)
    }

    /// A link is lost.
    pub fn unlinked(&self, node: NodeId) {
        self.known.lock().linked.remove(&node);
    }

    /// Another node has told this one. If it holds from now on, the nodes that are to be told of it.
    pub fn on_announced(&self, data_epoch: DataEpoch) -> Option<Vec<NodeId>> {
        let mut known = self.known.lock();
        if data_epoch <= known.data_epoch {
            return None;
        }
        (known.data_epoch, known.saved) = (data_epoch, !self.told);
        Some(known.linked.iter().copied().collect())
    }

    /// Writes it down if it is not yet. What cannot be written is drawn anew at the next start.
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

/// Whether a file that says this place of itself is still what it was, and nothing after it was lost.
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

/// What the file says, and where it is; `None` if there is none.
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

/// Writes it to a new file, which then takes the place of the old one.
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
        EpochTracker { path: PathBuf::new(), told: false, known: Mutex::new(known) }
    }

    #[test]
    fn the_youngest_epoch_holds() {
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
    fn what_was_set_back_is_recognised() {
        let file_identity = |file: &str, boot: &str| FileIdentity { file: file.into(), boot: boot.into() };
        let saved = file_identity("1:2:3", "a");
        assert!(
            fits(&saved, &file_identity("1:2:3", "b"), Fsync::Always),
            "every acknowledged change survives a power cut"
        );
        assert!(!fits(&saved, &file_identity("1:9:4", "a"), Fsync::Always), "a copy");
        assert!(fits(&saved, &file_identity("1:2:3", "a"), Fsync::Never), "the same life of the machine");
        assert!(!fits(&saved, &file_identity("1:2:3", "b"), Fsync::Interval(10)), "the machine was off");
        assert!(!fits(&file_identity("1:2:3", ""), &file_identity("1:2:3", ""), Fsync::Never), "there is no telling");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = "epoch = 5\nborn_ms = 6\nfile = 1:2:3\nboot = x\n";
        let saved = parse(text).expect("a good file");
        assert_eq!((saved.data_epoch.epoch, saved.data_epoch.born_ms, saved.file_identity.boot.as_str()), (5, 6, "x"));
        for bad in ["", "epoch = x\nborn_ms = 6\nfile = 1\nboot = x\n", "epoch = 5\nborn_ms = 6\n"] {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }
}
