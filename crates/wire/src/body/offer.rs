//! Price types, offers and counters of a session, as requests and answers have them.

use boxoffice_core::{
    command::{
        ALLOTMENTS_MAX, Allotment, Counter, OFFER_ATTRIBUTES_MAX, OFFER_COUNTERS_MAX, OFFERS_MAX, Offer, Offering,
        PRICE_TYPES_MAX, PriceChange, PriceType,
    },
    id::Id,
    layout::{LAYOUT_CATEGORIES_MAX, LAYOUT_SEATS_MAX},
    money::PRICE_MAX,
    names::Names,
    portion::{LINE_QUANTITY_MAX, TAX_RATE_MAX, Tax},
    seat::Seat,
    text::{OptionalName, Text},
    time::Timestamp,
};
use boxoffice_declare::shape;

use crate::{
    convert::{Converted, distinct},
    limits::AREAS_MAX,
    quantity::Quantity,
    rejection::Rejection,
    repr::{List, repr_of},
};

/// The longest code of a tax, in bytes.
const TAX_CODE_BYTES_MAX: usize = 64;

/// The highest number of tickets that a counter counts.
const COUNTER_MAX: u32 = LINE_QUANTITY_MAX;

/// A price type: adults, people under 26, carers. Each seat and place is bought as one.
#[shape("PriceType")]
#[derive(Eq)]
pub struct PriceTypeBody {
    pub id: Id,
    #[optional]
    pub name: OptionalName,
    /// Its names for people.
    #[optional]
    pub names: Names,
    /// Its price in each category, in minor units of the session's currency. A category without one is not sold to it. The first
    /// type has none here, because its prices are those of the session.
    #[optional]
    pub prices: Vec<(Id, i64)>,
    /// Its price in each area.
    #[optional]
    pub area_prices: Vec<(Id, i64)>,
    /// The tax that its prices contain.
    pub tax: Option<TaxBody>,
}

/// A tax that a price contains.
#[shape("Tax")]
#[derive(Eq)]
pub struct TaxBody {
    /// In hundredths of a percent.
    #[within(0..=TAX_RATE_MAX)]
    pub rate: u32,
    /// What the house's books call it.
    #[optional]
    pub code: Text<0, TAX_CODE_BYTES_MAX>,
}

/// Terms under which seats and places are sold. A seat is on sale if one of the session's offers admits it.
#[shape("Offer")]
#[derive(Eq)]
pub struct OfferBody {
    pub id: Id,
    #[optional]
    pub name: OptionalName,
    /// Its names for people.
    #[optional]
    pub names: Names,
    /// The price types that it sells, or all.
    #[optional]
    pub types: List<Id, 0, PRICE_TYPES_MAX>,
    /// The categories that it sells seats of. With neither categories nor areas it sells everything.
    #[optional]
    pub categories: List<Id, 0, LAYOUT_CATEGORIES_MAX>,
    /// The areas that it sells places of.
    #[optional]
    pub areas: List<Id, 0, AREAS_MAX>,
    /// When it opens.
    pub from: Option<Timestamp>,
    /// When it ends.
    pub until: Option<Timestamp>,
    /// Whether it is closed by hand.
    #[optional]
    pub closed: bool,
    /// Whether only the desk sells under it.
    #[optional]
    pub desk: bool,
    /// The price under it, in minor units, in place of the list price.
    #[narrow(0..=PRICE_MAX)]
    pub set_price: Option<i64>,
    /// By how much it is cheaper than the list price, in minor units.
    #[narrow(0..=PRICE_MAX)]
    pub amount_off: Option<i64>,
    /// By how much it is cheaper, in hundredths of a percent. What is taken off is rounded half up.
    #[within(1..=10_000)]
    pub rate_off: Option<u32>,
    /// The most that one order may have under it.
    #[within(1..=LINE_QUANTITY_MAX)]
    pub per_order: Option<Quantity>,
    /// The most that one customer may have under it, in all carts and orders of the session. A cart needs a customer then.
    #[within(1..=LINE_QUANTITY_MAX)]
    pub per_customer: Option<Quantity>,
    /// The counters of which each seat and place under it takes one.
    #[optional]
    pub counters: List<Id, 0, OFFER_COUNTERS_MAX>,
    /// The allotments whose seats it sells, and no others. Only for offers with `desk`, `code_group` or `attributes`.
    #[optional]
    pub allotments: List<Id, 0, ALLOTMENTS_MAX>,
    /// The group of codes of which the buyer shows one.
    pub code_group: Option<Id>,
    /// The attributes of which the customer's token must have one.
    #[optional]
    pub attributes: List<Id, 0, OFFER_ATTRIBUTES_MAX>,
}

