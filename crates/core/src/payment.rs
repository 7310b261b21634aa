//! Payments, with calls to a gateway, its answers, and the records beside an order.

use core::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    id::{CartId, OrderId},
    money::Money,
    refusal::Refusal,
    time::Timestamp,
};

/// The longest opaque token of a client for its gateway, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256;

/// One attempt of a cart to pay. It is the idempotency key of all its calls to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentKey {
    pub cart: CartId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayCall {
    /// Set the amount aside.
    Authorize {
        key: PaymentKey,
        amount: Money,
        /// The client's token of the gateway.
        source: SmolStr,
        /// The order it will be for.
        order: OrderId,
    },
    /// Take the authorized amount, because the order is decided.
    Capture {
        key: PaymentKey,
        /// The gateway's name for the authorization.
        reference: SmolStr,
        amount: Money,
    },
    /// Give up an authorization that exists or may exist.
    Void {
        key: PaymentKey,
        /// The gateway's name for the authorization, if it is known.
        reference: Option<SmolStr>,
    },
    /// Pay back.
    Refund {
        key: PaymentKey,
        /// The number of the refund, from 1.
        refund: u32,
        /// The gateway's name for the authorization.
        reference: SmolStr,
        amount: Money,
    },
}

/// A step of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentStep {
    Authorize,
    Capture,
    Void,
    /// The refund with this number.
    Refund(u32),
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayOutcome {
    /// The amount is set aside.
    Authorized {
        /// The gateway's name for it.
        reference: SmolStr,
        amount: Money,
    },
    /// The amount is taken.
    Captured,
    /// The authorization is given up.
    Voided,
    /// The amount is paid back.
    Refunded,
    /// The payer's side said no.
    Declined {
        /// Why, in the gateway's words.
        reason: SmolStr,
    },
    /// A capture, void or refund that will not succeed, even if it is asked for again.
    Failed {
        /// Why, in the gateway's words.
        reason: SmolStr,
    },
    /// It may or may not have happened. The cart asks again with the same key.
    Unknown {
        /// What went wrong.
        reason: SmolStr,
    },
}

/// The effect of a decline on the cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDecline {
    /// Everything is released at once and the cart is canceled (AE).
    Release,
    /// The cart is active again until its deadline.
    Keep,
}

/// Why the payment of a checkout failed. The cart remembers it under the request of the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentFailure {
    Declined {
        /// Whether an operator said so, and not the gateway.
        by_operator: bool,
        /// Why, in the gateway's words.
        reason: SmolStr,
    },
    /// The gateway authorized another amount than it was asked for. The authorization is voided.
    AmountMismatch {
        /// What was asked for.
        asked: Money,
        /// What was set aside.
        got: Money,
    },
    /// Something in the cart was taken away while the gateway was asked, for example because its session is canceled. The attempt
    /// is voided.
    Withdrawn {
        /// Why it was taken away, in the operator's words.
        reason: SmolStr,
    },
    /// The buyer or an operator ended the attempt before the gateway had answered. It is voided.
    Canceled {
        /// Whether an operator ended it, and not the buyer.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentStatus {
    /// Paid elsewhere, as the client said.
    Recorded,
    /// Authorized. The capture is on its way.
    Authorized,
    /// The amount is taken.
    Captured,
    /// The capture failed and waits for an operator.
    CaptureFailed {
        /// Why, in the gateway's words.
        reason: SmolStr,
    },
}

/// A refund of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundRecord {
    /// Its number in the order, from 1.
    pub number: u32,
    /// When it was decided.
    pub at: Timestamp,
    /// Which lines of the order.
    pub lines: alloc::vec::Vec<u32>,
    pub amount: Money,
    /// Why, in the operator's words.
    pub reason: SmolStr,
    /// The state of the money.
    pub status: RefundStatus,
}

/// The state of a refund's money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefundStatus {
    /// The order was paid elsewhere, and so is the refund.
    Recorded,
    /// The gateway is asked, or will be.
    Pending,
    /// The amount is paid back.
    Refunded,
    /// It failed and waits for an operator.
    Failed {
        /// Why, in the gateway's words.
        reason: SmolStr,
    },
}

/// An attempt whose money is given up or will be. The cart keeps this record in every state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoidRecord {
    pub attempt: u32,
    pub status: VoidStatus,
}

/// The state of a void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoidStatus {
    /// The gateway is asked, or will be.
    Pending,
    /// The authorization is given up.
    Voided,
    /// It failed and waits for an operator.
    Failed {
        /// Why, in the gateway's words.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentCounts {
    /// Authorizations, captures, voids and refunds whose outcome is not known yet.
    pub pending: u64,
    /// Captures, voids and refunds that failed for good and wait for an operator.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// The amount was set aside under this name.
    Authorized {
        /// The gateway's name for it.
        reference: SmolStr,
    },
    /// The amount was not set aside.
    Declined,
    /// The amount was taken.
    Captured,
    /// The authorization was given up.
    Voided,
    /// The amount was paid back.
    Refunded {
        /// The number of the refund, from 1.
        refund: u32,
    },
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::PaymentKey;
    use crate::id::CartId;

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
