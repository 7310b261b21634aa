//! The description of a snapshot: its position, and everything that its state does not contain.
//!
//! Layout, little-endian: version 1 byte, shard 2, replica 8, index 8, term 8, stamp 8, distance 8, epoch 8, sequence
//! 8, placed 8, flags 1 (auto-leave, mark, chain, payment epoch), the mark 8, the chain 16 and the payment epoch 4 if there are any,
//! then four lists of replica ids, each
//! a count (2) and the ids (8 each).

use boxoffice_core::version::{ClusterVersion, OLDEST_READ};
use bytes::{BufMut, Bytes};
use raft::eraftpb::ConfState;

use crate::codec::{Malformed, Reader};
use crate::name::{Epoch, Position, ReplicaId, ShardId};

const LENGTH_BYTES: usize = 4;
/// The flags. Others are not known.
const AUTO_LEAVE: u8 = 1;
const MARK: u8 = 2;
const CHAIN: u8 = 4;
const PAYMENT_EPOCH: u8 = 8;

/// The members of a shard's group, at one position of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub voters: Vec<ReplicaId>,
    /// Replicas that receive everything and do not vote.
    pub learners: Vec<ReplicaId>,
    /// During a joint change: the voters before it. A majority of them must agree as well.
    pub voters_outgoing: Vec<ReplicaId>,
    /// During a joint change: previous voters that become learners when it ends.
    pub learners_next: Vec<ReplicaId>,
    /// During a joint change: whether the leader ends it as soon as possible.
    pub auto_leave: bool,
}

impl Members {
    /// The first members of a shard: voters only.
    pub fn born(mut voters: Vec<ReplicaId>) -> Members {
        voters.sort_unstable();
        Members { voters, ..Members::default() }
    }

    /// Whether the replica is a voter or a learner.
    pub fn contains(&self, replica: ReplicaId) -> bool {
        [&self.voters, &self.learners, &self.voters_outgoing].into_iter().any(|list| list.contains(&replica))
    }

    /// Whether a joint change is in progress.
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether `replica` is the only voter.
    pub(crate) fn decides_alone(&self, replica: ReplicaId) -> bool {
        self.voters == [replica] && !self.is_joint()
    }

    /// `None` if an id is not that of a replica. The membership change was then not one of ours.
    pub(crate) fn of(state: &ConfState) -> Option<Members> {
        let sorted = |ids: &[u64]| {
            let mut replicas = ids.iter().map(|id| ReplicaId::from_bits(*id)).collect::<Option<Vec<_>>>()?;
            replicas.sort_unstable();
            Some(replicas)
        };
        Some(Members {
            voters: sorted(state.get_voters())?,
            learners: sorted(state.get_learners())?,
            voters_outgoing: sorted(state.get_voters_outgoing())?,
            learners_next: sorted(state.get_learners_next())?,
            auto_leave: state.get_auto_leave(),
        })
    }

    pub(crate) fn conf_state(&self) -> ConfState {
        let ids = |replicas: &[ReplicaId]| replicas.iter().map(|replica| replica.bits()).collect::<Vec<_>>();
        let mut state = ConfState::default();
        state.set_voters(ids(&self.voters));
        state.set_learners(ids(&self.learners));
        state.set_voters_outgoing(ids(&self.voters_outgoing));
        state.set_learners_next(ids(&self.learners_next));
        state.set_auto_leave(self.auto_leave);
        state
    }
}

/// Everything about a shard at one position of its log except its state. A node stores it with the applied state of
/// that position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The version under which it is written, with its state: that of the newest entry in it.
    pub version: ClusterVersion,
    pub shard: ShardId,
    /// The replica. Another replica cannot use the snapshot.
    pub replica: ReplicaId,
    /// The last entry applied.
    pub position: Position,
    /// The running time in the last entry applied, milliseconds.
    pub stamp_ms: u64,
    /// True time less running time there, milliseconds.
    pub distance_ms: i64,
    /// The epoch of the last turn applied.
    pub epoch: Epoch,
    /// The sequence number of its entry within that epoch.
    pub sequence: u64,
    /// The newest target configuration that a membership change so far was made for. 0 before the first.
    pub placed: u64,
    /// The newest mark of the entries so far. `None` before the first one. See [`KnownMark`](crate::KnownMark).
    pub mark: Option<u64>,
    /// The chain of hashes over all entries so far, [`Link`](crate::Link). `None` before its first entry.
    pub chain: Option<u128>,
    /// What distinguishes attempts to pay that begin here from those of the cluster whose backup this one was restored from, 1 to
    /// 2^20 − 1. `None` in a cluster that was not restored.
    pub payment_epoch: Option<u32>,
    /// The members of the shard's group. Empty until the replica receives its first message.
    pub members: Members,
}

