//! One request from its first sending to its end: repeats with the same request id until the deadline.

use std::time::Duration;

use boxoffice_wire::{
    Fail, FailKind, Op,
    reply::{self, FromAnswer, No, ServerFrame, Unreadable, request},
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
    client::Client,
    error::{Error, Reply},
    feeds::FeedSink,
    post::{Asker, Letter, Outcome, State},
};

/// The number of `in_progress`: the first request with this id still decides.
const IN_PROGRESS: u16 = 106;

/// How long to wait before a repeat if the server has no opinion.
const REPEAT_AFTER: Duration = Duration::from_millis(100);

/// Room for a usual request.
const FRAME_BYTES: usize = 256;

impl Client {
    /// Sends a request until it is answered or the deadline has passed.
    pub(crate) async fn call<T: FromAnswer, B: Serialize>(
        &self,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call_with(op, request_id, body, None).await
    }

    /// The same for a watch: frames of the feed that is granted go into the sink.
    pub(crate) async fn call_with<T: FromAnswer, B: Serialize>(
        &self,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
    ) -> Result<Reply<T>, Error> {
        let deadline = Instant::now() + self.deadline;
        // Whether one of the attempts may have happened after all, and why the last one that surely did not failed.
        let mut doubt = false;
        let mut last = Fail::new(FailKind::NotReady).saying("there was no connection before the deadline");
        loop {
            let outcome = self.attempt(op, request_id, body, sink, deadline).await?;
            let wait = match outcome {
                Outcome::Answer(frame) => match read(self, &frame)? {
                    reply::Reply::Ok(value, at) => return Ok(Reply { value, at }),
                    reply::Reply::No(No { code: IN_PROGRESS, .. }) => {
                        doubt = true;
                        REPEAT_AFTER
                    }
                    reply::Reply::No(no) => return Err(Error::Refused(Box::new(no))),
                    reply::Reply::Fail(fail) => {
                        doubt |= fail.kind == FailKind::Unknown;
                        if matches!(fail.kind, FailKind::Internal | FailKind::ReadOnly) {
                            return Err(if doubt { Error::Unknown(request_id.cloned()) } else { Error::Failed(fail) });
                        }
                        let wait = fail.retry_after_ms.map(|millis| Duration::from_millis(millis.into()));
                        last = fail;
                        wait.unwrap_or(REPEAT_AFTER)
                    }
                },
                // The next attempt waits for the next connection.
                Outcome::Lost => {
                    doubt = true;
                    Duration::ZERO
                }
                Outcome::Overdue => {
                    doubt = true;
                    self.deadline
                }
                Outcome::NotSent => self.deadline,
            };
            let wait = self.jittered(wait);
            if !self.shared.config.retry || Instant::now() + wait >= deadline {
                return Err(if doubt { Error::Unknown(request_id.cloned()) } else { Error::Failed(last) });
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// Sends a request once.
    async fn attempt<B: Serialize>(
        &self,
        op: Op,
        request_id: Option<&SmolStr>,
        body: &B,
        sink: Option<&FeedSink>,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        let id = self.next_id();
        let mut frame = BytesMut::with_capacity(FRAME_BYTES);
        let request_id = request_id.map(SmolStr::as_str);
        request(self.shared.config.encoding, &mut frame, id, op, request_id, Some(deadline_ms), body);
        let (tell, told) = oneshot::channel();
        let asker = match sink {
            Some(sink) => Asker::Watch(tell, sink.clone()),
            None => Asker::Caller(tell),
        };
        let letter = Letter { id, frame: frame.freeze(), deadline, asker };
        match self.shared.letters.try_send(letter) {
            Ok(()) => {}
            // The one place with a timer of its own: more is asked than can be sent.
            Err(TrySendError::Full(letter)) => match timeout_at(deadline, self.shared.letters.send(letter)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(self.closed()),
                Err(_) => return Ok(Outcome::NotSent),
            },
            Err(TrySendError::Closed(_)) => return Err(self.closed()),
        }
        match told.await {
            Ok(Outcome::NotSent) if self.is_closed() => Err(self.closed()),
            Ok(outcome) => Ok(outcome),
            Err(_) => Err(self.closed()),
        }
    }

    fn is_closed(&self) -> bool {
        matches!(&*self.shared.state.borrow(), State::Closed(_))
    }

    /// Why there is no connection any more.
    pub(crate) fn closed(&self) -> Error {
        match &*self.shared.state.borrow() {
            State::Closed(why) => Error::Closed(why.clone()),
            State::Connecting(_) | State::Connected(_) => Error::Closed("its task has ended".into()),
        }
    }

    /// A wait of half to one and a half times this, so that many who were told the same do not come back at once.
    pub(crate) fn jittered(&self, wait: Duration) -> Duration {
        let mut rng = self.shared.rng.lock().expect("nobody panics while rolling dice");
        wait.mul_f64(rng.random_range(0.5..1.5))
    }
}

fn read<T: FromAnswer>(client: &Client, frame: &Bytes) -> Result<reply::Reply<T>, Unreadable> {
    let encoding = client.shared.config.encoding;
    match ServerFrame::read(encoding, frame)? {
        ServerFrame::Answer(_, verdict) => verdict.read(encoding),
        ServerFrame::Feed(..) | ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {
            unreachable!("the post hands callers nothing but answers")
        }
    }
}
