//! What a session has beside the terms that it was opened with: the version of its terms, its changes, offers that have opened, and
//! counters.

use alloc::{boxed::Box, collections::BTreeSet, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::{
    SessionTerms,
    book::Book,
    kept::Kept,
    share::{Captured, Share},
    table::{Cheapest, PriceTable},
};
use crate::{
    answer::{NamedInTerms, TermsChange, TermsNames},
    command::{Allotment, Area, SessionExtras},
    id::{CartId, HoldId, Id},
    names::Names,
    planted,
    push_exact::push_exact,
    shared_map::{SharedMap, SharedSet},
    time::Timestamp,
};

/// How many changes of its terms a session tells. Its history has all of them.
pub const TERMS_CHANGES_MAX: usize = 32;

/// How many it keeps, as many as requests that it answers again.
const KEPT_MAX: usize = super::book::SESSION_CHANGES_MAX;

/// The part of a session that only those with offers or with changed terms have. Its lists are shared, because each turn copies it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(name = "SessionSaleState")]
pub(super) struct Sale {
    /// How often its terms have changed.
    #[n(0)]
    pub(super) terms: u32,
    /// The terms that it was opened with, if they have changed since.
    #[n(1)]
    pub(super) opened_with: Option<Arc<OpenedTerms>>,
    /// Offers whose begin has come. A clock that is set back does not close them again.
    #[n(2)]
    opened: Arc<BTreeSet<Id>>,
    /// The newest changes, oldest first. Repeats are answered from them.
    #[n(3)]
    pub(super) changes: Arc<Vec<TermsChange>>,
    /// Names that versions of the terms had, if they are others now and something that was held under them may be left.
    #[n(4)]
    past_names: Arc<Vec<PastNames>>,
    /// The session's version with which an offer opened last, or the terms changed.
    #[n(5)]
    pub(super) version: u64,
    /// Prices of holds and sales.
    #[n(6)]
    pub(super) captured: Arc<Captured>,
    /// Allotments that were released when their time came.
    #[n(7)]
    released: Arc<BTreeSet<Id>>,
    /// The `version` that the venue knows. It knows that of the creation from the creation.
    #[n(8)]
    pub(super) told: u64,
    /// Carts that have held something under an offer with a limit per customer, with the customer that they named. Before the cart has
    /// decided whose it is, it may have named two.
    #[n(9)]
    buyers: SharedSet<(CartId, Id)>,
    /// Follows from the terms.
    #[stored(skip)]
    pub(super) table: Arc<PriceTable>,
    /// How many seats and places are held and sold, by counter. Follows from the holds and sales.
    #[stored(skip)]
    counts: Box<[u64]>,
    /// Whether each offer has reached its begin, by number. Follows from `opened` and the terms.
    #[stored(skip)]
    is_open: Arc<[bool]>,
    /// The cheapest offers of those that have opened so far.
    #[stored(skip)]
    pub(super) cheapest: Arc<Cheapest>,
    /// When the next offer opens or an allotment is released, in true time. Follows from the terms and from what has opened.
    #[stored(skip)]
    pub(super) next_opening: Option<Timestamp>,
    /// The seats of allotments that are not released.
    #[stored(skip)]
    pub(super) kept: Arc<Kept>,
    /// How many of them are free otherwise, by number of their allotment.
    #[stored(skip)]
    pub(super) kept_free: Box<[u32]>,
    /// `buyers` by customer.
    #[stored(skip)]
    carts: SharedSet<(Id, CartId)>,
}

/// The terms that a session was opened with, as far as they can change.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(super) struct OpenedTerms {
    /// In minor units, by category ordinal.
    #[n(0)]
    pub(super) prices: Box<[i64]>,
    #[n(1)]
    pub(super) extras: Option<Box<SessionExtras>>,
}

/// Names of the terms up to a version.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct PastNames {
    /// The last version with these names.
    #[n(0)]
    until: u32,
    #[n(1)]
    names: TermsNames,
}

