//! Compares the clients' answers about seats with the audits: nothing acknowledged is missing, nothing exists without a
//! request, refusals are right, and versions are in order.
//!
//! A request with an unknown outcome may have happened or not, but only as a whole.

use std::collections::BTreeMap;

use boxoffice_core::{
    id::{CartId, Entity, Id},
    seat::Seat,
};
use boxoffice_wire::view::{CartState, SessionAudit};

use super::{
    AuditedState, Breach, Findings, RunInventory, seats_in,
    shares::{self, Share},
};
use crate::{
    calls::Calls,
    history::{Bought, CartRecord, History, HoldOutcome, HoldRecord, Outcome, Span},
    house::House,
};

/// The code of `seats_taken`.
const SEATS_TAKEN: u16 = 201;

/// Checks the history against the audited sessions and carts.
pub(super) fn check(inventory: RunInventory<'_>, history: &History, audited: &AuditedState, findings: &mut Findings) {
    let house = inventory.house;
    let index = HistoryIndex::new(history);
    for record in &history.carts {
        check_answers(inventory, record, findings);
    }
    for (&session, audit) in &audited.sessions {
        let entries = index.session(session);
        check_contents(audited, audit, entries, findings);
        check_refusals(audit, entries, findings);
        check_versions(session, audit, entries, findings);
    }
    check_carts(house, &index, audited, findings);
}

/// One hold of one cart.
#[derive(Clone, Copy)]
struct Entry<'a> {
    session: u32,
    cart: &'a CartRecord,
    hold: &'a HoldRecord,
}

/// The history by session and by cart.
struct HistoryIndex<'a> {
    by_session: Vec<Entry<'a>>,
    by_cart: BTreeMap<CartId, &'a CartRecord>,
}

