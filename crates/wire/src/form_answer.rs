//! The forms of answers: venues, sessions, maps, carts, orders, audits.

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        At, CartAudit, CartState, CartView, HallView, Held, HoldView, LineView, MapView, Order, PricedSeat, SaleView,
        SeatCounts, SessionAudit, SessionEntry, SessionView, VenueView,
    },
    command::{Payment, VenueDetails},
    id::{CartId, Entity, HoldId, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    seat::Seat,
    time::Timestamp,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::Error as _,
    ser::{SerializeSeq, SerializeStruct},
};
use smol_str::SmolStr;

use crate::form::{self, Form, Of, On, remote_form};

#[derive(Serialize, Deserialize)]
#[serde(remote = "At")]
struct AtForm {
    #[serde(with = "form")]
    entity: Entity,
    version: u64,
    position: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SeatCounts")]
struct SeatCountsForm {
    free: u32,
    held: u32,
    sold: u32,
    blocked: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HallView")]
struct HallForm {
    #[serde(with = "form")]
    venue: Id,
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(with = "form")]
    layout: Arc<Layout>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionView")]
struct SessionForm {
    #[serde(with = "form")]
    id: Id,
    #[serde(with = "form")]
    venue: Id,
    #[serde(with = "form")]
    hall: Id,
    #[serde(with = "form")]
    title: Id,
    #[serde(with = "form")]
    starts_at: Timestamp,
    #[serde(with = "form")]
    ends_at: Timestamp,
    #[serde(with = "form::prices")]
    prices: Vec<(Id, Money)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold_ttl_ms: Option<u64>,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form")]
    layout: Arc<Layout>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionEntry")]
struct SessionEntryForm {
    #[serde(with = "form")]
    id: Id,
    #[serde(with = "form")]
    hall: Id,
    #[serde(with = "form")]
    title: Id,
    #[serde(with = "form")]
    starts_at: Timestamp,
    #[serde(with = "form")]
    ends_at: Timestamp,
    open: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MapView")]
struct MapForm {
    #[serde(with = "form")]
    session: Id,
    #[serde(default)]
    epoch: u64,
    version: u64,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form::bytes")]
    seats: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CartState", rename_all = "snake_case")]
enum CartStateForm {
    Active,
    CheckingOut,
    Done,
    Canceled,
    Expired,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CartView")]
struct CartForm {
    #[serde(with = "form")]
    id: CartId,
    #[serde(with = "form")]
    state: CartState,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    customer: Option<Id>,
    #[serde(with = "form")]
    opened_at: Timestamp,
    #[serde(with = "form")]
    deadline: Timestamp,
    #[serde(with = "form")]
    lines: Vec<LineView>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    total: Option<Money>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    order: Option<OrderId>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Held")]
struct HeldForm {
    #[serde(with = "form")]
    cart: CartId,
    #[serde(with = "form")]
    lines: Vec<LineView>,
    #[serde(with = "form")]
    currency: Currency,
    #[serde(with = "form")]
    deadline: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HoldView")]
struct HoldForm {
    #[serde(with = "form")]
    hold: HoldId,
    revision: u64,
    #[serde(with = "form")]
    deadline: Timestamp,
    #[serde(with = "form")]
    seats: Vec<Seat>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SaleView")]
struct SaleForm {
    #[serde(with = "form")]
    order: OrderId,
    #[serde(with = "form")]
    seats: Vec<Seat>,
    #[serde(with = "form")]
    at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionAudit")]
struct SessionAuditForm {
    #[serde(with = "form")]
    session: Id,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form")]
    holds: Vec<HoldView>,
    #[serde(with = "form")]
    sales: Vec<SaleView>,
    violations: Vec<SmolStr>,
}

remote_form! {
    At => AtForm,
    SeatCounts => SeatCountsForm,
    HallView => HallForm,
    SessionView => SessionForm,
    SessionEntry => SessionEntryForm,
    MapView => MapForm,
    CartState => CartStateForm,
    CartView => CartForm,
    Held => HeldForm,
    HoldView => HoldForm,
    SaleView => SaleForm,
    SessionAudit => SessionAuditForm,
}

/// Longitude and latitude on the wire: degrees; the core keeps whole millionths, so that both encodings mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Longitude in degrees, −180 to 180.
    pub lon: f64,
    /// Latitude in degrees, −90 to 90.
    pub lat: f64,
}

impl Position {
    /// The position with these millionths of a degree.
    pub fn from_millionths((lon, lat): (i32, i32)) -> Position {
        Position { lon: f64::from(lon) / 1e6, lat: f64::from(lat) / 1e6 }
    }

