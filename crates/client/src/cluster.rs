//! The cluster: its members come, are drained, removed and replaced.

use boxoffice_wire::{
    Op,
    access::KeyList,
    body::{AdminJoin, AdminLeave, AdminNode, Empty, Get, KeyCreate},
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

    /// Every key of the cluster, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn keys(&self) -> Result<Reply<KeyList>, Error> {
        self.read(Op::AdminKeys, &Empty {}).await
    }

    /// Makes a key, whose secret only its owner knows: see [`boxoffice_wire::access`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn key_create(&self, key: &KeyCreate) -> Result<Reply<()>, Error> {
        self.change(Op::AdminKeyCreate, key).await
    }

    /// Revokes a key: every node refuses it within a second.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn key_revoke(&self, id: &boxoffice_core::id::Id) -> Result<Reply<()>, Error> {
        self.change(Op::AdminKeyRevoke, &Get { id: id.clone() }).await
    }
}
