//! The limits of one order and one customer.

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// The limits of one order and one customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In one cart, and so in one order.
    pub per_order: Option<u32>,
    /// Of one customer, over all carts and orders, and over all entities with the same quota.
    pub per_customer: Option<CustomerLimit>,
}

/// A limit of one customer under one quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerLimit {
    /// The quota. Sessions and products with the same quota share it.
    pub quota: Id,
    pub max: u32,
}
