//! The cluster's table, with members, places of shards, and refusals.

pub(crate) mod invitations;
mod moves;
pub(crate) mod repeats;
mod script;
pub(crate) mod stories;
