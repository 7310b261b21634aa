//! The judgement: do the promises hold in what the servers say, and does it agree with what the clients were told?

mod book;
mod cart;
mod session;

use std::{collections::BTreeMap, fmt};

use boxoffice_core::{
    answer::{CartAudit, SessionAudit},
    portion::Portion,
    seat::Seat,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{history::History, house::House};

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
    /// An instant by the server's clock not after the first of these audits: a hold whose deadline is later must be there.
    pub at: Timestamp,
}

/// Checks what the servers say against itself and against what the clients were told. Only audited sessions and carts are
/// judged; `price` is what one seat costs, in minor units.
pub fn check(house: &House, price: i64, history: &History, audited: &Audited) -> Findings {
    let mut findings =
        Findings { sessions: audited.sessions.len() as u64, carts: audited.carts.len() as u64, ..Findings::default() };
    for audit in audited.sessions.values() {
        session::check(house.seats_of_session(), audit, &mut findings);
    }
    for audit in &audited.carts {
        cart::check(audit, &mut findings);
    }
    book::check(house, price, history, audited, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
