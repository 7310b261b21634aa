//! A session: one title at one time in one hall, and who has which of its seats.
//!
//! This file writes: [`Session::apply`] and what it needs. What may happen is decided in `hold` and `block`, what is told
//! of it is in `view`. While every seat is free and nothing is remembered, a session owns nothing but its terms.

mod block;
mod hold;
mod view;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    answer::Answer,
    ask::Opening,
    command::NewSession,
    event::{Remembered, SessionEvent},
    id::{CartId, HoldId, Id, Request},
    layout::Layout,
    money::{Currency, Money},
    refusal::Refusal,
    seat::{Seat, SeatState},
    seat_bits::SeatBits,
    time::Timestamp,
};

/// Answers to `session.block` and `session.unblock` kept for repeats; beyond this the oldest goes.
const REMEMBERED_MAX: usize = 256;

/// A session as kept. Serialized it lacks its layout: [`crate::keep::Cut`] writes each layout once and puts it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    version: u64,
    terms: Arc<Terms>,
    book: Option<Box<Book>>,
}

/// What never changes after the opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Terms {
    venue: Id,
    id: Id,
    hall: Id,
    title: Id,
    starts_at: Timestamp,
    ends_at: Timestamp,
    hold_ttl_ms: Option<u64>,
    currency: Currency,
    /// Minor units, by category ordinal.
    prices: Box<[i64]>,
    #[serde(skip, default = "Layout::unset")]
    layout: Arc<Layout>,
}

/// Who has which seats. Held and sold bits, counters and the index of deadlines follow from the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    holds: BTreeMap<HoldId, Hold>,
    /// Revision of holds that were released while their cart may still speak of them.
    released: BTreeMap<HoldId, u64>,
    sales: BTreeMap<HoldId, Sale>,
    blocked: SeatBits,
    remembered: VecDeque<Remembered>,
    #[serde(skip)]
    held: SeatBits,
    #[serde(skip)]
    sold: SeatBits,
    #[serde(skip)]
    counts: Counts,
    /// When each hold's cart is asked about it.
    #[serde(skip)]
    due: BTreeSet<(Timestamp, HoldId)>,
}

