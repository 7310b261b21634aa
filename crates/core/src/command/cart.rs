//! Commands to a cart.

use alloc::vec::Vec;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::want::Want;
use crate::{
    holder::Holder,
    id::{CartId, CartToken, Entity, Id},
    money::Money,
    payment::{GatewayOutcome, OnDecline, PaymentKey, PaymentStep, Settlement},
    portion::Note,
    seat::SeatSet,
    text::{OptionalReason, Reason},
};

/// Commands to a cart. Buyers need the cart's token, and `Order` only the order's id. The others are for operators and the
/// gateway.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CartCommand {
    /// `cart.open`. A cart that is open already answers with its state, and remembers that answer.
    #[n(0)]
    Open {
        /// Its customer, as the client says.
        #[n(0)]
        customer: Option<Id>,
        /// How long it lives untouched.
        #[n(1)]
        ttl_ms: Option<u64>,
        /// Whether a guest opens it. Then the bounds of guests' carts apply.
        #[n(2)]
        guest: bool,
    },
    /// `cart.get`.
    #[n(1)]
    Get,
    /// `cart.hold_…` of one line and `cart.hold_all` of several, all or none. Opens the cart if need be.
    #[n(2)]
    Hold {
        #[n(0)]
        lines: Vec<WantedLine>,
        /// The customer, if the cart has none yet.
        #[n(1)]
        customer: Option<Id>,
        /// Whether a guest asks, and not the desk. If that opens the cart, the bounds of guests' carts apply.
        #[n(2)]
        guest: bool,
        /// Who holds, if it has a share and no more. The node that the caller is connected to says so.
        #[n(3)]
        holder: Option<Holder>,
        /// The attributes of the customer whose token the caller has shown. The node that the caller is connected to says so.
        #[n(4)]
        attributes: Vec<Id>,
    },
    /// `cart.set_quantity` of a line of units or places. 0 ends it.
    #[n(3)]
    SetQuantity {
        #[n(0)]
        line: u32,
        /// How many altogether.
        #[n(1)]
        quantity: u32,
        /// Whether a guest asks.
        #[n(2)]
        guest: bool,
        /// As in `Hold`.
        #[n(3)]
        holder: Option<Holder>,
        /// As in `Hold`.
        #[n(4)]
        attributes: Vec<Id>,
    },
    /// `cart.set_note` of a line.
    #[n(4)]
    SetNote {
        #[n(0)]
        line: u32,
        /// An empty note ends the one that the line has.
        #[n(1)]
        note: Note,
    },
    /// `cart.release` of a whole line, or of these seats of it.
    #[n(5)]
    Release {
        #[n(0)]
        line: u32,
        /// The seats to release. All if absent.
        #[n(1)]
        seats: Option<SeatSet>,
    },
    /// `cart.cancel` releases everything and ends the cart.
    #[n(6)]
    Cancel,
    /// `cart.checkout` writes the order and turns holds into sales.
    #[n(7)]
    Checkout {
        #[n(0)]
        payment: Payment,
        /// The buyer, if the cart has none yet.
        #[n(2)]
        customer: Option<Id>,
        #[n(3)]
        shipping: Option<Shipping>,
        #[n(1)]
        expect: Expect,
        /// As in `Hold`, for lines that are held only now.
        #[n(4)]
        holder: Option<Holder>,
    },
    /// `cart.checkout_cancel` and `admin.checkout_cancel` end the attempt to pay that is under way. The cart is active again.
    #[n(8)]
    CancelCheckout {
        /// Whether an operator asks, and not the buyer.
        #[n(0)]
        by_operator: bool,
    },
    /// `order.refund` puts lines of the order back on sale and pays their price back.
    #[n(9)]
    Refund {
        /// The lines to refund. All that are left if absent.
        #[n(1)]
        lines: Option<Vec<u32>>,
        #[n(0)]
        reason: Reason,
    },
    /// `admin.release`. An operator releases a line of a cart.
    #[n(10)]
    Revoke {
        #[n(0)]
        line: u32,
        /// Why, in the operator's words.
        #[n(1)]
        reason: OptionalReason,
    },
    /// `admin.settle`. An operator reports how an attempt to pay ended.
    #[n(11)]
    Settle {
        #[n(0)]
        attempt: u32,
        #[n(1)]
        outcome: Settlement,
    },
    /// A webhook of the gateway reports how a step of an attempt ended.
    #[n(12)]
    Paid {
        #[n(0)]
        key: PaymentKey,
        #[n(1)]
        step: PaymentStep,
        #[n(2)]
        outcome: GatewayOutcome,
    },
    /// `order.get` of the order of the cart. It needs the order's id and no token.
    #[n(13)]
    Order,
    /// `admin.audit` of state, lines, holds and owed messages.
    #[n(14)]
    Audit,
}

