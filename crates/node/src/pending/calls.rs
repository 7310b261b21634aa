//! Calls of this node's clients until they have an outcome.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::Entry},
    ops::{Deref, DerefMut},
};

use boxoffice_core::{
    answer::Outcome,
    command::Command,
    id::{Entity, Request, RequestHash},
    planted,
    refusal::Refusal,
};
use boxoffice_shard::{NodeId, ShardId};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

use super::{
    doubt::{Doubt, Doubts, Path},
    steps::Steps,
};
use crate::{
    api::{Failure, ReplyTo},
    caller::key_of,
};

/// An attempt at another node that is not answered within these milliseconds is repeated. The request id keeps it from
/// happening twice.
pub(crate) const ATTEMPT_MS: u64 = 1_000;
/// The calls of a node that have no outcome yet.
#[derive(Default)]
pub(crate) struct ForwardedCalls {
    pub(crate) table: Mutex<CallTable>,
    pub(crate) some: Notify,
}

#[derive(Default)]
pub(crate) struct CallTable {
    pub(crate) next: u64,
    /// By id, which is the order in which they came.
    calls: BTreeMap<u64, Call>,
    lists: Lists,
    /// Calls that ended in doubt.
    pub(crate) doubts: Doubts,
    /// How many calls there are of each request ([`key_of`]).
    requests: FxHashMap<u64, u32>,
    steps: Steps,
}

/// Ids of calls by what may happen next, so that nobody looks at all calls, least of all when many wait because a node is down.
#[derive(Default)]
struct Lists {
    /// By the time at which they are looked at if no answer comes.
    due: BTreeSet<(u64, u64)>,
    /// Those that wait or are at another node, by shard.
    elsewhere: BTreeSet<(ShardId, u64)>,
    /// Those that are at another node.
    sent: BTreeSet<(NodeId, u64)>,
}

/// The places of a call in the lists.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Listed {
    due_ms: u64,
    elsewhere: bool,
    node: Option<NodeId>,
}

impl Lists {
    /// Moves a call from its places, if it has any, to others.
    fn put(&mut self, (id, shard): (u64, ShardId), was: Option<Listed>, is: Option<Listed>) {
        let (due_was, due_is) = (was.map(|was| was.due_ms), is.map(|is| is.due_ms));
        if due_was != due_is {
            due_was.map(|due_ms| self.due.remove(&(due_ms, id)));
            self.due.extend(due_is.map(|due_ms| (due_ms, id)));
        }
        match (was.is_some_and(|was| was.elsewhere), is.is_some_and(|is| is.elsewhere)) {
            (false, true) => _ = self.elsewhere.insert((shard, id)),
            (true, false) => _ = self.elsewhere.remove(&(shard, id)),
            (true, true) | (false, false) => {}
        }
        let (node_was, node_is) = (was.and_then(|was| was.node), is.and_then(|is| is.node));
        if node_was != node_is {
            node_was.map(|node| self.sent.remove(&(node, id)));
            self.sent.extend(node_is.map(|node| (node, id)));
        }
    }
}

/// A call that is being changed. Its places in the lists follow when it is dropped.
pub(crate) struct Changing<'a> {
    id: u64,
    call: &'a mut Call,
    lists: &'a mut Lists,
    was: Listed,
}

impl Deref for Changing<'_> {
    type Target = Call;

    fn deref(&self) -> &Call {
        self.call
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Call {
        self.call
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let is = self.call.listed();
        if is != self.was {
            self.lists.put((self.id, self.call.shard), Some(self.was), Some(is));
        }
    }
}

/// Calls that are to be looked at.
#[derive(Default)]
pub(crate) struct Due {
    /// Calls that have reached their deadline, which have left the table.
    pub(crate) over: Vec<Call>,
    /// Calls to repeat, with their last attempt.
    pub(crate) again: Vec<(u64, u16)>,
    /// Whether more are due.
    pub(crate) more: bool,
}

