//! What a snapshot says about the log it stands for.
//!
//! Layout, little-endian: version 1 byte, shard 2, index 8, term 8, stamp 8, epoch 8, sequence 8,
//! auto-leave 1, then four lists of node ids, each a count (2) and the ids (8 each).

use bytes::{BufMut, Bytes};
use raft::eraftpb::ConfState;

use crate::codec::{Malformed, Reader};
use crate::name::{Epoch, NodeId, Position, ShardId};

const VERSION: u8 = 1;
const LENGTH_BYTES: usize = 4;

/// Who replicates a shard, at one place in its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those whose majority decides.
    pub voters: Vec<NodeId>,
    /// Those who receive everything and do not vote.
    pub learners: Vec<NodeId>,
    /// During a joint change: the voters before it, whose majority must agree too.
    pub voters_outgoing: Vec<NodeId>,
    /// During a joint change: voters before it that become learners when it ends.
    pub learners_next: Vec<NodeId>,
    /// During a joint change: the leader ends it as soon as it may.
    pub auto_leave: bool,
}

impl Members {
    /// Members at the birth of a shard: voters only.
    pub fn born(mut voters: Vec<NodeId>) -> Members {
        voters.sort_unstable();
        Members { voters, ..Members::default() }
    }

    /// Whether `node` has, or is to get, a copy of the shard.
    pub fn contains(&self, node: NodeId) -> bool {
        [&self.voters, &self.learners, &self.voters_outgoing].into_iter().any(|list| list.contains(&node))
    }

    pub(crate) fn of(state: &ConfState) -> Members {
        let sorted = |ids: &[u64]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        Members {
            voters: sorted(state.get_voters()),
            learners: sorted(state.get_learners()),
            voters_outgoing: sorted(state.get_voters_outgoing()),
            learners_next: sorted(state.get_learners_next()),
            auto_leave: state.get_auto_leave(),
        }
    }

    pub(crate) fn conf_state(&self) -> ConfState {
        let mut state = ConfState::default();
        state.set_voters(self.voters.clone());
        state.set_learners(self.learners.clone());
        state.set_voters_outgoing(self.voters_outgoing.clone());
        state.set_learners_next(self.learners_next.clone());
        state.set_auto_leave(self.auto_leave);
        state
    }
}

/// Everything about a shard at one place in its log except what its entries said. A node keeps it beside
/// the folded state of the same place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// Which shard.
    pub shard: ShardId,
    /// The last entry that is folded in.
    pub position: Position,
    /// The stamp of the last turn that is folded in, milliseconds since 1970.
    pub stamp_ms: u64,
    /// The epoch of the last turn that is folded in.
    pub epoch: Epoch,
    /// The sequence, within that epoch, of the entry it was in.
    pub sequence: u64,
    /// Who replicates the shard.
    pub members: Members,
}

impl SnapshotMeta {
    /// A shard before its first entry.
    pub(crate) fn born(shard: ShardId, voters: Vec<NodeId>) -> SnapshotMeta {
        SnapshotMeta { shard, members: Members::born(voters), ..SnapshotMeta::default() }
    }

    /// The bytes to keep.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        out.put_u8(VERSION);
        out.put_u16_le(self.shard);
        out.put_u64_le(self.position.index);
        out.put_u64_le(self.position.term);
        out.put_u64_le(self.stamp_ms);
        out.put_u64_le(self.epoch.0);
        out.put_u64_le(self.sequence);
        let members = &self.members;
        out.put_u8(u8::from(members.auto_leave));
        put_nodes(&mut out, &members.voters);
        put_nodes(&mut out, &members.learners);
        put_nodes(&mut out, &members.voters_outgoing);
        put_nodes(&mut out, &members.learners_next);
        out
    }

    /// Reads back what [`SnapshotMeta::encode`] gave.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the bytes are anything else.
    pub fn decode(mut bytes: Bytes) -> Result<SnapshotMeta, Malformed> {
        let mut reader = Reader::new("a snapshot's description", &mut bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Malformed::Unknown { what: "a snapshot's version", found: version });
        }
        let meta = SnapshotMeta {
            shard: reader.u16()?,
            position: Position { index: reader.u64()?, term: reader.u64()? },
            stamp_ms: reader.u64()?,
            epoch: Epoch(reader.u64()?),
            sequence: reader.u64()?,
            members: read_members(&mut reader)?,
        };
        reader.end()?;
        Ok(meta)
    }
}

fn put_nodes(out: &mut Vec<u8>, nodes: &[NodeId]) {
    let count = u16::try_from(nodes.len()).expect("a shard has few members");
    out.put_u16_le(count);
    nodes.iter().for_each(|node| out.put_u64_le(*node));
}

fn read_members(reader: &mut Reader<'_>) -> Result<Members, Malformed> {
    let auto_leave = match reader.u8()? {
        0 => false,
        1 => true,
        found => {
            return Err(Malformed::Unknown { what: "a snapshot's mark of a joint change", found });
        }
    };
    Ok(Members {
        voters: read_nodes(reader)?,
        learners: read_nodes(reader)?,
        voters_outgoing: read_nodes(reader)?,
        learners_next: read_nodes(reader)?,
        auto_leave,
    })
}

fn read_nodes(reader: &mut Reader<'_>) -> Result<Vec<NodeId>, Malformed> {
    let count = reader.u16()?;
    (0..count).map(|_| reader.u64()).collect()
}

/// What travels to a follower that lags too far behind: the description and the state it describes.
pub(crate) fn pack(meta: &SnapshotMeta, state: &[u8]) -> Bytes {
    let meta = meta.encode();
    let mut packed = Vec::with_capacity(LENGTH_BYTES + meta.len() + state.len());
    packed.put_u32_le(u32::try_from(meta.len()).expect("a description is small"));
    packed.put_slice(&meta);
    packed.put_slice(state);
    packed.into()
}

/// Takes apart what [`pack`] made. The state shares the packed memory.
pub(crate) fn unpack(mut packed: Bytes) -> Result<(SnapshotMeta, Bytes), Malformed> {
    let mut reader = Reader::new("a received snapshot", &mut packed);
    let length = reader.u32()? as usize;
    let meta = SnapshotMeta::decode(reader.bytes(length)?)?;
    Ok((meta, packed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta() -> SnapshotMeta {
        SnapshotMeta {
            shard: 7,
            position: Position { index: 10_000, term: 4 },
            stamp_ms: 1_700_000_000_123,
            epoch: Epoch(4),
            sequence: 88,
            members: Members {
                voters: vec![1, 2, 3],
                learners: vec![4],
                voters_outgoing: vec![1, 2, 5],
                learners_next: vec![5],
                auto_leave: true,
            },
        }
    }

    #[test]
    fn a_description_reads_back() {
        assert_eq!(SnapshotMeta::decode(meta().encode().into()).unwrap(), meta());
        let members = meta().members;
        assert_eq!(Members::of(&members.conf_state()), members);
    }

    #[test]
    fn a_description_cut_or_lengthened_is_refused() {
        let whole = meta().encode();
        for length in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..length]);
            assert!(SnapshotMeta::decode(cut).is_err(), "{length}");
        }
        let long = [whole, vec![0]].concat();
        assert!(SnapshotMeta::decode(long.into()).is_err());
    }

    #[test]
    fn a_packed_snapshot_comes_apart_again() {
        let (described, state) = unpack(pack(&meta(), b"folded")).unwrap();
        assert_eq!((described, &state[..]), (meta(), &b"folded"[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(meta) = SnapshotMeta::decode(bytes.clone().into()) {
                prop_assert_eq!(meta.encode(), bytes);
            }
        }
    }
}
