//! Whether others than this machine can reach a node. Such a node must tell operators and customers from strangers.

use std::net::{IpAddr, SocketAddr};

use crate::{
    config::{Config, Operators},
    failure::{Failure, Outcome},
};

/// Checks that a node which can be reached from elsewhere has an admin token, and a customer secret or token keys.
///
/// # Errors
/// [`Failure::Usage`], in one sentence with the setting that makes it reachable and the remedy.
pub(super) fn check(config: &Config) -> Outcome {
    let Some(setting) = setting(config) else { return Ok(()) };
    let lacks = if config.edge.admin_token.is_none() {
        "no admin token: set listen.admin_token_file or BOXOFFICE_ADMIN_TOKEN (`boxoffice admin token` makes one)"
    } else if config.edge.customer_secret.is_none() && config.edge.token_keys.is_empty() {
        "neither a customer secret nor a token key, so every caller could name any customer: set \
         listen.customer_secret_file, BOXOFFICE_CUSTOMER_SECRET or listen.token_keys"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "with {setting} this node can be reached from other machines, and there is {lacks}; or keep every address on 127.0.0.1"
    )))
}

/// A setting by which other machines reach the node, if there is one. A proxy on this machine carries them as well.
fn setting(config: &Config) -> Option<String> {
    let address = |key: &str, address: SocketAddr| (!address.ip().is_loopback()).then(|| format!("{key} = {address}"));
    let host = |key: &str, address: &str| (!is_loopback(address)).then(|| format!("{key} = {address}"));
    let url = |key: &str, url: &Option<String>| url.as_ref().map(|url| format!("{key} = {url}"));
    let (edge, web) = (&config.edge, &config.edge.web);
    let operators = match config.operators {
        Operators::At(listen) => address("ops.listen", listen),
        Operators::Auto => None,
    };
    address("listen.address", edge.listen)
        .or(operators)
        .or_else(|| url("listen.public_url", &web.public_url))
        .or_else(|| url("listen.advertise", &web.advertise))
        .or_else(|| (!web.proxies.networks.is_empty()).then(|| "listen.proxies".to_owned()))
        .or_else(|| {
            let peers = config.peers.as_ref()?;
            let mut routes = peers.routes.iter();
            address("peers.listen", peers.listen)
                .or_else(|| host("peers.advertise", &peers.advertise))
                .or_else(|| routes.find_map(|(node, address)| host(&format!("peers.routes.{node}"), address)))
        })
}

/// Whether the host of `host:port` is this machine.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The refusal of a configuration, if it is refused.
    fn refused(text: &str) -> Option<String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, text).expect("a written file");
        let mut config = Config::load(Some(&path)).expect("a valid file");
        let peers = config.peer_settings.clone().validated(dir.path());
        config.peers = peers.expect("valid settings of peers");
        check(&config).err().map(|why| why.to_string())
    }

    /// Each way by which others reach a node, and none by which they do not.
    const WAYS: [(&str, &str, bool); 14] = [
        ("listen", "address = \"127.0.0.2:7180\"", false),
        ("listen", "address = \"[::1]:7180\"", false),
        ("listen", "address = \"0.0.0.0:7180\"", true),
        ("listen", "address = \"192.0.2.1:7180\"", true),
        ("listen", "public_url = \"http://localhost:80\"", true),
        ("listen", "advertise = \"https://one.example\"", true),
        ("listen", "proxies = [\"127.0.0.1\"]", true),
        ("ops", "listen = \"127.0.0.1:7380\"", false),
        ("ops", "listen = \"[::]:7380\"", true),
        ("peers", "listen = \"127.0.0.1:7280\"", false),
        ("peers", "listen = \"192.0.2.1:7280\"\nplain = true", true),
        ("peers", "listen = \"127.0.0.1:7280\"\nadvertise = \"one.internal:7280\"", true),
        ("peers", "listen = \"127.0.0.1:7280\"\nroutes = { 1 = \"127.0.0.1:9\", 2 = \"localhost:9\" }", false),
        ("peers", "listen = \"127.0.0.1:7280\"\nroutes = { 1 = \"127.0.0.1:9\", 2 = \"192.0.2.2:9\" }", true),
    ];

    #[test]
    fn what_can_be_reached_from_elsewhere_demands_credentials() {
        let (admin, customers) =
            ("admin_token = \"0123456789abcdef0123456789abcdef\"\n", "customer_secret = \"0123456789abcdef\"\n");
        for (section, text, is_reachable) in WAYS {
            let with = |credentials: &str| match section {
                "listen" => refused(&format!("[listen]\n{credentials}{text}\n")),
                _ => refused(&format!("[listen]\n{credentials}[{section}]\n{text}\n")),
            };
            let key = text.rsplit('\n').next().and_then(|line| line.split(' ').next()).expect("a key");
            let (neither, one, other) = (with(""), with(admin), with(customers));
            assert_eq!(neither.is_some(), is_reachable, "{section}: {text}: {neither:?}");
            if is_reachable {
                let why = neither.expect("it is refused");
                assert!(why.contains("no admin token: set") && !why.contains('\n'), "{why}");
                assert!(text.contains("plain") || why.contains(&format!("{section}.{key}")), "{why}");
                assert!(one.expect("it is refused").contains("neither a customer secret"), "{text}");
                assert!(other.expect("it is refused").contains("no admin token"), "{text}");
            }
            assert_eq!(with(&format!("{admin}{customers}")), None, "{text}");
        }
    }
}
