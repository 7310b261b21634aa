//! The settings of `boxoffice serve`: the configuration, and the command line on top of it.

use std::{net::SocketAddr, time::Duration};

use boxoffice_core::cluster::NODE_MAX;
use boxoffice_edge::TlsFiles;
use boxoffice_env::secret::Secret;
use boxoffice_storage::fsync::Fsync;

use crate::{
    args::{FsyncWord, Serve},
    config::{Config, admin_token_rule, check_url, is_admin_token, parse_operators},
    failure::Failure,
    node_client,
};

use super::reachable;

impl FsyncWord {
    /// The mode of syncs that the word names.
    pub fn fsync(self) -> Fsync {
        match self {
            FsyncWord::Always => Fsync::Always,
            FsyncWord::Interval => Fsync::Interval(100),
            FsyncWord::Never => Fsync::Never,
        }
    }

    /// The word on a command line.
    pub fn word(self) -> &'static str {
        match self {
            FsyncWord::Always => "always",
            FsyncWord::Interval => "interval",
            FsyncWord::Never => "never",
        }
    }
}

/// The configuration with what the command line sets.
pub(super) fn settings(args: &Serve) -> Result<Config, Failure> {
    let mut config = Config::layered(&args.config).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(listen) = &args.listen {
        config.edge.listen = listen
            .parse::<SocketAddr>()
            .map_err(|_| Failure::Usage(format!("--listen {listen}: this is not an address like 127.0.0.1:7180")))?;
    }
    if let Some(listen) = &args.ops_listen {
        config.operators = parse_operators(listen).map_err(|why| Failure::Usage(format!("--ops-listen: {why}")))?;
    }
    if let Some(data_dir) = &args.data_dir {
        config.node.replication.data_dir.clone_from(data_dir);
    }
    if let Some(word) = args.fsync {
        config.node.replication.fsync = word.fsync();
    }
    if let Some(token) = node_client::token(args.admin_token.as_ref(), args.admin_token_file.as_deref())? {
        if !is_admin_token(&token) {
            return Err(Failure::Usage(format!("the admin token is too short: it has {}", admin_token_rule())));
        }
        config.edge.admin_token = Some(token);
    }
    if let Some(secret) = node_client::token(args.customer_secret.as_ref(), args.customer_secret_file.as_deref())? {
        config.edge.customer_secret = Some(Secret(secret));
    }
    if let Some(secret) = node_client::token(args.code_secret.as_ref(), args.code_secret_file.as_deref())? {
        config.edge.code_secret = Some(Secret(secret));
    }
    let config = with_peers(args, with_web(args, config)?)?;
    reachable::check(&config)?;
    Ok(config)
}

/// Applies the flags about browsers.
fn with_web(args: &Serve, mut config: Config) -> Result<Config, Failure> {
    let web = &mut config.edge.web;
    for (flag, said, url) in
        [("--public-url", &args.public_url, &mut web.public_url), ("--advertise", &args.advertise, &mut web.advertise)]
    {
        if let Some(said) = said {
            check_url(said).map_err(|why| Failure::Usage(format!("{flag}: {why}")))?;
            *url = Some(said.clone());
        }
    }
    if let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) {
        config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
        config.places.retain(|key, _| !key.starts_with("listen.tls_"));
    }
    if let Some(drain_ms) = args.drain_ms {
        config.drain = Duration::from_millis(drain_ms);
    }
    Ok(config)
}

/// Applies the flags about other nodes, and validates the result.
fn with_peers(args: &Serve, mut config: Config) -> Result<Config, Failure> {
    if let Some(node) = args.node {
        if !(1..=NODE_MAX).contains(&node) {
            return Err(Failure::Usage(format!("--node {node}: the number of a node is from 1 to {NODE_MAX}")));
        }
        config.wanted_node = Some(node);
        config.node.replication.node_id = node;
    }
    let peers = &mut config.peer_settings;
    if let Some(listen) = &args.peers_listen {
        peers.listen(listen).map_err(|why| Failure::Usage(format!("--peers-listen: {why}")))?;
    }
    if let Some(advertise) = &args.peers_advertise {
        peers.advertise(advertise);
    }
    if args.peers_plain {
        peers.plain();
    }
    match (&args.peers_secret, &args.peers_secret_file) {
        (Some(secret), _) => peers.secret(secret),
        (None, Some(file)) => peers.secret_file(file),
        (None, None) => {}
    }
    if !args.join.is_empty() {
        peers.join(&args.join);
    }
    config.join_key = node_client::token(None, args.join_key_file.as_deref())?.map(Secret);
    config.join_ca.clone_from(&args.join_ca);
    let peers = &mut config.peer_settings;
    // A node that is alone may have a secret in its environment.
    if !peers.listens() && (args.peers_advertise.is_some() || !args.join.is_empty()) {
        return Err(Failure::Usage("a node with --join or --peers-advertise has a --peers-listen as well".into()));
    }
    config.peers = peers.clone().validated(&config.node.replication.data_dir).map_err(Failure::Usage)?;
    Ok(config)
}
