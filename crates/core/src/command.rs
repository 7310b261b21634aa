//! What clients ask for, checked as far as it can be without looking at any state.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    id::{CartId, CartToken, Entity, Id, hash64},
    layout::Layout,
    money::{Currency, Money},
    payment::{GatewayOutcome, OnDecline, PaymentKey, PaymentStep, Settlement},
    seat::{Seat, SeatSet},
    time::Timestamp,
};

/// A command, addressed to the entity that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Command {
    /// To a venue.
    Venue(Id, VenueCommand),
    /// To a session.
    Session(Id, SessionCommand),
    /// To a cart.
    Cart(CartId, CartCommand),
    /// To a product.
    Product(Id, ProductCommand),
    /// To a resource.
    Resource(Id, ResourceCommand),
    /// To a customer.
    Customer(Id, CustomerCommand),
    /// To the directory.
    Directory(DirectoryCommand),
}

impl Command {
    /// The entity that decides this command.
    pub fn entity(&self) -> Entity {
        match self {
            Command::Venue(id, _) => Entity::Venue(id.clone()),
            Command::Session(id, _) => Entity::Session(id.clone()),
            Command::Cart(id, _) => Entity::Cart(*id),
            Command::Product(id, _) => Entity::Product(id.clone()),
            Command::Resource(id, _) => Entity::Resource(id.clone()),
            Command::Customer(id, _) => Entity::Customer(id.clone()),
            Command::Directory(_) => Entity::Directory,
        }
    }
}

/// What the directory is told or asked. Venues tell it themselves where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum DirectoryCommand {
    /// Create or change a title: `title.put`. The title remembers its last puts.
    PutTitle(Id, Title),
    /// `title.get`.
    GetTitle(Id),
    /// `title.search`: by name, then id.
    SearchTitles {
        /// Only titles with this in their name.
        name: Option<SmolStr>,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this title: name and id of the last one of the page before.
        after: Option<(SmolStr, Id)>,
    },
    /// `venue.search`: by name, then id; by distance if near a point.
    SearchVenues {
        /// Only in this city.
        city: Option<SmolStr>,
        /// Only venues with this in their name.
        name: Option<SmolStr>,
        /// Nearest first to this longitude and latitude, in millionths of a degree.
        near: Option<(i32, i32)>,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on where the page before ended, as its answer said.
        after: Option<SmolStr>,
    },
    /// Every venue of a city, by id: what a search for sessions over a city asks.
    VenuesOfCity(SmolStr),
}

/// What is shown: a film, a play, a match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// What it is called.
    pub name: SmolStr,
    /// Who directed it.
    pub director: SmolStr,
    /// Who is in it.
    pub cast: Vec<SmolStr>,
    /// Anything worth saying.
    pub comments: SmolStr,
    /// How long it takes, in milliseconds.
    pub duration_ms: Option<u64>,
}

/// What a product is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ProductCommand {
    /// Create or change it: `product.put`. It remembers its last puts.
    Put(Box<ProductDetails>),
    /// `product.get`.
    Get,
    /// `admin.audit`.
    Audit,
}

/// What is known of a product besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name; names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Anything else, opaque; up to 1 KiB.
    pub blob: Vec<u8>,
    /// For one unit.
    pub price: Money,
    /// Units free, held and sold together.
    pub stock: u64,
    /// When units are set aside for a cart.
    pub hold: HoldPolicy,
    /// How long carts with units of it live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    pub limits: Limits,
}

/// When a product's units are set aside for a cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldPolicy {
    /// When they are put into the cart.
    #[default]
    AtAdd,
    /// Not before the checkout: for hot products (SC).
    AtCheckout,
}

/// How many of something one order and one customer may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In one cart, and so in one order.
    pub per_order: Option<u32>,
    /// By one customer, over all carts, orders and whatever else names the same quota.
    pub per_customer: Option<CustomerLimit>,
}

/// A limit over everything a customer has under one quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerLimit {
    /// Which quota: sessions and products with the same one share it.
    pub quota: Id,
    /// How many.
    pub max: u32,
}

