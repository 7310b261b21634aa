//! Lines, and portions of holds and sales. Their fields tell the kinds apart.

use std::{mem, sync::Arc};

use boxoffice_core::{
    answer,
    id::{Entity, Id},
    money::{AMOUNT_MAX, PRICE_MAX},
    portion::{BoughtAs, Content, LineItem, Portion, PricedSeat, Tax},
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use serde::{
    Deserialize, Deserializer, Serializer,
    de::Error as _,
    ser::{Error as _, SerializeStruct},
};
use serde_json::Value;
use smol_str::SmolStr;

use crate::repr::{
    ListOf, ToWire, WireRepr, WireWrite, same_fields,
    shape::{self, Shapes, shapes},
};

/// Writes the inventory of a line as `session`, `product`, `resource` or `customer`.
fn write_inventory<M: SerializeStruct>(map: &mut M, entity: &Entity) -> Result<(), M::Error> {
    match entity {
        Entity::Session(id) => map.serialize_field("session", &ToWire(id)),
        Entity::Product(id) => map.serialize_field("product", &ToWire(id)),
        Entity::Resource(id) => map.serialize_field("resource", &ToWire(id)),
        Entity::Customer(id) => map.serialize_field("customer", &ToWire(id)),
        Entity::Code(id) => map.serialize_field("code", &ToWire(id)),
        Entity::Venue(_) | Entity::Cart(_) | Entity::Directory | Entity::Cluster => {
            Err(M::Error::custom("only sessions, products, resources and customers are held of"))
        }
    }
}

/// A line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineView {
    /// Its number in the cart.
    pub line: u32,
    pub entity: Entity,
    pub content: Content,
    /// Whether the checkout holds the units, not this line.
    pub late: bool,
    /// What the buyer notes at it.
    pub note: SmolStr,
    /// The IANA name of the time zone of the session or resource when the line was held.
    pub zone: Option<SmolStr>,
}

impl LineView {
    /// A line without anything that may be left out.
    pub fn new(line: u32, entity: Entity, content: Content, late: bool) -> LineView {
        LineView { line, entity, content, late, note: SmolStr::default(), zone: None }
    }
}

impl From<&answer::LineView> for LineView {
    fn from(view: &answer::LineView) -> LineView {
        let answer::LineView { line, item: LineItem { entity, content, note, zone }, late } = view.clone();
        LineView { line, entity, content, late, note, zone }
    }
}

/// Writes a line. Seats and prices are two lists, so that a client can send a line's `seats` back as they came.
fn write_line<S: Serializer>(
    (line, late): (u32, bool),
    (entity, content): (&Entity, &Content),
    note: &SmolStr,
    zone: Option<&SmolStr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let is_offered = matches!(content, Content::Seats(seats) if !is_plain(seats));
    let fields = match content {
        Content::Seats(_) => 5 + usize::from(is_offered),
        Content::Units { name, tax, .. } => 5 + usize::from(!name.is_empty()) + usize::from(tax.is_some()),
        Content::Places { bought_as, .. } => 6 + usize::from(bought_as.is_some()),
        Content::Slot { details, .. } => 6 + usize::from(!details.is_empty()),
    };
    let optional = [late, zone.is_some(), !note.is_empty()].map(usize::from).iter().sum::<usize>();
    let mut map = serializer.serialize_struct("Line", fields + optional)?;
    map.serialize_field("line", &line)?;
    write_inventory(&mut map, entity)?;
    match content {
        Content::Seats(seats) => {
            map.serialize_field("seats", &ListOf(|| seats.iter().map(|priced| ToWire(&priced.seat))))?;
            map.serialize_field("prices", &ListOf(|| seats.iter().map(|priced| priced.price)))?;
            if is_offered {
                // One is told for all if all have the same.
                let first = seats.first().map(|priced| &priced.bought_as);
                let told = if seats.iter().all(|priced| Some(&priced.bought_as) == first) { 1 } else { seats.len() };
                let all: Vec<&BoughtAs> = seats[..told].iter().filter_map(|it| it.bought_as.as_deref()).collect();
                map.serialize_field("bought_as", &ListOf(|| all.iter().map(|bought_as| ToWire(*bought_as))))?;
            }
        }
        Content::Places { area, quantity, price, bought_as } => {
            map.serialize_field("area", &ToWire(area))?;
            map.serialize_field("quantity", quantity)?;
            map.serialize_field("price", price)?;
            if let Some(bought_as) = bought_as {
                map.serialize_field("bought_as", &ListOf(|| [ToWire(&**bought_as)].into_iter()))?;
            }
        }
        Content::Units { quantity, price, name, tax } => {
            if !name.is_empty() {
                map.serialize_field("name", name)?;
            }
            map.serialize_field("quantity", quantity)?;
            map.serialize_field("price", price)?;
            if let Some(tax) = tax {
                map.serialize_field("tax", &ToWire(&**tax))?;
            }
        }
        Content::Slot { begin, end, price, details } => {
            map.serialize_field("begin", &ToWire(begin))?;
            map.serialize_field("end", &ToWire(end))?;
            map.serialize_field("price", price)?;
            if !details.is_empty() {
                map.serialize_field("details", details)?;
            }
        }
    }
    // A cart checks its total when a line is added, so that of a line fits as well.
    map.serialize_field("total", &i64::try_from(content.amount()).unwrap_or(i64::MAX))?;
    if late {
        map.serialize_field("late", &true)?;
    }
    if !note.is_empty() {
        map.serialize_field("note", note)?;
    }
    if let Some(zone) = zone {
        map.serialize_field("zone", zone)?;
    }
    map.end()
}

