//! Queries for an entity's history, and their results.

use std::borrow::Cow;

use boxoffice_core::stored::Stored;
use boxoffice_core::{event::Event, id::Entity, seat::Seat, time::Timestamp};
use boxoffice_shard::ShardId;
use boxoffice_storage::{
    archive_files::ArchiveError, history::HistoryStoreError, log::LogError, snapshot_files::SnapshotError,
};
use smol_str::SmolStr;

/// The most events of one answer.
pub const HISTORY_MAX: usize = 1_000;
/// Histories read at a time. Each has up to two segments of the log in memory.
pub(crate) const HISTORIES_MAX: usize = 2;

/// One event of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct HistoryEntry {
    #[n(0)]
    pub shard: ShardId,
    /// The place in the shard's log. Events of one turn have the same.
    #[n(1)]
    pub index: u64,
    /// The shard's time when it was decided.
    #[n(2)]
    pub time: Timestamp,
    /// The entity's version with this event. The first event has 1.
    #[n(3)]
    pub version: u64,
    #[n(4)]
    pub event: Event,
    /// The name of the key or the operator that asked for it.
    #[n(5)]
    pub by: Option<SmolStr>,
}

/// A part of the history of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct HistoryPart {
    /// The events, oldest first.
    #[n(2)]
    pub entries: Vec<HistoryEntry>,
    /// The entity's version now. 0 if there is no such entity.
    #[n(0)]
    pub version: u64,
    /// Events of older versions than this were not searched. 1 if all were.
    #[n(1)]
    pub from: u64,
    /// Whether the search ended because it found as many events as were asked for.
    #[n(3)]
    pub is_full: bool,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Others are being read.
    #[error("histories of other entities are being read; try again in a moment")]
    Busy,
    /// A segment of the log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] HistoryStoreError),
    /// A snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Too much happened between a snapshot and an instant.
    #[error(
        "more than {bytes_max} bytes of changes lie between the snapshot before and the time; keep snapshots more often"
    )]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// Something in the log cannot be understood.
    #[error("the log cannot be understood: {0}; was it written by a newer version?")]
    Undecodable(String),
    /// The node is going down.
    #[error("the node is going down")]
    Down,
    /// The shard has no replica here, and no node that has one answers.
    #[error("no node that has a copy of it answers; try again in a moment")]
    Elsewhere,
    /// Another node cannot read it.
    #[error("node {node}: {why}")]
    Other { node: u64, why: String },
}

impl From<HistoryError> for NoHistory {
    fn from(error: HistoryError) -> NoHistory {
        match error {
            HistoryError::Busy => NoHistory::Busy,
            HistoryError::Down | HistoryError::Elsewhere => NoHistory::Elsewhere,
            error @ (HistoryError::Log(_)
            | HistoryError::Archive(_)
            | HistoryError::Store(_)
            | HistoryError::Snapshot(_)
            | HistoryError::TooLong { .. }
            | HistoryError::Undecodable(_)
            | HistoryError::Other { .. }) => NoHistory::Broken(error.to_string()),
        }
    }
}

impl HistoryPart {
    /// Whether the search can end.
    pub(crate) fn is_whole(&self) -> bool {
        self.version > 0 && (self.from == 1 || self.is_full)
    }

    /// Adds the older events that another node found. They add nothing if there is a gap in between.
    pub(crate) fn on(mut self, older: HistoryPart) -> HistoryPart {
        if self.version == 0 {
            return older;
        }
        if older.version.saturating_add(1) < self.from || older.from >= self.from {
            return self;
        }
        self.from = older.from;
        self.is_full = older.is_full;
        self.entries.splice(0..0, older.entries);
        self
    }
}

/// A query for a history, here or at another node.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) struct HistoryQuery<'a> {
    #[n(0)]
    pub(crate) entity: Cow<'a, Entity>,
    /// Only events that changed this seat.
    #[n(3)]
    pub(crate) seat: Option<Seat>,
    /// The maximum number of events.
    #[n(1)]
    pub(crate) limit: u32,
    /// Only events older than this version.
    #[n(2)]
    pub(crate) before: u64,
}

/// Why another node has no history.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) enum NoHistory {
    /// It has no replica of the shard, or is lost.
    #[n(0)]
    Elsewhere,
    /// It reads other histories.
    #[n(1)]
    Busy,
    /// Something there cannot be read, with the error in its words.
    #[n(2)]
    Broken(#[n(0)] String),
}