/// What a resource is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ResourceCommand {
    /// Create or change it: `resource.put`. It remembers its last puts; bookings that exist stay.
    Put(Box<ResourceDetails>),
    /// `resource.get`.
    Get,
    /// `resource.reserve`: books time without a cart, once or again and again: all of it, or a refusal with every conflict.
    Reserve {
        /// The booking's id, chosen by the client. Bookings of a series have `.1`, `.2`, … behind it.
        booking: Id,
        /// When.
        when: When,
        /// When again.
        repeat: Option<Repeat>,
        /// Anything worth saying; kept beside the calendar.
        details: SmolStr,
    },
    /// `resource.cancel`: the booking, or with `series` every booking of the series.
    Cancel {
        /// Which booking or series.
        booking: Id,
        /// Whether it is a series.
        series: bool,
    },
    /// `resource.move`: to another time; refused with the old time kept if that does not fit.
    Move {
        /// Which booking.
        booking: Id,
        /// When now.
        when: When,
    },
    /// `resource.is_available`.
    IsAvailable(When),
    /// `resource.bookings`: those that overlap `[from, to)`, by begin, then id.
    Bookings {
        /// From.
        from: Timestamp,
        /// Up to.
        to: Timestamp,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this one: begin and id as told.
        after: Option<(Timestamp, SmolStr)>,
    },
    /// `resource.free_slots`: the first free slots of a length.
    FreeSlots {
        /// From.
        from: Timestamp,
        /// Up to.
        to: Timestamp,
        /// How long a slot is to be, in milliseconds.
        length_ms: u64,
        /// How many; 1 to 1 000.
        count: u32,
    },
    /// `admin.audit`.
    Audit,
}

/// A slot as a client says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// Instants: `[begin, end)`.
    Utc {
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
    },
    /// Times on the wall where the resource is, as `2026-03-29T02:30` with seconds if need be.
    Local {
        /// From.
        begin: SmolStr,
        /// Up to, exclusive.
        end: SmolStr,
    },
}

/// When a booking comes again. Times on the wall stay the same across changes of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// In days, weeks or months.
    pub every: Every,
    /// Every how many of them; at least 1.
    pub interval: u32,
    /// When it is enough.
    pub until: Until,
}

/// The measure of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// Days.
    Day,
    /// Weeks, on these weekdays: 1 is Monday, 7 Sunday; the weekday of the first booking if there is none.
    Week(Vec<u8>),
    /// Months, on the day of the month of the first booking; months without it are left out.
    Month,
}

/// The end of a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// After so many bookings, the first one counted.
    Count(u32),
    /// With the last one that begins on or before this day, as `2026-12-31`.
    Date(SmolStr),
}

/// What is known of a resource besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name; names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// How many bookings there may be at an instant; at least 1.
    pub capacity: u32,
    /// The IANA name of the zone it stands in.
    pub zone: SmolStr,
    /// When it may be booked; always if absent.
    pub hours: Option<OpeningHours>,
    /// Kept free before every booking, in milliseconds.
    pub before_ms: u64,
    /// Kept free after every booking, in milliseconds.
    pub after_ms: u64,
    /// A booking begins at the earliest so long from now, in milliseconds.
    pub notice_ms: u64,
    /// A booking ends at the latest so long from now, in milliseconds.
    pub horizon_ms: Option<u64>,
    /// What a slot costs in a cart.
    pub rate: Rate,
    /// How long carts with slots of it live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    pub limits: Limits,
}

/// What time costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Minor units.
    pub amount: i64,
    /// Of what.
    pub currency: Currency,
    /// For every begun span of so many milliseconds; for the whole slot if absent.
    pub per_ms: Option<u64>,
}

/// When a resource may be booked, in times on its wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningHours {
    /// By weekday from Monday on: spans of minutes of the day, `[open, close)`, up to 1440.
    pub week: [Vec<(u16, u16)>; 7],
    /// Days that differ, as `2026-12-24`, with their own spans; none of them means closed.
    pub exceptions: Vec<(SmolStr, Vec<(u16, u16)>)>,
}

/// What a customer is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CustomerCommand {
    /// `customer.purchases`: the orders of this customer, by cursor.
    Purchases {
        /// Go on after this cursor; from the first if 0.
        after: u64,
        /// At most so many; 1 to 1 000.
        limit: u32,
    },
    /// `admin.audit`.
    Audit,
}

/// What a venue is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum VenueCommand {
    /// Create or change it: `venue.put`. It remembers its last puts.
    Put(VenueDetails),
    /// `venue.get`: its details, and its halls by name and size.
    Get,
    /// Create or change a hall: `hall.put`. Sessions that exist keep the layout they were made with.
    PutHall {
        /// Which hall.
        hall: Id,
        /// What it is called.
        name: SmolStr,
        /// Its seats.
        layout: Arc<Layout>,
    },
    /// `hall.get`: name and layout.
    GetHall {
        /// Which hall.
        hall: Id,
    },
    /// `session.create`: books the hall for the time (P13 for halls), then opens the session. Idempotent by id.
    CreateSession(NewSession),
    /// `session.search`: sessions of this venue that start in `[from, to)`, by start, then id.
    SearchSessions {
        /// Only in this hall.
        hall: Option<Id>,
        /// Only this title.
        title: Option<Id>,
        /// Starting at or after.
        from: Timestamp,
        /// Starting before.
        to: Timestamp,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this session: the last one of the page before.
        after: Option<(Timestamp, Id)>,
    },
}

