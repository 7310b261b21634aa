//! How the loops are run: on threads of their own, or all as tasks of one runtime, which may be simulated.

use std::{pin::Pin, sync::Arc};

/// A loop that is run as a task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the loops.
#[derive(Clone)]
pub enum Runner {
    /// Each on a thread of its own.
    Threads,
    /// As tasks, by this function.
    Tasks(Arc<dyn Fn(Task) + Send + Sync>),
}
