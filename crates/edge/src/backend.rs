//! What is behind the door.

use std::{pin::Pin, sync::Arc};

use boxoffice_core::{
    access::AccessKey,
    command::Command,
    id::{Entity, Id, Request},
    seat::Seat,
    time::Timestamp,
};
use boxoffice_feeds::Feeds;
use boxoffice_node::{
    access::KeyRing,
    door::ReplyTo,
    history::{HistoryError, HistoryFound},
};
use boxoffice_wire::{
    FirstCommand,
    hello::Hello,
    status::{NodeAudit, NodeStatus},
};
use smol_str::SmolStr;

/// A history that is being read.
pub type Reading = Pin<Box<dyn Future<Output = Result<HistoryFound, HistoryError>> + Send>>;

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub node: SmolStr,
    /// Where clients reach it: host and port; empty if that is not known.
    pub client: SmolStr,
}

/// The node, as the door needs it.
pub trait Backend: Send + Sync + 'static {
    /// Hands a command on; `request` is there if it changes something. Never blocks: what cannot be taken is answered busy.
    fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo);

    /// Whether a command that comes now is refused because of overload, and then after how many milliseconds its client should
    /// try again. Such a command is not submitted.
    fn sheds(&self, command: &Command, request: Option<Request>) -> Option<u32> {
        let _ = (command, request);
        None
    }

    /// The same for a command of which only the head was read, which costs less. What command that is, is asked for only if it
    /// may be refused. A command that this does not shed is read whole, and `sheds` is asked.
    fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>) -> Option<u32> {
        let _ = command;
        None
    }

    /// Whether the node refuses commands because of overload.
    fn is_shedding(&self) -> bool {
        false
    }

    /// What the first frame of a connection says. The door writes its own limits into it.
    fn hello(&self) -> Hello;

    /// The members of the cluster, as far as the node knows them.
    fn members(&self) -> Vec<Member>;

    /// The node that leads each shard, by the shard's number; 0 where this node knows of none.
    fn leaders(&self) -> Vec<u64>;

    /// The node that leads an entity, if it is known and another one.
    fn leader_elsewhere(&self, entity: &Entity) -> Option<u64>;

    /// How the node is.
    fn status(&self) -> NodeStatus;

    /// What the node holds, counted afresh: takes a while.
    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>>;

    /// What happened to an entity, or to one seat of it: at most `limit` events with versions before `before`.
    fn history(&self, entity: &Entity, seat: Option<Seat>, limit: usize, before: Option<u64>) -> Reading;

    /// The node's wall clock: what the time of a signature is held against.
    fn now(&self) -> Timestamp;

    /// The cluster's key with this name, as far as this node knows.
    fn key(&self, name: &Id) -> Option<Arc<AccessKey>>;

    /// How the cluster's keys stand.
    fn key_ring(&self) -> KeyRing;

    /// Whether this token shows that a machine knows the secret of the cluster's nodes.
    fn is_peer_token(&self, token: &str) -> bool;

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
