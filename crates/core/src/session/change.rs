//! Checks of a session's terms, at its creation and at each change.

use alloc::{boxed::Box, collections::BTreeSet, sync::Arc, vec::Vec};

use smol_str::{SmolStr, format_smolstr};

use super::{Session, areas::check_areas, difference::changes_between, kept::accessible_beside};
use crate::{
    answer::{AreaCounts, SessionChanged},
    command::{
        ALLOTMENTS_MAX, Allotment, Area, NewSession, OFFER_ATTRIBUTES_MAX, OFFER_COUNTERS_MAX, OFFERS_MAX, Offer,
        Offering, PRICE_TYPES_MAX, PriceChange, PriceType, SessionChange,
    },
    event::SessionEvent,
    id::{Id, Request},
    layout::Layout,
    money::{Money, PRICE_MAX},
    portion::TAX_RATE_MAX,
    refusal::Refusal,
    rules::Rules,
    seat::{HOLD_SEATS_MAX, Seat},
    seat_bits::SeatBits,
    terms::{bad, check_price, check_ttl},
    time::Timestamp,
};

/// Checks prices, areas and offers of a session in a hall with this layout, and puts its prices into the order of the categories.
///
/// # Errors
/// [`Refusal::BadRequest`] with what is wrong.
pub(crate) fn check_terms(layout: &Layout, session: &mut NewSession) -> Result<(), Refusal> {
    session.prices = in_order(layout, &session.prices)?;
    check_areas(session)?;
    check_min_party(session)?;
    match &session.offering {
        Some(offering) => check_offering(layout, &session.areas, offering),
        None => Ok(()),
    }
}

