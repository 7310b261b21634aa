//! Keeps every shard's log equal on its replicas and says who leads.
//!
//! One [`Engine`] per node holds a raft group for each shard. It does no I/O and knows no clock: what comes
//! in is an [`Input`], what comes out is a [`Write`] and a list of [`Output`]s, and the same inputs always give
//! the same outputs. What is replicated is opaque to it: turns, batches of which are the log's entries.
//!
//! Groups come and go while it runs: a message of a leader makes this node's replica of a shard, and the change of
//! members that removes it ends it. What the members of a shard are to become is told as an [`Aim`]; whoever leads the
//! shard goes there step by step.

mod aim;
mod batch;
mod clocks;
mod codec;
mod config;
mod consensus;
#[doc(hidden)]
pub mod decoders;
mod engine;
mod envelope;
mod fields;
mod folded;
mod group;
mod heard;
mod input;
mod lagging;
mod name;
mod news;
mod output;
pub mod placement;
pub mod planted;
mod record;
mod reign;
mod replay;
mod restore_error;
pub mod ring;
mod snapshot;
mod status;
mod tail;
mod time;

pub use aim::Aim;
pub use batch::{Stamp, Turns};
pub use clocks::ClockReading;
pub use codec::Malformed;
pub use config::{
    COMMIT_NEWS_MS, Config, ENTRY_BYTES, NODE_TAIL_BYTES, SNAPSHOT_BYTES, SNAPSHOT_ENTRIES, TAIL_BYTES, TAIL_BYTES_MIN,
    TAIL_ENTRIES, TURN_BYTES_MAX, UNCOMMITTED_BYTES_MAX,
};
pub use consensus::grows_log;
pub use engine::Engine;
pub use input::Input;
pub use name::{DIRECTORY, Epoch, FOUNDING, NODE_MAX, NodeId, Position, ReplicaId, ShardId};
pub use output::{Broken, Outgoing, Output, Received, Why, Write};
pub use record::{EntryKind, Record};
pub use restore_error::RestoreError;
pub use snapshot::{Members, SnapshotMeta};
pub use status::{FollowerStatus, GroupStatus, Role};
pub use time::{Now, ShardTime};