impl SnapshotMeta {
    /// A replica before the first entry of its shard.
    pub fn born(shard: ShardId, replica: ReplicaId, voters: Vec<ReplicaId>) -> SnapshotMeta {
        SnapshotMeta {
            version: OLDEST_READ,
            shard,
            replica,
            position: Position::default(),
            stamp_ms: 0,
            distance_ms: 0,
            epoch: Epoch::default(),
            sequence: 0,
            placed: 0,
            mark: None,
            chain: None,
            payment_epoch: None,
            members: Members::born(voters),
        }
    }

    /// A replica that waits for its first snapshot.
    pub(crate) fn joining(shard: ShardId, replica: ReplicaId) -> SnapshotMeta {
        SnapshotMeta::born(shard, replica, Vec::new())
    }

    /// Encodes the description.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.put_u8(self.version.number());
        out.put_u16_le(self.shard);
        out.put_u64_le(self.replica.bits());
        out.put_u64_le(self.position.index);
        out.put_u64_le(self.position.term);
        out.put_u64_le(self.stamp_ms);
        out.put_i64_le(self.distance_ms);
        out.put_u64_le(self.epoch.0);
        out.put_u64_le(self.sequence);
        out.put_u64_le(self.placed);
        let members = &self.members;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let (mark, chain) = (flag(self.mark.is_some(), MARK), flag(self.chain.is_some(), CHAIN));
        let payment_epoch = flag(self.payment_epoch.is_some(), PAYMENT_EPOCH);
        out.put_u8(flag(members.auto_leave, AUTO_LEAVE) | mark | chain | payment_epoch);
        self.mark.iter().for_each(|mark| out.put_u64_le(*mark));
        self.chain.iter().for_each(|chain| out.put_u128_le(*chain));
        self.payment_epoch.iter().for_each(|epoch| out.put_u32_le(*epoch));
        put_replicas(&mut out, &members.voters);
        put_replicas(&mut out, &members.learners);
        put_replicas(&mut out, &members.voters_outgoing);
        put_replicas(&mut out, &members.learners_next);
        out
    }

    /// Decodes the description.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the bytes are anything else.
    pub fn decode(mut bytes: Bytes) -> Result<SnapshotMeta, Malformed> {
        let mut reader = Reader::new("a snapshot's description", &mut bytes);
        let version = reader.version()?;
        let mut meta = SnapshotMeta {
            version,
            shard: reader.u16()?,
            replica: reader.replica()?,
            position: Position { index: reader.u64()?, term: reader.u64()? },
            stamp_ms: reader.u64()?,
            distance_ms: reader.i64()?,
            epoch: Epoch(reader.u64()?),
            sequence: reader.u64()?,
            placed: reader.u64()?,
            mark: None,
            chain: None,
            payment_epoch: None,
            members: Members::default(),
        };
        let flags = reader.u8()?;
        if flags & !(AUTO_LEAVE | MARK | CHAIN | PAYMENT_EPOCH) != 0 {
            return Err(Malformed::Unknown { what: "a snapshot's list of flags", found: flags });
        }
        if flags & MARK != 0 {
            meta.mark = Some(reader.u64()?);
        }
        if flags & CHAIN != 0 {
            meta.chain = Some(reader.u128()?);
        }
        if flags & PAYMENT_EPOCH != 0 {
            meta.payment_epoch = Some(reader.u32()?);
        }
        meta.members = read_members(flags & AUTO_LEAVE != 0, &mut reader)?;
        reader.end()?;
        Ok(meta)
    }
}

fn put_replicas(out: &mut Vec<u8>, replicas: &[ReplicaId]) {
    let count = u16::try_from(replicas.len()).expect("a shard has few members");
    out.put_u16_le(count);
    replicas.iter().for_each(|replica| out.put_u64_le(replica.bits()));
}

