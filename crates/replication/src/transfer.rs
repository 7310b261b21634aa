//! Snapshots on their way between nodes, in pieces, at the receiver's pace, beside calls and feeds.
//!
//! Raft's own message carries only a token, by which the receiver pulls the snapshot. First come the entities that were in memory
//! when it was cut, then every record of the shard's history. A record may be newer than the cut, because the sender goes on
//! meanwhile. All of it is committed, and the receiver skips what its records have already, as a restart does.
//!
//! Raft gets the message only when everything is durable here.

mod incoming;
pub mod message;
mod outgoing;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use boxoffice_core::{planted, state_map::Cut, version::ClusterVersion};
use boxoffice_env::{Lane, World};
use boxoffice_shard::{NodeId, ShardId};
use boxoffice_storage::{history::HistoryStoreError, snapshot_files::SnapshotError};
use bytes::Bytes;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

use crate::{owner::Completion, replication::Replication};
use incoming::Incoming;
use message::Message;
use outgoing::Outgoing;

/// Bytes of one piece, about.
const PIECE_BYTES: usize = 128 * 1024;
/// Pieces asked for before the first of them has come.
const PULLED_AHEAD: u64 = 4;

/// Room in a snapshot's file for its description, besides the state.
const DESCRIPTION_BYTES: u64 = 4 * 1024;

/// Pieces that wait to be made or taken in. Each peer asks for a few at a time, so more come only from a faulty peer.
const JOBS_WAITING_MAX: usize = 1_024;

/// Outgoing and incoming snapshots.
#[derive(Default)]
pub struct Transfers {
    jobs: Mutex<VecDeque<Job>>,
    some: Notify,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
}

/// A piece of work that may wait for the disk.
enum Job {
    /// Make this piece and send it.
    Send { to: NodeId, token: u64, piece: u64 },
    /// Take this piece in.
    Take { from: NodeId, token: u64, piece: u64, body: message::Body },
}

impl Transfers {
    /// Keeps a cut of a shard to be pulled. Returns the token that raft gets in its place. The token is random, so that no two
    /// nodes, and no two processes of a node, mean different cuts by the same one.
    pub(crate) fn offer(&self, world: &World, shard: ShardId, cut: Cut) -> Bytes {
        let token = world.rng.u64();
        self.outgoing.lock().offer(token, shard, cut, world.clock.monotonic_ms());
        Bytes::copy_from_slice(&token.to_le_bytes())
    }

    /// Sends raft's message with the token of a cut, if the cut can still be pulled. A message that cannot be sent is lost, and
    /// raft asks for it again.
    pub(crate) fn announce<T>(
        &self,
        replication: &Replication<T>,
        to: NodeId,
        shard: ShardId,
        token: &[u8],
        raft: Bytes,
    ) -> bool {
        let Some(token) = read_token(token).filter(|token| self.outgoing.lock().has(*token)) else { return false };
        let message = Message::Offer { shard, token, raft };
        replication.world.net.send(to, Lane::Bulk, message.encode()).is_ok()
    }

    /// The pulled state of a snapshot that raft now takes, with the number of durable store batches that it depends on.
    pub(crate) fn received(&self, shard: ShardId, token: &[u8]) -> Option<(Bytes, u64)> {
        self.incoming.lock().received(shard, read_token(token)?)
    }

    /// A frame of the bulk lane.
    pub fn take<T>(&self, replication: &Replication<T>, from: NodeId, frame: Bytes) {
        let message = match Message::decode(&frame) {
            Ok(message) => message,
            Err(why) => return replication.not_understood(from, &why),
        };
        match message {
            // There would be no room for it. It is offered again.
            Message::Offer { .. } if replication.is_read_only() => {}
            Message::Offer { shard, token, raft } => {
                let now_ms = replication.world.clock.monotonic_ms();
                let begins = self.incoming.lock().offered(from, shard, token, raft, now_ms);
                self.pull_all(replication, begins);
            }
            Message::Pull { token, piece } => self.job(Job::Send { to: from, token, piece }),
            Message::Piece { token, piece, body, mark } => {
                mark.iter().for_each(|mark| replication.mark.raise(*mark));
                self.job(Job::Take { from, token, piece, body });
            }
        }
    }

