//! Checks raft-rs' protobuf messages before they are parsed. All fields must be known, have the right type and lie
//! within the bytes.
//!
//! The parser (protobuf 2, which raft-rs uses) follows nested groups of unknown fields without a limit, until the stack
//! overflows (RUSTSEC-2024-0437). It also allocates as much as a length claims. raft-rs has no groups.

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    /// A number, also of an enumeration or a boolean.
    Number,
    /// Any count of numbers, one by one or packed.
    Numbers,
    Bytes,
    /// A message with these fields.
    Message(MessageFields),
}

use Kind::{Bytes, Message, Number, Numbers};

/// The fields of a message by number.
type MessageFields = &'static [(u64, Kind)];

const ENTRY: MessageFields = &[(1, Number), (2, Number), (3, Number), (4, Bytes), (5, Number), (6, Bytes)];

const CONF_STATE: MessageFields = &[(1, Numbers), (2, Numbers), (3, Numbers), (4, Numbers), (5, Number)];

const SNAPSHOT_METADATA: MessageFields = &[(1, Message(CONF_STATE)), (2, Number), (3, Number)];

const SNAPSHOT: MessageFields = &[(1, Bytes), (2, Message(SNAPSHOT_METADATA))];

/// The fields of `eraftpb.Message`.
const MESSAGE: MessageFields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Message(ENTRY)),
    (8, Number),
    (9, Message(SNAPSHOT)),
    (10, Number),
    (11, Number),
    (12, Bytes),
    (13, Number),
    (14, Number),
    (15, Number),
    (16, Number),
];

const CONF_CHANGE_SINGLE: MessageFields = &[(1, Number), (2, Number)];

/// The fields of `eraftpb.ConfChangeV2`.
const CONF_CHANGE: MessageFields = &[(1, Number), (2, Message(CONF_CHANGE_SINGLE)), (3, Bytes)];

/// The wire types of protobuf that raft-rs uses.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// Whether these bytes may be parsed as an `eraftpb.Message`.
pub(crate) fn may_be_message(bytes: &[u8]) -> bool {
    fit(bytes, MESSAGE).is_some()
}

/// Whether these bytes may be parsed as an `eraftpb.ConfChangeV2`.
pub(crate) fn may_be_conf_change(bytes: &[u8]) -> bool {
    fit(bytes, CONF_CHANGE).is_some()
}

/// `None` if something is wrong. The recursion is as deep as the constants above.
fn fit(mut rest: &[u8], fields: MessageFields) -> Option<()> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let (_, kind) = fields.iter().find(|(number, _)| *number == tag >> 3)?;
        match (kind, tag & 7) {
            (Number | Numbers, VARINT) => _ = varint(&mut rest)?,
            (Bytes, LENGTH) => _ = value(&mut rest)?,
            (Numbers, LENGTH) => {
                let mut numbers = value(&mut rest)?;
                while !numbers.is_empty() {
                    varint(&mut numbers)?;
                }
            }
            (Message(fields), LENGTH) => fit(value(&mut rest)?, fields)?,
            (Number | Numbers | Bytes | Message(_), _) => return None,
        }
    }
    Some(())
}

/// Takes a number of one to ten bytes.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let length = rest.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let (digits, after) = rest.split_at(length);
    *rest = after;
    Some(digits.iter().rev().fold(0, |number, digit| number << 7 | u64::from(digit & 0x7f)))
}

/// Takes a value that its length precedes.
fn value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint(rest)?).ok()?;
    let (value, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    use protobuf::Message as _;
    use raft::eraftpb::{ConfChangeSingle, ConfChangeV2, ConfState, Entry, EntryType, MessageType, Snapshot};

    use super::*;

    fn message() -> raft::eraftpb::Message {
        let mut entry = Entry { term: 1, index: 2, data: vec![3].into(), context: vec![4].into(), ..Entry::default() };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        entry.set_sync_log(true);
        let mut members = ConfState { auto_leave: true, ..ConfState::default() };
        members.set_voters(vec![1, 1 << 40]);
        members.set_learners(vec![2]);
        members.set_voters_outgoing(vec![3]);
        members.set_learners_next(vec![4]);
        let mut snapshot = Snapshot { data: vec![5].into(), ..Snapshot::default() };
        snapshot.mut_metadata().set_conf_state(members);
        snapshot.mut_metadata().index = 7;
        snapshot.mut_metadata().term = 8;
        let mut message = raft::eraftpb::Message {
            to: 1,
            from: 2,
            term: u64::MAX,
            log_term: 4,
            index: 5,
            commit: 6,
            commit_term: 7,
            request_snapshot: 8,
            reject: true,
            reject_hint: 9,
            context: vec![10].into(),
            deprecated_priority: 11,
            priority: -12,
            ..raft::eraftpb::Message::default()
        };
        message.set_msg_type(MessageType::MsgRequestPreVoteResponse);
        message.set_entries(vec![entry.clone(), entry].into());
        message.set_snapshot(snapshot);
        message
    }

    #[test]
    fn all_messages_of_raft_may_be_parsed() {
        let bytes = message().write_to_bytes().expect("the message can be encoded");
        assert!(may_be_message(&bytes));
        for length in 1..bytes.len() {
            let cut = &bytes[..length];
            assert!(!may_be_message(cut) || raft::eraftpb::Message::parse_from_bytes(cut).is_ok(), "{length}");
        }
        let mut change = ConfChangeV2 { context: vec![1].into(), ..ConfChangeV2::default() };
        change.set_changes(vec![ConfChangeSingle { node_id: 7, ..ConfChangeSingle::default() }].into());
        assert!(may_be_conf_change(&change.write_to_bytes().expect("the change can be encoded")));
    }

    #[test]
    fn nested_groups_and_false_lengths_are_refused() {
        let groups = vec![0x0b; 1 << 20];
        assert!(!may_be_message(&groups) && !may_be_conf_change(&groups));
        // The same in an entry, which is field 7.
        let entry = [&[0x3a, 0x80, 0x80, 0x40][..], &groups].concat();
        assert!(!may_be_message(&entry));
        // Field 12 of 4 GiB, a fixed number, an unterminated number, and a field that the message does not have.
        for bad in
            [&[0x62, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0x11, 0, 0, 0, 0, 0, 0, 0, 0], &[0x10, 0xff], &[0xa8, 1, 0]]
        {
            assert!(!may_be_message(bad), "{bad:x?}");
        }
    }
}
