//! One request from its first sending to its end: repeats with the same request id until the deadline.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::id::Entity;
use boxoffice_wire::{
    Encoding, Fail, FailKind, Op, Rejection,
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

use crate::{
    client::{Client, Shared},
    doubt::{Attempts, Doubt},
    error::{Error, Reply},
    feeds::FeedSink,
    post::{Asker, Letter, Outcome, State},
    repeats::Why,
};

/// The number of `in_progress`: the first request with this id still decides.
const IN_PROGRESS: u16 = 106;

/// The number of `payment_pending`.
const PAYMENT_PENDING: u16 = 602;

/// How long to wait before a repeat if the server has no opinion.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// How often that is doubled at most while a refusal is not the last word.
const REFUSALS_DOUBLED_MAX: u32 = 4;

/// A leader from which nothing comes for this part of a request's time is passed over. The rest is for the client's own node.
const SILENT_SHARE: u32 = 3;

/// Room for a usual request.
const FRAME_BYTES: usize = 256;

impl Client {
    /// Sends a request until it is answered or the deadline has passed.
    ///
    /// It goes to the leader of what it is about first, where that is known and requests go to leaders.
    pub(crate) async fn call<T: FromAnswer, B: Serialize>(
        &self,
        about: Option<&Entity>,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call_with(about, op, request_id, body, None).await
    }

    /// The same for a watch: frames of the feed that is granted go into the sink.
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
        // Attempts that may have happened after all, and why the last one that surely did not failed.
        let mut doubt = Attempts::after(self.doubt_of(request_id));
        let leader = routed.and_then(|(entity, routes)| routes.leader_of(entity, self));
        // What is in doubt over another connection can only be settled there.
        let leader =
            leader.filter(|leader| !matches!(doubt.doubt(), Doubt::Over((other, _)) if other != leader.number));
        let mut places = Places { leader: leader.as_deref(), own: &self.shared, others: &self.others };
        let mut last = Fail::new(FailKind::NotReady).saying("there was no connection before the deadline");
        // Which node it is sent to, counted from the first of `places`.
        let mut turn = 0;
        let (mut repeated, mut refusals) = (false, 0);
        // Nodes that do not know a field of it.
        let mut too_old = 0;
        loop {
            let at = places.at(turn);
            let is_leader = places.is_leader(turn);
            let left = deadline.saturating_duration_since(Instant::now());
            // Nothing is repeated without `retry`, so that the whole time is for the leader.
            let silence_max = if is_leader && self.shared.config.retry { left / SILENT_SHARE } else { left };
            let turn_taken = at.pacing.place(op, Instant::now() + silence_max).await;
            let outcome = match &turn_taken {
                Some(_) => self.attempt(at, op, request_id, body, sink, (silence_max, deadline)).await,
                None if is_leader => Outcome::HandedBack,
                None => {
                    let busy = Fail::new(FailKind::Busy).saying("the node was busy until the deadline");
                    return Err(self.ended(doubt, request_id, deadline, busy));
                }
            };
            let (mut busy, mut is_over_with_leader) = (None, false);
            let place = at.number;
            let (why, wait) = match outcome {
                Outcome::Answer(frame, connection) => {
                    let (answer, Leader(leader)) = read(self, &frame)?;
                    if let Some(((entity, routes), leader)) = routed.zip(leader) {
                        routes.learn(entity, leader, self);
                    }
                    match answer {
                        reply::Reply::Ok(value, at) => return Ok(Reply { value, at, repeated }),
                        reply::Reply::No(No { code: IN_PROGRESS, .. }) => {
                            doubt.add((place, connection));
                            (Why::InProgress, REPEAT_AFTER)
                        }
                        reply::Reply::No(no)
                            if request_id.is_some()
                                && !says_enough(&no)
                                && !doubt.doubt().ends_over((place, connection)) =>
                        {
                            // An earlier attempt may still be granted: this is not the last word.
                            refusals += 1;
                            (Why::Refused, REPEAT_AFTER * (1 << u32::min(refusals, REFUSALS_DOUBLED_MAX)))
                        }
                        reply::Reply::No(no) => return Err(Error::Refused(Box::new(no))),
                        reply::Reply::Fail(fail) => {
                            if fail.kind == FailKind::Unknown {
                                doubt.add((place, connection));
                            }
                            if matches!(fail.kind, FailKind::Internal | FailKind::ReadOnly) {
                                return Err(self.ended(doubt, request_id, deadline, fail));
                            }
                            let wait = fail.retry_after_ms.map(|millis| Duration::from_millis(millis.into()));
                            let (why, wait) = (Why::failed(fail.kind), wait.unwrap_or(REPEAT_AFTER));
                            busy = (fail.kind == FailKind::Busy).then_some(wait);
                            last = fail;
                            (why, wait)
                        }
                    }
                }
                // The next attempt waits for the next connection.
                Outcome::Lost => {
                    doubt.add_lost();
                    (Why::Lost, Duration::ZERO)
                }
                Outcome::Overdue => {
                    doubt.add_lost();
                    is_over_with_leader = true;
                    if let Some((entity, routes)) = routed.filter(|_| is_leader) {
                        routes.is_silent(entity, at, self);
                    }
                    (Why::Lost, if is_leader { Duration::ZERO } else { self.deadline })
                }
                // A connection to a leader is only a shorter way.
                Outcome::NotSent | Outcome::HandedBack | Outcome::Closed | Outcome::TooOld(_) if is_leader => {
                    is_over_with_leader = true;
                    (Why::NoConnection, Duration::ZERO)
                }
                Outcome::NotSent => (Why::NoConnection, self.deadline),
                Outcome::Closed => return Err(at.closed()),
                // Another node may be there; after a whole round, one of them may be back.
                Outcome::HandedBack if !places.is_last(turn) => (Why::NoConnection, Duration::ZERO),
                Outcome::HandedBack => (Why::NoConnection, REPEAT_AFTER),
                Outcome::TooOld(why) => {
                    too_old += 1;
                    if too_old > places.others.len() {
                        let is_doubtful = doubt.doubt().is_some();
                        let ended = || self.ended(doubt, request_id, deadline, last);
                        return Err(if is_doubtful { ended() } else { unsupported(why) });
                    }
                    (Why::NoConnection, Duration::ZERO)
                }
            };
            if let Some(turn_taken) = turn_taken {
                turn_taken.ended(busy);
            }
            if let Some((_, routes)) = routed.filter(|_| is_leader && why.goes_elsewhere()) {
                routes.doubt(self);
            }
            let wait = self.jittered(wait);
            // A leader that was not sent it is no failure: the client's own node is still to be asked.
            let may_repeat = self.shared.config.retry || (is_leader && why == Why::NoConnection);
            if !may_repeat || Instant::now() + wait >= deadline {
                return Err(self.ended(doubt, request_id, deadline, last));
            }
            self.shared.repeats.note(why);
            // What was handed back was not sent.
            repeated |= why != Why::NoConnection;
            if is_leader && is_over_with_leader {
                (places.leader, turn) = (None, 0);
            } else {
                turn += usize::from(why.goes_elsewhere());
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// What is in doubt of a request that was made before under the same request id.
    fn doubt_of(&self, request_id: Option<&SmolStr>) -> Doubt {
        let Some(request_id) = request_id else { return Doubt::None };
        self.shared.doubts.lock().expect("no thread panics while it holds the lock").of(request_id, Instant::now())
    }

    /// How a request without an answer ends. One in doubt is remembered, for its caller may make it again.
    fn ended(&self, doubt: Attempts, request_id: Option<&SmolStr>, deadline: Instant, last: Fail) -> Error {
        if !doubt.doubt().is_some() {
            return Error::Failed(last);
        }
        if let Some(request_id) = request_id {
            let mut doubts = self.shared.doubts.lock().expect("no thread panics while it holds the lock");
            doubts.keep(request_id.clone(), doubt, deadline);
        }
        Error::Unknown(request_id.cloned())
    }

    /// Sends a request once. It waits until the deadline, and no longer than `silence_max` while nothing comes from the node.
    async fn attempt<B: Serialize>(
        &self,
        at: &Shared,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
        (silence_max, deadline): (Duration, Instant),
    ) -> Outcome {
        let now = Instant::now();
        let (left, until) = (deadline.saturating_duration_since(now), deadline.min(now + silence_max));
        let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        let id = at.next_id();
        let mut frame = BytesMut::with_capacity(FRAME_BYTES);
        let request_id = request_id.map(SmolStr::as_str);
        request(at.config.encoding, &mut frame, id, op, request_id, Some(deadline_ms), body);
        let (tell, told) = oneshot::channel();
        let asker = match sink {
            Some(sink) => Asker::Watch(tell, sink.clone()),
            None => Asker::Caller(tell),
        };
        let newest = newest(at.config.encoding, op, &frame);
        let letter = Letter { id, frame: frame.freeze(), newest, until, silence_max, deadline, asker };
        match at.letters.try_send(letter) {
            Ok(()) => {}
            // The one place with a timer of its own: more is asked than can be sent.
            Err(TrySendError::Full(letter)) => match timeout_at(until, at.letters.send(letter)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Outcome::Closed,
                Err(_) => return Outcome::NotSent,
            },
            Err(TrySendError::Closed(_)) => return Outcome::Closed,
        }
        match told.await {
            Ok(Outcome::NotSent) if at.is_closed() => Outcome::Closed,
            Ok(outcome) => outcome,
            // The task has ended without a word: it may have sent it.
            Err(_) => Outcome::Lost,
        }
    }

    /// A wait of half to one and a half times this, so that many who were told the same do not come back at once.
    pub(crate) fn jittered(&self, wait: Duration) -> Duration {
        let mut rng = self.shared.rng.lock().expect("nobody panics while rolling dice");
        wait.mul_f64(rng.random_range(0.5..1.5))
    }
}

/// The nodes that a request may be sent to, one after the other and round again.
struct Places<'a> {
    leader: Option<&'a Shared>,
    own: &'a Shared,
    others: &'a [Arc<Shared>],
}

impl<'a> Places<'a> {
    fn len(&self) -> usize {
        usize::from(self.leader.is_some()) + 1 + self.others.len()
    }

    fn at(&self, turn: usize) -> &'a Shared {
        match (turn % self.len(), self.leader) {
            (0, Some(leader)) => leader,
            (1, Some(_)) | (0, None) => self.own,
            (place, Some(_)) => &self.others[place - 2],
            (place, None) => &self.others[place - 1],
        }
    }

    /// Whether it is sent to the leader, past this client's own node.
    fn is_leader(&self, turn: usize) -> bool {
        self.leader.is_some() && turn.is_multiple_of(self.len())
    }

    fn is_last(&self, turn: usize) -> bool {
        (turn + 1).is_multiple_of(self.len())
    }
}

impl Shared {
    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.state.borrow(), State::Closed(_))
    }

    /// Why there is no connection any more.
    fn closed(&self) -> Error {
        match &*self.state.borrow() {
            State::Closed(why) => Error::Closed(why.clone()),
            State::Connecting(_) | State::Connected(_) => Error::Closed("its task has ended".into()),
        }
    }
}

