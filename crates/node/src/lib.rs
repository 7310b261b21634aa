//! Boxoffice node.

pub mod identity;
pub mod log;
pub mod snapshot_files;
pub mod world;
