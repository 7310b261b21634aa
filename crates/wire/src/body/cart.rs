//! The ops on carts.

use std::mem;

use boxoffice_core::{
    command::{BestWish, BuyAs, CartCommand, Command, Details, Expect, Payment, Shipping, Want, WantedLine, owns},
    id::{CartId, CartToken, Entity, Id},
    portion::{LINE_QUANTITY_MAX, Note},
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
    time::Timestamp,
};
use boxoffice_declare::{op, shape};

pub use crate::repr::payment::{Figure, GatewayPayment, PaymentBody, RecordedPayment, ShippingBody};
use crate::{
    convert::{Converted, at_most, interval},
    limits::CART_LINES_MAX,
    quantity::Quantity,
    rejection::Rejection,
    repr::{Bounded, List, OptionalBounded, order::Order, shape::WHOLE_MAX},
    view::{CartView, Held},
};

/// The body of ops that need the token alone.
#[shape(body)]
#[derive(Eq)]
pub struct CartOnly {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
}

impl CartOnly {
    /// This command of the cart.
    fn command(self, command: CartCommand) -> Converted<Command> {
        Ok(Command::Cart(cart(self.token, self.cart)?, command))
    }
}

/// Open a cart.
#[op("cart.open", hold, venues(Unlimited), weight(6), answers(CartView))]
#[example(r#"{"customer": "ada", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0", "ttl_ms": 600000}"#)]
#[example(r#"{"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f1"}"#)]
#[derive(Eq)]
pub struct CartOpen {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    pub customer: Option<Id>,
    /// The time to live of the cart after its last change.
    #[narrow(1..=WHOLE_MAX)]
    pub ttl_ms: Option<u64>,
}

impl CartOpen {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        Ok(Command::Cart(cart, CartCommand::Open { customer: self.customer, ttl_ms: self.ttl_ms, guest: true }))
    }
}

/// Read a cart.
#[op("cart.get", read, roles(Sell), owner(CartToken), weight(1), answers(CartView))]
#[example(r#"{"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
pub struct CartGet(pub CartOnly);

impl CartGet {
    fn command(self) -> Converted<Command> {
        self.0.command(CartCommand::Get)
    }
}

/// Hold named seats.
#[op("cart.hold_seats", hold, weight(14), answers(Held))]
#[example(
    r#"{"seats": [[1, 5], [1, 6], [1, 7]], "session": "hamlet-tonight", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#
)]
#[derive(Eq)]
pub struct HoldSeats {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub session: Id,
    #[with("Bounded::<HOLD_SEATS_MAX>")]
    #[narrow(1..=HOLD_SEATS_MAX)]
    pub seats: Vec<Seat>,
    /// Hold the seats that are free, if others are taken.
    #[optional]
    pub best_effort: bool,
    /// What the buyer notes at the line. Tabs and line ends are allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
    /// The price type of each seat, in their order, or one for all. The session's first one if absent.
    #[since(1, 6)]
    #[optional]
    pub types: List<Id, 0, HOLD_SEATS_MAX>,
    /// The offer to buy under. The cheapest one if absent.
    #[since(1, 6)]
    pub offer: Option<Id>,
    /// A code that the buyer has. It opens the offers of its group, besides those for everybody.
    #[since(1, 6)]
    pub code: Option<Id>,
}

impl HoldSeats {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let types = in_order_of_seats(&self.seats, self.types.into_plain())?;
        let buy_as = BuyAs::with_code(types, self.offer, self.code);
        let want = Want::Seats { seats: SeatSet::new(self.seats)?, best_effort: self.best_effort, buy_as };
        Ok(hold(cart, Entity::Session(self.session), want, self.note, self.customer))
    }
}

