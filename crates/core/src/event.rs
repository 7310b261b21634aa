//! What happened: the content of the log. Events carry absolute values and are applied without a question.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    answer::{Answer, At, Order, Purchase, TakenAway},
    ask::{Ask, Opening},
    cluster::{Member, Place},
    command::{NewSession, Payment, ProductDetails, ResourceDetails, Shipping, Title, VenueDetails},
    id::{CartId, Entity, HoldId, Id, OrderId, Request},
    layout::Layout,
    money::{Currency, Money},
    payment::{PaymentFailure, PaymentStatus, RefundRecord, RefundStatus, VoidStatus},
    portion::Content,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// Something that happened to an entity. Each raises the entity's version by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// To a venue.
    Venue(VenueEvent),
    /// To a session.
    Session(SessionEvent),
    /// To a cart.
    Cart(CartEvent),
    /// To a product.
    Product(ProductEvent),
    /// To a resource.
    Resource(ResourceEvent),
    /// To a customer.
    Customer(CustomerEvent),
    /// To the directory.
    Directory(DirectoryEvent),
    /// To the cluster.
    Cluster(ClusterEvent),
}

/// An answer kept so that a repeat of its request gets the same (P9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The request.
    pub request: Request,
    /// What it was answered.
    pub answer: Answer,
    /// Where those stood that were asked for it, in the order of its lines. Where the entity itself stands follows: it is
    /// the version with this event.
    pub asked: Vec<At>,
}

impl Remembered {
    /// An answer for which nobody else was asked.
    pub fn alone(request: Request, answer: Answer) -> Remembered {
        Remembered { request, answer, asked: Vec::new() }
    }
}

/// What happens to venues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VenueEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: VenueDetails,
        /// The request.
        request: Request,
    },
    /// A hall was created or changed, or put as it was.
    HallPut {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// What is said of it.
        comments: SmolStr,
        /// Its seats; absent if they are as they were.
        layout: Option<Arc<Layout>>,
        /// The request.
        request: Request,
    },
    /// The hall is booked for the session and the session is owed its opening.
    SessionBooked {
        /// As asked.
        session: NewSession,
        /// The hall's layout at that moment.
        layout: Arc<Layout>,
    },
    /// The session has said that it is open.
    SessionOpened(Id),
    /// The session could not be opened under this id: the hall's time is free again.
    SessionRefused(Id),
    /// The session has said that it is canceled: the hall's time is free again.
    SessionCanceled(Id),
    /// The directory has said that it knows the venue as it was at this version.
    Listed {
        /// The venue's version that it was told.
        version: u64,
    },
}

/// What happens to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterEvent {
    /// Its first node made it of itself, with every shard.
    Founded {
        /// Which.
        node: u64,
        /// What is known of it.
        member: Box<Member>,
        /// How many data shards there are, besides the directory's.
        shards: u16,
        /// How many copies each data shard is to have.
        replicas: u8,
    },
    /// A member came, or something of it changed, or was put as it was.
    MemberPut {
        /// Which.
        node: u64,
        /// What it is now.
        member: Box<Member>,
        /// The request, if an operator or a joiner asked for it.
        request: Option<Request>,
    },
    /// Shards got other aims.
    Placed {
        /// Which shards, and their places now.
        places: Vec<(u16, Place)>,
        /// The next replica gets this generation.
        next_generation: u64,
    },
    /// A shard's members are as they should be.
    Reached {
        /// Which shard.
        shard: u16,
        /// The version of its place.
        version: u64,
    },
}

/// What happens to the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryEvent {
    /// A title was created or changed, or put as it was.
    TitlePut {
        /// Which title.
        id: Id,
        /// What it is now.
        title: Title,
        /// The request.
        request: Request,
    },
    /// A venue has said where it is.
    VenueListed {
        /// Which venue.
        venue: Id,
        /// Name, city and position.
        details: VenueDetails,
        /// The venue's version with them.
        version: u64,
    },
}

/// What happens to the holds of an inventory, whatever it is that they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldEvent {
    /// The cart said that the hold is its own for longer.
    Extended {
        /// Which hold.
        hold: HoldId,
        /// When the cart is asked again: what it said, and the grace.
        deadline: Timestamp,
    },
    /// A hold that has nothing was spoken of as released: it is remembered, for the ask for it may still be on its way.
    Remembered {
        /// Which hold.
        hold: HoldId,
        /// Its revision.
        revision: u64,
    },
    /// The cart is terminal: its released holds need not be remembered.
    Forgotten(CartId),
}