/// Seats that are kept for somebody: for the press, a sponsor, an agency, the house. Until they are released only the desk and the
/// offers that name them sell them, and everybody else sees them as blocked.
#[shape("Allotment")]
#[derive(Eq)]
pub struct AllotmentBody {
    pub id: Id,
    #[optional]
    pub name: OptionalName,
    /// Its names for people.
    #[optional]
    pub names: Names,
    /// Its seats. A seat is in one allotment at most.
    pub seats: List<Seat, 1, LAYOUT_SEATS_MAX>,
    /// When those of its seats that are free go on sale.
    pub release_at: Option<Timestamp>,
    /// Whether it is released by hand.
    #[optional]
    pub released: bool,
    /// Whether they are for those who accompany wheelchair users: before the release anybody buys one in one hold with an accessible seat
    /// beside it.
    #[optional]
    pub companions: bool,
}

/// A number of seats and places that several offers share.
#[shape("Counter")]
#[derive(Eq)]
pub struct CounterBody {
    pub id: Id,
    /// How many may be held and sold under its offers.
    #[within(0..=COUNTER_MAX)]
    pub max: u32,
}

/// The price types of a request.
pub(super) type PriceTypes = List<PriceTypeBody, 0, PRICE_TYPES_MAX>;
/// The offers of a request.
pub(super) type Offers = List<OfferBody, 0, OFFERS_MAX>;
/// The counters of a request.
pub(super) type Counters = List<CounterBody, 0, OFFERS_MAX>;
/// The allotments of a request.
pub(super) type Allotments = List<AllotmentBody, 0, ALLOTMENTS_MAX>;

repr_of!(PriceType: PriceTypeBody, Offer: OfferBody, Counter: CounterBody, Allotment: AllotmentBody, Tax: TaxBody);

impl From<Tax> for TaxBody {
    fn from(Tax { rate, code }: Tax) -> TaxBody {
        TaxBody { rate, code: Text::as_said(code) }
    }
}

impl From<TaxBody> for Tax {
    fn from(TaxBody { rate, code }: TaxBody) -> Tax {
        Tax { rate, code: code.into_plain() }
    }
}

impl From<Counter> for CounterBody {
    fn from(Counter { id, max }: Counter) -> CounterBody {
        CounterBody { id, max }
    }
}

impl From<CounterBody> for Counter {
    fn from(CounterBody { id, max }: CounterBody) -> Counter {
        Counter { id, max }
    }
}

impl From<Allotment> for AllotmentBody {
    fn from(Allotment { id, name, names, seats, release_at, released, companions }: Allotment) -> AllotmentBody {
        let (name, seats) = (Text::as_said(name), seats.into_iter().collect());
        AllotmentBody { id, name, names, seats, release_at, released, companions }
    }
}

impl TryFrom<AllotmentBody> for Allotment {
    type Error = Rejection;

    /// Seats in their order in the hall, since their order in the request has no meaning.
    fn try_from(body: AllotmentBody) -> Converted<Allotment> {
        let AllotmentBody { id, name, names, seats, release_at, released, companions } = body;
        let mut seats = seats.into_plain();
        seats.sort_unstable();
        distinct(&seats, |seat| seat, "an allotment names a seat twice")?;
        Ok(Allotment { id, name: name.into_plain(), names, seats, release_at, released, companions })
    }
}

