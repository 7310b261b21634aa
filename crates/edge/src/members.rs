//! The addresses of the cluster's members for clients and browsers.

use axum::http::uri::Authority;
use boxoffice_wire::cluster::{NodeAddress, ShardMap};
use smol_str::SmolStr;

use crate::shared::Shared;

/// The members with their URLs, as far as clients can reach them. `own` is this node. It is left out if the cluster has a
/// public address, because it is reached there.
pub(crate) fn addresses(shared: &Shared, own: &str) -> Vec<(SmolStr, String)> {
    let members = shared.backend.members().into_iter();
    let url = |client: &SmolStr, node: &SmolStr| match &shared.config.web.public_url {
        // Other members are reached through the public address, unless they have an address of their own.
        Some(_) if node == own => None,
        Some(_) => Some(client.to_string()).filter(|client| is_url(client)),
        None => url_of(shared, client),
    };
    members.filter_map(|member| Some((member.node.clone(), url(&member.client, &member.node)?))).collect()
}

/// The URLs of all members that have one, whatever clients are told.
pub(crate) fn all_urls(shared: &Shared) -> Vec<String> {
    shared.backend.members().into_iter().filter_map(|member| url_of(shared, &member.client)).collect()
}

/// The answer to `shards`.
pub(crate) fn shard_map(shared: &Shared) -> ShardMap {
    let own = shared.backend.hello().node;
    let nodes = addresses(shared, &own).into_iter();
    let nodes = nodes.filter_map(|(node, url)| Some(NodeAddress { node: node.parse().ok()?, client: url.into() }));
    ShardMap { leaders: shared.backend.leaders(), nodes: nodes.collect() }
}

/// The URL of a member with this client address. `None` if clients cannot connect to it.
fn url_of(shared: &Shared, client: &str) -> Option<String> {
    if is_url(client) {
        return Some(client.to_owned());
    }
    is_address(client).then(|| format!("{}://{client}", scheme(shared)))
}

/// The URL scheme of the cluster's client ports.
pub(crate) fn scheme(shared: &Shared) -> &'static str {
    if shared.config.web.certificate.is_some() { "https" } else { "http" }
}

/// Whether a client address has a scheme.
fn is_url(client: &str) -> bool {
    let host = client.strip_prefix("https://").or_else(|| client.strip_prefix("http://"));
    host.is_some_and(|host| host.parse::<Authority>().is_ok())
}

/// Whether this is a host and a port that clients can connect to.
fn is_address(text: &str) -> bool {
    text.parse::<Authority>().is_ok_and(|address| address.port_u16().is_some_and(|port| port > 0))
}