fn check_min_party(session: &NewSession) -> Result<(), Refusal> {
    let Some(min) = session.min_party else { return Ok(()) };
    if !(1..=HOLD_SEATS_MAX).contains(&usize::from(min)) {
        return bad(format_smolstr!("min_party is not 1 to {HOLD_SEATS_MAX}"));
    }
    match session.limits.per_order {
        Some(max) if max < u32::from(min) => {
            bad(format_smolstr!("min_party is {min}, and one order may have only {max}"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The prices in the order of the layout's categories, if there is exactly one for each.
fn in_order(layout: &Layout, prices: &[(Id, Money)]) -> Result<Vec<(Id, Money)>, Refusal> {
    for (category, price) in prices {
        check_price(category.as_str(), price.amount)?;
        if price.currency != prices[0].1.currency {
            return bad("the prices are not all in one currency".into());
        }
        if layout.category_ordinal(category).is_none() {
            return bad(format_smolstr!("the hall has no category {category}"));
        }
    }
    let mut ordered = Vec::with_capacity(prices.len());
    for category in layout.categories() {
        let mut named = prices.iter().filter(|(name, _)| name == category);
        match (named.next(), named.next()) {
            (Some(price), None) => ordered.push(price.clone()),
            (None, _) => return bad(format_smolstr!("category {category} has no price")),
            (Some(_), Some(_)) => return bad(format_smolstr!("category {category} has two prices")),
        }
    }
    Ok(ordered)
}

fn check_offering(layout: &Layout, areas: &[Area], offering: &Offering) -> Result<(), Refusal> {
    let Offering { price_types, offers, counters, allotments } = offering;
    distinct("price type", PRICE_TYPES_MAX, price_types.iter().map(|of| &of.id))?;
    distinct("offer", OFFERS_MAX, offers.iter().map(|of| &of.id))?;
    distinct("counter", OFFERS_MAX, counters.iter().map(|of| &of.id))?;
    distinct("allotment", ALLOTMENTS_MAX, allotments.iter().map(|of| &of.id))?;
    check_allotments(layout, allotments)?;
    let names = Names {
        categories: layout.categories().iter().collect(),
        areas: areas.iter().map(|area| &area.id).collect(),
        types: price_types.iter().map(|of| &of.id).collect(),
        counters: counters.iter().map(|of| &of.id).collect(),
        allotments: allotments.iter().map(|of| &of.id).collect(),
        companions: allotments.iter().filter(|of| of.companions).map(|of| &of.id).collect(),
    };
    for (place, of) in price_types.iter().enumerate() {
        names.check_type(of, place == 0)?;
    }
    offers.iter().try_for_each(|offer| names.check_offer(offer))
}

/// The ids that offers may name.
struct Names<'a> {
    categories: BTreeSet<&'a Id>,
    areas: BTreeSet<&'a Id>,
    types: BTreeSet<&'a Id>,
    counters: BTreeSet<&'a Id>,
    allotments: BTreeSet<&'a Id>,
    /// Those of them that are for companions.
    companions: BTreeSet<&'a Id>,
}

/// Checks that the seats of allotments are in the hall, in order, each in one allotment at most, and those of companions beside an
/// accessible one.
fn check_allotments(layout: &Layout, allotments: &[Allotment]) -> Result<(), Refusal> {
    let mut kept = SeatBits::default();
    for Allotment { id, seats, companions, .. } in allotments {
        if seats.is_empty() {
            return bad(format_smolstr!("allotment {id} has no seats"));
        }
        let goes_with =
            |seat: &Seat| layout.index(*seat).is_some_and(|index| accessible_beside(layout, index).next().is_some());
        if let Some(Seat { row, seat }) = seats.iter().find(|seat| *companions && !goes_with(seat)) {
            return bad(format_smolstr!(
                "allotment {id} is for companions, and no accessible seat is beside {seat} of row {row}"
            ));
        }
        if let Some(pair) = seats.windows(2).find(|pair| pair[0] >= pair[1]) {
            let Seat { row, seat } = pair[1];
            return bad(format_smolstr!("allotment {id} names seat {seat} of row {row} twice"));
        }
        for named in seats {
            let Seat { row, seat } = *named;
            let Some(index) = layout.index(*named) else {
                return bad(format_smolstr!("allotment {id} names seat {seat} of row {row}, which there is not"));
            };
            if kept.has(index) && !crate::planted::is("a seat in two allotments") {
                return bad(format_smolstr!("seat {seat} of row {row} is in allotment {id} and in one before it"));
            }
            if !kept.has(index) {
                kept.add_all(&[index], layout.seats());
            }
        }
    }
    Ok(())
}

impl Names<'_> {
    fn check_type(&self, of: &PriceType, is_first: bool) -> Result<(), Refusal> {
        let PriceType { id, name: _, names: _, prices, area_prices, tax } = of;
        if is_first && !(prices.is_empty() && area_prices.is_empty()) {
            return bad(format_smolstr!(
                "price type {id} is the first one, so its prices are those of the session and of its areas"
            ));
        }
        for (zones, known, what) in [(prices, &self.categories, "category"), (area_prices, &self.areas, "area")] {
            if let Some(twice) = zones.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                return bad(format_smolstr!("price type {id} has two prices for {what} {}", twice[1].0));
            }
            // Both are in the order of the ids, so one is walked along the other.
            let mut rest = known.iter().peekable();
            for (zone, price) in zones {
                while rest.next_if(|known| **known < zone).is_some() {}
                if rest.peek() != Some(&&zone) {
                    known_to(known, zone, what, &format_smolstr!("price type {id}"))?;
                }
                if !(0..=PRICE_MAX).contains(price) {
                    check_price(&format_smolstr!("{id} in {zone}"), *price)?;
                }
            }
        }
        match tax {
            Some(tax) if tax.rate > TAX_RATE_MAX => bad(format_smolstr!("the tax of price type {id} is over 100 %")),
            Some(_) | None => Ok(()),
        }
    }

    fn check_offer(&self, offer: &Offer) -> Result<(), Refusal> {
        let Offer {
            id,
            types,
            categories,
            areas,
            from,
            until,
            change,
            per_order,
            counters,
            allotments,
            desk,
            attributes,
            ..
        } = offer;
        let of = format_smolstr!("offer {id}");
        let lists = [
            (types, &self.types, "price type"),
            (categories, &self.categories, "category"),
            (areas, &self.areas, "area"),
            (counters, &self.counters, "counter"),
            (allotments, &self.allotments, "allotment"),
        ];
        for (named, known, what) in lists {
            let mut seen = BTreeSet::new();
            for name in named {
                known_to(known, name, what, &of)?;
                if !seen.insert(name) {
                    return bad(format_smolstr!("{of} names {what} {name} twice"));
                }
            }
        }
        if let Some(companions) = allotments.iter().find(|name| self.companions.contains(name)) {
            return bad(format_smolstr!("{of} names allotment {companions}, whose seats go with those beside them"));
        }
        if counters.len() > OFFER_COUNTERS_MAX {
            return bad(format_smolstr!("{of} has more than {OFFER_COUNTERS_MAX} counters"));
        }
        if attributes.len() > OFFER_ATTRIBUTES_MAX {
            return bad(format_smolstr!("{of} has more than {OFFER_ATTRIBUTES_MAX} attributes"));
        }
        if let Some(twice) = attributes.iter().enumerate().find(|(at, it)| attributes[..*at].contains(it)) {
            return bad(format_smolstr!("{of} names attribute {} twice", twice.1));
        }
        if !attributes.is_empty() && *desk {
            return bad(format_smolstr!(
                "{of} is the desk's, which shows no attributes: leave out `attributes` or `desk`"
            ));
        }
        if !allotments.is_empty() && offer.is_for_everybody() {
            return bad(format_smolstr!(
                "{of} sells allotments, so it is not for everybody: say `desk`, `code_group` or `attributes`"
            ));
        }
        if let (Some(from), Some(until)) = (from, until)
            && from >= until
        {
            return bad(format_smolstr!("{of} ends before it opens"));
        }
        if *per_order == Some(0) {
            return bad(format_smolstr!("{of} sells none to an order"));
        }
        if offer.per_customer == Some(0) {
            return bad(format_smolstr!("{of} sells none to a customer"));
        }
        match change {
            Some(PriceChange::Set(price) | PriceChange::Minus(price)) => check_price(&of, *price),
            Some(PriceChange::Percent(off)) if !(1..=10_000).contains(off) => {
                bad(format_smolstr!("{of} takes off not 0.01 to 100 %"))
            }
            Some(PriceChange::Percent(_)) | None => Ok(()),
        }
    }
}

fn known_to(known: &BTreeSet<&Id>, id: &Id, what: &str, of: &str) -> Result<(), Refusal> {
    if known.contains(id) { Ok(()) } else { bad(format_smolstr!("{of} names {what} {id}, which there is not")) }
}

fn distinct<'a>(what: &str, max: usize, ids: impl ExactSizeIterator<Item = &'a Id>) -> Result<(), Refusal> {
    if ids.len() > max {
        return bad(format_smolstr!("there are more than {max} of {what}"));
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return bad(format_smolstr!("there are two of {what} {id}"));
        }
    }
    Ok(())
}

