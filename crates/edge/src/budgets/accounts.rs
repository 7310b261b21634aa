//! The accounts behind the budgets, and the carts that are charged to them.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use boxoffice_core::{
    answer::{CartState, CartView, LineView},
    id::{CartId, Id},
    portion::Content,
    time::Timestamp,
};
use tokio::time::Instant;

use super::{KeyBudgets, Owners};
use crate::network::ClientNetwork;

/// Accounts that are kept before idle ones are dropped.
pub(super) const ACCOUNTS_KEPT: usize = 16_384;

/// Seconds' worth of requests that may come at once.
const BURST_SECONDS: f64 = 5.0;

/// The shortest time between two searches for idle accounts.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The owner of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// All strangers of one network.
    Network(ClientNetwork),
    /// A customer whose token was shown.
    Customer(Id),
    Key(Id),
}

/// A leaky bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) level: f64,
    at: Instant,
    /// The rate at which it leaked when it was last updated.
    per_second: f64,
}

impl Bucket {
    pub(super) fn leak(&mut self, now: Instant, per_second: f64) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level - passed * per_second).max(0.0);
        (self.at, self.per_second) = (now, per_second);
    }

    /// Adds a request of this weight. Some seconds' worth may come at once, and a request that weighs more than these if the bucket
    /// is empty.
    ///
    /// # Errors
    /// The bucket is full. The time after which it is not.
    pub(super) fn take(&mut self, now: Instant, per_second: f64, weight: u32) -> Result<(), Duration> {
        self.leak(now, per_second);
        let most = (per_second * BURST_SECONDS).max(f64::from(weight));
        let level = self.level + f64::from(weight);
        if level > most {
            return Err(Duration::from_secs_f64((level - most) / per_second));
        }
        self.level = level;
        Ok(())
    }

    fn is_empty(&self, now: Instant) -> bool {
        self.level <= now.saturating_duration_since(self.at).as_secs_f64() * self.per_second
    }
}

/// The amounts that one owner takes.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) connections: u32,
    pub(super) new_connections: Bucket,
    pub(super) handshakes: Bucket,
    pub(super) requests: Bucket,
    pub(super) probes: Bucket,
    pub(super) carts: u32,
    /// Seats, places, units and slots.
    pub(super) held: u64,
    /// Seat-seconds.
    pub(super) pledged: Bucket,
}

impl Account {
    fn new(now: Instant) -> Account {
        let empty = Bucket { level: 0.0, at: now, per_second: 0.0 };
        let (new_connections, handshakes, requests, probes, pledged) = (empty, empty, empty, empty, empty);
        Account { connections: 0, new_connections, handshakes, requests, probes, carts: 0, held: 0, pledged }
    }

    fn is_idle(&self, now: Instant) -> bool {
        let buckets = [&self.new_connections, &self.handshakes, &self.requests, &self.probes, &self.pledged];
        self.connections == 0 && self.carts == 0 && buckets.into_iter().all(|bucket| bucket.is_empty(now))
    }
}

/// A cart of strangers.
#[derive(Debug)]
pub(super) struct CartCharge {
    owners: Vec<Owner>,
    /// The lines, and how much each of them holds by the last answer that has shown it.
    lines: Vec<(u32, u64)>,
    /// Quantities that lines are being set to, and how often. A line is charged the largest of them or what it holds. So a
    /// smaller quantity is credited when it is answered, and whatever the order in which they happen, enough is charged.
    settings: Option<BTreeMap<(u32, u64), u32>>,
    /// How much holds under way may come to hold.
    holding: u64,
    /// How much holds whose outcome is unknown may hold.
    unknown: u64,
    /// All that is charged.
    held: u64,
    /// When every command under way has passed its deadline.
    answered_by: Instant,
    until: Instant,
    /// Whether an answer has shown that the cart exists.
    is_open: bool,
}

impl CartCharge {
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// What a line is charged.
    pub(super) fn line(&self, line: u32) -> u64 {
        let known = self.lines.iter().find(|(number, _)| *number == line).map_or(0, |(_, amount)| *amount);
        let settings = self.settings.as_ref();
        let largest = settings.and_then(|all| all.range((line, 0)..=(line, u64::MAX)).next_back());
        known.max(largest.map_or(0, |((_, quantity), _)| *quantity))
    }

    fn change_line(&mut self, line: u32, change: impl FnOnce(&mut CartCharge)) {
        let before = self.line(line);
        change(self);
        self.held = self.held + self.line(line) - before;
    }