/// What is known of a venue besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// Anything worth saying.
    pub comments: SmolStr,
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its id, chosen by the client.
    pub id: Id,
    /// In which hall of the venue.
    pub hall: Id,
    /// What is shown.
    pub title: Id,
    /// When it starts; the hall is booked for `[starts_at, ends_at)`.
    pub starts_at: Timestamp,
    /// When it ends.
    pub ends_at: Timestamp,
    /// A price for every category of the hall's layout; all in one currency.
    pub prices: Vec<(Id, Money)>,
    /// Places without seats.
    pub areas: Vec<Area>,
    /// How long carts with seats of this session live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many seats and places one order and one customer may have.
    pub limits: Limits,
}

/// Interchangeable places of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its id, unique in the session.
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// How many places.
    pub capacity: u32,
    /// For one place; in the currency of all prices of the session.
    pub price: Money,
}

/// What a session is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SessionCommand {
    /// `session.get`: what, where, when, prices, counts, layout.
    Get,
    /// `session.map`: the state of every seat, with the version.
    Map,
    /// `session.block`: keeps free seats off sale, all or none. Seats blocked already stay so.
    Block(Vec<Seat>),
    /// `session.unblock`: puts blocked seats back on sale, all or none. Free seats stay free.
    Unblock(Vec<Seat>),
    /// `session.cancel`: it will not take place. Holds are given back and orders refunded, through their carts.
    Cancel {
        /// Why, for everyone to read.
        reason: SmolStr,
    },
    /// `admin.audit`: counts, holds and sales, counted afresh from the seats.
    Audit,
}

/// What a hold in a session asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// These seats; with `best_effort` as many of them as are free, but at least one.
    Seats {
        /// Which.
        seats: SeatSet,
        /// Take what is free and leave the rest.
        best_effort: bool,
    },
    /// The best seats there are, by the rule of best available.
    Best(BestWish),
    /// Places in an area: so many altogether.
    Places {
        /// Which area.
        area: Id,
        /// How many.
        quantity: u32,
    },
    /// Units of a product: so many altogether.
    Units {
        /// How many.
        quantity: u32,
        /// Set them aside even if the product does that only at the checkout.
        now: bool,
    },
    /// Time of a resource: `[begin, end)`.
    Slot {
        /// From.
        begin: Timestamp,
        /// Up to, exclusive.
        end: Timestamp,
    },
    /// Part of what a customer may have.
    Quota {
        /// Which quota.
        quota: Id,
        /// How many altogether.
        count: u32,
        /// How many the customer may have of it.
        max: u32,
    },
}

impl Want {
    /// A hash of what is asked for. It is written into the log: what goes in, and how it is mixed, is the same for ever.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Want::Seats { seats, best_effort } => {
                let kind = if *best_effort { 2 } else { 1 };
                let word = |seat: &Seat| u64::from(seat.row) << 16 | u64::from(seat.seat);
                seats.as_slice().iter().fold(mix(0, kind), |hash, seat| mix(hash, word(seat)))
            }
            Want::Best(BestWish { count, category, section, accessible, split }) => {
                let kind = if *split { 4 } else { 3 };
                let numbers = u64::from(*count) << 16 | u64::from(*accessible);
                let name = |name: &Option<Id>| name.as_ref().map_or(0, |name| hash64(name.as_str().as_bytes()));
                [numbers, name(category), name(section)].into_iter().fold(mix(0, kind), mix)
            }
            Want::Places { area, quantity } => {
                [hash64(area.as_str().as_bytes()), u64::from(*quantity)].into_iter().fold(mix(0, 5), mix)
            }
            Want::Units { quantity, now } => mix(mix(0, if *now { 7 } else { 6 }), u64::from(*quantity)),
            Want::Slot { begin, end } => [begin.0, end.0].into_iter().fold(mix(0, 8), mix),
            Want::Quota { quota, count, max } => {
                let numbers = u64::from(*count) << 32 | u64::from(*max);
                [hash64(quota.as_str().as_bytes()), numbers].into_iter().fold(mix(0, 9), mix)
            }
        }
    }
}

/// Folds one word into a hash: the finalizer of SplitMix64.
fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What the best seats must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BestWish {
    /// How many; 1 to 20.
    pub count: u16,
    /// Only of this category.
    pub category: Option<Id>,
    /// Only in this section.
    pub section: Option<Id>,
    /// Exactly so many of them accessible.
    pub accessible: u16,
    /// If no run is long enough, take several.
    pub split: bool,
}

