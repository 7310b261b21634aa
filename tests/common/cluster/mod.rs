//! Several nodes and the network between them, buyers and watchers of all of them, and what is checked after a fault.
#![allow(dead_code, unused_imports, reason = "each of the tests uses its part")]

mod anywhere;
mod faketime;
mod granted;
mod links;
mod money;
mod nodes;
mod stage;
mod standing;
mod watchers;

pub(crate) use anywhere::Anywhere;
pub(crate) use links::{Links, Weather};
pub(crate) use nodes::{CONFIRM_MS, Cluster, Plan, SECRET, SHARDS};
pub(crate) use stage::{Stage, lasts, nobody_flaps, refuses_in_time};
