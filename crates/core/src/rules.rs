//! The terms of a deployment, with lifetimes of carts and holds, and timeouts of clients and gateways.

use boxoffice_declare::Stored;

use crate::{fairness::Fairness, payment::OnDecline};

/// How often the wait for a gateway is doubled at most.
const DOUBLED_MAX: u32 = 5;

/// Terms of time and of payment. Operators may change them, so events have their results.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Rules {
    /// How long a cart lives untouched, unless the cart or a session says otherwise. 30 minutes (TH).
    #[n(0)]
    pub hold_ttl_ms: u64,
    /// The longest time to live a cart may ask for. One day.
    #[n(1)]
    pub hold_ttl_max_ms: u64,
    /// An active cart ends at this age even if it is touched. One day.
    #[n(2)]
    pub cart_age_max_ms: u64,
    /// The longest time to live of a cart that a guest opens. 15 minutes.
    #[n(3)]
    pub guest_ttl_max_ms: u64,
    /// A cart that a guest opened ends at this age. One hour.
    #[n(4)]
    pub guest_age_max_ms: u64,
    /// How long after a hold's deadline its inventory asks the cart about it, the grace of P8. Two seconds.
    #[n(5)]
    pub grace_ms: u64,
    /// How long after a grant the inventory asks the cart about the hold for the first time, even if it may live longer. This
    /// frees a hold after a crash between the grant and the cart's line. 10 seconds.
    #[n(6)]
    pub confirm_ms: u64,
    /// How long a checkout waits for all inventories to confirm the sale before it answers `settling`. Two seconds.
    #[n(7)]
    pub settle_ms: u64,
    /// How long until an ask without a reply is repeated. One second.
    #[n(8)]
    pub ask_again_ms: u64,
    /// How long a checkout waits for the gateway before it answers `payment_pending`. The attempt goes on. 10 seconds.
    #[n(9)]
    pub payment_wait_ms: u64,
    /// How long until a gateway is asked again with the same key. It doubles with each time, up to 32 times as long. Two seconds.
    #[n(10)]
    pub payment_again_ms: u64,
    /// What a decline does to a cart, if the checkout does not say.
    #[n(11)]
    pub on_decline: OnDecline,
    /// Whether there is a gateway. Without one no attempt begins, and earlier attempts stay open.
    #[n(13)]
    pub gateway: bool,
    /// What distinguishes the attempts to pay of a cluster that was restored from a backup. 0 in one that was not.
    #[n(14)]
    pub payment_epoch: u32,
    /// What one holder may have of a supply.
    #[n(12)]
    pub fairness: Fairness,
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

    /// How long until a gateway is asked again after this number of unknown outcomes, in milliseconds.
    pub(crate) fn payment_again_after(&self, unknown: u32) -> u64 {
        self.payment_again_ms.saturating_mul(1 << unknown.min(DOUBLED_MAX))
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
            payment_epoch: 0,
            fairness: Fairness::default(),
        }
    }
}
