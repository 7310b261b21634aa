//! Audits in words: what is wrong first.

use boxoffice_client::{CartAudit, Currency, Money, NodeAudit, Seat, SessionAudit};
use smol_str::SmolStr;

use crate::{
    draw::{Names, amount, counts},
    reach::date_and_time,
};

/// What is wrong, or that nothing is.
fn verdict(violations: &[SmolStr]) -> Vec<String> {
    match violations {
        [] => vec!["every promise holds".into()],
        _ => violations.iter().map(|violation| format!("BROKEN: {violation}")).collect(),
    }
}

/// Of a whole node.
pub fn node(audit: &NodeAudit) -> Vec<String> {
    let NodeAudit { venues, sessions, seats, carts, .. } = audit;
    let mut lines = verdict(&audit.violations);
    lines.push(format!("venues        {venues}"));
    lines.push(format!(
        "sessions      {sessions}: {} free, {} held, {} sold, {} blocked",
        seats.free, seats.held, seats.sold, seats.blocked
    ));
    lines.push(format!(
        "holds         {} with {} seats; carts have {} seats in lines",
        audit.holds, audit.held_seats, audit.cart_seats
    ));
    lines.push(format!(
        "carts         {} active, {} checking out, {} done, {} canceled, {} expired; they owe {} messages",
        carts.active, carts.checking_out, carts.done, carts.canceled, carts.expired, audit.owed
    ));
    lines.push(format!(
        "orders        {} with {} seats; sessions have sold {}",
        audit.orders, audit.order_seats, audit.sold_seats
    ));
    lines.extend(audit.order_totals.iter().map(|total| {
        let sum = amount(Money { amount: total.amount, currency: total.currency });
        format!("              {} orders, {sum}", total.orders)
    }));
    lines
}

/// Of a session.
pub fn session(audit: &SessionAudit, names: Option<&Names>) -> Vec<String> {
    let SessionAudit { session, holds, sales, .. } = audit;
    let mut lines = verdict(&audit.violations);
    lines.push(format!("session {session}: {}", counts(&audit.counts)));
    lines.extend(holds.iter().map(|hold| {
        let until = date_and_time(hold.deadline);
        format!("held  by cart  {} until {until}: {}", hold.hold.cart, seats(&hold.seats, names))
    }));
    lines.extend(sales.iter().map(|sale| {
        format!("sold  by order {} at {}: {}", sale.order, date_and_time(sale.at), seats(&sale.seats, names))
    }));
    lines
}

/// Of a cart.
pub fn cart(audit: &CartAudit) -> Vec<String> {
    let CartAudit { cart, holds, owed, .. } = audit;
    let mut lines = verdict(&audit.violations);
    let customer = cart.customer.as_ref().map_or_else(String::new, |customer| format!(" of {customer}"));
    lines.push(format!(
        "cart {}{customer}: {}, opened {}, deadline {}, owes {owed} messages",
        cart.id,
        cart.state.as_str(),
        date_and_time(cart.opened_at),
        date_and_time(cart.deadline)
    ));
    let currency: Option<Currency> = cart.total.map(|total| total.currency);
    lines.extend(cart.lines.iter().map(|line| {
        let named: Vec<Seat> = line.seats.iter().map(|priced| priced.seat).collect();
        let sum = line.seats.iter().map(|priced| priced.price).sum();
        let price =
            currency.map_or_else(String::new, |currency| format!(" for {}", amount(Money { amount: sum, currency })));
        format!("line {} of session {}: {}{price}", line.line, line.session, seats(&named, None))
    }));
    lines.extend(holds.iter().map(|(session, _, revision, held)| {
        format!("hold in session {session}, revision {revision}: {}", seats(held, None))
    }));
    lines.extend(cart.total.map(|total| format!("total {}", amount(total))));
    lines.extend(cart.order.map(|order| format!("order {order}")));
    lines
}

/// Seats by name where names are known, else as `[row, seat]` from 0.
fn seats(seats: &[Seat], names: Option<&Names>) -> String {
    let named = names.and_then(|names| seats.iter().map(|seat| names.index(*seat)).collect::<Option<Vec<u32>>>());
    match (named, names) {
        (Some(indexes), Some(names)) => names.list(&indexes),
        _ => seats.iter().map(|Seat { row, seat }| format!("[{row}, {seat}]")).collect::<Vec<_>>().join(" "),
    }
}
