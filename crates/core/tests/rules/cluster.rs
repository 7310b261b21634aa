//! The cluster's table: members, places of shards, and refusals.

mod moves;
mod repeats;
mod script;
mod stories;
