//! Why a snapshot cannot be kept or read, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a snapshot cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk is full; nothing of the new snapshot was left behind.
    #[error("no room for snapshot {}: {source}; free space on its disk", .file.display())]
    Full {
        /// The file that was being written.
        file: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
    /// Every snapshot of a shard is bad.
    #[error(
        "shard {shard} has no good snapshot: {}; restore the files from a backup, or in a cluster \
         empty this node's data directory and let it join anew",
        .reasons.join("; ")
    )]
    AllBad {
        /// The shard.
        shard: u16,
        /// What is wrong with each.
        reasons: Vec<String>,
    },
    /// The file system refused.
    #[error("cannot {doing} {}: {source}; check the disk, then start the node again", .file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
}
