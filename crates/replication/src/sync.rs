//! The primitives of [`crate::queue`], by names that a model of weak memory can stand in for (`crates/node/tests/loom`).

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use tracing_mutex::parkinglot::Mutex;
