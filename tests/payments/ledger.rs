//! Differences between the gateway's ledger and carts are found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::{CartRecord, CartStatus, paying::compare};

const TOTAL: i64 = 1_000;

fn id(number: u32) -> String {
    format!("{number:032x}")
}

/// A cart with one line, bought through the gateway or elsewhere or not at all.
fn cart(number: u32, status: CartStatus, by_gateway: bool) -> CartRecord {
    let line = json!([{"line": 1, "product": "flag", "quantity": 1, "price": TOTAL}]);
    let mut cart = CartRecord::new(id(number));
    cart.id = Some(id(number));
    cart.lines = crate::common::Line::read_all(&line);
    cart.order = (status == CartStatus::Done).then(|| (id(number), TOTAL));
    (cart.status, cart.by_gateway) = (status, by_gateway);
    cart
}

fn charge(number: u32, attempt: u32, state: &str, source: &str, amounts: [i64; 3]) -> Value {
    let [authorized, captured, refunded] = amounts;
    json!({"key": format!("{}-{attempt}", id(number)), "state": state, "source": source, "authorized": authorized,
        "captured": captured, "refunded": refunded})
}

#[test]
fn ledger_differences_are_found() {
    let wrong = |carts: &[CartRecord], charges: &[Value]| {
        let others = BTreeSet::from([id(99)]);
        compare(carts, &json!({"charges": charges}), &others).join("; ")
    };
    let (paid, recorded, kept) =
        (cart(1, CartStatus::Done, true), cart(2, CartStatus::Done, false), cart(3, CartStatus::Active, false));
    let mut back = cart(4, CartStatus::Done, true);
    back.refunded = BTreeSet::from([1]);
    let full = |number| charge(number, 1, "captured", "ok", [TOTAL, TOTAL, 0]);
    let carts = [paid.clone(), recorded.clone(), kept.clone(), back.clone()];
    let well = [
        full(1),
        charge(1, 2, "declined", "decline", [0; 3]),
        charge(3, 1, "voided", "amount-7", [7, 0, 0]),
        charge(3, 2, "authorized", "amount-7+void-fails", [7, 0, 0]),
        charge(4, 1, "captured", "ok", [TOTAL; 3]),
        full(99),
    ];
    assert_eq!(wrong(&carts, &well), "");
    let held = |number| charge(number, 2, "authorized", "ok", [TOTAL, 0, 0]);
    let cases: BTreeMap<&str, (&CartRecord, Vec<Value>)> = BTreeMap::from([
        ("sold without a charge", (&paid, vec![])),
        ("charged twice", (&paid, vec![full(1), charge(1, 2, "captured", "ok", [TOTAL, TOTAL, 0])])),
        ("an amount stays authorized", (&paid, vec![full(1), held(1)])),
        ("a wrong amount was charged", (&paid, vec![charge(1, 1, "captured", "ok", [7, 7, 0])])),
        ("a wrong amount was refunded", (&back, vec![full(4)])),
        ("paid elsewhere and charged", (&recorded, vec![full(2)])),
        ("charged without a sale", (&kept, vec![full(3)])),
        ("a voided amount was captured", (&kept, vec![charge(3, 1, "voided", "ok", [TOTAL, TOTAL, 0])])),
        ("no order for", (&kept, vec![full(5)])),
    ]);
    for (why, (cart, charges)) in cases {
        let found = wrong(std::slice::from_ref(cart), &charges);
        assert!(found.contains(why), "{why}: {found}");
    }
}
