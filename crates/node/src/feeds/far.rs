//! Feeds of entities that have no replica on this node: watched at a node that has one, whose commits are handed in here
//! as if they were applied here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use boxoffice_core::{
    answer::Purchase,
    id::{Entity, Id},
};
use boxoffice_shard::NodeId;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Beginning, Commit, FeedSource, NoFeed};
use crate::{codec, routing::not_understood, shared::Shared, watched::Watched, world::Lane};

/// How long a feed's beginning is waited for, in milliseconds: on a thread that watches, so other watchers wait as well.
const PATIENCE_MS: u64 = 300;
/// For how many milliseconds a node that did not answer in time is not asked for a beginning.
const SILENT_MS: u64 = 1_000;

/// What is said about feeds between nodes, in postcard.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Watch this for me.
    Watch(Entity),
    /// Not any more.
    Unwatch(Entity),
    /// How it begins; nothing if there is nothing to watch.
    Begun(Entity, Option<Beginning>),
    /// What was committed of it.
    Commit(Commit),
    /// Purchases of a customer after a cursor, so many.
    Read(Id, u64, u32),
    /// Those purchases.
    Purchases(Id, Vec<Purchase>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The node cannot be reached.
    NotAsked,
    /// Nothing came in time.
    Late,
}

/// Who waits for answers, by who is asked and what they are about: one that is late must not stand for another's.
struct Waiting<K, T>(Mutex<BTreeMap<K, Vec<Waits<T>>>>);

/// One who waits, with its number.
type Waits<T> = (u64, mpsc::SyncSender<T>);

impl<K, T> Default for Waiting<K, T> {
    fn default() -> Waiting<K, T> {
        Waiting(Mutex::default())
    }
}

impl<K: Ord + Clone, T: Clone> Waiting<K, T> {
    /// Asks and waits for the answer.
    fn ask(&self, key: &K, number: u64, ask: impl FnOnce() -> bool) -> Result<T, Silence> {
        let (told, tells) = mpsc::sync_channel(1);
        self.0.lock().entry(key.clone()).or_default().push((number, told));
        let answer = match ask() {
            true => tells.recv_timeout(Duration::from_millis(PATIENCE_MS)).map_err(|_| Silence::Late),
            false => Err(Silence::NotAsked),
        };
        let mut waiting = self.0.lock();
        if let Some(others) = waiting.get_mut(key) {
            others.retain(|(other, _)| *other != number);
            if others.is_empty() {
                waiting.remove(key);
            }
        }
        answer
    }

    /// An answer for all who wait for it.
    fn answer(&self, key: &K, answer: &T) {
        for (_, waits) in self.0.lock().remove(key).unwrap_or_default() {
            // Who gave up does not mind.
            let _ = waits.try_send(answer.clone());
        }
    }
}

/// What is watched elsewhere for this node, and here for others.
#[derive(Default)]
pub(crate) struct FarFeeds {
    /// Where each entity is watched for us.
    at: Mutex<BTreeMap<Entity, NodeId>>,
    beginnings: Waiting<(NodeId, Entity), Option<Beginning>>,
    readings: Waiting<(NodeId, Id), Vec<Purchase>>,
    /// Nodes that did not answer in time, and until when nobody waits for them again: feeds wait one after the other.
    silent: Mutex<BTreeMap<NodeId, u64>>,
    /// Numbers those who wait.
    next: AtomicU64,
    /// Nodes that watch an entity of ours.
    watchers: Mutex<BTreeMap<Entity, BTreeSet<NodeId>>>,
    /// Nodes that were not told of a commit, or are not told any more, and of which entities: their feeds have to begin anew.
    owed: Mutex<BTreeMap<NodeId, BTreeSet<Entity>>>,
}

impl FarFeeds {
    /// Begins to watch an entity at a node that has it, its preferred leader first; waits for the answer.
    ///
    /// # Errors
    /// [`NoFeed::NotFound`] if every node that should have it says that there is none.
    pub(crate) fn begin(&self, shared: &Shared, entity: &Entity) -> Result<Beginning, NoFeed> {
        let message = encode(&Message::Watch(entity.clone()));
        let homes = homes(shared, entity);
        let mut none = 0;
        for &node in &homes {
            let now_ms = shared.world.clock.monotonic_ms();
            if self.silent.lock().get(&node).is_some_and(|until_ms| now_ms < *until_ms) {
                continue;
            }
            // Before it is asked, so that the first commit is not taken for a stranger's. Who had it before keeps no watcher.
            let before = self.at.lock().insert(entity.clone(), node);
            if let Some(before) = before.filter(|before| *before != node) {
                leave(shared, before, entity);
            }
            let ask = || shared.world.net.send(node, Lane::Feeds, message.clone()).is_ok();
            let begun = self.beginnings.ask(&(node, entity.clone()), self.next.fetch_add(1, Ordering::Relaxed), ask);
            match begun {
                Ok(Some(beginning)) => return Ok(beginning),
                Ok(None) => none += 1,
                Err(Silence::NotAsked) => {}
                Err(Silence::Late) => _ = self.silent.lock().insert(node, now_ms + SILENT_MS),
            }
        }
        self.end(shared, entity);
        let all_say_so = !homes.is_empty() && none == homes.len();
        Err(if all_say_so { NoFeed::NotFound } else { NoFeed::Unreachable })
    }

    /// Nobody here watches an entity any more.
    pub(crate) fn end(&self, shared: &Shared, entity: &Entity) {
        if let Some(node) = self.at.lock().remove(entity) {
            leave(shared, node, entity);
        }
    }

