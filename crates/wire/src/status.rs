//! How a node is, and what it holds: filled in by the node, read by operators and checkers.

use boxoffice_core::{
    answer::{AreaCounts, SeatCounts, StockCounts},
    id::Entity,
    money::Currency,
    payment::PaymentStatus,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{form, hello::Durability};

/// The answer to `admin.status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node's id.
    pub node: SmolStr,
    /// The cluster's id.
    pub cluster: SmolStr,
    /// The version of the program.
    pub version: SmolStr,
    /// Since it started, in milliseconds.
    pub uptime_ms: u64,
    /// What an ok rests on.
    pub durability: Durability,
    /// `ready`, or why it is not.
    pub state: SmolStr,
    /// Its shards, by number.
    pub shards: Vec<ShardStatus>,
    /// Connections of clients.
    pub connections: u64,
    /// Feeds of all connections together.
    pub watchers: u64,
    /// Requests under way.
    pub under_way: u64,
    /// Live entity actors.
    pub actors: u64,
    /// Terminal carts that are kept on disk only.
    #[serde(default)]
    pub carts_archived: u64,
    /// Carts in memory that nobody has opened: they give back what was held for a refused guest.
    #[serde(default)]
    pub tombstones: u64,
    /// Authorizations, captures, voids and refunds whose outcome is not known yet.
    #[serde(default)]
    pub payments_pending: u64,
    /// Captures, voids and refunds that failed for good and that no operator has seen to.
    #[serde(default)]
    pub payments_failed: u64,
    /// What it does in a second, over the last seconds.
    pub rates: Rates,
}

/// One shard's replica on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Its number.
    pub shard: u32,
    /// `leader`, `follower`, `candidate` or `learner`.
    pub role: SmolStr,
    /// The term it is in.
    pub term: u64,
    /// The last position applied.
    pub applied: u64,
    /// How many entities it keeps.
    pub entities: u64,
    /// The member that leads it, as far as the node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<u64>,
    /// The last position that the replica here knows to be committed.
    #[serde(default)]
    pub committed: u64,
    /// True time less the shard's running time, in milliseconds. It changes when clocks are set.
    #[serde(default)]
    pub distance_ms: i64,
    /// The node leads it, and no majority of its voters agrees what time it is.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub unconfirmed: bool,
    /// Where the node leads it: every other replica.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<FollowerStatus>,
}

/// A replica of a shard, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowerStatus {
    /// Which: `node.generation`.
    pub replica: SmolStr,
    /// How many committed entries it is not known to have.
    pub lag: u64,
    /// Whether it was heard of lately.
    pub heard: bool,
}

/// What a node does, in events a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rates {
    /// Requests taken in.
    pub requests: f64,
    /// Answered with ok.
    pub ok: f64,
    /// Answered with no.
    pub no: f64,
    /// Answered with fail.
    pub fail: f64,
    /// Events committed.
    pub events: f64,
    /// Writes to disk that were waited for.
    pub fsyncs: f64,
    /// Feed frames sent.
    pub feed_frames: f64,
}

/// The answer to `admin.audit` of a whole node: counted afresh from what it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAudit {
    /// How many venues.
    pub venues: u64,
    /// How many sessions.
    pub sessions: u64,
    /// Seats of all sessions, by state.
    pub seats: SeatTotals,
    /// Places of all areas of all sessions, by state.
    pub areas: UnitTotals,
    /// How many titles.
    pub titles: u64,
    /// How many products.
    pub products: u64,
    /// Units of all products, by state.
    pub stock: UnitTotals,
    /// How many resources.
    pub resources: u64,
    /// Bookings of all resources, held ones counted.
    pub bookings: u64,
    /// How many customers.
    pub customers: u64,
    /// Orders in the purchases of all customers.
    pub purchases: u64,
    /// Live holds of all inventories.
    pub holds: u64,
    /// Seats in those holds.
    pub held_seats: u64,
    /// Seats in the sales of all sessions; what orders have must be the same.
    pub sold_seats: u64,
    /// Carts by state.
    pub carts: CartTotals,
    /// Seats in the lines of active and checking-out carts.
    pub cart_seats: u64,
    /// Terminal carts that are kept on disk only; they are counted by state as well.
    pub carts_archived: u64,
    /// Carts in memory that nobody has opened: they give back what was held for a refused guest.
    #[serde(default)]
    pub tombstones: u64,
    /// Messages carts still owe others.
    pub owed: u64,
    /// How many orders.
    pub orders: u64,
    /// Seats in the lines of orders.
    pub order_seats: u64,
    /// Sum of the orders' totals, by currency, ascending.
    pub order_totals: Vec<CurrencyTotal>,
    /// Payments of the orders, by how they stand.
    pub payments: PaymentTotals,
    /// Authorizations, captures, voids and refunds whose outcome is not known yet.
    pub payments_pending: u64,
    /// Captures, voids and refunds that failed for good and that no operator has seen to.
    pub payments_failed: u64,
    /// The gateway's keys of those that failed; the first hundred.
    pub failed_keys: Vec<SmolStr>,
    /// How many refunds.
    pub refunds: u64,
    /// Sum of the refunds, by currency, ascending; `orders` counts refunds here.
    pub refund_totals: Vec<CurrencyTotal>,
    /// What is wrong, in words; empty when every promise holds.
    pub violations: Vec<SmolStr>,
}

