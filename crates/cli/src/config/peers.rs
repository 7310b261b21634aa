//! The section `[peers]`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use boxoffice_core::cluster::ADDRESS_BYTES_MAX;
use boxoffice_env::secret::Secret;
use boxoffice_links::PeerTls;

use super::{ConfigError, Settings};
use crate::peer_secret::{self, PeerSecret};

/// The links to the other nodes of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// The port for other nodes.
    pub listen: SocketAddr,
    /// Host and port that other nodes are told.
    pub advertise: String,
    pub secret: PeerSecret,
    /// Certificates, if the links are encrypted.
    pub tls: Option<PeerTls>,
    /// Client addresses of members of the cluster to join, for a node that is not a member yet.
    pub join: Vec<String>,
    /// Host and port of nodes that this node reaches at another address than they tell, by id.
    pub routes: BTreeMap<u64, String>,
}

/// How the secret is set.
#[derive(Clone, Debug)]
enum SecretSetting {
    Text(Secret),
    File(PathBuf),
}

/// The keys of `[peers]`, set by files and then by the command line. A flag overrides one key and no other.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    listen: Option<SocketAddr>,
    advertise: String,
    /// The text of the secret, or the file that has it.
    secret: Option<SecretSetting>,
    tls: Option<PeerTls>,
    /// Allows links to other machines in plain text.
    plain: bool,
    join: Vec<String>,
    routes: BTreeMap<u64, String>,
    /// The places of keys that a file sets: `FILE: line LINE: `.
    places: BTreeMap<&'static str, String>,
}

impl PeerSettings {
    /// Sets the address to listen on.
    ///
    /// # Errors
    /// The text is not an address.
    pub fn listen(&mut self, listen: &str) -> Result<(), String> {
        self.listen = Some(address(listen)?);
        self.places.remove(LISTEN);
        Ok(())
    }

    /// Sets the address that other nodes are told.
    pub fn advertise(&mut self, advertise: &str) {
        advertise.clone_into(&mut self.advertise);
        self.places.remove(ADVERTISE);
    }

    /// Allows links to other machines in plain text.
    pub fn plain(&mut self) {
        self.plain = true;
    }

    /// Sets the secret.
    pub fn secret(&mut self, secret: &str) {
        self.secret = Some(SecretSetting::Text(Secret(secret.to_owned())));
        self.places.remove(SECRET);
    }

    /// Sets the file that has the secret.
    pub fn secret_file(&mut self, path: &Path) {
        self.secret = Some(SecretSetting::File(path.to_owned()));
        self.places.remove(SECRET);
    }

    /// Sets the cluster to join.
    pub fn join(&mut self, join: &[String]) {
        join.clone_into(&mut self.join);
        self.places.remove(JOIN);
    }

    /// Whether an address to listen on is set. Without one a node is alone.
    pub fn listens(&self) -> bool {
        self.listen.is_some()
    }

    /// Validates the settings of a node with this data directory. `None` if the node is alone.
    ///
    /// # Errors
    /// Strangers could join, or other nodes could not reach this one. The message has the key, and its file and line if a
    /// file sets it.
    pub fn validated(self, data_dir: &Path) -> Result<Option<PeersConfig>, String> {
        let at = |key: &str, what: String| {
            let place = self.places.get(key).map_or("", String::as_str);
            Err(format!("{place}{what}"))
        };
        let Some(listen) = self.listen else {
            return match self.join.as_slice() {
                [] => Ok(None),
                _ => at(JOIN, "peers.join: a node that joins others has a peers.listen".into()),
            };
        };
        let secret = match &self.secret {
            None => PeerSecret::File { path: data_dir.join(peer_secret::FILE), is_named: false },
            Some(SecretSetting::File(path)) => PeerSecret::File { path: path.clone(), is_named: true },
            Some(SecretSetting::Text(Secret(text))) => match peer_secret::parse(text) {
                Ok(secrets) => PeerSecret::Set(secrets),
                Err(why) => return at(SECRET, format!("peers.secret: {why}")),
            },
        };
        if !listen.ip().is_loopback() && self.tls.is_none() && !self.plain {
            let what = format!(
                "peers.tls_certificate: other machines can connect to peers.listen ({listen}), and what goes between nodes \
                 would neither be encrypted nor be proof against change; set peers.tls_certificate, peers.tls_key and \
                 peers.tls_authority, or peers.plain = true (--peers-plain) where the network between them is trusted"
            );
            return at(LISTEN, what);
        }
        if self.advertise.is_empty() && listen.ip().is_unspecified() {
            let what =
                format!("peers.advertise: other nodes cannot reach {listen}; say which host and port others use");
            return at(LISTEN, what);
        }
        let advertise = if self.advertise.is_empty() { listen.to_string() } else { self.advertise.clone() };
        if !is_host_and_port(&advertise) {
            let what = format!("peers.advertise: {advertise:?} is not a host and a port, like node1.internal:7280");
            return at(ADVERTISE, what);
        }
        let PeerSettings { tls, join, routes, .. } = self;
        Ok(Some(PeersConfig { listen, advertise, secret, tls, join, routes }))
    }
}

