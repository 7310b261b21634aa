//! Checks purchases and charges: each order is once among its customer's purchases (P12), and no cart is charged
//! without an order (P11).

use std::collections::BTreeMap;

use boxoffice_core::id::{CartId, OrderId};

use super::{AuditedState, Breach, Charge, Findings};
use crate::{
    goods::Goods,
    history::{Bought, CartRecord, History, Outcome},
};

/// Checks every audited customer and every charge.
pub(super) fn check(goods: &Goods, history: &History, audited: &AuditedState, findings: &mut Findings) {
    check_purchases(goods, history, audited, findings);
    if let Some(charges) = &audited.charges {
        check_charges(history, charges, findings);
    }
}

fn check_purchases(goods: &Goods, history: &History, audited: &AuditedState, findings: &mut Findings) {
    let mut of_customer: BTreeMap<u32, BTreeMap<OrderId, &CartRecord>> = BTreeMap::new();
    for record in &history.carts {
        if let Some(customer) = record.customer {
            of_customer.entry(customer).or_default().insert(record.cart.order(), record);
        }
    }
    for (number, audit) in &audited.customers {
        let name = goods.customer_id(*number);
        findings.add_reported(&format_args!("customer {name}"), &audit.violations);
        let mut records = of_customer.remove(number).unwrap_or_default();
        let mut seen: BTreeMap<OrderId, u64> = BTreeMap::new();
        for &order in &audit.purchases {
            findings.purchases += 1;
            *seen.entry(order).or_default() += 1;
        }
        for (order, times) in seen {
            let outcome = records.remove(&order).and_then(CartRecord::checkout_outcome);
            let bought = matches!(outcome, Some(Outcome::Granted(_) | Outcome::Unknown));
            if times > 1 || !bought {
                findings.add(Breach::WrongPurchases, || {
                    format!("customer {name} has order {order} {times} times; its client got {outcome:?}")
                });
            }
        }
        for (order, record) in records {
            if record.bought().is_some() {
                findings.add(Breach::WrongPurchases, || {
                    format!("customer {name} bought order {order}, but does not have it")
                });
            }
        }
    }
}

fn check_charges(history: &History, charges: &[Charge], findings: &mut Findings) {
    let mut of_cart: BTreeMap<CartId, Vec<&Charge>> = BTreeMap::new();
    for charge in charges {
        findings.charges += 1;
        of_cart.entry(charge.cart).or_default().push(charge);
    }
    for record in history.carts.iter().filter(|record| record.gateway) {
        let charges = of_cart.remove(&record.cart).unwrap_or_default();
        let taken: i64 = charges.iter().map(|charge| charge.captured - charge.refunded).sum();
        let authorized: i64 = charges.iter().map(|charge| charge.authorized).sum();
        let cart = record.cart;
        match record.checkout_outcome() {
            Some(Outcome::Granted(Bought { total, .. })) => {
                if taken == 0 && authorized == *total {
                    findings
                        .add(Breach::Unsettled, || format!("cart {cart} bought, but its {total} are not captured yet"));
                } else if taken != *total || authorized != 0 {
                    findings.add(Breach::WrongCharge, || {
                        format!("cart {cart} bought for {total}, but {taken} were taken and {authorized} are set aside")
                    });
                }
            }
            Some(Outcome::Unknown) => {}
            Some(Outcome::Refused { .. } | Outcome::NotDone) | None => {
                if taken != 0 {
                    findings.add(Breach::WrongCharge, || format!("cart {cart} did not buy, but {taken} were taken"));
                } else if authorized != 0 {
                    findings
                        .add(Breach::Unsettled, || format!("cart {cart} did not buy, but {authorized} are set aside"));
                }
            }
        }
    }
}
