//! A replica's life: it leads, follows, is restored from another node's snapshot, is cut into one, and goes.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{host::Input, planted, state_map::StateMap};
use boxoffice_feeds::Commit;
use boxoffice_shard::{DIRECTORY, NodeId, Received, ReplicaId, ShardId, SnapshotMeta};
use boxoffice_storage::snapshot::{self, Snapshot};
use bytes::Bytes;

use super::Driver;
use crate::{
    cell::Reign, checksums::ShardChecksums, error::NodeError, keeper::Order, placing, routing::Led,
    snapshots::SnapshotsKept,
};

impl Driver {
    /// This node leads a shard from now on: what is unfinished goes on.
    pub(super) fn lead(&mut self, shard: ShardId, reign: Reign) {
        let cell = Arc::clone(&self.shared.cells[usize::from(shard)]);
        self.reigns[usize::from(shard)] = Some(reign);
        // An entry that says so is before everything that is decided in this term.
        self.set_distance(shard, reign.time.distance_ms);
        cell.lead.lock().reign = Some(reign);
        self.led_by(shard, Led { term: reign.epoch.0, leader: Some(self.shared.config.node_id) });
        let (unfinished, deadline) = {
            let replica = cell.replica.lock();
            let looks = !planted::is("what is owed not looked for by a new leader");
            let unfinished: Vec<_> = replica.kept.unfinished().filter(|_| looks).cloned().collect();
            (unfinished, replica.kept.next_deadline())
        };
        self.set_due(shard, deadline);
        if !unfinished.is_empty() {
            tracing::info!(shard, entities = unfinished.len(), "going on with what was under way");
        }
        for entity in unfinished {
            // This node leads the shard as of the line above.
            let _ = self.shared.send(&entity, Input::Wake);
        }
    }

    /// Another node leads a shard, or nobody, or this one.
    fn led_by(&mut self, shard: ShardId, led: Led) {
        self.note_group(shard);
        let cell = &self.shared.cells[usize::from(shard)];
        cell.term.store(led.term, Ordering::Relaxed);
        cell.belief.lock().follow(led);
        if cell.is_led(led.leader.is_some(), self.shared.world.clock.monotonic_ms()) {
            self.shared.far_feeds.leader_changed(&self.shared, shard);
            self.shared.feeds.leaders_changed();
        }
        self.shared.leader_changed(shard, led.leader);
        self.shared.placing.notify_one();
    }

    /// Looks at what replica of a shard is here.
    pub(super) fn note_group(&self, shard: ShardId) {
        let cell = &self.shared.cells[usize::from(shard)];
        let group = self.engine.group(shard);
        cell.group_id.store(group.as_ref().map_or(0, |group| group.replica.bits()), Ordering::Relaxed);
        // A replica that has not been given its first state yet is none that could be read.
        let whole = group.filter(|group| group.members.contains(group.replica));
        cell.committed.store(whole.as_ref().map_or(0, |group| group.committed), Ordering::Relaxed);
        *cell.followers.lock() = whole.as_ref().map(|group| group.followers.clone()).unwrap_or_default();
        cell.replica_id.store(whole.as_ref().map_or(0, |group| group.replica.bits()), Ordering::Relaxed);
        if let Some(group) = whole {
            let voters = &group.members.voters;
            cell.learns.store(!voters.contains(&group.replica), Ordering::Relaxed);
            cell.voters.store(voters.len(), Ordering::Relaxed);
            cell.unconfirmed.store(group.confirmed == Some(false), Ordering::Relaxed);
            // Where this node leads, the distance may be on its way to be committed, ahead of what is decided by it.
            if group.confirmed.is_none() {
                cell.distance_ms.store(group.distance_ms, Ordering::Relaxed);
            }
        }
    }

