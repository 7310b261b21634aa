//! The table of every "no" and every failure. A variant is one row, declared once: its number and name, which are never used again,
//! its message, cause, advice, HTTP status, the words for buyers, its fields and samples. [`boxoffice_declare::Rows`] says how.
//!
//! Everything else comes from here: the body on the wire and what clients read, the stored form, `docs/reference/refusals.md`, the
//! table of statuses, the page's words, and the samples of tests. Rows may stand in any order.

mod details;
mod row;
mod samples;
mod stored;

use alloc::{vec, vec::Vec};

use boxoffice_declare::{Rows, StoredByCode};
use smol_str::{SmolStr, format_smolstr};

pub(crate) use self::row::show;
use self::samples::{conflict, dollar, euro, id, seat, short, taken};
pub use self::{
    details::{CartDifference, Conflict, LineRefusal, Shortage, TakenSeat},
    row::{Detail, Kind, Row, Shown, rows},
};
use crate::{
    calendar::instant,
    id::{Entity, Id},
    money::{Currency, Money},
    seat::{HOLD_SEATS_MAX, Seat, SeatSetError},
    time::Timestamp,
};

/// Why a command was refused. Nothing changed, unless it is an outcome: [`Refusal::is_outcome`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Rows, StoredByCode)]
#[rows(Refusal)]
pub enum Refusal {
    /// The body is not what the op asks for, or a bound of the cart is reached. The message names the field and
    /// its place.
    ///
    /// Correct the request. The same request is refused again.
    #[row(101, "bad_request", http = 400)]
    #[error("bad request: {0}")]
    #[sample("`seats` is empty".into())]
    BadRequest(SmolStr),
    /// The command changes something and came without a request id.
    ///
    /// Send a `rid`, or `Idempotency-Key` by HTTP, and keep it for repeats.
    #[row(104, "request_id_missing", http = 400)]
    #[error("this command changes something and needs a request id (`rid`, by HTTP the header `Idempotency-Key`)")]
    RequestIdMissing,
    /// The same request id came before with another command.
    ///
    /// Draw a new request id for each new command.
    #[row(105, "request_id_reused", http = 409)]
    #[error("this request id was used before with another body")]
    RequestIdReused,
    /// The first request with this id is still under way, or was given up because no client waited for it any more.
    ///
    /// Repeat it under the same request id.
    #[row(106, "in_progress", http = 409)]
    #[error("the first request with this id is still under way")]
    InProgress,
    /// What was shown is right, and does not allow this. The role is missing, the request is about another
    /// customer than the one shown, it comes from a page of a foreign origin, or a cart is to live longer than the role
    /// allows.
    ///
    /// Show a key with the role, or the customer's token. Do not repeat it as it is.
    #[row(108, "forbidden", http = 403, buyer = "This is another customer’s.")]
    #[error("not allowed: {0}")]
    #[sample("not an operator".into())]
    Forbidden(SmolStr),
    /// Seats are held or sold. Every seat that stood in the way is named.
    ///
    /// Show the newest map and let the buyer choose other seats.
    #[row(201, "seats_taken", http = 409, buyer = "These seats were taken by somebody else a moment ago.")]
    #[error("{} of the seats are taken", .0.len())]
    #[sample(taken())]
    SeatsTaken(
        #[shown(
            /// The seats that stood in the way.
            seats: Vec<Seat>,
            /// The states of `seats`, as many.
            states: Vec<SeatState>,
        )]
        Vec<TakenSeat>,
    ),
    /// The layout has no such seats. Each of them is named.
    ///
    /// Read the layout again. Seats are `[row, seat]`, counted from 0.
    #[row(202, "no_such_seat", http = 404)]
    #[error("{} of the seats do not exist", .0.len())]
    #[sample(vec![seat(9, 9)])]
    NoSuchSeat(
        /// The seats that do not exist.
        #[shown(seats)]
        Vec<Seat>,
    ),
    /// Seats are named more than once in one request. Each of them is named.
    ///
    /// Name each seat once.
    #[row(203, "duplicate_seat", http = 400)]
    #[error("{} of the seats are named more than once", .0.len())]
    #[sample(vec![seat(1, 5)])]
    DuplicateSeat(
        /// The seats that are named more than once.
        #[shown(seats)]
        Vec<Seat>,
    ),
    /// The box office keeps seats off sale. Every seat that stood in the way is named.
    ///
    /// Offer other seats. An operator may unblock them.
    #[row(204, "seat_blocked", http = 409, buyer = "These seats are not for sale.")]
    #[error("{} of the seats are blocked", .0.len())]
    #[sample(taken())]
    SeatBlocked(
        #[shown(
            /// The seats that stood in the way.
            seats: Vec<Seat>,
            /// The states of `seats`, as many.
            states: Vec<SeatState>,
        )]
        Vec<TakenSeat>,
    ),
    /// The area has fewer places left. `free` says how many, and `held` how many are in other carts.
    ///
    /// Ask for fewer places, or for another area. What is `held` may come back, and an area with `held` 0 is sold out.
    #[row(
        205,
        "not_enough_places",
        http = 409,
        buyer = "{held?}Not enough places are left here. Some are in other carts and may come back. | Not enough places are left here."
    )]
    #[error("{free} places are free in {area}, and {held} are in carts")]
    #[sample { area: id("yard"), free: 3, held: 2 }]
    #[sample { area: id("yard"), free: 0, held: 471 }]
    #[sample { area: id("yard"), free: 0, held: 0 }]
    NotEnoughPlaces {
        area: Id,
        /// The number of free places.
        free: u32,
        /// The number of places in other carts.
        held: u32,
    },
    /// There are not this many adjacent free seats. `free` is the number of all free seats that fit the wish.
    ///
    /// Ask for fewer seats, for another category, or with `split`.
    #[row(
        206,
        "no_adjacent_seats",
        http = 409,
        buyer = "Not enough seats are left side by side ({free} are free). | No such seats are left."
    )]
    #[error("no {count} neighbouring seats are free ({free} single ones are)")]
    #[sample { count: 4, free: 9 }]
    #[sample { count: 4, free: 0 }]
    NoAdjacentSeats {
        /// The requested number.
        count: u16,
        /// The number of free single seats.
        free: u32,
    },
    /// The session does not sell. It is over or canceled, or not open yet.
    ///
    /// Take the session off the screen.
    #[row(207, "session_closed", http = 409, buyer = "Sale for this session is closed.")]
    #[error("the session is not on sale: {0}")]
    #[sample("not open yet".into())]
    SessionClosed(SmolStr),
    /// Another session has the hall at that time. It is named.
    ///
    /// Choose another time or hall.
    #[row(208, "hall_occupied", http = 409)]
    #[error("the hall is occupied at that time by session {0}")]
    #[sample(id("hamlet-early"))]
    HallOccupied(#[shown(session)] Id),
    /// The customer has as many as one customer may have, in carts and orders.
    ///
    /// Tell the buyer the limit. What is given back or expires counts no more.
    #[row(209, "limit_per_customer", http = 409, buyer = "One customer may have at most {max} of these.")]
    #[error("a customer may have {max} of {quota} and has {taken}")]
    #[sample { quota: id("hamlet"), max: 12, taken: 11 }]
    LimitPerCustomer {
        quota: Id,
        /// The limit.
        max: u32,
        /// The number that the customer has.
        taken: u32,
    },
    /// One order may not have this many of the entity.
    ///
    /// Ask for fewer, and tell the buyer the limit.
    #[row(210, "limit_per_order", http = 409, buyer = "One order may have at most {max} of these.")]
    #[error("an order may have {max} of {entity}")]
    #[sample { entity: Entity::Product(id("programme")), max: 8 }]
    LimitPerOrder {
        /// The session, product or resource.
        entity: Entity,
        /// The limit.
        max: u32,
    },
    /// Everyone has a share of what is sold, and those behind the caller's connection have theirs. They hold `held`
    /// of it. What they buy is given back to the share.
    ///
    /// Pay for what is held, or try again after `retry_after_ms`.
    #[row(
        211,
        "share_reached",
        http = 409,
        buyer = "Others behind your connection hold many of these. Pay for what you hold, or try again in {retry_after_ms:span}."
    )]
    #[error(
        "those behind your connection have their share of {entity}, and hold {held} now; pay for what is held, or try again in {} \
         minutes",
        .retry_after_ms.div_ceil(60_000)
    )]
    #[sample { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 180_000 }]
    #[sample { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 60_000 }]
    #[sample { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 7_260_000 }]
    ShareReached {
        /// The session, product or resource.
        entity: Entity,
        /// The number that those behind the connection hold.
        held: u32,
        /// When to retry, in milliseconds from now. `rate_limited` has it as well, if it is known.
        retry_after_ms: u64,
    },
    /// No offer sells this to the caller now. `opens_at` says when one will, if that is known.
    ///
    /// Show when the sale opens. Without `opens_at`, offer something else.
    #[row(212, "not_on_sale", http = 409, buyer = "{opens_at?}The sale has not begun yet. | This is not on sale.")]
    #[error("{reason}")]
    #[sample { reason: "the sale opens at 2026-11-28T09:00:00Z".into(), opens_at: Some(Timestamp(1_795_856_400_000)) }]
    #[sample { reason: "the sale has ended".into(), opens_at: None }]
    NotOnSale {
        #[hidden]
        reason: SmolStr,
        /// When it opens.
        opens_at: Option<Timestamp>,
    },
    /// The price type has no price for these seats or places. The message says which types have one.
    ///
    /// Let the buyer choose another price type, or other seats.
    #[row(213, "not_sold_as", http = 409, buyer = "This is not sold at the price you chose.")]
    #[error("{price_type} has no price in {place}{instead}")]
    #[sample { price_type: id("under26"), place: id("box"), instead: "; adult from 12.00 EUR".into() }]
    NotSoldAs {
        price_type: Id,
        /// The category or the area.
        place: Id,
        #[hidden]
        instead: SmolStr,
    },
    /// The offers of the price type have too few left. The message says what else is sold for these seats or places.
    ///
    /// Ask for fewer, or let the buyer choose another price type.
    #[row(214, "price_sold_out", http = 409, buyer = "Left at this price: {left}. | None is left at this price.")]
    #[error("{of}: {} left{instead}", if *.left == 0 { SmolStr::new_static("none") } else { format_smolstr!("{left}") })]
    #[sample { of: id("under26"), left: 2, instead: "; adult from 12.00 EUR".into() }]
    #[sample { of: id("under26"), left: 0, instead: "".into() }]
    PriceSoldOut {
        /// The price type, or the offer if there are no types.
        of: Id,
        /// How many are left for the caller.
        left: u32,
        #[hidden]
        instead: SmolStr,
    },
    /// The terms of the session have changed since the version that the caller knows.
    ///
    /// Read the session again, and decide whether the change still fits.
    #[row(215, "terms_changed", http = 409)]
    #[error("the terms of the session are at version {actual}, not at {expected}")]
    #[sample { expected: 3, actual: 4 }]
    TermsChanged {
        #[hidden]
        expected: u32,
        #[hidden]
        actual: u32,
    },
    /// The hold would leave single free seats beside it, although as many seats elsewhere in the same run would leave none. Each single
    /// seat is named. The session has `no_single_seats`.
    ///
    /// Let the buyer move along the row, or take the seats that are named as well.
    #[row(
        216,
        "leaves_single",
        http = 409,
        buyer = "This would leave a single seat free. Please move along the row, or take that seat as well."
    )]
    #[error("{} of the free seats would be left alone", .0.len())]
    #[sample(vec![seat(1, 4)])]
    LeavesSingle(
        /// The seats that would be left alone.
        #[shown(seats)]
        Vec<Seat>,
    ),
    /// The session sells no fewer seats than `min` in one hold where so many are free side by side.
    ///
    /// Ask for more seats.
    #[row(217, "party_too_small", http = 409, buyer = "Please choose at least {min} seats.")]
    #[error("a hold has at least {min} seats where so many are free side by side")]
    #[sample { min: 2 }]
    PartyTooSmall {
        /// The fewest seats of one hold.
        min: u32,
    },
    /// What is wanted is limited per customer, and the cart has none.
    ///
    /// Ask for the buyer's name and repeat it with `customer`, under another request id.
    #[row(
        219,
        "customer_needed",
        http = 409,
        buyer = "Please say who you are first: one customer may have only so many of these."
    )]
    #[error("{limited} is limited per customer: name the buyer, `customer`")]
    #[sample { limited: "offer members".into() }]
    CustomerNeeded {
        #[hidden]
        limited: SmolStr,
    },
    /// The code is not known, has no use left, has ended, or is not for this session. The answer does not tell which.
    ///
    /// Let the buyer type it again, or buy without it.
    #[row(218, "code_not_valid", http = 409, buyer = "This code is not valid here.")]
    #[error("the code is not valid here")]
    CodeNotValid,
    /// The cart is done or canceled, or it is being paid.
    ///
    /// Read the cart. If it is being paid, wait, or end the attempt with `cart.checkout_cancel`. Otherwise begin a new one.
    #[row(301, "cart_not_active", http = 409, buyer = "This cart is closed already.")]
    #[error("the cart is {0}")]
    #[sample("done".into())]
    CartNotActive(SmolStr),
    /// The cart's deadline has passed. Its seats are free again.
    ///
    /// Begin a new cart.
    #[row(302, "cart_expired", http = 409, buyer = "The time of your cart ran out; what it held is free again.")]
    #[error("the cart has expired")]
    CartExpired,
    /// The cart has no line with this number.
    ///
    /// Read the cart again.
    #[row(303, "no_such_line", http = 404)]
    #[error("the cart has no line {0}")]
    #[sample(3)]
    NoSuchLine(
        /// The line of the cart. In `lines` it is the number of the line in the request, from 0.
        #[shown(line)]
        u32,
    ),
    /// The cart has nothing to check out.
    ///
    /// Hold something first.
    #[row(304, "cart_empty", http = 409, buyer = "Nothing is held.")]
    #[error("the cart is empty")]
    CartEmpty,
    /// The token does not open this cart.
    ///
    /// Show the token that the cart was opened with.
    #[row(305, "not_your_cart", http = 403)]
    #[error("the token does not open this cart")]
    NotYourCart,
    /// The cart has as many lines as a cart may have.
    ///
    /// Check out, or release a line.
    #[row(306, "too_many_lines", http = 409, buyer = "A cart has at most {limit} lines.")]
    #[error("a cart has at most {0} lines")]
    #[sample(50)]
    TooManyLines(
        /// The maximum.
        #[shown(limit)]
        u32,
    ),
    /// The cart has reached the highest age of an active cart.
    ///
    /// Check out now, or begin a new cart.
    #[row(
        307,
        "hold_age_exceeded",
        http = 409,
        buyer = "This cart cannot be kept any longer; please pay, or begin anew."
    )]
    #[error("the cart has reached its highest age")]
    HoldAgeExceeded,
    /// The cart is not what the buyer expects to pay for. Both figures are there.
    ///
    /// Show the cart again and let the buyer confirm.
    #[row(308, "cart_differs", http = 409, buyer = "The cart has changed. Please look at it again before you pay.")]
    #[error("the cart is not as expected: {0}")]
    #[sample(CartDifference::Total { expected: euro(3_000), actual: euro(2_000) })]
    #[sample(CartDifference::Lines { expected: 3, actual: 4 })]
    CartDiffers(
        #[shown(
            /// What the buyer expects.
            expected: Figure,
            actual: Figure,
        )]
        CartDifference,
    ),
    /// The cart is open, and not as `cart.open` asks for it. It is another customer's, or lives another time untouched.
    ///
    /// Open another cart, or leave out what the cart is not to have.
    #[row(309, "cart_open_differently", http = 409)]
    #[error("the cart is open, and {0}")]
    #[sample("lives 60000 ms untouched, not 30000 ms".into())]
    CartOpenDifferently(SmolStr),
    /// Products have fewer units left. Every one that fell short is named, with `free` and `held` units.
    ///
    /// Ask for fewer. What is `held` may come back, and a product with `held` 0 is sold out.
    #[row(
        401,
        "out_of_stock",
        http = 409,
        buyer = "{shortages.held?}There is not so much left of it. Some is in other carts and may come back. | There is not so much left of it."
    )]
    #[error("{} of the products are out of stock", .0.len())]
    #[sample(vec![short("programme", 1, 6)])]
    #[sample(vec![short("programme", 1, 0), short("mug", 0, 0)])]
    OutOfStock(
        /// Every product with too few units.
        #[shown(shortages)]
        Vec<Shortage>,
    ),
    /// The quantity cannot be. It is 0, negative, no whole number, or over the limit.
    ///
    /// Send a whole number from 1 to 1 000 000.
    #[row(402, "bad_quantity", http = 400)]
    #[error("bad quantity: {0}")]
    #[sample("`quantity` is a whole number from 1 to 1000000, not 0".into())]
    BadQuantity(SmolStr),
    /// There is no such product.
    ///
    /// Read the offer again.
    #[row(403, "no_such_product", http = 404)]
    #[error("product {0} is not known")]
    #[sample(id("programme"))]
    NoSuchProduct(#[shown(product)] Id),
    /// The time is taken. Every booking in the way is named, up to the first hundred.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[row(501, "slot_taken", http = 409, buyer = "Somebody else has this time.")]
    #[error("{} bookings are in the way", .0.len())]
    #[sample(vec![conflict()])]
    SlotTaken(
        /// The conflicts.
        #[shown(conflicts)]
        Vec<Conflict>,
    ),
    /// The time cannot be. It ends before it begins, is too long, or is on no clock.
    ///
    /// Correct the time.
    #[row(502, "bad_interval", http = 400)]
    #[error("bad interval: {0}")]
    #[sample("it is longer than 366 days".into())]
    BadInterval(SmolStr),
    /// A booking with this id exists already.
    ///
    /// Choose another id, or repeat under the first request's id.
    #[row(503, "id_in_use", http = 409)]
    #[error("there is a booking {0} already")]
    #[sample(id("choir"))]
    IdInUse(#[shown(booking)] Id),
    /// The time is not within opening hours.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[row(504, "outside_hours", http = 409, buyer = "It is closed at this time.")]
    #[error("outside opening hours: {0}")]
    #[sample("it closes at 18:00".into())]
    OutsideHours(SmolStr),
    /// There is no such booking.
    ///
    /// Read the bookings again.
    #[row(505, "no_such_booking", http = 404)]
    #[error("there is no booking {0}")]
    #[sample(id("choir"))]
    NoSuchBooking(#[shown(booking)] Id),
    /// The time is sooner than the notice or later than the horizon allows, or it has passed.
    ///
    /// Ask `resource.free_slots` for a free time.
    #[row(506, "too_soon_or_far", http = 409, buyer = "This time is too soon, or too far away, to be booked.")]
    #[error("{0}")]
    #[sample("it begins in less than an hour".into())]
    TooSoonOrFar(SmolStr),
    /// The gateway declined the payment. This is an outcome, and every repeat gets it again.
    ///
    /// Let the buyer try another card, under another request id.
    #[row(
        601,
        "payment_declined",
        http = 402,
        outcome,
        buyer = "The payment was declined ({message:reason}). | The payment was declined."
    )]
    #[error("the payment was declined: {0}")]
    #[sample("the card is blocked".into())]
    #[sample("".into())]
    PaymentDeclined(SmolStr),
    /// How the payment ended is not known yet. The cart stays as it is until it is.
    ///
    /// Repeat under the same request id.
    #[row(602, "payment_pending", http = 409, buyer = "The payment is not decided yet.")]
    #[error("how the payment ended is not known yet; ask again with the same request id")]
    PaymentPending,
    /// The gateway set aside another amount than was asked for. It is given up. This is an outcome, and every
    /// repeat gets it again.
    ///
    /// Try again under another request id, and look at the gateway.
    #[row(603, "amount_mismatch", http = 409, outcome, buyer = "The gateway set aside another amount. It is given up.")]
    #[error(
        "the gateway set aside {} minor units of {:?} instead of {} of {:?}",
        .got.amount, .got.currency, .asked.amount, .asked.currency
    )]
    #[sample { asked: euro(3_000), got: euro(300) }]
    AmountMismatch {
        #[shown(
            /// The requested amount in minor units.
            asked: i64,
            asked_currency: Currency,
        )]
        asked: Money,
        #[shown(
            got: i64,
            got_currency: Currency,
        )]
        got: Money,
    },
    /// Something in the cart was taken away while the gateway was asked, for example because its session is canceled. The
    /// attempt is given up, and the cart is active again without it. This is an outcome, and every repeat gets it again.
    ///
    /// Read the cart, whose `taken` says what is gone and why. Let the buyer pay for the rest under another request id.
    #[row(
        604,
        "checkout_withdrawn",
        http = 409,
        outcome,
        buyer = "Something in your cart was taken away while you were paying ({message:reason}). Nothing is charged. | Something in your cart was taken away while you were paying. Nothing is charged."
    )]
    #[error("something in the cart was taken away before it was paid, and the payment is given up: {0}")]
    #[sample("the singer is ill".into())]
    #[sample("".into())]
    CheckoutWithdrawn(SmolStr),
    /// The buyer or an operator ended the attempt to pay before the gateway had answered. It is given up, and the cart is
    /// active again. This is an outcome, and every repeat gets it again.
    ///
    /// Check out again under another request id, or cancel the cart.
    #[row(605, "checkout_canceled", http = 409, outcome, buyer = "This payment was ended. Nothing is charged.")]
    #[error("the attempt to pay was ended before it was decided")]
    CheckoutCanceled,
    /// What is to be refunded was refunded before.
    ///
    /// Read the order, whose `refunds` say what was paid back.
    #[row(606, "already_refunded", http = 409)]
    #[error("already refunded: {0}")]
    #[sample("line 1 of the order".into())]
    AlreadyRefunded(SmolStr),
    /// Several lines of one request were refused. Its row is that of the first. It is stored under 0, which is no code.
    #[row_of(row_of_first, stored = 0)]
    #[error("{} of the lines are refused; the first: {}", .0.len(), .0[0].refusal)]
    Lines(Vec<LineRefusal>),
    /// There is no such venue, hall, session, cart or order.
    ///
    /// Read the offer again.
    #[row(701, "not_found", http = 404, buyer = "There is no such thing (any more).")]
    #[error("{0} is not known")]
    #[sample("session hamlet-tonight".into())]
    NotFound(SmolStr),
    /// It exists already with other content. For a session the message says each difference, with what is there and what was
    /// asked for.
    ///
    /// Read it, or choose another id.
    #[row(702, "already_exists_differently", http = 409)]
    #[error("it exists already and is different: {0}")]
    #[sample("session hamlet-tonight: it begins at 2026-12-24T19:30Z, not 2026-12-24T20:00Z".into())]
    AlreadyExistsDifferently(SmolStr),
    /// A thing is sold in one currency for life. Carts may have lines in it, and orders are paid back in it.
    ///
    /// Put another product or resource for the other currency.
    #[row(703, "currency_fixed", http = 409)]
    #[error(
        "{entity} is sold in {currency:?} for as long as it exists, not in {asked_currency:?}; put another one to sell in another \
         currency"
    )]
    #[sample { entity: Entity::Product(id("programme")), currency: euro(0).currency, asked_currency: dollar() }]
    CurrencyFixed {
        /// The product or resource.
        entity: Entity,
        /// The currency that it is sold in.
        currency: Currency,
        /// The currency that was asked for.
        asked_currency: Currency,
    },
    /// What is so old is no longer kept. `floor` is the earliest instant that can be asked for.
    ///
    /// Ask for a later time, or keep more archives and snapshots ([history](configuration.md#history)).
    #[row(704, "not_kept", http = 404)]
    #[error("nothing is kept of {entity} before {}", instant(.floor))]
    #[sample { entity: Entity::Session(id("hamlet")), floor: Timestamp(1_798_142_400_000) }]
    NotKept {
        /// The session, product or resource.
        entity: Entity,
        /// The earliest instant that can be asked for.
        floor: Timestamp,
    },
    /// It was made later than the instant that was asked for.
    ///
    /// Ask for a later time.
    #[row(705, "not_made_yet", http = 404)]
    #[error("{0} did not exist then")]
    #[sample(Entity::Session(id("hamlet")))]
    NotMadeYet(#[shown(entity)] Entity),
    /// No member has this id.
    ///
    /// Look at `boxoffice admin nodes`.
    #[row(801, "no_such_node", http = 404)]
    #[error("node {node} is not a member")]
    #[sample { node: 9 }]
    NoSuchNode { node: u64 },
    /// The member was removed. Its id is never given again.
    ///
    /// Join with an empty data directory and another id.
    #[row(802, "node_gone", http = 409)]
    #[error("node {node} was removed from the cluster and cannot come back under this id")]
    #[sample { node: 3 }]
    NodeGone { node: u64 },
    /// The member has another disk.
    ///
    /// If its disk is lost, say so with `boxoffice admin replace`, then join again.
    #[row(803, "disk_differs", http = 409)]
    #[error("node {node} has another disk; if that is lost, `admin replace {node}` comes first")]
    #[sample { node: 2 }]
    DiskDiffers { node: u64 },
    /// Shards would be left without a majority of their voters. Every one is named.
    ///
    /// Bring other nodes back first.
    #[row(804, "quorum_would_be_lost", http = 409)]
    #[error("without node {node}, {} of the shards would have no majority of their voters", .shards.len())]
    #[sample { node: 2, shards: vec![0, 7, 31] }]
    QuorumWouldBeLost { node: u64, shards: Vec<u16> },
    /// The cluster has changed since the placement was thought out.
    ///
    /// Do nothing. The next plan is made from the new table.
    #[row(805, "placement_stale", http = 409)]
    #[error("the cluster has changed meanwhile; it is at version {version}")]
    #[sample { version: 412 }]
    PlacementStale {
        /// The version of the cluster.
        version: u64,
    },
    /// The member cannot be drained, or cannot be kept from it. The message says why.
    ///
    /// Look at `boxoffice admin nodes`.
    #[row(806, "not_drainable", http = 409)]
    #[error("node {node} cannot be drained or kept from it: {why}")]
    #[sample { node: 2, why: "no other member serves".into() }]
    NotDrainable {
        node: u64,
        #[hidden]
        why: SmolStr,
    },
    /// The cluster was founded by another node or disk.
    ///
    /// Join it instead.
    #[row(807, "already_founded", http = 409)]
    #[error("the cluster was founded already, by another disk")]
    AlreadyFounded,
    /// The member still has copies. Every shard is named.
    ///
    /// Wait until the drain has ended.
    #[row(808, "node_in_use", http = 409)]
    #[error("node {node} still has copies of {} shards", .shards.len())]
    #[sample { node: 2, shards: vec![7] }]
    NodeInUse { node: u64, shards: Vec<u16> },
    /// Every id of a member was given.
    ///
    /// Found a new cluster.
    #[row(809, "too_many_nodes", http = 409)]
    #[error("a cluster has at most {max} members, those that were removed included")]
    #[sample { max: 65_535 }]
    TooManyNodes {
        /// The limit.
        #[shown(max: u32)]
        max: u64,
    },
    /// A machine that wants to join does not know what the cluster's nodes show each other.
    ///
    /// Set the same `peers.secret` on all nodes.
    #[row(810, "wrong_secret", http = 403)]
    #[error(
        "the machine that asks does not know the secret of this cluster's nodes; give all nodes of a cluster the same (peers.secret)"
    )]
    WrongSecret,
    /// Too few members would serve for more than one voter in each shard.
    ///
    /// Let another node join and serve first, or force it.
    #[row(811, "too_few_left", http = 409)]
    #[error(
        "without node {node} only {serving} members serve, and each shard would have a single voter, whose disk may not be lost; \
         let another node join and serve first, or force it"
    )]
    #[sample { node: 2, serving: 2 }]
    TooFewLeft {
        node: u64,
        /// The number of members that would serve.
        serving: u64,
    },
    /// A machine that wants to join shows no invitation, or one that is not known, has ended or was used by another
    /// machine.
    ///
    /// Make an invitation with `boxoffice admin invite` at a member, and paste it into `boxoffice join` on the machine. A
    /// member that was replaced needs one again.
    #[row(812, "not_invited", http = 409)]
    #[error(
        "the machine that asks shows no invitation that is valid for it; make one with `boxoffice admin invite` at a member, and \
         paste it into `boxoffice join` on the machine"
    )]
    NotInvited,
    /// The upgrade cannot be finished, because members do not read what would be written then. The message names each of them.
    ///
    /// Start the newer program on them, or remove them, and finish again.
    #[row(813, "upgrade_held_back", http = 409)]
    #[error("the upgrade to version {version} is held back: {why}")]
    #[sample { version: 18, why: "node 2: it cannot be reached".into() }]
    UpgradeHeldBack {
        /// The version that the cluster would have.
        version: u64,
        /// Who holds it back, and why.
        #[hidden]
        why: SmolStr,
    },
    /// A node that found its disk damaged may not replace it now. The message says why. It asks again by itself.
    ///
    /// Bring the other nodes up. If that is not possible, restore a backup.
    #[row(814, "not_renewed", http = 409)]
    #[error("node {node} may not replace its damaged disk now: {why}")]
    #[sample { node: 2, why: "node 3 is still getting what it lost with its disk".into() }]
    NotRenewed {
        node: u64,
        #[hidden]
        why: SmolStr,
    },
    /// The decision failed, and nothing came of this ask. Clients hear it as the failure of this number and not as a refusal,
    /// because they must not take it as final.
    #[row_of(row_of_internal, stored = 906)]
    #[error("a fault of the server, which its log tells")]
    Internal,
}

