//! Payments, with calls to a gateway, its answers, and the records beside an order.

use core::{fmt, str::FromStr};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    id::{CartId, OrderId},
    money::Money,
    planted,
    refusal::Refusal,
    time::Timestamp,
};

/// The longest opaque token of a client for its gateway, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256;

/// One attempt of a cart to pay. It is the idempotency key of all its calls to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
pub struct PaymentKey {
    #[n(0)]
    pub cart: CartId,
    /// The number of the attempt, from 1.
    #[n(1)]
    pub attempt: u32,
}

/// The lower bits of an attempt's number, which count the attempts of a cart. A cart begins fewer checkouts than they can count.
const ATTEMPT_BITS: u32 = 12;

/// The highest number that distinguishes the attempts of a cluster that was restored from a backup.
pub const PAYMENT_EPOCH_MAX: u32 = u32::MAX >> ATTEMPT_BITS;

/// The number of the attempt after `count`, with `epoch` in its upper bits. So the gateway, which may know attempts that the backup
/// does not, never takes it for one of them. `epoch` is 0 in a cluster that was not restored. `None` after the highest number.
pub(crate) fn next_attempt(count: u32, epoch: u32) -> Option<u32> {
    let epoch = if planted::is("a payment key used twice") { 0 } else { epoch };
    match epoch == 0 || count >> ATTEMPT_BITS == epoch {
        true => count.checked_add(1),
        false => Some((epoch << ATTEMPT_BITS) + 1),
    }
}

/// Whether an attempt has the number after `count`, in whichever epoch.
pub(crate) fn follows(attempt: u32, count: u32) -> bool {
    [0, attempt >> ATTEMPT_BITS].into_iter().any(|epoch| next_attempt(count, epoch) == Some(attempt))
}

impl fmt::Display for PaymentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.cart, self.attempt)
    }
}

impl FromStr for PaymentKey {
    type Err = ();

    /// The key with this text, which is 32 hexadecimal digits, `-` and the attempt.
    fn from_str(text: &str) -> Result<PaymentKey, ()> {
        let (cart, attempt) = text.split_once('-').ok_or(())?;
        let plain = cart.len() == 32 && cart.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || !number {
            return Err(());
        }
        let cart = CartId(u128::from_str_radix(cart, 16).map_err(|_| ())?);
        Ok(PaymentKey { cart, attempt: attempt.parse().map_err(|_| ())? })
    }
}

/// A call to a gateway. A repeat with the same key and step has no second effect.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum GatewayCall {
    /// Set the amount aside.
    #[n(0)]
    Authorize {
        #[n(0)]
        key: PaymentKey,
        #[n(1)]
        amount: Money,
        /// The client's token of the gateway.
        #[n(3)]
        source: SmolStr,
        /// The order it will be for.
        #[n(2)]
        order: OrderId,
    },
    /// Take the authorized amount, because the order is decided.
    #[n(1)]
    Capture {
        #[n(0)]
        key: PaymentKey,
        /// The gateway's name for the authorization.
        #[n(2)]
        reference: SmolStr,
        #[n(1)]
        amount: Money,
    },
    /// Give up an authorization that exists or may exist.
    #[n(2)]
    Void {
        #[n(0)]
        key: PaymentKey,
        /// The gateway's name for the authorization, if it is known.
        #[n(1)]
        reference: Option<SmolStr>,
    },
    /// Pay back.
    #[n(3)]
    Refund {
        #[n(0)]
        key: PaymentKey,
        /// The number of the refund, from 1.
        #[n(1)]
        refund: u32,
        /// The gateway's name for the authorization.
        #[n(3)]
        reference: SmolStr,
        #[n(2)]
        amount: Money,
    },
}

/// A step of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum PaymentStep {
    #[n(0)]
    Authorize,
    #[n(1)]
    Capture,
    #[n(2)]
    Void,
    /// The refund with this number.
    #[n(3)]
    Refund(#[n(0)] u32),
}

