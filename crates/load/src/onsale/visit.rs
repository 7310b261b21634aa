//! One buyer who comes for tickets: holds them, and pays or cancels. Each answer goes to the ledger.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use boxoffice_client::{BestWish, Cart, Client, Error, Id, Seat, recorded};
use boxoffice_core::id::Entity;
use boxoffice_workload::{arrival::FlowNumber, history::CartRecord};
use rand::{Rng, rngs::SmallRng};

use super::{
    Sale,
    ledger::{Ask, CODE_NOT_VALID, NOT_ON_SALE, PRICE_SOLD_OUT, RATE_LIMITED, SEAT_BLOCKED, Ticket},
    terms::{SaleTerms, TicketKind},
};
use crate::{
    clock::now_ms,
    flow::{Flow, FlowOutcome, OUTCOME_UNKNOWN},
};

/// The pause before a buyer asks again who came too early, or whose code does not have its uses back.
const AGAIN: Duration = Duration::from_millis(20);

/// How long a code may take until it has its uses back, and how long after an opening or a release a buyer may be refused. On a busy
/// machine the desk's request is late, too.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a buyer asks a busy node.
const BUSY_LIMIT: Duration = Duration::from_secs(120);

/// How often a buyer tries other named seats. After that the node chooses.
const NAMED_TRIES: u32 = 3;

/// `seats_taken`.
const SEATS_TAKEN: u16 = 201;

/// `no_adjacent_seats`.
const NO_ADJACENT_SEATS: u16 = 206;

/// Which seats a buyer wants.
#[derive(Clone, Debug)]
pub(super) enum Seats {
    /// The best ones of this category, or else of another one.
    Best(u16),
    /// These, or else others.
    Named(Vec<Seat>),
    /// These of the allotment, and no others.
    Released(Vec<Seat>),
}

/// What a buyer wants.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The cart that it begins with. Each group of carts has numbers of its own.
    pub(super) number: FlowNumber,
    pub(super) session: u32,
    pub(super) seats: Seats,
    pub(super) kinds: Vec<TicketKind>,
    pub(super) code: Option<u32>,
    /// The code has these uses, so it cannot be refused for long.
    pub(super) insists: bool,
    /// Cancels its first cart and begins again.
    pub(super) cancels: bool,
    /// When everybody may buy, by the nodes' clock, for a buyer who needs that.
    pub(super) opens_at: Option<u64>,
    /// Comes before that, so its time counts from there.
    pub(super) comes_early: bool,
}

/// How a visit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Visited {
    Bought(Vec<Ticket>),
    Refused(u16),
    Failed,
}

/// What the buyers of a phase did.
#[derive(Default)]
pub(super) struct PhaseCounts {
    pub(super) came: u64,
    pub(super) bought: u64,
    pub(super) tickets: u64,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) too_early: u64,
    pub(super) waited: u64,
    pub(super) hold_us: Vec<u64>,
    pub(super) checkout_us: Vec<u64>,
    pub(super) opening_us: Vec<u64>,
}

/// Why a hold was not granted.
enum NotHeld {
    /// For this reason, with when the sale opens if the refusal says it.
    Refused(u16, String, Option<u64>),
    /// The node is busy, or the network has to wait, so long.
    Limited(Duration),
    Failed(String),
}

impl Sale {
    /// A buyer comes over this connection.
    pub(super) async fn visit(&self, client: &Client, wish: Wish) -> Visited {
        self.context.count_started();
        self.count(|counts| counts.came += 1);
        let started_us = self.context.now_us();
        let opens_us = wish.opens_at.filter(|_| wish.comes_early).map(|opens_at| self.us_at(opens_at));
        let intended_us = opens_us.unwrap_or(started_us).max(started_us);
        let mut flow = Flow::new(intended_us, started_us, CartRecord::new(self.cart(client, &wish, 0).id()));
        let mut random = self.context.run_seed.rng(wish.number, u32::MAX);
        let visited = self.buy(client, wish, &mut flow, &mut random).await;
        flow.ended_us = self.context.now_us();
        if flow.outcome == FlowOutcome::Done {
            self.count(|counts| counts.bought += 1);
        } else if let FlowOutcome::Refused(why) | FlowOutcome::Failed(why) = &flow.outcome {
            self.count(|counts| *counts.refused.entry(why.to_string()).or_default() += 1);
        }
        self.finished.push(flow);
        visited
    }

