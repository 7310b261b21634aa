//! Failures of the node as clients see them.

use boxoffice_node::api::Failure;
use boxoffice_wire::{Fail, FailKind};

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
