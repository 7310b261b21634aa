//! What entities ask each other, and reply. Every ask may be repeated: a second one changes nothing and gets the same reply.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    answer::PricedSeat,
    command::{NewSession, Want},
    id::{HoldId, Id, OrderId},
    layout::Layout,
    money::Currency,
    refusal::Refusal,
    seat::SeatSet,
    time::Timestamp,
};

/// A question or a demand of one entity to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Cart to session: hold these until the deadline.
    Hold {
        /// The hold's id; asking again with it finds the same hold.
        hold: HoldId,
        /// Rises with everything said of this hold; lower or equal ones never act.
        revision: u64,
        /// What of the session.
        want: Want,
        /// The cart's deadline as it will be if this is granted.
        deadline: Timestamp,
    },
    /// Cart to session: these seats of the hold, or all, are given back. The cart has committed that already.
    Release {
        /// Which hold.
        hold: HoldId,
        /// As in `Hold`.
        revision: u64,
        /// Which seats; all if absent.
        seats: Option<SeatSet>,
        /// The cart is terminal: nothing more will ever be said of this hold, the session need not remember it.
        last: bool,
    },
    /// Cart to session: these seats of the hold are sold, the rest of the hold is free. Cannot be refused for a live hold.
    Sell {
        /// Which hold.
        hold: HoldId,
        /// As in `Hold`.
        revision: u64,
        /// Exactly these seats.
        seats: SeatSet,
        /// By this order.
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// Cart to session: the cart is terminal; forget every released hold of it that is still remembered.
    Forget,
    /// Session to cart: the hold's deadline and the grace have passed; is it still yours?
    Overdue {
        /// Which hold.
        hold: HoldId,
    },
    /// Venue to session: open with this.
    Open(Opening),
}

/// What a session is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Its venue.
    pub venue: Id,
    /// What the client asked for.
    pub session: NewSession,
    /// The hall's layout at that moment.
    pub layout: Arc<Layout>,
}

/// A reply to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Hold`: it is yours (now, or already).
    Granted(Granted),
    /// To `Hold`: no, and nothing changed.
    Refused {
        /// Which hold.
        hold: HoldId,
        /// Why.
        refusal: Refusal,
    },
    /// To `Hold`: this hold was released before; it can never be held again. Ask with the next attempt.
    Stale {
        /// Which hold.
        hold: HoldId,
        /// The revision it ended with.
        revision: u64,
    },
    /// To `Release`: given back (now, or already).
    Released {
        /// Which hold.
        hold: HoldId,
        /// The revision of the ask.
        revision: u64,
    },
    /// To `Sell`: sold (now, or already).
    Sold {
        /// Which hold.
        hold: HoldId,
        /// The session's version after the sale.
        version: u64,
        /// Place of the sale in the session's log; filled in by the node.
        position: u64,
    },
    /// To `Forget`.
    Forgotten,
    /// To `Overdue`: it is a line of the cart until this deadline, or sold or released with a message on its way.
    MineUntil {
        /// Which hold.
        hold: HoldId,
        /// Ask again after this.
        deadline: Timestamp,
    },
    /// To `Overdue`: the cart has committed that this hold can never become a line.
    NotMine {
        /// Which hold.
        hold: HoldId,
    },
    /// To `Open`: open (now, or already).
    Opened,
    /// To `Open`: a session with this id is open already, with other content.
    OpenRefused,
}

/// A granted hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which hold.
    pub hold: HoldId,
    /// Its revision.
    pub revision: u64,
    /// What was asked for when it was granted first, as a hash: tells a repeat from another body under the same request id.
    pub want_hash: u64,
    /// Its seats, ascending, with their prices.
    pub seats: Vec<PricedSeat>,
    /// Of what the prices are.
    pub currency: Currency,
    /// How long carts with seats of this session live untouched, if it says so itself.
    pub ttl_ms: Option<u64>,
    /// The session's version with the hold.
    pub version: u64,
    /// Place of the hold in the session's log; filled in by the node.
    pub position: u64,
}

impl Reply {
    /// Notes where in the log of the replying entity's shard the reply's change was committed.
    pub fn set_position(&mut self, index: u64) {
        match self {
            Reply::Granted(granted) => granted.position = index,
            Reply::Sold { position, .. } => *position = index,
            Reply::Refused { .. }
            | Reply::Stale { .. }
            | Reply::Released { .. }
            | Reply::Forgotten
            | Reply::MineUntil { .. }
            | Reply::NotMine { .. }
            | Reply::Opened
            | Reply::OpenRefused => {}
        }
    }
}