    /// A shard's replica here has ended. Nothing of it can be pulled any more, and nothing for it is on its way. Its records in
    /// the store are given up, unless a snapshot for its next replica has brought its own. Returns whether they are.
    pub(crate) fn let_go<T>(&self, replication: &Replication<T>, shard: ShardId) -> bool {
        self.outgoing.lock().let_go(shard);
        // Nothing new begins while this lock is held. Later snapshots find the mark.
        let mut incoming = self.incoming.lock();
        let may_go = incoming.let_go(shard);
        if may_go {
            replication.history.mark_dropped(shard);
        }
        may_go
    }

    /// A node is lost. Its snapshots will be offered anew.
    pub fn lost(&self, node: NodeId) {
        self.incoming.lock().lost(node);
        self.outgoing.lock().lost(node);
    }

    fn pull_all<T>(&self, replication: &Replication<T>, begins: Vec<(NodeId, u64)>) {
        for (to, token) in begins {
            self.pull(replication, to, token, 0..PULLED_AHEAD);
        }
    }

    fn pull<T>(&self, replication: &Replication<T>, to: NodeId, token: u64, pieces: std::ops::Range<u64>) {
        for piece in pieces {
            // A lost pull ends the stream with its link.
            let _ = replication.world.net.send(to, Lane::Bulk, Message::Pull { token, piece }.encode());
        }
    }

    fn job(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        if jobs.len() >= JOBS_WAITING_MAX {
            // The snapshot of this piece stops then, and is offered anew.
            return;
        }
        jobs.push_back(job);
        drop(jobs);
        self.some.notify_one();
    }

    fn work<T>(&self, replication: &Replication<T>, job: Job) {
        let (node, token, piece, sends) = match &job {
            Job::Send { to, token, piece } => (*to, *token, *piece, true),
            Job::Take { from, token, piece, .. } => (*from, *token, *piece, false),
        };
        let done = match job {
            Job::Send { to, token, piece } => self.send(replication, to, token, piece),
            Job::Take { from, token, piece, body } => self.take_piece(replication, from, token, piece, body),
        };
        match done {
            Ok(()) => {}
            Err(error) if error.is_full() || is_damage(&error) => {
                tracing::warn!(node, sends, %error, "a snapshot on its way is given up: it is offered again");
                if sends {
                    // The receiver waits for no more pieces. A replica without damage leads as soon as it can.
                    let gone = Message::Piece { token, piece, body: message::Body::Gone, mark: None };
                    let _ = replication.world.net.send(node, Lane::Bulk, gone.encode());
                } else {
                    let begins = self.incoming.lock().gone(node, token);
                    self.pull_all(replication, begins);
                }
            }
            Err(error) => replication.replicators.fail(error),
        }
    }

    fn send<T>(
        &self,
        replication: &Replication<T>,
        to: NodeId,
        token: u64,
        piece: u64,
    ) -> Result<(), HistoryStoreError> {
        let now_ms = replication.world.clock.monotonic_ms();
        let Some(cursor) = self.outgoing.lock().cursor(to, token, piece, now_ms) else {
            let gone = Message::Piece { token, piece, body: message::Body::Gone, mark: None };
            let _ = replication.world.net.send(to, Lane::Bulk, gone.encode());
            if piece == 0 {
                // A newer cut took its place before it was pulled. Raft should offer that one, without waiting for this.
                replication.replicators.unreachable(to);
            }
            return Ok(());
        };
        let (shard, ends) = (cursor.shard, cursor.ends);
        let (mut body, after) = cursor.next(&replication.history)?;
        {
            let mut outgoing = self.outgoing.lock();
            if outgoing.stands(shard, ends) {
                outgoing.put_back(to, token, after);
            } else {
                // Records may have been removed during the read.
                body = message::Body::Gone;
            }
        }
        replication.replicators.push(shard, boxoffice_shard::Input::SnapshotMoves { shard, to });
        replication.metrics.stream_pieces.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // A piece that cannot be sent ends the transfer. Raft offers the snapshot again.
        let mark = replication.mark_to_send();
        let _ = replication.world.net.send(to, Lane::Bulk, Message::Piece { token, piece, body, mark }.encode());
        Ok(())
    }

