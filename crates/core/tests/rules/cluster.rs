//! The cluster's table, with members, places of shards, and refusals.

mod moves;
mod repeats;
mod script;
mod stories;
