//! The everyday "no", numbered for life: numbers and names are never reused (protocol).

mod lines;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    id::{Entity, Id},
    money::{Currency, Money},
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// A seat that stood in the way, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenSeat {
    pub seat: Seat,
    /// Held, sold or blocked.
    pub state: SeatState,
}

/// Why a command was refused. Nothing changed, unless it is an outcome: [`Refusal::is_outcome`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// 101: The body is not what the op asks for, or a bound of the cart is reached. The message names the field and
    /// its place.
    ///
    /// Correct the request. The same request is refused again.
    #[error("bad request: {0}")]
    BadRequest(SmolStr),
    /// 104: The command changes something and came without a request id.
    ///
    /// Send a `rid`, or `Idempotency-Key` by HTTP, and keep it for repeats.
    #[error("this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)")]
    RequestIdMissing,
    /// 105: The same request id came before with another command.
    ///
    /// Draw a new request id for each new command.
    #[error("this request id was used before with another body")]
    RequestIdReused,
    /// 106: The first request with this id is still under way, or was given up because no client waited for it any more.
    ///
    /// Repeat it under the same request id.
    #[error("the first request with this id is still under way")]
    InProgress,
    /// 108: What was shown is right, and does not allow this. The role is missing, the request is about another
    /// customer than the one shown, it comes from a page of a foreign origin, or a cart is to live longer than the role
    /// allows.
    ///
    /// Show a key with the role, or the customer's token. Do not repeat it as it is.
    #[error("not allowed: {0}")]
    Forbidden(SmolStr),
    /// 201: Seats are held or sold. Every seat that stood in the way is named.
    ///
    /// Show the newest map and let the buyer choose other seats.
    #[error("{} of the seats are taken", .0.len())]
    SeatsTaken(Vec<TakenSeat>),
    /// 202: The layout has no such seats. Each of them is named.
    ///
    /// Read the layout again. Seats are `[row, seat]`, counted from 0.
    #[error("{} of the seats do not exist", .0.len())]
    NoSuchSeat(Vec<Seat>),
    /// 203: Seats are named more than once in one request. Each of them is named.
    ///
    /// Name each seat once.
    #[error("{} of the seats are named more than once", .0.len())]
    DuplicateSeat(Vec<Seat>),
    /// 204: The box office keeps seats off sale. Every seat that stood in the way is named.
    ///
    /// Offer other seats. An operator may unblock them.
    #[error("{} of the seats are blocked", .0.len())]
    SeatBlocked(Vec<TakenSeat>),
    /// 205: The area has fewer places left. `free` says how many.
    ///
    /// Ask for fewer places, or for another area.
    #[error("{free} places are free in {area}")]
    NotEnoughPlaces { area: Id, free: u32 },
    /// 206: There are not this many adjacent free seats. `free` is the number of all free seats that fit the wish.
    ///
    /// Ask for fewer seats, for another category, or with `split`.
    #[error("no {count} neighbouring seats are free ({free} single ones are)")]
    NoAdjacentSeats { count: u16, free: u32 },
    /// 207: The session does not sell. It is over or canceled, or not open yet.
    ///
    /// Take the session off the screen.
    #[error("the session is not on sale: {0}")]
    SessionClosed(SmolStr),
    /// 208: Another session has the hall at that time. It is named.
    ///
    /// Choose another time or hall.
    #[error("the hall is occupied at that time by session {0}")]
    HallOccupied(Id),
    /// 209: The customer has as many as one customer may have, in carts and orders.
    ///
    /// Tell the buyer the limit. What is given back or expires counts no more.
    #[error("a customer may have {max} of {quota} and has {taken}")]
    LimitPerCustomer { quota: Id, max: u32, taken: u32 },
    /// 210: One order may not have this many of the entity.
    ///
    /// Ask for fewer, and tell the buyer the limit.
    #[error("an order may have {max} of {entity}")]
    LimitPerOrder { entity: Entity, max: u32 },
    /// 211: Everyone has a share of what is sold, and those behind the caller's connection have theirs. They hold `held`
    /// of it. What they buy is given back to the share.
    ///
    /// Pay for what is held, or try again after `retry_after_ms`.
    #[error(
        "those behind your connection have their share of {entity}, and hold {held} now; pay for what is held, or try again in {} \
         minutes",
        .retry_after_ms.div_ceil(60_000)
    )]
    ShareReached { entity: Entity, held: u32, retry_after_ms: u64 },
    /// 301: The cart is done or canceled, or it is being paid.
    ///
    /// Read the cart. If it is being paid, wait. Otherwise begin a new one.
    #[error("the cart is {0}")]
    CartNotActive(SmolStr),
    /// 302: The cart's deadline has passed. Its seats are free again.
    ///
    /// Begin a new cart.
    #[error("the cart has expired")]
    CartExpired,
    /// 303: The cart has no line with this number.
    ///
    /// Read the cart again.
    #[error("the cart has no line {0}")]
    NoSuchLine(u32),
    /// 304: The cart has nothing to check out.
    ///
    /// Hold something first.
    #[error("the cart is empty")]
    CartEmpty,
    /// 305: The token does not open this cart.
    ///
    /// Show the token that the cart was opened with.
    #[error("the token does not open this cart")]
    NotYourCart,
    /// 306: The cart has as many lines as a cart may have.
    ///
    /// Check out, or release a line.
    #[error("a cart has at most {0} lines")]
    TooManyLines(u32),
    /// 307: The cart has reached the highest age of an active cart.
    ///
    /// Check out now, or begin a new cart.
    #[error("the cart has reached its highest age")]
    HoldAgeExceeded,
    /// 308: The cart is not what the buyer expects to pay for. Both figures are there.
    ///
    /// Show the cart again and let the buyer confirm.
    #[error("the cart is not as expected: {0}")]
    CartDiffers(CartDifference),
    /// 401: Products have fewer units left. Every one that fell short is named, with `free` and `held` units.
    ///
    /// Ask for fewer. What is `held` may come back, and a product with `held` 0 is sold out.
    #[error("{} of the products are out of stock", .0.len())]
    OutOfStock(Vec<Shortage>),
    /// 402: The quantity cannot be. It is 0, negative, no whole number, or over the limit.
    ///
    /// Send a whole number from 1 to 1 000 000.
    #[error("bad quantity: {0}")]
    BadQuantity(SmolStr),
    /// 403: There is no such product.
    ///
    /// Read the offer again.
    #[error("product {0} is not known")]
    NoSuchProduct(Id),
    /// 501: The time is taken. Every booking in the way is named, up to the first hundred.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[error("{} bookings are in the way", .0.len())]
    SlotTaken(Vec<Conflict>),
    /// 502: The time cannot be. It ends before it begins, is too long, or is on no clock.
    ///
    /// Correct the time.
    #[error("bad interval: {0}")]
    BadInterval(SmolStr),
    /// 503: A booking with this id exists already.
    ///
    /// Choose another id, or repeat under the first request's id.
    #[error("there is a booking {0} already")]
    IdInUse(Id),
    /// 504: The time is not within opening hours.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[error("outside opening hours: {0}")]
    OutsideHours(SmolStr),
    /// 505: There is no such booking.
    ///
    /// Read the bookings again.
    #[error("there is no booking {0}")]
    NoSuchBooking(Id),
    /// 506: The time is sooner than the notice or later than the horizon allows, or it has passed.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[error("{0}")]
    TooSoonOrFar(SmolStr),
    /// 601: The gateway declined the payment. This is an outcome, and every repeat gets it again.
    ///
    /// Let the buyer try another card, under another request id.
    #[error("the payment was declined: {0}")]
    PaymentDeclined(SmolStr),
    /// 602: How the payment ended is not known yet. The cart stays as it is until it is.
    ///
    /// Repeat under the same request id.
    #[error("how the payment ended is not known yet; ask again with the same request id")]
    PaymentPending,
    /// 603: The gateway set aside another amount than was asked for. It is given up. This is an outcome, and every
    /// repeat gets it again.
    ///
    /// Try again under another request id, and look at the gateway.
    #[error("the gateway answered {got} instead of {asked} minor units")]
    AmountMismatch { asked: i64, got: i64 },
    /// Several lines of one request were refused. Its number and name are those of the first.
    #[error("{} of the lines are refused; the first: {}", .0.len(), .0[0].refusal)]
    Lines(#[serde(deserialize_with = "lines::some")] Vec<LineRefusal>),
    /// 701: There is no such venue, hall, session, cart or order.
    ///
    /// Read the offer again.
    #[error("{0} is not known")]
    NotFound(SmolStr),
    /// 702: It exists already with other content.
    ///
    /// Read it, or choose another id.
    #[error("{0} exists already and is different")]
    AlreadyExistsDifferently(SmolStr),
    /// 703: A thing is sold in one currency for life. Carts may have lines in it, and orders are paid back in it.
    ///
    /// Put another product or resource for the other currency.
    #[error("{entity} is sold in {currency:?} for as long as it exists; put another one to sell in another currency")]
    CurrencyFixed { entity: Entity, currency: Currency },
    /// 801: No member has this id.
    ///
    /// Look at `boxoffice admin nodes`.
    #[error("node {node} is not a member")]
    NoSuchNode { node: u64 },
    /// 802: The member was removed. Its id is never given again.
    ///
    /// Join with an empty data directory and another id.
    #[error("node {node} was removed from the cluster and cannot come back under this id")]
    NodeGone { node: u64 },
    /// 803: The member has another disk.
    ///
    /// If its disk is lost, say so with `boxoffice admin replace`, then join again.
    #[error("node {node} has another disk; if that is lost, `admin replace {node}` comes first")]
    DiskDiffers { node: u64 },
    /// 804: Shards would be left without a majority of their voters. Every one is named.
    ///
    /// Bring other nodes back first.
    #[error("without node {node}, {} of the shards would have no majority of their voters", .shards.len())]
    QuorumWouldBeLost { node: u64, shards: Vec<u16> },
    /// 805: The cluster has changed since the placement was thought out.
    ///
    /// Do nothing. The next plan is made from the new table.
    #[error("the cluster has changed meanwhile; it is at version {version}")]
    PlacementStale { version: u64 },
    /// 806: The member cannot be drained, or cannot be kept from it. The message says why.
    ///
    /// Look at `boxoffice admin nodes`.
    #[error("node {node} cannot be drained or kept from it: {why}")]
    NotDrainable { node: u64, why: SmolStr },
    /// 807: The cluster was founded by another node or disk.
    ///
    /// Join it instead.
    #[error("the cluster was founded already, by another disk")]
    AlreadyFounded,
    /// 808: The member still has copies. Every shard is named.
    ///
    /// Wait until the drain has ended.
    #[error("node {node} still has copies of {} shards", .shards.len())]
    NodeInUse { node: u64, shards: Vec<u16> },
    /// 809: Every id of a member was given.
    ///
    /// Found a new cluster.
    #[error("a cluster has at most {max} members, those that were removed included")]
    TooManyNodes { max: u64 },
    /// 810: A machine that wants to join does not know what the cluster's nodes show each other.
    ///
    /// Set the same `peers.secret` on all nodes.
    #[error(
        "the machine that asks does not know the secret of this cluster's nodes; give all nodes of a cluster the same (peers.secret)"
    )]
    WrongSecret,
    /// 811: Too few members would serve for more than one voter in each shard.
    ///
    /// Let another node join and serve first, or force it.
    #[error(
        "without node {node} only {serving} members serve, and each shard would have a single voter, whose disk may not be lost; \
         let another node join and serve first, or force it"
    )]
    TooFewLeft { node: u64, serving: u64 },
    /// 812: A machine that wants to join shows no invitation, or one that is not known, has ended or was used by another
    /// machine.
    ///
    /// Make an invitation with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine. A
    /// member that was replaced needs one again.
    #[error(
        "the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and \
         paste it into `boxoffice join` on the machine"
    )]
    NotInvited,
    /// 906: The decision failed, and nothing came of this ask. Clients hear it as a failure and not as a refusal, because they must
    /// not take it as final.
    #[error("a fault of the server, which its log tells")]
    Internal,
}

