//! The configuration: files, the built-in defaults, and errors with their lines.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use boxoffice_core::{access::Role, cluster::NODE_MAX, rules::Rules};
use boxoffice_edge::{PageConfig, budgets::BudgetConfig, token::TokenKeys};
use boxoffice_env::{StoreSettings, secret::Secret};
use boxoffice_node::{admission::OverloadSettings, config::NodeConfig};
use boxoffice_payment::GatewayConfig;
use boxoffice_storage::fsync::Fsync;
use toml::Spanned;

/// The built-in configuration.
pub const DEFAULT: &str = include_str!("../../../config/boxoffice.toml");

/// An error in the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: cannot be read: {error}", .file.display())]
    Unreadable { file: PathBuf, error: std::io::Error },
    #[error("{}: line {line}: {what}", .file.display())]
    Wrong {
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key, and what is wrong with it.
        what: String,
    },
}

mod file;
mod page;
mod payments;
mod peers;
mod secrets;
mod web;

pub use peers::{PeerSettings, PeersConfig};
pub(crate) use secrets::read_secret_file;
pub use web::{Web, check_url};

use file::File;

/// The settings of `boxoffice serve`.
#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeConfig,
    /// The clients' port.
    pub listen: SocketAddr,
    pub operators: Operators,
    pub admin_token: Option<String>,
    /// The role of callers without credentials.
    pub anonymous: Option<Role>,
    /// Whether every caller may record a payment made elsewhere.
    pub recorded_by_anyone: bool,
    /// The secret behind customers' tokens, if they have tokens.
    pub customer_secret: Option<Secret>,
    /// The payment gateway. `None` if payments are only recorded.
    pub gateway: Option<GatewayConfig>,
    pub webhook_secrets: Vec<Secret>,
    /// The keys of short-lived tokens.
    pub token_keys: TokenKeys,
    /// Origins whose pages may connect, besides the cluster's own.
    pub origins: Vec<String>,
    /// The number this node wants in its cluster, if one is configured.
    pub wanted_node: Option<u64>,
    /// The settings of `[peers]`, before they are validated.
    pub peer_settings: PeerSettings,
    /// The validated settings of `[peers]`. `None` for a node that is alone.
    pub peers: Option<PeersConfig>,
    /// Connections of clients at the same time.
    pub connections_max: usize,
    /// Whether a file sets that number. Otherwise it may be lower if there are few file descriptors.
    pub connections_configured: bool,
    /// Memory of all incomplete messages, in bytes.
    pub frame_bytes_max: u64,
    /// Budgets of strangers.
    pub budgets: BudgetConfig,
    pub page: PageConfig,
    /// TLS, proxies and public addresses.
    pub web: Web,
    pub selling_threads: usize,
    pub watching_threads: usize,
    /// The niceness of the watching threads, 0 to 19.
    pub watching_nice: i32,
    /// How long a thread of either runtime may be stuck before the node ends. `None` is for ever.
    pub stuck: Option<Duration>,
}

/// The operators' port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operators {
    /// On loopback, [`OPERATORS_PORT_ABOVE`] the clients' port.
    Auto,
    At(SocketAddr),
}

/// How far the operators' port is above the clients' port by default.
const OPERATORS_PORT_ABOVE: u16 = 200;

impl Operators {
    /// The address, if clients connect at `clients`. Port 0 takes a free one.
    ///
    /// # Errors
    /// There is no such port. The message says what to set.
    pub fn address(self, clients: SocketAddr) -> Result<SocketAddr, String> {
        let port = match (self, clients.port()) {
            (Operators::At(address), _) => return Ok(address),
            (Operators::Auto, 0) => 0,
            (Operators::Auto, port) => port.checked_add(OPERATORS_PORT_ABOVE).ok_or_else(|| {
                format!(
                    "there is no port {OPERATORS_PORT_ABOVE} above {port} for operators: set ops.listen (--ops-listen)"
                )
            })?,
        };
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }
}