    fn take_piece<T>(
        &self,
        replication: &Replication<T>,
        from: NodeId,
        token: u64,
        piece: u64,
        body: message::Body,
    ) -> Result<(), HistoryStoreError> {
        let now_ms = replication.world.clock.monotonic_ms();
        let Some(shard) = self.incoming.lock().expects(from, token, piece, now_ms) else { return Ok(()) };
        match body {
            message::Body::Memory(bytes) => self.incoming.lock().memory(from, token, &bytes),
            message::Body::Records(records) => {
                // A record begins with its version. Ours may be lower until the table has come.
                let versions = records.iter().filter_map(|record| ClusterVersion::read(*record.first()?).ok());
                if let Some(version) = versions.max()
                    && let Err(error) = replication.raise(version)
                {
                    replication.replicators.fail(error);
                    return Ok(());
                }
                let upto = replication.history.import(shard, &records)?;
                replication.replicators.imported(shard, upto);
            }
            message::Body::End => {
                // No snapshot may depend on data that a power cut takes away.
                let store_batches = replication.history.shard(shard)?.batches;
                replication.history.sync()?;
                let bytes = self.incoming.lock().size(from, token) as u64;
                match replication.snapshot_files.reserve(shard, bytes + DESCRIPTION_BYTES) {
                    Ok(()) => {}
                    Err(error @ SnapshotError::Full { .. }) => {
                        tracing::warn!(from, %error, "a snapshot on its way is given up: it is offered again");
                        let begins = self.incoming.lock().gone(from, token);
                        self.pull_all(replication, begins);
                        return Ok(());
                    }
                    Err(error) => {
                        replication.replicators.fail(error);
                        return Ok(());
                    }
                }
                let (whole, begins) = self.incoming.lock().end(from, token, store_batches);
                if let Some(raft) = whole {
                    let message = boxoffice_shard::Input::Message { from, shard, bytes: raft };
                    replication.replicators.push(shard, message);
                }
                self.pull_all(replication, begins);
                return Ok(());
            }
            message::Body::Gone => {
                let begins = self.incoming.lock().gone(from, token);
                self.pull_all(replication, begins);
                return Ok(());
            }
        }
        self.pull(replication, from, token, piece + PULLED_AHEAD..piece + PULLED_AHEAD + 1);
        Ok(())
    }
}

/// Whether a part of the store cannot be read, or another node has sent a damaged record. Nothing else is lost by that.
fn is_damage(error: &HistoryStoreError) -> bool {
    let damaged = matches!(error, HistoryStoreError::Damaged { .. } | HistoryStoreError::BadRecord { .. });
    damaged && !planted::is("a bad block that ends a node")
}

fn read_token(token: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(token.try_into().ok()?))
}

/// Does the transfers' work until the replication is gone.
pub async fn run<T: Completion>(weak: Weak<Replication<T>>, transfers: Arc<Transfers>, on_threads: bool) {
    loop {
        let job = transfers.jobs.lock().pop_front();
        let Some(job) = job else {
            transfers.some.notified().await;
            continue;
        };
        let Some(replication) = weak.upgrade() else { return };
        let of_job = Arc::clone(&transfers);
        if on_threads {
            // It reads and writes files, so it must not run on a thread that sells. A panic in it ends the process by the hook.
            let _ = tokio::task::spawn_blocking(move || of_job.work(&replication, job)).await;
        } else {
            of_job.work(&replication, job);
            drop(replication);
            tokio::task::yield_now().await;
        }
    }
}