impl From<PriceType> for PriceTypeBody {
    fn from(PriceType { id, name, names, prices, area_prices, tax }: PriceType) -> PriceTypeBody {
        PriceTypeBody { id, name: Text::as_said(name), names, prices, area_prices, tax: tax.map(TaxBody::from) }
    }
}

impl TryFrom<PriceTypeBody> for PriceType {
    type Error = Rejection;

    /// Prices in the order of their ids, since their order in the request has no meaning.
    fn try_from(body: PriceTypeBody) -> Converted<PriceType> {
        let PriceTypeBody { id, name, names, mut prices, mut area_prices, tax } = body;
        for zones in [&mut prices, &mut area_prices] {
            zones.sort_by(|one, other| one.0.cmp(&other.0));
            distinct(zones, |(zone, _)| zone, "a price type has two prices for one category or area")?;
            zones.iter().try_for_each(|(_, amount)| crate::convert::price(*amount))?;
        }
        Ok(PriceType { id, name: name.into_plain(), names, prices, area_prices, tax: tax.map(Tax::from) })
    }
}

impl From<Offer> for OfferBody {
    fn from(offer: Offer) -> OfferBody {
        let Offer { id, name, names, types, categories, areas, from, until, closed, desk, change, .. } = offer;
        let (mut set_price, mut amount_off, mut rate_off) = (None, None, None);
        match change {
            Some(PriceChange::Set(price)) => set_price = Some(price),
            Some(PriceChange::Minus(amount)) => amount_off = Some(amount),
            Some(PriceChange::Percent(rate)) => rate_off = Some(rate),
            None => {}
        }
        OfferBody {
            id,
            name: Text::as_said(name),
            names,
            types: types.into_iter().collect(),
            categories: categories.into_iter().collect(),
            areas: areas.into_iter().collect(),
            from,
            until,
            closed,
            desk,
            set_price,
            amount_off,
            rate_off,
            per_order: offer.per_order.map(Quantity::from),
            per_customer: offer.per_customer.map(Quantity::from),
            counters: offer.counters.into_iter().collect(),
            allotments: offer.allotments.into_iter().collect(),
            code_group: offer.code_group,
            attributes: offer.attributes.into_iter().collect(),
        }
    }
}

impl TryFrom<OfferBody> for Offer {
    type Error = Rejection;

    fn try_from(body: OfferBody) -> Converted<Offer> {
        let change = match (body.set_price, body.amount_off, body.rate_off) {
            (None, None, None) => None,
            (Some(price), None, None) => Some(PriceChange::Set(price)),
            (None, Some(amount), None) => Some(PriceChange::Minus(amount)),
            (None, None, Some(rate)) => Some(PriceChange::Percent(rate)),
            _ => return Err(Rejection::bad_request("an offer has one of `set_price`, `amount_off` and `rate_off`")),
        };
        Ok(Offer {
            id: body.id,
            name: body.name.into_plain(),
            names: body.names,
            types: body.types.into_plain(),
            categories: body.categories.into_plain(),
            areas: body.areas.into_plain(),
            from: body.from,
            until: body.until,
            closed: body.closed,
            desk: body.desk,
            change,
            per_order: body.per_order.map(u32::try_from).transpose()?,
            per_customer: body.per_customer.map(u32::try_from).transpose()?,
            counters: body.counters.into_plain(),
            allotments: body.allotments.into_plain(),
            code_group: body.code_group,
            attributes: body.attributes.into_plain(),
        })
    }
}

/// The offering of a request, if it has any of it.
pub(super) fn offering(
    price_types: PriceTypes,
    offers: Offers,
    counters: Counters,
    allotments: Allotments,
) -> Converted<Option<Offering>> {
    let offering = Offering {
        price_types: price_types.into_plain().into_iter().map(PriceType::try_from).collect::<Converted<_>>()?,
        offers: offers.into_plain().into_iter().map(Offer::try_from).collect::<Converted<_>>()?,
        counters: counters.into_plain().into_iter().map(Counter::from).collect(),
        allotments: allotments.into_plain().into_iter().map(Allotment::try_from).collect::<Converted<_>>()?,
    };
    Ok(Some(offering).filter(|offering| !offering.is_empty()))
}
