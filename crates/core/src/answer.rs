//! What commands are answered with.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    command::{Payment, VenueDetails},
    id::{CartId, Entity, HoldId, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    refusal::Refusal,
    seat::Seat,
    time::Timestamp,
};

/// Where in an entity's history an answer stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
        /// Sold for certain, but not every session has said so yet.
        settling: bool,
    },
    /// Of `admin.audit` of a session.
    SessionAudit(SessionAudit),
    /// Of `admin.audit` of a cart.
    CartAudit(CartAudit),
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
    /// How long carts with seats of it live untouched, if it says so itself.
    pub hold_ttl_ms: Option<u64>,
    /// Seats by state.
    pub counts: SeatCounts,
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

/// One seat of a line and the price captured when it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PricedSeat {
    /// Which seat.
    pub seat: Seat,
    /// Minor units of the cart's currency.
    pub price: i64,
}

/// One line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineView {
    /// The line's number in its cart; never used again.
    pub line: u32,
    /// Of which session.
    pub session: Id,
    /// Its seats, ascending, with prices.
    pub seats: Vec<PricedSeat>,
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
    /// Sum of the lines; absent while there is none.
    pub total: Option<Money>,
    /// The order it became.
    pub order: Option<OrderId>,
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
}

/// A hold as a session keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// Whose, and which.
    pub hold: HoldId,
    /// The highest revision seen.
    pub revision: u64,
    /// When the session asks the cart about it.
    pub deadline: Timestamp,
    /// Its seats.
    pub seats: Vec<Seat>,
}

/// A sale as a session keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleView {
    /// The order that bought them.
    pub order: OrderId,
    /// The seats.
    pub seats: Vec<Seat>,
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
    /// Live holds, by id.
    pub holds: Vec<HoldView>,
    /// Sales, in their order.
    pub sales: Vec<SaleView>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Everything a cart knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartAudit {
    /// The cart.
    pub cart: CartView,
    /// The holds its lines rest on: session, hold, revision, seats.
    pub holds: Vec<(Id, HoldId, u64, Vec<Seat>)>,
    /// How many messages it still owes sessions.
    pub owed: u32,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}
