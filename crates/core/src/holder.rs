//! Who holds. A node computes it from the network or the customer of a caller.

use boxoffice_declare::Stored;

/// The holder that a command comes from. The node that the caller is connected to computes it with a secret of the cluster, so
/// that it tells nothing about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Holder {
    /// A hash of the network, or of the customer whose token was shown.
    #[n(0)]
    pub own: u64,
    /// A hash of the wider network, or of the network of all customers there.
    #[n(1)]
    pub wider: u64,
}
