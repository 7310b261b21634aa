//! From bodies to commands of the core: everything that can be checked without looking at any state.

use std::sync::Arc;

use boxoffice_core::{
    command::{
        BestWish, CartCommand, Command, NewSession, Payment, SessionCommand, VenueCommand, VenueDetails, Want,
        WantedLine, owns,
    },
    id::{CartId, CartToken, Entity, Id},
    layout::LAYOUT_SEATS_MAX,
    money::{Money, PRICE_MAX},
    refusal::Refusal,
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
    time::{TIMESTAMP_MAX, Timestamp},
};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    body,
    limits::{
        CART_LINES_MAX, CATEGORIES_MAX, COMMENTS_BYTES_MAX, NAME_BYTES_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX,
        PAYMENT_TEXT_BYTES_MAX,
    },
    rejection::Rejection,
    request::Shape,
};

type Converted<T> = Result<T, Rejection>;

pub(crate) fn venue_put(body: body::VenuePut) -> Converted<Command> {
    let position = match body.position {
        Some(position) => {
            Some(position.millionths().ok_or_else(|| Rejection::bad_request("`position` is not on the globe"))?)
        }
        None => None,
    };
    let details = VenueDetails {
        name: text("name", body.name, 1, NAME_BYTES_MAX)?,
        city: text("city", body.city, 0, NAME_BYTES_MAX)?,
        position,
        comments: text("comments", body.comments, 0, COMMENTS_BYTES_MAX)?,
    };
    Ok(Command::Venue(body.id, VenueCommand::Put(details)))
}

pub(crate) fn hall_put(body: body::HallPut) -> Converted<Command> {
    let name = text("name", body.name, 1, NAME_BYTES_MAX)?;
    Ok(Command::Venue(body.venue, VenueCommand::PutHall { hall: body.id, name, layout: Arc::clone(&body.layout) }))
}

pub(crate) fn session_create(body: body::SessionCreate) -> Converted<Command> {
    if body.starts_at >= body.ends_at {
        return Err(Rejection::bad_request("`starts_at` must be before `ends_at`"));
    }
    let session = NewSession {
        id: body.id,
        hall: body.hall,
        title: body.title,
        starts_at: body.starts_at,
        ends_at: body.ends_at,
        prices: prices(body.prices)?,
        hold_ttl_ms: body.hold_ttl_ms,
    };
    Ok(Command::Venue(body.venue, VenueCommand::CreateSession(session)))
}

/// Prices by category, ascending: the order in which a client wrote them means nothing.
fn prices(mut prices: Vec<(Id, Money)>) -> Converted<Vec<(Id, Money)>> {
    if prices.len() > CATEGORIES_MAX {
        return Err(Rejection::TooLarge(format_smolstr!("at most {CATEGORIES_MAX} prices")));
    }
    prices.sort_by(|one, other| one.0.cmp(&other.0));
    if prices.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Rejection::bad_request("a category has two prices"));
    }
    if prices.iter().any(|(_, price)| !(0..=PRICE_MAX).contains(&price.amount)) {
        return Err(Rejection::bad_request(format!("a price is from 0 to {PRICE_MAX} minor units")));
    }
    if prices.windows(2).any(|pair| pair[0].1.currency != pair[1].1.currency) {
        return Err(Rejection::bad_request("the prices of a session are all in one currency"));
    }
    Ok(prices)
}

pub(crate) fn session_search(body: body::SessionSearch) -> Converted<(Command, Shape)> {
    let limit = body.limit.unwrap_or(PAGE_ENTRIES);
    if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
        return Err(Rejection::bad_request(format!("`limit` is from 1 to {PAGE_ENTRIES_MAX}")));
    }
    let after = match body.cursor {
        Some(cursor) => Some(place(&cursor).ok_or_else(|| Rejection::bad_request("`cursor` is not from an answer"))?),
        None => None,
    };
    let search = VenueCommand::SearchSessions {
        hall: body.hall,
        title: body.title,
        from: body.from.unwrap_or_default(),
        to: body.to.unwrap_or(TIMESTAMP_MAX),
        limit,
        after,
    };
    Ok((Command::Venue(body.venue, search), Shape::Page { limit }))
}

/// Where a page ended, as text for the next request.
pub(crate) fn cursor(starts_at: Timestamp, id: &Id) -> String {
    format!("{}/{id}", starts_at.0)
}

/// The place a cursor stands for.
fn place(cursor: &str) -> Option<(Timestamp, Id)> {
    let (millis, id) = cursor.split_once('/')?;
    let starts_at = Timestamp(millis.parse().ok()?);
    Some((starts_at, Id::new(id)?))
}

pub(crate) fn session_map(body: body::SessionMap) -> Converted<(Command, Shape)> {
    let shape = match body.view.as_deref() {
        None => Shape::Plain,
        Some("2,1,0") => Shape::ThreeStates,
        Some(_) => return Err(Rejection::bad_request("`view` is `2,1,0` or absent")),
    };
    Ok((Command::Session(body.id, SessionCommand::Map), shape))
}

