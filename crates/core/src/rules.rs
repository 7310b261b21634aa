//! The terms of a deployment: how long carts and holds live, how long clients and gateways are waited for.

use serde::{Deserialize, Serialize};

use crate::payment::OnDecline;

/// Terms of time and of paying; an operator may change them, so what they gave is written into events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// How long a cart lives without being touched, if neither cart nor session says otherwise. 30 minutes (TH).
    pub hold_ttl_ms: u64,
    /// The longest time to live a cart may ask for. One day.
    pub hold_ttl_max_ms: u64,
    /// An active cart ends at this age however often it is touched. One day.
    pub cart_age_max_ms: u64,
    /// The longest time to live of a cart that a guest opens. 15 minutes.
    pub guest_ttl_max_ms: u64,
    /// A cart that a guest opened ends at this age. One hour.
    pub guest_age_max_ms: u64,
    /// How long after a hold's deadline its entity asks the cart about it: the stated grace of P8. Two seconds.
    pub grace_ms: u64,
    /// How long after a hold was granted its entity asks the cart about it for the first time, however long it may live:
    /// what a crash between the grant and the cart's line left behind is free again then. 10 seconds.
    pub confirm_ms: u64,
    /// How long a client waits for the sells of its checkout before it is answered `settling`. Two seconds.
    pub settle_ms: u64,
    /// How long an unanswered ask waits before it is asked again. One second.
    pub ask_again_ms: u64,
    /// How long a client waits for a gateway before it is answered `payment_pending`; the attempt goes on. 10 seconds.
    pub payment_wait_ms: u64,
    /// How long a gateway has before it is asked again, with the same key; doubled with each time, up to 32 times as
    /// long. Two seconds.
    pub payment_again_ms: u64,
    /// What becomes of a cart whose payment is declined, if the checkout does not say.
    pub on_decline: OnDecline,
    /// Whether there is a gateway to be asked. Without one no attempt is begun; those that were begun before stay open.
    pub gateway: bool,
}

impl Rules {
    /// The longest time to live of a cart that is opened now, and its highest age, in milliseconds.
    pub(crate) fn bounds_of_carts(&self, guest: bool) -> (u64, u64) {
        if guest {
            (self.guest_ttl_max_ms.min(self.hold_ttl_max_ms), self.guest_age_max_ms.min(self.cart_age_max_ms))
        } else {
            (self.hold_ttl_max_ms, self.cart_age_max_ms)
        }
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            hold_ttl_ms: 30 * 60 * 1000,
            hold_ttl_max_ms: 24 * 60 * 60 * 1000,
            cart_age_max_ms: 24 * 60 * 60 * 1000,
            guest_ttl_max_ms: 15 * 60 * 1000,
            guest_age_max_ms: 60 * 60 * 1000,
            grace_ms: 2_000,
            confirm_ms: 10_000,
            settle_ms: 2_000,
            ask_again_ms: 1_000,
            payment_wait_ms: 10_000,
            payment_again_ms: 2_000,
            on_decline: OnDecline::Release,
            gateway: true,
        }
    }
}