/// Units of products, or places of areas, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitTotals {
    /// Free ones.
    pub free: u64,
    /// In carts.
    pub held: u64,
    /// Bought ones.
    pub sold: u64,
}

impl UnitTotals {
    /// Adds a product's units.
    pub fn add_stock(&mut self, counts: StockCounts) {
        self.free += counts.free;
        self.held += counts.held;
        self.sold += counts.sold;
    }

    /// Adds an area's places.
    pub fn add_area(&mut self, counts: &AreaCounts) {
        self.free += u64::from(counts.free);
        self.held += u64::from(counts.held);
        self.sold += u64::from(counts.sold);
    }
}

/// Payments of orders, by how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentTotals {
    /// Paid elsewhere.
    pub recorded: u64,
    /// Set aside; the capture is on its way.
    pub authorized: u64,
    /// Taken.
    pub captured: u64,
    /// The capture failed: the operator has to see to it.
    pub failed: u64,
}

impl PaymentTotals {
    /// Adds the payment of an order.
    pub fn add(&mut self, status: &PaymentStatus) {
        match status {
            PaymentStatus::Recorded => self.recorded += 1,
            PaymentStatus::Authorized => self.authorized += 1,
            PaymentStatus::Captured => self.captured += 1,
            PaymentStatus::CaptureFailed { .. } => self.failed += 1,
        }
    }
}

/// Seats by state over many sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatTotals {
    /// Free seats.
    pub free: u64,
    /// Seats in carts.
    pub held: u64,
    /// Bought seats.
    pub sold: u64,
    /// Seats kept off sale.
    pub blocked: u64,
}

impl SeatTotals {
    /// Adds a session's seats.
    pub fn add(&mut self, counts: SeatCounts) {
        self.free += u64::from(counts.free);
        self.held += u64::from(counts.held);
        self.sold += u64::from(counts.sold);
        self.blocked += u64::from(counts.blocked);
    }
}

/// Carts by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartTotals {
    /// Lines may be added.
    pub active: u64,
    /// A payment is under way.
    pub checking_out: u64,
    /// Became orders.
    pub done: u64,
    /// Given up by their owners.
    pub canceled: u64,
    /// Their deadline passed.
    pub expired: u64,
}

/// A sum in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrencyTotal {
    /// Which currency.
    #[serde(with = "form")]
    pub currency: Currency,
    /// How many orders.
    pub orders: u64,
    /// The sum, in minor units.
    pub amount: i64,
}

/// A page of `admin.history`: what happened to an entity. The first page has the newest; in a page the oldest is first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// What happened.
    pub entries: Vec<HistoryEntry>,
    /// The version to go on `before`, if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// Whether there is nothing older: this page goes back to version 1. Without a `cursor` and not complete, what is older
    /// is no longer kept.
    pub complete: bool,
}

/// One thing that happened to an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The place in the log.
    pub position: u64,
    /// The entity's version with it.
    pub version: u64,
    /// When.
    #[serde(with = "form")]
    pub at: Timestamp,
    /// What, as one word.
    pub event: SmolStr,
    /// The same in words: who, which, how many.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub details: SmolStr,
    /// The name of the key, or of the operator, that asked for it.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub by: SmolStr,
}