/// What of a cart is not as its buyer expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CartDifference {
    /// What it comes to.
    #[error(
        "it comes to {} minor units of {:?}, not to {} of {:?}",
        .actual.amount, .actual.currency, .expected.amount, .expected.currency
    )]
    Total {
        /// What the buyer expects to pay, or has paid.
        expected: Money,
        /// What the lines come to.
        actual: Money,
    },
    /// The version of its lines.
    #[error("its lines are at version {actual}, not at {expected}")]
    Lines { expected: u64, actual: u64 },
}

/// A product with fewer free units than were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    pub product: Id,
    /// How many more were asked for.
    pub wanted: u32,
    pub free: u64,
    /// How many are only held, by other lines of carts: they may come back.
    pub held: u64,
}

/// A booking in the way, or a time that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The time asked for that it is about.
    pub begin: Timestamp,
    /// Up to.
    pub end: Timestamp,
    /// Why: the booking in the way, or what is wrong with the time.
    pub why: SmolStr,
    /// The booking in the way by the name that `resource.bookings` gives it; none if the time itself is wrong.
    pub booking: Option<SmolStr>,
}

/// One line of a request, and why it was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRefusal {
    /// The index of the line in the request, from 0.
    pub line: u16,
    /// Why; not for lines of its own.
    #[serde(deserialize_with = "lines::one")]
    pub refusal: Refusal,
}

