//! The promises, checked over everything a node keeps: what `admin.audit` of a node says.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    answer::{CartAudit, CartState, Order, SessionAudit},
    id::{CartId, Entity, HoldId, Id, OrderId},
    keep::State,
    money::Currency,
    seat::Seat,
};
use boxoffice_wire::status::{CurrencyTotal, NodeAudit};
use smol_str::format_smolstr;

use crate::{cell::ShardCell, node::NodeHandle};

/// Violations named one by one; the rest are counted.
const VIOLATIONS_MAX: usize = 100;

impl NodeHandle {
    /// Counts everything afresh and checks P1 to P7 across entities, at one moment of the whole node. Selling goes on
    /// meanwhile. Takes about a microsecond a seat; not for the selling threads.
    pub fn audit(&self) -> NodeAudit {
        audit(&self.shared.cells)
    }
}

/// Everything the cells keep, at one moment: a hold is applied before the line that rests on it, in whatever shards they
/// are, so at every moment the sessions' holds cover the carts' lines.
fn audit(cells: &[Arc<ShardCell>]) -> NodeAudit {
    let states: Vec<(Entity, Arc<State>)> = {
        let replicas: Vec<_> = cells.iter().map(|cell| cell.replica.lock()).collect();
        replicas
            .iter()
            .flat_map(|replica| replica.kept.entities().map(|(entity, state)| (entity.clone(), Arc::clone(state))))
            .collect()
    };
    let mut books = Books::default();
    for (entity, state) in &states {
        match &**state {
            State::Venue(_) => books.audit.venues += 1,
            State::Session(session) => books.session(session.audit()),
            State::Cart(cart) => {
                // A cart that was never opened is only the memory of a disowned hold.
                let (Entity::Cart(id), Some(audit)) = (entity, cart.audit()) else { continue };
                books.cart(*id, audit, cart.order().cloned());
            }
        }
    }
    books.close()
}

/// What sessions and carts say, to be compared.
#[derive(Default)]
struct Books {
    audit: NodeAudit,
    holds: BTreeMap<(Id, HoldId), Vec<Seat>>,
    sales: BTreeMap<(Id, OrderId), Vec<Seat>>,
    carts: Vec<(CartId, CartAudit, Option<Arc<Order>>)>,
    totals: BTreeMap<Currency, (u64, i64)>,
}

impl Books {
    fn session(&mut self, session: SessionAudit) {
        let audit = &mut self.audit;
        audit.sessions += 1;
        audit.seats.add(session.counts);
        audit.holds += session.holds.len() as u64;
        audit.violations.extend(session.violations);
        for hold in session.holds {
            audit.held_seats += hold.seats.len() as u64;
            self.holds.insert((session.session.clone(), hold.hold), hold.seats);
        }
        for sale in session.sales {
            audit.sold_seats += sale.seats.len() as u64;
            self.sales.entry((session.session.clone(), sale.order)).or_default().extend(sale.seats);
        }
    }

    fn cart(&mut self, id: CartId, cart: CartAudit, order: Option<Arc<Order>>) {
        let audit = &mut self.audit;
        let carts = &mut audit.carts;
        *match cart.cart.state {
            CartState::Active => &mut carts.active,
            CartState::CheckingOut => &mut carts.checking_out,
            CartState::Done => &mut carts.done,
            CartState::Canceled => &mut carts.canceled,
            CartState::Expired => &mut carts.expired,
        } += 1;
        audit.owed += u64::from(cart.owed);
        audit.violations.extend(cart.violations.iter().cloned());
        if let Some(order) = &order {
            audit.orders += 1;
            audit.order_seats += order.lines.iter().map(|line| line.seats.len() as u64).sum::<u64>();
            let total = self.totals.entry(order.total.currency).or_default();
            *total = (total.0 + 1, total.1.saturating_add(order.total.amount));
        }
        if (cart.cart.state == CartState::Done) != order.is_some() {
            self.violation(format_smolstr!(
                "P7 cart {id} is {}, its order is there: {}",
                cart.cart.state.as_str(),
                order.is_some()
            ));
        }
        self.carts.push((id, cart, order));
    }

    fn close(mut self) -> NodeAudit {
        let mut carts = std::mem::take(&mut self.carts);
        carts.sort_unstable_by_key(|(id, _, _)| *id);
        for (id, cart, order) in &carts {
            match cart.cart.state {
                CartState::Active | CartState::CheckingOut => self.lines_are_held(*id, cart),
                CartState::Done => self.order_is_sold(cart, order.as_deref()),
                CartState::Canceled | CartState::Expired => {}
            }
        }
        let sales = std::mem::take(&mut self.sales);
        for ((session, order), seats) in &sales {
            let bought = carts
                .binary_search_by_key(&order.cart(), |(id, _, _)| *id)
                .is_ok_and(|at| covers(carts[at].2.as_deref(), session, seats));
            if !bought {
                self.violation(format_smolstr!(
                    "P7 session {session} sold {} seats to {order}, which is no such order",
                    seats.len()
                ));
            }
        }
        self.audit.order_totals = self
            .totals
            .iter()
            .map(|(&currency, &(orders, amount))| CurrencyTotal { currency, orders, amount })
            .collect();
        let count = self.audit.violations.len();
        if count > VIOLATIONS_MAX {
            self.audit.violations.truncate(VIOLATIONS_MAX);
            self.audit.violations.push(format_smolstr!("and {} more", count - VIOLATIONS_MAX));
        }
        self.audit
    }

    /// The session's hold covers the cart's line, at every instant.
    fn lines_are_held(&mut self, id: CartId, cart: &CartAudit) {
        for (session, hold, _, seats) in &cart.holds {
            self.audit.cart_seats += seats.len() as u64;
            let held = self.holds.get(&(session.clone(), *hold));
            if !held.is_some_and(|held| seats.iter().all(|seat| held.contains(seat))) {
                self.violation(format_smolstr!("P3 cart {id} has seats of session {session} that are not held for it"));
            }
        }
    }

    /// What an order bought is sold, or still held for it with the sale on its way.
    fn order_is_sold(&mut self, cart: &CartAudit, order: Option<&Order>) {
        let Some(order) = order else { return };
        for (session, hold, _, seats) in &cart.holds {
            let sold = self.sales.get(&(session.clone(), order.id));
            let held = self.holds.get(&(session.clone(), *hold)).filter(|_| cart.owed > 0);
            let there = |seat: &Seat| {
                sold.is_some_and(|sold| sold.contains(seat)) || held.is_some_and(|held| held.contains(seat))
            };
            if !seats.iter().all(there) {
                self.violation(format_smolstr!(
                    "P7 order {} bought seats of session {session} that are not sold to it",
                    order.id
                ));
            }
        }
    }

    fn violation(&mut self, what: smol_str::SmolStr) {
        self.audit.violations.push(what);
    }
}

fn covers(order: Option<&Order>, session: &Id, seats: &[Seat]) -> bool {
    let Some(order) = order else { return false };
    let bought = |seat: &Seat| {
        order
            .lines
            .iter()
            .filter(|line| line.session == *session)
            .any(|line| line.seats.iter().any(|priced| priced.seat == *seat))
    };
    seats.iter().all(bought)
}
