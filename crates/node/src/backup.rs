//! What this node gives away for a backup, and the marks that a backup ends at.

use std::sync::Arc;

use boxoffice_replication::{error::ReplicationError, replication::Replication};
use boxoffice_storage::history::HistoryStoreError;
use bytes::Bytes;

pub use boxoffice_replication::{
    backup::{Collected, Gap, Part, Places, ShardPlace},
    restore::{self, BackupSource, MarkCut, RestoreError, Restored, Target},
};
pub use boxoffice_shard::{Record, ShardId};

use crate::{marks, node::NodeHandle, pending_commit::PendingCommit};

/// Some records of a shard, and the key of the last one if there are more.
pub type Records = (Vec<Bytes>, Option<Bytes>);

impl NodeHandle {
    /// Raises the mark, so that a cut through all shards begins. `None` while the cluster's version has no marks.
    pub fn raise_mark(&self) -> Option<u64> {
        marks::raise(&self.shared)
    }

    /// The shards with a replica here and the segments with the entries after `after`, the last known entry of each.
    ///
    /// # Errors
    /// As the disk says.
    pub async fn backup_places(
        &self,
        after: impl Fn(ShardId) -> u64 + Send + 'static,
    ) -> Result<Places, ReplicationError> {
        self.read_for_backup(move |replication| replication.backup_places(after)).await
    }

    /// The bytes of a part. `None` if it is not here any more.
    ///
    /// # Errors
    /// As the disk says, or that the part is damaged.
    pub async fn backup_part(&self, part: Part) -> Result<Option<Bytes>, ReplicationError> {
        self.read_for_backup(move |replication| replication.backup_part(part)).await
    }

    /// About `bytes` of a shard's records behind the key `after`.
    ///
    /// # Errors
    /// As the store says, or that a part of it is damaged.
    pub async fn backup_records(
        &self,
        shard: ShardId,
        after: Option<Bytes>,
        bytes: usize,
    ) -> Result<Records, HistoryStoreError> {
        self.read_for_backup(move |replication| replication.backup_records(shard, after.as_deref(), bytes)).await
    }

    /// Reads on a thread that may wait for the disk.
    async fn read_for_backup<R: Send + 'static>(
        &self,
        read: impl FnOnce(&Replication<PendingCommit>) -> R + Send + 'static,
    ) -> R {
        let replication = Arc::clone(&self.shared.replication);
        if self.shared.tasks.only() {
            return read(&replication);
        }
        let reading = self.shared.tasks.selling.spawn_blocking(move || read(&replication));
        // A panic in it ends the process by the hook.
        reading.await.expect("a read for a backup does not panic")
    }
}
