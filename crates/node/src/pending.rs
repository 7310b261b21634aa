//! The state of everything that this node awaits from others: asks without a reply of other shards, messages for shards without a
//! leader, calls of clients, and histories. `routing` sends them.

pub(crate) mod asks;
pub(crate) mod calls;
pub(crate) mod doubt;
pub(crate) mod histories;
pub(crate) mod leaderless;
mod steps;
