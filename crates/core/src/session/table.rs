//! The prices and offers of a session in the form in which decisions look them up.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use super::SessionTerms;
use crate::{
    command::{Offer, Offering, PRICE_TYPES_MAX, PriceType},
    id::Id,
    layout::LAYOUT_CATEGORIES_MAX,
    planted,
    portion::SeatPrice,
    time::Timestamp,
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
    /// Seats of a category that are kept for the allotment with this number.
    Kept { category: u8, allotment: u16 },
    /// Places of the area with this number.
    Area(u16),
}

/// List prices by type and zone, and the offers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PriceTable {
    /// By number of the price type. One without a name if there are no types.
    types: Box<[TypePrices]>,
    offers: Box<[OfferRow]>,
    /// Numbers of offers in the order of their ids.
    by_id: Box<[(Id, u16)]>,
}

/// For each type and category one more than the number of the offer that is the cheapest one open to everybody, or 0 if it was not
/// looked for. Nothing follows from it but where a search begins, so all are equal.
#[derive(Debug, Default)]
pub(super) struct Cheapest {
    numbers: Box<[AtomicU16]>,
    /// The latest true time at which one was noted. An offer that had ended by then may sell again before it, if a clock is corrected.
    as_of: AtomicU64,
}

impl Cheapest {
    /// Nothing was looked for yet.
    pub(super) fn unknown(terms: &SessionTerms) -> Cheapest {
        let offering = terms.offering().filter(|offering| !offering.offers.is_empty());
        let types = offering.map_or(0, |offering| offering.price_types.len().max(1));
        let pairs = types * terms.layout.categories().len();
        Cheapest { numbers: (0..pairs).map(|_| AtomicU16::new(0)).collect(), as_of: AtomicU64::new(0) }
    }

    fn of(&self, types: usize, of: usize, zone: Zone) -> Option<&AtomicU16> {
        match zone {
            Zone::Category(ordinal) => self.numbers.get(usize::from(ordinal) * types + of),
            Zone::Kept { .. } | Zone::Area(_) => None,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}

impl PartialEq for Cheapest {
    fn eq(&self, _: &Cheapest) -> bool {
        true
    }
}

impl Eq for Cheapest {}

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
    /// The allotments whose seats it sells, by number. It sells no other seats if there are any.
    allotments: Box<[u16]>,
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
        let (types_by_id, counters_by_id) = (
            numbers(offering.price_types.iter().map(|of| &of.id)),
            numbers(offering.counters.iter().map(|counter| &counter.id)),
        );
        let allotments_by_id = numbers(offering.allotments.iter().map(|allotment| &allotment.id));
        let (categories_by_id, areas_by_id) = (numbers(categories.iter()), numbers(areas.iter().map(|area| &area.id)));
        let others = offering.price_types.iter().skip(1).map(|of: &PriceType| TypePrices {
            categories: listed(&of.prices, &categories_by_id),
            areas: listed(&of.area_prices, &areas_by_id),
        });
        let row = |offer: &Offer| {
            let mut types = 0;
            for id in &offer.types {
                types |= 1 << place(&types_by_id, id);
            }
            let zones = (!offer.categories.is_empty() || !offer.areas.is_empty()).then(|| {
                let mut sold = Categories::default();
                for category in &offer.categories {
                    let ordinal = place(&categories_by_id, category);
                    sold[usize::from(ordinal / 64)] |= 1 << (ordinal % 64);
                }
                let areas = offer.areas.iter().map(|id| place(&areas_by_id, id));
                Box::new((sold, areas.collect()))
            });
            let counters = offer.counters.iter().map(|id| place(&counters_by_id, id));
            let allotments = offer.allotments.iter().map(|id| place(&allotments_by_id, id)).collect();
            let types = if offer.types.is_empty() { u64::MAX } else { types };
            OfferRow { types, zones, allotments, counters: counters.collect() }
        };
        let mut by_id: Vec<(Id, u16)> = (0..).zip(&offering.offers).map(|(at, offer)| (offer.id.clone(), at)).collect();
        by_id.sort_unstable();
        PriceTable {
            types: [first].into_iter().chain(others).collect(),
            offers: offering.offers.iter().map(row).collect(),
            by_id: by_id.into(),
        }
    }

