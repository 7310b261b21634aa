//! The columns of each kind, and the documents of a state.

use boxoffice_client::Timestamp;
use boxoffice_core::{
    answer::{BookingState, BookingView, LineView, Purchase},
    calendar::Zone,
    cart::Cart,
    command::Payment,
    customer::Customer,
    id::Entity,
    payment::{PaymentStatus, RefundRecord, RefundStatus},
    portion::{BoughtAs, Content},
    resource::Resource,
    session::Session,
    state_map::State,
};
use serde_json::{Value, json};

use super::{
    house::{House, seat_name},
    writer::{Columns, Document},
};
use crate::{
    args::ExportKind,
    failure::Failure,
    local_time::{instant, zone_or_utc},
};

const ORDER: [&str; 13] = [
    "order",
    "at",
    "zone",
    "customer",
    "total",
    "currency",
    "payment",
    "method",
    "transaction",
    "refunded",
    "recipient",
    "address",
    "shipping",
];
const ORDER_LINE: [&str; 25] = [
    "line",
    "entity",
    "title",
    "venue",
    "hall",
    "begin",
    "end",
    "line_zone",
    "seats",
    "prices",
    "area",
    "quantity",
    "price",
    "amount",
    "details",
    "note",
    "is_refunded",
    "price_types",
    "offers",
    "code_groups",
    "list_prices",
    "tax_rates",
    "tax_codes",
    "taxes",
    "terms",
];
const SESSION: [&str; 15] = [
    "session",
    "title",
    "title_name",
    "venue",
    "venue_name",
    "hall",
    "begin",
    "end",
    "zone",
    "canceled",
    "seats_free",
    "seats_held",
    "seats_sold",
    "seats_blocked",
    "areas",
];
const RESOURCE: [&str; 3] = ["resource", "name", "zone"];
const BOOKING: [&str; 6] = ["booking", "begin", "end", "state", "details", "order"];
const CUSTOMER: [&str; 1] = ["customer"];
const PURCHASE: [&str; 7] = ["cursor", "order", "at", "zone", "total", "currency", "items"];

/// The columns of a kind.
pub fn columns(what: ExportKind) -> Columns {
    let (head, lines): (&[&str], Option<(&str, &[&str])>) = match what {
        ExportKind::Orders => (&ORDER, Some(("lines", &ORDER_LINE))),
        ExportKind::Sessions => (&SESSION, None),
        ExportKind::Bookings => (&RESOURCE, Some(("bookings", &BOOKING))),
        ExportKind::Customers => (&CUSTOMER, Some(("purchases", &PURCHASE))),
    };
    Columns { head, lines }
}

/// The document of a state, of the entity with this id. `None` if it is a cart that is no order.
///
/// # Errors
/// What it names cannot be read.
pub fn of(id: &str, state: &State, house: &House<'_>) -> Result<Option<Document>, Failure> {
    Ok(match state {
        State::Cart(cart) => order(cart, house)?,
        State::Session(session) => Some(of_session(session, house)),
        State::Resource(resource) => Some(bookings(resource)),
        State::Customer(customer) => purchases(id, customer),
        State::Venue(_) | State::Product(_) | State::Code(_) | State::Directory(_) | State::Cluster(_) => None,
    })
}

