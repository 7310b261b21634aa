//! Members of the cluster, and where each shard's replicas are and should be.

mod invitation;
mod member;
mod place;

pub use invitation::{INVITATIONS_MAX, Invitation};
pub use member::{Member, MemberState, Renewed};
pub(crate) use place::GENERATIONS;
pub use place::{Copies, Place, Replica};

/// The highest id of a member.
pub const NODE_MAX: u64 = 65_535;

/// The most copies a data shard may be asked to have.
pub const REPLICAS_MAX: u8 = 7;

/// The longest address or name of a program, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
