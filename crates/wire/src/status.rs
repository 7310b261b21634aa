//! The status and the audit of a node, for operators and checkers.

use boxoffice_core::{
    answer::{AreaCounts, SeatCounts, StockCounts},
    id::Entity,
    money::Currency,
    payment::PaymentStatus,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::{
    cluster::{Node, Replica},
    hello::Durability,
    repr::shape::shapes,
};

shapes! {
    pub struct NodeStatus {
        pub node: SmolStr,
        pub cluster: SmolStr,
        /// The version of the program.
        pub version: SmolStr,
        /// The time since it started, in milliseconds.
        pub uptime_ms: u64,
        /// The durability of each ok.
        pub durability: Durability,
        /// `ready`, or why the node is not.
        pub state: SmolStr,
        /// Whether the node leads nothing because its disk is clearly slower than those of the others.
        pub disk_is_slow?: bool,
        /// What of the disk cannot be read. A node of a cluster serves on and replaces its disk as soon as it may.
        pub damage?: SmolStr,
        /// The version of the cluster under which it writes.
        pub cluster_version!: u32,
        /// The upgrade that has begun and is not finished: the version that the cluster would have, and who holds it back.
        pub upgrade?: SmolStr,
        /// The members that it has a link to.
        pub linked?: Vec<u64>,
        pub shards: Vec<ShardStatus>,
        pub connections: u64,
        /// The number of feeds of all connections together.
        pub watchers: u64,
        pub under_way: u64,
        pub actors: u64,
        /// Ended carts that are kept on disk only.
        pub carts_archived!: u64,
        /// Carts in memory that were never opened. They release what was held for a refused guest.
        pub tombstones!: u64,
        /// Authorizations, captures, voids and refunds whose outcome is not known yet.
        pub payments_pending!: u64,
        /// Captures, voids and refunds that failed for good and that no operator has settled.
        pub payments_failed!: u64,
        /// Events a second, over the last seconds.
        pub rates: Rates,
    }

    #[derive(Eq)]
    pub struct ShardStatus as Shard {
        pub shard: u32,
        /// `leader`, `follower`, `candidate` or `learner`.
        pub role: SmolStr,
        /// The term of its replica.
        pub term: u64,
        pub applied: u64,
        /// The number of entities in it.
        pub entities: u64,
        /// The leader, as far as the node knows.
        pub leader?: Option<u64> = Node,
        /// The last position that the replica here knows to be committed.
        pub committed!: u64,
        /// True time less the shard's running time, in milliseconds. It changes when clocks are set.
        pub distance_ms!: i64,
        /// Whether the node leads it and no majority of its voters agrees on the time.
        pub unconfirmed?: bool,
        /// Every other replica, if the node leads it.
        pub followers?: Vec<FollowerStatus>,
        /// The chain of hashes over the entries of the replica here, as of a moment ago. Absent before the cluster's version has it.
        pub chain?: Option<ChainEnd>,
    }

    /// The chain of hashes over all entries of a shard up to one of them.
    #[derive(Eq)]
    pub struct ChainEnd as Chain {
        /// The entry.
        pub index: u64,
        pub term: u64,
        /// 32 hexadecimal digits.
        pub hash: SmolStr,
        /// The time of the entry.
        pub at: Timestamp,
    }

    /// A replica of a shard, as its leader sees it.
    #[derive(Eq)]
    pub struct FollowerStatus as Follower {
        pub replica: SmolStr = Replica,
        /// The number of committed entries that it is not known to have.
        pub lag: u64,
        /// Whether it has sent anything lately.
        pub heard: bool,
    }

    /// Events a second, over the last seconds.
    #[derive(Copy, Default)]
    pub struct Rates {
        pub requests!: f64,
        pub ok!: f64,
        pub no!: f64,
        pub fail!: f64,
        pub events!: f64,
        /// Synced writes to disk.
        pub fsyncs!: f64,
        pub feed_frames!: f64,
    }

    #[derive(Default, Eq)]
    pub struct NodeAudit {
        pub venues!: u64,
        pub sessions!: u64,
        /// Seats of all sessions, by state.
        pub seats!: SeatTotals,
        /// Places of all areas of all sessions, by state.
        pub areas!: UnitTotals,
        pub titles!: u64,
        pub products!: u64,
        /// Units of all products, by state.
        pub stock!: UnitTotals,
        pub resources!: u64,
        /// Bookings of all resources, including held ones.
        pub bookings!: u64,
        pub customers!: u64,
        /// Orders in the purchases of all customers.
        pub purchases!: u64,
        /// Live holds of all inventories.
        pub holds!: u64,
        pub held_seats!: u64,
        /// Seats in the sales of all sessions. It must equal the seats of orders.
        pub sold_seats!: u64,
        pub carts!: CartTotals,
        /// Seats in the lines of active and checking-out carts.
        pub cart_seats!: u64,
        /// Ended carts that are kept on disk only. They are also counted by state.
        pub carts_archived!: u64,
        /// Carts in memory that were never opened. They release what was held for a refused guest.
        pub tombstones!: u64,
        /// Messages that carts have not delivered yet.
        pub owed!: u64,
        pub orders!: u64,
        /// Seats in the lines of orders.
        pub order_seats!: u64,
        /// Sum of the orders' totals, by currency, ascending.
        pub order_totals!: Vec<CurrencyTotal>,
        /// Payments of the orders, by status.
        pub payments!: PaymentTotals,
        /// Authorizations, captures, voids and refunds whose outcome is not known yet.
        pub payments_pending!: u64,
        /// Captures, voids and refunds that failed for good and that no operator has settled.
        pub payments_failed!: u64,
        /// The gateway's keys of the first hundred that failed.
        pub failed_keys!: Vec<SmolStr>,
        pub refunds!: u64,
        /// Sum of the refunds, by currency, ascending. Here `orders` is the number of refunds.
        pub refund_totals!: Vec<CurrencyTotal>,
        /// The violations, in words. Empty if every promise holds.
        pub violations!: Vec<SmolStr>,
    }

    /// Units of products, or places of areas, by state.
    #[derive(Copy, Default, Eq)]
    pub struct UnitTotals {
        pub free: u64,
        pub held: u64,
        pub sold: u64,
    }
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

shapes! {
    /// Payments of orders, by status.
    #[derive(Copy, Default, Eq)]
    pub struct PaymentTotals {
        pub recorded: u64,
        /// Authorized. The capture is under way.
        pub authorized: u64,
        pub captured: u64,
        /// The capture failed. An operator must settle it.
        pub failed: u64,
    }
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

shapes! {
    #[derive(Copy, Default, Eq)]
    pub struct SeatTotals {
        pub free: u64,
        pub held: u64,
        pub sold: u64,
        pub blocked: u64,
    }
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

shapes! {
    #[derive(Copy, Default, Eq)]
    pub struct CartTotals {
        pub active: u64,
        /// A payment is under way.
        pub checking_out: u64,
        pub done: u64,
        /// Canceled by their owners.
        pub canceled: u64,
        pub expired: u64,
    }

    #[derive(Copy, Eq)]
    pub struct CurrencyTotal {
        pub currency: Currency,
        pub orders: u64,
        /// The sum, in minor units.
        pub amount: i64,
    }

    /// An entry of a shard.
    #[derive(Copy, Eq)]
    pub struct ShardIndex {
        pub shard: u16,
        pub index: u64,
    }

    /// The shards with a replica on the node, and its log.
    #[derive(Default, Eq)]
    pub struct BackupPlaces {
        /// 32 hexadecimal digits.
        pub cluster: SmolStr,
        /// The number of shards of the cluster, without the directory.
        pub shard_count: u16,
        pub node: u64,
        /// The random number of the node's disk, 32 hexadecimal digits.
        pub disk: SmolStr,
        pub shards: Vec<BackupShard>,
        /// The segment with the first entry after those that were named, or the oldest one that is kept.
        pub first_segment: u64,
        /// The segment that is being written.
        pub last_segment: u64,
        /// The highest mark that the node knows. What it has given away before is in the cut at every higher one.
        pub mark: u64,
    }

    /// A shard with a replica on the node.
    #[derive(Copy, Eq)]
    pub struct BackupShard {
        pub shard: u16,
        /// The last entry in its newest snapshot, 0 without one.
        pub snapshot: u64,
        /// The last entry that was known to be committed a moment ago.
        pub committed: u64,
        /// The newest mark up to that entry.
        pub mark: u64,
    }

    /// A piece of a part of the node's data.
    #[derive(Default, Eq)]
    pub struct BackupPiece {
        /// Bytes in base64. Of records, each begins with its length, 4 bytes, little-endian.
        pub data: SmolStr,
        /// Where the next piece begins, if there is more.
        pub next?: Option<SmolStr>,
    }

    /// Oldest first.
    #[derive(Eq)]
    pub struct HistoryPage {
        pub entity: Entity,
        pub entries: Vec<HistoryEntry>,
        /// The cursor of the next page, as `before`, if there is more.
        pub cursor?: Option<u64>,
        /// Whether there is nothing older: this page goes back to version 1. Without a `cursor` and not complete, what is older
        /// is no longer kept.
        pub complete: bool,
    }

    #[derive(Eq)]
    pub struct HistoryEntry {
        /// The position in the log.
        pub position: u64,
        /// The entity's version after it.
        pub version: u64,
        pub at: Timestamp,
        pub event: SmolStr,
        /// Details in words.
        pub details?: SmolStr,
        /// The name of the key or operator that requested it.
        pub by?: SmolStr,
    }
}
