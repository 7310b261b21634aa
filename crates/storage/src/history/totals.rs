//! Sums over the records of a shard.

use std::collections::BTreeMap;

use boxoffice_core::stored::Stored;
use boxoffice_core::{answer::CartState, money::Currency, payment::PaymentStatus, state_map::State};

/// Counts by stored numbers. A state or status that is added later gets another number. Numbers without a count are absent.
type Counts = BTreeMap<u8, u64>;

/// Exact sums, written in the same batch as the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct Totals {
    #[n(0)]
    pub entities: u64,
    /// Carts by the stored number of their state.
    #[n(1)]
    carts: Counts,
    #[n(2)]
    pub orders: u64,
    /// Seats in the lines of orders that were not refunded.
    #[n(3)]
    pub order_seats: u64,
    /// By currency: how many orders, and the sum of their totals in minor units.
    #[n(7)]
    pub revenue: BTreeMap<Currency, (u64, i64)>,
    /// Payments of the orders by the stored number of their status.
    #[n(4)]
    payments: Counts,
    /// By currency: how many refunds, and their sum in minor units.
    #[n(8)]
    pub refunds: BTreeMap<Currency, (u64, i64)>,
    #[n(5)]
    pub customers: u64,
    /// Orders in their purchases.
    #[n(6)]
    pub purchases: u64,
}

impl Totals {
    /// How many carts there are, in any state.
    pub fn all_carts(&self) -> u64 {
        self.carts.values().sum()
    }

    /// How many carts are in a state.
    pub fn carts(&self, state: CartState) -> u64 {
        self.carts.get(&cart_number(state)).copied().unwrap_or(0)
    }

    /// How many payments have a status. The reason of a failure does not matter.
    pub fn payments(&self, status: &PaymentStatus) -> u64 {
        self.payments.get(&payment_number(status)).copied().unwrap_or(0)
    }

    /// The sums of one entity.
    pub fn of(state: &State) -> Totals {
        let mut totals = Totals { entities: 1, ..Totals::default() };
        match state {
            State::Venue(_) | State::Session(_) | State::Product(_) | State::Resource(_) => {}
            State::Code(_) | State::Directory(_) | State::Cluster(_) => {}
            State::Customer(customer) => {
                totals.customers = 1;
                totals.purchases = customer.newest();
            }
            State::Cart(cart) => {
                // A cart that was never opened is not counted.
                if let Some(state) = cart.state() {
                    totals.carts.insert(cart_number(state), 1);
                }
                if let Some(order) = cart.order() {
                    totals.orders = 1;
                    totals.order_seats = cart.seats();
                    totals.revenue.insert(order.total.currency, (1, order.total.amount));
                }
                if let Some((payment, refunds)) = cart.money() {
                    totals.payments.insert(payment_number(payment), 1);
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
        add_counts(&mut self.carts, &other.carts);
        self.orders += other.orders;
        self.order_seats += other.order_seats;
        add_sums(&mut self.revenue, &other.revenue);
        add_counts(&mut self.payments, &other.payments);
        add_sums(&mut self.refunds, &other.refunds);
        self.customers += other.customers;
        self.purchases += other.purchases;
    }

    /// Reverses [`Totals::add`].
    pub fn subtract(&mut self, other: &Totals) {
        self.entities -= other.entities;
        subtract_counts(&mut self.carts, &other.carts);
        self.orders -= other.orders;
        self.order_seats -= other.order_seats;
        subtract_sums(&mut self.revenue, &other.revenue);
        subtract_counts(&mut self.payments, &other.payments);
        subtract_sums(&mut self.refunds, &other.refunds);
        self.customers -= other.customers;
        self.purchases -= other.purchases;
    }
}

/// The stored number of a state.
fn cart_number(state: CartState) -> u8 {
    match state {
        CartState::Active => 0,
        CartState::CheckingOut => 1,
        CartState::Done => 2,
        CartState::Canceled => 3,
        CartState::Expired => 4,
    }
}

/// The stored number of a status.
fn payment_number(status: &PaymentStatus) -> u8 {
    match status {
        PaymentStatus::Recorded => 0,
        PaymentStatus::Authorized => 1,
        PaymentStatus::Captured => 2,
        PaymentStatus::CaptureFailed { .. } => 3,
    }
}

fn add_counts(counts: &mut Counts, more: &Counts) {
    more.iter().for_each(|(number, more)| *counts.entry(*number).or_default() += more);
}

fn subtract_counts(counts: &mut Counts, less: &Counts) {
    less.iter().for_each(|(number, less)| *counts.entry(*number).or_default() -= less);
    counts.retain(|_, count| *count > 0);
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

#[cfg(test)]
mod tests {
    use boxoffice_core::stored;

    use super::*;

    /// A record of a later program may have a sixth state. Its sums are kept beside the five, and it can leave again.
    #[test]
    fn a_state_that_is_added_later_is_counted() {
        let of = |counts: &[(u8, u64)]| Totals { carts: counts.iter().copied().collect(), ..Totals::default() };
        let mut sums = of(&[(2, 7)]);
        sums.add(&of(&[(2, 1), (5, 3)]));
        let mut read: Totals = stored::read(&stored::append(&sums, Vec::new())).expect("it was written");
        assert_eq!((read.all_carts(), read.carts(CartState::Done), read.carts(CartState::Active)), (11, 8, 0));
        read.subtract(&of(&[(5, 3)]));
        assert_eq!(read, of(&[(2, 8)]), "a number without a count is absent, so equal sums are equal");
    }
}