impl Session {
    /// What a change makes of the terms, in words.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn preview_change(
        &self,
        (now, rules): (Timestamp, &Rules),
        change: &SessionChange,
    ) -> Result<SessionChanged, Refusal> {
        let (_, what) = self.changed(now, rules, change)?;
        Ok(SessionChanged { terms: self.terms_version() + 1, what })
    }

    /// Changes the terms. `now` is true time.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn decide_change(
        &self,
        (now, rules): (Timestamp, &Rules),
        change: &SessionChange,
        request: Request,
    ) -> Result<SessionEvent, Refusal> {
        let (session, what) = self.changed(now, rules, change)?;
        let prices = session.prices.iter().map(|(_, price)| price.amount).collect();
        Ok(SessionEvent::Changed { request, at: now, prices, extras: Box::new(session.extras), what })
    }

    /// The answer to a change that was granted with this version of the session.
    pub(crate) fn change_answer(&self, version: u64) -> SessionChanged {
        let changes = self.sale.as_deref().map_or(&[][..], |sale| sale.changes.as_slice());
        let known = changes.iter().find(|change| change.version == version);
        known.map_or_else(
            || SessionChanged { terms: self.terms_version(), what: Vec::new() },
            |change| SessionChanged { terms: change.terms, what: change.what.clone() },
        )
    }

    /// How often the terms have changed.
    pub fn terms_version(&self) -> u32 {
        self.sale.as_deref().map_or(0, |sale| sale.terms)
    }

    /// The terms with a change, and what is different in them.
    fn changed(
        &self,
        now: Timestamp,
        rules: &Rules,
        change: &SessionChange,
    ) -> Result<(NewSession, Vec<SmolStr>), Refusal> {
        if let Some(reason) = self.canceled() {
            return Err(Refusal::SessionClosed(format_smolstr!("it is canceled: {reason}")));
        }
        if now >= self.terms.ends_at {
            return Err(Refusal::SessionClosed("it is over".into()));
        }
        let actual = self.terms_version();
        if let Some(expected) = change.expect.filter(|expected| *expected != actual) {
            return Err(Refusal::TermsChanged { expected, actual });
        }
        let before = self.current();
        let mut after = before.clone();
        self.set(&mut after, change)?;
        check_terms(&self.terms.layout, &mut after)?;
        check_ttl(rules, after.hold_ttl_ms)?;
        let money = after.prices.iter().map(|(_, price)| price).chain(after.areas.iter().map(|area| &area.price));
        let currency = self.terms.currency;
        if money.into_iter().any(|price| price.currency != currency) {
            return bad(format_smolstr!("the session sells in {currency:?}, and its currency stays"));
        }
        self.check_areas_kept(&before.areas, &after.areas)?;
        self.check_counted(&after)?;
        let what = changes_between(&before, &after);
        Ok((after, what))
    }

    fn set(&self, session: &mut NewSession, change: &SessionChange) -> Result<(), Refusal> {
        let SessionChange {
            expect: _,
            prices,
            areas,
            hold_ttl_ms,
            limits,
            comments,
            sells_after_begin,
            price_types,
            offers,
            counters,
            allotments,
            no_single_seats,
            min_party,
            close,
            reopen,
            release,
            dry_run: _,
        } = change.clone();
        if let Some(prices) = prices {
            session.prices = prices;
        }
        let extras = &mut session.extras;
        if let Some(areas) = areas {
            extras.areas = areas;
        }
        extras.hold_ttl_ms = hold_ttl_ms.or(extras.hold_ttl_ms);
        if let Some(limits) = limits {
            extras.limits = limits;
        }
        if let Some(comments) = comments {
            extras.comments = comments;
        }
        if let Some(sells_after_begin) = sells_after_begin {
            extras.sells_after_begin = sells_after_begin;
        }
        if let Some(no_single_seats) = no_single_seats {
            extras.no_single_seats = no_single_seats;
        }
        if let Some(min) = min_party {
            extras.min_party = Some(min).filter(|min| *min != 1);
        }
        let is_same = price_types.is_none() && offers.is_none() && counters.is_none() && allotments.is_none();
        if is_same && close.is_empty() && reopen.is_empty() && release.is_empty() {
            return Ok(());
        }
        let mut offering = extras.offering.as_deref().cloned().unwrap_or_default();
        if let Some(price_types) = price_types {
            offering.price_types = price_types;
        }
        if let Some(offers) = offers {
            offering.offers = offers;
        }
        if let Some(counters) = counters {
            offering.counters = counters;
        }
        if let Some(allotments) = allotments {
            offering.allotments = allotments;
        }
        for id in release {
            let allotment = offering.allotments.iter_mut().find(|allotment| allotment.id == id);
            allotment.ok_or_else(|| Refusal::NotFound(format_smolstr!("allotment {id}")))?.released = true;
        }
        for (ids, closed) in [(close, true), (reopen, false)] {
            for id in ids {
                let offer = offering.offers.iter_mut().find(|offer| offer.id == id);
                offer.ok_or_else(|| Refusal::NotFound(format_smolstr!("offer {id}")))?.closed = closed;
            }
        }
        extras.offering = (!offering.is_empty()).then(|| Arc::new(offering));
        Ok(())
    }

    /// Checks that every area is still there, in its place, and holds what is sold and held of it.
    fn check_areas_kept(&self, before: &[Area], after: &[Area]) -> Result<(), Refusal> {
        for (number, area) in before.iter().enumerate() {
            let Some(kept) = after.get(number).filter(|kept| kept.id == area.id) else {
                return bad(format_smolstr!(
                    "area {} stays in its place; new areas come after those that there are",
                    area.id
                ));
            };
            let AreaCounts { held, sold, .. } = self.counts_of_area(number, area);
            let least = u64::from(held) + u64::from(sold);
            if u64::from(kept.capacity) < least && !crate::planted::is("an area smaller than what is sold of it") {
                return bad(format_smolstr!(
                    "area {} cannot be smaller than the {least} places held and sold",
                    area.id
                ));
            }
        }
        Ok(())
    }

    /// Checks that no counter is below what its offers have sold.
    fn check_counted(&self, after: &NewSession) -> Result<(), Refusal> {
        let (Some(sale), Some(before)) = (self.sale.as_deref(), self.terms.offering()) else { return Ok(()) };
        let counters = after.offering.iter().flat_map(|offering| &offering.counters);
        for counter in counters {
            let Some(number) = before.counters.iter().position(|known| known.id == counter.id) else { continue };
            let least = sale.counted(number);
            if u64::from(counter.max) < least.min(before.counters[number].max.into()) {
                let id = &counter.id;
                return bad(format_smolstr!("counter {id} cannot be lower than the {least} that are held and sold"));
            }
        }
        Ok(())
    }
}
