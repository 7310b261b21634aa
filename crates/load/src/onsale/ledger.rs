//! What the buyers of an on-sale were told: tickets, prices, uses of codes, and the first grants after which nobody may be refused.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use boxoffice_client::{CartId, Content, Id, LineView, PricedSeat, Seat, Timestamp};

use super::terms::{SaleTerms, TicketKind};
use crate::report::{grouped, money};

/// How far the clocks of this machine and of the nodes may differ beyond what their hello said, in milliseconds.
const CLOCK_MS: u64 = 250;

/// Refusals.
pub(super) const RATE_LIMITED: u16 = 109;
pub(super) const SEAT_BLOCKED: u16 = 204;
pub(super) const NOT_ON_SALE: u16 = 212;
pub(super) const PRICE_SOLD_OUT: u16 = 214;
pub(super) const CODE_NOT_VALID: u16 = 218;

/// A ticket as an answer told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) seat: Seat,
    pub(super) kind: TicketKind,
    pub(super) with_code: bool,
    pub(super) price: i64,
}

impl Ticket {
    fn text(&self) -> String {
        let code = if self.with_code { " with a code" } else { "" };
        format!("{} as {}{code}", seat_text(self.seat), self.kind.name())
    }
}

/// A seat as people call it.
pub(super) fn seat_text(seat: Seat) -> String {
    format!("row {} seat {}", seat.row + 1, seat.seat + 1)
}

/// How much earlier an instant is than another one, as a part of a sentence.
pub(super) fn earlier(ms: u64, than: Timestamp) -> String {
    format!("{} ms before", grouped(than.0.saturating_sub(ms)))
}

/// Tickets as a part of a sentence.
pub(super) fn texts(tickets: &[Ticket]) -> String {
    let each: Vec<String> =
        tickets.iter().map(|ticket| format!("{} for {}", ticket.text(), money(ticket.price))).collect();
    if each.is_empty() { "nothing".into() } else { each.join(", ") }
}

fn names(kinds: &[TicketKind]) -> String {
    let each: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    if each.is_empty() { "nothing".into() } else { each.join(" and ") }
}

/// A request for tickets.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) cart: CartId,
    pub(super) session: u32,
    pub(super) kinds: Vec<TicketKind>,
    pub(super) code: Option<u32>,
    pub(super) called_us: u64,
}

impl Ask {
    fn count(&self, kind: TicketKind) -> u32 {
        self.kinds.iter().filter(|wanted| **wanted == kind).count() as u32
    }
}

/// How a cart stands, by its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CartFate {
    Held,
    Canceled,
    /// Bought, for this total.
    Bought(i64),
    /// No answer says it.
    Unsure,
}

/// A cart that was granted something, or may have been.
#[derive(Clone, Debug)]
pub(super) struct KnownCart {
    pub(super) session: u32,
    pub(super) code: Option<u32>,
    pub(super) tickets: Vec<Ticket>,
    pub(super) fate: CartFate,
}

/// What is known of a session besides its carts.
#[derive(Clone, Debug, Default)]
struct KnownSession {
    /// When everybody may buy, and when the allotment goes on sale, by the nodes' clock.
    opens_at: Option<Timestamp>,
    release_at: Option<Timestamp>,
    /// When the desk was asked to release the allotment.
    release_asked_us: Option<u64>,
    /// The earliest answer that granted a ticket of each kind under the offer for everybody, and one of the allotment.
    first_us: [Option<u64>; 3],
    first_released_us: Option<u64>,
    /// Tickets of the pool that were granted, or may have been at some time.
    under26_possible: u32,
}

