//! Answers to commands.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    access::AccessKey,
    cluster::{Member, Place},
    command::{NewSession, Payment, ProductDetails, ResourceDetails, Shipping, Title, VenueDetails},
    id::{CartId, Entity, HoldId, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    payment::{PaymentFailure, PaymentStatus, RefundRecord, VoidRecord},
    portion::{Content, LineItem, Portion},
    push_exact::push_exact,
    refusal::{Conflict, Refusal},
    time::Timestamp,
};

/// A point in an entity's history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct At {
    pub entity: Entity,
    /// The number of events that the entity has had.
    pub version: u64,
    /// The place of that event in the log of the entity's shard. 0 if it is not known, as for reads.
    pub position: u64,
}

/// The result of a command, which is an answer with the versions that it rests on, or a refusal.
pub type Outcome = Result<Answered, Refusal>;

/// A granted command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub answer: Answer,
    /// The versions after the command, or at it. The entity that decided comes first, then those that it asked.
    pub at: Vec<At>,
}

/// The body of an ok.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done, without a body.
    Done,
    /// Of `venue.put`.
    VenuePut(VenueChange),
    /// Of `venue.get`.
    Venue(VenueView),
    /// Of `hall.get`.
    Hall(HallView),
    /// Of `session.get` and `session.create`.
    Session(Arc<SessionView>),
    /// Of `session.search`.
    Sessions(Vec<SessionEntry>),
    /// Of `session.map`.
    Map(MapView),
    /// Of `cart.open`, `cart.get`, `cart.cancel` and `cart.release`.
    Cart(CartView),
    /// Of `cart.hold_…`.
    Held(Held),
    /// Of `cart.checkout` and `order.get`.
    Order {
        order: Arc<Order>,
        /// The order is decided, but not every inventory has acknowledged its sale.
        settling: bool,
        payment: PaymentStatus,
        /// The refunds, in order.
        refunds: Vec<RefundRecord>,
    },
    /// Of `order.refund`.
    Refund(RefundRecord),
    /// Of `title.get`.
    Title(TitleView),
    /// Of `title.search`.
    Titles(Vec<TitleView>),
    /// Of `venue.search`.
    Venues(VenuesPage),
    /// Ids of venues, ascending.
    VenueIds(Vec<Id>),
    /// Of `product.get` and `product.put`.
    Product(Arc<ProductView>),
    /// Of `resource.get` and `resource.put`.
    Resource(Arc<ResourceView>),
    /// Of `resource.reserve` and `resource.move`. The new bookings, by begin.
    Booked(Vec<BookingView>),
    /// Of `resource.is_available`. The conflicts, none if the time is available.
    Available(Vec<Conflict>),
    /// Of `resource.bookings`.
    Bookings(Vec<BookingView>),
    /// Of `resource.free_slots`. Each slot with its begin and end.
    FreeSlots(Vec<(Timestamp, Timestamp)>),
    /// Of `customer.purchases`, by cursor.
    Purchases(PurchasesPage),
    /// Of `admin.audit` of a session.
    SessionAudit(Box<SessionAudit>),
    /// Of `admin.audit` of a cart.
    CartAudit(Box<CartAudit>),
    /// Of `admin.audit` of a product.
    ProductAudit(Box<ProductAudit>),
    /// Of `admin.audit` of a resource.
    ResourceAudit(Box<ResourceAudit>),
    /// Of `admin.audit` of a customer.
    CustomerAudit(Box<CustomerAudit>),
    /// Of `admin.nodes` and `admin.join`.
    Cluster(Box<ClusterView>),
    /// Of `admin.invite`.
    Invitation(Box<InvitationView>),
    /// Of `admin.keys`, by name.
    Keys(Vec<(Id, AccessKey)>),
}

/// The cluster as its nodes and operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    pub version: u64,
    /// The id of the member that asked, if one did.
    pub own: Option<u64>,
    /// How many copies each data shard is to have.
    pub replicas: u8,
    /// All members, also removed ones, by id.
    pub members: BTreeMap<u64, Member>,
    /// Where each shard should be, by shard. Shard 0 is the directory.
    pub places: Vec<Place>,
}