impl Refusal {
    /// The number, for life.
    pub fn code(&self) -> u16 {
        self.code_and_name().0
    }

    /// The name, for life.
    pub fn name(&self) -> &'static str {
        self.code_and_name().1
    }

    /// Whether it says how a payment ended. The cart remembers that under the request, so a repeat gets the same answer and
    /// the request can never be granted. Every other refusal is decided afresh when it is repeated.
    pub fn is_outcome(&self) -> bool {
        matches!(self, Refusal::PaymentDeclined(_) | Refusal::AmountMismatch { .. })
    }

    /// Whether a decision failed that this one rests on.
    pub fn is_internal(&self) -> bool {
        match self {
            Refusal::Internal => true,
            Refusal::Lines(lines) => lines.iter().any(|line| line.refusal == Refusal::Internal),
            _ => false,
        }
    }

    fn code_and_name(&self) -> (u16, &'static str) {
        match self {
            Refusal::BadRequest(_) => (101, "bad_request"),
            Refusal::RequestIdMissing => (104, "request_id_missing"),
            Refusal::RequestIdReused => (105, "request_id_reused"),
            Refusal::InProgress => (106, "in_progress"),
            Refusal::Forbidden(_) => (108, "forbidden"),
            Refusal::SeatsTaken(_) => (201, "seats_taken"),
            Refusal::NoSuchSeat(_) => (202, "no_such_seat"),
            Refusal::DuplicateSeat(_) => (203, "duplicate_seat"),
            Refusal::SeatBlocked(_) => (204, "seat_blocked"),
            Refusal::NotEnoughPlaces { .. } => (205, "not_enough_places"),
            Refusal::NoAdjacentSeats { .. } => (206, "no_adjacent_seats"),
            Refusal::SessionClosed(_) => (207, "session_closed"),
            Refusal::HallOccupied(_) => (208, "hall_occupied"),
            Refusal::LimitPerCustomer { .. } => (209, "limit_per_customer"),
            Refusal::LimitPerOrder { .. } => (210, "limit_per_order"),
            Refusal::ShareReached { .. } => (211, "share_reached"),
            Refusal::CartNotActive(_) => (301, "cart_not_active"),
            Refusal::CartExpired => (302, "cart_expired"),
            Refusal::NoSuchLine(_) => (303, "no_such_line"),
            Refusal::CartEmpty => (304, "cart_empty"),
            Refusal::NotYourCart => (305, "not_your_cart"),
            Refusal::TooManyLines(_) => (306, "too_many_lines"),
            Refusal::HoldAgeExceeded => (307, "hold_age_exceeded"),
            Refusal::CartDiffers(_) => (308, "cart_differs"),
            Refusal::OutOfStock(_) => (401, "out_of_stock"),
            Refusal::BadQuantity(_) => (402, "bad_quantity"),
            Refusal::NoSuchProduct(_) => (403, "no_such_product"),
            Refusal::SlotTaken(_) => (501, "slot_taken"),
            Refusal::BadInterval(_) => (502, "bad_interval"),
            Refusal::IdInUse(_) => (503, "id_in_use"),
            Refusal::OutsideHours(_) => (504, "outside_hours"),
            Refusal::NoSuchBooking(_) => (505, "no_such_booking"),
            Refusal::TooSoonOrFar(_) => (506, "too_soon_or_far"),
            Refusal::PaymentDeclined(_) => (601, "payment_declined"),
            Refusal::PaymentPending => (602, "payment_pending"),
            Refusal::AmountMismatch { .. } => (603, "amount_mismatch"),
            Refusal::Lines(lines) => lines[0].refusal.code_and_name(),
            Refusal::NotFound(_) => (701, "not_found"),
            Refusal::AlreadyExistsDifferently(_) => (702, "already_exists_differently"),
            Refusal::CurrencyFixed { .. } => (703, "currency_fixed"),
            Refusal::NoSuchNode { .. } => (801, "no_such_node"),
            Refusal::NodeGone { .. } => (802, "node_gone"),
            Refusal::DiskDiffers { .. } => (803, "disk_differs"),
            Refusal::QuorumWouldBeLost { .. } => (804, "quorum_would_be_lost"),
            Refusal::PlacementStale { .. } => (805, "placement_stale"),
            Refusal::NotDrainable { .. } => (806, "not_drainable"),
            Refusal::AlreadyFounded => (807, "already_founded"),
            Refusal::NodeInUse { .. } => (808, "node_in_use"),
            Refusal::TooManyNodes { .. } => (809, "too_many_nodes"),
            Refusal::WrongSecret => (810, "wrong_secret"),
            Refusal::TooFewLeft { .. } => (811, "too_few_left"),
            Refusal::NotInvited => (812, "not_invited"),
            Refusal::Internal => (906, "internal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    fn several(refusal: Refusal) -> Refusal {
        Refusal::Lines(vec![LineRefusal { line: 3, refusal }])
    }

    #[test]
    fn refusals_of_no_lines_or_of_lines_in_lines_are_not_read() {
        for good in [several(Refusal::CartExpired), several(Refusal::NoSuchLine(7)), Refusal::NoSuchProduct(id())] {
            let bytes = postcard::to_allocvec(&good).expect("the refusal can be encoded");
            assert_eq!(postcard::from_bytes(&bytes), Ok(good));
        }
        for bad in [Refusal::Lines(Vec::new()), several(several(Refusal::CartExpired))] {
            let bytes = postcard::to_allocvec(&bad).expect("the refusal can be encoded");
            assert!(postcard::from_bytes::<Refusal>(&bytes).is_err(), "{bad:?}");
        }
        // Nested as deep as the bytes allow, without an end.
        let head = postcard::to_allocvec(&several(Refusal::CartExpired)).expect("the refusal can be encoded");
        let deep: Vec<u8> = head[..3].iter().copied().cycle().take(3_000_000).collect();
        assert!(postcard::from_bytes::<Refusal>(&deep).is_err());
    }

    fn id() -> Id {
        Id::new("mug").expect("a good id")
    }
}