/// Hold the best free seats.
#[op("cart.hold_best", hold, weight(14), answers(Held))]
#[example(r#"{"category": "standard", "count": 2, "session": "hamlet-tonight", "split": true, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct HoldBest {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub session: Id,
    #[narrow(1..=HOLD_SEATS_MAX)]
    pub count: u16,
    pub category: Option<Id>,
    pub section: Option<Id>,
    /// The exact number of accessible seats among them.
    #[optional(written)]
    #[narrow(0..=HOLD_SEATS_MAX)]
    pub accessible: u16,
    /// If no run of neighbours is long enough, hold several runs.
    #[optional]
    pub split: bool,
    /// What the buyer notes at the line. Tabs and line ends are allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
    /// The price type of each seat, in their order, or one for all. The session's first one if absent.
    #[since(1, 6)]
    #[optional]
    pub types: List<Id, 0, HOLD_SEATS_MAX>,
    /// The offer to buy under. The cheapest one if absent.
    #[since(1, 6)]
    pub offer: Option<Id>,
    /// A code that the buyer has. It opens the offers of its group, besides those for everybody.
    #[since(1, 6)]
    pub code: Option<Id>,
}

impl HoldBest {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let wish = BestWish {
            count: self.count,
            category: self.category,
            section: self.section,
            accessible: self.accessible,
            split: self.split,
            buy_as: BuyAs::with_code(self.types.into_plain(), self.offer, self.code),
        };
        Ok(hold(cart, Entity::Session(self.session), best(wish)?, self.note, self.customer))
    }
}

/// Hold places in an area.
#[op("cart.hold_places", hold, weight(14), answers(Held))]
#[example(
    r#"{"area": "yard", "quantity": 4, "session": "hamlet-matinee", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#
)]
#[derive(Eq)]
pub struct HoldPlaces {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub session: Id,
    pub area: Id,
    #[within(1..=LINE_QUANTITY_MAX)]
    pub quantity: Quantity,
    /// What the buyer notes at the line. It replaces the note of a line that grows, unless it is empty. Tabs and line ends are
    /// allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
    /// The price type of the places. The session's first one if absent.
    #[since(1, 6)]
    #[optional]
    pub types: List<Id, 0, 1>,
    /// The offer to buy under. The cheapest one if absent.
    #[since(1, 6)]
    pub offer: Option<Id>,
    /// A code that the buyer has. It opens the offers of its group, besides those for everybody.
    #[since(1, 6)]
    pub code: Option<Id>,
}

impl HoldPlaces {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let buy_as = BuyAs::with_code(self.types.into_plain(), self.offer, self.code);
        let want = Want::Places { area: self.area, quantity: self.quantity.checked_u32(), buy_as };
        Ok(hold(cart, Entity::Session(self.session), want, self.note, self.customer))
    }
}

/// Hold units of a product.
#[op("cart.hold_stock", hold, weight(14), answers(Held))]
#[example(r#"{"product": "programme", "quantity": 2, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[example(r#"{"product": "poster", "quantity": 1, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[example(r#"{"customer": "ben", "product": "programme", "quantity": 1, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f2"}"#)]
#[derive(Eq)]
pub struct HoldStock {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub product: Id,
    #[within(1..=LINE_QUANTITY_MAX)]
    pub quantity: Quantity,
    /// What the buyer notes at the line. It replaces the note of a line that grows, unless it is empty. Tabs and line ends are
    /// allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
}

impl HoldStock {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let want = Want::Units { quantity: self.quantity.checked_u32(), now: false };
        Ok(hold(cart, Entity::Product(self.product), want, self.note, self.customer))
    }
}

/// Hold time of a resource.
#[op("cart.hold_slot", hold, weight(14), answers(Held))]
#[example(r#"{"begin": "2099-04-15T09:00:00Z", "details": "with a piano", "end": "2099-04-15T10:30:00Z", "resource": "room-5", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct HoldSlot {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub resource: Id,
    pub begin: Timestamp,
    /// The end, exclusive.
    pub end: Timestamp,
    /// Details of the booking.
    #[since(1, 1)]
    #[optional]
    pub details: Details,
    /// What the buyer notes at the line. Tabs and line ends are allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
}

impl HoldSlot {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let (begin, end) = interval(self.begin, self.end)?;
        let want = Want::Slot { begin, end, details: self.details };
        Ok(hold(cart, Entity::Resource(self.resource), want, self.note, self.customer))
    }
}