/// The message for a key of earlier versions.
const UNDER_WAY_PER_SHARD: &str = "limits.under_way_per_shard was replaced by overload.under_way, which bounds the commands \
    under way on the node, in all shards together; remove the key, and set overload.under_way if 16 384 does not fit";

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl Config {
    /// The built-in configuration, with the keys that `file` sets.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the line and the key.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        Config::layered(file.as_slice())
    }

    /// The same with several files. A later file overrides an earlier one.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn layered(files: &[impl AsRef<Path>]) -> Result<Config, ConfigError> {
        let mut sources = Vec::new();
        for path in files.iter().rev().map(AsRef::as_ref) {
            let text =
                fs::read_to_string(path).map_err(|error| ConfigError::Unreadable { file: path.to_owned(), error })?;
            sources.push(Source::read(path, text)?);
        }
        sources.push(Source::read(Path::new("built-in configuration"), DEFAULT.to_owned())?);
        Settings(sources).config()
    }
}

/// A file and its text, which gives the line of an error.
struct Source {
    path: PathBuf,
    text: String,
    file: File,
}

impl Source {
    fn read(path: &Path, text: String) -> Result<Source, ConfigError> {
        let file = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let start = start.min(text.len());
            let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
            let key = text[line_start..].split(['=', '\n']).next().unwrap_or_default().trim();
            let what = match error.message() {
                message if message.contains("unknown field `under_way_per_shard`") => UNDER_WAY_PER_SHARD.to_owned(),
                message if message.contains("unknown field") || key.is_empty() => message.to_owned(),
                message => format!("{message} (at `{key}`)"),
            };
            ConfigError::Wrong { file: path.to_owned(), line: line_of(&text, start), what }
        })?;
        Ok(Source { path: path.to_owned(), text, file })
    }

    fn wrong<T>(&self, at: &Spanned<T>, what: String) -> ConfigError {
        ConfigError::Wrong { file: self.path.clone(), line: line_of(&self.text, at.span().start), what }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// Files in order of precedence. The last one is the built-in configuration, which has every key.
struct Settings(Vec<Source>);

impl Settings {
    fn find<T>(&self, get: impl Fn(&File) -> Option<&Spanned<T>>) -> (&Source, &Spanned<T>) {
        self.0
            .iter()
            .find_map(|source| Some((source, get(&source.file)?)))
            .expect("the built-in configuration has every key")
    }

    fn within<N: PartialOrd + Copy + std::fmt::Display>(
        &self,
        key: &str,
        range: (N, N),
        get: impl Fn(&File) -> Option<&Spanned<N>>,
    ) -> Result<N, ConfigError> {
        let (source, value) = self.find(get);
        let given = *value.get_ref();
        if given < range.0 || given > range.1 {
            return Err(source.wrong(value, format!("{key}: {given} is not within {} and {}", range.0, range.1)));
        }
        Ok(given)
    }

    /// The number of replicating threads: a quarter of the cores, and at least one.
    fn replicating(&self) -> Result<usize, ConfigError> {
        Ok(match self.within("threads.replicating", (0, 256), |file| file.threads.replicating.as_ref())? {
            0 => thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1)),
            set => set,
        })
    }

    fn stuck(&self) -> Result<Option<Duration>, ConfigError> {
        let (source, value) = self.find(|file| file.threads.stuck_ms.as_ref());
        match *value.get_ref() {
            0 => Ok(None),
            ms if (1_000..=DAY_MS).contains(&ms) => Ok(Some(Duration::from_millis(ms))),
            ms => Err(source.wrong(value, format!("threads.stuck_ms: {ms} is neither 0 nor within 1000 and {DAY_MS}"))),
        }
    }

    fn config(&self) -> Result<Config, ConfigError> {
        let (_, data_dir) = self.find(|file| file.node.data_dir.as_ref());
        let gateway = self.gateway()?;
        let rules = self.rules()?;
        let page = self.page(gateway.is_some())?;
        let recorded_by_anyone = self.recorded_by_anyone()?;
        let anonymous = self.anonymous(gateway.is_some(), recorded_by_anyone)?;
        Ok(Config {
            wanted_node: self.wanted_node(),
            peer_settings: self.peers()?,
            peers: None,
            node: NodeConfig {
                data_dir: data_dir.get_ref().clone(),
                node_id: self.within("node.id", (1, NODE_MAX), |file| file.node.id.as_ref())?,
                shards: self.within("node.shards", (1, 4_096), |file| file.node.shards.as_ref())?,
                replicating: self.replicating()?,
                fsync: self.fsync()?,
                log_segment_bytes: self.segment_bytes()?,
                snapshot_entries: self
                    .within("snapshots.entries", (10, 10_000_000), |file| file.snapshots.entries.as_ref())?,
                snapshot_bytes: self
                    .within("snapshots.bytes", (64 << 10, 1 << 40), |file| file.snapshots.bytes.as_ref())?,
                history_store: self.history_store()?,
                history_archive_bytes: self
                    .within("history.archive_bytes", (0, 1 << 50), |file| file.history.archive_bytes.as_ref())?,
                overload: self.overload()?,
                actor_idle_ms: self
                    .within("limits.actor_idle_ms", (10, DAY_MS), |file| file.limits.actor_idle_ms.as_ref())?,
                feed_tick_ms: self.within("feeds.tick_ms", (0, 10_000), |file| file.feeds.tick_ms.as_ref())?,
                feed_depth: self.within("feeds.ring", (1, 65_536), |file| file.feeds.ring.as_ref())?,
                rules: Arc::new(rules.clone()),
                // The identity in the cluster is set at the start.
                ..NodeConfig::default()
            },
            gateway,
            webhook_secrets: self.webhook_secrets()?,
            listen: self.listen()?,
            operators: self.operators()?,
            admin_token: self.admin_token()?,
            anonymous,
            recorded_by_anyone,
            customer_secret: self.customer_secret()?,
            token_keys: self.token_keys()?,
            origins: self.origins()?,
            connections_max: self
                .within("limits.connections", (1, 1_000_000), |file| file.limits.connections.as_ref())?,
            connections_configured: self.says(|file| file.limits.connections.is_some()),
            frame_bytes_max: self
                .within("limits.frame_bytes", (1 << 20, 1 << 40), |file| file.limits.frame_bytes.as_ref())?,
            budgets: self.budgets(rules.hold_ttl_ms.min(rules.guest_ttl_max_ms))?,
            page,
            web: self.web()?,
            selling_threads: self.within("threads.selling", (0, 1_024), |file| file.threads.selling.as_ref())?,
            watching_threads: self.within("threads.watching", (1, 1_024), |file| file.threads.watching.as_ref())?,
            watching_nice: self.within("threads.watching_nice", (0, 19), |file| file.threads.watching_nice.as_ref())?,
            stuck: self.stuck()?,
        })
    }

    /// Whether a file sets this, and not only the built-in configuration.
    fn says(&self, is_set: impl Fn(&File) -> bool) -> bool {
        let (_, files) = self.0.split_last().expect("the built-in configuration is there");
        files.iter().any(|source| is_set(&source.file))
    }

    /// The number of this node, if a file sets one.
    fn wanted_node(&self) -> Option<u64> {
        let (_, said) = self.0.split_last().expect("the built-in configuration is there");
        said.iter().find_map(|source| source.file.node.id.as_ref()).map(|id| *id.get_ref())
    }

    fn rules(&self) -> Result<Rules, ConfigError> {
        let year_ms = 366 * DAY_MS;
        Ok(Rules {
            hold_ttl_ms: self.within("carts.hold_ttl_ms", (1, year_ms), |file| file.carts.hold_ttl_ms.as_ref())?,
            hold_ttl_max_ms: self
                .within("carts.hold_ttl_max_ms", (1, year_ms), |file| file.carts.hold_ttl_max_ms.as_ref())?,
            cart_age_max_ms: self
                .within("carts.cart_age_max_ms", (1, year_ms), |file| file.carts.cart_age_max_ms.as_ref())?,
            guest_ttl_max_ms: self
                .within("carts.guest_ttl_max_ms", (1, year_ms), |file| file.carts.guest_ttl_max_ms.as_ref())?,
            guest_age_max_ms: self
                .within("carts.guest_age_max_ms", (1, year_ms), |file| file.carts.guest_age_max_ms.as_ref())?,
            grace_ms: self.within("carts.grace_ms", (1, DAY_MS), |file| file.carts.grace_ms.as_ref())?,
            confirm_ms: self.within("carts.confirm_ms", (1_000, year_ms), |file| file.carts.confirm_ms.as_ref())?,
            settle_ms: self.within("carts.settle_ms", (1, 60_000), |file| file.carts.settle_ms.as_ref())?,
            ask_again_ms: self.within("carts.ask_again_ms", (10, 60_000), |file| file.carts.ask_again_ms.as_ref())?,
            payment_wait_ms: self.within("payments.wait_ms", (1, 60_000), |file| file.payments.wait_ms.as_ref())?,
            payment_again_ms: self
                .within("payments.again_ms", (10, 600_000), |file| file.payments.again_ms.as_ref())?,
            on_decline: self.on_decline()?,
            // The node has its own default.
            gateway: Rules::default().gateway,
        })
    }

    fn budgets(&self, life_ms: u64) -> Result<BudgetConfig, ConfigError> {
        let number = |key: &str, get: fn(&File) -> Option<&Spanned<u32>>| {
            self.within(&format!("budgets.{key}"), (0, u32::MAX), get)
        };
        Ok(BudgetConfig {
            connections: number("connections", |file| file.budgets.connections.as_ref())?,
            requests_per_second: number("requests_per_second", |file| file.budgets.requests_per_second.as_ref())?,
            carts: number("carts", |file| file.budgets.carts.as_ref())?,
            node_carts: number("node_carts", |file| file.budgets.node_carts.as_ref())?,
            held: number("held", |file| file.budgets.held.as_ref())?,
            cart_held: number("cart_held", |file| file.budgets.cart_held.as_ref())?,
            seat_seconds: self
                .within("budgets.seat_seconds", (0, 1 << 50), |file| file.budgets.seat_seconds.as_ref())?,
            seat_seconds_per_second: number("seat_seconds_per_second", |file| {
                file.budgets.seat_seconds_per_second.as_ref()
            })?,
            life: Duration::from_millis(life_ms),
        })
    }

    fn listen(&self) -> Result<SocketAddr, ConfigError> {
        let (source, address) = self.find(|file| file.listen.address.as_ref());
        let given = address.get_ref();
        given.parse().map_err(|_| {
            source.wrong(address, format!("listen.address: {given:?} is not an address like 127.0.0.1:7180"))
        })
    }

    fn operators(&self) -> Result<Operators, ConfigError> {
        let (source, address) = self.find(|file| file.ops.listen.as_ref());
        parse_operators(address.get_ref()).map_err(|why| source.wrong(address, format!("ops.listen: {why}")))
    }

    fn origins(&self) -> Result<Vec<String>, ConfigError> {
        let (source, origins) = self.find(|file| file.listen.origins.as_ref());
        match origins.get_ref().iter().find(|origin| !is_origin(origin)) {
            None => Ok(origins.get_ref().clone()),
            Some(wrong) => {
                let what = format!(
                    "listen.origins: {wrong:?} is not an origin as browsers send it, like \"https://tickets.example\": \
                     scheme, host, perhaps a port, nothing behind them"
                );
                Err(source.wrong(origins, what))
            }
        }
    }

    fn fsync(&self) -> Result<Fsync, ConfigError> {
        let (source, word) = self.find(|file| file.log.fsync.as_ref());
        match word.get_ref().as_str() {
            "always" => Ok(Fsync::Always),
            "interval" => Ok(Fsync::Interval(
                self.within("log.fsync_interval_ms", (1, 60_000), |file| file.log.fsync_interval_ms.as_ref())?,
            )),
            "never" => Ok(Fsync::Never),
            other => {
                let what = format!("log.fsync: {other:?} is none of \"always\", \"interval\", \"never\"");
                Err(source.wrong(word, what))
            }
        }
    }

    /// The settings of load shedding.
    fn overload(&self) -> Result<OverloadSettings, ConfigError> {
        Ok(OverloadSettings {
            target_ms: self.within("overload.target_ms", (1, 10_000), |file| file.overload.target_ms.as_ref())?,
            sustain_ms: self.within("overload.sustain_ms", (100, 60_000), |file| file.overload.sustain_ms.as_ref())?,
            under_way_max: self.within("overload.under_way", (64, 1 << 20), |file| file.overload.under_way.as_ref())?,
        })
    }

    fn history_store(&self) -> Result<StoreSettings, ConfigError> {
        Ok(StoreSettings {
            cache_bytes: self
                .within("history.cache_bytes", (1 << 20, 1 << 36), |file| file.history.cache_bytes.as_ref())?,
            memtable_bytes: self
                .within("history.memtable_bytes", (1 << 20, 1 << 30), |file| file.history.memtable_bytes.as_ref())?,
        })
    }

    fn segment_bytes(&self) -> Result<u64, ConfigError> {
        let bytes = self.within("log.segment_bytes", (256 << 10, 1 << 30), |file| file.log.segment_bytes.as_ref())?;
        if !bytes.is_multiple_of(4096) {
            let (source, at) = self.find(|file| file.log.segment_bytes.as_ref());
            return Err(source.wrong(at, format!("log.segment_bytes: {bytes} is not a multiple of 4096")));
        }
        Ok(bytes)
    }
}

