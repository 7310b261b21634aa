//! Compares the clients' answers about seats with the audits: nothing acknowledged is missing, nothing exists without a
//! request, refusals are right, and versions are in order.
//!
//! A request with an unknown outcome may have happened or not, but only as a whole.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{CartState, LineView, SessionAudit},
    id::{CartId, Entity, Id},
    seat::Seat,
};

use super::{AuditedState, Breach, Findings, RunInventory, seats_in};
use crate::{
    history::{CartRecord, CheckoutOutcome, GoodsHoldOutcome, History, HoldOutcome, HoldRecord, Span},
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
    let granted = record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. }));
    let seats_price: i64 = granted.map(|hold| inventory.price * hold.seats.len() as i64).sum();
    let granted = record.goods_holds.iter().filter(|hold| matches!(hold.outcome, GoodsHoldOutcome::Granted { .. }));
    let goods_price: i64 = granted.map(|hold| inventory.goods.price(hold.good) * i64::from(hold.quantity)).sum();
    let due = seats_price + goods_price;
    // The order may contain goods of a hold with an unknown outcome.
    let has_unknown = record.goods_holds.iter().any(|hold| hold.outcome == GoodsHoldOutcome::Unknown);
    if let Some(CheckoutOutcome::Bought { order, total, .. }) =
        record.checkout.as_ref().map(|checkout| &checkout.outcome)
    {
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
        let sold_seats = sold.remove(&cart.cart).unwrap_or_default();
        let held_seats = held.remove(&cart.cart).unwrap_or_default();
        let granted = seats_of(group, |outcome| matches!(outcome, HoldOutcome::Granted { .. }));
        let unknown = seats_of(group, |outcome| *outcome == HoldOutcome::Unknown);
        // Whether a deadline has not passed, so that the seats must be there.
        let must_exist = group.iter().any(|entry| match entry.hold.outcome {
            HoldOutcome::Granted { deadline, .. } => deadline > audited.at,
            HoldOutcome::Refused { .. } | HoldOutcome::Unknown | HoldOutcome::NotDone => false,
        });
        let id = cart.cart;
        match cart.checkout.as_ref().map(|checkout| &checkout.outcome) {
            Some(CheckoutOutcome::Bought { .. }) => {
                if sold_seats.is_empty() && held_seats == granted && !granted.is_empty() {
                    findings.add(Breach::Unsettled, || {
                        format!("session {session} still holds the seats that cart {id} bought")
                    });
                } else if sold_seats != granted {
                    let breach = if granted.iter().all(|seat| sold_seats.contains(seat)) {
                        Breach::Unexplained
                    } else {
                        Breach::Lost
                    };
                    findings.add(breach, || {
                        format!("cart {id} bought {granted:?} of session {session}, which sold it {sold_seats:?}")
                    });
                } else if !held_seats.is_empty() {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} holds {held_seats:?} for cart {id}, which is done")
                    });
                }
            }
            Some(CheckoutOutcome::Unknown) => {
                let is_whole = sold_seats == granted || held_seats == granted || !must_exist;
                if !is_whole || (!sold_seats.is_empty() && sold_seats != granted) {
                    findings.add(Breach::Lost, || {
                        format!(
                            "cart {id} may have bought {granted:?} of session {session}, which sold {sold_seats:?} and \
                             holds {held_seats:?}"
                        )
                    });
                }
            }
            Some(CheckoutOutcome::Refused { .. } | CheckoutOutcome::NotDone) | None => {
                if !sold_seats.is_empty() {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} sold {sold_seats:?} to cart {id}, which did not buy")
                    });
                }
                if must_exist && !granted.iter().all(|seat| held_seats.contains(seat)) {
                    findings.add(Breach::Lost, || {
                        format!(
                            "cart {id} was granted {granted:?} of session {session}, which holds {held_seats:?} for it"
                        )
                    });
                }
                if held_seats.iter().any(|seat| !granted.contains(seat) && !unknown.contains(seat)) {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} holds {held_seats:?} for cart {id}, which was granted {granted:?}")
                    });
                }
            }
        }
    }

    for (cart, seats) in sold {
        findings.add(Breach::Unexplained, || {
            format!("session {session} sold {seats:?} to cart {cart}, which requested none")
        });
    }
    for (cart, seats) in held {
        findings.add(Breach::Unexplained, || {
            format!("session {session} holds {seats:?} for cart {cart}, which requested none")
        });
    }
}

