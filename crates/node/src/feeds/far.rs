//! Feeds of entities that have no replica on this node: watched at a node that has one, whose commits are handed in here
//! as if they were applied here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering, mpsc},
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

use super::{Beginning, Commit, FeedSource};
use crate::{codec, routing::not_understood, shared::Shared, watched::Watched, world::Lane};

/// How long a feed's beginning is waited for, in milliseconds: on a thread that watches, so other watchers wait as well.
const PATIENCE_MS: u64 = 300;

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

/// What is watched elsewhere for this node, and here for others.
#[derive(Default)]
pub(crate) struct FarFeeds {
    /// Where each entity is watched for us.
    at: Mutex<BTreeMap<Entity, NodeId>>,
    /// Who waits for a beginning, and for purchases.
    beginnings: Mutex<BTreeMap<Entity, Vec<mpsc::SyncSender<Option<Beginning>>>>>,
    readings: Mutex<BTreeMap<Id, Vec<mpsc::SyncSender<Vec<Purchase>>>>>,
    /// Nodes that watch an entity of ours.
    watchers: Mutex<BTreeMap<Entity, BTreeSet<NodeId>>>,
}

impl FarFeeds {
    /// Begins to watch an entity at a node that has it; waits for the answer.
    pub(crate) fn begin(&self, shared: &Shared, entity: &Entity) -> Option<Beginning> {
        let (told, tells) = mpsc::sync_channel(1);
        self.beginnings.lock().entry(entity.clone()).or_default().push(told);
        let node = self.ask(shared, entity, &Message::Watch(entity.clone()))?;
        self.at.lock().insert(entity.clone(), node);
        let begun = tells.recv_timeout(Duration::from_millis(PATIENCE_MS)).ok().flatten();
        if begun.is_none() {
            self.at.lock().remove(entity);
        }
        begun
    }

    /// Nobody here watches an entity any more.
    pub(crate) fn end(&self, shared: &Shared, entity: &Entity) {
        if let Some(node) = self.at.lock().remove(entity) {
            // A lost link ends it as well.
            let _ = shared.world.net.send(node, Lane::Feeds, encode(&Message::Unwatch(entity.clone())));
        }
    }

    /// Purchases of a customer whose shard is elsewhere.
    pub(crate) fn purchases(&self, shared: &Shared, customer: &Id, after: u64, limit: u32) -> Vec<Purchase> {
        let (told, tells) = mpsc::sync_channel(1);
        self.readings.lock().entry(customer.clone()).or_default().push(told);
        let entity = Entity::Customer(customer.clone());
        if self.ask(shared, &entity, &Message::Read(customer.clone(), after, limit)).is_none() {
            return Vec::new();
        }
        let found = tells.recv_timeout(Duration::from_millis(PATIENCE_MS)).unwrap_or_default();
        found.into_iter().filter(|purchase| purchase.cursor > after).collect()
    }

    /// Sends to the first home of an entity that can be reached.
    fn ask(&self, shared: &Shared, entity: &Entity, message: &Message) -> Option<NodeId> {
        let homes = shared.cell_of(entity).belief.lock().homes.clone();
        homes.into_iter().find(|node| shared.world.net.send(*node, Lane::Feeds, encode(message)).is_ok())
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
            Message::Begun(entity, beginning) => {
                let waiting = self.beginnings.lock().remove(&entity).unwrap_or_default();
                waiting.into_iter().for_each(|waits| drop(waits.try_send(beginning.clone())));
            }
            Message::Commit(commit) => {
                if self.at.lock().get(&commit.entity) == Some(&from) {
                    shared.feeds.commit(vec![commit]);
                }
            }
            Message::Read(customer, after, limit) => {
                let found = Watched(Arc::downgrade(shared)).purchases(&customer, after, limit);
                let _ = shared.world.net.send(from, Lane::Feeds, encode(&Message::Purchases(customer, found)));
            }
            Message::Purchases(customer, found) => {
                let waiting = self.readings.lock().remove(&customer).unwrap_or_default();
                waiting.into_iter().for_each(|waits| drop(waits.try_send(found.clone())));
            }
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
                    // There will be a gap in front of the next commit, and the feed begins anew.
                    shared.metrics.peer_frames_dropped.fetch_add(1, Ordering::Relaxed);
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
        let there: Vec<Entity> = {
            let at = self.at.lock();
            at.iter().filter(|(_, home)| **home == node).map(|(entity, _)| entity.clone()).collect()
        };
        shared.feeds.commit(there.into_iter().map(Commit::lost).collect());
    }
}

fn encode(message: &Message) -> Bytes {
    codec::append(message, Vec::new()).into()
}
