//! Calls of this node's clients, under way to the node that leads. They are forwarded, repeated with the same request id
//! when a leader is lost, and given up at their deadline. A call that may have taken effect then ends with `unknown`, never
//! with a guess.

use std::{
    borrow::Cow,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    answer::Outcome,
    command::Command,
    id::{Request, RequestHash},
    planted,
};
use boxoffice_env::Lane;
use boxoffice_shard::{NodeId, ShardId};

use crate::{
    actor::{CallContext, take_here},
    api::{self, Failure, ReplySink, ReplyTo},
    message::{Message, NoAnswer},
    pending::{
        calls::{Call, CallTable, Due, State},
        doubt::{Doubt, Path},
    },
    shared::Shared,
};

/// Calls under way. Further ones are answered `busy`. A shard takes fewer, so this is reached only when many have no leader.
const CALLS_MAX: usize = 65_536;
/// The bits of a random number that are left out of the first call's: 16 for its attempts, and one so that there is no end.
const CALL_SPARE_BITS: u32 = 17;
/// When to try again if there is no room for another call, in milliseconds.
const CALLS_FULL_MS: u32 = 100;
/// Calls that wait are looked at no more often than this, in milliseconds.
const LOOK_MS: u64 = 10;
/// Calls that are looked at before other work of the thread goes on.
const LOOKS_MAX: usize = 1_024;
/// Milliseconds before a call without a leader, or with a lost one, is tried again. News of a leader come earlier.
const AGAIN_MS: u64 = 40;

/// The target of an attempt, and the term in which it may be decided there.
enum Target {
    Here(u64),
    At(NodeId, u64),
    Nowhere,
}

/// Takes the answers of attempts at this node itself.
struct Sink(Weak<Shared>);

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: api::Result) {
        if let Some(shared) = self.0.upgrade() {
            call_answered(&shared, tag, result.map_err(NoAnswer::Failed));
        }
    }
}

fn tag_of(id: u64, attempt: u16) -> u64 {
    id << 16 | u64::from(attempt)
}

/// Takes a client's command. It is answered at its deadline at the latest.
pub(crate) fn begin_call(shared: &Arc<Shared>, command: Command, request: Option<Request>, reply: ReplyTo) {
    let now_ms = shared.world.clock.monotonic_ms();
    let shard = shared.lead_of(&command.entity()).id;
    let deadline_ms = now_ms + reply.timeout_ms();
    let patient_until_ms = now_ms.saturating_add(reply.patience_ms());
    let state = State::New;
    let (attempt, path, failure) = (0, None, Failure::NotReady);
    let mut call = Call {
        command,
        request,
        reply,
        shard,
        deadline_ms,
        patient_until_ms,
        attempt,
        state,
        path,
        doubt: Doubt::None,
        doubted: false,
        failure,
    };
    let id = {
        let mut table = shared.calls.table.lock();
        if let Some(request) = request {
            call.doubt = table.doubts.of(&call.command.entity(), request.id, now_ms);
        }
        if table.len() >= CALLS_MAX {
            drop(table);
            shared.metrics.busy.fetch_add(1, Ordering::Relaxed);
            return call.reply.answer(Err(Failure::Busy(CALLS_FULL_MS)));
        }
        if table.next == 0 {
            // An answer to a call of the process before this one must not be taken for one to a call of this one.
            table.next = shared.world.rng.u64() >> CALL_SPARE_BITS;
        }
        table.next += 1;
        let id = table.next;
        table.add(id, call);
        id
    };
    attempt_call(shared, (id, 0), now_ms);
    shared.calls.some.notify_one();
}

