//! Whoever keeps the nodes of a run: processes that can be killed, started again and added. The run itself starts none.

use std::fmt;

/// Keeps the nodes that were started for a run. Nodes are counted from 0, in the order of the run's addresses.
pub trait Keeper: fmt::Debug + Send + Sync {
    /// Ends a node at once, as a power cut of its machine would (SIGKILL).
    ///
    /// # Errors
    /// In words.
    fn kill(&self, node: usize) -> Result<(), String>;

    /// Tells a node to stop (SIGTERM), and waits until it has.
    ///
    /// # Errors
    /// In words.
    fn stop(&self, node: usize) -> Result<(), String>;

    /// Starts a node that was killed or stopped, with its disk and its addresses, and waits until it serves.
    ///
    /// # Errors
    /// In words.
    fn start(&self, node: usize) -> Result<(), String>;

    /// Starts one more node, which joins the others, and waits until it serves; its address.
    ///
    /// # Errors
    /// In words.
    fn add(&self) -> Result<String, String>;
}
