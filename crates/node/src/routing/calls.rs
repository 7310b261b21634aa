//! Calls of this node's clients, under way to whoever leads: sent on, repeated with the same request id when a leader is
//! lost, and given up at their deadline. What may have happened is then `unknown`, never a guess.

use std::{
    borrow::Cow,
    collections::{BTreeMap, hash_map::Entry},
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    answer::Outcome,
    command::Command,
    id::{Entity, Request, RequestHash},
    planted,
    refusal::Refusal,
};
use boxoffice_env::Lane;
use boxoffice_shard::{NodeId, ShardId};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::{
    Message, NoAnswer,
    doubt::{Doubt, Doubts, Path},
};
use crate::{
    cell::key_of,
    door::{self, Failure, ReplySink, ReplyTo},
    shared::{Given, Shared},
};

/// Calls under way; beyond this they are answered `busy`. A shard takes fewer, so this is reached only when many have no
/// leader.
const CALLS_MAX: usize = 65_536;
/// The bits of a random number that are left out of the first call's: 16 for its attempts, and one so that there is no end.
const CALL_SPARE_BITS: u32 = 17;
/// When to try again if there is no room for another call, in milliseconds.
const CALLS_FULL_MS: u32 = 100;
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
    /// Calls that ended in doubt.
    doubts: Doubts,
    /// How many calls there are of each request ([`key_of`]).
    requests: FxHashMap<u64, u32>,
}

impl Table {
    fn add(&mut self, id: u64, call: Call) {
        if let Some(request) = call.key() {
            *self.requests.entry(request).or_default() += 1;
        }
        self.calls.insert(id, call);
    }

    fn remove(&mut self, id: u64) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        self.is_over(&call);
        Some(call)
    }

    /// A call is in the table no more.
    fn is_over(&mut self, call: &Call) {
        if let Some(request) = call.key()
            && let Entry::Occupied(mut calls) = self.requests.entry(request)
        {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
    }

    /// Remembers a call that ends, if an attempt of its own is in doubt. What earlier calls have left in doubt is remembered
    /// from then: a client that asks all the time, also in the moment in which that is forgotten, does not prolong it.
    fn remember(&mut self, call: &Call, now_ms: u64) {
        if let Some(request) = call.request.filter(|_| call.doubted) {
            self.doubts.keep(call.command.entity(), request.id, call.doubt, now_ms);
        }
    }
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
    /// The way of the attempt under way, or of the last one.
    path: Option<Path>,
    /// Attempts that may have changed something, of this call and of earlier ones with its request id.
    doubt: Doubt,
    /// Whether one of these is of this call.
    doubted: bool,
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
    fn key(&self) -> Option<u64> {
        self.request.map(|request| key_of(&self.command.entity(), request.id))
    }

    /// When something is to be done about it if nothing comes in, in milliseconds of the monotonic clock.
    fn next_ms(&self) -> u64 {
        match self.state {
            State::Here => self.deadline_ms,
            State::At(_, sent_ms) => self.deadline_ms.min(sent_ms + ATTEMPT_MS),
            State::Waits(at_ms) => self.deadline_ms.min(at_ms),
        }
    }

    /// Begins the attempt after `last`, unless somebody else has begun it, or it is too late: then the client is about to be
    /// told, and a node that was stopped meanwhile sends nothing for a client that has gone.
    fn begin_attempt(&mut self, last: u16, now_ms: u64) -> bool {
        let begins = self.attempt == last && self.deadline_ms > now_ms;
        if begins {
            self.attempt = self.attempt.wrapping_add(1);
        }
        begins
    }

    /// Whether an attempt before the one under way may have been admitted.
    fn is_repeat(&self) -> bool {
        self.attempt > 1 || self.doubt.is_some()
    }

    /// Nobody knows what becomes of the attempt under way, or of the last one.
    fn is_in_doubt(&mut self) {
        if let Some(path) = self.path.filter(|_| self.request.is_some()) {
            self.doubt.add(path);
            self.doubted = true;
        }
    }

    /// Whether what the attempt with this number was told is the last word on the request.
    fn is_final(&self, attempt: u16, outcome: &Outcome) -> bool {
        let Err(refusal) = outcome else { return true };
        if self.request.is_none() || refusal.is_outcome() {
            return true;
        }
        // These say themselves that an attempt is under way.
        if matches!(refusal, Refusal::InProgress | Refusal::PaymentPending) {
            return true;
        }
        // While a later attempt is under way, that one may be granted.
        attempt == self.attempt && self.path.is_none_or(|path| self.doubt.ends_with(path))
    }
}

