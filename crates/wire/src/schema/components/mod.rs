//! The shapes that bodies and answers are made of, by name.

// In reading order.
mod catalogue;
mod layout;
mod session;
mod value;

mod calendar;
mod stock;

mod cart;
mod order;

mod audit;
mod cluster;
mod ending;
mod node;

use serde_json::{Map, Value};

/// All of them.
pub(super) fn components() -> Map<String, Value> {
    let groups = [
        value::values(),
        layout::layouts(),
        catalogue::catalogue(),
        session::sessions(),
        stock::stock(),
        calendar::calendar(),
        cart::carts(),
        order::orders(),
        audit::audits(),
        node::node(),
        cluster::cluster(),
        ending::endings(),
    ];
    groups.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Shapes of one kind, by name.
type Group = Vec<(&'static str, Value)>;
