//! What a product is told or asked.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::limits::Limits;
use crate::money::Money;

/// What a product is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductCommand {
    /// Create or change it: `product.put`. It remembers its last puts.
    Put(Box<ProductDetails>),
    /// `product.get`.
    Get,
    /// `admin.audit`.
    Audit,
}

/// What is known of a product besides its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDetails {
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name; names are unique and ascend.
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Anything else, opaque; up to 1 KiB.
    pub blob: Vec<u8>,
    /// For one unit.
    pub price: Money,
    /// Units free, held and sold together.
    pub stock: u64,
    /// When units are set aside for a cart.
    pub hold: HoldPolicy,
    /// How long carts with units of it live untouched, if not as the rules say.
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    pub limits: Limits,
}

/// When a product's units are set aside for a cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldPolicy {
    /// When they are put into the cart.
    #[default]
    AtAdd,
    /// Not before the checkout: for hot products (SC).
    AtCheckout,
}
