//! What the clients of a run were told: every request with its answer, kept to be held against what the servers say afterwards.

use boxoffice_core::{
    answer::CartState,
    id::{CartId, OrderId},
    refusal::TakenSeat,
    seat::SeatSet,
    time::Timestamp,
};

use crate::goods::{Good, Span as Slot};

/// The number of `payment_declined`.
const PAYMENT_DECLINED: u16 = 601;

/// When a request went out and its answer came in, in microseconds since the run's start by the client's steady clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Just before the request was sent.
    pub called_us: u64,
    /// Just after the answer came.
    pub returned_us: u64,
}

/// What a hold ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The seats are the cart's.
    Granted {
        /// The session's version after it, if the answer said it.
        session_version: Option<u64>,
        /// When the cart expires, by the server's clock.
        deadline: Timestamp,
        /// Σ of the prices captured, in minor units.
        price: i64,
    },
    /// Refused; nothing changed.
    Refused {
        /// The refusal's number.
        code: u16,
        /// The seats it names.
        named: Vec<TakenSeat>,
    },
    /// It may or may not have happened.
    Unknown,
    /// The server said that it did not happen.
    NotDone,
}

/// A hold as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// The session's number in the house.
    pub session: u32,
    /// What was asked for.
    pub seats: SeatSet,
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: HoldOutcome,
}

/// What a hold of units, places or a slot ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// It is the cart's.
    Granted {
        /// When the cart expires, by the server's clock.
        deadline: Timestamp,
    },
    /// Refused; nothing changed.
    Refused {
        /// The refusal's number.
        code: u16,
        /// How many are free, as the refusal says, if it says so.
        free: Option<u64>,
    },
    /// It may or may not have happened.
    Unknown,
    /// The server said that it did not happen.
    NotDone,
}

/// A hold of units, places or a slot, as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeRecord {
    /// Of what.
    pub good: Good,
    /// How many more.
    pub quantity: u32,
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: TakeOutcome,
}

/// What is done about a booking without a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is made.
    Reserve(Slot),
    /// It is put to another time.
    Move(Slot),
    /// It is ended.
    Cancel,
}

/// What a change of a booking ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It is done.
    Done,
    /// Refused; nothing changed.
    Refused {
        /// The refusal's number.
        code: u16,
    },
    /// It may or may not have happened.
    Unknown,
    /// The server said that it did not happen.
    NotDone,
}

/// A change of a booking as the client knows it. A booking is only changed by one client at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Of which resource, by number.
    pub resource: u32,
    /// Which booking, by number.
    pub booking: u32,
    /// What was asked for.
    pub change: Change,
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: ChangeOutcome,
}

/// What a checkout ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckoutOutcome {
    /// An order was written.
    Bought {
        /// Its id.
        order: OrderId,
        /// Its total in minor units.
        total: i64,
        /// Versions of sessions after their sells, where the answer said them.
        sold: Vec<(u32, u64)>,
    },
    /// Refused; nothing changed.
    Refused {
        /// The refusal's number.
        code: u16,
    },
    /// It may or may not have happened.
    Unknown,
    /// The server said that it did not happen.
    NotDone,
}

/// A checkout as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutRecord {
    /// When.
    pub span: Span,
    /// What came of it.
    pub outcome: CheckoutOutcome,
}

/// One cart as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartRecord {
    /// Its id.
    pub cart: CartId,
    /// Versions of the cart in the answers to its changes, in the order they came.
    pub versions: Vec<u64>,
    /// Its holds of seats, in the order asked.
    pub holds: Vec<HoldRecord>,
    /// Its holds of units, places and slots, in the order asked.
    pub takes: Vec<TakeRecord>,
    /// Whose it is, by number.
    pub customer: Option<u32>,
    /// Whether it pays through the gateway.
    pub gateway: bool,
    /// Its checkout, if it came to one.
    pub checkout: Option<CheckoutRecord>,
}

impl CartRecord {
    /// A cart nothing is known of yet.
    pub fn new(cart: CartId) -> CartRecord {
        CartRecord {
            cart,
            versions: Vec::new(),
            holds: Vec::new(),
            takes: Vec::new(),
            customer: None,
            gateway: false,
            checkout: None,
        }
    }

    /// Whether the client does not know how some request of it ended.
    pub fn has_unknown(&self) -> bool {
        self.holds.iter().any(|hold| hold.outcome == HoldOutcome::Unknown)
            || self.takes.iter().any(|take| take.outcome == TakeOutcome::Unknown)
            || self.checkout.as_ref().is_some_and(|checkout| checkout.outcome == CheckoutOutcome::Unknown)
    }

    /// The order, if the client was told of one.
    pub fn order(&self) -> Option<OrderId> {
        match self.checkout.as_ref()?.outcome {
            CheckoutOutcome::Bought { order, .. } => Some(order),
            CheckoutOutcome::Refused { .. } | CheckoutOutcome::Unknown | CheckoutOutcome::NotDone => None,
        }
    }

    /// Whether its payment was declined, so that everything it had was given back.
    pub fn is_declined(&self) -> bool {
        let outcome = self.checkout.as_ref().map(|checkout| &checkout.outcome);
        matches!(outcome, Some(CheckoutOutcome::Refused { code: PAYMENT_DECLINED }))
    }

    /// The states the cart may be in by what the client knows, long after its last request.
    pub fn may_be(&self, state: CartState) -> bool {
        match self.checkout.as_ref().map(|checkout| &checkout.outcome) {
            Some(CheckoutOutcome::Bought { .. }) => state == CartState::Done,
            Some(CheckoutOutcome::Unknown) => state != CartState::Canceled || self.gateway,
            Some(CheckoutOutcome::Refused { code: PAYMENT_DECLINED }) => state == CartState::Canceled,
            Some(CheckoutOutcome::Refused { .. } | CheckoutOutcome::NotDone) | None => {
                matches!(state, CartState::Active | CartState::Expired)
            }
        }
    }
}

/// All carts of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// One for each flow, in no order.
    pub carts: Vec<CartRecord>,
    /// Changes of bookings; those of one booking in the order asked.
    pub changes: Vec<ChangeRecord>,
}
