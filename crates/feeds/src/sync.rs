//! The primitives of [`super::ready`], which `crates/node/tests/loom` replaces by a model of weak memory.

pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(super) use futures_util::task::AtomicWaker;
pub(super) use tracing_mutex::parkinglot::Mutex;
