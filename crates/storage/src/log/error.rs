//! Why the log refuses, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

const REMEDY: &str = "do not start this node from it: in a cluster empty its data directory and let \
                    it join anew; a single node needs its latest backup";

/// An error of the log, for the operator.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk has no room for a new segment and what was made ahead is used up. Nothing was
    /// written; the log goes on by itself once there is room.
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
        /// The log's directory.
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
    /// The log holds something that was written whole and is no longer what was written.
    #[error("the log is damaged: {} at byte {offset}{}: {why}; {ANEW}", .file.display(), of_record(.seq))]
    Damaged {
        /// The segment.
        file: PathBuf,
        /// Position in bytes in the file.
        offset: u64,
        /// The record, where it is known.
        seq: Option<u64>,
        /// What is wrong with it.
        why: String,
    },
    /// A segment between others is gone.
    #[error("segment {number} of the log in {} is missing; put it back, or else {ANEW}", .dir.display())]
    MissingSegment {
        /// The segment's number.
        number: u64,
        /// The log's directory.
        dir: PathBuf,
    },
    /// There was a log and now there is none.
    #[error("the log in {} is gone; put it back, or else {ANEW}", .dir.display())]
    Missing {
        /// The log's directory.
        dir: PathBuf,
    },
    /// A segment of another node's log.
    #[error(
        "{} belongs to the log of another node ({found:032x}, this one is {owner:032x}); put it back \
         where it came from",
        .file.display()
    )]
    Foreign {
        /// The segment.
        file: PathBuf,
        /// Whose it is.
        found: u128,
        /// Whose log this is.
        owner: u128,
    },
    /// A segment written by another version of this program.
    #[error(
        "{} has format {found}, this program writes and reads format {known}; start the version that \
         wrote it",
        .file.display()
    )]
    OtherVersion {
        /// The segment.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this program.
        known: u32,
    },
    /// The file system refused. After a failed write or sync the log cannot be used any more.
    #[error("cannot {doing} {}: {source}; check the disk, then start the node again", .file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// The file system's answer.
        source: io::Error,
    },
    /// An earlier write or sync failed; what is on the disk is in doubt.
    #[error("the log cannot be used any more: {reason}; check the disk, then start the node again")]
    Unusable {
        /// The failure that ended it.
        reason: String,
    },
    /// The configuration asks for what cannot be.
    #[error("{what}; correct the configuration of the log")]
    BadConfig {
        /// The value and its limits.
        what: String,
    },
}

impl LogError {
    /// Makes an [`LogError::Io`] of an error met while `doing` something with `file`.
    pub(super) fn io<'a>(doing: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> LogError + use<'a> {
        move |source| LogError::Io { doing, file: file.to_owned(), source }
    }
}

fn of_record(seq: &Option<u64>) -> String {
    seq.map_or(String::new(), |seq| format!(", record {seq}"))
}
