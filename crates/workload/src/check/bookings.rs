//! The bookings of every resource against a reference list kept from acknowledged answers: P13, and refusals that were true.

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_core::answer::{BookingState, BookingView};

use super::{Audited, Breach, Findings};
use crate::{
    goods::{Good, Goods, Span as Slot},
    history::{Change, ChangeOutcome, ChangeRecord, History, Span, TakeOutcome},
};

/// The number of `slot_taken`.
const SLOT_TAKEN: u16 = 501;

/// Checks every audited resource.
pub(super) fn check(goods: &Goods, history: &History, audited: &Audited, findings: &mut Findings) {
    let mut by_resource: BTreeMap<u32, Vec<&ChangeRecord>> = BTreeMap::new();
    for change in &history.changes {
        by_resource.entry(change.resource).or_default().push(change);
    }
    let claims = claims(history);
    for (&resource, (audit, listed)) in &audited.resources {
        let changes = by_resource.remove(&resource).unwrap_or_default();
        let name = &audit.resource;
        if audit.bookings != listed.len() as u64 {
            let count = audit.bookings;
            findings.add(Breach::Miscounted, || format!("{name} counts {count} bookings and lists {}", listed.len()));
        }
        check_overlaps(listed, findings);
        check_list(goods, &changes, listed, findings);
    }
    check_refusals(history, &claims, findings);
}

/// P13: no two live bookings of a resource of capacity 1 have an instant in common.
fn check_overlaps(listed: &[BookingView], findings: &mut Findings) {
    let mut sorted: Vec<&BookingView> = listed.iter().collect();
    sorted.sort_by_key(|booking| (booking.begin, booking.end));
    for pair in sorted.windows(2).filter(|pair| pair[1].begin < pair[0].end) {
        findings
            .add(Breach::Twice, || format!("bookings {} and {} have the same time", pair[0].booking, pair[1].booking));
    }
}

/// What a resource lists against where each booking may be by what the clients were told.
fn check_list(goods: &Goods, changes: &[&ChangeRecord], listed: &[BookingView], findings: &mut Findings) {
    // Where a booking may be; `None` is nowhere.
    let mut may_be: BTreeMap<u32, BTreeSet<Option<Slot>>> = BTreeMap::new();
    for change in changes {
        let places = may_be.entry(change.booking).or_insert_with(|| [None].into());
        let after = match change.change {
            Change::Reserve(slot) | Change::Move(slot) => Some(slot),
            Change::Cancel => None,
        };
        match change.outcome {
            ChangeOutcome::Done => *places = [after].into(),
            ChangeOutcome::Unknown => {
                places.insert(after);
            }
            ChangeOutcome::Refused { .. } | ChangeOutcome::NotDone => {}
        }
    }
    for booking in listed.iter().filter(|booking| booking.state == BookingState::Reserved) {
        findings.bookings += 1;
        let slot = Slot { begin: booking.begin, end: booking.end };
        let places = goods.booking_number(&booking.booking).and_then(|number| may_be.remove(&number));
        if !places.as_ref().is_some_and(|places| places.contains(&Some(slot))) {
            findings.add(Breach::Unexplained, || {
                format!("booking {} is at {slot:?}; its client knows it at {places:?}", booking.booking)
            });
        }
    }
    for (number, places) in may_be {
        if !places.contains(&None) {
            findings.add(Breach::Lost, || {
                format!("booking {} is not there; its client knows it at {places:?}", goods.booking_id(number))
            });
        }
    }
}

/// A time of a resource that somebody may have had, and from when to when by the clients' clock.
struct Claim {
    slot: Slot,
    from_us: u64,
    to_us: u64,
}

/// By resource, everything anybody may ever have had.
fn claims(history: &History) -> BTreeMap<u32, Vec<Claim>> {
    let mut claims: BTreeMap<u32, Vec<Claim>> = BTreeMap::new();
    // Where the latest claim of a booking stands, to end it.
    let mut latest: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    for change in &history.changes {
        let happened = change.outcome == ChangeOutcome::Done;
        if !happened && change.outcome != ChangeOutcome::Unknown {
            continue;
        }
        if happened
            && let Some((resource, place)) = latest.remove(&change.booking)
            && let Some(claim) = claims.get_mut(&resource).and_then(|claims| claims.get_mut(place))
        {
            claim.to_us = change.span.returned_us;
        }
        if let Change::Reserve(slot) | Change::Move(slot) = change.change {
            let of_resource = claims.entry(change.resource).or_default();
            if happened {
                latest.insert(change.booking, (change.resource, of_resource.len()));
            }
            of_resource.push(Claim { slot, from_us: change.span.called_us, to_us: u64::MAX });
        }
    }
    for take in history.carts.iter().flat_map(|cart| &cart.takes) {
        if let (Good::Slot { resource, span }, TakeOutcome::Granted { .. } | TakeOutcome::Unknown) =
            (take.good, take.outcome)
        {
            let claim = Claim { slot: span, from_us: take.span.called_us, to_us: u64::MAX };
            claims.entry(resource).or_default().push(claim);
        }
    }
    claims
}

/// Nobody is told "taken" of a time that nobody had meanwhile.
fn check_refusals(history: &History, claims: &BTreeMap<u32, Vec<Claim>>, findings: &mut Findings) {
    let changes = history.changes.iter().filter_map(|change| match (change.change, change.outcome) {
        (Change::Reserve(slot) | Change::Move(slot), ChangeOutcome::Refused { code: SLOT_TAKEN }) => {
            Some((change.resource, slot, change.span))
        }
        (Change::Reserve(_) | Change::Move(_) | Change::Cancel, _) => None,
    });
    let takes = history.carts.iter().flat_map(|cart| &cart.takes);
    let takes = takes.filter_map(|take| match (take.good, take.outcome) {
        (Good::Slot { resource, span }, TakeOutcome::Refused { code: SLOT_TAKEN, .. }) => {
            Some((resource, span, take.span))
        }
        (Good::Slot { .. } | Good::Product(_) | Good::Area { .. }, _) => None,
    });
    for (resource, slot, Span { called_us, returned_us }) in changes.chain(takes) {
        let claimed = claims.get(&resource).is_some_and(|claims| {
            let in_the_way =
                |claim: &Claim| claim.slot.overlaps(&slot) && claim.from_us < returned_us && called_us < claim.to_us;
            claims.iter().any(in_the_way)
        });
        if !claimed {
            findings
                .add(Breach::RefusedWhileFree, || format!("resource {resource} refused {slot:?}, which nobody had"));
        }
    }
}
