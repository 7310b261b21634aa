//! What entities hold, counted afresh.

use boxoffice_core::{
    answer::{CartAudit, Claim, CustomerAudit, HoldView, ProductAudit, ResourceAudit, SaleView, SessionAudit},
    id::HoldId,
};
use serde_json::{Value, json};

use super::Group;
use crate::{
    form::Of,
    schema::build::{
        Field, about, component, count, id, list, map, needed, object, one_set, optional, part_of, time, words,
    },
};

/// What of an inventory something is: the fields of one of these kinds.
fn portion() -> [Field; 7] {
    [
        optional("seats", list(component("Seat"))),
        optional("area", id()),
        optional("quantity", count()),
        optional("begin", time()),
        optional("end", time()),
        optional("quota", id()),
        optional("count", count()),
    ]
}

/// The map of which exactly one kind of portion is.
fn of_a_portion(map: Value) -> Value {
    // Units have a quantity alone, places have an area with it.
    let mut map = one_set(map, &[&["seats"], &["area", "quantity"], &["begin", "end"], &["quota", "count"]]);
    if let Some(kinds) = map["then"]["oneOf"].as_array_mut() {
        kinds.push(json!({"required": ["quantity"], "not": {"required": ["area"]}}));
    }
    map
}

pub(super) fn audits() -> Group {
    let hold_id = object::<Of<HoldId>>([
        needed("cart", component("CartId")),
        needed("request", json!({"type": "string", "pattern": "^[0-9a-f]{16}$"})),
        needed("part", count()),
        needed("attempt", count()),
    ]);
    let hold = [
        needed("hold", component("HoldId")),
        needed("revision", count()),
        needed("deadline", about(time(), "When the cart is asked about it.")),
    ];
    let sale = [needed("order", component("OrderId")), needed("hold", component("HoldId")), needed("at", time())];
    let claim = [
        needed("line", count()),
        optional("session", id()),
        optional("product", id()),
        optional("resource", id()),
        optional("customer", id()),
        needed("hold", component("HoldId")),
        needed("revision", count()),
    ];
    let claim = part_of::<Of<Claim>>(claim.into_iter().chain(portion()));
    let claim = one_set(claim, &[&["session"], &["product"], &["resource"], &["customer"]]);
    let holds = || needed("holds", list(component("Hold")));
    let sales = || needed("sales", list(component("Sale")));
    let violations = || needed("violations", about(list(words()), "Empty when every promise holds."));
    let session = object::<Of<SessionAudit>>([
        needed("session", id()),
        needed("counts", component("Counts")),
        optional("areas", list(component("AreaCounts"))),
        holds(),
        sales(),
        violations(),
    ]);
    let cart = object::<Of<CartAudit>>([
        needed("cart", component("Cart")),
        needed("holds", list(component("Claim"))),
        optional("payment", component("PaymentStatus")),
        optional("refunds", list(component("Refund"))),
        optional("voids", about(list(component("Void")), "Attempts whose money was given up, or is to be.")),
        needed("owed", about(count(), "Messages it still owes others.")),
        violations(),
    ]);
    let product = object::<Of<ProductAudit>>([
        needed("product", id()),
        needed("counts", component("StockCounts")),
        holds(),
        sales(),
        violations(),
    ]);
    let resource = object::<Of<ResourceAudit>>([
        needed("resource", id()),
        needed("bookings", count()),
        holds(),
        sales(),
        violations(),
    ]);
    let quota = map([needed("quota", id()), needed("held", count()), needed("sold", count())]);
    let customer = object::<Of<CustomerAudit>>([
        needed("customer", id()),
        needed("quotas", list(component("Quota"))),
        holds(),
        sales(),
        needed("purchases", list(component("OrderId"))),
        violations(),
    ]);
    let hold = of_a_portion(part_of::<Of<HoldView>>(hold.into_iter().chain(portion())));
    let sale = of_a_portion(part_of::<Of<SaleView>>(sale.into_iter().chain(portion())));
    vec![
        ("HoldId", hold_id),
        ("Hold", about(hold, "Seats, places, units, a slot or a part of a quota in a cart.")),
        ("Sale", about(sale, "The same, bought.")),
        ("Claim", about(claim, "A hold that a line of a cart rests on; nothing of it any more if it was refunded.")),
        ("SessionAudit", session),
        ("CartAudit", cart),
        ("ProductAudit", product),
        ("ResourceAudit", resource),
        ("Quota", about(quota, "How many a customer has in carts, and has bought.")),
        ("CustomerAudit", customer),
    ]
}
