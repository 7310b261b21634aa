//! The content of holds and lines. It is seats, places, units, a slot or a part of a quota.

use alloc::{collections::BTreeMap, sync::Arc, vec, vec::Vec};
use core::slice;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    id::{Entity, Id},
    money::AMOUNT_MAX,
    seat::{Seat, SeatSet},
    stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer},
    text::Text,
    time::Timestamp,
};

/// One seat of a line, with the price and the terms captured when it was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PricedSeat {
    pub seat: Seat,
    /// In minor units of the cart's currency.
    pub price: i64,
    /// What it was bought as. `None` at the only price of a session that never had another.
    pub bought_as: Option<Arc<BoughtAs>>,
}

// Many of them are the seats, then the prices up to the last one that is not that of the seat before. If one was bought as something,
// the seats are followed by the different prices and by the number of its price for each seat.
impl Encode for PricedSeat {
    fn encode(&self, out: &mut Writer) {
        PricedSeat::encode_list(slice::from_ref(self), out);
    }

    fn encode_list(list: &[PricedSeat], out: &mut Writer) {
        let is_offered = list.iter().any(|priced| priced.bought_as.is_some());
        out.list(if is_offered { 3 } else { 2 });
        let mut seats = Vec::with_capacity(2 * list.len());
        list.iter().for_each(|priced| priced.seat.append(&mut seats));
        out.bytes(&seats);
        if is_offered {
            let prices: Vec<SeatPrice> = list.iter().map(PricedSeat::at).collect();
            return SeatPrice::encode_fields(&prices, out);
        }
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
        match &PricedSeat::decode_list(from)?[..] {
            [priced] => Ok(priced.clone()),
            _ => Err(Error::message("there is not one priced seat")),
        }
    }

    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<PricedSeat>, Error> {
        let fields = stored::list(from)?;
        let seats: Vec<Seat> = Decode::decode(from)?;
        if fields == 3 {
            let prices = SeatPrice::decode_fields(seats.len(), from)?;
            if prices.iter().all(|price| price.bought_as.is_none()) {
                return Err(Error::message("seats that were bought as nothing have only prices"));
            }
            let priced = |(seat, SeatPrice { price, bought_as })| PricedSeat { seat, price, bought_as };
            return Ok(seats.into_iter().zip(prices).map(priced).collect());
        }
        if fields != 2 {
            return Err(Error::message("priced seats have two or three fields"));
        }
        let prices: Vec<i64> = Decode::decode(from)?;
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
                PricedSeat { seat, price: last, bought_as: None }
            })
            .collect())
    }
}

impl PricedSeat {
    /// A seat at the only price of its category.
    pub fn new(seat: Seat, price: i64) -> PricedSeat {
        PricedSeat { seat, price, bought_as: None }
    }

    /// Its price, without the seat.
    pub fn at(&self) -> SeatPrice {
        SeatPrice { price: self.price, bought_as: self.bought_as.clone() }
    }
}

/// What a seat or a place was bought as. It is frozen when it is held, and stays in the line, the order and the receipt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct BoughtAs {
    /// The version of the session's terms, whose names say what the ids mean.
    #[n(0)]
    pub terms: u32,
    /// Its price before the offer changed it, in minor units.
    #[n(1)]
    pub list_price: i64,
    #[n(2)]
    pub price_type: Option<Id>,
    #[n(3)]
    pub offer: Option<Id>,
    #[n(4)]
    pub tax: Option<Tax>,
    /// The group of the code of which it takes a use.
    #[n(5)]
    pub code_group: Option<Id>,
}

impl BoughtAs {
    /// Whether both say the same in the terms of any version.
    pub fn is_same(&self, other: &BoughtAs) -> bool {
        let BoughtAs { terms: _, list_price, price_type, offer, tax, code_group } = self;
        (list_price, price_type, offer, tax, code_group)
            == (&other.list_price, &other.price_type, &other.offer, &other.tax, &other.code_group)
    }
}

/// A tax that a price contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct Tax {
    /// In hundredths of a percent.
    #[n(0)]
    pub rate: u32,
    /// What the house's books call it. May be empty.
    #[n(1)]
    pub code: SmolStr,
}

/// The highest rate of a tax, in hundredths of a percent.
pub const TAX_RATE_MAX: u32 = 10_000;

impl Tax {
    /// The tax that is contained in a price, in minor units and rounded half up. Prices are not negative.
    pub fn of(&self, price: i64) -> i64 {
        let (price, rate) = (i128::from(price), i128::from(self.rate));
        let whole = 10_000 + rate;
        ((2 * price * rate + whole) / (2 * whole)) as i64
    }
}

