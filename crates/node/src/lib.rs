//! The node: actors that decide, and the routes between them, other nodes and the replication. It reaches the outside only
//! through [`boxoffice_env::World`].
//!
//! # From a command to its answer
//!
//! 1. [`node::NodeHandle::submit`] takes a command with an [`api::ReplyTo`]. If the node waits too long for commands, the
//!    [admission] refuses the first commands of new customers.
//! 2. Each entity belongs to a shard. If another node leads the shard, the command is forwarded to it, and repeated with the
//!    same request id if that leader is lost.
//! 3. The entity's actor takes the entity's state, and [`boxoffice_core::host::Host`] decides. A panic is
//!    [contained](contain): it fails this command and restarts the entity from committed state.
//! 4. The events are proposed to [`boxoffice_replication`]. Answers and messages that depend on them are held back.
//! 5. When the entry is committed and applied, the answers are given, and the feeds receive the change.
//!
//! `docs/internals/way-of-a-hold.md` names every function of this way, with the thread that it runs on.
//!
//! A node in this process, without sockets:
//!
//! ```
//! use std::sync::{Arc, mpsc};
//!
//! use boxoffice_core::{command::{Command, ProductCommand}, id::Id, refusal::Refusal};
//! use boxoffice_env::World;
//! use boxoffice_node::{
//!     api::{self, ReplySink, ReplyTo},
//!     config::{NodeConfig, ReplicationConfig},
//!     node::{Node, Runtimes},
//! };
//!
//! struct Answers(mpsc::Sender<api::Result>);
//!
//! impl ReplySink for Answers {
//!     fn answer(&self, _tag: u64, result: api::Result) {
//!         self.0.send(result).expect("the answer is waited for");
//!     }
//! }
//!
//! let data = tempfile::tempdir()?;
//! let runtime = tokio::runtime::Runtime::new()?;
//! let runtimes = Runtimes { selling: runtime.handle().clone(), watching: runtime.handle().clone() };
//! let replication = ReplicationConfig { data_dir: data.path().join("node"), ..ReplicationConfig::default() };
//! let node = Node::start(NodeConfig { replication, ..NodeConfig::default() }, World::standalone(), &runtimes)?;
//! while node.handle().ready().is_err() {
//!     std::thread::yield_now();
//! }
//!
//! let (sender, answers) = mpsc::channel();
//! let pen = Id::new("pen").expect("an id");
//! let command = Command::Product(pen.clone(), ProductCommand::Get);
//! node.handle().submit(command, None, ReplyTo::new(Arc::new(Answers(sender)), 0));
//! // Nothing was ever put into this node, so it knows no pen.
//! assert_eq!(answers.recv()?.expect("a decision"), Err(Refusal::NoSuchProduct(pen)));
//! runtime.block_on(node.stop(1_000))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Clusters
//!
//! Every node has a copy of the directory, which knows the members and their replicas. A reconciler on each node starts, moves
//! and drops replicas as the directory says. `docs/internals/actors.md` and `docs/internals/replication.md` explain both.

/// Plants a bug in everything that runs on this thread, in this crate and those below. `None` removes it.
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
pub mod as_of;
mod as_of_query;
mod as_of_reader;
pub mod audit;
pub mod backup;
mod backup_reads;
mod caller;
mod clocks;
mod cluster_copy;
pub mod contain;
#[cfg(test)]
mod costs;
#[doc(hidden)]
pub mod decoders;
mod disk_pace;
mod feed_source;
pub mod frame_info;
pub mod history;
mod history_answer;
mod history_query;
mod history_reader;
mod joint;
mod leader_hint;
mod marks;
#[cfg(test)]
mod memory_costs;
mod message;
pub mod metrics;
pub mod metrics_text;
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
pub mod verify;
mod watched;

#[cfg(all(test, debug_assertions))]
mod planting;
