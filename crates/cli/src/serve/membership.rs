//! The world of a node, and its membership in a cluster.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use boxoffice_core::{command::Machine, version::ReadVersions};
use boxoffice_env::{PeerAddress, World, secret::Secret};
use boxoffice_links::{PeerConfig, TcpNet};
use boxoffice_node::node::Runtimes;
use boxoffice_payment::HttpGateway;
use boxoffice_storage::identity::{self, IdentityError, Joining};

use crate::{
    config::{Config, PeersConfig},
    descriptors::Shares,
    failure::{Failure, Outcome},
    invitation::Invitation,
    join::{self, Joined},
    peer_secret::{self, Standing},
    secret,
    version::VERSION,
};

/// How long a cluster is asked to let this node in.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The file in the data directory of a node that is alone, with the secret behind the hashes of holders.
const HOLDER_SECRET_FILE: &str = "holders.secret";

/// The secrets that the cluster's nodes share, the current one first. Empty if the node is alone.
///
/// # Errors
/// There is none, or the data directory cannot be read.
pub(super) async fn secrets(config: &Config) -> Result<Vec<Secret>, Failure> {
    let Some(peers) = &config.peers else { return Ok(Vec::new()) };
    let (disk, dir) = (World::standalone().disk, &config.node.replication.data_dir);
    let has_met_others = identity::has_met_others(&*disk, dir);
    let standing = match (has_met_others.map_err(|error| Failure::Node(error.to_string()))?, peers.join.is_empty()) {
        (_, false) => Standing::Joiner,
        (true, true) => Standing::Member,
        (false, true) => Standing::Founder,
    };
    peers.secret.of_node(standing).await
}

/// The node's world: the operating system, the configured payment gateway, and links to other nodes.
pub(super) fn world(
    config: &Config,
    secrets: Vec<Secret>,
    shares: &Shares,
    runtimes: &Runtimes,
) -> Result<(World, Weak<TcpNet>), Failure> {
    let mut world = World::standalone();
    let mut net_weak = Weak::new();
    if let Some(config) = &config.gateway {
        let gateway = HttpGateway::new(config, runtimes.selling.clone());
        world.gateway = Arc::new(gateway.map_err(|error| Failure::Usage(error.to_string()))?);
    }
    if let Some(peers) = &config.peers {
        let secret = secrets.first().cloned().expect("a node with a port for others has a secret");
        let links = PeerConfig {
            secrets,
            tls: peers.tls.clone(),
            handshakes_max: shares.strangers,
            descriptors_end: shares.links_end(),
            ..PeerConfig::new(peers.listen, secret)
        };
        let net = TcpNet::new(links, runtimes.selling.clone(), Arc::clone(&world.clock), Arc::clone(&world.rng));
        let net = Arc::new(net.map_err(|error| Failure::Node(error.to_string()))?);
        net_weak = Arc::downgrade(&net);
        world.net = net;
    }
    Ok((world, net_weak))
}

/// The secret behind the hashes of holders. It is the secret of the cluster's nodes, or that of a node that is alone, which is made
/// at its first start.
///
/// # Errors
/// Its file cannot be written or read.
pub(super) fn holder_secret(config: &Config) -> Result<Secret, Failure> {
    if let Some(secret) = config.node.peer_secrets.first() {
        return Ok(secret.clone());
    }
    let path = config.node.replication.data_dir.join(HOLDER_SECRET_FILE);
    if !path.exists() {
        peer_secret::write(&path, &Secret(secret::hex()?))?;
    }
    let secrets = peer_secret::read(&path)?.unwrap_or_default();
    secrets.into_iter().next().ok_or_else(|| Failure::Usage(format!("{}: it has no secret", path.display())))
}

/// Sets the node's identity in its cluster. The data directory has it, or the cluster that the node joins tells it.
///
/// # Errors
/// The cluster does not let it in, or cannot be asked.
pub(super) async fn become_member(
    config: &mut Config,
    secrets: Vec<Secret>,
    invited: Option<&Invitation>,
    world: &World,
) -> Outcome {
    let Some(peers) = &config.peers else { return Ok(()) };
    config.node.peer_address.clone_from(&peers.advertise);
    config.node.client_address = client_address(config, peers);
    config.node.peer_routes.clone_from(&peers.routes);
    let Some(secret) = secrets.first().cloned() else { return Ok(()) };
    config.node.peer_secrets = secrets;
    let failed = |error: IdentityError| Failure::Node(error.to_string());
    let known = identity::read(&*world.disk, &config.node.replication.data_dir).map_err(failed)?;
    if let Some(identity) = &known {
        if config.wanted_node.is_none() {
            config.node.replication.node_id = identity.node;
        }
        if !identity.peers.is_empty() {
            config.node.replication.shards = identity.shards;
        }
    }
    if peers.join.is_empty() {
        return Ok(());
    }
    if let Some(identity) = known {
        // The links keep a node that joined in its cluster. A node that founded one may be told to join another by mistake.
        let ca = config.join_ca.as_deref();
        let found = if identity.peers.is_empty() { join::cluster_at(&peers.join, ca, &secret).await } else { None };
        return match found.filter(|found| *found != identity.cluster.to_string()) {
            None => Ok(()),
            Some(found) => Err(Failure::Refused(format!(
                "{} belongs to cluster {}, and what answers at {} is cluster {found}; name the right data directory, or an \
                 empty one to join anew",
                config.node.replication.data_dir.display(),
                identity.cluster,
                peers.join.join(", ")
            ))),
        };
    }
    let disk = identity::draw_disk_id(world, &config.node.replication.data_dir).map_err(failed)?;
    let machine = Machine {
        disk,
        peer: config.node.peer_address.as_str().into(),
        client: config.node.client_address.as_str().into(),
        program: VERSION.into(),
        versions: Some(ReadVersions::own()),
    };
    let request = join::JoinRequest {
        node: config.wanted_node,
        machine,
        secret,
        invitation: invited.map(|invited| invited.invitation.clone()),
        key: config.join_key.take(),
        admin_token: config.edge.admin_token.clone(),
        replaces: None,
    };
    let joined = join::join(&peers.join, config.join_ca.as_deref(), &request, JOIN_TIMEOUT).await?;
    tracing::info!(node = joined.node, cluster = %joined.cluster, "joined");
    config.node.replication.node_id = joined.node;
    config.node.replication.shards = joined.shards;
    config.node.replicas = joined.replicas;
    config.node.replication.joining = Some(joining(&joined, disk)?);
    Ok(())
}

/// Where clients reach this node, as the cluster's table says it.
pub(super) fn client_address(config: &Config, peers: &PeersConfig) -> String {
    let advertised = config.edge.web.advertise.clone();
    advertised.unwrap_or_else(|| peers.client_address(config.edge.listen))
}

/// What the data directory `disk` of a node that has joined must know.
///
/// # Errors
/// The cluster's answer lacks it.
pub(super) fn joining(joined: &Joined, disk: u128) -> Result<Joining, Failure> {
    let strange = |why: &str| Failure::Node(format!("the cluster's answer is not understood: {why}"));
    let own = joined.members.iter().find(|member| member.node == joined.node);
    let own = own.ok_or_else(|| strange("this node is not among its members"))?;
    let others = joined.members.iter().filter(|member| member.node != joined.node && member.state != "gone");
    Ok(Joining {
        cluster: joined.cluster.parse().map_err(strange)?,
        disk,
        peers: others.map(|member| PeerAddress { node: member.node, address: member.peer.to_string() }).collect(),
        generation_min: own.first_generation,
    })
}
