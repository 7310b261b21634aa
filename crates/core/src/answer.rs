//! Answers to commands.

mod kept;

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

pub use self::kept::{
    At, BookingState, BookingView, CartState, CartView, Ended, Held, KeptAnswer, LineView, Order, Purchase,
    PurchasedItem, TakenAway, TakenLine, Taker,
};
use crate::{
    access::AccessKey,
    cluster::{Member, Place},
    command::{Counter, NewSession, Offer, Offering, ProductDetails, ResourceDetails, Title, VenueDetails},
    id::{Entity, HoldId, Id, OrderId},
    layout::Layout,
    names::Names,
    payment::{PaymentStatus, RefundRecord, VoidRecord},
    portion::Portion,
    refusal::{Conflict, Refusal},
    seat::Seat,
    time::Timestamp,
    version::ClusterVersion,
};

/// The result of a command, which is an answer with the versions that it rests on, or a refusal.
pub type Outcome = Result<Answered, Refusal>;

/// A granted command.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Answered {
    #[n(0)]
    pub answer: Answer,
    /// The versions after the command, or at it. The entity that decided comes first, then those that it asked.
    #[n(1)]
    pub at: Vec<At>,
}

/// The body of an ok.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Answer {
    /// Done, without a body.
    #[n(0)]
    Done,
    /// Of `venue.put`.
    #[n(1)]
    VenuePut(#[n(0)] VenueChange),
    /// Of `venue.get`.
    #[n(2)]
    Venue(#[n(0)] VenueView),
    /// Of `hall.get`.
    #[n(3)]
    Hall(#[n(0)] HallView),
    /// Of `session.get` and `session.create`.
    #[n(4)]
    Session(#[n(0)] Arc<SessionView>),
    /// Of `session.search`.
    #[n(5)]
    Sessions(#[n(0)] Vec<SessionEntry>),
    /// Of `session.map`.
    #[n(6)]
    Map(#[n(0)] MapView),
    /// Of `cart.open`, `cart.get`, `cart.cancel` and `cart.release`.
    #[n(7)]
    Cart(#[n(0)] CartView),
    /// Of `cart.hold_…`.
    #[n(8)]
    Held(#[n(0)] Held),
    /// Of `cart.checkout` and `order.get`.
    #[n(9)]
    Order {
        #[n(0)]
        order: Arc<Order>,
        /// The order is decided, but not every inventory has acknowledged its sale.
        #[n(3)]
        settling: bool,
        #[n(1)]
        payment: PaymentStatus,
        /// The refunds, in order.
        #[n(2)]
        refunds: Vec<RefundRecord>,
        /// What the lines say by id and number, in words, if it was asked for. By session.
        #[n(4)]
        sessions: Vec<SessionNames>,
    },
    /// Of `order.refund`.
    #[n(10)]
    Refund(#[n(0)] RefundRecord),
    /// Of `title.get`.
    #[n(11)]
    Title(#[n(0)] TitleView),
    /// Of `title.search`.
    #[n(12)]
    Titles(#[n(0)] Vec<TitleView>),
    /// Of `venue.search`.
    #[n(13)]
    Venues(#[n(0)] VenuesPage),
    /// Ids of venues, ascending.
    #[n(14)]
    VenueIds(#[n(0)] Vec<Id>),
    /// Of `product.get` and `product.put`.
    #[n(15)]
    Product(#[n(0)] Arc<ProductView>),
    /// Of `resource.get` and `resource.put`.
    #[n(16)]
    Resource(#[n(0)] Arc<ResourceView>),
    /// Of `resource.reserve` and `resource.move`. The new bookings, by begin.
    #[n(17)]
    Booked(#[n(0)] Vec<BookingView>),
    /// Of `resource.is_available`. The conflicts, none if the time is available.
    #[n(18)]
    Available(#[n(0)] Vec<Conflict>),
    /// Of `resource.bookings`.
    #[n(19)]
    Bookings(#[n(0)] Vec<BookingView>),
    /// Of `resource.free_slots`. Each slot with its begin and end.
    #[n(20)]
    FreeSlots(#[n(0)] Vec<(Timestamp, Timestamp)>),
    /// Of `customer.purchases`, by cursor.
    #[n(21)]
    Purchases(#[n(0)] PurchasesPage),
    /// Of `admin.audit` of a session.
    #[n(22)]
    SessionAudit(#[n(0)] Box<SessionAudit>),
    /// Of `admin.audit` of a cart.
    #[n(23)]
    CartAudit(#[n(0)] Box<CartAudit>),
    /// Of `admin.audit` of a product.
    #[n(24)]
    ProductAudit(#[n(0)] Box<ProductAudit>),
    /// Of `admin.audit` of a resource.
    #[n(25)]
    ResourceAudit(#[n(0)] Box<ResourceAudit>),
    /// Of `admin.audit` of a customer.
    #[n(26)]
    CustomerAudit(#[n(0)] Box<CustomerAudit>),
    /// Of `admin.nodes` and `admin.join`.
    #[n(27)]
    Cluster(#[n(0)] Box<ClusterView>),
    /// Of `admin.invite`.
    #[n(28)]
    Invitation(#[n(0)] Box<InvitationView>),
    /// Of `admin.keys`, by name.
    #[n(29)]
    Keys(#[n(0)] Vec<(Id, AccessKey)>),
    /// Of `session.change`.
    #[n(30)]
    SessionChanged(#[n(0)] SessionChanged),
    /// Of `code.get` and `code.put`.
    #[n(31)]
    Code(#[n(0)] CodeView),
    /// Of `admin.audit` of a code.
    #[n(32)]
    CodeAudit(#[n(0)] Box<CodeAudit>),
    /// What the lines of an order say by id and number, in words.
    #[n(33)]
    SessionNames(#[n(0)] Box<SessionNames>),
}

/// The cluster as its nodes and operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ClusterView {
    #[n(0)]
    pub version: u64,
    /// The id of the member that asked, if one did.
    #[n(4)]
    pub own: Option<u64>,
    /// How many copies each data shard is to have.
    #[n(1)]
    pub replicas: u8,
    /// All members, also removed ones, by id.
    #[n(2)]
    pub members: BTreeMap<u64, Member>,
    /// Where each shard should be, by shard. Shard 0 is the directory.
    #[n(3)]
    pub places: Vec<Place>,
    /// The version under which everything is written.
    #[n(5)]
    pub cluster_version: ClusterVersion,
}

/// An invitation, as the operator who made it receives it.
#[derive(Clone, PartialEq, Eq, Stored)]
pub struct InvitationView {
    /// No machine uses it from then on.
    #[n(0)]
    pub ends_at: Timestamp,
    /// Where clients reach the members that serve.
    #[n(1)]
    pub clients: Vec<SmolStr>,
    /// The cluster's id. The node that answers the operator writes it.
    #[n(2)]
    pub cluster: Option<SmolStr>,
    /// The secret of the nodes. The node that answers the operator writes it, and no log, snapshot or other node has it from here.
    #[n(3)]
    pub secret: Option<SmolStr>,
}

impl fmt::Debug for InvitationView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvitationView { ends_at, clients, cluster, secret: _ } = self;
        f.debug_struct("InvitationView")
            .field("ends_at", ends_at)
            .field("clients", clients)
            .field("cluster", cluster)
            .finish_non_exhaustive()
    }
}

/// A title as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct TitleView {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub title: Title,
}

/// A page of venues.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct VenuesPage {
    /// The entries, in order.
    #[n(0)]
    pub venues: Vec<VenueEntry>,
    /// The cursor of the next page, absent on the last page.
    #[n(1)]
    pub next: Option<SmolStr>,
}

/// A venue in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct VenueEntry {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub name: SmolStr,
    #[n(2)]
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    #[n(3)]
    pub position: Option<(i32, i32)>,
    /// The distance from the point of the search, in metres.
    #[n(4)]
    pub distance_m: Option<u64>,
    /// The IANA name of its zone, if it has one.
    #[n(5)]
    pub zone: Option<SmolStr>,
}

/// Units of a product by state. They add up to its stock (P1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct StockCounts {
    #[n(0)]
    pub free: u64,
    /// Units in carts.
    #[n(1)]
    pub held: u64,
    #[n(2)]
    pub sold: u64,
}

/// A product as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ProductView {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub details: ProductDetails,
    #[n(2)]
    pub counts: StockCounts,
}

/// A resource as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ResourceView {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub details: ResourceDetails,
    /// The number of bookings, including held ones.
    #[n(2)]
    pub bookings: u64,
}

/// A page of a customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct PurchasesPage {
    /// By cursor.
    #[n(1)]
    pub purchases: Vec<Purchase>,
    /// The cursor of the newest purchase. 0 if there is none.
    #[n(0)]
    pub newest: u64,
    /// The epoch of the cursors. The rules leave it out, and the node adds it.
    #[n(2)]
    pub epoch: Option<u64>,
}

/// Places of an area by state. They add up to its capacity (P1).
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct AreaCounts {
    #[n(0)]
    pub area: Id,
    #[n(1)]
    pub free: u32,
    /// Places in carts.
    #[n(2)]
    pub held: u32,
    #[n(3)]
    pub sold: u32,
}

/// What a put of a venue changed besides its details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct VenueChange {
    /// How many coming sessions show another hour, because the zone is another one. No instant moves.
    #[n(0)]
    pub shifted: u32,
}

/// A venue as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct VenueView {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub details: VenueDetails,
    /// Each with id, name and number of seats.
    #[n(2)]
    pub halls: Vec<(Id, SmolStr, u32)>,
}

/// A hall as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct HallView {
    #[n(0)]
    pub venue: Id,
    #[n(1)]
    pub id: Id,
    #[n(3)]
    pub name: SmolStr,
    #[n(4)]
    pub comments: SmolStr,
    #[n(2)]
    pub layout: Arc<Layout>,
}

/// Seats by state. They add up to the layout's seats (P5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct SeatCounts {
    #[n(0)]
    pub free: u32,
    /// Seats in carts.
    #[n(1)]
    pub held: u32,
    #[n(2)]
    pub sold: u32,
    /// Seats kept off sale.
    #[n(3)]
    pub blocked: u32,
}

/// A session as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionView {
    #[n(0)]
    pub venue: Id,
    /// The session with its terms of now.
    #[n(1)]
    pub session: NewSession,
    /// The reason of the cancellation, if it is canceled.
    #[n(5)]
    pub canceled: Option<SmolStr>,
    #[n(2)]
    pub counts: SeatCounts,
    #[n(4)]
    pub area_counts: Vec<AreaCounts>,
    /// The hall's layout when the session was created.
    #[n(3)]
    pub layout: Arc<Layout>,
    /// The IANA name of its venue's zone, if the venue has one.
    #[n(6)]
    pub zone: Option<SmolStr>,
    /// Its offers, and how its terms have changed. `None` without both.
    #[n(7)]
    pub sale: Option<Box<SessionSale>>,
}

impl SessionView {
    /// Whether there is anything of its offers that not everybody may see.
    pub fn has_secrets(&self) -> bool {
        let offers = self.session.offering.iter().flat_map(|offering| &offering.offers);
        let has_allotments = self.session.offering.iter().any(|offering| !offering.allotments.is_empty());
        has_allotments
            || offers.into_iter().any(|offer| !offer.is_for_everybody())
            || self.sale.as_ref().is_some_and(|sale| !sale.changes.is_empty())
    }

    /// The session as a customer with these attributes may see it, and everybody without any: without the offers of the desk, of codes and
    /// of other attributes, without the counters that only they have, and without what the house has changed, because that names them.
    /// Allotments are the house's business, too.
    pub fn for_customer(mut self, attributes: &[Id]) -> SessionView {
        let Some(offering) = self.session.extras.offering.as_deref() else { return self.without_changes() };
        let has_offers = !offering.offers.is_empty();
        let Offering { price_types, mut offers, counters, mut allotments } = offering.clone();
        // Everybody may have these, beside an accessible seat.
        allotments.retain(|allotment| allotment.companions);
        offers.retain(|offer| offer.is_told_to(attributes));
        let is_shown = |counter: &Counter| offers.iter().any(|offer| offer.counters.contains(&counter.id));
        let shown: Vec<bool> = counters.iter().map(is_shown).collect();
        let mut shows = shown.iter();
        let counters = counters.into_iter().filter(|_| shows.next() == Some(&true)).collect();
        if let Some(sale) = &mut self.sale {
            sale.opened.retain(|id| offers.iter().any(|offer| offer.id == *id));
            let mut shows = shown.iter();
            sale.counted.retain(|_| shows.next() == Some(&true));
            (sale.released, sale.kept) = (Vec::new(), Vec::new());
            sale.desk_only = has_offers && offers.is_empty();
            let is_ahead = |offer: &&Offer| !offer.closed && !sale.opened.contains(&offer.id);
            sale.opens_at = offers.iter().filter(is_ahead).filter_map(|offer| offer.from).min();
        }
        self.session.extras.offering = Some(Arc::new(Offering { price_types, offers, counters, allotments }));
        self.without_changes()
    }

    fn without_changes(mut self) -> SessionView {
        if let Some(sale) = &mut self.sale {
            sale.changes.clear();
        }
        self
    }
}

/// The offers of a session as they are now, and how its terms have changed.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionSale {
    /// How often the terms have changed.
    #[n(0)]
    pub terms: u32,
    /// Offers whose begin has come.
    #[n(1)]
    pub opened: Vec<Id>,
    /// How many are held and sold, by counter in their order.
    #[n(2)]
    pub counted: Vec<u64>,
    /// The newest changes, oldest first.
    #[n(3)]
    pub changes: Vec<TermsChange>,
    /// When the next offer for everybody opens, whatever is open now.
    #[n(4)]
    pub opens_at: Option<Timestamp>,
    /// Whether it has offers and none is for everybody: each is the desk's or needs a code, so other callers are not told of any.
    #[n(5)]
    pub desk_only: bool,
    /// Allotments whose seats are on sale like all others.
    #[n(6)]
    pub released: Vec<Id>,
    /// How many seats are free and kept, by allotment in their order.
    #[n(7)]
    pub kept: Vec<u32>,
}

/// A change of a session's terms.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct TermsChange {
    /// The version of the terms with it.
    #[n(0)]
    pub terms: u32,
    /// When, in true time.
    #[n(1)]
    pub at: Timestamp,
    /// What is different since, in words.
    #[n(2)]
    pub what: Vec<SmolStr>,
    /// The session's version with it.
    #[n(3)]
    pub version: u64,
}

/// What a session is called, and what its orders say by id and number, for a receipt that is read years later.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionNames {
    #[n(0)]
    pub session: Id,
    #[n(1)]
    pub title: Id,
    #[n(2)]
    pub venue: Id,
    #[n(3)]
    pub hall: Id,
    #[n(4)]
    pub starts_at: Timestamp,
    #[n(5)]
    pub ends_at: Timestamp,
    /// The IANA name of its venue's zone, if the venue has one.
    #[n(6)]
    pub zone: Option<SmolStr>,
    /// By version of the terms, each once, ascending.
    #[n(7)]
    pub terms: Vec<(u32, TermsNames)>,
    /// In the order of the question.
    #[n(8)]
    pub seats: Vec<SeatLabels>,
}

/// What the ids in a line mean: names of areas, price types and offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct TermsNames {
    #[n(0)]
    pub areas: Vec<NamedInTerms>,
    #[n(1)]
    pub price_types: Vec<NamedInTerms>,
    #[n(2)]
    pub offers: Vec<NamedInTerms>,
}

/// A thing with its names.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct NamedInTerms {
    #[n(0)]
    pub id: Id,
    /// Empty if it has none.
    #[n(1)]
    pub name: SmolStr,
    /// By locale.
    #[n(2)]
    pub names: Names,
}

/// A seat with its labels in the hall's layout when the session was created.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SeatLabels {
    #[n(0)]
    pub seat: Seat,
    #[n(1)]
    pub row: SmolStr,
    #[n(2)]
    pub label: SmolStr,
    /// What is said of it. Empty if nothing is.
    #[n(3)]
    pub note: SmolStr,
}

/// What a change of a session's terms has changed.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionChanged {
    /// The version of the terms with it.
    #[n(0)]
    pub terms: u32,
    /// What is different, in words.
    #[n(1)]
    pub what: Vec<SmolStr>,
}

impl Deref for SessionView {
    type Target = NewSession;

    fn deref(&self) -> &NewSession {
        &self.session
    }
}

impl DerefMut for SessionView {
    fn deref_mut(&mut self) -> &mut NewSession {
        &mut self.session
    }
}

/// A session in its venue's index.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionEntry {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub hall: Id,
    #[n(2)]
    pub title: Id,
    #[n(3)]
    pub starts_at: Timestamp,
    #[n(4)]
    pub ends_at: Timestamp,
    /// Whether it is open for sale. It is not while it is being created.
    #[n(5)]
    pub open: bool,
    /// The IANA name of its venue's zone, if the venue has one.
    #[n(6)]
    pub zone: Option<SmolStr>,
    /// When the next offer for everybody opens, whatever is open now.
    #[n(7)]
    pub opens_at: Option<Timestamp>,
}

/// What those who watch a session are told of its offers and terms. They read the session again for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct SaleMark {
    /// The session's version with which an offer opened last, or the terms changed.
    #[n(0)]
    pub version: u64,
    /// When the next offer for everybody opens, whatever is open now.
    #[n(1)]
    pub opens_at: Option<Timestamp>,
}

/// The state of every seat of a session at a version.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct MapView {
    #[n(0)]
    pub session: Id,
    /// The epoch of the version. The rules set 0, and the feeds set their epoch.
    #[n(1)]
    pub epoch: u64,
    #[n(2)]
    pub version: u64,
    #[n(3)]
    pub counts: SeatCounts,
    #[n(4)]
    pub areas: Vec<AreaCounts>,
    /// Two bits a seat in layout order ([`crate::seat::SeatState`] as a number), four seats a byte, the first in the lowest bits.
    #[n(5)]
    pub seats: Vec<u8>,
    /// `None` for a session without offers whose terms have never changed.
    #[n(6)]
    pub sale: Option<SaleMark>,
}

/// What a network or a customer holds of an inventory, without a trace of its address.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct HolderView {
    /// A keyed hash in hexadecimal digits, which differs between inventories.
    #[n(2)]
    pub holder: SmolStr,
    /// Seats, places, units or slots.
    #[n(0)]
    pub held: u32,
    /// Seat-seconds that it has used of its account. Below 0 is a bonus for what it bought.
    #[n(1)]
    pub used_seconds: i64,
}

/// A live hold of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct HoldView {
    /// The hold, with its cart.
    #[n(0)]
    pub hold: HoldId,
    /// The highest revision seen.
    #[n(1)]
    pub revision: u64,
    /// When the inventory asks the cart about it.
    #[n(2)]
    pub deadline: Timestamp,
    #[n(3)]
    pub portion: Portion,
    /// The customer of its cart, if the carts were asked and it has one. The inventory does not know.
    #[n(4)]
    pub customer: Option<Id>,
    /// When its cart got the line, if the carts were asked and it has the line.
    #[n(5)]
    pub since: Option<Timestamp>,
}

/// A sale of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SaleView {
    #[n(0)]
    pub order: OrderId,
    /// The hold that was sold.
    #[n(1)]
    pub hold: HoldId,
    #[n(2)]
    pub portion: Portion,
    #[n(3)]
    pub at: Timestamp,
    /// The customer of the order, if the carts were asked and it has one. The inventory does not know.
    #[n(4)]
    pub customer: Option<Id>,
}

/// Everything about a session, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct SessionAudit {
    #[n(0)]
    pub session: Id,
    /// Counted seat by seat.
    #[n(1)]
    pub counts: SeatCounts,
    /// Counted hold by hold and sale by sale.
    #[n(2)]
    pub areas: Vec<AreaCounts>,
    /// Live holds, by id.
    #[n(3)]
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    #[n(4)]
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    #[n(5)]
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    #[n(6)]
    pub violations: Vec<SmolStr>,
}

/// Everything about a cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CartAudit {
    #[n(0)]
    pub cart: CartView,
    /// The holds of its lines.
    #[n(2)]
    pub holds: Vec<Claim>,
    /// The state of its order's money.
    #[n(6)]
    pub payment: Option<PaymentStatus>,
    #[n(3)]
    pub refunds: Vec<RefundRecord>,
    /// Attempts to pay that were given up.
    #[n(4)]
    pub voids: Vec<VoidRecord>,
    /// The number of the newest attempt to pay that the gateway was asked for. An order that the gateway paid was paid by it.
    #[n(7)]
    pub attempt: Option<u32>,
    /// How many messages it owes.
    #[n(1)]
    pub owed: u32,
    /// Violations in words. Empty when every promise holds.
    #[n(5)]
    pub violations: Vec<SmolStr>,
}

/// A hold of a line.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Claim {
    #[n(0)]
    pub line: u32,
    /// When the cart got the line.
    #[n(1)]
    pub since: Timestamp,
    #[n(2)]
    pub entity: Entity,
    #[n(3)]
    pub hold: HoldId,
    /// The revision that the cart knows.
    #[n(4)]
    pub revision: u64,
    /// The part of it that the line needs. Nothing if the line was refunded.
    #[n(5)]
    pub portion: Option<Portion>,
}

