//! The configuration file: what may be set, what it is if it is not, and where a mistake stands.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use boxoffice_core::{cluster::NODE_MAX, payment::OnDecline, time::Rules};
use boxoffice_edge::PageConfig;
use boxoffice_node::{
    config::{Fsync, NodeConfig, PaymentConfig, Secret, WEBHOOK_SECRET_BYTES_MIN},
    gateway::GatewayConfig,
    world::StoreSettings,
};
use boxoffice_wire::customer::SECRET_BYTES_MIN;
use serde::Deserialize;
use toml::Spanned;

/// The configuration that is built in: what `boxoffice serve` does without a file.
pub const DEFAULT: &str = include_str!("../../../config/boxoffice.toml");

/// Why a configuration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there, or may not be read.
    #[error("{}: cannot be read: {error}", .file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}: line {line}: {what}", .file.display())]
    Wrong {
        /// Which file.
        file: PathBuf,
        /// Where, from 1.
        line: usize,
        /// Which key, and what is wrong with it.
        what: String,
    },
}

mod page;
mod peers;

pub use peers::{PeersConfig, PeersSaid};

use page::PageSection;
use peers::PeersSection;

/// The settings of `boxoffice serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the node.
    pub node: NodeConfig,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// What operators must show where anyone can connect.
    pub admin_token: Option<String>,
    /// What the tokens of customers are made with, if they have some.
    pub customer_secret: Option<Secret>,
    /// Pages that may connect; any if empty.
    pub origins: Vec<String>,
    /// The number this node wants in its cluster, if somebody said one.
    pub wanted_node: Option<u64>,
    /// What was said of other nodes so far.
    pub said: PeersSaid,
    /// How it speaks with other nodes, once all is said; it is alone without.
    pub peers: Option<PeersConfig>,
    /// Connections of clients at the same time.
    pub connections_max: usize,
    /// A file says so; else it may be less where there are few file descriptors.
    pub connections_said: bool,
    /// What the page is told.
    pub page: PageConfig,
    /// Threads of the selling runtime.
    pub selling_threads: usize,
    /// Threads of the watching runtime.
    pub watching_threads: usize,
    /// How much they give way to others, 0 to 19.
    pub watching_nice: i32,
}

