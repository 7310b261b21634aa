//! The clients' books against the audits: nothing acknowledged missing, nothing there unasked, refusals true, versions in order.
//! An unknown outcome is never taken for absent: either way is right, but only whole.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{CartState, LineView, SessionAudit},
    id::{CartId, Entity, Id},
    seat::Seat,
};

use super::{Audited, Breach, Findings, seats_in};
use crate::{
    history::{CartRecord, CheckoutOutcome, History, HoldOutcome, HoldRecord, Span},
    house::House,
};

/// The number of `seats_taken`.
const SEATS_TAKEN: u16 = 201;

/// Checks the books against the audited sessions and carts.
pub(super) fn check(house: &House, price: i64, history: &History, audited: &Audited, findings: &mut Findings) {
    let books = Books::of(history);
    for record in &history.carts {
        check_answers(price, record, findings);
    }
    for (&session, audit) in &audited.sessions {
        let entries = books.session(session);
        check_contents(audited, audit, entries, findings);
        check_refusals(audit, entries, findings);
        check_versions(session, audit, entries, findings);
    }
    check_carts(house, &books, audited, findings);
}

/// One hold of one cart, found by session.
#[derive(Clone, Copy)]
struct Entry<'a> {
    session: u32,
    cart: &'a CartRecord,
    hold: &'a HoldRecord,
}

/// The history, found by session and by cart.
struct Books<'a> {
    by_session: Vec<Entry<'a>>,
    by_cart: BTreeMap<CartId, &'a CartRecord>,
}

impl<'a> Books<'a> {
    fn of(history: &'a History) -> Books<'a> {
        let entries = history
            .carts
            .iter()
            .flat_map(|cart| cart.holds.iter().map(move |hold| Entry { session: hold.session, cart, hold }));
        let mut by_session: Vec<Entry<'a>> = entries.collect();
        by_session.sort_by_key(|entry| (entry.session, entry.cart.cart));
        let by_cart = history.carts.iter().map(|cart| (cart.cart, cart)).collect();
        Books { by_session, by_cart }
    }

    /// The holds in a session, those of one cart together.
    fn session(&self, session: u32) -> &[Entry<'a>] {
        let from = self.by_session.partition_point(|entry| entry.session < session);
        let to = self.by_session.partition_point(|entry| entry.session <= session);
        &self.by_session[from..to]
    }
}

/// What one client was told, by itself: prices, and versions that only grow.
fn check_answers(price: i64, record: &CartRecord, findings: &mut Findings) {
    let granted = record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. }));
    let due: i64 = granted.map(|hold| price * hold.seats.len() as i64).sum();
    if let Some(CheckoutOutcome::Bought { order, total, .. }) =
        record.checkout.as_ref().map(|checkout| &checkout.outcome)
    {
        if *total != due {
            findings.add(Breach::WrongOrder, || format!("order {order} has a total of {total}; its seats cost {due}"));
        }
        if *order != record.cart.order() {
            findings
                .add(Breach::WrongOrder, || format!("cart {} was told of order {order}, another cart's", record.cart));
        }
    }
    if record.versions.windows(2).any(|pair| pair[0] >= pair[1]) {
        findings.add(Breach::WrongVersion, || {
            format!("cart {} was told versions {:?} in this order", record.cart, record.versions)
        });
    }
}

