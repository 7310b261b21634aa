//! Joining a cluster: a node that is no member yet asks one that is.

use std::time::Duration;

use boxoffice_client::{AdminJoin, AdminToken, Client, ClientConfig, Error, MemberStatus};
use boxoffice_core::command::Machine;
use boxoffice_env::secret::Secret;
use boxoffice_wire::{joining, limits::close};
use smol_str::SmolStr;

use crate::failure::Failure;

/// How long one address is tried before the next one is.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// What a node that has joined is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Which member it is.
    pub node: u64,
    /// The cluster's id, as its members say it.
    pub cluster: SmolStr,
    /// How many data shards there are, besides the directory's.
    pub shards: u16,
    /// How many copies each data shard is to have.
    pub replicas: u8,
    /// Every member there ever was, by id; itself as well.
    pub members: Vec<MemberStatus>,
}

/// Who wants to join.
pub struct Joiner {
    /// As which member, if that matters.
    pub node: Option<u64>,
    /// What it is.
    pub machine: Machine,
    /// What the cluster's nodes show each other.
    pub secret: Secret,
}

/// Asks the members at these client addresses, one after the other, until one lets this machine in or `patience` is over.
/// However often the same disk asks, it is the same member.
///
/// # Errors
/// [`Failure::Refused`] with the cluster's reason, [`Failure::Unreachable`] if no member answered.
pub async fn join(addresses: &[String], joiner: &Joiner, patience: Duration) -> Result<Joined, Failure> {
    let asked = addresses.join(", ");
    let config = ClientConfig {
        name: concat!("boxoffice ", env!("CARGO_PKG_VERSION")).into(),
        admin_token: Some(shown(&joiner.secret)),
        connect_timeout: CONNECT_TIME,
        deadline: patience,
        ..ClientConfig::new(addresses)
    };
    let failure = |error| failed(&asked, error);
    let client = Client::connect(config).await.map_err(failure)?;
    let hello = client.wait_for_hello().await.map_err(failure)?;
    let status = client.admin_join(&joiner.asks(&hello.cluster)).await.map_err(failure)?.value;
    let data_shards = u16::try_from(status.places.len().saturating_sub(1)).unwrap_or_default();
    match status.node {
        Some(node) if data_shards > 0 => Ok(Joined {
            node,
            cluster: hello.cluster.clone(),
            shards: data_shards,
            replicas: status.replicas,
            members: status.members,
        }),
        Some(_) | None => Err(unreachable(&asked, "what answers is no cluster of this version")),
    }
}

impl Joiner {
    /// What it asks of this cluster.
    fn asks(&self, cluster: &str) -> AdminJoin {
        let Joiner { node, machine, secret } = self;
        let proof = joining::proof(secret.as_ref(), cluster, *node, machine);
        let Machine { disk, peer, client, program } = machine.clone();
        AdminJoin { node: *node, disk, peer, client, program, proof: Some(joining::written(&proof)) }
    }
}

/// The cluster that answers at one of these client addresses, if one does soon.
pub async fn cluster_at(addresses: &[String], secret: &Secret) -> Option<SmolStr> {
    let config = ClientConfig {
        admin_token: Some(shown(secret)),
        connect_timeout: CONNECT_TIME,
        deadline: CONNECT_TIME,
        ..ClientConfig::new(addresses)
    };
    let client = tokio::time::timeout(CONNECT_TIME, Client::connect(config)).await.ok()?.ok()?;
    Some(client.wait_for_hello().await.ok()?.cluster.clone())
}

/// What shows the members that this machine knows the secret.
fn shown(secret: &Secret) -> AdminToken {
    AdminToken(joining::token(secret.as_ref()).to_string())
}

fn failed(asked: &str, error: Error) -> Failure {
    match error {
        Error::Refused(no) => Failure::Refused(format!("the cluster at {asked} does not let this node in: {no}")),
        Error::Failed(fail) => unreachable(asked, &fail.to_string()),
        Error::Unknown(_) => unreachable(asked, "no answer in time"),
        Error::Closed(why) if why.starts_with(&close::UNAUTHENTICATED.to_string()) => Failure::Refused(format!(
            "the cluster at {asked} does not let this node in: wrong_secret: its nodes show each other another one (peers.secret)"
        )),
        Error::Closed(why) => unreachable(asked, &why),
        Error::Protocol(error) => unreachable(asked, &error.to_string()),
    }
}

fn unreachable(asked: &str, why: &str) -> Failure {
    Failure::Unreachable(format!(
        "no member of a cluster lets this node in at {asked} ({why}). --join takes client addresses of members that are \
         running; start the same command again when one is"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joiner() -> Joiner {
        let (peer, client) = ("127.0.0.1:7281".into(), "127.0.0.1:7181".into());
        let machine = Machine { disk: 7, peer, client, program: "0.1.0".into() };
        Joiner { node: None, machine, secret: Secret("sixteen letters!".into()) }
    }

    #[tokio::test]
    async fn where_nobody_listens_the_addresses_are_named() {
        // A port that was just free.
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let addresses = [port.to_string()];
        let error = join(&addresses, &joiner(), Duration::from_millis(200)).await.expect_err("no member is there");
        assert!(matches!(error, Failure::Unreachable(_)), "{error:?}");
        let words = error.to_string();
        assert!(words.contains(&addresses[0]) && words.contains("--join takes client addresses"), "{words}");
    }
}
