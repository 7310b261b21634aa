//! Snapshots that others may pull.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use boxoffice_core::state_map::Cut;
use boxoffice_shard::{NodeId, ShardId};
use boxoffice_storage::{
    history::{HistoryStore, HistoryStoreError},
    snapshot,
};
use bytes::Bytes;

use super::{PIECE_BYTES, message::Body};

/// A snapshot that no node pulls is freed after these milliseconds.
const KEPT_MS: u64 = 30_000;

/// Snapshots that can be pulled here.
#[derive(Default)]
pub(super) struct Outgoing {
    offers: BTreeMap<u64, Offer>,
    /// The progress of each puller.
    cursors: BTreeMap<(NodeId, u64), Cursor>,
    /// How often a shard's replica here has ended. Earlier offers cannot be pulled any more, because their records are removed.
    ends: BTreeMap<ShardId, u64>,
}

struct Offer {
    shard: ShardId,
    source: Arc<Source>,
    used_ms: u64,
}

/// The snapshot that a token stands for.
struct Source {
    cut: Cut,
    /// Encoded when it is first asked for, not when it was cut.
    memory: OnceLock<Bytes>,
}

impl Source {
    fn memory(&self) -> &Bytes {
        self.memory.get_or_init(|| snapshot::encode_state(&self.cut).into())
    }
}

/// The progress of a puller.
pub(super) struct Cursor {
    pub(super) shard: ShardId,
    source: Arc<Source>,
    /// How often the shard's replica here had ended when this began.
    pub(super) ends: u64,
    piece: u64,
    part: Part,
}

enum Part {
    /// From this byte of the memory part on.
    Memory(usize),
    /// After this record.
    Records(Option<Bytes>),
    Over,
}

impl Outgoing {
    /// Keeps a cut in place of the shard's earlier one. Nodes that pull the earlier one get it to the end.
    pub(super) fn offer(&mut self, token: u64, shard: ShardId, cut: Cut, now_ms: u64) {
        self.offers.retain(|_, offer| offer.shard != shard && now_ms.saturating_sub(offer.used_ms) < KEPT_MS);
        let source = Arc::new(Source { cut, memory: OnceLock::new() });
        self.offers.insert(token, Offer { shard, source, used_ms: now_ms });
    }

    /// Whether pulling it can begin.
    pub(super) fn has(&self, token: u64) -> bool {
        self.offers.contains_key(&token)
    }

    /// Takes out the progress of a puller, if this piece is its next one.
    pub(super) fn cursor(&mut self, to: NodeId, token: u64, piece: u64, now_ms: u64) -> Option<Cursor> {
        if let Some(offer) = self.offers.get_mut(&token) {
            offer.used_ms = now_ms;
            if piece == 0 {
                let (shard, source) = (offer.shard, Arc::clone(&offer.source));
                let ends = self.ends.get(&shard).copied().unwrap_or_default();
                return Some(Cursor { shard, source, ends, piece: 0, part: Part::Memory(0) });
            }
        }
        self.cursors.remove(&(to, token)).filter(|cursor| cursor.piece == piece)
    }

    pub(super) fn put_back(&mut self, to: NodeId, token: u64, cursor: Option<Cursor>) {
        if let Some(cursor) = cursor {
            self.cursors.insert((to, token), cursor);
        }
    }

    /// Whether the replica that was read is still here. If so, the read was complete.
    pub(super) fn stands(&self, shard: ShardId, ends: u64) -> bool {
        self.ends.get(&shard).copied().unwrap_or_default() == ends
    }

    /// The shard's replica here has ended.
    pub(super) fn let_go(&mut self, shard: ShardId) {
        *self.ends.entry(shard).or_default() += 1;
        self.offers.retain(|_, offer| offer.shard != shard);
        self.cursors.retain(|_, cursor| cursor.shard != shard);
    }

    pub(super) fn lost(&mut self, node: NodeId) {
        self.cursors.retain(|(to, _), _| *to != node);
    }
}

impl Cursor {
    /// The next piece, and the progress after it. `None` after the last piece.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn next(mut self, history: &HistoryStore) -> Result<(Body, Option<Cursor>), HistoryStoreError> {
        self.piece += 1;
        if let Part::Memory(from) = self.part {
            let memory = self.source.memory();
            let end = (from + PIECE_BYTES).min(memory.len());
            let body = Body::Memory(memory.slice(from..end));
            self.part = if end == memory.len() { Part::Records(None) } else { Part::Memory(end) };
            return Ok((body, Some(self)));
        }
        let Part::Records(after) = &self.part else { return Ok((Body::End, None)) };
        let (records, last) = history.export(self.shard, after.as_deref(), PIECE_BYTES)?;
        self.part = match last {
            Some(last) => Part::Records(Some(last)),
            None => Part::Over,
        };
        match records.is_empty() {
            true => Ok((Body::End, None)),
            false => Ok((Body::Records(records), Some(self))),
        }
    }
}
