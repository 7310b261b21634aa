//! A node's data on disk: the log, snapshots, archives of old log segments, the history store of entities that have
//! left memory, and the identity of the data directory.
//!
//! This crate knows the files and their formats. The node decides when something is written, released or evicted. All
//! files are accessed through [`boxoffice_env::Disk`] and [`boxoffice_env::Stores`].

// In reading order.
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
