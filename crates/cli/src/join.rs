//! Joins a cluster: a machine asks a member to let it in.

use std::{path::Path, time::Duration};

use boxoffice_client::{AdminJoin, AdminToken, Client, ClientConfig, Error, MemberStatus};
use boxoffice_core::command::Machine;
use boxoffice_env::secret::Secret;
use boxoffice_wire::{
    joining,
    limits::{SPEAKS_TLS, close},
};
use smol_str::SmolStr;
use tokio::time::{Instant, sleep};

use crate::{
    address::{self, Address},
    failure::Failure,
};

/// How long one address is tried.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// The pause before a node that has not founded its cluster yet is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The cluster's answer to a node that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number of the new member.
    pub node: u64,
    /// The cluster's id.
    pub cluster: SmolStr,
    /// The number of data shards, besides the directory's.
    pub shards: u16,
    /// The number of copies of each data shard.
    pub replicas: u8,
    /// Every member that ever was, by id, with the new one.
    pub members: Vec<MemberStatus>,
}

/// A request to join.
pub struct JoinRequest {
    /// The wanted member number, if any.
    pub node: Option<u64>,
    pub machine: Machine,
    /// The secret of the cluster's nodes.
    pub secret: Secret,
    /// The invitation that was pasted, 64 hexadecimal digits.
    pub invitation: Option<Secret>,
    /// A key with the role admin.
    pub key: Option<Secret>,
    /// This node's admin token. If the cluster has the same, the machine needs no invitation.
    pub admin_token: Option<String>,
    /// The data directory of the wanted member, which is damaged and which this machine replaces. Then it needs no admission.
    pub replaces: Option<u128>,
}

/// Why a node that wants to replace its damaged disk got no other one.
#[derive(Debug)]
pub enum NotRenewed {
    /// It may ask again.
    Yet(String),
    /// No later answer can be another one.
    Ever(Failure),
}

/// Refusals of a renewal that no time changes.
const FINAL: [&str; 4] = ["quorum_would_be_lost", "disk_differs", "node_gone", "no_such_node"];

/// Asks the members at these client addresses, one after the other, until one lets this machine in or `timeout` is over.
/// A repeat with the same disk gives the same member. The file `ca` has the authorities of their certificates.
///
/// # Errors
/// [`Failure::Refused`] with the cluster's reason, [`Failure::Unreachable`] if no member answered, [`Failure::Usage`] as
/// [`address::authorities`].
pub async fn join(
    addresses: &[String],
    ca: Option<&Path>,
    request: &JoinRequest,
    timeout: Duration,
) -> Result<Joined, Failure> {
    let asked = addresses.join(", ");
    ask(addresses, ca, request, timeout).await.map_err(|not| match not {
        NotAnswered::Asked(error) => failed(&asked, error),
        NotAnswered::NotAsked(failure) => failure,
    })
}

/// Asks these members for another disk in place of the damaged one, as [`join`] does.
///
/// # Errors
/// [`NotRenewed`].
pub async fn renew(
    addresses: &[String],
    ca: Option<&Path>,
    request: &JoinRequest,
    timeout: Duration,
) -> Result<Joined, NotRenewed> {
    let asked = addresses.join(", ");
    ask(addresses, ca, request, timeout).await.map_err(|not| match not {
        NotAnswered::Asked(Error::Refused(no)) if FINAL.contains(&no.name.as_str()) => {
            NotRenewed::Ever(Failure::Refused(no.to_string()))
        }
        NotAnswered::Asked(Error::Refused(no)) => NotRenewed::Yet(no.to_string()),
        NotAnswered::Asked(Error::Failed(fail)) => NotRenewed::Yet(format!("the cluster does not decide: {fail}")),
        NotAnswered::Asked(error) => NotRenewed::Yet(failed(&asked, error).to_string()),
        NotAnswered::NotAsked(failure @ Failure::Usage(_)) => NotRenewed::Ever(failure),
        NotAnswered::NotAsked(failure) => NotRenewed::Yet(failure.to_string()),
    })
}

/// Why a cluster has not let a machine in.
enum NotAnswered {
    Asked(Error),
    NotAsked(Failure),
}

