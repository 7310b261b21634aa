//! Cluster ops: members and keys.

use boxoffice_wire::{
    access::KeyList,
    body::{
        AdminDrain, AdminFinishUpgrade, AdminInvite, AdminJoin, AdminKeyRevoke, AdminKeys, AdminLeave, AdminNode,
        AdminNodes, AdminRemove, AdminReplace, AdminUndrain, Empty, Get, KeyCreate,
    },
    cluster::{ClusterStatus, InvitationStatus},
};

use crate::{
    client::Client,
    error::{Error, Reply},
};

impl Client {
    /// `admin.nodes`: the members of the cluster, and the intended place of each shard.
    pub async fn nodes(&self) -> Result<Reply<ClusterStatus>, Error> {
        self.ask(&AdminNodes(Empty {})).await
    }

    /// `admin.join`: adds a machine to the cluster. `node` in the answer is its member number.
    pub async fn admin_join(&self, machine: &AdminJoin) -> Result<Reply<ClusterStatus>, Error> {
        self.ask(machine).await
    }

    /// `admin.invite`: registers an invitation of one machine. Its maker keeps the invitation, the cluster its hash.
    pub async fn admin_invite(&self, invitation: &AdminInvite) -> Result<Reply<InvitationStatus>, Error> {
        self.ask(invitation).await
    }

    /// `admin.drain`: moves everything away from a member. With `force` even if that leaves each shard with a single
    /// voter.
    pub async fn admin_drain(&self, node: u64, force: bool) -> Result<Reply<()>, Error> {
        self.ask(&AdminDrain(AdminLeave { node, force })).await
    }

    /// `admin.undrain`: stops draining a member. It keeps what it still has.
    pub async fn admin_undrain(&self, node: u64) -> Result<Reply<()>, Error> {
        self.ask(&AdminUndrain(AdminNode { node })).await
    }

    /// `admin.finish_upgrade`: raises the version of the cluster to the highest that every member reads.
    pub async fn admin_finish_upgrade(&self) -> Result<Reply<()>, Error> {
        self.ask(&AdminFinishUpgrade(Empty {})).await
    }

    /// `admin.remove`: removes a member that will not come back. With `force` even if that leaves each shard with a
    /// single voter.
    pub async fn admin_remove(&self, node: u64, force: bool) -> Result<Reply<()>, Error> {
        self.ask(&AdminRemove(AdminLeave { node, force })).await
    }

    /// `admin.replace`: says that a member has lost its disk. Another machine joins in its place.
    pub async fn admin_replace(&self, node: u64) -> Result<Reply<()>, Error> {
        self.ask(&AdminReplace(AdminNode { node })).await
    }

    /// `admin.keys`: every key of the cluster, by name.
    pub async fn keys(&self) -> Result<Reply<KeyList>, Error> {
        self.ask(&AdminKeys(Empty {})).await
    }

    /// `admin.key_create`: registers a key. Only the key's owner knows its secret: see [`boxoffice_wire::access`].
    pub async fn key_create(&self, key: &KeyCreate) -> Result<Reply<()>, Error> {
        self.ask(key).await
    }

    /// `admin.key_revoke`: revokes a key. Every node refuses it within a second.
    pub async fn key_revoke(&self, id: &boxoffice_core::id::Id) -> Result<Reply<()>, Error> {
        self.ask(&AdminKeyRevoke(Get::of(id.clone()))).await
    }
}
