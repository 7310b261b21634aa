//! The judgement: do the promises hold in what the servers say, and does it agree with what the clients were told?

mod book;
mod bookings;
mod cart;
mod money;
mod quantity;
mod session;

use std::{collections::BTreeMap, fmt};

use boxoffice_core::{
    answer::{BookingView, CartAudit, CustomerAudit, ProductAudit, ResourceAudit, SessionAudit},
    id::CartId,
    portion::Portion,
    seat::Seat,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{goods::Goods, history::History, house::House};

/// Breaches told in words; of more only the number is kept.
pub const EXAMPLES_MAX: usize = 50;

/// The seats of what is held or was sold; none if it is something else.
fn seats_in(portion: &Portion) -> &[Seat] {
    match portion {
        Portion::Seats(seats) => seats.as_slice(),
        Portion::Places { .. } | Portion::Units(_) | Portion::Slot { .. } | Portion::Quota { .. } => &[],
    }
}

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// A seat has two buyers, two holders, or a buyer and a holder (P1).
    Twice,
    /// Something acknowledged is not there (P10).
    Lost,
    /// Something is there that no client asked for, or that was refused (P2, P4, P10).
    Unexplained,
    /// A hold was refused for seats nobody had, or did not name all that were taken (P2).
    RefusedWhileFree,
    /// Counts are not those of the map (P1, P5).
    Miscounted,
    /// An order is not what its cart held, or its total is not the sum of its prices (P7).
    WrongOrder,
    /// A cart is in a state its client's answers exclude, or states and orders do not agree (P6, P7).
    WrongState,
    /// One version of one entity was told for two changes, or versions go back in time.
    WrongVersion,
    /// A sale is certain but its session has not sold yet.
    Unsettled,
    /// An order is missing in its customer's purchases, or stands there twice (P12).
    WrongPurchases,
    /// Somebody was charged without a sale, or not what the order says (P11).
    WrongCharge,
    /// A hold was freed before its deadline, or not within the time that was allowed after it (P8).
    WrongTime,
    /// Two nodes that have the same say different things of it.
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

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// How often each promise was broken; empty if none was.
    pub breaches: BTreeMap<Breach, u64>,
    /// The first of them in words.
    pub examples: Vec<String>,
    /// Seats sold, counted in the audits.
    pub seats_sold: u64,
    /// Seats held, counted in the audits.
    pub seats_held: u64,
    /// Sales, counted in the audits: one for each order and session.
    pub sales: u64,
    /// Sessions looked at.
    pub sessions: u64,
    /// Carts looked at on the server, beside those known from the sessions.
    pub carts: u64,
    /// Products, arenas, resources and customers looked at.
    #[serde(default)]
    pub others: u64,
    /// Units, places and slots sold, counted in the audits.
    #[serde(default)]
    pub units_sold: u64,
    /// Units, places and slots in carts, counted in the audits.
    #[serde(default)]
    pub units_held: u64,
    /// Units and places that are free, counted in the audits.
    #[serde(default)]
    pub units_free: u64,
    /// Bookings made without a cart, as the resources list them.
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
    /// Whether every promise holds.
    pub fn clean(&self) -> bool {
        self.breaches.is_empty()
    }

    /// How often this was broken.
    pub fn count(&self, breach: Breach) -> u64 {
        self.breaches.get(&breach).copied().unwrap_or(0)
    }

    /// How many breaches of all kinds.
    pub fn count_all(&self) -> u64 {
        self.breaches.values().sum()
    }

    /// Notes a breach.
    pub fn add(&mut self, breach: Breach, text: impl FnOnce() -> String) {
        *self.breaches.entry(breach).or_default() += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{breach}: {}", text()));
        }
    }
}

/// What the servers say after a run.
#[derive(Clone, Debug, Default)]
pub struct Audited {
    /// Sessions by their numbers in the house.
    pub sessions: BTreeMap<u32, SessionAudit>,
    /// Carts: all whose clients do not know how they ended, and any others.
    pub carts: Vec<CartAudit>,
    /// Products by their numbers.
    pub products: BTreeMap<u32, ProductAudit>,
    /// Sessions without seats by their numbers.
    pub arenas: BTreeMap<u32, SessionAudit>,
    /// Resources by their numbers, each with all its bookings.
    pub resources: BTreeMap<u32, (ResourceAudit, Vec<BookingView>)>,
    /// Customers by their numbers.
    pub customers: BTreeMap<u32, CustomerAudit>,
    /// What the gateway says, if there is one that can be asked.
    pub charges: Option<Vec<Charge>>,
    /// An instant by the server's clock not before the last of these audits: a hold whose deadline is later must be in them.
    pub at: Timestamp,
}

/// A charge in the gateway's ledger, in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Who pays.
    pub cart: CartId,
    /// Set aside now: neither taken nor given up.
    pub authorized: i64,
    /// Taken.
    pub captured: i64,
    /// Paid back.
    pub refunded: i64,
}

/// What was sold: the seats of a house, what one of them costs in minor units, and everything else.
#[derive(Clone, Copy, Debug)]
pub struct Sold<'a> {
    /// Where the seats are.
    pub house: &'a House,
    /// What one seat costs, in minor units.
    pub price: i64,
    /// Everything else.
    pub goods: &'a Goods,
}

/// Checks what the servers say against itself and against what the clients were told. Only audited entities are judged.
pub fn check(sold: Sold<'_>, history: &History, audited: &Audited) -> Findings {
    let Sold { house, price: _, goods } = sold;
    let others = audited.products.len() + audited.arenas.len() + audited.resources.len() + audited.customers.len();
    let mut findings = Findings {
        sessions: audited.sessions.len() as u64,
        carts: audited.carts.len() as u64,
        others: others as u64,
        ..Findings::default()
    };
    for audit in audited.sessions.values() {
        session::check(house.seats_of_session(), audit, &mut findings);
    }
    for audit in &audited.carts {
        cart::check(audit, &mut findings);
    }
    book::check(sold, history, audited, &mut findings);
    quantity::check(goods, history, audited, &mut findings);
    bookings::check(goods, history, audited, &mut findings);
    money::check(goods, history, audited, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
