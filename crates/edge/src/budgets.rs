//! What one stranger may take of this node: connections, requests, carts, and what these hold, by network, by customer and by
//! key. Nothing of it is replicated or survives a restart.
//!
//! What is held is counted twice: how much at the same time, and how much for how long. The second is a leaky bucket of
//! seat-seconds: a hold is charged with its seats times the life that is left to it when it is granted, is charged more when
//! its cart lives longer, and is credited what is left when it is given back or bought. So who holds a little for long and who
//! holds much for a moment fill it alike, and who buys soon hardly fills it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, CartState, CartView, Held, LineView},
    command::{CartCommand, Command, Want, WantedLine},
    id::{CartId, Id},
    portion::Content,
    refusal::Refusal,
    time::Timestamp,
};
use boxoffice_node::door;
use boxoffice_wire::{Op, Rejection};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::network::ClientNetwork;

/// How much of everything one network, or one customer, may have on this node; 0 is as much as it likes.
#[derive(Clone, Debug)]
pub struct BudgetConfig {
    /// Connections of one network at the same time.
    pub connections: u32,
    /// Requests a second of one network. Five seconds' worth may come at once; dear reads count as several.
    pub requests_per_second: u32,
    /// Open carts of one network, and of one customer.
    pub carts: u32,
    /// Open carts of all strangers together.
    pub node_carts: u32,
    /// Seats, places, units and slots that the carts of one network hold at the same time.
    pub held: u32,
    /// The same of one cart.
    pub cart_held: u32,
    /// What the carts of one network may have pledged: seats times the seconds that they are still held.
    pub seat_seconds: u64,
    /// How much of that is forgotten each second.
    pub seat_seconds_per_second: u32,
    /// How long a guest's cart lives untouched that does not say otherwise: a hold is charged with it until it is granted.
    pub life: Duration,
}

impl Default for BudgetConfig {
    /// A school behind one address buys: five hundred pupils, a seat or two each, within a few minutes.
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

/// What a refusal says where nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Accounts that are kept before those that are idle are dropped.
const ACCOUNTS_KEPT: usize = 16_384;

/// How often all of them are looked at for that.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Whose an account is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Everybody behind one network.
    Network(ClientNetwork),
    /// A customer whose token was shown.
    Customer(Id),
    /// A key, with what it may have itself.
    Key(Id),
}

/// A bucket that fills with what is taken and leaks.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    at: Instant,
    /// How much leaked each second when it was last looked at.
    per_second: f64,
}

impl Bucket {
    fn leak(&mut self, now: Instant, per_second: f64) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level - passed * per_second).max(0.0);
        (self.at, self.per_second) = (now, per_second);
    }

    fn is_empty(&self, now: Instant) -> bool {
        self.level <= now.saturating_duration_since(self.at).as_secs_f64() * self.per_second
    }
}

/// What one owner has.
#[derive(Debug)]
struct Account {
    connections: u32,
    requests: Bucket,
    carts: u32,
    held: u64,
    pledged: Bucket,
}

impl Account {
    fn new(now: Instant) -> Account {
        let empty = Bucket { level: 0.0, at: now, per_second: 0.0 };
        Account { connections: 0, requests: empty, carts: 0, held: 0, pledged: empty }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.connections == 0 && self.carts == 0 && self.requests.is_empty(now) && self.pledged.is_empty(now)
    }
}

/// What an owner may have, where that differs from what everybody may.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) held_max: Option<u32>,
}

/// Which budget does not suffice.
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

/// A budget that does not suffice, and when it may again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) budget: Budget,
    pub(crate) retry_after: Duration,
}

impl Over {
    /// 109, with how long to wait.
    pub(crate) fn rejection(self) -> Rejection {
        let ms = u64::try_from(self.retry_after.as_millis()).unwrap_or(u64::MAX).max(1);
        Rejection::RateLimited { why: SmolStr::new_static(self.budget.words()), retry_after_ms: Some(ms) }
    }
}

/// What was charged for a command, until it is known what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    cart: CartId,
    amount: u64,
}

/// A cart that strangers have here.
#[derive(Debug)]
struct CartCharge {
    owners: Vec<Owner>,
    held: u64,
    until: Instant,
    /// An answer has shown that there is such a cart.
    is_open: bool,
}

/// All accounts.
#[derive(Debug, Default)]
struct Accounts {
    owners: BTreeMap<Owner, Account>,
    swept: Option<Instant>,
    carts: BTreeMap<CartId, CartCharge>,
    ends: BTreeSet<(Instant, CartId)>,
}

