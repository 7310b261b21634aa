//! What a node keeps on disk: the log, snapshots, archives of old log segments, the store of entities that have left memory, and
//! the files that say whose data directory it is.
//!
//! It knows the files and what their bytes mean. When something is written, and what is released or evicted, the node says. All
//! files are reached through [`boxoffice_env::Disk`] and [`boxoffice_env::Stores`].

// In reading order: whose directory it is, the log, snapshots, what has left memory.
pub mod data_epoch;
pub mod identity;
pub mod peer_positions;

pub mod codec;
pub mod fsync;
pub mod log;

pub mod snapshot;
pub mod snapshot_files;

pub mod archive_files;
pub mod history;