impl CallTable {
    /// Adds a call.
    pub(crate) fn add(&mut self, id: u64, call: Call) {
        if let Some(request) = call.key() {
            *self.requests.entry(request).or_default() += 1;
        }
        self.lists.put((id, call.shard), None, Some(call.listed()));
        let before = self.calls.insert(id, call);
        assert!(before.is_none(), "two calls are called {id}");
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// A call that is to be changed, unless it has left the table.
    pub(crate) fn change(&mut self, id: u64) -> Option<Changing<'_>> {
        let call = self.calls.get_mut(&id)?;
        let was = call.listed();
        Some(Changing { id, call, lists: &mut self.lists, was })
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        self.lists.put((id, call.shard), Some(call.listed()), None);
        if let Some(request) = call.key()
            && let Entry::Occupied(mut calls) = self.requests.entry(request)
        {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
        Some(call)
    }

    /// Calls of a shard that wait or are at another node, in the order in which they came.
    pub(crate) fn elsewhere(&self, shard: ShardId) -> Vec<u64> {
        let of_shard = self.lists.elsewhere.range((shard, 0)..=(shard, u64::MAX));
        of_shard.inspect(|_| self.steps.step()).map(|(_, id)| *id).collect()
    }

    /// Calls that are at another node, in the order in which they came.
    pub(crate) fn sent_to(&self, node: NodeId) -> Vec<u64> {
        let sent = self.lists.sent.range((node, 0)..=(node, u64::MAX));
        sent.inspect(|_| self.steps.step()).map(|(_, id)| *id).collect()
    }

    /// Takes out calls that have reached their deadline, and names those to repeat, up to `max` together. Attempts of which nothing
    /// was heard are in doubt.
    pub(crate) fn due(&mut self, now_ms: u64, max: usize) -> Due {
        if planted::is("every call looked at") {
            self.calls.values().for_each(|_| self.steps.step());
        }
        let found: Vec<u64> = {
            let due = self.lists.due.range(..=(now_ms, u64::MAX)).inspect(|_| self.steps.step());
            due.map(|(_, id)| *id).take(max).collect()
        };
        let mut due = Due { more: found.len() == max, ..Due::default() };
        for id in found {
            let mut call = self.change(id).expect("only calls in the table are listed");
            if call.deadline_ms > now_ms {
                if let State::At(..) = call.state {
                    // A call that was sent while a connection was being made may have been lost with an earlier one.
                    call.is_in_doubt();
                }
                due.again.push((id, call.attempt));
                continue;
            }
            if let State::Here | State::At(..) = call.state {
                call.is_in_doubt();
            }
            drop(call);
            let call = self.remove(id).expect("it was looked at");
            self.remember(&call, now_ms);
            due.over.push(call);
        }
        due.again.sort_unstable();
        due
    }

    /// When the next call is to be looked at, in milliseconds of the monotonic clock.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.lists.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Whether there is a call of this request ([`key_of`]).
    fn has_request(&self, key: u64) -> bool {
        self.requests.contains_key(&key)
    }

    /// Remembers a call that ends, if an attempt of its own is in doubt. A doubt of earlier calls keeps its time. So a client
    /// that asks all the time, even when the doubt is about to be forgotten, does not prolong it.
    pub(crate) fn remember(&mut self, call: &Call, now_ms: u64) {
        if let Some(request) = call.request.filter(|_| call.doubted) {
            self.doubts.keep(call.command.entity(), request.id, call.doubt, now_ms);
        }
    }
}

/// One client's command, until it has an outcome.
pub(crate) struct Call {
    pub(crate) command: Command,
    pub(crate) request: Option<Request>,
    pub(crate) reply: ReplyTo,
    pub(crate) shard: ShardId,
    /// In milliseconds of the monotonic clock.
    pub(crate) deadline_ms: u64,
    /// Until when the buyer is there, in milliseconds of the monotonic clock.
    pub(crate) patient_until_ms: u64,
    /// How often it was sent. An earlier attempt's answer without an outcome is out of date.
    pub(crate) attempt: u16,
    pub(crate) state: State,
    /// The path of the attempt under way, or of the last one.
    pub(crate) path: Option<Path>,
    /// Attempts that may have changed something, of this call and of earlier ones with its request id.
    pub(crate) doubt: Doubt,
    /// Whether one of these is of this call.
    pub(crate) doubted: bool,
    /// The failure of the last attempt that certainly did nothing.
    pub(crate) failure: Failure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The task that took it is about to send it.
    New,
    /// At this node, which led when it was handed over.
    Here,
    /// Sent to this node, at this time of the monotonic clock.
    At(NodeId, u64),
    /// To be tried at this time of the monotonic clock.
    Waits(u64),
}

impl Call {
    pub(crate) fn key(&self) -> Option<u64> {
        self.request.map(|request| key_of(&self.command.entity(), request.id))
    }

