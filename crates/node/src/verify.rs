//! Verifies a data directory that no node has open, or a backup.

use std::path::Path;

use boxoffice_env::World;
use boxoffice_replication::{error::ReplicationError, verify};
use boxoffice_storage::chain_file::ChainPlace;

pub use boxoffice_replication::verify::{Verification, VerifiedShard, verify_backup};

use crate::audit::audit_directory;

/// Verifies the data directory at `dir`, and compares it with a receipt that was printed before. The directory of a node that is alone
/// is audited as well, with every record of its store.
///
/// # Errors
/// As [`verify::verify`].
pub fn verify(world: &World, dir: &Path, receipt: &[ChainPlace]) -> Result<Verification, ReplicationError> {
    verify::verify(world, dir, receipt, |content| {
        let violations = audit_directory(content).map(|audit| audit.violations).unwrap_or_default();
        violations.iter().map(ToString::to_string).collect()
    })
}
