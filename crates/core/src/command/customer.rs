//! Commands to a customer.

use serde::{Deserialize, Serialize};

/// Commands to a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerCommand {
    /// `customer.purchases`: the orders of this customer, by cursor.
    Purchases {
        /// Continue after this cursor; from the first purchase if 0.
        after: u64,
        /// The most entries; 1 to 1 000.
        limit: u32,
    },
    /// `admin.audit`.
    Audit,
}