    /// When it must be looked at if no answer comes, in milliseconds of the monotonic clock.
    fn next_ms(&self) -> u64 {
        match self.state {
            State::New | State::Here => self.deadline_ms,
            State::At(_, sent_ms) => self.deadline_ms.min(sent_ms + ATTEMPT_MS),
            State::Waits(at_ms) => self.deadline_ms.min(at_ms),
        }
    }

    /// Its places in the lists.
    fn listed(&self) -> Listed {
        let node = match self.state {
            State::At(node, _) => Some(node),
            State::New | State::Here | State::Waits(_) => None,
        };
        let elsewhere = matches!(self.state, State::At(..) | State::Waits(_));
        Listed { due_ms: self.next_ms(), elsewhere, node }
    }

    /// Begins the attempt after `last`, unless another task has begun it, or it is too late. Then the client is about to get its
    /// answer, and a node that was stopped meanwhile sends nothing for a client that has gone.
    pub(crate) fn begin_attempt(&mut self, last: u16, now_ms: u64) -> bool {
        let begins = self.attempt == last && self.deadline_ms > now_ms;
        if begins {
            self.attempt = self.attempt.wrapping_add(1);
        }
        begins
    }

    /// Whether an attempt before the one under way may have been admitted.
    pub(crate) fn is_repeat(&self) -> bool {
        self.attempt > 1 || self.doubt.is_some()
    }

    /// The outcome of the attempt under way, or of the last one, is unknown.
    pub(crate) fn is_in_doubt(&mut self) {
        if let Some(path) = self.path.filter(|_| self.request.is_some()) {
            self.doubt.add(path);
            self.doubted = true;
        }
    }

