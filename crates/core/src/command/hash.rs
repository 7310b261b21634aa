//! The hash of a command. It distinguishes a repeat of a request from another body under the same request id (P9).
//!
//! These hashes are in logs, snapshots and the store, and nodes of several releases compare them. The hash is the BLAKE3 hash of
//! the command's stored form, so a field that a later version adds changes no hash of a command that does not use it.

use alloc::vec::Vec;

use super::Command;
use crate::{id::hash64, stored};

/// Enough bytes for most commands. Those of operators may have megabytes.
const COMMAND_BYTES: usize = 512;

impl Command {
    /// The hash of the whole command. It is equal for equal commands, and stable for ever.
    pub fn hash64(&self) -> u64 {
        hash64(&stored::append(self, Vec::with_capacity(COMMAND_BYTES)))
    }
}
