//! The configuration file: what may be set, what it is if it is not, and where a mistake stands.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use boxoffice_core::time::Rules;
use boxoffice_node::{
    config::{Fsync, NodeConfig},
    world::StoreSettings,
};
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

/// The settings of `boxoffice serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the node.
    pub node: NodeConfig,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// What operators must show where anyone can connect.
    pub admin_token: Option<String>,
    /// Threads of the selling runtime.
    pub selling_threads: usize,
    /// Threads of the watching runtime.
    pub watching_threads: usize,
}

/// A configuration file as it is written: every key may be absent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    node: NodeSection,
    listen: ListenSection,
    log: LogSection,
    snapshots: SnapshotSection,
    history: HistorySection,
    carts: CartSection,
    limits: LimitSection,
    feeds: FeedSection,
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
    settle_ms: Option<Spanned<u64>>,
    ask_again_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitSection {
    under_way_per_shard: Option<Spanned<usize>>,
    actor_idle_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FeedSection {
    tick_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ThreadSection {
    selling: Option<Spanned<usize>>,
    watching: Option<Spanned<usize>>,
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
        Ok(Config {
            node: NodeConfig {
                data_dir: data_dir.get_ref().clone(),
                node_id: self.within("node.id", (1, 1 << 32), |file| file.node.id.as_ref())?,
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
                rules: Arc::new(self.rules()?),
            },
            listen: self.listen()?,
            admin_token: self.admin_token()?,
            selling_threads: self.within("threads.selling", (0, 1_024), |file| file.threads.selling.as_ref())?,
            watching_threads: self.within("threads.watching", (1, 1_024), |file| file.threads.watching.as_ref())?,
        })
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
            settle_ms: self.within("carts.settle_ms", (1, 60_000), |file| file.carts.settle_ms.as_ref())?,
            ask_again_ms: self.within("carts.ask_again_ms", (10, 60_000), |file| file.carts.ask_again_ms.as_ref())?,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
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
}
