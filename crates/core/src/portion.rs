//! The content of holds and lines. It is seats, places, units, a slot or a part of a quota.

use alloc::{sync::Arc, vec::Vec};
use core::slice;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    id::{Entity, Id},
    money::AMOUNT_MAX,
    seat::{Seat, SeatSet},
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer},
    text::Text,
    time::Timestamp,
};

/// One seat of a line and the price captured when it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricedSeat {
    pub seat: Seat,
    /// In minor units of the cart's currency.
    pub price: i64,
}

// Many of them are the seats, then the prices up to the last one that is not that of the seat before.
impl Encode for PricedSeat {
    fn encode(&self, out: &mut Writer) {
        PricedSeat::encode_list(slice::from_ref(self), out);
    }

    fn encode_list(list: &[PricedSeat], out: &mut Writer) {
        out.list(2);
        let mut seats = Vec::with_capacity(2 * list.len());
        list.iter().for_each(|priced| priced.seat.append(&mut seats));
        out.bytes(&seats);
        let prices =
            list.windows(2).rposition(|pair| pair[0].price != pair[1].price).map_or(list.len().min(1), |at| at + 2);
        out.list(prices);
        list[..prices].iter().for_each(|priced| priced.price.encode(out));
    }
}

impl Decode for PricedSeat {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("priced seat")
    }

    fn list_shape(_: &mut Schema) -> Shape {
        Shape::Leaf("priced seats")
    }

    fn decode(from: &mut Reader<'_>) -> Result<PricedSeat, Error> {
        match PricedSeat::decode_list(from)?[..] {
            [priced] => Ok(priced),
            _ => Err(Error::message("there is not one priced seat")),
        }
    }

    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<PricedSeat>, Error> {
        let (seats, prices): (Vec<Seat>, Vec<i64>) = Decode::decode(from)?;
        let is_short = match prices[..] {
            [.., before, last] => before != last,
            [_] => true,
            [] => seats.is_empty(),
        };
        if prices.len() > seats.len() || !is_short {
            return Err(Error::message("prices do not belong to their seats"));
        }
        let mut last = 0;
        let mut prices = prices.into_iter();
        Ok(seats
            .into_iter()
            .map(|seat| {
                last = prices.next().unwrap_or(last);
                PricedSeat { seat, price: last }
            })
            .collect())
    }
}

/// The most units or places of one line.
pub const LINE_QUANTITY_MAX: u32 = 1_000_000;