impl<'a> HistoryIndex<'a> {
    fn new(history: &'a History) -> HistoryIndex<'a> {
        let entries = history
            .carts
            .iter()
            .flat_map(|cart| cart.holds.iter().map(move |hold| Entry { session: hold.session, cart, hold }));
        let mut by_session: Vec<Entry<'a>> = entries.collect();
        by_session.sort_by_key(|entry| (entry.session, entry.cart.cart));
        let by_cart = history.carts.iter().map(|cart| (cart.cart, cart)).collect();
        HistoryIndex { by_session, by_cart }
    }

    /// The holds in a session, grouped by cart.
    fn session(&self, session: u32) -> &[Entry<'a>] {
        let from = self.by_session.partition_point(|entry| entry.session < session);
        let to = self.by_session.partition_point(|entry| entry.session <= session);
        &self.by_session[from..to]
    }
}

/// Checks the answers of one client for contradictions: prices must add up, and versions must only grow.
fn check_answers(inventory: RunInventory<'_>, record: &CartRecord, findings: &mut Findings) {
    let granted = record.holds.iter().filter(|hold| hold.outcome.granted().is_some());
    let seats_price: i64 = granted.map(|hold| inventory.price * hold.seats.len() as i64).sum();
    let granted = record.goods_holds.iter().filter(|hold| hold.outcome.granted().is_some());
    let goods_price: i64 = granted.map(|hold| inventory.goods.price(hold.good) * i64::from(hold.quantity)).sum();
    let due = seats_price + goods_price;
    // The order may contain goods of a hold with an unknown outcome.
    let has_unknown = record.goods_holds.iter().any(|hold| hold.outcome == Outcome::Unknown);
    if let Some(Bought { order, total, .. }) = record.bought() {
        if *total != due && !has_unknown {
            findings
                .add(Breach::WrongOrder, || format!("order {order} has a total of {total}, but its lines cost {due}"));
        }
        if *order != record.cart.order() {
            findings
                .add(Breach::WrongOrder, || format!("cart {} got order {order}, which is another cart's", record.cart));
        }
    }
    if record.versions.windows(2).any(|pair| pair[0] >= pair[1]) {
        findings.add(Breach::WrongVersion, || {
            format!("cart {} got versions {:?} in this order", record.cart, record.versions)
        });
    }
}

/// Compares the sales and holds of a session with the clients' answers.
fn check_contents(audited: &AuditedState, audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let session = &audit.session;
    let mut sold = by_cart(audit.sales.iter().map(|sale| (sale.order.cart(), seats_in(&sale.portion))));
    let mut held = by_cart(audit.holds.iter().map(|hold| (hold.hold.cart, seats_in(&hold.portion))));

    for group in entries.chunk_by(|a, b| a.cart.cart == b.cart.cart) {
        let cart = group[0].cart;
        let sold = sold.remove(&cart.cart).unwrap_or_default();
        let held = held.remove(&cart.cart).unwrap_or_default();
        let granted = seats_of(group, |outcome| outcome.granted().is_some());
        // A client does not check out after a hold with an unknown outcome.
        let unknown = match cart.checkout_outcome() {
            Some(Outcome::Granted(_) | Outcome::Unknown) => Vec::new(),
            Some(Outcome::Refused { .. } | Outcome::NotDone) | None => {
                seats_of(group, |outcome| *outcome == Outcome::Unknown)
            }
        };
        // Whether a deadline has not passed, so that the seats must be there.
        let mut held_seats = group.iter().filter_map(|entry| entry.hold.outcome.granted());
        let must_exist = held_seats.any(|held| held.deadline > audited.at);
        let share = |seats: &[Seat]| Share {
            is_empty: seats.is_empty(),
            lacks: granted.iter().any(|seat| !seats.contains(seat)),
            exceeds: seats.iter().any(|seat| !granted.contains(seat) && !unknown.contains(seat)),
        };
        let text = || {
            let cart = cart.cart;
            format!(
                "cart {cart} was granted {granted:?} of session {session}, which has sold {sold:?} and holds {held:?}"
            )
        };
        shares::check(cart, (share(&held), share(&sold), must_exist), &text, findings);
    }

    for (verb, rest) in [("sold to", sold), ("holds for", held)] {
        for (cart, seats) in rest {
            findings.add(Breach::Unexplained, || {
                format!("session {session} {verb} cart {cart} {seats:?}, which requested none")
            });
        }
    }
}

/// Checks that refusals name only seats that a cart may have had, and all seats that a cart certainly had.
fn check_refusals(audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let refused = |entry: &&Entry<'_>| matches!(entry.hold.outcome, Outcome::Refused { code: SEATS_TAKEN, .. });
    if !entries.iter().any(|entry| refused(&entry)) {
        return;
    }
    // For each seat: since when a cart may have had it, and since when a cart certainly had it.
    let mut claims: BTreeMap<Seat, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let certain_us = match entry.hold.outcome {
            Outcome::Granted(_) => entry.hold.span.returned_us,
            Outcome::Unknown => u64::MAX,
            Outcome::Refused { .. } | Outcome::NotDone => continue,
        };
        for seat in entry.hold.seats.as_slice() {
            let claim = claims.entry(*seat).or_insert((u64::MAX, u64::MAX));
            claim.0 = claim.0.min(entry.hold.span.called_us);
            claim.1 = claim.1.min(certain_us);
        }
    }
    let session = &audit.session;
    for entry in entries.iter().filter(refused) {
        let Outcome::Refused { more: named, .. } = &entry.hold.outcome else { unreachable!("only refusals are left") };
        let Span { called_us, returned_us } = entry.hold.span;
        let cart = entry.cart.cart;
        if named.is_empty() {
            findings.add(Breach::RefusedWhileFree, || {
                format!("session {session} refused cart {cart} without naming a seat")
            });
        }
        for taken in named {
            let was_requested = entry.hold.seats.as_slice().contains(&taken.seat);
            let was_claimed = claims.get(&taken.seat).is_some_and(|(possible_us, _)| *possible_us < returned_us);
            if !was_requested || !was_claimed {
                findings.add(Breach::RefusedWhileFree, || {
                    format!("session {session} refused cart {cart} for seat {:?}, which was free", taken.seat)
                });
            }
        }
        for seat in entry.hold.seats.as_slice() {
            let was_taken = claims.get(seat).is_some_and(|(_, certain_us)| *certain_us < called_us);
            if was_taken && !named.iter().any(|taken| taken.seat == *seat) {
                findings.add(Breach::RefusedWhileFree, || {
                    format!("session {session} refused cart {cart} without naming seat {seat:?}, which was taken")
                });
            }
        }
    }
}