/// An invitation, as the operator who made it receives it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationView {
    /// No machine uses it from then on.
    pub ends_at: Timestamp,
    /// Where clients reach the members that serve.
    pub clients: Vec<SmolStr>,
    /// The cluster's id. The node that answers the operator writes it.
    pub cluster: Option<SmolStr>,
    /// The secret of the nodes. The node that answers the operator writes it, and no log, snapshot or other node has it from here.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleView {
    pub id: Id,
    pub title: Title,
}

/// A page of venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenuesPage {
    /// The entries, in order.
    pub venues: Vec<VenueEntry>,
    /// The cursor of the next page, absent on the last page.
    pub next: Option<SmolStr>,
}

/// A venue in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueEntry {
    pub id: Id,
    pub name: SmolStr,
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// The distance from the point of the search, in metres.
    pub distance_m: Option<u64>,
    /// The IANA name of its zone, if it has one.
    pub zone: Option<SmolStr>,
}

/// Units of a product by state. They add up to its stock (P1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockCounts {
    pub free: u64,
    /// Units in carts.
    pub held: u64,
    pub sold: u64,
}

/// A product as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductView {
    pub id: Id,
    pub details: ProductDetails,
    pub counts: StockCounts,
}

/// A resource as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceView {
    pub id: Id,
    pub details: ResourceDetails,
    /// The number of bookings, including held ones.
    pub bookings: u64,
}

/// The state of a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BookingState {
    /// Made with `resource.reserve`.
    Reserved,
    /// In a cart.
    Held,
    Sold,
}

/// A booking as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingView {
    /// Its id, or a text that names the hold if a cart made it.
    pub booking: SmolStr,
    pub begin: Timestamp,
    /// Up to, exclusive.
    pub end: Timestamp,
    pub state: BookingState,
    pub details: SmolStr,
    /// The order that bought it.
    pub order: Option<OrderId>,
}

/// An order in its customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    /// Its position among the customer's purchases, from 1. It is 0 until the customer has it.
    pub cursor: u64,
    pub order: OrderId,
    /// When it was decided.
    pub at: Timestamp,
    pub total: Money,
    /// The IANA name of the zone of the first line that has one.
    pub zone: Option<SmolStr>,
    /// What it was for, in the order of its lines.
    pub items: Vec<PurchasedItem>,
}

/// How much of one thing an order was for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchasedItem {
    /// The session, product or resource.
    pub entity: Entity,
    /// The number of seats, places or units. Each slot counts as one.
    pub quantity: u32,
}

impl PurchasedItem {
    /// The lines of an order, summed by what they are of.
    pub(crate) fn of_lines(lines: &[LineView]) -> Vec<PurchasedItem> {
        let mut items: Vec<PurchasedItem> = Vec::new();
        for line in lines {
            let quantity = line.content.quantity();
            match items.iter_mut().find(|item| item.entity == line.entity) {
                Some(item) => item.quantity = item.quantity.saturating_add(quantity),
                None => push_exact(&mut items, PurchasedItem { entity: line.entity.clone(), quantity }),
            }
        }
        items
    }
}

/// A page of a customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchasesPage {
    /// By cursor.
    pub purchases: Vec<Purchase>,
    /// The cursor of the newest purchase. 0 if there is none.
    pub newest: u64,
}

/// Places of an area by state. They add up to its capacity (P1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaCounts {
    pub area: Id,
    pub free: u32,
    /// Places in carts.
    pub held: u32,
    pub sold: u32,
}

/// What a put of a venue changed besides its details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueChange {
    /// How many coming sessions show another hour, because the zone is another one. No instant moves.
    pub shifted: u32,
}

/// A venue as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueView {
    pub id: Id,
    pub details: VenueDetails,
    /// Each with id, name and number of seats.
    pub halls: Vec<(Id, SmolStr, u32)>,
}

/// A hall as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HallView {
    pub venue: Id,
    pub id: Id,
    pub name: SmolStr,
    pub comments: SmolStr,
    pub layout: Arc<Layout>,
}

