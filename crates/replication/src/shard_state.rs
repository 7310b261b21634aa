//! The replica of a shard on this node: its committed state, and what is known of its group.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use boxoffice_core::{
    id::Entity,
    layout::Layout,
    state_map::{LayoutPool, Layouts, StateMap},
    time::Timestamp,
};
use boxoffice_env::no_wait::{self, NoWait};
use boxoffice_shard::{Epoch, FollowerStatus, ReplicaId, ShardId, ShardTime};
use boxoffice_storage::chain_file::ChainPlace;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

/// One shard as it is replicated here. Its replicator writes it, all others read it.
pub struct ShardState {
    pub id: ShardId,
    /// The committed state.
    pub replica: ReplicaLock,
    /// The last applied entry's index.
    pub applied: AtomicU64,
    /// The first entry that must stay in the log. 0 before that is known, [`u64::MAX`] if none must.
    pub(crate) first_needed: AtomicU64,
    /// The term of the last change of leadership.
    pub term: AtomicU64,
    /// The id of the shard's replica on this node, once it has a state. 0 if it has none.
    pub(crate) replica_id: AtomicU64,
    /// The same from its first message on.
    pub(crate) group_id: AtomicU64,
    /// The replica has no vote.
    pub learns: AtomicBool,
    /// True time less the shard's running time, in milliseconds, as it was last committed.
    pub distance_ms: AtomicI64,
    /// This node leads the shard, and no majority of its voters confirms its time.
    pub unconfirmed: AtomicBool,
    /// The number of replicas that vote.
    pub voters: AtomicUsize,
    /// The last entry that the replica here knows to be committed.
    pub committed: AtomicU64,
    /// The chain of the shard's entries, as of a moment ago. `None` before it has begun, or without a replica here.
    pub chain: Mutex<Option<ChainPlace>>,
    /// The last applied entry and the newest mark up to it, as of a moment ago. 0 before the first mark, or without a replica here.
    pub marked: Mutex<(u64, u64)>,
    /// What distinguishes attempts to pay that begin here, [`SnapshotMeta::payment_epoch`](boxoffice_shard::SnapshotMeta). 0 for none.
    pub payment_epoch: AtomicU32,
    /// On the leader: every other replica, as of a moment ago.
    pub followers: Mutex<Vec<FollowerStatus>>,
    /// The replica has waited for a record of the store for a while. It votes, but applies nothing.
    pub waits: AtomicBool,
    /// Bytes of the entries that wait in memory behind the one that needs the record, as of a moment ago.
    pub waiting_bytes: AtomicU64,
    /// Another replica should lead, because this one waits or a part of its history is damaged.
    pub avoids: AtomicBool,
}

impl ShardState {
    /// A shard without a replica here.
    pub fn new(id: ShardId) -> ShardState {
        ShardState {
            id,
            replica: ReplicaLock::default(),
            applied: AtomicU64::new(0),
            first_needed: AtomicU64::new(0),
            term: AtomicU64::new(0),
            replica_id: AtomicU64::new(0),
            group_id: AtomicU64::new(0),
            learns: AtomicBool::new(false),
            distance_ms: AtomicI64::new(0),
            unconfirmed: AtomicBool::new(false),
            voters: AtomicUsize::new(1),
            committed: AtomicU64::new(0),
            chain: Mutex::default(),
            marked: Mutex::default(),
            payment_epoch: AtomicU32::new(0),
            followers: Mutex::default(),
            waits: AtomicBool::new(false),
            waiting_bytes: AtomicU64::new(0),
            avoids: AtomicBool::new(false),
        }
    }

    /// The shard's replica on this node.
    pub fn replica_here(&self) -> Option<ReplicaId> {
        ReplicaId::from_bits(self.replica_id.load(Ordering::Relaxed))
    }

    /// The same, even before the replica has its first state.
    pub fn group_here(&self) -> Option<ReplicaId> {
        ReplicaId::from_bits(self.group_id.load(Ordering::Relaxed))
    }
}

/// The lock of a replica. Its holder must not wait for the store, since actors and other nodes' links take it as well.
#[derive(Default)]
pub struct ReplicaLock(Mutex<Replica>);

/// A locked replica.
pub struct ReplicaGuard<'a> {
    replica: MutexGuard<'a, Replica>,
    _no_wait: NoWait,
}

impl ReplicaLock {
    /// Locks it.
    pub fn lock(&self) -> ReplicaGuard<'_> {
        ReplicaGuard { replica: self.0.lock(), _no_wait: no_wait::begin("the lock of a replica is held") }
    }
}

impl Deref for ReplicaGuard<'_> {
    type Target = Replica;

    fn deref(&self) -> &Replica {
        &self.replica
    }
}

impl DerefMut for ReplicaGuard<'_> {
    fn deref_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }
}

/// The layouts of all shards of a node: the sessions of one hall are in many shards, and have one copy of its layout.
#[derive(Debug, Default)]
pub struct NodeLayouts(Mutex<Layouts>);

impl LayoutPool for NodeLayouts {
    fn one(&self, layout: &Arc<Layout>) -> Arc<Layout> {
        self.0.lock().one(layout)
    }
}

