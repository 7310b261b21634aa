//! What the entities of a shard that are in the store add up to.

use std::collections::BTreeMap;

use boxoffice_core::{answer::CartState, keep::State, money::Currency};
use boxoffice_wire::status::{CurrencyTotal, NodeAudit};
use serde::{Deserialize, Serialize};

/// Exact sums, changed in the same batch as what they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Entities.
    pub entities: u64,
    /// Carts by state: active, checking out, done, canceled, expired.
    pub carts: [u64; 5],
    /// Orders.
    pub orders: u64,
    /// Seats in the lines of orders.
    pub order_seats: u64,
    /// By currency: how many orders, and the sum of their totals in minor units.
    pub revenue: BTreeMap<Currency, (u64, i64)>,
}

impl Totals {
    /// The sums of one entity.
    pub(crate) fn of(state: &State) -> Totals {
        let mut totals = Totals { entities: 1, ..Totals::default() };
        match state {
            State::Venue(_) | State::Session(_) => {}
            State::Cart(cart) => {
                let place = cart.state().map(|state| match state {
                    CartState::Active => 0,
                    CartState::CheckingOut => 1,
                    CartState::Done => 2,
                    CartState::Canceled => 3,
                    CartState::Expired => 4,
                });
                // A cart that nobody opened is not counted.
                if let Some(place) = place {
                    totals.carts[place] = 1;
                }
                if let Some(order) = cart.order() {
                    totals.orders = 1;
                    totals.order_seats = order.lines.iter().map(|line| line.seats.len() as u64).sum();
                    totals.revenue.insert(order.total.currency, (1, order.total.amount));
                }
            }
        }
        totals
    }

    /// Adds others.
    pub fn add(&mut self, other: &Totals) {
        self.entities += other.entities;
        self.carts.iter_mut().zip(other.carts).for_each(|(sum, more)| *sum += more);
        self.orders += other.orders;
        self.order_seats += other.order_seats;
        for (currency, (orders, amount)) in &other.revenue {
            let sum = self.revenue.entry(*currency).or_default();
            *sum = (sum.0 + orders, sum.1.saturating_add(*amount));
        }
    }

    /// Takes away what was added before.
    pub(crate) fn subtract(&mut self, other: &Totals) {
        self.entities -= other.entities;
        self.carts.iter_mut().zip(other.carts).for_each(|(sum, less)| *sum -= less);
        self.orders -= other.orders;
        self.order_seats -= other.order_seats;
        for (currency, (orders, amount)) in &other.revenue {
            let sum = self.revenue.entry(*currency).or_default();
            *sum = (sum.0 - orders, sum.1.saturating_sub(*amount));
        }
        self.revenue.retain(|_, (orders, _)| *orders > 0);
    }

    /// Adds them to what a node says of itself.
    pub(crate) fn add_to(&self, audit: &mut NodeAudit) {
        let carts = &mut audit.carts;
        let places =
            [&mut carts.active, &mut carts.checking_out, &mut carts.done, &mut carts.canceled, &mut carts.expired];
        places.into_iter().zip(self.carts).for_each(|(sum, more)| *sum += more);
        audit.orders += self.orders;
        audit.order_seats += self.order_seats;
        for (&currency, &(orders, amount)) in &self.revenue {
            match audit.order_totals.iter_mut().find(|total| total.currency == currency) {
                Some(total) => {
                    total.orders += orders;
                    total.amount = total.amount.saturating_add(amount);
                }
                None => audit.order_totals.push(CurrencyTotal { currency, orders, amount }),
            }
        }
        audit.order_totals.sort_unstable_by_key(|total| total.currency);
    }
}