/// One line to be added to a cart. The cart asks the inventory for what is wanted, and keeps the rest itself.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct WantedLine {
    /// The session, product or resource.
    #[n(0)]
    pub entity: Entity,
    #[n(1)]
    pub want: Want,
    /// What the buyer notes at it. Empty if nothing.
    #[n(2)]
    pub note: Note,
}

impl WantedLine {
    /// A line of what is wanted of this inventory, without anything that may be left out.
    pub fn new(entity: Entity, want: Want) -> WantedLine {
        WantedLine { entity, want, note: Note::default() }
    }

    /// Adds a later line of the same units or places, because both count as one. The last note counts.
    ///
    /// # Panics
    /// They are of different things.
    pub(crate) fn merge(&mut self, later: WantedLine) {
        if !later.note.is_empty() {
            self.note = later.note;
        }
        match (&mut self.want, later.want) {
            (Want::Units { quantity, .. }, Want::Units { quantity: more, .. })
            | (Want::Places { quantity, .. }, Want::Places { quantity: more, .. }) => *quantity += more,
            (first, second) => panic!("{first:?} and {second:?} are not the same"),
        }
    }
}

/// What a command does to a cart, for those who treat many commands alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads it, for its owner.
    Read,
    /// Adds to it, and opens it if need be.
    Begin,
    /// Changes a cart that was begun.
    Change,
    /// Buys it.
    Buy,
    /// Gives something back.
    GiveBack,
    /// Is an operator's or the gateway's.
    Inside,
}

impl CartCommand {
    /// What it does to the cart.
    pub fn purpose(&self) -> Purpose {
        match self {
            CartCommand::Get | CartCommand::Order => Purpose::Read,
            CartCommand::Open { .. } | CartCommand::Hold { .. } => Purpose::Begin,
            CartCommand::SetQuantity { quantity: 0, .. } => Purpose::GiveBack,
            CartCommand::SetQuantity { .. } | CartCommand::SetNote { .. } => Purpose::Change,
            CartCommand::Checkout { .. } => Purpose::Buy,
            CartCommand::Release { .. } | CartCommand::Cancel | CartCommand::CancelCheckout { .. } => Purpose::GiveBack,
            CartCommand::Refund { .. } | CartCommand::Revoke { .. } | CartCommand::Settle { .. } => Purpose::Inside,
            CartCommand::Paid { .. } | CartCommand::Audit => Purpose::Inside,
        }
    }

    /// How many lines it asks for.
    pub fn asked_lines(&self) -> usize {
        match self {
            CartCommand::Hold { lines, .. } => lines.len(),
            CartCommand::Open { .. }
            | CartCommand::Get
            | CartCommand::SetQuantity { .. }
            | CartCommand::SetNote { .. }
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::CancelCheckout { .. }
            | CartCommand::Checkout { .. }
            | CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. }
            | CartCommand::Paid { .. }
            | CartCommand::Order
            | CartCommand::Audit => 0,
        }
    }

    /// The customer for whom it is asked, if it names one.
    pub fn customer(&self) -> Option<&Id> {
        match self {
            CartCommand::Open { customer, .. }
            | CartCommand::Hold { customer, .. }
            | CartCommand::Checkout { customer, .. } => customer.as_ref(),
            CartCommand::Get
            | CartCommand::SetQuantity { .. }
            | CartCommand::SetNote { .. }
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::CancelCheckout { .. }
            | CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. }
            | CartCommand::Paid { .. }
            | CartCommand::Order
            | CartCommand::Audit => None,
        }
    }
}

/// What the buyer of a cart expects to buy. A checkout of anything else is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct Expect {
    /// The total of the lines.
    #[n(0)]
    pub total: Option<Money>,
    /// The version of the lines, as [`crate::answer::CartView::lines_version`].
    #[n(1)]
    pub lines: Option<u64>,
    /// The amount of a recorded payment.
    #[n(2)]
    pub paid: Option<Money>,
}

/// The payment of an order.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Payment {
    /// Paid elsewhere, as the client says (SC).
    #[n(0)]
    Recorded {
        /// Cash, card, …
        #[n(0)]
        method: SmolStr,
        /// The payer's reference.
        #[n(1)]
        transaction_id: SmolStr,
    },
    /// Through the node's gateway. It is authorized before the decision and captured after it.
    #[n(1)]
    Gateway {
        /// The client's opaque token of the gateway.
        #[n(0)]
        source: SmolStr,
        /// What a decline does to the cart. By default, as the rules say.
        #[n(1)]
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

/// The shipping of an order (SC).
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Shipping {
    #[n(0)]
    pub recipient: SmolStr,
    #[n(1)]
    pub address: SmolStr,
    #[n(2)]
    pub method: SmolStr,
}

/// The proof that a client may use a cart. The edge checks it, so that commands carry only the cart's id.
pub fn owns(token: CartToken, cart: CartId) -> bool {
    token.cart() == cart
}
