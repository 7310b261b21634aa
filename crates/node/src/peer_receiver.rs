//! Takes messages of other nodes apart and passes them on. The links call it, so it never blocks.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use boxoffice_core::{answer::Outcome, version::NodeVersions};
use boxoffice_env::{DurablePosition, Lane, NodeId, PeerAdmission, PeerHello, PeerInbox, PeerRejection, no_wait};
use boxoffice_shard::ClockReading;
use boxoffice_storage::peer_positions::is_of_old_copy;
use bytes::Bytes;

use crate::{
    actor::{CallContext, take_here},
    api::{self, ReplySink, ReplyTo},
    error::NodeError,
    history_answer,
    leader_hint::LeaderInfo,
    message::{Message, NoAnswer},
    placement, routing,
    shared::Shared,
};

/// The node as the links to other nodes know it.
pub(crate) struct PeerReceiver(pub(crate) Weak<Shared>);

impl PeerInbox for PeerReceiver {
    fn frame(&self, from: NodeId, lane: Lane, frame: Bytes) {
        let Some(shared) = self.0.upgrade() else { return };
        let _no_wait = no_wait::begin("the links to other nodes wait for it");
        match lane {
            Lane::Consensus => consensus(&shared, from, frame),
            Lane::Calls => match Message::decode(&frame) {
                Ok(message) => take(&shared, from, message),
                Err(why) => shared.replication.not_understood(from, &why),
            },
            Lane::Feeds => shared.remote_feeds.take(from, &frame),
            Lane::Bulk => shared.transfers.take(&shared.replication, from, frame),
        }
    }

    fn link(&self, node: NodeId, up: bool) {
        let Some(shared) = self.0.upgrade() else { return };
        tracing::info!(node, up, "link to another node");
        shared.placement_changed.notify_one();
        shared.outbound.link_changed(node, up);
        if up {
            let version = shared.replication.version.get();
            let _ = shared.world.net.send(node, Lane::Calls, Message::ClusterVersion(version).encode());
            if let Some(mark) = shared.mark() {
                let _ = shared.world.net.send(node, Lane::Calls, Message::Mark(mark).encode());
            }
            if let Some(data_epoch) = shared.epochs.linked(node) {
                let _ = shared.world.net.send(node, Lane::Calls, Message::DataEpoch(data_epoch).encode());
            }
            // A term of the shards may wait for the answer.
            let ask = Message::Time { asked_ms: shared.world.clock.monotonic_ms(), wall_ms: None };
            let _ = shared.world.net.send(node, Lane::Calls, ask.encode());
            // A watch may have been asked for by the first of the connections and be lost with it before the other one stood.
            // Then there was no link to be lost.
            shared.remote_feeds.begin_anew(node);
        } else {
            shared.epochs.unlinked(node);
            shared.replication.replicators.unreachable(node);
            routing::calls_lost(&shared, node);
            shared.remote_histories.lost(node);
            shared.remote_states.lost(node);
            shared.transfers.lost(node);
            shared.remote_feeds.lost(node);
        }
    }

    fn table(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| placement::version(&shared))
    }

    fn durable_position(&self) -> DurablePosition {
        self.0.upgrade().map_or(DurablePosition::default(), |shared| shared.replication.durable_position())
    }

    fn versions(&self) -> NodeVersions {
        self.0.upgrade().map_or(NodeVersions::newest(), |shared| shared.versions())
    }

    fn admit(&self, hello: &PeerHello) -> Result<PeerAdmission, PeerRejection> {
        let Some(shared) = self.0.upgrade() else { return Err("the node is going down".to_owned().into()) };
        placement::admit(&shared, hello)
    }

    fn removed(&self, by: NodeId, why: &str) {
        let Some(shared) = self.0.upgrade() else { return };
        tracing::error!(by, why, "another node will not deal with this one again");
        shared.fail(match is_of_old_copy(why) {
            true => NodeError::OldCopy(why.to_owned()),
            false => NodeError::Removed(why.to_owned()),
        });
    }
}

/// Notes how far the sender's log is durable, and queues its messages for the replicators.
fn consensus(shared: &Arc<Shared>, from: NodeId, mut frame: Bytes) {
    match DurablePosition::decode(&mut frame) {
        Some(position) => shared.replication.peer_positions.record(from, position),
        None => return shared.replication.not_understood(from, "a frame of consensus ends within its beginning"),
    }
    if let Err(why) = shared.replication.replicators.frame(&shared.replication.metrics, from, frame) {
        shared.replication.not_understood(from, why);
    }
}

