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
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, CartState, CartView, Held},
    command::{CartCommand, Command, Want, WantedLine},
    id::CartId,
    refusal::Refusal,
    time::Timestamp,
};
use boxoffice_node::{api, metrics_text::MetricsText};
use boxoffice_wire::{Rejection, limits::DEADLINE_MS_MAX, weight};
use smol_str::SmolStr;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

pub(crate) use self::accounts::Owner;
use self::accounts::{Account, Accounts, Bucket, CartCharge, Claim, amount_of};
use crate::{network::ClientNetwork, planted};

/// Budgets of one network and of one customer on this node. 0 is without a limit.
#[derive(Clone, Debug)]
pub struct BudgetConfig {
    /// Connections of one network at the same time.
    pub connections: u32,
    /// New connections of one network a second. Five seconds' worth may come at once.
    pub connections_per_second: u32,
    /// TLS handshakes of one network a second. Five seconds' worth may come at once.
    pub handshakes_per_second: u32,
    /// Requests a second of one network. Five seconds' worth may come at once. A request counts by the weight of its op, of which
    /// [`weight::REQUEST`] are one.
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
            connections_per_second: 100,
            handshakes_per_second: 50,
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

/// A bucket of an account.
type OfAccount = fn(&mut Account) -> &mut Bucket;

/// The time to wait in a refusal for which nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The budgets of a key that has its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyBudgets {
    pub(crate) requests_per_second: Option<u32>,
    pub(crate) held_max: Option<u32>,
}

/// A kind of budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    Connections,
    NewConnections,
    Handshakes,
    Requests,
    Probes,
    Carts,
    NodeCarts,
    Held,
    CartHeld,
    SeatSeconds,
}

impl Budget {
    const ALL: [Budget; 10] = [
        Budget::Connections,
        Budget::NewConnections,
        Budget::Handshakes,
        Budget::Requests,
        Budget::Probes,
        Budget::Carts,
        Budget::NodeCarts,
        Budget::Held,
        Budget::CartHeld,
        Budget::SeatSeconds,
    ];

    fn name(self) -> &'static str {
        match self {
            Budget::Connections => "connections",
            Budget::NewConnections => "new_connections",
            Budget::Handshakes => "handshakes",
            Budget::Requests => "requests",
            Budget::Probes => "probes",
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
            Budget::NewConnections => "too many new connections a second from this network",
            Budget::Handshakes => "too many TLS handshakes a second from this network",
            Budget::Requests => "too many requests a second",
            Budget::Probes => "too many probes a second",
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
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    cart: CartId,
    claim: Claim,
    /// The command may only seem to exceed a budget. Its cart is read before it is submitted.
    look: Option<Arc<Look>>,
}

/// What was found when a cart was read before its command was submitted.
#[derive(Debug, Default)]
pub(crate) struct Look {
    begun: OnceLock<()>,
    over: OnceLock<OverBudget>,
}

impl Charge {
    /// What is charged for the command now.
    fn claim(&self) -> Claim {
        let is_charged = self.look.as_ref().is_none_or(|look| look.begun.get().is_some());
        if is_charged { self.claim } else { Claim::Nothing }
    }

    /// Whether the cart must be read before its command is submitted.
    pub(crate) fn needs_look(&self) -> bool {
        self.look.is_some()
    }

    /// The budget that the command exceeds, as the cart has shown.
    pub(crate) fn over(&self) -> Option<OverBudget> {
        self.look.as_ref().and_then(|look| look.over.get().copied())
    }
}

/// The budgets of a node's callers.
#[derive(Debug)]
pub(crate) struct Budgets {
    config: BudgetConfig,
    accounts: Mutex<Accounts>,
    over: [AtomicU64; Budget::ALL.len()],
}

/// The owners that a caller's requests are charged to. Empty for the operator's own callers.
pub(crate) type Owners = Vec<(Owner, KeyBudgets)>;

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

    /// Counts a new connection of this network.
    pub(crate) fn new_connection(&self, address: IpAddr, now: Instant) -> Result<(), OverBudget> {
        let bucket: OfAccount = |account| &mut account.new_connections;
        self.count(address, (Budget::NewConnections, self.config.connections_per_second), bucket, now)
    }

    /// Counts a TLS handshake of this network.
    pub(crate) fn handshake(&self, address: IpAddr, now: Instant) -> Result<(), OverBudget> {
        let bucket: OfAccount = |account| &mut account.handshakes;
        self.count(address, (Budget::Handshakes, self.config.handshakes_per_second), bucket, now)
    }

    /// Counts a probe of this network. Requests do not use this budget up, so that a balancer is answered whatever else comes from
    /// its address.
    pub(crate) fn probe(&self, address: IpAddr, now: Instant) -> Result<(), OverBudget> {
        self.count(address, (Budget::Probes, self.config.requests_per_second), |account| &mut account.probes, now)
    }

