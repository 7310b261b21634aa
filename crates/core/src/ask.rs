//! Asks between entities and their replies. Every ask may be repeated. A repeat changes nothing and gets the same reply.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    answer::{Purchase, SaleMark},
    command::{Limits, NewSession, ShownCode, VenueDetails, Want},
    holder::Holder,
    id::{HoldId, Id, OrderId},
    layout::Layout,
    money::Currency,
    payment::GatewayCall,
    portion::{BoughtAs, Content, Portion},
    refusal::Refusal,
    time::Timestamp,
};

/// A message from one entity to another. An inventory is a session, a product, a resource, or a customer's quotas.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Ask {
    /// A cart asks an inventory for a hold. With a higher revision of a live hold of places, units or a quota, it is the new
    /// total. If the inventory refuses, the hold stays as it was.
    #[n(0)]
    Hold {
        /// The hold's id. A repeat with it finds the same hold.
        #[n(0)]
        hold: HoldId,
        /// It rises with every message about this hold. A lower or equal revision has no effect.
        #[n(1)]
        revision: u64,
        #[n(2)]
        want: Want,
        /// How long the cart will live if this is granted, in milliseconds. It is a duration, because cart and inventory may keep
        /// different time.
        #[n(3)]
        life_ms: u64,
        /// The holder, if it has a share and no more.
        #[n(4)]
        holder: Option<Holder>,
        /// Whether the desk asks, which may sell a session that has begun.
        #[n(5)]
        desk: bool,
        /// What the code lets it hold that the cart has shown before.
        #[n(6)]
        code: Option<Box<ShownCode>>,
        /// The attributes of the customer whose token the buyer has shown.
        #[n(7)]
        attributes: Vec<Id>,
        /// The customer of the cart, if it is known.
        #[n(8)]
        customer: Option<Id>,
    },
    /// A cart lets an inventory keep only `left` of the hold. The cart has committed that already.
    #[n(1)]
    Release {
        #[n(0)]
        hold: HoldId,
        /// Its revision, as in `Hold`.
        #[n(1)]
        revision: u64,
        /// The part that stays held. Nothing if absent.
        #[n(2)]
        left: Option<Portion>,
        /// The cart is terminal and will send no more messages about this hold, so the release need not be remembered.
        #[n(3)]
        last: bool,
        /// Whether the cart expired.
        #[n(4)]
        expired: bool,
    },
    /// A cart tells an inventory that it has expired, and the hold with it. It is sent once and has no reply. If it is lost, the
    /// inventory asks when the hold is overdue.
    #[n(2)]
    Expired {
        #[n(0)]
        hold: HoldId,
        /// Its revision, as in `Hold`.
        #[n(1)]
        revision: u64,
    },
    /// A cart sells exactly this of the hold, and the inventory frees the rest. A live hold cannot refuse it.
    #[n(3)]
    Sell {
        #[n(0)]
        hold: HoldId,
        /// Its revision, as in `Hold`.
        #[n(1)]
        revision: u64,
        #[n(2)]
        portion: Portion,
        #[n(3)]
        order: OrderId,
        /// When the order was decided.
        #[n(4)]
        at: Timestamp,
    },
    /// A cart refunds the sale of this hold, and the inventory puts it on sale again. The cart has committed that already.
    #[n(4)]
    Refund {
        #[n(0)]
        hold: HoldId,
    },
    /// A terminal cart lets an inventory forget every released hold of it.
    #[n(5)]
    Forget,
    /// An inventory asks a cart whether the hold is still its own. The hold's deadline and the grace have passed.
    #[n(6)]
    Overdue {
        #[n(0)]
        hold: HoldId,
    },
    /// An inventory tells a cart that the session, or the booking, is canceled. The cart releases the hold, or refunds its sale.
    #[n(7)]
    Revoke {
        #[n(0)]
        hold: HoldId,
        #[n(1)]
        reason: SmolStr,
    },
    /// A venue opens a session.
    #[n(8)]
    Open(#[n(0)] Box<Opening>),
    /// A session tells its venue that it is canceled, so the hall is free at its time.
    #[n(9)]
    Vacate,
    /// A venue sends its details to the directory.
    #[n(10)]
    List {
        /// Name, city and position.
        #[n(0)]
        details: VenueDetails,
        /// The venue's version with them. An older version changes nothing.
        #[n(1)]
        version: u64,
    },
    /// A cart posts a purchase to its customer. It is posted once by its order id (P12).
    #[n(11)]
    Post {
        /// The purchase without its cursor, which the customer assigns.
        #[n(0)]
        purchase: Purchase,
    },
    /// A cart calls the gateway.
    #[n(12)]
    Pay(#[n(0)] GatewayCall),
    /// A venue tells a session its zone, because it changed after the session was opened.
    #[n(13)]
    SetZone(#[n(0)] VenueZone),
    /// A session tells its venue when its sale opens, because its offers or their openings are others than at its creation.
    #[n(14)]
    TellSale(#[n(0)] SaleMark),
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
            Ask::Forget | Ask::Open(_) | Ask::Vacate | Ask::List { .. } | Ask::Post { .. } => None,
            Ask::Pay(_) | Ask::SetZone(_) | Ask::TellSale(_) => None,
        }
    }

    /// Whether it is repeated until there is a reply.
    pub fn wants_reply(&self) -> bool {
        !matches!(self, Ask::Expired { .. })
    }
}

/// The content of a new session.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Opening {
    #[n(0)]
    pub venue: Id,
    /// The session as the client asked for it.
    #[n(1)]
    pub session: NewSession,
    /// The hall's layout at that moment.
    #[n(2)]
    pub layout: Arc<Layout>,
    /// The venue's zone when it was sent, which may differ between repeats.
    #[n(3)]
    pub zone: VenueZone,
}

