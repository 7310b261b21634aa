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
    repr::shape::shapes,
    hello::Durability,
};

shapes! {
    pub struct NodeStatus {
        pub node: SmolStr,
        pub cluster: SmolStr,
        /// The version of the program.
        pub version: SmolStr,
        /// Since it started, in milliseconds.
        pub uptime_ms: u64,
        /// What an ok rests on.
        pub durability: Durability,
        /// `ready`, or why it is not.
        pub state: SmolStr,
        pub shards: Vec<ShardStatus>,
        pub connections: u64,
        /// Feeds of all connections together.
        pub watchers: u64,
        pub under_way: u64,
        pub actors: u64,
        /// Terminal carts that are kept on disk only.
        pub carts_archived!: u64,
        /// Carts in memory that were never opened. They release what was held for a refused guest.
        pub tombstones!: u64,
        /// Authorizations, captures, voids and refunds whose outcome is not known yet.
        pub payments_pending!: u64,
        /// Captures, voids and refunds that failed for good and that no operator has seen to.
        pub payments_failed!: u64,
        /// Events a second, over the last seconds.
        pub rates: Rates,
    }

    #[derive(Eq)]
    pub struct ShardStatus as Shard {
        pub shard: u32,
        /// `leader`, `follower`, `candidate` or `learner`.
        pub role: SmolStr,
        /// The term it is in.
        pub term: u64,
        pub applied: u64,
        /// How many entities it keeps.
        pub entities: u64,
        /// The member that leads it, as far as the node knows.
        pub leader?: Option<u64> = Node,
        /// The last position that the replica here knows to be committed.
        pub committed!: u64,
        /// True time less the shard's running time, in milliseconds. It changes when clocks are set.
        pub distance_ms!: i64,
        /// The node leads it, and no majority of its voters agrees what time it is.
        pub unconfirmed?: bool,
        /// Where the node leads it: every other replica.
        pub followers?: Vec<FollowerStatus>,
    }

    /// A replica of a shard, as its leader sees it.
    #[derive(Eq)]
    pub struct FollowerStatus as Follower {
        pub replica: SmolStr = Replica,
        /// How many committed entries it is not known to have.
        pub lag: u64,
        /// Whether it was heard of lately.
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
        /// Writes to disk that were waited for.
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
        /// Bookings of all resources, held ones counted.
        pub bookings!: u64,
        pub customers!: u64,
        /// Orders in the purchases of all customers.
        pub purchases!: u64,
        /// Live holds of all inventories.
        pub holds!: u64,
        pub held_seats!: u64,
        /// Seats in the sales of all sessions; what orders have must be the same.
        pub sold_seats!: u64,
        pub carts!: CartTotals,
        /// Seats in the lines of active and checking-out carts.
        pub cart_seats!: u64,
        /// Terminal carts that are kept on disk only; they are counted by state as well.
        pub carts_archived!: u64,
        /// Carts in memory that were never opened. They release what was held for a refused guest.
        pub tombstones!: u64,
        /// Messages carts still owe others.
        pub owed!: u64,
        pub orders!: u64,
        /// Seats in the lines of orders.
        pub order_seats!: u64,
        /// Sum of the orders' totals, by currency, ascending.
        pub order_totals!: Vec<CurrencyTotal>,
        /// Payments of the orders, by how they stand.
        pub payments!: PaymentTotals,
        /// Authorizations, captures, voids and refunds whose outcome is not known yet.
        pub payments_pending!: u64,
        /// Captures, voids and refunds that failed for good and that no operator has seen to.
        pub payments_failed!: u64,
        /// The gateway's keys of those that failed; the first hundred.
        pub failed_keys!: Vec<SmolStr>,
        pub refunds!: u64,
        /// Sum of the refunds, by currency, ascending; `orders` counts refunds here.
        pub refund_totals!: Vec<CurrencyTotal>,
        /// What is wrong, in words; empty when every promise holds.
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
    /// Payments of orders, by how they stand.
    #[derive(Copy, Default, Eq)]
    pub struct PaymentTotals {
        pub recorded: u64,
        /// Set aside; the capture is on its way.
        pub authorized: u64,
        pub captured: u64,
        /// The capture failed: the operator has to see to it.
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
        /// Given up by their owners.
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

    /// Oldest first.
    #[derive(Eq)]
    pub struct HistoryPage {
        pub entity: Entity,
        pub entries: Vec<HistoryEntry>,
        /// The version to go on `before`, if there is more.
        pub cursor?: Option<u64>,
        /// Whether there is nothing older: this page goes back to version 1. Without a `cursor` and not complete, what is older
        /// is no longer kept.
        pub complete: bool,
    }

    #[derive(Eq)]
    pub struct HistoryEntry {
        /// The place in the log.
        pub position: u64,
        /// The entity's version with it.
        pub version: u64,
        pub at: Timestamp,
        pub event: SmolStr,
        /// Details in words.
        pub details?: SmolStr,
        /// The name of the key, or of the operator, that asked for it.
        pub by?: SmolStr,
    }
}
