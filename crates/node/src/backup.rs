//! What this node gives away for a backup, piece by piece and at a bounded pace, and the marks that a backup ends at.

mod collect;

use std::{sync::Arc, time::Duration};

use boxoffice_env::background;
use boxoffice_replication::{
    backup::{Part, Places, ShardPlace},
    error::ReplicationError,
};
use boxoffice_wire::{
    call::{BackupPart, BackupQuery},
    status::{BackupPlaces, BackupShard},
};
use bytes::{BufMut, Bytes, BytesMut};
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::oneshot;

pub use boxoffice_replication::{
    backup::Gap,
    restore::{BackupSource, MarkCut, RestoreError, Restored, Target, restore},
};
pub use boxoffice_shard::{Record, ShardId};

pub use collect::{BackupPort, BackupSink, Collector, NotTaken};

use crate::{marks, node::NodeHandle};

/// Bytes of one piece, about.
const PIECE_BYTES: usize = 256 << 10;

/// The answer to what a backup asks.
#[derive(Debug)]
pub enum BackupAnswer {
    Places(Box<BackupPlaces>),
    /// Bytes of a part, and where the next piece begins if there is more.
    Piece {
        bytes: Bytes,
        next: Option<SmolStr>,
    },
}

/// Why a node gives nothing away.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The part is not here any more, or a newer one has taken its place.
    #[error("it is not here any more")]
    Gone,
    /// Others are read.
    #[error("other pieces are read at the moment")]
    Busy,
    /// The cluster's version has no marks.
    #[error("a backup needs the newest version of the cluster: finish its upgrade")]
    NoMarks,
    /// The cursor is none of this part.
    #[error("`from` is the `next` of the piece before")]
    Cursor,
    /// The disk fails, or a part is damaged.
    #[error("{0}")]
    Damaged(String),
}

impl From<ReplicationError> for BackupError {
    fn from(error: ReplicationError) -> BackupError {
        BackupError::Damaged(error.to_string())
    }
}

impl NodeHandle {
    /// Answers what a backup asks. A piece comes when the pace allows it.
    ///
    /// # Errors
    /// [`BackupError`].
    pub async fn backup(&self, query: BackupQuery) -> Result<BackupAnswer, BackupError> {
        match query {
            BackupQuery::Places { after, mark } => {
                // Each read has a thread.
                let _one = self.shared.backups.permits.acquire().await.map_err(|_| BackupError::Busy)?;
                let before = |shard: ShardId| after.get(&shard).copied().unwrap_or(0);
                let raised = if mark { Some(self.raise_mark().ok_or(BackupError::NoMarks)?) } else { None };
                let identity = &self.identity;
                let of_shard =
                    |ShardPlace { shard, snapshot, committed, mark }| BackupShard { shard, snapshot, committed, mark };
                let replication = Arc::clone(&self.shared.replication);
                let after: Vec<u64> = (0..=identity.shards).map(before).collect();
                let found = self.read_for_backup(move || {
                    replication.backup_places(|shard| after.get(usize::from(shard)).copied().unwrap_or(0))
                });
                let Places { shards, first_segment, last_segment, mark } = found.await??;
                Ok(BackupAnswer::Places(Box::new(BackupPlaces {
                    cluster: format_smolstr!("{}", identity.cluster),
                    shard_count: identity.shards,
                    node: identity.node,
                    disk: format_smolstr!("{:032x}", identity.disk),
                    shards: shards.into_iter().map(of_shard).collect(),
                    first_segment,
                    last_segment,
                    mark: raised.unwrap_or(mark),
                })))
            }
            BackupQuery::Read { part, from } => {
                let _one = self.shared.backups.permits.try_acquire().map_err(|_| BackupError::Busy)?;
                let (bytes, next) = match part {
                    BackupPart::Snapshot(shard) => self.piece(Part::Snapshot(shard), from.as_deref()).await?,
                    BackupPart::Segment(number) => self.piece(Part::Segment(number), from.as_deref()).await?,
                    BackupPart::Records(shard) => self.records_piece(shard, from.as_deref()).await?,
                };
                self.pace(bytes.len()).await;
                Ok(BackupAnswer::Piece { bytes, next })
            }
        }
    }

