//! The applied state of one shard, and the checks of the entry that follows it.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::batch::{self, Header, Stamp, Turns};
use crate::chain::{self, Link};
use crate::config::Config;
use crate::name::Position;
use crate::output::FatalError;
use crate::planted;
use crate::record::EntryKind;
use crate::snapshot::{Members, SnapshotMeta};

/// The position of one shard's applied state, and the values that the next entry must continue.
pub(crate) struct AppliedState {
    // The description that a snapshot of it would have.
    meta: SnapshotMeta,
    // Bytes and entries applied since the last snapshot was due.
    entries: u64,
    bytes: u64,
}

impl AppliedState {
    /// The description of a snapshot.
    pub(crate) fn new(meta: SnapshotMeta) -> AppliedState {
        AppliedState { meta, entries: 0, bytes: 0 }
    }

    pub(crate) fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    /// Checks that the entry at this position is the next one, and counts its bytes.
    pub(crate) fn take(&mut self, position: Position, bytes: usize) -> Result<(), FatalError> {
        let expected = self.meta.position.index + 1;
        if position.index != expected {
            return Err(FatalError::Index { expected, found: position.index });
        }
        self.meta.position = position;
        self.entries += 1;
        self.bytes += bytes as u64;
        Ok(())
    }

    /// Checks that the turns of the entry at this position continue the last ones. None may be missing, and time must not
    /// go back.
    pub(crate) fn follow(&mut self, position: Position, header: Header) -> Result<(), FatalError> {
        let meta = &mut self.meta;
        if header.epoch.0 != position.term {
            return Err(FatalError::Epoch { term: position.term, epoch: header.epoch });
        }
        let next = match header.epoch.cmp(&meta.epoch) {
            Ordering::Less => None,
            Ordering::Equal => Some(meta.sequence + 1),
            Ordering::Greater => Some(1),
        };
        if next != Some(header.sequence) {
            return Err(FatalError::Sequence {
                epoch: header.epoch,
                found: header.sequence,
                last_epoch: meta.epoch,
                last: meta.sequence,
            });
        }
        if header.stamp_ms < meta.stamp_ms {
            return Err(FatalError::Stamp { last_ms: meta.stamp_ms, found_ms: header.stamp_ms });
        }
        meta.version = meta.version.max(header.version);
        meta.epoch = header.epoch;
        meta.sequence = header.sequence;
        meta.stamp_ms = header.stamp_ms;
        meta.distance_ms = header.distance_ms;
        meta.mark = meta.mark.max(header.mark);
        Ok(())
    }

    /// Continues the chain with the entry that was taken last.
    pub(crate) fn link(&mut self, kind: EntryKind, payload: &[u8]) {
        let meta = &mut self.meta;
        if planted::is("an entry that the chain leaves out") && meta.position.index.is_multiple_of(7) {
            return;
        }
        if meta.chain.is_some() || chain::begins(kind, payload) {
            meta.chain = Link::of(meta.shard, meta.position, kind, payload).after(meta.chain);
        }
    }

    /// The members from here on. `placed` is the version of the target configuration that the change was made for, if any.
    pub(crate) fn change_members(&mut self, members: Members, placed: Option<u64>) {
        self.meta.members = members;
        self.meta.placed = self.meta.placed.max(placed.unwrap_or(0));
    }

    /// Whether enough was applied since the last snapshot was due.
    pub(crate) fn is_snapshot_due(&mut self, config: &Config) -> bool {
        let due = self.entries >= config.snapshot_entries || self.bytes >= config.snapshot_bytes;
        if due {
            (self.entries, self.bytes) = (0, 0);
        }
        due
    }
}

impl SnapshotMeta {
    /// The description after the next entry, with the entry's turns and when it was proposed if it has any. For folding a log that no
    /// engine has open. A change of members is passed over, since it says nothing about the state.
    ///
    /// # Errors
    ///
    /// [`FatalError`]: the entry is not the one that follows.
    pub fn after(
        self,
        position: Position,
        kind: EntryKind,
        payload: Bytes,
    ) -> Result<(SnapshotMeta, Option<(Stamp, Turns)>), FatalError> {
        let mut applied = AppliedState::new(self);
        applied.take(position, payload.len())?;
        applied.link(kind, &payload);
        if kind == EntryKind::Members || payload.is_empty() {
            return Ok((applied.meta, None));
        }
        let (header, turns) = batch::open(payload)?;
        applied.follow(position, header)?;
        let stamp = Stamp { running_ms: header.stamp_ms, distance_ms: header.distance_ms };
        Ok((applied.meta, Some((stamp, turns))))
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::NEWEST;

    use super::*;
    use crate::name::{Epoch, ReplicaId};

    /// Epoch 3, sequence 7, stamp 900, entry 20.
    fn applied_state() -> AppliedState {
        let replica = ReplicaId::new(1, 1);
        let mut meta = SnapshotMeta::born(1, replica, vec![replica]);
        meta.position = at(20, 3);
        (meta.epoch, meta.sequence, meta.stamp_ms) = (Epoch(3), 7, 900);
        AppliedState::new(meta)
    }

    fn at(index: u64, term: u64) -> Position {
        Position { index, term }
    }

    fn follows(term: u64, epoch: u64, sequence: u64, stamp_ms: u64) -> Result<(), String> {
        let epoch = Epoch(epoch);
        let header = Header { version: NEWEST, epoch, sequence, stamp_ms, distance_ms: 0, mark: None };
        let followed = applied_state().follow(at(21, term), header);
        followed.map_err(|broken| broken.to_string())
    }

    #[test]
    fn the_next_of_an_epoch_and_the_first_of_a_later_one_follow() {
        assert_eq!(follows(3, 3, 8, 900), Ok(()));
        assert_eq!(follows(5, 5, 1, 901), Ok(()));
    }

    #[test]
    fn other_entries_do_not_follow() {
        let refused = [
            follows(3, 3, 9, 900),
            follows(3, 3, 7, 900),
            follows(5, 5, 2, 900),
            follows(2, 2, 1, 900),
            follows(5, 3, 8, 900),
            follows(3, 3, 8, 899),
        ];
        let expected = [
            "entry 9 of epoch 3 follows entry 7 of epoch 3",
            "entry 7 of epoch 3 follows entry 7 of epoch 3",
            "entry 2 of epoch 5 follows entry 7 of epoch 3",
            "entry 1 of epoch 2 follows entry 7 of epoch 3",
            "an entry of term 5 says it is of epoch 3",
            "the shard's time goes back from 900 to 899 ms",
        ];
        assert_eq!(refused, expected.map(|why| Err(why.to_owned())));
        let gap = applied_state().take(at(22, 3), 1).unwrap_err();
        assert_eq!(gap.to_string(), "entry 22 was committed where 21 is next");
    }

    #[test]
    fn a_snapshot_is_due_after_enough_entries_or_bytes() {
        let mut config = Config::born(1, 0, 1, &[1]);
        (config.snapshot_entries, config.snapshot_bytes) = (2, 100);
        let mut applied_state = applied_state();
        let due = [1, 1, 99, 1, 1, 100].map(|bytes| {
            let next = applied_state.meta().position.index + 1;
            applied_state.take(at(next, 3), bytes).unwrap();
            applied_state.is_snapshot_due(&config)
        });
        assert_eq!(due, [false, true, false, true, false, true]);
        applied_state.take(at(27, 3), 100).unwrap();
        assert!(applied_state.is_snapshot_due(&config), "bytes alone");
        assert!(!applied_state.is_snapshot_due(&config), "asked once");
    }
}