/// Sends a call to the leader, as far as it is known. `last` is the call and its last attempt. If several tasks want to begin
/// the next attempt, the first one does.
fn attempt_call(shared: &Arc<Shared>, last: (u64, u16), now_ms: u64) {
    let (id, last) = last;
    let mut table = shared.calls.table.lock();
    let Some(mut call) = table.change(id) else { return };
    if !call.begin_attempt(last, now_ms) {
        return;
    }
    let tag = tag_of(id, call.attempt);
    match target(shared, &call) {
        Target::Nowhere => call.state = State::Waits(now_ms + AGAIN_MS),
        Target::Here(term) => {
            call.state = State::Here;
            call.path = Some(Path { node: shared.config.replication.node_id, connection: 0, term });
            let (command, request, by) = (call.command.clone(), call.request, call.reply.asker().cloned());
            let given = CallContext { term: request.map(|_| term), is_repeat: call.is_repeat() };
            let left_ms = call.deadline_ms.saturating_sub(now_ms);
            let patience_ms = call.patient_until_ms.saturating_sub(now_ms);
            drop(call);
            // The answer may come before this returns.
            drop(table);
            let sink = Arc::new(Sink(Arc::downgrade(shared)));
            take_here(
                shared,
                command,
                request,
                given,
                ReplyTo::new(sink, tag).with_timeout(left_ms).by(by).with_patience(patience_ms),
            );
        }
        Target::At(node, term) => {
            let retried = call.attempt > 1 && planted::is("a retry under a new request id");
            let anew =
                |request: Request| Request { id: RequestHash(request.id.0 ^ u64::from(call.attempt)), ..request };
            let request = if retried { call.request.map(anew) } else { call.request };
            let command = Cow::Borrowed(&call.command);
            let by = call.reply.asker().cloned();
            let (is_repeat, left_ms) = (call.is_repeat(), call.deadline_ms.saturating_sub(now_ms));
            let patience_ms = call.patient_until_ms.saturating_sub(now_ms);
            let mark = shared.mark();
            let frame =
                Message::Call { tag, term, left_ms, patience_ms, is_repeat, request, by, command, mark }.encode();
            let sent = shared.world.net.send(node, Lane::Calls, frame);
            shared.shards[usize::from(call.shard)].note_sent(&sent);
            call.state = match sent {
                Ok(connection) => {
                    call.path = Some(Path { node, connection, term });
                    shared.metrics.calls_forwarded.fetch_add(1, Ordering::Relaxed);
                    State::At(node, now_ms)
                }
                Err(_) => State::Waits(now_ms + AGAIN_MS),
            };
        }
    }
}

/// An attempt has come to its end.
pub(crate) fn call_answered(shared: &Arc<Shared>, tag: u64, result: Result<Outcome, NoAnswer>) {
    let (id, attempt) = (tag >> 16, tag as u16);
    let now_ms = shared.world.clock.monotonic_ms();
    let mut table = shared.calls.table.lock();
    let Some(mut call) = table.change(id) else { return };
    let why = match result {
        Ok(outcome) if call.is_final(attempt, &outcome) => {
            drop(call);
            let call = table.remove(id).expect("it was looked at");
            drop(table);
            return call.reply.answer(Ok(outcome));
        }
        // The attempt under way may yet be granted.
        Ok(_) if attempt != call.attempt => return,
        // A refused request may still be granted to an earlier attempt that is late.
        Ok(_) => {
            drop(call);
            return shared.calls.end(table, id, Failure::Unknown, now_ms);
        }
        Err(why) => why,
    };
    if attempt != call.attempt {
        return;
    }
    let mut again_ms = now_ms + AGAIN_MS;
    let last = call.attempt;
    match why {
        NoAnswer::NotLeader(led) => {
            if let State::At(asked, _) = call.state {
                let leader_hint = &shared.shards[usize::from(call.shard)].leader_hint;
                if leader_hint.lock().correct(asked, led, shared.config.replication.node_id) {
                    again_ms = now_ms;
                }
            }
        }
        NoAnswer::Failed(Failure::Unknown) => call.is_in_doubt(),
        // A command that panicked here would panic at the next leader as well.
        NoAnswer::Failed(failure @ (Failure::Busy(_) | Failure::Internal)) => {
            let failure = if call.doubt.is_some() { Failure::Unknown } else { failure };
            drop(call);
            return shared.calls.end(table, id, failure, now_ms);
        }
        NoAnswer::Failed(failure) => call.failure = failure,
    }
    call.state = State::Waits(again_ms);
    drop(call);
    drop(table);
    if again_ms == now_ms {
        attempt_call(shared, (id, last), now_ms);
    }
    shared.calls.some.notify_one();
}