/// One line to be added to a cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedLine {
    /// Of which session, product or resource.
    pub entity: Entity,
    /// What of it.
    pub want: Want,
}

/// How an order is paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payment {
    /// Paid elsewhere; what the client says is written down (SC).
    Recorded {
        /// Cash, card, …
        method: SmolStr,
        /// The payer's reference.
        transaction_id: SmolStr,
    },
    /// Through the node's gateway: authorized before the decision, captured after it.
    Gateway {
        /// What the client had from the gateway; opaque.
        source: SmolStr,
        /// What becomes of the cart if it is declined; as the rules say if absent.
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

/// Where an order goes (SC).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipping {
    /// To whom.
    pub recipient: SmolStr,
    /// Where.
    pub address: SmolStr,
    /// How.
    pub method: SmolStr,
}

/// What a cart is told or asked. Those of buyers were made with the cart's token; `Order` needs the order's id only; the
/// rest is for operators and the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CartCommand {
    /// `cart.open`. A cart that is open already answers as it is, and remembers that too.
    Open {
        /// Whose it is, as the client says.
        customer: Option<Id>,
        /// How long it lives untouched.
        ttl_ms: Option<u64>,
    },
    /// `cart.get`.
    Get,
    /// `cart.hold_…` (one line) and `cart.hold_all` (several, all or none). Opens the cart if need be.
    Hold {
        /// What is wanted.
        lines: Vec<WantedLine>,
        /// Whose the cart is, if that was not said before.
        customer: Option<Id>,
    },
    /// `cart.set_quantity`: of a line of units or places; 0 ends it.
    SetQuantity {
        /// Which line.
        line: u32,
        /// How many altogether.
        quantity: u32,
    },
    /// `cart.release`: the whole line, or these seats of it.
    Release {
        /// Which line.
        line: u32,
        /// Which seats of it; all if absent.
        seats: Option<SeatSet>,
    },
    /// `cart.cancel`: gives everything back and ends the cart.
    Cancel,
    /// `cart.checkout`: writes the order and turns holds into sales.
    Checkout {
        /// How it is paid.
        payment: Payment,
        /// Who buys, if not said before.
        customer: Option<Id>,
        /// Where it goes.
        shipping: Option<Shipping>,
    },
    /// `order.refund`: the order's lines are back on sale and their price is paid back.
    Refund {
        /// Which lines; all that are left if absent.
        lines: Option<Vec<u32>>,
        /// Why.
        reason: SmolStr,
    },
    /// `admin.release`: an operator gives a line of somebody's cart back.
    Revoke {
        /// Which line.
        line: u32,
    },
    /// `admin.settle`: an operator says how an attempt to pay ended.
    Settle {
        /// Which attempt.
        attempt: u32,
        /// How.
        outcome: Settlement,
    },
    /// The gateway says by itself how a step of an attempt ended.
    Paid {
        /// Which attempt.
        key: PaymentKey,
        /// Which step of it.
        step: PaymentStep,
        /// How it ended.
        outcome: GatewayOutcome,
    },
    /// `order.get`: what the cart became. The order's id is needed, the token is not.
    Order,
    /// `admin.audit`: state, lines, holds and what is owed to others.
    Audit,
}

/// The proof that a client may speak for a cart: checked at the door, so that commands carry only the cart's id.
pub fn owns(token: CartToken, cart: CartId) -> bool {
    token.cart() == cart
}

#[cfg(test)]
mod tests {
    use super::{BestWish, Want};
    use crate::{
        id::Id,
        seat::{Seat, SeatSet},
    };

    #[test]
    fn hashes_of_wants_are_told_apart_and_stay_for_ever() {
        let seats = |row, best_effort| {
            let seats = SeatSet::new([Seat { row, seat: 2 }, Seat { row: 1, seat: 3 }]).expect("two seats");
            Want::Seats { seats, best_effort }.hash()
        };
        let best = |category: Option<&str>, section: Option<&str>, split| {
            let id = |name: &str| Id::new(name).expect("a good id");
            let (category, section) = (category.map(id), section.map(id));
            Want::Best(BestWish { count: 2, category, section, accessible: 0, split }).hash()
        };
        let all = [
            seats(0, false),
            seats(0, true),
            seats(1, false),
            best(None, None, false),
            best(None, None, true),
            best(Some("a"), None, false),
            best(None, Some("a"), false),
        ];
        // They are in logs: never change them.
        let for_ever: [u64; 7] = [
            17295276361922785118,
            7279688024645410281,
            500636399574370912,
            5786361470146036825,
            10749840888971917698,
            3949278302036278962,
            10267789813172717849,
        ];
        assert_eq!(all, for_ever);
    }
}