/// A configuration file as it is written: every key may be absent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    node: NodeSection,
    listen: ListenSection,
    peers: PeersSection,
    log: LogSection,
    snapshots: SnapshotSection,
    history: HistorySection,
    carts: CartSection,
    limits: LimitSection,
    feeds: FeedSection,
    page: PageSection,
    payments: PaymentSection,
    threads: ThreadSection,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NodeSection {
    id: Option<Spanned<u64>>,
    data_dir: Option<Spanned<PathBuf>>,
    shards: Option<Spanned<u16>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ListenSection {
    address: Option<Spanned<String>>,
    admin_token: Option<Spanned<String>>,
    customer_secret: Option<Spanned<String>>,
    origins: Option<Spanned<Vec<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LogSection {
    fsync: Option<Spanned<String>>,
    fsync_interval_ms: Option<Spanned<u64>>,
    segment_bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SnapshotSection {
    entries: Option<Spanned<u64>>,
    bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HistorySection {
    cache_bytes: Option<Spanned<u64>>,
    memtable_bytes: Option<Spanned<u64>>,
    archive_bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CartSection {
    hold_ttl_ms: Option<Spanned<u64>>,
    hold_ttl_max_ms: Option<Spanned<u64>>,
    cart_age_max_ms: Option<Spanned<u64>>,
    grace_ms: Option<Spanned<u64>>,
    confirm_ms: Option<Spanned<u64>>,
    settle_ms: Option<Spanned<u64>>,
    ask_again_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitSection {
    connections: Option<Spanned<usize>>,
    under_way_per_shard: Option<Spanned<usize>>,
    actor_idle_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FeedSection {
    tick_ms: Option<Spanned<u64>>,
    ring: Option<Spanned<usize>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PaymentSection {
    url: Option<Spanned<String>>,
    timeout_ms: Option<Spanned<u64>>,
    under_way: Option<Spanned<usize>>,
    api_key: Option<Spanned<String>>,
    api_key_file: Option<Spanned<PathBuf>>,
    webhook_secret: Option<Spanned<OneOrMore>>,
    on_decline: Option<Spanned<String>>,
    wait_ms: Option<Spanned<u64>>,
    again_ms: Option<Spanned<u64>>,
}

/// A text, or a list of them.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ThreadSection {
    selling: Option<Spanned<usize>>,
    watching: Option<Spanned<usize>>,
    watching_nice: Option<Spanned<i32>>,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl Config {
    /// The built-in configuration, with what `file` says instead where it says something.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the line and the key.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        let mut sources = Vec::new();
        if let Some(path) = file {
            let text =
                fs::read_to_string(path).map_err(|error| ConfigError::Unreadable { file: path.to_owned(), error })?;
            sources.push(Source::read(path, text)?);
        }
        sources.push(Source::read(Path::new("built-in configuration"), DEFAULT.to_owned())?);
        Settings(sources).config()
    }
}

/// A file and its text, to say where something stands in it.
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

/// Files in order of precedence; the last one says everything.
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

    fn config(&self) -> Result<Config, ConfigError> {
        let (_, data_dir) = self.find(|file| file.node.data_dir.as_ref());
        let gateway = self.gateway()?;
        let page = self.page(gateway.is_some())?;
        Ok(Config {
            wanted_node: self.wanted_node(),
            said: self.peers()?,
            peers: None,
            node: NodeConfig {
                data_dir: data_dir.get_ref().clone(),
                node_id: self.within("node.id", (1, NODE_MAX), |file| file.node.id.as_ref())?,
                shards: self.within("node.shards", (1, 4_096), |file| file.node.shards.as_ref())?,
                fsync: self.fsync()?,
                log_segment_bytes: self.segment_bytes()?,
                snapshot_entries: self
                    .within("snapshots.entries", (10, 10_000_000), |file| file.snapshots.entries.as_ref())?,
                snapshot_bytes: self
                    .within("snapshots.bytes", (64 << 10, 1 << 40), |file| file.snapshots.bytes.as_ref())?,
                history_store: self.history_store()?,
                history_archive_bytes: self
                    .within("history.archive_bytes", (0, 1 << 50), |file| file.history.archive_bytes.as_ref())?,
                admission: self.within("limits.under_way_per_shard", (1, 1 << 20), |file| {
                    file.limits.under_way_per_shard.as_ref()
                })?,
                actor_idle_ms: self
                    .within("limits.actor_idle_ms", (10, DAY_MS), |file| file.limits.actor_idle_ms.as_ref())?,
                feed_tick_ms: self.within("feeds.tick_ms", (0, 10_000), |file| file.feeds.tick_ms.as_ref())?,
                feed_depth: self.within("feeds.ring", (1, 65_536), |file| file.feeds.ring.as_ref())?,
                rules: Arc::new(self.rules()?),
                payments: PaymentConfig { gateway, webhook_secrets: self.webhook_secrets()? },
                // What it is in its cluster is worked out when it starts.
                ..NodeConfig::default()
            },
            listen: self.listen()?,
            admin_token: self.admin_token()?,
            customer_secret: self.customer_secret()?,
            origins: self.origins()?,
            connections_max: self
                .within("limits.connections", (1, 1_000_000), |file| file.limits.connections.as_ref())?,
            connections_said: self.says(|file| file.limits.connections.is_some()),
            page,
            selling_threads: self.within("threads.selling", (0, 1_024), |file| file.threads.selling.as_ref())?,
            watching_threads: self.within("threads.watching", (1, 1_024), |file| file.threads.watching.as_ref())?,
            watching_nice: self.within("threads.watching_nice", (0, 19), |file| file.threads.watching_nice.as_ref())?,
        })
    }

    /// Whether a file says so, and not only the built-in configuration.
    fn says(&self, said: impl Fn(&File) -> bool) -> bool {
        let (_, files) = self.0.split_last().expect("the built-in configuration is there");
        files.iter().any(|source| said(&source.file))
    }

    /// The number of this node, if a file says one.
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
            grace_ms: self.within("carts.grace_ms", (1, DAY_MS), |file| file.carts.grace_ms.as_ref())?,
            confirm_ms: self.within("carts.confirm_ms", (1_000, year_ms), |file| file.carts.confirm_ms.as_ref())?,
            settle_ms: self.within("carts.settle_ms", (1, 60_000), |file| file.carts.settle_ms.as_ref())?,
            ask_again_ms: self.within("carts.ask_again_ms", (10, 60_000), |file| file.carts.ask_again_ms.as_ref())?,
            payment_wait_ms: self.within("payments.wait_ms", (1, 60_000), |file| file.payments.wait_ms.as_ref())?,
            payment_again_ms: self
                .within("payments.again_ms", (10, 600_000), |file| file.payments.again_ms.as_ref())?,
            on_decline: self.on_decline()?,
            // The node knows best whether it has one.
            gateway: Rules::default().gateway,
        })
    }

    fn on_decline(&self) -> Result<OnDecline, ConfigError> {
        let (source, word) = self.find(|file| file.payments.on_decline.as_ref());
        match word.get_ref().as_str() {
            "release" => Ok(OnDecline::Release),
            "keep" => Ok(OnDecline::Keep),
            other => {
                let what = format!("payments.on_decline: {other:?} is neither \"release\" nor \"keep\"");
                Err(source.wrong(word, what))
            }
        }
    }

    fn gateway(&self) -> Result<Option<GatewayConfig>, ConfigError> {
        let timeout_ms = self.within("payments.timeout_ms", (1, 600_000), |file| file.payments.timeout_ms.as_ref())?;
        let concurrency = self.within("payments.under_way", (1, 65_536), |file| file.payments.under_way.as_ref())?;
        let (source, url) = self.find(|file| file.payments.url.as_ref());
        let api_key = self.api_key()?;
        if url.get_ref().is_empty() {
            return Ok(None);
        }
        let parsed = url.get_ref().parse();
        let parsed =
            parsed.map_err(|error| source.wrong(url, format!("payments.url: {:?}: {error}", url.get_ref())))?;
        Ok(Some(GatewayConfig { url: parsed, timeout_ms, api_key, concurrency }))
    }

    fn api_key(&self) -> Result<Option<Secret>, ConfigError> {
        let (source, key) = self.find(|file| file.payments.api_key.as_ref());
        let (file_source, file) = self.find(|file| file.payments.api_key_file.as_ref());
        let path = file.get_ref();
        if path.as_os_str().is_empty() {
            if !is_fit_for_a_header(key.get_ref()) {
                return Err(source.wrong(key, "payments.api_key: only visible ASCII characters can be shown".into()));
            }
            return Ok(Some(key.get_ref()).filter(|key| !key.is_empty()).cloned().map(Secret));
        }
        if !key.get_ref().is_empty() {
            let what = "payments.api_key_file: payments.api_key is set as well; one of them";
            return Err(file_source.wrong(file, what.into()));
        }
        let wrong = |why: &str| file_source.wrong(file, format!("payments.api_key_file: {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        match text.trim() {
            "" => Err(wrong("it is empty")),
            key if is_fit_for_a_header(key) => Ok(Some(Secret(key.to_owned()))),
            _ => Err(wrong("only visible ASCII characters, on one line, can be shown")),
        }
    }

    fn webhook_secrets(&self) -> Result<Vec<Secret>, ConfigError> {
        let (source, secret) = self.find(|file| file.payments.webhook_secret.as_ref());
        let secrets = match secret.get_ref().clone() {
            OneOrMore::One(none) if none.is_empty() => Vec::new(),
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        };
        let what = if secrets.len() > WEBHOOK_SECRETS_MAX {
            format!("at most {WEBHOOK_SECRETS_MAX} of them")
        } else if secrets.iter().any(|secret| secret.len() < WEBHOOK_SECRET_BYTES_MIN) {
            format!("at least {WEBHOOK_SECRET_BYTES_MIN} characters, or empty for none")
        } else {
            return Ok(secrets.into_iter().map(Secret).collect());
        };
        Err(source.wrong(secret, format!("payments.webhook_secret: {what}")))
    }

    fn listen(&self) -> Result<SocketAddr, ConfigError> {
        let (source, address) = self.find(|file| file.listen.address.as_ref());
        let given = address.get_ref();
        given.parse().map_err(|_| {
            source.wrong(address, format!("listen.address: {given:?} is not an address like 127.0.0.1:7180"))
        })
    }

    fn admin_token(&self) -> Result<Option<String>, ConfigError> {
        let (source, token) = self.find(|file| file.listen.admin_token.as_ref());
        match token.get_ref().len() {
            0 => Ok(None),
            1..16 => Err(source.wrong(token, "listen.admin_token: at least 16 characters, or empty for none".into())),
            16.. => Ok(Some(token.get_ref().clone())),
        }
    }

    fn customer_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let (source, secret) = self.find(|file| file.listen.customer_secret.as_ref());
        match secret.get_ref().len() {
            0 => Ok(None),
            1..SECRET_BYTES_MIN => {
                let what = format!("listen.customer_secret: at least {SECRET_BYTES_MIN} characters, or empty for none");
                Err(source.wrong(secret, what))
            }
            SECRET_BYTES_MIN.. => Ok(Some(Secret(secret.get_ref().clone()))),
        }
    }

    fn origins(&self) -> Result<Vec<String>, ConfigError> {
        let (source, origins) = self.find(|file| file.listen.origins.as_ref());
        match origins.get_ref().iter().find(|origin| !is_origin(origin)) {
            None => Ok(origins.get_ref().clone()),
            Some(wrong) => {
                let what = format!(
                    "listen.origins: {wrong:?} is not an origin as browsers say it, like \"https://tickets.example\": \
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

/// Secrets of webhooks at the same time: one that goes, one that comes, and no more hashing than that for a forged one.
const WEBHOOK_SECRETS_MAX: usize = 4;

/// Browsers write origins in lower case and without a path; another spelling would never be met.
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
        let error = Config::load(Some(&path)).expect_err("this file is wrong").to_string();
        error.rsplit_once("b.toml: ").expect("the file is named").1.to_owned()
    }

    #[test]
    fn the_built_in_configuration_is_the_default() {
        let config = Config::load(None).expect("the built-in configuration is right");
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
    fn origins_are_as_browsers_say_them() {
        assert!(Config::load(None).expect("the built-in configuration is right").origins.is_empty());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        let text = "[listen]\norigins = [\"https://tickets.example\", \"http://localhost:3000\"]\n";
        fs::write(&path, text).expect("a written file");
        let config = Config::load(Some(&path)).expect("this file is right");
        assert_eq!(config.origins, ["https://tickets.example", "http://localhost:3000"]);
        for wrong in ["*", "tickets.example", "https://", "https://tickets.example/", "https://Tickets.example"] {
            let said = refused(&format!("[listen]\norigins = [\"http://a\", {wrong:?}]\n"));
            assert!(said.starts_with(&format!("line 2: listen.origins: {wrong:?} is not an origin")), "{said}");
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_key() {
        let unknown = refused("[node]\nid = 2\n\n[listen]\nadress = \"127.0.0.1:1\"\n");
        assert!(unknown.starts_with("line 5: unknown field `adress`"), "{unknown}");
        let range = refused("# mine\n[carts]\ngrace_ms = 0\n");
        assert_eq!(range, "line 3: carts.grace_ms: 0 is not within 1 and 86400000");
        let kind = refused("[node]\nshards = \"many\"\n");
        assert!(kind.starts_with("line 2: invalid type") && kind.contains("shards") || kind.contains("many"), "{kind}");
        let fsync = refused("[log]\nfsync = \"sometimes\"\n");
        assert!(fsync.starts_with("line 2: log.fsync: \"sometimes\" is none of"), "{fsync}");
        let negative = refused("[carts]\nhold_ttl_ms = -5\n");
        assert!(negative.starts_with("line 2: "), "{negative}");
        let syntax = refused("[carts\n");
        assert!(syntax.starts_with("line 1: "), "{syntax}");
    }

    fn payments(text: &str) -> Config {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        fs::write(&path, format!("[payments]\n{text}")).expect("a written file");
        Config::load(Some(&path)).expect("this file is right")
    }

    #[test]
    fn payments_are_recorded_only_if_nothing_is_said() {
        let config = Config::load(None).expect("the built-in configuration is right");
        assert!(config.node.payments.gateway.is_none());
        assert!(config.node.payments.webhook_secrets.is_empty());
        assert_eq!(config.node.rules.on_decline, OnDecline::Release);
    }

    #[test]
    fn a_gateway_with_everything() {
        let secrets = "webhook_secret = [\"the-new-secret-of-1\", \"the-old-secret-of-1\"]";
        let url = "url = \"https://pay.example/v1/\"\ntimeout_ms = 700\nunder_way = 9\non_decline = \"keep\"";
        let config = payments(&format!("{url}\n{secrets}\napi_key = \"k-1\"\nwait_ms = 5\nagain_ms = 50\n"));
        let gateway = config.node.payments.gateway.expect("a gateway");
        assert_eq!(gateway.url.to_string(), "https://pay.example/v1");
        assert_eq!((gateway.timeout_ms, gateway.concurrency), (700, 9));
        assert_eq!(gateway.api_key, Some(Secret("k-1".into())));
        assert_eq!(config.node.payments.webhook_secrets.len(), 2);
        let rules = &config.node.rules;
        assert_eq!((rules.on_decline, rules.payment_wait_ms, rules.payment_again_ms), (OnDecline::Keep, 5, 50));
        let shown = format!("{:?} {:?}", gateway.api_key, config.node.payments.webhook_secrets);
        assert!(!shown.contains("k-1") && !shown.contains("secret-of-1"), "{shown}");
    }

    #[test]
    fn a_key_from_a_file_is_trimmed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let key = dir.path().join("key");
        fs::write(&key, "k-from-a-file\n").expect("a written file");
        let config = payments(&format!("url = \"http://127.0.0.1:1\"\napi_key_file = {key:?}\n"));
        let gateway = config.node.payments.gateway.expect("a gateway");
        assert_eq!(gateway.api_key, Some(Secret("k-from-a-file".into())));
        fs::write(&key, "two\nlines\n").expect("a written file");
        let two = refused(&format!("[payments]\napi_key_file = {key:?}\n"));
        assert!(two.starts_with("line 2: payments.api_key_file: ") && two.contains("on one line"), "{two}");
    }

    #[test]
    fn mistakes_about_payments_are_named_with_line_and_key() {
        for (text, expected) in [
            (
                "url = \"pay.example\"",
                "payments.url: \"pay.example\": it is not an address like https://pay.example/v1",
            ),
            ("url = \"ftp://a\"", "payments.url: \"ftp://a\": it begins with neither http:// nor https://"),
            ("timeout_ms = 0", "payments.timeout_ms: 0 is not within 1 and 600000"),
            ("under_way = 0", "payments.under_way: 0 is not within 1 and 65536"),
            ("on_decline = \"forget\"", "payments.on_decline: \"forget\" is neither \"release\" nor \"keep\""),
            ("webhook_secret = \"short\"", "payments.webhook_secret: at least 16 characters, or empty for none"),
            ("webhook_secret = [\"\"]", "payments.webhook_secret: at least 16 characters, or empty for none"),
            ("webhook_secret = [\"\", \"\", \"\", \"\", \"\"]", "payments.webhook_secret: at most 4 of them"),
            ("webhook_secret = 5", "a text or a list of texts"),
            ("api_key = \"a b\"", "payments.api_key: only visible ASCII characters can be shown"),
            ("api_key_file = \"/nowhere/key\"", "payments.api_key_file: /nowhere/key: cannot be read: "),
            ("api_key_file = \"k\"\napi_key = \"k\"", "payments.api_key_file: payments.api_key is set as well"),
            ("secret = \"x\"", "unknown field `secret`"),
        ] {
            let said = refused(&format!("# mine\n[payments]\n{text}\n"));
            assert!(said.starts_with(&format!("line 3: {expected}")), "{text}: {said}");
        }
    }
}