impl TermsNames {
    fn of(extras: Option<&SessionExtras>) -> TermsNames {
        let Some(extras) = extras else { return TermsNames::default() };
        let named = |id: &Id, name: &SmolStr, names: &Names| NamedInTerms {
            id: id.clone(),
            name: name.clone(),
            names: names.clone(),
        };
        let areas = extras.areas.iter().map(|Area { id, name, names, .. }| named(id, name, names));
        let offering = extras.offering.as_deref();
        let types = offering.iter().flat_map(|offering| &offering.price_types);
        let offers = offering.iter().flat_map(|offering| &offering.offers);
        TermsNames {
            areas: areas.collect(),
            price_types: types.map(|of| named(&of.id, &of.name, &of.names)).collect(),
            offers: offers.map(|of| named(&of.id, &of.name, &of.names)).collect(),
        }
    }
}

impl Sale {
    /// That of a session with these terms, if it needs one.
    pub(super) fn opened(terms: &SessionTerms) -> Option<Box<Sale>> {
        terms.extras.as_deref()?.offering.as_ref()?;
        let mut sale = Sale::blank();
        sale.rebuild(terms, None);
        Some(Box::new(sale))
    }

    fn blank() -> Sale {
        Sale {
            terms: 0,
            opened_with: None,
            opened: Arc::default(),
            changes: Arc::default(),
            past_names: Arc::default(),
            version: 1,
            captured: Arc::default(),
            released: Arc::default(),
            told: 1,
            buyers: SharedMap::new(),
            table: Arc::default(),
            counts: Box::default(),
            is_open: Arc::default(),
            cheapest: Arc::default(),
            next_opening: None,
            kept: Arc::default(),
            kept_free: Box::default(),
            carts: SharedMap::new(),
        }
    }

    /// Computes what is not stored.
    pub(super) fn rebuild(&mut self, terms: &SessionTerms, book: Option<&Book>) {
        self.table = Arc::new(PriceTable::new(terms));
        Arc::make_mut(&mut self.captured).rebuild();
        self.carts = self.buyers.keys().map(|(cart, customer)| ((customer.clone(), *cart), ())).collect();
        self.look_for_opening(terms);
        self.keep(terms, book);
        let counters = terms.offering().map_or(0, |offering| offering.counters.len());
        self.counts = alloc::vec![0; counters].into_boxed_slice();
        if counters == 0 {
            return;
        }
        let Some(book) = book else { return };
        for share in book.shares() {
            self.count(&share.counted(&self.captured, &self.table), true);
        }
    }

    /// Counts what a share takes of the counters and of the kept seats, or gives back.
    pub(super) fn count_share(&mut self, share: &Share, is_taken: bool) {
        for allotment in share.seats().iter().filter_map(|index| self.kept.allotment_of(*index)) {
            let free = &mut self.kept_free[usize::from(allotment)];
            *free = if is_taken { *free - 1 } else { *free + 1 };
        }
        let counted = share.counted(&self.captured, &self.table);
        self.count(&counted, is_taken);
    }

    /// Whether the offer has reached its begin.
    pub(super) fn has_opened(&self, offer: &Id) -> bool {
        self.opened.contains(offer)
    }

    /// Writes that these offers have reached their begin.
    pub(super) fn open(&mut self, offers: &[Id], terms: &SessionTerms, version: u64) {
        self.version = version;
        let opened = Arc::make_mut(&mut self.opened);
        for offer in offers {
            let is_new = opened.insert(offer.clone());
            assert!(is_new, "offer {offer} opens twice");
        }
        self.look_for_opening(terms);
    }

    /// Whether an allotment's seats are on sale like all others.
    pub(super) fn is_released(&self, allotment: &Allotment) -> bool {
        allotment.released || self.released.contains(&allotment.id)
    }

    /// Writes that the time of these allotments has come.
    pub(super) fn release(&mut self, ids: &[Id], terms: &SessionTerms, version: u64, book: Option<&Book>) {
        self.version = version;
        let released = Arc::make_mut(&mut self.released);
        for id in ids {
            let is_new = released.insert(id.clone());
            assert!(is_new, "allotment {id} is released twice");
        }
        self.look_for_opening(terms);
        self.keep(terms, book);
    }

