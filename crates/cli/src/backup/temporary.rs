//! A directory for the time of a command.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process, thread,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// The exit code after an interruption, as shells have it: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// A directory below that of `TMPDIR`, which only its owner can read. It is removed when this is dropped, and when the process is
/// interrupted, because it may have names and addresses of people.
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Makes it, once in a process. `what` is a part of its name.
    ///
    /// # Errors
    /// It cannot be made, or is there already.
    pub fn new(what: &str) -> Result<Temporary, Failure> {
        let path = env::temp_dir().join(format!("boxoffice-{what}-{}", process::id()));
        // Not with those above it, so that it fails if somebody else has made it.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::Usage(format!("cannot make {}: {error}; set TMPDIR", path.display())))?;
        let of_signal = path.clone();
        thread::spawn(move || {
            if wait_for_signal().is_ok() {
                remove(&of_signal);
                process::exit(INTERRUPTED);
            }
        });
        Ok(Temporary { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        eprintln!("boxoffice: {} cannot be removed: {error}", path.display());
    }
}

/// Waits for an interruption (SIGINT) or a request to end (SIGTERM).
fn wait_for_signal() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut end = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = end.recv() => {}
        }
        Ok(())
    })
}
