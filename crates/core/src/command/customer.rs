//! Commands to a customer.

use boxoffice_declare::Stored;

/// Commands to a customer.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum CustomerCommand {
    /// `customer.purchases` lists the orders of this customer, by cursor.
    #[n(0)]
    Purchases {
        /// Continue after this cursor. 0 begins with the first purchase.
        #[n(0)]
        after: u64,
        /// The most entries, 1 to 1 000.
        #[n(1)]
        limit: u32,
        /// The epoch of `after`. A node that is in another one begins with the first purchase. The rules do not look at it.
        #[n(2)]
        epoch: Option<u64>,
    },
    /// `admin.audit`.
    #[n(1)]
    Audit,
}
