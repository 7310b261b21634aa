//! What a load run does and how it is judged, without a socket or a clock: when flows start, what they buy, and whether what
//! the servers say afterwards agrees with what the clients were told.
//!
//! Everything here is a pure function of what is handed in; the same seed gives the same run.

// In reading order: what is sold, when, by whom, what came of it, and the judgement.
pub mod goods;
pub mod house;

pub mod arrival;
pub mod draw;
pub mod flow;
pub mod history;

pub mod check;
pub mod statistics;