    /// Looks anew which seats are kept for allotments.
    fn keep(&mut self, terms: &SessionTerms, book: Option<&Book>) {
        self.kept = Arc::new(Kept::new(terms, |allotment| self.is_released(allotment)));
        self.count_kept(terms, book);
    }

    /// Counts anew how many kept seats are free otherwise.
    pub(super) fn count_kept(&mut self, terms: &SessionTerms, book: Option<&Book>) {
        let allotments = terms.offering().map_or(0, |offering| offering.allotments.len());
        self.kept_free = self.kept.free(book, allotments);
    }

    fn look_for_opening(&mut self, terms: &SessionTerms) {
        let offers = terms.offering().map_or(&[][..], |offering| &offering.offers);
        let allotments = terms.offering().map_or(&[][..], |offering| &offering.allotments);
        self.is_open = offers.iter().map(|offer| offer.from.is_none() || self.opened.contains(&offer.id)).collect();
        let waiting = offers.iter().zip(&*self.is_open).filter(|(_, is_open)| !**is_open);
        let opening = waiting.filter_map(|(offer, _)| offer.from).min();
        let kept = allotments.iter().filter(|allotment| !self.is_released(allotment));
        self.next_opening = opening.into_iter().chain(kept.filter_map(|allotment| allotment.release_at)).min();
        self.cheapest = Arc::new(Cheapest::unknown(terms));
    }

    /// Whether the offer with this number has no begin, or has reached it.
    pub(super) fn is_open(&self, number: usize) -> bool {
        self.is_open[number]
    }

    /// The carts of a customer that have anything under an offer with a limit per customer.
    pub(super) fn carts_of(&self, customer: &Id) -> impl Iterator<Item = CartId> {
        let all = (customer.clone(), CartId(0))..=(customer.clone(), CartId(u128::MAX));
        self.carts.range(all).map(|((_, cart), ())| *cart)
    }

    /// Writes whose cart has something under an offer with a limit per customer.
    pub(super) fn bought_by(&mut self, cart: CartId, customer: &Id) {
        let (buyer, known) = ((cart, customer.clone()), (customer.clone(), cart));
        if self.buyers.get(&buyer).is_none() {
            self.buyers.insert(buyer, ());
            self.carts.insert(known, ());
        }
    }

    /// A cart has nothing of the session any more.
    pub(super) fn has_nothing(&mut self, cart: CartId) {
        if planted::is("a customer who never gets back what was released") {
            return;
        }
        let named: Vec<(CartId, Id)> = self
            .buyers
            .range((cart, Id::first())..)
            .map(|(buyer, ())| buyer.clone())
            .take_while(|(of, _)| *of == cart)
            .collect();
        for buyer in named {
            self.buyers.remove(&buyer);
            self.carts.remove(&(buyer.1, buyer.0));
        }
    }

    /// How many carts it knows the customer of.
    pub(super) fn buyers(&self) -> impl Iterator<Item = CartId> {
        self.buyers.keys().map(|(cart, _)| *cart)
    }

    /// How many are held and sold under a counter.
    pub(super) fn counted(&self, counter: usize) -> u64 {
        self.counts.get(counter).copied().unwrap_or_default()
    }

    fn count(&mut self, counted: &[(u16, u32)], is_taken: bool) {
        if !is_taken && planted::is("a counter that is not given back") {
            return;
        }
        for (counter, quantity) in counted {
            let count = &mut self.counts[usize::from(*counter)];
            let quantity = u64::from(*quantity);
            *count = if is_taken {
                *count + quantity
            } else {
                count.checked_sub(quantity).expect("what is given back was counted")
            };
        }
    }