    /// The cheapest offer that is open to everybody, if it was looked for. `now` is true time.
    pub(super) fn known_cheapest(
        &self,
        cheapest: &Cheapest,
        (of, zone): (usize, Zone),
        now: Timestamp,
    ) -> Option<usize> {
        if now.0 < cheapest.as_of.load(Ordering::Relaxed) {
            return None;
        }
        let known = cheapest.of(self.types.len(), of, zone)?.load(Ordering::Relaxed);
        known.checked_sub(1).map(usize::from)
    }

    /// Notes that this offer is the cheapest one that is open to everybody.
    pub(super) fn note_cheapest(
        &self,
        cheapest: &Cheapest,
        (of, zone): (usize, Zone),
        (offer, now): (usize, Timestamp),
    ) {
        if now.0 < cheapest.as_of.fetch_max(now.0, Ordering::Relaxed) {
            return;
        }
        if let Some(known) = cheapest.of(self.types.len(), of, zone) {
            known.store(offer as u16 + 1, Ordering::Relaxed);
        }
    }

    /// The list price of a type in a zone, if it is sold there.
    pub(super) fn list_price(&self, of: usize, zone: Zone) -> Option<i64> {
        let types = &self.types[of];
        let price = match zone {
            Zone::Category(ordinal) | Zone::Kept { category: ordinal, .. } => types.categories[usize::from(ordinal)],
            Zone::Area(number) => types.areas[usize::from(number)],
        };
        (price != NOT_SOLD).then_some(price)
    }

    /// Whether the offer sells this type in this zone, to the desk or to others.
    pub(super) fn sells(&self, offer: usize, (of, zone): (usize, Zone), desk: bool) -> bool {
        let row = &self.offers[offer];
        let is_there = |ordinal: u8| row.zones.as_ref().is_none_or(|zones| has(&zones.0, ordinal));
        let is_there = match zone {
            Zone::Category(ordinal) => is_there(ordinal) && row.allotments.is_empty(),
            // The desk sells kept seats also under an offer that names no allotment.
            Zone::Kept { category, allotment } => {
                let bugs = ["a kept seat without a use of its code", "a guest gets seats of an allotment"];
                let without = row.allotments.is_empty() && (desk || bugs.into_iter().any(planted::is));
                is_there(category) && (without || row.allotments.contains(&allotment))
            }
            Zone::Area(number) => {
                row.zones.as_ref().is_none_or(|zones| zones.1.contains(&number)) && row.allotments.is_empty()
            }
        };
        is_there && row.types & (1 << of) != 0
    }

    /// The allotments whose seats the offer sells, by number. It sells no other seats if there are any.
    pub(super) fn allotments(&self, offer: usize) -> &[u16] {
        &self.offers[offer].allotments
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
            zones + size_of_val(&*row.counters) + size_of_val(&*row.allotments)
        };
        size_of_val(&*self.types)
            + self.types.iter().map(prices).sum::<usize>()
            + size_of_val(&*self.offers)
            + self.offers.iter().map(zones).sum::<usize>()
            + size_of_val(&*self.by_id)
    }
}

/// The numbers of ids in the order of the terms.
fn numbers<'a>(ids: impl Iterator<Item = &'a Id>) -> BTreeMap<&'a Id, u16> {
    ids.zip(0..).collect()
}

/// Prices by number. Both are in the order of the ids, so one is walked along the other.
fn listed(prices: &[(Id, i64)], zones: &BTreeMap<&Id, u16>) -> Box<[i64]> {
    let mut all = vec![NOT_SOLD; zones.len()].into_boxed_slice();
    let mut prices = prices.iter().peekable();
    for (zone, number) in zones {
        if let Some((_, price)) = prices.next_if(|(priced, _)| priced == *zone) {
            all[usize::from(*number)] = *price;
        }
    }
    all
}

/// The number of an id among those that the terms have.
fn place(all: &BTreeMap<&Id, u16>, id: &Id) -> u16 {
    *all.get(id).expect("terms name only what they have")
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