    fn show_line(&mut self, line: u32, amount: u64) {
        self.change_line(line, |charge| {
            charge.lines.retain(|(number, _)| *number != line);
            if amount > 0 {
                charge.lines.push((line, amount));
            }
        });
    }

    fn show_lines(&mut self, lines: &[LineView]) {
        let gone = self.lines.iter().map(|(number, _)| *number);
        let gone: Vec<u32> = gone.filter(|number| !lines.iter().any(|line| line.line == *number)).collect();
        gone.into_iter().for_each(|line| self.show_line(line, 0));
        lines.iter().for_each(|line| self.show_line(line.line, amount_of(line)));
    }

    fn begin(&mut self, claim: Claim) {
        match claim {
            Claim::Nothing => {}
            Claim::Hold(amount) => (self.holding, self.held) = (self.holding + amount, self.held + amount),
            Claim::Line(line, quantity) => self.change_line(line, |charge| {
                *charge.settings.get_or_insert_default().entry((line, quantity)).or_default() += 1;
            }),
        }
    }

    /// A command has ended. Returns what it may hold if its outcome is unknown.
    fn end(&mut self, claim: Claim) -> u64 {
        match claim {
            Claim::Nothing => 0,
            Claim::Hold(amount) => {
                let amount = amount.min(self.holding);
                (self.holding, self.held) = (self.holding - amount, self.held - amount);
                amount
            }
            Claim::Line(line, quantity) => {
                self.change_line(line, |charge| {
                    let Some(settings) = &mut charge.settings else { return };
                    if let Entry::Occupied(mut times) = settings.entry((line, quantity)) {
                        *times.get_mut() -= 1;
                        if *times.get() == 0 {
                            times.remove();
                        }
                    }
                    if settings.is_empty() {
                        charge.settings = None;
                    }
                });
                0
            }
        }
    }

    fn forget_unknown(&mut self, now: Instant) {
        self.held -= self.unknown;
        self.unknown = 0;
        // The connections of these commands ended before they were answered.
        if self.answered_by <= now {
            (self.holding, self.settings) = (0, None);
            self.held = self.lines.iter().map(|(_, amount)| amount).sum();
        }
    }
}

/// What a command may come to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Nothing,
    /// New lines.
    Hold(u64),
    /// A line with this quantity.
    Line(u32, u64),
}

/// All accounts.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    pub(super) owners: BTreeMap<Owner, Account>,
    swept: Option<Instant>,
    pub(super) carts: BTreeMap<CartId, CartCharge>,
    pub(super) ends: BTreeSet<(Instant, CartId)>,
}

