//! Files as a node needs them. All calls block.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist and is only read.
    Read,
    /// It must exist, and is read and written.
    Write,
    /// It must not exist, and is read and written.
    Create,
}

/// Distinguishes a file from its copies, and one boot of the machine from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device, inode and birth of the file. A copy has others.
    pub file: String,
    /// The current boot of the machine, empty if it is unknown.
    pub boot: String,
}

/// The file system below a node.
///
/// Created, renamed and removed names survive a power cut only after [`Disk::sync_dir`], the content of a file only
/// after [`DiskFile::sync_data`].
pub trait Disk: Send + Sync {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As the file system says: `NotFound`, `AlreadyExists`, `StorageFull`, and others.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives the file at `from` the name `to`, and atomically replaces a file of that name.
    ///
    /// # Errors
    /// As the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file at `path`.
    ///
    /// # Errors
    /// As the file system says, `NotFound` for a missing file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the directory `dir` durable.
    ///
    /// # Errors
    /// As the file system says. The names are then in doubt.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The names of the files in `dir`, sorted. Directories are left out.
    ///
    /// # Errors
    /// As the file system says, `NotFound` for a missing directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates `dir` and its missing parents, durably.
    ///
    /// # Errors
    /// As the file system says.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// The names of the directories in `dir`, sorted.
    ///
    /// # Errors
    /// As the file system says, `NotFound` for a missing directory.
    fn list_dirs(&self, _dir: &Path) -> io::Result<Vec<String>> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Gives the directory at `from`, with everything below it, the name `to`, which must not exist. Without `to` it is removed.
    ///
    /// # Errors
    /// As the file system says, `NotFound` for a missing directory.
    fn move_dir(&self, _from: &Path, _to: Option<&Path>) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Makes `dir` accessible to its owner only. A simulated disk does nothing.
    ///
    /// # Errors
    /// As the file system says, for example if the process does not own `dir`.
    fn restrict_to_owner(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Lets the system forget what it keeps of a file in memory, so that the next read of it asks the disk. Only a hint.
    fn forget_cached(&self, _path: &Path) {}

    /// Free bytes on the file system of `dir`.
    ///
    /// # Errors
    /// As the file system says.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Creates the file at `path` if needed and locks it exclusively. The lock ends with the returned value or with the
    /// process. `None` if another process has the lock.
    ///
    /// # Errors
    /// As the file system says.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;

    /// The identity of the file at `path`. `None` where it is not known, as on a simulated disk.
    ///
    /// # Errors
    /// As the file system says, `NotFound` for a missing file.
    fn file_identity(&self, _path: &Path) -> io::Result<Option<FileIdentity>> {
        Ok(None)
    }

    /// How long the calls since the last `take_delay` would have blocked on a simulated disk. Its calls return at once,
    /// and the caller waits for this long afterwards. Zero for a real disk.
    fn take_delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// An exclusive lock that ends when this value is dropped.
pub trait DiskLock: Send + Sync {}

/// An open file, read and written at positions in bytes.
pub trait DiskFile: Send + Sync {
    /// Fills `bytes` from position `at`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before, others as the file system says.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes` at position `at`. The file grows if needed.
    ///
    /// # Errors
    /// As the file system says. A part may then be written.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes the content and length of the file durable.
    ///
    /// # Errors
    /// As the file system says. Everything written since the last success is then in doubt, and a later success proves
    /// nothing, so the caller must not trust this file again.
    fn sync_data(&self) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// As the file system says.
    fn length(&self) -> io::Result<u64>;

    /// Truncates the file to `length` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// As the file system says.
    fn set_length(&self, length: u64) -> io::Result<()>;
}

#[cfg(test)]
pub(super) mod contract {
    //! The contract of every disk, checked for the real one and for the one in memory.

    use super::*;

    pub(crate) fn check(disk: &dyn Disk, dir: &Path) {
        assert_eq!(disk.list(dir).unwrap_err().kind(), ErrorKind::NotFound);
        disk.create_dir_all(dir).unwrap();
        disk.create_dir_all(dir).unwrap();
        assert!(disk.list(dir).unwrap().is_empty());
        assert!(disk.free_bytes(dir).unwrap() > 0);

        let one = dir.join("one");
        let missing = disk.open(&one, OpenMode::Write).err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let file = disk.open(&one, OpenMode::Create).unwrap();
        assert_eq!(disk.open(&one, OpenMode::Create).err().unwrap().kind(), ErrorKind::AlreadyExists);
        file.write_all_at(b"seats", 1_000).unwrap();
        assert_eq!(file.length().unwrap(), 1_005);
        let mut read = [9; 7];
        file.read_exact_at(&mut read, 998).unwrap();
        assert_eq!(&read, b"\0\0seats");
        let short = file.read_exact_at(&mut read, 999).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        file.set_length(1_002).unwrap();
        file.set_length(2_000).unwrap();
        file.read_exact_at(&mut read, 998).unwrap();
        assert_eq!(&read, b"\0\0se\0\0\0");
        file.sync_data().unwrap();
        disk.sync_dir(dir).unwrap();

        let two = dir.join("two");
        drop(disk.open(&two, OpenMode::Create).unwrap());
        assert_eq!(disk.list(dir).unwrap(), ["one", "two"]);
        disk.rename(&one, &two).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["two"]);
        assert_eq!(disk.open(&two, OpenMode::Read).unwrap().length().unwrap(), 2_000);
        disk.remove(&two).unwrap();
        assert_eq!(disk.remove(&two).unwrap_err().kind(), ErrorKind::NotFound);
        // An open file outlives its name.
        assert_eq!(file.length().unwrap(), 2_000);

        let (below, moved) = (dir.join("below"), dir.join("moved"));
        assert_eq!(disk.move_dir(&below, Some(&moved)).unwrap_err().kind(), ErrorKind::NotFound);
        disk.create_dir_all(&below.join("deeper")).unwrap();
        disk.open(&below.join("deeper/file"), OpenMode::Create).unwrap().write_all_at(b"rows", 0).unwrap();
        disk.move_dir(&below, Some(&moved)).unwrap();
        assert_eq!(disk.list_dirs(dir).unwrap(), ["moved"]);
        assert_eq!(disk.list(&moved.join("deeper")).unwrap(), ["file"]);
        assert_eq!(disk.list(&below).unwrap_err().kind(), ErrorKind::NotFound);
        disk.move_dir(&moved, None).unwrap();
        assert!(disk.list_dirs(dir).unwrap().is_empty());

        let lock = dir.join("lock");
        let held = disk.lock(&lock).unwrap();
        assert!(held.is_some());
        assert!(disk.lock(&lock).unwrap().is_none());
        drop(held);
        assert!(disk.lock(&lock).unwrap().is_some());
    }
}
