//! Snapshots of shards: cut on the replication thread (a copy of references), written by a thread of their own, so that
//! selling does not wait for them.

use std::{
    sync::{Arc, Weak, mpsc},
    thread,
};

use boxoffice_core::keep::Cut;
use boxoffice_shard::{Input as EngineInput, Received, SnapshotMeta};
use bytes::Bytes;

use crate::{codec, driver::DriverInput, error::NodeError, shared::Shared, snapshot_files::SnapshotFiles};

/// Cuts waiting to be written: one a shard can be under way, so this is never reached.
const WAITING_MAX: usize = 1 << 16;

/// A cut to be written.
pub(crate) struct Snapshot {
    /// What it is of.
    pub(crate) meta: SnapshotMeta,
    /// How many batches of the store it rests on: without what they have it is not whole.
    pub(crate) rests_on: u64,
    /// The entities in memory.
    pub(crate) cut: Cut,
}

/// Hands cuts to the thread that writes them.
pub(crate) struct Writer {
    files: Arc<SnapshotFiles>,
    cuts: mpsc::SyncSender<Snapshot>,
}

impl Writer {
    /// Starts the thread. A snapshot that is durable is reported to the replication thread; a failed one is reported
    /// to the operator and tried again when the next is due: the log keeps everything until then.
    pub(crate) fn start(shared: &Arc<Shared>, files: SnapshotFiles) -> Result<Writer, NodeError> {
        let (cuts, waiting) = mpsc::sync_channel::<Snapshot>(WAITING_MAX);
        let shared = Arc::downgrade(shared);
        let files = Arc::new(files);
        let of_thread = Arc::clone(&files);
        thread::Builder::new()
            .name("snapshots".into())
            .spawn(move || {
                for snapshot in waiting {
                    let written = write(&of_thread, &snapshot);
                    let Snapshot { meta, cut, .. } = snapshot;
                    drop(cut);
                    report(&shared, &meta, written);
                }
            })
            .map_err(|error| NodeError::Resources(format!("thread for snapshots ({error})")))?;
        Ok(Writer { files, cuts })
    }

    /// Queues a cut.
    pub(crate) fn write(&self, snapshot: Snapshot) {
        // The thread ends only after this sender is gone.
        let _ = self.cuts.send(snapshot);
    }

    /// Writes a snapshot that came from another node; it is durable when this returns. It is whole by itself: see
    /// `Driver::cut_for_peer`.
    ///
    /// # Errors
    /// As the disk says.
    pub(crate) fn save_now(&self, received: &Received) -> Result<(), NodeError> {
        let meta = &received.meta;
        Ok(self.files.save(meta.shard, meta.position.index, &join(meta, 0, &received.state))?)
    }
}

fn report(shared: &Weak<Shared>, meta: &SnapshotMeta, written: Result<(), NodeError>) {
    let Some(shared) = shared.upgrade() else { return };
    let (shard, replica, index) = (meta.shard, meta.replica, meta.position.index);
    match written {
        Ok(()) => {
            shared.metrics.snapshots.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            shared.inbox.push(DriverInput::Engine(EngineInput::SnapshotSaved { shard, replica, index }));
        }
        Err(error) => {
            tracing::error!(shard, index, %error, "a snapshot could not be written; the log keeps growing until one is")
        }
    }
}

fn write(files: &SnapshotFiles, snapshot: &Snapshot) -> Result<(), NodeError> {
    let Snapshot { meta, rests_on, cut } = snapshot;
    Ok(files.save(meta.shard, meta.position.index, &join(meta, *rests_on, &state(cut)))?)
}

/// A snapshot's bytes: the length of its description, the description, the batches of the store it rests on, the state.
fn join(meta: &SnapshotMeta, rests_on: u64, state: &[u8]) -> Vec<u8> {
    let described = meta.encode();
    let length = u32::try_from(described.len()).expect("a description is short");
    [&length.to_le_bytes(), &described[..], &rests_on.to_le_bytes(), state].concat()
}

/// The bytes of the state in a cut.
pub(crate) fn state(cut: &Cut) -> Vec<u8> {
    codec::append(cut, Vec::new())
}

/// The cut in these bytes.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn decode_state(state: &[u8]) -> Result<Cut, String> {
    codec::read(state)
}

/// What a snapshot's bytes say.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn decode(bytes: &[u8]) -> Result<Snapshot, String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it is too short")?;
    let (described, state) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or("its description is cut off")?;
    let meta = SnapshotMeta::decode(Bytes::copy_from_slice(described)).map_err(|error| error.to_string())?;
    let (rests_on, state) = state.split_first_chunk::<8>().ok_or("it is cut off before its state")?;
    Ok(Snapshot { meta, rests_on: u64::from_le_bytes(*rests_on), cut: decode_state(state)? })
}
