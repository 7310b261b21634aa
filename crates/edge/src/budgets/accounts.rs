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

use super::{Owners, Terms};
use crate::network::ClientNetwork;

/// Accounts that are kept before idle ones are dropped.
pub(super) const ACCOUNTS_KEPT: usize = 16_384;

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

    fn is_empty(&self, now: Instant) -> bool {
        self.level <= now.saturating_duration_since(self.at).as_secs_f64() * self.per_second
    }
}

/// The amounts that one owner takes.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) connections: u32,
    pub(super) requests: Bucket,
    pub(super) carts: u32,
    /// Seats, places, units and slots.
    pub(super) held: u64,
    /// Seat-seconds.
    pub(super) pledged: Bucket,
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

/// A cart of strangers.
#[derive(Debug)]
pub(super) struct CartCharge {
    owners: Vec<Owner>,
    pub(super) held: u64,
    until: Instant,
    /// Whether an answer has shown that the cart exists.
    is_open: bool,
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
                payers.push((owner.clone(), Terms::default()));
            }
        }
        payers
    }

    /// Removes the carts that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
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

    /// Charges a cart that expires no earlier than `until`.
    pub(super) fn charge(&mut self, owners: &Owners, cart: CartId, amount: u64, until: Instant, now: Instant) {
        if let Entry::Vacant(free) = self.carts.entry(cart) {
            let owners: Vec<Owner> = owners.iter().map(|(owner, _)| owner.clone()).collect();
            free.insert(CartCharge { owners: owners.clone(), held: 0, until, is_open: false });
            self.ends.insert((until, cart));
            self.each(&owners, |account| account.carts += 1);
        }
        let (held, end) = self.carts.get(&cart).map_or((0, until), |charge| (charge.held, charge.until));
        self.set(cart, held + amount, end.max(until), now);
    }

    /// Replaces the charge of a command by the granted amount. Removes a cart that was never opened.
    pub(super) fn settle(&mut self, cart: CartId, charged: u64, granted: u64, until: Option<Instant>, now: Instant) {
        let Some(charge) = self.carts.get_mut(&cart) else { return };
        charge.is_open |= until.is_some();
        let (held, end) = (charge.held.saturating_sub(charged) + granted, until.unwrap_or(charge.until));
        if held == 0 && !charge.is_open {
            return self.over(cart, now);
        }
        self.set(cart, held, end, now);
    }

    /// Sets the charge of a cart to what an answer shows.
    pub(super) fn shows(&mut self, cart: CartId, view: &CartView, ends: impl Fn(Timestamp) -> Instant, now: Instant) {
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

    /// A cart has ended. Credits the rest of its time.
    pub(super) fn over(&mut self, cart: CartId, now: Instant) {
        self.set(cart, 0, now, now);
        if let Some(charge) = self.carts.remove(&cart) {
            self.ends.remove(&(charge.until, cart));
            self.each(&charge.owners, |account| account.carts = account.carts.saturating_sub(1));
        }
    }

    /// Sets how much a cart holds, and until when. Charges or credits its owners the difference.
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

/// How much a line holds.
pub(super) fn amount_of(line: &LineView) -> u64 {
    match &line.content {
        Content::Seats(seats) => seats.len() as u64,
        Content::Places { quantity, .. } | Content::Units { quantity, .. } if !line.late => u64::from(*quantity),
        Content::Places { .. } | Content::Units { .. } => 0,
        Content::Slot { .. } => 1,
    }
}
