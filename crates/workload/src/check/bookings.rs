//! Compares the bookings of every resource with the acknowledged changes (P13), and checks that refusals were right.

use std::collections::{BTreeMap, BTreeSet};

use boxoffice_wire::view::{BookingState, BookingView};

use super::{AuditedState, Breach, Findings};
use crate::{
    goods::{Good, Goods, Slot},
    history::{BookingChange, ChangeRecord, History, Outcome, Span},
};

/// The code of `slot_taken`.
const SLOT_TAKEN: u16 = 501;

/// Checks every audited resource.
pub(super) fn check(goods: &Goods, history: &History, audited: &AuditedState, findings: &mut Findings) {
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
            findings.add(Breach::Miscounted, || format!("{name} counts {count} bookings, but lists {}", listed.len()));
        }
        check_overlaps(listed, findings);
        check_list(goods, &changes, listed, findings);
    }
    check_refusals(history, &claims, findings);
}

/// P13: live bookings of a resource of capacity 1 do not overlap.
fn check_overlaps(listed: &[BookingView], findings: &mut Findings) {
    let mut sorted: Vec<&BookingView> = listed.iter().collect();
    sorted.sort_by_key(|booking| (booking.begin, booking.end));
    for pair in sorted.windows(2).filter(|pair| pair[1].begin < pair[0].end) {
        findings.add(Breach::Twice, || format!("bookings {} and {} overlap", pair[0].booking, pair[1].booking));
    }
}

/// Compares the bookings that a resource lists with the times that each may have by the clients' answers.
fn check_list(goods: &Goods, changes: &[&ChangeRecord], listed: &[BookingView], findings: &mut Findings) {
    // The possible slots of each booking. `None` means that the booking may not exist.
    let mut possible: BTreeMap<u32, BTreeSet<Option<Slot>>> = BTreeMap::new();
    for change in changes {
        let slots = possible.entry(change.booking).or_insert_with(|| [None].into());
        let after = match change.change {
            BookingChange::Reserve(slot) | BookingChange::Move(slot) => Some(slot),
            BookingChange::Cancel => None,
        };
        match change.outcome {
            Outcome::Granted(()) => *slots = [after].into(),
            Outcome::Unknown => {
                slots.insert(after);
            }
            Outcome::Refused { .. } | Outcome::NotDone => {}
        }
    }
    for booking in listed.iter().filter(|booking| booking.state == BookingState::Reserved) {
        findings.bookings += 1;
        let slot = Slot { begin: booking.begin, end: booking.end };
        let slots = goods.booking_number(&booking.booking).and_then(|number| possible.remove(&number));
        if !slots.as_ref().is_some_and(|slots| slots.contains(&Some(slot))) {
            findings.add(Breach::Unexplained, || {
                format!("booking {} is at {slot:?}; by its client's answers it may be at {slots:?}", booking.booking)
            });
        }
    }
    for (number, slots) in possible {
        if !slots.contains(&None) {
            findings.add(Breach::Lost, || {
                let booking = goods.booking_id(number);
                format!("booking {booking} does not exist; by its client's answers it may be at {slots:?}")
            });
        }
    }
}

/// A slot that a client may have had, and from when to when by the clients' clock.
struct Claim {
    slot: Slot,
    from_us: u64,
    to_us: u64,
}

/// All slots that a client may have had, by resource.
fn claims(history: &History) -> BTreeMap<u32, Vec<Claim>> {
    let mut claims: BTreeMap<u32, Vec<Claim>> = BTreeMap::new();
    // The resource and index of each booking's latest claim, which the next change ends.
    let mut latest: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    for change in &history.changes {
        let happened = change.outcome == Outcome::Granted(());
        if !happened && change.outcome != Outcome::Unknown {
            continue;
        }
        if happened
            && let Some((resource, index)) = latest.remove(&change.booking)
            && let Some(claim) = claims.get_mut(&resource).and_then(|claims| claims.get_mut(index))
        {
            claim.to_us = change.span.returned_us;
        }
        if let BookingChange::Reserve(slot) | BookingChange::Move(slot) = change.change {
            let of_resource = claims.entry(change.resource).or_default();
            if happened {
                latest.insert(change.booking, (change.resource, of_resource.len()));
            }
            of_resource.push(Claim { slot, from_us: change.span.called_us, to_us: u64::MAX });
        }
    }
    for hold in history.carts.iter().flat_map(|cart| &cart.goods_holds) {
        if let (Good::Slot { resource, slot }, Outcome::Granted(_) | Outcome::Unknown) = (hold.good, hold.outcome) {
            let claim = Claim { slot, from_us: hold.span.called_us, to_us: u64::MAX };
            claims.entry(resource).or_default().push(claim);
        }
    }
    claims
}

/// Checks that every refused slot overlaps a slot that a client may have had at that time.
fn check_refusals(history: &History, claims: &BTreeMap<u32, Vec<Claim>>, findings: &mut Findings) {
    let changes = history.changes.iter().filter_map(|change| match (change.change, change.outcome) {
        (BookingChange::Reserve(slot) | BookingChange::Move(slot), Outcome::Refused { code: SLOT_TAKEN, .. }) => {
            Some((change.resource, slot, change.span))
        }
        (BookingChange::Reserve(_) | BookingChange::Move(_) | BookingChange::Cancel, _) => None,
    });
    let holds = history.carts.iter().flat_map(|cart| &cart.goods_holds);
    let holds = holds.filter_map(|hold| match (hold.good, hold.outcome) {
        (Good::Slot { resource, slot }, Outcome::Refused { code: SLOT_TAKEN, .. }) => Some((resource, slot, hold.span)),
        (Good::Slot { .. } | Good::Product(_) | Good::Area { .. }, _) => None,
    });
    for (resource, slot, Span { called_us, returned_us }) in changes.chain(holds) {
        let was_claimed = claims.get(&resource).is_some_and(|claims| {
            let conflicts =
                |claim: &Claim| claim.slot.overlaps(&slot) && claim.from_us < returned_us && called_us < claim.to_us;
            claims.iter().any(conflicts)
        });
        if !was_claimed {
            findings.add(Breach::RefusedWhileFree, || format!("resource {resource} refused {slot:?}, which was free"));
        }
    }
}
