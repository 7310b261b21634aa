//! Payments through the gateway: what it is told to do to them, and what its ledger has to say of them in the end (P11).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Dice,
    record::{CartRecord, Stands},
};

/// What the gateway does to a payment, as its `source` says. Most of them end well, after whatever went wrong on the way.
const SOURCES: [&str; 24] = [
    "ok",
    "ok",
    "ok",
    "ok",
    "delay-40",
    "delay-150+capture-delay-100",
    "lost-1",
    "lost-2+capture-lost-1",
    "timeout-1",
    "capture-timeout-1",
    "error-2",
    "capture-error-2+capture-garbage-1",
    "garbage-1",
    "late-60",
    "late-300+twice",
    "twice",
    "capture-late-100+capture-twice",
    "refund-lost-1+refund-late-80",
    "decline",
    "late-120+decline",
    "lost-1+decline",
    "amount-7",
    "amount-7+void-lost-1+void-error-1",
    FOR_GOOD[0],
];

/// Steps that fail for good: an operator has to see to them.
const FOR_GOOD: [&str; 2] = ["capture-fails", "amount-7+void-fails"];

/// What a payment is to suffer from.
pub(crate) fn source(dice: &mut Dice) -> &'static str {
    match dice.percent(2) {
        true => FOR_GOOD[1],
        false => SOURCES[dice.below(SOURCES.len())],
    }
}

/// Whether a step of this payment fails for good.
pub(crate) fn fails_for_good(source: &str) -> bool {
    source.split('+').any(|word| word.ends_with("-fails"))
}

/// The differences between these carts and the gateway's ledger. An order is charged once, for its amount, less what was refunded
/// of it. Nothing is charged or authorized without an order. Charges of unknown carts are wrong too.
pub(crate) fn compare(carts: &[CartRecord], ledger: &Value, others: &BTreeSet<String>) -> Vec<String> {
    let mut charges: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for charge in ledger["charges"].as_array().expect("charges") {
        charges.entry(&charge["key"].as_str().expect("a key")[..32]).or_default().push(charge);
    }
    let mut wrong = Vec::new();
    for cart in carts {
        let Some(id) = &cart.id else { continue };
        let found = charges.remove(id.as_str()).unwrap_or_default();
        if let Some(why) = cart_and(cart, &found) {
            wrong.push(format!("{why}: {cart:?} {found:?}"));
        }
    }
    let strange = charges.into_iter().filter(|(cart, _)| !others.contains(*cart));
    wrong.extend(strange.map(|(cart, found)| format!("no order for {cart}: {found:?}")));
    wrong
}

/// What is wrong between a cart and its charges.
fn cart_and(cart: &CartRecord, charges: &[&Value]) -> Option<&'static str> {
    let amount = |charge: &Value, name: &str| charge[name].as_i64().expect("an amount");
    let state = |charge: &Value| charge["state"].as_str().expect("a state").to_owned();
    let mut kept: Vec<&Value> = charges.iter().copied().filter(|charge| state(charge) == "captured").collect();
    for charge in charges {
        let source = charge["source"].as_str().unwrap_or_default();
        match state(charge).as_str() {
            "captured" => {}
            "voided" | "declined" if amount(charge, "captured") == 0 => {}
            // The order stands, and its money is the operator's affair.
            "authorized" if source.contains("capture-fails") && cart.stands == Stands::Done => kept.push(charge),
            "authorized" if source.contains("void-fails") => {}
            "authorized" | "pending" => return Some("an amount stays set aside"),
            _ => return Some("what was given up was taken"),
        }
    }
    match (&cart.order, &kept[..]) {
        (None, []) => None,
        (None, _) => Some("charged, and nothing was sold"),
        (Some(_), []) if !cart.by_gateway => None,
        (Some(_), []) => Some("sold, and nothing was charged"),
        (Some(_), _) if !cart.by_gateway => Some("paid elsewhere, and charged"),
        (Some((_, total)), [charge]) => {
            let is_captured = state(charge) == "captured";
            if amount(charge, "authorized") != *total || (is_captured && amount(charge, "captured") != *total) {
                return Some("another amount was charged");
            }
            (amount(charge, "refunded") != cart.paid_back()).then_some("another amount was paid back")
        }
        (Some(_), _) => Some("charged twice"),
    }
}
