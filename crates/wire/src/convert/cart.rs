//! Commands of carts, orders and customers.

use boxoffice_core::{
    command::{BestWish, CartCommand, Command, CustomerCommand, Expect, Payment, Shipping, Want, WantedLine, owns},
    id::{CartId, CartToken, Entity, Id},
    portion::LINE_QUANTITY_MAX,
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, SeatSet},
};
use smol_str::SmolStr;

use super::{Converted, at_most, distinct, interval, limit, one_to, text};
use crate::{
    body,
    limits::{
        CART_LINES_MAX, DETAILS_BYTES_MAX, PAYMENT_TEXT_BYTES_MAX, REASON_BYTES_MAX, SHIPPING_BYTES_MAX,
        SOURCE_BYTES_MAX,
    },
    quantity::Quantity,
    rejection::Rejection,
};

/// The cart of a token. Refused if the client names another cart.
pub(crate) fn cart(token: CartToken, said: Option<CartId>) -> Converted<CartId> {
    match said {
        Some(cart) if owns(token, cart) => Ok(cart),
        Some(_) => Err(Refusal::NotYourCart.into()),
        None => Ok(token.cart()),
    }
}

pub(crate) fn cart_open(body: body::CartOpen) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    Ok(Command::Cart(cart, CartCommand::Open { customer: body.customer, ttl_ms: body.ttl_ms, guest: true }))
}

pub(crate) fn cart_only(body: body::CartOnly, command: CartCommand) -> Converted<Command> {
    Ok(Command::Cart(cart(body.token, body.cart)?, command))
}

/// The hold of one line.
fn hold(cart: CartId, entity: Entity, want: Want, customer: Option<Id>) -> Command {
    Command::Cart(
        cart,
        CartCommand::Hold { lines: vec![WantedLine { entity, want }], customer, guest: true, holder: None },
    )
}

pub(crate) fn hold_seats(body: body::HoldSeats) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let want = Want::Seats { seats: SeatSet::new(body.seats)?, best_effort: body.best_effort };
    Ok(hold(cart, Entity::Session(body.session), want, body.customer))
}

pub(crate) fn hold_best(body: body::HoldBest) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let wish = BestWish {
        count: body.count,
        category: body.category,
        section: body.section,
        accessible: body.accessible,
        split: body.split,
    };
    Ok(hold(cart, Entity::Session(body.session), best(wish)?, body.customer))
}

pub(crate) fn hold_places(body: body::HoldPlaces) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let want = Want::Places { area: body.area, quantity: line_quantity(&body.quantity)? };
    Ok(hold(cart, Entity::Session(body.session), want, body.customer))
}

pub(crate) fn hold_stock(body: body::HoldStock) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let want = Want::Units { quantity: line_quantity(&body.quantity)?, now: false };
    Ok(hold(cart, Entity::Product(body.product), want, body.customer))
}

pub(crate) fn hold_slot(body: body::HoldSlot) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let (begin, end) = interval(body.begin, body.end)?;
    let details = details(body.details)?;
    Ok(hold(cart, Entity::Resource(body.resource), Want::Slot { begin, end, details }, body.customer))
}

fn details(said: SmolStr) -> Converted<SmolStr> {
    text("details", said, 0, DETAILS_BYTES_MAX)
}

fn line_quantity(quantity: &Quantity) -> Converted<u32> {
    quantity.within_u32("quantity", 1, LINE_QUANTITY_MAX)
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

pub(crate) fn hold_all(body: body::HoldAll) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    one_to("lines", body.lines.len(), CART_LINES_MAX)?;
    let lines = body.lines.into_iter().map(line).collect::<Converted<_>>()?;
    Ok(Command::Cart(cart, CartCommand::Hold { lines, customer: body.customer, guest: true, holder: None }))
}

fn line(line: body::Line) -> Converted<WantedLine> {
    match (line.session.clone(), line.product.clone(), line.resource.clone()) {
        (Some(session), None, None) => Ok(WantedLine { entity: Entity::Session(session), want: of_session(line)? }),
        (None, Some(product), None) => {
            let quantity = needed("quantity", line.quantity)?;
            let want = Want::Units { quantity: line_quantity(&quantity)?, now: false };
            Ok(WantedLine { entity: Entity::Product(product), want })
        }
        (None, None, Some(resource)) => {
            let (begin, end) = interval(needed("begin", line.begin)?, needed("end", line.end)?)?;
            let details = details(line.details)?;
            Ok(WantedLine { entity: Entity::Resource(resource), want: Want::Slot { begin, end, details } })
        }
        _ => Err(Rejection::bad_request("a line is of one `session`, `product` or `resource`")),
    }
}

