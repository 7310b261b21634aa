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
mod caller;
mod cell;
mod clocks;
pub mod contain;
#[cfg(test)]
mod costs;
#[doc(hidden)]
pub mod decoders;
mod desk;
mod far_feeds;
mod feed_source;
mod found;
pub mod history;
mod history_answer;
mod history_reader;
mod joint;
mod leader;
mod message;
pub mod metrics;
mod outbound;
pub mod overheard;
mod peer_door;
mod pending;
mod placing;
mod pool;
mod recovery;
mod replicated;
mod routing;
mod samples;
mod shared;
pub mod status;
mod sync;
pub mod tasks;
mod ticket;
mod timers;
mod under_way;
mod upkeep;
mod watched;
