//! The server's first frame.

use boxoffice_core::{portion::LINE_QUANTITY_MAX, seat::HOLD_SEATS_MAX, time::Timestamp};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{limits, repr, repr::shape::shapes};

/// `{"hello":{…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The cluster's id. Empty for strangers.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub cluster: SmolStr,
    /// The node's id.
    pub node: SmolStr,
    /// The version of the program. Empty for strangers.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub version: SmolStr,
    /// The version of the protocol.
    pub protocol: u32,
    /// The minor version, which grows with every new field of requests. 0 if absent.
    #[serde(default)]
    pub minor: u32,
    /// The durability of each ok.
    pub durability: Durability,
    pub limits: Limits,
    /// The time of the server's clock.
    #[serde(with = "repr")]
    pub time: Timestamp,
}

shapes! {
    /// The durability of each ok.
    #[derive(Eq)]
    pub struct Durability {
        /// The number of nodes that keep each entity.
        pub replicas: u32,
        /// When they sync it to disk: `always`, `interval` or `never`.
        pub fsync: SmolStr,
    }
}

/// The limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The longest frame, in bytes.
    pub frame_bytes: u32,
    /// The longest frame of `batch`, `product.put` and `resource.put`, in bytes. That of `hall.put` has 8 MiB at most.
    pub import_frame_bytes: u32,
    /// How deep a frame may be nested.
    pub depth: u32,
    /// Seats of one hold.
    pub hold_seats: u32,
    /// Places or units of one line.
    pub line_quantity: u32,
    /// The longest time that can be booked or searched, in milliseconds.
    pub interval_ms: u64,
    /// Lines of a cart.
    pub cart_lines: u32,
    /// Entries of a page.
    pub page_entries: u32,
    /// Items of a batch.
    pub batch_items: u32,
    /// Requests under way on one connection.
    pub requests_under_way: u32,
    /// Feeds of one connection.
    pub feeds: u32,
    /// Time for the first frame, in milliseconds.
    pub first_frame_ms: u64,
    /// Time for a frame to arrive whole, in milliseconds.
    pub whole_frame_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes: limits::FRAME_BYTES_MAX as u32,
            import_frame_bytes: limits::IMPORT_FRAME_BYTES_MAX as u32,
            depth: limits::DEPTH_MAX as u32,
            hold_seats: HOLD_SEATS_MAX as u32,
            line_quantity: LINE_QUANTITY_MAX,
            interval_ms: limits::INTERVAL_MS_MAX,
            cart_lines: limits::CART_LINES_MAX as u32,
            page_entries: limits::PAGE_ENTRIES_MAX,
            batch_items: limits::BATCH_ITEMS_MAX as u32,
            requests_under_way: limits::REQUESTS_UNDER_WAY_MAX as u32,
            feeds: limits::FEEDS_MAX as u32,
            first_frame_ms: limits::FIRST_FRAME_MS,
            whole_frame_ms: limits::WHOLE_FRAME_MS,
        }
    }
}
