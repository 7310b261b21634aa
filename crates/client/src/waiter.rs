//! The receiver of an answer, and how one attempt to get it ended.

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::feeds::FeedSink;

/// The receiver of an answer.
#[derive(Debug)]
pub(crate) enum Waiter {
    Caller(oneshot::Sender<AttemptOutcome>),
    /// A watch. The frames of the feed that the answer grants go into the sink.
    Watch(oneshot::Sender<AttemptOutcome>, FeedSink),
}

impl Waiter {
    pub(crate) fn complete(self, outcome: AttemptOutcome) {
        let (Waiter::Caller(sender) | Waiter::Watch(sender, _)) = self;
        // Sending fails if the caller has given up. The outcome is not needed then.
        let _ = sender.send(outcome);
    }

    pub(crate) fn is_gone(&self) -> bool {
        let (Waiter::Caller(sender) | Waiter::Watch(sender, _)) = self;
        sender.is_closed()
    }
}

/// How one attempt to send a request ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    /// The frame that answers it, and the number of the connection over which it came, counted from 1.
    Answer(Bytes, u64),
    /// The request was sent, and the connection broke before an answer.
    ConnectionLost,
    /// The request was sent, and no answer came before the deadline, or nothing at all came from the node for too long.
    TimedOut,
    /// The request was not sent.
    NotSent,
    /// The request was not sent, since there is no connection and the configuration says not to wait for one.
    NotConnected,
    /// The request was not sent, and the client does not connect any more.
    Closed,
    /// The request was not sent, since the node is too old to know one of its fields. With the reason in words.
    NodeTooOld(String),
}
