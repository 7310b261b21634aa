//! Commands to a product.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::money::Money;

/// Commands to a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductCommand {
    /// `product.put` creates or changes the product, which remembers its last puts.
    Put(Box<ProductDetails>),
    /// `product.get`.
    Get,
    /// `admin.audit`.
    Audit,
}

/// The details of a product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDetails {
    pub name: SmolStr,
    /// Other properties by name. Names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Opaque data, up to 1 KiB.
    pub blob: Vec<u8>,
    /// The price of one unit.
    pub price: Money,
    /// Units free, held and sold together.
    pub stock: u64,
    pub hold: HoldPolicy,
    /// How long carts with units of it live untouched. By default, as the rules say.
    pub hold_ttl_ms: Option<u64>,
    pub limits: Limits,
}

/// When a product's units are set aside for a cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldPolicy {
    /// When they are put into the cart.
    #[default]
    AtAdd,
    /// Not before the checkout, for hot products (SC).
    AtCheckout,
}