impl GatewayCall {
    /// The attempt it belongs to.
    pub fn key(&self) -> PaymentKey {
        match self {
            GatewayCall::Authorize { key, .. }
            | GatewayCall::Capture { key, .. }
            | GatewayCall::Void { key, .. }
            | GatewayCall::Refund { key, .. } => *key,
        }
    }

    /// Its step.
    pub fn step(&self) -> PaymentStep {
        match self {
            GatewayCall::Authorize { .. } => PaymentStep::Authorize,
            GatewayCall::Capture { .. } => PaymentStep::Capture,
            GatewayCall::Void { .. } => PaymentStep::Void,
            GatewayCall::Refund { refund, .. } => PaymentStep::Refund(*refund),
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum GatewayOutcome {
    /// The amount is set aside.
    #[n(0)]
    Authorized {
        /// The gateway's name for it.
        #[n(1)]
        reference: SmolStr,
        #[n(0)]
        amount: Money,
    },
    /// The amount is taken.
    #[n(1)]
    Captured,
    /// The authorization is given up.
    #[n(2)]
    Voided,
    /// The amount is paid back.
    #[n(3)]
    Refunded,
    /// The payer's side said no.
    #[n(4)]
    Declined {
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
    /// A capture, void or refund that will not succeed, even if it is asked for again.
    #[n(5)]
    Failed {
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
    /// It may or may not have happened. The cart asks again with the same key.
    #[n(6)]
    Unknown {
        /// What went wrong.
        #[n(0)]
        reason: SmolStr,
    },
}

/// The effect of a decline on the cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum OnDecline {
    /// Everything is released at once and the cart is canceled (AE).
    #[n(0)]
    Release,
    /// The cart is active again until its deadline.
    #[n(1)]
    Keep,
}

/// Why the payment of a checkout failed. The cart remembers it under the request of the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum PaymentFailure {
    #[n(0)]
    Declined {
        /// Whether an operator said so, and not the gateway.
        #[n(1)]
        by_operator: bool,
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
    /// The gateway authorized another amount than it was asked for. The authorization is voided.
    #[n(1)]
    AmountMismatch {
        /// What was asked for.
        #[n(0)]
        asked: Money,
        /// What was set aside.
        #[n(1)]
        got: Money,
    },
    /// Something in the cart was taken away while the gateway was asked, for example because its session is canceled. The attempt
    /// is voided.
    #[n(2)]
    Withdrawn {
        /// Why it was taken away, in the operator's words.
        #[n(0)]
        reason: SmolStr,
    },
    /// The buyer or an operator ended the attempt before the gateway had answered. It is voided.
    #[n(3)]
    Canceled {
        /// Whether an operator ended it, and not the buyer.
        #[n(0)]
        by_operator: bool,
    },
}

impl PaymentFailure {
    /// The refusal of the checkout and of its repeats.
    pub fn refusal(&self) -> Refusal {
        match self {
            PaymentFailure::Declined { reason, .. } => Refusal::PaymentDeclined(reason.clone()),
            PaymentFailure::AmountMismatch { asked, got } => Refusal::AmountMismatch { asked: *asked, got: *got },
            PaymentFailure::Withdrawn { reason } => Refusal::CheckoutWithdrawn(reason.clone()),
            PaymentFailure::Canceled { .. } => Refusal::CheckoutCanceled,
        }
    }
}

/// The state of an order's money. It is a record beside the order, which never changes.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum PaymentStatus {
    /// Paid elsewhere, as the client said.
    #[n(0)]
    Recorded,
    /// Authorized. The capture is on its way.
    #[n(1)]
    Authorized,
    /// The amount is taken.
    #[n(2)]
    Captured,
    /// The capture failed and waits for an operator.
    #[n(3)]
    CaptureFailed {
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
}

/// A refund of an order.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct RefundRecord {
    /// Its number in the order, from 1.
    #[n(0)]
    pub number: u32,
    /// When it was decided.
    #[n(1)]
    pub at: Timestamp,
    /// Which lines of the order.
    #[n(2)]
    pub lines: alloc::vec::Vec<u32>,
    #[n(3)]
    pub amount: Money,
    /// Why, in the operator's words.
    #[n(5)]
    pub reason: SmolStr,
    /// The state of the money.
    #[n(4)]
    pub status: RefundStatus,
}

/// The state of a refund's money.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum RefundStatus {
    /// The order was paid elsewhere, and so is the refund.
    #[n(0)]
    Recorded,
    /// The gateway is asked, or will be.
    #[n(1)]
    Pending,
    /// The amount is paid back.
    #[n(2)]
    Refunded,
    /// It failed and waits for an operator.
    #[n(3)]
    Failed {
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
}

/// An attempt whose money is given up or will be. The cart keeps this record in every state.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct VoidRecord {
    #[n(0)]
    pub attempt: u32,
    #[n(1)]
    pub status: VoidStatus,
}

/// The state of a void.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum VoidStatus {
    /// The gateway is asked, or will be.
    #[n(0)]
    Pending,
    /// The authorization is given up.
    #[n(1)]
    Voided,
    /// It failed and waits for an operator.
    #[n(2)]
    Failed {
        /// Why, in the gateway's words.
        #[n(0)]
        reason: SmolStr,
    },
}

/// A step of a payment that is not over, or that failed and waits for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPayment {
    pub key: PaymentKey,
    pub step: PaymentStep,
    /// Whether it failed for good. Otherwise its outcome is not known yet.
    pub failed: bool,
}

