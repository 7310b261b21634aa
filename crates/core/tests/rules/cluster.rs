//! The cluster's table, with members, places of shards, and refusals.

pub(crate) mod invitations;
mod moves;
mod repeats;
mod script;
mod stories;
