//! The state of a call between its attempts: what each outcome means, and which node gets the next attempt.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use boxoffice_core::id::Entity;
use boxoffice_wire::{
    Fail, FailKind, Rejection,
    reply::{self, Leader, No, ServerFrame, Unreadable},
    view::At,
};
use bytes::Bytes;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::{
    client::Client, connection::ConnectionHandle, error::Error, in_doubt::InDoubtAttempts, retries::RetryReason,
    routes::Routes, waiter::AttemptOutcome,
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

/// A call between its attempts.
pub(crate) struct CallState<'a> {
    client: &'a Client,
    routed: Option<(&'a Entity, &'a Arc<Routes>)>,
    request_id: Option<&'a SmolStr>,
    deadline: Instant,
    targets: Targets<'a>,
    /// Which of `targets` gets the next attempt. It counts on beyond the last target.
    turn: usize,
    /// Attempts that may have been granted.
    attempts: InDoubtAttempts,
    /// The failure of the last attempt that certainly was not granted.
    last_fail: Fail,
    /// Refusals that were not final.
    refusals: u32,
    /// Nodes that are too old to know a field of the request.
    too_old: usize,
}

/// Why there is another attempt, and when.
pub(crate) struct Retry {
    pub(crate) reason: RetryReason,
    wait: Duration,
    /// The wait that a busy node asked for.
    pub(crate) busy: Option<Duration>,
    leader_failed: bool,
}

impl Retry {
    fn after(reason: RetryReason, wait: Duration) -> Retry {
        Retry { reason, wait, busy: None, leader_failed: false }
    }
}

/// The answer of a granted request, not read yet, and the versions that it rests on.
pub(crate) struct Granted {
    pub(crate) body: Bytes,
    pub(crate) at: Vec<At>,
}

/// The end of a call, or its next attempt.
pub(crate) type Evaluated = ControlFlow<Granted, Retry>;