/// What a session has against what its clients know.
fn check_contents(audited: &Audited, audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let session = &audit.session;
    let mut sold = by_cart(audit.sales.iter().map(|sale| (sale.order.cart(), seats_in(&sale.portion))));
    let mut held = by_cart(audit.holds.iter().map(|hold| (hold.hold.cart, seats_in(&hold.portion))));

    for group in entries.chunk_by(|a, b| a.cart.cart == b.cart.cart) {
        let cart = group[0].cart;
        let is_sold = sold.remove(&cart.cart).unwrap_or_default();
        let is_held = held.remove(&cart.cart).unwrap_or_default();
        let granted = seats_of(group, |outcome| matches!(outcome, HoldOutcome::Granted { .. }));
        let open = seats_of(group, |outcome| *outcome == HoldOutcome::Unknown);
        let certain = group.iter().any(|entry| match entry.hold.outcome {
            HoldOutcome::Granted { deadline, .. } => deadline > audited.at,
            HoldOutcome::Refused { .. } | HoldOutcome::Unknown | HoldOutcome::NotDone => false,
        });
        let name = cart.cart;
        match cart.checkout.as_ref().map(|checkout| &checkout.outcome) {
            Some(CheckoutOutcome::Bought { .. }) => {
                if is_sold.is_empty() && is_held == granted && !granted.is_empty() {
                    findings
                        .add(Breach::Unsettled, || format!("session {session} still holds what cart {name} bought"));
                } else if is_sold != granted {
                    let breach = if granted.iter().all(|seat| is_sold.contains(seat)) {
                        Breach::Unexplained
                    } else {
                        Breach::Lost
                    };
                    findings.add(breach, || {
                        format!("cart {name} bought {granted:?} of session {session}, which sold it {is_sold:?}")
                    });
                } else if !is_held.is_empty() {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} holds {is_held:?} for cart {name}, which is done")
                    });
                }
            }
            Some(CheckoutOutcome::Unknown) => {
                let whole = is_sold == granted || is_held == granted || !certain;
                if !whole || (!is_sold.is_empty() && is_sold != granted) {
                    findings.add(Breach::Lost, || {
                        format!(
                            "cart {name} may have bought {granted:?} of session {session}, which sold {is_sold:?} and holds {is_held:?}"
                        )
                    });
                }
            }
            Some(CheckoutOutcome::Refused { .. } | CheckoutOutcome::NotDone) | None => {
                if !is_sold.is_empty() {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} sold {is_sold:?} to cart {name}, which did not buy")
                    });
                }
                if certain && !granted.iter().all(|seat| is_held.contains(seat)) {
                    findings.add(Breach::Lost, || {
                        format!(
                            "cart {name} was granted {granted:?} of session {session}, which holds {is_held:?} for it"
                        )
                    });
                }
                if is_held.iter().any(|seat| !granted.contains(seat) && !open.contains(seat)) {
                    findings.add(Breach::Unexplained, || {
                        format!("session {session} holds {is_held:?} for cart {name}, which was granted {granted:?}")
                    });
                }
            }
        }
    }

    for (cart, seats) in sold {
        findings
            .add(Breach::Unexplained, || format!("session {session} sold {seats:?} to cart {cart}, which never asked"));
    }
    for (cart, seats) in held {
        findings.add(Breach::Unexplained, || {
            format!("session {session} holds {seats:?} for cart {cart}, which never asked")
        });
    }
}

/// Refusals say "taken" of seats somebody had or may have had, and of all of those.
fn check_refusals(audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let refused = |entry: &&Entry<'_>| matches!(entry.hold.outcome, HoldOutcome::Refused { code: SEATS_TAKEN, .. });
    if !entries.iter().any(|entry| refused(&entry)) {
        return;
    }
    // For each seat: when somebody first may have had it, and when somebody surely had it.
    let mut claims: BTreeMap<Seat, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        let sure_us = match entry.hold.outcome {
            HoldOutcome::Granted { .. } => entry.hold.span.returned_us,
            HoldOutcome::Unknown => u64::MAX,
            HoldOutcome::Refused { .. } | HoldOutcome::NotDone => continue,
        };
        for seat in entry.hold.seats.as_slice() {
            let claim = claims.entry(*seat).or_insert((u64::MAX, u64::MAX));
            claim.0 = claim.0.min(entry.hold.span.called_us);
            claim.1 = claim.1.min(sure_us);
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
            let asked = entry.hold.seats.as_slice().contains(&taken.seat);
            let claimed = claims.get(&taken.seat).is_some_and(|(may_us, _)| *may_us < returned_us);
            if !asked || !claimed {
                findings.add(Breach::RefusedWhileFree, || {
                    format!("session {session} refused cart {cart} for seat {:?}, which nobody had", taken.seat)
                });
            }
        }
        for seat in entry.hold.seats.as_slice() {
            let surely = claims.get(seat).is_some_and(|(_, sure_us)| *sure_us < called_us);
            if surely && !named.iter().any(|taken| taken.seat == *seat) {
                findings.add(Breach::RefusedWhileFree, || {
                    format!("session {session} refused cart {cart} without naming seat {seat:?}, which was taken")
                });
            }
        }
    }
}