/// How many steps of payments are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct PaymentCounts {
    /// Authorizations, captures, voids and refunds whose outcome is not known yet.
    #[n(0)]
    pub pending: u64,
    /// Captures, voids and refunds that failed for good and wait for an operator.
    #[n(1)]
    pub failed: u64,
}

impl PaymentCounts {
    /// Counts one step.
    pub fn count(&mut self, open: &OpenPayment) {
        if open.failed { self.failed += 1 } else { self.pending += 1 }
    }

    /// Adds other counts.
    pub fn add(&mut self, more: PaymentCounts) {
        self.pending += more.pending;
        self.failed += more.failed;
    }

    /// Takes away what was added before.
    pub fn subtract(&mut self, less: PaymentCounts) {
        self.pending -= less.pending;
        self.failed -= less.failed;
    }
}

/// An operator's report of a step whose outcome the gateway does not give, or that was done by hand after it had failed.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Settlement {
    /// The amount was set aside under this name.
    #[n(0)]
    Authorized {
        /// The gateway's name for it.
        #[n(0)]
        reference: SmolStr,
    },
    /// The amount was not set aside.
    #[n(1)]
    Declined,
    /// The amount was taken.
    #[n(2)]
    Captured,
    /// The authorization was given up.
    #[n(3)]
    Voided,
    /// The amount was paid back.
    #[n(4)]
    Refunded {
        /// The number of the refund, from 1.
        #[n(0)]
        refund: u32,
    },
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{PaymentKey, follows, next_attempt};
    use crate::id::CartId;

    #[test]
    fn attempts_of_a_restored_cluster_have_numbers_of_their_own() {
        assert_eq!([next_attempt(0, 0), next_attempt(7, 0), next_attempt(u32::MAX, 0)], [Some(1), Some(8), None]);
        let first = next_attempt(7, 5).expect("a number");
        assert!(first > 4_096 && follows(first, 7) && follows(8, 7) && !follows(9, 7));
        assert_eq!(next_attempt(first, 5), Some(first + 1));
        // A second restore, whatever its epoch is.
        let second = next_attempt(first, 3).expect("a number");
        assert!(second != first && second != 8 && follows(second, first));
    }

    #[test]
    fn payment_keys_round_trip() {
        let key = PaymentKey { cart: CartId(0xab), attempt: 7 };
        assert_eq!(key.to_string(), "000000000000000000000000000000ab-7");
        assert_eq!(key.to_string().parse(), Ok(key));
        for bad in [
            "",
            "ab-1",
            "000000000000000000000000000000AB-1",
            "000000000000000000000000000000ab",
            "000000000000000000000000000000ab-",
            "000000000000000000000000000000ab-+1",
            "000000000000000000000000000000ab-99999999999",
        ] {
            assert_eq!(bad.parse::<PaymentKey>(), Err(()), "{bad}");
        }
    }
}