const LISTEN: &str = "peers.listen";
const ADVERTISE: &str = "peers.advertise";
const SECRET: &str = "peers.secret";
const SECRET_FILE: &str = "peers.secret_file";
const JOIN: &str = "peers.join";

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address like 10.0.0.1:7280"))
}

impl PeersConfig {
    /// The address for clients that other nodes and clients are told. If the client port listens on all addresses of the
    /// machine, it has the host that other nodes are told.
    pub fn client_address(&self, listen: SocketAddr) -> String {
        match self.advertise.rsplit_once(':') {
            Some((host, _)) if listen.ip().is_unspecified() => format!("{host}:{}", listen.port()),
            Some(_) | None => listen.to_string(),
        }
    }
}

/// Whether this is a host and a port to connect to.
fn is_host_and_port(text: &str) -> bool {
    text.len() <= ADDRESS_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Settings<'_> {
    /// The keys of `[peers]`. [`PeerSettings::validated`] checks them after the command line.
    pub(super) fn peers(&self) -> Result<PeerSettings, ConfigError> {
        let listen = self.find::<String>(LISTEN)?;
        let listen = match listen.value.as_str() {
            "" => None,
            text => Some(address(text).map_err(|why| listen.wrong(why))?),
        };
        let mut places = BTreeMap::new();
        for key in [LISTEN, ADVERTISE, SECRET, JOIN] {
            places.extend(self.place(key).map(|place| (key, place)));
        }
        if let Some(place) = self.place(SECRET_FILE) {
            places.entry(SECRET).or_insert(place);
        }
        let tls = self.files_set_together(
            ["peers.tls_certificate", "peers.tls_key", "peers.tls_authority"],
            "peers.tls_certificate, peers.tls_key and peers.tls_authority are set together",
        )?;
        let secret_file = self.find::<PathBuf>(SECRET_FILE)?;
        let text = self.get::<String>(SECRET)?;
        let secret = match (text.is_empty(), secret_file.value.as_os_str().is_empty()) {
            (true, true) => None,
            (false, true) => Some(SecretSetting::Text(Secret(text))),
            (true, false) => Some(SecretSetting::File(secret_file.path())),
            (false, false) => return Err(secret_file.wrong(format!("{SECRET} is set as well; one of them"))),
        };
        Ok(PeerSettings {
            listen,
            advertise: self.get(ADVERTISE)?,
            secret,
            tls: tls.map(|[certificate, key, authority]| PeerTls { certificate, key, authority }),
            plain: self.get("peers.plain")?,
            join: self.get(JOIN)?,
            routes: self.peers_routes()?,
            places,
        })
    }

    fn peers_routes(&self) -> Result<BTreeMap<u64, String>, ConfigError> {
        let routes = self.find::<BTreeMap<String, String>>("peers.routes")?;
        let route = |(node, address): (&String, &String)| match node.parse() {
            Ok(node) if is_host_and_port(address) => Ok((node, address.clone())),
            _ => Err(routes.wrong(format!("{node} = {address:?} is not a node's number with a host and a port"))),
        };
        routes.value.iter().map(route).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::config::Config;

    fn read(text: &str) -> Result<PeersConfig, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, format!("[peers]\n{text}\n")).expect("a written file");
        let settings = Config::load(Some(&path)).map(|config| config.peer_settings).map_err(|error| error.to_string());
        let validated = settings
            .and_then(|settings| settings.validated(Path::new("data")))
            .map_err(|error| error.rsplit_once("b.toml: ").expect("the file is named").1.to_owned());
        validated?.ok_or("alone".to_owned())
    }

    const SECRET: &str = "secret = \"sixteen-letters!\"";

    #[test]
    fn a_node_is_alone_by_default() {
        assert_eq!(
            Config::load(None).expect("the built-in configuration is right").peer_settings.validated(Path::new("data")),
            Ok(None)
        );
    }

    #[test]
    fn settings_of_peers_are_read() {
        let tls = "tls_certificate = \"c\"\ntls_key = \"k\"\ntls_authority = \"a\"";
        let join = "join = [\"one:7180\", \"two:7180\"]";
        let text = format!("listen = \"0.0.0.0:7280\"\nadvertise = \"one:7290\"\n{SECRET}\n{tls}\n{join}");
        let peers = read(&text).expect("a valid file");
        assert_eq!((peers.advertise.as_str(), peers.join.len()), ("one:7290", 2));
        let authority = peers.tls.clone().expect("certificates").authority;
        assert!(authority.is_absolute() && authority.ends_with("a"), "it begins at the folder of the configuration");
        assert!(!format!("{peers:?}").contains("sixteen"), "secrets are not shown");
        let client_address = |listen: &str| peers.client_address(listen.parse().expect("an address"));
        assert_eq!(
            (client_address("0.0.0.0:7180"), client_address("10.0.0.9:7180")),
            ("one:7180".into(), "10.0.0.9:7180".into())
        );
        let routed =
            read("listen = \"127.0.0.1:7280\"\nroutes = { 2 = \"proxy:7290\" }").expect("a route to another node");
        assert_eq!(routed.routes, BTreeMap::from([(2, "proxy:7290".into())]));
        let alone = read("listen = \"127.0.0.1:7280\"").expect("no other machine can connect");
        let made = PeerSecret::File { path: "data/peers.secret".into(), is_named: false };
        assert_eq!((alone.advertise.as_str(), alone.secret), ("127.0.0.1:7280", made));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("listen = \"here\"", "line 2: peers.listen: \"here\" is not an address like 10.0.0.1:7280"),
            (
                "listen = \"127.0.0.1:7280\"\nsecret = \"short\"",
                "line 3: peers.secret: one secret of at least 16 visible ASCII",
            ),
            (
                &format!("listen = \"10.0.0.1:7280\"\n{SECRET}"),
                "line 2: peers.tls_certificate: other machines can connect",
            ),
            (
                &format!("listen = \"0.0.0.0:7280\"\nplain = true\n{SECRET}"),
                "line 2: peers.advertise: other nodes cannot reach 0.0.0.0:7280",
            ),
            (
                "listen = \"127.0.0.1:7280\"\nadvertise = \"one\"",
                "line 3: peers.advertise: \"one\" is not a host and a port",
            ),
            ("join = [\"one:7180\"]", "line 2: peers.join: a node that joins others has a peers.listen"),
            ("listen = \"127.0.0.1:1\"\ntls_key = \"k\"", "line 3: peers.tls_certificate, peers.tls_key and"),
            (
                &format!("listen = \"127.0.0.1:1\"\n{SECRET}\nsecret_file = \"s\""),
                "line 4: peers.secret_file: peers.secret is",
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
            let error = read(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_flag_overrides_one_key() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        let text = "[peers]\nsecret_file = \"/nowhere/s\"\nadvertise = \"one:7290\"\njoin = [\"two:7180\"]\n";
        fs::write(&path, text).expect("a written file");
        let settings = || Config::load(Some(&path)).expect("the file is valid").peer_settings;
        let alone = settings().validated(Path::new("data")).expect_err("a joining node needs a listen address");
        assert!(alone.ends_with("b.toml: line 4: peers.join: a node that joins others has a peers.listen"), "{alone}");
        let mut listening = settings();
        listening.listen("0.0.0.0:7280").expect("an address");
        listening.plain();
        let peers = listening.clone().validated(Path::new("data")).expect("the settings are complete");
        let named = PeerSecret::File { path: "/nowhere/s".into(), is_named: true };
        assert_eq!(peers.expect("it is not alone").secret, named);
        listening.secret("sixteen-letters!");
        let peers = listening
            .clone()
            .validated(Path::new("data"))
            .expect("the settings are complete")
            .expect("it is not alone");
        assert_eq!((peers.advertise.as_str(), &peers.join[..]), ("one:7290", &["two:7180".to_owned()][..]));
        listening.secret("short");
        assert_eq!(
            listening.clone().validated(Path::new("data")),
            Err("peers.secret: one secret of at least 16 visible ASCII characters, or two while it is changed, separated by a blank or a line end".into()),
            "values of flags are not in a file"
        );
        listening.secret("sixteen-letters!");
        listening.advertise("three:7290");
        listening.join(&["four:7180".into()]);
        let peers =
            listening.validated(Path::new("data")).expect("the settings are complete").expect("it is not alone");
        assert_eq!((peers.advertise.as_str(), &peers.join[..]), ("three:7290", &["four:7180".to_owned()][..]));
    }

    #[test]
    fn the_three_nodes_of_the_example_are_valid() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/cluster-3");
        for (file, node, port, joins) in [("one", 1, 7180, 0), ("two", 2, 7181, 1), ("three", 3, 7182, 1)] {
            let config = Config::load(Some(&Path::new(dir).join(file).with_extension("toml"))).expect(file);
            assert_eq!((config.wanted_node, config.edge.listen.port()), (Some(node), port));
            let peers = config.peer_settings.validated(Path::new("data")).expect(file).expect("it is not alone");
            assert_eq!((peers.listen.port(), peers.join.len()), (port + 100, joins));
            let shared = PeerSecret::File { path: Path::new(dir).join("peers.secret"), is_named: true };
            assert_eq!(peers.secret, shared, "{file}: one file for all");
        }
    }
}
