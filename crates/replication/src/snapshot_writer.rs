//! Snapshots of shards. The replication cuts them (a copy of references), and a thread or task of their own writes them, so that
//! selling does not wait for them.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use boxoffice_core::state_map::Cut;
use boxoffice_shard::{Input as EngineInput, ShardId, SnapshotMeta};
use boxoffice_storage::{
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};

use crate::{
    error::ReplicationError,
    inbox::{Inbox, wait_for_disk},
    owner::Completion,
    replication::Replication,
    runner::Runner,
};

/// The last entries of the two newest snapshots of a shard. 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotsKept {
    pub(crate) older: u64,
    newest: u64,
}

impl SnapshotsKept {
    /// One more snapshot is on disk. Only two are kept. In a shard without new entries it is the same one, written again. Then no
    /// older one is behind it, so that it does not keep the whole log from being released.
    pub(crate) fn add(&mut self, index: u64) {
        if index >= self.newest {
            self.older = self.newest;
            self.newest = index;
        }
    }
}

/// Hands cuts to a thread or a task that writes them. It ends when this is dropped.
pub(crate) struct SnapshotWriter {
    files: SnapshotFiles,
    /// At most one a shard, and one more when the log is too long.
    cuts: Arc<Inbox<Snapshot>>,
}

impl SnapshotWriter {
    /// Starts it. A durable snapshot is reported to the replication. A failed one is reported to the operator, and another one is
    /// tried when the next is due. The log keeps everything until then.
    pub(crate) fn start<T: Completion>(
        replication: &Arc<Replication<T>>,
        runner: &Runner,
    ) -> Result<SnapshotWriter, ReplicationError> {
        let writer = SnapshotWriter { files: replication.snapshot_files.clone(), cuts: Arc::default() };
        let (files, cuts) = (writer.files.clone(), Arc::clone(&writer.cuts));
        let weak = Arc::downgrade(replication);
        match runner {
            Runner::Tasks(spawn) => spawn(Box::pin(write_as_task(files, cuts, weak))),
            Runner::Threads => {
                let thread = thread::Builder::new().name("snapshots".into()).spawn(move || {
                    let mut taken = Vec::new();
                    while next(&cuts, &mut taken) {
                        for Snapshot { meta, store_batches, cut } in taken.drain(..) {
                            let written = write(&files, &meta, store_batches, cut);
                            report(&weak, &meta, written);
                        }
                    }
                });
                thread.map_err(|error| ReplicationError::Resources(format!("thread for snapshots ({error})")))?;
            }
        }
        Ok(writer)
    }

    /// Queues a cut.
    pub(crate) fn write(&self, snapshot: Snapshot) {
        self.cuts.push(snapshot);
    }

    /// Writes a snapshot from another node. It is durable when this returns.
    ///
    /// # Errors
    /// As the disk says.
    pub(crate) fn save_now(
        &self,
        meta: &SnapshotMeta,
        store_batches: u64,
        state: &[u8],
    ) -> Result<(), ReplicationError> {
        Ok(self.files.save_reserved(
            meta.version,
            meta.shard,
            meta.position.index,
            &snapshot::encode(meta, store_batches, state),
        )?)
    }

    /// Removes every snapshot of a shard that has no replica here any more.
    ///
    /// # Errors
    /// As the disk says.
    pub(crate) fn forget(&self, shard: ShardId) -> Result<(), ReplicationError> {
        Ok(self.files.remove_all(shard)?)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.cuts.close();
    }
}

/// Waits for cuts. `false` at the end.
fn next(cuts: &Inbox<Snapshot>, taken: &mut Vec<Snapshot>) -> bool {
    cuts.take(taken, Duration::MAX);
    !taken.is_empty() || !cuts.is_closed()
}

async fn write_as_task<T: Completion>(
    files: SnapshotFiles,
    cuts: Arc<Inbox<Snapshot>>,
    replication: Weak<Replication<T>>,
) {
    let mut taken = Vec::new();
    loop {
        cuts.taken(&mut taken, Duration::MAX).await;
        if taken.is_empty() && cuts.is_closed() {
            return;
        }
        for Snapshot { meta, store_batches, cut } in taken.drain(..) {
            let written = write(&files, &meta, store_batches, cut);
            let Some(disk) = replication.upgrade().map(|replication| Arc::clone(&replication.world.disk)) else {
                return;
            };
            wait_for_disk(&*disk).await;
            report(&replication, &meta, written);
        }
    }
}

fn report<T>(replication: &Weak<Replication<T>>, meta: &SnapshotMeta, written: Result<(), ReplicationError>) {
    let Some(replication) = replication.upgrade() else { return };
    let (shard, replica, index) = (meta.shard, meta.replica, meta.position.index);
    match written {
        Ok(()) => {
            replication.metrics.snapshots.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            replication.replicators.push(shard, EngineInput::SnapshotSaved { shard, replica, index });
        }
        Err(error) => {
            tracing::error!(shard, index, %error, "a snapshot could not be written; the log keeps growing until one is")
        }
    }
}

fn write(files: &SnapshotFiles, meta: &SnapshotMeta, store_batches: u64, cut: Cut) -> Result<(), ReplicationError> {
    let bytes = snapshot::encode(meta, store_batches, &snapshot::encode_state(&cut));
    drop(cut);
    Ok(files.save(meta.version, meta.shard, meta.position.index, &bytes)?)
}
