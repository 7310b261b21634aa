//! A session as clients and audits see it.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec,
    vec::Vec,
};

use smol_str::{SmolStr, format_smolstr};

use super::{Session, SessionTerms, TERMS_CHANGES_MAX, book::Book, share::Share};
use crate::{
    answer::{
        AreaCounts, MapView, SaleMark, SeatCounts, SeatLabels, SessionAudit, SessionNames, SessionSale, SessionView,
        TermsNames,
    },
    ask::Opening,
    command::Offer,
    id::{CartId, HoldId},
    refusal::Refusal,
    seat::{Seat, SeatState},
    time::Timestamp,
};

/// The view of a session with this content.
pub(crate) fn opened_view(
    Opening { venue, session, layout, zone }: Opening,
    sale: Option<Box<SessionSale>>,
    canceled: Option<SmolStr>,
    counts: SeatCounts,
    area_counts: Vec<AreaCounts>,
) -> Arc<SessionView> {
    Arc::new(SessionView { venue, session, canceled, counts, area_counts, layout, zone: zone.name, sale })
}

impl Session {
    /// Its terms and counts.
    pub fn view(&self) -> Arc<SessionView> {
        let now = Opening { session: self.current(), ..self.opening() };
        let canceled = self.canceled().map(SmolStr::new);
        opened_view(now, self.sale_view(), canceled, self.counts(), self.area_counts())
    }

    /// Its offers as they are now, and its changes, if it has either.
    fn sale_view(&self) -> Option<Box<SessionSale>> {
        let sale = self.sale.as_deref()?;
        let offering = self.terms.offering();
        let offers = offering.iter().flat_map(|offering| &offering.offers);
        let opened = offers.filter(|offer| sale.has_opened(&offer.id)).map(|offer| offer.id.clone()).collect();
        let counters = offering.map_or(0, |offering| offering.counters.len());
        let counted = (0..counters).map(|counter| sale.counted(counter)).collect();
        let told = sale.changes.len().saturating_sub(TERMS_CHANGES_MAX);
        let (terms, changes, opens_at) = (sale.terms, sale.changes[told..].to_vec(), self.opens_at());
        let desk_only = self.terms.offering().is_some_and(|offering| {
            !offering.offers.is_empty() && !offering.offers.iter().any(Offer::is_for_everybody)
        });
        let allotments = offering.iter().flat_map(|offering| &offering.allotments);
        let released = allotments.filter(|it| sale.is_released(it)).map(|it| it.id.clone()).collect();
        let kept = sale.kept_free.to_vec();
        Some(Box::new(SessionSale { terms, opened, counted, changes, opens_at, desk_only, released, kept }))
    }

    /// What those who watch it are told of its offers and terms.
    pub(super) fn sale_mark(&self) -> Option<SaleMark> {
        Some(SaleMark { version: self.sale.as_deref()?.version, opens_at: self.opens_at() })
    }

    /// When the next offer for everybody opens, whatever is open now. `None` if none will.
    pub fn opens_at(&self) -> Option<Timestamp> {
        let sale = self.sale.as_deref()?;
        self.terms.offering()?.opens_at(|offer| sale.has_opened(&offer.id))
    }

    /// What its orders say by id and number: the names of these versions of the terms, and the labels of these seats.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`] if the layout has no such seat.
    pub(crate) fn names(&self, terms: &[u32], seats: &[Seat]) -> Result<SessionNames, Refusal> {
        let SessionTerms { id, title, venue, hall, starts_at, ends_at, zone, layout, .. } = &*self.terms;
        let labels = |&seat: &Seat| {
            let index = layout.index(seat).ok_or_else(|| {
                Refusal::BadRequest(format_smolstr!("the hall has no seat {} in row {}", seat.seat, seat.row))
            })?;
            let note = layout.note(index).map_or_else(SmolStr::default, |note| note.text.clone());
            Ok(SeatLabels { seat, row: layout.row_label(index).clone(), label: layout.seat_label(index), note })
        };
        let terms: BTreeSet<u32> = terms.iter().copied().collect();
        Ok(SessionNames {
            session: id.clone(),
            title: title.clone(),
            venue: venue.clone(),
            hall: hall.clone(),
            starts_at: *starts_at,
            ends_at: *ends_at,
            zone: zone.name.clone(),
            terms: terms.into_iter().map(|version| (version, self.names_at(version))).collect(),
            seats: seats.iter().map(labels).collect::<Result<_, _>>()?,
        })
    }

    /// What the ids in lines mean that were held under this version of the terms.
    pub fn names_at(&self, terms: u32) -> TermsNames {
        let past = self.sale.as_deref().and_then(|sale| sale.names_at(terms)).cloned();
        past.unwrap_or_else(|| self.terms.names())
    }

    /// Seats by state, from the counters.
    pub fn counts(&self) -> SeatCounts {
        let counts = self.book.as_deref().map(|book| book.counts).unwrap_or_default();
        let blocked = counts.blocked + self.kept_free();
        SeatCounts {
            free: self.terms.layout.seats() - counts.held - counts.sold - blocked,
            held: counts.held,
            sold: counts.sold,
            blocked,
        }
    }