/// What happens to products.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: Box<ProductDetails>,
        /// The request.
        request: Request,
    },
    /// Units were given to a cart, or more of them to a hold that it has.
    UnitsHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// How many it has altogether.
        quantity: u32,
        /// Minor units for one, captured when it was held first.
        price: i64,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Units of a hold are free again.
    UnitsReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// How many are left; the hold is over with 0.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// All units the hold has left are sold, the hold is over. What is not sold was released by the event before.
    UnitsSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its units are free again.
    UnitsRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To a hold, whatever it has.
    Hold(HoldEvent),
}

/// What happens to resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceEvent {
    /// Created or changed, or put as it was.
    Put {
        /// What it is now.
        details: Box<ResourceDetails>,
        /// The request.
        request: Request,
    },
    /// Time was given to a cart.
    SlotHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// Minor units.
        price: i64,
        /// What was said of it.
        details: SmolStr,
        /// When the cart is asked about it: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// The time of a hold is free again.
    SlotReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Whether the revision is remembered.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// The hold is sold.
    SlotSold {
        /// Which hold.
        hold: HoldId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its time is free again.
    SlotRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// Booked without a cart.
    Reserved {
        /// Id, begin and end of every booking, by begin.
        bookings: Vec<(Id, Timestamp, Timestamp)>,
        /// The id of the series, if it is one.
        series: Option<Id>,
        /// What was said of them.
        details: SmolStr,
        /// The request.
        remembered: Remembered,
    },
    /// Bookings were canceled; their time is free again.
    BookingsCanceled {
        /// Which.
        bookings: Vec<Id>,
        /// The request.
        remembered: Remembered,
    },
    /// A booking is at another time.
    BookingMoved {
        /// Which.
        booking: Id,
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// To a hold.
    Hold(HoldEvent),
}

/// What happens to customers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerEvent {
    /// Part of a quota was given to a cart, or more of it to a hold that it has.
    QuotaHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// Which quota.
        quota: Id,
        /// How many it has altogether.
        count: u32,
        /// When the cart is asked about it: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Part of a hold, or all of it, may be used again.
    QuotaReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// How many are left; the hold is over with 0.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// What the hold has left is used up for good.
    QuotaSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        count: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over: it may be used again.
    QuotaRefunded {
        /// Which hold.
        hold: HoldId,
    },
    /// To a hold.
    Hold(HoldEvent),
    /// An order is among the purchases, under the next cursor.
    Posted(Purchase),
}

impl Event {
    /// The same release, because the cart's time was over.
    pub(crate) fn by_expiry(mut self) -> Event {
        if let Event::Session(
            SessionEvent::SeatsReleased { expired, .. } | SessionEvent::PlacesReleased { expired, .. },
        )
        | Event::Product(ProductEvent::UnitsReleased { expired, .. })
        | Event::Resource(ResourceEvent::SlotReleased { expired, .. })
        | Event::Customer(CustomerEvent::QuotaReleased { expired, .. }) = &mut self
        {
            *expired = true;
        }
        self
    }
}

/// What happens to sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionEvent {
    /// It is on sale.
    Opened(Opening),
    /// Free seats were given to a cart.
    SeatsHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// Which seats, ascending.
        seats: Vec<Seat>,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Seats of a hold are free again.
    SeatsReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Which seats.
        seats: Vec<Seat>,
        /// Whether the revision is remembered after the last seat of the hold is given back.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// All seats the hold has left are sold, the hold is over. What is not sold was released by the event before.
    SeatsSold {
        /// Which hold.
        hold: HoldId,
        /// Which seats, ascending.
        seats: Vec<Seat>,
        /// To whom.
        order: OrderId,
        /// When the order was decided.
        at: Timestamp,
    },
    /// The sale of this hold is over, its seats or places are free again.
    SaleRefunded {
        /// Which hold.
        hold: HoldId,
        /// Its seats, if it had seats.
        seats: Vec<Seat>,
    },
    /// Places were given to a cart, or more of them to a hold that it has.
    PlacesHeld {
        /// Whose.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// Hash of what was asked for.
        want_hash: u64,
        /// In which area.
        area: Id,
        /// How many it has altogether.
        quantity: u32,
        /// When the cart is asked about them: the cart's deadline and the grace.
        deadline: Timestamp,
    },
    /// Places of a hold are free again.
    PlacesReleased {
        /// Which hold.
        hold: HoldId,
        /// The hold's revision.
        revision: u64,
        /// How many are left; the hold is over with 0.
        left: u32,
        /// Whether the revision is remembered when nothing is left.
        remember: bool,
        /// Whether the cart's time was over; otherwise it was given back.
        expired: bool,
    },
    /// All places the hold has left are sold, the hold is over. What is not sold was released by the event before.
    PlacesSold {
        /// Which hold.
        hold: HoldId,
        /// How many.
        quantity: u32,
        /// When the order was decided.
        at: Timestamp,
    },
    /// To a hold, whatever it has.
    Hold(HoldEvent),
    /// It will not take place: nothing more is held, and every cart is asked to give back what it has.
    Canceled {
        /// Why.
        reason: SmolStr,
        /// The request.
        request: Request,
    },
    /// The venue of the canceled session has said that its hall is free again.
    Vacated,
    /// The box office keeps these seats off sale.
    SeatsBlocked {
        /// Which, all of them free before.
        seats: Vec<Seat>,
        /// The request.
        request: Request,
    },
    /// These seats are on sale again.
    SeatsUnblocked {
        /// Which, all of them blocked before.
        seats: Vec<Seat>,
        /// The request.
        request: Request,
    },
}

