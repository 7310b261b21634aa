//! Which offer sells each seat of a hold, and at what price.
//!
//! A seat is sold if an offer admits its price type, its category, the caller and the time, and its counters have room. Of several the
//! cheapest is taken, and among equal ones the first. Seats are looked at in their order, so what one takes of a counter the next one
//! finds gone.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::slice;

use smol_str::{SmolStr, format_smolstr};

use super::{
    Session,
    sale::Sale,
    table::{self, Categories, Zone},
};
use crate::{
    calendar::{self, instant},
    command::{Allotment, BuyAs, Offer, Offering, ShownCode},
    event::SessionEvent,
    holds::HoldAsk,
    id::Id,
    planted,
    portion::{BoughtAs, SeatPrice},
    refusal::Refusal,
    terms::bad,
    time::Timestamp,
};

/// How many other price types a refusal names.
const INSTEAD_MAX: usize = 3;

/// Whether an offer sells at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Open,
    /// It opens at this time.
    Opens(Timestamp),
    /// It has ended, or was closed by hand.
    Closed,
}

/// One decision on prices.
struct Pricing<'a> {
    session: &'a Session,
    sale: &'a Sale,
    offering: &'a Offering,
    /// True time.
    now: Timestamp,
    ask: &'a HoldAsk<'a>,
    /// The one offer to sell under, if the caller names it.
    named: Option<usize>,
    /// How many the seats so far take, by offer.
    used: BTreeMap<usize, u32>,
    /// What the seats so far were priced at, each kind once, with its offer.
    priced: Vec<((usize, Zone), SeatPrice, Option<usize>)>,
}

impl Session {
    /// Offers whose begin has come by `now`, in true time, and that were not opened yet.
    pub(crate) fn decide_openings(&self, now: Timestamp) -> Option<SessionEvent> {
        let now = if planted::is("an offer that opens early") { now.after(5_000) } else { now };
        let sale = self.sale.as_deref().filter(|sale| sale.next_opening.is_some_and(|opens_at| opens_at <= now))?;
        let has_come = |offer: &&Offer| offer.from.is_some_and(|from| from <= now) && !sale.has_opened(&offer.id);
        let opened: Vec<Id> =
            self.terms.offering()?.offers.iter().filter(has_come).map(|offer| offer.id.clone()).collect();
        (!opened.is_empty() && !planted::is("an offer without a latch")).then_some(SessionEvent::OffersOpened(opened))
    }

    /// Allotments whose time has come by `now`, in true time, and that are not released yet.
    pub(crate) fn decide_releases(&self, now: Timestamp) -> Option<SessionEvent> {
        let sale = self.sale.as_deref().filter(|sale| sale.next_opening.is_some_and(|opens_at| opens_at <= now))?;
        let is_due = |it: &Allotment| it.release_at.is_some_and(|at| at <= now);
        let again = planted::is("an allotment that is released twice");
        let has_come = |it: &&Allotment| is_due(it) && (!sale.is_released(it) || again);
        let released: Vec<Id> =
            self.terms.offering()?.allotments.iter().filter(has_come).map(|it| it.id.clone()).collect();
        (!released.is_empty() && !planted::is("an allotment that is never released"))
            .then_some(SessionEvent::AllotmentsReleased(released))
    }

    /// When the next offer opens or an allotment is released, in true time.
    pub fn next_opening(&self) -> Option<Timestamp> {
        self.sale.as_deref()?.next_opening
    }