/// Seats that are not free, by state (P5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    held: u32,
    sold: u32,
    blocked: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hold {
    revision: u64,
    want_hash: u64,
    /// When the cart is asked about it.
    deadline: Timestamp,
    /// Indexes, ascending.
    seats: Box<[u32]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sale {
    at: Timestamp,
    /// The session's version with the sale.
    version: u64,
    /// Indexes, ascending.
    seats: Box<[u32]>,
}

impl Session {
    /// A session that has just been opened.
    pub(crate) fn opened(opening: &Opening) -> Session {
        let Opening { venue, session, layout } = opening;
        let named: Vec<&Id> = session.prices.iter().map(|(category, _)| category).collect();
        let categories: Vec<&Id> = layout.categories().iter().collect();
        assert_eq!(named, categories, "session {} has not one price a category", session.id);
        let terms = Terms {
            venue: venue.clone(),
            id: session.id.clone(),
            hall: session.hall.clone(),
            title: session.title.clone(),
            starts_at: session.starts_at,
            ends_at: session.ends_at,
            hold_ttl_ms: session.hold_ttl_ms,
            currency: session.prices[0].1.currency,
            prices: session.prices.iter().map(|(_, price)| price.amount).collect(),
            layout: Arc::clone(layout),
        };
        Session { version: 1, terms: Arc::new(terms), book: None }
    }

    /// What it was opened with.
    pub(crate) fn opening(&self) -> Opening {
        let terms = &*self.terms;
        Opening {
            venue: terms.venue.clone(),
            session: NewSession {
                id: terms.id.clone(),
                hall: terms.hall.clone(),
                title: terms.title.clone(),
                starts_at: terms.starts_at,
                ends_at: terms.ends_at,
                prices: self.prices(),
                hold_ttl_ms: terms.hold_ttl_ms,
            },
            layout: Arc::clone(&terms.layout),
        }
    }

    fn prices(&self) -> Vec<(Id, Money)> {
        let currency = self.terms.currency;
        let price = |amount: &i64| Money { amount: *amount, currency };
        self.terms.layout.categories().iter().cloned().zip(self.terms.prices.iter().map(price)).collect()
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its seats.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.terms.layout
    }

    /// Puts the layout in place after reading back, or an equal one that is shared.
    pub(crate) fn set_layout(&mut self, layout: Arc<Layout>) {
        Arc::make_mut(&mut self.terms).layout = layout;
    }

    /// When the first cart is to be asked about its hold.
    pub fn deadline(&self) -> Option<Timestamp> {
        let book = self.book.as_deref()?;
        book.due.first().map(|(deadline, _)| *deadline)
    }

    /// Holds whose cart is to be asked, in the order of their deadlines: those after `after`, up to `now`.
    pub(crate) fn overdue(
        &self,
        after: (Timestamp, HoldId),
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, HoldId)> {
        use core::ops::Bound::{Excluded, Included};
        let range = (Excluded(after), Included((now.max(after.0), HoldId::LAST)));
        let due = self.book.as_deref().filter(|_| after.0 <= now).map(|book| book.due.range(range));
        due.into_iter().flatten().copied()
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &SessionEvent) {
        self.version += 1;
        let layout = Arc::clone(&self.terms.layout);
        let book = self.book.get_or_insert_default();
        match event {
            SessionEvent::Opened(opening) => panic!("session {} is opened twice", opening.session.id),
            SessionEvent::SeatsHeld { hold, revision, want_hash, seats, deadline } => {
                let seats = indexes(&layout, seats);
                let kept = Hold { revision: *revision, want_hash: *want_hash, deadline: *deadline, seats };
                book.hold(*hold, kept, layout.seats());
            }
            SessionEvent::SeatsReleased { hold, revision, seats, remember } => {
                book.release(*hold, *revision, &indexes(&layout, seats), *remember);
            }
            SessionEvent::SeatsSold { hold, seats, order, at } => {
                assert_eq!(order.cart(), hold.cart, "a sale of {hold:?} to another cart's order");
                let sale = Sale { at: *at, version: self.version, seats: indexes(&layout, seats) };
                book.sell(*hold, sale, layout.seats());
            }
            SessionEvent::HoldExtended { hold, deadline } => book.extend(*hold, *deadline),
            SessionEvent::Forgotten(cart) => book.forget(*cart),
            SessionEvent::SeatsBlocked { seats, remembered } => {
                book.block(&indexes(&layout, seats), layout.seats());
                book.remember(remembered);
            }
            SessionEvent::SeatsUnblocked { seats, remembered } => {
                book.unblock(&indexes(&layout, seats));
                book.remember(remembered);
            }
        }
        if book.is_blank() {
            self.book = None;
        }
    }

    /// The answer to a request that was granted before, if it is remembered; refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<Answer, Refusal>> {
        let remembered = &self.book.as_deref()?.remembered;
        let known = remembered.iter().find(|known| known.request.id == request.id)?;
        let same = known.request.body == request.body;
        Some(if same { Ok(known.answer.clone()) } else { Err(Refusal::RequestIdReused) })
    }

    /// Works out again what is not written down. The layout must be in place.
    pub(crate) fn rebuild(&mut self) {
        let seats = self.terms.layout.seats();
        if let Some(book) = &mut self.book {
            book.rebuild(seats);
        }
    }

    /// The state of a seat.
    fn state(&self, index: u32) -> SeatState {
        self.book.as_deref().map_or(SeatState::Free, |book| book.state(index))
    }

    /// 64 seats, a free one as a set bit; bits beyond the last seat say nothing.
    fn free_word(&self, number: u32) -> u64 {
        self.book
            .as_deref()
            .map_or(u64::MAX, |book| !(book.held.word(number) | book.sold.word(number) | book.blocked.word(number)))
    }

    /// Bytes on the heap, the shared layout not counted.
    pub fn heap_bytes(&self) -> usize {
        let ids = [&self.terms.venue, &self.terms.id, &self.terms.hall, &self.terms.title];
        let long: usize = ids.iter().map(|id| id.heap_bytes()).sum();
        let terms = 2 * size_of::<usize>() + size_of::<Terms>() + size_of_val(&*self.terms.prices) + long;
        terms + self.book.as_deref().map_or(0, |book| size_of::<Book>() + book.heap_bytes())
    }
}

impl Book {
    fn state(&self, index: u32) -> SeatState {
        if self.sold.has(index) {
            SeatState::Sold
        } else if self.held.has(index) {
            SeatState::Held
        } else if self.blocked.has(index) {
            SeatState::Blocked
        } else {
            SeatState::Free
        }
    }

    fn hold(&mut self, id: HoldId, hold: Hold, seats: u32) {
        assert!(!hold.seats.is_empty(), "hold {id:?} of nothing");
        assert!(!self.released.contains_key(&id), "hold {id:?} was released before");
        assert!(!self.sales.contains_key(&id), "hold {id:?} was sold before");
        for &index in &hold.seats {
            assert_eq!(self.state(index), SeatState::Free, "held twice: {index}");
            self.held.add(index, seats);
        }
        self.counts.held += hold.seats.len() as u32;
        self.due.insert((hold.deadline, id));
        let before = self.holds.insert(id, hold);
        assert!(before.is_none(), "hold {id:?} is held already");
    }

