//! Fuzz targets: every decoder that takes bytes from a client, a proxy, a payment gateway, another node, a disk or an
//! imported file, and the property that must hold for any bytes. `tests/fuzz` runs them in `cargo test`. `crates/fuzz/run` fuzzes one for longer.

// Under `cargo bolero` it brings the functions that the instrumentation calls. Without them nothing links.
use bolero as _;

// In reading order: what is checked, the decoders by where their bytes come from, inputs.
mod property;

mod disk;
mod edge;
mod files;
mod peers;
mod wire;

pub mod corpus;
pub mod mutate;

/// A property that must hold for any input. Its check panics if it does not hold.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its test and of its corpus.
    pub name: &'static str,
    /// Checks the property for one input.
    pub check: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident: $check:path,)+) => {
        /// Every target.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), check: $check }),+];

        /// Calls a macro with the name of every target.
        #[macro_export]
        macro_rules! for_each_target {
            ($each:ident) => { $each! { $($name)+ } };
        }
    };
}

targets! {
    request_json: wire::request_json,
    request_msgpack: wire::request_msgpack,
    server_frame_json: wire::server_frame_json,
    server_frame_msgpack: wire::server_frame_msgpack,
    credentials: wire::credentials,
    webhook: wire::webhook,
    gateway_answer: wire::gateway_answer,
    http_heads: edge::http_heads,
    proxy_header: edge::proxy_header,
    forwarded: edge::forwarded,
    token: edge::token,
    link_frames: peers::link_frames,
    link_hello: peers::link_hello,
    link_claims: peers::link_claims,
    link_proof: peers::link_proof,
    lane_consensus: peers::lane_consensus,
    lane_calls: peers::lane_calls,
    lane_feeds: peers::lane_feeds,
    lane_bulk: peers::lane_bulk,
    raft_message: peers::raft_message,
    log_entry: disk::log_entry,
    log_record: disk::log_record,
    log_segment: disk::log_segment,
    snapshot_file: disk::snapshot_file,
    snapshot_state: disk::snapshot_state,
    stored: disk::stored,
    archive: disk::archive,
    seat_file: files::seat_file,
    product_file: files::product_file,
    plan_file: files::plan_file,
}

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target is called {name}"))
}
