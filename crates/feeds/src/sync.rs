//! What [`super::ready`] is built of, by names that a model of weak memory can stand in for (`tests/loom.rs`).

pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(super) use futures_util::task::AtomicWaker;
pub(super) use parking_lot::Mutex;