fn needed<T>(name: &str, value: Option<T>) -> Converted<T> {
    value.ok_or_else(|| Rejection::bad_request(format!("a line without `{name}`")))
}

fn of_session(line: body::Line) -> Converted<Want> {
    match (line.seats, line.count, line.area) {
        (Some(seats), None, None) => Ok(Want::Seats { seats: SeatSet::new(seats)?, best_effort: line.best_effort }),
        (None, Some(count), None) => best(BestWish {
            count,
            category: line.category,
            section: line.section,
            accessible: line.accessible,
            split: line.split,
        }),
        (None, None, Some(area)) => {
            let quantity = needed("quantity", line.quantity)?;
            Ok(Want::Places { area, quantity: line_quantity(&quantity)? })
        }
        _ => Err(Rejection::bad_request("a line of a session has one of `seats`, `count` and `area`")),
    }
}

pub(crate) fn set_quantity(body: body::SetQuantity) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let quantity = body.quantity.within_u32("quantity", 0, LINE_QUANTITY_MAX)?;
    Ok(Command::Cart(cart, CartCommand::SetQuantity { line: body.line, quantity, holder: None }))
}

pub(crate) fn release(body: body::Release) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let seats = body.seats.map(SeatSet::new).transpose()?;
    Ok(Command::Cart(cart, CartCommand::Release { line: body.line, seats }))
}

pub(crate) fn checkout(body: body::Checkout) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let shipping = body.shipping.map(shipping).transpose()?;
    let body::Figure { total, lines } = body.expect.unwrap_or_default();
    let paid = body.payment.recorded.as_ref().and_then(|recorded| recorded.amount);
    let (payment, expect) = (payment(body.payment)?, Expect { total, lines, paid });
    Ok(Command::Cart(cart, CartCommand::Checkout { payment, customer: body.customer, shipping, expect, holder: None }))
}

fn payment(payment: body::PaymentBody) -> Converted<Payment> {
    match (payment.recorded, payment.gateway) {
        (Some(recorded), None) => Ok(Payment::Recorded {
            method: text("method", recorded.method, 1, PAYMENT_TEXT_BYTES_MAX)?,
            transaction_id: text("transaction_id", recorded.transaction_id, 0, PAYMENT_TEXT_BYTES_MAX)?,
        }),
        (None, Some(gateway)) => Ok(Payment::Gateway {
            source: text("source", gateway.source, 1, SOURCE_BYTES_MAX)?,
            on_decline: gateway.on_decline,
        }),
        (None, None) | (Some(_), Some(_)) => {
            Err(Rejection::bad_request("`payment` says how: either `recorded` or `gateway`"))
        }
    }
}

fn shipping(shipping: body::ShippingBody) -> Converted<Shipping> {
    Ok(Shipping {
        recipient: text("recipient", shipping.recipient, 0, SHIPPING_BYTES_MAX)?,
        address: text("address", shipping.address, 0, SHIPPING_BYTES_MAX)?,
        method: text("method", shipping.method, 0, SHIPPING_BYTES_MAX)?,
    })
}

pub(crate) fn order_refund(body: body::OrderRefund) -> Converted<Command> {
    let reason = text("reason", body.reason, 1, REASON_BYTES_MAX)?;
    let lines = body.lines.map(lines).transpose()?;
    Ok(Command::Cart(body.order.cart(), CartCommand::Refund { lines, reason }))
}

/// Numbers of lines, sorted, since their order in the request has no meaning.
fn lines(mut lines: Vec<u32>) -> Converted<Vec<u32>> {
    one_to("lines", lines.len(), CART_LINES_MAX)?;
    lines.sort_unstable();
    distinct(&lines, |line| line, "a line is named twice")?;
    Ok(lines)
}

pub(crate) fn customer_purchases(body: body::CustomerPurchases) -> Converted<Command> {
    let purchases = CustomerCommand::Purchases { after: body.cursor.unwrap_or(0), limit: limit(body.limit)? };
    Ok(Command::Customer(body.customer, purchases))
}