/// Where an attempt goes, and in which term it may be decided there.
enum Target {
    Here(u64),
    At(NodeId, u64),
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
    /// Whether a request is under way, or an attempt of it ended in doubt.
    pub(crate) fn knows(&self, entity: &Entity, request: RequestHash) -> bool {
        let table = self.table.lock();
        table.requests.contains_key(&key_of(entity, request)) || table.doubts.has(entity, request)
    }

    /// Takes a client's command; it is answered at its deadline at the latest.
    pub(crate) fn begin(&self, shared: &Arc<Shared>, command: Command, request: Option<Request>, reply: ReplyTo) {
        let now_ms = shared.world.clock.monotonic_ms();
        let shard = shared.cell_of(&command.entity()).id;
        let deadline_ms = now_ms + reply.patience_ms();
        let state = State::Waits(now_ms);
        let (attempt, path, failure) = (0, None, Failure::NotReady);
        let mut call = Call {
            command,
            request,
            reply,
            shard,
            deadline_ms,
            attempt,
            state,
            path,
            doubt: Doubt::None,
            doubted: false,
            failure,
        };
        let id = {
            let mut table = self.table.lock();
            if let Some(request) = request {
                call.doubt = table.doubts.of(&call.command.entity(), request.id, now_ms);
            }
            if table.calls.len() >= CALLS_MAX {
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
        self.attempt(shared, (id, 0), now_ms);
        self.some.notify_one();
    }

    /// Sends a call to whoever leads, as far as is known. `last` is the call and its last attempt: of several who want to
    /// begin the next one, the first does.
    fn attempt(&self, shared: &Arc<Shared>, last: (u64, u16), now_ms: u64) {
        let (id, last) = last;
        let mut table = self.table.lock();
        let Some(call) = table.calls.get_mut(&id) else { return };
        if !call.begin_attempt(last, now_ms) {
            return;
        }
        let tag = tag_of(id, call.attempt);
        match target(shared, call) {
            Target::Nowhere => call.state = State::Waits(now_ms + AGAIN_MS),
            Target::Here(term) => {
                call.state = State::Here;
                call.path = Some(Path { node: shared.config.node_id, connection: 0, term });
                let (command, request, by) = (call.command.clone(), call.request, call.reply.asker().cloned());
                let given = Given { term: request.map(|_| term), is_repeat: call.is_repeat() };
                let left_ms = call.deadline_ms.saturating_sub(now_ms);
                // The answer may come before this returns.
                drop(table);
                let sink = Arc::new(Sink(Arc::downgrade(shared)));
                shared.take_here(command, request, given, ReplyTo::new(sink, tag).within(left_ms).by(by));
            }
            Target::At(node, term) => {
                let retried = call.attempt > 1 && planted::is("a retry under a new request id");
                let anew =
                    |request: Request| Request { id: RequestHash(request.id.0 ^ u64::from(call.attempt)), ..request };
                let request = if retried { call.request.map(anew) } else { call.request };
                let command = Cow::Borrowed(&call.command);
                let by = call.reply.asker().cloned();
                let (is_repeat, left_ms) = (call.is_repeat(), call.deadline_ms.saturating_sub(now_ms));
                let frame = Message::Call { tag, term, left_ms, is_repeat, request, by, command }.encode();
                let sent = shared.world.net.send(node, Lane::Calls, frame);
                shared.cells[usize::from(call.shard)].note_sent(&sent);
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
    pub(crate) fn answered(&self, shared: &Arc<Shared>, tag: u64, result: Result<Outcome, NoAnswer>) {
        let (id, attempt) = (tag >> 16, tag as u16);
        let now_ms = shared.world.clock.monotonic_ms();
        let mut table = self.table.lock();
        let Some(call) = table.calls.get_mut(&id) else { return };
        let why = match result {
            Ok(outcome) if call.is_final(attempt, &outcome) => {
                let call = table.remove(id).expect("it was looked at");
                drop(table);
                return call.reply.answer(Ok(outcome));
            }
            // The attempt under way may yet be granted.
            Ok(_) if attempt != call.attempt => return,
            // What is refused may still be granted to an earlier attempt that is late.
            Ok(_) => return self.end(table, id, Failure::Unknown, now_ms),
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
                    let belief = &shared.cells[usize::from(call.shard)].belief;
                    if belief.lock().correct(asked, led, shared.config.node_id) {
                        again_ms = now_ms;
                    }
                }
            }
            NoAnswer::Failed(Failure::Unknown) => call.is_in_doubt(),
            // What panicked here would panic at the next leader as well.
            NoAnswer::Failed(failure @ (Failure::Busy(_) | Failure::Internal)) => {
                let failure = if call.doubt.is_some() { Failure::Unknown } else { failure };
                return self.end(table, id, failure, now_ms);
            }
            NoAnswer::Failed(failure) => call.failure = failure,
        }
        call.state = State::Waits(again_ms);
        drop(table);
        if again_ms == now_ms {
            self.attempt(shared, (id, last), now_ms);
        }
        self.some.notify_one();
    }

    /// Ends a call without an outcome. One in doubt is remembered, for its client will ask again.
    fn end(&self, mut table: MutexGuard<'_, Table>, id: u64, failure: Failure, now_ms: u64) {
        let call = table.remove(id).expect("only calls under way end");
        table.remember(&call, now_ms);
        drop(table);
        call.reply.answer(Err(failure));
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
        let due: Vec<(u64, u16)> = {
            let mut table = self.table.lock();
            let calls = table.calls.iter_mut().filter(|(_, call)| which(call));
            calls
                .map(|(id, call)| {
                    if let State::At(..) = call.state {
                        call.is_in_doubt();
                    }
                    call.state = State::Waits(now_ms);
                    (*id, call.attempt)
                })
                .collect()
        };
        for last in due {
            self.attempt(shared, last, now_ms);
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
            for call in &mut over {
                if let State::Here | State::At(..) = call.state {
                    call.is_in_doubt();
                }
                table.remember(call, now_ms);
                table.is_over(call);
            }
            due.extend(table.calls.iter_mut().filter_map(|(id, call)| match call.state {
                State::Waits(at_ms) if at_ms <= now_ms => Some((*id, call.attempt)),
                // What was sent while a connection was being made may have gone with an earlier one.
                State::At(_, sent_ms) if now_ms.saturating_sub(sent_ms) >= ATTEMPT_MS => {
                    call.is_in_doubt();
                    Some((*id, call.attempt))
                }
                State::Waits(_) | State::Here | State::At(..) => None,
            }));
        }
        for call in over {
            let sent = matches!(call.state, State::Here | State::At(..));
            let failure = if call.doubt.is_some() || sent { Failure::Unknown } else { call.failure };
            call.reply.answer(Err(failure));
        }
        for last in due {
            self.attempt(shared, last, now_ms);
        }
        let table = self.table.lock();
        let next_ms = table.calls.values().map(Call::next_ms).min();
        next_ms.map(|next_ms| next_ms.saturating_sub(now_ms))
    }
}

/// Who leads a call's shard, as far as is known here.
fn target(shared: &Arc<Shared>, call: &Call) -> Target {
    let cell = &shared.cells[usize::from(call.shard)];
    if let Some(term) = cell.leads_in() {
        return Target::Here(term);
    }
    match cell.leader_in_term(call.attempt) {
        Some((node, term)) if node != shared.config.node_id => Target::At(node, term),
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

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        answer::{Answer, Answered},
        command::CartCommand,
        id::CartId,
    };

    use super::*;

    struct Nobody;

    impl ReplySink for Nobody {
        fn answer(&self, _tag: u64, _result: door::Result) {}
    }

    fn call(request: Option<Request>) -> Call {
        Call {
            command: Command::Cart(CartId(1), CartCommand::Cancel),
            request,
            reply: ReplyTo::new(Arc::new(Nobody), 1),
            shard: 1,
            deadline_ms: 10_000,
            attempt: 0,
            state: State::Waits(0),
            path: None,
            doubt: Doubt::None,
            doubted: false,
            failure: Failure::NotReady,
        }
    }

    fn change() -> Call {
        call(Some(Request { id: RequestHash(1), body: 1 }))
    }

    /// The next attempt, along this path.
    fn goes(call: &mut Call, node: NodeId, connection: u64, term: u64) -> u16 {
        assert!(call.begin_attempt(call.attempt, 0));
        call.path = Some(Path { node, connection, term });
        call.attempt
    }

    fn no() -> Outcome {
        Err(Refusal::CartEmpty)
    }

    #[test]
    fn of_several_who_begin_the_next_attempt_one_does() {
        let mut call = change();
        assert!(call.begin_attempt(0, 0));
        assert!(!call.begin_attempt(0, 0), "somebody else has begun it");
        assert!(call.begin_attempt(1, 9_999));
        assert!(!call.begin_attempt(2, 10_000), "its client is told at this time");
    }

    #[test]
    fn a_refusal_is_final_where_no_other_attempt_can_be_granted() {
        let mut call = change();
        let first = goes(&mut call, 2, 7, 5);
        assert!(call.is_final(first, &no()), "there is no other");
        call.is_in_doubt();
        let second = goes(&mut call, 2, 7, 5);
        assert!(!call.is_final(first, &no()), "the second is under way and may be granted");
        assert!(call.is_final(second, &no()), "after the first, over the same connection, in the same term");
        call.is_in_doubt();
        let third = goes(&mut call, 2, 8, 5);
        assert!(!call.is_final(third, &no()), "the first ones may be late");
        call.is_in_doubt();
        let fourth = goes(&mut call, 3, 2, 6);
        assert!(call.is_final(fourth, &no()), "in a later term than all others");
    }

    #[test]
    fn a_doubt_ends_while_its_client_asks_all_the_time() {
        const MINUTE_MS: u64 = 60_000;
        let (mut table, mut first) = (Table::default(), change());
        goes(&mut first, 2, 7, 5);
        first.is_in_doubt();
        table.remember(&first, 0);
        let (entity, request) = (first.command.entity(), RequestHash(1));
        // Each repeat is refused after 20 ms, and the next one begins at once: one is under way when the minute is over.
        let mut now_ms = 10;
        while now_ms < MINUTE_MS + 50 {
            let mut repeat = change();
            repeat.doubt = table.doubts.of(&entity, request, now_ms);
            goes(&mut repeat, 3, 8, 5);
            now_ms += 20;
            table.remember(&repeat, now_ms);
        }
        assert_eq!(table.doubts.of(&entity, request, now_ms), Doubt::None);
    }

    #[test]
    fn what_else_is_final() {
        let mut call = change();
        let first = goes(&mut call, 2, 7, 5);
        call.is_in_doubt();
        goes(&mut call, 2, 8, 5);
        let granted = Answered { answer: Answer::Done, at: Vec::new() };
        assert!(call.is_final(first, &Ok(granted)));
        assert!(call.is_final(first, &Err(Refusal::PaymentDeclined("no money".into()))), "it is remembered");
        assert!(call.is_final(first, &Err(Refusal::PaymentPending)), "it says that nobody knows yet");
        let mut read = self::call(None);
        let first = goes(&mut read, 2, 7, 5);
        read.is_in_doubt();
        goes(&mut read, 2, 8, 5);
        assert!(read.is_final(first, &no()), "a read changes nothing");
    }
}
