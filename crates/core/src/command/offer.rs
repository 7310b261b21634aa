//! The offer of a session: its price types, the offers under which they are sold, and the counters that limit them.

use alloc::vec::Vec;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{id::Id, names::Names, portion::Tax, seat::Seat, time::Timestamp};

/// The most price types of one session.
pub const PRICE_TYPES_MAX: usize = 60;

/// The most offers of one session, and the most counters.
pub const OFFERS_MAX: usize = 1_000;

/// The most counters of one offer, and the most allotments.
pub const OFFER_COUNTERS_MAX: usize = 4;

/// The most attributes of one offer.
pub const OFFER_ATTRIBUTES_MAX: usize = 8;

/// The most allotments of one session.
pub const ALLOTMENTS_MAX: usize = 1_000;

/// Everything that a session offers beyond one price a category. Without any of it there is one price type without a name, and
/// everybody may buy at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct Offering {
    /// The first is that of a buyer who names none. Its prices are those of the session and of its areas.
    #[n(0)]
    pub price_types: Vec<PriceType>,
    /// Without any, everything is on sale for everybody at its list price.
    #[n(1)]
    pub offers: Vec<Offer>,
    #[n(2)]
    pub counters: Vec<Counter>,
    #[n(3)]
    pub allotments: Vec<Allotment>,
}

impl Offering {
    /// Whether there is nothing of it.
    pub fn is_empty(&self) -> bool {
        *self == Offering::default()
    }
}

/// A column of the price table: adults, people under 26, carers.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct PriceType {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub name: SmolStr,
    /// Its names for people, by locale.
    #[n(2)]
    pub names: Names,
    /// The list price of a seat in minor units, by category and ascending. A category without a price is not sold to it.
    #[n(3)]
    pub prices: Vec<(Id, i64)>,
    /// The list price of a place in minor units, by area and ascending. An area without a price is not sold to it.
    #[n(4)]
    pub area_prices: Vec<(Id, i64)>,
    /// The tax that its prices contain.
    #[n(5)]
    pub tax: Option<Tax>,
}

/// Terms under which seats and places are sold: which ones, to whom, when, and for how much.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Offer {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub name: SmolStr,
    /// Its names for people, by locale.
    #[n(2)]
    pub names: Names,
    /// The price types that it sells. All if none is named.
    #[n(3)]
    pub types: Vec<Id>,
    /// The categories of seats that it sells. With neither categories nor areas it sells everything.
    #[n(4)]
    pub categories: Vec<Id>,
    /// The areas that it sells places of.
    #[n(5)]
    pub areas: Vec<Id>,
    /// When it opens, in true time. It is open from the beginning if absent.
    #[n(6)]
    pub from: Option<Timestamp>,
    /// When it ends, exclusive.
    #[n(7)]
    pub until: Option<Timestamp>,
    /// Closed by hand.
    #[n(8)]
    pub closed: bool,
    /// Only the desk sells under it.
    #[n(9)]
    pub desk: bool,
    /// How it changes the list price.
    #[n(10)]
    pub change: Option<PriceChange>,
    /// The most seats and places of one cart under it.
    #[n(11)]
    pub per_order: Option<u32>,
    /// The counters that each seat and place under it takes one of.
    #[n(12)]
    pub counters: Vec<Id>,
    /// The allotments whose seats it sells, and no others. Only offers of the desk, of codes and of attributes name any.
    #[n(13)]
    pub allotments: Vec<Id>,
    /// The group of codes of which one must be shown.
    #[n(14)]
    pub code_group: Option<Id>,
    /// The attributes of which a customer's token must have one. The desk needs none where it names the offer.
    #[n(15)]
    pub attributes: Vec<Id>,
    /// The most seats and places of one customer under it, in all carts and orders of this session.
    #[n(16)]
    pub per_customer: Option<u32>,
}

impl Offering {
    /// When the next offer for everybody opens, of those that have not.
    pub fn opens_at(&self, has_opened: impl Fn(&Offer) -> bool) -> Option<Timestamp> {
        let public = self.offers.iter().filter(|offer| offer.is_for_everybody() && !offer.closed);
        public.filter(|offer| !has_opened(offer)).filter_map(|offer| offer.from).min()
    }
}

impl Offer {
    /// Whether it is neither the desk's, nor that of a group of codes, nor that of customers with an attribute.
    pub fn is_for_everybody(&self) -> bool {
        self.is_told_to(&[])
    }

    /// Whether a customer with these attributes is told of it. Nobody but the desk is told of what it or a code sells.
    pub fn is_told_to(&self, attributes: &[Id]) -> bool {
        !self.desk && self.code_group.is_none() && self.admits_one_of(attributes)
    }

    /// Whether it asks for none, or for one of these attributes.
    pub fn admits_one_of(&self, attributes: &[Id]) -> bool {
        self.attributes.is_empty() || self.attributes.iter().any(|wanted| attributes.contains(wanted))
    }
}

/// Seats that are kept for the press, a sponsor, an agency or the house. Until the release only the desk and those who have a code or
/// an attribute of its offers buy them, and all callers but the desk see them as blocked.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Allotment {
    #[n(0)]
    pub id: Id,
    #[n(1)]
    pub name: SmolStr,
    /// Its names for people, by locale.
    #[n(2)]
    pub names: Names,
    /// Ascending. A seat is in one allotment at most.
    #[n(3)]
    pub seats: Vec<Seat>,
    /// When those of its seats that are free go on sale, in true time.
    #[n(4)]
    pub release_at: Option<Timestamp>,
    /// Released by hand.
    #[n(5)]
    pub released: bool,
    /// They are for those who accompany wheelchair users. Before the release anybody buys one in one hold with an accessible seat beside
    /// it, under the offers for all other seats.
    #[n(6)]
    pub companions: bool,
}

/// How an offer changes a list price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum PriceChange {
    /// It is this one instead, in minor units.
    #[n(0)]
    Set(#[n(0)] i64),
    /// It is lower by so many minor units, but not below 0.
    #[n(1)]
    Minus(#[n(0)] i64),
    /// It is lower by so many hundredths of a percent. What is taken off is rounded half up.
    #[n(2)]
    Percent(#[n(0)] u32),
}

impl PriceChange {
    /// The price in place of this list price.
    pub fn of(self, list_price: i64) -> i64 {
        match self {
            PriceChange::Set(price) => price,
            PriceChange::Minus(amount) => (list_price - amount).max(0),
            PriceChange::Percent(off) => {
                let off = (2 * i128::from(list_price) * i128::from(off) + 10_000) / 20_000;
                list_price - off as i64
            }
        }
    }
}

/// A number of seats and places that several offers share.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Counter {
    #[n(0)]
    pub id: Id,
    /// How many may be held and sold under its offers.
    #[n(1)]
    pub max: u32,
}
