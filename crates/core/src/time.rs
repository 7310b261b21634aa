//! Instants and spans, in milliseconds. Time comes in from outside; nothing here reads a clock.

use serde::{Deserialize, Serialize};

use crate::payment::OnDecline;

/// Milliseconds since 1970-01-01T00:00:00Z: of true time, or, where it says so, of a shard's running time. That one never
/// steps and carries all deadlines; it means nothing outside its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// The year 9999: no instant handed in by a client may lie beyond it.
pub const TIMESTAMP_MAX: Timestamp = Timestamp(253_402_300_799_999);

impl Timestamp {
    /// This instant, `span_ms` later; the end of time if there is no such instant.
    pub fn after(self, span_ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(span_ms).min(TIMESTAMP_MAX.0))
    }

    /// This instant, so far ahead or, if that is negative, behind.
    pub fn ahead(self, distance_ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add_signed(distance_ms))
    }
}

/// An instant of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Running time: orders everything, and deadlines are kept in it.
    pub at: Timestamp,
    /// True time less running time, in milliseconds.
    pub distance_ms: i64,
}

impl Moment {
    /// True time: for dates, opening hours, notice, and until when something is sold.
    pub fn true_time(self) -> Timestamp {
        self.at.ahead(self.distance_ms)
    }
}

impl From<Timestamp> for Moment {
    /// Of a shard whose running time is true time.
    fn from(at: Timestamp) -> Moment {
        Moment { at, distance_ms: 0 }
    }
}

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
