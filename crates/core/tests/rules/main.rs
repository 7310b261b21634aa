//! The rules at work: stories, interleavings, random commands against a model, sizes.

mod bank;
mod lives;
mod town;
mod watch;

mod script;

mod attempts;
mod beside;
mod best;
mod bounds;
mod catalogue;
mod checkouts;
mod crashes;
mod deadlines;
mod ends;
mod examples;
mod failures;
mod far;
mod foreign;
mod grace;
mod grants;
mod growth;
mod keeping;
mod lifetimes;
mod lines;
mod model;
mod money;
mod mutations;
mod operators;
mod outcomes;
mod past;
#[cfg(feature = "planted")]
mod planted;
mod prices;
mod promises;
mod purchases;
mod quotas;
mod races;
mod reference;
mod repeats;
mod sizes;
mod stopped;
mod storm;
mod time;
mod told;
mod tombstones;
mod traps;
