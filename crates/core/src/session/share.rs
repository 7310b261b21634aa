//! What one hold or sale of a session has. It is small, because a session has one for each sale: prices that are not those the session
//! was opened with are kept once a session, and shares name them by number.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::{fmt, num::NonZeroU16};

use boxoffice_declare::Stored;

use super::table::PriceTable;
use crate::{
    fairness::Amount,
    id::Id,
    portion::{BoughtAs, SeatPrice},
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer},
};

/// The content of one hold.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) enum Share {
    #[n(0)]
    Seats(#[n(0)] SeatList),
    /// A number of places of the area with this number, all at one price.
    #[n(1)]
    Places {
        #[n(0)]
        area: u16,
        #[n(1)]
        quantity: u32,
        /// The one that the session was opened with if absent.
        #[n(2)]
        price: Option<PriceNumber>,
    },
}

/// The number of a price in the [`Captured`] of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PriceNumber(NonZeroU16);

impl PriceNumber {
    /// The place of its price in the list of prices.
    fn place(self) -> usize {
        usize::from(self.0.get()) - 1
    }

    fn at_place(place: usize) -> Option<PriceNumber> {
        u16::try_from(place + 1).ok().and_then(NonZeroU16::new).map(PriceNumber)
    }
}

impl Encode for PriceNumber {
    fn encode(&self, out: &mut Writer) {
        self.0.get().encode(out);
    }
}

impl Decode for PriceNumber {
    fn shape(schema: &mut Schema) -> Shape {
        u16::shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<PriceNumber, Error> {
        NonZeroU16::new(u16::decode(from)?).map(PriceNumber).ok_or_else(|| Error::message("a price has no number 0"))
    }
}

/// The upper half of a word of a [`SeatList`] that is the number of a price. Layouts have fewer seats than this.
const PRICE: u32 = 0xffff_0000;

/// Indexes of seats, ascending. Those that were not bought at the prices that the session was opened with are followed by a word for
/// each, [`PRICE`] with the number of its price. Shared, so that copies of a book copy no seats.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SeatList(Arc<[u32]>);

impl SeatList {
    /// Seats with the number of each one's price, or `None` if they have the prices that the session was opened with.
    pub(super) fn new(indexes: impl Iterator<Item = u32>, prices: Option<&[PriceNumber]>) -> SeatList {
        SeatList(match prices {
            None => indexes.collect(),
            Some(prices) => indexes.chain(prices.iter().map(|number| PRICE | u32::from(number.0.get()))).collect(),
        })
    }

    fn is_priced(&self) -> bool {
        self.0.last().is_some_and(|word| *word >= PRICE)
    }

    pub(super) fn indexes(&self) -> &[u32] {
        if self.is_priced() { &self.0[..self.0.len() / 2] } else { &self.0 }
    }

    /// The number of each seat's price, or `None` if they have the prices that the session was opened with.
    pub(super) fn prices(&self) -> Option<impl Iterator<Item = PriceNumber>> {
        let number = |word: &u32| PriceNumber(NonZeroU16::new(*word as u16).expect("checked when it was made"));
        self.is_priced().then(|| self.0[self.0.len() / 2..].iter().map(number))
    }

    /// The seats that stay.
    pub(super) fn retain(&self, stays: impl Fn(u32) -> bool) -> SeatList {
        let left = self.indexes().iter().copied().filter(|index| stays(*index));
        let prices: Option<Vec<PriceNumber>> = self.prices().map(|prices| {
            self.indexes().iter().zip(prices).filter(|(index, _)| stays(**index)).map(|(_, price)| price).collect()
        });
        SeatList::new(left, prices.as_deref())
    }
}

impl fmt::Debug for SeatList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Encode for SeatList {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }

    fn is_absent(&self) -> bool {
        self.0.is_absent()
    }
}

impl Decode for SeatList {
    fn shape(schema: &mut Schema) -> Shape {
        Arc::<[u32]>::shape(schema)
    }

    fn absent() -> Option<SeatList> {
        Arc::absent().map(SeatList)
    }