    /// Writes a change of the terms. `before` are those before it, and `after` those with it.
    pub(super) fn change(
        sale: &mut Option<Box<Sale>>,
        (before, after): (&SessionTerms, &SessionTerms),
        (at, what, version): (Timestamp, &[SmolStr], u64),
        book: Option<&Book>,
    ) {
        let sale = sale.get_or_insert_with(|| Box::new(Sale::blank()));
        let opened = || OpenedTerms { prices: before.prices.clone(), extras: before.extras.clone() };
        sale.opened_with.get_or_insert_with(|| Arc::new(opened()));
        let (named, names) = (TermsNames::of(before.extras.as_deref()), TermsNames::of(after.extras.as_deref()));
        let is_named = book.is_some_and(|book| book.holds.all_live().next().is_some() || book.holds.has_sales());
        if named != names && is_named {
            push_exact(Arc::make_mut(&mut sale.past_names), PastNames { until: sale.terms, names: named });
        }
        sale.terms += 1;
        sale.version = version;
        let begins = |terms: &SessionTerms, id: &Id| {
            terms.offering().and_then(|it| it.offers.iter().find(|offer| offer.id == *id)).map(|offer| offer.from)
        };
        // An offer whose begin is set anew opens anew.
        Arc::make_mut(&mut sale.opened)
            .retain(|id| begins(after, id).is_some_and(|begin| begins(before, id) == Some(begin)));
        let frees = |terms: &SessionTerms, id: &Id| {
            let all = terms.offering()?.allotments.iter();
            all.clone().find(|allotment| allotment.id == *id).map(|allotment| allotment.release_at)
        };
        // An allotment whose release is set anew is kept until then.
        Arc::make_mut(&mut sale.released)
            .retain(|id| frees(after, id).is_some_and(|release| frees(before, id) == Some(release)));
        let changes = Arc::make_mut(&mut sale.changes);
        if changes.len() == KEPT_MAX {
            changes.remove(0);
        }
        push_exact(changes, TermsChange { terms: sale.terms, at, what: what.to_vec(), version });
        if let Some(book) = book {
            Arc::make_mut(&mut sale.captured).free_unused(book.shares());
        }
        sale.rebuild(after, book);
    }

    /// The names of a version of the terms, or `None` if they are those of now.
    pub(super) fn names_at(&self, terms: u32) -> Option<&TermsNames> {
        let past = self.past_names.iter().find(|past| terms <= past.until);
        past.map(|past| &past.names)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let changes: usize = self.changes.iter().map(|change| change.what.capacity() * size_of::<SmolStr>()).sum();
        let past = self.past_names.iter().map(|past| &past.names);
        let past: usize = past.map(|names| names.areas.len() + names.price_types.len() + names.offers.len()).sum();
        let opened = self.opened_with.as_ref().map_or(0, |opened| size_of_val(&*opened.prices));
        size_of::<Sale>()
            + self.table.heap_bytes()
            + self.captured.heap_bytes()
            + self.kept.heap_bytes()
            + size_of_val(&*self.kept_free)
            + size_of_val(&*self.counts)
            + size_of_val(&*self.is_open)
            + self.cheapest.heap_bytes()
            + self.buyers.heap_bytes()
            + self.carts.heap_bytes()
            + self.opened.len() * 2 * size_of::<Id>()
            + self.changes.capacity() * size_of::<TermsChange>()
            + changes
            + past * size_of::<NamedInTerms>()
            + opened
    }
}

impl SessionTerms {
    /// The current names of what lines say by id.
    pub(super) fn names(&self) -> TermsNames {
        TermsNames::of(self.extras.as_deref())
    }
}

/// The hold that an event of a session is about, if it changes what the hold has.
pub(super) fn changes_hold(event: &crate::event::SessionEvent) -> Option<HoldId> {
    use crate::event::SessionEvent;
    match event {
        SessionEvent::SeatsHeld { hold, .. }
        | SessionEvent::PlacesHeld { hold, .. }
        | SessionEvent::SeatsReleased { hold, .. }
        | SessionEvent::PlacesReleased { hold, .. }
        | SessionEvent::SaleRefunded { hold, .. } => Some(*hold),
        SessionEvent::Opened(_)
        | SessionEvent::SeatsSold { .. }
        | SessionEvent::PlacesSold { .. }
        | SessionEvent::Hold(_)
        | SessionEvent::Canceled { .. }
        | SessionEvent::Vacated
        | SessionEvent::SeatsBlocked { .. }
        | SessionEvent::SeatsUnblocked { .. }
        | SessionEvent::ZoneSet(_)
        | SessionEvent::Changed { .. }
        | SessionEvent::OffersOpened(_)
        | SessionEvent::AllotmentsReleased(_)
        | SessionEvent::SaleTold(_) => None,
    }
}
