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

use crate::{
    node::NodeHandle,
    past::{PastError, Totals},
    shared::Shared,
};

/// Violations named one by one; the rest are counted.
const VIOLATIONS_MAX: usize = 100;

/// How deep an audit looks into what has left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Its sums are taken from the store's running totals, and every sale of a session is held against its order, which
    /// is looked up: some microseconds a sale.
    Sales,
    /// Also, every record of the store is read and checked, and the running totals are held against them: some
    /// microseconds a record, however many there are.
    Records,
}

impl NodeHandle {
    /// Counts everything afresh and checks P1 to P7 across entities, at one moment of the whole node, looking as deep as
    /// [`Depth::Sales`]. Selling goes on meanwhile; nothing leaves memory. Takes about a microsecond a seat and some a
    /// sale; not for the selling threads. In memory are at a time copies of what is in memory anyway.
    pub fn audit(&self) -> NodeAudit {
        self.audit_to(Depth::Sales)
    }

    /// As [`NodeHandle::audit`], looking as deep as asked.
    pub fn audit_to(&self, depth: Depth) -> NodeAudit {
        audit(&self.shared, depth)
    }
}

/// Everything the cells keep, at one moment: a hold is applied before the line that rests on it, in whatever shards they
/// are, so at every moment the sessions' holds cover the carts' lines.
fn audit(shared: &Shared, depth: Depth) -> NodeAudit {
    // Before the replicas: whoever writes to the store takes these locks in the same order.
    let _still = shared.past.still();
    let states: Vec<(Entity, Arc<State>)> = {
        let replicas: Vec<_> = shared.cells.iter().map(|cell| cell.replica.lock()).collect();
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
    let past = books.past(shared, &states).and_then(|()| match depth {
        Depth::Sales => Ok(()),
        Depth::Records => books.records(shared),
    });
    let lookup = |id: CartId| order_of(shared, id);
    if let Err(error) = past.and_then(|()| books.sales_have_orders(&lookup)) {
        books.violation(format_smolstr!("what has left memory cannot be read: {error}"));
    }
    books.close()
}

/// The order of a cart that has left memory.
fn order_of(shared: &Shared, id: CartId) -> Result<Option<Arc<Order>>, PastError> {
    let entity = Entity::Cart(id);
    let stored = shared.past.get(shared.cell_of(&entity).id, &entity)?;
    Ok(stored.and_then(|stored| match &*stored.state {
        State::Cart(cart) => cart.order().cloned(),
        State::Venue(_) | State::Session(_) => None,
    }))
}

/// What sessions and carts say, to be compared.
#[derive(Default)]
struct Books {
    audit: NodeAudit,
    holds: BTreeMap<(Id, HoldId), Vec<Seat>>,
    sales: BTreeMap<(Id, OrderId), Vec<Seat>>,
    carts: Vec<(CartId, CartAudit, Option<Arc<Order>>)>,
    totals: BTreeMap<Currency, (u64, i64)>,
    /// What has left memory adds up to.
    left: Totals,
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

    /// Adds the sums of what is in the store and not in memory.
    fn past(&mut self, shared: &Shared, states: &[(Entity, Arc<State>)]) -> Result<(), PastError> {
        for cell in &shared.cells {
            self.left.add(&shared.past.shard(cell.id)?.totals);
        }
        // What is on its way to the store, or came back, may have a record there beside its state here.
        for (entity, _) in states.iter().filter(|(_, state)| state.may_have_left()) {
            if let Some(stored) = shared.past.get(shared.cell_of(entity).id, entity)? {
                self.left.subtract(&Totals::of(&stored.state));
            }
        }
        Ok(())
    }

    /// Every record is what a cart that has ended must be, its order is sold, and the totals are their sums.
    fn records(&mut self, shared: &Shared) -> Result<(), PastError> {
        for cell in &shared.cells {
            let mut counted = Totals::default();
            shared.past.each(cell.id, |stored| {
                counted.add(&Totals::of(&stored.state));
                let State::Cart(cart) = &*stored.state else { return };
                let Some(audit) = cart.audit() else { return };
                self.audit.violations.extend(audit.violations.iter().cloned());
                if audit.cart.state == CartState::Done {
                    self.order_is_sold(&audit, cart.order().map(|order| &**order));
                }
            })?;
            let said = shared.past.shard(cell.id)?.totals;
            if said != counted {
                self.violation(format_smolstr!(
                    "the store's totals of shard {} are {said:?}, its records {counted:?}",
                    cell.id
                ));
            }
        }
        Ok(())
    }

    /// Every sale has its order, in memory or in the store.
    fn sales_have_orders(
        &mut self,
        lookup: &dyn Fn(CartId) -> Result<Option<Arc<Order>>, PastError>,
    ) -> Result<(), PastError> {
        self.carts.sort_unstable_by_key(|(id, _, _)| *id);
        let sales = std::mem::take(&mut self.sales);
        for ((session, order), seats) in &sales {
            let id = order.cart();
            let bought = match self.carts.binary_search_by_key(&id, |(id, _, _)| *id) {
                Ok(at) => covers(self.carts[at].2.as_deref(), session, seats),
                Err(_) => covers(lookup(id)?.as_deref(), session, seats),
            };
            if !bought {
                self.violation(format_smolstr!(
                    "P7 session {session} sold {} seats to {order}, which is no such order",
                    seats.len()
                ));
            }
        }
        self.sales = sales;
        Ok(())
    }

    fn close(mut self) -> NodeAudit {
        let carts = std::mem::take(&mut self.carts);
        for (id, cart, order) in &carts {
            match cart.cart.state {
                CartState::Active | CartState::CheckingOut => self.lines_are_held(*id, cart),
                CartState::Done => self.order_is_sold(cart, order.as_deref()),
                CartState::Canceled | CartState::Expired => {}
            }
        }
        self.audit.order_totals = self
            .totals
            .iter()
            .map(|(&currency, &(orders, amount))| CurrencyTotal { currency, orders, amount })
            .collect();
        self.left.add_to(&mut self.audit);
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