/// A field of the request, if not every node knows it.
fn newest(encoding: Encoding, op: Op, frame: &[u8]) -> Option<Added> {
    if op != Op::Batch && !ADDED.iter().any(|added| added.op == op) {
        return None;
    }
    let envelope = Envelope::read(encoding, frame).expect("the client writes requests");
    version::newest(encoding, op, envelope.body?)
}

/// The refusal of a request that no node there is understands.
fn unsupported(why: String) -> Error {
    let rejection = Rejection::UnsupportedVersion(why.into());
    let (code, name, message) = (rejection.code(), rejection.name().into(), rejection.to_string());
    Error::Refused(Box::new(No { code, name, message, ..No::default() }))
}

/// Whether a refusal is to be told even if an earlier attempt may be granted: it says how the payment ended, or that nobody
/// knows yet.
fn says_enough(no: &No) -> bool {
    no.is_outcome() || no.code == PAYMENT_PENDING
}

fn read<T: FromAnswer>(client: &Client, frame: &Bytes) -> Result<(reply::Reply<T>, Leader), Unreadable> {
    let encoding = client.shared.config.encoding;
    match ServerFrame::read(encoding, frame)? {
        ServerFrame::Answer(_, verdict, leader) => Ok((verdict.read(encoding)?, leader)),
        ServerFrame::Feed(..) | ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {
            unreachable!("the post hands callers nothing but answers")
        }
    }
}
