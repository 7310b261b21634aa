//! The records that a node writes to its log and reads back at a restart.
//!
//! Layout, little-endian: kind 1 byte, shard 2, then the fields of the kind. Entry: index 8, term 8, entry kind 1, length 4,
//! payload. State: term 8, vote 8, commit 8. Snapshot and reset: index 8. Replica: replica 8. Gone: generation 8. Records follow
//! one another without padding. The log adds checksums and removes an incomplete end.

use bytes::{BufMut, Bytes};

use crate::codec::{Malformed, Reader};
use crate::name::{Position, ReplicaId, ShardId};

const ENTRY: u8 = 1;
const STATE: u8 = 2;
const SNAPSHOT: u8 = 3;
const RESET: u8 = 4;
const REPLICA: u8 = 5;
const GONE: u8 = 6;

/// The kind of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A batch of turns. It is empty in the first entry of a leader.
    Turns,
    /// A change of members, as raft-rs writes it (`ConfChangeV2` of its protobuf definitions).
    Members,
}

impl EntryKind {
    fn byte(self) -> u8 {
        match self {
            EntryKind::Turns => 0,
            EntryKind::Members => 1,
        }
    }

    fn of(byte: u8) -> Result<EntryKind, Malformed> {
        match byte {
            0 => Ok(EntryKind::Turns),
            1 => Ok(EntryKind::Members),
            found => Err(Malformed::Unknown { what: "an entry record's kind of payload", found }),
        }
    }
}

/// One fact about one shard that outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An entry of the log. It replaces any entry with the same or a higher index.
    Entry {
        shard: ShardId,
        position: Position,
        kind: EntryKind,
        /// The payload. Empty for the first entry of a leader.
        payload: Bytes,
    },
    /// The state that raft must not forget. The newest record counts.
    State {
        shard: ShardId,
        /// The highest term seen.
        term: u64,
        /// The replica that this replica voted for in that term.
        vote: Option<ReplicaId>,
        /// A lower bound of the commit index.
        commit: u64,
    },
    /// A durable snapshot up to this index exists. The entries up to it are not needed.
    Snapshot {
        shard: ShardId,
        /// The last entry in it.
        index: u64,
    },
    /// A durable snapshot up to this index has replaced the log. All entries before this record are void, also later
    /// ones.
    Reset {
        shard: ShardId,
        /// The last entry in the snapshot.
        index: u64,
    },
    /// This node has this replica of a shard. The record precedes all other records of the shard. Records of other
    /// replicas are void.
    Replica { shard: ShardId, replica: ReplicaId },
    /// This node's replicas of a shard up to this generation are gone for ever.
    Gone {
        shard: ShardId,
        /// The highest generation.
        generation: u64,
    },
}

impl Record {
    /// The shard the record is about.
    pub fn shard(&self) -> ShardId {
        match self {
            Record::Entry { shard, .. }
            | Record::State { shard, .. }
            | Record::Snapshot { shard, .. }
            | Record::Reset { shard, .. }
            | Record::Replica { shard, .. }
            | Record::Gone { shard, .. } => *shard,
        }
    }

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Entry { shard, position, kind, payload } => put_entry(out, *shard, *position, *kind, payload),
            Record::State { shard, term, vote, commit } => {
                out.put_u8(STATE);
                out.put_u16_le(*shard);
                out.put_u64_le(*term);
                out.put_u64_le(vote.map_or(0, ReplicaId::bits));
                out.put_u64_le(*commit);
            }
            Record::Snapshot { shard, index } => {
                out.put_u8(SNAPSHOT);
                out.put_u16_le(*shard);
                out.put_u64_le(*index);
            }
            Record::Reset { shard, index } => {
                out.put_u8(RESET);
                out.put_u16_le(*shard);
                out.put_u64_le(*index);
            }
            Record::Replica { shard, replica } => {
                out.put_u8(REPLICA);
                out.put_u16_le(*shard);
                out.put_u64_le(replica.bits());
            }
            Record::Gone { shard, generation } => {
                out.put_u8(GONE);
                out.put_u16_le(*shard);
                out.put_u64_le(*generation);
            }
        }
    }

    /// Takes one record from the front of `bytes`. The payload of an entry shares their memory.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the bytes do not start with a complete record. `bytes` is useless then.
    pub fn decode(bytes: &mut Bytes) -> Result<Record, Malformed> {
        let mut reader = Reader::new("a log record", bytes);
        let kind = reader.u8()?;
        let shard = reader.u16()?;
        match kind {
            ENTRY => {
                let position = read_position(&mut reader)?;
                let kind = EntryKind::of(reader.u8()?)?;
                let length = reader.u32()? as usize;
                let payload = reader.bytes(length)?;
                Ok(Record::Entry { shard, position, kind, payload })
            }
            STATE => {
                let (term, vote) = (reader.u64()?, reader.replica_if_any()?);
                Ok(Record::State { shard, term, vote, commit: reader.u64()? })
            }
            SNAPSHOT => Ok(Record::Snapshot { shard, index: reader.u64()? }),
            RESET => Ok(Record::Reset { shard, index: reader.u64()? }),
            REPLICA => Ok(Record::Replica { shard, replica: reader.replica()? }),
            GONE => Ok(Record::Gone { shard, generation: reader.u64()? }),
            found => Err(Malformed::Unknown { what: "a log record's kind", found }),
        }
    }

    /// All records of one write, in order.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when one of them is. Nothing of such a write may be used.
    pub fn decode_all(mut bytes: Bytes) -> Result<Vec<Record>, Malformed> {
        let mut records = Vec::new();
        while !bytes.is_empty() {
            records.push(Record::decode(&mut bytes)?);
        }
        Ok(records)
    }
}