pub(crate) fn session_seats(body: body::SessionSeats, make: fn(Vec<Seat>) -> SessionCommand) -> Converted<Command> {
    let seats = body.seats;
    if seats.is_empty() {
        return Err(Rejection::bad_request("`seats` is empty"));
    }
    if seats.len() > LAYOUT_SEATS_MAX {
        return Err(Rejection::TooLarge(format_smolstr!("at most {LAYOUT_SEATS_MAX} seats at once")));
    }
    let mut sorted = seats;
    sorted.sort_unstable();
    let mut twice: Vec<Seat> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    twice.dedup();
    if twice.is_empty() {
        Ok(Command::Session(body.id, make(sorted)))
    } else {
        Err(Refusal::DuplicateSeat(twice).into())
    }
}

/// The cart this token opens, if that is the cart the client means.
fn cart(token: CartToken, said: Option<CartId>) -> Converted<CartId> {
    match said {
        Some(cart) if owns(token, cart) => Ok(cart),
        Some(_) => Err(Refusal::NotYourCart.into()),
        None => Ok(token.cart()),
    }
}

pub(crate) fn cart_open(body: body::CartOpen) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    Ok(Command::Cart(cart, CartCommand::Open { customer: body.customer, ttl_ms: body.ttl_ms }))
}

pub(crate) fn cart_only(body: body::CartOnly, command: CartCommand) -> Converted<Command> {
    Ok(Command::Cart(cart(body.token, body.cart)?, command))
}

pub(crate) fn hold_seats(body: body::HoldSeats) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let want = Want::Seats { seats: SeatSet::new(body.seats)?, best_effort: body.best_effort };
    Ok(Command::Cart(cart, CartCommand::Hold(vec![WantedLine { session: body.session, want }])))
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
    Ok(Command::Cart(cart, CartCommand::Hold(vec![WantedLine { session: body.session, want: best(wish)? }])))
}

fn best(wish: BestWish) -> Converted<Want> {
    if wish.count == 0 {
        return Err(Rejection::bad_request("`count` is at least 1"));
    }
    if usize::from(wish.count) > HOLD_SEATS_MAX {
        return Err(Rejection::TooLarge(format_smolstr!("at most {HOLD_SEATS_MAX} seats at once")));
    }
    if wish.accessible > wish.count {
        return Err(Rejection::bad_request("`accessible` is at most `count`"));
    }
    Ok(Want::Best(wish))
}

pub(crate) fn hold_all(body: body::HoldAll) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    if body.lines.is_empty() {
        return Err(Rejection::bad_request("`lines` is empty"));
    }
    if body.lines.len() > CART_LINES_MAX {
        return Err(Rejection::TooLarge(format_smolstr!("at most {CART_LINES_MAX} lines at once")));
    }
    let lines = body.lines.into_iter().map(line).collect::<Converted<_>>()?;
    Ok(Command::Cart(cart, CartCommand::Hold(lines)))
}

fn line(line: body::Line) -> Converted<WantedLine> {
    let want = match (line.seats, line.count) {
        (Some(seats), None) => Want::Seats { seats: SeatSet::new(seats)?, best_effort: line.best_effort },
        (None, Some(count)) => best(BestWish {
            count,
            category: line.category,
            section: line.section,
            accessible: line.accessible,
            split: line.split,
        })?,
        (None, None) | (Some(_), Some(_)) => {
            return Err(Rejection::bad_request("a line has either `seats` or `count`"));
        }
    };
    Ok(WantedLine { session: line.session, want })
}

pub(crate) fn release(body: body::Release) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let seats = body.seats.map(SeatSet::new).transpose()?;
    Ok(Command::Cart(cart, CartCommand::Release { line: body.line, seats }))
}

pub(crate) fn checkout(body: body::Checkout) -> Converted<Command> {
    let cart = cart(body.token, body.cart)?;
    let recorded = body.payment.recorded.ok_or_else(|| Rejection::bad_request("`payment` says how: `recorded`"))?;
    let payment = Payment::Recorded {
        method: text("method", recorded.method, 1, PAYMENT_TEXT_BYTES_MAX)?,
        transaction_id: text("transaction_id", recorded.transaction_id, 0, PAYMENT_TEXT_BYTES_MAX)?,
    };
    Ok(Command::Cart(cart, CartCommand::Checkout { payment, customer: body.customer }))
}

/// The audit of one entity.
pub(crate) fn audit(entity: Entity) -> Converted<Command> {
    match entity {
        Entity::Session(id) => Ok(Command::Session(id, SessionCommand::Audit)),
        Entity::Cart(id) => Ok(Command::Cart(id, CartCommand::Audit)),
        Entity::Venue(_) => Err(Rejection::bad_request("sessions and carts are audited; a venue is its sessions")),
    }
}

/// A text of a bounded length without control characters, line breaks excepted.
fn text(name: &str, text: SmolStr, least: usize, most: usize) -> Converted<SmolStr> {
    if text.len() < least {
        return Err(Rejection::bad_request(format!("`{name}` is empty")));
    }
    if text.len() > most {
        return Err(Rejection::TooLarge(format_smolstr!("`{name}` has at most {most} bytes")));
    }
    if text.chars().any(|char| char.is_control() && char != '\n') {
        return Err(Rejection::bad_request(format!("`{name}` has control characters")));
    }
    Ok(text)
}
