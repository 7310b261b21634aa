//! A node of a cluster that finds its disk damaged replaces it by itself.
//!
//! What was found is noted first. Then the process begins anew, so that nothing of the damaged node runs any more: it sends no vote, no
//! answer and no feed. The new process asks the cluster for another disk id. Until the cluster grants it, the data directory stays as
//! it is.

use std::{
    ffi::OsString, io::Write, net::SocketAddr, os::unix::process::CommandExt, path::PathBuf, process::Command,
    time::Duration,
};

use boxoffice_core::{command::Machine, version::ReadVersions};
use boxoffice_env::{World, secret::Secret};
use boxoffice_storage::{
    identity::{self, Identity, IdentityError},
    members,
    renewal::{self, Finding},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

use super::membership::{client_address, joining};
use crate::{
    config::Config,
    failure::{Failure, Outcome},
    join::{self, JoinRequest, Joined, NotRenewed},
    log,
    version::VERSION,
};

/// How long the members are asked at a time.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before they are asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How long a caller of the operators' port may take for its request.
const CALLER_TIMEOUT: Duration = Duration::from_secs(2);

/// More than the head of any probe.
const HEAD_BYTES: usize = 4_096;

/// Notes what was found in the data directory, and begins the process anew, which does the rest in [`go_on`]. Returns if there is no
/// cluster that could help, or if it cannot.
pub(super) fn begin(config: &Config, why: &str) -> Failure {
    let world = World::standalone();
    let dir = &config.node.replication.data_dir;
    let noted = || -> Result<bool, IdentityError> {
        let Some(identity) = identity::read(&*world.disk, dir)? else { return Ok(false) };
        if addresses(config, &world, &identity)?.is_empty() {
            return Ok(false);
        }
        renewal::note(&world, dir, &identity, (why, false)).map(|_| true)
    };
    match noted() {
        Ok(true) => {}
        Ok(false) => return Failure::Node(why.to_owned()),
        Err(error) => return Failure::Node(format!("{why}; this cannot be noted: {error}")),
    }
    log::say(&format!("{why}; this node replaces its disk by itself, and begins anew"));
    // The reader may have closed the output.
    let _ = std::io::stdout().flush();
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_else(|| OsString::from("boxoffice"));
    // An invitation was for the first start only.
    let mut has_command = false;
    let given = given.map(|arg| match !has_command && arg == "join" {
        true => {
            has_command = true;
            OsString::from("serve")
        }
        false => arg,
    });
    let error = Command::new("/proc/self/exe").arg0(name).args(given).exec();
    Failure::Node(format!("{why}; the process cannot begin anew: {error}"))
}

/// Where the other members serve clients, as far as the data directory or the configuration says.
fn addresses(config: &Config, world: &World, identity: &Identity) -> Result<Vec<String>, IdentityError> {
    let Some(peers) = &config.peers else { return Ok(Vec::new()) };
    let scheme = if config.tls.is_some() { "https://" } else { "" };
    let known = members::load(&*world.disk, &config.node.replication.data_dir)?;
    let known = known.into_iter().filter(|(node, _)| *node != identity.node);
    let mut addresses: Vec<String> = known.map(|(_, address)| format!("{scheme}{address}")).collect();
    addresses.extend(peers.join.iter().filter(|address| !addresses.contains(address)).cloned().collect::<Vec<_>>());
    Ok(addresses)
}

/// Replaces the disk if an earlier process has found it damaged. Asks the cluster until it may.
///
/// # Errors
/// The cluster will never allow it, or the files cannot be moved. The message says what to do.
pub(super) async fn go_on(config: &Config, secrets: &[Secret], world: &World) -> Outcome {
    let failed = |error: IdentityError| Failure::Node(error.to_string());
    let dir = &config.node.replication.data_dir;
    let Some(identity) = identity::read(&*world.disk, dir).map_err(failed)? else { return Ok(()) };
    let Some(finding) = renewal::noted(&*world.disk, dir, &identity).map_err(failed)? else { return Ok(()) };
    let addresses = addresses(config, world, &identity).map_err(failed)?;
    if finding.is_latent && (secrets.is_empty() || addresses.is_empty()) {
        return Ok(());
    }
    let (Some(secret), false) = (secrets.first(), addresses.is_empty()) else {
        return Err(Failure::Node(by_hand(&identity, &finding, "it knows no other member of its cluster")));
    };
    tracing::error!(
        node = identity.node,
        why = finding.why,
        "the data directory is damaged: this node takes no part any more, and asks its cluster for another disk"
    );
    let (waits, reason) = watch::channel(format!("damaged: {}", finding.why));
    let operators = config.operators.address(config.edge.listen).map_err(Failure::Usage)?;
    let joined = tokio::select! {
        biased;
        joined = granted(config, secret, (&identity, &finding), &addresses, &waits) => joined?,
        () = probes(operators, reason) => unreachable!("probes are answered until it is granted"),
    };
    let Some(joined) = joined else {
        tracing::error!("the cluster grants no other disk yet; what can be read is good, so this node serves");
        return Ok(());
    };
    let kept = renewal::renew(world, dir, (&identity, &finding), &joining(&joined, finding.next)?).map_err(failed)?;
    let kept: Option<PathBuf> = kept;
    match &kept {
        Some(kept) => tracing::warn!(kept = %kept.display(), "the damaged files are set aside"),
        None => tracing::warn!("the damaged files are removed, since there is no room for them"),
    }
    log::say(&format!("node {} has another disk, and gets everything from the other nodes", identity.node));
    Ok(())
}

/// Asks until the cluster grants another disk. If nothing that was promised is forgotten, it is asked once.
async fn granted(
    config: &Config,
    secret: &Secret,
    (identity, finding): (&Identity, &Finding),
    addresses: &[String],
    waits: &watch::Sender<String>,
) -> Result<Option<Joined>, Failure> {
    let peers = config.peers.as_ref().expect("a node that knows other members has a port for them");
    let machine = Machine {
        disk: finding.next,
        peer: peers.advertise.as_str().into(),
        client: client_address(config, peers).into(),
        program: VERSION.into(),
        versions: Some(ReadVersions::own()),
    };
    let request = JoinRequest {
        node: Some(identity.node),
        machine,
        secret: secret.clone(),
        invitation: None,
        key: None,
        admin_token: None,
        replaces: Some(identity.disk),
    };
    let mut told = String::new();
    loop {
        match join::renew(addresses, config.join_ca.as_deref(), &request, ASK_TIMEOUT).await {
            Ok(joined) if joined.cluster == identity.cluster.to_string() => return Ok(Some(joined)),
            Ok(joined) => {
                let why = format!("what answers at {} is cluster {}", addresses.join(", "), joined.cluster);
                return Err(Failure::Refused(by_hand(identity, finding, &why)));
            }
            Err(_) if finding.is_latent => return Ok(None),
            Err(NotRenewed::Ever(why)) => {
                return Err(Failure::Refused(by_hand(identity, finding, &why.to_string())));
            }
            Err(NotRenewed::Yet(why)) => {
                waits.send_replace(format!("damaged: {}; {why}", finding.why));
                if why != told {
                    tracing::error!(why, "the cluster grants no other disk yet; it is asked again");
                    log::say(&by_hand(identity, finding, &format!("{why}, and is asked again every few seconds")));
                    told = why;
                }
            }
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// What an operator does where the node cannot help itself.
fn by_hand(identity: &Identity, finding: &Finding, why: &str) -> String {
    let node = identity.node;
    format!(
        "node {node} found its data directory damaged ({}) and has not replaced it: {why}. If a majority of the other nodes is up, \
         type `boxoffice admin replace {node}` and `boxoffice admin invite` at one of them, empty this data directory, and paste \
         the line into `boxoffice join --node {node}` here. If not, bring the other nodes up, or restore a backup",
        finding.why
    )
}

/// Answers probes at the operators' port, for as long as the node waits: it lives and is not ready.
async fn probes(address: SocketAddr, reason: watch::Receiver<String>) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::warn!(%address, %error, "the operators' port cannot be opened");
                sleep(AGAIN_AFTER).await;
            }
        }
    };
    loop {
        match listener.accept().await {
            Ok((caller, _)) => {
                let why = reason.borrow().clone();
                // One after the other, since there are few.
                let _ = timeout(CALLER_TIMEOUT, answer(caller, &why)).await;
            }
            Err(_) => sleep(AGAIN_AFTER).await,
        }
    }
}

