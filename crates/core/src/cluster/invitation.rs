//! Invitations of machines to join the cluster.

use boxoffice_declare::Stored;

use crate::time::Timestamp;

/// The most invitations that a cluster remembers at the same time.
pub const INVITATIONS_MAX: usize = 100;

/// An invitation, which the cluster keeps under its hash.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Invitation {
    /// No machine uses it from then on, in running time.
    #[n(0)]
    pub ends_at: Timestamp,
    /// The disk of the machine that has used it. Only this machine may show it again, to repeat its request.
    #[n(1)]
    pub used_by: Option<u128>,
}

impl Invitation {
    /// Whether the machine with this disk may join by it.
    pub(crate) fn admits(&self, at: Timestamp, disk: u128) -> bool {
        match self.used_by {
            None => at < self.ends_at,
            Some(other) => other == disk,
        }
    }
}
