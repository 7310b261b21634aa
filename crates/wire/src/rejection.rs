//! Rejections of the client port, and failures.

use std::borrow::Cow;

use boxoffice_core::{refusal::Refusal, seat::SeatSetError};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    bound::OutOfBounds,
    op::Op,
    raw::Malformed,
    repr::shape::{With, shapes},
};

/// A refusal before any entity was asked. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A refusal of the core.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// 102: There is no such op.
    ///
    /// Ask for an op of the table. An older node may not know a newer op.
    #[error("there is no op `{0}`{meant}", meant = meant(.0))]
    UnknownOp(SmolStr),
    /// 103: A frame, a list or a text is too big, or a command for a segment of the log.
    ///
    /// Send less at once.
    #[error("too large: {0}")]
    TooLarge(SmolStr),
    /// 107: The op needs a key or token and none was shown, or what was shown is wrong.
    ///
    /// Show another key or token. Guesses of one network are answered one after the other, each later than the one before.
    #[error("unauthenticated: {0}")]
    Unauthenticated(SmolStr),
    /// 109: The caller has taken enough for now.
    ///
    /// Wait `retry_after_ms`, then repeat. A caller that needs more shows a key.
    #[error("rate limited: {why}")]
    RateLimited {
        /// The limit, in words.
        why: SmolStr,
        /// When to retry, in milliseconds from now, if known.
        retry_after_ms: Option<u64>,
    },
    /// 110: The client and the node have no version in common.
    ///
    /// Use a client of the node's version.
    #[error("unsupported version: {0}")]
    UnsupportedVersion(SmolStr),
}

impl Rejection {
    /// 101 with this message.
    pub fn bad_request(reason: impl AsRef<str>) -> Rejection {
        Rejection::Refusal(Refusal::BadRequest(SmolStr::new(reason)))
    }

    /// The number, which never changes.
    pub fn code(&self) -> u16 {
        self.code_and_name().0
    }

    /// The name, which never changes.
    pub fn name(&self) -> &'static str {
        self.code_and_name().1
    }

    fn code_and_name(&self) -> (u16, &'static str) {
        match self {
            Rejection::Refusal(refusal) => (refusal.code(), refusal.name()),
            Rejection::UnknownOp(_) => (102, "unknown_op"),
            Rejection::TooLarge(_) => (103, "too_large"),
            Rejection::Unauthenticated(_) => (107, "unauthenticated"),
            Rejection::RateLimited { .. } => (109, "rate_limited"),
            Rejection::UnsupportedVersion(_) => (110, "unsupported_version"),
        }
    }
}

/// Names the op with the same letters, for a name with other separators or capitals, such as `cart/hold-seats`.
fn meant(name: &str) -> SmolStr {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase())
    }
    let op = Op::ALL.into_iter().find(|op| letters(op.name()).eq(letters(name)));
    op.map_or_else(SmolStr::default, |op| format_smolstr!("; did you mean `{}`?", op.name()))
}

impl From<Malformed> for Rejection {
    fn from(Malformed(reason): Malformed) -> Rejection {
        Rejection::bad_request(reason)
    }
}

impl From<OutOfBounds> for Rejection {
    fn from(fault: OutOfBounds) -> Rejection {
        match fault {
            OutOfBounds::Bad(words) => Rejection::bad_request(words),
            OutOfBounds::TooLarge(words) => Rejection::TooLarge(words),
            OutOfBounds::Quantity(words) => Rejection::Refusal(Refusal::BadQuantity(words)),
        }
    }
}

impl From<SeatSetError> for Rejection {
    fn from(error: SeatSetError) -> Rejection {
        match error {
            SeatSetError::Empty => Rejection::bad_request("a list of seats is empty"),
            SeatSetError::TooMany => {
                let most = boxoffice_core::seat::HOLD_SEATS_MAX;
                Rejection::TooLarge(format_smolstr!("at most {most} seats at once"))
            }
            SeatSetError::Duplicate(seats) => Rejection::Refusal(Refusal::DuplicateSeat(seats)),
        }
    }
}

