//! The primitives of [`crate::under_way`] and [`crate::state_slot`], by names that a model of weak memory can stand in
//! for (`tests/loom`).

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) use tracing_mutex::parkinglot::Mutex;
