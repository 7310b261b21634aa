//! Asks between entities and their replies. Every ask may be repeated. A repeat changes nothing and gets the same reply.

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

/// A message of one entity to another. An inventory is a session, a product, a resource, or a customer's quotas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Cart to inventory: hold this. With a higher revision of a live hold of places, units or a quota, it is the new total. If
    /// the inventory refuses, the hold stays as it was.
    Hold {
        /// The hold's id. A repeat with it finds the same hold.
        hold: HoldId,
        /// It rises with every message about this hold. A lower or equal revision has no effect.
        revision: u64,
        /// What to hold.
        want: Want,
        /// How long the cart will live if this is granted, in milliseconds. It is a duration, because the two may keep
        /// different time.
        life_ms: u64,
    },
    /// Cart to inventory: keep only `left` of the hold. The cart has committed that already.
    Release {
        /// Which hold.
        hold: HoldId,
        /// Its revision, as in `Hold`.
        revision: u64,
        /// What stays held; nothing if absent.
        left: Option<Portion>,
        /// The cart is terminal and will never speak of this hold again, so the release need not be remembered.
        last: bool,
        /// Whether the cart expired.
        expired: bool,
    },
    /// Cart to inventory: the cart has expired, and the hold with it. It is sent once and has no reply. If it is lost, the
    /// inventory asks when the hold is overdue.
    Expired {
        /// Which hold.
        hold: HoldId,
        /// Its revision, as in `Hold`.
        revision: u64,
    },
    /// Cart to inventory: exactly this of the hold is sold, and the rest is free. A live hold cannot refuse it.
    Sell {
        /// Which hold.
        hold: HoldId,
        /// Its revision, as in `Hold`.
        revision: u64,
        /// What is sold.
        portion: Portion,
        /// The order that buys it.
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// Cart to inventory: the sale of this hold is refunded, and it is on sale again. The cart has committed that already.
    Refund {
        /// Which hold.
        hold: HoldId,
    },
    /// Cart to inventory: the cart is terminal. Forget every released hold of it.
    Forget,
    /// Inventory to cart: the hold's deadline and the grace have passed. Is it still yours?
    Overdue {
        /// Which hold.
        hold: HoldId,
    },
    /// Inventory to cart: the session is canceled. Release the hold, or refund its sale.
    Revoke {
        /// Which hold.
        hold: HoldId,
        reason: SmolStr,
    },
    /// Venue to session: open.
    Open(Box<Opening>),
    /// Session to its venue: it is canceled, so the hall is free at its time.
    Vacate,
    /// Venue to directory: these are its details.
    List {
        /// Name, city and position.
        details: VenueDetails,
        /// The venue's version with them. An older version changes nothing.
        version: u64,
    },
    /// Cart to customer: a purchase. It is posted once by its order id (P12).
    Post {
        /// The purchase without its cursor, which the customer assigns.
        purchase: Purchase,
    },
    /// Cart to the gateway.
    Pay(GatewayCall),
}

impl Ask {
    /// The hold that it is about, if any.
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

    /// Whether it is repeated until there is a reply.
    pub fn wants_reply(&self) -> bool {
        !matches!(self, Ask::Expired { .. })
    }
}

/// The content of a new session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Its venue.
    pub venue: Id,
    /// The session as the client asked for it.
    pub session: NewSession,
    /// The hall's layout at that moment.
    pub layout: Arc<Layout>,
}

/// A reply to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Hold`: granted, now or before.
    Granted(Granted),
    /// To `Hold`: refused, and nothing changed.
    Refused {
        /// Which hold.
        hold: HoldId,
        /// The revision of the ask.
        revision: u64,
        refusal: Refusal,
    },
    /// To `Hold`: the hold has a higher or equal revision with other content, or it was released. Ask with the next revision,
    /// or with the next attempt if it was released.
    Stale {
        /// Which hold.
        hold: HoldId,
        /// The highest revision seen.
        revision: u64,
        /// Whether the hold is still live.
        live: bool,
    },
    /// To `Release`: released, now or before.
    Released {
        /// Which hold.
        hold: HoldId,
        /// The revision of the ask.
        revision: u64,
    },
    /// To `Sell`: sold, now or before.
    Sold {
        /// Which hold.
        hold: HoldId,
        /// The inventory's version after the sale.
        version: u64,
        /// The place of the sale in the inventory's log. The node sets it.
        position: u64,
    },
    /// To `Refund`: refunded, now or before.
    Refunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To `Forget`.
    Forgotten,
    /// To `Overdue`: it is a line of the cart, or its sale or release is on its way.
    MineFor {
        /// Which hold.
        hold: HoldId,
        /// How long the cart still lives, in milliseconds. Ask again after that.
        life_ms: u64,
    },
    /// To `Overdue`: the cart has committed that this hold can never become a line.
    NotMine {
        /// Which hold.
        hold: HoldId,
    },
    /// To `Open`: opened, now or before.
    Opened,
    /// To `Open`: a session with this id is open with other content.
    OpenRefused,
    /// To `Vacate`: the hall is free, now or before.
    Vacated,
    /// To `List`: listed, now or before.
    Listed {
        /// The version of the ask.
        version: u64,
    },
    /// To `Post`: posted, now or before.
    Posted {
        /// Which order.
        order: OrderId,
    },
}

impl Reply {
    /// The hold that it is about, if any.
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
    /// Hash of the ask at this revision. It distinguishes a repeat from another body under the same request id.
    pub want_hash: u64,
    /// Its content with prices; none for a quota, which is no line.
    pub content: Option<Content>,
    /// Of what the prices are.
    pub currency: Option<Currency>,
    /// How long carts with this live untouched, if the inventory has a limit.
    pub ttl_ms: Option<u64>,
    /// How long the inventory believes in the hold before it asks the cart, without the grace.
    pub believed_ms: u64,
    /// The limits of one order and one customer.
    pub limits: Limits,
    /// Nothing is set aside. The checkout asks for it.
    pub late: bool,
    /// The inventory's version with the hold.
    pub version: u64,
    /// The place of the hold in the inventory's log. The node sets it.
    pub position: u64,
}

impl Reply {
    /// Sets the place of the reply's change in the log of the replying entity's shard.
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
