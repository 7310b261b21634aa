//! How requests end.

use boxoffice_core::answer::At;
use boxoffice_wire::{
    Fail,
    reply::{No, Unreadable},
};
use smol_str::SmolStr;

/// A granted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    /// The answer.
    pub value: T,
    /// Versions after, or at, the request: the entity that decided first, then those it asked. Empty where there is none.
    pub at: Vec<At>,
    /// Whether it was sent more than once: versions are then those at the last time, and may be of later changes.
    pub repeated: bool,
}

/// Why a request was not granted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The everyday no; nothing changed, unless it says how a payment ended ([`No::is_outcome`]). It is the last word: no
    /// earlier attempt of the request can be granted any more.
    #[error("refused: {0}")]
    Refused(Box<No>),
    /// It did not work, and did not happen (`internal` excepted, where nobody knows).
    #[error("failed: {0}")]
    Failed(Fail),
    /// No answer before the deadline, or only a refusal of a repeat while an earlier attempt may still be granted: it may or
    /// may not have happened. Repeat it with the same request id.
    #[error("no answer before the deadline; it may or may not have happened: repeat it with the same request id{}", with(.0))]
    Unknown(Option<SmolStr>),
    /// The client is closed, or the server told it to stay away.
    #[error("the connection is closed: {0}")]
    Closed(SmolStr),
    /// The server said something that is not of the protocol.
    #[error(transparent)]
    Protocol(#[from] Unreadable),
}

impl Error {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&No> {
        match self {
            Error::Refused(no) => Some(no),
            Error::Failed(_) | Error::Unknown(_) | Error::Closed(_) | Error::Protocol(_) => None,
        }
    }

    /// Whether the command may have happened.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Error::Refused(_) => false,
            Error::Failed(fail) => fail.kind.may_have_happened(),
            Error::Unknown(_) | Error::Closed(_) | Error::Protocol(_) => true,
        }
    }
}

fn with(request_id: &Option<SmolStr>) -> String {
    request_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default()
}
