//! Several nodes and the network between them, buyers and watchers of all nodes, and the checks after a fault.
#![allow(dead_code, unused_imports, reason = "each test uses a part of this")]

mod cluster_status;
mod failover_client;
pub(crate) mod faketime;
mod granted;
mod links;
mod money;
mod nodes;
mod stage;
mod watchers;

pub(crate) use failover_client::FailoverClient;
pub(crate) use links::{LinkFault, Links};
pub(crate) use nodes::{CONFIRM_MS, Cluster, Plan, SECRET, SHARDS, free_address};
pub(crate) use stage::{Stage, leaders_are_stable, refuses_in_time, sustain_fault};
pub(crate) use watchers::{Told, Watchers};