/// Checks that refusals name only seats that a cart may have had, and all seats that a cart certainly had.
fn check_refusals(audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let refused = |entry: &&Entry<'_>| matches!(entry.hold.outcome, HoldOutcome::Refused { code: SEATS_TAKEN, .. });
    if !entries.iter().any(|entry| refused(&entry)) {
        return;
    }
    // For each seat: since when a cart may have had it, and since when a cart certainly had it.
    let mut claims: BTreeMap<Seat, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let certain_us = match entry.hold.outcome {
            HoldOutcome::Granted { .. } => entry.hold.span.returned_us,
            HoldOutcome::Unknown => u64::MAX,
            HoldOutcome::Refused { .. } | HoldOutcome::NotDone => continue,
        };
        for seat in entry.hold.seats.as_slice() {
            let claim = claims.entry(*seat).or_insert((u64::MAX, u64::MAX));
            claim.0 = claim.0.min(entry.hold.span.called_us);
            claim.1 = claim.1.min(certain_us);
        }
    }
    let session = &audit.session;
    for entry in entries.iter().filter(refused) {
        let HoldOutcome::Refused { named, .. } = &entry.hold.outcome else { unreachable!("only refusals are left") };
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

/// Checks that no two changes of a session got the same version, and that no version was returned before the request of
/// a lower one was sent.
fn check_versions(number: u32, audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let mut versions: Vec<(u64, Span)> = Vec::new();
    for group in entries.chunk_by(|a, b| a.cart.cart == b.cart.cart) {
        for entry in group {
            if let HoldOutcome::Granted { session_version: Some(version), .. } = entry.hold.outcome {
                versions.push((version, entry.hold.span));
            }
        }
        let Some(checkout) = &group[0].cart.checkout else {
            continue;
        };
        if let CheckoutOutcome::Bought { sold, .. } = &checkout.outcome {
            let in_session = sold.iter().filter(|(session, _)| *session == number);
            versions.extend(in_session.map(|(_, version)| (*version, checkout.span)));
        }
    }
    versions.sort_unstable_by_key(|(version, span)| (*version, span.called_us));
    let session = &audit.session;
    let mut called_last_us = 0;
    let mut before = None;
    for (version, span) in versions {
        if before == Some(version) {
            findings.add(Breach::WrongVersion, || format!("session {session} gave version {version} to two changes"));
        } else if span.returned_us < called_last_us {
            findings.add(Breach::WrongVersion, || {
                format!("session {session} returned version {version} before the request of a lower version was sent")
            });
        }
        before = Some(version);
        called_last_us = called_last_us.max(span.called_us);
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
            let breach = if record.order().is_some() { Breach::Lost } else { Breach::WrongState };
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
        for (session, lines) in lines_by_session(&cart.lines) {
            let Some(session) = session_of.get(session) else {
                continue;
            };
            let mut bought: Vec<Seat> =
                lines.iter().flat_map(|line| line.content.seats()).map(|seat| seat.seat).collect();
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

/// The lines of a cart that belong to sessions, by session. Other lines are not checked here.
fn lines_by_session(lines: &[LineView]) -> BTreeMap<&Id, Vec<&LineView>> {
    let mut by_session: BTreeMap<&Id, Vec<&LineView>> = BTreeMap::new();
    for line in lines {
        if let Entity::Session(session) = &line.entity {
            by_session.entry(session).or_default().push(line);
        }
    }
    by_session
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