fn order(cart: &Cart, house: &House<'_>) -> Result<Option<Document>, Failure> {
    let (Some(order), Some((payment, refunds))) = (cart.order(), cart.money()) else { return Ok(None) };
    let zone_name = order.lines.iter().find_map(|line| line.zone.as_deref());
    let zone = zone_or_utc(zone_name);
    let payment = match payment {
        PaymentStatus::Recorded => "recorded".to_owned(),
        PaymentStatus::Authorized => "authorized".to_owned(),
        PaymentStatus::Captured => "captured".to_owned(),
        PaymentStatus::CaptureFailed { reason } => format!("capture failed: {reason}"),
    };
    let (method, transaction) = match &order.payment {
        Payment::Recorded { method, transaction_id } => (method.as_str(), transaction_id.as_str()),
        Payment::Gateway { .. } => ("gateway", ""),
    };
    let shipping = order.shipping.as_ref();
    let head: [Value; ORDER.len()] = [
        json!(order.id.to_string()),
        json!(instant(&zone, order.at)),
        json!(zone.to_string()),
        json!(order.customer.as_ref().map(ToString::to_string)),
        json!(order.total.amount),
        json!(order.total.currency.as_str()),
        json!(payment),
        json!(method),
        json!(transaction),
        json!(refunds.iter().filter(|refund| is_paid_back(refund)).map(|refund| refund.amount.amount).sum::<i64>()),
        json!(shipping.map(|shipping| shipping.recipient.as_str())),
        json!(shipping.map(|shipping| shipping.address.as_str())),
        json!(shipping.map(|shipping| shipping.method.as_str())),
    ];
    let lines = order.lines.iter().map(|line| order_line(line, refunds, house)).collect::<Result<_, _>>()?;
    Ok(Some(Document { head: head.into(), lines }))
}

/// Whether the money of a refund is with the buyer, or on its way.
fn is_paid_back(refund: &RefundRecord) -> bool {
    !matches!(refund.status, RefundStatus::Failed { .. })
}

fn order_line(line: &LineView, refunds: &[RefundRecord], house: &House<'_>) -> Result<Vec<Value>, Failure> {
    let zone = zone_or_utc(line.zone.as_deref());
    let session = match &line.entity {
        Entity::Session(id) => house.session(id)?,
        _ => None,
    };
    let (mut title, mut begin, mut end) = (None, None, None);
    if let Some(session) = &session {
        title = house.title(&session.title).or_else(|| Some(session.title.to_string()));
        (begin, end) = (Some(session.starts_at), Some(session.ends_at));
    }
    if let Entity::Resource(id) = &line.entity {
        title = house.resource(id)?;
    }
    let (mut area, mut price, mut details) = (None, None, None);
    match &line.content {
        Content::Seats(_) => {}
        Content::Places { area: of, price: each, .. } => (area, price) = (Some(of.to_string()), Some(*each)),
        Content::Units { price: each, name, .. } => (title, price) = (Some(name.to_string()), Some(*each)),
        Content::Slot { begin: from, end: to, price: whole, details: said } => {
            (begin, end, price, details) = (Some(*from), Some(*to), Some(*whole), Some(said.as_str()));
        }
    }
    let seats = line.content.seats();
    let names = seats.iter().map(|priced| {
        let layout = session.as_ref().map(|session| &session.layout);
        let known = layout.and_then(|layout| Some(seat_name(layout, layout.index(priced.seat)?)));
        // A session that is not known any more has no labels.
        known.unwrap_or_else(|| format!("{}-{}", priced.seat.row, priced.seat.seat))
    });
    let at = |at: Option<Timestamp>| json!(at.map(|at| instant(&zone, at)));
    let bought = bought(&line.content);
    // `None` if nothing was bought as anything, as in sessions without terms and in shops.
    let each = |of: fn(&BoughtAs, i64) -> Value| {
        json!(
            bought.as_ref().map(|bought| bought.iter().map(|(as_what, price)| of(as_what, *price)).collect::<Vec<_>>())
        )
    };
    let values: [Value; ORDER_LINE.len()] = [
        json!(line.line),
        json!(line.entity.to_string()),
        json!(title),
        json!(session.as_ref().map(|session| house.venue(&session.venue).unwrap_or_else(|| session.venue.to_string()))),
        json!(session.as_ref().map(|session| session.hall.to_string())),
        at(begin),
        at(end),
        json!(zone.to_string()),
        json!(names.collect::<Vec<_>>()),
        json!(seats.iter().map(|priced| priced.price).collect::<Vec<_>>()),
        json!(area),
        json!(line.content.quantity()),
        json!(price),
        // Amounts of orders fit, as their total does.
        json!(line.content.amount() as i64),
        json!(details),
        json!(line.note.as_str()),
        json!(refunds.iter().any(|refund| is_paid_back(refund) && refund.lines.contains(&line.line))),
        each(|of, _| json!(of.price_type.as_ref().map(ToString::to_string))),
        each(|of, _| json!(of.offer.as_ref().map(ToString::to_string))),
        each(|of, _| json!(of.code_group.as_ref().map(ToString::to_string))),
        each(|of, _| json!(of.list_price)),
        each(|of, _| json!(of.tax.as_ref().map(|tax| tax.rate))),
        each(|of, _| json!(of.tax.as_ref().map(|tax| tax.code.as_str()))),
        each(|of, price| json!(of.tax.as_ref().map(|tax| tax.of(price)))),
        each(|of, _| json!(of.terms)),
    ];
    Ok(values.into())
}