/// The content of a hold without prices, as carts and inventories exchange it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Portion {
    /// Seats of a session.
    #[n(0)]
    Seats(#[n(0)] SeatSet),
    /// Places in an area of a session.
    #[n(1)]
    Places {
        #[n(0)]
        area: Id,
        /// At least 1.
        #[n(1)]
        quantity: u32,
    },
    /// Units of a product, at least 1.
    #[n(2)]
    Units(#[n(0)] u32),
    /// Time of a resource, `[begin, end)`.
    #[n(3)]
    Slot {
        #[n(0)]
        begin: Timestamp,
        #[n(1)]
        end: Timestamp,
    },
    /// A part of a customer's quota.
    #[n(4)]
    Quota {
        #[n(0)]
        quota: Id,
        /// At least 1.
        #[n(1)]
        count: u32,
    },
}

impl Portion {
    /// The number of seats, places, units or parts. It is 1 for a slot.
    pub fn quantity(&self) -> u32 {
        match self {
            Portion::Seats(seats) => seats.len() as u32,
            Portion::Places { quantity, .. } | Portion::Units(quantity) => *quantity,
            Portion::Slot { .. } => 1,
            Portion::Quota { count, .. } => *count,
        }
    }

    /// Whether it has at least the needed portion.
    pub fn covers(&self, needed: &Portion) -> bool {
        match (self, needed) {
            (Portion::Seats(all), Portion::Seats(some)) => {
                some.as_slice().iter().all(|seat| all.as_slice().binary_search(seat).is_ok())
            }
            (Portion::Places { area, quantity }, Portion::Places { area: other, quantity: needed }) => {
                area == other && quantity >= needed
            }
            (Portion::Units(quantity), Portion::Units(needed)) => quantity >= needed,
            (Portion::Slot { .. }, Portion::Slot { .. }) => self == needed,
            (Portion::Quota { quota, count }, Portion::Quota { quota: other, count: needed }) => {
                quota == other && count >= needed
            }
            _ => false,
        }
    }
}

/// The content of a line, with the prices captured when it was held. They stay until the line ends.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum Content {
    /// Seats, ascending, each with its price. They are shared by the line, its answer, the order and the remembered answer.
    #[n(0)]
    Seats(#[n(0)] Arc<[PricedSeat]>),
    /// Places in an area.
    #[n(1)]
    Places {
        #[n(0)]
        area: Id,
        #[n(1)]
        quantity: u32,
        /// The price of one in minor units.
        #[n(2)]
        price: i64,
    },
    /// Units of a product.
    #[n(2)]
    Units {
        #[n(0)]
        quantity: u32,
        /// The price of one in minor units.
        #[n(1)]
        price: i64,
        /// The product's name when they were held.
        #[n(2)]
        name: SmolStr,
    },
    /// Time of a resource, `[begin, end)`.
    #[n(3)]
    Slot {
        #[n(0)]
        begin: Timestamp,
        #[n(1)]
        end: Timestamp,
        /// The price of the whole slot in minor units.
        #[n(2)]
        price: i64,
        /// The details when it was held.
        #[n(3)]
        details: SmolStr,
    },
}

impl Content {
    /// The content without prices.
    pub fn portion(&self) -> Portion {
        match self {
            Content::Seats(seats) => {
                let seats = SeatSet::new(seats.iter().map(|priced| priced.seat));
                Portion::Seats(seats.expect("a line has one to twenty seats, none twice"))
            }
            Content::Places { area, quantity, .. } => Portion::Places { area: area.clone(), quantity: *quantity },
            Content::Units { quantity, .. } => Portion::Units(*quantity),
            Content::Slot { begin, end, .. } => Portion::Slot { begin: *begin, end: *end },
        }
    }

    /// The number of seats, places or units. It is 1 for a slot.
    pub fn quantity(&self) -> u32 {
        match self {
            Content::Seats(seats) => seats.len() as u32,
            Content::Places { quantity, .. } | Content::Units { quantity, .. } => *quantity,
            Content::Slot { .. } => 1,
        }
    }

    /// The seats. Empty for any other content.
    pub fn seats(&self) -> &[PricedSeat] {
        match self {
            Content::Seats(seats) => seats,
            Content::Places { .. } | Content::Units { .. } | Content::Slot { .. } => &[],
        }
    }

    /// The sum of price × quantity, in minor units. It is exact for all numbers.
    pub fn amount(&self) -> i128 {
        let times = |quantity: u32, price: i64| i128::from(quantity) * i128::from(price);
        match self {
            Content::Seats(seats) => seats.iter().map(|priced| i128::from(priced.price)).sum(),
            Content::Places { quantity, price, .. } | Content::Units { quantity, price, .. } => {
                times(*quantity, *price)
            }
            Content::Slot { price, .. } => i128::from(*price),
        }
    }

    /// The content with another quantity, or `None` for seats and slots.
    pub(crate) fn with_quantity(&self, quantity: u32) -> Option<Content> {
        match self {
            Content::Places { area, price, .. } => {
                Some(Content::Places { area: area.clone(), quantity, price: *price })
            }
            Content::Units { price, name, .. } => Some(Content::Units { quantity, price: *price, name: name.clone() }),
            Content::Seats(_) | Content::Slot { .. } => None,
        }
    }

    /// The content without these seats, or `None` if nothing is left.
    pub(crate) fn without(&self, seats: &[Seat]) -> Option<Content> {
        let left: Arc<[PricedSeat]> =
            self.seats().iter().filter(|priced| !seats.contains(&priced.seat)).copied().collect();
        (!left.is_empty()).then_some(Content::Seats(left))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Content::Seats(seats) => size_of_val(&**seats),
            Content::Places { area, .. } => area.heap_bytes(),
            Content::Units { name: text, .. } | Content::Slot { details: text, .. } => {
                if text.is_heap_allocated() {
                    text.len()
                } else {
                    0
                }
            }
        }
    }
}

/// What a buyer notes at a line, for those who read the cart or the order.
pub type Note = Text<0, 256, true>;

/// What a line is, from its hold to the order. A cart, its answers, the order and the history have it from here.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct LineItem {
    /// The session, product or resource.
    #[n(0)]
    pub entity: Entity,
    /// Its content, with the prices captured when it was held.
    #[n(1)]
    pub content: Content,
    /// What the buyer notes at it. Empty if nothing.
    #[n(2)]
    pub note: SmolStr,
    /// The IANA name of the zone of its session or resource when it was held, if one was known.
    #[n(3)]
    pub zone: Option<SmolStr>,
}

impl LineItem {
    /// An item without anything that may be left out.
    pub fn new(entity: Entity, content: Content) -> LineItem {
        LineItem { entity, content, note: SmolStr::default(), zone: None }
    }

    /// Bytes on the heap, without those of its entity.
    pub(crate) fn heap_bytes(&self) -> usize {
        let note = if self.note.is_heap_allocated() { self.note.len() } else { 0 };
        self.content.heap_bytes() + note
    }
}

/// The sum of the contents, or `None` if it is more than [`AMOUNT_MAX`].
pub fn total<'a>(contents: impl Iterator<Item = &'a Content>) -> Option<i64> {
    let sum: i128 = contents.map(Content::amount).sum();
    i64::try_from(sum).ok().filter(|sum| *sum <= AMOUNT_MAX)
}
