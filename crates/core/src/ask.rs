//! What entities ask each other, and reply. Every ask may be repeated: a second one changes nothing and gets the same reply.

use alloc::{boxed::Box, sync::Arc};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    answer::Purchase,
    command::{Limits, NewSession, VenueDetails, Want},
    id::{HoldId, Id, OrderId},
    layout::Layout,
    money::Currency,
    payment::GatewayCall,
    portion::{Content, Portion},
    refusal::Refusal,
    time::Timestamp,
};

/// A question or a demand of one entity to another. "Inventory" is what holds are of: a session, a product, a resource, or
/// a customer's quotas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Cart to inventory: hold this for so long. With a higher revision of a live hold of places, units or a quota:
    /// hold so many altogether from now on, or keep what it was and refuse.
    Hold {
        /// The hold's id; asking again with it finds the same hold.
        hold: HoldId,
        /// Rises with everything said of this hold; lower or equal ones never act.
        revision: u64,
        /// What of the inventory.
        want: Want,
        /// How long the cart will still live if this is granted, in milliseconds: the two may keep different time.
        life_ms: u64,
    },
    /// Cart to inventory: this is left of the hold, the rest is given back. The cart has committed that already.
    Release {
        /// Which hold.
        hold: HoldId,
        /// As in `Hold`.
        revision: u64,
        /// What is left; nothing if absent.
        left: Option<Portion>,
        /// The cart is terminal: nothing more will ever be said of this hold, it need not be remembered.
        last: bool,
        /// The cart's time was over; otherwise it is given back.
        expired: bool,
    },
    /// Cart to inventory: the cart has expired, and with it the hold. There is no reply, and it is said once: should it be
    /// lost, the inventory asks by itself when the hold is overdue.
    Expired {
        /// Which hold.
        hold: HoldId,
        /// As in `Hold`.
        revision: u64,
    },
    /// Cart to inventory: exactly this of the hold is sold, the rest of the hold is free. Cannot be refused for a live hold.
    Sell {
        /// Which hold.
        hold: HoldId,
        /// As in `Hold`.
        revision: u64,
        /// Exactly this.
        portion: Portion,
        /// By this order.
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// Cart to inventory: the sale of this hold is over, it is on sale again. The cart has committed the refund already.
    Refund {
        /// Which hold.
        hold: HoldId,
    },
    /// Cart to inventory: the cart is terminal; forget every released hold of it that is still remembered.
    Forget,
    /// Inventory to cart: the hold's deadline and the grace have passed; is it still yours?
    Overdue {
        /// Which hold.
        hold: HoldId,
    },
    /// Inventory to cart: it is not to be had any more; give the hold back, or refund what was sold of it.
    Revoke {
        /// Which hold.
        hold: HoldId,
        /// Why.
        reason: SmolStr,
    },
    /// Venue to session: open with this.
    Open(Box<Opening>),
    /// Session to its venue: I am canceled, the hall is free at my time.
    Vacate,
    /// Venue to directory: this is where I am.
    List {
        /// Name, city and position.
        details: VenueDetails,
        /// The venue's version with them: an older one changes nothing.
        version: u64,
    },
    /// Cart to customer: this was bought. Posted once by its order id (P12).
    Post {
        /// Everything but the cursor, which the customer gives.
        purchase: Purchase,
    },
    /// Cart to the gateway.
    Pay(GatewayCall),
}

impl Ask {
    /// The hold it is about, if it is about one.
    pub fn hold(&self) -> Option<HoldId> {
        match self {
            Ask::Hold { hold, .. }
            | Ask::Release { hold, .. }
            | Ask::Expired { hold, .. }
            | Ask::Sell { hold, .. }
            | Ask::Refund { hold }
            | Ask::Overdue { hold }
            | Ask::Revoke { hold, .. } => Some(*hold),
            Ask::Forget | Ask::Open(_) | Ask::Vacate | Ask::List { .. } | Ask::Post { .. } | Ask::Pay(_) => None,
        }
    }

    /// Whether it is asked again until there is a reply.
    pub fn wants_reply(&self) -> bool {
        !matches!(self, Ask::Expired { .. })
    }
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
        /// The revision of the ask.
        revision: u64,
        /// Why.
        refusal: Refusal,
    },
    /// To `Hold`: a higher or equal revision of this hold was seen with other content, or it was released before. Ask with
    /// the next revision, or, if it was released, the next attempt.
    Stale {
        /// Which hold.
        hold: HoldId,
        /// The highest revision seen.
        revision: u64,
        /// Whether the hold is still live.
        live: bool,
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
        /// The inventory's version after the sale.
        version: u64,
        /// Place of the sale in the inventory's log; filled in by the node.
        position: u64,
    },
    /// To `Refund`: the sale is over (now, or already).
    Refunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To `Forget`.
    Forgotten,
    /// To `Overdue`: it is a line of the cart, or sold or released with a message on its way.
    MineFor {
        /// Which hold.
        hold: HoldId,
        /// How long the cart still lives, in milliseconds: ask again after that.
        life_ms: u64,
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
    /// To `Vacate`: the hall is free (now, or already).
    Vacated,
    /// To `List`: listed (now, or already).
    Listed {
        /// The version of the ask.
        version: u64,
    },
    /// To `Post`: posted (now, or already).
    Posted {
        /// Which order.
        order: OrderId,
    },
}

impl Reply {
    /// The hold it is about, if it is about one.
    pub fn hold(&self) -> Option<HoldId> {
        match self {
            Reply::Granted(granted) => Some(granted.hold),
            Reply::Refused { hold, .. }
            | Reply::Stale { hold, .. }
            | Reply::Released { hold, .. }
            | Reply::Sold { hold, .. }
            | Reply::Refunded { hold }
            | Reply::MineFor { hold, .. }
            | Reply::NotMine { hold } => Some(*hold),
            Reply::Forgotten | Reply::Opened | Reply::OpenRefused | Reply::Vacated => None,
            Reply::Listed { .. } | Reply::Posted { .. } => None,
        }
    }
}

/// A granted hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which hold.
    pub hold: HoldId,
    /// Its revision.
    pub revision: u64,
    /// What was asked for at this revision, as a hash: tells a repeat from another body under the same request id.
    pub want_hash: u64,
    /// What it has, with prices; nothing of a quota, which is no line.
    pub content: Option<Content>,
    /// Of what the prices are.
    pub currency: Option<Currency>,
    /// How long carts with this live untouched, if the inventory says so itself.
    pub ttl_ms: Option<u64>,
    /// How long from now on the inventory believes in the hold before it asks the cart, the grace not counted.
    pub believed_ms: u64,
    /// How many one order and one customer may have.
    pub limits: Limits,
    /// Nothing is set aside: it will be asked for at the checkout.
    pub late: bool,
    /// The inventory's version with the hold.
    pub version: u64,
    /// Place of the hold in the inventory's log; filled in by the node.
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
            | Reply::Refunded { .. }
            | Reply::Forgotten
            | Reply::MineFor { .. }
            | Reply::NotMine { .. }
            | Reply::Opened
            | Reply::OpenRefused
            | Reply::Vacated
            | Reply::Listed { .. }
            | Reply::Posted { .. } => {}
        }
    }
}
