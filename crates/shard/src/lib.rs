//! Replicates the log of each shard and elects its leader.
//!
//! One [`Engine`] per node holds a raft group for each shard. It does no I/O and reads no clock. It takes [`Input`]s and returns
//! a [`Write`] and a list of [`Output`]s. The same inputs always give the same outputs, at the same version and
//! mark of its [`Config`]. The engine replicates opaque turns. An entry of the log is a batch of turns.
//!
//! Groups come and go while the engine runs. A message of a leader creates this node's replica of a shard, and the
//! membership change that removes the replica ends it. A [`TargetConfig`] says which members a shard is to have. The
//! leader of the shard changes them step by step.
//!
//! A node that is alone elects itself, and commits what it has written:
//!
//! ```
//! use boxoffice_shard::{Config, Engine, Input, Now, Output};
//!
//! let mut engine: Engine<&str> = Engine::restore(Config::founding(1, 1, 1), [], [])?;
//! let (mut now_ms, mut outputs, mut committed) = (1, Vec::new(), None);
//! while committed.is_none() {
//!     now_ms += 1;
//!     let inputs = outputs.drain(..).filter_map(|output| match output {
//!         Output::BecameLeader { shard: 1, epoch, .. } => Some(Input::Propose {
//!             shard: 1,
//!             epoch,
//!             events: b"A5 is held".to_vec(),
//!             joint: None,
//!             completion: "answer Ada",
//!         }),
//!         Output::Completed { completion, .. } => {
//!             committed = Some(completion);
//!             None
//!         }
//!         _ => None,
//!     });
//!     let inputs: Vec<_> = inputs.collect();
//!     let write = engine.step(Now { wall_ms: now_ms, mono_ms: now_ms }, inputs);
//!     // A node writes `write` to its disk and syncs it here.
//!     drop(write);
//!     engine.persisted(&mut outputs);
//! }
//! assert_eq!(committed, Some("answer Ada"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod applied_state;
mod batch;
mod chain;
mod clocks;
mod codec;
mod commit_broadcast;
mod config;
mod consensus;
#[doc(hidden)]
pub mod decoders;
mod election;
mod engine;
mod envelope;
mod fields;
mod follower_activity;
mod group;
mod input;
mod leadership;
mod mark;
mod name;
mod now;
mod output;
pub mod placement;
pub mod planted;
mod record;
mod replay;
mod restore_error;
pub mod ring;
mod snapshot;
mod snapshot_progress;
mod status;
mod tail;
mod target_config;
mod time;

#[cfg(test)]
mod tests;

pub use batch::{Stamp, Turns};
pub use chain::Link;
pub use clocks::ClockReading;
pub use codec::Malformed;
pub use config::{
    COMMIT_BROADCAST_MS, Config, ENTRY_BYTES, NODE_TAIL_BYTES, SNAPSHOT_BYTES, SNAPSHOT_ENTRIES, TAIL_BYTES,
    TAIL_BYTES_MIN, TAIL_ENTRIES, TICK_MS, TURN_BYTES_MAX, UNCOMMITTED_BYTES_MAX,
};
pub use consensus::grows_log;
pub use engine::Engine;
pub use input::Input;
pub use mark::KnownMark;
pub use name::{DIRECTORY, Epoch, FOUNDING, NODE_MAX, NodeId, Position, ReplicaId, ShardId};
pub use now::Now;
pub use output::{FatalError, Outgoing, Output, Received, RejectReason, Write};
pub use record::{EntryKind, Record};
pub use restore_error::RestoreError;
pub use snapshot::{Members, SnapshotMeta};
pub use status::{FollowerStatus, GroupStatus, Role};
pub use target_config::TargetConfig;
pub use time::ShardTime;