/// Everything about a product, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ProductAudit {
    #[n(0)]
    pub product: Id,
    /// Counted hold by hold and sale by sale.
    #[n(1)]
    pub counts: StockCounts,
    /// Live holds, by id.
    #[n(2)]
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    #[n(3)]
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    #[n(4)]
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    #[n(5)]
    pub violations: Vec<SmolStr>,
}

/// Everything about a resource, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ResourceAudit {
    #[n(0)]
    pub resource: Id,
    /// The number of bookings, including held ones.
    #[n(1)]
    pub bookings: u64,
    /// Live holds, by id.
    #[n(2)]
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    #[n(3)]
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    #[n(4)]
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    #[n(5)]
    pub violations: Vec<SmolStr>,
}

/// A session, product or resource as it was at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsOf {
    pub entity: Entity,
    pub at: Timestamp,
    /// From then on it was as it is here.
    pub since: Timestamp,
    /// Its next change. `None` if it has not changed since.
    pub until: Option<Timestamp>,
    /// The earliest instant that can be asked for. `None` if there are all since it began.
    pub floor: Option<Timestamp>,
    /// The shard's last entry that is known to be in it.
    pub position: u64,
    /// The number of events that it had had.
    pub version: u64,
    /// The seats of a session.
    pub map: Option<MapView>,
    /// Everything about it, counted anew, in the field of its kind.
    pub session: Option<SessionAudit>,
    pub product: Option<ProductAudit>,
    pub resource: Option<ResourceAudit>,
}

