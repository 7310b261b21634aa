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
mod model;
mod money;
mod promises;
mod races;
mod reference;
mod repeats;
mod sizes;
mod storm;
mod traps;