/// Hold several lines, all or none.
#[op("cart.hold_all", hold, weight(14), answers(Held))]
#[example(r#"{"lines": [{"seats": [[3, 5]], "session": "hamlet-tonight"}, {"count": 1, "session": "hamlet-matinee"}, {"area": "yard", "quantity": 2, "session": "hamlet-matinee"}, {"product": "programme", "quantity": 1}, {"begin": "2099-04-15T09:00:00Z", "end": "2099-04-15T10:30:00Z", "resource": "projector"}], "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct HoldAll {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    /// The owner of the cart, if it has none yet.
    pub customer: Option<Id>,
    pub lines: List<Line, 1, CART_LINES_MAX>,
}

impl HoldAll {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let lines = self.lines.into_plain().into_iter().map(line).collect::<Converted<_>>()?;
        Ok(Command::Cart(
            cart,
            CartCommand::Hold { lines, customer: self.customer, guest: true, holder: None, attributes: Vec::new() },
        ))
    }
}

/// The fields of `cart.hold_seats`, `cart.hold_best`, `cart.hold_places`, `cart.hold_stock` or `cart.hold_slot`.
#[shape("WantedLine")]
#[derive(Default, Eq)]
#[one_of([session, seats] [session, count] [session, area, quantity] [product, quantity] [resource, begin, end])]
pub struct Line {
    pub session: Option<Id>,
    pub product: Option<Id>,
    pub resource: Option<Id>,
    #[with("OptionalBounded::<HOLD_SEATS_MAX>")]
    #[narrow(1..=HOLD_SEATS_MAX)]
    pub seats: Option<Vec<Seat>>,
    /// Hold the seats that are free, if others are taken.
    #[optional]
    pub best_effort: bool,
    #[narrow(1..=HOLD_SEATS_MAX)]
    pub count: Option<u16>,
    pub category: Option<Id>,
    pub section: Option<Id>,
    /// The exact number of accessible seats among them.
    #[optional]
    #[narrow(0..=HOLD_SEATS_MAX)]
    pub accessible: u16,
    /// If no run of neighbours is long enough, hold several runs.
    #[optional]
    pub split: bool,
    pub area: Option<Id>,
    /// The number of places or units.
    #[within(1..=LINE_QUANTITY_MAX)]
    pub quantity: Option<Quantity>,
    pub begin: Option<Timestamp>,
    /// The end, exclusive.
    pub end: Option<Timestamp>,
    /// Details of the booking.
    #[since(1, 1)]
    #[optional]
    pub details: Details,
    /// What the buyer notes at the line. It replaces the note of a line that grows, unless it is empty. Tabs and line ends are
    /// allowed.
    #[since(1, 5)]
    #[optional]
    pub note: Note,
    /// The price type of each seat, in their order, or one for all. The session's first one if absent.
    #[since(1, 6)]
    #[optional]
    pub types: List<Id, 0, HOLD_SEATS_MAX>,
    /// The offer to buy under. The cheapest one if absent.
    #[since(1, 6)]
    pub offer: Option<Id>,
    /// A code that the buyer has. It opens the offers of its group, besides those for everybody.
    #[since(1, 6)]
    pub code: Option<Id>,
}

/// Change the quantity of a line of places or units.
#[op("cart.set_quantity", cart, venues(OfCartLines), weight(6), answers(CartView))]
#[example(r#"{"line": 4, "quantity": 5, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct SetQuantity {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    #[narrow(0..=u32::MAX)]
    pub line: u32,
    /// The new quantity of the line. 0 ends the line.
    #[within(0..=LINE_QUANTITY_MAX)]
    pub quantity: Quantity,
}

impl SetQuantity {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let quantity = self.quantity.checked_u32();
        Ok(Command::Cart(
            cart,
            CartCommand::SetQuantity { line: self.line, quantity, guest: true, holder: None, attributes: Vec::new() },
        ))
    }
}

