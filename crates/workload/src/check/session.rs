//! Checks a session's audit for contradictions: P1 and P5.

use boxoffice_core::seat::Seat;
use boxoffice_wire::view::SessionAudit;

use super::{Breach, Findings, seats_in};

/// Checks a session with `seats` seats. Adds its sold and held seats to the sums in the findings.
pub fn check(seats: u32, audit: &SessionAudit, findings: &mut Findings) {
    let session = &audit.session;
    findings.add_reported(&format_args!("session {session}"), &audit.violations);
    let counts = audit.counts;
    let all: u64 = [counts.free, counts.held, counts.sold, counts.blocked].map(u64::from).iter().sum();
    let sold: usize = audit.sales.iter().map(|sale| seats_in(&sale.portion).len()).sum();
    let held: usize = audit.holds.iter().map(|hold| seats_in(&hold.portion).len()).sum();
    if all != u64::from(seats) || counts.sold as usize != sold || counts.held as usize != held {
        findings.add(Breach::Miscounted, || {
            format!("session {session} of {seats} counts {counts:?}, but its sales have {sold} and its holds {held}")
        });
    }

    let sales = audit.sales.iter().flat_map(|sale| seats_in(&sale.portion));
    let holds = audit.holds.iter().flat_map(|hold| seats_in(&hold.portion));
    let mut taken: Vec<Seat> = sales.chain(holds).copied().collect();
    taken.sort_unstable();
    for pair in taken.windows(2).filter(|pair| pair[0] == pair[1]) {
        findings.add(Breach::Twice, || format!("session {session}: seat {:?} is taken twice", pair[0]));
    }

    findings.seats_sold += sold as u64;
    findings.seats_held += held as u64;
    findings.sales += audit.sales.len() as u64;
}
