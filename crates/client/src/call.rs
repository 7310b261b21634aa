//! One request from its first attempt to its end: retries with the same request id until the deadline.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use boxoffice_core::id::Entity;
use boxoffice_wire::{
    Encoding, Op,
    body::{Empty, Shards},
    envelope::Envelope,
    reply::{FromBody, request},
    version::{self, Added},
};
use bytes::BytesMut;
use rand::Rng;
use serde::Serialize;
use smol_str::SmolStr;
use tokio::{
    sync::{mpsc::error::TrySendError, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tracing::debug;

use crate::{
    call_state::{CallState, Granted},
    client::Client,
    concurrency_limit::is_limited,
    connection::ConnectionHandle,
    connection_task::Outgoing,
    error::{Error, Reply},
    feeds::FeedSink,
    in_doubt::{InDoubt, InDoubtAttempts},
    retries::RetryReason,
    routes::Routes,
    waiter::{AttemptOutcome, Waiter},
};

/// How long a request for the shard map may take.
const MAP_DEADLINE: Duration = Duration::from_secs(2);

/// Initial capacity for the frame of a request, enough for a usual one.
const FRAME_BYTES: usize = 256;

/// A request whose body is written by a closure.
#[derive(Clone, Copy)]
struct Written<'a> {
    op: Op,
    request_id: Option<&'a SmolStr>,
    /// Writes the frame of an attempt with its id and its deadline in milliseconds.
    write: &'a (dyn Fn(&mut BytesMut, u64, u64) + Sync),
}

impl Client {
    /// Sends a request until it is answered or the deadline has passed.
    ///
    /// If the client sends requests to leaders and knows the leader of `about`, the first attempt goes there.
    pub(crate) async fn call<T: FromBody, B: Serialize + Sync>(
        &self,
        about: Option<&Entity>,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call_with(about, op, request_id, body, None).await
    }

    /// [`Client::call`] for a watch. The frames of the feed that the answer grants go into the sink.
    pub(crate) async fn call_with<T: FromBody, B: Serialize + Sync>(
        &self,
        about: Option<&Entity>,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
    ) -> Result<Reply<T>, Error> {
        let write = |out: &mut BytesMut, id, deadline_ms| {
            let request_id = request_id.map(SmolStr::as_str);
            request(self.connection.config.encoding, out, id, op, request_id, Some(deadline_ms), body);
        };
        let written = Written { op, request_id, write: &write };
        let (Granted { body, at }, retried) = self.call_until_granted(about, written, sink).await?;
        Ok(Reply { value: T::from_body(self.connection.config.encoding, &body)?, at, retried })
    }

    /// Everything of a call that does not depend on the types of its body and answer, so that it is compiled once.
    async fn call_until_granted(
        &self,
        about: Option<&Entity>,
        request: Written<'_>,
        sink: Option<&FeedSink>,
    ) -> Result<(Granted, bool), Error> {
        let Written { op, request_id, .. } = request;
        let came = Instant::now();
        let deadline = came + self.deadline;
        let patient_until = self.patience.and_then(|patience| came.checked_add(patience));
        let routed = about.zip(self.routes.as_ref());
        let attempts = InDoubtAttempts::after(self.in_doubt(request_id));
        let leader = routed.and_then(|(entity, routes)| self.route(routes, entity));
        // A doubt over another connection can only be ended over that connection.
        let leader =
            leader.filter(|leader| !matches!(attempts.in_doubt(), InDoubt::One((other, _)) if other != leader.id));
        let mut state = CallState::new(self, routed, leader.as_deref(), request_id, attempts, deadline);
        let mut retried = false;
        loop {
            let (target, is_leader, silence_max) = (state.target(), state.is_leader(), state.silence_max());
            let permit = target.limiter.acquire(op, came, Instant::now() + silence_max).await;
            let outcome = match &permit {
                Some(_) => self.attempt(target, request, sink, (silence_max, deadline), patient_until).await,
                None if is_leader => AttemptOutcome::NotConnected,
                None => return Err(state.busy_error()),
            };
            let retry = match state.evaluate(outcome)? {
                ControlFlow::Break(granted) => return Ok((granted, retried)),
                ControlFlow::Continue(retry) => retry,
            };
            let wait = state.next_turn(&retry);
            let waits_for_turn = permit.as_ref().is_some_and(|permit| permit.is_limited() && retry.busy.is_some());
            if let Some(permit) = permit {
                // The pause of the connection is jittered as well, so that not all connections go on at once.
                permit.finish(retry.busy.map(|busy| *wait.as_ref().unwrap_or(&busy)));
            }
            let wait = wait?;
            self.connection.retries.increment(retry.reason);
            // An attempt without a connection was not sent.
            retried |= retry.reason != RetryReason::NoConnection;
            // A first command of a busy node waits for its turn. Younger ones may go before it.
            if !wait.is_zero() && !waits_for_turn {
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
    pub(crate) fn request_map(&self, routes: &Arc<Routes>) {
        let client = Client { routes: None, request_id: None, deadline: MAP_DEADLINE, ..self.clone() };
        let weak = Arc::downgrade(routes);
        routes.runtime.spawn(async move {
            let answer = client.ask(&Shards(Empty {})).await;
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

    /// The attempts in doubt of earlier calls with this request id.
    fn in_doubt(&self, request_id: Option<&SmolStr>) -> InDoubt {
        let Some(request_id) = request_id else { return InDoubt::None };
        let mut requests = self.connection.in_doubt.lock().expect("no thread panics while it holds the lock");
        requests.get(request_id, Instant::now())
    }

    /// Sends a request once. It waits until the deadline, but no longer than `silence_max` while nothing arrives from
    /// the node.
    async fn attempt(
        &self,
        target: &ConnectionHandle,
        Written { op, write, .. }: Written<'_>,
        sink: Option<&FeedSink>,
        (silence_max, deadline): (Duration, Instant),
        patient_until: Option<Instant>,
    ) -> AttemptOutcome {
        let now = Instant::now();
        let (left, send_by) = (deadline.saturating_duration_since(now), deadline.min(now + silence_max));
        let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        let id = target.next_id();
        let mut frame = BytesMut::with_capacity(FRAME_BYTES);
        write(&mut frame, id, deadline_ms);
        let (sender, receiver) = oneshot::channel();
        let waiter = match sink {
            Some(sink) => Waiter::Watch(sender, sink.clone()),
            None => Waiter::Caller(sender),
        };
        let newest_field = newest_field(target.config.encoding, op, &frame);
        let outgoing = Outgoing {
            id,
            frame: frame.freeze(),
            newest_field,
            patient_until: patient_until.filter(|until| *until > deadline && is_limited(op)),
            send_by,
            silence_max,
            deadline,
            waiter,
        };
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

/// The newest field of the request, if some nodes do not know it.
fn newest_field(encoding: Encoding, op: Op, frame: &[u8]) -> Option<Added> {
    if op != Op::Batch && !version::added().iter().any(|added| added.op == op) {
        return None;
    }
    let envelope = Envelope::read(encoding, frame).expect("the client writes requests that it can read");
    version::newest(encoding, op, envelope.body?)
}
