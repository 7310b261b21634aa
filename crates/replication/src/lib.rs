//! Replication of the shards. It makes the node's decisions durable, commits them and applies them.
//!
//! A [`Replicator`](replicator::Replicator) is a loop that steps raft ([`boxoffice_shard`]), writes and syncs the log, applies
//! committed entries to the [shards' states](shard_state::ShardState), and keeps log, snapshots and history in order. It takes
//! [`Input`](replicators::Input) and reports the results to its [`Owner`](owner::Owner) as [`Event`](owner::Event)s. It knows no
//! client and no actor.

pub mod backup;
pub mod checksums;
pub mod config;
pub mod error;
pub mod history_reads;
pub mod inspect;
pub mod metrics;
pub mod owner;
pub mod peer_frame;
pub mod replication;
pub mod replicators;
pub mod restore;
pub mod runner;
pub mod running;
pub mod shard_state;
pub mod sync_times;
pub mod transfer;
pub mod verify;

mod history_reader;
mod history_writer;
mod inbox;
mod open;
mod pieces;
mod queue;
mod replicator;
mod scrub;
mod snapshot_writer;
mod sync;

#[cfg(test)]
mod tests;
