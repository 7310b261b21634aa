//! Errors of the log, with what the operator should do.

use std::io;
use std::path::{Path, PathBuf};

use boxoffice_core::version::OtherVersion;

const REMEDY: &str = "a node of a cluster gets everything from the others; a single node needs its latest backup";

/// An error of the log, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk has no room for a new segment, and the preallocated one is used up. Nothing was written. The log
    /// recovers by itself once there is room.
    #[error(
        "the log is full: {needed} bytes are to be written, {left} are left; free space on the disk \
         of {}, writing then resumes by itself within seconds",
        .dir.display()
    )]
    Full {
        /// Bytes of the record.
        needed: u64,
        /// Bytes left, the reserve among them.
        left: u64,
        dir: PathBuf,
    },
    /// One record does not fit into a segment. Nothing was written.
    #[error(
        "a record of {bytes} bytes does not fit into a segment of the log, {max} would; write less \
         at a time or make segments larger"
    )]
    TooLarge {
        /// Bytes of the record.
        bytes: u64,
        /// The most bytes a record may have.
        max: u64,
    },
    /// A completely written record or page has changed since.
    #[error("the log is damaged: {} at byte {offset}{}: {why}; {REMEDY}", .file.display(), of_record(.seq))]
    Damaged {
        /// The segment.
        file: PathBuf,
        /// Position in bytes in the file.
        offset: u64,
        /// The record, where it is known.
        seq: Option<u64>,
        why: String,
    },
    /// A segment between others is gone.
    #[error("segment {number} of the log in {} is missing; put it back, or else {REMEDY}", .dir.display())]
    MissingSegment {
        /// The segment's number.
        number: u64,
        dir: PathBuf,
    },
    /// The log existed before and is gone.
    #[error("the log in {} is gone; put it back, or else {REMEDY}", .dir.display())]
    Missing { dir: PathBuf },
    /// A segment of another node's log.
    #[error(
        "{} belongs to the log of another node ({found:032x}, this one is {owner:032x}); put it back \
         where it came from",
        .file.display()
    )]
    Foreign {
        /// The segment.
        file: PathBuf,
        /// Its owner.
        found: u128,
        /// The owner of this log.
        owner: u128,
    },
    /// A segment written by a program of another version.
    #[error("{} was {version}; start a release that reads it", .file.display())]
    OtherVersion {
        /// The segment.
        file: PathBuf,
        version: OtherVersion,
    },
    /// The file system failed. After a failed write or sync the log is unusable.
    #[error("cannot {doing} {}: {source}; check the disk, then start the node again", .file.display())]
    Io {
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        source: io::Error,
    },
    /// An earlier write or sync failed, so the content of the disk is in doubt.
    #[error("the log cannot be used any more: {reason}; check the disk, then start the node again")]
    Unusable {
        /// The failure that ended it.
        reason: String,
    },
    /// A value of the configuration is out of its limits.
    #[error("{what}; correct the configuration of the log")]
    BadConfig {
        /// The value and its limits.
        what: String,
    },
}

impl LogError {
    /// Whether the log has lost something that was durable.
    pub fn is_damage(&self) -> bool {
        matches!(self, LogError::Damaged { .. } | LogError::MissingSegment { .. } | LogError::Missing { .. })
    }

    /// Converts an error of the operation `doing` on `file`.
    pub(super) fn io<'a>(doing: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> LogError + use<'a> {
        move |source| LogError::Io { doing, file: file.to_owned(), source }
    }
}

fn of_record(seq: &Option<u64>) -> String {
    seq.map_or(String::new(), |seq| format!(", record {seq}"))
}
