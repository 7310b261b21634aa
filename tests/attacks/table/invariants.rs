//! What must hold whatever the permission table says. The list is short and written by hand, so that a wrong row is noticed.

use super::{
    ADA, MARKER,
    callers::{Caller, Rules},
    requests::About,
};

/// Ops that read or change what belongs to a venue, apart from the offer and from carts that are opened by their token.
const OF_A_VENUE: [&str; 20] = [
    "venue.put",
    "hall.put",
    "session.create",
    "session.block",
    "session.unblock",
    "session.change",
    "session.cancel",
    "cart.hold_seats",
    "cart.hold_best",
    "cart.hold_places",
    "cart.hold_all",
    "cart.set_quantity",
    "cart.checkout",
    "order.get",
    "order.refund",
    "admin.audit",
    "admin.history",
    "admin.map",
    "admin.release",
    "admin.settle",
];

/// Ops that change the offer.
const CHANGES_THE_OFFER: [&str; 13] = [
    "venue.put",
    "hall.put",
    "title.put",
    "session.create",
    "session.block",
    "session.unblock",
    "session.change",
    "session.cancel",
    "product.put",
    "resource.put",
    "resource.reserve",
    "resource.cancel",
    "resource.move",
];

/// Ops that take or give back what was sold, or read what happened.
const OF_THE_HOUSE: [&str; 7] =
    ["order.refund", "admin.release", "admin.settle", "admin.audit", "admin.history", "admin.status", "admin.nodes"];

/// Ops that change the members or the keys, list the keys, or show who had what.
const OF_ADMINS: [&str; 11] = [
    "admin.map",
    "admin.join",
    "admin.invite",
    "admin.drain",
    "admin.undrain",
    "admin.remove",
    "admin.replace",
    "admin.finish_upgrade",
    "admin.keys",
    "admin.key_create",
    "admin.key_revoke",
];

/// The invariant that an answer with this code and text breaks. Feeds are asked for as `watch ENTITY`.
pub(super) fn broken(
    rules: Rules,
    caller: &Caller,
    op: &str,
    about: &About,
    code: u64,
    text: &str,
) -> Option<&'static str> {
    let is_refused = code == 107 || code == 108 || code == 101;
    if is_refused {
        return text.contains(MARKER).then_some("a refusal tells what it refuses");
    }
    let is_of_a_customer = op == "customer.purchases" || op.starts_with("watch customer/");
    if is_of_a_customer && !["sell", "desk", "report", "admin"].contains(&caller.role) {
        return Some("nobody without `sell` or `report` reads a customer");
    }
    if is_of_a_customer && caller.venue.is_some() {
        return Some("a key for one venue reads no customer");
    }
    let is_ada = caller.name.starts_with("ada");
    let is_house = caller.token.is_some() && !caller.name.starts_with("bob") && caller.role != "watch";
    let names_ada = about.customer == Some(ADA);
    if rules.knows_customers && (names_ada || text.contains(MARKER)) && !is_ada && !is_house {
        return Some("nobody but Ada and the house asks for Ada or reads her orders");
    }
    if caller.venue.is_some() && OF_A_VENUE.contains(&op) && about.venue != caller.venue {
        return Some("a key for one venue reads and changes nothing of another, of both, or of none");
    }
    if CHANGES_THE_OFFER.contains(&op) && !caller.has("desk") {
        return Some("nobody without `desk` changes the offer");
    }
    if OF_THE_HOUSE.contains(&op) && !caller.has("desk") && !caller.has("report") {
        return Some("strangers, screens and buyers do not work for the house");
    }
    if OF_ADMINS.contains(&op) && caller.role != "admin" {
        return Some("only admins change members and keys, and see who had what");
    }
    if op.starts_with("cart.") && !caller.has("sell") {
        return Some("nobody without `sell` has a cart");
    }
    None
}
