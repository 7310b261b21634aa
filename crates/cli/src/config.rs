//! The configuration: files, the built-in defaults, and errors with their lines.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use boxoffice_core::{cluster::NODE_MAX, fairness::Fairness, rules::Rules};
use boxoffice_edge::{EdgeConfig, Limits, TlsFiles, budgets::BudgetConfig};
use boxoffice_env::{StoreSettings, secret::Secret};
use boxoffice_node::{
    admission::OverloadSettings,
    config::{NodeConfig, ReplicationConfig},
};
use boxoffice_payment::GatewayConfig;
use boxoffice_storage::{fsync::Fsync, snapshot_files::KeepRule};
use serde::Deserialize;

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

mod page;
mod payments;
mod peers;
mod secrets;
mod source;
mod web;

pub use peers::{PeerSettings, PeersConfig};
pub(crate) use secrets::{admin_token_rule, is_admin_token, read_secret_file};
pub use web::check_url;

use source::Settings;

/// Keys whose values are checked when the node starts, by what they name.
pub const PLACED: [&str; 4] = ["page.products", "page.resources", "listen.tls_certificate", "listen.tls_key"];

/// The settings of `boxoffice serve`.
#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeConfig,
    /// The ports. The operators' address, the certificate and the limits that depend on file descriptors are set at the start.
    pub edge: EdgeConfig,
    pub operators: Operators,
    /// The payment gateway. `None` if payments are only recorded.
    pub gateway: Option<GatewayConfig>,
    /// The number this node wants in its cluster, if one is configured.
    pub wanted_node: Option<u64>,
    /// The settings of `[peers]`, before they are validated.
    pub peer_settings: PeerSettings,
    /// A key with the role admin, shown to the cluster that the node joins.
    pub join_key: Option<Secret>,
    /// A file of the authorities of certificates that the cluster shows which the node joins.
    pub join_ca: Option<PathBuf>,
    /// The validated settings of `[peers]`. `None` for a node that is alone.
    pub peers: Option<PeersConfig>,
    /// Whether a file sets the maximum of connections. Otherwise it may be lower if there are few file descriptors.
    pub connections_configured: bool,
    /// The certificate of the client port and its key, if it speaks TLS.
    pub tls: Option<TlsFiles>,
    /// Where a file sets the keys of [`PLACED`]: `FILE: line LINE: `.
    pub places: BTreeMap<&'static str, String>,
    /// How long the ports serve after `/readyz` has begun to fail.
    pub drain: Duration,
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

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// The longest time that is set in hours: a year.
const HOURS_MAX: u64 = 365 * 24;

/// The maximum of `listen.drain_ms`.
const DRAIN_MS_MAX: u64 = 600_000;

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
        let read = |path: &Path| match fs::read_to_string(path) {
            Ok(text) => Ok((path.to_owned(), text)),
            Err(error) => Err(ConfigError::Unreadable { file: path.to_owned(), error }),
        };
        let files = files.iter().rev().map(|file| read(file.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Settings::parse(&files)?.config()
    }
}