    /// The price of each of these seats, which are told by their place among those that are wanted and by their zone. `None` if they
    /// have those that the session was opened with.
    pub(super) fn seat_prices(
        &self,
        (now, ask): (Timestamp, &HoldAsk<'_>),
        buy_as: &BuyAs,
        wanted: usize,
        seats: impl ExactSizeIterator<Item = (usize, Zone)>,
    ) -> Result<Option<Arc<[SeatPrice]>>, Refusal> {
        check_named(buy_as, wanted)?;
        let Some(mut pricing) = self.pricing(now, ask, buy_as)? else { return Ok(None) };
        let mut prices = Vec::with_capacity(seats.len());
        for (place, zone) in seats {
            let of = pricing.number_of(buy_as.type_of(place))?;
            prices.push(pricing.price(of, zone, 1)?);
        }
        self.check_room(&prices)?;
        Ok(Some(prices.into()))
    }

    /// The price of one of these places. `None` if it is the one that the session was opened with.
    pub(super) fn place_price(
        &self,
        now: Timestamp,
        ask: &HoldAsk<'_>,
        buy_as: &BuyAs,
        (area, quantity): (u16, u32),
    ) -> Result<Option<SeatPrice>, Refusal> {
        check_named(buy_as, 1)?;
        let Some(mut pricing) = self.pricing(now, ask, buy_as)? else { return Ok(None) };
        let of = pricing.number_of(buy_as.type_of(0))?;
        let price = pricing.price(of, Zone::Area(area), quantity)?;
        self.check_room(slice::from_ref(&price))?;
        Ok(Some(price))
    }

    /// The buyer, if one of these prices is that of an offer that counts what each customer has.
    pub(super) fn limited_buyer(&self, ask: &HoldAsk<'_>, prices: &[SeatPrice]) -> Option<Id> {
        let customer = ask.customer?;
        let offers = self.terms.offering().map_or(&[][..], |offering| &offering.offers);
        let (table, any) = (&self.sale.as_deref()?.table, offers.iter().any(|offer| offer.per_customer.is_some()));
        let is_limited = |price: &SeatPrice| {
            let offer = price.bought_as.as_ref().and_then(|bought_as| bought_as.offer.as_ref());
            offer.and_then(|id| table.offer(id)).is_some_and(|number| offers[number].per_customer.is_some())
        };
        (any && prices.iter().any(is_limited)).then(|| customer.clone())
    }

    fn check_room(&self, prices: &[SeatPrice]) -> Result<(), Refusal> {
        let has_room = self.sale.as_deref().is_none_or(|sale| sale.captured.has_room(prices));
        let full =
            || Refusal::SessionClosed("its holds and sales have as many different prices as one can have".into());
        has_room.then_some(()).ok_or_else(full)
    }

    /// The categories in which all that a wish names is on sale for the caller.
    pub(super) fn on_sale_in(
        &self,
        now: Timestamp,
        ask: &HoldAsk<'_>,
        buy_as: &BuyAs,
    ) -> Result<Option<Categories>, Refusal> {
        let Some(pricing) = self.pricing(now, ask, buy_as)? else { return Ok(None) };
        let mut types = Vec::new();
        for id in buy_as.types() {
            types.push(pricing.number_of(Some(id))?);
        }
        types.sort_unstable();
        types.dedup();
        let types = if types.is_empty() { table::only_first() } else { types };
        let table = &pricing.sale.table;
        if pricing.offering.offers.is_empty() {
            let mut all = table::everywhere(self.terms.layout.categories().len());
            for of in types {
                all.iter_mut().zip(table.priced_in(of)).for_each(|(all, priced)| *all &= priced);
            }
            return Ok(Some(all));
        }
        let open = pricing.offers().filter(|(number, offer)| pricing.admission(*number, offer) == Admission::Open);
        let open: Vec<usize> = open.map(|(number, _)| number).collect();
        Ok(Some(table.sold_in(open.iter().copied(), &types)))
    }

    fn pricing<'a>(
        &'a self,
        now: Timestamp,
        ask: &'a HoldAsk<'a>,
        buy_as: &BuyAs,
    ) -> Result<Option<Pricing<'a>>, Refusal> {
        let unknown = |offer: &Id| Err(Refusal::NotFound(format_smolstr!("offer {offer}")));
        let offers = self.terms.offering().map_or(&[][..], |offering| &offering.offers);
        let takes = |code: &ShownCode| {
            offers.iter().any(|it| admits(ask, it, ask.desk) && it.code_group.as_ref() == Some(&code.group))
        };
        if ask.code.is_some_and(|code| !takes(code)) {
            return Err(Refusal::CodeNotValid);
        }
        let Some(sale) = self.sale.as_deref() else {
            if let Some(of) = buy_as.types().first() {
                return Err(Refusal::NotFound(format_smolstr!("price type {of}")));
            }
            return buy_as.offer().map_or(Ok(None), unknown);
        };
        let offering = self.terms.offering().unwrap_or(&NOTHING);
        let named = match buy_as.offer() {
            None => None,
            Some(id) => match sale.table.offer(id) {
                Some(number) if admits(ask, &offering.offers[number], true) => Some(number),
                // A guest does not learn of offers of the desk, nor of those of codes and attributes that it has not.
                Some(_) | None => return unknown(id),
            },
        };
        Ok(Some(Pricing { session: self, sale, offering, now, ask, named, used: BTreeMap::new(), priced: Vec::new() }))
    }
}

