//! Payments, orders, refunds and purchases.

use boxoffice_core::{
    answer::{Purchase, PurchasesPage},
    command::Shipping,
    payment::{PaymentStatus, RefundRecord, RefundStatus, VoidRecord, VoidStatus},
};

use super::Group;
use crate::{
    body::{Figure, GatewayPayment, PaymentBody, RecordedPayment},
    form::Of,
    form_order::OrderView,
    limits::{PAYMENT_TEXT_BYTES_MAX, SHIPPING_BYTES_MAX, SOURCE_BYTES_MAX},
    schema::build::{
        about, component, count, flag, id, lines, list, name, needed, object, one_of, one_set, optional, part_of, text,
        time, words,
    },
};

pub(super) fn orders() -> Group {
    let recorded = object::<RecordedPayment>([
        needed("method", name(PAYMENT_TEXT_BYTES_MAX)),
        needed("transaction_id", text(PAYMENT_TEXT_BYTES_MAX)),
        optional("amount", about(component("Money"), "What was paid: refused if the cart comes to anything else.")),
    ]);
    let figure = object::<Figure>([
        optional("total", about(component("Money"), "What the lines come to.")),
        optional("lines", about(count(), "The version of the lines, `lines_version` of the cart.")),
    ]);
    let on_decline = || {
        let words = "What becomes of the cart if it is declined; as the server's rules say if absent.";
        optional("on_decline", about(component("OnDecline"), words))
    };
    let source = about(name(SOURCE_BYTES_MAX), "What the client had from the gateway; never shown again.");
    let payment = |gateway| {
        let payment = object::<PaymentBody>([
            optional("recorded", component("RecordedPayment")),
            optional("gateway", component(gateway)),
        ]);
        one_set(payment, &[&["recorded"], &["gateway"]])
    };
    let shipping = object::<Of<Shipping>>(
        ["recipient", "address", "method"].map(|field| optional(field, text(SHIPPING_BYTES_MAX))),
    );
    let reason = || optional("reason", about(words(), "Why, if it failed."));
    let states = one_of(&["recorded", "authorized", "captured", "capture_failed"]);
    let standing = object::<Of<PaymentStatus>>([needed("state", states), reason()]);
    let states = one_of(&["recorded", "pending", "refunded", "failed"]);
    let refund_standing = object::<Of<RefundStatus>>([needed("state", states), reason()]);
    let states = one_of(&["pending", "voided", "failed"]);
    let void_standing = object::<Of<VoidStatus>>([needed("state", states), reason()]);
    let void = object::<Of<VoidRecord>>([needed("attempt", count()), needed("status", component("VoidStatus"))]);
    let refund = object::<Of<RefundRecord>>([
        needed("number", count()),
        needed("at", time()),
        needed("lines", about(list(count()), "By number.")),
        needed("amount", component("Money")),
        needed("reason", words()),
        needed("status", component("RefundStatus")),
    ]);
    let order = object::<Of<OrderView>>([
        needed("id", component("OrderId")),
        optional("customer", id()),
        needed("at", time()),
        needed("lines", lines()),
        needed("total", component("Money")),
        needed("payment", component("OrderPayment")),
        optional("shipping", component("Shipping")),
        needed("settling", about(flag(), "Sold for certain, but not everything sold has said so yet.")),
        needed("payment_status", component("PaymentStatus")),
        optional("refunds", list(component("Refund"))),
    ]);
    let purchase = object::<Of<Purchase>>([
        needed("cursor", count()),
        needed("order", component("OrderId")),
        needed("at", time()),
        needed("total", component("Money")),
    ]);
    let purchases = object::<Of<PurchasesPage>>([
        needed("purchases", list(component("Purchase"))),
        needed("newest", about(count(), "The cursor of the newest one there is; 0 if there is none.")),
    ]);
    vec![
        ("OnDecline", one_of(&["release", "keep"])),
        ("RecordedPayment", about(recorded, "Paid elsewhere.")),
        ("Figure", about(figure, "What a cart is compared by.")),
        (
            "GatewayPayment",
            about(object::<GatewayPayment>([needed("source", source), on_decline()]), "Through the node's gateway."),
        ),
        ("Payment", about(payment("GatewayPayment"), "How it is paid, by kind.")),
        ("OrderGatewayPayment", part_of::<GatewayPayment>([on_decline()])),
        ("OrderPayment", about(payment("OrderGatewayPayment"), "How it was paid, without the source.")),
        ("Shipping", about(shipping, "Where it goes.")),
        ("PaymentStatus", about(standing, "How the money stands.")),
        ("RefundStatus", about(refund_standing, "How the money that is paid back stands.")),
        ("Refund", about(refund, "What is paid back.")),
        ("VoidStatus", about(void_standing, "How the money that is given up stands.")),
        ("Void", about(void, "An attempt to pay whose money is given up.")),
        ("Order", order),
        ("Purchase", about(purchase, "An order among its customer's.")),
        ("PurchasesPage", purchases),
    ]
}
