//! The history of a run: every request of the clients with its answer. The check compares it with the servers' state
//! afterwards.

use boxoffice_core::{
    id::{CartId, OrderId},
    refusal::TakenSeat,
    seat::SeatSet,
    time::Timestamp,
};
use boxoffice_wire::view::CartState;

use crate::goods::{Good, Slot};

/// The code of `payment_declined`.
const PAYMENT_DECLINED: u16 = 601;

/// When a request was sent and answered, in microseconds since the run's start by the client's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Just before the request was sent.
    pub called_us: u64,
    /// Just after the answer arrived.
    pub returned_us: u64,
}

/// The outcome of a call. `A` is the relevant part of the answer, and `N` the content of a refusal besides its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<A, N = ()> {
    Granted(A),
    /// The call was refused. Nothing changed.
    Refused {
        code: u16,
        more: N,
    },
    /// The call may or may not have happened.
    Unknown,
    /// The server said that the call did not happen.
    NotDone,
}

impl<A, N> Outcome<A, N> {
    /// The answer, if the call was granted.
    pub fn granted(&self) -> Option<&A> {
        match self {
            Outcome::Granted(answer) => Some(answer),
            Outcome::Refused { .. } | Outcome::Unknown | Outcome::NotDone => None,
        }
    }
}

/// The answer to a hold of seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSeats {
    /// The session's version after the hold, if the answer has it.
    pub session_version: Option<u64>,
    /// When the cart expires, by the server's clock.
    pub deadline: Timestamp,
    /// The sum of the seats' prices, in minor units of the currency.
    pub price: i64,
}

/// The outcome of a hold of seats, with the seats that a refusal names.
pub type HoldOutcome = Outcome<HeldSeats, Vec<TakenSeat>>;

/// A hold of seats as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// The session's number in the house.
    pub session: u32,
    /// The requested seats.
    pub seats: SeatSet,
    pub span: Span,
    pub outcome: HoldOutcome,
}

/// The outcome of a hold of units, places or a slot: when the cart expires by the server's clock, or the free quantity
/// if the refusal has it.
pub type GoodsHoldOutcome = Outcome<Timestamp, Option<u64>>;

/// A hold of units, places or a slot, as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoodsHoldRecord {
    pub good: Good,
    /// The requested quantity, in addition to what the cart holds.
    pub quantity: u32,
    pub span: Span,
    pub outcome: GoodsHoldOutcome,
}

/// A change of a booking without a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookingChange {
    /// Makes the booking at this time.
    Reserve(Slot),
    /// Moves the booking to this time.
    Move(Slot),
    Cancel,
}

/// A change of a booking as the client knows it. Only one client at a time changes a booking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The resource's number.
    pub resource: u32,
    /// The booking's number.
    pub booking: u32,
    pub change: BookingChange,
    pub span: Span,
    pub outcome: Outcome<()>,
}

/// The answer to a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bought {
    pub order: OrderId,
    /// The order's total, in minor units of the currency.
    pub total: i64,
    /// The number of each session and its version after the sale, as far as the answer has it.
    pub sold: Vec<(u32, u64)>,
}

/// A checkout as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutRecord {
    pub span: Span,
    pub outcome: Outcome<Bought>,
}

/// A cart as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartRecord {
    pub cart: CartId,
    /// The cart's versions in the answers to its changes, in the order of the answers.
    pub versions: Vec<u64>,
    /// Holds of seats, in the order of the requests.
    pub holds: Vec<HoldRecord>,
    /// Holds of units, places and slots, in the order of the requests.
    pub goods_holds: Vec<GoodsHoldRecord>,
    /// The number of the cart's customer.
    pub customer: Option<u32>,
    /// Whether the cart pays through the gateway.
    pub gateway: bool,
    /// The checkout, if the client requested one.
    pub checkout: Option<CheckoutRecord>,
}

impl CartRecord {
    /// The record of a cart without any request.
    pub fn new(cart: CartId) -> CartRecord {
        CartRecord {
            cart,
            versions: Vec::new(),
            holds: Vec::new(),
            goods_holds: Vec::new(),
            customer: None,
            gateway: false,
            checkout: None,
        }
    }

    /// Whether the client does not know the outcome of one of the cart's requests.
    pub fn has_unknown(&self) -> bool {
        self.holds.iter().any(|hold| hold.outcome == Outcome::Unknown)
            || self.goods_holds.iter().any(|hold| hold.outcome == Outcome::Unknown)
            || self.checkout_outcome() == Some(&Outcome::Unknown)
    }

    /// The outcome of the checkout, if the client requested one.
    pub fn checkout_outcome(&self) -> Option<&Outcome<Bought>> {
        self.checkout.as_ref().map(|checkout| &checkout.outcome)
    }

    /// The answer to the checkout, if it was granted.
    pub fn bought(&self) -> Option<&Bought> {
        self.checkout_outcome()?.granted()
    }

    /// Whether the cart's payment was declined, so that everything it held was released.
    pub fn is_declined(&self) -> bool {
        matches!(self.checkout_outcome(), Some(Outcome::Refused { code: PAYMENT_DECLINED, .. }))
    }

    /// Whether the cart may be in this state long after its last request, as far as the client knows.
    pub fn may_be(&self, state: CartState) -> bool {
        match self.checkout_outcome() {
            Some(Outcome::Granted(_)) => state == CartState::Done,
            Some(Outcome::Unknown) => state != CartState::Canceled || self.gateway,
            Some(Outcome::Refused { code: PAYMENT_DECLINED, .. }) => state == CartState::Canceled,
            Some(Outcome::Refused { .. } | Outcome::NotDone) | None => {
                matches!(state, CartState::Active | CartState::Expired)
            }
        }
    }
}

/// All carts of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// One cart for each flow, in no order.
    pub carts: Vec<CartRecord>,
    /// Changes of bookings. The changes of one booking are in the order of the requests.
    pub changes: Vec<ChangeRecord>,
}