/// A refusal before any entity was asked. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Rows)]
#[rows(Rejection)]
pub enum Rejection {
    /// A refusal of the core.
    #[row_of(Refusal::row)]
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// There is no such op.
    ///
    /// Ask for an op of the table. An older node may not know a newer op.
    #[row(102, "unknown_op", http = 404)]
    #[error("there is no op {0}")]
    #[sample("`cart.steal`".into())]
    UnknownOp(
        /// The name in backticks, and the op that was probably meant.
        SmolStr,
    ),
    /// A frame, a list or a text is too big, or a command for a segment of the log.
    ///
    /// Send less at once.
    #[row(103, "too_large", http = 413)]
    #[error("too large: {0}")]
    #[sample("at most 20 seats at once".into())]
    TooLarge(SmolStr),
    /// The op needs a key or token and none was shown, or what was shown is wrong.
    ///
    /// Show another key or token. Guesses of one network are answered one after the other, each later than the one before.
    #[row(107, "unauthenticated", http = 401)]
    #[error("unauthenticated: {0}")]
    #[sample("the token is not known".into())]
    Unauthenticated(SmolStr),
    /// The caller has taken enough for now.
    ///
    /// Wait `retry_after_ms`, then repeat. A caller that needs more shows a key.
    #[row(109, "rate_limited", http = 429, buyer = "Too much at once; please wait a moment.")]
    #[error("rate limited: {why}")]
    #[sample { why: "too many requests a second".into(), retry_after_ms: Some(100) }]
    #[sample { why: "too many watches".into(), retry_after_ms: None }]
    RateLimited {
        /// The limit, in words.
        #[hidden]
        why: SmolStr,
        /// When to retry, in milliseconds from now, if known.
        retry_after_ms: Option<u64>,
    },
    /// The client and the node have no version in common.
    ///
    /// Use a client of the node's version.
    #[row(110, "unsupported_version", http = 400)]
    #[error("unsupported version: {0}")]
    #[sample("2".into())]
    UnsupportedVersion(SmolStr),
}