impl WireWrite for answer::LineView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let answer::LineView { line, item: LineItem { entity, content, note, zone }, late } = self;
        write_line((*line, *late), (entity, content), note, zone.as_ref(), serializer)
    }
}

impl WireWrite for LineView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LineView { line, entity, content, late, note, zone } = self;
        write_line((*line, *late), (entity, content), note, zone.as_ref(), serializer)
    }
}

impl WireRepr for LineView {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LineView, D::Error> {
        let mut fields = LineFields::deserialize(deserializer)?;
        let (line, late) = (fields.line, fields.late);
        let (note, zone) = (mem::take(&mut fields.note), mem::take(&mut fields.zone));
        let (entity, content) = fields.content().map_err(D::Error::custom)?;
        Ok(LineView { line, entity, content, late, note, zone })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        LineFields::schema(shapes)
    }
}

/// Whether no seat was bought as anything.
fn is_plain(seats: &[PricedSeat]) -> bool {
    seats.iter().all(|priced| priced.bought_as.is_none())
}

shapes! {
    /// What a seat or a place was bought as. It never changes.
    struct BoughtAsFields as BoughtAs {
        /// The version of the session's terms, whose names say what the ids mean.
        terms: u32,
        /// The price before the offer changed it, in minor units.
        list_price: i64 = 0..=PRICE_MAX,
        price_type?: Option<Id>,
        offer?: Option<Id>,
        /// The tax that the price contains.
        tax?: Option<Tax>,
        /// The group of the code of which it took a use.
        code_group?: Option<Id>,
    }

    /// A line of seats, of places in an area, of units of a product, or of a slot of a resource.
    #[one_of([session, seats, prices] [session, area, quantity, price] [product, quantity, price] [resource, begin, end, price])]
    struct LineFields as Line {
        line: u32,
        session?: Option<Id>,
        product?: Option<Id>,
        /// The product's name when its units were held.
        name?: SmolStr,
        resource?: Option<Id>,
        seats?: Option<Vec<Seat>>,
        /// The price of each seat, in minor units.
        prices?: Vec<i64> = shape::Each(0..=PRICE_MAX),
        area?: Option<Id>,
        quantity?: Option<u32>,
        begin?: Option<Timestamp>,
        end?: Option<Timestamp>,
        /// The price of one place or unit, or of the slot, in minor units.
        price?: Option<i64> = 0..=PRICE_MAX,
        /// What each seat was bought as, or one for all seats or places. Only lines of sessions with offers or changed terms have it.
        bought_as?: Vec<BoughtAs>,
        /// The tax that the price of a unit contains. Those of seats and places are in `bought_as`.
        tax?: Option<Tax>,
        /// What the line comes to, in minor units. A node of before 1.5 does not say it.
        total?: Option<i64> = 0..=AMOUNT_MAX,
        /// The details of a slot.
        details?: SmolStr,
        /// Whether the checkout holds the units, not this line.
        late?: bool,
        /// What the buyer notes at the line.
        note?: SmolStr,
        /// The IANA name of the time zone of the session or resource when the line was held.
        zone?: Option<SmolStr>,
    }
}

