//! What commands are answered with.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    access::AccessKey,
    cluster::{Member, Place},
    command::{Area, Limits, Payment, ProductDetails, ResourceDetails, Shipping, Title, VenueDetails},
    id::{CartId, Entity, HoldId, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    payment::{PaymentFailure, PaymentStatus, RefundRecord, VoidRecord},
    portion::{Content, Portion},
    refusal::{Conflict, Refusal},
    time::Timestamp,
};

/// Where in an entity's history an answer stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct At {
    /// Which entity.
    pub entity: Entity,
    /// Its version: the number of events it has had.
    pub version: u64,
    /// The place of that event in the log of the entity's shard; 0 where it is not known (reads).
    pub position: u64,
}

/// What comes back for a command: an answer with what it rests on, or a refusal.
pub type Outcome = Result<Answered, Refusal>;

/// A granted command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Versions after, or at, the command: the entity that decided first, then those it asked.
    pub at: Vec<At>,
}

/// The body of an ok.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done; there is nothing else to say.
    Done,
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
    /// Of the holds.
    Held(Held),
    /// Of `cart.checkout` and `order.get`.
    Order {
        /// The order.
        order: Arc<Order>,
        /// Sold for certain, but not everything sold has said so yet.
        settling: bool,
        /// How the money stands.
        payment: PaymentStatus,
        /// What was paid back, in order.
        refunds: Vec<RefundRecord>,
    },
    /// Of `order.refund`: what is paid back.
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
    /// Of `resource.reserve` and `resource.move`: what is booked now, by begin.
    Booked(Vec<BookingView>),
    /// Of `resource.is_available`: nothing in the way, or what is.
    Available(Vec<Conflict>),
    /// Of `resource.bookings`.
    Bookings(Vec<BookingView>),
    /// Of `resource.free_slots`: begin and end.
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
    /// Of `admin.keys`, by name.
    Keys(Vec<(Id, AccessKey)>),
}

/// The cluster as its nodes and operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// The version this is the state at.
    pub version: u64,
    /// Which member the asker is, if it asked to be one.
    pub own: Option<u64>,
    /// How many copies each data shard is to have.
    pub replicas: u8,
    /// Every member there ever was, by id.
    pub members: BTreeMap<u64, Member>,
    /// Where each shard should be, by shard; 0 is the directory's.
    pub places: Vec<Place>,
}

/// A title as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleView {
    /// Its id.
    pub id: Id,
    /// What is known of it.
    pub title: Title,
}

/// Some of the venues that were looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenuesPage {
    /// In order.
    pub venues: Vec<VenueEntry>,
    /// Where to go on; absent if this was all.
    pub next: Option<SmolStr>,
}

/// A venue in the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueEntry {
    /// Its id.
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// How far it is from the point asked for, in metres.
    pub distance_m: Option<u64>,
}

/// Units of a product by state; they add up to its stock (P1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockCounts {
    /// Free units.
    pub free: u64,
    /// Units in carts.
    pub held: u64,
    /// Bought units.
    pub sold: u64,
}

/// A product as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductView {
    /// Its id.
    pub id: Id,
    /// What is known of it.
    pub details: ProductDetails,
    /// Units by state.
    pub counts: StockCounts,
}

/// A resource as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceView {
    /// Its id.
    pub id: Id,
    /// What is known of it.
    pub details: ResourceDetails,
    /// How many bookings it has, held ones counted.
    pub bookings: u64,
}

/// What a booking is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BookingState {
    /// Made with `resource.reserve`.
    Reserved,
    /// In somebody's cart.
    Held,
    /// Bought.
    Sold,
}

/// A booking as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingView {
    /// Its id; of one made through a cart, a text that names the hold.
    pub booking: SmolStr,
    /// From.
    pub begin: Timestamp,
    /// Up to, exclusive.
    pub end: Timestamp,
    /// What it is.
    pub state: BookingState,
    /// What was said of it.
    pub details: SmolStr,
    /// The order that bought it.
    pub order: Option<OrderId>,
}

/// An order in its customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    /// Where it stands among the customer's purchases, from 1; 0 while it is on its way there.
    pub cursor: u64,
    /// Which order.
    pub order: OrderId,
    /// When it was decided.
    pub at: Timestamp,
    /// What it came to.
    pub total: Money,
}