    fn count(
        &self,
        address: IpAddr,
        (budget, limit): (Budget, u32),
        bucket: OfAccount,
        now: Instant,
    ) -> Result<(), OverBudget> {
        if limit == 0 {
            return Ok(());
        }
        let mut accounts = self.accounts.lock();
        let account = accounts.of(Owner::Network(ClientNetwork::of(address)), now);
        let taken = bucket(account).take(now, f64::from(limit), 1);
        taken.map_err(|wait| self.over(budget, wait))
    }

    /// Charges a request of a stranger to its network.
    pub(crate) fn request_of(&self, address: IpAddr, units: u32, now: Instant) -> Result<(), OverBudget> {
        self.request(&vec![(Owner::Network(ClientNetwork::of(address)), KeyBudgets::default())], units, now)
    }

    /// Charges units of requests, of which [`weight::REQUEST`] are one request of the configuration.
    pub(crate) fn request(&self, owners: &Owners, units: u32, now: Instant) -> Result<(), OverBudget> {
        self.charge_units(owners, now, |requests, per_second| requests.take(now, per_second, units))
    }

    /// Charges what is known only afterwards. Later requests wait for it.
    pub(crate) fn owe(&self, owners: &Owners, units: u32, now: Instant) {
        if units > 0 {
            let _ = self.charge_units(owners, now, |requests, per_second| {
                requests.leak(now, per_second);
                requests.level += f64::from(units);
                Ok(())
            });
        }
    }

    /// How many lines a command ends, as far as this node knows its cart.
    pub(crate) fn ended_lines(&self, command: &Command) -> usize {
        match command {
            Command::Cart(cart, CartCommand::Cancel | CartCommand::Checkout { .. }) => {
                self.accounts.lock().carts.get(cart).map_or(0, CartCharge::line_count)
            }
            _ => 0,
        }
    }