/// Passes a message on.
pub(crate) fn take(shared: &Arc<Shared>, from: NodeId, message: Message<'static>) {
    // Known before anything can come of the message.
    message.mark().iter().for_each(|mark| shared.replication.mark.raise(*mark));
    match message {
        Message::Call { tag, term, left_ms, patience_ms, is_repeat, request, by, command, mark: _ } => {
            let answers = Arc::new(Answers { shared: Arc::downgrade(shared), to: from });
            let lead = shared.lead_of(&command.entity());
            let term = request.map(|_| term);
            match lead.leads_in() {
                Some(leads_in) if term.is_none_or(|term| term == leads_in) => {}
                // If this node leads in another term than the sender believes, it names that term, because the sender must know
                // in which term an attempt may be decided.
                Some(term) => {
                    let leader = LeaderInfo { term, leader: Some(shared.config.replication.node_id) };
                    return answers.give(tag, Err(NoAnswer::NotLeader(leader)));
                }
                None => return answers.give(tag, Err(NoAnswer::NotLeader(lead.leader_info()))),
            }
            let reply = ReplyTo::new(answers, tag).with_timeout(left_ms).with_patience(patience_ms).by(by);
            take_here(shared, command.into_owned(), request, CallContext { term, is_repeat }, reply);
        }
        Message::Answer { tag, result, mark: _ } => routing::call_answered(shared, tag, result.map(Cow::into_owned)),
        message @ (Message::Ask { .. } | Message::Reply { .. }) => routing::deliver(shared, from, message),
        Message::Time { asked_ms, wall_ms: None } => {
            let answer = Message::Time { asked_ms, wall_ms: Some(shared.world.clock.wall_ms()) };
            let _ = shared.world.net.send(from, Lane::Calls, answer.encode());
        }
        Message::Time { asked_ms, wall_ms: Some(wall_ms) } => {
            let read = ClockReading { asked_ms, answered_ms: shared.world.clock.monotonic_ms(), wall_ms };
            shared.clocks.heard(from, read);
            shared.replication.replicators.clock(from, read);
        }
        Message::DataEpoch(data_epoch) => {
            let Some(others) = shared.epochs.on_announced(data_epoch) else { return };
            shared.feeds.set_epoch(data_epoch.epoch());
            for node in others.into_iter().filter(|node| *node != from) {
                let _ = shared.world.net.send(node, Lane::Calls, Message::DataEpoch(data_epoch).encode());
            }
        }
        Message::AvoidLeadership(avoids_leadership) => {
            shared.replication.replicators.avoid_leadership(from, avoids_leadership);
        }
        Message::SyncTime(sync_us) => shared.disk_pace.heard(from, sync_us, shared.world.clock.monotonic_ms()),
        Message::AvoidShards(shards) => shared.replication.replicators.avoid_shards(from, &shards),
        Message::History { tag, query } => history_answer::history(shared, from, tag, query),
        Message::HistoryReply { tag, result } => shared.remote_histories.answered(from, tag, result),
        Message::AsOf { tag, query } => history_answer::as_of(shared, from, tag, query),
        Message::AsOfReply { tag, result } => shared.remote_states.answered(from, tag, result),
        Message::LeaveNotice => placement::on_leave_notice(shared),
        Message::Mark(_) => {}
        Message::ClusterVersion(version) => {
            // A newer program would not be linked, so this one reads it. Raising writes to the disk, which may not wait here.
            shared.heard_version.raise(version);
            shared.placement_changed.notify_one();
        }
        #[cfg(debug_assertions)]
        Message::Rehearsal => {}
        Message::Checksums(checksums) => {
            if checksums.iter().any(|checksum| usize::from(checksum.shard) >= shared.shards.len()) {
                return shared.replication.not_understood(from, "checksums of an unknown shard");
            }
            shared.replication.replicators.checksums(&shared.replication.metrics, from, checksums);
        }
        Message::Leads { shard, term } => {
            // A replica here knows better.
            let lead = shared.shards.get(usize::from(shard)).filter(|lead| lead.replica_here().is_none());
            if lead.is_some_and(|lead| lead.leader_hint.lock().announced(LeaderInfo { term, leader: Some(from) })) {
                routing::leader_changed(shared, shard, Some(from));
            }
        }
        Message::NotLeader { shard, leader } => {
            if let Some(lead) = shared.shards.get(usize::from(shard)) {
                let is_news = lead.leader_hint.lock().correct(from, leader, shared.config.replication.node_id);
                shared.outbound.again(shard, is_news);
            }
        }
    }
}

/// Sends the answers to another node's calls.
struct Answers {
    shared: Weak<Shared>,
    to: NodeId,
}

impl Answers {
    /// Sends the answer to the call that the other node numbered `tag`.
    fn give(&self, tag: u64, result: Result<Cow<'_, Outcome>, NoAnswer>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let message = Message::Answer { tag, result, mark: shared.mark() };
        if let Err(why) = shared.world.net.send(self.to, Lane::Calls, message.encode()) {
            // The caller notices the lost link, or gives up at its deadline.
            tracing::debug!(%why, "an answer could not be sent");
        }
    }
}

impl ReplySink for Answers {
    fn answer(&self, tag: u64, result: api::Result) {
        match result {
            Ok(outcome) => self.give(tag, Ok(Cow::Borrowed(&outcome))),
            Err(failure) => self.give(tag, Err(NoAnswer::Failed(failure))),
        }
    }
}