    /// Millionths of a degree, or `None` if it is not on the globe.
    pub fn millionths(self) -> Option<(i32, i32)> {
        let on_globe = (-180.0..=180.0).contains(&self.lon) && (-90.0..=90.0).contains(&self.lat);
        // Inside the globe's bounds the rounded value fits.
        on_globe.then(|| ((self.lon * 1e6).round() as i32, (self.lat * 1e6).round() as i32))
    }
}

/// A hall in its venue.
#[derive(Serialize, Deserialize)]
pub(crate) struct HallEntryForm {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    seats: u32,
}

#[derive(Deserialize)]
struct VenueFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    city: SmolStr,
    #[serde(default)]
    position: Option<Position>,
    #[serde(default)]
    comments: SmolStr,
    halls: Vec<HallEntryForm>,
}

impl Form for VenueView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let halls = Each(|| {
            self.halls.iter().map(|(id, name, seats)| HallEntryForm {
                id: id.clone(),
                name: name.clone(),
                seats: *seats,
            })
        });
        let fields = 5 + usize::from(self.details.position.is_some());
        let mut map = serializer.serialize_struct("Venue", fields)?;
        map.serialize_field("id", &On(&self.id))?;
        map.serialize_field("name", &self.details.name)?;
        map.serialize_field("city", &self.details.city)?;
        if let Some(position) = self.details.position {
            map.serialize_field("position", &Position::from_millionths(position))?;
        }
        map.serialize_field("comments", &self.details.comments)?;
        map.serialize_field("halls", &halls)?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VenueView, D::Error> {
        let fields = VenueFields::deserialize(deserializer)?;
        let position = match fields.position {
            Some(position) => {
                Some(position.millionths().ok_or_else(|| D::Error::custom("a position is not on the globe"))?)
            }
            None => None,
        };
        Ok(VenueView {
            id: fields.id,
            details: VenueDetails { name: fields.name, city: fields.city, position, comments: fields.comments },
            halls: fields.halls.into_iter().map(|hall| (hall.id, hall.name, hall.seats)).collect(),
        })
    }
}

/// A list written from an iterator that knows its length, without a list in between.
pub(crate) struct Each<F>(pub(crate) F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: ExactSizeIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = (self.0)();
        let mut list = serializer.serialize_seq(Some(values.len()))?;
        for value in values {
            list.serialize_element(&value)?;
        }
        list.end()
    }
}

/// Seats and prices are two lists side by side, so that a line's `seats` can be sent back as they came.
#[derive(Deserialize)]
struct LineFields {
    line: u32,
    #[serde(with = "form")]
    session: Id,
    #[serde(with = "form")]
    seats: Vec<Seat>,
    prices: Vec<i64>,
}

impl Form for LineView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Line", 4)?;
        map.serialize_field("line", &self.line)?;
        map.serialize_field("session", &On(&self.session))?;
        map.serialize_field("seats", &Each(|| self.seats.iter().map(|priced| On(&priced.seat))))?;
        map.serialize_field("prices", &Each(|| self.seats.iter().map(|priced| priced.price)))?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LineView, D::Error> {
        let fields = LineFields::deserialize(deserializer)?;
        if fields.seats.len() != fields.prices.len() {
            return Err(D::Error::custom("a line has as many prices as seats"));
        }
        let seats =
            fields.seats.into_iter().zip(fields.prices).map(|(seat, price)| PricedSeat { seat, price }).collect();
        Ok(LineView { line: fields.line, session: fields.session, seats })
    }
}

/// How an order was paid, by kind: `{"recorded":{…}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentBody {
    /// Paid elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedPayment>,
}

/// A payment that was made elsewhere, as the client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPayment {
    /// Cash, card, …
    pub method: SmolStr,
    /// The payer's reference.
    pub transaction_id: SmolStr,
}

impl Form for Payment {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Payment::Recorded { method, transaction_id } = self;
        let recorded = RecordedPayment { method: method.clone(), transaction_id: transaction_id.clone() };
        PaymentBody { recorded: Some(recorded) }.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payment, D::Error> {
        let PaymentBody { recorded } = PaymentBody::deserialize(deserializer)?;
        let paid = recorded.ok_or_else(|| D::Error::custom("a payment says how: `recorded`"))?;
        Ok(Payment::Recorded { method: paid.method, transaction_id: paid.transaction_id })
    }
}

/// An order as it is answered: the order, and whether a session has still to say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The order.
    pub order: Arc<Order>,
    /// Sold for certain, but not every session has said so yet.
    pub settling: bool,
}

#[derive(Deserialize)]
struct OrderFields {
    #[serde(with = "form")]
    id: OrderId,
    #[serde(with = "form", default)]
    customer: Option<Id>,
    #[serde(with = "form")]
    at: Timestamp,
    #[serde(with = "form")]
    lines: Vec<LineView>,
    #[serde(with = "form")]
    total: Money,
    #[serde(with = "form")]
    payment: Payment,
    #[serde(default)]
    settling: bool,
}

/// Writes an order with what is beside it.
pub(crate) fn write_order<S: Serializer>(order: &Order, settling: bool, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_struct("Order", 6 + usize::from(order.customer.is_some()))?;
    map.serialize_field("id", &On(&order.id))?;
    if let Some(customer) = &order.customer {
        map.serialize_field("customer", &On(customer))?;
    }
    map.serialize_field("at", &On(&order.at))?;
    map.serialize_field("lines", &On(&order.lines))?;
    map.serialize_field("total", &On(&order.total))?;
    map.serialize_field("payment", &On(&order.payment))?;
    map.serialize_field("settling", &settling)?;
    map.end()
}

impl Form for OrderView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_order(&self.order, self.settling, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderView, D::Error> {
        let OrderFields { id, customer, at, lines, total, payment, settling } = OrderFields::deserialize(deserializer)?;
        Ok(OrderView { order: Arc::new(Order { id, customer, at, lines, total, payment }), settling })
    }
}

/// A hold a cart's line rests on.
#[derive(Serialize, Deserialize)]
pub(crate) struct CartHoldForm {
    #[serde(with = "form")]
    session: Id,
    #[serde(with = "form")]
    hold: HoldId,
    revision: u64,
    #[serde(with = "form")]
    seats: Vec<Seat>,
}

#[derive(Deserialize)]
struct CartAuditFields {
    cart: Of<CartView>,
    holds: Vec<CartHoldForm>,
    owed: u32,
    violations: Vec<SmolStr>,
}

impl Form for CartAudit {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let holds = Each(|| {
            self.holds.iter().map(|(session, hold, revision, seats)| CartHoldForm {
                session: session.clone(),
                hold: *hold,
                revision: *revision,
                seats: seats.clone(),
            })
        });
        let mut map = serializer.serialize_struct("CartAudit", 4)?;
        map.serialize_field("cart", &On(&self.cart))?;
        map.serialize_field("holds", &holds)?;
        map.serialize_field("owed", &self.owed)?;
        map.serialize_field("violations", &self.violations)?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CartAudit, D::Error> {
        let CartAuditFields { cart: Of(cart), holds, owed, violations } = CartAuditFields::deserialize(deserializer)?;
        let holds = holds.into_iter().map(|hold| (hold.session, hold.hold, hold.revision, hold.seats)).collect();
        Ok(CartAudit { cart, holds, owed, violations })
    }
}
