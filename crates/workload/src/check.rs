//! The check after a run: whether the servers' state keeps the promises, and whether it agrees with the answers that
//! the clients got. Codes like P1 are the promises of `docs/concepts/guarantees.md`.

mod bookings;
mod cart;
mod goods;
mod money;
mod seats;
mod session;
mod shares;

use std::{collections::BTreeMap, fmt};

use boxoffice_core::{id::CartId, portion::Portion, seat::Seat, time::Timestamp};
use boxoffice_wire::view::{BookingView, CartAudit, CustomerAudit, ProductAudit, ResourceAudit, SessionAudit};
pub use cart::check as check_cart;
use serde::{Deserialize, Serialize};
pub use session::check as check_session;

use crate::{goods::Goods, history::History, house::House};

/// Breaches that are described in words. Further ones are only counted.
pub const EXAMPLES_MAX: usize = 50;

/// The seats of a held or sold portion. Empty if it is a portion of something else.
fn seats_in(portion: &Portion) -> &[Seat] {
    match portion {
        Portion::Seats(seats) => seats.as_slice(),
        Portion::Places { .. } | Portion::Units(_) | Portion::Slot { .. } => &[],
        Portion::Quota { .. } | Portion::Uses(_) => &[],
    }
}

/// A kind of broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// A seat has two buyers, two holders, or a buyer and a holder (P1).
    Twice,
    /// Something that was acknowledged does not exist (P10).
    Lost,
    /// Something exists that no client requested, or whose request was refused (P2, P4, P10).
    Unexplained,
    /// A hold was refused although its seats were free, or the refusal did not name all taken seats (P2).
    RefusedWhileFree,
    /// Counts differ from the map (P1, P5).
    Miscounted,
    /// An order differs from what its cart held, or its total from the sum of its prices (P7).
    WrongOrder,
    /// A cart is in a state that its client's answers exclude, or its state and its order contradict each other (P6,
    /// P7).
    WrongState,
    /// Two changes of an entity got the same version, or versions go back in time.
    WrongVersion,
    /// An order is certain, but its session has not sold the seats yet.
    Unsettled,
    /// An order is missing in its customer's purchases, or is there twice (P12).
    WrongPurchases,
    /// A cart was charged without an order, or another amount than the order's (P11).
    WrongCharge,
    /// A hold ended before its deadline, or later after it than allowed (P8).
    WrongTime,
    /// Two nodes disagree about the same thing.
    Disagreed,
    /// The server's own audit reports a broken promise.
    Reported,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Breach::Twice => "twice",
            Breach::Lost => "lost",
            Breach::Unexplained => "unexplained",
            Breach::RefusedWhileFree => "refused while free",
            Breach::Miscounted => "miscounted",
            Breach::WrongOrder => "wrong order",
            Breach::WrongState => "wrong state",
            Breach::WrongVersion => "wrong version",
            Breach::Unsettled => "unsettled",
            Breach::WrongPurchases => "wrong purchases",
            Breach::WrongCharge => "wrong charge",
            Breach::WrongTime => "wrong time",
            Breach::Disagreed => "nodes disagree",
            Breach::Reported => "reported by the server",
        })
    }
}

/// The results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// The number of breaches by kind. Empty if there are none.
    pub breaches: BTreeMap<Breach, u64>,
    /// The first [`EXAMPLES_MAX`] breaches in words.
    pub examples: Vec<String>,
    /// Seats sold, counted in the audits.
    pub seats_sold: u64,
    /// Seats held, counted in the audits.
    pub seats_held: u64,
    /// Sales, counted in the audits: one for each order and session.
    pub sales: u64,
    /// Audited sessions.
    pub sessions: u64,
    /// Audited carts. Carts that are only known from sessions are not counted.
    pub carts: u64,
    /// Audited products, arenas, resources and customers.
    #[serde(default)]
    pub others: u64,
    /// Units, places and slots sold, counted in the audits.
    #[serde(default)]
    pub units_sold: u64,
    /// Units, places and slots in carts, counted in the audits.
    #[serde(default)]
    pub units_held: u64,
    /// Free units and places, counted in the audits.
    #[serde(default)]
    pub units_free: u64,
    /// Bookings without a cart, as the resources list them.
    #[serde(default)]
    pub bookings: u64,
    /// Orders in the purchases of customers.
    #[serde(default)]
    pub purchases: u64,
    /// Charges of the gateway.
    #[serde(default)]
    pub charges: u64,
}

