//! What a cart is told or asked.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::want::WantedLine;
use crate::{
    id::{CartId, CartToken, Id},
    money::Money,
    payment::{GatewayOutcome, OnDecline, PaymentKey, PaymentStep, Settlement},
    seat::SeatSet,
};

/// What a cart is told or asked. Those of buyers were made with the cart's token; `Order` needs the order's id only; the
/// rest is for operators and the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartCommand {
    /// `cart.open`. A cart that is open already answers as it is, and remembers that too.
    Open {
        /// Whose it is, as the client says.
        customer: Option<Id>,
        /// How long it lives untouched.
        ttl_ms: Option<u64>,
        /// Whether a guest opens it: the bounds of guests' carts apply.
        guest: bool,
    },
    /// `cart.get`.
    Get,
    /// `cart.hold_…` (one line) and `cart.hold_all` (several, all or none). Opens the cart if need be.
    Hold {
        /// What is wanted.
        lines: Vec<WantedLine>,
        /// Whose the cart is, if that was not said before.
        customer: Option<Id>,
        /// Whether a guest asks: if that opens the cart, the bounds of guests' carts apply.
        guest: bool,
    },
    /// `cart.set_quantity`: of a line of units or places; 0 ends it.
    SetQuantity {
        /// Which line.
        line: u32,
        /// How many altogether.
        quantity: u32,
    },
    /// `cart.release`: the whole line, or these seats of it.
    Release {
        /// Which line.
        line: u32,
        /// Which seats of it; all if absent.
        seats: Option<SeatSet>,
    },
    /// `cart.cancel`: gives everything back and ends the cart.
    Cancel,
    /// `cart.checkout`: writes the order and turns holds into sales.
    Checkout {
        /// How it is paid.
        payment: Payment,
        /// Who buys, if not said before.
        customer: Option<Id>,
        /// Where it goes.
        shipping: Option<Shipping>,
        /// What the buyer believes to buy.
        expect: Expect,
    },
    /// `order.refund`: the order's lines are back on sale and their price is paid back.
    Refund {
        /// Which lines; all that are left if absent.
        lines: Option<Vec<u32>>,
        /// Why.
        reason: SmolStr,
    },
    /// `admin.release`: an operator gives a line of somebody's cart back.
    Revoke {
        /// Which line.
        line: u32,
        /// Why, in the operator's words.
        reason: SmolStr,
    },
    /// `admin.settle`: an operator says how an attempt to pay ended.
    Settle {
        /// Which attempt.
        attempt: u32,
        /// How.
        outcome: Settlement,
    },
    /// The gateway says by itself how a step of an attempt ended.
    Paid {
        /// Which attempt.
        key: PaymentKey,
        /// Which step of it.
        step: PaymentStep,
        /// How it ended.
        outcome: GatewayOutcome,
    },
    /// `order.get`: what the cart became. The order's id is needed, the token is not.
    Order,
    /// `admin.audit`: state, lines, holds and what is owed to others.
    Audit,
}

/// What the buyer of a cart believes to buy. A checkout of anything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// What the lines come to.
    pub total: Option<Money>,
    /// The version of the lines, as [`crate::answer::CartView::lines_version`].
    pub lines: Option<u64>,
    /// What was paid elsewhere, of a recorded payment.
    pub paid: Option<Money>,
}

/// How an order is paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payment {
    /// Paid elsewhere; what the client says is written down (SC).
    Recorded {
        /// Cash, card, …
        method: SmolStr,
        /// The payer's reference.
        transaction_id: SmolStr,
    },
    /// Through the node's gateway: authorized before the decision, captured after it.
    Gateway {
        /// What the client had from the gateway; opaque.
        source: SmolStr,
        /// What becomes of the cart if it is declined; as the rules say if absent.
        on_decline: Option<OnDecline>,
    },
}

impl Payment {
    /// Whether no gateway is asked.
    pub fn is_recorded(&self) -> bool {
        match self {
            Payment::Recorded { .. } => true,
            Payment::Gateway { .. } => false,
        }
    }
}

/// Where an order goes (SC).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipping {
    /// To whom.
    pub recipient: SmolStr,
    /// Where.
    pub address: SmolStr,
    /// How.
    pub method: SmolStr,
}

/// The proof that a client may speak for a cart: checked at the door, so that commands carry only the cart's id.
pub fn owns(token: CartToken, cart: CartId) -> bool {
    token.cart() == cart
}
