//! The sections of a configuration file.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::{page::PageSection, payments::PaymentSection, peers::PeersSection, secrets::TokenKeySection};

/// A configuration file. Every key may be absent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) node: NodeSection,
    pub(super) listen: ListenSection,
    pub(super) ops: OpsSection,
    pub(super) peers: PeersSection,
    pub(super) log: LogSection,
    pub(super) snapshots: SnapshotSection,
    pub(super) history: HistorySection,
    pub(super) carts: CartSection,
    pub(super) limits: LimitSection,
    pub(super) overload: OverloadSection,
    pub(super) budgets: BudgetSection,
    pub(super) feeds: FeedSection,
    pub(super) page: PageSection,
    pub(super) payments: PaymentSection,
    pub(super) threads: ThreadSection,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NodeSection {
    pub(super) id: Option<Spanned<u64>>,
    pub(super) data_dir: Option<Spanned<PathBuf>>,
    pub(super) shards: Option<Spanned<u16>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListenSection {
    pub(super) address: Option<Spanned<String>>,
    pub(super) anonymous: Option<Spanned<String>>,
    pub(super) admin_token: Option<Spanned<String>>,
    pub(super) admin_token_file: Option<Spanned<PathBuf>>,
    pub(super) customer_secret: Option<Spanned<String>>,
    pub(super) customer_secret_file: Option<Spanned<PathBuf>>,
    pub(super) token_keys: Option<Spanned<Vec<Spanned<TokenKeySection>>>>,
    pub(super) token_audience: Option<Spanned<String>>,
    pub(super) origins: Option<Spanned<Vec<String>>>,
    pub(super) public_url: Option<Spanned<String>>,
    pub(super) advertise: Option<Spanned<String>>,
    pub(super) tls_certificate: Option<Spanned<PathBuf>>,
    pub(super) tls_key: Option<Spanned<PathBuf>>,
    pub(super) hsts_s: Option<Spanned<u64>>,
    pub(super) proxies: Option<Spanned<Vec<String>>>,
    pub(super) proxy_header: Option<Spanned<String>>,
    pub(super) drain_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OpsSection {
    pub(super) listen: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogSection {
    pub(super) fsync: Option<Spanned<String>>,
    pub(super) fsync_interval_ms: Option<Spanned<u64>>,
    pub(super) segment_bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SnapshotSection {
    pub(super) entries: Option<Spanned<u64>>,
    pub(super) bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HistorySection {
    pub(super) cache_bytes: Option<Spanned<u64>>,
    pub(super) memtable_bytes: Option<Spanned<u64>>,
    pub(super) archive_bytes: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CartSection {
    pub(super) hold_ttl_ms: Option<Spanned<u64>>,
    pub(super) hold_ttl_max_ms: Option<Spanned<u64>>,
    pub(super) cart_age_max_ms: Option<Spanned<u64>>,
    pub(super) guest_ttl_max_ms: Option<Spanned<u64>>,
    pub(super) guest_age_max_ms: Option<Spanned<u64>>,
    pub(super) grace_ms: Option<Spanned<u64>>,
    pub(super) confirm_ms: Option<Spanned<u64>>,
    pub(super) settle_ms: Option<Spanned<u64>>,
    pub(super) ask_again_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitSection {
    pub(super) connections: Option<Spanned<usize>>,
    pub(super) frame_bytes: Option<Spanned<u64>>,
    pub(super) actor_idle_ms: Option<Spanned<u64>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OverloadSection {
    pub(super) target_ms: Option<Spanned<u64>>,
    pub(super) sustain_ms: Option<Spanned<u64>>,
    pub(super) under_way: Option<Spanned<usize>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BudgetSection {
    pub(super) connections: Option<Spanned<u32>>,
    pub(super) requests_per_second: Option<Spanned<u32>>,
    pub(super) carts: Option<Spanned<u32>>,
    pub(super) node_carts: Option<Spanned<u32>>,
    pub(super) held: Option<Spanned<u32>>,
    pub(super) cart_held: Option<Spanned<u32>>,
    pub(super) seat_seconds: Option<Spanned<u64>>,
    pub(super) seat_seconds_per_second: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FeedSection {
    pub(super) tick_ms: Option<Spanned<u64>>,
    pub(super) ring: Option<Spanned<usize>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ThreadSection {
    pub(super) selling: Option<Spanned<usize>>,
    pub(super) replicating: Option<Spanned<usize>>,
    pub(super) watching: Option<Spanned<usize>>,
    pub(super) watching_nice: Option<Spanned<i32>>,
    pub(super) stuck_ms: Option<Spanned<u64>>,
}