/// The price of one seat or place that was captured when it was held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatPrice {
    /// In minor units.
    pub price: i64,
    pub bought_as: Option<Arc<BoughtAs>>,
}

impl SeatPrice {
    /// Whether both are the same price for the same thing, in the terms of any version.
    pub fn is_same(&self, other: &SeatPrice) -> bool {
        let same_as = match (&self.bought_as, &other.bought_as) {
            (Some(own), Some(other)) => own.is_same(other),
            (own, other) => own.as_ref().or(other.as_ref()).is_none_or(|some| some.is_plain_at(self.price)),
        };
        self.price == other.price && same_as
    }

    /// Writes two fields: the different prices in the order in which they come first, and for each seat the number of its price, or
    /// nothing if there is one price.
    fn encode_fields(list: &[SeatPrice], out: &mut Writer) {
        let mut kinds: Vec<&SeatPrice> = Vec::new();
        let mut numbers = Vec::with_capacity(list.len());
        for price in list {
            let known = kinds.iter().position(|known| *known == price);
            numbers.push(known.unwrap_or(kinds.len()) as u8);
            if known.is_none() {
                kinds.push(price);
            }
        }
        out.list(kinds.len());
        for SeatPrice { price, bought_as } in &kinds {
            out.list(if bought_as.is_some() { 2 } else { 1 });
            price.encode(out);
            if let Some(bought_as) = bought_as {
                bought_as.encode(out);
            }
        }
        out.bytes(if kinds.len() > 1 { &numbers } else { &[] });
    }

    /// Reads the two fields of so many seats.
    fn decode_fields(seats: usize, from: &mut Reader<'_>) -> Result<Vec<SeatPrice>, Error> {
        let mut kinds: Vec<SeatPrice> = Vec::new();
        for _ in 0..stored::list(from)? {
            let fields = stored::list(from)?;
            let price = i64::decode(from)?;
            let bought_as = match fields {
                1 => None,
                2 => Some(Decode::decode(from)?),
                _ => return Err(Error::message("a price has one or two fields")),
            };
            let price = SeatPrice { price, bought_as };
            if kinds.contains(&price) || kinds.len() == usize::from(u8::MAX) {
                return Err(Error::message("prices are written once, and not too many"));
            }
            kinds.push(price);
        }
        let numbers: Vec<u8> = Decode::decode(from)?;
        if kinds.len() == 1 && numbers.is_empty() && seats > 0 {
            return Ok(vec![kinds.remove(0); seats]);
        }
        let mut seen = 0;
        for number in &numbers {
            let number = usize::from(*number);
            if number > seen {
                return Err(Error::message("prices are in the order of their seats"));
            }
            seen = seen.max(number + 1);
        }
        if numbers.len() != seats || seen != kinds.len() || kinds.len() == 1 {
            return Err(Error::message("prices do not belong to their seats"));
        }
        Ok(numbers.iter().map(|number| kinds[usize::from(*number)].clone()).collect())
    }
}

impl BoughtAs {
    /// Whether it says no more than the price.
    fn is_plain_at(&self, price: i64) -> bool {
        self.price_type.is_none() && self.offer.is_none() && self.tax.is_none() && self.list_price == price
    }
}

impl Encode for SeatPrice {
    fn encode(&self, out: &mut Writer) {
        SeatPrice::encode_list(slice::from_ref(self), out);
    }

    fn encode_list(list: &[SeatPrice], out: &mut Writer) {
        out.list(3);
        (list.len() as u16).encode(out);
        SeatPrice::encode_fields(list, out);
    }
}