impl SessionEvent {
    /// What becomes of which seats: all a watcher needs to keep its map right (P14). `None` if no seat changes.
    pub fn change(&self) -> Option<(SeatState, &[Seat])> {
        match self {
            SessionEvent::SeatsHeld { seats, .. } => Some((SeatState::Held, seats)),
            SessionEvent::SeatsReleased { seats, .. }
            | SessionEvent::SeatsUnblocked { seats, .. }
            | SessionEvent::SaleRefunded { seats, .. } => Some((SeatState::Free, seats)),
            SessionEvent::SeatsSold { seats, .. } => Some((SeatState::Sold, seats)),
            SessionEvent::SeatsBlocked { seats, .. } => Some((SeatState::Blocked, seats)),
            SessionEvent::Opened(_)
            | SessionEvent::PlacesHeld { .. }
            | SessionEvent::PlacesReleased { .. }
            | SessionEvent::PlacesSold { .. }
            | SessionEvent::Hold(_)
            | SessionEvent::Canceled { .. }
            | SessionEvent::Vacated => None,
        }
    }
}

/// A line as it is added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLine {
    /// Of which session, product or resource.
    pub entity: Entity,
    /// The hold it rests on and its revision; `None` for one that is validated at the checkout.
    pub hold: Option<(HoldId, u64)>,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
    /// What it has, with the prices captured now.
    pub content: Content,
    /// How long the inventory lets carts live untouched, if it says so.
    pub ttl_ms: Option<u64>,
    /// Until when those who granted it may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}

/// The hold of a line on its customer's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaClaim {
    /// Which hold of the customer's.
    pub hold: HoldId,
    /// Its revision.
    pub revision: u64,
    /// Which quota.
    pub quota: Id,
    /// How many the customer may have of it.
    pub max: u32,
}

/// A message owed to another entity until it is acknowledged: an entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// To whom; `None` is the gateway.
    pub to: Option<Entity>,
    /// What it is told.
    pub ask: Ask,
}

