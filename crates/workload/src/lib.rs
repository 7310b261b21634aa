//! The plan of a load run and the check of its results, without a socket or a clock: when flows start, what they buy,
//! and whether the servers' state afterwards agrees with the answers that the clients got.
//!
//! All functions are pure. The same seed gives the same run.

// In reading order: what is sold, the plan of the flows, the answers, the checks.
pub mod goods;
pub mod house;

pub mod arrival;
pub mod flow;
pub mod history;
pub mod run_seed;

pub mod calls;
pub mod check;
pub mod statistics;
