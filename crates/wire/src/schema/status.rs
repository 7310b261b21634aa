//! The HTTP status of each verdict.

use boxoffice_core::refusal::Refusal;

use crate::{FailKind, Rejection, encode::Verdict};

/// The status of a granted request.
pub const OK: u16 = 200;

/// The body did not arrive in time.
pub const TOO_SLOW: u16 = 408;

/// The op does not have this method.
pub const WRONG_METHOD: u16 = 405;

/// The status of a refusal. It is chosen by the number where HTTP has a status for it, else by the name, so that new
/// refusals have a status too.
pub fn of_refusal(code: u16, name: &str) -> u16 {
    match code {
        102 => 404,
        103 => 413,
        105 | 106 => 409,
        107 => 401,
        108 | 305 | 810 => 403,
        109 => 429,
        601 => 402,
        100..=199 => 400,
        _ if name == "not_found" || name.starts_with("no_such_") => 404,
        _ if name.starts_with("bad_") || name.starts_with("duplicate_") => 400,
        _ => 409,
    }
}

/// The status of a failure.
pub fn of_failure(kind: FailKind) -> u16 {
    match kind {
        FailKind::Busy | FailKind::NotReady | FailKind::Draining => 503,
        FailKind::Unknown => 504,
        FailKind::ReadOnly => 507,
        FailKind::Internal => 500,
    }
}

/// The status of a verdict.
pub fn of_verdict(verdict: &Verdict) -> u16 {
    let refused = |refusal: &Refusal| of_refusal(refusal.code(), refusal.name());
    let rejected = |why: &Rejection| of_refusal(why.code(), why.name());
    match verdict {
        Verdict::Ok(..) => OK,
        Verdict::No(refusal) => refused(refusal),
        Verdict::Rejected(why) => rejected(why),
        Verdict::Fail(fail) => of_failure(fail.kind),
    }
}

/// The description of a status.
pub(super) fn meaning(status: u16) -> &'static str {
    match status {
        OK => "Granted.",
        400 => "Refused: the request is not what the op asks for.",
        401 => "Refused: this needs the operators' token, and it was not that.",
        402 => "Refused: the payment was declined.",
        403 => "Refused: not allowed to the caller.",
        404 => "Refused: there is no such thing.",
        WRONG_METHOD => "Refused: the op is not asked with this method.",
        TOO_SLOW => "Refused: the body did not arrive whole in time.",
        409 => "Refused: the current state does not allow it.",
        413 => "Refused: too large.",
        429 => "Refused: too many requests.",
        500 => "Failed: a fault of the server; it may or may not have happened.",
        503 => "Failed: too busy, not ready or going away; it did not happen.",
        504 => "Failed: no answer before the deadline; repeat with the same `Idempotency-Key`.",
        507 => "Failed: the disk is full or broken; it did not happen.",
        _ => "Refused.",
    }
}
