//! Attacks a real node from outside, with a legitimate buyer during each attack.
//!
//! The buyer has another loopback address than the attackers, because budgets are per network. Each attack prints one line with
//! the buyer's purchases alone and during the attack, and the memory of the node. `BOXOFFICE_ATTACK_S=60` attacks for a minute
//! each:
//!
//! ```sh
//! BOXOFFICE_ATTACK_S=60 cargo test -p boxoffice --test whole attacks -- --nocapture --test-threads=1 | grep '^attack'
//! ```
//!
//! `BOXOFFICE_ATTACK_CONFIG=FILE` adds a configuration to every node. One that switches a budget off must make tests fail.
//!
//! No test asserts a speed. They assert counts: the buyer still buys, refusals have their names, nothing is oversold, memory is
//! bounded, and everything that an attacker held is free again.

#[path = "../../crates/edge/tests/all/server/permissions.rs"]
mod permissions;

mod buyer;
mod stage;
mod tokens;
mod wire;

mod attributes;
mod cursors;
mod floods;
mod foreign;
mod guesses;
mod halves;
mod hoards;
mod malformed;
mod pages;
mod reads;
mod roles;
mod table;

mod codes;
mod limits;
mod pointers;
