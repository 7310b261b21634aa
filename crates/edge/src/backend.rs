//! The node, as the client port needs it.

use std::{pin::Pin, sync::Arc};

use boxoffice_core::{
    access::AccessKey,
    command::Command,
    id::{Entity, Id, Request},
    seat::Seat,
    time::Timestamp,
};
use boxoffice_env::secret::Secret;
use boxoffice_feeds::Feeds;
use boxoffice_node::{
    access::KeyRing,
    api::{CallTimes, ReplyTo},
    as_of::{AsOf, AsOfError},
    backup::{BackupAnswer, BackupError},
    history::{HistoryError, HistoryPart},
};
use boxoffice_wire::{
    FirstCommand,
    call::BackupQuery,
    hello::Hello,
    status::{NodeAudit, NodeStatus},
    version::PROTOCOL_MINOR,
};
use smol_str::SmolStr;

/// A future of the history of an entity.
pub type Reading = Pin<Box<dyn Future<Output = Result<HistoryPart, HistoryError>> + Send>>;

/// A future of what a backup asks for.
pub type Backup = Pin<Box<dyn Future<Output = Result<BackupAnswer, BackupError>> + Send>>;

/// A future of an entity as it was.
pub type Remembering = Pin<Box<dyn Future<Output = Result<AsOf, AsOfError>> + Send>>;

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's id.
    pub node: SmolStr,
    /// Host and port for clients. Empty if not known.
    pub client: SmolStr,
}

/// The node, as the client port needs it. Tests have one of their own.
pub trait Backend: Send + Sync + 'static {
    /// Submits a command. `request` is the request id of a command that changes something. Never blocks. A command that
    /// cannot be taken is answered busy.
    fn submit(&self, command: Command, request: Option<Request>, reply: ReplyTo);

    /// Whether a command fits into the node's log. One that does not is refused and not submitted.
    ///
    /// # Errors
    /// Why not.
    fn check_size(&self, command: &Command) -> Result<(), SmolStr> {
        let _ = command;
        Ok(())
    }

    /// Whether the node refuses this command because of overload. Returns after how many milliseconds the client should retry.
    /// Such a command is not submitted.
    fn sheds(&self, command: &Command, request: Option<Request>, times: CallTimes) -> Option<u32> {
        let _ = (command, request, times);
        None
    }

    /// The same before the body is read, which costs less, for a frame that has lain unread for so many milliseconds. Calls `command` only if the command may be refused. If not
    /// shed here, the command is read whole and [`Backend::sheds`] decides.
    fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>, unread_ms: u64) -> Option<u32> {
        let _ = (command, unread_ms);
        None
    }

    /// Whether the node refuses commands because of overload.
    fn is_shedding(&self) -> bool {
        false
    }

    /// The first frame of a connection. The client port writes its own limits into it.
    fn hello(&self) -> Hello;

    /// The minor version of the protocol that all nodes of the cluster speak.
    fn minor(&self) -> u32 {
        PROTOCOL_MINOR
    }

    /// The members of the cluster, as far as the node knows them.
    fn members(&self) -> Vec<Member>;

    /// The leader of each shard, by the shard's number. 0 if this node knows of none.
    fn leaders(&self) -> Vec<u64>;

    /// The node that leads an entity, if that is another node and known.
    fn leader_elsewhere(&self, entity: &Entity) -> Option<u64>;

    /// The node's status, without the counters of the client port.
    fn status(&self) -> NodeStatus;

    /// Counts everything that the node holds. Takes a while.
    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>>;

    /// What a backup asks for. Takes a while.
    fn backup(&self, query: BackupQuery) -> Backup;

    /// The history of an entity, or of one of its seats: at most `limit` events with versions before `before`.
    fn history(&self, entity: &Entity, seat: Option<Seat>, limit: usize, before: Option<u64>) -> Reading;

    /// An entity as it was at an instant.
    fn as_of(&self, entity: &Entity, at: Timestamp) -> Remembering;

    /// The node's wall clock, against which the times in tokens and signatures are checked.
    fn now(&self) -> Timestamp;

    /// The cluster's key with this name, as far as this node knows.
    fn key(&self, name: &Id) -> Option<Arc<AccessKey>>;

    /// The state of the cluster's keys.
    fn key_ring(&self) -> KeyRing;

    /// Whether this token proves that a machine knows the secret of the cluster's nodes.
    fn is_peer_token(&self, token: &str) -> bool;

    /// The current secret of the cluster's nodes, which an invited machine needs. `None` if the node listens for no other nodes.
    fn peer_secret(&self) -> Option<&Secret>;

    /// Checks that the node can serve.
    ///
    /// # Errors
    /// The reason why it cannot, in words.
    fn ready(&self) -> Result<(), String>;

    /// What of the node's store cannot be read, in words.
    fn damage(&self) -> Option<String> {
        None
    }

    /// The node's own counters as Prometheus text, without those of the client port.
    fn metrics_text(&self) -> String;

    /// The node's live seat maps.
    fn feeds(&self) -> &Feeds;
}
