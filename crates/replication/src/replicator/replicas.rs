//! The life of a replica: it leads, follows, is restored from another node's snapshot, is cut into one, and is removed.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{planted, state_map::StateMap};
use boxoffice_shard::{DIRECTORY, NodeId, Position, Received, ReplicaId, ShardId, SnapshotMeta};
use boxoffice_storage::{
    chain_file::ChainPlace,
    snapshot::{self, Snapshot},
};
use bytes::Bytes;

use super::Replicator;
use crate::{
    checksums::ShardChecksums,
    error::ReplicationError,
    history_writer::Order,
    owner::{Event, Owner},
    shard_state::Leadership,
    snapshot_writer::SnapshotsKept,
};

impl<O: Owner> Replicator<O> {
    /// This node leads a shard from now on. Unfinished entities go on.
    pub(super) fn lead(&mut self, shard: ShardId, leadership: Leadership) {
        self.leaderships[usize::from(shard)] = Some(leadership);
        // An entry with this distance precedes every decision of this term.
        self.set_distance(shard, leadership.time.distance_ms);
        self.owner.on(Event::BecameLeader { shard, leadership });
        self.leader_changed(shard, leadership.epoch.0, Some(self.replication.config.node_id));
        let (unfinished, deadline) = {
            let mut replica = self.replication.shard(shard).replica.lock();
            replica.kept.set_distance(leadership.time.distance_ms);
            let looks = !planted::is("what is owed not looked for by a new leader");
            let unfinished: Vec<_> = replica.kept.unfinished().filter(|_| looks).cloned().collect();
            (unfinished, replica.kept.next_deadline())
        };
        self.set_due(shard, deadline);
        if !unfinished.is_empty() {
            tracing::info!(shard, entities = unfinished.len(), "going on with what was under way");
        }
        unfinished.into_iter().for_each(|entity| self.owner.on(Event::Due(entity)));
    }

    /// The leader of a shard has changed to this node, another node or none.
    fn leader_changed(&mut self, shard: ShardId, term: u64, leader: Option<NodeId>) {
        self.note_group(shard);
        self.replication.shard(shard).term.store(term, Ordering::Relaxed);
        self.owner.on(Event::LeaderChanged { shard, term, leader });
    }

    /// Updates the published state of the shard's group here.
    pub(super) fn note_group(&self, shard: ShardId) {
        let state = self.replication.shard(shard);
        let group = self.engine.group(shard);
        state.group_id.store(group.as_ref().map_or(0, |group| group.replica.bits()), Ordering::Relaxed);
        // A replica without its first state cannot be read.
        let whole = group.filter(|group| group.members.contains(group.replica));
        state.committed.store(whole.as_ref().map_or(0, |group| group.committed), Ordering::Relaxed);
        *state.followers.lock() = whole.as_ref().map(|group| group.followers.clone()).unwrap_or_default();
        state.replica_id.store(whole.as_ref().map_or(0, |group| group.replica.bits()), Ordering::Relaxed);
        if let Some(group) = whole {
            let voters = &group.members.voters;
            state.learns.store(!voters.contains(&group.replica), Ordering::Relaxed);
            state.voters.store(voters.len(), Ordering::Relaxed);
            state.unconfirmed.store(group.confirmed == Some(false), Ordering::Relaxed);
            // On the leader, the distance in `state` may be newer, because its entry is still being committed.
            if group.confirmed.is_none() {
                state.distance_ms.store(group.distance_ms, Ordering::Relaxed);
            }
        }
    }

    /// Updates the published chain of the shard's entries, and their newest mark.
    pub(super) fn note_chain(&self, shard: ShardId) {
        let meta = self.engine.snapshot_meta(shard);
        *self.replication.shard(shard).marked.lock() =
            meta.map_or((0, 0), |meta| (meta.position.index, meta.mark.unwrap_or(0)));
        *self.replication.shard(shard).chain.lock() = meta.and_then(|meta| {
            let at_ms = meta.stamp_ms.saturating_add_signed(meta.distance_ms);
            let Position { index, term } = meta.position;
            Some(ChainPlace { shard, index, term, chain: meta.chain?, at_ms })
        });
    }

