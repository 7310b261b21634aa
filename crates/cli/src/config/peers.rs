//! How a node speaks with the other nodes of its cluster.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use boxoffice_core::cluster::ADDRESS_BYTES_MAX;
use boxoffice_node::config::Secret;
use serde::Deserialize;
use toml::Spanned;

use super::{ConfigError, Settings, is_fit_for_a_header};

/// The shortest secret that nodes may show each other, in characters.
pub const SECRET_BYTES_MIN: usize = 16;

/// How a node speaks with the other nodes of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// Where other nodes reach it.
    pub listen: SocketAddr,
    /// What they are told: host and port.
    pub advertise: String,
    /// What nodes show each other; none only where nobody else can connect.
    pub secret: Option<Secret>,
    /// Certificates, if connections are to be encrypted.
    pub tls: Option<PeersTls>,
    /// Client addresses of members of the cluster it joins, if it is no member yet.
    pub join: Vec<String>,
    /// Nodes that are reached from here at another address than they tell: by id, host and port.
    pub routes: BTreeMap<u64, String>,
}

/// What a node shows and believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersTls {
    /// Its certificate: a PEM file.
    pub certificate: PathBuf,
    /// The key of that: a PEM file.
    pub key: PathBuf,
    /// Who signs the certificates of all nodes: a PEM file.
    pub authority: PathBuf,
}

/// `[peers]` as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PeersSection {
    listen: Option<Spanned<String>>,
    advertise: Option<Spanned<String>>,
    secret: Option<Spanned<String>>,
    secret_file: Option<Spanned<PathBuf>>,
    tls_certificate: Option<Spanned<PathBuf>>,
    tls_key: Option<Spanned<PathBuf>>,
    tls_authority: Option<Spanned<PathBuf>>,
    join: Option<Spanned<Vec<String>>>,
    routes: Option<Spanned<BTreeMap<String, String>>>,
}

impl PeersConfig {
    /// A node that is reached there, and nothing else said.
    ///
    /// # Errors
    /// In words, if that is no address.
    pub fn listening(listen: &str) -> Result<PeersConfig, String> {
        let listen = listen.parse().map_err(|_| format!("{listen:?} is not an address like 10.0.0.1:7280"))?;
        Ok(PeersConfig {
            listen,
            advertise: String::new(),
            secret: None,
            tls: None,
            join: Vec::new(),
            routes: BTreeMap::new(),
        })
    }

    /// The whole of it, after everybody has had a say: whether others could be let in by anybody, or not find it.
    ///
    /// # Errors
    /// In words, with the key.
    pub fn checked(self) -> Result<PeersConfig, String> {
        let PeersConfig { listen, mut advertise, secret, tls, join, routes } = self;
        match &secret {
            None if !listen.ip().is_loopback() => {
                return Err(format!(
                    "peers.secret: other machines can connect to peers.listen ({listen}); set peers.secret, \
                     peers.secret_file or BOXOFFICE_PEERS_SECRET to the same {SECRET_BYTES_MIN} or more characters on \
                     every node"
                ));
            }
            Some(Secret(secret)) if secret.len() < SECRET_BYTES_MIN || !is_fit_for_a_header(secret) => {
                return Err(format!("peers.secret: at least {SECRET_BYTES_MIN} visible ASCII characters"));
            }
            None | Some(_) => {}
        }
        if advertise.is_empty() {
            if listen.ip().is_unspecified() {
                return Err(format!("peers.advertise: nobody can reach {listen}; say which host and port others use"));
            }
            advertise = listen.to_string();
        }
        if !is_host_and_port(&advertise) {
            return Err(format!("peers.advertise: {advertise:?} is not a host and a port, like node1.internal:7280"));
        }
        Ok(PeersConfig { listen, advertise, secret, tls, join, routes })
    }

