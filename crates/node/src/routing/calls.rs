//! Calls of this node's clients, under way to whoever leads: sent on, repeated with the same request id when a leader is
//! lost, and given up at their deadline. What may have happened is then `unknown`, never a guess.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    command::Command,
    id::{Request, RequestHash},
    planted,
};
use boxoffice_shard::{NodeId, ShardId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Message, NoAnswer};
use crate::{
    door::{self, Failure, ReplySink, ReplyTo},
    shared::Shared,
    world::Lane,
};

/// Calls under way; beyond this they are answered `busy`. A shard takes fewer, so this is reached only when many have no
/// leader.
const CALLS_MAX: usize = 65_536;
/// The bits of a random number that are left out of the first call's: 16 for its attempts, and one so that there is no end.
const CALL_SPARE_BITS: u32 = 17;
/// Calls that wait are looked at no more often than this, in milliseconds.
const LOOK_MS: u64 = 10;
/// An attempt at another node that is not answered for so many milliseconds is made again: the request id keeps it from
/// happening twice.
const ATTEMPT_MS: u64 = 1_000;
/// Milliseconds before a call without a leader, or with a lost one, is tried again; news of a leader come earlier.
const AGAIN_MS: u64 = 40;

/// The calls of a node that have no outcome yet.
#[derive(Default)]
pub(crate) struct Calls {
    table: Mutex<Table>,
    some: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// In the order in which they came.
    calls: BTreeMap<u64, Call>,
}

/// One client's command, until it has an outcome.
struct Call {
    command: Command,
    request: Option<Request>,
    reply: ReplyTo,
    shard: ShardId,
    /// In milliseconds of the monotonic clock.
    deadline_ms: u64,
    /// How often it was sent: an answer to an earlier attempt that says only that there is none is old news.
    attempt: u16,
    state: State,
    /// Some attempt may have changed something.
    uncertain: bool,
    /// The last word of an attempt that certainly did nothing.
    failure: Failure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At this node, which led when it was handed over.
    Here,
    /// Sent to this node, at this time of the monotonic clock.
    At(NodeId, u64),
    /// To be tried at this time of the monotonic clock.
    Waits(u64),
}

impl Call {
    /// When something is to be done about it if nothing comes in, in milliseconds of the monotonic clock.
    fn next_ms(&self) -> u64 {
        match self.state {
            State::Here => self.deadline_ms,
            State::At(_, sent_ms) => self.deadline_ms.min(sent_ms + ATTEMPT_MS),
            State::Waits(at_ms) => self.deadline_ms.min(at_ms),
        }
    }
}

/// Where an attempt goes.
enum Target {
    Here,
    At(NodeId),
    Nowhere,
}

/// Takes the answers of attempts at this node itself.
struct Sink(Weak<Shared>);

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: door::Result) {
        if let Some(shared) = self.0.upgrade() {
            shared.calls.answered(&shared, tag, result.map_err(NoAnswer::Failed));
        }
    }
}

fn tag_of(id: u64, attempt: u16) -> u64 {
    id << 16 | u64::from(attempt)
}

impl Calls {
    /// Takes a client's command; it is answered at its deadline at the latest.
    pub(crate) fn begin(&self, shared: &Arc<Shared>, command: Command, request: Option<Request>, reply: ReplyTo) {
        let now_ms = shared.world.clock.monotonic_ms();
        let shard = shared.cell_of(&command.entity()).id;
        let deadline_ms = now_ms + reply.patience_ms();
        let state = State::Waits(now_ms);
        let (attempt, uncertain, failure) = (0, false, Failure::NotReady);
        let call = Call { command, request, reply, shard, deadline_ms, attempt, state, uncertain, failure };
        let id = {
            let mut table = self.table.lock();
            if table.calls.len() >= CALLS_MAX {
                drop(table);
                shared.metrics.busy.fetch_add(1, Ordering::Relaxed);
                return call.reply.answer(Err(Failure::Busy));
            }
            if table.next == 0 {
                // An answer to a call of the process before this one must not be taken for one to a call of this one.
                table.next = shared.world.rng.u64() >> CALL_SPARE_BITS;
            }
            table.next += 1;
            let id = table.next;
            table.calls.insert(id, call);
            id
        };
        self.attempt(shared, id, now_ms);
        self.some.notify_one();
    }

    /// Sends a call to whoever leads, as far as is known.
    fn attempt(&self, shared: &Arc<Shared>, id: u64, now_ms: u64) {
        let mut table = self.table.lock();
        let Some(call) = table.calls.get_mut(&id) else { return };
        call.attempt = call.attempt.wrapping_add(1);
        let tag = tag_of(id, call.attempt);
        match target(shared, call) {
            Target::Nowhere => call.state = State::Waits(now_ms + AGAIN_MS),
            Target::Here => {
                call.state = State::Here;
                let (command, request) = (call.command.clone(), call.request);
                // The answer may come before this returns.
                drop(table);
                let sink = Arc::new(Sink(Arc::downgrade(shared)));
                shared.take_here(command, request, ReplyTo::new(sink, tag));
            }
            Target::At(node) => {
                let retried = call.attempt > 1 && planted::is("a retry under a new request id");
                let anew =
                    |request: Request| Request { id: RequestHash(request.id.0 ^ u64::from(call.attempt)), ..request };
                let request = if retried { call.request.map(anew) } else { call.request };
                let command = Cow::Borrowed(&call.command);
                let frame = Message::Call { tag, request, command }.encode();
                let sent = shared.world.net.send(node, Lane::Calls, frame);
                shared.cells[usize::from(call.shard)].note_sent(&sent);
                call.state = match sent {
                    Ok(()) => {
                        shared.metrics.calls_forwarded.fetch_add(1, Ordering::Relaxed);
                        State::At(node, now_ms)
                    }
                    Err(_) => State::Waits(now_ms + AGAIN_MS),
                };
            }
        }
    }

