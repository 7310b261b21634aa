//! Errors of a data directory, with what the operator should do.

use std::io;
use std::path::PathBuf;

use super::ClusterId;
use boxoffice_core::version::{ClusterVersion, OtherVersion};
use boxoffice_env::NodeId;

/// A data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another process has it open.
    #[error("{} is in use by another process; stop that one or name another data directory", .dir.display())]
    InUse { dir: PathBuf },
    /// It belongs to another cluster.
    #[error(
        "{} belongs to cluster {found}, this node is to serve {wanted}; name the right data \
         directory, or an empty one to join anew",
        .dir.display()
    )]
    OtherCluster {
        dir: PathBuf,
        /// Its cluster.
        found: ClusterId,
        /// The configured cluster.
        wanted: ClusterId,
    },
    /// It belongs to another node of the cluster.
    #[error(
        "{} belongs to node {found}, this is to be node {wanted}; name the right data directory",
        .dir.display()
    )]
    OtherNode {
        dir: PathBuf,
        /// Its node.
        found: NodeId,
        /// The configured node.
        wanted: NodeId,
    },
    /// Its cluster has another number of shards.
    #[error(
        "{} was made for {found} shards, {wanted} are configured; the number can never change: \
         configure {found}",
        .dir.display()
    )]
    OtherShards {
        dir: PathBuf,
        /// Its number of shards.
        found: u16,
        /// The configured number.
        wanted: u16,
    },
    /// It is from before placement by hash prefix, so its entities would be looked up in other shards.
    #[error(
        "{} has format {found}, from before placement by hash prefix; in format {known} carts have other ids and \
         entities other shards, so this program cannot use it: start the version that wrote it, or name an empty data \
         directory and import into it",
        .dir.display()
    )]
    OtherPlacement {
        dir: PathBuf,
        /// Its format.
        found: u32,
        /// The version of this program.
        known: ClusterVersion,
    },
    /// An earlier program made it, which did not promise that later ones read it.
    #[error(
        "{} was {version}; start the program that made it, or name an empty data directory and import into it",
        .dir.display()
    )]
    OtherVersion { dir: PathBuf, version: OtherVersion },
    /// A later program has written to it. Nothing but the version was read.
    #[error("{} was {version}; release {raised_by} raised it: start that release, or a later one", .dir.display())]
    Newer {
        dir: PathBuf,
        version: OtherVersion,
        /// The release that raised its version.
        raised_by: String,
    },
    /// Its identity cannot be read.
    #[error("cannot tell whose {} is: {reason}; {remedy}", .dir.display())]
    Unreadable { dir: PathBuf, reason: String, remedy: &'static str },
    /// The file system failed.
    #[error("cannot {doing} {}: {source}; check the path, its owner and the disk", .file.display())]
    Io {
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        source: io::Error,
    },
}
