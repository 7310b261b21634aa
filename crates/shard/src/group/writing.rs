//! The records that a group writes to its disk, and the messages that it sends to its peers.

use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};

use super::{Group, position};
use crate::batch;
use crate::envelope;
use crate::name::{Position, ReplicaId};
use crate::now::Now;
use crate::output::{FatalError, Outgoing, Received, Write};
use crate::record::{self, EntryKind, Record};
use crate::snapshot;

impl<T> Group<T> {
    pub(super) fn receive(&mut self, found: &Snapshot, write: &mut Write) -> Result<(), FatalError> {
        let (mut meta, state) = snapshot::unpack(found.data.clone())?;
        let position = Position { index: found.get_metadata().index, term: found.get_metadata().term };
        if meta.position != position || meta.shard != self.shard {
            return Err(FatalError::Snapshot { said: meta.position.index, found: position.index });
        }
        meta.replica = self.replica;
        write.version = write.version.max(Some(meta.version));
        self.raft.mut_store().reset(position);
        self.changes.clear();
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

    /// Adds entries to the write of the pass, and to the tail that raft reads in memory.
    ///
    /// # Errors
    /// An entry has a version that this program does not read.
    pub(super) fn write_entries(&mut self, entries: &[Entry], write: &mut Write) -> Result<(), FatalError> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        self.changes.retain(|index| *index < first.index);
        if self.reset_due {
            self.write_reset(self.saved, write);
        }
        for entry in entries {
            let kind = match entry.get_entry_type() {
                EntryType::EntryNormal => EntryKind::Turns,
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => EntryKind::Members,
            };
            if kind == EntryKind::Members {
                self.changes.push(entry.index);
            } else if !entry.data.is_empty() {
                write.version = write.version.max(Some(batch::version(&entry.data)?));
            }
            record::put_entry(&mut write.records, self.shard, position(entry), kind, &entry.data);
        }
        write.marks.push((self.shard, last.index));
        self.raft.mut_store().append(entries);
        Ok(())
    }

    /// The term and the vote must be durable. The commit index need not be, because a replica learns it again from the leader,
    /// from the snapshot, or by being elected. The commit of a membership change must be durable, for two reasons. A replica with
    /// the next change in its log must know it. With the previous members, a majority that is none any more could elect that
    /// replica. And removed replicas are dropped only when a majority of the others knows it. With the previous members, the
    /// others could need votes of dropped replicas.
    pub(super) fn write_state(&mut self, write: &mut Write) {
        let written = (self.raft.raft.term, self.raft.raft.vote);
        let committed = self.raft.raft.raft_log.committed;
        if self.written == written && !self.state_is_due() {
            return;
        }
        self.written = written;
        self.state().encode(&mut write.records);
        self.needs_reconcile |= self.state_is_due();
        self.changes.retain(|index| *index > committed);
    }

    /// Whether the commit of a membership change must be written.
    pub(super) fn state_is_due(&self) -> bool {
        self.changes.first().is_some_and(|index| *index <= self.raft.raft.raft_log.committed)
    }

    pub(super) fn write_replica(&mut self, write: &mut Write) {
        if std::mem::take(&mut self.replica_due) {
            Record::Replica { shard: self.shard, replica: self.replica }.encode(&mut write.records);
        }
    }

    /// A message of raft as it is sent, with the shard's running time.
    pub(super) fn outgoing(&mut self, message: &Message, now: Now) -> Outgoing {
        let to = ReplicaId::from_bits(message.to).expect("raft knows only replicas");
        let snapshot = (message.get_msg_type() == MessageType::MsgSnapshot).then(|| {
            self.snapshot_progress.send(to);
            let packed = message.get_snapshot().data.clone();
            snapshot::unpack(packed).expect("it was packed here").1
        });
        let bytes = envelope::seal(message, self.running_ms(now.mono_ms));
        Outgoing { to: to.node(), shard: self.shard, snapshot, bytes }
    }
}