/// A shard has another leader. Calls that wait for one, or for the old one, are sent to it.
pub(super) fn call_new_leader(shared: &Arc<Shared>, shard: ShardId, leader: Option<NodeId>) {
    let Some(leader) = leader else { return };
    // The actor of a call that is here ends with the leadership, and says so.
    let is_there = |call: &Call| matches!(call.state, State::At(node, _) if node == leader);
    call_again(shared, |table| table.elsewhere(shard), |call| !is_there(call));
}

/// A node is lost. Calls that were sent to it may or may not have happened.
pub(crate) fn calls_lost(shared: &Arc<Shared>, node: NodeId) {
    call_again(shared, |table| table.sent_to(node), |_| true);
}

/// Repeats those of some calls that must be.
fn call_again(shared: &Arc<Shared>, some: impl Fn(&CallTable) -> Vec<u64>, must: impl Fn(&Call) -> bool) {
    let now_ms = shared.world.clock.monotonic_ms();
    let due: Vec<(u64, u16)> = {
        let mut table = shared.calls.table.lock();
        let some = some(&table);
        let again = |id: u64| {
            let mut call = table.change(id).filter(|call| must(call))?;
            if let State::At(..) = call.state {
                call.is_in_doubt();
            }
            call.state = State::Waits(now_ms);
            Some((id, call.attempt))
        };
        some.into_iter().filter_map(again).collect()
    };
    for last in due {
        attempt_call(shared, last, now_ms);
    }
    shared.calls.some.notify_one();
}

/// Repeats calls that wait and gives up those that are overdue, some at a time. Returns in how many milliseconds to look again,
/// if any is under way.
fn look_at_calls(shared: &Arc<Shared>) -> Option<u64> {
    let now_ms = shared.world.clock.monotonic_ms();
    let Due { over, again, more } = shared.calls.table.lock().due(now_ms, LOOKS_MAX);
    for call in over {
        let sent = matches!(call.state, State::Here | State::At(..));
        let failure = if call.doubt.is_some() || sent { Failure::Unknown } else { call.failure };
        call.reply.answer(Err(failure));
    }
    for last in again {
        attempt_call(shared, last, now_ms);
    }
    let next_ms = if more { Some(now_ms) } else { shared.calls.table.lock().next_ms() };
    next_ms.map(|next_ms| next_ms.saturating_sub(now_ms))
}

/// The known leader of a call's shard.
fn target(shared: &Shared, call: &Call) -> Target {
    let lead = &shared.shards[usize::from(call.shard)];
    if let Some(term) = lead.leads_in() {
        return Target::Here(term);
    }
    match lead.leader_in_term(call.attempt) {
        Some((node, term)) if node != shared.config.replication.node_id => Target::At(node, term),
        Some(_) | None => Target::Nowhere,
    }
}

/// Looks after the calls of a node until it is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let next_ms = look_at_calls(&shared);
        // Waits without keeping the node alive.
        let calls = Arc::clone(&shared.calls);
        drop(shared);
        match next_ms {
            Some(next_ms) => {
                tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
                tokio::select! {
                    biased;
                    () = calls.some.notified() => {}
                    () = tokio::time::sleep(Duration::from_millis(next_ms.saturating_sub(LOOK_MS))) => {}
                }
            }
            None => calls.some.notified().await,
        }
    }
}