/// The committed state of a shard.
#[derive(Default)]
pub struct Replica {
    /// Every entity of the shard that is in memory.
    pub kept: StateMap,
    /// The number of store batches that a snapshot cut now would depend on. Their entities are not in `kept`.
    pub(crate) store_batches: u64,
    /// Entities whose changes the owner wants.
    pub watched: WatchedEntities,
}

/// Entities whose changes are wanted by feeds of this node, of others, or of both.
#[derive(Default)]
pub struct WatchedEntities(BTreeMap<Entity, WatchedBy>);

#[derive(Clone, Copy, Default)]
struct WatchedBy {
    here: bool,
    remote: bool,
}

impl WatchedEntities {
    /// This node's feeds want an entity's changes.
    pub fn begin_here(&mut self, entity: Entity) {
        self.0.entry(entity).or_default().here = true;
    }

    /// Other nodes' feeds want them.
    pub fn begin_remote(&mut self, entity: Entity) {
        self.0.entry(entity).or_default().remote = true;
    }

    /// This node's feeds want them no more.
    pub fn end_here(&mut self, entity: &Entity) {
        self.end(entity, |by| by.here = false);
    }

    /// Other nodes' feeds want them no more.
    pub fn end_remote(&mut self, entity: &Entity) {
        self.end(entity, |by| by.remote = false);
    }

    fn end(&mut self, entity: &Entity, change: impl FnOnce(&mut WatchedBy)) {
        if let Some(by) = self.0.get_mut(entity) {
            change(by);
            if !by.here && !by.remote {
                self.0.remove(entity);
            }
        }
    }

    pub(crate) fn contains(&self, entity: &Entity) -> bool {
        !self.0.is_empty() && self.0.contains_key(entity)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.0.keys()
    }
}

/// One term in which this node leads a shard.
#[derive(Clone, Copy, Debug)]
pub struct Leadership {
    pub epoch: Epoch,
    /// The shard's clock in it.
    pub time: ShardTime,
}

impl Leadership {
    /// When the shard's clock shows `at`, in milliseconds of the monotonic clock.
    pub(crate) fn mono_ms_of(&self, at: Timestamp) -> u64 {
        self.time.mono_base_ms + at.0.saturating_sub(self.time.base_ms)
    }
}

#[cfg(test)]
mod layout_tests {
    use boxoffice_core::{
        ask::Opening,
        command::NewSession,
        event::{Event, SessionEvent},
        id::Id,
        layout::{Labels, Row, Run},
        money::{Currency, Money},
        state_map::State,
    };

    use super::*;

    fn id(text: &str) -> Id {
        Id::new(text).expect("an id")
    }

    fn hall(seats: u16) -> Arc<Layout> {
        let labels = Labels::Numbers { first: 1, step: 1 };
        let run = Run { gap: 0, count: seats, labels, category: id("c"), accessible: false, points: Vec::new() };
        let row = Row { label: "A".into(), section: None, runs: vec![run] };
        Arc::new(Layout::new(vec![row], None).expect("a hall"))
    }

    /// The event with which a session is opened, as a replica reads it from its log: with a layout of its own.
    fn opened(session: &str, seats: u16) -> (Entity, Vec<Event>) {
        let session = NewSession {
            id: id(session),
            hall: id("h"),
            title: id("t"),
            starts_at: Timestamp(1),
            ends_at: Timestamp(2),
            prices: vec![(id("c"), Money { amount: 1, currency: Currency::new("EUR").expect("a currency") })],
            extras: Default::default(),
        };
        let entity = Entity::Session(session.id.clone());
        let opening = Opening { venue: id("v"), session, layout: hall(seats), zone: Default::default() };
        (entity, vec![Event::Session(SessionEvent::Opened(opening))])
    }

    fn layout_of(map: &StateMap, entity: &Entity) -> Arc<Layout> {
        match &*map.get(entity).expect("a session") {
            State::Session(session) => Arc::clone(session.layout()),
            _ => panic!("no session"),
        }
    }

    #[test]
    fn the_shards_of_a_node_have_one_copy_of_a_layout() {
        let pool = Arc::new(NodeLayouts::default());
        let mut shards = [StateMap::sharing(pool.clone()), StateMap::sharing(pool.clone())];
        let sessions = [opened("one", 10), opened("two", 10), opened("other", 11)];
        for (number, (entity, events)) in sessions.iter().enumerate() {
            shards[number % 2].apply(entity, events.clone());
        }
        let (one, two) = (layout_of(&shards[0], &sessions[0].0), layout_of(&shards[1], &sessions[1].0));
        assert!(Arc::ptr_eq(&one, &two), "sessions of one hall in two shards");
        assert!(!Arc::ptr_eq(&one, &layout_of(&shards[0], &sessions[2].0)), "another hall");
        // The same for what is read from snapshots, each of which has a layout of its own.
        let mut alone = StateMap::new();
        alone.apply(&sessions[0].0, opened("one", 10).1);
        let restored = StateMap::sharing(pool).restored(alone.cut());
        assert!(Arc::ptr_eq(&one, &layout_of(&restored, &sessions[0].0)), "read from a snapshot");
    }
}