    /// Raises the mark, so that a cut through all shards begins. `None` while the cluster's version has no marks.
    pub fn raise_mark(&self) -> Option<u64> {
        marks::raise(&self.shared)
    }

    /// The bytes of a part from a cursor on, and the next cursor.
    async fn piece(&self, part: Part, from: Option<&str>) -> Result<(Bytes, Option<SmolStr>), BackupError> {
        let (of, at) = match from {
            Some(from) => {
                let (of, at) = from.split_once('.').ok_or(BackupError::Cursor)?;
                let number = |text| u64::from_str_radix(text, 16).map_err(|_| BackupError::Cursor);
                (Some(number(of)?), usize::try_from(number(at)?).map_err(|_| BackupError::Cursor)?)
            }
            None => (None, 0),
        };
        let (reads, now_ms) = (&self.shared.backups, self.shared.world.clock.monotonic_ms());
        let known = of.and_then(|id| Some((id, reads.known(part, id)?)));
        let (id, whole) = match known {
            Some(known) => known,
            None => {
                let replication = Arc::clone(&self.shared.replication);
                let read = self.read_for_backup(move || replication.backup_part(part)).await??;
                read.filter(|(id, _)| of.is_none_or(|of| of == *id)).ok_or(BackupError::Gone)?
            }
        };
        let end = at.saturating_add(PIECE_BYTES).min(whole.len());
        if at > end {
            return Err(BackupError::Gone);
        }
        match end < whole.len() {
            true => reads.keep(part, id, whole.clone(), now_ms),
            false => reads.done(),
        }
        Ok((whole.slice(at..end), (end < whole.len()).then(|| format_smolstr!("{id:x}.{end:x}"))))
    }

    /// Some records of a shard, each with its length before it.
    async fn records_piece(&self, shard: ShardId, from: Option<&str>) -> Result<(Bytes, Option<SmolStr>), BackupError> {
        let after = from.map(unhex).transpose()?;
        let replication = Arc::clone(&self.shared.replication);
        let read =
            self.read_for_backup(move || replication.backup_records(shard, after.as_deref(), PIECE_BYTES)).await?;
        let (records, last) = read.map_err(|error| BackupError::Damaged(error.to_string()))?;
        let mut bytes = BytesMut::new();
        for record in records {
            bytes.put_u32_le(u32::try_from(record.len()).expect("a record is far below 4 GiB"));
            bytes.put_slice(&record);
        }
        Ok((bytes.freeze(), last.map(|last| hex(&last))))
    }

    /// Reads on a thread of its own, which gives way to those that sell.
    async fn read_for_backup<R: Send + 'static>(
        &self,
        read: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, BackupError> {
        if self.shared.tasks.only() {
            return Ok(read());
        }
        let (done, found) = oneshot::channel();
        // The caller may have given up.
        let work = move || _ = done.send(read());
        background::spawn("backup", work).map_err(|error| BackupError::Damaged(format!("no thread: {error}")))?;
        // A panic in it ends the process by the hook.
        Ok(found.await.expect("a read for a backup does not panic"))
    }

    /// Waits until the pace allows this number of bytes.
    async fn pace(&self, bytes: usize) {
        let bytes_ms = (self.shared.config.backup_mb_s * 1_000).max(1);
        let now_ms = self.shared.world.clock.monotonic_ms();
        let at_ms = {
            let mut next_ms = self.shared.backups.next_ms.lock();
            let at_ms = (*next_ms).max(now_ms);
            *next_ms = at_ms + bytes as u64 / bytes_ms;
            at_ms
        };
        if at_ms > now_ms {
            tokio::time::sleep(Duration::from_millis(at_ms - now_ms)).await;
        }
    }
}

fn hex(bytes: &[u8]) -> SmolStr {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Bytes, BackupError> {
    let digits = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match text.len().is_multiple_of(2) {
        true => (0..text.len()).step_by(2).map(digits).collect::<Option<Bytes>>().ok_or(BackupError::Cursor),
        false => Err(BackupError::Cursor),
    }
}
