//! Payments through the gateway: the faults that it injects, and the comparison of its ledger with the orders (P11).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Rng,
    record::{CartRecord, CartStatus},
};

/// Faults that the gateway injects into a payment, by `source`. Most payments succeed in the end.
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
    PERMANENT[0],
];

/// Steps that fail permanently. An operator has to settle them.
const PERMANENT: [&str; 2] = ["capture-fails", "amount-7+void-fails"];

/// Draws the faults of a payment.
pub(crate) fn source(rng: &mut Rng) -> &'static str {
    match rng.percent(2) {
        true => PERMANENT[1],
        false => SOURCES[rng.below(SOURCES.len())],
    }
}

/// Whether a step of this payment fails permanently.
pub(crate) fn fails_permanently(source: &str) -> bool {
    source.split('+').any(|word| word.ends_with("-fails"))
}

/// The differences between these carts and the gateway's ledger. An order is charged once, for its amount less its refunds.
/// Nothing is charged or authorized without an order. Charges of unknown carts are wrong too.
pub(crate) fn compare(carts: &[CartRecord], ledger: &Value, others: &BTreeSet<String>) -> Vec<String> {
    let mut charges: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for charge in ledger["charges"].as_array().expect("charges") {
        charges.entry(&charge["key"].as_str().expect("a key")[..32]).or_default().push(charge);
    }
    let mut wrong = Vec::new();
    for cart in carts {
        let Some(id) = &cart.id else { continue };
        let found = charges.remove(id.as_str()).unwrap_or_default();
        if let Some(why) = difference(cart, &found) {
            wrong.push(format!("{why}: {cart:?} {found:?}"));
        }
    }
    let strange = charges.into_iter().filter(|(cart, _)| !others.contains(*cart));
    wrong.extend(strange.map(|(cart, found)| format!("no order for {cart}: {found:?}")));
    wrong
}

/// The difference between a cart and its charges, if any.
fn difference(cart: &CartRecord, charges: &[&Value]) -> Option<&'static str> {
    let amount = |charge: &Value, name: &str| charge[name].as_i64().expect("an amount");
    let state = |charge: &Value| charge["state"].as_str().expect("a state").to_owned();
    let mut kept: Vec<&Value> = charges.iter().copied().filter(|charge| state(charge) == "captured").collect();
    for charge in charges {
        let source = charge["source"].as_str().unwrap_or_default();
        match state(charge).as_str() {
            "captured" => {}
            "voided" | "declined" if amount(charge, "captured") == 0 => {}
            // The order stands, and an operator settles its payment.
            "authorized" if source.contains("capture-fails") && cart.status == CartStatus::Done => kept.push(charge),
            "authorized" if source.contains("void-fails") => {}
            "authorized" | "pending" => return Some("an amount stays authorized"),
            _ => return Some("a voided amount was captured"),
        }
    }
    match (&cart.order, &kept[..]) {
        (None, []) => None,
        (None, _) => Some("charged without a sale"),
        (Some(_), []) if !cart.by_gateway => None,
        (Some(_), []) => Some("sold without a charge"),
        (Some(_), _) if !cart.by_gateway => Some("paid elsewhere and charged"),
        (Some((_, total)), [charge]) => {
            let is_captured = state(charge) == "captured";
            if amount(charge, "authorized") != *total || (is_captured && amount(charge, "captured") != *total) {
                return Some("a wrong amount was charged");
            }
            (amount(charge, "refunded") != cart.paid_back()).then_some("a wrong amount was refunded")
        }
        (Some(_), _) => Some("charged twice"),
    }
}
