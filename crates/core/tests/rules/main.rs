//! The rules at work: stories, interleavings, random commands against a model, sizes.

mod bank;
mod town;
mod watch;

mod script;

mod best;
mod bounds;
mod catalogue;
mod examples;
mod interleavings;
mod keeping;
mod kinds;
mod money;
mod model;
mod promises;
mod races;
mod sizes;
mod storm;
mod traps;