/// No version of a session twice, and none told before a lower one was asked for.
fn check_versions(number: u32, audit: &SessionAudit, entries: &[Entry<'_>], findings: &mut Findings) {
    let mut told: Vec<(u64, Span)> = Vec::new();
    for group in entries.chunk_by(|a, b| a.cart.cart == b.cart.cart) {
        for entry in group {
            if let HoldOutcome::Granted { session_version: Some(version), .. } = entry.hold.outcome {
                told.push((version, entry.hold.span));
            }
        }
        let Some(checkout) = &group[0].cart.checkout else {
            continue;
        };
        if let CheckoutOutcome::Bought { sold, .. } = &checkout.outcome {
            let mine = sold.iter().filter(|(session, _)| *session == number);
            told.extend(mine.map(|(_, version)| (*version, checkout.span)));
        }
    }
    told.sort_unstable_by_key(|(version, span)| (*version, span.called_us));
    let session = &audit.session;
    let mut called_last_us = 0;
    let mut before = None;
    for (version, span) in told {
        if before == Some(version) {
            findings.add(Breach::WrongVersion, || format!("session {session} told version {version} for two changes"));
        } else if span.returned_us < called_last_us {
            findings.add(Breach::WrongVersion, || {
                format!("session {session} told version {version} before a lower one was even asked for")
            });
        }
        before = Some(version);
        called_last_us = called_last_us.max(span.called_us);
    }
}

/// Carts on the server against their clients' books and against the sessions.
fn check_carts(house: &House, books: &Books<'_>, audited: &Audited, findings: &mut Findings) {
    let session_of: BTreeMap<Id, &SessionAudit> =
        audited.sessions.iter().map(|(&number, audit)| (house.session_id(number), audit)).collect();
    for audit in &audited.carts {
        let cart = &audit.cart;
        let Some(record) = books.by_cart.get(&cart.id) else {
            findings.add(Breach::Unexplained, || format!("cart {} is none of this run", cart.id));
            continue;
        };
        if !record.may_be(cart.state) {
            let breach = if record.order().is_some() { Breach::Lost } else { Breach::WrongState };
            findings.add(breach, || {
                format!("cart {} is {}; its client was told {:?}", cart.id, cart.state.as_str(), record.checkout)
            });
        }
        if cart.state != CartState::Done {
            let sale = record.holds.iter().filter_map(|hold| audited.sessions.get(&hold.session));
            if sale.flat_map(|session| session.sales.iter()).any(|sale| sale.order.cart() == cart.id) {
                findings.add(Breach::Unexplained, || {
                    format!("cart {} is {} but was sold seats", cart.id, cart.state.as_str())
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

/// The lines of sessions; what else is in a cart is not of these flows.
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

/// The seats asked for by those of these holds that ended so, ascending.
fn seats_of(group: &[Entry<'_>], ended: impl Fn(&HoldOutcome) -> bool) -> Vec<Seat> {
    let holds = group.iter().filter(|entry| ended(&entry.hold.outcome));
    let mut seats: Vec<Seat> = holds.flat_map(|entry| entry.hold.seats.as_slice().iter().copied()).collect();
    seats.sort_unstable();
    seats
}