impl Settings<'_> {
    fn config(&self) -> Result<Config, ConfigError> {
        let gateway = self.gateway()?;
        let rules = self.rules()?;
        let edge = self.edge(gateway.is_some(), rules.hold_ttl_ms.min(rules.guest_ttl_max_ms))?;
        Ok(Config {
            wanted_node: self.place("node.id").map(|_| self.get("node.id")).transpose()?,
            peer_settings: self.peers()?,
            join_key: None,
            join_ca: None,
            peers: None,
            node: self.node(rules)?,
            edge,
            operators: self.operators()?,
            gateway,
            connections_configured: self.place("limits.connections").is_some(),
            tls: self.tls()?,
            places: PLACED.into_iter().filter_map(|key| Some((key, self.place(key)?))).collect(),
            drain: Duration::from_millis(self.within("listen.drain_ms", 0..=DRAIN_MS_MAX)?),
            selling_threads: self.within("threads.selling", 0..=1_024)?,
            watching_threads: self.within("threads.watching", 1..=1_024)?,
            watching_nice: self.within("threads.watching_nice", 0..=19)?,
            stuck: self.stuck()?,
        })
    }

    fn node(&self, rules: Rules) -> Result<NodeConfig, ConfigError> {
        Ok(NodeConfig {
            replication: ReplicationConfig {
                data_dir: self.get("node.data_dir")?,
                node_id: self.within("node.id", 1..=NODE_MAX)?,
                shards: self.within("node.shards", 1..=4_096)?,
                replicators: self.replicators()?,
                fsync: self.fsync()?,
                log_segment_bytes: self.segment_bytes()?,
                snapshot_entries: self.within("snapshots.entries", 10..=10_000_000)?,
                snapshot_bytes: self.within("snapshots.bytes", 64 << 10..=1 << 40)?,
                history_store: self.history_store()?,
                scrub_ms: self.hours_or_never("repair.scrub_hours")?,
                history_archive_bytes: self.within("history.archive_bytes", 0..=1 << 50)?,
                kept_snapshots: KeepRule {
                    every_ms: self.within::<u64>("history.snapshot_hours", 0..=24 * 366)? * HOUR_MS,
                    count_max: self.within("history.snapshots", 0..=10_000)?,
                },
                ..ReplicationConfig::default()
            },
            upgrade_settle_ms: self.upgrade_settle_ms()?,
            mark_ms: self.within("backup.mark_ms", 0..=DAY_MS)?,
            backup_mb_s: self.within("backup.mb_s", 1..=100_000)?,
            repair_rest_ms: self.within("repair.rest_hours", 0..=HOURS_MAX)? * HOUR_MS,
            overload: self.overload()?,
            actor_idle_ms: self.within("limits.actor_idle_ms", 10..=DAY_MS)?,
            feed_tick_ms: self.within("feeds.tick_ms", 0..=10_000)?,
            feed_depth: self.within("feeds.ring", 1..=65_536)?,
            rules: Arc::new(rules),
            // The identity in the cluster is set at the start.
            ..NodeConfig::default()
        })
    }

    /// The ports, of a node where carts without the role `desk` live at most `life_ms`.
    fn edge(&self, has_gateway: bool, life_ms: u64) -> Result<EdgeConfig, ConfigError> {
        let recorded_by_anyone = self.recorded_by_anyone()?;
        Ok(EdgeConfig {
            listen: self.listen()?,
            operators: None,
            admin_token: self.admin_token()?,
            anonymous: self.anonymous(has_gateway, recorded_by_anyone)?,
            recorded_by_anyone,
            customer_secret: self.customer_secret()?,
            code_secret: self.code_secret()?,
            webhook_secrets: self.webhook_secrets()?,
            // It is set at the start.
            holder_secret: None,
            token_keys: self.token_keys()?,
            origins: self.origins()?,
            limits: Limits {
                connections_max: self.within("limits.connections", 1..=1_000_000)?,
                frame_bytes_max: self.within("limits.frame_bytes", 1 << 20..=1 << 40)?,
                unsent_bytes_max: self.unsent_bytes()?,
                handshake_percent: self.within("limits.handshake_percent", 0..=6_400)?,
                ..Limits::default()
            },
            budgets: self.budgets(life_ms)?,
            page: self.page(has_gateway)?,
            web: self.web()?,
        })
    }

    /// The number of replicators: a quarter of the cores, and at least one.
    fn replicators(&self) -> Result<usize, ConfigError> {
        Ok(match self.within("threads.replicating", 0..=256)? {
            0 => thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1)),
            set => set,
        })
    }

    /// The bound of unread answers. 0 is none.
    fn unsent_bytes(&self) -> Result<u64, ConfigError> {
        match self.within("limits.unsent_bytes", 0..=1 << 40)? {
            bytes if (1..1 << 20).contains(&bytes) => {
                let unsent = self.find::<u64>("limits.unsent_bytes")?;
                Err(unsent.wrong(format!("{bytes} is neither 0 nor at least 1 MiB")))
            }
            bytes => Ok(bytes),
        }
    }

    fn stuck(&self) -> Result<Option<Duration>, ConfigError> {
        let stuck = self.find("threads.stuck_ms")?;
        match stuck.value {
            0 => Ok(None),
            ms if (1_000..=DAY_MS).contains(&ms) => Ok(Some(Duration::from_millis(ms))),
            ms => Err(stuck.wrong(format!("{ms} is neither 0 nor within 1000 and {DAY_MS}"))),
        }
    }

    fn rules(&self) -> Result<Rules, ConfigError> {
        let year_ms = 366 * DAY_MS;
        Ok(Rules {
            hold_ttl_ms: self.within("carts.hold_ttl_ms", 1..=year_ms)?,
            hold_ttl_max_ms: self.hold_ttl_max_ms(year_ms)?,
            cart_age_max_ms: self.within("carts.cart_age_max_ms", 1..=year_ms)?,
            guest_ttl_max_ms: self.within("carts.guest_ttl_max_ms", 1..=year_ms)?,
            guest_age_max_ms: self.within("carts.guest_age_max_ms", 1..=year_ms)?,
            grace_ms: self.within("carts.grace_ms", 1..=DAY_MS)?,
            confirm_ms: self.within("carts.confirm_ms", 1_000..=year_ms)?,
            settle_ms: self.within("carts.settle_ms", 1..=60_000)?,
            ask_again_ms: self.within("carts.ask_again_ms", 10..=60_000)?,
            payment_wait_ms: self.within("payments.wait_ms", 1..=60_000)?,
            payment_again_ms: self.within("payments.again_ms", 10..=600_000)?,
            on_decline: self.on_decline()?,
            // The node has its own default.
            gateway: Rules::default().gateway,
            // The shards say it.
            payment_epoch: 0,
            fairness: self.fairness()?,
        })
    }

    /// The longest time to live that a client may ask for. The usual one is not longer.
    fn hold_ttl_max_ms(&self, year_ms: u64) -> Result<u64, ConfigError> {
        let most = self.within("carts.hold_ttl_max_ms", 1..=year_ms)?;
        let usual = self.find::<u64>("carts.hold_ttl_ms")?;
        if usual.value <= most {
            return Ok(most);
        }
        let given = usual.value;
        // The key that a file sets is to blame, and not the built-in one.
        Err(match self.place("carts.hold_ttl_ms") {
            Some(_) => usual.wrong(format!(
                "{given} is more than carts.hold_ttl_max_ms = {most}; lower the one or raise the other"
            )),
            None => self
                .find::<u64>("carts.hold_ttl_max_ms")?
                .wrong(format!("{most} is less than carts.hold_ttl_ms = {given}; lower the one or raise the other")),
        })
    }

    fn fairness(&self) -> Result<Fairness, ConfigError> {
        Ok(Fairness {
            floor: self.within("fairness.floor", 0..=1_000_000)?,
            free_part: self.within("fairness.free_part", 0..=1_000_000)?,
            whole_part: self.within("fairness.whole_part", 0..=1_000_000)?,
            whole_seconds: self.within("fairness.whole_seconds", 0..=1_000_000)?,
            seat_seconds: self.within("fairness.seat_seconds", 0..=100_000_000)?,
            bonus_seconds: self.within("fairness.bonus_seconds", 0..=1_000_000)?,
            life_min_ms: self.within("fairness.life_min_ms", 1_000..=DAY_MS)?,
        })
    }

    fn budgets(&self, life_ms: u64) -> Result<BudgetConfig, ConfigError> {
        Ok(BudgetConfig {
            connections: self.get("budgets.connections")?,
            connections_per_second: self.get("budgets.connections_per_second")?,
            handshakes_per_second: self.get("budgets.handshakes_per_second")?,
            requests_per_second: self.get("budgets.requests_per_second")?,
            carts: self.get("budgets.carts")?,
            node_carts: self.get("budgets.node_carts")?,
            held: self.get("budgets.held")?,
            cart_held: self.get("budgets.cart_held")?,
            seat_seconds: self.within("budgets.seat_seconds", 0..=1 << 50)?,
            seat_seconds_per_second: self.get("budgets.seat_seconds_per_second")?,
            life: Duration::from_millis(life_ms),
        })
    }

    fn listen(&self) -> Result<SocketAddr, ConfigError> {
        let address = self.find::<String>("listen.address")?;
        let given = &address.value;
        given.parse().map_err(|_| address.wrong(format!("{given:?} is not an address like 127.0.0.1:7180")))
    }

    fn operators(&self) -> Result<Operators, ConfigError> {
        let address = self.find::<String>("ops.listen")?;
        parse_operators(&address.value).map_err(|why| address.wrong(why))
    }

    fn origins(&self) -> Result<Vec<String>, ConfigError> {
        let origins = self.find::<Vec<String>>("listen.origins")?;
        match origins.value.iter().find(|origin| !is_origin(origin)) {
            None => Ok(origins.value),
            Some(wrong) => Err(origins.wrong(format!(
                "{wrong:?} is not an origin as browsers send it, like \"https://tickets.example\": scheme, host, perhaps a \
                 port, nothing behind them"
            ))),
        }
    }

    fn fsync(&self) -> Result<Fsync, ConfigError> {
        let interval = Fsync::Interval(self.get("log.fsync_interval_ms")?);
        let words = [("always", Fsync::Always), ("interval", interval), ("never", Fsync::Never)];
        let fsync = self.find("log.fsync")?.one_of(&words)?;
        if fsync == interval {
            self.within("log.fsync_interval_ms", 1..=60_000)?;
        }
        Ok(fsync)
    }

    /// How long every member must have had a newer program until the version of the cluster is raised by itself.
    fn upgrade_settle_ms(&self) -> Result<Option<u64>, ConfigError> {
        self.hours_or_never("upgrade.settle_hours")
    }

    /// A time of up to a year, in milliseconds. `None` for "never".
    fn hours_or_never(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Time {
            Hours(u64),
            Word(String),
        }
        let time = self.find::<Time>(key)?;
        match &time.value {
            Time::Hours(hours @ 0..=HOURS_MAX) => Ok(Some(hours * HOUR_MS)),
            Time::Word(word) if word == "never" => Ok(None),
            Time::Hours(_) | Time::Word(_) => {
                Err(time.wrong(format!("it is neither \"never\" nor hours within 0 and {HOURS_MAX}")))
            }
        }
    }

    /// The settings of load shedding.
    fn overload(&self) -> Result<OverloadSettings, ConfigError> {
        Ok(OverloadSettings {
            target_ms: self.within("overload.target_ms", 1..=10_000)?,
            sustain_ms: self.within("overload.sustain_ms", 100..=60_000)?,
            under_way_max: self.within("overload.under_way", 64..=1 << 20)?,
        })
    }

    fn history_store(&self) -> Result<StoreSettings, ConfigError> {
        Ok(StoreSettings {
            cache_bytes: self.within("history.cache_bytes", 1 << 20..=1 << 36)?,
            memtable_bytes: self.within("history.memtable_bytes", 1 << 20..=1 << 30)?,
        })
    }

    fn segment_bytes(&self) -> Result<u64, ConfigError> {
        let bytes = self.within::<u64>("log.segment_bytes", 256 << 10..=1 << 30)?;
        if !bytes.is_multiple_of(4096) {
            let segment_bytes = self.find::<u64>("log.segment_bytes")?;
            return Err(segment_bytes.wrong(format!("{bytes} is not a multiple of 4096")));
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

#[cfg(test)]
mod tests {
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
        assert_eq!(config.node.replication.shards, default.replication.shards);
        assert_eq!(*config.node.rules, Rules::default());
        assert_eq!(config.node.replication.log_segment_bytes, default.replication.log_segment_bytes);
        assert_eq!(config.node.replication.history_store, default.replication.history_store);
        assert_eq!(config.node.replication.history_archive_bytes, default.replication.history_archive_bytes);
        assert_eq!(config.node.replication.kept_snapshots, default.replication.kept_snapshots);
        assert_eq!(config.edge.listen.port(), 7180);
        assert_eq!(config.edge.limits.connections_max, Limits::default().connections_max);
    }

    #[test]
    fn origins_have_the_form_of_browsers() {
        assert!(Config::load(None).expect("the built-in configuration is valid").edge.origins.is_empty());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        let text = "[listen]\norigins = [\"https://tickets.example\", \"http://localhost:3000\"]\n";
        fs::write(&path, text).expect("a written file");
        let config = Config::load(Some(&path)).expect("a valid file");
        assert_eq!(config.edge.origins, ["https://tickets.example", "http://localhost:3000"]);
        for wrong in ["*", "tickets.example", "https://", "https://tickets.example/", "https://Tickets.example"] {
            let error = refused(&format!("[listen]\norigins = [\"http://a\", {wrong:?}]\n"));
            assert!(error.starts_with(&format!("line 2: listen.origins: {wrong:?} is not an origin")), "{error}");
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_key() {
        let unknown = refused("[node]\nid = 2\n\n[listen]\nadress = \"127.0.0.1:1\"\n");
        assert!(
            unknown.starts_with("line 5: unknown field `adress`; did you mean `address`? Expected one of"),
            "{unknown}"
        );
        let section = refused("[cart]\n");
        assert!(section.starts_with("line 1: unknown field `cart`; did you mean `carts`?"), "{section}");
        for bare in ["127.0.0.1:7180", "localhost", "0.0.0.0:80 # here"] {
            let bare = refused(&format!("[listen]\naddress = {bare}\n"));
            let hint = "(at `address`): a text stands in quotes, as in address = \"VALUE\"";
            assert!(bare.starts_with("line 2: ") && bare.ends_with(hint), "{bare}");
        }
        let elsewhere = refused("[listen]\ngrace_ms = 1\n");
        assert!(elsewhere.starts_with("line 2: unknown field `grace_ms`; it belongs to `[carts]`"), "{elsewhere}");
        let strange = refused("[listen]\ntitle = 1\n");
        assert!(strange.starts_with("line 2: unknown field `title`, expected one of"), "{strange}");
        let range = refused("# mine\n[carts]\ngrace_ms = 0\n");
        assert_eq!(range, "line 3: carts.grace_ms: 0 is not within 1 and 86400000");
        let stuck = refused("[threads]\nstuck_ms = 999\n");
        assert_eq!(stuck, "line 2: threads.stuck_ms: 999 is neither 0 nor within 1000 and 86400000");
        let usual = "[carts]\nhold_ttl_max_ms = 1000\nhold_ttl_ms = 1001\n";
        let longer = "line 3: carts.hold_ttl_ms: 1001 is more than carts.hold_ttl_max_ms = 1000; lower the one or raise the other";
        assert_eq!(refused(usual), longer);
        let shorter = refused("[carts]\nhold_ttl_max_ms = 1000\n");
        assert!(shorter.starts_with("line 2: carts.hold_ttl_max_ms: 1000 is less than carts.hold_ttl_ms"), "{shorter}");
        let kind = refused("[node]\nshards = \"many\"\n");
        assert!(
            kind.starts_with("line 2: invalid type: string \"many\", expected a whole number from 0 to 65535"),
            "{kind}"
        );
        let fsync = refused("[log]\nfsync = \"sometimes\"\n");
        assert!(fsync.starts_with("line 2: log.fsync: \"sometimes\" is none of"), "{fsync}");
        let negative = refused("[carts]\nhold_ttl_ms = -5\n");
        assert!(negative.starts_with("line 2: "), "{negative}");
        let replaced = refused("[limits]\nconnections = 9\nunder_way_per_shard = 64\n");
        assert_eq!(replaced, format!("line 3: {}", source::UNDER_WAY_PER_SHARD));
        let syntax = refused("[carts\n");
        assert!(syntax.starts_with("line 1: "), "{syntax}");
    }
}
