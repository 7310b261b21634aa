//! A session, which is one title at one time in one hall, and the seats and places that each hold has.
//!
//! [`Session::apply`] writes, with `book` and `sale`. `hold`, `party`, `pricing`, `block`, `areas` and `change` decide what may happen.
//! `view` shows the session, and `touched` the change by a turn.
//! While everything is free and nothing is remembered, a session has only its terms.

mod areas;
mod block;
mod book;
mod change;
mod difference;
mod hold;
mod kept;
mod party;
mod pricing;
mod sale;
mod share;
mod table;
mod touched;
mod view;

#[cfg(test)]
mod tests;

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::slice;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

pub use areas::{AREA_PLACES_MAX, AREAS_MAX};
pub(crate) use change::check_terms;
pub use difference::differences;
pub(crate) use difference::exists_differently;
pub use sale::TERMS_CHANGES_MAX;
pub use touched::{Changed, Touched};
pub(crate) use view::opened_view;

use crate::{
    answer::SaleMark,
    ask::{Opening, VenueZone},
    changes::Changes,
    command::{Area, NewSession, Offering, SessionExtras},
    event::SessionEvent,
    holds::Hold,
    id::{HoldId, Id, Request},
    layout::Layout,
    money::{Currency, Money},
    planted,
    portion::SeatPrice,
    refusal::Refusal,
    seat::{Seat, SeatState},
    time::Timestamp,
};

use book::Book;
use sale::Sale;
use share::{PriceNumber, SeatList, Share};

/// The state of a session. It is serialized without its layout, because snapshots write each layout once and set it again.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Session {
    #[n(0)]
    version: u64,
    #[n(1)]
    terms: Arc<SessionTerms>,
    #[n(2)]
    book: Option<Box<Book>>,
    /// `None` while the terms are those of the opening, with one price a category.
    #[n(3)]
    sale: Option<Box<Sale>>,
}

/// The terms as they are now. Prices and extras may change, the zone follows the venue, and the rest stays.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct SessionTerms {
    #[n(0)]
    venue: Id,
    #[n(1)]
    id: Id,
    #[n(2)]
    hall: Id,
    #[n(3)]
    title: Id,
    #[n(4)]
    starts_at: Timestamp,
    #[n(5)]
    ends_at: Timestamp,
    #[n(6)]
    currency: Currency,
    /// In minor units, by category ordinal.
    #[n(8)]
    prices: Box<[i64]>,
    #[n(7)]
    zone: VenueZone,
    /// `None` if all have their defaults, as most sessions have them.
    #[n(9)]
    extras: Option<Box<SessionExtras>>,
    #[stored(skip = Layout::unset)]
    layout: Arc<Layout>,
}

impl SessionTerms {
    fn areas(&self) -> &[Area] {
        self.extras.as_deref().map_or(&[], |extras| &extras.areas)
    }

    /// `None` if there is one price a category, on sale for everybody.
    fn offering(&self) -> Option<&Offering> {
        self.extras.as_deref()?.offering.as_deref()
    }
}

impl Session {
    /// A session that has just been opened.
    ///
    /// # Panics
    /// If it does not have one price for each category of its layout, or has nothing to sell. Its venue checks that.
    pub fn opened(opening: &Opening) -> Session {
        let Opening { venue, session, layout, zone } = opening;
        let named: Vec<&Id> = session.prices.iter().map(|(category, _)| category).collect();
        let categories: Vec<&Id> = layout.categories().iter().collect();
        assert_eq!(named, categories, "session {} has not one price a category", session.id);
        let prices = session.prices.iter().map(|(_, price)| price);
        let mut all = prices.chain(session.areas.iter().map(|area| &area.price));
        let currency = all.next().unwrap_or_else(|| panic!("session {} has nothing to sell", session.id)).currency;
        assert!(all.all(|price| price.currency == currency), "session {} has two currencies", session.id);
        let extras = Some(&session.extras).filter(|extras| **extras != SessionExtras::default());
        let terms = SessionTerms {
            venue: venue.clone(),
            id: session.id.clone(),
            hall: session.hall.clone(),
            title: session.title.clone(),
            starts_at: session.starts_at,
            ends_at: session.ends_at,
            currency,
            prices: session.prices.iter().map(|(_, price)| price.amount).collect(),
            zone: zone.clone(),
            extras: extras.cloned().map(Box::new),
            layout: Arc::clone(layout),
        };
        let sale = Sale::opened(&terms);
        Session { version: 1, terms: Arc::new(terms), book: None, sale }
    }

