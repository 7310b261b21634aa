//! The operating system's files.
//!
//! A process without a free file descriptor waits for one, because that is no failure of the disk. Only the user of the
//! process can access the files.

#![allow(clippy::disallowed_methods, reason = "this is the one door to the system's files")]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::disk::{Disk, DiskFile, DiskLock, FileIdentity, OpenMode};

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
/// The pause between two attempts to get a file descriptor.
const RETRY: Duration = Duration::from_millis(20);

/// Whether the process, or the system, has no file descriptor left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.raw_os_error().is_some_and(|code| [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code))
}

/// Repeats `attempt` until the process has a file descriptor for it.
pub(crate) fn with_descriptor<T>(what: &Path, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut waits = false;
    loop {
        match attempt() {
            Err(error) if is_out_of_descriptors(&error) => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::error!(file = %what.display(), %error, "there is no file descriptor left; waiting for one");
                }
                thread::sleep(RETRY);
            }
            done => {
                if waits {
                    tracing::warn!(file = %what.display(), "there are file descriptors again");
                }
                return done;
            }
        }
    }
}

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.read(true).write(true),
            OpenMode::Create => options.read(true).write(true).create_new(true).mode(FILE_MODE),
        };
        Ok(Arc::new(OsFile(with_descriptor(path, || options.open(path))?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        with_descriptor(dir, || File::open(dir))?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in with_descriptor(dir, || fs::read_dir(dir))? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                // A node writes no name that is not UTF-8.
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in with_descriptor(dir, || fs::read_dir(dir))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn move_dir(&self, from: &Path, to: Option<&Path>) -> io::Result<()> {
        match to {
            Some(to) => fs::rename(from, to),
            None => fs::remove_dir_all(from),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|place| !place.as_os_str().is_empty() && !place.exists()).collect();
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        for place in missing {
            let above = match place.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            self.sync_dir(above)?;
        }
        Ok(())
    }

    fn restrict_to_owner(&self, dir: &Path) -> io::Result<()> {
        fs::set_permissions(dir, Permissions::from_mode(DIR_MODE))
    }

    fn forget_cached(&self, path: &Path) {
        if let Ok(file) = File::open(path) {
            // Pages that are not written yet stay.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn file_identity(&self, path: &Path) -> io::Result<Option<FileIdentity>> {
        let found = fs::metadata(path)?;
        // Inode numbers are reused, so the birth of the file is part of its identity. Some file systems do not know it.
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let file = format!("{}:{}:{}", found.dev(), found.ino(), born.map_or(0, |born| born.as_nanos()));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Ok(Some(FileIdentity { file, boot }))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = with_descriptor(path, || options.open(path))?;
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
    use super::super::disk::contract;
    use super::*;

    #[test]
    fn it_meets_the_contract_of_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        contract::check(&OsDisk, &dir.path().join("data/below"));
    }

    #[test]
    fn files_and_directories_are_for_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("data/below");
        OsDisk.create_dir_all(&below).unwrap();
        let file = below.join("file");
        drop(OsDisk.open(&file, OpenMode::Create).unwrap());
        drop(OsDisk.lock(&below.join("lock")).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&dir.path().join("data")), mode(&below)], [0o700; 2]);
        assert_eq!([mode(&file), mode(&below.join("lock"))], [0o600; 2]);
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        OsDisk.restrict_to_owner(&below).unwrap();
        assert_eq!(mode(&below), 0o700);
    }
}
