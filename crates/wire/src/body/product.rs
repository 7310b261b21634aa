//! Bodies of the ops on products.

use boxoffice_core::{
    command::{HoldPolicy, ProductDetails},
    id::Id,
    money::Money,
};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{
    limits::{BLOB_BYTES_MAX, NAME_BYTES_MAX, STOCK_MAX},
    quantity::Quantity,
    repr::{
        Base64, Price,
        shape::{WHOLE_MAX, shapes},
    },
};

shapes! {
    #[derive(Eq)]
    pub struct ProductPut {
        pub id: Id,
        pub name: SmolStr = 1..=NAME_BYTES_MAX,
        pub properties?: Vec<(SmolStr, SmolStr)>,
        /// Opaque data.
        pub blob?: Vec<u8> as "crate::repr::bytes" = Base64(Some(BLOB_BYTES_MAX)),
        pub price: Money = Price,
        /// The units that are free, held and sold together.
        pub stock: Quantity = 0..=STOCK_MAX,
        /// When a cart holds units. `at_add` if absent.
        pub hold?: HoldPolicy,
        /// The time to live of carts with units of it, instead of the default.
        pub hold_ttl_ms?: Option<u64> = 1..=WHOLE_MAX,
        pub limits?: LimitsBody,
    }
}

impl ProductPut {
    /// The body with these details.
    pub fn new(id: Id, details: ProductDetails) -> ProductPut {
        let ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits } = details;
        let (stock, limits) = (Quantity::Whole(stock), LimitsBody::from(limits));
        ProductPut { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits }
    }
}
