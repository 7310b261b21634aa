//! Tests of the rules by stories, interleavings, random commands against references, and sizes. The calendar, the cluster's
//! table, the directory and the encoding of commands have their own.

mod fixture;
mod hold_lifetimes;
#[path = "../../../../tests/common/released.rs"]
mod released;
mod test_gateway;
mod watch;

mod script;

mod attempts;
mod best;
mod bounds;
mod calendar;
mod catalogue;
mod checkouts;
mod cluster;
mod commands;
mod crashes;
mod cursors;
mod deadlines;
mod deposed;
mod directory;
mod ended_carts;
mod ends;
mod examples;
mod failures;
mod fairness;
mod folds;
mod foreign;
mod grace;
mod grants;
mod growth;
mod high_numbers;
mod late_grants;
mod lifetimes;
mod limits;
mod lines;
mod model;
mod mutations;
mod offers;
mod oldest_release;
mod operators;
mod outcomes;
mod past_slots;
mod payments;
mod placement;
#[cfg(feature = "planted")]
mod planted;
mod prices;
mod promises;
mod purchases;
mod quotas;
mod races;
mod random_runs;
mod reference;
mod refusals;
mod repeats;
mod revoked_bookings;
mod side_by_side;
mod sizes;
mod states;
mod time;
mod tombstones;
mod traps;
mod venue_zones;
mod withdrawn;
