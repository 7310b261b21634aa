//! Rejections of the client port, and failures.

use std::borrow::Cow;

use boxoffice_core::refusal::Refusal;
pub use boxoffice_core::refusal::{FailKind, Rejection};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    bound::OutOfBounds,
    op::Op,
    raw::Malformed,
    repr::shape::{With, shapes},
};

/// 102 for this name. The message names the op with the same letters, for a name with other separators or capitals, such as
/// `cart/hold-seats`.
pub fn unknown_op(name: &str) -> Rejection {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        name.bytes().filter(u8::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase())
    }
    let op = Op::ALL.into_iter().find(|op| letters(op.name()).eq(letters(name)));
    let meant = op.map_or_else(SmolStr::default, |op| format_smolstr!("; did you mean `{}`?", op.name()));
    Rejection::UnknownOp(format_smolstr!("`{name}`{meant}"))
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
    /// A failure of this kind, with the message and wait of its row.
    pub fn new(kind: FailKind) -> Fail {
        let row = kind.row();
        Fail { kind, message: Cow::Borrowed(row.message), retry_after_ms: row.retry_after_ms }
    }

    /// The same with another message.
    pub fn saying(self, message: impl Into<Cow<'static, str>>) -> Fail {
        Fail { message: message.into(), ..self }
    }
}

shapes! {
    /// A failure.
    pub(crate) struct FailRepr as Fail {
        code: u16 = With("enum", FailKind::ALL.map(|kind| kind.code()).to_vec()),
        name!: Cow<'static, str> = FailKind::ALL.map(|kind| kind.name()),
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
