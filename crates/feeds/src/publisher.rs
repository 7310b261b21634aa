//! A feed that has begun: what is published of its entity, and how a watcher gets to it from where it is.

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{encode, feed::SnapshotBody};

use super::{
    FeedUpdate,
    reader::{Pulled, Reader},
    ring::{Encoded, Ring},
};

/// The feed of an entity of whatever kind, from its beginning on.
pub(super) trait Publisher: Send {
    /// The version that is published; of a customer the cursor.
    fn published(&self) -> u64;

    /// Publishes what follows up to version `to`.
    fn publish(&mut self, to: u64, update: FeedUpdate);

    /// Gives a watcher at `at`, `None` if it has nothing, what follows. Where it is then, and what is left.
    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (Option<u64>, Pulled);

    /// What is kept elsewhere after a cursor came; whether somebody has asked for it.
    fn purchases_page(&mut self, _after: u64, _page: Vec<Purchase>) -> bool {
        false
    }

    /// What was asked for has not come: who needs it asks again.
    fn ask_again(&mut self) {}

    /// Why nothing will follow what is published, if so: the name of the refusal that commands get from now on.
    fn end_reason(&self) -> Option<&'static str>;
}

/// Deltas of a ring whose snapshots are hardly longer than they.
const DEPTH_SMALL: usize = 8;

/// A state whose snapshot says all there is to say of it, whatever was missed before.
pub(super) trait PublishedState: Send {
    /// What its snapshots are.
    type Snapshot: SnapshotBody;

    /// Whether a snapshot is hardly longer than a delta: then a short ring is enough.
    const IS_SMALL: bool;

    /// What the deltas of a ring may weigh together: more than that a snapshot says in fewer bytes.
    const WEIGHT_MAX: usize;

    fn version(&self) -> u64;

    /// Takes over what is different at version `to`; the delta and what it weighs, `None` if only a snapshot says it. A delta
    /// says how everything is that was touched since the version before, also what is as it was: watchers may have seen a
    /// version between.
    fn apply(&mut self, to: u64, update: FeedUpdate) -> Option<(DeltaOf<Self>, usize)>;

    fn snapshot(&self, entity: &Entity, epoch: u64) -> Self::Snapshot;

    /// As [`Publisher::end_reason`].
    fn end_reason(&self) -> Option<&'static str> {
        None
    }
}

pub(super) type DeltaOf<S> = <<S as PublishedState>::Snapshot as SnapshotBody>::Delta;

/// The line of such a state.
pub(super) struct StatePublisher<S: PublishedState> {
    entity: Entity,
    epoch: u64,
    state: S,
    ring: Ring<DeltaOf<S>>,
    /// The published state, encoded when first asked for.
    snapshot: Encoded,
}

impl<S: PublishedState> StatePublisher<S>
where
    DeltaOf<S>: Send,
{
    /// From this state on. It is of this epoch, and its ring keeps `depth` deltas.
    pub(super) fn from_initial(entity: &Entity, (epoch, depth): (u64, usize), state: S) -> StatePublisher<S> {
        let ring = Ring::new(if S::IS_SMALL { depth.min(DEPTH_SMALL) } else { depth }, S::WEIGHT_MAX);
        StatePublisher { entity: entity.clone(), epoch, state, ring, snapshot: Encoded::default() }
    }
}

impl<S: PublishedState> Publisher for StatePublisher<S>
where
    DeltaOf<S>: Send,
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
        if let Some((reached, pulled)) = at.and_then(|at| self.ring.pull(at, true, reader)) {
            return (Some(reached), pulled);
        }
        let (encoding, feed) = (reader.encoding, reader.feed);
        let StatePublisher { entity, epoch, state, snapshot, .. } = self;
        let write = |out: &mut _| encode::snapshot(encoding, out, feed, &state.snapshot(entity, *epoch));
        reader.give(snapshot.get(encoding, write));
        (Some(version), Pulled::All)
    }

    fn end_reason(&self) -> Option<&'static str> {
        self.state.end_reason()
    }
}
