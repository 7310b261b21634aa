//! Clients that wait for an answer of this node.

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use boxoffice_core::{
    id::{Entity, RequestHash},
    planted,
};
use boxoffice_env::Clock;
use rustc_hash::{FxHashSet, FxHasher};
use smol_str::SmolStr;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    admission::{Admission, Pass},
    api::{self, ReplyTo},
    contain::CallerKey,
};

/// The clients' commands of one shard that are under way here.
pub(crate) struct Callers {
    admitted: AtomicUsize,
    /// Requests of those that change something.
    requests: Mutex<FxHashSet<u64>>,
    /// The node's admission, the same for every shard.
    admission: Arc<Admission>,
    clock: Arc<dyn Clock>,
}

impl Callers {
    /// No command is under way yet.
    pub(crate) fn new(admission: Arc<Admission>, clock: Arc<dyn Clock>) -> Callers {
        Callers { admitted: AtomicUsize::new(0), requests: Mutex::default(), admission, clock }
    }

    /// Counts one more command under way.
    pub(crate) fn enter(self: &Arc<Self>, pass: Pass, request: Option<u64>, reply: ReplyTo) -> Caller {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        if let Some(request) = request {
            self.requests.lock().insert(request);
        }
        // The client's time runs from the reading on, because how long the command lay unread is an estimate.
        let read_ms = pass.came_ms().saturating_add(reply.times().unread_ms);
        let until_ms = read_ms.saturating_add(reply.timeout_ms());
        Caller { reply: Some(reply), callers: Arc::clone(self), pass, request, until_ms, is_granted: false }
    }

    /// Whether this request ([`key_of`]) is under way.
    pub(crate) fn has(&self, request: &u64) -> bool {
        self.requests.lock().contains(request)
    }

    /// The number of commands under way.
    pub(crate) fn count(&self) -> usize {
        self.admitted.load(Ordering::Relaxed)
    }
}

/// A client waiting for an answer, counted against the node's admission until it has one.
pub(crate) struct Caller {
    reply: Option<ReplyTo>,
    callers: Arc<Callers>,
    pass: Pass,
    /// The request under which its command changes something.
    request: Option<u64>,
    /// Until when it waits, in milliseconds of the monotonic clock.
    until_ms: u64,
    /// It was answered with `ok`.
    is_granted: bool,
}

impl Caller {
    /// Names the caller while it waits.
    pub(crate) fn key(&self) -> Option<CallerKey> {
        self.reply.as_ref().map(ReplyTo::key)
    }

    /// The name of the key or the operator that asks.
    pub(crate) fn asker(&self) -> Option<&SmolStr> {
        self.reply.as_ref()?.asker()
    }

    /// The actor has its command now. Returns whether the answer would come too late.
    pub(crate) fn is_too_late(&self, now_ms: u64) -> bool {
        self.callers.admission.taken(self.pass, now_ms);
        now_ms >= self.until_ms && !planted::is("a command decided for a caller that has gone")
    }

    /// How long it still waits, in milliseconds.
    pub(crate) fn timeout_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }

    /// Gives the answer.
    pub(crate) fn answer(mut self, result: api::Result) {
        self.is_granted = matches!(result, Ok(Ok(_)));
        if let Some(reply) = self.reply.take() {
            reply.answer(result);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without an answer, `reply` says `unknown` or `internal` as it is dropped.
        self.callers.admitted.fetch_sub(1, Ordering::Relaxed);
        if let Some(request) = self.request {
            self.callers.requests.lock().remove(&request);
        }
        self.callers.admission.over(self.pass, self.is_granted, self.callers.clock.monotonic_ms());
    }
}

/// A number for the request of an entity. Two requests with the same number do no harm: one of them is not shed.
pub(crate) fn key_of(entity: &Entity, request: RequestHash) -> u64 {
    let mut hasher = FxHasher::default();
    entity.hash(&mut hasher);
    request.hash(&mut hasher);
    hasher.finish()
}
