//! How a node is, what it holds altogether, and what happened on it.

use serde_json::json;

use super::Group;
use crate::{
    hello::Durability,
    schema::build::{about, component, count, flag, integer, list, needed, number, object, optional, time, words},
    status::{
        CartTotals, CurrencyTotal, FollowerStatus, HistoryEntry, HistoryPage, NodeAudit, NodeStatus, PaymentTotals,
        Rates, SeatTotals, ShardStatus, UnitTotals,
    },
};

const PENDING: &str = "Authorizations, captures, voids and refunds whose outcome is not known yet.";
const FAILED: &str = "Captures, voids and refunds that failed for good and that no operator has seen to.";

pub(super) fn node() -> Group {
    let durability = object::<Durability>([needed("replicas", count()), needed("fsync", words())]);
    let shard = object::<ShardStatus>([
        needed("shard", count()),
        needed("role", words()),
        needed("term", count()),
        needed("applied", count()),
        needed("entities", count()),
        optional("leader", about(component("Node"), "Who leads it, as far as the node knows.")),
        needed("committed", about(count(), "The last position that the replica here knows to be committed.")),
        needed(
            "distance_ms",
            about(integer(), "True time less the shard's running time; it changes when clocks are set."),
        ),
        optional("unconfirmed", about(flag(), "It leads, and no majority of the voters agrees what time it is.")),
        optional("followers", about(list(component("Follower")), "Where the node leads it: every other replica.")),
    ]);
    let follower = object::<FollowerStatus>([
        needed("replica", component("Replica")),
        needed("lag", about(count(), "How many committed entries it is not known to have.")),
        needed("heard", about(flag(), "Whether it was heard of lately.")),
    ]);
    let kinds = ["requests", "ok", "no", "fail", "events", "fsyncs", "feed_frames"];
    let rates = object::<Rates>(kinds.map(|kind| needed(kind, number())));
    let status = object::<NodeStatus>([
        needed("node", words()),
        needed("cluster", words()),
        needed("version", words()),
        needed("uptime_ms", count()),
        needed("durability", component("Durability")),
        needed("state", words()),
        needed("shards", list(component("Shard"))),
        needed("connections", count()),
        needed("watchers", count()),
        needed("under_way", count()),
        needed("actors", count()),
        needed("carts_archived", about(count(), "Ended carts that are kept on disk only.")),
        needed(
            "tombstones",
            about(count(), "Carts that were never opened and give back what was held for a refused guest."),
        ),
        needed("payments_pending", about(count(), PENDING)),
        needed("payments_failed", about(count(), FAILED)),
        needed("rates", component("Rates")),
    ]);
    let entry = object::<HistoryEntry>([
        needed("position", about(count(), "The place in the log.")),
        needed("version", about(count(), "The entity's, with it.")),
        needed("at", time()),
        needed("event", words()),
        optional("details", words()),
        optional("by", about(words(), "The name of the key, or of the operator, that asked for it.")),
    ]);
    let history = object::<HistoryPage>([
        needed("entity", component("Entity")),
        needed("entries", list(component("HistoryEntry"))),
        optional("cursor", about(count(), "The version to go on `before`, if there is more.")),
        needed("complete", about(flag(), "Whether there is nothing older than this page.")),
    ]);
    let mut group = vec![
        ("Durability", durability),
        ("Shard", shard),
        ("Follower", about(follower, "A replica of a shard, as its leader sees it.")),
        ("Rates", about(rates, "Events a second, over the last seconds.")),
        ("NodeStatus", status),
        ("HistoryEntry", entry),
        ("HistoryPage", about(history, "Oldest first.")),
    ];
    group.extend(totals());
    group
}

fn totals() -> Group {
    let seats = object::<SeatTotals>(["free", "held", "sold", "blocked"].map(|state| needed(state, count())));
    let units = object::<UnitTotals>(["free", "held", "sold"].map(|state| needed(state, count())));
    let states = ["active", "checking_out", "done", "canceled", "expired"];
    let carts = object::<CartTotals>(states.map(|state| needed(state, count())));
    let states = ["recorded", "authorized", "captured", "failed"];
    let payments = object::<PaymentTotals>(states.map(|state| needed(state, count())));
    let currency = object::<CurrencyTotal>([
        needed("currency", component("Currency")),
        needed("orders", about(count(), "How many orders, or refunds.")),
        needed("amount", json!({"type": "integer"})),
    ]);
    let audit = object::<NodeAudit>([
        needed("venues", count()),
        needed("sessions", count()),
        needed("seats", component("SeatTotals")),
        needed("areas", component("UnitTotals")),
        needed("titles", count()),
        needed("products", count()),
        needed("stock", component("UnitTotals")),
        needed("resources", count()),
        needed("bookings", count()),
        needed("customers", count()),
        needed("purchases", count()),
        needed("holds", count()),
        needed("held_seats", count()),
        needed("sold_seats", count()),
        needed("carts", component("CartTotals")),
        needed("cart_seats", count()),
        needed("carts_archived", count()),
        needed("tombstones", count()),
        needed("owed", count()),
        needed("orders", count()),
        needed("order_seats", count()),
        needed("order_totals", list(component("CurrencyTotal"))),
        needed("payments", component("PaymentTotals")),
        needed("payments_pending", about(count(), PENDING)),
        needed("payments_failed", about(count(), FAILED)),
        needed("failed_keys", about(list(words()), "The gateway's keys of those that failed; the first hundred.")),
        needed("refunds", count()),
        needed("refund_totals", list(component("CurrencyTotal"))),
        needed("violations", about(list(words()), "Empty when every promise holds.")),
    ]);
    vec![
        ("SeatTotals", seats),
        ("UnitTotals", about(units, "Units of products, or places of areas.")),
        ("CartTotals", carts),
        ("PaymentTotals", about(payments, "Payments of orders, by how they stand.")),
        ("CurrencyTotal", currency),
        ("NodeAudit", audit),
    ]
}
