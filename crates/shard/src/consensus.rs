//! How raft-rs is set up and what is let in to it.

use raft::ReadOnlyOption;
use raft::eraftpb::MessageType;

use crate::config::Config;
use crate::envelope;
use crate::name::ReplicaId;

/// One message carries entries of at most this many bytes, or one entry.
const MESSAGE_BYTES: u64 = 1024 * 1024;

/// Appends to one follower that are not answered yet, messages.
const INFLIGHT_MESSAGES: usize = 256;

/// Committed entries handed out in one pass, bytes, or one entry; more matter only at a restart.
const APPLY_BYTES: u64 = 8 * 1024 * 1024;

/// The settings of one replica, of which everything up to `applied` is in a snapshot.
pub(crate) fn raft_config(config: &Config, replica: ReplicaId, applied: u64) -> raft::Config {
    raft::Config {
        id: replica.bits(),
        election_tick: config.election_ticks_min,
        heartbeat_tick: config.heartbeat_ticks,
        applied,
        max_size_per_msg: MESSAGE_BYTES.min(config.uncommitted_bytes_max),
        max_inflight_msgs: INFLIGHT_MESSAGES,
        check_quorum: true,
        pre_vote: true,
        min_election_tick: config.election_ticks_min,
        // A node that should not lead waits up to twice as long.
        max_election_tick: 2 * config.election_ticks_max,
        read_only_option: ReadOnlyOption::Safe,
        // Most is told with the next entry; the group tells the rest.
        skip_bcast_commit: true,
        // It adds entries to an empty message that stands for a later place when a follower is probed again
        // in the same pass; the follower then finds a gap and stops.
        batch_append: false,
        priority: 0,
        max_uncommitted_size: config.uncommitted_bytes_max,
        max_committed_size_per_ready: APPLY_BYTES,
    }
}

/// Whether peers send each other such messages. Proposals and reads are never forwarded: they are only
/// for the node whose actors decided them.
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

/// Whether only a leader sends such messages. They alone make a replica, or reach one that has heard nothing yet:
/// a vote is only asked of voters, and those have had a snapshot long since.
pub(crate) fn is_from_leader(kind: MessageType) -> bool {
    matches!(kind, MessageType::MsgAppend | MessageType::MsgSnapshot | MessageType::MsgHeartbeat)
}

/// Whether a message of another node makes the log longer by what that node has: entries, or a snapshot. A node without
/// room for it can leave such messages and take all others: raft sends them again.
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
    fn entries_and_snapshots_make_a_log_longer_and_nothing_else_does() {
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