/// The budgets of a node's callers.
#[derive(Debug)]
pub(crate) struct Budgets {
    config: BudgetConfig,
    accounts: Mutex<Accounts>,
    over: [AtomicU64; Budget::ALL.len()],
}

/// Those who are charged for a caller: none for callers of the house.
pub(crate) type Owners = Vec<(Owner, Terms)>;

impl Budgets {
    pub(crate) fn new(config: BudgetConfig) -> Budgets {
        Budgets { config, accounts: Mutex::default(), over: Default::default() }
    }

    /// How often each budget did not suffice, as Prometheus text.
    pub(crate) fn text(&self) -> String {
        let name = "boxoffice_edge_over_budget_total";
        let mut text = format!("# HELP {name} Refusals because a caller had taken enough, by budget.\n");
        text.push_str(&format!("# TYPE {name} counter\n"));
        for budget in Budget::ALL {
            let count = self.over[budget as usize].load(Ordering::Relaxed);
            text.push_str(&format!("{name}{{budget=\"{}\"}} {count}\n", budget.name()));
        }
        text
    }

    fn over(&self, budget: Budget, retry_after: Duration) -> Over {
        self.over[budget as usize].fetch_add(1, Ordering::Relaxed);
        Over { budget, retry_after }
    }

    /// A connection came from this network. Whether the network may have it: one that may not has a little while to show a
    /// key, as long as there are not twice too many.
    pub(crate) fn connect(&self, address: IpAddr, now: Instant) -> Result<bool, Over> {
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

    /// A connection beyond the budget has shown no key.
    pub(crate) fn too_many_connections(&self) -> Over {
        self.over(Budget::Connections, RETRY_AFTER)
    }

    /// It has ended, or has shown that it is no stranger's.
    pub(crate) fn disconnect(&self, address: IpAddr) {
        let owner = Owner::Network(ClientNetwork::of(address));
        if let Some(account) = self.accounts.lock().owners.get_mut(&owner) {
            account.connections = account.connections.saturating_sub(1);
        }
    }

    /// A request that costs so much.
    pub(crate) fn request(&self, owners: &Owners, weight: u32, now: Instant) -> Result<(), Over> {
        if owners.is_empty() {
            return Ok(());
        }
        let mut accounts = self.accounts.lock();
        for (owner, terms) in owners {
            let limit = match owner {
                // Its network pays.
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

    /// A command is to be handed to the node: charges what it may come to hold, if its owners may have that.
    pub(crate) fn begin(&self, owners: &Owners, command: &Command, now: Instant) -> Result<Option<Charge>, Over> {
        let Command::Cart(cart, command) = command else { return Ok(None) };
        if owners.is_empty() {
            return Ok(None);
        }
        let amount = match command {
            CartCommand::Hold { lines, .. } => lines.iter().map(wanted).sum(),
            // What the line has already is charged a second time, until the answer says what there is.
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
    ) -> Result<(), Over> {
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

    /// What came of a command is known. Where nobody knows, it stays charged until the cart would end.
    pub(crate) fn end(&self, charge: Charge, result: &door::Result, now: Instant, true_now: Timestamp) {
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

impl Accounts {
    /// The account of an owner. Those that are idle go when there are many.
    fn of(&mut self, owner: Owner, now: Instant) -> &mut Account {
        let is_due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_EVERY);
        if self.owners.len() >= ACCOUNTS_KEPT && is_due && !self.owners.contains_key(&owner) {
            self.owners.retain(|_, account| !account.is_idle(now));
            self.swept = Some(now);
        }
        self.owners.entry(owner).or_insert_with(|| Account::new(now))
    }

    /// Those whose budgets must suffice for a change of this cart: the caller's, and those of whoever opened it, who are
    /// charged. Otherwise two networks would fill each other's carts without an end.
    fn payers(&self, callers: &Owners, cart: CartId) -> Owners {
        let mut payers = callers.clone();
        for owner in self.carts.get(&cart).into_iter().flat_map(|charge| &charge.owners) {
            if !callers.iter().any(|(caller, _)| caller == owner) {
                payers.push((owner.clone(), Terms::default()));
            }
        }
        payers
    }

    /// Carts whose time is over hold nothing any more.
    fn expire(&mut self, now: Instant) {
        while let Some((end, cart)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, cart));
            if let Some(charge) = self.carts.remove(&cart) {
                self.each(&charge.owners, |account| {
                    account.held = account.held.saturating_sub(charge.held);
                    account.carts = account.carts.saturating_sub(1);
                });
            }
        }
    }

    fn each(&mut self, owners: &[Owner], mut change: impl FnMut(&mut Account)) {
        for owner in owners {
            if let Some(account) = self.owners.get_mut(owner) {
                change(account);
            }
        }
    }

    /// More is held by a cart, which ends no earlier than then.
    fn charge(&mut self, owners: &Owners, cart: CartId, amount: u64, until: Instant, now: Instant) {
        if let std::collections::btree_map::Entry::Vacant(free) = self.carts.entry(cart) {
            let owners: Vec<Owner> = owners.iter().map(|(owner, _)| owner.clone()).collect();
            free.insert(CartCharge { owners: owners.clone(), held: 0, until, is_open: false });
            self.ends.insert((until, cart));
            self.each(&owners, |account| account.carts += 1);
        }
        let (held, end) = self.carts.get(&cart).map_or((0, until), |charge| (charge.held, charge.until));
        self.set(cart, held + amount, end.max(until), now);
    }

    /// What was charged for a command becomes what was granted; nothing of a cart that never was stays.
    fn settle(&mut self, cart: CartId, charged: u64, granted: u64, until: Option<Instant>, now: Instant) {
        let Some(charge) = self.carts.get_mut(&cart) else { return };
        charge.is_open |= until.is_some();
        let (held, end) = (charge.held.saturating_sub(charged) + granted, until.unwrap_or(charge.until));
        if held == 0 && !charge.is_open {
            return self.over(cart, now);
        }
        self.set(cart, held, end, now);
    }

    /// A cart is as its owner was shown it.
    fn shows(&mut self, cart: CartId, view: &CartView, ends: impl Fn(Timestamp) -> Instant, now: Instant) {
        match view.state {
            CartState::Active => {
                if let Some(charge) = self.carts.get_mut(&cart) {
                    charge.is_open = true;
                }
                self.set(cart, view.lines.iter().map(amount_of).sum(), ends(view.deadline), now);
            }
            _ => self.over(cart, now),
        }
    }

    /// A cart has ended: what is left of its time is credited.
    fn over(&mut self, cart: CartId, now: Instant) {
        self.set(cart, 0, now, now);
        if let Some(charge) = self.carts.remove(&cart) {
            self.ends.remove(&(charge.until, cart));
            self.each(&charge.owners, |account| account.carts = account.carts.saturating_sub(1));
        }
    }

    /// A cart holds so much until then; its owners are charged, or credited, the difference.
    fn set(&mut self, cart: CartId, held: u64, until: Instant, now: Instant) {
        let Some(charge) = self.carts.get_mut(&cart) else { return };
        let seat_seconds = |held: u64, until: Instant| held as f64 * until.saturating_duration_since(now).as_secs_f64();
        let more = seat_seconds(held, until) - seat_seconds(charge.held, charge.until);
        let (before, owners) = (charge.held, charge.owners.clone());
        self.ends.remove(&(charge.until, cart));
        (charge.held, charge.until) = (held, until);
        self.ends.insert((until, cart));
        self.each(&owners, |account| {
            account.held = (account.held + held).saturating_sub(before);
            account.pledged.level = (account.pledged.level + more).max(0.0);
        });
    }
}

/// How much a line wants to hold.
fn wanted(line: &WantedLine) -> u64 {
    match &line.want {
        Want::Seats { seats, .. } => seats.as_slice().len() as u64,
        Want::Best(wish) => u64::from(wish.count),
        Want::Places { quantity, .. } | Want::Units { quantity, .. } => u64::from(*quantity),
        Want::Slot { .. } => 1,
        Want::Quota { .. } => 0,
    }
}

/// How much a line holds.
fn amount_of(line: &LineView) -> u64 {
    match &line.content {
        Content::Seats(seats) => seats.len() as u64,
        Content::Places { quantity, .. } | Content::Units { quantity, .. } if !line.late => u64::from(*quantity),
        Content::Places { .. } | Content::Units { .. } => 0,
        Content::Slot { .. } => 1,
    }
}

/// What an op costs in requests: reads that take long count as several.
pub(crate) fn weight_of(op: Op) -> u32 {
    match op {
        Op::SessionGet | Op::HallGet | Op::SessionMap | Op::Shards => 5,
        // Of a city, it asks every venue there.
        Op::SessionSearch => 20,
        Op::VenueSearch | Op::TitleSearch => 10,
        Op::ResourceFreeSlots | Op::ResourceBookings => 10,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