    async fn buy(&self, client: &Client, mut wish: Wish, flow: &mut Flow, random: &mut SmallRng) -> Visited {
        let (begun, mut part, mut tries) = (Instant::now(), 0, 0);
        loop {
            let cart = self.cart(client, &wish, part);
            match self.hold(&cart, &wish).await {
                Ok(tickets) if wish.cancels => {
                    wish.cancels = false;
                    part += 1;
                    if let Err(error) = cart.cancel().await {
                        // Its seats may be held until the cart expires.
                        self.ledger.doubt(&self.ask_of(&cart, &wish));
                        flow.outcome = FlowOutcome::Failed(error.to_string().into());
                        return Visited::Failed;
                    }
                    self.ledger.canceled(cart.id());
                    flow.retried += 1;
                    drop(tickets);
                }
                Ok(tickets) => return self.check_out(&cart, &wish, tickets, flow).await,
                Err(NotHeld::Limited(_)) if begun.elapsed() > BUSY_LIMIT => {
                    flow.outcome = FlowOutcome::Failed("busy".into());
                    return Visited::Failed;
                }
                Err(NotHeld::Limited(wait)) => {
                    self.count(|counts| counts.waited += 1);
                    tokio::time::sleep(wait).await;
                }
                Err(NotHeld::Failed(why)) => {
                    flow.outcome = FlowOutcome::Failed(why.into());
                    return Visited::Failed;
                }
                Err(NotHeld::Refused(refusal, name, opens_at)) => {
                    let is_patient = begun.elapsed() < PATIENCE + Duration::from_millis(self.terms.spec.lead_ms);
                    let next = self.next(&mut wish, refusal, &mut tries, (is_patient, opens_at), random);
                    match next {
                        Some(wait) => {
                            flow.retried += 1;
                            tokio::time::sleep(wait).await;
                        }
                        None => {
                            flow.outcome = FlowOutcome::Refused(name.into());
                            return Visited::Refused(refusal);
                        }
                    }
                }
            }
        }
    }

    /// What a buyer does after a refusal: it changes its wish and waits this long, or goes away.
    fn next(
        &self,
        wish: &mut Wish,
        refusal: u16,
        tries: &mut u32,
        (is_patient, opens_at): (bool, Option<u64>),
        random: &mut SmallRng,
    ) -> Option<Duration> {
        let sold = self.terms.categories_sold(&wish.kinds);
        match (refusal, &wish.seats) {
            (NOT_ON_SALE, _) if wish.opens_at.is_some() && is_patient => {
                self.count(|counts| counts.too_early += 1);
                if opens_at.is_some() && opens_at != wish.opens_at {
                    self.ledger.differ("a buyer was told another opening", || {
                        format!("{opens_at:?} instead of {:?}", wish.opens_at)
                    });
                }
                // A buyer who is not told when waits as long as one who is a little early.
                let wait_ms = opens_at.unwrap_or(0).saturating_sub(self.node_ms());
                Some(Duration::from_millis(wait_ms).max(if opens_at.is_some() { Duration::ZERO } else { AGAIN }))
            }
            (SEAT_BLOCKED, Seats::Released(_)) if is_patient => {
                self.count(|counts| counts.too_early += 1);
                Some(AGAIN)
            }
            (CODE_NOT_VALID, _) if wish.insists => {
                if !is_patient || self.is_stuck.load(Ordering::Relaxed) {
                    self.is_stuck.store(true, Ordering::Relaxed);
                    self.ledger.differ("a code was refused although nobody had its uses", || {
                        wish.code.map_or_else(String::new, |code| self.terms.code(code).to_string())
                    });
                    return None;
                }
                Some(AGAIN)
            }
            (SEATS_TAKEN | SEAT_BLOCKED, Seats::Named(_)) => {
                *tries += 1;
                wish.seats = match *tries < NAMED_TRIES {
                    true => self.named(wish.kinds.len() as u16, sold, random),
                    false => Seats::Best(random.random_range(0..sold)),
                };
                Some(Duration::ZERO)
            }
            (NO_ADJACENT_SEATS, Seats::Best(category)) => {
                *tries += 1;
                wish.seats = Seats::Best((category + 1) % sold);
                (*tries < u32::from(sold) + NAMED_TRIES).then_some(Duration::ZERO)
            }
            // Half of those for whom no ticket of the pool is left buy as adults.
            (PRICE_SOLD_OUT, _) if wish.kinds[0] == TicketKind::Under26 && random.random_bool(0.5) => {
                wish.kinds.fill(TicketKind::Adult);
                Some(Duration::ZERO)
            }
            _ => None,
        }
    }

    /// Adjacent seats at a random place of these categories, none of them of the allotment.
    pub(super) fn named(&self, count: u16, categories: u16, random: &mut SmallRng) -> Seats {
        let terms = &self.terms;
        let rows = (0..terms.allotment_from()).take_while(|row| terms.category_of(*row) < categories).count() as u16;
        let (row, width) = (random.random_range(0..rows), terms.house.seats);
        let count = count.min(width);
        let first = random.random_range(0..=width - count);
        Seats::Named((first..first + count).map(|seat| Seat { row, seat }).collect())
    }

