//! Failures of the node as clients see them.

use boxoffice_core::refusal::Refusal;
use boxoffice_node::api::Failure;
use boxoffice_wire::{Fail, FailKind, Rejection};

pub(crate) fn fail_of(failure: Failure) -> Fail {
    let kind = match failure {
        Failure::Busy(retry_after_ms) => {
            return Fail { retry_after_ms: Some(retry_after_ms), ..Fail::new(FailKind::Busy) };
        }
        Failure::Unknown => FailKind::Unknown,
        Failure::NotReady => FailKind::NotReady,
        Failure::Draining => FailKind::Draining,
        Failure::ReadOnly => FailKind::ReadOnly,
        Failure::Internal => FailKind::Internal,
    };
    Fail::new(kind)
}

/// The refusal of an audit of the whole node to a key that is limited to some venues.
pub(crate) fn not_of_a_node() -> Rejection {
    Refusal::Forbidden("a whole node is about all venues, and this key is for some".into()).into()
}
