//! Reads everything on the disk now and then, so that damage is found before it is needed: snapshots, archives, segments of the log that
//! are not written any more, and the store.
//!
//! Files are read from the disk itself, past what the system keeps in memory, and slowly. A damaged snapshot is cut anew, and a damaged
//! archive or kept snapshot is removed. Other damage cannot be mended here, so the node asks for another disk ([`Replication::damage`]).

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use boxoffice_env::{Disk, OpenMode};
use boxoffice_storage::{chain_file, log, snapshot_files::SnapshotName};
use bytes::Bytes;
use tokio::time::sleep;

use crate::{error::ReplicationError, owner::Completion, replication::Replication, runner::Runner};

/// Bytes that are read in a second at most.
const BYTES_PER_SECOND: u64 = 2_000_000;

/// Bytes that are read at once.
const PIECE: u64 = 256 << 10;

/// The pause between two looks at the clock, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// The file in the data directory with the time of the last pass, in milliseconds since 1970.
const FILE: &str = "scrubbed";

/// Starts the passes. They end when the replication is dropped.
///
/// # Errors
/// No thread can be started.
pub(crate) fn start<T: Completion>(replication: &Arc<Replication<T>>, runner: &Runner) -> Result<(), ReplicationError> {
    let Some(every_ms) = replication.config.scrub_ms else { return Ok(()) };
    let mut scrub = Scrub::new(replication, every_ms);
    let weak = Arc::downgrade(replication);
    match runner {
        Runner::Tasks(spawn) => spawn(Box::pin(async move {
            while let Some(rest) = scrub.turn(&weak) {
                sleep(rest).await;
            }
        })),
        Runner::Threads => {
            let run = move || {
                while let Some(rest) = scrub.turn(&weak) {
                    thread::sleep(rest);
                }
            };
            let thread = thread::Builder::new().name("scrub".into()).spawn(run);
            thread.map_err(|error| ReplicationError::Resources(format!("thread for reading the disk ({error})")))?;
        }
    }
    Ok(())
}

/// One piece of a pass.
enum Piece {
    /// Some bytes of a file, which are read and not looked at.
    Bytes(PathBuf, u64),
    Snapshot(SnapshotName),
    Kept(SnapshotName),
    Archive(u64),
    /// The file with places of the chains.
    Chain,
    Segment(u64),
    /// Records of the store behind this key.
    Records(Option<Bytes>),
}

struct Scrub {
    every_ms: u64,
    /// When the next pass begins, in milliseconds since 1970.
    due_ms: u64,
    /// A pass is under way.
    runs: bool,
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Damaged snapshots whose place another one has not taken yet.
    damaged: Vec<SnapshotName>,
}

impl Scrub {
    fn new<T>(replication: &Replication<T>, every_ms: u64) -> Scrub {
        let disk = &*replication.world.disk;
        // A new directory was read by its network only.
        let last_ms = last_pass(disk, &replication.directory.file(FILE))
            .unwrap_or_else(|| replication.directory.identity().created_at_ms);
        let due_ms = due_ms(last_ms, replication.world.clock.wall_ms(), every_ms);
        Scrub { every_ms, due_ms, runs: false, pieces: VecDeque::new(), bytes: 0, damaged: Vec::new() }
    }

    /// Does one piece. Returns the pause before the next one, `None` at the end of the node.
    fn turn<T: Completion>(&mut self, replication: &Weak<Replication<T>>) -> Option<Duration> {
        let replication = replication.upgrade()?;
        self.remove_replaced(&replication);
        // The clock may have been set back.
        self.due_ms = self.due_ms.min(replication.world.clock.wall_ms().saturating_add(self.every_ms));
        let rest_ms = match self.pieces.pop_front() {
            Some(piece) => {
                let bytes = self.read(&replication, piece);
                self.bytes += bytes;
                (bytes * 1_000 / BYTES_PER_SECOND).max(1)
            }
            None if self.runs => self.end(&replication),
            None if replication.world.clock.wall_ms() >= self.due_ms => self.begin(&replication),
            None => LOOK_MS,
        };
        Some(Duration::from_millis(rest_ms))
    }

