//! Bodies of the ops on products.

use boxoffice_core::{
    command::{HoldPolicy, ProductDetails},
    id::Id,
    money::Money,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{form, quantity::Quantity};

/// Of `product.put`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductPut {
    /// Which product.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Whatever else is said of it, by name.
    #[serde(with = "form::properties", default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Anything else, opaque: base64 in JSON, bytes in MessagePack.
    #[serde(with = "form::bytes", default, skip_serializing_if = "Vec::is_empty")]
    pub blob: Vec<u8>,
    /// For one unit.
    #[serde(with = "form")]
    pub price: Money,
    /// Units free, held and sold together.
    pub stock: Quantity,
    /// When units are set aside for a cart: `at_add` or `at_checkout`.
    #[serde(with = "form", default, skip_serializing_if = "is_at_add")]
    pub hold: HoldPolicy,
    /// How long carts with units of it live untouched, if not as the rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ttl_ms: Option<u64>,
    /// How many one order and one customer may have.
    #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
    pub limits: LimitsBody,
}

impl ProductPut {
    /// The body that says this.
    pub fn new(id: Id, details: ProductDetails) -> ProductPut {
        let ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits } = details;
        let (stock, limits) = (Quantity::Whole(stock), limits.into());
        ProductPut { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_at_add(hold: &HoldPolicy) -> bool {
    *hold == HoldPolicy::AtAdd
}
