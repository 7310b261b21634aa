//! The node's submit API: commands with the receivers of their answers.

use std::sync::Arc;

use boxoffice_core::answer::Outcome;
use boxoffice_core::stored::Stored;
use smol_str::SmolStr;

use crate::contain::{self, CallerKey};

/// The default timeout of a caller, in milliseconds.
pub const TIMEOUT_MS: u64 = 10_000;

/// Why a command got no decision. It may have happened only with [`Failure::Unknown`] and [`Failure::Internal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Stored)]
pub enum Failure {
    /// 901: too much is under way. It did not happen. Try again after this many milliseconds.
    #[error("too much is under way; try again in {0} ms")]
    #[n(0)]
    Busy(#[n(0)] u32),
    /// 902: it may or may not have happened. Repeat it with the same request id.
    #[error("no answer is known; repeat with the same request id")]
    #[n(1)]
    Unknown,
    /// 903: the shard has no leader yet. It did not happen.
    #[error("the shard has no leader yet; try again in a moment")]
    #[n(2)]
    NotReady,
    /// 904: the node is going down. It did not happen.
    #[error("the node is draining; use another one or reconnect")]
    #[n(3)]
    Draining,
    /// 905: the disk is full. It did not happen. Reads go on.
    #[error("the disk is full: only reads are served until there is space again")]
    #[n(4)]
    ReadOnly,
    /// 906: the decision panicked. It is not repeated, because it would only panic once more.
    #[error("a fault of the server; its log says more")]
    #[n(5)]
    Internal,
}

impl Failure {
    /// Whether the command may have happened.
    pub fn may_have_happened(self) -> bool {
        matches!(self, Failure::Unknown | Failure::Internal)
    }
}

/// Times of a client's command that decide whether the node takes it, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct CallTimes {
    /// How long it has waited before it was read.
    pub unread_ms: u64,
    /// How long its buyer will still be there.
    pub patience_ms: u64,
}

/// The result of a submitted command.
pub type Result = std::result::Result<Outcome, Failure>;

/// Takes answers for many requests of one caller. The node's threads call it, so it must be quick and must not block.
pub trait ReplySink: Send + Sync + 'static {
    /// The result of the request that the caller numbered `tag`. Called exactly once for each.
    fn answer(&self, tag: u64, result: Result);
}

/// The receiver of one answer. Dropped without an answer it says [`Failure::Unknown`], or [`Failure::Internal`] after a panic, so
/// that a caller is never left waiting.
pub struct ReplyTo {
    sink: Option<Arc<dyn ReplySink>>,
    tag: u64,
    timeout_ms: u64,
    patience_ms: u64,
    unread_ms: u64,
    by: Option<SmolStr>,
}

impl ReplyTo {
    /// The answer to the request that the owner of `sink` numbered `tag`.
    pub fn new(sink: Arc<dyn ReplySink>, tag: u64) -> ReplyTo {
        ReplyTo { sink: Some(sink), tag, timeout_ms: TIMEOUT_MS, patience_ms: 0, unread_ms: 0, by: None }
    }

    /// Sets how long the caller waits, in milliseconds, instead of [`TIMEOUT_MS`]. A lost leader is replaced within it.
    #[must_use]
    pub fn with_timeout(mut self, timeout_ms: u64) -> ReplyTo {
        self.timeout_ms = timeout_ms;
        self
    }

    /// Sets how long the buyer will still be there, in milliseconds, if that is longer than the caller waits. An overloaded node
    /// refuses to begin a purchase that the buyer would not see finished.
    #[must_use]
    pub fn with_patience(mut self, patience_ms: u64) -> ReplyTo {
        self.patience_ms = patience_ms;
        self
    }

    /// Sets how long the command has waited before it was read, in milliseconds. Overload is measured from its arrival.
    #[must_use]
    pub fn with_unread(mut self, unread_ms: u64) -> ReplyTo {
        self.unread_ms = unread_ms;
        self
    }

    /// Names the key or the operator that asks. The log records the name with the command's events.
    #[must_use]
    pub fn by(mut self, name: Option<SmolStr>) -> ReplyTo {
        self.by = name;
        self
    }

    /// The name of the key or the operator that asks.
    pub fn asker(&self) -> Option<&SmolStr> {
        self.by.as_ref()
    }

    /// Names the caller among those that wait.
    pub(crate) fn key(&self) -> CallerKey {
        self.sink.as_ref().map_or((0, self.tag), |sink| key_of(sink, self.tag))
    }

    /// How long the caller waits, in milliseconds.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// The times of the command that is answered here.
    pub fn times(&self) -> CallTimes {
        CallTimes { unread_ms: self.unread_ms, patience_ms: self.patience_ms() }
    }

    /// How long the buyer will still be there, in milliseconds: at least as long as the caller waits.
    pub fn patience_ms(&self) -> u64 {
        self.patience_ms.max(self.timeout_ms)
    }

    /// Gives the answer.
    pub fn answer(mut self, result: Result) {
        if let Some(sink) = self.sink.take() {
            sink.answer(self.tag, result);
        }
    }
}

fn key_of(sink: &Arc<dyn ReplySink>, tag: u64) -> CallerKey {
    (Arc::as_ptr(sink).cast::<()>() as usize, tag)
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let blamed = contain::is_blamed(|| key_of(&sink, self.tag));
            sink.answer(self.tag, Err(if blamed { Failure::Internal } else { Failure::Unknown }));
        }
    }
}

impl std::fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReplyTo({})", self.tag)
    }
}
