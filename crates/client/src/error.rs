//! The result of a request: [`Reply`] or [`Error`].

use boxoffice_wire::{
    Fail,
    reply::{No, Unreadable},
    view::At,
};
use smol_str::SmolStr;

/// The answer to a granted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    /// The op's result.
    pub value: T,
    /// Versions of entities after the request, or at the request if it changed nothing. The entity that decided comes
    /// first, then the entities that it asked. Empty if there are none.
    pub at: Vec<At>,
    /// Whether the client sent the request more than once. The versions in `at` are then those of the last attempt, and
    /// may include later changes.
    pub retried: bool,
}

/// Why a request was not granted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request. Nothing changed, unless the refusal says how a payment ended
    /// ([`No::is_outcome`]). The refusal is final. No earlier attempt of the request can be granted any more.
    #[error("refused: {0}")]
    Refused(Box<No>),
    /// The request failed and did not happen. The exception is `internal`, after which the outcome is not known.
    #[error("failed: {0}")]
    Failed(Fail),
    /// The outcome is not known: there was no answer before the deadline, or only a refusal of a retry while an earlier
    /// attempt may still be granted. Repeat the request with the same request id, which is in the error if there is
    /// one.
    #[error(
        "no answer before the deadline; the command may or may not have happened. Repeat it with the same request id{}",
        in_parentheses(.0)
    )]
    Unknown(Option<SmolStr>),
    /// The client could not connect, or the server told it not to come back. With the reason.
    #[error("the connection is closed: {0}")]
    Closed(SmolStr),
    /// The server sent something that violates the protocol.
    #[error(transparent)]
    Protocol(#[from] Unreadable),
}

impl Error {
    /// The refusal, if the request was refused.
    pub fn refusal(&self) -> Option<&No> {
        match self {
            Error::Refused(no) => Some(no),
            Error::Failed(_) | Error::Unknown(_) | Error::Closed(_) | Error::Protocol(_) => None,
        }
    }

    /// Whether the command may have happened in spite of the error.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Error::Refused(_) => false,
            Error::Failed(fail) => fail.kind.may_have_happened(),
            Error::Unknown(_) | Error::Closed(_) | Error::Protocol(_) => true,
        }
    }
}

fn in_parentheses(request_id: &Option<SmolStr>) -> String {
    request_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default()
}