    /// The content that it was opened with.
    pub(crate) fn opening(&self) -> Opening {
        let terms = &*self.terms;
        let mut session = self.current();
        let opened_with = self.sale.as_deref().and_then(|sale| sale.opened_with.as_deref());
        if let Some(opened) = opened_with.filter(|_| !planted::is("an opening compared with changed terms")) {
            session.prices = self.named_prices(&opened.prices);
            session.extras = opened.extras.as_deref().cloned().unwrap_or_default();
        }
        Opening { venue: terms.venue.clone(), session, layout: Arc::clone(&terms.layout), zone: terms.zone.clone() }
    }

    /// The session with its terms of now.
    pub(crate) fn current(&self) -> NewSession {
        let terms = &*self.terms;
        NewSession {
            id: terms.id.clone(),
            hall: terms.hall.clone(),
            title: terms.title.clone(),
            starts_at: terms.starts_at,
            ends_at: terms.ends_at,
            prices: self.named_prices(&terms.prices),
            extras: self.extra(SessionExtras::clone),
        }
    }

    /// Whether it was opened with this content. The zone does not count, because the venue's may have changed since.
    pub(crate) fn is_opened_with(&self, opening: &Opening) -> bool {
        let own = self.opening();
        (&own.venue, &own.session, &own.layout) == (&opening.venue, &opening.session, &opening.layout)
    }

    /// The refusal of an opening that it is not opened with, which says both.
    pub(crate) fn opened_differently(&self, opening: &Opening) -> Refusal {
        let own = self.opening();
        let mut found = Vec::new();
        if own.venue != opening.venue {
            found.push(format_smolstr!("its venue is {}, not {}", own.venue, opening.venue));
        }
        found.extend(differences(&own.session, &opening.session));
        if own.layout != opening.layout {
            let (own, other) = (own.layout.seats(), opening.layout.seats());
            found.push(format_smolstr!("its layout has {own} seats, and the hall now another layout of {other} seats"));
        }
        exists_differently(&own.session.id, &found)
    }

    /// Takes a zone that its venue sends. `None` if it knows this one, or a newer one.
    pub(crate) fn decide_zone(&self, zone: VenueZone) -> Option<SessionEvent> {
        let known = self.terms.zone.version >= zone.version && !planted::is("an old zone believed");
        (!known).then_some(SessionEvent::ZoneSet(zone))
    }

    /// Prices by category ordinal with the names of the categories.
    fn named_prices(&self, prices: &[i64]) -> Vec<(Id, Money)> {
        let currency = self.terms.currency;
        let price = |amount: &i64| Money { amount: *amount, currency };
        self.terms.layout.categories().iter().cloned().zip(prices.iter().map(price)).collect()
    }

    fn areas(&self) -> &[Area] {
        self.terms.areas()
    }

    /// One of its extras.
    fn extra<T>(&self, which: impl FnOnce(&SessionExtras) -> T) -> T {
        match self.terms.extras.as_deref() {
            Some(extras) => which(extras),
            None => which(&SessionExtras::default()),
        }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its seats.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.terms.layout
    }

    /// Sets the layout after reading, or an equal one that is shared.
    pub(crate) fn set_layout(&mut self, layout: Arc<Layout>) {
        Arc::make_mut(&mut self.terms).layout = layout;
    }

    /// The reason of the cancellation, if it is canceled.
    pub fn canceled(&self) -> Option<&str> {
        self.book.as_deref()?.canceled.as_deref()
    }