/// The kinds of failure. A failure is not a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Rows)]
#[rows(Failure)]
pub enum FailKind {
    /// The node has too much to do.
    ///
    /// Repeat after `retry_after_ms`, with jitter.
    #[row(901, "busy", http = 503, retry_after_ms = 100, buyer = "The box office is very busy. Please try again.")]
    #[error("too much is under way; try again")]
    Busy,
    /// No answer came before the deadline.
    ///
    /// Repeat with the same `rid`, over the same connection while it stands.
    #[row(
        902,
        "unknown",
        http = 504,
        retry_after_ms = 100,
        in_doubt,
        buyer = "No answer came in time: it may have happened. The cart shows what is so."
    )]
    #[error("no answer before the deadline; repeat with the same rid")]
    Unknown,
    /// The node that decides this is not ready, for example because its shard elects a leader.
    ///
    /// Repeat after `retry_after_ms`, with jitter, or ask another node.
    #[row(
        903,
        "not_ready",
        http = 503,
        retry_after_ms = 200,
        buyer = "No node could answer in time. Please try again."
    )]
    #[error("the node that decides this is not ready yet; try again")]
    NotReady,
    /// The node is going away.
    ///
    /// Repeat at another node.
    #[row(904, "draining", http = 503, retry_after_ms = 0)]
    #[error("this node is going away; try another")]
    Draining,
    /// Nothing can be written. The disk is full or broken.
    ///
    /// Repeat at another node. An operator must make room.
    #[row(
        905,
        "read_only",
        http = 507,
        retry_after_ms = 5_000,
        buyer = "This node cannot write at the moment. Please try again."
    )]
    #[error("the node cannot write: its disk is full or broken")]
    ReadOnly,
    /// A fault of the server, which its log tells. A decision panicked. Where an earlier attempt may have happened
    /// the answer is 902 instead.
    ///
    /// Do not repeat it by yourself. It may fail in the same way at any node, so neither the nodes nor the Rust client
    /// repeat it.
    #[row(906, "internal", http = 500, in_doubt)]
    #[error("a fault of the server; its log says more")]
    Internal,
}

