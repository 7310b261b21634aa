//! Checks the promises over everything that a node keeps, for `admin.audit` of a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use boxoffice_core::{
    answer::{CartAudit, CartState, Claim, HoldView, SaleView},
    id::{CartId, Entity, HoldId, Id, OrderId},
    money::Currency,
    payment::{OpenPayment, PaymentCounts, PaymentStatus},
    portion::Portion,
    state_map::State,
};
use boxoffice_replication::inspect::DirectoryContent;
use boxoffice_shard::{DIRECTORY, ShardId, ring};
use boxoffice_storage::history::{Damage, HistoryStore, HistoryStoreError, Totals};
use boxoffice_wire::{
    payment::StepKey,
    status::{CurrencyTotal, NodeAudit},
};
use smol_str::{SmolStr, format_smolstr};

use crate::{node::NodeHandle, shared::Shared};

/// Violations named one by one. The rest are counted.
const VIOLATIONS_MAX: usize = 100;

/// Keys of failed payments named one by one.
const FAILED_KEYS_MAX: usize = 100;

/// How deep an audit looks into entities that have left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Sums are taken from the store's running totals, and every sale of a session is compared with its order, which is looked
    /// up. That takes some microseconds a sale.
    Sales,
    /// Also, every record of the store is read and checked, and the running totals are compared with the records. That takes some
    /// microseconds a record.
    Records,
}

impl NodeHandle {
    /// Counts everything afresh and checks P1 to P7 across entities, at one moment of the whole node, as deep as
    /// [`Depth::Sales`]. Selling goes on meanwhile, and nothing leaves memory. It takes about a microsecond a seat and some a
    /// sale, so it must not run on a selling thread. It may hold copies of everything that is in memory.
    pub fn audit(&self) -> NodeAudit {
        self.audit_to(Depth::Sales)
    }

    /// Whether a violation may be transient. A follower applies each shard at its own pace, so a line may be here before the hold
    /// that it depends on. A transient violation is gone at the next audit, and a true one is not.
    pub fn audits_may_blur(&self) -> bool {
        !self.shared.is_alone()
    }

    /// As [`NodeHandle::audit`], but as deep as asked.
    pub fn audit_to(&self, depth: Depth) -> NodeAudit {
        audit(&self.shared, depth)
    }
}

/// The state of all shards at one moment. A hold is applied before the line that depends on it, even in another shard, so at
/// every moment the sessions' holds cover the carts' lines.
fn audit(shared: &Shared, depth: Depth) -> NodeAudit {
    // Locked before the replicas, in the same order as the history writer.
    let _still = shared.replication.history.pause_writes();
    let mut payments = PaymentCounts::default();
    let states: Vec<(Entity, Arc<State>)> = {
        let replicas: Vec<_> = shared.shards.iter().map(|lead| lead.state.replica.lock()).collect();
        replicas.iter().for_each(|replica| payments.add(replica.kept.payments()));
        replicas
            .iter()
            .flat_map(|replica| replica.kept.entities().map(|(entity, state)| (entity.clone(), Arc::clone(state))))
            .collect()
    };
    // Entities that are only on other nodes are not compared, because this node cannot look at them.
    let remote = shared.shards.iter().filter(|lead| shared.is_remote(lead)).map(|lead| lead.id).collect();
    let shards = shared.shards.len() as u16 - 1;
    let mut books = Books { shards, remote, ..Books::new(&shared.replication.history) };
    books.compare(&states, payments, depth);
    books.close()
}

/// The same for a data directory that no node has open, with every entry of its log applied. Only that of a node that is alone has all
/// entities, and none that is behind the others.
pub(crate) fn audit_directory(directory: &DirectoryContent) -> Option<NodeAudit> {
    let history = directory.history.as_ref()?;
    let mut payments = PaymentCounts::default();
    directory.shards.iter().for_each(|shard| payments.add(shard.kept.payments()));
    let entities = directory.shards.iter().flat_map(|shard| shard.kept.entities());
    let states: Vec<_> = entities.map(|(entity, state)| (entity.clone(), Arc::clone(state))).collect();
    let is_alone = states.iter().all(|(_, state)| match &**state {
        State::Cluster(cluster) => cluster.members().len() == 1,
        _ => true,
    });
    if !is_alone {
        return None;
    }
    let mut books = Books { shards: directory.identity.shards, ..Books::new(history) };
    books.compare(&states, payments, Depth::Records);
    Some(books.close())
}

