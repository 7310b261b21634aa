//! Audits in words, violations first.

use boxoffice_client::{
    CartAudit, CodeAudit, CodeView, Currency, CustomerAudit, HoldView, HolderView, Id, Money, NodeAudit, PaymentStatus,
    ProductAudit, RefundRecord, RefundStatus, ResourceAudit, SaleView, SessionAudit, VoidRecord, VoidStatus,
};
use boxoffice_core::calendar::Zone;
use boxoffice_wire::status::{CurrencyTotal, UnitTotals};
use smol_str::SmolStr;

use crate::{
    draw::{Names, amount, counts},
    local_time::zone_or_utc,
    node_client::date_and_time,
    words::{content, counted, portion},
};

/// The violations, or a line that there are none.
fn verdict(violations: &[SmolStr]) -> Vec<String> {
    match violations {
        [] => vec!["every promise holds".into()],
        _ => violations.iter().map(|violation| format!("BROKEN: {violation}")).collect(),
    }
}

/// The audit of a node.
pub fn node(audit: &NodeAudit) -> Vec<String> {
    let NodeAudit { venues, titles, sessions, seats, areas, products, stock, carts, payments, .. } = audit;
    let mut lines = verdict(&audit.violations);
    lines.push(format!("venues        {venues}, and {}", counted(*titles, "title")));
    lines.push(format!(
        "sessions      {sessions}: {} free, {} held, {} sold, {} blocked",
        seats.free, seats.held, seats.sold, seats.blocked
    ));
    if *areas != UnitTotals::default() {
        lines.push(format!("  in areas    {}", units(areas)));
    }
    lines.push(format!("products      {products}: {}", units(stock)));
    lines.push(format!("resources     {} with {}", audit.resources, counted(audit.bookings, "booking")));
    lines.push(format!("customers     {} with {}", audit.customers, counted(audit.purchases, "purchase")));
    lines.push(format!(
        "holds         {} with {} seats; carts have {} seats in lines",
        audit.holds, audit.held_seats, audit.cart_seats
    ));
    lines.push(format!(
        "carts         {} active, {} checking out, {} done, {} canceled, {} expired; they owe {} messages",
        carts.active, carts.checking_out, carts.done, carts.canceled, carts.expired, audit.owed
    ));
    lines.push(format!("  on disk     {} of them are kept on disk only", audit.carts_archived));
    if audit.tombstones > 0 {
        lines.push(format!("  unopened    {} give back what refused guests held", audit.tombstones));
    }
    lines.push(format!(
        "orders        {} with {} seats; sessions have sold {}",
        audit.orders, audit.order_seats, audit.sold_seats
    ));
    lines.extend(audit.order_totals.iter().map(|total| sum(total, "order")));
    lines.push(format!(
        "payments      {} recorded, {} authorized, {} captured, {} failed",
        payments.recorded, payments.authorized, payments.captured, payments.failed
    ));
    lines.push(format!(
        "              {} not settled yet, {} failed for good and to be seen to",
        audit.payments_pending, audit.payments_failed
    ));
    lines.extend(audit.failed_keys.iter().map(|key| format!("              FAILED {key}")));
    lines.push(format!("refunds       {}", audit.refunds));
    lines.extend(audit.refund_totals.iter().map(|total| sum(total, "refund")));
    lines
}

fn units(totals: &UnitTotals) -> String {
    format!("{} free, {} held, {} sold", totals.free, totals.held, totals.sold)
}

fn sum(total: &CurrencyTotal, thing: &str) -> String {
    let CurrencyTotal { currency, orders, amount: sum } = *total;
    format!("              {}, {}", counted(orders, thing), amount(Money { amount: sum, currency }))
}

/// The audit of a session.
pub fn session(audit: &SessionAudit, names: Option<&Names>) -> Vec<String> {
    let SessionAudit { session, areas, holds, sales, holders, violations, .. } = audit;
    let mut lines = verdict(violations);
    lines.push(format!("session {session}: {}", counts(&audit.counts)));
    lines.extend(
        areas
            .iter()
            .map(|area| format!("area {}: {} free, {} held, {} sold", area.area, area.free, area.held, area.sold)),
    );
    lines.extend(most(holders));
    lines.extend(holds_and_sales(holds, sales, names, &Zone::utc()));
    lines
}

/// The audit of a product.
pub fn product(audit: &ProductAudit) -> Vec<String> {
    let ProductAudit { product, counts, holds, sales, holders, violations } = audit;
    let mut lines = verdict(violations);
    lines.push(format!("product {product}: {} free, {} held, {} sold", counts.free, counts.held, counts.sold));
    lines.extend(most(holders));
    lines.extend(holds_and_sales(holds, sales, None, &Zone::utc()));
    lines
}

/// The audit of a resource, with slots by its clocks.
pub fn resource(audit: &ResourceAudit, zone: &Zone) -> Vec<String> {
    let ResourceAudit { resource, bookings, holds, sales, holders, violations } = audit;
    let mut lines = verdict(violations);
    lines.push(format!("resource {resource}: {}", counted(*bookings, "booking")));
    lines.extend(most(holders));
    lines.extend(holds_and_sales(holds, sales, None, zone));
    lines
}

/// The audit of a customer.
pub fn customer(audit: &CustomerAudit) -> Vec<String> {
    let CustomerAudit { customer, quotas, holds, sales, purchases, violations } = audit;
    let mut lines = verdict(violations);
    lines.push(format!("customer {customer}: {}", counted(purchases.len() as u64, "purchase")));
    lines.extend(quotas.iter().map(|(quota, held, used)| format!("quota {quota}: {held} in carts, {used} used up")));
    lines.extend(holds_and_sales(holds, sales, None, &Zone::utc()));
    lines.extend(purchases.iter().map(|order| format!("order {order}")));
    lines
}