/// Seats by state. They add up to the layout's seats (P5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatCounts {
    pub free: u32,
    /// Seats in carts.
    pub held: u32,
    pub sold: u32,
    /// Seats kept off sale.
    pub blocked: u32,
}

/// A session as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    pub venue: Id,
    /// The session as it was created.
    pub session: NewSession,
    /// The reason of the cancellation, if it is canceled.
    pub canceled: Option<SmolStr>,
    pub counts: SeatCounts,
    pub area_counts: Vec<AreaCounts>,
    /// The hall's layout when the session was created.
    pub layout: Arc<Layout>,
    /// The IANA name of its venue's zone, if the venue has one.
    pub zone: Option<SmolStr>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    pub id: Id,
    pub hall: Id,
    pub title: Id,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    /// Whether it is open for sale. It is not while it is being created.
    pub open: bool,
    /// The IANA name of its venue's zone, if the venue has one.
    pub zone: Option<SmolStr>,
}

/// The state of every seat of a session at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapView {
    pub session: Id,
    /// The epoch of the version. The rules set 0, and the feeds set their epoch.
    pub epoch: u64,
    pub version: u64,
    pub counts: SeatCounts,
    pub areas: Vec<AreaCounts>,
    /// Two bits a seat in layout order ([`crate::seat::SeatState`] as a number), four seats a byte, the first in the lowest bits.
    pub seats: Vec<u8>,
}

/// The state of a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartState {
    /// Lines may be added and released.
    Active,
    /// A checkout is under way. Lines are frozen and do not expire.
    CheckingOut,
    /// It became an order.
    Done,
    /// Its owner canceled it, or its payment failed.
    Canceled,
    /// Its deadline passed.
    Expired,
}

impl CartState {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            CartState::Active => "active",
            CartState::CheckingOut => "checking_out",
            CartState::Done => "done",
            CartState::Canceled => "canceled",
            CartState::Expired => "expired",
        }
    }
}

/// One line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineView {
    /// The line's number in its cart. It is never reused.
    pub line: u32,
    pub item: LineItem,
    /// It is set aside only at the checkout.
    pub late: bool,
}

impl LineView {
    /// A line without anything that may be left out.
    pub fn new(line: u32, entity: Entity, content: Content, late: bool) -> LineView {
        LineView { line, item: LineItem::new(entity, content), late }
    }
}

/// A line is read as its item.
impl Deref for LineView {
    type Target = LineItem;

    fn deref(&self) -> &LineItem {
        &self.item
    }
}

impl DerefMut for LineView {
    fn deref_mut(&mut self) -> &mut LineItem {
        &mut self.item
    }
}

/// Why a cart ended without an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It was not touched until its deadline.
    Expired,
    /// It reached the highest age of a cart.
    TooOld,
    /// Its owner canceled it.
    Canceled,
    /// Its payment failed, and everything was released.
    Unpaid(PaymentFailure),
}

/// The party that took a line away from a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taker {
    /// An operator, with `admin.release` or `resource.cancel`.
    Operator,
    /// Its session, which is canceled.
    Session,
}

/// Why a line was taken away from a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenAway {
    pub by: Taker,
    /// Why, in the operator's words.
    pub reason: SmolStr,
}

/// A line that was taken away from its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenLine {
    /// The line as it was.
    pub line: LineView,
    pub by: Taker,
    /// Why, in the operator's words.
    pub reason: SmolStr,
}

/// A cart as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartView {
    pub id: CartId,
    pub state: CartState,
    /// Its customer, as the client said.
    pub customer: Option<Id>,
    pub opened_at: Timestamp,
    /// When its lines, customer, deadline or state changed last.
    pub modified_at: Timestamp,
    /// Its deadline if it is not touched. An ended cart keeps its last one.
    pub deadline: Timestamp,
    /// Its lines. An expired or canceled cart keeps its last ones.
    pub lines: Vec<LineView>,
    /// The version of the cart with which lines, quantities or prices changed last. 0 if it never had a line.
    pub lines_version: u64,
    /// Lines that were taken away from its owner, the newest [`crate::cart::CART_LINES_MAX`].
    pub taken: Vec<TakenLine>,
    /// The sum of the lines, absent without lines.
    pub total: Option<Money>,
    /// The order it became.
    pub order: Option<OrderId>,
    /// Why it ended, if it did without an order.
    pub ended: Option<Ended>,
}