impl Decode for SeatPrice {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("seat price")
    }

    fn list_shape(_: &mut Schema) -> Shape {
        Shape::Leaf("seat prices")
    }

    fn decode(from: &mut Reader<'_>) -> Result<SeatPrice, Error> {
        let mut prices = SeatPrice::decode_list(from)?;
        match prices.len() {
            1 => Ok(prices.remove(0)),
            _ => Err(Error::message("there is not one price")),
        }
    }

    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<SeatPrice>, Error> {
        if stored::list(from)? != 3 {
            return Err(Error::message("prices have three fields"));
        }
        let seats = u16::decode(from)?;
        SeatPrice::decode_fields(seats.into(), from)
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
    /// Uses of a code, at least 1.
    #[n(5)]
    Uses(#[n(0)] u32),
}

impl Portion {
    /// The number of seats, places, units or parts. It is 1 for a slot.
    pub fn quantity(&self) -> u32 {
        match self {
            Portion::Seats(seats) => seats.len() as u32,
            Portion::Places { quantity, .. } | Portion::Units(quantity) | Portion::Uses(quantity) => *quantity,
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
            (Portion::Uses(count), Portion::Uses(needed)) => count >= needed,
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
        /// What they were bought as.
        #[n(3)]
        bought_as: Option<Arc<BoughtAs>>,
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
        /// The tax that the price contains.
        #[n(3)]
        tax: Option<Arc<Tax>>,
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

    /// How many uses of a code it takes.
    pub fn uses(&self) -> u32 {
        let takes = |bought_as: &Option<Arc<BoughtAs>>| bought_as.as_ref().is_some_and(|it| it.code_group.is_some());
        match self {
            Content::Seats(seats) => seats.iter().filter(|priced| takes(&priced.bought_as)).count() as u32,
            Content::Places { quantity, bought_as, .. } if takes(bought_as) => *quantity,
            Content::Places { .. } | Content::Units { .. } | Content::Slot { .. } => 0,
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
            Content::Places { area, quantity: _, price, bought_as } => {
                let (area, bought_as) = (area.clone(), bought_as.clone());
                Some(Content::Places { area, quantity, price: *price, bought_as })
            }
            Content::Units { price, name, tax, .. } => {
                Some(Content::Units { quantity, price: *price, name: name.clone(), tax: tax.clone() })
            }
            Content::Seats(_) | Content::Slot { .. } => None,
        }
    }

    /// The content without these seats, or `None` if nothing is left.
    pub(crate) fn without(&self, seats: &[Seat]) -> Option<Content> {
        let left: Arc<[PricedSeat]> =
            self.seats().iter().filter(|priced| !seats.contains(&priced.seat)).cloned().collect();
        (!left.is_empty()).then_some(Content::Seats(left))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Content::Seats(seats) => {
                let bought_as = seats.iter().filter(|priced| priced.bought_as.is_some()).count();
                size_of_val(&**seats) + bought_as * size_of::<BoughtAs>()
            }
            Content::Places { area, bought_as, .. } => {
                area.heap_bytes() + bought_as.as_ref().map_or(0, |_| size_of::<BoughtAs>())
            }
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

/// The tax that the prices of some contents contain at one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaxSum {
    pub tax: Tax,
    /// In minor units, rounded for each seat, place and unit, so it is the same for parts of an order.
    pub amount: i64,
}

/// The taxes that these contents contain, by rate and code.
pub fn taxes<'a>(contents: impl Iterator<Item = &'a Content>) -> Vec<TaxSum> {
    let mut sums: BTreeMap<&Tax, i128> = BTreeMap::new();
    let mut add = |tax: Option<&'a Tax>, price: i64, quantity: u32| {
        if let Some(tax) = tax {
            *sums.entry(tax).or_default() += i128::from(tax.of(price)) * i128::from(quantity);
        }
    };
    let of_offer = |bought_as: &'a Option<Arc<BoughtAs>>| bought_as.as_ref()?.tax.as_ref();
    for content in contents {
        match content {
            Content::Seats(seats) => {
                seats.iter().for_each(|priced| add(of_offer(&priced.bought_as), priced.price, 1));
            }
            Content::Places { quantity, price, bought_as, .. } => add(of_offer(bought_as), *price, *quantity),
            Content::Units { quantity, price, tax, .. } => add(tax.as_deref(), *price, *quantity),
            Content::Slot { .. } => {}
        }
    }
    let sum = |(tax, amount): (&Tax, i128)| TaxSum { tax: tax.clone(), amount: amount.try_into().unwrap_or(i64::MAX) };
    sums.into_iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tax_is_rounded_for_each_seat() {
        let tax = |rate: u32| Tax { rate, code: SmolStr::default() };
        // 7 % of 107 is 7, and 19 % of 100 is 15.966.
        assert_eq!((tax(700).of(107), tax(1_900).of(100), tax(0).of(100), tax(10_000).of(101)), (7, 16, 0, 51));
        let seat = |number, price, rate| {
            let bought_as = BoughtAs {
                terms: 0,
                list_price: price,
                price_type: None,
                offer: None,
                tax: Some(tax(rate)),
                code_group: None,
            };
            PricedSeat { seat: Seat { row: 0, seat: number }, price, bought_as: Some(Arc::new(bought_as)) }
        };
        let seats = Content::Seats([seat(0, 10, 700), seat(1, 10, 700), seat(2, 100, 1_900)].into());
        let free = Content::Seats([PricedSeat::new(Seat { row: 1, seat: 1 }, 500)].into());
        let sums = taxes([&seats, &free].into_iter());
        let amounts: Vec<(u32, i64)> = sums.iter().map(|sum| (sum.tax.rate, sum.amount)).collect();
        // 0.65 is one for each of two seats, where the sum of both would round to one.
        assert_eq!(amounts, [(700, 2), (1_900, 16)]);
    }
}
