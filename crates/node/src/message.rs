//! Messages between nodes on the lane of calls.

use std::{borrow::Cow, collections::BTreeSet};

use boxoffice_core::stored::Stored;
use boxoffice_core::{
    answer::Outcome,
    ask::{Ask, Reply},
    command::Command,
    id::{Entity, Request},
    stored,
    version::ClusterVersion,
};
use boxoffice_replication::checksums::Checksum;
use boxoffice_shard::ShardId;
use boxoffice_storage::data_epoch::DataEpoch;
use bytes::Bytes;
use smol_str::SmolStr;

use crate::{
    api::Failure,
    as_of_query::{AsOfQuery, Then},
    history_query::{HistoryPart, HistoryQuery, NoHistory},
    leader_hint::LeaderInfo,
};

/// One message of the lane of calls.
#[derive(Clone, Debug, PartialEq, Stored)]
#[stored(name = "CallMessage")]
pub(crate) enum Message<'a> {
    /// A client's command, for an entity whose hinted leader is the receiver.
    #[n(0)]
    Call {
        /// The caller's number for this attempt.
        #[n(0)]
        tag: u64,
        /// The term in which the sender expects the receiver to lead. A command that changes something is decided in no other.
        #[n(1)]
        term: u64,
        /// How long the client still waits, in milliseconds.
        #[n(2)]
        left_ms: u64,
        /// How long the buyer will still be there, in milliseconds.
        #[n(3)]
        patience_ms: u64,
        /// An earlier attempt may have been admitted, so this one must not be shed.
        #[n(5)]
        is_repeat: bool,
        /// The request, if it changes something.
        #[n(6)]
        request: Option<Request>,
        /// The name of the key or the operator that asks.
        #[n(7)]
        by: Option<SmolStr>,
        #[n(4)]
        command: Cow<'a, Command>,
        /// The highest mark that the sender knows.
        #[n(8)]
        mark: Option<u64>,
    },
    /// The result of a call.
    #[n(1)]
    Answer {
        /// The number of the call.
        #[n(0)]
        tag: u64,
        /// The outcome, or why there is none.
        #[n(1)]
        result: Result<Cow<'a, Outcome>, NoAnswer>,
        /// The highest mark that the sender knows.
        #[n(2)]
        mark: Option<u64>,
    },
    /// An entity asks another one.
    #[n(2)]
    Ask {
        /// The entity that is asked.
        #[n(0)]
        to: Cow<'a, Entity>,
        /// The entity that asks.
        #[n(1)]
        from: Cow<'a, Entity>,
        #[n(2)]
        ask: Cow<'a, Ask>,
        /// The highest mark that the sender knows.
        #[n(3)]
        mark: Option<u64>,
    },
    /// An entity replies to another one.
    #[n(3)]
    Reply {
        /// The entity that asked.
        #[n(0)]
        to: Cow<'a, Entity>,
        /// The entity that replies.
        #[n(1)]
        from: Cow<'a, Entity>,
        #[n(2)]
        reply: Cow<'a, Reply>,
        /// The highest mark that the sender knows.
        #[n(3)]
        mark: Option<u64>,
    },
    /// Asks for the receiver's wall clock. The answer repeats `asked_ms` and adds the clock.
    #[n(4)]
    Time {
        /// The asker's monotonic clock, in milliseconds.
        #[n(0)]
        asked_ms: u64,
        /// In an answer: the receiver's wall clock, in milliseconds since 1970.
        #[n(1)]
        wall_ms: Option<u64>,
    },
    /// The epoch that the sender knows. It is sent when a link is up, and when the sender learns of a younger one.
    #[n(5)]
    DataEpoch(#[n(0)] DataEpoch),
    /// The sender should not lead anything, or may again.
    #[n(6)]
    AvoidLeadership(#[n(0)] bool),
    /// The receiver was drained and has no replica left. It is about to be removed from the members.
    #[n(7)]
    LeaveNotice,
    /// Asks for the history of an entity from the receiver's log and archives.
    #[n(8)]
    History {
        /// The asker's number for the query.
        #[n(0)]
        tag: u64,
        #[n(1)]
        query: HistoryQuery<'a>,
    },
    /// The answer to `History`.
    #[n(9)]
    HistoryReply {
        /// The number of the query.
        #[n(0)]
        tag: u64,
        /// The events, or why there are none.
        #[n(1)]
        result: Result<HistoryPart, NoHistory>,
    },
    /// An ask or reply came to a node that does not lead the shard.
    #[n(10)]
    NotLeader {
        #[n(0)]
        shard: ShardId,
        /// Its leader, as the sender knows it.
        #[n(1)]
        leader: LeaderInfo,
    },
    /// Checksums of the sender's replicas after some entries. Programs of all versions of a cluster write a value in the same bytes, so
    /// they have the same checksums.
    #[n(11)]
    Checksums(#[n(0)] Vec<Checksum>),
    /// How long a sync of the sender's log takes now, in microseconds. `None` if it syncs nothing.
    #[n(12)]
    SyncTime(#[n(0)] Option<u64>),
    /// The sender leads this shard since this term. It says so to nodes without a replica, which hear of no elections.
    #[n(13)]
    Leads {
        #[n(0)]
        shard: ShardId,
        #[n(1)]
        term: u64,
    },
    /// The sender should not lead exactly these shards.
    #[n(14)]
    AvoidShards(#[n(0)] BTreeSet<ShardId>),
    /// The sender writes under this version. The receiver does so as well from then on, because it may get what came with it.
    #[n(15)]
    ClusterVersion(#[n(0)] ClusterVersion),
    /// The highest mark that the sender knows. It is sent when it is raised, and when a link is up.
    #[n(16)]
    Mark(#[n(0)] u64),
    /// Asks for an entity as it was at an instant. Sent since [`CHAINED`](boxoffice_core::version::CHAINED).
    #[n(20)]
    AsOf {
        /// The asker's number for the query.
        #[n(0)]
        tag: u64,
        #[n(1)]
        query: AsOfQuery<'a>,
    },
    /// The answer to `AsOf`.
    #[n(21)]
    AsOfReply {
        /// The number of the query.
        #[n(0)]
        tag: u64,
        /// What is known of it, or why nothing could be read.
        #[n(1)]
        result: Result<Then, NoHistory>,
    },
    /// What only the next version has. Nothing comes of it.
    #[cfg(debug_assertions)]
    #[n(1000)]
    #[stored(next)]
    Rehearsal,
}

/// Why a call has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) enum NoAnswer {
    /// The receiver does not lead the shard. Nothing happened.
    #[n(0)]
    NotLeader(#[n(0)] LeaderInfo),
    /// A failure as the receiver's own API reports it.
    #[n(1)]
    Failed(#[n(0)] Failure),
}

impl Message<'_> {
    /// The mark that it carries. Whatever comes of the message carries it as well.
    pub(crate) fn mark(&self) -> Option<u64> {
        match self {
            Message::Call { mark, .. }
            | Message::Answer { mark, .. }
            | Message::Ask { mark, .. }
            | Message::Reply { mark, .. } => *mark,
            Message::Mark(mark) => Some(*mark),
            _ => None,
        }
    }

    /// The message's bytes.
    pub(crate) fn encode(&self) -> Bytes {
        stored::append(self, Vec::with_capacity(128)).into()
    }

    /// The message in these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message<'static>, String> {
        stored::read(bytes)
    }
}
