//! Commands to a customer.

use serde::{Deserialize, Serialize};

/// Commands to a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerCommand {
    /// `customer.purchases` lists the orders of this customer, by cursor.
    Purchases {
        /// Continue after this cursor. 0 begins with the first purchase.
        after: u64,
        /// The most entries, 1 to 1 000.
        limit: u32,
    },
    /// `admin.audit`.
    Audit,
}