async fn answer(mut caller: TcpStream, why: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES {
        match caller.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Ok(()),
        }
    }
    let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let (status, body) = match path {
        b"/healthz" => ("200 OK", "alive\n".to_owned()),
        b"/metrics" => (
            "200 OK",
            "# HELP boxoffice_disk_damaged 1 while something on the disk is known to be damaged.\n\
             # TYPE boxoffice_disk_damaged gauge\nboxoffice_disk_damaged 1\n"
                .to_owned(),
        ),
        _ => ("503 Service Unavailable", format!("{why}\n")),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    caller.write_all(format!("{head}{body}").as_bytes()).await?;
    caller.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_that_waits_lives_and_is_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        for (path, expected) in [
            ("/healthz", "HTTP/1.1 200 OK"),
            ("/readyz", "HTTP/1.1 503 Service Unavailable"),
            ("/v1/admin.status", "HTTP/1.1 503 Service Unavailable"),
            ("/metrics", "boxoffice_disk_damaged 1"),
        ] {
            let asks = async {
                let mut caller = TcpStream::connect(address).await.expect("it listens");
                let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
                caller.write_all(head.as_bytes()).await.expect("it reads");
                let mut told = String::new();
                caller.read_to_string(&mut told).await.expect("it answers");
                told
            };
            let answers = async {
                let (caller, _) = listener.accept().await.expect("a caller");
                answer(caller, "damaged: a bit is wrong").await.expect("it is told");
            };
            let (told, ()) = tokio::join!(asks, answers);
            assert!(told.contains(expected), "{path}: {told}");
            assert_eq!(told.contains("a bit is wrong"), expected.contains("503"), "{path}: {told}");
        }
    }
}
