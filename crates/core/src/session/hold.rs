//! Decisions of a session about holds.

use alloc::{sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{
    Session,
    areas::PlacesDecision,
    kept::accessible_beside,
    pricing::admits,
    share::{PriceNumber, Share},
    table::{self, Zone},
};
use crate::{
    ask::Reply,
    best,
    command::{BestWish, BuyAs, Limits, Offer, Want},
    event::{Event, HoldEvent, SessionEvent},
    fairness::{Charge, Supply},
    holds::{HoldAsk, HoldIndex, Holds},
    id::{Entity, HoldId, OrderId},
    inventory::Inventory,
    money::Currency,
    planted,
    portion::{Content, Portion, PricedSeat, SeatPrice},
    refusal::{Refusal, TakenSeat},
    seat::{Seat, SeatSet, SeatState},
    terms::unfit,
    time::Timestamp,
};

impl Inventory for Session {
    fn holds(&self) -> Option<&dyn HoldIndex> {
        let book = self.book.as_deref()?;
        Some(&book.holds)
    }

    fn hold_event(&self, event: HoldEvent) -> Event {
        Event::Session(SessionEvent::Hold(event))
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        self.extra(|extras| extras.hold_ttl_ms)
    }

    fn sale_terms(&self) -> (Option<Currency>, Limits) {
        (Some(self.terms.currency), self.extra(|extras| extras.limits.clone()))
    }

    fn zone(&self) -> Option<SmolStr> {
        self.terms.zone.name.clone()
    }

    fn content(&self, hold: HoldId) -> Option<Content> {
        self.live_share(hold).map(|share| self.priced(share))
    }

    fn held(&self, hold: HoldId) -> Option<Portion> {
        self.live_share(hold).map(|share| self.portion(share))
    }

    fn sold(&self, hold: HoldId) -> Option<Portion> {
        let sale = self.book.as_deref()?.holds.sale(hold)?;
        Some(self.portion(&sale.what))
    }

    fn is_counted(&self, ask: &HoldAsk<'_>) -> bool {
        let has_places = |share: &Share| matches!(share, Share::Places { .. });
        matches!(ask.want, Want::Places { .. }) && self.live_share(ask.hold).is_none_or(has_places)
    }

    fn decide_new(&self, now: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<Event, Reply> {
        match self.decide_share(now, ask, want_hash) {
            Ok(PlacesDecision::Held(event)) => Ok(Event::Session(event)),
            Ok(PlacesDecision::Repriced(SeatPrice { price, bought_as })) => {
                Err(Reply::Repriced { hold: ask.hold, revision: ask.revision, price, bought_as })
            }
            Err(refusal) => Err(ask.refused(refusal)),
        }
    }

    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event> {
        let event = match (self.live_share(hold)?, left) {
            (Share::Seats(has), left) => {
                let mut seats = self.seats(has.indexes());
                match left {
                    None => {}
                    Some(Portion::Seats(left)) => {
                        seats.retain(|seat| left.as_slice().binary_search(seat).is_err());
                    }
                    Some(left) => panic!("{left:?} is to be left of {hold:?}"),
                }
                SessionEvent::SeatsReleased { hold, revision, seats, remember, expired: false, freed_at: None }
            }
            (Share::Places { quantity: has, .. }, left) => {
                let left = match left {
                    None => 0,
                    Some(Portion::Places { quantity, .. }) => *quantity.min(has),
                    Some(left) => panic!("{left:?} is to be left of {hold:?}"),
                };
                SessionEvent::PlacesReleased { hold, revision, left, remember, expired: false, freed_at: None }
            }
        };
        Some(Event::Session(event))
    }

    fn sale(&self, hold: HoldId, portion: &Portion, order: OrderId, at: Timestamp) -> Event {
        Event::Session(match portion {
            Portion::Seats(seats) => {
                let seats = seats.as_slice().to_vec();
                SessionEvent::SeatsSold { hold, seats, order, at, freed_at: None }
            }
            Portion::Places { quantity, .. } => {
                SessionEvent::PlacesSold { hold, quantity: *quantity, at, freed_at: None }
            }
            Portion::Units(_) | Portion::Slot { .. } | Portion::Quota { .. } | Portion::Uses(_) => {
                panic!("{portion:?} is sold of {hold:?}")
            }
        })
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        let seats = match self.book.as_deref()?.holds.to_refund(hold)? {
            Share::Seats(seats) => self.seats(seats.indexes()),
            Share::Places { .. } => Vec::new(),
        };
        Some(Event::Session(SessionEvent::SaleRefunded { hold, seats }))
    }

    fn unwanted(&self, after: Option<HoldId>, max: usize) -> Vec<HoldId> {
        let canceled = self.book.as_deref().filter(|book| book.canceled.is_some());
        canceled.map_or_else(Vec::new, |book| book.holds.taken(after, max))
    }
}

impl Session {
    /// The content of a live hold.
    pub(super) fn live_share(&self, hold: HoldId) -> Option<&Share> {
        self.book.as_deref()?.holds.live(hold).map(|live| &live.what)
    }

    /// Decides on a new hold, or on another number of places for a live one.
    fn decide_share(&self, at: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<PlacesDecision, Refusal> {
        if let Some(reason) = self.canceled() {
            return Err(Refusal::SessionClosed(format_smolstr!("it is canceled: {reason}")));
        }
        if at >= self.terms.ends_at {
            return Err(Refusal::SessionClosed("it is over".into()));
        }
        if at >= self.terms.starts_at && !self.sells_late(ask) {
            return Err(Refusal::SessionClosed("it has begun".into()));
        }
        let seats = match ask.want {
            Want::Seats { seats, best_effort, .. } => self.named(ask, seats.as_slice(), *best_effort)?,
            Want::Best(wish) => self.best(at, ask, wish)?,
            Want::Places { area, quantity, buy_as } => {
                return self.decide_places((at, ask), want_hash, (area, *quantity, buy_as));
            }
            Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => {
                return Err(unfit("session", &self.terms.id, ask.want));
            }
        };
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        let charge = self.charge(ask, self.seats_supply(), seats.len() as u32)?;
        let prices = self.prices_of(at, ask, &seats)?;
        self.check_party(ask, &seats)?;
        let customer = self.limited_buyer(ask, prices.as_deref().unwrap_or_default());
        let held = SessionEvent::SeatsHeld { hold, revision, want_hash, seats, deadline, charge, prices, customer };
        Ok(PlacesDecision::Held(held))
    }

    /// Whether this ask may have seats or places after the begin.
    fn sells_late(&self, ask: &HoldAsk<'_>) -> bool {
        ask.desk || self.extra(|extras| extras.sells_after_begin) || planted::is("a session that has begun still sells")
    }

    /// The account that a hold of so many is charged to.
    pub(super) fn charge(&self, ask: &HoldAsk<'_>, supply: Supply, wanted: u32) -> Result<Option<Charge>, Refusal> {
        let entity = || Entity::Session(self.terms.id.clone());
        match self.book.as_deref() {
            Some(book) => book.holds.charge(ask, entity, (supply, wanted)),
            None => Holds::<Share>::default().charge(ask, entity, (supply, wanted)),
        }
    }

    fn seats_supply(&self) -> Supply {
        let all = u64::from(self.terms.layout.seats());
        let taken = self.book.as_deref().map_or(0, |book| book.counts.taken()) + u64::from(self.kept_free());
        Supply { number: 0, size: Some((all, all - taken)) }
    }

    /// A share with its prices.
    fn priced(&self, share: &Share) -> Content {
        let layout = &*self.terms.layout;
        match share {
            Share::Seats(seats) => Content::Seats(match seats.prices() {
                None => {
                    let prices = self.opened_prices();
                    let price = |index: u32| prices[usize::from(layout.category(index))];
                    let priced = |index: &u32| PricedSeat::new(layout.seat(*index), price(*index));
                    seats.indexes().iter().map(priced).collect()
                }
                Some(prices) => {
                    let priced = |(index, price): (&u32, PriceNumber)| {
                        let SeatPrice { price, bought_as } = self.captured(price).clone();
                        PricedSeat { seat: layout.seat(*index), price, bought_as }
                    };
                    seats.indexes().iter().zip(prices).map(priced).collect()
                }
            }),
            Share::Places { area, quantity, price } => {
                let number = usize::from(*area);
                let SeatPrice { price, bought_as } =
                    self.place_price_or_opened(number, price.map(|price| self.captured(price)));
                Content::Places { area: self.areas()[number].id.clone(), quantity: *quantity, price, bought_as }
            }
        }
    }

    /// The captured price with a number.
    pub(super) fn captured(&self, number: PriceNumber) -> &SeatPrice {
        self.sale.as_deref().expect("only a session with offers captures prices").captured.price(number)
    }

    /// The prices that it was opened with, by category ordinal.
    fn opened_prices(&self) -> &[i64] {
        if planted::is("a price taken from the terms of now at a repeat") {
            return &self.terms.prices;
        }
        let opened_with = self.sale.as_deref().and_then(|sale| sale.opened_with.as_deref());
        opened_with.map_or(&self.terms.prices, |opened| &opened.prices)
    }

    /// The captured price of a place of an area, or else the one that the session was opened with.
    pub(super) fn place_price_or_opened(&self, number: usize, price: Option<&SeatPrice>) -> SeatPrice {
        let opened = || {
            let opened_with = self.sale.as_deref().and_then(|sale| sale.opened_with.as_deref());
            let areas = opened_with
                .map_or(self.areas(), |opened| opened.extras.as_deref().map_or(&[][..], |extras| &extras.areas));
            SeatPrice { price: areas[number].price.amount, bought_as: None }
        };
        price.cloned().unwrap_or_else(opened)
    }

    /// The price of each of the seats that a hold gets.
    fn prices_of(
        &self,
        now: Timestamp,
        ask: &HoldAsk<'_>,
        seats: &[Seat],
    ) -> Result<Option<Arc<[SeatPrice]>>, Refusal> {
        let named = ask.want.buy_as();
        if self.sale.is_none() && named.is_none() {
            return Ok(None);
        }
        let nothing = BuyAs::default();
        let buy_as = named.unwrap_or(&nothing);
        let layout = &*self.terms.layout;
        let zone = |seat: &Seat| {
            let index = layout.index(*seat).expect("the seats are of the layout");
            let category = layout.category(index);
            match self.allotment_of(index) {
                Some(allotment) if !self.is_companion(index) => Zone::Kept { category, allotment },
                Some(_) | None => Zone::Category(category),
            }
        };
        match ask.want {
            // With `best_effort` some may be left out, and the others keep their types.
            Want::Seats { seats: named, .. } => {
                let all = named.as_slice();
                let place = |seat: &Seat| all.binary_search(seat).expect("a part of the wish");
                let seats = seats.iter().map(|seat| (place(seat), zone(seat)));
                self.seat_prices((now, ask), buy_as, all.len(), seats)
            }
            _ => {
                let all = seats.iter().map(zone).enumerate();
                self.seat_prices((now, ask), buy_as, seats.len(), all)
            }
        }
    }

    /// A share without prices.
    pub(super) fn portion(&self, share: &Share) -> Portion {
        match share {
            Share::Seats(seats) => Portion::Seats(
                SeatSet::of_any_number(self.seats(seats.indexes())).expect("a hold has seats, none twice"),
            ),
            Share::Places { area, quantity, .. } => {
                Portion::Places { area: self.areas()[usize::from(*area)].id.clone(), quantity: *quantity }
            }
        }
    }

    fn seats(&self, indexes: &[u32]) -> Vec<Seat> {
        indexes.iter().map(|index| self.terms.layout.seat(*index)).collect()
    }

    /// The named seats if all are free, or those of them that are free with `best_effort`. Looks at all of them, so that the refusal
    /// names every seat that is in the way. The desk gets seats of allotments, too, and who has a code or an attribute those that it opens.
    fn named(&self, ask: &HoldAsk<'_>, seats: &[Seat], best_effort: bool) -> Result<Vec<Seat>, Refusal> {
        let all = ask.desk || planted::is("a guest gets seats of an allotment");
        let opened = self.opened_by_keys(ask);
        let layout = &*self.terms.layout;
        let may_have = |index: u32| {
            all || self.is_companion(index) || self.allotment_of(index).is_some_and(|of| opened.contains(&of))
        };
        let unknown = |seats: &[Seat]| seats.iter().copied().filter(|seat| layout.index(*seat).is_none()).collect();
        let mut free = Vec::with_capacity(seats.len());
        let mut taken = Vec::new();
        for &seat in seats {
            let Some(index) = layout.index(seat) else {
                return Err(Refusal::NoSuchSeat(unknown(seats)));
            };
            match if may_have(index) { self.state_for_desk(index) } else { self.state(index) } {
                SeatState::Free => free.push(seat),
                state @ (SeatState::Held | SeatState::Sold | SeatState::Blocked) => {
                    taken.push(TakenSeat { seat, state })
                }
            }
        }
        if !all {
            let alone = self.companions_alone(&free);
            free.retain(|seat| !alone.contains(seat));
            taken.extend(alone.into_iter().map(|seat| TakenSeat { seat, state: SeatState::Blocked }));
            taken.sort_unstable_by_key(|taken| taken.seat);
        }
        if taken.is_empty() || (best_effort && !free.is_empty()) {
            return Ok(free);
        }
        let blocked = taken.iter().all(|taken| taken.state == SeatState::Blocked);
        Err(if blocked { Refusal::SeatBlocked(taken) } else { Refusal::SeatsTaken(taken) })
    }

    /// Free seats that fit a wish best and are on sale for the caller. A wish for accessible seats may get the seats of companions beside
    /// them.
    fn best(&self, now: Timestamp, ask: &HoldAsk<'_>, wish: &BestWish) -> Result<Vec<Seat>, Refusal> {
        let companions = self.companions().filter(|_| wish.accessible > 0 && wish.accessible < wish.count);
        let companions: Vec<u16> = companions.collect();
        if !companions.is_empty()
            && let Ok(seats) = self.best_among(now, ask, wish, &companions)
            && self.companions_alone(&seats).is_empty()
        {
            return Ok(seats);
        }
        self.best_among(now, ask, wish, &[])
    }

    /// Free seats that fit a wish best and are on sale for the caller, among those of everybody and those kept for these allotments.
    fn best_among(
        &self,
        now: Timestamp,
        ask: &HoldAsk<'_>,
        wish: &BestWish,
        also: &[u16],
    ) -> Result<Vec<Seat>, Refusal> {
        let layout = &*self.terms.layout;
        let free_word = |number: u32| self.free_word_for(ask, wish, also, number);
        let indexes = match self.on_sale_in(now, ask, &wish.buy_as)? {
            None => best::choose(layout, free_word, wish)?,
            Some(categories) => {
                let is_sold = |index: u32| index < layout.seats() && table::has(&categories, layout.category(index));
                let sold =
                    |number: u32| (0..64).filter(|bit| is_sold(number * 64 + bit)).fold(0, |word, bit| word | 1 << bit);
                let free = |number: u32| match free_word(number) {
                    0 => 0,
                    word => word & sold(number),
                };
                match best::choose(layout, free, wish) {
                    // Nothing of it is on sale for the caller, so it is not the seats that are missing.
                    Err(Refusal::NoAdjacentSeats { free: 0, .. }) => return Err(self.why_none(now, ask, wish)),
                    chosen => chosen?,
                }
            }
        };
        Ok(indexes.into_iter().map(|index| layout.seat(index)).collect())
    }

    /// The allotments for companions, by number.
    fn companions(&self) -> impl Iterator<Item = u16> {
        let all = self.terms.offering().map_or(&[][..], |offering| &offering.allotments);
        (0..).zip(all).filter(|(_, allotment)| allotment.companions).map(|(number, _)| number)
    }

    /// Whether a seat is kept for somebody who accompanies a wheelchair user.
    fn is_companion(&self, index: u32) -> bool {
        let of = self.allotment_of(index).and_then(|of| self.terms.offering()?.allotments.get(usize::from(of)));
        of.is_some_and(|of| of.companions)
    }

    /// The companions' seats among these that have no accessible seat of their own beside them among these.
    fn companions_alone(&self, seats: &[Seat]) -> Vec<Seat> {
        if planted::is("a companion's seat alone") {
            return Vec::new();
        }
        let layout = &*self.terms.layout;
        let all = super::indexes(layout, seats);
        // From left to right, each takes the accessible seat at its left, which no later one could take.
        let mut accompanied: Vec<u32> = Vec::new();
        let mut is_alone = |index: &u32| {
            let own = accessible_beside(layout, *index).find(|it| all.contains(it) && !accompanied.contains(it));
            accompanied.extend(own);
            own.is_none()
        };
        let alone = all.iter().copied().filter(|index| self.is_companion(*index) && is_alone(index));
        alone.map(|index| layout.seat(index)).collect()
    }

    /// The allotments that the caller's code and attributes open, by number: those of the offers that ask for them.
    fn opened_by_keys(&self, ask: &HoldAsk<'_>) -> Vec<u16> {
        let Some(sale) = self.sale.as_deref().filter(|_| ask.code.is_some() || !ask.attributes.is_empty()) else {
            return Vec::new();
        };
        let offers = self.terms.offering().map_or(&[][..], |offering| &offering.offers);
        let has_key = |offer: &&Offer| offer.code_group.is_some() || !offer.attributes.is_empty();
        let opens = |offer: &&Offer| has_key(offer) && admits(ask, offer, false);
        let numbers = offers.iter().enumerate().filter(|(_, offer)| opens(offer)).map(|(number, _)| number);
        numbers.flat_map(|number| sale.table.allotments(number)).copied().collect()
    }

    /// 64 seats, one that is free for this wish as a set bit. Seats of allotments are only for one that names an offer of their own, and
    /// for a buyer who has a code or an attribute that opens them. Those of `also` are, too.
    fn free_word_for(&self, ask: &HoldAsk<'_>, wish: &BestWish, also: &[u16], number: u32) -> u64 {
        let sale = self.sale.as_deref();
        let allotments = wish.buy_as.offer().and_then(|id| {
            let table = &sale?.table;
            Some(table.allotments(table.offer(id)?)).filter(|allotments| !allotments.is_empty())
        });
        match (sale, allotments) {
            (Some(sale), Some(allotments)) => self.free_word_for_desk(number) & sale.kept.word_of(number, allotments),
            (Some(sale), None) if sale.kept.word(number) != 0 => {
                let mut opened = also.to_vec();
                if wish.buy_as.offer().is_none() {
                    opened.extend(self.opened_by_keys(ask));
                }
                self.free_word(number) | (self.free_word_for_desk(number) & sale.kept.word_of(number, &opened))
            }
            _ => self.free_word(number),
        }
    }

    /// The refusal of a wish for the best seats that no offer sells any seat for.
    fn why_none(&self, now: Timestamp, ask: &HoldAsk<'_>, wish: &BestWish) -> Refusal {
        match best::choose(&self.terms.layout, |number| self.free_word_for(ask, wish, &[], number), wish) {
            Err(refusal) => refusal,
            Ok(indexes) => {
                let seats: Vec<Seat> = indexes.into_iter().map(|index| self.terms.layout.seat(index)).collect();
                let none = || Refusal::NoAdjacentSeats { count: wish.count, free: 0 };
                self.prices_of(now, ask, &seats).err().unwrap_or_else(none)
            }
        }
    }
}