/// The stored state of an entity that has left memory.
enum Stored {
    State(Arc<State>),
    None,
    /// Its record is damaged, which the audit says by itself.
    Unreadable,
}

/// The holds, sales and carts of all entities, to be compared.
struct Books<'a> {
    /// The entities that have left memory.
    store: &'a HistoryStore,
    /// The number of shards with entities.
    shards: u16,
    audit: NodeAudit,
    holds: BTreeMap<(Entity, HoldId), Portion>,
    sales: BTreeMap<(Entity, HoldId), Portion>,
    carts: BTreeMap<CartId, CartAudit>,
    /// Orders of carts in memory whose customer has acknowledged them.
    posted: Vec<(Id, OrderId)>,
    /// Purchases of customers in memory.
    purchases: BTreeMap<Id, Vec<OrderId>>,
    /// Steps of payments that are open.
    open: PaymentCounts,
    /// The sums of entities in memory, and of those that have left it.
    here: Totals,
    left: Totals,
    /// Shards that have no replica here.
    remote: BTreeSet<ShardId>,
}

impl Books<'_> {
    fn new(store: &HistoryStore) -> Books<'_> {
        Books {
            store,
            shards: 0,
            audit: NodeAudit::default(),
            holds: BTreeMap::new(),
            sales: BTreeMap::new(),
            carts: BTreeMap::new(),
            posted: Vec::new(),
            purchases: BTreeMap::new(),
            open: PaymentCounts::default(),
            here: Totals::default(),
            left: Totals::default(),
            remote: BTreeSet::new(),
        }
    }

    /// Compares everything, at one moment of all entities.
    fn compare(&mut self, states: &[(Entity, Arc<State>)], payments: PaymentCounts, depth: Depth) {
        for (entity, state) in states {
            self.state(entity, state);
        }
        self.payments_are_counted(payments);
        let history = self.history(states).and_then(|()| match depth {
            Depth::Sales => Ok(()),
            Depth::Records => self.records(),
        });
        if let Err(error) = history.and_then(|()| self.sales_have_orders()).and_then(|()| self.orders_are_posted()) {
            self.violation(format_smolstr!("what has left memory cannot be read: {error}"));
        }
        let (damages, count) = self.store.damages();
        for Damage { shard, entity, why } in &damages {
            let what = entity.as_ref().map_or("records of a block".to_owned(), Entity::to_string);
            self.violation(format_smolstr!(
                "the store of this node is damaged: {what} of shard {shard} cannot be read: {why}"
            ));
        }
        if count > damages.len() as u64 {
            self.violation(format_smolstr!("the store of this node is damaged: {count} records in all"));
        }
    }

    fn shard_of(&self, entity: &Entity) -> ShardId {
        match entity {
            Entity::Directory | Entity::Cluster => DIRECTORY,
            _ => ring::shard_of(entity.hash_prefix(), self.shards),
        }
    }

    /// The shards of which this node has a replica, or may have one.
    fn shards_here(&self) -> Vec<ShardId> {
        (0..=self.shards).filter(|shard| !self.remote.contains(shard)).collect()
    }

    fn stored(&self, entity: &Entity) -> Result<Stored, HistoryStoreError> {
        match self.store.get(self.shard_of(entity), entity) {
            Ok(Some(stored)) => Ok(Stored::State(stored.state)),
            Ok(None) => Ok(Stored::None),
            Err(HistoryStoreError::Damaged { .. }) => Ok(Stored::Unreadable),
            Err(error) => Err(error),
        }
    }

    fn state(&mut self, entity: &Entity, state: &State) {
        let audit = &mut self.audit;
        match state {
            State::Venue(_) => audit.venues += 1,
            State::Directory(directory) => audit.titles += directory.titles() as u64,
            State::Cluster(_) => {}
            State::Session(session) => {
                let found = session.audit();
                audit.sessions += 1;
                audit.seats.add(found.counts);
                found.areas.iter().for_each(|counts| audit.areas.add_area(counts));
                self.inventory(entity, found.holds, found.sales, found.violations);
            }
            State::Product(product) => {
                let found = product.audit();
                audit.products += 1;
                audit.stock.add_stock(found.counts);
                self.inventory(entity, found.holds, found.sales, found.violations);
            }
            State::Resource(resource) => {
                let found = resource.audit();
                audit.resources += 1;
                audit.bookings += found.bookings;
                self.inventory(entity, found.holds, found.sales, found.violations);
            }
            State::Customer(customer) => {
                let found = customer.audit();
                self.here.add(&Totals::of(state));
                self.purchases.insert(found.customer, found.purchases);
                self.inventory(entity, found.holds, found.sales, found.violations);
            }
            State::Code(code) => {
                let found = code.audit();
                self.inventory(entity, found.holds, found.sales, found.violations);
            }
            State::Cart(cart) => {
                // A cart that was never opened is only the memory of a disowned hold.
                let (Entity::Cart(id), Some(found)) = (entity, cart.audit()) else {
                    audit.tombstones += 1;
                    audit.owed += cart.owed();
                    return;
                };
                self.here.add(&Totals::of(state));
                cart.open_payments().for_each(|open| self.payment(&open));
                self.cart(*id, found);
            }
        }
    }

    fn inventory(&mut self, entity: &Entity, holds: Vec<HoldView>, sales: Vec<SaleView>, violations: Vec<SmolStr>) {
        let seats = |portion: &Portion| match portion {
            Portion::Seats(seats) => seats.len() as u64,
            Portion::Places { .. } | Portion::Units(_) | Portion::Slot { .. } => 0,
            Portion::Quota { .. } | Portion::Uses(_) => 0,
        };
        self.audit.holds += holds.len() as u64;
        self.audit.violations.extend(violations);
        for hold in holds {
            self.audit.held_seats += seats(&hold.portion);
            self.holds.insert((entity.clone(), hold.hold), hold.portion);
        }
        for sale in sales {
            self.audit.sold_seats += seats(&sale.portion);
            self.sales.insert((entity.clone(), sale.hold), sale.portion);
        }
    }

    fn payment(&mut self, open: &OpenPayment) {
        self.open.count(open);
        if open.failed && self.audit.failed_keys.len() < FAILED_KEYS_MAX {
            let key = StepKey { attempt: open.key, step: open.step };
            self.audit.failed_keys.push(format_smolstr!("{key}"));
        }
    }

    /// The running counts of open payments equal the counted ones.
    fn payments_are_counted(&mut self, kept: PaymentCounts) {
        let counted = self.open;
        (self.audit.payments_pending, self.audit.payments_failed) = (counted.pending, counted.failed);
        if kept != counted {
            self.violation(format_smolstr!("P11 open payments are kept as {kept:?}, and are {counted:?}"));
        }
    }

    fn cart(&mut self, id: CartId, cart: CartAudit) {
        self.audit.owed += u64::from(cart.owed);
        self.audit.violations.extend(cart.violations.iter().cloned());
        if cart.owed == 0
            && let (Some(customer), Some(order)) = (&cart.cart.customer, cart.cart.order)
        {
            self.posted.push((customer.clone(), order));
        }
        self.carts.insert(id, cart);
    }

    /// Adds the sums of entities that are in the store and not in memory.
    fn history(&mut self, states: &[(Entity, Arc<State>)]) -> Result<(), HistoryStoreError> {
        // Records of a shard that has left this node do not change any more, so they are not of this moment.
        for shard in self.shards_here() {
            self.left.add(&self.store.shard(shard)?.totals);
        }
        // An entity on its way to the store, or back from it, may have a record there beside its state here.
        for (entity, _) in states.iter().filter(|(_, state)| state.may_be_archived()) {
            if let Stored::State(stored) = self.stored(entity)? {
                self.left.subtract(&Totals::of(&stored));
            }
        }
        Ok(())
    }

    /// Every record is what an entity that has ended must be, its order is sold, and the totals are their sums.
    fn records(&mut self) -> Result<(), HistoryStoreError> {
        let store = self.store;
        for shard in self.shards_here() {
            let mut counted = Totals::default();
            store.for_each_record(shard, |stored| {
                counted.add(&Totals::of(&stored.state));
                if !store.may_find(shard, &stored.entity) {
                    self.violation(format_smolstr!("P9 the filter hides the record of {}", stored.entity));
                }
                let State::Cart(cart) = &*stored.state else { return };
                if let Some(open) = cart.open_payments().next() {
                    let key = StepKey { attempt: open.key, step: open.step };
                    self.violation(format_smolstr!("P11 payment {key} is open, and its cart has left memory"));
                }
                let Some(audit) = cart.audit() else { return };
                self.audit.violations.extend(audit.violations.iter().cloned());
                // A cart that came back, and stays because a refund failed, has an older record beside its state in memory.
                if audit.cart.state == CartState::Done && !self.carts.contains_key(&audit.cart.id) {
                    self.order_is_sold(&audit);
                }
            })?;
            let said = store.shard(shard)?.totals;
            if said != counted && store.has_exact_totals(shard) {
                self.violation(format_smolstr!(
                    "the store's totals of shard {shard} are {said:?}, its records {counted:?}"
                ));
            }
        }
        Ok(())
    }

    /// Every sale has its order, in memory or in the store.
    fn sales_have_orders(&mut self) -> Result<(), HistoryStoreError> {
        let sales = std::mem::take(&mut self.sales);
        for ((entity, hold), sold) in &sales {
            if self.is_remote(&Entity::Cart(hold.cart)) {
                continue;
            }
            let bought = match self.carts.get(&hold.cart) {
                Some(cart) => bought(cart, entity, *hold, sold),
                None => match self.stored(&Entity::Cart(hold.cart))? {
                    Stored::State(state) => match &*state {
                        State::Cart(cart) => cart.audit().is_some_and(|cart| bought(&cart, entity, *hold, sold)),
                        _ => false,
                    },
                    Stored::None => false,
                    Stored::Unreadable => continue,
                },
            };
            if !bought {
                self.violation(format_smolstr!("P7 {entity} sold {sold:?} to {hold:?}, which no order bought"));
            }
        }
        self.sales = sales;
        Ok(())
    }

    /// Every order that its customer has acknowledged is among the purchases, once (P12).
    fn orders_are_posted(&mut self) -> Result<(), HistoryStoreError> {
        for (customer, order) in std::mem::take(&mut self.posted) {
            if self.is_remote(&Entity::Customer(customer.clone())) {
                continue;
            }
            let count = match self.purchases.get(&customer) {
                Some(orders) => orders.iter().filter(|posted| **posted == order).count(),
                None => match self.stored(&Entity::Customer(customer.clone()))? {
                    Stored::State(state) => match &*state {
                        State::Customer(customer) => usize::from(customer.cursor(order).is_some()),
                        _ => 0,
                    },
                    Stored::None => 0,
                    Stored::Unreadable => continue,
                },
            };
            if count != 1 {
                self.violation(format_smolstr!("P12 order {order} is {count} times among the purchases of {customer}"));
            }
        }
        Ok(())
    }

    fn is_remote(&self, entity: &Entity) -> bool {
        !self.remote.is_empty() && self.remote.contains(&self.shard_of(entity))
    }

    fn close(mut self) -> NodeAudit {
        let carts = std::mem::take(&mut self.carts);
        for (id, cart) in &carts {
            match cart.cart.state {
                CartState::Active | CartState::CheckingOut => self.lines_are_held(*id, cart),
                CartState::Done => self.order_is_sold(cart),
                CartState::Canceled | CartState::Expired => {}
            }
        }
        self.audit.carts_archived = self.left.all_carts();
        add(&mut self.audit, &self.here);
        add(&mut self.audit, &self.left);
        let count = self.audit.violations.len();
        if count > VIOLATIONS_MAX {
            self.audit.violations.truncate(VIOLATIONS_MAX);
            self.audit.violations.push(format_smolstr!("and {} more", count - VIOLATIONS_MAX));
        }
        self.audit
    }

    /// The inventory's hold covers the cart's line, at every instant.
    fn lines_are_held(&mut self, id: CartId, cart: &CartAudit) {
        for Claim { entity, hold, portion, .. } in &cart.holds {
            let Some(needed) = portion else { continue };
            // Seats of the cart, wherever the session is.
            if let Portion::Seats(seats) = needed {
                self.audit.cart_seats += seats.len() as u64;
            }
            if self.is_remote(entity) {
                continue;
            }
            let held = self.holds.get(&(entity.clone(), *hold));
            if !held.is_some_and(|held| held.covers(needed)) {
                self.violation(format_smolstr!("P3 cart {id} has {needed:?} of {entity}, which holds {held:?} for it"));
            }
        }
    }

    /// Everything that an order bought is sold, or still held for it with the sale on its way.
    fn order_is_sold(&mut self, cart: &CartAudit) {
        for Claim { entity, hold, portion, .. } in &cart.holds {
            let Some(needed) = portion else { continue };
            if self.is_remote(entity) {
                continue;
            }
            let key = (entity.clone(), *hold);
            // Customers may have left memory with what they used of their quotas, and codes with their uses.
            if matches!(entity, Entity::Customer(_) | Entity::Code(_)) && !self.sales.contains_key(&key) {
                continue;
            }
            let sold = self.sales.get(&key) == Some(needed);
            let held = cart.owed > 0 && self.holds.get(&key).is_some_and(|held| held.covers(needed));
            if !sold && !held {
                let id = cart.cart.id;
                self.violation(format_smolstr!(
                    "P7 the order of cart {id} bought {needed:?} of {entity}, which is not sold"
                ));
            }
        }
    }

    fn violation(&mut self, what: SmolStr) {
        self.audit.violations.push(what);
    }
}