/// The zone of a venue, as its sessions know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct VenueZone {
    /// Its IANA name, if the venue has one.
    #[n(1)]
    pub name: Option<SmolStr>,
    /// The venue's version with it. An older one changes nothing.
    #[n(0)]
    pub version: u64,
}

/// A reply to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Reply {
    /// Answers `Hold`. The hold is granted, now or before.
    #[n(0)]
    Granted(#[n(0)] Granted),
    /// Answers `Hold`. It is refused, and nothing changed.
    #[n(1)]
    Refused {
        #[n(0)]
        hold: HoldId,
        /// The revision of the ask.
        #[n(1)]
        revision: u64,
        #[n(2)]
        refusal: Refusal,
    },
    /// Answers `Hold`. The hold has a higher or equal revision with other content, or it was released. Ask with the next
    /// revision, or with the next attempt if it was released.
    #[n(2)]
    Stale {
        #[n(0)]
        hold: HoldId,
        /// The highest revision seen.
        #[n(1)]
        revision: u64,
        /// Whether the hold is still live.
        #[n(2)]
        live: bool,
    },
    /// Answers `Hold` of more units or places than a live hold has. Nothing changed, because one costs something else now than when the
    /// hold was granted. Ask for the others in another hold.
    #[n(3)]
    Repriced {
        #[n(0)]
        hold: HoldId,
        /// The revision of the ask.
        #[n(1)]
        revision: u64,
        /// What a unit or a place costs now, in minor units.
        #[n(2)]
        price: i64,
        /// What a place is bought as now.
        #[n(3)]
        bought_as: Option<Arc<BoughtAs>>,
    },
    /// Answers `Release`. The hold is released, now or before.
    #[n(4)]
    Released {
        #[n(0)]
        hold: HoldId,
        /// The revision of the ask.
        #[n(1)]
        revision: u64,
    },
    /// Answers `Sell`. The hold is sold, now or before.
    #[n(5)]
    Sold {
        #[n(0)]
        hold: HoldId,
        /// The inventory's version after the sale.
        #[n(1)]
        version: u64,
        /// The place of the sale in the inventory's log. The node sets it.
        #[n(2)]
        position: u64,
    },
    /// Answers `Refund`. The sale is refunded, now or before.
    #[n(6)]
    Refunded {
        #[n(0)]
        hold: HoldId,
    },
    /// Answers `Forget`.
    #[n(7)]
    Forgotten,
    /// Answers `Overdue`. The hold is a line of the cart, or its sale or release is on its way.
    #[n(8)]
    MineFor {
        #[n(0)]
        hold: HoldId,
        /// How long the cart still lives, in milliseconds. Ask again after that.
        #[n(1)]
        life_ms: u64,
    },
    /// Answers `Overdue`. The cart has committed that this hold can never become a line.
    #[n(9)]
    NotMine {
        #[n(0)]
        hold: HoldId,
    },
    /// Answers `Open`. The session is open, now or before.
    #[n(10)]
    Opened,
    /// Answers `Open`. A session with this id is open with other content, and the refusal says both.
    #[n(11)]
    OpenRefused(#[n(0)] Box<Refusal>),
    /// Answers `Vacate`. The hall is free, now or before.
    #[n(12)]
    Vacated,
    /// Answers `List`. The venue is listed, now or before.
    #[n(13)]
    Listed {
        /// The version of the ask.
        #[n(0)]
        version: u64,
    },
    /// Answers `Post`. The purchase is posted, now or before.
    #[n(14)]
    Posted {
        #[n(0)]
        order: OrderId,
    },
    /// Answers `SetZone`. The session knows this zone or a newer one.
    #[n(15)]
    ZoneSet {
        /// The version of the ask.
        #[n(0)]
        version: u64,
    },
    /// Answers `TellSale`. The venue knows this mark or a newer one.
    #[n(16)]
    SaleTold {
        /// The version of the mark.
        #[n(0)]
        version: u64,
    },
}

impl Reply {
    /// The hold that it is about, if any.
    pub fn hold(&self) -> Option<HoldId> {
        match self {
            Reply::Granted(granted) => Some(granted.hold),
            Reply::Refused { hold, .. }
            | Reply::Stale { hold, .. }
            | Reply::Repriced { hold, .. }
            | Reply::Released { hold, .. }
            | Reply::Sold { hold, .. }
            | Reply::Refunded { hold }
            | Reply::MineFor { hold, .. }
            | Reply::NotMine { hold } => Some(*hold),
            Reply::Forgotten | Reply::Opened | Reply::OpenRefused(_) | Reply::Vacated => None,
            Reply::Listed { .. } | Reply::Posted { .. } | Reply::ZoneSet { .. } | Reply::SaleTold { .. } => None,
        }
    }
}

/// A granted hold.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Granted {
    #[n(0)]
    pub hold: HoldId,
    #[n(1)]
    pub revision: u64,
    /// Hash of the ask at this revision. It distinguishes a repeat from another body under the same request id.
    #[n(2)]
    pub want_hash: u64,
    /// Its content with prices. `None` for a quota, which is no line.
    #[n(7)]
    pub content: Option<Content>,
    /// The currency of the prices.
    #[n(8)]
    pub currency: Option<Currency>,
    /// How long carts with this live untouched, if the inventory has a limit.
    #[n(9)]
    pub ttl_ms: Option<u64>,
    /// How long the hold lives at most, however often its cart is touched, in milliseconds. `None` if it lives as long as its cart.
    #[n(10)]
    pub life_ms: Option<u64>,
    /// How long the inventory believes in the hold before it asks the cart, without the grace.
    #[n(3)]
    pub believed_ms: u64,
    /// The limits of one order and one customer.
    #[n(4)]
    pub limits: Limits,
    /// The IANA name of the zone in which its times are told, if it has a place and one is known.
    #[n(11)]
    pub zone: Option<SmolStr>,
    /// Nothing is set aside. The checkout asks for it.
    #[n(12)]
    pub late: bool,
    /// The inventory's version with the hold.
    #[n(5)]
    pub version: u64,
    /// The place of the hold in the inventory's log. The node sets it.
    #[n(6)]
    pub position: u64,
    /// The uses that a code grants.
    #[n(13)]
    pub code: Option<Box<ShownCode>>,
}

impl Reply {
    /// Sets the place of the reply's change in the log of the replying entity's shard.
    pub fn set_position(&mut self, index: u64) {
        match self {
            Reply::Granted(granted) => granted.position = index,
            Reply::Sold { position, .. } => *position = index,
            Reply::Refused { .. }
            | Reply::Stale { .. }
            | Reply::Repriced { .. }
            | Reply::Released { .. }
            | Reply::Refunded { .. }
            | Reply::Forgotten
            | Reply::MineFor { .. }
            | Reply::NotMine { .. }
            | Reply::Opened
            | Reply::OpenRefused(_)
            | Reply::Vacated
            | Reply::Listed { .. }
            | Reply::Posted { .. }
            | Reply::ZoneSet { .. }
            | Reply::SaleTold { .. } => {}
        }
    }
}
