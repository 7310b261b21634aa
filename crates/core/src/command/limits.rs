//! How many of something one order and one customer may have.

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// How many of something one order and one customer may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In one cart, and so in one order.
    pub per_order: Option<u32>,
    /// By one customer, over all carts, orders and whatever else names the same quota.
    pub per_customer: Option<CustomerLimit>,
}

/// A limit over everything a customer has under one quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerLimit {
    /// Which quota: sessions and products with the same one share it.
    pub quota: Id,
    /// How many.
    pub max: u32,
}