/// Checks the versions that holds and sales of a session got.
fn check_versions(number: u32, audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let holds = entries.iter().filter_map(|entry| {
        let version = entry.hold.outcome.granted()?.session_version?;
        Some((entry.hold.span, version))
    });
    let carts = entries.chunk_by(|a, b| a.cart.cart == b.cart.cart).map(|group| group[0].cart);
    let sales = carts.filter_map(|cart| cart.checkout.as_ref()).flat_map(|checkout| {
        let sold = checkout.outcome.granted().into_iter().flat_map(|bought| &bought.sold);
        sold.filter(|(session, _)| *session == number).map(|(_, version)| (checkout.span, *version))
    });
    let mut changes: Vec<(Span, u64)> = holds.chain(sales).collect();
    changes.sort_by_key(|(span, _)| span.returned_us);
    let mut calls = Calls::default();
    for (request, (span, version)) in changes.into_iter().enumerate() {
        let times = (span.called_us, span.returned_us);
        for wrong in calls.changed(&request, times, (&audit.session, version, None)) {
            findings.add(Breach::WrongVersion, || format!("session {wrong}"));
        }
    }
}

/// Compares the audited carts with their clients' answers and with the sessions.
fn check_carts(house: &House, index: &HistoryIndex<'_>, audited: &AuditedState, findings: &mut Findings) {
    let session_of: BTreeMap<Id, &SessionAudit> =
        audited.sessions.iter().map(|(&number, audit)| (house.session_id(number), audit)).collect();
    for audit in &audited.carts {
        let cart = &audit.cart;
        let Some(record) = index.by_cart.get(&cart.id) else {
            findings.add(Breach::Unexplained, || format!("cart {} does not belong to this run", cart.id));
            continue;
        };
        if !record.may_be(cart.state) {
            let breach = if record.bought().is_some() { Breach::Lost } else { Breach::WrongState };
            findings.add(breach, || {
                format!("cart {} is {}; its client got {:?}", cart.id, cart.state.as_str(), record.checkout)
            });
        }
        if cart.state != CartState::Done {
            let sale = record.holds.iter().filter_map(|hold| audited.sessions.get(&hold.session));
            if sale.flat_map(|session| session.sales.iter()).any(|sale| sale.order.cart() == cart.id) {
                findings.add(Breach::Unexplained, || {
                    format!("cart {} is {}, but seats were sold to it", cart.id, cart.state.as_str())
                });
            }
            continue;
        }
        let mut by_session: BTreeMap<&Id, Vec<Seat>> = BTreeMap::new();
        for line in &cart.lines {
            if let Entity::Session(session) = &line.entity {
                by_session.entry(session).or_default().extend(line.content.seats().iter().map(|seat| seat.seat));
            }
        }
        for (session, mut bought) in by_session {
            let Some(session) = session_of.get(session) else {
                continue;
            };
            bought.sort_unstable();
            let sales = session.sales.iter().filter(|sale| sale.order.cart() == cart.id);
            let mut sold: Vec<Seat> = sales.flat_map(|sale| seats_in(&sale.portion)).copied().collect();
            sold.sort_unstable();
            if bought != sold {
                let breach = if audit.owed > 0 { Breach::Unsettled } else { Breach::WrongOrder };
                findings.add(breach, || {
                    format!(
                        "order {} has {bought:?} of session {}, which sold it {sold:?}",
                        cart.id.order(),
                        session.session
                    )
                });
            }
        }
    }
}

/// Seats by cart, ascending.
fn by_cart<'a>(parts: impl Iterator<Item = (CartId, &'a [Seat])>) -> BTreeMap<CartId, Vec<Seat>> {
    let mut all: BTreeMap<CartId, Vec<Seat>> = BTreeMap::new();
    for (cart, seats) in parts {
        all.entry(cart).or_default().extend_from_slice(seats);
    }
    for seats in all.values_mut() {
        seats.sort_unstable();
    }
    all
}

/// The seats of the holds whose outcome matches, ascending.
fn seats_of(group: &[Entry<'_>], matches: impl Fn(&HoldOutcome) -> bool) -> Vec<Seat> {
    let holds = group.iter().filter(|entry| matches(&entry.hold.outcome));
    let mut seats: Vec<Seat> = holds.flat_map(|entry| entry.hold.seats.as_slice().iter().copied()).collect();
    seats.sort_unstable();
    seats
}