/// Appends an entry record without building one first.
pub(crate) fn put_entry(out: &mut Vec<u8>, shard: ShardId, position: Position, kind: EntryKind, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("an entry is limited far below 4 GiB");
    out.put_u8(ENTRY);
    out.put_u16_le(shard);
    put_position(out, position);
    out.put_u8(kind.byte());
    out.put_u32_le(length);
    out.put_slice(payload);
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    out.put_u64_le(position.index);
    out.put_u64_le(position.term);
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    Ok(Position { index: reader.u64()?, term: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_position() -> impl Strategy<Value = Position> {
        (any::<u64>(), any::<u64>()).prop_map(|(index, term)| Position { index, term })
    }

    fn any_replica() -> impl Strategy<Value = ReplicaId> {
        (1..=65_535u64, 1..1u64 << 40).prop_map(|(node, generation)| ReplicaId::new(node, generation))
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let kind = prop_oneof![Just(EntryKind::Turns), Just(EntryKind::Members)];
        let payload = prop::collection::vec(any::<u8>(), 0..60);
        prop_oneof![
            (any::<u16>(), any_position(), kind, payload).prop_map(|(shard, position, kind, payload)| Record::Entry {
                shard,
                position,
                kind,
                payload: payload.into()
            }),
            (any::<u16>(), any::<u64>(), prop::option::of(any_replica()), any::<u64>())
                .prop_map(|(shard, term, vote, commit)| Record::State { shard, term, vote, commit }),
            (any::<u16>(), any_replica()).prop_map(|(shard, replica)| Record::Replica { shard, replica }),
            (any::<u16>(), any::<u64>()).prop_map(|(shard, generation)| Record::Gone { shard, generation }),
            (any::<u16>(), any::<u64>()).prop_map(|(shard, index)| Record::Snapshot { shard, index }),
            (any::<u16>(), any::<u64>()).prop_map(|(shard, index)| Record::Reset { shard, index }),
        ]
    }

    proptest! {
        #[test]
        fn a_write_reads_back(records in prop::collection::vec(any_record(), 0..12)) {
            let mut bytes = Vec::new();
            records.iter().for_each(|record| record.encode(&mut bytes));
            prop_assert_eq!(Record::decode_all(bytes.into()).unwrap(), records);
        }

        #[test]
        fn a_write_cut_inside_a_record_is_refused(record in any_record(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes.truncate(1 + cut.index(bytes.len() - 1));
            prop_assert!(Record::decode_all(bytes.into()).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(records) = Record::decode_all(bytes.clone().into()) {
                let mut again = Vec::new();
                records.iter().for_each(|record| record.encode(&mut again));
                prop_assert_eq!(again, bytes);
            }
        }
    }

    fn bytes(record: Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn the_layout_on_disk_is_pinned() {
        let entry = Record::Entry {
            shard: 0x0102,
            position: Position { index: 3, term: 4 },
            kind: EntryKind::Turns,
            payload: Bytes::from_static(b"ab"),
        };
        let state = Record::State { shard: 1, term: 4, vote: Some(ReplicaId::new(2, 17)), commit: 9 };
        assert_eq!(bytes(entry), [1, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(bytes(state), [2, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 2, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(Record::Snapshot { shard: 1, index: 9 }), [3, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(Record::Reset { shard: 1, index: 9 }), [4, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let replica = Record::Replica { shard: 1, replica: ReplicaId::new(2, 17) };
        assert_eq!(bytes(replica), [5, 1, 0, 17, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(bytes(Record::Gone { shard: 1, generation: 17 }), [6, 1, 0, 17, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_impossible_replica_is_refused() {
        let mut record = bytes(Record::Replica { shard: 1, replica: ReplicaId::new(2, 17) });
        record[8] = 0;
        let refusal = Record::decode_all(record.into()).unwrap_err();
        assert_eq!(refusal, Malformed::Replica { what: "a log record", found: 17 });
    }
}