/// Some of a customer's purchases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurchasesPage {
    /// By cursor.
    pub purchases: Vec<Purchase>,
    /// The cursor of the newest one there is; 0 if there is none.
    pub newest: u64,
}

/// Places of an area by state; they add up to its capacity (P1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaCounts {
    /// Which area.
    pub area: Id,
    /// Free places.
    pub free: u32,
    /// Places in carts.
    pub held: u32,
    /// Bought places.
    pub sold: u32,
}

/// A venue as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueView {
    /// Its id.
    pub id: Id,
    /// Its details.
    pub details: VenueDetails,
    /// Its halls: id, name, number of seats.
    pub halls: Vec<(Id, SmolStr, u32)>,
}

/// A hall as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HallView {
    /// The hall's venue.
    pub venue: Id,
    /// Its id.
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// What is said of it.
    pub comments: SmolStr,
    /// Its seats.
    pub layout: Arc<Layout>,
}

/// Seats by state; they add up to the layout's seats (P5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatCounts {
    /// Free seats.
    pub free: u32,
    /// Seats in carts.
    pub held: u32,
    /// Bought seats.
    pub sold: u32,
    /// Seats kept off sale.
    pub blocked: u32,
}

/// A session as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its id.
    pub id: Id,
    /// In which venue.
    pub venue: Id,
    /// In which hall.
    pub hall: Id,
    /// What is shown.
    pub title: Id,
    /// When it starts.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
    /// A price for each category.
    pub prices: Vec<(Id, Money)>,
    /// Places without seats.
    pub areas: Vec<Area>,
    /// How long carts with seats of it live untouched, if it says so itself.
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    pub limits: Limits,
    /// What is said of it.
    pub comments: SmolStr,
    /// Why it will not take place, if it will not.
    pub canceled: Option<SmolStr>,
    /// Seats by state.
    pub counts: SeatCounts,
    /// Places by area and state.
    pub area_counts: Vec<AreaCounts>,
    /// Its seats: the hall's as they were when the session was made.
    pub layout: Arc<Layout>,
}

/// A session in its venue's index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// Its id.
    pub id: Id,
    /// In which hall.
    pub hall: Id,
    /// What is shown.
    pub title: Id,
    /// When it starts.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
    /// Whether it is open for sale; it is not yet while it is being created.
    pub open: bool,
}

/// The state of every seat of a session at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapView {
    /// Which session.
    pub session: Id,
    /// The epoch the version belongs to. The rules know of none and say 0; whoever feeds watchers writes theirs in.
    pub epoch: u64,
    /// The version this is the state at.
    pub version: u64,
    /// Counts of it.
    pub counts: SeatCounts,
    /// Places by area and state.
    pub areas: Vec<AreaCounts>,
    /// Two bits a seat in layout order ([`crate::seat::SeatState`] as a number), four seats a byte, the first in the lowest bits.
    pub seats: Vec<u8>,
}

/// The state of a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartState {
    /// Lines may be added and given back.
    Active,
    /// A payment is under way; lines are frozen and do not expire.
    CheckingOut,
    /// It became an order.
    Done,
    /// Given up by its owner.
    Canceled,
    /// Its deadline passed.
    Expired,
}

impl CartState {
    /// The state in the words of the protocol.
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
    /// The line's number in its cart; never used again.
    pub line: u32,
    /// Of which session, product or resource.
    pub entity: Entity,
    /// What of it, with the prices captured when it was held.
    pub content: Content,
    /// Nothing is set aside before the checkout.
    pub late: bool,
}

/// Why a cart ended without an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It was not touched until its deadline.
    Expired,
    /// It reached the highest age of a cart. Touching it would not have helped.
    TooOld,
    /// Its owner canceled it.
    Canceled,
    /// Its payment came to nothing, and everything was given back.
    Unpaid(PaymentFailure),
}

/// Who took a line away from a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taker {
    /// An operator, with `admin.release`.
    Operator,
    /// Its session, which will not take place.
    Session,
}

/// Who took a line away from a cart, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenAway {
    /// Who.
    pub by: Taker,
    /// Why, in the operator's words.
    pub reason: SmolStr,
}