    /// Whether the outcome of the attempt with this number is final for the request.
    pub(crate) fn is_final(&self, attempt: u16, outcome: &Outcome) -> bool {
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

impl ForwardedCalls {
    /// Whether a request is under way, or an attempt of it ended in doubt.
    pub(crate) fn knows(&self, entity: &Entity, request: RequestHash) -> bool {
        let table = self.table.lock();
        table.has_request(key_of(entity, request)) || table.doubts.has(entity, request)
    }

    /// Ends a call without an outcome. One in doubt is remembered, because its client will ask again.
    pub(crate) fn end(&self, mut table: MutexGuard<'_, CallTable>, id: u64, failure: Failure, now_ms: u64) {
        let call = table.remove(id).expect("only calls under way end");
        table.remember(&call, now_ms);
        drop(table);
        call.reply.answer(Err(failure));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use boxoffice_core::{
        answer::{Answer, Answered},
        command::CartCommand,
        id::CartId,
    };

    use super::*;
    use crate::api::{self, ReplySink};

    struct NoClient;

    impl ReplySink for NoClient {
        fn answer(&self, _tag: u64, _result: api::Result) {}
    }

    fn call(request: Option<Request>) -> Call {
        Call {
            command: Command::Cart(CartId(1), CartCommand::Cancel),
            request,
            reply: ReplyTo::new(Arc::new(NoClient), 1),
            shard: 1,
            deadline_ms: 10_000,
            patient_until_ms: 10_000,
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
    fn one_of_several_tasks_begins_the_next_attempt() {
        let mut call = change();
        assert!(call.begin_attempt(0, 0));
        assert!(!call.begin_attempt(0, 0), "another task has begun it");
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
    fn a_doubt_ends_although_its_client_asks_all_the_time() {
        const MINUTE_MS: u64 = 60_000;
        let (mut table, mut first) = (CallTable::default(), change());
        goes(&mut first, 2, 7, 5);
        first.is_in_doubt();
        table.remember(&first, 0);
        let (entity, request) = (first.command.entity(), RequestHash(1));
        // Each repeat is refused after 20 ms, and the next one begins at once. One is under way when the minute is over.
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
    fn other_final_outcomes() {
        let mut call = change();
        let first = goes(&mut call, 2, 7, 5);
        call.is_in_doubt();
        goes(&mut call, 2, 8, 5);
        let granted = Answered { answer: Answer::Done, at: Vec::new() };
        assert!(call.is_final(first, &Ok(granted)));
        assert!(call.is_final(first, &Err(Refusal::PaymentDeclined("no money".into()))), "it is remembered");
        assert!(call.is_final(first, &Err(Refusal::PaymentPending)), "it says that the outcome is not known yet");
        let mut read = self::call(None);
        let first = goes(&mut read, 2, 7, 5);
        read.is_in_doubt();
        goes(&mut read, 2, 8, 5);
        assert!(read.is_final(first, &no()), "a read changes nothing");
    }

    /// The most calls under way.
    const MANY: u64 = 65_536;

    fn with_state(number: u64, shard: ShardId, state: State, deadline_ms: u64) -> Call {
        let request = Some(Request { id: RequestHash(number), body: 1 });
        Call { shard, state, deadline_ms, ..call(request) }
    }

    /// The most calls that one operation looks at while many wait for a shard without a leader.
    fn steps_beside_a_dead_shard() -> u64 {
        let mut table = CallTable::default();
        for id in 0..MANY {
            table.add(id, with_state(id, 3, State::Waits(5_000), 60_000));
        }
        table.steps.take();
        let mut most = 0;
        for number in 0..100 {
            let (id, now_ms) = (MANY + number, 1_000 + number);
            table.add(id, with_state(id, 4, State::New, 10_000));
            table.change(id).expect("it was added").state = State::At(2, now_ms);
            assert!(table.elsewhere(4) == [id] && table.sent_to(2) == [id] && table.sent_to(1).is_empty());
            let due = table.due(now_ms, 16);
            assert!(due.over.is_empty() && due.again.is_empty() && !due.more);
            assert_eq!(table.next_ms(), Some(now_ms + ATTEMPT_MS));
            assert!(table.remove(id).is_some());
            most = most.max(table.steps.take());
        }
        let due = table.due(5_000, 16);
        assert!(due.over.is_empty() && due.more && due.again == (0..16).map(|id| (id, 0)).collect::<Vec<_>>());
        most.max(table.steps.take())
    }

    #[test]
    fn nothing_walks_over_the_calls_of_a_dead_shard() {
        let most = steps_beside_a_dead_shard();
        assert!(most <= 17, "{most} calls were looked at by one operation");
        #[cfg(debug_assertions)]
        {
            let most = crate::planting::with_planted("every call looked at", steps_beside_a_dead_shard);
            assert!(most > MANY, "{most}");
        }
    }

    /// Random calls, changes and times, and a table that is walked.
    #[test]
    fn calls_match_a_table_that_is_walked() {
        use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
        let seed: u64 = SmallRng::from_os_rng().random();
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..50 {
            let (mut table, mut now_ms) = (CallTable::default(), 0);
            // Shard, state, deadline.
            let mut model: BTreeMap<u64, (ShardId, State, u64)> = BTreeMap::new();
            for step in 0..400 {
                now_ms += rng.random_range(0..100);
                let state = |rng: &mut SmallRng| match rng.random_range(0..4) {
                    0 => State::New,
                    1 => State::Here,
                    2 => State::At(rng.random_range(1..4), now_ms),
                    _ => State::Waits(now_ms + rng.random_range(0..100)),
                };
                match rng.random_range(0..10) {
                    0..4 => {
                        let (shard, deadline_ms) = (rng.random_range(1..4), now_ms + rng.random_range(1..3_000));
                        let state = state(&mut rng);
                        table.add(step, with_state(step, shard, state, deadline_ms));
                        model.insert(step, (shard, state, deadline_ms));
                    }
                    4..7 => {
                        let id = rng.random_range(0..=step);
                        let state = state(&mut rng);
                        let changed = table.change(id).map(|mut call| call.state = state);
                        assert_eq!(changed.is_some(), model.get_mut(&id).map(|known| known.1 = state).is_some());
                    }
                    7 => {
                        let id = rng.random_range(0..=step);
                        assert_eq!(table.remove(id).is_some(), model.remove(&id).is_some());
                    }
                    _ => {
                        let due = table.due(now_ms, usize::MAX);
                        let over = model.extract_if(.., |_, (.., deadline_ms)| *deadline_ms <= now_ms);
                        let mut found: Vec<u64> =
                            due.over.iter().map(|call| call.request.expect("a change").id.0).collect();
                        found.sort_unstable();
                        assert_eq!(found, over.map(|(id, _)| id).collect::<Vec<_>>());
                        let again = model.iter().filter(|(_, (_, state, _))| match state {
                            State::Waits(at_ms) => *at_ms <= now_ms,
                            State::At(_, sent_ms) => now_ms - sent_ms >= ATTEMPT_MS,
                            State::New | State::Here => false,
                        });
                        assert_eq!(due.again, again.map(|(id, _)| (*id, 0)).collect::<Vec<_>>());
                    }
                }
                let next = model.values().map(|(_, state, deadline_ms)| match state {
                    State::New | State::Here => *deadline_ms,
                    State::At(_, sent_ms) => *deadline_ms.min(&(sent_ms + ATTEMPT_MS)),
                    State::Waits(at_ms) => *deadline_ms.min(at_ms),
                });
                assert_eq!(table.next_ms(), next.min());
                assert_eq!((table.len(), table.requests.len()), (model.len(), model.len()));
                for place in 1..4 {
                    let ids = |which: &dyn Fn(&(ShardId, State, u64)) -> bool| {
                        let ids = model.iter().filter(|(_, call)| which(call)).map(|(id, _)| *id);
                        ids.collect::<Vec<u64>>()
                    };
                    let elsewhere = |state: &State| matches!(state, State::At(..) | State::Waits(_));
                    assert_eq!(table.elsewhere(place), ids(&|(shard, state, _)| *shard == place && elsewhere(state)));
                    let node = NodeId::from(place);
                    let sent = ids(&|(_, state, _)| matches!(state, State::At(at, _) if *at == node));
                    assert_eq!(table.sent_to(node), sent);
                }
            }
        }
    }

    /// Prints what a look costs while many calls wait. `cargo test --release -p boxoffice-node --lib calls -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures time"]
    #[expect(clippy::disallowed_methods, reason = "it measures time and tests nothing")]
    fn time_of_a_look_at_many_calls() {
        use std::time::Instant;
        let mut table = CallTable::default();
        for id in 0..MANY {
            table.add(id, with_state(id, 3, State::Waits(1_000_000), 1_060_000));
        }
        let per = |begun: Instant, count: u64| begun.elapsed().as_secs_f64() * 1e6 / count as f64;
        const LOOKS: u64 = 10_000;
        let begun = Instant::now();
        for now_ms in 0..LOOKS {
            assert!(table.due(now_ms, 1_024).again.is_empty());
            std::hint::black_box(table.next_ms());
        }
        println!("a look at {MANY} calls of which none is due: {:.3} µs", per(begun, LOOKS));
        let begun = Instant::now();
        for number in 0..LOOKS {
            let id = MANY + number;
            table.add(id, with_state(id, 4, State::New, 10_000));
            table.change(id).expect("it was added").state = State::At(2, number);
            assert!(table.remove(id).is_some());
        }
        println!("a call beside them, taken, sent and answered: {:.2} µs", per(begun, LOOKS));
        let begun = Instant::now();
        let due = table.due(1_000_000, 1_024);
        for (id, _) in &due.again {
            table.change(*id).expect("it is due").state = State::Waits(1_000_040);
        }
        println!("a pass over {} of them that are due: {:.0} µs", due.again.len(), per(begun, 1));
    }
}
