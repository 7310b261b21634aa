//! The cluster: its members come, are drained, removed and replaced.

use boxoffice_wire::{
    Op,
    body::{AdminJoin, AdminLeave, AdminNode, Empty},
    cluster::ClusterStatus,
};

use crate::{
    client::Client,
    error::{Error, Reply},
};

impl Client {
    /// `admin.nodes`: the members of the cluster, and where each shard should be.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn nodes(&self) -> Result<Reply<ClusterStatus>, Error> {
        self.read(Op::AdminNodes, &Empty {}).await
    }

    /// `admin.join`: a machine becomes a member of the cluster; `node` of the answer is which.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn admin_join(&self, machine: &AdminJoin) -> Result<Reply<ClusterStatus>, Error> {
        self.change(Op::AdminJoin, machine).await
    }

    /// `admin.drain`: everything is moved away from a member; with `force` even if each shard is left with a single voter.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn admin_drain(&self, node: u64, force: bool) -> Result<Reply<()>, Error> {
        self.change(Op::AdminDrain, &AdminLeave { node, force }).await
    }

    /// `admin.undrain`: a member that is drained keeps what it has.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn admin_undrain(&self, node: u64) -> Result<Reply<()>, Error> {
        self.change(Op::AdminUndrain, &AdminNode { node }).await
    }

    /// `admin.remove`: a member will not come back; with `force` even if each shard is left with a single voter.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn admin_remove(&self, node: u64, force: bool) -> Result<Reply<()>, Error> {
        self.change(Op::AdminRemove, &AdminLeave { node, force }).await
    }

    /// `admin.replace`: a member has lost its disk; another one comes in its place.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn admin_replace(&self, node: u64) -> Result<Reply<()>, Error> {
        self.change(Op::AdminReplace, &AdminNode { node }).await
    }
}