/// Change the note of a line.
#[op("cart.set_note", cart, since(1, 5), venues(OfCartLines), weight(6), answers(CartView))]
#[example(r#"{"line": 4, "note": "as a gift, please", "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct SetNote {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    #[narrow(0..=u32::MAX)]
    pub line: u32,
    /// The new note of the line. An empty one ends it. Tabs and line ends are allowed.
    pub note: Note,
}

impl SetNote {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        Ok(Command::Cart(cart, CartCommand::SetNote { line: self.line, note: self.note }))
    }
}

/// Release a line, or seats of it.
#[op("cart.release", cart, venues(Unlimited), weight(6), answers(CartView))]
#[example(r#"{"line": 1, "seats": [[1, 6]], "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct Release {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    #[narrow(0..=u32::MAX)]
    pub line: u32,
    /// The seats to release. The whole line if absent.
    #[with("OptionalBounded::<HOLD_SEATS_MAX>")]
    #[narrow(1..=HOLD_SEATS_MAX)]
    pub seats: Option<Vec<Seat>>,
}

impl Release {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let seats = self.seats.map(SeatSet::new).transpose()?;
        Ok(Command::Cart(cart, CartCommand::Release { line: self.line, seats }))
    }
}

/// Release everything and end the cart.
#[op("cart.cancel", cart, venues(Unlimited), weight(6), answers(CartView))]
#[example(r#"{"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f1"}"#)]
pub struct CartCancel(pub CartOnly);

impl CartCancel {
    fn command(self) -> Converted<Command> {
        self.0.command(CartCommand::Cancel)
    }
}

/// Buy what the cart holds.
#[op("cart.checkout", cart, owner(CartTokenAndCustomer), venues(OfCartLines), weight(8), answers(Order))]
#[example(r#"{"payment": {"recorded": {"method": "card", "transaction_id": "4711"}}, "shipping": {"address": "12 St James's Square", "method": "post", "recipient": "Ada"}, "token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
#[derive(Eq)]
pub struct Checkout {
    pub token: CartToken,
    /// The op is refused if the token does not open this cart.
    pub cart: Option<CartId>,
    pub payment: PaymentBody,
    /// The buyer, if the cart has no owner yet.
    pub customer: Option<Id>,
    pub shipping: Option<ShippingBody>,
    /// What the buyer has seen. The checkout is refused if the cart differs.
    #[since(1, 1)]
    pub expect: Option<Figure>,
}

impl Checkout {
    fn command(self) -> Converted<Command> {
        let cart = cart(self.token, self.cart)?;
        let shipping = self.shipping.map(Shipping::from);
        if self.expect.is_some_and(|expect| expect == Figure::default()) {
            return Err(Rejection::bad_request("`expect` has `total` or `lines`"));
        }
        let Figure { total, lines } = self.expect.unwrap_or_default();
        let paid = self.payment.recorded.as_ref().and_then(|recorded| recorded.amount);
        let (payment, expect) = (payment(self.payment)?, Expect { total, lines, paid });
        Ok(Command::Cart(
            cart,
            CartCommand::Checkout { payment, customer: self.customer, shipping, expect, holder: None },
        ))
    }
}

/// End the attempt to pay that is under way, and leave the cart active.
#[op("cart.checkout_cancel", cart, since(1, 5), venues(Unlimited), weight(6), answers(CartView))]
#[example(r#"{"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"}"#)]
pub struct CartCheckoutCancel(pub CartOnly);

impl CartCheckoutCancel {
    fn command(self) -> Converted<Command> {
        self.0.command(CartCommand::CancelCheckout { by_operator: false })
    }
}

/// The cart of a token. Refused if the client names another cart.
fn cart(token: CartToken, said: Option<CartId>) -> Converted<CartId> {
    match said {
        Some(cart) if owns(token, cart) => Ok(cart),
        Some(_) => Err(Refusal::NotYourCart.into()),
        None => Ok(token.cart()),
    }
}

