//! Bodies of the ops on orders and purchases.

use boxoffice_core::id::{Id, OrderId};
use smol_str::SmolStr;

use crate::{
    limits::{CART_LINES_MAX, PAGE_ENTRIES_MAX, REASON_BYTES_MAX},
    repr::{
        OptionalBounded,
        shape::{Each, shapes},
    },
};

shapes! {
    #[derive(Eq)]
    pub struct OrderGet {
        pub order: OrderId,
    }

    #[derive(Eq)]
    pub struct OrderRefund {
        pub order: OrderId,
        /// The lines to refund. All that are left if absent.
        pub lines?: Option<Vec<u32>> as "OptionalBounded::<CART_LINES_MAX>" = (1..=CART_LINES_MAX, Each(0..=u32::MAX)),
        pub reason: SmolStr = 1..=REASON_BYTES_MAX,
    }

    #[derive(Eq)]
    pub struct CustomerPurchases {
        pub customer: Id,
        /// Continue after this purchase. From the first if absent.
        pub cursor?: Option<u64>,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
    }
}
