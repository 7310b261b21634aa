//! Budgets of strangers: connections, requests, carts, and what the carts hold, by network, customer and key. They are not
//! replicated and do not survive a restart.
//!
//! Holds are limited twice: by how much is held at the same time, and by how much is held for how long. The second limit is a
//! leaky bucket of seat-seconds. A hold is charged with its seats times its remaining life. It is charged more when its cart
//! lives longer, and is credited the rest when it is released or bought. So a few seats for long cost as much as many for a
//! moment, and a buyer who checks out soon pays hardly anything.

mod accounts;

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, Held},
    command::{CartCommand, Command, Want, WantedLine},
    id::CartId,
    refusal::Refusal,
    time::Timestamp,
};
use boxoffice_node::{api, metrics_text::MetricsText};
use boxoffice_wire::{Op, Rejection};
use smol_str::SmolStr;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

pub(crate) use self::accounts::Owner;
use self::accounts::{Accounts, amount_of};
use crate::network::ClientNetwork;

/// Budgets of one network and of one customer on this node. 0 is without a limit.
#[derive(Clone, Debug)]
pub struct BudgetConfig {
    /// Connections of one network at the same time.
    pub connections: u32,
    /// Requests a second of one network. Five seconds' worth may come at once. Expensive reads count as several.
    pub requests_per_second: u32,
    /// Open carts of one network, and of one customer.
    pub carts: u32,
    /// Open carts of all strangers together.
    pub node_carts: u32,
    /// Seats, places, units and slots that the carts of one network hold at the same time.
    pub held: u32,
    /// The same for one cart.
    pub cart_held: u32,
    /// Seat-seconds of the carts of one network: seats times the seconds for which they are still held.
    pub seat_seconds: u64,
    /// Seat-seconds that are forgotten each second.
    pub seat_seconds_per_second: u32,
    /// How long a guest's cart lives untouched by default. A hold is charged with this life until it is granted.
    pub life: Duration,
}

impl Default for BudgetConfig {
    /// Enough for a school behind one address: five hundred pupils buy a seat or two each within a few minutes.
    fn default() -> BudgetConfig {
        BudgetConfig {
            connections: 512,
            requests_per_second: 500,
            carts: 1_000,
            node_carts: 250_000,
            held: 1_000,
            cart_held: 200,
            seat_seconds: 1_800_000,
            seat_seconds_per_second: 200,
            life: Duration::from_secs(1_800),
        }
    }
}

/// Seconds' worth of requests that may come at once.
const BURST_SECONDS: f64 = 5.0;

/// The time to wait in a refusal for which nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The budgets of a key that has its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) held_max: Option<u32>,
}

/// A kind of budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    Connections,
    Requests,
    Carts,
    NodeCarts,
    Held,
    CartHeld,
    SeatSeconds,
}

impl Budget {
    const ALL: [Budget; 7] = [
        Budget::Connections,
        Budget::Requests,
        Budget::Carts,
        Budget::NodeCarts,
        Budget::Held,
        Budget::CartHeld,
        Budget::SeatSeconds,
    ];

    fn name(self) -> &'static str {
        match self {
            Budget::Connections => "connections",
            Budget::Requests => "requests",
            Budget::Carts => "carts",
            Budget::NodeCarts => "node_carts",
            Budget::Held => "held",
            Budget::CartHeld => "cart_held",
            Budget::SeatSeconds => "seat_seconds",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Budget::Connections => "too many connections from this network",
            Budget::Requests => "too many requests a second",
            Budget::Carts => "too many open carts",
            Budget::NodeCarts => "the node has as many open carts as it has room for",
            Budget::Held => "too much is held already; buy it or give it back first",
            Budget::CartHeld => "one cart cannot hold so much; buy it in several",
            Budget::SeatSeconds => "too much was held for too long; buy it or give it back first",
        }
    }
}

/// A budget that is exceeded, and the time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverBudget {
    pub(crate) budget: Budget,
    pub(crate) retry_after: Duration,
}

impl OverBudget {
    /// The refusal 109.
    pub(crate) fn rejection(self) -> Rejection {
        let ms = u64::try_from(self.retry_after.as_millis()).unwrap_or(u64::MAX).max(1);
        Rejection::RateLimited { why: SmolStr::new_static(self.budget.words()), retry_after_ms: Some(ms) }
    }
}

/// The charge of a command under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    cart: CartId,
    amount: u64,
}