    /// The shard has no replica here any more.
    pub(super) fn removed(&mut self, shard: ShardId, replica: ReplicaId) -> Result<(), ReplicationError> {
        if shard == DIRECTORY {
            // Every member has a copy of the directory.
            return Err(ReplicationError::DirectoryRemoved);
        }
        tracing::info!(shard, %replica, "the shard is elsewhere now");
        self.follow(shard, 0, None);
        self.snapshots_kept[usize::from(shard)] = SnapshotsKept::default();
        self.restoring.retain(|(of, _), _| *of != shard);
        self.checksums[usize::from(shard)] = ShardChecksums::default();
        let state = self.replication.shard(shard);
        // Entries of the next replica must not be taken for this one's.
        state.first_needed.store(0, Ordering::Release);
        let mut replica = state.replica.lock();
        replica.kept = StateMap::sharing(self.replication.layouts.clone());
        self.changes.extend(replica.watched.iter().cloned().map(O::lost));
        drop(replica);
        state.applied.store(0, Ordering::Relaxed);
        self.snapshots.forget(shard)?;
        // If the next replica has begun already, the records may belong to it.
        if self.engine.group(shard).is_none() && self.transfers.let_go(&self.replication, shard) {
            self.history.order(Order::Clear(shard));
        }
        Ok(())
    }

    /// This node does not lead the shard any more, if it did.
    pub(super) fn follow(&mut self, shard: ShardId, term: u64, leader: Option<NodeId>) {
        self.leaderships[usize::from(shard)] = None;
        self.due_ms[usize::from(shard)] = None;
        self.owner.on(Event::BecameFollower { shard });
        self.leader_changed(shard, term, leader);
    }

    /// Makes a snapshot from another node durable, before the engine takes it over.
    pub(super) fn save(&mut self, received: &Received) -> Result<(), ReplicationError> {
        let shard = received.meta.shard;
        let why = || "it was announced, and did not come".to_owned();
        let bytes = self.transfers.received(shard, &received.state);
        let (bytes, store_batches) = bytes.ok_or_else(|| ReplicationError::BadSnapshot { shard, why: why() })?;
        self.snapshots.save_now(&received.meta, store_batches, &bytes)?;
        self.restoring.insert((shard, received.meta.position.index), (bytes, store_batches));
        Ok(())
    }

    /// Takes over a snapshot from another node.
    pub(super) fn restore(&mut self, received: Received) -> Result<(), ReplicationError> {
        let Received { meta, .. } = received;
        let shard = meta.shard;
        let restored = self.restoring.remove(&(shard, meta.position.index));
        let (bytes, store_batches) = restored.expect("it was made durable before");
        let cut = snapshot::decode_state(&bytes).map_err(|why| ReplicationError::BadSnapshot { shard, why })?;
        let mut kept = StateMap::sharing(self.replication.layouts.clone()).restored(cut);
        kept.set_distance(meta.distance_ms);
        self.set_distance(shard, meta.distance_ms);
        let deadline = kept.next_deadline();
        let state = Arc::clone(self.replication.shard(shard));
        let mut replica = state.replica.lock();
        if !planted::is("a snapshot of a leader that is not taken over") {
            replica.kept = kept;
        }
        replica.store_batches = replica.store_batches.max(store_batches);
        // The changes in between are not known here.
        self.changes.extend(replica.watched.iter().cloned().map(O::lost));
        drop(replica);
        state.applied.store(meta.position.index, Ordering::Relaxed);
        state.payment_epoch.store(meta.payment_epoch.unwrap_or(0), Ordering::Relaxed);
        self.snapshots_kept[usize::from(shard)].add(meta.position.index);
        self.set_due(shard, deadline);
        self.leader_changed(shard, state.term.load(Ordering::Relaxed), self.engine.leader(shard));
        Ok(())
    }

    /// Cuts a snapshot and queues it for the snapshot writer.
    pub(super) fn cut(&mut self, meta: SnapshotMeta) {
        let replica = self.replication.shard(meta.shard).replica.lock();
        let (store_batches, cut) = (replica.store_batches, replica.kept.cut());
        drop(replica);
        self.snapshots.write(Snapshot { meta, store_batches, cut });
    }

    /// The token for a shard's state in a message to another node, which then pulls the state.
    pub(super) fn cut_for_peer(&self, shard: ShardId) -> Bytes {
        let cut = self.replication.shard(shard).replica.lock().kept.cut();
        self.transfers.offer(&self.replication.world, shard, cut)
    }
}