    fn decode(from: &mut Reader<'_>) -> Result<SeatList, Error> {
        let list = SeatList(Decode::decode(from)?);
        let (seats, numbers) = list.0.split_at(list.indexes().len());
        let is_number = |word: &u32| *word > PRICE;
        let is_seat = |word: &u32| *word < PRICE;
        if !seats.iter().all(is_seat)
            || !numbers.iter().all(is_number)
            || (list.is_priced() && seats.len() != numbers.len())
        {
            return Err(Error::message("prices do not belong to their seats"));
        }
        Ok(list)
    }
}

/// The number of the supply of places of the area with this number. Seats are supply 0.
pub(super) fn area_supply(area: u16) -> u16 {
    area + 1
}

impl Amount for Share {
    fn amount(&self) -> u32 {
        match self {
            Share::Seats(seats) => seats.indexes().len() as u32,
            Share::Places { quantity, .. } => *quantity,
        }
    }

    fn supply(&self) -> u16 {
        match self {
            Share::Seats(_) => 0,
            Share::Places { area, .. } => area_supply(*area),
        }
    }
}

impl Share {
    /// Indexes of its seats.
    pub(super) fn seats(&self) -> &[u32] {
        match self {
            Share::Seats(seats) => seats.indexes(),
            Share::Places { .. } => &[],
        }
    }

    /// Prices other than those the session was opened with, each with how many of the share have it.
    fn prices(&self) -> impl Iterator<Item = (PriceNumber, u32)> {
        let (seats, places) = match self {
            Share::Seats(seats) => (seats.prices(), None),
            Share::Places { quantity, price, .. } => (None, price.map(|price| (price, *quantity))),
        };
        seats.into_iter().flatten().map(|price| (price, 1)).chain(places)
    }

    /// How much it takes of each counter. Each counter is named at most once.
    pub(super) fn counted(&self, captured: &Captured, table: &PriceTable) -> Vec<(u16, u32)> {
        let mut counted: Vec<(u16, u32)> = Vec::new();
        for (price, quantity) in self.prices() {
            for counter in table.counters_of(captured.price(price)) {
                match counted.iter_mut().find(|(known, _)| known == counter) {
                    Some((_, count)) => *count += quantity,
                    None => counted.push((*counter, quantity)),
                }
            }
        }
        counted
    }

    /// How many of it were taken under an offer.
    pub(super) fn under(&self, offer: &Id, captured: &Captured) -> u32 {
        let is_under = |price: &SeatPrice| price.bought_as.as_ref().is_some_and(|it| it.offer.as_ref() == Some(offer));
        self.prices().filter(|(price, _)| is_under(captured.price(*price))).map(|(_, quantity)| quantity).sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Share::Seats(SeatList(words)) => 2 * size_of::<usize>() + size_of_val(&**words),
            Share::Places { .. } => 0,
        }
    }
}

/// How many different prices a session's holds and sales have before a change of its terms looks for those that nothing has any more.
const MANY: usize = 1_024;

/// The different prices of a session's holds and sales that are not those it was opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
#[stored(name = "CapturedPrices")]
pub(super) struct Captured {
    /// By number. `None` where nothing has the price any more.
    #[n(0)]
    prices: Vec<Option<SeatPrice>>,
    /// Follows from `prices`.
    #[stored(skip)]
    numbers: BTreeMap<SeatPrice, PriceNumber>,
}

impl Captured {
    /// Whether each of these has a number, or can get one.
    pub(super) fn has_room(&self, prices: &[SeatPrice]) -> bool {
        let max = usize::from(u16::MAX);
        self.numbers.len() + prices.len() <= max || prices.iter().all(|price| self.numbers.contains_key(price))
    }

    /// The number of a price, if it has one.
    pub(super) fn known(&self, price: &SeatPrice) -> Option<PriceNumber> {
        self.numbers.get(price).copied()
    }

