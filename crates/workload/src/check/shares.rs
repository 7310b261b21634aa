//! Compares what an entity has for one cart with the client's answers: nothing acknowledged is missing, and nothing
//! exists without a request.

use super::{Breach, Findings};
use crate::history::{CartRecord, Outcome};

/// What an entity holds for a cart or has sold to it, compared with what the client was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) is_empty: bool,
    /// Something that was granted is missing.
    pub(super) lacks: bool,
    /// There is more than what was granted and what requests with an unknown outcome may have added.
    pub(super) exceeds: bool,
}

impl Share {
    pub(super) fn fits(self) -> bool {
        !self.lacks && !self.exceeds
    }
}

/// Checks what an entity has for a cart. It must have what was granted if a deadline has not passed (`must_exist`).
pub(super) fn check(
    record: &CartRecord,
    (held, sold, must_exist): (Share, Share, bool),
    text: &dyn Fn() -> String,
    findings: &mut Findings,
) {
    let mut add = |breach, why: &str| findings.add(breach, || format!("{}; {why}", text()));
    match record.checkout_outcome() {
        Some(Outcome::Granted(_)) => {
            if sold.is_empty && sold.lacks && held.fits() {
                add(Breach::Unsettled, "the cart bought it, but it is not sold");
            } else if !sold.fits() {
                add(if sold.lacks { Breach::Lost } else { Breach::Unexplained }, "the cart bought it");
            } else if !held.is_empty {
                add(Breach::Unexplained, "the cart is done");
            }
        }
        Some(Outcome::Unknown) => {
            // A payment with an unknown outcome may have been declined. Everything was released then.
            let is_gone = sold.is_empty && held.is_empty && (!must_exist || record.gateway);
            let is_whole = is_gone || (sold.is_empty && held.fits()) || (held.is_empty && sold.fits());
            if !is_whole {
                add(Breach::Lost, "the cart may have bought it");
            }
        }
        Some(Outcome::Refused { .. } | Outcome::NotDone) | None => {
            if !sold.is_empty {
                add(Breach::Unexplained, "the cart did not buy");
            }
            if record.is_declined() {
                if !held.is_empty {
                    add(Breach::Unsettled, "the cart's payment was declined");
                }
                return;
            }
            if must_exist && held.lacks {
                add(Breach::Lost, "its deadline has not passed");
            }
            if held.exceeds {
                add(Breach::Unexplained, "it was granted less");
            }
        }
    }
}