/// Lines just added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub cart: CartId,
    /// The new lines, in the order asked for.
    pub lines: Vec<LineView>,
    pub currency: Currency,
    /// The cart's new deadline.
    pub deadline: Timestamp,
    /// The new version of the cart's lines.
    pub lines_version: u64,
}

/// The order of a done cart. It is written once and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub id: OrderId,
    /// The buyer, as the client said.
    pub customer: Option<Id>,
    /// When it was decided.
    pub at: Timestamp,
    pub lines: Vec<LineView>,
    /// Σ of the prices captured when held (P7).
    pub total: Money,
    pub payment: Payment,
    pub shipping: Option<Shipping>,
}

/// What a network or a customer holds of an inventory, without a trace of its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// A keyed hash in hexadecimal digits, which differs between inventories.
    pub holder: SmolStr,
    /// Seats, places, units or slots.
    pub held: u32,
    /// Seat-seconds that it has used of its account. Below 0 is a bonus for what it bought.
    pub used_seconds: i64,
}

/// A live hold of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// The hold, with its cart.
    pub hold: HoldId,
    /// The highest revision seen.
    pub revision: u64,
    /// When the inventory asks the cart about it.
    pub deadline: Timestamp,
    pub portion: Portion,
    /// The customer of its cart, if the carts were asked and it has one. The inventory does not know.
    pub customer: Option<Id>,
    /// When its cart got the line, if the carts were asked and it has the line.
    pub since: Option<Timestamp>,
}

/// A sale of an inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleView {
    pub order: OrderId,
    /// The hold that was sold.
    pub hold: HoldId,
    pub portion: Portion,
    pub at: Timestamp,
    /// The customer of the order, if the carts were asked and it has one. The inventory does not know.
    pub customer: Option<Id>,
}

/// Everything about a session, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAudit {
    pub session: Id,
    /// Counted seat by seat.
    pub counts: SeatCounts,
    /// Counted hold by hold and sale by sale.
    pub areas: Vec<AreaCounts>,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything about a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartAudit {
    pub cart: CartView,
    /// The holds of its lines.
    pub holds: Vec<Claim>,
    /// The state of its order's money.
    pub payment: Option<PaymentStatus>,
    pub refunds: Vec<RefundRecord>,
    /// Attempts to pay that were given up.
    pub voids: Vec<VoidRecord>,
    /// How many messages it owes.
    pub owed: u32,
    /// Violations in words. Empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// A hold of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub line: u32,
    /// When the cart got the line.
    pub since: Timestamp,
    pub entity: Entity,
    pub hold: HoldId,
    /// The revision that the cart knows.
    pub revision: u64,
    /// The part of it that the line needs. Nothing if the line was refunded.
    pub portion: Option<Portion>,
}

/// Everything about a product, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductAudit {
    pub product: Id,
    /// Counted hold by hold and sale by sale.
    pub counts: StockCounts,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything about a resource, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAudit {
    pub resource: Id,
    /// The number of bookings, including held ones.
    pub bookings: u64,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// The networks and customers that hold most.
    pub holders: Vec<HolderView>,
    /// Violations in words. Empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything about a customer, counted anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerAudit {
    pub customer: Id,
    /// Each quota with how many are in carts and how many were bought.
    pub quotas: Vec<(Id, u64, u64)>,
    /// Live holds of quotas, by id.
    pub holds: Vec<HoldView>,
    /// Sold parts of quotas, by hold.
    pub sales: Vec<SaleView>,
    /// Posted orders, by cursor.
    pub purchases: Vec<OrderId>,
    /// Violations in words. Empty when every promise holds.
    pub violations: Vec<SmolStr>,
}
