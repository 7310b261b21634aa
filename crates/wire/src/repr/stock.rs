//! Products.

use std::sync::Arc;

use boxoffice_core::{
    answer::{CodeView, StockCounts},
    command::{HoldPolicy, Limits, ProductDetails},
    id::Id,
    money::Money,
    portion::Tax,
};
use smol_str::SmolStr;

use crate::{
    limits::BLOB_BYTES_MAX,
    repr::{Base64, Price, same_fields, shape::shapes, views, words},
};

words! {
    HoldPolicy as HoldPolicy { AtAdd: "at_add", AtCheckout: "at_checkout" }
}

shapes! {
    /// Units of a product by state.
    remote StockCounts {
        free: u64,
        held: u64,
        sold: u64,
    }

    /// A code and how often it is used. The code itself is not told.
    remote CodeView as Code {
        group: Id,
        /// How many may be in carts and bought with it.
        uses: u32,
        /// It is not taken any more.
        ended?: bool,
        /// A cart takes one use, for as many seats and places as it likes.
        by_order?: bool,
        /// Uses in carts.
        held: u64,
        sold: u64,
    }

    struct ProductFields as Product {
        id: Id,
        name: SmolStr,
        properties?: Vec<(SmolStr, SmolStr)>,
        blob?: Vec<u8> as "crate::repr::bytes" = Base64(Some(BLOB_BYTES_MAX)),
        price: Money = Price,
        /// The units that are free, held and sold together.
        stock: u64,
        hold!: HoldPolicy,
        hold_ttl_ms?: Option<u64>,
        limits?: Limits,
        /// The tax that the price contains.
        tax?: Option<Arc<Tax>>,
        counts: StockCounts,
    }
}

views! {
    /// A product.
    ProductView by ProductFields {
        id: Id,
        details: ProductDetails,
        counts: StockCounts,
    }
}

same_fields! {
    ProductView: [ProductView {
        id, details: ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits, tax }, counts
    }] = ProductFields { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits, tax, counts },
}
