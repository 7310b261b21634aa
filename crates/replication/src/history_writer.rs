//! The history writer, a thread or a task. It writes entities that leave memory into the store, and segments of the log
//! into archives.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak, atomic::Ordering},
    thread,
    time::Duration,
};

use boxoffice_core::state_map::EvictionCandidate;
use boxoffice_shard::ShardId;
use boxoffice_storage::{archive_files::ArchiveError, chain_file::ChainPlace, history::HistoryStoreError};

use crate::{
    error::ReplicationError,
    inbox::{Inbox, wait_for_disk},
    owner::Completion,
    replication::Replication,
    runner::Runner,
};

/// Entities of one batch.
const BATCH: usize = 512;
/// The store is synced after this number of written entities …
const SYNC_ENTITIES: usize = 4_096;
/// … or after this many milliseconds. Until then the entities are in memory as well.
const SYNC_MS: u64 = 250;
/// Milliseconds between pieces of the scan that fills the filter. The scan reads the whole store, and the node has other work.
const FILL_MS: u64 = 1;
/// Milliseconds between attempts on a full disk.
const RETRY_MS: u64 = 1_000;
/// After a segment of the log is archived, the next one waits this many times as long as that took. A snapshot releases many
/// segments at once, and archiving them in one go takes a processor from the node for a second.
const ARCHIVE_REST: u64 = 5;
/// The longest rest. The process may have been stopped, or the disk sick, while a segment was archived.
const ARCHIVE_REST_MS_MAX: u64 = 10_000;
/// If more segments wait, they do not rest, because they take room on the disk.
const ARCHIVE_WAITING_MAX: usize = 8;

/// An order to the history writer.
pub(crate) enum Order {
    /// These entities may leave memory. The queue has no bound of its own, because they are in memory anyway and a full disk
    /// stops selling.
    Leave(ShardId, Vec<EvictionCandidate>),
    /// The shard has no replica here any more. Its records are removed, some at a time.
    Clear(ShardId),
    /// This segment of the log is no longer needed. Archive it, then report it.
    Archive(u64),
    /// Keep these places of the chains.
    Chain(Vec<ChainPlace>),
    /// Save the durable positions of other nodes.
    Neighbours,
}

/// The queue of the history writer, which ends when this is dropped.
pub(crate) struct HistoryWriter(Arc<Inbox<Order>>);