    async fn hold(&self, cart: &Cart, wish: &Wish) -> Result<Vec<Ticket>, NotHeld> {
        let session = self.terms.house.session_id(wish.session);
        let code: Option<Id> = wish.code.map(|code| self.terms.code(code));
        let types: Vec<Id> = wish.kinds.iter().map(|kind| kind.id()).collect();
        let ask = self.ask_of(cart, wish);
        self.ledger.ask(&ask);
        let held = match &wish.seats {
            Seats::Best(category) => {
                let count = wish.kinds.len() as u16;
                let category = Some(SaleTerms::category_id(*category));
                let best = BestWish { count, category, section: None, accessible: 0, split: false };
                cart.hold_best(&session, best).types(types).code(code.as_ref()).await
            }
            Seats::Named(seats) | Seats::Released(seats) => {
                cart.hold_seats(&session, seats.iter().copied()).types(types).code(code.as_ref()).await
            }
        };
        let now_us = self.context.now_us();
        match held {
            Ok(reply) => {
                self.ledger.granted(&ask, &reply.value.lines, (now_us, self.node_ms()));
                self.count(|counts| {
                    counts.hold_us.push(now_us - ask.called_us);
                    if let Some(opens_at) = wish.opens_at.filter(|_| wish.comes_early) {
                        counts.opening_us.push(now_us.saturating_sub(self.us_at(opens_at)));
                    }
                });
                Ok(self.ledger.tickets(cart.id()))
            }
            Err(Error::Refused(no)) if no.code == RATE_LIMITED => {
                self.ledger.not_asked(&ask);
                Err(NotHeld::Limited(Duration::from_millis(no.retry_after_ms.unwrap_or(0)).max(AGAIN)))
            }
            Err(Error::Refused(no)) => {
                self.ledger.refused(&ask, no.code);
                Err(NotHeld::Refused(no.code, no.name.to_string(), no.opens_at.map(|at| at.0)))
            }
            // A busy node has done nothing.
            Err(Error::Failed(fail)) if !fail.kind.may_have_happened() => {
                self.ledger.not_asked(&ask);
                let wait = Duration::from_millis(fail.retry_after_ms.unwrap_or(0).into()).max(AGAIN);
                Err(NotHeld::Limited(wait))
            }
            Err(error) => {
                self.ledger.doubt(&ask);
                let unknown = error.may_have_happened();
                Err(NotHeld::Failed(if unknown { OUTCOME_UNKNOWN.into() } else { error.to_string() }))
            }
        }
    }

    /// The desk is paid for the cart.
    async fn check_out(&self, cart: &Cart, wish: &Wish, tickets: Vec<Ticket>, flow: &mut Flow) -> Visited {
        let called_us = self.context.now_us();
        let until = Instant::now() + BUSY_LIMIT;
        let paid = loop {
            let cart = Cart::with_token(self.desk.client(), cart.token());
            match cart.checkout(recorded("card", "on-sale"), None).await {
                Err(Error::Failed(fail)) if !fail.kind.may_have_happened() && Instant::now() < until => {
                    self.count(|counts| counts.waited += 1);
                    tokio::time::sleep(AGAIN).await;
                }
                paid => break paid,
            }
        };
        match paid {
            Ok(reply) => {
                let now_us = self.context.now_us();
                self.ledger.bought(cart.id(), &reply.value.lines, reply.value.total.amount);
                self.count(|counts| {
                    counts.checkout_us.push(now_us - called_us);
                    counts.tickets += tickets.len() as u64;
                });
                flow.outcome = FlowOutcome::Done;
                Visited::Bought(tickets)
            }
            Err(error) => {
                self.ledger.doubt(&self.ask_of(cart, wish));
                flow.outcome = FlowOutcome::Failed(error.to_string().into());
                Visited::Failed
            }
        }
    }

    /// The cart of a visit, by how many it had before.
    fn cart(&self, client: &Client, wish: &Wish, part: u32) -> Cart {
        let number = FlowNumber { group: wish.number.group + part, ..wish.number };
        let session = Entity::Session(self.terms.house.session_id(wish.session));
        Cart::with_token(client, self.context.token_beside(number, &session))
    }

    fn ask_of(&self, cart: &Cart, wish: &Wish) -> Ask {
        Ask {
            cart: cart.id(),
            session: wish.session,
            kinds: wish.kinds.clone(),
            code: wish.code,
            called_us: self.context.now_us(),
        }
    }

    /// The time by the nodes' clock, in milliseconds since 1970.
    pub(super) fn node_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.clock_offset_ms)
    }

    /// An instant of the nodes' clock in microseconds since the run's start.
    fn us_at(&self, node_ms: u64) -> u64 {
        let ahead_ms = i128::from(node_ms) - i128::from(self.node_ms());
        u64::try_from(i128::from(self.context.now_us()) + ahead_ms * 1_000).unwrap_or(0)
    }

    fn count(&self, count: impl FnOnce(&mut PhaseCounts)) {
        count(&mut self.counts.lock().expect("no thread panics while it holds the lock"));
    }
}
