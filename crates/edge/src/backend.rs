//! What is behind the door.

use std::pin::Pin;

use boxoffice_core::{command::Command, id::Request};
use boxoffice_node::{door::ReplyTo, feeds::Feeds};
use boxoffice_wire::{
    hello::Hello,
    status::{NodeAudit, NodeStatus},
};

/// The node, as the door needs it.
pub trait Backend: Send + Sync + 'static {
    /// Hands a command on; `request` is there if it changes something. Never blocks: what cannot be taken is answered busy.
    fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo);

    /// What the first frame of a connection says. The door writes its own limits into it.
    fn hello(&self) -> Hello;

    /// How the node is.
    fn status(&self) -> NodeStatus;

    /// What the node holds, counted afresh: takes a while.
    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>>;

    /// Whether the node can serve.
    ///
    /// # Errors
    /// Why not, in words.
    fn ready(&self) -> Result<(), String>;

    /// The node's own counters as Prometheus text; the door adds its own.
    fn metrics_text(&self) -> String;

    /// The node's live seat maps.
    fn feeds(&self) -> &Feeds;
}