impl HistoryWriter {
    /// Starts it.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start<T: Completion>(
        replication: &Arc<Replication<T>>,
        runner: &Runner,
    ) -> Result<HistoryWriter, ReplicationError> {
        let orders = Arc::new(Inbox::default());
        let mut work = Work {
            replication: Arc::downgrade(replication),
            orders: Arc::clone(&orders),
            batches: Vec::new(),
            written: Vec::new(),
            segments: ArchiveQueue::default(),
            clears: Vec::new(),
            fills: true,
            written_ms: 0,
            failures: 0,
        };
        match runner {
            Runner::Tasks(spawn) => spawn(Box::pin(async move { work.run_as_task().await })),
            Runner::Threads => {
                let thread = thread::Builder::new().name("history".into()).spawn(move || work.run());
                thread.map_err(|error| ReplicationError::Resources(format!("thread for the history ({error})")))?;
            }
        }
        Ok(HistoryWriter(orders))
    }

    /// Queues an order.
    pub(crate) fn order(&self, order: Order) {
        self.0.push(order);
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Work<T> {
    replication: Weak<Replication<T>>,
    orders: Arc<Inbox<Order>>,
    /// To be written, in order.
    batches: Vec<(ShardId, Vec<EvictionCandidate>)>,
    /// Written since the last sync. Written again if the store fails before the next sync.
    written: Vec<(ShardId, Vec<EvictionCandidate>)>,
    segments: ArchiveQueue,
    /// Shards whose records are to be removed.
    clears: Vec<ShardId>,
    /// The filter lacks records that the store had at the start.
    fills: bool,
    /// When the first of `written` was written.
    written_ms: u64,
    /// The store's failures when the first of `written` was written.
    failures: u64,
}

/// The result of a step.
enum Went {
    /// Something may be left to do at once.
    On,
    /// Wait for this many milliseconds, unless an order comes.
    Wait(u64),
}

/// How long the history writer waits for orders when there is nothing else to do.
const FOREVER: Duration = Duration::MAX;

impl<T: Completion> Work<T> {
    fn run(&mut self) {
        let orders = Arc::clone(&self.orders);
        let (mut taken, mut wait) = (Vec::new(), Duration::ZERO);
        loop {
            orders.take(&mut taken, wait);
            match self.turn(&mut taken) {
                Some(next) => wait = next,
                None => return,
            }
        }
    }

    async fn run_as_task(&mut self) {
        let orders = Arc::clone(&self.orders);
        let (mut taken, mut wait) = (Vec::new(), Duration::ZERO);
        loop {
            orders.taken(&mut taken, wait).await;
            match self.turn(&mut taken) {
                Some(next) => wait = next,
                None => return,
            }
            let Some(disk) = self.replication.upgrade().map(|replication| Arc::clone(&replication.world.disk)) else {
                return;
            };
            wait_for_disk(&*disk).await;
        }
    }

    /// Takes orders and does one piece of work. Returns how long to wait for more orders, `None` at the end.
    fn turn(&mut self, taken: &mut Vec<Order>) -> Option<Duration> {
        // Without the replication nothing can be evicted. The next start begins again.
        if taken.is_empty() && self.orders.is_closed() {
            return None;
        }
        let replication = self.replication.upgrade()?;
        for order in taken.drain(..) {
            match order {
                Order::Neighbours => {
                    // If this fails, only nodes that do not restart meanwhile can detect an old copy of a disk.
                    if let Err(error) =
                        replication.directory.save_peer_positions(&*replication.world.disk, &replication.peer_positions)
                    {
                        tracing::warn!(%error, "what other nodes say of their disks is not written down");
                    }
                }
                Order::Chain(places) => {
                    // Without a place a verification begins later.
                    if let Err(error) = replication.chain.append(&places) {
                        tracing::warn!(%error, "places of the chains of entries are not written down");
                    }
                }
                Order::Leave(shard, leaving) => self.batches.push((shard, leaving)),
                Order::Archive(number) => self.segments.queue.push_back(number),
                Order::Clear(shard) => {
                    // Entities of a removed replica need not be kept.
                    self.batches.retain(|(of, _)| *of != shard);
                    self.clears.push(shard);
                }
            }
        }
        let went = match self.step(&replication) {
            Ok(went) => went,
            Err(error) => {
                replication.replicators.fail(error);
                return None;
            }
        };
        match went {
            _ if self.is_idle() => Some(FOREVER),
            Went::On => Some(Duration::ZERO),
            Went::Wait(ms) => Some(Duration::from_millis(ms)),
        }
    }

    /// Does one piece of work. The node may go on for a while without it, but never after a failure.
    fn step(&mut self, replication: &Replication<T>) -> Result<Went, ReplicationError> {
        let now_ms = replication.world.clock.monotonic_ms();
        let (went, is_full) = match self.write(replication, now_ms) {
            Ok(went) => {
                self.tell_full(replication, None);
                (went, false)
            }
            Err(HistoryStoreError::Store(error)) if error.is_full() => {
                self.tell_full(replication, Some(&error.to_string()));
                self.write_again(replication);
                (Went::Wait(RETRY_MS), true)
            }
            Err(error) => return Err(error.into()),
        };
        let Went::Wait(mut ms) = went else { return Ok(Went::On) };
        match self.segments.next(now_ms, is_full) {
            Next::Archive(number) => {
                return self.archive(replication, number).map(|done| if done { Went::On } else { Went::Wait(ms) });
            }
            Next::Rest(rest_ms) => ms = ms.min(rest_ms),
            Next::Nothing => {}
        }
        match self.clear(replication)? {
            Some(cleared) => Ok(cleared),
            // The scan pauses, because each of its pieces would try the full disk again.
            None if is_full => Ok(Went::Wait(ms)),
            None => Ok(Went::Wait(self.fill(replication).map_or(ms, |fill_ms| fill_ms.min(ms)))),
        }
    }

    fn is_idle(&self) -> bool {
        self.batches.is_empty()
            && self.written.is_empty()
            && self.segments.queue.is_empty()
            && self.clears.is_empty()
            && !self.fills
    }

    /// Removes some records of a shard that has moved away, if there is one and nothing else is due. Records that are left when
    /// the node ends are removed after its next start.
    fn clear(&mut self, replication: &Replication<T>) -> Result<Option<Went>, ReplicationError> {
        let Some(&shard) = self.clears.first() else { return Ok(None) };
        match replication.history.remove_some(shard) {
            Ok(true) => {}
            Ok(false) => _ = self.clears.remove(0),
            Err(HistoryStoreError::Store(error)) if error.is_full() => return Ok(Some(Went::Wait(RETRY_MS))),
            Err(error) => return Err(error.into()),
        }
        Ok(Some(Went::On))
    }

    /// Adds some records to the filter, when nothing else is due. Returns after how many milliseconds to go on, `None` if there
    /// are no more.
    fn fill(&mut self, replication: &Replication<T>) -> Option<u64> {
        if !self.fills {
            return None;
        }
        match replication.history.fill_filter() {
            Ok(true) => Some(FILL_MS),
            Ok(false) => {
                self.fills = false;
                None
            }
            Err(HistoryStoreError::Store(error)) if error.is_full() => Some(RETRY_MS),
            Err(error) => {
                tracing::error!(%error, "the store cannot be read as a whole: lookups of new entities stay slow");
                self.fills = false;
                None
            }
        }
    }

    fn write(&mut self, replication: &Replication<T>, now_ms: u64) -> Result<Went, HistoryStoreError> {
        if !self.batches.is_empty() {
            let count = self.next_batch();
            if self.written.is_empty() {
                (self.written_ms, self.failures) = (now_ms, replication.history.failures());
            }
            replication.history.write(&self.batches[..count])?;
            let left: usize = self.batches[..count].iter().map(|(_, leaving)| leaving.len()).sum();
            replication.metrics.left.fetch_add(left as u64, Ordering::Relaxed);
            self.written.extend(self.batches.drain(..count));
        }
        let entities: usize = self.written.iter().map(|(_, leaving)| leaving.len()).sum();
        let is_due = entities >= SYNC_ENTITIES || now_ms.saturating_sub(self.written_ms) >= SYNC_MS;
        if self.written.is_empty() || !is_due {
            let left_ms = match self.written.is_empty() {
                true => SYNC_MS,
                false => (self.written_ms + SYNC_MS).saturating_sub(now_ms),
            };
            return Ok(if self.batches.is_empty() { Went::Wait(left_ms.clamp(1, SYNC_MS)) } else { Went::On });
        }
        replication.history.sync()?;
        replication.metrics.history_syncs.fetch_add(1, Ordering::Relaxed);
        if replication.history.failures() == self.failures {
            self.forget(replication)?;
        } else {
            // An incoming snapshot has run out of room meanwhile.
            self.write_again(replication);
        }
        Ok(Went::On)
    }

    /// Everything that was written and not synced is to be written again.
    fn write_again(&mut self, replication: &Replication<T>) {
        replication.history.will_rewrite();
        let again = std::mem::take(&mut self.written);
        self.batches.splice(0..0, again);
    }

    /// How many waiting batches are written at once, [`BATCH`] entities at most. A first batch that is too large is cut.
    fn next_batch(&mut self) -> usize {
        let (shard, first) = &mut self.batches[0];
        if first.len() > BATCH {
            let rest = (*shard, first.split_off(BATCH));
            self.batches.insert(1, rest);
        }
        let mut entities = 0;
        let fits = self.batches.iter().take_while(|(_, leaving)| {
            entities += leaving.len();
            entities <= BATCH
        });
        fits.count()
    }

    /// Evicts durable entities from memory. Snapshots cut from now on depend on the store.
    fn forget(&mut self, replication: &Replication<T>) -> Result<(), HistoryStoreError> {
        for (shard, leaving) in self.written.drain(..) {
            let batches = replication.history.shard(shard)?.batches;
            let mut replica = replication.shard(shard).replica.lock();
            replica.store_batches = batches;
            for leaving in leaving {
                replica.kept.evict(&leaving.entity, leaving.index);
            }
        }
        Ok(())
    }

    fn tell_full(&self, replication: &Replication<T>, full: Option<&str>) {
        let was = replication.history_full.swap(full.is_some(), Ordering::Relaxed);
        match full {
            Some(why) if !was => tracing::error!(why, "what has ended cannot be taken out of memory"),
            None if was => tracing::warn!("what has ended is taken out of memory again"),
            Some(_) | None => {}
        }
    }

    /// Archives the oldest waiting segment. `false` if it must wait for room on the disk. A segment that cannot be read is given
    /// up, and only its history is lost.
    fn archive(&mut self, replication: &Replication<T>, number: u64) -> Result<bool, ReplicationError> {
        let begun_ms = replication.world.clock.monotonic_ms();
        match keep(replication, number) {
            Ok(()) => _ = replication.metrics.archived.fetch_add(1, Ordering::Relaxed),
            Err(error @ ArchiveError::Full { .. }) => {
                tracing::warn!(number, %error, "a segment of the log waits for its archive");
                return Ok(false);
            }
            Err(error) => {
                tracing::error!(number, %error, "a segment of the log is not archived: the history ends before it")
            }
        }
        self.segments.archived(begun_ms, replication.world.clock.monotonic_ms());
        replication.replicators.archived(number);
        Ok(true)
    }
}

/// Archives a segment. Kept snapshots take a part of the room, at most half, and go with the entries after them. They give way first,
/// because a new one may be larger than that.
fn keep<T>(replication: &Replication<T>, number: u64) -> Result<(), ArchiveError> {
    let Replication { archives, kept_snapshots, config, .. } = replication;
    let bytes_max = config.history_archive_bytes;
    let prune_kept = || {
        // An archive that cannot be read may begin anywhere.
        if let Err(error) = kept_snapshots.prune(bytes_max / 2, |shard| archives.first_of(shard).unwrap_or(None)) {
            tracing::warn!(%error, "kept snapshots that are no longer needed stay");
        }
    };
    prune_kept();
    let kept_bytes = kept_snapshots.bytes().unwrap_or_else(|error| {
        tracing::warn!(%error, "kept snapshots cannot be measured");
        0
    });
    archives.archive(&replication.log_dir, number, room_of_archives(bytes_max, kept_bytes))?;
    prune_kept();
    Ok(())
}

/// The bytes that archives may take beside so many bytes of kept snapshots, at least half of the room: snapshots that were kept since
/// the last pruning may exceed their half until the next one.
fn room_of_archives(bytes_max: u64, kept_bytes: u64) -> u64 {
    bytes_max - kept_bytes.min(bytes_max / 2)
}

/// Segments to be archived, oldest first, and the rest before the next one.
#[derive(Default)]
struct ArchiveQueue {
    queue: VecDeque<u64>,
    rests_until_ms: u64,
}

/// The next step of the queue.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Archive this segment.
    Archive(u64),
    /// Nothing for this many milliseconds.
    Rest(u64),
    Nothing,
}

