//! One request from its first attempt to its end: retries with the same request id until the deadline.

use std::{sync::Arc, time::Duration};

use boxoffice_core::id::Entity;
use boxoffice_wire::{
    Encoding, Fail, FailKind, Op, Rejection,
    body::Empty,
    cluster::ShardMap,
    envelope::Envelope,
    reply::{self, FromAnswer, Leader, No, ServerFrame, Unreadable, request},
    version::{self, ADDED, Added},
};
use bytes::{Bytes, BytesMut};
use rand::Rng;
use serde::Serialize;
use smol_str::SmolStr;
use tokio::{
    sync::{mpsc::error::TrySendError, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tracing::debug;

use crate::{
    client::Client,
    connection::ConnectionHandle,
    connection_task::Outgoing,
    error::{Error, Reply},
    feeds::FeedSink,
    in_doubt::{InDoubt, InDoubtAttempts},
    retries::RetryReason,
    routes::Routes,
    waiter::{AttemptOutcome, Waiter},
};

/// The code of `in_progress`: the first request with this request id is still being decided.
const IN_PROGRESS: u16 = 106;

/// The code of `payment_pending`.
const PAYMENT_PENDING: u16 = 602;

/// How long to wait before a retry if the server does not say.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How many times that wait is doubled at most while refusals are not final.
const REFUSALS_DOUBLED_MAX: u32 = 4;

/// The client stops waiting for a silent leader after this fraction of the remaining time. The rest is for the client's
/// own node.
const SILENCE_DIVISOR: u32 = 3;

/// How long a request for the shard map may take.
const MAP_DEADLINE: Duration = Duration::from_secs(2);

/// Initial capacity for the frame of a request, enough for a usual one.
const FRAME_BYTES: usize = 256;

impl Client {
    /// Sends a request until it is answered or the deadline has passed.
    ///
    /// If the client sends requests to leaders and knows the leader of `about`, the first attempt goes there.
    pub(crate) async fn call<T: FromAnswer, B: Serialize>(
        &self,
        about: Option<&Entity>,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call_with(about, op, request_id, body, None).await
    }

    /// [`Client::call`] for a watch. The frames of the feed that the answer grants go into the sink.
    pub(crate) async fn call_with<T: FromAnswer, B: Serialize>(
        &self,
        about: Option<&Entity>,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
    ) -> Result<Reply<T>, Error> {
        let deadline = Instant::now() + self.deadline;
        let routed = about.zip(self.routes.as_ref());
        // Attempts that may have been granted. `last_fail` is why the last attempt failed that certainly was not.
        let mut attempts = InDoubtAttempts::after(self.in_doubt(request_id));
        let leader = routed.and_then(|(entity, routes)| self.route(routes, entity));
        // A doubt over another connection can only be settled over that connection.
        let leader =
            leader.filter(|leader| !matches!(attempts.in_doubt(), InDoubt::One((other, _)) if other != leader.id));
        let mut targets = Targets { leader: leader.as_deref(), own: &self.connection, fallbacks: &self.fallbacks };
        let mut last_fail = Fail::new(FailKind::NotReady).saying("there was no connection before the deadline");
        // Which of `targets` gets the next attempt. It counts on beyond the last target.
        let mut turn = 0;
        let (mut retried, mut refusals) = (false, 0);
        // Nodes that are too old to know a field of the request.
        let mut too_old = 0;
        loop {
            let target = targets.get(turn);
            let is_leader = targets.is_leader(turn);
            let left = deadline.saturating_duration_since(Instant::now());
            // Without `retry` the client does not ask another node, so the leader gets the whole time.
            let silence_max = if is_leader && self.connection.config.retry { left / SILENCE_DIVISOR } else { left };
            let permit = target.limiter.acquire(op, Instant::now() + silence_max).await;
            let outcome = match &permit {
                Some(_) => self.attempt(target, op, request_id, body, sink, (silence_max, deadline)).await,
                None if is_leader => AttemptOutcome::NotConnected,
                None => {
                    let busy = Fail::new(FailKind::Busy).saying("the node was busy until the deadline");
                    return Err(self.failure(attempts, request_id, deadline, busy));
                }
            };
            let (mut busy, mut leader_failed) = (None, false);
            let (reason, wait) = match outcome {
                AttemptOutcome::Answer(frame, number) => {
                    let connection = (target.id, number);
                    let (answer, Leader(leader)) = read_answer(self, &frame)?;
                    if let Some(((entity, routes), leader)) = routed.zip(leader)
                        && routes.learn_leader(entity, leader)
                    {
                        self.request_map(routes);
                    }
                    match answer {
                        reply::Reply::Ok(value, at) => return Ok(Reply { value, at, retried }),
                        reply::Reply::No(No { code: IN_PROGRESS, .. }) => {
                            attempts.add(connection);
                            (RetryReason::InProgress, RETRY_AFTER)
                        }
                        reply::Reply::No(no)
                            if request_id.is_some()
                                && !tells_payment(&no)
                                && !attempts.in_doubt().is_settled_by(connection) =>
                        {
                            // An earlier attempt may still be granted, so this refusal is not final.
                            refusals += 1;
                            let doublings = u32::min(refusals, REFUSALS_DOUBLED_MAX);
                            (RetryReason::Refused, RETRY_AFTER * (1 << doublings))
                        }
                        reply::Reply::No(no) => return Err(Error::Refused(Box::new(no))),
                        reply::Reply::Fail(fail) => {
                            if fail.kind == FailKind::Unknown {
                                attempts.add(connection);
                            }
                            if matches!(fail.kind, FailKind::Internal | FailKind::ReadOnly) {
                                return Err(self.failure(attempts, request_id, deadline, fail));
                            }
                            let wait = fail.retry_after_ms.map(|millis| Duration::from_millis(millis.into()));
                            let (reason, wait) = (RetryReason::of_fail(fail.kind), wait.unwrap_or(RETRY_AFTER));
                            busy = (fail.kind == FailKind::Busy).then_some(wait);
                            last_fail = fail;
                            (reason, wait)
                        }
                    }
                }
                // The next attempt waits for the next connection.
                AttemptOutcome::ConnectionLost => {
                    attempts.add_lost();
                    (RetryReason::Lost, Duration::ZERO)
                }
                AttemptOutcome::TimedOut => {
                    attempts.add_lost();
                    leader_failed = true;
                    if let Some((entity, routes)) = routed.filter(|_| is_leader)
                        && routes.drop_silent(entity, target)
                    {
                        self.request_map(routes);
                    }
                    (RetryReason::Lost, if is_leader { Duration::ZERO } else { self.deadline })
                }
                // A connection to a leader is only a shortcut. The client's own node takes every request.
                AttemptOutcome::NotSent
                | AttemptOutcome::NotConnected
                | AttemptOutcome::Closed
                | AttemptOutcome::NodeTooOld(_)
                    if is_leader =>
                {
                    leader_failed = true;
                    (RetryReason::NoConnection, Duration::ZERO)
                }
                AttemptOutcome::NotSent => (RetryReason::NoConnection, self.deadline),
                AttemptOutcome::Closed => return Err(target.closed_error()),
                // Another node may be reachable. After a whole round one of them may be back.
                AttemptOutcome::NotConnected if !targets.is_last(turn) => (RetryReason::NoConnection, Duration::ZERO),
                AttemptOutcome::NotConnected => (RetryReason::NoConnection, RETRY_AFTER),
                AttemptOutcome::NodeTooOld(reason) => {
                    too_old += 1;
                    if too_old > targets.fallbacks.len() {
                        let is_in_doubt = attempts.in_doubt().is_some();
                        let failure = || self.failure(attempts, request_id, deadline, last_fail);
                        return Err(if is_in_doubt { failure() } else { unsupported(reason) });
                    }
                    (RetryReason::NoConnection, Duration::ZERO)
                }
            };
            if let Some(permit) = permit {
                permit.finish(busy);
            }
            if let Some((_, routes)) = routed.filter(|_| is_leader && reason.changes_node())
                && routes.refresh()
            {
                self.request_map(routes);
            }
            let wait = self.jittered(wait);
            // A leader that the request was not sent to is no failure. The client's own node is still to be asked.
            let may_retry = self.connection.config.retry || (is_leader && reason == RetryReason::NoConnection);
            if !may_retry || Instant::now() + wait >= deadline {
                return Err(self.failure(attempts, request_id, deadline, last_fail));
            }
            self.connection.retries.increment(reason);
            // An attempt without a connection was not sent.
            retried |= reason != RetryReason::NoConnection;
            if is_leader && leader_failed {
                (targets.leader, turn) = (None, 0);
            } else {
                turn += usize::from(reason.changes_node());
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// The connection to the leader of an entity, if requests about the entity should go there.
    fn route(&self, routes: &Arc<Routes>, entity: &Entity) -> Option<Arc<ConnectionHandle>> {
        let (leader, is_due) = routes.leader_of(entity, &self.connection);
        if is_due {
            self.request_map(routes);
        }
        leader
    }

    /// Requests the shard map in the background.
    fn request_map(&self, routes: &Arc<Routes>) {
        let client = Client { routes: None, request_id: None, deadline: MAP_DEADLINE, ..self.clone() };
        let weak = Arc::downgrade(routes);
        routes.runtime.spawn(async move {
            let answer = client.read::<ShardMap, _>(Op::Shards, &Empty {}).await;
            let Some(routes) = weak.upgrade() else { return };
            match answer {
                Ok(map) => routes.set_map(map.value, &client.connection),
                Err(error) => {
                    debug!(%error, "the node sent no shard map");
                    if let Error::Refused(_) = error {
                        routes.on_map_refused();
                    }
                }
            }
        });
    }

    /// What is in doubt of earlier calls with this request id.
    fn in_doubt(&self, request_id: Option<&SmolStr>) -> InDoubt {
        let Some(request_id) = request_id else { return InDoubt::None };
        let mut requests = self.connection.in_doubt.lock().expect("no thread panics while it holds the lock");
        requests.get(request_id, Instant::now())
    }

    /// The error of a request without a final answer. A request in doubt is remembered, since its caller may retry it.
    fn failure(
        &self,
        attempts: InDoubtAttempts,
        request_id: Option<&SmolStr>,
        deadline: Instant,
        last_fail: Fail,
    ) -> Error {
        if !attempts.in_doubt().is_some() {
            return Error::Failed(last_fail);
        }
        if let Some(request_id) = request_id {
            let mut requests = self.connection.in_doubt.lock().expect("no thread panics while it holds the lock");
            requests.remember(request_id.clone(), attempts, deadline);
        }
        Error::Unknown(request_id.cloned())
    }

    /// Sends a request once. It waits until the deadline, but no longer than `silence_max` while nothing arrives from
    /// the node.
    async fn attempt<B: Serialize>(
        &self,
        target: &ConnectionHandle,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
        (silence_max, deadline): (Duration, Instant),
    ) -> AttemptOutcome {
        let now = Instant::now();
        let (left, send_by) = (deadline.saturating_duration_since(now), deadline.min(now + silence_max));
        let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        let id = target.next_id();
        let mut frame = BytesMut::with_capacity(FRAME_BYTES);
        let request_id = request_id.map(SmolStr::as_str);
        request(target.config.encoding, &mut frame, id, op, request_id, Some(deadline_ms), body);
        let (sender, receiver) = oneshot::channel();
        let waiter = match sink {
            Some(sink) => Waiter::Watch(sender, sink.clone()),
            None => Waiter::Caller(sender),
        };
        let newest_field = newest_field(target.config.encoding, op, &frame);
        let outgoing = Outgoing { id, frame: frame.freeze(), newest_field, send_by, silence_max, deadline, waiter };
        match target.outgoing.try_send(outgoing) {
            Ok(()) => {}
            // Callers submit more than can be sent. Only here a caller needs a timer of its own.
            Err(TrySendError::Full(outgoing)) => match timeout_at(send_by, target.outgoing.send(outgoing)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return AttemptOutcome::Closed,
                Err(_) => return AttemptOutcome::NotSent,
            },
            Err(TrySendError::Closed(_)) => return AttemptOutcome::Closed,
        }
        match receiver.await {
            Ok(AttemptOutcome::NotSent) if target.is_closed() => AttemptOutcome::Closed,
            Ok(outcome) => outcome,
            // The connection task ended without an outcome. It may have sent the request.
            Err(_) => AttemptOutcome::ConnectionLost,
        }
    }

    /// A random wait of half to one and a half times this. It keeps clients that got the same advice from returning at
    /// once.
    pub(crate) fn jittered(&self, wait: Duration) -> Duration {
        let mut rng = self.connection.rng.lock().expect("no thread panics while it holds the lock");
        wait.mul_f64(rng.random_range(0.5..1.5))
    }
}

/// The nodes that a request may be sent to, tried in turn.
struct Targets<'a> {
    leader: Option<&'a ConnectionHandle>,
    own: &'a ConnectionHandle,
    fallbacks: &'a [Arc<ConnectionHandle>],
}

impl<'a> Targets<'a> {
    fn len(&self) -> usize {
        usize::from(self.leader.is_some()) + 1 + self.fallbacks.len()
    }

    fn get(&self, turn: usize) -> &'a ConnectionHandle {
        match (turn % self.len(), self.leader) {
            (0, Some(leader)) => leader,
            (1, Some(_)) | (0, None) => self.own,
            (index, Some(_)) => &self.fallbacks[index - 2],
            (index, None) => &self.fallbacks[index - 1],
        }
    }

    /// Whether this turn goes to the leader instead of the client's own node.
    fn is_leader(&self, turn: usize) -> bool {
        self.leader.is_some() && turn.is_multiple_of(self.len())
    }

    fn is_last(&self, turn: usize) -> bool {
        (turn + 1).is_multiple_of(self.len())
    }
}

/// The newest field of the request, if some nodes do not know it.
fn newest_field(encoding: Encoding, op: Op, frame: &[u8]) -> Option<Added> {
    if op != Op::Batch && !ADDED.iter().any(|added| added.op == op) {
        return None;
    }
    let envelope = Envelope::read(encoding, frame).expect("the client writes requests that it can read");
    version::newest(encoding, op, envelope.body?)
}

/// The refusal of a request that has a field which no reachable node knows.
fn unsupported(reason: String) -> Error {
    let rejection = Rejection::UnsupportedVersion(reason.into());
    let (code, name, message) = (rejection.code(), rejection.name().into(), rejection.to_string());
    Error::Refused(Box::new(No { code, name, message, ..No::default() }))
}

/// Whether a refusal is returned even if an earlier attempt may be granted: it says how the payment ended, or that the
/// outcome is not known yet.
fn tells_payment(no: &No) -> bool {
    no.is_outcome() || no.code == PAYMENT_PENDING
}

fn read_answer<T: FromAnswer>(client: &Client, frame: &Bytes) -> Result<(reply::Reply<T>, Leader), Unreadable> {
    let encoding = client.connection.config.encoding;
    match ServerFrame::read(encoding, frame)? {
        ServerFrame::Answer(_, verdict, leader) => Ok((verdict.read(encoding)?, leader)),
        ServerFrame::Feed(..) | ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {
            unreachable!("the connection task hands callers nothing but answers")
        }
    }
}