same_fields! {
    BoughtAs: [BoughtAs { terms, list_price, price_type, offer, tax, code_group }]
        = BoughtAsFields { terms, list_price, price_type, offer, tax, code_group },
}

impl LineFields {
    fn content(self) -> Result<(Entity, Content), &'static str> {
        let price = self.price.ok_or("`price` is missing");
        let quantity = self.quantity.ok_or("`quantity` is missing");
        match (self.session, self.product, self.resource) {
            (Some(session), None, None) => {
                let content = match (self.seats, self.area) {
                    (Some(seats), None) if seats.len() == self.prices.len() => {
                        let bought_as: Vec<Arc<BoughtAs>> = self.bought_as.into_iter().map(Arc::new).collect();
                        let of = |place: usize| match &bought_as[..] {
                            [one] => Some(Arc::clone(one)),
                            all => all.get(place).cloned(),
                        };
                        let priced = seats.into_iter().zip(self.prices).enumerate();
                        let priced =
                            priced.map(|(place, (seat, price))| PricedSeat { seat, price, bought_as: of(place) });
                        Content::Seats(priced.collect())
                    }
                    (Some(_), None) => return Err("a line has as many prices as seats"),
                    (None, Some(area)) => {
                        let bought_as = self.bought_as.into_iter().next().map(Arc::new);
                        Content::Places { area, quantity: quantity?, price: price?, bought_as }
                    }
                    (None, None) | (Some(_), Some(_)) => return Err("a line of a session has `seats` or an `area`"),
                };
                Ok((Entity::Session(session), content))
            }
            (None, Some(product), None) => {
                let tax = self.tax.map(Arc::new);
                let content = Content::Units { quantity: quantity?, price: price?, name: self.name, tax };
                Ok((Entity::Product(product), content))
            }
            (None, None, Some(resource)) => {
                let (begin, end) = (self.begin.ok_or("`begin` is missing")?, self.end.ok_or("`end` is missing")?);
                Ok((Entity::Resource(resource), Content::Slot { begin, end, price: price?, details: self.details }))
            }
            _ => Err("a line is of one `session`, `product` or `resource`"),
        }
    }
}

/// The fields that a portion may have.
#[derive(Default)]
pub(crate) struct PortionFields {
    pub(crate) seats: Option<Vec<Seat>>,
    pub(crate) area: Option<Id>,
    pub(crate) quantity: Option<u32>,
    pub(crate) begin: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) quota: Option<Id>,
    pub(crate) count: Option<u32>,
}

impl From<Portion> for PortionFields {
    fn from(portion: Portion) -> PortionFields {
        let none = PortionFields::default();
        match portion {
            Portion::Seats(seats) => PortionFields { seats: Some(seats.as_slice().to_vec()), ..none },
            Portion::Places { area, quantity } => PortionFields { area: Some(area), quantity: Some(quantity), ..none },
            Portion::Units(quantity) => PortionFields { quantity: Some(quantity), ..none },
            Portion::Slot { begin, end } => PortionFields { begin: Some(begin), end: Some(end), ..none },
            Portion::Quota { quota, count } => PortionFields { quota: Some(quota), count: Some(count), ..none },
            Portion::Uses(count) => PortionFields { count: Some(count), ..none },
        }
    }
}

impl PortionFields {
    /// The portion with these fields. `None` if there are no fields.
    pub(crate) fn portion(self) -> Result<Option<Portion>, &'static str> {
        let portion = match self {
            PortionFields { seats: Some(seats), .. } => {
                Portion::Seats(SeatSet::of_any_number(seats).map_err(|_| "these are no seats of a hold")?)
            }
            PortionFields { area: Some(area), quantity: Some(quantity), .. } => Portion::Places { area, quantity },
            PortionFields { quota: Some(quota), count: Some(count), .. } => Portion::Quota { quota, count },
            PortionFields { begin: Some(begin), end: Some(end), .. } => Portion::Slot { begin, end },
            PortionFields { area: None, quantity: Some(quantity), .. } => Portion::Units(quantity),
            PortionFields { quota: None, count: Some(count), .. } => Portion::Uses(count),
            PortionFields { area: None, quota: None, begin: None, .. } => return Ok(None),
            PortionFields { .. } => return Err("what is held is told by half"),
        };
        Ok(Some(portion))
    }
}