/// The budgets of a node's callers.
#[derive(Debug)]
pub(crate) struct Budgets {
    config: BudgetConfig,
    accounts: Mutex<Accounts>,
    over: [AtomicU64; Budget::ALL.len()],
}

/// The owners that a caller's requests are charged to. Empty for the operator's own callers.
pub(crate) type Owners = Vec<(Owner, Terms)>;

impl Budgets {
    pub(crate) fn new(config: BudgetConfig) -> Budgets {
        Budgets { config, accounts: Mutex::default(), over: Default::default() }
    }

    /// Writes how often each budget was exceeded.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let name = "boxoffice_edge_over_budget_total";
        text.describe(name, "counter", "Refusals because a caller had taken enough, by budget.");
        let count = |budget: Budget| self.over[budget as usize].load(Ordering::Relaxed);
        text.samples(name, "budget", Budget::ALL.map(|budget| (budget.name(), count(budget))));
    }

    fn over(&self, budget: Budget, retry_after: Duration) -> OverBudget {
        self.over[budget as usize].fetch_add(1, Ordering::Relaxed);
        OverBudget { budget, retry_after }
    }

    /// Counts a connection of this network. Returns whether it is within the budget. A connection beyond it has a little
    /// while to show a key.
    ///
    /// # Errors
    /// The network has twice as many connections as it may.
    pub(crate) fn connect(&self, address: IpAddr, now: Instant) -> Result<bool, OverBudget> {
        let owner = Owner::Network(ClientNetwork::of(address));
        let mut accounts = self.accounts.lock();
        let account = accounts.of(owner, now);
        let limit = self.config.connections;
        if limit > 0 && account.connections >= limit.saturating_mul(2) {
            return Err(self.over(Budget::Connections, RETRY_AFTER));
        }
        account.connections += 1;
        Ok(limit == 0 || account.connections <= limit)
    }

    /// The refusal of a connection beyond the budget that has shown no key.
    pub(crate) fn too_many_connections(&self) -> OverBudget {
        self.over(Budget::Connections, RETRY_AFTER)
    }

    /// A connection has ended, or has shown that it is not a stranger's.
    pub(crate) fn disconnect(&self, address: IpAddr) {
        let owner = Owner::Network(ClientNetwork::of(address));
        if let Some(account) = self.accounts.lock().owners.get_mut(&owner) {
            account.connections = account.connections.saturating_sub(1);
        }
    }

    /// Charges a request.
    pub(crate) fn request(&self, owners: &Owners, weight: u32, now: Instant) -> Result<(), OverBudget> {
        if owners.is_empty() {
            return Ok(());
        }
        let mut accounts = self.accounts.lock();
        for (owner, terms) in owners {
            let limit = match owner {
                // The customer's network pays.
                Owner::Customer(_) => 0,
                Owner::Network(_) => self.config.requests_per_second,
                Owner::Key(_) => terms.requests_per_second.unwrap_or(0),
            };
            if limit == 0 {
                continue;
            }
            let (rate, account) = (f64::from(limit), accounts.of(owner.clone(), now));
            account.requests.leak(now, rate);
            let level = account.requests.level + f64::from(weight);
            if level > rate * BURST_SECONDS {
                let wait = Duration::from_secs_f64((level - rate * BURST_SECONDS) / rate);
                return Err(self.over(Budget::Requests, wait));
            }
            account.requests.level = level;
        }
        Ok(())
    }

    /// Charges a command with the amount that it may come to hold, before it is submitted.
    pub(crate) fn begin(&self, owners: &Owners, command: &Command, now: Instant) -> Result<Option<Charge>, OverBudget> {
        let Command::Cart(cart, command) = command else { return Ok(None) };
        if owners.is_empty() {
            return Ok(None);
        }
        let amount = match command {
            CartCommand::Hold { lines, .. } => lines.iter().map(wanted).sum(),
            // The line's current amount is charged twice until the answer comes.
            CartCommand::SetQuantity { quantity, .. } => u64::from(*quantity),
            CartCommand::Open { .. }
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::Checkout { .. } => 0,
            _ => return Ok(None),
        };
        let mut accounts = self.accounts.lock();
        accounts.expire(now);
        self.check(&mut accounts, owners, *cart, amount, now)?;
        let opens = matches!(command, CartCommand::Open { .. } | CartCommand::Hold { .. });
        if amount > 0 || opens {
            accounts.charge(owners, *cart, amount, now + self.config.life, now);
        }
        Ok(Some(Charge { cart: *cart, amount }))
    }

    fn check(
        &self,
        accounts: &mut Accounts,
        owners: &Owners,
        cart: CartId,
        amount: u64,
        now: Instant,
    ) -> Result<(), OverBudget> {
        let known = accounts.carts.get(&cart).map(|charge| charge.held);
        let config = &self.config;
        let is_over = |limit: u32, has: u64| limit > 0 && has > u64::from(limit);
        if amount > 0 && is_over(config.cart_held, known.unwrap_or(0) + amount) {
            return Err(self.over(Budget::CartHeld, RETRY_AFTER));
        }
        let first_end = accounts.ends.first().map_or(RETRY_AFTER, |(end, _)| end.saturating_duration_since(now));
        if known.is_none() && is_over(config.node_carts, accounts.carts.len() as u64 + 1) {
            return Err(self.over(Budget::NodeCarts, first_end));
        }
        for (owner, terms) in accounts.payers(owners, cart) {
            let is_key = matches!(owner, Owner::Key(_));
            let account = accounts.of(owner, now);
            account.pledged.leak(now, f64::from(config.seat_seconds_per_second));
            let held_max = if is_key { terms.held_max.unwrap_or(0) } else { config.held };
            if amount > 0 && is_over(held_max, account.held + amount) {
                return Err(self.over(Budget::Held, first_end));
            }
            if is_key {
                continue;
            }
            if known.is_none() && is_over(config.carts, u64::from(account.carts) + 1) {
                return Err(self.over(Budget::Carts, first_end));
            }
            let pledged = account.pledged.level + amount as f64 * config.life.as_secs_f64();
            if amount > 0 && config.seat_seconds > 0 && pledged > config.seat_seconds as f64 {
                let excess = pledged - config.seat_seconds as f64;
                let leaks = f64::from(config.seat_seconds_per_second.max(1));
                return Err(self.over(Budget::SeatSeconds, Duration::from_secs_f64(excess / leaks)));
            }
        }
        Ok(())
    }

    /// Settles the charge of a command. If the outcome is unknown, it stays charged until the cart would expire.
    pub(crate) fn end(&self, charge: Charge, result: &api::Result, now: Instant, true_now: Timestamp) {
        let mut accounts = self.accounts.lock();
        accounts.expire(now);
        let ends = |deadline: Timestamp| now + Duration::from_millis(deadline.0.saturating_sub(true_now.0));
        match result {
            Ok(Ok(Answered { answer: Answer::Held(Held { lines, deadline, .. }), .. })) => {
                let granted = lines.iter().map(amount_of).sum::<u64>();
                accounts.settle(charge.cart, charge.amount, granted, Some(ends(*deadline)), now);
            }
            Ok(Ok(Answered { answer: Answer::Cart(view), .. })) => accounts.shows(charge.cart, view, ends, now),
            Ok(Ok(Answered { answer: Answer::Order { .. }, .. })) => accounts.over(charge.cart, now),
            Ok(Err(Refusal::CartExpired | Refusal::HoldAgeExceeded)) => accounts.over(charge.cart, now),
            // Nothing was granted.
            Ok(Err(_)) => accounts.settle(charge.cart, charge.amount, 0, None, now),
            Err(failure) if !failure.may_have_happened() => {
                accounts.settle(charge.cart, charge.amount, 0, None, now);
            }
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}

/// How much a wanted line may come to hold.
fn wanted(line: &WantedLine) -> u64 {
    match &line.want {
        Want::Seats { seats, .. } => seats.as_slice().len() as u64,
        Want::Best(wish) => u64::from(wish.count),
        Want::Places { quantity, .. } | Want::Units { quantity, .. } => u64::from(*quantity),
        Want::Slot { .. } => 1,
        Want::Quota { .. } => 0,
    }
}

/// The cost of an op in requests. Expensive reads count as several.
pub(crate) fn weight_of(op: Op) -> u32 {
    match op {
        Op::SessionGet | Op::HallGet | Op::SessionMap | Op::Shards => 5,
        // A search in a city asks every venue there.
        Op::SessionSearch => 20,
        Op::VenueSearch | Op::TitleSearch => 10,
        Op::ResourceFreeSlots | Op::ResourceBookings => 10,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
