//! Commands to a product.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use super::limits::Limits;
use crate::{money::Money, portion::Tax};

/// Commands to a product.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum ProductCommand {
    /// `product.put` creates or changes the product, which remembers its last puts.
    #[n(0)]
    Put(#[n(0)] Box<ProductDetails>),
    /// `product.get`.
    #[n(1)]
    Get,
    /// `admin.audit`.
    #[n(2)]
    Audit,
}

/// The details of a product.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct ProductDetails {
    #[n(4)]
    pub name: SmolStr,
    /// Other properties by name. Names are unique and ascend.
    #[n(5)]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Opaque data, up to 1 KiB.
    #[n(6)]
    pub blob: Vec<u8>,
    /// The price of one unit.
    #[n(0)]
    pub price: Money,
    /// Units free, held and sold together.
    #[n(1)]
    pub stock: u64,
    #[n(2)]
    pub hold: HoldPolicy,
    /// How long carts with units of it live untouched. By default, as the rules say.
    #[n(7)]
    pub hold_ttl_ms: Option<u64>,
    #[n(3)]
    pub limits: Limits,
    /// The tax that the price contains.
    #[n(8)]
    pub tax: Option<Arc<Tax>>,
}

/// When a product's units are set aside for a cart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub enum HoldPolicy {
    /// When they are put into the cart.
    #[default]
    #[n(0)]
    AtAdd,
    /// Not before the checkout, for hot products (SC).
    #[n(1)]
    AtCheckout,
}