/// What each seat of a line was bought as, in their order, with its price. Places of a line were all bought as the same.
fn bought(content: &Content) -> Option<Vec<(&BoughtAs, i64)>> {
    match content {
        Content::Seats(_) => {
            let seats = content.seats().iter();
            seats.map(|priced| Some((priced.bought_as.as_deref()?, priced.price))).collect()
        }
        Content::Places { bought_as, price, .. } => Some(vec![(bought_as.as_deref()?, *price)]),
        Content::Units { .. } | Content::Slot { .. } => None,
    }
}

fn of_session(session: &Session, house: &House<'_>) -> Document {
    let view = session.view();
    let zone = zone_or_utc(view.zone.as_deref());
    let areas = view
        .area_counts
        .iter()
        .map(|area| format!("{}: {} free, {} held, {} sold", area.area, area.free, area.held, area.sold));
    let values: [Value; SESSION.len()] = [
        json!(view.id.to_string()),
        json!(view.title.to_string()),
        json!(house.title(&view.title)),
        json!(view.venue.to_string()),
        json!(house.venue(&view.venue)),
        json!(view.hall.to_string()),
        json!(instant(&zone, view.starts_at)),
        json!(instant(&zone, view.ends_at)),
        json!(zone.to_string()),
        json!(view.canceled.as_deref()),
        json!(view.counts.free),
        json!(view.counts.held),
        json!(view.counts.sold),
        json!(view.counts.blocked),
        json!(areas.collect::<Vec<_>>()),
    ];
    Document { head: values.into(), lines: Vec::new() }
}

fn bookings(resource: &Resource) -> Document {
    let view = resource.view();
    let zone = zone_or_utc(Some(&view.details.zone));
    let head: [Value; RESOURCE.len()] =
        [json!(view.id.to_string()), json!(view.details.name.as_str()), json!(zone.to_string())];
    let lines = resource.all_bookings().map(|booking| booking_line(&zone, &booking)).collect();
    Document { head: head.into(), lines }
}

fn booking_line(zone: &Zone, booking: &BookingView) -> Vec<Value> {
    let state = match booking.state {
        BookingState::Reserved => "reserved",
        BookingState::Held => "held",
        BookingState::Sold => "sold",
    };
    let values: [Value; BOOKING.len()] = [
        json!(booking.booking.as_str()),
        json!(instant(zone, booking.begin)),
        json!(instant(zone, booking.end)),
        json!(state),
        json!(booking.details.as_str()),
        json!(booking.order.map(|order| order.to_string())),
    ];
    values.into()
}

/// `None` if the customer has bought nothing.
fn purchases(id: &str, customer: &Customer) -> Option<Document> {
    let lines: Vec<_> = customer.all_purchases().map(purchase_line).collect();
    let head: [Value; CUSTOMER.len()] = [json!(id)];
    (!lines.is_empty()).then(|| Document { head: head.into(), lines })
}

fn purchase_line(purchase: &Purchase) -> Vec<Value> {
    let zone = zone_or_utc(purchase.zone.as_deref());
    let items = purchase.items.iter().map(|item| format!("{} × {}", item.quantity, item.entity));
    let values: [Value; PURCHASE.len()] = [
        json!(purchase.cursor),
        json!(purchase.order.to_string()),
        json!(instant(&zone, purchase.at)),
        json!(zone.to_string()),
        json!(purchase.total.amount),
        json!(purchase.total.currency.as_str()),
        json!(items.collect::<Vec<_>>()),
    ];
    values.into()
}
