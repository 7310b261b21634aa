//! What a customer is asked.

use serde::{Deserialize, Serialize};

/// What a customer is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerCommand {
    /// `customer.purchases`: the orders of this customer, by cursor.
    Purchases {
        /// Go on after this cursor; from the first if 0.
        after: u64,
        /// At most so many; 1 to 1 000.
        limit: u32,
    },
    /// `admin.audit`.
    Audit,
}