/// Differences between what the buyers were told and what may be, by kind: how many there are, and the first one.
#[derive(Clone, Debug, Default)]
pub(super) struct Differences(BTreeMap<&'static str, (u64, String)>);

impl Differences {
    pub(super) fn add(&mut self, kind: &'static str, example: impl FnOnce() -> String) {
        self.0.entry(kind).or_insert_with(|| (0, example())).0 += 1;
    }

    /// The tickets of an answer. If a line is no ticket, that is a difference.
    fn or_none(&mut self, tickets: Result<Vec<Ticket>, String>) -> Vec<Ticket> {
        tickets.unwrap_or_else(|why| {
            self.add("a line is no ticket that is sold", || why);
            Vec::new()
        })
    }

    /// A sentence for each kind.
    pub(super) fn sentences(&self) -> Vec<String> {
        let sentence = |(kind, (count, example)): (&&str, &(u64, String))| match count {
            1 => format!("{kind}: {example}"),
            _ => format!("{kind}, {} times, first {example}", grouped(*count)),
        };
        self.0.iter().map(sentence).collect()
    }
}

#[derive(Default)]
struct State {
    carts: BTreeMap<CartId, KnownCart>,
    sessions: Vec<KnownSession>,
    differences: Differences,
}

/// What all buyers know.
pub(super) struct Ledger {
    terms: SaleTerms,
    state: Mutex<State>,
}

impl Ledger {
    pub(super) fn new(terms: &SaleTerms) -> Ledger {
        let state =
            State { sessions: vec![KnownSession::default(); terms.house.sessions_all() as usize], ..State::default() };
        Ledger { terms: terms.clone(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// The desk is about to set when everybody may buy.
    pub(super) fn opens(&self, session: u32, at: Timestamp) {
        self.state().sessions[session as usize].opens_at = Some(at);
    }

    /// The desk is about to set when the allotment goes on sale, or to release it now.
    pub(super) fn releases(&self, session: u32, at: Option<Timestamp>, asked_us: u64) {
        let known = &mut self.state().sessions[session as usize];
        (known.release_at, known.release_asked_us) = (at, Some(asked_us));
    }

    pub(super) fn differ(&self, kind: &'static str, example: impl FnOnce() -> String) {
        self.state().differences.add(kind, example);
    }

    /// A request is sent.
    pub(super) fn ask(&self, ask: &Ask) {
        let mut state = self.state();
        state.sessions[ask.session as usize].under26_possible += ask.count(TicketKind::Under26);
    }

    /// It was granted, as this answer says. `node_ms` is the time by the nodes' clock.
    pub(super) fn granted(&self, ask: &Ask, lines: &[LineView], (now_us, node_ms): (u64, u64)) {
        let tickets = tickets_of(&self.terms, ask.session, lines);
        let mut state = self.state();
        let State { carts, sessions, differences } = &mut *state;
        let (terms, name) = (&self.terms, self.terms.house.session_id(ask.session));
        let tickets = differences.or_none(tickets);
        let known = &mut sessions[ask.session as usize];
        let mut wanted: Vec<TicketKind> = ask.kinds.clone();
        let mut told: Vec<TicketKind> = tickets.iter().map(|ticket| ticket.kind).collect();
        wanted.sort_unstable();
        told.sort_unstable();
        if wanted != told {
            differences.add("a cart was granted other tickets than it asked for", || {
                format!("{} instead of {} in {name}", names(&told), names(&wanted))
            });
        }
        for ticket in &tickets {
            let right = terms.price(ticket.seat, ticket.kind, ticket.with_code);
            if right != Some(ticket.price) {
                differences.add("a ticket has another price than the table", || {
                    let right = right
                        .map_or("it is not sold so".to_owned(), |right| format!("the table says {}", money(right)));
                    format!("{} for {} of {name}, and {right}", money(ticket.price), ticket.text())
                });
            }
            if ticket.with_code && ask.code.is_none() {
                differences
                    .add("a ticket was sold for a code that nobody showed", || format!("{} of {name}", ticket.text()));
            }
            if !ticket.with_code {
                let first = &mut known.first_us[ticket.kind as usize];
                *first = Some(first.map_or(now_us, |first| first.min(now_us)));
                if known.opens_at.is_none_or(|opens_at| node_ms + CLOCK_MS < opens_at.0) {
                    differences.add("a ticket was sold to everybody before the opening", || {
                        let early = known.opens_at.map_or("which never opens".to_owned(), |at| earlier(node_ms, at));
                        format!("{} of {name}, {early}", ticket.text())
                    });
                }
            }
            if terms.is_of_allotment(ticket.seat) {
                let first = &mut known.first_released_us;
                *first = Some(first.map_or(now_us, |first| first.min(now_us)));
                let is_early = match known.release_at {
                    Some(release_at) => node_ms + CLOCK_MS < release_at.0,
                    None => known.release_asked_us.is_none_or(|asked_us| now_us < asked_us),
                };
                if is_early {
                    differences.add("a seat of an allotment was granted before its release", || {
                        format!("{} of {name}", ticket.text())
                    });
                }
            }
        }
        // What the answer does not have was not taken.
        let got = |kind| tickets.iter().filter(|ticket| ticket.kind == kind).count() as u32;
        known.under26_possible =
            (known.under26_possible + got(TicketKind::Under26)).saturating_sub(ask.count(TicketKind::Under26));
        let cart = KnownCart { session: ask.session, code: ask.code, tickets, fate: CartFate::Held };
        carts.insert(ask.cart, cart);
    }

    /// It was sent back undecided.
    pub(super) fn not_asked(&self, ask: &Ask) {
        self.state().sessions[ask.session as usize].under26_possible -= ask.count(TicketKind::Under26);
    }

    /// It was refused with this code.
    pub(super) fn refused(&self, ask: &Ask, refusal: u16) {
        let mut state = self.state();
        let State { sessions, differences, .. } = &mut *state;
        let name = self.terms.house.session_id(ask.session);
        let known = &mut sessions[ask.session as usize];
        let pool = ask.count(TicketKind::Under26);
        known.under26_possible -= pool;
        let is_after = |first: Option<u64>| first.is_some_and(|first_us| first_us < ask.called_us);
        match refusal {
            NOT_ON_SALE
                if ask.code.is_none() && ask.kinds.iter().all(|kind| is_after(known.first_us[*kind as usize])) =>
            {
                differences.add("a buyer was refused as not on sale after the same offer had sold", || {
                    format!("{} of {name}", names(&ask.kinds))
                });
            }
            SEAT_BLOCKED if is_after(known.first_released_us) => {
                differences.add("a seat was blocked after the allotment had sold", || name.to_string());
            }
            PRICE_SOLD_OUT if pool > 0 && known.under26_possible + pool <= self.terms.spec.under26_max => {
                differences.add("a buyer was refused while the pool had room", || {
                    format!("{pool} of {name}, of which at most {} were taken", known.under26_possible)
                });
            }
            _ => {}
        }
    }

    /// The outcome of a cart is not known.
    pub(super) fn doubt(&self, ask: &Ask) {
        let mut state = self.state();
        let cart = KnownCart { session: ask.session, code: ask.code, tickets: Vec::new(), fate: CartFate::Unsure };
        state.carts.entry(ask.cart).or_insert(cart).fate = CartFate::Unsure;
    }

    /// The tickets of a cart by its last answer.
    pub(super) fn tickets(&self, cart: CartId) -> Vec<Ticket> {
        self.state().carts.get(&cart).map_or_else(Vec::new, |known| known.tickets.clone())
    }

    pub(super) fn canceled(&self, cart: CartId) {
        if let Some(known) = self.state().carts.get_mut(&cart) {
            known.fate = CartFate::Canceled;
        }
    }

    /// A cart was bought, as this answer says.
    pub(super) fn bought(&self, cart: CartId, lines: &[LineView], total: i64) {
        let mut state = self.state();
        let State { carts, differences, .. } = &mut *state;
        let Some(known) = carts.get_mut(&cart) else { return };
        let tickets = differences.or_none(tickets_of(&self.terms, known.session, lines));
        if known.fate != CartFate::Unsure && tickets != known.tickets {
            differences.add("an order has other tickets than its cart", || {
                format!("{cart}: {} instead of {}", texts(&tickets), texts(&known.tickets))
            });
        }
        let sum: i64 = tickets.iter().map(|ticket| ticket.price).sum();
        if sum != total {
            differences.add("an order is not the sum of its tickets", || {
                format!("{cart}: {} instead of {}", money(total), money(sum))
            });
        }
        // What the order says counts from here on, and the audit compares it with the table.
        (known.tickets, known.fate) = (tickets, CartFate::Bought(total));
    }

    /// The carts with this fate.
    pub(super) fn carts_with(&self, is_wanted: impl Fn(CartFate) -> bool) -> Vec<CartId> {
        self.state().carts.iter().filter(|(_, known)| is_wanted(known.fate)).map(|(cart, _)| *cart).collect()
    }

    /// Tickets of each session's pool that were bought.
    pub(super) fn under26_bought(&self) -> BTreeMap<u32, u64> {
        let state = self.state();
        let mut bought: BTreeMap<u32, u64> = (0..self.terms.house.sessions_all()).map(|session| (session, 0)).collect();
        let carts = state.carts.values().filter(|known| matches!(known.fate, CartFate::Bought(_)));
        for known in carts {
            let tickets = known.tickets.iter().filter(|ticket| ticket.kind == TicketKind::Under26).count();
            *bought.entry(known.session).or_default() += tickets as u64;
        }
        bought
    }

    /// When everybody may buy.
    pub(super) fn opens_at(&self, session: u32) -> Option<Timestamp> {
        self.state().sessions[session as usize].opens_at
    }

    /// When the desk let an allotment go on sale by its time. `None` if it releases it by hand.
    pub(super) fn release_at(&self, session: u32) -> Option<Timestamp> {
        self.state().sessions[session as usize].release_at
    }

    /// All carts and the differences, when all buyers have gone.
    pub(super) fn take(&self) -> (BTreeMap<CartId, KnownCart>, Differences) {
        let mut state = self.state();
        (std::mem::take(&mut state.carts), std::mem::take(&mut state.differences))
    }
}

/// The tickets of these lines, by seat.
///
/// # Errors
/// Which line is no ticket of the session, as a part of a sentence.
pub(super) fn tickets_of(terms: &SaleTerms, session: u32, lines: &[LineView]) -> Result<Vec<Ticket>, String> {
    let name = terms.house.session_id(session);
    let ticket = |priced: &PricedSeat| {
        let bought_as = priced.bought_as.as_deref();
        let kind = bought_as.and_then(|bought_as| TicketKind::of(bought_as.price_type.as_ref()?));
        let (Some(bought_as), Some(kind)) = (bought_as, kind) else {
            return Err(format!("{} of {name} says not what it was bought as", seat_text(priced.seat)));
        };
        let group = bought_as.code_group.as_ref();
        let offer: Option<&Id> = bought_as.offer.as_ref();
        let with_code = group == Some(&terms.group()) && offer.is_some_and(|offer| offer.as_str() == "members");
        if !with_code && (group.is_some() || offer != Some(&kind.offer())) {
            let text = |id: Option<&Id>| id.map_or("none".to_owned(), ToString::to_string);
            let (seat, offer, group) = (seat_text(priced.seat), text(offer), text(group));
            return Err(format!("{seat} of {name} as {} under the offer {offer} with a code of {group}", kind.name()));
        }
        Ok(Ticket { seat: priced.seat, kind, with_code, price: priced.price })
    };
    let mut tickets = Vec::new();
    for line in lines {
        let is_ours = line.entity == boxoffice_client::Entity::Session(name.clone());
        let (true, Content::Seats(seats)) = (is_ours, &line.content) else {
            return Err(format!("one of {} is none of seats of {name}", line.entity));
        };
        for priced in seats.iter() {
            tickets.push(ticket(priced)?);
        }
    }
    tickets.sort_unstable_by_key(|ticket| ticket.seat);
    Ok(tickets)
}
