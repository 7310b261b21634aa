//! Repeats: how often requests were sent again, and why.

use std::sync::atomic::{AtomicU64, Ordering};

use boxoffice_wire::FailKind;

/// How often requests were sent again, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// The connection broke before an answer.
    pub lost: u64,
    /// There was no connection; nothing had been sent.
    pub no_connection: u64,
    /// The node did not know the outcome.
    pub unknown: u64,
    /// The node could not take it yet: its shard has no leader, or it does not know it.
    pub not_ready: u64,
    /// The node is going away.
    pub draining: u64,
    /// The node had too much to do.
    pub busy: u64,
    /// The first request with the id was still being decided.
    pub in_progress: u64,
    /// It was refused, and an earlier attempt might still be granted.
    pub refused: u64,
}

impl Repeats {
    /// All of them.
    pub fn all(&self) -> u64 {
        let Repeats { lost, no_connection, unknown, not_ready, draining, busy, in_progress, refused } = self;
        lost + no_connection + unknown + not_ready + draining + busy + in_progress + refused
    }
}

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Lost,
    NoConnection,
    Unknown,
    NotReady,
    Draining,
    Busy,
    InProgress,
    Refused,
}

impl Why {
    /// After such a failure.
    pub(crate) fn failed(kind: FailKind) -> Why {
        match kind {
            FailKind::Unknown => Why::Unknown,
            FailKind::Draining => Why::Draining,
            FailKind::Busy => Why::Busy,
            FailKind::NotReady | FailKind::Internal | FailKind::ReadOnly => Why::NotReady,
        }
    }

    /// Whether another node may do better. A node that did not know the outcome is asked again: only there a refusal of
    /// the repeat says what became of the first attempt.
    pub(crate) fn goes_elsewhere(self) -> bool {
        match self {
            Why::Lost | Why::NoConnection | Why::NotReady | Why::Draining => true,
            Why::Unknown | Why::Busy | Why::InProgress | Why::Refused => false,
        }
    }
}

/// The same, counted as it happens.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    by_why: [AtomicU64; 8],
}

impl Repeated {
    /// Counts one.
    pub(crate) fn note(&self, why: Why) {
        self.by_why[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> Repeats {
        let of = |why: Why| self.by_why[why as usize].load(Ordering::Relaxed);
        Repeats {
            lost: of(Why::Lost),
            no_connection: of(Why::NoConnection),
            unknown: of(Why::Unknown),
            not_ready: of(Why::NotReady),
            draining: of(Why::Draining),
            busy: of(Why::Busy),
            in_progress: of(Why::InProgress),
            refused: of(Why::Refused),
        }
    }
}
