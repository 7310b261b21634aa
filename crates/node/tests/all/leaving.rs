//! Ended carts leave memory for the store, and old log segments become archives: whole nodes, through crashes, full disks and
//! restarts.

#![allow(clippy::disallowed_methods, reason = "a test reaches the disk and the clock as it likes")]

mod as_of;
mod crashes;
mod damage;
mod histories;
mod moving;
mod repeats;
mod shop;
mod stalls;
