//! Feeds of entities that have no replica on this node: watched at a node that has one, whose commits are handed in here
//! as if they were applied here.
//!
//! Every watch has a number of its own, which all that is said about it carries: an answer that comes too late, or the end of
//! an earlier watch, must not be taken for that of the one that took its place.

use std::{
    collections::BTreeMap,
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
    /// Watch this for me, instead of what I asked before.
    Watch(Number, Entity),
    /// Not any more.
    Unwatch(Number, Entity),
    /// How it begins; nothing if there is nothing to watch.
    Begun(Number, Option<Beginning>),
    /// What was committed of it.
    Commit(Number, Commit),
    /// Purchases of a customer after a cursor, so many.
    Read(Number, Id, u64, u32),
    /// Those purchases.
    Purchases(Number, Vec<Purchase>),
}

/// What a node calls a watch or a question of its own.
type Number = u64;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The node cannot be reached.
    NotAsked,
    /// Nothing came in time.
    Late,
}

/// Who waits for the answer to which question.
struct Waiting<T>(Mutex<BTreeMap<Number, mpsc::SyncSender<T>>>);

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        Waiting(Mutex::default())
    }
}

impl<T> Waiting<T> {
    /// Asks and waits for the answer.
    fn ask(&self, number: Number, ask: impl FnOnce() -> bool) -> Result<T, Silence> {
        let (told, tells) = mpsc::sync_channel(1);
        self.0.lock().insert(number, told);
        let answer = match ask() {
            true => tells.recv_timeout(Duration::from_millis(PATIENCE_MS)).map_err(|_| Silence::Late),
            false => Err(Silence::NotAsked),
        };
        self.0.lock().remove(&number);
        answer
    }

    /// An answer, for who waits for it still.
    fn answer(&self, number: Number, answer: T) {
        if let Some(waits) = self.0.lock().remove(&number) {
            // Who gave up does not mind.
            let _ = waits.try_send(answer);
        }
    }
}

/// What is watched elsewhere for this node, and here for others.
#[derive(Default)]
pub(crate) struct FarFeeds {
    /// Where each entity is watched for us.
    at: Mutex<BTreeMap<Entity, (NodeId, Number)>>,
    beginnings: Waiting<Option<Beginning>>,
    readings: Waiting<Vec<Purchase>>,
    /// Nodes that did not answer in time, and until when nobody waits for them again: feeds wait one after the other.
    silent: Mutex<BTreeMap<NodeId, u64>>,
    /// The next number of ours.
    next: AtomicU64,
    /// Nodes that watch an entity of ours.
    watchers: Mutex<BTreeMap<Entity, BTreeMap<NodeId, Number>>>,
    /// Nodes that were not told of a commit, or are not told any more, and of which entities: their feeds have to begin anew.
    owed: Mutex<BTreeMap<NodeId, BTreeMap<Entity, Number>>>,
}

