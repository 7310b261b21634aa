//! Tests of the rules: stories, interleavings, random commands against references, sizes.

mod test_gateway;
mod hold_lifetimes;
mod fixture;
mod watch;

mod script;

mod attempts;
mod placement;
mod best;
mod bounds;
mod catalogue;
mod checkouts;
mod crashes;
mod deadlines;
mod ends;
mod examples;
mod failures;
mod high_numbers;
mod foreign;
mod grace;
mod grants;
mod growth;
mod states;
mod lifetimes;
mod lines;
mod model;
mod payments;
mod mutations;
mod operators;
mod outcomes;
mod past_slots;
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
mod deposed;
mod random_runs;
mod time;
mod ended_carts;
mod tombstones;
mod traps;
