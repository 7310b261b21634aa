//! Retries: how often requests were sent again, and why.

use std::sync::atomic::{AtomicU64, Ordering};

use boxoffice_wire::FailKind;

/// How often requests were sent again, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCounts {
    /// The connection broke before an answer, or no answer came in time.
    pub lost: u64,
    /// There was no connection. The request was not sent.
    pub no_connection: u64,
    /// The node did not know the outcome.
    pub unknown: u64,
    /// The node could not take the request yet: the shard has no leader, or the node does not know the leader.
    pub not_ready: u64,
    pub draining: u64,
    /// The node was overloaded.
    pub busy: u64,
    /// The first request with this request id was still being decided.
    pub in_progress: u64,
    /// The request was refused, and an earlier attempt might still be granted.
    pub refused: u64,
}

impl RetryCounts {
    /// The sum over all reasons.
    pub fn all(&self) -> u64 {
        let RetryCounts { lost, no_connection, unknown, not_ready, draining, busy, in_progress, refused } = self;
        lost + no_connection + unknown + not_ready + draining + busy + in_progress + refused
    }
}

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryReason {
    Lost,
    NoConnection,
    Unknown,
    NotReady,
    Draining,
    Busy,
    InProgress,
    Refused,
}

impl RetryReason {
    pub(crate) fn of_fail(kind: FailKind) -> RetryReason {
        match kind {
            FailKind::Unknown => RetryReason::Unknown,
            FailKind::Draining => RetryReason::Draining,
            FailKind::Busy => RetryReason::Busy,
            FailKind::NotReady | FailKind::Internal | FailKind::ReadOnly => RetryReason::NotReady,
        }
    }

    /// Whether the retry goes to another node. A node that did not know the outcome is asked again, since only a
    /// refusal from that node tells how the first attempt ended.
    pub(crate) fn changes_node(self) -> bool {
        match self {
            RetryReason::Lost | RetryReason::NoConnection | RetryReason::NotReady | RetryReason::Draining => true,
            RetryReason::Unknown | RetryReason::Busy | RetryReason::InProgress | RetryReason::Refused => false,
        }
    }
}

/// The counters behind [`RetryCounts`].
#[derive(Debug, Default)]
pub(crate) struct RetryCounters {
    by_reason: [AtomicU64; 8],
}

impl RetryCounters {
    pub(crate) fn increment(&self, reason: RetryReason) {
        self.by_reason[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> RetryCounts {
        let count = |reason: RetryReason| self.by_reason[reason as usize].load(Ordering::Relaxed);
        RetryCounts {
            lost: count(RetryReason::Lost),
            no_connection: count(RetryReason::NoConnection),
            unknown: count(RetryReason::Unknown),
            not_ready: count(RetryReason::NotReady),
            draining: count(RetryReason::Draining),
            busy: count(RetryReason::Busy),
            in_progress: count(RetryReason::InProgress),
            refused: count(RetryReason::Refused),
        }
    }
}