/// What happens to carts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartEvent {
    /// It exists.
    Opened {
        /// When.
        at: Timestamp,
        /// Whose, as the client said.
        customer: Option<Id>,
        /// How long it lives untouched, if the client or the rules said so.
        ttl_ms: u64,
        /// When it expires if it is not touched.
        deadline: Timestamp,
        /// The request, unless a hold opened it.
        remembered: Option<Remembered>,
        /// Things have happened to it: it has disowned holds, and may have left memory since.
        known: bool,
    },
    /// Lines were added, or grew; the cart was touched.
    LinesAdded {
        /// The new lines, in order.
        lines: Vec<NewLine>,
        /// Lines that have more than before.
        grown: Vec<GrownLine>,
        /// Whose the cart is, if that was not known before.
        customer: Option<Id>,
        /// Their currency; the same for every line of the cart.
        currency: Currency,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// A line has less, or ended; the inventory is owed the release.
    LineReduced {
        /// Which line.
        line: u32,
        /// What it has now; nothing if it ended.
        left: Option<Content>,
        /// The hold's new revision.
        revision: u64,
        /// The new revision of the hold on the customer's quota; 0 if there is none.
        quota_revision: u64,
        /// The new deadline of the cart.
        deadline: Timestamp,
        /// Who took it, if its owner did not give it back.
        taken: Option<TakenAway>,
        /// The request; none if a canceled session took it.
        remembered: Option<Remembered>,
    },
    /// Grown holds did not become lines: they are to be what the lines have. Their inventories are owed releases.
    GrowthUndone {
        /// Line, new revision of its hold, new revision of the hold on the customer's quota (0: untouched).
        lines: Vec<(u32, u64, u64)>,
    },
    /// These holds can never become lines; their inventories are owed releases.
    Disowned {
        /// Inventory and hold, and the revision of the release.
        holds: Vec<(Entity, HoldId, u64)>,
    },
    /// Given up by its owner; every inventory is owed what it held.
    Canceled {
        /// When.
        at: Timestamp,
        /// The request.
        remembered: Remembered,
    },
    /// Its deadline passed; every inventory is owed what it held.
    Expired {
        /// When.
        at: Timestamp,
        /// It had reached the highest age of a cart: touching it would not have helped.
        aged: bool,
    },
    /// A checkout that takes more than one step: lines are frozen and do not expire until it is decided or abandoned.
    CheckoutBegun {
        /// The how-manieth attempt, from 1.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// How it is to be paid.
        payment: Box<Payment>,
        /// Who buys.
        customer: Option<Id>,
        /// Where it goes.
        shipping: Option<Box<Shipping>>,
        /// What it comes to.
        amount: Money,
        /// The cart's deadline if it is active again.
        deadline: Timestamp,
        /// The request.
        request: Request,
    },
    /// The checkout under way came to nothing. What was held for it only is disowned by the event before.
    CheckoutAbandoned {
        /// When.
        at: Timestamp,
        /// How the payment ended, which is remembered under the checkout's request. `None` if the gateway was not asked.
        failure: Option<PaymentFailure>,
        /// Whether the cart ends and everything is given back, or it is active again.
        release: bool,
        /// Whether a gateway may have been asked: if not, the attempt's number is free again.
        asked: bool,
        /// Whether the gateway is owed a void.
        void: bool,
        /// The gateway's name for what it set aside, if it is known.
        reference: Option<SmolStr>,
    },
    /// The decision: done, with this order; every inventory is owed the sale, the gateway the capture, the customer the
    /// purchase.
    CheckedOut {
        /// What was bought.
        order: Arc<Order>,
        /// Holds of lines that were validated at the checkout.
        reserved: Vec<Reserved>,
        /// The gateway's name for what it set aside.
        reference: Option<SmolStr>,
        /// The request.
        request: Request,
    },
    /// How the money of the order stands.
    PaymentChanged(PaymentStatus),
    /// Lines of the order are paid back: their inventories are owed the refund, and so is the gateway.
    Refunded {
        /// What, how much and why.
        refund: RefundRecord,
        /// The request; none if a session was canceled.
        remembered: Option<Remembered>,
    },
    /// How the money of a refund stands.
    RefundChanged {
        /// The how-manieth of the order.
        number: u32,
        /// How it stands.
        status: RefundStatus,
    },
    /// An attempt that had been given up turned out to have set money aside: the gateway is owed a void.
    StrayAuthorized {
        /// Which attempt.
        attempt: u32,
        /// The gateway's name for it.
        reference: SmolStr,
    },
    /// How the void of an attempt stands.
    VoidChanged {
        /// Which attempt.
        attempt: u32,
        /// How it stands.
        status: VoidStatus,
    },
    /// Owed messages were acknowledged.
    Delivered {
        /// Their numbers in the outbox.
        numbers: Vec<u64>,
        /// Where those stood that have sold: it is part of what the checkout is answered.
        sold: Vec<At>,
    },
    /// A request was granted that changed nothing, or all that it changed is in the events before; it is remembered.
    Granted(Remembered),
}

/// What was set aside at the checkout for a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Which line.
    pub line: u32,
    /// The hold it rests on.
    pub hold: HoldId,
    /// The hold's revision.
    pub revision: u64,
    /// The hold on the customer's quota, if there is a limit.
    pub quota: Option<QuotaClaim>,
}

/// A line with more than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownLine {
    /// Which line.
    pub line: u32,
    /// The hold's revision; 0 for a line that is validated at the checkout.
    pub revision: u64,
    /// The revision of the hold on the customer's quota; 0 if there is none.
    pub quota_revision: u64,
    /// What it has altogether.
    pub content: Content,
    /// Until when those who granted it may believe in its holds without asking the cart.
    pub believed_until: Timestamp,
}
