//! The prices and offers of a session in the form in which decisions look them up.

use alloc::{boxed::Box, vec, vec::Vec};

use super::SessionTerms;
use crate::{
    command::{Offer, Offering, PRICE_TYPES_MAX, PriceType},
    id::Id,
    layout::LAYOUT_CATEGORIES_MAX,
    portion::SeatPrice,
};

/// In place of a price: the type is not sold there.
const NOT_SOLD: i64 = -1;

const CATEGORY_WORDS: usize = LAYOUT_CATEGORIES_MAX.div_ceil(64);

/// A set of categories, by ordinal.
pub(super) type Categories = [u64; CATEGORY_WORDS];

/// Where something is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// Seats of the category with this ordinal.
    Category(u8),
    /// Places of the area with this number.
    Area(u16),
}

/// List prices by type and zone, and the offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PriceTable {
    /// By number of the price type. One without a name if there are no types.
    types: Box<[TypePrices]>,
    offers: Box<[OfferRow]>,
    /// Numbers of offers in the order of their ids.
    by_id: Box<[(Id, u16)]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TypePrices {
    categories: Box<[i64]>,
    areas: Box<[i64]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OfferRow {
    /// A set of price types, by number.
    types: u64,
    /// Where it sells. `None` everywhere.
    zones: Option<Box<(Categories, Box<[u16]>)>>,
    counters: Box<[u16]>,
}

impl PriceTable {
    /// The table of these terms. They were checked.
    pub(super) fn new(terms: &SessionTerms) -> PriceTable {
        const { assert!(PRICE_TYPES_MAX <= 64) };
        let default = Offering::default();
        let offering = terms.offering().unwrap_or(&default);
        let areas = terms.areas();
        let categories = terms.layout.categories();
        let first = TypePrices {
            categories: terms.prices.clone(),
            areas: areas.iter().map(|area| area.price.amount).collect(),
        };
        let others = offering.price_types.iter().skip(1).map(|of: &PriceType| {
            let price = |prices: &[(Id, i64)], zone: &Id| {
                prices.binary_search_by(|(known, _)| known.cmp(zone)).map_or(NOT_SOLD, |place| prices[place].1)
            };
            TypePrices {
                categories: categories.iter().map(|category| price(&of.prices, category)).collect(),
                areas: areas.iter().map(|area| price(&of.area_prices, &area.id)).collect(),
            }
        });
        let row = |offer: &Offer| {
            let mut types = 0;
            for id in &offer.types {
                types |= 1 << place(offering.price_types.iter().map(|of| &of.id), id);
            }
            let zones = (!offer.categories.is_empty() || !offer.areas.is_empty()).then(|| {
                let mut sold = Categories::default();
                for category in &offer.categories {
                    let ordinal = place(categories.iter(), category);
                    sold[usize::from(ordinal / 64)] |= 1 << (ordinal % 64);
                }
                let areas = offer.areas.iter().map(|id| place(areas.iter().map(|area| &area.id), id));
                Box::new((sold, areas.collect()))
            });
            let counters = offer.counters.iter();
            let counters = counters.map(|id| place(offering.counters.iter().map(|counter| &counter.id), id));
            let types = if offer.types.is_empty() { u64::MAX } else { types };
            OfferRow { types, zones, counters: counters.collect() }
        };
        let mut by_id: Vec<(Id, u16)> = (0..).zip(&offering.offers).map(|(at, offer)| (offer.id.clone(), at)).collect();
        by_id.sort_unstable();
        PriceTable {
            types: [first].into_iter().chain(others).collect(),
            offers: offering.offers.iter().map(row).collect(),
            by_id: by_id.into(),
        }
    }

    /// The list price of a type in a zone, if it is sold there.
    pub(super) fn list_price(&self, of: usize, zone: Zone) -> Option<i64> {
        let types = &self.types[of];
        let price = match zone {
            Zone::Category(ordinal) => types.categories[usize::from(ordinal)],
            Zone::Area(number) => types.areas[usize::from(number)],
        };
        (price != NOT_SOLD).then_some(price)
    }

    /// Whether the offer sells this type in this zone.
    pub(super) fn sells(&self, offer: usize, of: usize, zone: Zone) -> bool {
        let row = &self.offers[offer];
        let is_there = match (&row.zones, zone) {
            (None, _) => true,
            (Some(zones), Zone::Category(ordinal)) => zones.0[usize::from(ordinal / 64)] & (1 << (ordinal % 64)) != 0,
            (Some(zones), Zone::Area(number)) => zones.1.contains(&number),
        };
        is_there && row.types & (1 << of) != 0
    }

    /// The categories in which these offers sell all of these types.
    pub(super) fn sold_in(&self, offers: impl Iterator<Item = usize> + Clone, types: &[usize]) -> Categories {
        let mut all = [u64::MAX; CATEGORY_WORDS];
        for of in types {
            let mut sold = Categories::default();
            for offer in offers.clone().filter(|offer| self.offers[*offer].types & (1 << of) != 0) {
                match &self.offers[offer].zones {
                    None => sold = [u64::MAX; CATEGORY_WORDS],
                    Some(zones) => sold.iter_mut().zip(&zones.0).for_each(|(all, one)| *all |= one),
                }
            }
            let priced = self.priced_in(*of);
            all.iter_mut().zip(sold.iter().zip(&priced)).for_each(|(all, (sold, priced))| *all &= sold & priced);
        }
        all
    }

    /// The categories in which a type has a price.
    pub(super) fn priced_in(&self, of: usize) -> Categories {
        let mut priced = Categories::default();
        for (ordinal, _) in self.types[of].categories.iter().enumerate().filter(|(_, price)| **price != NOT_SOLD) {
            priced[ordinal / 64] |= 1 << (ordinal % 64);
        }
        priced
    }

    /// The number of the offer with this id.
    pub(super) fn offer(&self, id: &Id) -> Option<usize> {
        let place = self.by_id.binary_search_by(|(known, _)| known.cmp(id)).ok()?;
        Some(self.by_id[place].1.into())
    }

    /// The counters of an offer, by number.
    pub(super) fn counters(&self, offer: usize) -> &[u16] {
        &self.offers[offer].counters
    }

    /// The counters that count what was taken at this price. None if its offer is gone.
    pub(super) fn counters_of(&self, price: &SeatPrice) -> &[u16] {
        let offer = price.bought_as.as_ref().and_then(|bought_as| self.offer(bought_as.offer.as_ref()?));
        offer.map_or(&[], |offer| self.counters(offer))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let prices = |of: &TypePrices| size_of_val(&*of.categories) + size_of_val(&*of.areas);
        let zones = |row: &OfferRow| {
            let zones = row.zones.as_ref().map_or(0, |zones| size_of_val(&**zones) + size_of_val(&*zones.1));
            zones + size_of_val(&*row.counters)
        };
        size_of_val(&*self.types)
            + self.types.iter().map(prices).sum::<usize>()
            + size_of_val(&*self.offers)
            + self.offers.iter().map(zones).sum::<usize>()
            + size_of_val(&*self.by_id)
    }
}

/// The place of an id among those that the terms have.
fn place<'a>(mut all: impl Iterator<Item = &'a Id>, id: &Id) -> u16 {
    all.position(|known| known == id).expect("terms name only what they have") as u16
}

/// Whether a set of categories has this one.
pub(super) fn has(categories: &Categories, ordinal: u8) -> bool {
    categories[usize::from(ordinal / 64)] & (1 << (ordinal % 64)) != 0
}

/// The set of all categories.
pub(super) fn everywhere(categories: usize) -> Categories {
    let mut all = Categories::default();
    for ordinal in 0..categories {
        all[ordinal / 64] |= 1 << (ordinal % 64);
    }
    all
}

/// No price types at all.
pub(super) fn only_first() -> Vec<usize> {
    vec![0]
}