    /// The shard has no replica here any more.
    pub(super) fn removed(&mut self, shard: ShardId, replica: ReplicaId) -> Result<(), NodeError> {
        if shard == DIRECTORY {
            // Every member has a copy of the directory.
            return Err(placing::no_member(&self.shared));
        }
        tracing::info!(shard, %replica, "the shard is elsewhere now");
        self.follow(shard, 0, None);
        self.snapshots_kept[usize::from(shard)] = SnapshotsKept::default();
        self.restoring.remove(&shard);
        self.checksums[usize::from(shard)] = ShardChecksums::default();
        let cell = &self.shared.cells[usize::from(shard)];
        // What its next replica appends is not to be taken for this one's.
        cell.first_needed.store(0, Ordering::Release);
        let mut replica = cell.replica.lock();
        replica.kept = StateMap::new();
        self.commits.extend(replica.watched.iter().cloned().map(Commit::lost));
        drop(replica);
        cell.applied.store(0, Ordering::Relaxed);
        self.snapshots.forget(shard)?;
        // Where its next replica has begun already, the records may be of that one.
        if self.engine.group(shard).is_none() && self.shared.streams.let_go(&self.shared, shard) {
            self.keeper.order(Order::Clear(shard));
        }
        Ok(())
    }

    /// This node does not lead the shard any more, if it did.
    pub(super) fn follow(&mut self, shard: ShardId, term: u64, leader: Option<NodeId>) {
        let cell = &self.shared.cells[usize::from(shard)];
        self.reigns[usize::from(shard)] = None;
        self.due_ms[usize::from(shard)] = None;
        // Their state was speculation on a leadership that is over; whoever waits for them hears `unknown`.
        let ended = cell.lead.lock().end(|served| {
            let ends = !planted::is("actors that outlive a leadership");
            if ends {
                served.actor.stop(None);
            }
            ends
        });
        drop(ended);
        self.led_by(shard, Led { term, leader });
    }

    /// Makes a snapshot durable that came from another node, before the engine takes it for its own.
    pub(super) fn save(&mut self, received: &Received) -> Result<(), NodeError> {
        let shard = received.meta.shard;
        let why = || "it was announced, and did not come".to_owned();
        let state = self.shared.streams.received(shard, &received.state);
        let state = state.ok_or_else(|| NodeError::BadSnapshot { shard, why: why() })?;
        let rests_on = self.store_batches(shard)?;
        // No file may rest on what a power cut takes away.
        self.shared.patiently(|past| past.sync())?;
        self.snapshots.save_now(&received.meta, rests_on, &state)?;
        self.restoring.insert(shard, state);
        Ok(())
    }

    /// Takes over a snapshot that came from another node.
    pub(super) fn restore(&mut self, received: Received) -> Result<(), NodeError> {
        let Received { meta, .. } = received;
        let shard = meta.shard;
        let state = self.restoring.remove(&shard).expect("it was made durable in this pass");
        let cut = snapshot::decode_state(&state).map_err(|why| NodeError::BadSnapshot { shard, why })?;
        let kept = StateMap::restore(cut);
        self.set_distance(shard, meta.distance_ms);
        let deadline = kept.next_deadline();
        let rests_on = self.store_batches(shard)?;
        let cell = Arc::clone(&self.shared.cells[usize::from(shard)]);
        let mut replica = cell.replica.lock();
        if !planted::is("a snapshot of a leader that is not taken over") {
            replica.kept = kept;
        }
        replica.rests_on = rests_on;
        // What happened in between is not known here.
        self.commits.extend(replica.watched.iter().cloned().map(Commit::lost));
        drop(replica);
        cell.applied.store(meta.position.index, Ordering::Relaxed);
        self.snapshots_kept[usize::from(shard)].add(meta.position.index);
        self.set_due(shard, deadline);
        self.led_by(shard, Led { term: cell.term.load(Ordering::Relaxed), leader: self.engine.leader(shard) });
        Ok(())
    }

    /// How many batches the store has of a shard.
    fn store_batches(&self, shard: ShardId) -> Result<u64, NodeError> {
        Ok(self.shared.patiently(|past| past.shard(shard))?.batches)
    }

    /// Has a snapshot written by the thread that does.
    pub(super) fn cut(&mut self, meta: SnapshotMeta) {
        let replica = self.shared.cells[usize::from(meta.shard)].replica.lock();
        let (rests_on, cut) = (replica.rests_on, replica.kept.cut());
        drop(replica);
        self.snapshots.write(Snapshot { meta, rests_on, cut });
    }

    /// What stands for a shard's state in a message to another node, which then pulls it.
    pub(super) fn cut_for_peer(&self, shard: ShardId) -> Bytes {
        let cut = self.shared.cells[usize::from(shard)].replica.lock().kept.cut();
        self.shared.streams.offer(&self.shared.world, shard, cut)
    }
}