/// A line that its owner did not give back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenLine {
    /// The line as it was.
    pub line: LineView,
    /// Who took it away.
    pub by: Taker,
    /// Why, in the operator's words.
    pub reason: SmolStr,
}

/// A cart as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartView {
    /// Its id.
    pub id: CartId,
    /// Where it stands.
    pub state: CartState,
    /// Whose it is, as the client said.
    pub customer: Option<Id>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires if it is not touched; of an ended cart, when it would have.
    pub deadline: Timestamp,
    /// Its lines; an expired or canceled cart keeps the ones it ended with.
    pub lines: Vec<LineView>,
    /// The version of the cart with which lines, quantities or prices changed last; 0 if it never had a line.
    pub lines_version: u64,
    /// Lines that were taken away from its owner, the newest [`crate::cart::CART_LINES_MAX`].
    pub taken: Vec<TakenLine>,
    /// Sum of the lines; absent while there is none.
    pub total: Option<Money>,
    /// The order it became.
    pub order: Option<OrderId>,
    /// Why it ended, if it did without an order.
    pub ended: Option<Ended>,
}

/// Lines just added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The cart.
    pub cart: CartId,
    /// The new lines, in the order asked for.
    pub lines: Vec<LineView>,
    /// Their currency.
    pub currency: Currency,
    /// The cart's new deadline.
    pub deadline: Timestamp,
    /// The new version of the cart's lines.
    pub lines_version: u64,
}

/// What a done cart bought; written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Who bought, as the client said.
    pub customer: Option<Id>,
    /// When it was decided.
    pub at: Timestamp,
    /// What was bought.
    pub lines: Vec<LineView>,
    /// Σ of the prices captured when held (P7).
    pub total: Money,
    /// How it was paid.
    pub payment: Payment,
    /// Where it goes.
    pub shipping: Option<Shipping>,
}

/// A hold as its inventory keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// Whose, and which.
    pub hold: HoldId,
    /// The highest revision seen.
    pub revision: u64,
    /// When the cart is asked about it.
    pub deadline: Timestamp,
    /// What it has.
    pub portion: Portion,
}

/// A sale as its inventory keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleView {
    /// The order that bought it.
    pub order: OrderId,
    /// The hold that was sold.
    pub hold: HoldId,
    /// What was bought.
    pub portion: Portion,
    /// When.
    pub at: Timestamp,
}

/// Everything a session knows of its seats, counted afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAudit {
    /// Which session.
    pub session: Id,
    /// Counted seat by seat.
    pub counts: SeatCounts,
    /// Counted hold by hold and sale by sale.
    pub areas: Vec<AreaCounts>,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything a cart knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartAudit {
    /// The cart.
    pub cart: CartView,
    /// The holds its lines rest on.
    pub holds: Vec<Claim>,
    /// How the money of its order stands.
    pub payment: Option<PaymentStatus>,
    /// What was paid back.
    pub refunds: Vec<RefundRecord>,
    /// Attempts whose money was given up.
    pub voids: Vec<VoidRecord>,
    /// How many messages it still owes others.
    pub owed: u32,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// A hold that a line of a cart rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which line.
    pub line: u32,
    /// Of which inventory.
    pub entity: Entity,
    /// Which hold.
    pub hold: HoldId,
    /// The revision the cart knows of.
    pub revision: u64,
    /// What the line needs of it; nothing any more if the line was refunded.
    pub portion: Option<Portion>,
}

/// Everything a product knows of its units, counted afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductAudit {
    /// Which product.
    pub product: Id,
    /// Counted hold by hold and sale by sale.
    pub counts: StockCounts,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything a resource knows of its time, counted afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAudit {
    /// Which resource.
    pub resource: Id,
    /// Bookings, held ones counted.
    pub bookings: u64,
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, by hold.
    pub sales: Vec<SaleView>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything a customer entity knows, counted afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerAudit {
    /// Which customer.
    pub customer: Id,
    /// Quotas with how many are in carts and how many were bought.
    pub quotas: Vec<(Id, u64, u64)>,
    /// Live holds of quotas, by id.
    pub holds: Vec<HoldView>,
    /// Quotas used up for good, by hold.
    pub sales: Vec<SaleView>,
    /// Orders posted, by cursor.
    pub purchases: Vec<OrderId>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}