    /// How many seats are free and kept for allotments.
    pub(super) fn kept_free(&self) -> u32 {
        self.sale.as_deref().map_or(0, |sale| sale.kept_free.iter().sum())
    }

    /// The state of every seat.
    pub fn map(&self) -> MapView {
        let seats = self.terms.layout.seats();
        let mut map = vec![0u8; seats.div_ceil(4) as usize];
        let nothing = Book::default();
        if self.book.is_some() || self.kept_free() > 0 {
            let book = self.book.as_deref().unwrap_or(&nothing);
            for (number, bytes) in map.chunks_mut(16).enumerate() {
                let number = number as u32;
                let word = book.map_word(number, self.kept_word(number)).to_le_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
        }
        MapView {
            session: self.terms.id.clone(),
            epoch: 0,
            version: self.version,
            counts: self.counts(),
            areas: self.area_counts(),
            seats: map,
            sale: self.sale_mark(),
        }
    }

    /// Everything about it, counted anew from the seats, and from holds and sales of places.
    pub fn audit(&self) -> SessionAudit {
        let mut states = SeatCounts::default();
        for index in 0..self.terms.layout.seats() {
            match self.state(index) {
                SeatState::Free => states.free += 1,
                SeatState::Held => states.held += 1,
                SeatState::Sold => states.sold += 1,
                SeatState::Blocked => states.blocked += 1,
            }
        }
        let nothing = |area: &crate::command::Area| AreaCounts { area: area.id.clone(), free: 0, held: 0, sold: 0 };
        let mut audit = SessionAudit {
            session: self.terms.id.clone(),
            counts: states,
            areas: self.areas().iter().map(nothing).collect(),
            holds: Vec::new(),
            sales: Vec::new(),
            holders: Vec::new(),
            violations: Vec::new(),
        };
        if states != self.counts() {
            audit.violations.push(format_smolstr!("counters say {:?}, the seats say {states:?}", self.counts()));
        }
        if let Some(book) = self.book.as_deref() {
            self.audit_book(book, &mut audit);
        }
        self.audit_areas(&mut audit);
        if let Some(sale) = self.sale.as_deref() {
            let mut anew = sale.clone();
            anew.rebuild(&self.terms, self.book.as_deref());
            if anew != *sale {
                audit.violations.push("counters of offers are not what holds and sales say".into());
            }
            let book = self.book.as_deref();
            let has_any = |cart: &CartId| book.is_some_and(|book| book.holds.of_cart(*cart).next().is_some());
            let without = sale.buyers().filter(|cart| !has_any(cart));
            audit.violations.extend(without.map(|cart| format_smolstr!("cart {cart} has nothing, and a customer")));
        }
        audit
    }

    fn audit_book(&self, book: &Book, audit: &mut SessionAudit) {
        audit.holders = book.holds.holder_views();
        let mut owners = BTreeMap::new();
        for (hold, live) in book.holds.all_live() {
            self.audit_share(hold, &live.what, SeatState::Held, &mut owners, audit);
        }
        for (hold, sale) in book.holds.all_sales() {
            self.audit_share(hold, &sale.what, SeatState::Sold, &mut owners, audit);
        }
        let owned = owners.len() as u32;
        if owned != audit.counts.held + audit.counts.sold {
            let text = format_smolstr!("{owned} seats have an owner, {:?} need one", audit.counts);
            audit.violations.push(text);
        }
        audit.holds = book.holds.hold_views(|share| self.portion(share));
        audit.sales = book.holds.sale_views(|share| self.portion(share));
        audit.violations.extend(book.holds.violations());
    }

    fn audit_share(
        &self,
        hold: HoldId,
        share: &Share,
        state: SeatState,
        owners: &mut BTreeMap<u32, HoldId>,
        audit: &mut SessionAudit,
    ) {
        let seats = match share {
            Share::Seats(seats) => seats.indexes(),
            Share::Places { area, quantity, .. } => {
                let counts = &mut audit.areas[usize::from(*area)];
                let count = if state == SeatState::Held { &mut counts.held } else { &mut counts.sold };
                *count = count.saturating_add(*quantity);
                return;
            }
        };
        for &index in seats {
            if self.state(index) != state {
                audit.violations.push(format_smolstr!("seat {index} of {hold:?} should be {state:?}"));
            }
            if let Some(other) = owners.insert(index, hold) {
                audit.violations.push(format_smolstr!("seat {index} belongs to {other:?} and {hold:?}"));
            }
        }
    }

    fn audit_areas(&self, audit: &mut SessionAudit) {
        for (counts, area) in audit.areas.iter_mut().zip(self.areas()) {
            match area.capacity.checked_sub(counts.held.saturating_add(counts.sold)) {
                Some(free) => counts.free = free,
                None => audit.violations.push(format_smolstr!("{counts:?} of {} places", area.capacity)),
            }
        }
        let counted = self.area_counts();
        if audit.areas != counted {
            let text = format_smolstr!("counters say {counted:?}, holds and sales say {:?}", audit.areas);
            audit.violations.push(text);
        }
    }
}
