//! Feeds of entities that have no replica on this node. They are watched at a node that has one, whose commits are handed in here
//! as if they were applied here.
//!
//! Every watch has a number of its own, which is in all messages about it. So a late answer, or the end of an earlier watch, is
//! not taken for that of the watch that took its place.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::stored::Stored;
use boxoffice_core::{
    answer::Purchase,
    id::{Entity, Id},
    stored,
};
use boxoffice_env::{Lane, World};
use boxoffice_feeds::{Commit, Feeds, InitialState, NoFeed};
use boxoffice_replication::{history_reads::ReadError, replication::Replication, shard_state::WatchedEntities};
use boxoffice_shard::{NodeId, ShardId};
use boxoffice_storage::history::StoredEntity;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    pending_commit::PendingCommit,
    shard_lead::Shards,
    watched::{self, Committed, Known},
};

/// For how many milliseconds a node that did not answer in time is not asked again.
const SILENT_MS: u64 = 1_000;

/// For how many milliseconds it is remembered that a page was asked for.
const PAGE_MS: u64 = 10_000;

/// Messages between nodes about feeds.
#[derive(Debug, Stored)]
#[stored(name = "FeedMessage")]
pub(crate) enum Message {
    /// Watch this entity for the sender, in place of its earlier watch of it.
    #[n(0)]
    Watch(#[n(0)] Number, #[n(1)] Entity),
    /// Do not watch it any more.
    #[n(1)]
    Unwatch(#[n(0)] Number, #[n(1)] Entity),
    /// The initial state. `None` if there is nothing to watch. Last, the highest mark that the sender knows.
    #[n(2)]
    Begun(#[n(0)] Number, #[n(1)] Entity, #[n(2)] Option<InitialState>, #[n(3)] Option<u64>),
    /// A commit of it, and the mark.
    #[n(3)]
    Commit(#[n(0)] Number, #[n(1)] Commit, #[n(2)] Option<u64>),
    /// Purchases of a customer after a cursor, at most this number.
    #[n(4)]
    Read(#[n(0)] Number, #[n(1)] Id, #[n(2)] u64, #[n(3)] u32),
    /// Those purchases, and the mark.
    #[n(5)]
    Purchases(#[n(0)] Number, #[n(1)] Vec<Purchase>, #[n(2)] Option<u64>),
    /// Whether the replica where it is watched has a leader, and so receives commits. It has one until this message
    /// says otherwise.
    #[n(6)]
    HasLeader(#[n(0)] Number, #[n(1)] Entity, #[n(2)] bool),
}

impl Message {
    fn mark(&self) -> Option<u64> {
        match self {
            Message::Begun(_, _, _, mark) | Message::Commit(_, _, mark) | Message::Purchases(_, _, mark) => *mark,
            _ => None,
        }
    }
}

/// A node's number for a watch or a question of its own.
pub(crate) type Number = u64;

/// An entity that is watched for us.
struct Watch {
    node: NodeId,
    number: Number,
    /// While it has not begun.
    asking: Option<Asking>,
    /// Since which monotonic millisecond the replica there has no leader.
    leaderless_since_ms: Option<u64>,
}

/// The progress of asking nodes for the initial state.
struct Asking {
    /// Nodes that can be asked yet.
    rest: VecDeque<NodeId>,
    /// How many have said that there is nothing to watch.
    none: usize,
    /// How many would have to say so.
    replica_nodes: usize,
}

/// A page of purchases that was asked for.
struct Page {
    node: NodeId,
    customer: Id,
    after: u64,
    asked_ms: u64,
}

/// Entities that are watched elsewhere for this node, and here for others.
pub(crate) struct RemoteFeeds {
    world: World,
    shards: Arc<Shards>,
    replication: Arc<Replication<PendingCommit>>,
    feeds: Feeds,
    /// The watch of each entity for this node.
    at: Mutex<BTreeMap<Entity, Watch>>,
    pages: Mutex<BTreeMap<Number, Page>>,
    /// Nodes that did not answer in time, and until when they are not asked again.
    silent: Mutex<BTreeMap<NodeId, u64>>,
    /// The next number of ours.
    next: AtomicU64,
    /// Nodes that watch an entity of ours.
    watchers: Mutex<BTreeMap<Entity, BTreeMap<NodeId, Number>>>,
    /// Nodes that missed commits, and of which entities. Their feeds have to start over.
    owed: Mutex<BTreeMap<NodeId, BTreeMap<Entity, Number>>>,
}

impl RemoteFeeds {
    /// Nothing is watched yet.
    pub(crate) fn new(
        world: World,
        shards: Arc<Shards>,
        replication: Arc<Replication<PendingCommit>>,
        feeds: Feeds,
    ) -> RemoteFeeds {
        RemoteFeeds {
            world,
            shards,
            replication,
            feeds,
            at: Mutex::default(),
            pages: Mutex::default(),
            silent: Mutex::default(),
            next: AtomicU64::new(0),
            watchers: Mutex::default(),
            owed: Mutex::default(),
        }
    }

    fn committed(&self) -> Committed<'_> {
        Committed { shards: &self.shards, replication: &self.replication }
    }

    fn begin_remote(&self, entity: &Entity) -> Known<Option<InitialState>> {
        watched::begin_at(self.committed(), entity, WatchedEntities::begin_remote, WatchedEntities::end_remote)
    }

    /// A node is not asked to watch an entity any more. A lost link ends it as well.
    fn unwatch_at(&self, watch: &Watch, entity: &Entity) {
        self.send(watch.node, &Message::Unwatch(watch.number, entity.clone()));
    }

    /// The nodes at which an entity can be watched.
    fn replica_nodes(&self, entity: &Entity) -> Vec<NodeId> {
        self.shards.of(entity).leader_hint.lock().replica_nodes.clone()
    }

    /// Sends a message to a node. Returns whether it is on its way.
    fn mark(&self) -> Option<u64> {
        self.replication.mark_to_send()
    }

    fn send(&self, node: NodeId, message: &Message) -> bool {
        self.world.net.send(node, Lane::Feeds, stored::append(message, Vec::new()).into()).is_ok()
    }

    /// Begins to watch an entity at a node that has it, its preferred leader first. The answer goes to
    /// [`boxoffice_feeds::Feeds::initial_state`] after [`NoFeed::Pending`].
    pub(crate) fn begin(&self, entity: &Entity) -> NoFeed {
        let replica_nodes = self.replica_nodes(entity);
        let rest = self.responsive(&replica_nodes);
        self.ask(entity, Asking { rest, none: 0, replica_nodes: replica_nodes.len() })
    }

    /// The node that was asked has not answered in time. The next one is asked.
    pub(crate) fn begin_elsewhere(&self, entity: &Entity) -> NoFeed {
        let asked = self.at.lock().get_mut(entity).map(|watch| (watch.node, watch.asking.take()));
        let Some((node, asking)) = asked else { return self.begin(entity) };
        // Without it the answer is on its way through this node.
        let Some(asking) = asking else { return NoFeed::Pending };
        self.mark_silent(node);
        self.ask(entity, asking)
    }

    fn ask(&self, entity: &Entity, mut asking: Asking) -> NoFeed {
        while let Some(node) = asking.rest.pop_front() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Asking { none, replica_nodes, .. } = asking;
            let rest = asking.rest.clone();
            // Registered before it is asked, so that the first commit is recognised. The node asked before drops its watcher.
            let watch =
                Watch { node, number, asking: Some(Asking { rest, none, replica_nodes }), leaderless_since_ms: None };
            let before = self.at.lock().insert(entity.clone(), watch);
            if let Some(before) = before.filter(|before| before.node != node) {
                self.unwatch_at(&before, entity);
            }
            if self.send(node, &Message::Watch(number, entity.clone())) {
                return NoFeed::Pending;
            }
        }
        self.end(entity);
        let all_say_so = asking.replica_nodes > 0 && asking.none == asking.replica_nodes;
        if all_say_so { NoFeed::NotFound } else { NoFeed::Unreachable }
    }

    fn responsive(&self, nodes: &[NodeId]) -> VecDeque<NodeId> {
        let now_ms = self.world.clock.monotonic_ms();
        let silent = self.silent.lock();
        nodes.iter().filter(|node| silent.get(node).is_none_or(|until_ms| *until_ms <= now_ms)).copied().collect()
    }

    fn mark_silent(&self, node: NodeId) {
        self.silent.lock().insert(node, self.world.clock.monotonic_ms() + SILENT_MS);
    }

    /// No feed here watches an entity any more.
    pub(crate) fn end(&self, entity: &Entity) {
        let watch = self.at.lock().remove(entity);
        if let Some(watch) = watch {
            self.unwatch_at(&watch, entity);
        }
    }

    /// Informs nodes that missed a commit. Without it a feed whose last commit was dropped would stay behind until the next one.
    pub(crate) fn send_owed(&self) {
        let mut owed = self.owed.lock();
        owed.retain(|node, entities| {
            while let Some((entity, number)) = entities.first_key_value() {
                if !self.send(*node, &Message::Commit(*number, Commit::lost(entity.clone()), self.mark())) {
                    return true;
                }
                entities.pop_first();
            }
            false
        });
    }

    /// Sets the other nodes. Nothing is owed to any further node.
    pub(crate) fn retain_nodes(&self, nodes: impl Fn(NodeId) -> bool) {
        self.owed.lock().retain(|node, _| nodes(*node));
        self.silent.lock().retain(|node, _| nodes(*node));
    }

    /// Asks for the purchases of a customer whose shard is elsewhere. They go to [`boxoffice_feeds::Feeds::purchases_page`]. If
    /// it is asked once more, it asks another node.
    pub(crate) fn read_page(&self, customer: &Id, after: u64, limit: u32) {
        let now_ms = self.world.clock.monotonic_ms();
        let late = {
            let mut pages = self.pages.lock();
            let mut late = Vec::new();
            pages.retain(|_, page| {
                let again = page.after == after && page.customer == *customer;
                if again {
                    late.push(page.node);
                }
                !again && now_ms - page.asked_ms < PAGE_MS
            });
            late
        };
        late.into_iter().for_each(|node| self.mark_silent(node));
        for node in self.responsive(&self.replica_nodes(&Entity::Customer(customer.clone()))) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let page = Page { node, customer: customer.clone(), after, asked_ms: now_ms };
            self.pages.lock().insert(number, page);
            if self.send(node, &Message::Read(number, customer.clone(), after, limit)) {
                return;
            }
            self.pages.lock().remove(&number);
        }
    }

    /// Since when the node where an entity is watched for us has no leader of it. `None` if it is not watched elsewhere.
    pub(crate) fn leaderless_since_ms(&self, entity: &Entity) -> Option<Option<u64>> {
        self.at.lock().get(entity).map(|watch| watch.leaderless_since_ms)
    }

    /// A shard of this node has a leader now, or none. Nodes that watch it here are informed.
    pub(crate) fn leader_changed(&self, shard: ShardId) {
        let watchers = self.watchers.lock();
        for (entity, nodes) in watchers.iter().filter(|(entity, _)| self.shards.of(entity).id == shard) {
            nodes.iter().for_each(|(node, number)| self.send_has_leader(*node, *number, entity));
        }
    }

    /// Called under the lock of the watchers, so that the last message is the current state.
    fn send_has_leader(&self, node: NodeId, number: Number, entity: &Entity) {
        let has_leader = self.shards.of(entity).leaderless_since_ms().is_none();
        if !self.send(node, &Message::HasLeader(number, entity.clone(), has_leader)) {
            self.owed.lock().entry(node).or_default().insert(entity.clone(), number);
        }
    }

    /// A frame of the lane of feeds.
    pub(crate) fn take(self: &Arc<Self>, from: NodeId, frame: &[u8]) {
        let message: Message = match stored::read(frame) {
            Ok(message) => message,
            Err(why) => return self.replication.not_understood(from, &why),
        };
        // Known before anybody here hears of what it is about.
        message.mark().iter().for_each(|mark| self.replication.mark.raise(*mark));
        match message {
            Message::Watch(number, entity) => self.watch(from, number, entity),
            Message::Unwatch(number, entity) => self.unwatch(from, &entity, |known| known == number),
            Message::Begun(number, entity, beginning, _) => self.begun((from, number), entity, beginning),
            Message::Commit(number, commit, _) => {
                let is_ours = self.at.lock().get(&commit.entity).is_some_and(|watch| watch.is(from, number));
                if is_ours {
                    self.feeds.commit(vec![commit]);
                }
            }
            Message::HasLeader(number, entity, has_leader) => {
                let since_ms = (!has_leader).then(|| self.world.clock.monotonic_ms());
                if let Some(watch) = self.at.lock().get_mut(&entity).filter(|watch| watch.is(from, number)) {
                    watch.leaderless_since_ms = since_ms;
                }
                self.feeds.leaders_changed();
            }
            Message::Read(number, customer, after, limit) => {
                match watched::purchases(self.committed(), &customer, after, limit) {
                    Known::Now(found) => _ = self.send(from, &Message::Purchases(number, found, self.mark())),
                    Known::Stored => {
                        let weak = Arc::downgrade(self);
                        self.read(Entity::Customer(customer), move |found| {
                            // Without an answer the other node asks again.
                            if let (Some(feeds), Ok(stored)) = (weak.upgrade(), found) {
                                let found = stored.map(|stored| watched::purchases_of(&stored.state, after, limit));
                                let page = Message::Purchases(number, found.unwrap_or_default(), feeds.mark());
                                feeds.send(from, &page);
                            }
                        });
                    }
                }
            }
            Message::Purchases(number, found, _) => {
                let page = self.pages.lock().remove(&number);
                if let Some(Page { customer, after, .. }) = page.filter(|page| page.node == from) {
                    self.feeds.purchases_page(customer, after, found);
                }
            }
        }
    }

    /// A node has answered. A late answer belongs to a watch that has ended.
    fn begun(&self, (from, number): (NodeId, Number), entity: Entity, beginning: Option<InitialState>) {
        let asking = match self.at.lock().get_mut(&entity) {
            Some(watch) if watch.is(from, number) => watch.asking.take(),
            _ => None,
        };
        let Some(mut asking) = asking else { return };
        let outcome = match beginning {
            Some(beginning) => Ok(beginning),
            None => {
                asking.none += 1;
                Err(self.ask(&entity, asking))
            }
        };
        if outcome != Err(NoFeed::Pending) {
            self.feeds.initial_state(entity, outcome);
        }
    }

    /// Reads the record of an entity of this node.
    fn read(&self, entity: Entity, then: impl FnOnce(Result<Option<StoredEntity>, ReadError>) + Send + 'static) {
        self.replication.reads.read(self.shards.of(&entity).id, entity, Box::new(then));
    }

    fn watch(self: &Arc<Self>, from: NodeId, number: Number, entity: Entity) {
        // Before it begins, so that no commit is missed. A commit that the initial state has already is skipped.
        self.watchers.lock().entry(entity.clone()).or_default().insert(from, number);
        let here = self.shards.of(&entity).replica_here().is_some();
        match if here { self.begin_remote(&entity) } else { Known::Now(None) } {
            Known::Now(beginning) => self.watch_begun((from, number), entity, beginning),
            Known::Stored => {
                let weak = Arc::downgrade(self);
                self.read(entity.clone(), move |found| {
                    let Some(feeds) = weak.upgrade() else { return };
                    let end = WatchedEntities::end_remote;
                    // A replica that cannot read it has nothing to watch. The other node asks the next one.
                    let begun = watched::begin_stored(feeds.committed(), &entity, found, end).unwrap_or(None);
                    feeds.watch_begun((from, number), entity, begun);
                });
            }
        }
    }

    /// Answers a node that watches an entity here.
    fn watch_begun(&self, (from, number): (NodeId, Number), entity: Entity, beginning: Option<InitialState>) {
        let has_begun = beginning.is_some();
        if !has_begun {
            self.unwatch(from, &entity, |known| known == number);
        }
        self.send(from, &Message::Begun(number, entity.clone(), beginning, self.mark()));
        let _watchers = self.watchers.lock();
        if has_begun && self.shards.of(&entity).leaderless_since_ms().is_some() {
            self.send_has_leader(from, number, &entity);
        }
    }

    /// Ends the watch of a node if it is this one.
    fn unwatch(&self, from: NodeId, entity: &Entity, is_this: impl FnOnce(Number) -> bool) {
        let mut watchers = self.watchers.lock();
        let Some(nodes) = watchers.get_mut(entity) else { return };
        if nodes.get(&from).copied().is_some_and(is_this) {
            nodes.remove(&from);
        }
        if nodes.is_empty() {
            watchers.remove(entity);
            self.shards.of(entity).state.replica.lock().watched.end_remote(entity);
        }
    }

    /// Sends commits that were just applied here to the nodes that watch them here.
    pub(crate) fn commit(&self, commits: &[Commit]) {
        let watchers = self.watchers.lock();
        if watchers.is_empty() {
            return;
        }
        for commit in commits {
            for (node, number) in watchers.get(&commit.entity).into_iter().flatten() {
                if !self.send(*node, &Message::Commit(*number, commit.clone(), self.mark())) {
                    // The feed starts over when the node can be informed, or at the gap before the next commit.
                    self.replication.metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
                    self.owed.lock().entry(*node).or_default().insert(commit.entity.clone(), *number);
                }
            }
        }
    }

    /// A node is lost. Its watches here end, and watches at it start over at other nodes.
    pub(crate) fn lost(&self, node: NodeId) {
        let watched: Vec<(Entity, Number)> = {
            let watchers = self.watchers.lock();
            let of = |(entity, nodes): (&Entity, &BTreeMap<_, _>)| Some((entity.clone(), *nodes.get(&node)?));
            watchers.iter().filter_map(of).collect()
        };
        watched.iter().for_each(|(entity, _)| self.unwatch(node, entity, |_| true));
        // It notices the lost link as well, but may have started over on the next link before this node noticed.
        if !watched.is_empty() {
            self.owed.lock().entry(node).or_default().extend(watched);
        }
        self.begin_anew(node);
    }

    /// Watches at a node start over, there or at another node.
    pub(crate) fn begin_anew(&self, node: NodeId) {
        let there: Vec<Entity> = {
            let at = self.at.lock();
            at.iter().filter(|(_, watch)| watch.node == node).map(|(entity, _)| entity.clone()).collect()
        };
        self.feeds.commit(there.into_iter().map(Commit::lost).collect());
    }
}

impl Watch {
    fn is(&self, node: NodeId, number: Number) -> bool {
        (self.node, self.number) == (node, number)
    }
}