/// The hold of one line.
fn hold(cart: CartId, entity: Entity, want: Want, note: Note, customer: Option<Id>) -> Command {
    let lines = vec![WantedLine { note, ..WantedLine::new(entity, want) }];
    Command::Cart(cart, CartCommand::Hold { lines, customer, guest: true, holder: None, attributes: Vec::new() })
}

fn best(wish: BestWish) -> Converted<Want> {
    if wish.count == 0 {
        return Err(Rejection::bad_request("`count` is at least 1"));
    }
    at_most(usize::from(wish.count), HOLD_SEATS_MAX, "seats at once")?;
    if wish.accessible > wish.count {
        return Err(Rejection::bad_request("`accessible` is at most `count`"));
    }
    Ok(Want::Best(wish))
}

fn line(mut line: Line) -> Converted<WantedLine> {
    let note = mem::take(&mut line.note);
    Ok(WantedLine { note, ..wanted(line)? })
}

/// The line without its note.
fn wanted(line: Line) -> Converted<WantedLine> {
    match (line.session.clone(), line.product.clone(), line.resource.clone()) {
        (Some(session), None, None) => Ok(WantedLine::new(Entity::Session(session), of_session(line)?)),
        (None, Some(product), None) => {
            let want = Want::Units { quantity: needed("quantity", line.quantity)?.checked_u32(), now: false };
            Ok(WantedLine::new(Entity::Product(product), want))
        }
        (None, None, Some(resource)) => {
            let (begin, end) = interval(needed("begin", line.begin)?, needed("end", line.end)?)?;
            let details = line.details;
            Ok(WantedLine::new(Entity::Resource(resource), Want::Slot { begin, end, details }))
        }
        _ => Err(Rejection::bad_request("a line is of one `session`, `product` or `resource`")),
    }
}

fn needed<T>(name: &str, value: Option<T>) -> Converted<T> {
    value.ok_or_else(|| Rejection::bad_request(format!("a line without `{name}`")))
}

/// Price types in the order of the sorted seats. They are told in that of the request, or one is told for all.
fn in_order_of_seats(seats: &[Seat], types: Vec<Id>) -> Converted<Vec<Id>> {
    if types.len() <= 1 {
        return Ok(types);
    }
    if types.len() != seats.len() {
        return Err(Rejection::bad_request("`types` has one price type for all seats, or one for each"));
    }
    let mut pairs: Vec<(Seat, Id)> = seats.iter().copied().zip(types).collect();
    pairs.sort();
    Ok(pairs.into_iter().map(|(_, of)| of).collect())
}

fn of_session(line: Line) -> Converted<Want> {
    let (types, offer, code) = (line.types.into_plain(), line.offer, line.code);
    match (line.seats, line.count, line.area) {
        (Some(seats), None, None) => {
            let buy_as = BuyAs::with_code(in_order_of_seats(&seats, types)?, offer, code);
            Ok(Want::Seats { seats: SeatSet::new(seats)?, best_effort: line.best_effort, buy_as })
        }
        (None, Some(count), None) => best(BestWish {
            count,
            category: line.category,
            section: line.section,
            accessible: line.accessible,
            split: line.split,
            buy_as: BuyAs::with_code(types, offer, code),
        }),
        (None, None, Some(area)) => {
            let buy_as = BuyAs::with_code(types, offer, code);
            Ok(Want::Places { area, quantity: needed("quantity", line.quantity)?.checked_u32(), buy_as })
        }
        _ => Err(Rejection::bad_request("a line of a session has one of `seats`, `count` and `area`")),
    }
}

fn payment(payment: PaymentBody) -> Converted<Payment> {
    match (payment.recorded, payment.gateway) {
        (Some(recorded), None) => {
            let RecordedPayment { method, transaction_id, amount: _ } = recorded;
            Ok(Payment::Recorded { method: method.into_plain(), transaction_id: transaction_id.into_plain() })
        }
        (None, Some(GatewayPayment { source, on_decline })) => {
            Ok(Payment::Gateway { source: source.into_plain(), on_decline })
        }
        (None, None) | (Some(_), Some(_)) => {
            Err(Rejection::bad_request("`payment` says how: either `recorded` or `gateway`"))
        }
    }
}
