//! The configuration of raft-rs, and the messages that it may receive.

use raft::ReadOnlyOption;
use raft::eraftpb::MessageType;

use crate::config::Config;
use crate::envelope;
use crate::name::ReplicaId;

/// Bytes of entries in one message at most, unless a single entry is larger.
const MESSAGE_BYTES: u64 = 1024 * 1024;

/// Unanswered appends to one follower at most, messages.
const INFLIGHT_MESSAGES: usize = 256;

/// Bytes of committed entries returned in one pass at most, unless a single entry is larger. More matter only at a
/// restart.
const APPLY_BYTES: u64 = 8 * 1024 * 1024;

/// The settings of one replica. Everything up to `applied` is in a snapshot.
pub(crate) fn raft_config(config: &Config, replica: ReplicaId, applied: u64) -> raft::Config {
    raft::Config {
        id: replica.bits(),
        election_tick: config.election_ticks,
        heartbeat_tick: config.heartbeat_ticks,
        applied,
        max_size_per_msg: MESSAGE_BYTES.min(config.uncommitted_bytes_max),
        max_inflight_msgs: INFLIGHT_MESSAGES,
        check_quorum: true,
        pre_vote: true,
        // The group decides when to campaign.
        min_election_tick: 0,
        max_election_tick: 0,
        read_only_option: ReadOnlyOption::Safe,
        // The next entry usually tells followers the commit index. Otherwise the group broadcasts it.
        skip_bcast_commit: true,
        // It adds entries to an empty message for a later position when a follower is probed twice in a pass. The
        // follower then finds a gap and stops.
        batch_append: false,
        priority: 0,
        max_uncommitted_size: config.uncommitted_bytes_max,
        max_committed_size_per_ready: APPLY_BYTES,
    }
}

/// Whether peers send each other such messages. Proposals and reads are never forwarded, because they are only for the node whose
/// actors decided them.
pub(crate) fn travels(kind: MessageType) -> bool {
    match kind {
        MessageType::MsgAppend
        | MessageType::MsgAppendResponse
        | MessageType::MsgRequestVote
        | MessageType::MsgRequestVoteResponse
        | MessageType::MsgRequestPreVote
        | MessageType::MsgRequestPreVoteResponse
        | MessageType::MsgSnapshot
        | MessageType::MsgHeartbeat
        | MessageType::MsgHeartbeatResponse
        | MessageType::MsgTimeoutNow => true,
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => false,
    }
}

/// Whether only a leader sends such messages. Only they create a replica or reach an empty one. Votes are requested
/// from voters only, and every voter has had a snapshot.
pub(crate) fn is_from_leader(kind: MessageType) -> bool {
    matches!(kind, MessageType::MsgAppend | MessageType::MsgSnapshot | MessageType::MsgHeartbeat)
}

/// Whether a peer's message makes the log longer, because it carries entries or a snapshot. A node without room can drop such
/// messages and accept all others, because raft sends them again.
pub fn grows_log(message: &[u8]) -> bool {
    // The receiver drops malformed messages.
    let Some((_, message)) = envelope::open(message) else { return false };
    !message.entries.is_empty() || message.get_msg_type() == MessageType::MsgSnapshot
}

#[cfg(test)]
mod tests {
    use raft::eraftpb::{Entry, Message};

    use super::*;

    #[test]
    fn only_entries_and_snapshots_make_a_log_longer() {
        let bytes = |kind: MessageType, entries: usize| {
            let mut message = Message::default();
            message.set_msg_type(kind);
            message.set_entries(vec![Entry::default(); entries].into());
            envelope::seal(&message, None)
        };
        assert!(grows_log(&bytes(MessageType::MsgAppend, 1)));
        assert!(grows_log(&bytes(MessageType::MsgSnapshot, 0)));
        for kind in [MessageType::MsgAppend, MessageType::MsgHeartbeat, MessageType::MsgRequestVote] {
            assert!(!grows_log(&bytes(kind, 0)), "{kind:?}");
        }
        assert!(!grows_log(b"no message"));
    }
}