impl Findings {
    /// Whether there are no breaches.
    pub fn is_clean(&self) -> bool {
        self.breaches.is_empty()
    }

    /// The number of breaches of this kind.
    pub fn count(&self, breach: Breach) -> u64 {
        self.breaches.get(&breach).copied().unwrap_or(0)
    }

    /// The number of breaches of all kinds.
    pub fn count_all(&self) -> u64 {
        self.breaches.values().sum()
    }

    /// Adds the violations in the server's own audit of an entity.
    fn add_reported(&mut self, entity: &dyn fmt::Display, violations: &[impl fmt::Display]) {
        for violation in violations {
            self.add(Breach::Reported, || format!("{entity}: {violation}"));
        }
    }

    /// Adds a breach.
    pub fn add(&mut self, breach: Breach, text: impl FnOnce() -> String) {
        *self.breaches.entry(breach).or_default() += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{breach}: {}", text()));
        }
    }
}

/// The servers' state after a run, from their audits.
#[derive(Clone, Debug, Default)]
pub struct AuditedState {
    /// Sessions by their numbers in the house.
    pub sessions: BTreeMap<u32, SessionAudit>,
    /// Carts: all those of which the client does not know the outcome of a request, and any others.
    pub carts: Vec<CartAudit>,
    /// Products by number.
    pub products: BTreeMap<u32, ProductAudit>,
    /// Arenas (sessions without seats) by number.
    pub arenas: BTreeMap<u32, SessionAudit>,
    /// Resources by number, each with all its bookings.
    pub resources: BTreeMap<u32, (ResourceAudit, Vec<BookingView>)>,
    /// Customers by number.
    pub customers: BTreeMap<u32, CustomerAudit>,
    /// The charges in the gateway's ledger, if there is a gateway whose ledger can be read.
    pub charges: Option<Vec<Charge>>,
    /// A time by the server's clock, not before the last of these audits. A hold with a later deadline must be in them.
    pub at: Timestamp,
}

/// A charge in the gateway's ledger. Amounts are in minor units of the currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The cart that pays.
    pub cart: CartId,
    /// Set aside now, neither taken nor voided.
    pub authorized: i64,
    /// Taken.
    pub captured: i64,
    /// Paid back.
    pub refunded: i64,
}

/// Everything that a run sells.
#[derive(Clone, Copy, Debug)]
pub struct RunInventory<'a> {
    /// The house with the seats.
    pub house: &'a House,
    /// The price of one seat, in minor units of the currency.
    pub price: i64,
    /// Everything besides seats.
    pub goods: &'a Goods,
}

/// Checks the servers' state for contradictions, and compares it with the answers that the clients got. Checks only
/// audited entities.
pub fn check(inventory: RunInventory<'_>, history: &History, audited: &AuditedState) -> Findings {
    let RunInventory { house, price: _, goods } = inventory;
    let others = audited.products.len() + audited.arenas.len() + audited.resources.len() + audited.customers.len();
    let mut findings = Findings {
        sessions: audited.sessions.len() as u64,
        carts: audited.carts.len() as u64,
        others: others as u64,
        ..Findings::default()
    };
    for audit in audited.sessions.values() {
        check_session(house.seats_of_session(), audit, &mut findings);
    }
    for audit in &audited.carts {
        check_cart(audit, &mut findings);
    }
    seats::check(inventory, history, audited, &mut findings);
    goods::check(goods, history, audited, &mut findings);
    bookings::check(goods, history, audited, &mut findings);
    money::check(goods, history, audited, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
