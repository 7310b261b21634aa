//! Queues of reads of the store, for those who must not wait: the replicators, and the owner's actors and feeds. Each read goes to one
//! of a few [threads or tasks](crate::history_reader), and the answer comes back when the disk has given it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use boxoffice_core::id::Entity;
use boxoffice_shard::ShardId;
use boxoffice_storage::history::{HistoryStoreError, StoredEntity};

use crate::inbox::Inbox;

/// Readers. A shard's reads go to the same one, so that a stuck read holds up few other shards.
const READERS: usize = 4;
/// Reads of the owner that may wait. Replays are bounded by their entries.
const OWNERS_MAX: usize = 4_096;

/// Takes the record that was read. It runs on the reader's thread and must not block.
pub type OnRead = Box<dyn FnOnce(Result<Option<StoredEntity>, ReadError>) + Send>;

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Too many reads wait.
    #[error("too many reads of the store wait")]
    Busy,
    /// There is no room to open the store. It can be read when there is some.
    #[error(transparent)]
    Full(HistoryStoreError),
    /// It cannot be read.
    #[error(transparent)]
    Damaged(HistoryStoreError),
}

/// What a replicator gets for a record that it asked for.
pub(crate) enum Found {
    /// The record, if there is one.
    Record(Option<StoredEntity>),
    /// It is damaged, and it is noted durably that it lacks events.
    Behind,
    /// There is no room to open the store or to write the note.
    Later,
}

/// A read.
pub(crate) struct Order {
    pub(crate) shard: ShardId,
    pub(crate) entity: Entity,
    pub(crate) then: Then,
}

/// Who gets the record.
pub(crate) enum Then {
    /// The replicator of the shard gets it, for the wait of this number.
    Replay(u64),
    Owner(OnRead),
}

/// The queues of the readers, which end when this is dropped.
pub struct HistoryReads {
    pub(crate) queues: [Arc<Inbox<Order>>; READERS],
    owners: AtomicUsize,
}

impl HistoryReads {
    /// Queues without readers.
    pub(crate) fn new() -> HistoryReads {
        HistoryReads { queues: Default::default(), owners: AtomicUsize::new(0) }
    }

    /// Reads the record of an entity, and hands it to `then`, at once if too many reads wait.
    pub fn read(&self, shard: ShardId, entity: Entity, then: OnRead) {
        if self.owners.fetch_add(1, Ordering::Relaxed) >= OWNERS_MAX {
            self.owners.fetch_sub(1, Ordering::Relaxed);
            return then(Err(ReadError::Busy));
        }
        self.push(Order { shard, entity, then: Then::Owner(then) });
    }

    /// Reads a record for the wait of this number of the shard's replicator.
    pub(crate) fn replay(&self, shard: ShardId, wait: u64, entity: Entity) {
        self.push(Order { shard, entity, then: Then::Replay(wait) });
    }

    /// A read of the owner was taken from its queue.
    pub(crate) fn taken(&self) {
        self.owners.fetch_sub(1, Ordering::Relaxed);
    }

    fn push(&self, order: Order) {
        self.queues[usize::from(order.shard) % READERS].push(order);
    }
}

impl Drop for HistoryReads {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.close());
    }
}
