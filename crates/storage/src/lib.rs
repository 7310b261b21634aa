//! A node's data on disk: the log, snapshots, archives of old log segments, the history store of entities that have
//! left memory, and the identity of the data directory.
//!
//! This crate knows the files and their formats. The node decides when something is written, released or evicted. All
//! files are accessed through [`boxoffice_env::Disk`] and [`boxoffice_env::Stores`], so that tests can cut the power:
//!
//! ```
//! use std::{path::Path, sync::Arc};
//!
//! use boxoffice_env::{MemoryDisk, OsRng};
//! use boxoffice_storage::log::{Kind, Log, LogConfig, Record, Start};
//!
//! let disk = MemoryDisk::new();
//! let open = |start, replay: &mut dyn FnMut(Record<'_>)| {
//!     let config = LogConfig::new(7, 256 << 10);
//!     Log::open(Arc::new(disk.clone()), Arc::new(OsRng), Path::new("log"), config, start, replay).unwrap().0
//! };
//!
//! let mut log = open(Start::New, &mut |_| {});
//! log.append(Kind::Ordinary, &[b"seat 7 is sold"], &[]).unwrap();
//! log.sync().unwrap();
//! log.append(Kind::Ordinary, &[b"seat 8 is sold"], &[]).unwrap();
//! disk.power_cut(&mut || false);
//! drop(log);
//!
//! let mut records = Vec::new();
//! open(Start::Existing, &mut |record| records.push(record.payload.to_vec()));
//! assert_eq!(records, [b"seat 7 is sold"]);
//! ```

// In reading order.
pub mod data_epoch;
pub mod identity;
pub mod members;
pub mod peer_positions;
pub mod renewal;

pub mod codec;
pub mod fsync;
pub mod log;

pub mod snapshot;
pub mod snapshot_files;

pub mod archive_files;
pub mod chain_file;
pub mod history;

#[cfg(test)]
mod tests;