impl Refusal {
    /// Whether it says how a payment ended. The cart remembers that under the request, so a repeat gets the same answer and
    /// the request can never be granted. Every other refusal is decided afresh when it is repeated.
    pub fn is_outcome(&self) -> bool {
        self.row().is_outcome
    }

    /// Whether a decision failed that this one rests on.
    pub fn is_internal(&self) -> bool {
        match self {
            Refusal::Internal => true,
            Refusal::Lines(lines) => lines.iter().any(|line| line.refusal == Refusal::Internal),
            _ => false,
        }
    }
}

fn row_of_first(lines: &[LineRefusal]) -> &'static Row {
    lines[0].refusal.row()
}

fn row_of_internal() -> &'static Row {
    FailKind::Internal.row()
}

impl Rejection {
    /// 101 with this message.
    pub fn bad_request(reason: impl AsRef<str>) -> Rejection {
        Rejection::Refusal(Refusal::BadRequest(SmolStr::new(reason)))
    }
}

impl From<SeatSetError> for Rejection {
    fn from(error: SeatSetError) -> Rejection {
        match error {
            SeatSetError::Empty => Rejection::bad_request("a list of seats is empty"),
            SeatSetError::TooMany => Rejection::TooLarge(format_smolstr!("at most {HOLD_SEATS_MAX} seats at once")),
            SeatSetError::Duplicate(seats) => Rejection::Refusal(Refusal::DuplicateSeat(seats)),
        }
    }
}

impl FailKind {
    /// Whether the command may have happened all the same.
    pub fn may_have_happened(self) -> bool {
        self.row().in_doubt
    }

    /// The kind with this number. An unknown number counts as internal.
    pub fn from_code(code: u16) -> FailKind {
        FailKind::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(FailKind::Internal)
    }
}