impl FarFeeds {
    /// Begins to watch an entity at a node that has it, its preferred leader first; waits for the answer.
    ///
    /// # Errors
    /// [`NoFeed::NotFound`] if every node that should have it says that there is none.
    pub(crate) fn begin(&self, shared: &Shared, entity: &Entity) -> Result<Beginning, NoFeed> {
        let homes = homes(shared, entity);
        let mut none = 0;
        for &node in &homes {
            let now_ms = shared.world.clock.monotonic_ms();
            if self.silent.lock().get(&node).is_some_and(|until_ms| now_ms < *until_ms) {
                continue;
            }
            // Before it is asked, so that the first commit is not taken for a stranger's. Who had it before keeps no watcher.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let before = self.at.lock().insert(entity.clone(), (node, number));
            if let Some(before) = before.filter(|(before, _)| *before != node) {
                leave(shared, before, entity);
            }
            let ask = || send(shared, node, &Message::Watch(number, entity.clone()));
            match self.beginnings.ask(number, ask) {
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
        if let Some(watch) = self.at.lock().remove(entity) {
            leave(shared, watch, entity);
        }
    }

    /// Tells nodes that were not told of a commit that there was one. Without it a feed whose last commit was dropped would
    /// stay behind until the next one.
    pub(crate) fn pay(&self, shared: &Shared) {
        let mut owed = self.owed.lock();
        owed.retain(|node, entities| {
            while let Some((entity, number)) = entities.first_key_value() {
                if !send(shared, *node, &Message::Commit(*number, Commit::lost(entity.clone()))) {
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
        let found = homes(shared, &Entity::Customer(customer.clone())).into_iter().find_map(|node| {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            self.readings
                .ask(number, || send(shared, node, &Message::Read(number, customer.clone(), after, limit)))
                .ok()
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
            Message::Watch(number, entity) => self.watch(shared, from, number, entity),
            Message::Unwatch(number, entity) => self.unwatch(shared, from, &entity, |known| known == number),
            Message::Begun(number, beginning) => self.beginnings.answer(number, beginning),
            Message::Commit(number, commit) => {
                if self.at.lock().get(&commit.entity) == Some(&(from, number)) {
                    shared.feeds.commit(vec![commit]);
                }
            }
            Message::Read(number, customer, after, limit) => {
                let found = Watched(Arc::downgrade(shared)).purchases(&customer, after, limit);
                send(shared, from, &Message::Purchases(number, found));
            }
            Message::Purchases(number, found) => self.readings.answer(number, found),
        }
    }

    fn watch(&self, shared: &Arc<Shared>, from: NodeId, number: Number, entity: Entity) {
        // Before it begins, so that no commit is missed; one that the beginning has already is passed over.
        self.watchers.lock().entry(entity.clone()).or_default().insert(from, number);
        let here = shared.cell_of(&entity).replica_here().is_some();
        let beginning = if here { Watched(Arc::downgrade(shared)).begin_far(&entity) } else { None };
        if beginning.is_none() {
            self.unwatch(shared, from, &entity, |known| known == number);
        }
        send(shared, from, &Message::Begun(number, beginning));
    }

    /// Ends the watch of a node if it is this one.
    fn unwatch(&self, shared: &Shared, from: NodeId, entity: &Entity, is_this: impl FnOnce(Number) -> bool) {
        let mut watchers = self.watchers.lock();
        let Some(nodes) = watchers.get_mut(entity) else { return };
        if nodes.get(&from).copied().is_some_and(is_this) {
            nodes.remove(&from);
        }
        if nodes.is_empty() {
            watchers.remove(entity);
            shared.cell_of(entity).replica.lock().watched.end_far(entity);
        }
    }

    /// What was just applied here, for the nodes that watch it here.
    pub(crate) fn commit(&self, shared: &Shared, commits: &[Commit]) {
        let watchers = self.watchers.lock();
        if watchers.is_empty() {
            return;
        }
        for commit in commits {
            for (node, number) in watchers.get(&commit.entity).into_iter().flatten() {
                if !send(shared, *node, &Message::Commit(*number, commit.clone())) {
                    // The feed begins anew, when it can be told so or at the gap in front of the next commit.
                    shared.metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
                    self.owed.lock().entry(*node).or_default().insert(commit.entity.clone(), *number);
                }
            }
        }
    }

    /// A node is lost: what it watched here ends, and what was watched there begins anew elsewhere.
    pub(crate) fn lost(&self, shared: &Arc<Shared>, node: NodeId) {
        let watched: Vec<(Entity, Number)> = {
            let watchers = self.watchers.lock();
            let of = |(entity, nodes): (&Entity, &BTreeMap<_, _>)| Some((entity.clone(), *nodes.get(&node)?));
            watchers.iter().filter_map(of).collect()
        };
        watched.iter().for_each(|(entity, _)| self.unwatch(shared, node, entity, |_| true));
        // It hears of the lost link as well, but may have begun anew over the next one before this was heard of here.
        if !watched.is_empty() {
            self.owed.lock().entry(node).or_default().extend(watched);
        }
        self.begin_anew(shared, node);
    }

    /// What is watched at a node begins anew, there or elsewhere.
    pub(crate) fn begin_anew(&self, shared: &Shared, node: NodeId) {
        let there: Vec<Entity> = {
            let at = self.at.lock();
            at.iter().filter(|(_, (home, _))| *home == node).map(|(entity, _)| entity.clone()).collect()
        };
        shared.feeds.commit(there.into_iter().map(Commit::lost).collect());
    }
}

/// A node is not asked to watch an entity any more; a lost link ends it as well.
fn leave(shared: &Shared, (node, number): (NodeId, Number), entity: &Entity) {
    send(shared, node, &Message::Unwatch(number, entity.clone()));
}

/// Where an entity can be watched; nowhere if whoever asks must not wait.
fn homes(shared: &Shared, entity: &Entity) -> Vec<NodeId> {
    if shared.tasks.only() {
        return Vec::new();
    }
    shared.cell_of(entity).belief.lock().homes.clone()
}

/// Says something to a node; whether it is on its way.
fn send(shared: &Shared, node: NodeId, message: &Message) -> bool {
    shared.world.net.send(node, Lane::Feeds, codec::append(message, Vec::new()).into()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_that_comes_too_late_is_nobody_elses() {
        let waiting = Waiting::default();
        assert_eq!(waiting.ask(1, || false), Err(Silence::NotAsked));
        assert_eq!(waiting.ask(2, || true), Err(Silence::Late));
        let answers = || {
            waiting.answer(2, "of the watch before");
            waiting.answer(3, "of this one");
            waiting.answer(3, "twice");
        };
        let begun = thread::scope(|scope| {
            waiting.ask(3, || {
                scope.spawn(answers);
                true
            })
        });
        assert_eq!(begun, Ok("of this one"));
        assert!(waiting.0.lock().is_empty(), "nobody waits any more");
    }
}