/// The lines of the audit of a code.
pub fn code(audit: &CodeAudit) -> Vec<String> {
    let CodeAudit { code, counts: CodeView { group, uses, ended, by_order, held, sold }, holds, sales, violations } =
        audit;
    let mut lines = verdict(violations);
    let ended = if *ended { ", ended" } else { "" };
    let orders = if *by_order { " orders" } else { "" };
    lines.push(format!("code {code} of {group}: {held} in carts and {sold} bought with, of {uses}{orders}{ended}"));
    lines.extend(holds_and_sales(holds, sales, None, &Zone::utc()));
    lines
}

/// The networks and customers that hold most.
fn most(holders: &[HolderView]) -> impl Iterator<Item = String> {
    holders.iter().map(|HolderView { holder, held, used_seconds }| {
        format!("most  by {holder}: {held} held, {used_seconds} seat-seconds used above its floor")
    })
}

/// The holds and sales, with slots by the clocks of the zone.
fn holds_and_sales(holds: &[HoldView], sales: &[SaleView], names: Option<&Names>, zone: &Zone) -> Vec<String> {
    let customer = |of: &Option<Id>| of.as_ref().map_or_else(String::new, |customer| format!(" of {customer}"));
    let held = holds.iter().map(|hold| {
        let since = hold.since.map_or_else(String::new, |since| format!(" since {}", date_and_time(since)));
        let (of, until) = (customer(&hold.customer), date_and_time(hold.deadline));
        format!("held  by cart  {}{of}{since} until {until}: {}", hold.hold.cart, portion(&hold.portion, names, zone))
    });
    let sold = sales.iter().map(|sale| {
        let (of, at) = (customer(&sale.customer), date_and_time(sale.at));
        format!("sold  by order {}{of} at {at}: {}", sale.order, portion(&sale.portion, names, zone))
    });
    held.chain(sold).collect()
}

/// The audit of a cart.
pub fn cart(audit: &CartAudit) -> Vec<String> {
    let CartAudit { cart, holds, payment, refunds, voids, attempt: _, owed, violations } = audit;
    let mut lines = verdict(violations);
    let customer = cart.customer.as_ref().map_or_else(String::new, |customer| format!(" of {customer}"));
    lines.push(format!(
        "cart {}{customer}: {}, opened {}, deadline {}, owes {owed} messages",
        cart.id,
        cart.state.as_str(),
        date_and_time(cart.opened_at),
        date_and_time(cart.deadline)
    ));
    let zone_of = |line: u32| {
        let line = cart.lines.iter().find(|known| known.line == line);
        zone_or_utc(line.and_then(|line| line.zone.as_deref()))
    };
    let currency: Option<Currency> = cart.total.map(|total| total.currency);
    lines.extend(cart.lines.iter().map(|line| {
        let sum = i64::try_from(line.content.amount()).expect("a line is worth no more than a total may be");
        let price =
            currency.map_or_else(String::new, |currency| format!(" for {}", amount(Money { amount: sum, currency })));
        format!("line {} of {}: {}{price}", line.line, line.entity, content(&line.content, None, &zone_of(line.line)))
    }));
    lines.extend(holds.iter().map(|claim| {
        let zone = zone_of(claim.line);
        let has = claim.portion.as_ref().map_or_else(|| "nothing any more".into(), |has| portion(has, None, &zone));
        let since = date_and_time(claim.since);
        format!("hold in {} since {since}, revision {}: {has}", claim.entity, claim.revision)
    }));
    lines.extend(cart.total.map(|total| format!("total {}", amount(total))));
    lines.extend(cart.order.map(|order| format!("order {order}")));
    lines.extend(payment.as_ref().map(|status| format!("payment {}", payment_words(status))));
    lines.extend(refunds.iter().map(refund));
    lines.extend(voids.iter().map(void));
    lines
}

/// The voids in words.
fn void(void: &VoidRecord) -> String {
    let status = match &void.status {
        VoidStatus::Pending => "on its way".into(),
        VoidStatus::Voided => "given up".into(),
        VoidStatus::Failed { reason } => format!("FAILED: {reason}"),
    };
    format!("void of attempt {}: {status}", void.attempt)
}

/// The status of a payment in words.
fn payment_words(status: &PaymentStatus) -> String {
    match status {
        PaymentStatus::Recorded => "recorded: paid elsewhere".into(),
        PaymentStatus::Authorized => "authorized: set aside, the capture is on its way".into(),
        PaymentStatus::Captured => "captured".into(),
        PaymentStatus::CaptureFailed { reason } => format!("FAILED to be captured: {reason}"),
    }
}

/// A refund in words.
pub fn refund(refund: &RefundRecord) -> String {
    let lines: Vec<String> = refund.lines.iter().map(u32::to_string).collect();
    let status = match &refund.status {
        RefundStatus::Recorded => "recorded, to be paid elsewhere".into(),
        RefundStatus::Pending => "on its way".into(),
        RefundStatus::Refunded => "paid back".into(),
        RefundStatus::Failed { reason } => format!("FAILED: {reason}"),
    };
    let RefundRecord { number, at, reason, .. } = refund;
    let of = lines.join(", ");
    format!("refund {number} at {}: {} for lines {of} ({reason}), {status}", date_and_time(*at), amount(refund.amount))
}