impl Accounts {
    /// The account of an owner. Drops idle accounts if there are many.
    pub(super) fn of(&mut self, owner: Owner, now: Instant) -> &mut Account {
        let is_due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_EVERY);
        if self.owners.len() >= ACCOUNTS_KEPT && is_due && !self.owners.contains_key(&owner) {
            self.owners.retain(|_, account| !account.is_idle(now));
            self.swept = Some(now);
        }
        self.owners.entry(owner).or_insert_with(|| Account::new(now))
    }

    /// The owners whose budgets must suffice for a change of this cart: those of the caller, and those of the cart, which are
    /// charged. Otherwise two networks could fill each other's carts without limit.
    pub(super) fn payers(&self, callers: &Owners, cart: CartId) -> Owners {
        let mut payers = callers.clone();
        for owner in self.carts.get(&cart).into_iter().flat_map(|charge| &charge.owners) {
            if !callers.iter().any(|(caller, _)| caller == owner) {
                payers.push((owner.clone(), KeyBudgets::default()));
            }
        }
        payers
    }

    /// Removes the carts that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((end, cart)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, cart));
            if let Some(charge) = self.carts.remove(&cart) {
                let held = charge.held();
                self.each(&charge.owners, |account| {
                    account.held = account.held.saturating_sub(held);
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

    /// Charges a command of a cart that expires no earlier than `until`. The command's deadline passes before `answered_by`.
    pub(super) fn charge(
        &mut self,
        owners: &Owners,
        cart: CartId,
        claim: Claim,
        (until, answered_by): (Instant, Instant),
        now: Instant,
    ) {
        if let Entry::Vacant(free) = self.carts.entry(cart) {
            let owners: Vec<Owner> = owners.iter().map(|(owner, _)| owner.clone()).collect();
            self.ends.insert((until, cart));
            let charge = CartCharge {
                owners: owners.clone(),
                lines: Vec::new(),
                settings: None,
                holding: 0,
                unknown: 0,
                held: 0,
                answered_by,
                until,
                is_open: false,
            };
            free.insert(charge);
            self.each(&owners, |account| account.carts += 1);
        }
        let end = self.carts.get(&cart).map_or(until, |charge| charge.until);
        self.change(cart, end.max(until), now, |charge| {
            charge.begin(claim);
            charge.answered_by = charge.answered_by.max(answered_by);
        });
    }

    /// Replaces the charge of a command by the lines that it has added. Removes a cart that was never opened.
    pub(super) fn replace_charge(
        &mut self,
        cart: CartId,
        claim: Claim,
        granted: &[LineView],
        until: Option<Instant>,
        now: Instant,
    ) {
        let Some(charge) = self.carts.get_mut(&cart) else { return };
        charge.is_open |= until.is_some();
        let (is_open, end) = (charge.is_open, until.unwrap_or(charge.until));
        self.change(cart, end, now, |charge| {
            charge.end(claim);
            granted.iter().for_each(|line| charge.show_line(line.line, amount_of(line)));
        });
        if !is_open && self.carts.get(&cart).is_some_and(|charge| charge.held() == 0) {
            self.over(cart, now);
        }
    }

    /// The outcome of a command is unknown. Its charge stays until the cart is shown.
    pub(super) fn unknown(&mut self, cart: CartId, claim: Claim, now: Instant) {
        let Some(until) = self.carts.get(&cart).map(|charge| charge.until) else { return };
        self.change(cart, until, now, |charge| {
            let amount = charge.end(claim);
            (charge.unknown, charge.held) = (charge.unknown + amount, charge.held + amount);
            if let Claim::Line(line, quantity) = claim {
                charge.show_line(line, charge.line(line).max(quantity));
            }
        });
    }

    /// Sets the charge of a cart to what it was seen to hold, if it is charged here. Commands under way stay charged.
    pub(super) fn look(&mut self, cart: CartId, view: &CartView, now: Instant) {
        let Some(until) = self.carts.get(&cart).map(|charge| charge.until) else { return };
        self.change(cart, until, now, |charge| charge.show_lines(&view.lines));
    }

    /// Sets the charge of a cart to what the answer to a command shows. Other commands under way stay charged.
    pub(super) fn shows(
        &mut self,
        cart: CartId,
        claim: Claim,
        view: &CartView,
        ends: impl Fn(Timestamp) -> Instant,
        now: Instant,
    ) {
        match view.state {
            CartState::Active => self.change(cart, ends(view.deadline), now, |charge| {
                charge.is_open = true;
                charge.end(claim);
                charge.forget_unknown(now);
                charge.show_lines(&view.lines);
            }),
            _ => self.over(cart, now),
        }
    }

    /// A cart has ended. Credits the rest of its time.
    pub(super) fn over(&mut self, cart: CartId, now: Instant) {
        self.change(cart, now, now, |charge| {
            (charge.lines, charge.settings) = (Vec::new(), None);
            (charge.holding, charge.unknown, charge.held) = (0, 0, 0);
        });
        if let Some(charge) = self.carts.remove(&cart) {
            self.ends.remove(&(charge.until, cart));
            self.each(&charge.owners, |account| account.carts = account.carts.saturating_sub(1));
        }
    }

    /// Changes what a cart holds, and until when. Charges or credits its owners the difference.
    fn change(&mut self, cart: CartId, until: Instant, now: Instant, change: impl FnOnce(&mut CartCharge)) {
        let Some(charge) = self.carts.get_mut(&cart) else { return };
        let seat_seconds = |held: u64, until: Instant| held as f64 * until.saturating_duration_since(now).as_secs_f64();
        let (before, old_end) = (charge.held(), charge.until);
        change(charge);
        charge.until = until;
        let (held, owners) = (charge.held(), charge.owners.clone());
        let more = seat_seconds(held, until) - seat_seconds(before, old_end);
        self.ends.remove(&(old_end, cart));
        self.ends.insert((until, cart));
        self.each(&owners, |account| {
            account.held = (account.held + held).saturating_sub(before);
            account.pledged.level = (account.pledged.level + more).max(0.0);
        });
    }
}

/// How much a line holds.
pub(super) fn amount_of(line: &LineView) -> u64 {
    match &line.content {
        Content::Seats(seats) => seats.len() as u64,
        Content::Places { quantity, .. } | Content::Units { quantity, .. } if !line.late => u64::from(*quantity),
        Content::Places { .. } | Content::Units { .. } => 0,
        Content::Slot { .. } => 1,
    }
}