    /// Tells nodes that were not told of a commit that there was one. Without it a feed whose last commit was dropped would
    /// stay behind until the next one.
    pub(crate) fn pay(&self, shared: &Shared) {
        let mut owed = self.owed.lock();
        owed.retain(|node, entities| {
            let lost = |entity: &Entity| encode(&Message::Commit(Commit::lost(entity.clone())));
            while let Some(entity) = entities.first() {
                if shared.world.net.send(*node, Lane::Feeds, lost(entity)).is_err() {
                    return true;
                }
                entities.pop_first();
            }
            false
        });
    }

    /// These are the other nodes now: nothing is owed to anybody else.
    pub(crate) fn keep_only(&self, nodes: impl Fn(NodeId) -> bool) {
        self.owed.lock().retain(|node, _| nodes(*node));
        self.silent.lock().retain(|node, _| nodes(*node));
    }

    /// Purchases of a customer whose shard is elsewhere.
    pub(crate) fn purchases(&self, shared: &Shared, customer: &Id, after: u64, limit: u32) -> Vec<Purchase> {
        let message = encode(&Message::Read(customer.clone(), after, limit));
        let found = homes(shared, &Entity::Customer(customer.clone())).into_iter().find_map(|node| {
            let ask = || shared.world.net.send(node, Lane::Feeds, message.clone()).is_ok();
            self.readings.ask(&(node, customer.clone()), self.next.fetch_add(1, Ordering::Relaxed), ask).ok()
        });
        found.into_iter().flatten().filter(|purchase| purchase.cursor > after).collect()
    }

    /// A frame of the lane of feeds.
    pub(crate) fn take(&self, shared: &Arc<Shared>, from: NodeId, frame: &[u8]) {
        let message: Message = match codec::read(frame) {
            Ok(message) => message,
            Err(why) => return not_understood(shared, from, &why),
        };
        match message {
            Message::Watch(entity) => self.watch(shared, from, entity),
            Message::Unwatch(entity) => self.unwatch(shared, from, &entity),
            Message::Begun(entity, beginning) => self.beginnings.answer(&(from, entity), &beginning),
            Message::Commit(commit) => {
                if self.at.lock().get(&commit.entity) == Some(&from) {
                    shared.feeds.commit(vec![commit]);
                }
            }
            Message::Read(customer, after, limit) => {
                let found = Watched(Arc::downgrade(shared)).purchases(&customer, after, limit);
                let _ = shared.world.net.send(from, Lane::Feeds, encode(&Message::Purchases(customer, found)));
            }
            Message::Purchases(customer, found) => self.readings.answer(&(from, customer), &found),
        }
    }

    fn watch(&self, shared: &Arc<Shared>, from: NodeId, entity: Entity) {
        // Before it begins, so that no commit is missed; one that the beginning has already is passed over.
        self.watchers.lock().entry(entity.clone()).or_default().insert(from);
        let here = shared.cell_of(&entity).replica_here().is_some();
        let beginning = if here { Watched(Arc::downgrade(shared)).begin_far(&entity) } else { None };
        if beginning.is_none() {
            self.unwatch(shared, from, &entity);
        }
        let _ = shared.world.net.send(from, Lane::Feeds, encode(&Message::Begun(entity, beginning)));
    }

    fn unwatch(&self, shared: &Shared, from: NodeId, entity: &Entity) {
        let mut watchers = self.watchers.lock();
        if let Some(nodes) = watchers.get_mut(entity) {
            nodes.remove(&from);
            if nodes.is_empty() {
                watchers.remove(entity);
                shared.cell_of(entity).replica.lock().watched.end_far(entity);
            }
        }
    }

    /// What was just applied here, for the nodes that watch it here.
    pub(crate) fn commit(&self, shared: &Shared, commits: &[Commit]) {
        let watchers = self.watchers.lock();
        if watchers.is_empty() {
            return;
        }
        for commit in commits {
            for node in watchers.get(&commit.entity).into_iter().flatten() {
                if shared.world.net.send(*node, Lane::Feeds, encode(&Message::Commit(commit.clone()))).is_err() {
                    // The feed begins anew, when it can be told so or at the gap in front of the next commit.
                    shared.metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
                    self.owed.lock().entry(*node).or_default().insert(commit.entity.clone());
                }
            }
        }
    }

    /// A node is lost: what it watched here ends, and what was watched there begins anew elsewhere.
    pub(crate) fn lost(&self, shared: &Arc<Shared>, node: NodeId) {
        let watched: Vec<Entity> = {
            let watchers = self.watchers.lock();
            watchers.iter().filter(|(_, nodes)| nodes.contains(&node)).map(|(entity, _)| entity.clone()).collect()
        };
        watched.iter().for_each(|entity| self.unwatch(shared, node, entity));
        // It hears of the lost link as well, but may have begun anew over the next one before this was heard of here.
        if !watched.is_empty() {
            self.owed.lock().entry(node).or_default().extend(watched);
        }
        let there: Vec<Entity> = {
            let at = self.at.lock();
            at.iter().filter(|(_, home)| **home == node).map(|(entity, _)| entity.clone()).collect()
        };
        shared.feeds.commit(there.into_iter().map(Commit::lost).collect());
    }
}

/// A node is not asked to watch an entity any more; a lost link ends it as well.
fn leave(shared: &Shared, node: NodeId, entity: &Entity) {
    let _ = shared.world.net.send(node, Lane::Feeds, encode(&Message::Unwatch(entity.clone())));
}

/// Where an entity can be watched; nowhere if whoever asks must not wait.
fn homes(shared: &Shared, entity: &Entity) -> Vec<NodeId> {
    if shared.tasks.only() {
        return Vec::new();
    }
    shared.cell_of(entity).belief.lock().homes.clone()
}

fn encode(message: &Message) -> Bytes {
    codec::append(message, Vec::new()).into()
}
