//! Calls of this node's clients until they have an outcome.

use std::collections::{BTreeMap, hash_map::Entry};

use boxoffice_core::{
    answer::Outcome,
    command::Command,
    id::{Entity, Request, RequestHash},
    refusal::Refusal,
};
use boxoffice_shard::{NodeId, ShardId};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

use super::doubt::{Doubt, Doubts, Path};
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
    pub(crate) table: Mutex<Table>,
    pub(crate) some: Notify,
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) next: u64,
    /// In the order in which they came.
    pub(crate) calls: BTreeMap<u64, Call>,
    /// Calls that ended in doubt.
    pub(crate) doubts: Doubts,
    /// How many calls there are of each request ([`key_of`]).
    pub(crate) requests: FxHashMap<u64, u32>,
}

impl Table {
    pub(crate) fn add(&mut self, id: u64, call: Call) {
        if let Some(request) = call.key() {
            *self.requests.entry(request).or_default() += 1;
        }
        self.calls.insert(id, call);
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        self.is_over(&call);
        Some(call)
    }

    /// A call has left the table.
    pub(crate) fn is_over(&mut self, call: &Call) {
        if let Some(request) = call.key()
            && let Entry::Occupied(mut calls) = self.requests.entry(request)
        {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
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
    pub(crate) fn next_ms(&self) -> u64 {
        match self.state {
            State::Here => self.deadline_ms,
            State::At(_, sent_ms) => self.deadline_ms.min(sent_ms + ATTEMPT_MS),
            State::Waits(at_ms) => self.deadline_ms.min(at_ms),
        }
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
        table.requests.contains_key(&key_of(entity, request)) || table.doubts.has(entity, request)
    }

    /// Ends a call without an outcome. One in doubt is remembered, because its client will ask again.
    pub(crate) fn end(&self, mut table: MutexGuard<'_, Table>, id: u64, failure: Failure, now_ms: u64) {
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
        let (mut table, mut first) = (Table::default(), change());
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
}