/// The kinds of failure. A failure is not a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailKind {
    /// 901: The node has too much to do.
    ///
    /// Repeat after `retry_after_ms`, with jitter.
    Busy,
    /// 902: No answer came before the deadline.
    ///
    /// Repeat with the same `rid`, over the same connection while it stands.
    Unknown,
    /// 903: The node that decides this is not ready, for example because its shard elects a leader.
    ///
    /// Repeat after `retry_after_ms`, with jitter, or ask another node.
    NotReady,
    /// 904: The node is going away.
    ///
    /// Repeat at another node.
    Draining,
    /// 905: Nothing can be written. The disk is full or broken.
    ///
    /// Repeat at another node. An operator must make room.
    ReadOnly,
    /// 906: A fault of the server, which its log tells. A decision panicked. Where an earlier attempt may have happened
    /// the answer is 902 instead.
    ///
    /// Do not repeat it by yourself. It may fail in the same way at any node, so neither the nodes nor the Rust client
    /// repeat it.
    Internal,
}

impl FailKind {
    /// Every kind, by number.
    pub const ALL: [FailKind; 6] = [
        FailKind::Busy,
        FailKind::Unknown,
        FailKind::NotReady,
        FailKind::Draining,
        FailKind::ReadOnly,
        FailKind::Internal,
    ];

    /// The number, which never changes.
    pub fn code(self) -> u16 {
        match self {
            FailKind::Busy => 901,
            FailKind::Unknown => 902,
            FailKind::NotReady => 903,
            FailKind::Draining => 904,
            FailKind::ReadOnly => 905,
            FailKind::Internal => 906,
        }
    }

    /// The name, which never changes.
    pub fn name(self) -> &'static str {
        match self {
            FailKind::Busy => "busy",
            FailKind::Unknown => "unknown",
            FailKind::NotReady => "not_ready",
            FailKind::Draining => "draining",
            FailKind::ReadOnly => "read_only",
            FailKind::Internal => "internal",
        }
    }

    /// Whether the command may have happened all the same.
    pub fn may_have_happened(self) -> bool {
        match self {
            FailKind::Unknown | FailKind::Internal => true,
            FailKind::Busy | FailKind::NotReady | FailKind::Draining | FailKind::ReadOnly => false,
        }
    }

    /// The kind with this number. An unknown number counts as internal.
    fn from_code(code: u16) -> FailKind {
        FailKind::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(FailKind::Internal)
    }
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{}: {message}", .kind.name())]
#[serde(from = "FailRepr", into = "FailRepr")]
pub struct Fail {
    /// The kind, which decides whether a repeat is safe.
    pub kind: FailKind,
    /// The message, with what to do.
    pub message: Cow<'static, str>,
    /// When to retry, in milliseconds from now, if the server says.
    pub retry_after_ms: Option<u32>,
}

impl Fail {
    /// A failure of this kind, with the default message and wait.
    pub fn new(kind: FailKind) -> Fail {
        let (message, retry_after_ms) = match kind {
            FailKind::Busy => ("too much is under way; try again", Some(100)),
            FailKind::Unknown => ("no answer before the deadline; repeat with the same rid", Some(100)),
            FailKind::NotReady => ("the node that decides this is not ready yet; try again", Some(200)),
            FailKind::Draining => ("this node is going away; try another", Some(0)),
            FailKind::ReadOnly => ("the node cannot write: its disk is full or broken", Some(5_000)),
            FailKind::Internal => ("a fault of the server; its log says more", None),
        };
        Fail { kind, message: Cow::Borrowed(message), retry_after_ms }
    }

    /// The same with another message.
    pub fn saying(self, message: impl Into<Cow<'static, str>>) -> Fail {
        Fail { message: message.into(), ..self }
    }
}

shapes! {
    /// A failure.
    pub(crate) struct FailRepr as Fail {
        code: u16 = With("enum", FailKind::ALL.map(FailKind::code).to_vec()),
        name!: Cow<'static, str> = FailKind::ALL.map(FailKind::name),
        message!: Cow<'static, str>,
        retry_after_ms?: Option<u32>,
    }
}

impl From<Fail> for FailRepr {
    fn from(Fail { kind, message, retry_after_ms }: Fail) -> FailRepr {
        FailRepr { code: kind.code(), name: Cow::Borrowed(kind.name()), message, retry_after_ms }
    }
}

impl From<FailRepr> for Fail {
    fn from(FailRepr { code, name: _, message, retry_after_ms }: FailRepr) -> Fail {
        Fail { kind: FailKind::from_code(code), message, retry_after_ms }
    }
}
