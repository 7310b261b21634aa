//! The limits of one order and one customer.

use boxoffice_declare::Stored;

use crate::id::Id;

/// The limits of one order and one customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct Limits {
    /// In one cart, and so in one order.
    #[n(0)]
    pub per_order: Option<u32>,
    /// Of one customer, over all carts and orders, and over all entities with the same quota.
    #[n(1)]
    pub per_customer: Option<CustomerLimit>,
}

/// A limit of one customer under one quota.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct CustomerLimit {
    /// The quota. Sessions and products with the same quota share it.
    #[n(0)]
    pub quota: Id,
    #[n(1)]
    pub max: u32,
}