    /// An attempt has come to its end.
    pub(crate) fn answered(
        &self,
        shared: &Arc<Shared>,
        tag: u64,
        result: Result<boxoffice_core::answer::Outcome, NoAnswer>,
    ) {
        let (id, attempt) = (tag >> 16, tag as u16);
        let now_ms = shared.world.clock.monotonic_ms();
        let mut table = self.table.lock();
        let Some(call) = table.calls.get_mut(&id) else { return };
        let why = match result {
            Ok(outcome) => {
                let call = table.calls.remove(&id).expect("it was looked at");
                drop(table);
                // What is refused may still be granted to an earlier attempt that is late.
                let is_open = call.uncertain && call.request.is_some() && outcome.is_err();
                return call.reply.answer(if is_open { Err(Failure::Unknown) } else { Ok(outcome) });
            }
            Err(why) => why,
        };
        if attempt != call.attempt {
            return;
        }
        let mut again_ms = now_ms + AGAIN_MS;
        match why {
            NoAnswer::NotLeader(led) => {
                if let State::At(asked, _) = call.state {
                    let belief = &shared.cells[usize::from(call.shard)].belief;
                    if belief.lock().correct(asked, led, shared.config.node_id) {
                        again_ms = now_ms;
                    }
                }
            }
            NoAnswer::Failed(Failure::Unknown) => call.uncertain = true,
            NoAnswer::Failed(Failure::Busy) => {
                let call = table.calls.remove(&id).expect("it was looked at");
                drop(table);
                let failure = if call.uncertain { Failure::Unknown } else { Failure::Busy };
                return call.reply.answer(Err(failure));
            }
            NoAnswer::Failed(failure) => call.failure = failure,
        }
        call.state = State::Waits(again_ms);
        drop(table);
        if again_ms == now_ms {
            self.attempt(shared, id, now_ms);
        }
        self.some.notify_one();
    }

    /// A shard has another leader: what waits for one, or for the old one, is sent to it.
    pub(crate) fn leader_changed(&self, shared: &Arc<Shared>, shard: ShardId, leader: Option<NodeId>) {
        let Some(leader) = leader else { return };
        self.again(shared, |call| {
            call.shard == shard
                && match call.state {
                    State::Waits(_) => true,
                    State::At(node, _) => node != leader,
                    // Its actor ends with the leadership, and says so.
                    State::Here => false,
                }
        });
    }

    /// A node is lost: what was sent to it may or may not have happened.
    pub(crate) fn lost(&self, shared: &Arc<Shared>, node: NodeId) {
        self.again(shared, |call| matches!(call.state, State::At(at, _) if at == node));
    }

    fn again(&self, shared: &Arc<Shared>, which: impl Fn(&Call) -> bool) {
        let now_ms = shared.world.clock.monotonic_ms();
        let ids: Vec<u64> = {
            let mut table = self.table.lock();
            let calls = table.calls.iter_mut().filter(|(_, call)| which(call));
            calls
                .map(|(id, call)| {
                    call.uncertain |= matches!(call.state, State::At(..));
                    call.state = State::Waits(now_ms);
                    *id
                })
                .collect()
        };
        for id in ids {
            self.attempt(shared, id, now_ms);
        }
        self.some.notify_one();
    }

    /// Tries again what waits and gives up what is overdue; in how many milliseconds to look again, if anything is under way.
    fn look(&self, shared: &Arc<Shared>) -> Option<u64> {
        let now_ms = shared.world.clock.monotonic_ms();
        let (mut over, mut due) = (Vec::new(), Vec::new());
        {
            let mut table = self.table.lock();
            let overdue = |_: &u64, call: &mut Call| call.deadline_ms <= now_ms;
            over.extend(table.calls.extract_if(.., overdue).map(|(_, call)| call));
            due.extend(table.calls.iter_mut().filter_map(|(id, call)| match call.state {
                State::Waits(at_ms) if at_ms <= now_ms => Some(*id),
                // What was sent while a connection was being made may have gone with an earlier one.
                State::At(_, sent_ms) if now_ms.saturating_sub(sent_ms) >= ATTEMPT_MS => {
                    call.uncertain = true;
                    Some(*id)
                }
                State::Waits(_) | State::Here | State::At(..) => None,
            }));
        }
        for call in over {
            let sent = matches!(call.state, State::Here | State::At(..));
            let failure = if call.uncertain || sent { Failure::Unknown } else { call.failure };
            call.reply.answer(Err(failure));
        }
        for id in due {
            self.attempt(shared, id, now_ms);
        }
        let table = self.table.lock();
        let next_ms = table.calls.values().map(Call::next_ms).min();
        next_ms.map(|next_ms| next_ms.saturating_sub(now_ms))
    }
}

/// Who leads a call's shard, as far as is known here.
fn target(shared: &Arc<Shared>, call: &Call) -> Target {
    let cell = &shared.cells[usize::from(call.shard)];
    if cell.leads() {
        return Target::Here;
    }
    match cell.leader(call.attempt) {
        Some(node) if node != shared.config.node_id => Target::At(node),
        Some(_) | None => Target::Nowhere,
    }
}

/// Looks after the calls of a node until it is gone.
pub(crate) async fn run(weak: Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let next_ms = shared.calls.look(&shared);
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
