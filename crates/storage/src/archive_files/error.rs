//! Errors of archives, with what the operator should do.

use std::io;
use std::path::{Path, PathBuf};

use boxoffice_core::version::OtherVersion;
use boxoffice_env::store::is_no_space;

/// An archive cannot be written or read. Selling does not depend on it.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk is full.
    #[error("no room for the archive {}: {source}; free space on its disk", .file.display())]
    Full {
        /// The file that was being written.
        file: PathBuf,
        source: io::Error,
    },
    /// Its content has changed.
    #[error("the archive {} is damaged: {why}; remove it: only history is lost with it", .file.display())]
    Damaged { file: PathBuf, why: String },
    /// A program of another version wrote it.
    #[error("the archive {} was {version}; start a release that reads it, or remove it: only history is lost with it", .file.display())]
    OtherVersion { file: PathBuf, version: OtherVersion },
    /// The segment cannot be read.
    #[error("{0}")]
    Log(String),
    /// The file system failed.
    #[error("cannot {doing} {}: {source}; check the disk", .file.display())]
    Io {
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        source: io::Error,
    },
}

pub(super) fn failed<'a>(doing: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> ArchiveError + use<'a> {
    move |source| match is_no_space(&source) {
        true => ArchiveError::Full { file: file.to_owned(), source },
        false => ArchiveError::Io { doing, file: file.to_owned(), source },
    }
}
