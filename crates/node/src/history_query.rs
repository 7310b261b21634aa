//! What is found of an entity's history, and what is asked for.

use std::borrow::Cow;

use boxoffice_core::{event::Event, id::Entity, seat::Seat, time::Timestamp};
use boxoffice_shard::ShardId;
use boxoffice_storage::{archive_files::ArchiveError, history::HistoryStoreError, log::LogError};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The most events of one answer.
pub const HISTORY_MAX: usize = 1_000;
/// Histories read at a time: each has up to two segments of the log in memory.
pub(crate) const HISTORIES_MAX: usize = 2;

/// One event of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The entity's shard.
    pub shard: ShardId,
    /// The place in the shard's log; events of one turn have the same.
    pub index: u64,
    /// The shard's time when it was decided.
    pub time: Timestamp,
    /// The entity's version with this event: its first has 1.
    pub version: u64,
    /// What happened.
    pub event: Event,
    /// The name of the key or the operator that asked for it.
    pub by: Option<SmolStr>,
}

/// A part of what happened to an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPart {
    /// The events, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// The entity's version now; 0 if there is no such entity.
    pub version: u64,
    /// Everything that is older than this version was not looked at: 1 if it was looked at from the beginning on.
    pub from: u64,
    /// Whether looking ended because as many were found as were asked for.
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
    /// Something in the log cannot be understood.
    #[error("the log cannot be understood: {0}; was it written by a newer version?")]
    Undecodable(String),
    /// The node goes down.
    #[error("the node is going down")]
    Down,
    /// The shard has no replica here, and no node that has one answers.
    #[error("no node that has a copy of it answers; try again in a moment")]
    Elsewhere,
    /// Another node cannot read it.
    #[error("node {node}: {why}")]
    Other {
        node: u64,
        /// Its words.
        why: String,
    },
}

impl HistoryPart {
    /// Whether nothing more need be looked for.
    pub(crate) fn is_whole(&self) -> bool {
        self.version > 0 && (self.from == 1 || self.is_full)
    }

    /// With what another node found that is older than this. One that lacks what is in between adds nothing.
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

/// What is asked for, wherever it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryQuery<'a> {
    /// Of which entity.
    pub(crate) entity: Cow<'a, Entity>,
    /// Only what changed this seat.
    pub(crate) seat: Option<Seat>,
    /// The maximum number of events.
    pub(crate) limit: u32,
    /// Only what is older than this version.
    pub(crate) before: u64,
}

/// Why another node has no history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NoHistory {
    /// It has no replica of the shard, or is lost.
    Elsewhere,
    /// It reads others.
    Busy,
    /// Something there cannot be read: its own words.
    Broken(String),
}