impl<'a> CallState<'a> {
    pub(crate) fn new(
        client: &'a Client,
        routed: Option<(&'a Entity, &'a Arc<Routes>)>,
        leader: Option<&'a ConnectionHandle>,
        request_id: Option<&'a SmolStr>,
        attempts: InDoubtAttempts,
        deadline: Instant,
    ) -> CallState<'a> {
        let targets = Targets { leader, own: &client.connection, fallbacks: &client.fallbacks };
        let last_fail = Fail::new(FailKind::NotReady).saying("there was no connection before the deadline");
        CallState {
            client,
            routed,
            request_id,
            deadline,
            targets,
            turn: 0,
            attempts,
            last_fail,
            refusals: 0,
            too_old: 0,
        }
    }

    /// The node that gets the next attempt.
    pub(crate) fn target(&self) -> &'a ConnectionHandle {
        self.targets.get(self.turn)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.targets.is_leader(self.turn)
    }

    /// How long the next attempt may wait while nothing arrives from its node.
    pub(crate) fn silence_max(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // Without `retry` the client does not ask another node, so the leader gets the whole time.
        if self.is_leader() && self.client.connection.config.retry { left / SILENCE_DIVISOR } else { left }
    }

    pub(crate) fn evaluate(&mut self, outcome: AttemptOutcome) -> Result<Evaluated, Error> {
        let retry = match outcome {
            AttemptOutcome::Answer(frame, number) => return self.on_answer(&frame, number),
            // The next attempt waits for the next connection.
            AttemptOutcome::ConnectionLost => {
                self.attempts.add_lost();
                Retry::after(RetryReason::Lost, Duration::ZERO)
            }
            AttemptOutcome::TimedOut => {
                self.attempts.add_lost();
                let is_leader = self.is_leader();
                if let Some((entity, routes)) = self.routed.filter(|_| is_leader)
                    && routes.drop_silent(entity, self.target())
                {
                    self.client.request_map(routes);
                }
                let wait = if is_leader { Duration::ZERO } else { self.client.deadline };
                Retry { leader_failed: true, ..Retry::after(RetryReason::Lost, wait) }
            }
            // A connection to a leader is only a shortcut. The client's own node takes every request.
            AttemptOutcome::NotSent
            | AttemptOutcome::NotConnected
            | AttemptOutcome::Closed
            | AttemptOutcome::NodeTooOld(_)
                if self.is_leader() =>
            {
                Retry { leader_failed: true, ..Retry::after(RetryReason::NoConnection, Duration::ZERO) }
            }
            AttemptOutcome::NotSent => Retry::after(RetryReason::NoConnection, self.client.deadline),
            AttemptOutcome::Closed => return Err(self.target().closed_error()),
            // Another node may be reachable. After a whole round one of them may be back.
            AttemptOutcome::NotConnected => {
                let wait = if self.targets.is_last(self.turn) { RETRY_AFTER } else { Duration::ZERO };
                Retry::after(RetryReason::NoConnection, wait)
            }
            AttemptOutcome::NodeTooOld(reason) => {
                self.too_old += 1;
                if self.too_old > self.targets.fallbacks.len() {
                    let is_in_doubt = self.attempts.in_doubt().is_some();
                    return Err(if is_in_doubt { self.failure() } else { unsupported(reason) });
                }
                Retry::after(RetryReason::NoConnection, Duration::ZERO)
            }
        };
        Ok(ControlFlow::Continue(retry))
    }

    fn on_answer(&mut self, frame: &Bytes, number: u64) -> Result<Evaluated, Error> {
        let connection = (self.target().id, number);
        let (answer, Leader(leader)) = read_answer(self.client, frame)?;
        if let Some(((entity, routes), leader)) = self.routed.zip(leader)
            && routes.learn_leader(entity, leader)
        {
            self.client.request_map(routes);
        }
        let retry = match answer {
            reply::Reply::Ok(body, at) => return Ok(ControlFlow::Break(Granted { body, at })),
            reply::Reply::No(No { code: IN_PROGRESS, .. }) => {
                self.attempts.add(connection);
                Retry::after(RetryReason::InProgress, RETRY_AFTER)
            }
            reply::Reply::No(no)
                if self.request_id.is_some()
                    && !tells_payment(&no)
                    && !self.attempts.in_doubt().is_ended_by(connection) =>
            {
                // An earlier attempt may still be granted, so this refusal is not final.
                self.refusals += 1;
                let doublings = u32::min(self.refusals, REFUSALS_DOUBLED_MAX);
                Retry::after(RetryReason::Refused, RETRY_AFTER * (1 << doublings))
            }
            reply::Reply::No(no) => return Err(Error::Refused(Box::new(no))),
            reply::Reply::Fail(fail) => {
                if fail.kind == FailKind::Unknown {
                    self.attempts.add(connection);
                }
                let wait = fail.retry_after_ms.map_or(RETRY_AFTER, |millis| Duration::from_millis(millis.into()));
                let kind = fail.kind;
                self.last_fail = fail;
                if matches!(kind, FailKind::Internal | FailKind::ReadOnly) {
                    return Err(self.failure());
                }
                let busy = (kind == FailKind::Busy).then_some(wait);
                Retry { busy, ..Retry::after(RetryReason::of_fail(kind), wait) }
            }
        };
        Ok(ControlFlow::Continue(retry))
    }

    /// Chooses the target of the next attempt. Returns the wait before it.
    ///
    /// # Errors
    /// The error of the call, if there is no time left.
    pub(crate) fn next_turn(&mut self, &Retry { reason, wait, leader_failed, .. }: &Retry) -> Result<Duration, Error> {
        let is_leader = self.is_leader();
        if let Some((_, routes)) = self.routed.filter(|_| is_leader && reason.changes_node())
            && routes.refresh()
        {
            self.client.request_map(routes);
        }
        let wait = self.client.jittered(wait);
        // A leader that the request was not sent to is no failure. The client's own node is still to be asked.
        let may_retry = self.client.connection.config.retry || (is_leader && reason == RetryReason::NoConnection);
        if !may_retry || Instant::now() + wait >= self.deadline {
            return Err(self.failure());
        }
        if is_leader && leader_failed {
            (self.targets.leader, self.turn) = (None, 0);
        } else {
            self.turn += usize::from(reason.changes_node());
        }
        Ok(wait)
    }

    /// The error of a call whose node was too busy for another attempt before the deadline.
    pub(crate) fn busy_error(&mut self) -> Error {
        self.last_fail = Fail::new(FailKind::Busy).saying("the node was busy until the deadline");
        self.failure()
    }

    /// The error of a request without a final answer. A request in doubt is remembered, since its caller may retry it.
    fn failure(&self) -> Error {
        if !self.attempts.in_doubt().is_some() {
            return Error::Failed(self.last_fail.clone());
        }
        if let Some(request_id) = self.request_id {
            let requests = &self.client.connection.in_doubt;
            let mut requests = requests.lock().expect("no thread panics while it holds the lock");
            requests.remember(request_id.clone(), self.attempts, self.deadline);
        }
        Error::Unknown(self.request_id.cloned())
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

fn read_answer(client: &Client, frame: &Bytes) -> Result<(reply::Reply<Bytes>, Leader), Unreadable> {
    let encoding = client.connection.config.encoding;
    match ServerFrame::read(encoding, frame)? {
        ServerFrame::Answer(_, verdict, leader) => {
            Ok((verdict.read_with(encoding, |body| Ok(frame.slice_ref(body)))?, leader))
        }
        ServerFrame::Feed(..) | ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {
            unreachable!("the connection task hands callers nothing but answers")
        }
    }
}
