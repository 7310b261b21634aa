//! The operating system's files.

#![allow(clippy::disallowed_methods, reason = "this is the one door to the system's files")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, DiskLock, OpenMode};

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::Create => options.read(true).write(true).create_new(true),
        };
        Ok(Arc::new(OsFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                // A name that is not text is nobody's here; it is shown with marks in place.
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|place| !place.as_os_str().is_empty() && !place.exists()).collect();
        fs::create_dir_all(dir)?;
        for place in missing {
            let above = match place.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            self.sync_dir(above)?;
        }
        Ok(())
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(OsLock { _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The lock lives as long as the open file.
struct OsLock {
    _file: File,
}

impl DiskLock for OsLock {}

struct OsFile(File);

impl DiskFile for OsFile {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::promises;
    use super::*;

    #[test]
    fn it_keeps_the_promises_of_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        promises::check(&OsDisk, &dir.path().join("data/below"));
    }
}