/// What a session without offers offers.
static NOTHING: Offering =
    Offering { price_types: Vec::new(), offers: Vec::new(), counters: Vec::new(), allotments: Vec::new() };

impl Pricing<'_> {
    /// The number of a price type. The first one if none is named.
    fn number_of(&self, named: Option<&Id>) -> Result<usize, Refusal> {
        let Some(id) = named else { return Ok(0) };
        let place = self.offering.price_types.iter().position(|of| of.id == *id);
        place.ok_or_else(|| Refusal::NotFound(format_smolstr!("price type {id}")))
    }

    /// The offers that the caller may buy under.
    fn offers(&self) -> impl Iterator<Item = (usize, &Offer)> + Clone {
        let ask = self.ask;
        let all = self.offering.offers.iter().enumerate();
        let named = self.named;
        all.filter(move |(number, offer)| match named {
            Some(named) => named == *number && admits(ask, offer, true),
            None => admits(ask, offer, false),
        })
    }

    /// Whether an offer sells now.
    fn admission(&self, number: usize, offer: &Offer) -> Admission {
        let is_closed = offer.closed || offer.until.is_some_and(|until| until <= self.now);
        let has_opened = |from: Timestamp| {
            if planted::is("an offer without a latch") { from <= self.now } else { self.sale.is_open(number) }
        };
        match offer.from {
            _ if is_closed => Admission::Closed,
            Some(from) if !has_opened(from) => Admission::Opens(from),
            Some(_) | None => Admission::Open,
        }
    }

    /// Whether the caller buys under the offers that everybody has.
    fn is_anybody(&self) -> bool {
        self.named.is_none() && !self.ask.desk && self.ask.code.is_none() && self.ask.attributes.is_empty()
    }

    /// The price of each of so many of one kind.
    fn price(&mut self, of: usize, zone: Zone, quantity: u32) -> Result<SeatPrice, Refusal> {
        let same = self.priced.iter().find(|(kind, ..)| *kind == (of, zone));
        if let Some((_, price, offer)) = same {
            let (price, offer) = (price.clone(), *offer);
            // What was the cheapest stays so while there is any of it.
            let has_room = offer.is_none_or(|number| self.room(number, &self.offering.offers[number]) >= quantity);
            if has_room {
                if let Some(number) = offer {
                    *self.used.entry(number).or_default() += quantity;
                }
                return Ok(price);
            }
        }
        let (price, offer) = self.first_price(of, zone, quantity)?;
        self.priced.retain(|(kind, ..)| *kind != (of, zone));
        self.priced.push(((of, zone), price.clone(), offer));
        Ok(price)
    }

    /// The cheapest offer that is known to be so, if it sells so many now.
    fn known_cheapest(&self, of: usize, zone: Zone, quantity: u32) -> Option<usize> {
        let may = self.is_anybody() && !planted::is("an offer without a latch");
        let number = self.sale.table.known_cheapest(&self.sale.cheapest, (of, zone), self.now).filter(|_| may)?;
        let offer = &self.offering.offers[number];
        let sells = self.admission(number, offer) == Admission::Open && self.room(number, offer) >= quantity;
        sells.then_some(number)
    }

    /// The price of each of so many of a kind of which none was priced so far, or of which the offer has too few.
    fn first_price(&mut self, of: usize, zone: Zone, quantity: u32) -> Result<(SeatPrice, Option<usize>), Refusal> {
        let table = &self.sale.table;
        let Some(list_price) = table.list_price(of, zone) else {
            let (price_type, place) = (self.type_id(of), self.place_id(zone));
            let instead = self.instead(of, zone);
            return Err(Refusal::NotSoldAs { price_type, place, instead });
        };
        if self.offering.offers.is_empty() {
            return Ok((self.bought(of, None, list_price, list_price), None));
        }
        let changed = |offer: &Offer| offer.change.map_or(list_price, |change| change.of(list_price));
        if let Some(number) = self.known_cheapest(of, zone, quantity) {
            *self.used.entry(number).or_default() += quantity;
            let price = changed(&self.offering.offers[number]);
            return Ok((self.bought(of, Some(number), list_price, price), Some(number)));
        }
        // The cheapest offer with room, by price, and the one with most room of those with too little.
        let mut best: Option<(i64, usize)> = None;
        let mut most: Option<(u32, usize)> = None;
        let mut opens_at: Option<Timestamp> = None;
        // The cheapest one that is open, whether it has room or not.
        let mut cheapest: Option<(i64, usize)> = None;
        // One that would sell if the buyer were known.
        let mut for_customers: Option<&Offer> = None;
        for (number, offer) in self.offers().filter(|(number, _)| table.sells(*number, (of, zone), self.ask.desk)) {
            match self.admission(number, offer) {
                Admission::Closed => continue,
                Admission::Opens(at) => {
                    opens_at = Some(opens_at.map_or(at, |earlier| earlier.min(at)));
                    continue;
                }
                Admission::Open => {}
            }
            let price = changed(offer);
            if cheapest.is_none_or(|(least, _)| price < least) {
                cheapest = Some((price, number));
            }
            if best.is_some_and(|(cheapest, _)| cheapest <= price) {
                continue;
            }
            if offer.per_customer.is_some() && self.ask.customer.is_none() {
                for_customers = for_customers.or(Some(offer));
                continue;
            }
            let room = self.room(number, offer);
            if room >= quantity {
                best = Some((price, number));
            } else if most.is_none_or(|(left, _)| left < room) {
                most = Some((room, number));
            }
        }
        match (best, most) {
            (Some((price, number)), _) => {
                let is_cheapest = cheapest == Some((price, number));
                if is_cheapest && self.is_anybody() {
                    table.note_cheapest(&self.sale.cheapest, (of, zone), (number, self.now));
                }
                *self.used.entry(number).or_default() += quantity;
                Ok((self.bought(of, Some(number), list_price, price), Some(number)))
            }
            (None, _) if for_customers.is_some() => {
                let limited = for_customers.map(|offer| format_smolstr!("offer {}", offer.id)).unwrap_or_default();
                Err(Refusal::CustomerNeeded { limited })
            }
            (None, Some((left, number))) => {
                let of_id = match self.offering.price_types.get(of) {
                    Some(price_type) => price_type.id.clone(),
                    None => self.offering.offers[number].id.clone(),
                };
                Err(Refusal::PriceSoldOut { of: of_id, left, instead: self.instead(of, zone) })
            }
            (None, None) => Err(self.not_on_sale(of, zone, opens_at)),
        }
    }

    /// How many more the offer sells to this cart.
    fn room(&self, number: usize, offer: &Offer) -> u32 {
        let used = |offer: usize| self.used.get(&offer).copied().unwrap_or_default();
        let mut room = u32::MAX;
        let table = &self.sale.table;
        for counter in table.counters(number) {
            let max = u64::from(self.offering.counters[usize::from(*counter)].max);
            let others = self.used.iter().filter(|(offer, _)| table.counters(**offer).contains(counter));
            let now: u32 = others.map(|(_, used)| used).sum();
            let left = max.saturating_sub(self.sale.counted(usize::from(*counter))).saturating_sub(now.into());
            room = room.min(left as u32);
        }
        if let (Some(_), Some(code)) = (&offer.code_group, self.ask.code) {
            let under_codes = |offer: &usize| self.offering.offers[*offer].code_group.is_some();
            let now: u32 = self.used.iter().filter(|(offer, _)| under_codes(offer)).map(|(_, used)| used).sum();
            room = room.min(code.uses.saturating_sub(now));
        }
        if let Some(most) = offer.per_customer {
            let Some(customer) = self.ask.customer else { return 0 };
            let held = if planted::is("a limit per customer in each cart") {
                self.held_under(offer)
            } else {
                self.held_by(customer, offer)
            };
            room = room.min(most.saturating_sub(held).saturating_sub(used(number)));
        }
        if let Some(most) = offer.per_order {
            room = room.min(most.saturating_sub(self.held_under(offer)).saturating_sub(used(number)));
        }
        room
    }

    /// How many the cart holds, or has bought, under an offer.
    fn held_under(&self, offer: &Offer) -> u32 {
        let holds = self.session.book.as_deref().map(|book| &book.holds);
        let of_cart = holds.into_iter().flat_map(|holds| holds.of_cart(self.ask.hold.cart));
        of_cart.map(|share| share.under(&offer.id, &self.sale.captured)).sum()
    }

    /// How many a customer holds, or has bought, under an offer. A cart of the customer that got them when the offer had no such limit is
    /// not among those that are known.
    fn held_by(&self, customer: &Id, offer: &Offer) -> u32 {
        let Some(book) = self.session.book.as_deref() else { return 0 };
        let shares = self.sale.carts_of(customer).flat_map(|cart| book.holds.of_cart(cart));
        shares.map(|share| share.under(&offer.id, &self.sale.captured)).sum()
    }

    fn bought(&self, of: usize, offer: Option<usize>, list_price: i64, price: i64) -> SeatPrice {
        let price_type = self.offering.price_types.get(of);
        let bought_as = BoughtAs {
            terms: self.sale.terms,
            list_price,
            price_type: price_type.map(|of| of.id.clone()),
            offer: offer.map(|number| self.offering.offers[number].id.clone()),
            tax: price_type.and_then(|of| of.tax.clone()),
            code_group: offer.and_then(|number| self.offering.offers[number].code_group.clone()),
        };
        SeatPrice { price, bought_as: Some(Arc::new(bought_as)) }
    }

    fn not_on_sale(&self, of: usize, zone: Zone, opens_at: Option<Timestamp>) -> Refusal {
        let what = match self.offering.price_types.get(of) {
            Some(price_type) => format_smolstr!("{} in {}", price_type.id, self.place_id(zone)),
            None => self.place_id(zone).as_str().into(),
        };
        let reason = match opens_at {
            Some(at) => format_smolstr!("{what} is not on sale yet; it opens at {}", self.local(at)),
            None => format_smolstr!("{what} is not on sale{}", self.instead(of, zone)),
        };
        Refusal::NotOnSale { reason, opens_at }
    }

    /// An instant by the clocks of the session's place.
    fn local(&self, at: Timestamp) -> SmolStr {
        let zone = self.session.terms.zone.name.as_deref().and_then(calendar::Zone::new);
        let local = zone.and_then(|zone| Some(format_smolstr!("{} {zone}", zone.civil(at)?)));
        local.unwrap_or_else(|| instant(&at))
    }

    /// The other price types that are on sale there now, in words that follow a sentence. Empty if there are none.
    fn instead(&self, of: usize, zone: Zone) -> SmolStr {
        let table = &self.sale.table;
        let mut named: Vec<SmolStr> = Vec::new();
        for (number, other) in self.offering.price_types.iter().enumerate() {
            if number == of || named.len() == INSTEAD_MAX {
                continue;
            }
            let Some(list_price) = table.list_price(number, zone) else { continue };
            let open = self.offers().filter(|(offer, row)| {
                table.sells(*offer, (number, zone), self.ask.desk)
                    && self.admission(*offer, row) == Admission::Open
                    && self.room(*offer, row) > 0
            });
            let price = if self.offering.offers.is_empty() {
                Some(list_price)
            } else {
                open.map(|(_, row)| row.change.map_or(list_price, |change| change.of(list_price))).min()
            };
            let currency = self.session.terms.currency;
            named.extend(price.map(|price| format_smolstr!("{} for {price} minor units of {currency:?}", other.id)));
        }
        if named.is_empty() { SmolStr::default() } else { format_smolstr!("; {}", named.join(", ")) }
    }

    fn type_id(&self, of: usize) -> Id {
        self.offering.price_types[of].id.clone()
    }

    fn place_id(&self, zone: Zone) -> Id {
        match zone {
            Zone::Category(ordinal) | Zone::Kept { category: ordinal, .. } => {
                self.session.terms.layout.categories()[usize::from(ordinal)].clone()
            }
            Zone::Area(number) => self.session.areas()[usize::from(number)].id.clone(),
        }
    }
}

/// Whether the caller may buy under an offer at all. The desk sees who is entitled to the offer that it names.
pub(super) fn admits(ask: &HoldAsk<'_>, offer: &Offer, is_named: bool) -> bool {
    let group = ask.code.map(|code| &code.group);
    let has_attribute = || offer.admits_one_of(ask.attributes) || planted::is("attributes that nobody looks at");
    (ask.desk || !offer.desk)
        && offer.code_group.as_ref().is_none_or(|wanted| group == Some(wanted))
        && ((ask.desk && is_named) || has_attribute())
}

/// Checks that a wish names no price type, one for all, or one for each.
fn check_named(buy_as: &BuyAs, count: usize) -> Result<(), Refusal> {
    match buy_as.types().len() {
        named if named <= 1 || named == count => Ok(()),
        named => bad(format_smolstr!("{named} price types are named for {count}; name one for all, or one for each")),
    }
}
