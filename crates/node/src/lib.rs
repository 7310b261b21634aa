//! The node: actors and I/O around the pure crates. It reaches the outside only through [`boxoffice_env::World`].

/// Plants a bug in whatever runs on this thread, in these crates and those below; or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<&'static str>) {
    boxoffice_core::planted::plant(bug);
    boxoffice_shard::planted::plant(bug);
}

// In reading order: the API, the actors that answer, durability.
pub mod access;
pub mod api;
pub mod config;
pub mod error;
pub mod node;

mod actor;
mod actor_pool;
pub mod admission;
pub mod audit;
mod caller;
mod clocks;
pub mod contain;
#[cfg(test)]
mod costs;
#[doc(hidden)]
pub mod decoders;
mod feed_source;
pub mod frame_info;
pub mod history;
mod history_answer;
mod history_query;
mod history_reader;
mod joint;
mod leader_hint;
mod message;
pub mod metrics;
mod outbound;
mod peer_receiver;
mod pending;
mod pending_commit;
mod placement;
mod recovery;
mod remote_feeds;
mod replicated;
mod routing;
mod samples;
mod shard_lead;
mod shared;
mod state_slot;
pub mod status;
mod sync;
pub mod tasks;
mod timers;
mod under_way;
mod upkeep;
mod watched;