    fn charge_units(
        &self,
        owners: &Owners,
        now: Instant,
        mut charge: impl FnMut(&mut Bucket, f64) -> Result<(), Duration>,
    ) -> Result<(), OverBudget> {
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
            let per_second = f64::from(limit) * f64::from(weight::REQUEST);
            let charged = charge(&mut accounts.of(owner.clone(), now).requests, per_second);
            charged.map_err(|wait| self.over(Budget::Requests, wait))?;
        }
        Ok(())
    }

    /// Charges a command with the amount by which it may come to hold more, before it is submitted.
    ///
    /// What a line holds is known from the last answer that has shown it. Another node may have shown a later one. So a
    /// changed quantity is never refused by this node's memory alone, and its cart is read first ([`Charge::needs_look`]).
    pub(crate) fn begin(&self, owners: &Owners, command: &Command, now: Instant) -> Result<Option<Charge>, OverBudget> {
        let Command::Cart(cart, command) = command else { return Ok(None) };
        if owners.is_empty() {
            return Ok(None);
        }
        let claim = match command {
            CartCommand::Hold { lines, .. } => Claim::Hold(lines.iter().map(wanted).sum()),
            CartCommand::SetQuantity { line, quantity, .. } => Claim::Line(*line, u64::from(*quantity)),
            CartCommand::Open { .. }
            | CartCommand::Release { .. }
            | CartCommand::SetNote { .. }
            | CartCommand::Cancel
            | CartCommand::CancelCheckout { .. }
            | CartCommand::Checkout { .. } => Claim::Nothing,
            CartCommand::Get
            | CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. }
            | CartCommand::Paid { .. }
            | CartCommand::Order
            | CartCommand::Audit => return Ok(None),
        };
        let opens = matches!(command, CartCommand::Open { .. } | CartCommand::Hold { .. });
        let mut accounts = self.accounts.lock();
        accounts.expire(now);
        let look = match self.charge(&mut accounts, owners, *cart, claim, opens, now) {
            Ok(()) => None,
            Err(_) if matches!(claim, Claim::Line(..)) && !planted::is("credit after charge") => Some(Arc::default()),
            Err((budget, retry_after)) => return Err(self.over(budget, retry_after)),
        };
        Ok(Some(Charge { cart: *cart, claim, look }))
    }

    /// Charges a changed quantity whose cart was read. Returns whether it may be submitted. If not, its charge says why.
    pub(crate) fn begin_looked(&self, owners: &Owners, charge: &Charge, view: &CartView, now: Instant) -> bool {
        let (Claim::Line(line, quantity), Some(look)) = (charge.claim, &charge.look) else { return true };
        let shown = view.lines.iter().find(|shown| shown.line == line).map_or(0, amount_of);
        let mut accounts = self.accounts.lock();
        accounts.expire(now);
        accounts.look(charge.cart, view, now);
        // A cart that is not charged here is charged only once it grows here.
        if !accounts.carts.contains_key(&charge.cart) && quantity <= shown {
            return true;
        }
        match self.charge(&mut accounts, owners, charge.cart, charge.claim, false, now) {
            Ok(()) => _ = look.begun.set(()),
            Err((budget, retry_after)) => _ = look.over.set(self.over(budget, retry_after)),
        }
        look.over.get().is_none()
    }

    fn charge(
        &self,
        accounts: &mut Accounts,
        owners: &Owners,
        cart: CartId,
        claim: Claim,
        opens: bool,
        now: Instant,
    ) -> Result<(), (Budget, Duration)> {
        let known = accounts.carts.get(&cart);
        let (is_known, amount) = (known.is_some(), growth(claim, known));
        // What takes no more is never refused.
        if amount > 0 || opens {
            self.check(accounts, owners, cart, amount, now)?;
        }
        if amount > 0 || opens || (is_known && claim != Claim::Nothing) {
            let (until, answered_by) = (now + self.config.life, now + Duration::from_millis(DEADLINE_MS_MAX));
            accounts.charge(owners, cart, claim, (until, answered_by), now);
        }
        Ok(())
    }

    fn check(
        &self,
        accounts: &mut Accounts,
        owners: &Owners,
        cart: CartId,
        amount: u64,
        now: Instant,
    ) -> Result<(), (Budget, Duration)> {
        let known = accounts.carts.get(&cart).map(CartCharge::held);
        let config = &self.config;
        let is_over = |limit: u32, has: u64| limit > 0 && has > u64::from(limit);
        if amount > 0 && is_over(config.cart_held, known.unwrap_or(0) + amount) {
            return Err((Budget::CartHeld, RETRY_AFTER));
        }
        let first_end = accounts.ends.first().map_or(RETRY_AFTER, |(end, _)| end.saturating_duration_since(now));
        if known.is_none() && is_over(config.node_carts, accounts.carts.len() as u64 + 1) {
            return Err((Budget::NodeCarts, first_end));
        }
        for (owner, terms) in accounts.payers(owners, cart) {
            let is_key = matches!(owner, Owner::Key(_));
            let account = accounts.of(owner, now);
            account.pledged.leak(now, f64::from(config.seat_seconds_per_second));
            let held_max = if is_key { terms.held_max.unwrap_or(0) } else { config.held };
            if amount > 0 && is_over(held_max, account.held + amount) {
                return Err((Budget::Held, first_end));
            }
            if is_key {
                continue;
            }
            if known.is_none() && is_over(config.carts, u64::from(account.carts) + 1) {
                return Err((Budget::Carts, first_end));
            }
            let pledged = account.pledged.level + amount as f64 * config.life.as_secs_f64();
            if amount > 0 && config.seat_seconds > 0 && pledged > config.seat_seconds as f64 {
                let excess = pledged - config.seat_seconds as f64;
                let leaks = f64::from(config.seat_seconds_per_second.max(1));
                return Err((Budget::SeatSeconds, Duration::from_secs_f64(excess / leaks)));
            }
        }
        Ok(())
    }

    /// Replaces the charge of a command. If the outcome is unknown, it stays charged until the cart is shown or would expire.
    /// Returns the cart with its end, or without one if it has ended, if the result says so.
    pub(crate) fn end(
        &self,
        charge: &Charge,
        result: &api::Result,
        now: Instant,
        true_now: Timestamp,
    ) -> Option<(CartId, Option<Instant>)> {
        let mut accounts = self.accounts.lock();
        accounts.expire(now);
        let ends = |deadline: Timestamp| now + Duration::from_millis(deadline.0.saturating_sub(true_now.0));
        let (cart, claim) = (charge.cart, charge.claim());
        match result {
            Ok(Ok(Answered { answer: Answer::Held(Held { lines, deadline, .. }), .. })) => {
                accounts.replace_charge(cart, claim, lines, Some(ends(*deadline)), now);
                return Some((cart, Some(ends(*deadline))));
            }
            Ok(Ok(Answered { answer: Answer::Cart(view), .. })) => {
                accounts.shows(cart, claim, view, ends, now);
                let is_open = view.state == CartState::Active;
                return Some((cart, is_open.then(|| ends(view.deadline))));
            }
            Ok(Ok(Answered { answer: Answer::Order { .. }, .. }))
            | Ok(Err(Refusal::CartExpired | Refusal::HoldAgeExceeded)) => {
                accounts.over(cart, now);
                return Some((cart, None));
            }
            // Nothing was granted.
            Ok(Err(_)) => accounts.replace_charge(cart, claim, &[], None, now),
            Err(failure) if !failure.may_have_happened() => accounts.replace_charge(cart, claim, &[], None, now),
            Ok(Ok(_)) | Err(_) => accounts.unknown(cart, claim, now),
        }
        None
    }
}

/// How much more a cart may hold with this command.
fn growth(claim: Claim, cart: Option<&CartCharge>) -> u64 {
    match claim {
        Claim::Nothing => 0,
        Claim::Hold(amount) => amount,
        Claim::Line(_, quantity) if planted::is("credit after charge") => quantity,
        Claim::Line(line, quantity) => quantity.saturating_sub(cart.map_or(0, |cart| cart.line(line))),
    }
}

/// How much a wanted line may come to hold.
fn wanted(line: &WantedLine) -> u64 {
    match &line.want {
        Want::Seats { seats, .. } => seats.as_slice().len() as u64,
        Want::Best(wish) => u64::from(wish.count),
        Want::Places { quantity, .. } | Want::Units { quantity, .. } => u64::from(*quantity),
        Want::Slot { .. } => 1,
        Want::Quota { .. } | Want::Uses { .. } => 0,
    }
}

#[cfg(test)]
mod tests;
