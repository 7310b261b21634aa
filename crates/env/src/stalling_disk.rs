//! A disk whose reads of files can be made to stand still, for tests: as one that answers after seconds.

use std::{io, path::Path, sync::Arc, time::Duration};

use super::{
    disk::{Disk, DiskFile, DiskLock, FileIdentity, OpenMode},
    read_gate::ReadGate,
};

/// A disk over another one. Clones share the stall. Only reads of a file's content wait.
#[derive(Clone)]
pub struct StallingDisk {
    inner: Arc<dyn Disk>,
    gate: Arc<ReadGate>,
}

struct StallingFile {
    inner: Arc<dyn DiskFile>,
    gate: Arc<ReadGate>,
}

impl StallingDisk {
    /// A disk over this one, whose reads go on.
    pub fn new(inner: Arc<dyn Disk>) -> StallingDisk {
        StallingDisk { inner, gate: Arc::default() }
    }

    /// What lets reads wait.
    pub fn gate(&self) -> &ReadGate {
        &self.gate
    }
}

impl Disk for StallingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(StallingFile { inner: self.inner.open(path, mode)?, gate: Arc::clone(&self.gate) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list_dirs(dir)
    }

    fn move_dir(&self, from: &Path, to: Option<&Path>) -> io::Result<()> {
        self.inner.move_dir(from, to)
    }

    fn restrict_to_owner(&self, dir: &Path) -> io::Result<()> {
        self.inner.restrict_to_owner(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.inner.lock(path)
    }

    fn file_identity(&self, path: &Path) -> io::Result<Option<FileIdentity>> {
        self.inner.file_identity(path)
    }

    fn take_delay(&self) -> Duration {
        self.inner.take_delay()
    }
}

impl DiskFile for StallingFile {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.gate.pass();
        self.inner.read_exact_at(bytes, at)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.inner.write_all_at(bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.inner.set_length(length)
    }
}