    /// The venue, if it does not know yet that the session is canceled.
    pub(crate) fn owes_vacating(&self) -> Option<&Id> {
        let book = self.book.as_deref()?;
        (book.canceled.is_some() && !book.vacated).then_some(&self.terms.venue)
    }

    /// The venue with what it is to be told of the sale, if it does not know that yet.
    pub(crate) fn owes_sale(&self) -> Option<(&Id, SaleMark)> {
        self.owes_sale_of()?;
        Some((&self.terms.venue, self.sale_mark()?))
    }

    /// The version of the sale that its venue is to be told of. It is asked with every input, and a mark looks at every offer.
    pub(crate) fn owes_sale_of(&self) -> Option<u64> {
        let sale = self.sale.as_deref()?;
        (sale.told < sale.version && !planted::is("a sale that no venue hears of")).then_some(sale.version)
    }

    /// The venue knows the sale as of this version.
    pub(crate) fn decide_sale_told(&self, version: u64) -> Option<SessionEvent> {
        let sale = self.sale.as_deref()?;
        (sale.told < version && version <= sale.version).then_some(SessionEvent::SaleTold(version))
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event breaks a promise.
    pub fn apply(&mut self, event: &SessionEvent) {
        self.version += 1;
        if let SessionEvent::ZoneSet(zone) = event {
            Arc::make_mut(&mut self.terms).zone.clone_from(zone);
            return;
        }
        if let SessionEvent::OffersOpened(offers) = event {
            return self.sale.as_mut().expect("a session with offers").open(offers, &self.terms, self.version);
        }
        if let SessionEvent::AllotmentsReleased(ids) = event {
            let sale = self.sale.as_mut().expect("a session with allotments");
            return sale.release(ids, &self.terms, self.version, self.book.as_deref());
        }
        if let SessionEvent::SaleTold(version) = event {
            self.sale.as_mut().expect("a session with a sale").told = *version;
            return;
        }
        if let SessionEvent::Changed { request, at, prices, extras, what } = event {
            return self.change(*request, (*at, what), (prices, extras));
        }
        let hold = sale::changes_hold(event).filter(|_| self.sale.is_some());
        self.count(hold, false);
        self.write(event);
        self.count(hold, true);
        self.know_buyer(hold, event);
        if let (Some(sale), SessionEvent::SeatsBlocked { .. } | SessionEvent::SeatsUnblocked { .. }) =
            (self.sale.as_deref_mut(), event)
        {
            sale.count_kept(&self.terms, self.book.as_deref());
        }
    }

    /// Writes other terms. What is held keeps its own.
    fn change(
        &mut self,
        request: Request,
        (at, what): (Timestamp, &[SmolStr]),
        (prices, extras): (&[i64], &SessionExtras),
    ) {
        let before = Arc::clone(&self.terms);
        let terms = Arc::make_mut(&mut self.terms);
        terms.prices = prices.into();
        terms.extras = Some(extras).filter(|extras| **extras != SessionExtras::default()).cloned().map(Box::new);
        let book = self.book.get_or_insert_default();
        book.open(self.terms.areas().len());
        book.changes.remember(request, self.version, ());
        Sale::change(&mut self.sale, (&before, &self.terms), (at, what, self.version), self.book.as_deref());
    }

    /// Writes who has what is limited per customer, for as long as anything of the cart is here.
    fn know_buyer(&mut self, hold: Option<HoldId>, event: &SessionEvent) {
        let (Some(hold), Some(sale)) = (hold, self.sale.as_deref_mut()) else { return };
        match event {
            SessionEvent::SeatsHeld { customer, .. } | SessionEvent::PlacesHeld { customer, .. } => {
                customer.iter().for_each(|customer| sale.bought_by(hold.cart, customer));
            }
            _ => {
                let has_any = self.book.as_deref().is_some_and(|book| book.holds.of_cart(hold.cart).next().is_some());
                if !has_any {
                    sale.has_nothing(hold.cart);
                }
            }
        }
    }

    /// Counts what a hold or sale takes of the counters, before and after it changes.
    fn count(&mut self, hold: Option<HoldId>, is_taken: bool) {
        let (Some(hold), Some(book), Some(sale)) = (hold, self.book.as_deref(), self.sale.as_deref_mut()) else {
            return;
        };
        let Some(share) = book.holds.to_refund(hold) else { return };
        sale.count_share(share, is_taken);
    }

    fn write(&mut self, event: &SessionEvent) {
        let terms = Arc::clone(&self.terms);
        let layout = &*terms.layout;
        let areas = terms.extras.as_deref().map_or(&[][..], |extras| &extras.areas);
        let book = self.book.get_or_insert_default();
        book.open(areas.len());
        match event {
            SessionEvent::Opened(opening) => panic!("session {} is opened twice", opening.session.id),
            SessionEvent::ZoneSet(_)
            | SessionEvent::Changed { .. }
            | SessionEvent::OffersOpened(_)
            | SessionEvent::AllotmentsReleased(_)
            | SessionEvent::SaleTold(_) => {
                unreachable!("it concerns no seat and was written above")
            }
            SessionEvent::SeatsHeld { hold, revision, want_hash, seats, deadline, charge, prices, customer: _ } => {
                let numbers = prices.as_deref().map(|prices| {
                    assert_eq!(prices.len(), seats.len(), "{hold:?} has not a price a seat");
                    numbered(&mut self.sale, prices)
                });
                let share = Share::Seats(SeatList::new(index_of(layout, seats), numbers.as_deref()));
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, share);
                book.hold(*hold, (live, charge.as_ref()), layout.seats(), areas);
            }
            SessionEvent::PlacesHeld {
                hold,
                revision,
                want_hash,
                area,
                quantity,
                deadline,
                charge,
                price,
                customer: _,
            } => {
                let price = price.as_ref().map(|price| numbered(&mut self.sale, slice::from_ref(price))[0]);
                let share = Share::Places { area: area_number(areas, area), quantity: *quantity, price };
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, share);
                book.hold(*hold, (live, charge.as_ref()), layout.seats(), areas);
            }
            SessionEvent::SeatsReleased { hold, revision, seats, remember, freed_at, expired: _ } => {
                book.release_seats(*hold, *revision, &indexes(layout, seats), (*remember, *freed_at));
            }
            SessionEvent::PlacesReleased { hold, revision, left, remember, freed_at, expired: _ } => {
                book.release_places(*hold, *revision, *left, (*remember, *freed_at));
            }
            SessionEvent::SeatsSold { hold, seats, order, at, freed_at } => {
                assert_eq!(order.cart(), hold.cart, "a sale of {hold:?} to another cart's order");
                book.sell_seats(*hold, (*at, *freed_at), self.version, &indexes(layout, seats), layout.seats());
            }
            SessionEvent::PlacesSold { hold, quantity, at, freed_at } => {
                book.sell_places(*hold, (*at, *freed_at), self.version, *quantity);
            }
            SessionEvent::SaleRefunded { hold, seats } => book.refund(*hold, &indexes(layout, seats)),
            SessionEvent::Hold(event) => book.holds.apply(event),
            SessionEvent::Canceled { reason, request } => {
                let before = book.canceled.replace(reason.clone());
                assert!(before.is_none(), "session {} is canceled twice", terms.id);
                book.changes.remember(*request, self.version, ());
            }
            SessionEvent::Vacated => {
                assert!(book.canceled.is_some(), "session {} leaves its hall and is not canceled", terms.id);
                book.vacated = true;
            }
            SessionEvent::SeatsBlocked { seats, request } => {
                book.block(&indexes(layout, seats), layout.seats());
                book.changes.remember(*request, self.version, ());
            }
            SessionEvent::SeatsUnblocked { seats, request } => {
                book.unblock(&indexes(layout, seats));
                book.changes.remember(*request, self.version, ());
            }
        }
        if book.is_blank() {
            self.book = None;
        }
    }

    /// The version with a request that was granted before, if it is remembered. Refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<u64, Refusal>> {
        let known = self.book.as_deref()?.changes.answered(request)?;
        Some(known.map(|known| known.version))
    }

    /// Computes what is not serialized. The layout must be in place.
    pub(crate) fn rebuild(&mut self) {
        let (seats, areas) = (self.terms.layout.seats(), self.areas().len());
        if let Some(book) = &mut self.book {
            book.rebuild(seats, areas);
            if planted::is("a session's request ids missing from a snapshot") {
                book.changes = Changes::default();
            }
        }
        if let Some(sale) = &mut self.sale {
            sale.rebuild(&self.terms, self.book.as_deref());
        }
    }

    /// The state of a seat, as everybody sees it: one that is kept for an allotment is blocked.
    fn state(&self, index: u32) -> SeatState {
        match self.state_for_desk(index) {
            SeatState::Free if self.allotment_of(index).is_some() => SeatState::Blocked,
            state => state,
        }
    }

    /// The state of a seat, whether it is kept for an allotment or not.
    fn state_for_desk(&self, index: u32) -> SeatState {
        self.book.as_deref().map_or(SeatState::Free, |book| book.state(index))
    }

    /// The number of the allotment that a seat is kept for.
    fn allotment_of(&self, index: u32) -> Option<u16> {
        self.sale.as_deref()?.kept.allotment_of(index)
    }

    /// 64 seats, one that is kept for an allotment as a set bit.
    fn kept_word(&self, number: u32) -> u64 {
        self.sale.as_deref().map_or(0, |sale| sale.kept.word(number))
    }

    /// 64 seats, one that is free for everybody as a set bit. Bits beyond the last seat have no meaning.
    fn free_word(&self, number: u32) -> u64 {
        self.free_word_for_desk(number) & !self.kept_word(number)
    }

    fn free_word_for_desk(&self, number: u32) -> u64 {
        self.book.as_deref().map_or(u64::MAX, |book| book.free_word(number))
    }

    /// Bytes on the heap, without the shared layout.
    pub fn heap_bytes(&self) -> usize {
        let ids = [&self.terms.venue, &self.terms.id, &self.terms.hall, &self.terms.title];
        let long: usize = ids.iter().map(|id| id.heap_bytes()).sum();
        let extras = |extras: &SessionExtras| size_of::<SessionExtras>() + extras.areas.capacity() * size_of::<Area>();
        let extras = self.terms.extras.as_deref().map_or(0, extras);
        let terms =
            2 * size_of::<usize>() + size_of::<SessionTerms>() + size_of_val(&*self.terms.prices) + long + extras;
        let sale = self.sale.as_deref().map_or(0, Sale::heap_bytes);
        terms + sale + self.book.as_deref().map_or(0, |book| size_of::<Book>() + book.heap_bytes())
    }
}

fn index_of(layout: &Layout, seats: &[Seat]) -> impl Iterator<Item = u32> {
    seats.iter().map(|seat| layout.index(*seat).unwrap_or_else(|| panic!("the layout has no seat {seat:?}")))
}

fn indexes(layout: &Layout, seats: &[Seat]) -> Vec<u32> {
    index_of(layout, seats).collect()
}

/// The numbers of captured prices.
fn numbered(sale: &mut Option<Box<Sale>>, prices: &[SeatPrice]) -> Vec<PriceNumber> {
    let sale = sale.as_mut().expect("only a session with offers captures prices");
    // Most prices were captured before, and then nothing is copied.
    let known: Option<Vec<PriceNumber>> = prices.iter().map(|price| sale.captured.known(price)).collect();
    known.unwrap_or_else(|| {
        let captured = Arc::make_mut(&mut sale.captured);
        prices.iter().map(|price| captured.number(price)).collect()
    })
}

fn area_number(areas: &[Area], id: &Id) -> u16 {
    let number = areas.iter().position(|area| area.id == *id);
    number.unwrap_or_else(|| panic!("the session has no area {id}")) as u16
}
