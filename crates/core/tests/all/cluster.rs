//! The cluster: who is a member, where shards should be, and what is refused.

mod moves;
mod repeats;
mod script;
mod stories;
