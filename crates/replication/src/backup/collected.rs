//! Follows the entries that come out of a node's log, and finds the cut at a mark.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_shard::{EntryKind, Position, Record, ShardId, Turns};
use bytes::Bytes;

use crate::inspect::{LoggedReplicas, REPLACED_MAX};

/// Entries of a shard are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub shard: ShardId,
    /// The first missing entry.
    pub from: u64,
    /// The entry that was found in its place.
    pub found: u64,
}

/// The entries of the shards in a backup, in order.
#[derive(Default)]
pub struct Collected {
    shards: BTreeMap<ShardId, Followed>,
    replicas: LoggedReplicas,
}

#[derive(Default)]
struct Followed {
    /// The last entry in the backup.
    last: Position,
    /// The marks that entries up to there carry, each with the entry and its true time in milliseconds since 1970.
    marks: BTreeMap<u64, (u64, u64)>,
    /// Read from the log and not in the backup yet, because they may be replaced.
    pending: VecDeque<(Position, EntryKind, Bytes)>,
}

impl Collected {
    /// Begins a shard after an entry, which is the last one of its snapshot or of an earlier backup. Its term need not be known.
    pub fn begin(&mut self, shard: ShardId, last: u64) {
        let last = Position { index: last, term: 0 };
        self.shards.insert(shard, Followed { last, ..Followed::default() });
    }

    /// The log of another node or process follows, or the same one again.
    pub fn begin_log(&mut self) {
        self.replicas = LoggedReplicas::default();
        self.shards.values_mut().for_each(|followed| followed.pending.clear());
    }

    /// Takes the next record of the log. Hands entries that cannot be replaced any more to `write`.
    ///
    /// # Errors
    /// [`Gap`]: a snapshot from another node has replaced entries of this log, so the shard needs its newest snapshot.
    pub fn take(&mut self, record: Record, write: &mut impl FnMut(Record)) -> Result<(), Gap> {
        let shard = record.shard();
        let begins_anew = self.replicas.begins_anew(&record);
        let Some(followed) = self.shards.get_mut(&shard) else { return Ok(()) };
        if begins_anew {
            followed.pending.clear();
        }
        let Record::Entry { position, kind, payload, .. } = record else { return Ok(()) };
        while followed.pending.back().is_some_and(|(last, ..)| last.index >= position.index) {
            followed.pending.pop_back();
        }
        if position.index > followed.last.index {
            followed.pending.push_back((position, kind, payload));
        }
        while followed.pending.len() > REPLACED_MAX {
            followed.next(shard, write)?;
        }
        Ok(())
    }

    /// Hands the entries up to the last committed one to `write`, which the node said before its log was read.
    ///
    /// # Errors
    /// As [`Collected::take`].
    pub fn committed(&mut self, shard: ShardId, upto: u64, write: &mut impl FnMut(Record)) -> Result<(), Gap> {
        let Some(followed) = self.shards.get_mut(&shard) else { return Ok(()) };
        while followed.pending.front().is_some_and(|(position, ..)| position.index <= upto) {
            followed.next(shard, write)?;
        }
        Ok(())
    }

    /// The last entry of a shard in the backup.
    pub fn last(&self, shard: ShardId) -> Option<u64> {
        self.shards.get(&shard).map(|followed| followed.last.index)
    }

    /// The marks of a shard's entries since the beginning, ascending, each with its true time in milliseconds since 1970.
    pub fn marks(&self, shard: ShardId) -> impl Iterator<Item = (u64, u64)> {
        self.shards.get(&shard).into_iter().flat_map(|of| of.marks.iter().map(|(mark, (_, at_ms))| (*mark, *at_ms)))
    }

    /// The first entry of a shard that is not in the cut at a mark. `None` if its entries do not reach that far.
    pub fn end(&self, shard: ShardId, mark: u64) -> Option<u64> {
        self.shards.get(&shard)?.marks.range(mark..).next().map(|(_, (index, _))| *index)
    }
}

impl Followed {
    fn next(&mut self, shard: ShardId, write: &mut impl FnMut(Record)) -> Result<(), Gap> {
        let Some((position, kind, payload)) = self.pending.pop_front() else { return Ok(()) };
        let from = self.last.index + 1;
        if position.index != from {
            return Err(Gap { shard, from, found: position.index });
        }
        self.last = position;
        // A leader's first entry has no payload. What cannot be read is found by the restore, with its reason.
        if kind == EntryKind::Turns
            && let Ok((stamp, Some(mark))) = Turns::mark(payload.clone())
        {
            self.marks.insert(mark, (position.index, stamp.true_ms()));
        }
        write(Record::Entry { shard, position, kind, payload });
        Ok(())
    }
}