/// A code and its uses. The code itself is never told.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CodeView {
    #[n(0)]
    pub group: Id,
    /// How many may be held and sold.
    #[n(1)]
    pub uses: u32,
    /// It is not taken any more.
    #[n(2)]
    pub ended: bool,
    /// Uses in carts.
    #[n(3)]
    pub held: u64,
    #[n(4)]
    pub sold: u64,
    /// A cart takes one use, for as many seats and places as it likes.
    #[n(5)]
    pub by_order: bool,
}

/// Everything about a code, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CodeAudit {
    /// The id of its entity.
    #[n(0)]
    pub code: Id,
    /// Counted hold by hold and sale by sale.
    #[n(1)]
    pub counts: CodeView,
    /// Live holds, by id.
    #[n(2)]
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    #[n(3)]
    pub sales: Vec<SaleView>,
    /// Violations in words. Empty when every promise holds.
    #[n(4)]
    pub violations: Vec<SmolStr>,
}

/// Everything about a customer, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CustomerAudit {
    #[n(0)]
    pub customer: Id,
    /// Each quota with how many are in carts and how many were bought.
    #[n(1)]
    pub quotas: Vec<(Id, u64, u64)>,
    /// Live holds of quotas, by id.
    #[n(2)]
    pub holds: Vec<HoldView>,
    /// Sold parts of quotas, by hold.
    #[n(3)]
    pub sales: Vec<SaleView>,
    /// Posted orders, by cursor.
    #[n(4)]
    pub purchases: Vec<OrderId>,
    /// Violations in words. Empty when every promise holds.
    #[n(5)]
    pub violations: Vec<SmolStr>,
}
