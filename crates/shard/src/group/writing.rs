//! What a group has to say to its disk and to its peers.

use protobuf::Message as _;
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};

use super::{Group, position};
use crate::name::{Position, ReplicaId};
use crate::output::{Broken, Outgoing, Received, Write};
use crate::record::{self, EntryKind, Record};
use crate::snapshot;

impl<T> Group<T> {
    pub(super) fn receive(&mut self, found: &Snapshot, write: &mut Write) -> Result<(), Broken> {
        let (mut meta, state) = snapshot::unpack(found.data.clone())?;
        let position = Position { index: found.get_metadata().index, term: found.get_metadata().term };
        if meta.position != position || meta.shard != self.shard {
            return Err(Broken::Snapshot { said: meta.position.index, found: position.index });
        }
        meta.replica = self.replica;
        self.raft.mut_store().reset(position);
        self.write_reset(position.index, write);
        let received = Received { meta, state };
        write.snapshots.push(received.clone());
        self.received = Some(received);
        Ok(())
    }

    pub(super) fn write_reset(&mut self, index: u64, write: &mut Write) {
        self.reset_due = false;
        let shard = self.shard;
        Record::Reset { shard, index }.encode(&mut write.records);
    }

    pub(super) fn write_entries(&mut self, entries: &[Entry], write: &mut Write) {
        let Some(last) = entries.last() else { return };
        if self.reset_due {
            self.write_reset(self.saved, write);
        }
        for entry in entries {
            let kind = match entry.get_entry_type() {
                EntryType::EntryNormal => EntryKind::Turns,
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => EntryKind::Members,
            };
            record::put_entry(&mut write.records, self.shard, position(entry), kind, &entry.data);
        }
        write.marks.push((self.shard, last.index));
        self.raft.mut_store().append(entries);
    }

    /// The term and the vote must not be forgotten. What is committed is learnt again: from the leader, from the
    /// snapshot, or by being elected. But who has a change of members in its log must remember that the change before
    /// it was committed (it was, or there would be no next one): with the members before that one, it could be elected
    /// by a majority that decides nothing any more.
    pub(super) fn write_state(&mut self, entries: &[Entry], write: &mut Write) {
        let (term, vote) = (self.raft.raft.term, self.raft.raft.vote);
        let changes_members = entries.iter().any(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        if self.written != (term, vote) || changes_members {
            self.written = (term, vote);
            self.state().encode(&mut write.records);
        }
    }

    pub(super) fn write_replica(&mut self, write: &mut Write) {
        if std::mem::take(&mut self.replica_due) {
            Record::Replica { shard: self.shard, replica: self.replica }.encode(&mut write.records);
        }
    }

    pub(super) fn outgoing(&mut self, message: &Message) -> Outgoing {
        let to = ReplicaId::from_bits(message.to).expect("raft knows only replicas");
        let snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
        if snapshot {
            self.lagging.send(to);
        }
        let bytes = message.write_to_bytes().expect("a message fits into memory");
        Outgoing { to: to.node(), shard: self.shard, snapshot, bytes: bytes.into() }
    }
}
