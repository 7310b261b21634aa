//! What an on-sale sold in each of its phases, and how that differs from what the nodes say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Latency, by_reason_in_parentheses, grouped, money};

/// What an on-sale sold in each of its phases, and how that differs from what the nodes say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Onsale {
    pub sessions: u32,
    pub codes: u32,
    /// How long it took to put the codes, in seconds.
    pub codes_put_s: f64,
    pub phases: Vec<OnsalePhase>,
    /// Tickets in orders, those of them that were bought with a code, and those of the allotments.
    pub tickets: u64,
    pub with_code: u64,
    pub released: u64,
    /// Tickets for people under 26 that were sold, and how many there are.
    pub under26: (u64, u64),
    /// Codes of which all uses were bought with.
    pub used_up: u64,
    /// Orders, and the sum of their totals in minor units.
    pub orders: u64,
    pub total: i64,
    /// Seats that were still held in the end.
    pub held: u64,
    /// Carts whose outcome no answer told.
    pub unsure: u64,
    /// How long the audit took, in seconds.
    pub audit_s: f64,
    /// The differences. They fail the run.
    pub problems: Vec<String>,
}

/// A phase of an on-sale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OnsalePhase {
    pub name: String,
    pub seconds: f64,
    /// Buyers that came, and those that bought.
    pub came: u64,
    pub bought: u64,
    pub tickets: u64,
    /// Buyers that left without a ticket, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Requests that came too early and were sent again.
    pub too_early: u64,
    /// Requests that were sent again, because a node was busy, or the network had shown wrong codes or too many at once.
    pub waited: u64,
    /// Holds that were granted, and checkouts, from their sending.
    pub hold: Option<Latency>,
    pub checkout: Option<Latency>,
    /// From the opening until buyers that waited for it had their seats.
    pub opening: Option<Latency>,
}

impl Onsale {
    /// What was sold, in one line.
    pub(crate) fn verdict(&self) -> String {
        format!(
            "{} of {} codes used up, {} tickets in {} orders for {}, {} differences",
            grouped(self.used_up),
            grouped(self.codes),
            grouped(self.tickets),
            grouped(self.orders),
            money(self.total),
            self.problems.len()
        )
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let (under26, under26_max) = self.under26;
        let mut lines = vec![
            format!("{} sessions; {} codes put in {:.1} s", self.sessions, grouped(self.codes), self.codes_put_s),
            format!(
                "{} tickets: {} with a code, {} of {} for people under 26, {} of allotments",
                grouped(self.tickets),
                grouped(self.with_code),
                grouped(under26),
                grouped(under26_max),
                grouped(self.released)
            ),
        ];
        for phase in &self.phases {
            let early = if phase.too_early > 0 {
                format!("; {} asks came too early", grouped(phase.too_early))
            } else {
                String::new()
            };
            let waited =
                if phase.waited > 0 { format!("; {} asks had to wait", grouped(phase.waited)) } else { String::new() };
            let opening = phase.opening.map_or(String::new(), |latency| {
                let at_most = latency.seed.max;
                format!("; {:.1} ms from the opening to a seat (p50), at most {at_most:.1} ms", latency.percentiles.p50)
            });
            lines.push(format!(
                "{}: {} without a ticket{}{early}{waited}{opening}",
                phase.name,
                grouped(phase.came - phase.bought),
                by_reason_in_parentheses(&phase.refused)
            ));
        }
        lines.push(format!(
            "audited {} codes, {} orders and {} sessions in {:.1} s",
            grouped(self.codes),
            grouped(self.orders),
            self.sessions,
            self.audit_s
        ));
        lines
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let head = ["phase, ms", "came", "bought", "tickets", "carts/s", "hold p50", "p99", "pay p50", "p99"];
        let row = |phase: &OnsalePhase| {
            let rate = format!("{:.0}", phase.bought as f64 / phase.seconds.max(1e-9));
            let counts = [grouped(phase.came), grouped(phase.bought), grouped(phase.tickets), rate];
            let figures = [phase.hold, phase.checkout].into_iter().flat_map(|latency| {
                let of = latency.map(|latency| latency.percentiles);
                [of.map(|of| of.p50), of.map(|of| of.p99)]
            });
            let figures = figures.map(|ms| ms.map_or("–".to_owned(), |ms| format!("{ms:.2}")));
            [phase.name.clone()].into_iter().chain(counts).chain(figures).collect()
        };
        [head.map(str::to_owned).to_vec()].into_iter().chain(self.phases.iter().map(row)).collect()
    }
}