fn read_members(auto_leave: bool, reader: &mut Reader<'_>) -> Result<Members, Malformed> {
    Ok(Members {
        voters: read_replicas(reader)?,
        learners: read_replicas(reader)?,
        voters_outgoing: read_replicas(reader)?,
        learners_next: read_replicas(reader)?,
        auto_leave,
    })
}

fn read_replicas(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>, Malformed> {
    let count = reader.u16()?;
    (0..count).map(|_| reader.replica()).collect()
}

/// A snapshot as it is sent to a follower: the description and the state.
pub(crate) fn pack(meta: &SnapshotMeta, state: &[u8]) -> Bytes {
    let meta = meta.encode();
    let mut packed = Vec::with_capacity(LENGTH_BYTES + meta.len() + state.len());
    packed.put_u32_le(u32::try_from(meta.len()).expect("a description is small"));
    packed.put_slice(&meta);
    packed.put_slice(state);
    packed.into()
}

/// Splits the bytes of [`pack`]. The state shares their memory.
pub(crate) fn unpack(mut packed: Bytes) -> Result<(SnapshotMeta, Bytes), Malformed> {
    let mut reader = Reader::new("a received snapshot", &mut packed);
    let length = reader.u32()? as usize;
    let meta = SnapshotMeta::decode(reader.bytes(length)?)?;
    Ok((meta, packed))
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::{NEWEST, OtherVersion};
    use proptest::prelude::*;

    use super::*;

    fn meta() -> SnapshotMeta {
        let replicas = |ids: &[(u64, u64)]| ids.iter().map(|(node, nth)| ReplicaId::new(*node, *nth)).collect();
        SnapshotMeta {
            version: NEWEST,
            shard: 7,
            replica: ReplicaId::new(2, 17),
            position: Position { index: 10_000, term: 4 },
            stamp_ms: 1_700_000_000_123,
            distance_ms: -5,
            epoch: Epoch(4),
            sequence: 88,
            placed: 12,
            mark: None,
            chain: None,
            payment_epoch: Some(77),
            members: Members {
                voters: replicas(&[(1, 1), (2, 17), (3, 18)]),
                learners: replicas(&[(4, 19)]),
                voters_outgoing: replicas(&[(1, 1), (2, 17), (5, 9)]),
                learners_next: replicas(&[(5, 9)]),
                auto_leave: true,
            },
        }
    }

    #[test]
    fn a_description_is_decoded() {
        assert_eq!(SnapshotMeta::decode(meta().encode().into()).unwrap(), meta());
        let members = meta().members;
        assert_eq!(Members::of(&members.conf_state()), Some(members));
    }

    #[test]
    fn a_description_of_the_wrong_length_is_refused() {
        let whole = meta().encode();
        for length in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..length]);
            assert!(SnapshotMeta::decode(cut).is_err(), "{length}");
        }
        let long = [whole, vec![0]].concat();
        assert!(SnapshotMeta::decode(long.into()).is_err());
    }

    #[test]
    fn a_mark_and_a_chain_take_bytes_only_if_they_are_there() {
        let plain = meta().encode().len();
        for (mark, chain, more) in [(Some(7), None, 8), (None, Some(9), 16), (Some(7), Some(9), 24)] {
            let meta = SnapshotMeta { mark, chain, ..meta() };
            let bytes = meta.encode();
            assert_eq!(bytes.len(), plain + more);
            assert_eq!(SnapshotMeta::decode(bytes.into()), Ok(meta));
        }
    }

    #[test]
    fn a_description_of_another_version_is_refused_before_anything_else() {
        for found in [NEWEST.number() + 1, 7] {
            let version = OtherVersion { found: found.into() };
            let refused = SnapshotMeta::decode(Bytes::from(vec![found]));
            assert_eq!(refused, Err(Malformed::Version { what: "a snapshot's description", version }));
        }
    }

    #[test]
    fn a_packed_snapshot_is_unpacked() {
        let (described, state) = unpack(pack(&meta(), b"state")).unwrap();
        assert_eq!((described, &state[..]), (meta(), &b"state"[..]));
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
