//! Control over the nodes of a run, whose processes it can kill, start again and add.

use std::fmt;

/// Controls the nodes that were started for a run. The run itself starts none. Node 0 is the first one of the run's
/// addresses.
pub trait NodeController: fmt::Debug + Send + Sync {
    /// Kills a node at once (SIGKILL), as a power cut of its machine would.
    ///
    /// # Errors
    /// The reason as text.
    fn kill(&self, node: usize) -> Result<(), String>;

    /// Tells a node to stop (SIGTERM), and waits until it has.
    ///
    /// # Errors
    /// The reason as text.
    fn stop(&self, node: usize) -> Result<(), String>;

    /// Starts a node that was killed or stopped, with its disk and its addresses, and waits until it serves.
    ///
    /// # Errors
    /// The reason as text.
    fn start(&self, node: usize) -> Result<(), String>;

    /// Kills all nodes at once (SIGKILL) and starts them again, and waits until they serve.
    ///
    /// # Errors
    /// The reason as text.
    fn restart_all(&self) -> Result<(), String>;

    /// Starts one more node, which joins the others, and waits until it serves. Returns its address.
    ///
    /// # Errors
    /// The reason as text.
    fn add(&self) -> Result<String, String>;
}