async fn ask(
    addresses: &[String],
    ca: Option<&Path>,
    request: &JoinRequest,
    timeout: Duration,
) -> Result<Joined, NotAnswered> {
    let asked = addresses.join(", ");
    let addresses: Vec<Address> = addresses.iter().map(|address| Address::parse(address)).collect();
    let config = ClientConfig {
        name: concat!("boxoffice ", env!("CARGO_PKG_VERSION")).into(),
        admin_token: Some(match &request.key {
            Some(Secret(key)) => AdminToken(key.clone()),
            None => shown(&request.secret),
        }),
        connect_timeout: CONNECT_TIME,
        deadline: timeout,
        tls: address::authorities(&addresses, ca).map_err(NotAnswered::NotAsked)?,
        ..ClientConfig::new(addresses.into_iter().map(|address| address.host_and_port))
    };
    let client = Client::connect(config).await.map_err(NotAnswered::Asked)?;
    let hello = client.wait_for_hello().await.map_err(NotAnswered::Asked)?;
    let until = Instant::now() + timeout;
    let status = loop {
        match client.admin_join(&request.asks(&hello.cluster)).await {
            // The first node serves a moment before it has founded the cluster.
            Err(Error::Refused(no)) if no.name == "not_found" && Instant::now() < until => sleep(AGAIN_AFTER).await,
            answer => break answer.map_err(NotAnswered::Asked)?.value,
        }
    };
    let data_shards = u16::try_from(status.places.len().saturating_sub(1)).unwrap_or_default();
    match status.node {
        Some(node) if data_shards > 0 => Ok(Joined {
            node,
            cluster: hello.cluster.clone(),
            shards: data_shards,
            replicas: status.replicas,
            members: status.members,
        }),
        Some(_) | None => Err(NotAnswered::NotAsked(unreachable(&asked, "what answers is no cluster of this version"))),
    }
}

impl JoinRequest {
    /// The body of the request to this cluster.
    fn asks(&self, cluster: &str) -> AdminJoin {
        let JoinRequest { node, machine, secret, invitation, key: _, admin_token, replaces } = self;
        let vouched =
            |token: &String| joining::written(&joining::admin_proof(token.as_bytes(), cluster, *node, machine));
        let proof = match (replaces, node) {
            (Some(disk), Some(node)) => joining::renewal_proof(secret.as_ref(), cluster, *node, machine, *disk),
            (_, node) => joining::proof(secret.as_ref(), cluster, *node, machine),
        };
        let Machine { disk, peer, client, program, versions } = machine.clone();
        AdminJoin {
            node: *node,
            disk,
            peer,
            client,
            program,
            reads_from: versions.map(|versions| versions.oldest.number()),
            reads_up_to: versions.map(|versions| versions.newest.number()),
            proof: Some(joining::written(&proof)),
            invitation: invitation.as_ref().map(|invitation| SmolStr::new(&invitation.0)),
            admin_proof: admin_token.as_ref().filter(|_| invitation.is_none() && replaces.is_none()).map(vouched),
        }
    }
}

/// The cluster that answers first at one of these client addresses, if any does.
pub async fn cluster_at(addresses: &[String], ca: Option<&Path>, secret: &Secret) -> Option<SmolStr> {
    let addresses: Vec<Address> = addresses.iter().map(|address| Address::parse(address)).collect();
    let config = ClientConfig {
        admin_token: Some(shown(secret)),
        connect_timeout: CONNECT_TIME,
        deadline: CONNECT_TIME,
        tls: address::authorities(&addresses, ca).ok()?,
        ..ClientConfig::new(addresses.into_iter().map(|address| address.host_and_port))
    };
    let client = tokio::time::timeout(CONNECT_TIME, Client::connect(config)).await.ok()?.ok()?;
    Some(client.wait_for_hello().await.ok()?.cluster.clone())
}

/// A token that proves the knowledge of the secret.
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
        Error::Closed(why) if why.contains(SPEAKS_TLS) => Failure::Unreachable(format!(
            "the members at {asked} speak TLS: begin the addresses of --join with https://, or name the authorities of their \
             certificates with --join-ca"
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

    fn request() -> JoinRequest {
        let (peer, client) = ("127.0.0.1:7281".into(), "127.0.0.1:7181".into());
        let machine = Machine { disk: 7, peer, client, program: "0.1.0".into(), versions: None };
        JoinRequest {
            node: None,
            machine,
            secret: Secret("sixteen letters!".into()),
            invitation: None,
            key: None,
            admin_token: None,
            replaces: None,
        }
    }

    #[tokio::test]
    async fn the_error_names_the_addresses_that_do_not_answer() {
        // A free port.
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let addresses = [port.to_string()];
        let error =
            join(&addresses, None, &request(), Duration::from_millis(200)).await.expect_err("no member is there");
        assert!(matches!(error, Failure::Unreachable(_)), "{error:?}");
        let words = error.to_string();
        assert!(words.contains(&addresses[0]) && words.contains("--join takes client addresses"), "{words}");
    }
}