/// `auto`, or an address.
///
/// # Errors
/// The text is neither.
pub fn parse_operators(given: &str) -> Result<Operators, String> {
    match given {
        "auto" => Ok(Operators::Auto),
        _ => given
            .parse()
            .map(Operators::At)
            .map_err(|_| format!("{given:?} is neither \"auto\" nor an address like 127.0.0.1:7380")),
    }
}

/// Whether a browser would send this origin. Browsers write origins in lower case and without a path.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"/?#@,".contains(&byte);
        !host.is_empty() && host.bytes().all(allowed)
    })
}

fn is_fit_for_a_header(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use boxoffice_edge::Limits;

    use super::*;

    pub(super) fn refused(text: &str) -> String {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, text).expect("a written file");
        let error = Config::load(Some(&path)).expect_err("an invalid file").to_string();
        error.rsplit_once("b.toml: ").expect("the file is named").1.to_owned()
    }

    #[test]
    fn the_built_in_configuration_is_the_default() {
        let config = Config::load(None).expect("the built-in configuration is valid");
        let default = NodeConfig::default();
        assert_eq!(config.node.shards, default.shards);
        assert_eq!(*config.node.rules, Rules::default());
        assert_eq!(config.node.log_segment_bytes, default.log_segment_bytes);
        assert_eq!(config.node.history_store, default.history_store);
        assert_eq!(config.node.history_archive_bytes, default.history_archive_bytes);
        assert_eq!(config.listen.port(), 7180);
        assert_eq!(config.connections_max, Limits::default().connections_max);
    }

    #[test]
    fn origins_have_the_form_of_browsers() {
        assert!(Config::load(None).expect("the built-in configuration is valid").origins.is_empty());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        let text = "[listen]\norigins = [\"https://tickets.example\", \"http://localhost:3000\"]\n";
        fs::write(&path, text).expect("a written file");
        let config = Config::load(Some(&path)).expect("a valid file");
        assert_eq!(config.origins, ["https://tickets.example", "http://localhost:3000"]);
        for wrong in ["*", "tickets.example", "https://", "https://tickets.example/", "https://Tickets.example"] {
            let error = refused(&format!("[listen]\norigins = [\"http://a\", {wrong:?}]\n"));
            assert!(error.starts_with(&format!("line 2: listen.origins: {wrong:?} is not an origin")), "{error}");
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_key() {
        let unknown = refused("[node]\nid = 2\n\n[listen]\nadress = \"127.0.0.1:1\"\n");
        assert!(unknown.starts_with("line 5: unknown field `adress`"), "{unknown}");
        let range = refused("# mine\n[carts]\ngrace_ms = 0\n");
        assert_eq!(range, "line 3: carts.grace_ms: 0 is not within 1 and 86400000");
        let stuck = refused("[threads]\nstuck_ms = 999\n");
        assert_eq!(stuck, "line 2: threads.stuck_ms: 999 is neither 0 nor within 1000 and 86400000");
        let kind = refused("[node]\nshards = \"many\"\n");
        assert!(kind.starts_with("line 2: invalid type") && kind.contains("shards") || kind.contains("many"), "{kind}");
        let fsync = refused("[log]\nfsync = \"sometimes\"\n");
        assert!(fsync.starts_with("line 2: log.fsync: \"sometimes\" is none of"), "{fsync}");
        let negative = refused("[carts]\nhold_ttl_ms = -5\n");
        assert!(negative.starts_with("line 2: "), "{negative}");
        let replaced = refused("[limits]\nconnections = 9\nunder_way_per_shard = 64\n");
        assert_eq!(replaced, format!("line 3: {UNDER_WAY_PER_SHARD}"));
        let syntax = refused("[carts\n");
        assert!(syntax.starts_with("line 1: "), "{syntax}");
    }
}
