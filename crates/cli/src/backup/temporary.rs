//! A directory for the time of a command.

use std::{
    env, fs,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process,
};

use crate::failure::Failure;

/// A directory below that of `TMPDIR`, which only its owner can read. It is removed when this is dropped.
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Makes it. `what` is a part of its name.
    ///
    /// # Errors
    /// It cannot be made, or is there already.
    pub fn new(what: &str) -> Result<Temporary, Failure> {
        let path = env::temp_dir().join(format!("boxoffice-{what}-{}", process::id()));
        // Not with those above it, so that it fails if somebody else has made it.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::Usage(format!("cannot make {}: {error}; set TMPDIR", path.display())))?;
        Ok(Temporary { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("boxoffice: {} cannot be removed: {error}", self.path.display());
        }
    }
}
