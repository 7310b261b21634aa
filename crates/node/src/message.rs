//! Messages between nodes on the lane of calls, in postcard.

use std::{borrow::Cow, collections::BTreeSet};

use boxoffice_core::{
    answer::Outcome,
    ask::{Ask, Reply},
    command::Command,
    id::{Entity, Request},
    packing,
};
use boxoffice_replication::checksums::Checksum;
use boxoffice_shard::ShardId;
use boxoffice_storage::data_epoch::DataEpoch;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    api::Failure,
    history_query::{HistoryPart, HistoryQuery, NoHistory},
    leader_hint::LeaderInfo,
};

/// One message of the lane of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message<'a> {
    /// A client's command, for an entity whose hinted leader is the receiver.
    Call {
        /// The caller's number for this attempt.
        tag: u64,
        /// The term in which the sender expects the receiver to lead. A command that changes something is decided in no other.
        term: u64,
        /// How long the client still waits, in milliseconds.
        left_ms: u64,
        /// How long the buyer will still be there, in milliseconds.
        patience_ms: u64,
        /// An earlier attempt may have been admitted, so this one must not be shed.
        is_repeat: bool,
        /// The request, if it changes something.
        request: Option<Request>,
        /// The name of the key or the operator that asks.
        by: Option<SmolStr>,
        command: Cow<'a, Command>,
    },
    /// The result of a call.
    Answer {
        /// The number of the call.
        tag: u64,
        /// The outcome, or why there is none.
        result: Result<Cow<'a, Outcome>, NoAnswer>,
    },
    /// An entity asks another one.
    Ask {
        /// The entity that is asked.
        to: Cow<'a, Entity>,
        /// The entity that asks.
        from: Cow<'a, Entity>,
        ask: Cow<'a, Ask>,
    },
    /// An entity replies to another one.
    Reply {
        /// The entity that asked.
        to: Cow<'a, Entity>,
        /// The entity that replies.
        from: Cow<'a, Entity>,
        reply: Cow<'a, Reply>,
    },
    /// Asks for the receiver's wall clock. The answer repeats `asked_ms` and adds the clock.
    Time {
        /// The asker's monotonic clock, in milliseconds.
        asked_ms: u64,
        /// In an answer: the receiver's wall clock, in milliseconds since 1970.
        wall_ms: Option<u64>,
    },
    /// The epoch that the sender knows. It is sent when a link is up, and when the sender learns of a younger one.
    DataEpoch(DataEpoch),
    /// The sender should not lead anything, or may again.
    AvoidLeadership(bool),
    /// The receiver was drained and has no replica left. It is about to be removed from the members.
    LeaveNotice,
    /// Asks for the history of an entity from the receiver's log and archives.
    History {
        /// The asker's number for the query.
        tag: u64,
        query: HistoryQuery<'a>,
    },
    /// The answer to `History`.
    HistoryReply {
        /// The number of the query.
        tag: u64,
        /// The events, or why there are none.
        result: Result<HistoryPart, NoHistory>,
    },
    /// An ask or reply came to a node that does not lead the shard.
    NotLeader {
        shard: ShardId,
        /// Its leader, as the sender knows it.
        leader: LeaderInfo,
    },
    /// Checksums of the sender's replicas after some entries. A node of a version without this message drops it.
    Checksums {
        /// The version of the sender's program.
        program: Cow<'a, str>,
        checksums: Vec<Checksum>,
    },
    /// How long a sync of the sender's log takes now, in microseconds. `None` if it syncs nothing. A node of a version without
    /// this message drops it.
    SyncTime(Option<u64>),
    /// The sender leads this shard since this term. It says so to nodes without a replica, which hear of no elections. A node of a
    /// version without this message drops it.
    Leads { shard: ShardId, term: u64 },
    /// The sender should not lead exactly these shards.
    AvoidShards(BTreeSet<ShardId>),
}

/// Why a call has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NoAnswer {
    /// The receiver does not lead the shard. Nothing happened.
    NotLeader(LeaderInfo),
    /// A failure as the receiver's own API reports it.
    Failed(Failure),
}

impl Message<'_> {
    /// The message's bytes.
    pub(crate) fn encode(&self) -> Bytes {
        packing::append(self, Vec::with_capacity(128)).into()
    }

    /// The message in these bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message<'static>, String> {
        packing::read(bytes)
    }
}