impl ArchiveQueue {
    /// A full disk needs the segment's room at once.
    fn next(&self, now_ms: u64, is_full: bool) -> Next {
        let Some(&number) = self.queue.front() else { return Next::Nothing };
        let rest_ms = self.rests_until_ms.saturating_sub(now_ms);
        match rest_ms == 0 || is_full || self.queue.len() > ARCHIVE_WAITING_MAX {
            true => Next::Archive(number),
            false => Next::Rest(rest_ms),
        }
    }

    /// The oldest one was archived between these two times.
    fn archived(&mut self, begun_ms: u64, ended_ms: u64) {
        self.queue.pop_front();
        let rest_ms = ended_ms.saturating_sub(begun_ms).saturating_mul(ARCHIVE_REST);
        self.rests_until_ms = ended_ms + rest_ms.min(ARCHIVE_REST_MS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_half_of_the_room_however_large_kept_snapshots_are() {
        let rooms = [0, 30, 50, 51, 100, u64::MAX].map(|kept_bytes| room_of_archives(100, kept_bytes));
        assert_eq!(rooms, [100, 70, 50, 50, 50, 50]);
        assert_eq!(room_of_archives(0, 5), 0);
    }

    #[test]
    fn segments_are_archived_with_bounded_rests_unless_many_wait_or_the_disk_is_full() {
        let mut segments = ArchiveQueue { queue: (1..=12).collect(), rests_until_ms: 0 };
        assert_eq!(segments.next(0, false), Next::Archive(1), "the first one waits for nothing");
        segments.archived(1_000, 1_200);
        assert_eq!(segments.next(1_200, false), Next::Archive(2), "11 wait");
        segments.queue.drain(..3);
        assert_eq!(segments.next(1_200, false), Next::Rest(1_000));
        assert_eq!(segments.next(1_200, true), Next::Archive(5), "the disk is full");
        assert_eq!(segments.next(2_199, false), Next::Rest(1));
        assert_eq!(segments.next(2_200, false), Next::Archive(5));
        // The time of a simulation stands still meanwhile.
        segments.archived(5_000, 5_000);
        assert_eq!(segments.next(5_000, false), Next::Archive(6));
        segments.archived(6_000, 3_606_000);
        assert_eq!(
            segments.next(3_606_000, false),
            Next::Rest(ARCHIVE_REST_MS_MAX),
            "the process was stopped for an hour"
        );
        segments.queue.clear();
        assert_eq!(segments.next(5_000, false), Next::Nothing);
    }
}
