//! The publisher of a feed that has begun. It brings a watcher from its position to the published state.

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{encode, feed::SnapshotBody};
use bytes::Bytes;

use super::{
    FeedUpdate,
    merge::Merge,
    reader::{Pulled, Reader},
    ring::{Encoded, Ring},
};

/// The publisher of an entity of any kind.
pub(super) trait Publisher: Send {
    /// The published version, or a customer's cursor.
    fn published(&self) -> u64;

    /// Publishes an update to version `to`.
    fn publish(&mut self, to: u64, update: FeedUpdate);

    /// Gives frames to a watcher at version `at`, `None` if it has none. Returns its new version, and what is left.
    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (Option<u64>, Pulled);

    /// Stores a page of purchases after a cursor, and returns whether a watcher has asked for it.
    fn purchases_page(&mut self, _after: u64, _page: Vec<Purchase>) -> bool {
        false
    }

    /// Forgets requests for pages that have not come, so that watchers repeat them.
    fn forget_page_requests(&mut self) {}

    /// The refusal of further commands, if the entity has ended and nothing more will be published.
    fn end_reason(&self) -> Option<&'static str>;
}

/// The ring's depth if snapshots are hardly longer than deltas.
const DEPTH_SMALL: usize = 8;

/// A state with complete snapshots, which make all earlier deltas superfluous.
pub(super) trait PublishedState: Send {
    type Snapshot: SnapshotBody;

    /// Whether a snapshot is hardly longer than a delta, so that a short ring is enough.
    const IS_SMALL: bool;

    /// The total weight of a ring's deltas. Beyond it a snapshot has fewer bytes.
    const WEIGHT_MAX: usize;

    fn version(&self) -> u64;

    /// Entries of deltas with which those have as many bytes as a snapshot, about. A watcher that is behind by more gets a
    /// snapshot.
    fn snapshot_entries(&self) -> usize {
        usize::MAX
    }

    /// Applies an update to version `to`. Returns the delta and its weight, `None` if only a snapshot can say it. A
    /// delta contains everything that was touched since the version before, even if its value is the same again,
    /// because watchers may have seen a version in between.
    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(DeltaOf<Self>, usize)>;

    fn snapshot(&self, entity: &Entity, epoch: u64) -> Self::Snapshot;

    /// As [`Publisher::end_reason`].
    fn end_reason(&self) -> Option<&'static str> {
        None
    }
}

pub(super) type DeltaOf<S> = <<S as PublishedState>::Snapshot as SnapshotBody>::Delta;

/// The publisher of a [`PublishedState`].
pub(super) struct StatePublisher<S: PublishedState> {
    entity: Entity,
    epoch: u64,
    state: S,
    ring: Ring<DeltaOf<S>>,
    /// The encoded snapshot of the published state, made when it is first needed.
    snapshot: Encoded,
}

impl<S: PublishedState> StatePublisher<S>
where
    DeltaOf<S>: Send + Merge + Clone,
{
    /// Begins with this state of this epoch. The ring keeps `depth` deltas.
    pub(super) fn from_initial(entity: &Entity, (epoch, depth): (u64, usize), state: S) -> StatePublisher<S> {
        let ring = Ring::new(if S::IS_SMALL { depth.min(DEPTH_SMALL) } else { depth }, S::WEIGHT_MAX);
        StatePublisher { entity: entity.clone(), epoch, state, ring, snapshot: Encoded::default() }
    }

    /// The frame of the snapshot.
    fn snapshot(&mut self, reader: &Reader<'_>) -> Bytes {
        let (encoding, feed) = (reader.encoding, reader.feed);
        let StatePublisher { entity, epoch, state, snapshot, .. } = self;
        snapshot.get(encoding, |out| encode::snapshot(encoding, out, feed, &state.snapshot(entity, *epoch)))
    }

    /// Gives the next frame to a reader at version `at` that is behind. Returns its new version.
    fn pull_behind(&mut self, at: Option<u64>, bytes_max: usize, reader: &mut Reader<'_>) -> u64 {
        let entries_max = self.state.snapshot_entries();
        let merged = at.and_then(|at| self.ring.merged(at, entries_max, bytes_max, reader));
        let (frame, reached) = match merged {
            Some(merged) if merged.0.len() <= bytes_max => merged,
            // One delta alone is too long.
            longer => {
                let snapshot = (self.snapshot(reader), self.state.version());
                longer.filter(|(delta, _)| delta.len() < snapshot.0.len()).unwrap_or(snapshot)
            }
        };
        reader.give(frame);
        reached
    }
}

impl<S: PublishedState> Publisher for StatePublisher<S>
where
    DeltaOf<S>: Send + Merge + Clone,
{
    fn published(&self) -> u64 {
        self.state.version()
    }

    fn publish(&mut self, to: u64, update: FeedUpdate) {
        self.snapshot = Encoded::default();
        match self.state.apply(to, update) {
            Some((delta, weight)) => self.ring.push(delta, weight),
            None => self.ring.clear(),
        }
        assert_eq!(self.state.version(), to, "{} is published at another version", self.entity);
    }

    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (Option<u64>, Pulled) {
        let version = self.state.version();
        if at == Some(version) {
            return (at, Pulled::All);
        }
        if let Some(bytes_max) = reader.frame_bytes_max {
            let reached = self.pull_behind(at, bytes_max, reader);
            return (Some(reached), if reached == version { Pulled::All } else { Pulled::More });
        }
        if let Some((reached, pulled)) = at.and_then(|at| self.ring.pull(at, true, reader)) {
            return (Some(reached), pulled);
        }
        let snapshot = self.snapshot(reader);
        reader.give(snapshot);
        (Some(version), Pulled::All)
    }

    fn end_reason(&self) -> Option<&'static str> {
        self.state.end_reason()
    }
}
