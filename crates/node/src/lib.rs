//! The node: actors and I/O around the pure crates. It reaches the outside only through [`boxoffice_env::World`].

/// Plants a bug in whatever runs on this thread, in these crates and those below; or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<&'static str>) {
    boxoffice_core::planted::plant(bug);
    boxoffice_shard::planted::plant(bug);
}

// In reading order: the door, who answers, how it becomes durable.
pub mod access;
pub mod config;
pub mod door;
pub mod error;
pub mod node;

mod actor;
pub mod admission;
pub mod audit;
mod cell;
mod checksums;
mod clocks;
pub mod contain;
#[cfg(test)]
mod costs;
#[doc(hidden)]
pub mod decoders;
mod desk;
mod driver;
mod far_feeds;
pub mod history;
mod inbox;
pub mod inspect;
mod joint;
mod keeper;
pub mod metrics;
pub mod overheard;
mod peer_frame;
mod pieces;
mod placing;
mod pool;
mod queue;
mod recovery;
mod replicators;
mod routing;
mod shared;
mod snapshots;
pub mod status;
mod streams;
mod sync;
pub mod tasks;
mod ticket;
mod timers;
mod under_way;
mod watched;