/// Whether a cart is an order that bought this. A refund that is on its way leaves the sale standing a while.
fn bought(cart: &CartAudit, entity: &Entity, hold: HoldId, sold: &Portion) -> bool {
    let claim = cart.holds.iter().find(|claim| claim.entity == *entity && claim.hold == hold);
    cart.cart.state == CartState::Done
        && claim.is_some_and(|claim| match &claim.portion {
            Some(portion) => portion == sold,
            None => cart.owed > 0,
        })
}

/// Adds the sums of entities to a node's audit.
fn add(audit: &mut NodeAudit, totals: &Totals) {
    let carts = &mut audit.carts;
    carts.active += totals.carts(CartState::Active);
    carts.checking_out += totals.carts(CartState::CheckingOut);
    carts.done += totals.carts(CartState::Done);
    carts.canceled += totals.carts(CartState::Canceled);
    carts.expired += totals.carts(CartState::Expired);
    audit.orders += totals.orders;
    audit.order_seats += totals.order_seats;
    add_totals(&mut audit.order_totals, &totals.revenue);
    let payments = &mut audit.payments;
    payments.recorded += totals.payments(&PaymentStatus::Recorded);
    payments.authorized += totals.payments(&PaymentStatus::Authorized);
    payments.captured += totals.payments(&PaymentStatus::Captured);
    payments.failed += totals.payments(&PaymentStatus::CaptureFailed { reason: SmolStr::default() });
    audit.refunds += totals.refunds.values().map(|(refunds, _)| refunds).sum::<u64>();
    add_totals(&mut audit.refund_totals, &totals.refunds);
    audit.customers += totals.customers;
    audit.purchases += totals.purchases;
}

fn add_totals(totals: &mut Vec<CurrencyTotal>, sums: &BTreeMap<Currency, (u64, i64)>) {
    for (&currency, &(orders, amount)) in sums {
        match totals.iter_mut().find(|total| total.currency == currency) {
            Some(total) => {
                total.orders += orders;
                total.amount = total.amount.saturating_add(amount);
            }
            None => totals.push(CurrencyTotal { currency, orders, amount }),
        }
    }
    totals.sort_unstable_by_key(|total| total.currency);
}