    fn begin<T>(&mut self, replication: &Replication<T>) -> u64 {
        (self.runs, self.bytes) = (true, 0);
        let disk = &*replication.world.disk;
        let file = |dir: PathBuf, name: &str| Piece::Bytes(dir.join(name), 0);
        // A directory that cannot be listed fails the node elsewhere.
        for name in replication.snapshot_files.list().unwrap_or_default() {
            self.pieces.push_back(file(replication.directory.snapshot_dir(), &name.file_name()));
            self.pieces.push_back(Piece::Snapshot(name));
        }
        for name in replication.kept_snapshots.list().unwrap_or_default() {
            self.pieces.push_back(file(replication.directory.archive_dir(), &name.file_name()));
            self.pieces.push_back(Piece::Kept(name));
        }
        for number in replication.archives.list().unwrap_or_default() {
            self.pieces.push_back(Piece::Bytes(replication.archives.path(number), 0));
            self.pieces.push_back(Piece::Archive(number));
        }
        self.pieces.push_back(file(replication.directory.archive_dir(), chain_file::FILE));
        self.pieces.push_back(Piece::Chain);
        for number in log::cold_segments(disk, &replication.log_dir).unwrap_or_default() {
            self.pieces.push_back(Piece::Bytes(log::segment_path(&replication.log_dir, number), 0));
            self.pieces.push_back(Piece::Segment(number));
        }
        forget_below(disk, &replication.directory.history_dir());
        self.pieces.push_back(Piece::Records(None));
        LOOK_MS
    }

    fn end<T>(&mut self, replication: &Replication<T>) -> u64 {
        self.runs = false;
        let now_ms = replication.world.clock.wall_ms();
        self.due_ms = now_ms.saturating_add(self.every_ms);
        replication.metrics.scrubs.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(bytes = self.bytes, "everything on the disk was read");
        // Without it the next process reads everything earlier.
        if let Err(error) = replication.directory.save_file(&*replication.world.disk, FILE, &now_ms.to_string()) {
            tracing::warn!(%error, "the time when the disk was read is not written down");
        }
        LOOK_MS
    }