    /// What other nodes and clients are told of the client's door: where it listens or, if that is every address of the
    /// machine, the host that other nodes are told.
    pub fn client_address(&self, listen: SocketAddr) -> String {
        match self.advertise.rsplit_once(':') {
            Some((host, _)) if listen.ip().is_unspecified() => format!("{host}:{}", listen.port()),
            Some(_) | None => listen.to_string(),
        }
    }
}

/// Whether this can be connected to.
fn is_host_and_port(text: &str) -> bool {
    text.len() <= ADDRESS_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Settings {
    /// What is said of other nodes; checked when the command line has had its say ([`PeersConfig::checked`]).
    pub(super) fn peers(&self) -> Result<Option<PeersConfig>, ConfigError> {
        let (source, listen) = self.find(|file| file.peers.listen.as_ref());
        let (_, advertise) = self.find(|file| file.peers.advertise.as_ref());
        let (join_source, join) = self.find(|file| file.peers.join.as_ref());
        if listen.get_ref().is_empty() {
            return match join.get_ref().as_slice() {
                [] => Ok(None),
                _ => Err(join_source.wrong(join, "peers.join: a node that joins others has a peers.listen".into())),
            };
        }
        let listening = PeersConfig::listening(listen.get_ref());
        let listening = listening.map_err(|why| source.wrong(listen, format!("peers.listen: {why}")))?;
        Ok(Some(PeersConfig {
            advertise: advertise.get_ref().clone(),
            secret: self.peers_secret()?,
            tls: self.peers_tls()?,
            join: join.get_ref().clone(),
            routes: self.peers_routes()?,
            ..listening
        }))
    }

    fn peers_routes(&self) -> Result<BTreeMap<u64, String>, ConfigError> {
        let (source, routes) = self.find(|file| file.peers.routes.as_ref());
        let mut known = BTreeMap::new();
        for (node, address) in routes.get_ref() {
            match node.parse() {
                Ok(node) if is_host_and_port(address) => _ = known.insert(node, address.clone()),
                _ => {
                    let what =
                        format!("peers.routes: {node} = {address:?} is not a node's number with a host and a port");
                    return Err(source.wrong(routes, what));
                }
            }
        }
        Ok(known)
    }

    fn peers_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let (_, secret) = self.find(|file| file.peers.secret.as_ref());
        let (source, file) = self.find(|file| file.peers.secret_file.as_ref());
        let path: &Path = file.get_ref();
        if path.as_os_str().is_empty() {
            return Ok(Some(secret.get_ref()).filter(|secret| !secret.is_empty()).cloned().map(Secret));
        }
        if !secret.get_ref().is_empty() {
            let what = "peers.secret_file: peers.secret is set as well; one of them";
            return Err(source.wrong(file, what.into()));
        }
        let wrong = |why: String| source.wrong(file, format!("peers.secret_file: {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        match text.trim() {
            "" => Err(wrong("it is empty".into())),
            secret => Ok(Some(Secret(secret.to_owned()))),
        }
    }

    fn peers_tls(&self) -> Result<Option<PeersTls>, ConfigError> {
        let (source, certificate) = self.find(|file| file.peers.tls_certificate.as_ref());
        let (_, key) = self.find(|file| file.peers.tls_key.as_ref());
        let (_, authority) = self.find(|file| file.peers.tls_authority.as_ref());
        let paths = [certificate, key, authority].map(|path| path.get_ref().clone());
        let set = paths.iter().filter(|path| !path.as_os_str().is_empty()).count();
        let [certificate_file, key, authority] = paths;
        match set {
            0 => Ok(None),
            3 => Ok(Some(PeersTls { certificate: certificate_file, key, authority })),
            _ => {
                let what = "peers.tls_certificate: peers.tls_certificate, tls_key and tls_authority are set together";
                Err(source.wrong(certificate, what.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<PeersConfig, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, format!("[peers]\n{text}\n")).expect("a written file");
        let config = Config::load(Some(&path)).map_err(|error| {
            let error = error.to_string();
            error.rsplit_once("b.toml: ").expect("the file is named").1.to_owned()
        })?;
        config.peers.ok_or("alone".to_owned())?.checked()
    }

    const SECRET: &str = "secret = \"sixteen-letters!\"";

    #[test]
    fn a_node_is_alone_if_nothing_is_said() {
        assert_eq!(Config::load(None).expect("the built-in configuration is right").peers, None);
    }

    #[test]
    fn what_is_said_is_taken() {
        let tls = "tls_certificate = \"c\"\ntls_key = \"k\"\ntls_authority = \"a\"";
        let join = "join = [\"one:7180\", \"two:7180\"]";
        let text = format!("listen = \"0.0.0.0:7280\"\nadvertise = \"one:7290\"\n{SECRET}\n{tls}\n{join}");
        let peers = read(&text).expect("this file is right");
        assert_eq!((peers.advertise.as_str(), peers.join.len()), ("one:7290", 2));
        assert_eq!(peers.tls.clone().expect("certificates").authority, Path::new("a"));
        assert!(!format!("{peers:?}").contains("sixteen"), "secrets are not shown");
        let door = |listen: &str| peers.client_address(listen.parse().expect("an address"));
        assert_eq!((door("0.0.0.0:7180"), door("10.0.0.9:7180")), ("one:7180".into(), "10.0.0.9:7180".into()));
        let routed =
            read("listen = \"127.0.0.1:7280\"\nroutes = { 2 = \"proxy:7290\" }").expect("a way to another node");
        assert_eq!(routed.routes, BTreeMap::from([(2, "proxy:7290".into())]));
        let alone = read("listen = \"127.0.0.1:7280\"").expect("nobody else can connect");
        assert_eq!((alone.advertise.as_str(), alone.secret), ("127.0.0.1:7280", None));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("listen = \"here\"", "line 2: peers.listen: \"here\" is not an address like 10.0.0.1:7280"),
            ("listen = \"10.0.0.1:7280\"", "peers.secret: other machines can connect to peers.listen"),
            ("listen = \"127.0.0.1:7280\"\nsecret = \"short\"", "peers.secret: at least 16 visible ASCII"),
            (&format!("listen = \"0.0.0.0:7280\"\n{SECRET}"), "peers.advertise: nobody can reach 0.0.0.0:7280"),
            ("listen = \"127.0.0.1:7280\"\nadvertise = \"one\"", "peers.advertise: \"one\" is not a host and a port"),
            ("join = [\"one:7180\"]", "line 2: peers.join: a node that joins others has a peers.listen"),
            ("listen = \"127.0.0.1:1\"\ntls_key = \"k\"", "line "),
            (
                &format!("listen = \"127.0.0.1:1\"\n{SECRET}\nsecret_file = \"s\""),
                "line 4: peers.secret_file: peers.secret is",
            ),
            (
                "listen = \"127.0.0.1:1\"\nsecret_file = \"/nowhere/s\"",
                "line 3: peers.secret_file: /nowhere/s: cannot be",
            ),
            (
                "listen = \"127.0.0.1:1\"\nroutes = { two = \"proxy:7290\" }",
                "line 3: peers.routes: two = \"proxy:7290\" is not a node's number with a host and a port",
            ),
            (
                "listen = \"127.0.0.1:1\"\nroutes = { 2 = \"proxy\" }",
                "line 3: peers.routes: 2 = \"proxy\" is not a node's number with a host and a port",
            ),
            ("port = 1", "line 2: unknown field `port`"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }

    #[test]
    fn the_three_nodes_of_the_example_are_right() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/cluster-3");
        for (file, node, port, joins) in [("one", 1, 7180, 0), ("two", 2, 7181, 1), ("three", 3, 7182, 1)] {
            let config = Config::load(Some(&Path::new(dir).join(file).with_extension("toml"))).expect(file);
            assert_eq!((config.wanted_node, config.listen.port()), (Some(node), port));
            let peers = config.peers.expect(file).checked().expect(file);
            assert_eq!((peers.listen.port(), peers.join.len()), (port + 100, joins));
            assert!(peers.secret.is_some());
        }
    }
}
