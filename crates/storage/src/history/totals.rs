//! Sums over the records of a shard.

use std::collections::BTreeMap;

use boxoffice_core::{answer::CartState, money::Currency, payment::PaymentStatus, state_map::State};
use serde::{Deserialize, Serialize};

/// Exact sums, written in the same batch as the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub entities: u64,
    /// Carts by state: active, checking out, done, canceled, expired.
    pub carts: [u64; 5],
    pub orders: u64,
    /// Seats in the lines of orders that were not refunded.
    pub order_seats: u64,
    /// By currency: how many orders, and the sum of their totals in minor units.
    pub revenue: BTreeMap<Currency, (u64, i64)>,
    /// Payments of the orders: recorded, authorized, captured, failed.
    pub payments: [u64; 4],
    /// By currency: how many refunds, and their sum in minor units.
    pub refunds: BTreeMap<Currency, (u64, i64)>,
    pub customers: u64,
    /// Orders in their purchases.
    pub purchases: u64,
}

impl Totals {
    /// The sums of one entity.
    pub fn of(state: &State) -> Totals {
        let mut totals = Totals { entities: 1, ..Totals::default() };
        match state {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => {}
            State::Directory(_) | State::Cluster(_) => {}
            State::Customer(customer) => {
                totals.customers = 1;
                totals.purchases = customer.newest();
            }
            State::Cart(cart) => {
                let place = cart.state().map(|state| match state {
                    CartState::Active => 0,
                    CartState::CheckingOut => 1,
                    CartState::Done => 2,
                    CartState::Canceled => 3,
                    CartState::Expired => 4,
                });
                // A cart that was never opened is not counted.
                if let Some(place) = place {
                    totals.carts[place] = 1;
                }
                if let Some(order) = cart.order() {
                    totals.orders = 1;
                    totals.order_seats = cart.seats();
                    totals.revenue.insert(order.total.currency, (1, order.total.amount));
                }
                if let Some((payment, refunds)) = cart.money() {
                    totals.payments[match payment {
                        PaymentStatus::Recorded => 0,
                        PaymentStatus::Authorized => 1,
                        PaymentStatus::Captured => 2,
                        PaymentStatus::CaptureFailed { .. } => 3,
                    }] = 1;
                    for refund in refunds {
                        let sum = totals.refunds.entry(refund.amount.currency).or_default();
                        *sum = (sum.0 + 1, sum.1.saturating_add(refund.amount.amount));
                    }
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
        add_sums(&mut self.revenue, &other.revenue);
        self.payments.iter_mut().zip(other.payments).for_each(|(sum, more)| *sum += more);
        add_sums(&mut self.refunds, &other.refunds);
        self.customers += other.customers;
        self.purchases += other.purchases;
    }

    /// Reverses [`Totals::add`].
    pub fn subtract(&mut self, other: &Totals) {
        self.entities -= other.entities;
        self.carts.iter_mut().zip(other.carts).for_each(|(sum, less)| *sum -= less);
        self.orders -= other.orders;
        self.order_seats -= other.order_seats;
        subtract_sums(&mut self.revenue, &other.revenue);
        self.payments.iter_mut().zip(other.payments).for_each(|(sum, less)| *sum -= less);
        subtract_sums(&mut self.refunds, &other.refunds);
        self.customers -= other.customers;
        self.purchases -= other.purchases;
    }
}

fn add_sums(sums: &mut BTreeMap<Currency, (u64, i64)>, more: &BTreeMap<Currency, (u64, i64)>) {
    for (currency, (count, amount)) in more {
        let sum = sums.entry(*currency).or_default();
        *sum = (sum.0 + count, sum.1.saturating_add(*amount));
    }
}

fn subtract_sums(sums: &mut BTreeMap<Currency, (u64, i64)>, less: &BTreeMap<Currency, (u64, i64)>) {
    for (currency, (count, amount)) in less {
        let sum = sums.entry(*currency).or_default();
        *sum = (sum.0 - count, sum.1.saturating_sub(*amount));
    }
    sums.retain(|_, (count, _)| *count > 0);
}