    fn release(&mut self, id: HoldId, revision: u64, seats: &[u32], remember: bool) {
        let over = match self.holds.get_mut(&id) {
            None => {
                assert!(seats.is_empty(), "hold {id:?} releases seats it does not have");
                true
            }
            Some(hold) => {
                assert!(revision > hold.revision, "hold {id:?} is released by an old revision");
                for &index in seats {
                    assert!(hold.seats.contains(&index), "hold {id:?} releases seat {index}, which is not its own");
                    self.held.take(index);
                }
                hold.seats = hold.seats.iter().copied().filter(|index| !seats.contains(index)).collect();
                hold.revision = revision;
                self.counts.held -= seats.len() as u32;
                hold.seats.is_empty()
            }
        };
        if over {
            if let Some(hold) = self.holds.remove(&id) {
                self.due.remove(&(hold.deadline, id));
            }
            if remember {
                let kept = self.released.entry(id).or_insert(revision);
                *kept = revision.max(*kept);
            }
        }
    }

    fn sell(&mut self, id: HoldId, sale: Sale, seats: u32) {
        let hold = self.holds.remove(&id).unwrap_or_else(|| panic!("sold without a hold: {id:?}"));
        assert_eq!(hold.seats, sale.seats, "hold {id:?} is sold with other seats than it has");
        self.due.remove(&(hold.deadline, id));
        for &index in &sale.seats {
            self.held.take(index);
            self.sold.add(index, seats);
        }
        self.counts.held -= sale.seats.len() as u32;
        self.counts.sold += sale.seats.len() as u32;
        let before = self.sales.insert(id, sale);
        assert!(before.is_none(), "hold {id:?} is sold twice");
    }

    fn extend(&mut self, id: HoldId, deadline: Timestamp) {
        let hold = self.holds.get_mut(&id).unwrap_or_else(|| panic!("extended without a hold: {id:?}"));
        self.due.remove(&(hold.deadline, id));
        hold.deadline = deadline;
        self.due.insert((deadline, id));
    }

    fn forget(&mut self, cart: CartId) {
        let all: Vec<HoldId> = self.released.range(HoldId::all_of(cart)).map(|(hold, _)| *hold).collect();
        for hold in all {
            self.released.remove(&hold);
        }
    }

    fn block(&mut self, indexes: &[u32], seats: u32) {
        for &index in indexes {
            assert_eq!(self.state(index), SeatState::Free, "blocked although not free: {index}");
            self.blocked.add(index, seats);
        }
        self.counts.blocked += indexes.len() as u32;
    }

    fn unblock(&mut self, indexes: &[u32]) {
        for &index in indexes {
            self.blocked.take(index);
        }
        self.counts.blocked -= indexes.len() as u32;
    }

    fn remember(&mut self, remembered: &Option<Remembered>) {
        if let Some(remembered) = remembered {
            if self.remembered.len() == REMEMBERED_MAX {
                self.remembered.pop_front();
            }
            self.remembered.push_back(remembered.clone());
        }
    }

    fn is_blank(&self) -> bool {
        self.holds.is_empty()
            && self.released.is_empty()
            && self.sales.is_empty()
            && self.remembered.is_empty()
            && self.counts.blocked == 0
    }

    fn rebuild(&mut self, seats: u32) {
        for (id, hold) in &self.holds {
            hold.seats.iter().for_each(|index| self.held.add(*index, seats));
            self.counts.held += hold.seats.len() as u32;
            self.due.insert((hold.deadline, *id));
        }
        for sale in self.sales.values() {
            sale.seats.iter().for_each(|index| self.sold.add(*index, seats));
            self.counts.sold += sale.seats.len() as u32;
        }
        self.counts.blocked = self.blocked.count();
    }

    fn heap_bytes(&self) -> usize {
        // Maps are counted by their entries; their nodes are about two thirds full.
        let node = |entry: usize| entry * 3 / 2;
        let held: usize = self.holds.values().map(|hold| size_of_val(&*hold.seats)).sum();
        let sold: usize = self.sales.values().map(|sale| size_of_val(&*sale.seats)).sum();
        let holds = self.holds.len() * node(size_of::<(HoldId, Hold)>() + size_of::<(Timestamp, HoldId)>());
        let sales = self.sales.len() * node(size_of::<(HoldId, Sale)>());
        let released = self.released.len() * node(size_of::<(HoldId, u64)>());
        let bits = self.held.heap_bytes() + self.sold.heap_bytes() + self.blocked.heap_bytes();
        held + sold + holds + sales + released + bits + self.remembered.capacity() * size_of::<Remembered>()
    }
}

fn indexes(layout: &Layout, seats: &[Seat]) -> Box<[u32]> {
    let index = |seat: &Seat| layout.index(*seat).unwrap_or_else(|| panic!("the layout has no seat {seat:?}"));
    seats.iter().map(index).collect()
}
