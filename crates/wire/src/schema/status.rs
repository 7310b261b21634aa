//! The HTTP status of each verdict.

use crate::encode::Verdict;

/// The status of a granted request.
pub const OK: u16 = 200;

/// The body did not arrive in time.
pub const TOO_SLOW: u16 = 408;

/// The op does not have this method.
pub const WRONG_METHOD: u16 = 405;

/// The status of a verdict.
pub fn of_verdict(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Ok(..) => OK,
        Verdict::No(refusal) => refusal.row().http,
        Verdict::Rejected(why) => why.row().http,
        Verdict::Fail(fail) => fail.kind.row().http,
    }
}

/// The description of a status.
pub(crate) fn meaning(status: u16) -> &'static str {
    match status {
        OK => "Granted.",
        400 => "Refused: the request is not what the op asks for.",
        401 => "Refused: it needs a key or token, and what was shown is none.",
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
