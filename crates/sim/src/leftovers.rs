//! Checks for leftovers at the end: live carts and holds after every life and grace, orders that are missing at their
//! customers, and purchases without an order.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Order},
    command::{Command, CustomerCommand},
    id::{CartId, Entity, OrderId},
    rules::Rules,
};
use rand::rngs::SmallRng;
use tokio::time::sleep;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    buyer::CartTraces,
    client_stub::ClientStub,
    fixture::{Fixture, audit_of},
};

/// Additional time for repeated messages and different clocks, in milliseconds.
const SLACK_MS: u64 = 15_000;
/// The limit for a hold after its cart's deadline and the grace without faults, in milliseconds.
pub(crate) const OVERDUE_MS: u64 = 10_000;
/// Purchases that one read asks for.
const PAGE: u32 = 1_000;

/// Waits until every untouched cart has ended and its holds are free.
pub(crate) async fn outlive(hold_ttl_ms: u64) {
    let rules = Rules::default();
    sleep(Duration::from_millis(hold_ttl_ms + rules.confirm_ms + rules.grace_ms + SLACK_MS)).await;
}

/// Holds of carts that have expired long ago. Without faults they end soon after their cart, even with a later
/// deadline.
pub(crate) async fn overdue(
    client: &ClientStub,
    fixture: &Fixture,
    cart_traces: &Mutex<CartTraces>,
    grace_ms: u64,
    rng: &mut SmallRng,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !client.wall_clocks.were_never_set() {
        return wrong;
    }
    let now_ms = client.trace.now_ms();
    let over: BTreeMap<CartId, u64> = {
        let cart_traces = cart_traces.lock();
        let left = cart_traces.carts.values().filter(|cart_trace| cart_trace.is_left_to_expire());
        let left = left.filter(|cart_trace| fixture.taken_from(cart_trace.cart).is_none());
        let over = left.map(|cart_trace| {
            (cart_trace.cart, client.wall_clocks.run_ms(cart_trace.deadline) + grace_ms + OVERDUE_MS)
        });
        over.filter(|(_, over_ms)| *over_ms < now_ms).collect()
    };
    for inventory in fixture.inventories() {
        let Some(Ok(answered)) = client.read(rng, "judge", audit_of(&inventory)).await else { continue };
        let holds = match answered.answer {
            Answer::SessionAudit(audit) => audit.holds,
            Answer::ProductAudit(audit) => audit.holds,
            Answer::ResourceAudit(audit) => audit.holds,
            Answer::CustomerAudit(audit) => audit.holds,
            Answer::CodeAudit(audit) => audit.holds,
            _ => continue,
        };
        for hold in holds {
            if let Some(over_ms) = over.get(&hold.hold.cart) {
                wrong.push(format!(
                    "{inventory} has {hold:?} still at {now_ms} ms, which must have ended at {over_ms} ms"
                ));
            }
        }
    }
    client.oracle.lock().tally.add("carts whose holds must have ended", over.len() as u64);
    wrong
}

/// Orders that are missing in their customers' purchases, and purchases that differ from their orders.
pub(crate) async fn purchases(
    client: &ClientStub,
    fixture: &Fixture,
    orders: &BTreeMap<OrderId, Arc<Order>>,
    rng: &mut SmallRng,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut missing: BTreeMap<OrderId, &Order> =
        orders.iter().filter(|(_, order)| order.customer.is_some()).map(|(id, order)| (*id, &**order)).collect();
    for customer in fixture.customers() {
        let mut after = 0;
        loop {
            let read =
                Command::Customer(customer.clone(), CustomerCommand::Purchases { after, limit: PAGE, epoch: None });
            let Some(Ok(answered)) = client.read(rng, "judge", read).await else { break };
            let Answer::Purchases(page) = answered.answer else {
                wrong.push(format!("the purchases of {} are told as something else", Entity::Customer(customer)));
                break;
            };
            for purchase in &page.purchases {
                match orders.get(&purchase.order) {
                    Some(order)
                        if order.customer.as_ref() == Some(&customer)
                            && (order.at, order.total) == (purchase.at, purchase.total) =>
                    {
                        missing.remove(&purchase.order);
                    }
                    // Orders of carts without a trace are not known.
                    None => {}
                    Some(order) => wrong.push(format!("{customer} has {purchase:?} of {order:?}")),
                }
            }
            match page.purchases.last() {
                Some(last) if last.cursor < page.newest => after = last.cursor,
                _ => break,
            }
        }
    }
    wrong.extend(missing.values().map(|order| format!("{:?} has no purchase of {:?}", order.customer, order.id)));
    wrong
}