    /// The number of a price, which gets one if it has none.
    ///
    /// # Panics
    /// If there is no room for it.
    pub(super) fn number(&mut self, price: &SeatPrice) -> PriceNumber {
        if let Some(known) = self.known(price) {
            return known;
        }
        let free =
            if self.numbers.len() < self.prices.len() { self.prices.iter().position(Option::is_none) } else { None };
        let place = free.unwrap_or(self.prices.len());
        let number = PriceNumber::at_place(place).expect("there is room for a further price");
        match self.prices.get_mut(place) {
            Some(free) => *free = Some(price.clone()),
            None => self.prices.push(Some(price.clone())),
        }
        self.numbers.insert(price.clone(), number);
        number
    }

    /// The price with a number.
    pub(super) fn price(&self, number: PriceNumber) -> &SeatPrice {
        self.prices[number.place()].as_ref().expect("a price that something has")
    }

    /// Frees the numbers of prices that none of these has, if there are many.
    pub(super) fn free_unused<'a>(&mut self, shares: impl Iterator<Item = &'a Share>) {
        if self.prices.len() < MANY {
            return;
        }
        let mut is_used = alloc::vec![false; self.prices.len()];
        shares.flat_map(Share::prices).for_each(|(price, _)| is_used[price.place()] = true);
        for (price, _) in self.prices.iter_mut().zip(is_used).filter(|(_, is_used)| !is_used) {
            *price = None;
        }
        self.rebuild();
    }

    /// Computes what is not stored.
    pub(super) fn rebuild(&mut self) {
        let numbered = self.prices.iter().enumerate();
        let numbered = numbered.filter_map(|(place, price)| Some((price.clone()?, PriceNumber::at_place(place)?)));
        self.numbers = numbered.collect();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.prices.capacity() * size_of::<Option<SeatPrice>>()
            + self.numbers.len() * size_of::<(SeatPrice, PriceNumber, BoughtAs)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(amount: i64) -> SeatPrice {
        SeatPrice { price: amount, bought_as: None }
    }

    #[test]
    fn a_share_is_two_words() {
        assert_eq!(size_of::<Share>(), 16);
    }

    #[test]
    fn numbers_of_prices_that_nothing_has_are_given_again() {
        let mut captured = Captured::default();
        let numbers: Vec<PriceNumber> = (0..u16::MAX).map(|amount| captured.number(&price(amount.into()))).collect();
        assert!(!captured.has_room(&[price(1), price(-1)]) && captured.has_room(&[price(1)]));
        let seats = SeatList::new([3, 5].into_iter(), Some(&[numbers[7], numbers[9]]));
        let kept = [Share::Seats(seats), Share::Places { area: 0, quantity: 4, price: Some(numbers[11]) }];
        captured.free_unused(kept.iter());
        assert!(captured.has_room(&[price(-1)]));
        let read = |number: PriceNumber| captured.price(number).price;
        assert_eq!([7, 9, 11].map(|place| read(numbers[place])), [7, 9, 11]);
        let place = captured.number(&price(-1)).place();
        assert_eq!((place, captured.number(&price(7)).place(), captured.number(&price(-2)).place()), (0, 7, 1));
    }

    #[test]
    fn seats_and_numbers_are_read_as_they_were_written() {
        let number = |place| PriceNumber::at_place(place).expect("a number");
        let both = [None, Some([number(0), number(65_534), number(0)])]
            .map(|prices| SeatList::new([0, 9, 70_000].into_iter(), prices.as_ref().map(|prices| &prices[..])));
        for list in &both {
            let bytes = crate::stored::append(list, Vec::new());
            assert_eq!(crate::stored::read::<SeatList>(&bytes).as_ref(), Ok(list));
        }
        let [plain, priced] = both.map(|list| list.retain(|index| index != 0));
        assert_eq!(
            (plain.indexes(), priced.indexes(), plain.prices().is_none()),
            (&[9, 70_000][..], &[9, 70_000][..], true)
        );
        assert_eq!(priced.prices().map(Iterator::collect::<Vec<_>>), Some(alloc::vec![number(65_534), number(0)]));
        for wrong in [&[1, PRICE][..], &[1, PRICE | 1, PRICE | 1], &[PRICE | 1], &[PRICE | 1, 1]] {
            let bytes = crate::stored::append(&Arc::<[u32]>::from(wrong), Vec::new());
            assert!(crate::stored::read::<SeatList>(&bytes).is_err(), "{wrong:?}");
        }
    }
}
