//! Checks a cart's audit for contradictions: P6 and P7.

use boxoffice_wire::view::{CartAudit, CartState};

use super::{Breach, Findings};

/// Checks one cart.
pub fn check(audit: &CartAudit, findings: &mut Findings) {
    let cart = &audit.cart;
    findings.add_reported(&format_args!("cart {}", cart.id), &audit.violations);
    if cart.order.is_some() != (cart.state == CartState::Done) {
        findings.add(Breach::WrongState, || {
            format!("cart {} is {}, but its order is {:?}", cart.id, cart.state.as_str(), cart.order)
        });
    }
    if cart.order.is_some_and(|order| order != cart.id.order()) {
        findings.add(Breach::WrongOrder, || {
            format!("cart {} has order {:?}, which is another cart's", cart.id, cart.order)
        });
    }
    let sum: i128 = cart.lines.iter().map(|line| line.content.amount()).sum();
    let total = i128::from(cart.total.map_or(0, |total| total.amount));
    if sum != total {
        findings.add(Breach::WrongOrder, || {
            format!("the lines of cart {} add up to {sum}, but its total is {total}", cart.id)
        });
    }
    if cart.state == CartState::Done && audit.owed > 0 {
        findings.add(Breach::Unsettled, || {
            format!("cart {} is done, but still has {} messages to sessions in its outbox", cart.id, audit.owed)
        });
    }
}
