//! The rules at work: stories, interleavings, random commands against a model, sizes.

mod bank;
mod town;
mod watch;

mod script;

mod attempts;
mod best;
mod bounds;
mod catalogue;
mod examples;
mod foreign;
mod grace;
mod interleavings;
mod keeping;
mod kinds;
mod model;
mod money;
mod prices;
mod promises;
mod purchases;
mod races;
mod reference;
mod sizes;
mod storm;
mod traps;
