//! What nodes say to each other on the lane of calls, in postcard.

use std::borrow::Cow;

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
        /// An earlier attempt may have been admitted: this one is not to be shed.
        is_repeat: bool,
        /// The request, if it changes something.
        request: Option<Request>,
        /// The name of the key or the operator that asks.
        by: Option<SmolStr>,
        /// What is asked.
        command: Cow<'a, Command>,
    },
    /// What came of a call.
    Answer {
        /// The number it was sent with.
        tag: u64,
        /// The outcome, or why there is none.
        result: Result<Cow<'a, Outcome>, NoAnswer>,
    },
    /// An entity asks another one.
    Ask {
        /// Which is asked.
        to: Cow<'a, Entity>,
        /// Which asks.
        from: Cow<'a, Entity>,
        ask: Cow<'a, Ask>,
    },
    /// An entity replies to another one.
    Reply {
        /// Which had asked.
        to: Cow<'a, Entity>,
        /// Which replies.
        from: Cow<'a, Entity>,
        reply: Cow<'a, Reply>,
    },
    /// What does the wall clock show there? Answered with what was asked and the receiver's machine's clock.
    Time {
        /// The asker's monotonic clock, in milliseconds.
        asked_ms: u64,
        /// In an answer: the receiver's wall clock, in milliseconds since 1970.
        wall_ms: Option<u64>,
    },
    /// The epoch that the sender knows, told when a link is up and when it hears of a younger one.
    DataEpoch(DataEpoch),
    /// The sender should not lead anything, or may again.
    AvoidLeadership(bool),
    /// The receiver was drained and has nothing any more: it is about to be no member.
    LeaveNotice,
    /// Asks for the history of an entity from the receiver's log and archives.
    History {
        /// The asker's number for it.
        tag: u64,
        /// What is asked for.
        query: HistoryQuery<'a>,
    },
    /// What was found.
    HistoryReply {
        /// The number it was asked with.
        tag: u64,
        /// The events, or why there are none.
        result: Result<HistoryPart, NoHistory>,
    },
    /// An ask or reply came to a node that does not lead the shard.
    NotLeader {
        /// The shard.
        shard: ShardId,
        /// Its leader, as the node knows it.
        leader: LeaderInfo,
    },
    /// What the sender's replicas have after some entries. A node of a version that does not know it drops it.
    Checksums {
        /// The version of the sender's program.
        program: Cow<'a, str>,
        /// By entry.
        checksums: Vec<Checksum>,
    },
}

/// Why a call has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NoAnswer {
    /// The receiver does not lead the shard: nothing happened.
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
