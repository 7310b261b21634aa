//! This node's copy of the cluster's table, and what follows from it for the versions of nodes.

use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{
    answer::{Answer, Answered, Outcome},
    cluster::MemberState,
    cluster_table::{ClusterTable, Upgrade},
    id::Entity,
    state_map::State,
    version::NodeVersions,
};
use boxoffice_env::{PeerHello, PeerRejection};
use boxoffice_shard::{DIRECTORY, NodeId};

use crate::{api::Failure, shared::Shared};

/// The cluster's table, as this node's copy of the directory has it.
pub(crate) fn table(shared: &Shared) -> Option<Arc<State>> {
    shared.shards[usize::from(DIRECTORY)].state.replica.lock().kept.get(&Entity::Cluster)
}

/// The table in its state.
pub(crate) fn cluster(state: &State) -> &ClusterTable {
    match state {
        State::Cluster(cluster) => cluster,
        other => panic!("the cluster is kept as something else: {other:?}"),
    }
}

/// Whether this node and a peer read what the other one writes.
pub(crate) fn check_versions(shared: &Shared, cluster: &ClusterTable, hello: &PeerHello) -> Result<(), PeerRejection> {
    let NodeVersions { reads, writes } = shared.versions();
    let of_cluster = cluster.cluster_version().max(writes);
    let (node, program) = (hello.node, &hello.program);
    hello.versions.reads.check(of_cluster).map_err(|why| format!("node {node} runs {program}: {why}"))?;
    // A node that has just joined may still write under a lower version than the cluster's.
    let theirs = hello.versions.writes.max(reads.oldest);
    let own = &shared.config.program;
    reads.check(theirs).map_err(|why| format!("node {} runs {own}: {why}", shared.config.replication.node_id))?;
    Ok(())
}

/// The members that this node has no link to.
pub(crate) fn unlinked(shared: &Shared, cluster: &ClusterTable) -> Vec<NodeId> {
    let linked: BTreeSet<_> = shared.world.net.links().iter().filter(|link| link.up).map(|link| link.node).collect();
    let own = shared.config.replication.node_id;
    let present = cluster.members().iter().filter(|(_, member)| member.state != MemberState::Gone);
    present.map(|(node, _)| *node).filter(|node| *node != own && !linked.contains(node)).collect()
}

/// The members that cannot be reached from here.
pub(crate) fn down(shared: &Shared) -> Vec<NodeId> {
    table(shared).as_deref().map(|state| unlinked(shared, cluster(state))).unwrap_or_default()
}

/// Whether this node is alone, and was never a member of a cluster.
pub(crate) fn has_none(shared: &Shared) -> bool {
    shared.is_alone() && table(shared).is_none()
}

/// Finishes the upgrade of a node that has no table of members: it writes under the newest version that it reads.
pub(crate) fn finish_alone(shared: &Shared) -> Result<Outcome, Failure> {
    match shared.replication.raise(shared.config.replication.reads_up_to) {
        Ok(()) => Ok(Ok(Answered { answer: Answer::Done, at: Vec::new() })),
        Err(error) => {
            tracing::error!(%error, "the upgrade is not finished");
            Err(Failure::Internal)
        }
    }
}

/// The version of the cluster, and who holds an upgrade back, as far as this node sees.
pub(crate) fn upgrade(shared: &Shared) -> Option<Upgrade> {
    let state = table(shared)?;
    let cluster = cluster(&state);
    cluster.upgrade(&unlinked(shared, cluster))
}