    /// Returns how many bytes were read from the disk.
    fn read<T: Completion>(&mut self, replication: &Replication<T>, piece: Piece) -> u64 {
        let disk = &*replication.world.disk;
        match piece {
            Piece::Bytes(path, at) => match read_bytes(disk, &path, at) {
                Some(bytes) => {
                    if bytes == PIECE {
                        self.pieces.push_front(Piece::Bytes(path, at + bytes));
                    }
                    bytes
                }
                // It was removed meanwhile, or what reads it says why it cannot.
                None => 0,
            },
            Piece::Snapshot(name) => {
                // A snapshot that was removed meanwhile is none.
                if let Ok(Err(why)) = replication.snapshot_files.load(name) {
                    tracing::error!(shard = name.shard, why, "a snapshot is damaged; another one is cut");
                    note(&replication.metrics.scrub_findings);
                    replication.damaged_snapshots.lock().push(name);
                    self.damaged.push(name);
                }
                0
            }
            Piece::Kept(name) => {
                if let Ok(Err(why)) = replication.kept_snapshots.check(name) {
                    tracing::error!(
                        shard = name.shard,
                        why,
                        "a kept snapshot is damaged and is removed; the one before is used"
                    );
                    note(&replication.metrics.scrub_findings);
                    if let Err(error) = replication.kept_snapshots.remove(name) {
                        tracing::error!(%error, "it cannot be removed");
                    }
                }
                0
            }
            Piece::Archive(number) => {
                let is_there = || replication.archives.list().is_ok_and(|list| list.contains(&number));
                if let Some(why) = replication.archives.check(number).err().filter(|_| is_there()) {
                    tracing::error!(%why, "an archive is damaged and is removed; the history in it is lost here");
                    note(&replication.metrics.scrub_findings);
                    if let Err(error) = replication.archives.remove(number) {
                        tracing::error!(%error, "it cannot be removed");
                    }
                }
                0
            }
            Piece::Chain => {
                match replication.chain.mend() {
                    Ok(damaged) => {
                        for (number, why) in damaged {
                            tracing::error!(line = number, why, "a place of the chains is damaged and is removed");
                            note(&replication.metrics.scrub_findings);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "the places of the chains cannot be mended"),
                }
                0
            }
            Piece::Segment(number) => {
                let dir = &replication.log_dir;
                let is_cold = || log::cold_segments(disk, dir).is_ok_and(|cold| cold.contains(&number));
                // A segment that was released meanwhile has other bytes.
                let found = log::check_segment(disk, dir, number).err().filter(|_| is_cold());
                if let Some(error) =
                    found.and_then(|_| log::check_segment(disk, dir, number).err()).filter(|_| is_cold())
                {
                    tracing::error!(%error, "the log is damaged; what this process has in memory is good");
                    note(&replication.metrics.scrub_findings);
                    replication.found.lock().get_or_insert(error.to_string());
                }
                0
            }
            Piece::Records(after) => match replication.history.read_on(after.as_deref()) {
                Ok((bytes, Some(next))) => {
                    self.pieces.push_front(Piece::Records(Some(next)));
                    bytes
                }
                Ok((bytes, None)) => bytes,
                // There is no room to open it. The next pass reads it.
                Err(error) => {
                    tracing::warn!(%error, "the store is not read to its end");
                    0
                }
            },
        }
    }

    /// Removes damaged snapshots that are not needed any more.
    fn remove_replaced<T>(&mut self, replication: &Replication<T>) {
        if self.damaged.is_empty() {
            return;
        }
        let Ok(list) = replication.snapshot_files.list() else { return };
        self.damaged.retain(|damaged| {
            let is_replaced = list.iter().any(|other| other.shard == damaged.shard && other.index > damaged.index);
            let is_there = list.contains(damaged);
            // A shard without new entries has the same snapshot, written again.
            let is_mended = is_there && replication.snapshot_files.load(*damaged).is_ok_and(|loaded| loaded.is_ok());
            if !is_there || is_mended {
                return false;
            }
            !(is_replaced && replication.snapshot_files.remove(*damaged).is_ok())
        });
    }
}

/// When the first pass of a process begins. A last one that is still to come is a damaged file or a wrong clock, so it says nothing.
fn due_ms(last_ms: u64, now_ms: u64, every_ms: u64) -> u64 {
    if last_ms > now_ms { now_ms } else { last_ms.saturating_add(every_ms) }
}

fn note(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn last_pass(disk: &dyn Disk, path: &Path) -> Option<u64> {
    let file = disk.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.length().ok()?.min(32) as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
}

/// Reads a piece of a file from the disk. `None` if it cannot be read.
fn read_bytes(disk: &dyn Disk, path: &Path, at: u64) -> Option<u64> {
    if at == 0 {
        disk.forget_cached(path);
    }
    let file = disk.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.length().ok()?.checked_sub(at)?.min(PIECE) as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes.len() as u64)
}

fn forget_below(disk: &dyn Disk, dir: &Path) {
    for name in disk.list(dir).unwrap_or_default() {
        disk.forget_cached(&dir.join(name));
    }
    for below in disk.list_dirs(dir).unwrap_or_default() {
        forget_below(disk, &dir.join(below));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong bit in the file with the time of the last pass put the next one off for years.
    #[test]
    fn a_pass_is_not_put_off_by_a_time_to_come() {
        assert_eq!(due_ms(1_000, 1_500, 7_000), 8_000);
        assert_eq!(due_ms(1_000, 9_000, 7_000), 8_000);
        assert_eq!(due_ms(9_001_000, 1_500, 7_000), 1_500);
    }
}
