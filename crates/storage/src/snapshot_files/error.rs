//! Errors of snapshot files, with what the operator should do.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use boxoffice_core::version::OtherVersion;

/// A snapshot cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk is full. Nothing of the new snapshot was left behind.
    #[error("no room for snapshot {}: {source}; free space on its disk", .file.display())]
    Full {
        /// The file that was being written.
        file: PathBuf,
        source: io::Error,
    },
    /// Every snapshot of a shard is damaged.
    #[error(
        "shard {shard} has no good snapshot: {}; a node of \
          a cluster gets everything from the others; a single node needs its latest backup",
        .reasons.join("; ")
    )]
    AllBad {
        shard: u16,
        /// The damage of each.
        reasons: Vec<String>,
    },
    /// A program of another version wrote it.
    #[error("the snapshot {} was {version}; start a release that reads it", .file.display())]
    OtherVersion { file: PathBuf, version: OtherVersion },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}; check the disk, then start the node again", .file.display())]
    Io {
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        source: io::Error,
    },
}

impl SnapshotError {
    /// Whether there is no such file.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, SnapshotError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}
