//! A feed that has begun: what is published of its entity, and how a watcher gets to it from where it is.

use boxoffice_core::{answer::Purchase, id::Entity};
use boxoffice_wire::{Encoding, encode, feed::SnapshotBody};
use bytes::Bytes;

use super::{
    Beginning, FeedSource, News, View,
    purchases::Purchases,
    ring::{Encoded, Ring},
    seats::{Counts, Seats},
    states::{CalendarAt, CartAt, StockAt},
};

/// The feed of an entity of whatever kind, from its beginning on.
pub(super) trait Line: Send {
    /// The version that is published; of a customer the cursor.
    fn published(&self) -> u64;

    /// Publishes what follows up to version `to`.
    fn publish(&mut self, to: u64, news: News);

    /// Gives a watcher at `at`, `None` if it has nothing, what follows. Where it is then, and what is left.
    fn pull(&mut self, at: Option<u64>, reader: &mut Reader<'_>) -> (Option<u64>, Pulled);

    /// What is kept elsewhere after a cursor came; whether somebody has asked for it.
    fn turned_to(&mut self, _after: u64, _page: Vec<Purchase>) -> bool {
        false
    }

    /// What was asked for has not come: who needs it asks again.
    fn ask_again(&mut self) {}

    /// Why nothing will follow what is published, if so: the name of the refusal that commands get from now on.
    fn over(&self) -> Option<&'static str>;
}

/// What is left for a watcher after it was given frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    /// Nothing.
    All,
    /// More than it wanted.
    More,
    /// Something that is kept on another node, which is asked for; the watcher is told when it is there.
    Awaited {
        /// Whether it was asked for just now.
        newly: bool,
    },
}

/// A watcher that wants frames, at most about so many bytes of them.
pub(super) struct Reader<'a> {
    pub(super) feed: u64,
    pub(super) encoding: Encoding,
    pub(super) source: &'a dyn FeedSource,
    /// The monotonic millisecond it is.
    pub(super) now_ms: &'a dyn Fn() -> u64,
    /// The waiting time of the hub.
    pub(super) waited_ms: u64,
    pub(super) bytes_left: usize,
    pub(super) frame: &'a mut dyn FnMut(Bytes),
}

impl Reader<'_> {
    /// Whether it wants no more for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    pub(super) fn give(&mut self, frame: Bytes) {
        self.bytes_left = self.bytes_left.saturating_sub(frame.len());
        (self.frame)(frame);
    }
}

/// Deltas of a ring whose snapshots are hardly longer than they.
const DEPTH_SMALL: usize = 8;

/// A state whose snapshot says all there is to say of it, whatever was missed before.
pub(super) trait State: Send {
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
    fn apply(&mut self, to: u64, news: News) -> Option<(DeltaOf<Self>, usize)>;

    fn snapshot(&self, entity: &Entity, epoch: u64) -> Self::Snapshot;

    /// As [`Line::over`].
    fn over(&self) -> Option<&'static str> {
        None
    }
}

pub(super) type DeltaOf<S> = <<S as State>::Snapshot as SnapshotBody>::Delta;

/// The line of such a state.
struct States<S: State> {
    entity: Entity,
    epoch: u64,
    state: S,
    ring: Ring<DeltaOf<S>>,
    /// The published state, encoded when first asked for.
    snapshot: Encoded,
}

impl<S: State> States<S>
where
    DeltaOf<S>: Send,
{
    fn begun(entity: &Entity, (epoch, depth): (u64, usize), state: S) -> States<S> {
        let ring = Ring::new(if S::IS_SMALL { depth.min(DEPTH_SMALL) } else { depth }, S::WEIGHT_MAX);
        States { entity: entity.clone(), epoch, state, ring, snapshot: Encoded::default() }
    }
}

impl<S: State> Line for States<S>
where
    DeltaOf<S>: Send,
{
    fn published(&self) -> u64 {
        self.state.version()
    }

    fn publish(&mut self, to: u64, news: News) {
        self.snapshot = Encoded::default();
        match self.state.apply(to, news) {
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
        let States { entity, epoch, state, snapshot, .. } = self;
        let write = |out: &mut _| encode::snapshot(encoding, out, feed, &state.snapshot(entity, *epoch));
        reader.give(snapshot.get(encoding, write));
        (Some(version), Pulled::All)
    }

    fn over(&self) -> Option<&'static str> {
        self.state.over()
    }
}

/// The feed of an entity, from its beginning on: of this epoch, and with rings of so many deltas.
pub(super) fn begun(entity: &Entity, view: View, terms: (u64, usize), beginning: Beginning) -> Box<dyn Line> {
    match beginning {
        Beginning::Session(map) => match view {
            View::Whole => Box::new(States::begun(entity, terms, Seats::new(map))),
            View::Counts => Box::new(States::begun(entity, terms, Counts(Seats::new(map)))),
        },
        Beginning::Product { version, counts } => Box::new(States::begun(entity, terms, StockAt { version, counts })),
        Beginning::Resource { version, bookings } => {
            Box::new(States::begun(entity, terms, CalendarAt { version, bookings }))
        }
        Beginning::Cart { version, cart } => Box::new(States::begun(entity, terms, CartAt { version, cart })),
        Beginning::Customer { newest } => match entity {
            Entity::Customer(customer) => Box::new(Purchases::begun(customer.clone(), newest)),
            other => panic!("{other} begins as a customer"),
        },
    }
}
