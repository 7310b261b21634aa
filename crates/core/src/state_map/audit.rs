//! The audit of a shard, which counts everything anew.

use alloc::vec::Vec;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use super::{State, StateMap};
use crate::{
    answer::{CartState, Claim, SeatCounts},
    cart::Cart,
    id::Entity,
    money::{Currency, Money},
    payment::PaymentCounts,
    session::Session,
};

/// How many violations are described. The rest is only counted.
const VIOLATIONS_TOLD: usize = 100;

/// Sums over a shard, counted anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct ShardAudit {
    #[n(0)]
    pub venues: u64,
    #[n(1)]
    pub sessions: u64,
    /// Carts that are active, checking out, done, canceled and expired.
    #[n(2)]
    pub carts: [u64; 5],
    /// Carts that no client opened. They remember a hold that they disowned.
    #[n(3)]
    pub tombstones: u64,
    #[n(4)]
    pub products: u64,
    #[n(5)]
    pub resources: u64,
    #[n(6)]
    pub customers: u64,
    /// Seats of all sessions, by state.
    #[n(7)]
    pub seats: SeatTotals,
    /// Places of all areas, by state. None of them is blocked.
    #[n(8)]
    pub places: SeatTotals,
    /// Units of all products, by state. None of them is blocked.
    #[n(9)]
    pub units: SeatTotals,
    /// Bookings of all resources.
    #[n(10)]
    pub bookings: u64,
    /// Orders among the purchases of customers.
    #[n(11)]
    pub purchases: u64,
    /// Refunds of orders.
    #[n(12)]
    pub refunds: u64,
    /// Holds that are live.
    #[n(13)]
    pub holds: u64,
    #[n(14)]
    pub orders: u64,
    /// The sum of the orders, by currency.
    #[n(18)]
    pub revenue: Vec<Money>,
    /// Messages owed to others.
    #[n(15)]
    pub owed: u64,
    /// Steps of payments that are open.
    #[n(16)]
    pub payments: PaymentCounts,
    /// How many promises are broken.
    #[n(17)]
    pub broken: u64,
    /// The first hundred violations, in words. Empty when every promise holds.
    #[n(19)]
    pub violations: Vec<SmolStr>,
}

/// Seats by state, over many sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct SeatTotals {
    #[n(0)]
    pub free: u64,
    /// Seats in carts.
    #[n(1)]
    pub held: u64,
    #[n(2)]
    pub sold: u64,
    /// Seats kept off sale.
    #[n(3)]
    pub blocked: u64,
}

impl StateMap {
    /// Counts everything anew, and checks what can be checked within the shard.
    pub fn audit(&self) -> ShardAudit {
        let mut audit = ShardAudit::default();
        for (entity, state) in self.entities() {
            match &**state {
                State::Venue(venue) => {
                    audit.venues += 1;
                    audit.note(entity, venue.violations());
                }
                State::Session(session) => audit.add_session(entity, session),
                State::Cart(cart) => {
                    audit.add_cart(entity, cart);
                    audit.note(entity, self.uncovered(cart));
                }
                State::Product(product) => {
                    let found = product.audit();
                    audit.products += 1;
                    audit.units.free += found.counts.free;
                    audit.units.held += found.counts.held;
                    audit.units.sold += found.counts.sold;
                    audit.holds += found.holds.len() as u64;
                    audit.note(entity, found.violations);
                }
                State::Resource(resource) => {
                    let found = resource.audit();
                    audit.resources += 1;
                    audit.bookings += found.bookings;
                    audit.holds += found.holds.len() as u64;
                    audit.note(entity, found.violations);
                }
                State::Customer(customer) => {
                    let found = customer.audit();
                    audit.customers += 1;
                    audit.purchases += found.purchases.len() as u64;
                    audit.holds += found.holds.len() as u64;
                    audit.note(entity, found.violations);
                }
                State::Code(code) => {
                    let found = code.audit();
                    audit.holds += found.holds.len() as u64;
                    audit.note(entity, found.violations);
                }
                State::Directory(_) | State::Cluster(_) => {}
            }
        }
        let (kept, counted) = (self.payments(), audit.payments);
        if kept != counted {
            audit.broken += 1;
            audit.violations.push(format_smolstr!("open payments are kept as {kept:?}, and are {counted:?}"));
        }
        audit
    }

    /// Lines of a cart whose holds in this shard do not cover them. A hold covers its line at every instant.
    fn uncovered(&self, cart: &Cart) -> Vec<SmolStr> {
        let mut wrong = Vec::new();
        for claim in cart.claims() {
            let Some(entry) = self.entries.get(&claim.entity) else { continue };
            let (held, sold) = (entry.state.held(claim.hold), entry.state.sold(claim.hold));
            let covered = match (cart.state(), &claim.portion) {
                (Some(CartState::Active | CartState::CheckingOut), Some(portion)) => {
                    held.as_ref().is_some_and(|held| held.covers(portion))
                }
                (Some(CartState::Done), Some(portion)) => {
                    sold.as_ref() == Some(portion) || held.as_ref().is_some_and(|held| held.covers(portion))
                }
                // A refund may still be on its way.
                (_, None) => true,
                (Some(CartState::Canceled | CartState::Expired) | None, Some(_)) => sold.is_none(),
            };
            if !covered {
                let Claim { entity, portion, .. } = claim;
                wrong.push(format_smolstr!("line of {portion:?} in {entity}, which holds {held:?} and sold {sold:?}"));
            }
        }
        wrong
    }
}

impl ShardAudit {
    fn add_session(&mut self, entity: &Entity, session: &Session) {
        self.sessions += 1;
        let audit = session.audit();
        let SeatCounts { free, held, sold, blocked } = audit.counts;
        self.seats.free += u64::from(free);
        self.seats.held += u64::from(held);
        self.seats.sold += u64::from(sold);
        self.seats.blocked += u64::from(blocked);
        for area in &audit.areas {
            self.places.free += u64::from(area.free);
            self.places.held += u64::from(area.held);
            self.places.sold += u64::from(area.sold);
        }
        self.holds += audit.holds.len() as u64;
        self.note(entity, audit.violations);
    }

    fn add_cart(&mut self, entity: &Entity, cart: &Cart) {
        let Some(audit) = cart.audit() else {
            self.tombstones += 1;
            return;
        };
        let place = match audit.cart.state {
            CartState::Active => 0,
            CartState::CheckingOut => 1,
            CartState::Done => 2,
            CartState::Canceled => 3,
            CartState::Expired => 4,
        };
        self.carts[place] += 1;
        self.owed += u64::from(audit.owed);
        self.payments.add(cart.payments());
        self.refunds += audit.refunds.len() as u64;
        if let Some(order) = cart.order() {
            self.orders += 1;
            self.earn(order.total.currency, order.total.amount);
        }
        self.note(entity, audit.violations);
    }

    fn earn(&mut self, currency: Currency, amount: i64) {
        match self.revenue.iter_mut().find(|sum| sum.currency == currency) {
            Some(sum) => sum.amount += amount,
            None => self.revenue.push(Money { amount, currency }),
        }
    }

    fn note(&mut self, entity: &Entity, violations: Vec<SmolStr>) {
        self.broken += violations.len() as u64;
        let room = VIOLATIONS_TOLD - self.violations.len().min(VIOLATIONS_TOLD);
        self.violations.extend(violations.iter().take(room).map(|violation| format_smolstr!("{entity}: {violation}")));
    }
}
