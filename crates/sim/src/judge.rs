//! The final check: everything is read once more after healing and compared with the answers that buyers received.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Answered, CartAudit, CartState, LineView, Order, SaleView},
    command::{Command, SessionCommand},
    id::{CartId, Entity, HoldId, Id, OrderId},
    portion::Portion,
    seat::{Seat, SeatState},
};
use boxoffice_node::audit::Depth;
use boxoffice_wire::{Encoding, call::Shape, encode, reply::FromBody};
use boxoffice_workload::check::{Findings, check_cart, check_session};
use bytes::BytesMut;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::{
    buyer::{CartTrace, CartTraces, Grant},
    client_stub::ClientStub,
    clock::{BEGIN_MS, CLOCKS_MS},
    fixture::{self, Fixture, SIDE},
    gateway::SimGateway,
    leftovers,
    shown::Times,
};

/// The limit for the delivery of all messages after healing, in milliseconds.
const SETTLED_MS: u64 = 180_000;
/// Audits of a node that has violations, because some are only of the moment.
const BLUR_LOOKS: usize = 20;

/// The totals of the final check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub orders: u64,
    /// Carts that are known.
    pub carts: u64,
}

/// An answer as clients read it.
fn read<T: FromBody>(answer: Answer) -> T {
    let mut out = BytesMut::new();
    let answered = Answered { answer, at: Vec::new() };
    encode::answer(Encoding::MsgPack, &mut out, &answered, Shape::Plain);
    T::from_body(Encoding::MsgPack, &out).expect("a client reads what a node writes")
}

/// Checks everything. Violations go to the oracle.
pub(crate) async fn judge(
    client: &ClientStub,
    (fixture, gateway): (&Fixture, &SimGateway),
    cart_traces: &CartTraces,
    walls_are_right: bool,
    rng: &mut SmallRng,
) -> Seen {
    leftovers::outlive(client.life_ms()).await;
    let mut judge = Judge { client, fixture, cart_traces, walls_are_right, rng, findings: Findings::default() };
    let orders = judge.check_nodes().await;
    let audits = judge.cart_audits().await;
    let found = judge.check_carts(&audits).await;
    judge.wrong(gateway.check(&audits, &found));
    let sales = judge.inventory_sales().await;
    for audit in audits.values() {
        judge.wrong(sold(audit, &sales).into_iter().map(|what| format!("cart {}: {what}", audit.cart.id)));
    }
    judge.wrong(uses(&audits, &sales));
    let purchases = leftovers::purchases(client, fixture, &found, judge.rng).await;
    judge.wrong(purchases);
    judge.wrong(seats(client, cart_traces, walls_are_right, fixture));
    let contradictions = std::mem::take(&mut judge.findings.examples);
    judge.wrong(contradictions);
    Seen { orders, carts: audits.len() as u64 }
}

struct Judge<'a> {
    client: &'a ClientStub,
    fixture: &'a Fixture,
    cart_traces: &'a CartTraces,
    walls_are_right: bool,
    rng: &'a mut SmallRng,
    /// Contradictions within audits.
    findings: Findings,
}

impl Judge<'_> {
    /// Reports violations.
    fn wrong(&self, violations: impl IntoIterator<Item = String>) {
        violations.into_iter().for_each(|what| self.client.oracle.lock().violation(what));
    }

    /// Audits every node. Returns the number of orders.
    async fn check_nodes(&self) -> u64 {
        let mut orders = 0;
        for machine in &self.client.members() {
            let number = machine.number;
            let owed =
                || machine.handle().map(|handle| handle.audit()).map(|audit| audit.owed + audit.payments_pending);
            wait_until_nothing_is_owed(self.client, number, owed).await;
            let Some(handle) = machine.handle() else {
                self.wrong([format!("node {number} does not serve at the end")]);
                continue;
            };
            let mut audit = handle.audit_to(Depth::Records);
            // Followers apply each shard at its own pace, so some violations pass.
            for _ in 0..BLUR_LOOKS {
                if audit.violations.is_empty() {
                    break;
                }
                sleep(Duration::from_millis(500)).await;
                audit = handle.audit_to(Depth::Records);
            }
            orders = orders.max(audit.orders);
            self.client.trace.note(&format!("node {number}: {audit:?}"));
            self.wrong(audit.violations.iter().map(|violation| format!("node {number}: {violation}")));
            // Counted before any cart is read, because a read checks its deadline.
            let (carts, holds) = (audit.carts, audit.holds);
            if self.walls_are_right && carts.active + carts.checking_out + holds > 0 {
                self.wrong([format!("node {number}: {carts:?} and {holds} holds are left when every life is over")]);
            }
        }
        orders
    }

    /// The audits of all carts that exist.
    async fn cart_audits(&mut self) -> BTreeMap<CartId, CartAudit> {
        let mut audits = BTreeMap::new();
        for id in self.cart_traces.carts.values().map(|cart_trace| cart_trace.cart) {
            let audit = fixture::audit_of(&Entity::Cart(id));
            let Some(outcome) = self.client.read(self.rng, "judge", audit).await else { continue };
            match outcome {
                Ok(answered) => match answered.answer {
                    Answer::CartAudit(audit) => {
                        check_cart(&read(Answer::CartAudit(audit.clone())), &mut self.findings);
                        audits.insert(id, *audit);
                    }
                    other => self.wrong([format!("the audit of {id} says {other:?}")]),
                },
                Err(_) if fixture::is_unknown(&outcome) => {}
                Err(refusal) => self.wrong([format!("the audit of {id} is refused: {refusal}")]),
            }
        }
        audits
    }

    /// Compares each cart with its buyer's answers. Returns the orders.
    async fn check_carts(&mut self, audits: &BTreeMap<CartId, CartAudit>) -> BTreeMap<OrderId, Arc<Order>> {
        let mut orders = BTreeMap::new();
        for cart_trace in self.cart_traces.carts.values() {
            let id = cart_trace.cart;
            let audit = audits.get(&id);
            let state = audit.map(|audit| audit.cart.state);
            let order = match state {
                Some(CartState::Done) => order_of(self.client, self.rng, id).await,
                _ => None,
            };
            if state == Some(CartState::Active) {
                self.wrong([format!("cart {id} lives on when its life is over")]);
            }
            let wrong = cart(cart_trace, audit, order.as_deref(), self.fixture);
            self.wrong(wrong.into_iter().map(|what| format!("cart {id}: {what}")));
            orders.extend(order.map(|order| (order.id, order)));
            if let Some(expired_ms) = cart_trace.expired_ms.filter(|_| self.walls_are_right) {
                let deadline_ms = cart_trace.deadline.0 - BEGIN_MS;
                let what = format!("cart {id} had expired at {expired_ms} ms, before its deadline at {deadline_ms} ms");
                self.wrong([what]);
            }
        }
        for cart_trace in self.cart_traces.carts.values() {
            if let (Some(audit), Some(before_ms)) = (audits.get(&cart_trace.cart), cart_trace.checkout_ms) {
                self.wrong(self.client.disowned(audit, before_ms));
            }
        }
        orders
    }

    /// Audits every inventory. Returns the sales. Reads the seat maps, which are checked with all others.
    async fn inventory_sales(&mut self) -> BTreeMap<(Entity, HoldId), SaleView> {
        let mut sales = BTreeMap::new();
        for inventory in self.fixture.inventories() {
            let audit = fixture::audit_of(&inventory);
            let Some(Ok(answered)) = self.client.read(self.rng, "judge", audit).await else { continue };
            let (found, holds, violations) = match answered.answer {
                Answer::SessionAudit(audit) => {
                    let shown = read(Answer::SessionAudit(audit.clone()));
                    check_session((SIDE * SIDE).into(), &shown, &mut self.findings);
                    (audit.sales, audit.holds, Vec::new())
                }
                Answer::ProductAudit(audit) => (audit.sales, audit.holds, audit.violations),
                Answer::ResourceAudit(audit) => (audit.sales, audit.holds, audit.violations),
                Answer::CustomerAudit(audit) => (audit.sales, audit.holds, audit.violations),
                Answer::CodeAudit(audit) => (audit.sales, audit.holds, audit.violations),
                other => {
                    self.wrong([format!("the audit of {inventory} says {other:?}")]);
                    continue;
                }
            };
            self.wrong(violations.iter().map(|violation| format!("{inventory}: {violation}")));
            self.wrong(holds.iter().map(|hold| format!("{inventory} holds {hold:?} when every life is over")));
            sales.extend(found.into_iter().map(|sale| ((inventory.clone(), sale.hold), sale)));
            if let Entity::Session(session) = &inventory {
                let map = Command::Session(session.clone(), SessionCommand::Map);
                let _ = self.client.read(self.rng, "judge", map).await;
            }
        }
        sales
    }
}

async fn wait_until_nothing_is_owed(client: &ClientStub, number: u64, owed: impl Fn() -> Option<u64>) {
    let until_ms = client.trace.now_ms() + SETTLED_MS;
    while owed() != Some(0) {
        if client.trace.now_ms() > until_ms {
            let what =
                format!("node {number}: {:?} messages are owed {SETTLED_MS} ms after everything was healed", owed());
            return client.oracle.lock().violation(what);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn order_of(client: &ClientStub, rng: &mut SmallRng, cart: CartId) -> Option<Arc<Order>> {
    let command = Command::Cart(cart, boxoffice_core::command::CartCommand::Order);
    match client.read(rng, "judge", command).await?.map(|answered| answered.answer) {
        Ok(Answer::Order { order, .. }) => Some(order),
        other => {
            client.oracle.lock().violation(format!("the order of {cart} reads {other:?}"));
            None
        }
    }
}

/// Compares a cart with its buyer's answers.
fn cart(cart_trace: &CartTrace, audit: Option<&CartAudit>, order: Option<&Order>, fixture: &Fixture) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(audit) = audit else {
        if !cart_trace.lines.is_empty() || cart_trace.order.is_some() || cart_trace.canceled {
            wrong.push(format!("it is not known, but its buyer was told {cart_trace:?}"));
        }
        return wrong;
    };
    let state = audit.cart.state;
    if cart_trace.order.as_deref() != order && (cart_trace.order.is_some() || !cart_trace.asked_checkout) {
        wrong.push(format!("its buyer was told of {:?} and it has {order:?}", cart_trace.order));
    }
    if cart_trace.canceled && state != CartState::Canceled {
        wrong.push(format!("its buyer was told that it is canceled, and it is {state:?}"));
    }
    let refunded: BTreeMap<u32, _> = audit.refunds.iter().map(|refund| (refund.number, refund)).collect();
    for (number, told) in &cart_trace.refunds {
        let same = refunded
            .get(number)
            .is_some_and(|refund| (&refund.lines, refund.amount, refund.at) == (&told.lines, told.amount, told.at));
        if !same {
            wrong.push(format!("its buyer was told of {told:?}, and it has {refunded:?}"));
        }
    }
    if cart_trace.declined && order.is_some() {
        wrong.push(format!("its buyer was told that the payment was declined, and it has {order:?}"));
    }
    let of_canceled =
        |line: &LineView| matches!(&line.entity, Entity::Session(id) if fixture.canceled_ms(id).is_some());
    let given_back = order.is_some_and(|order| order.lines.iter().any(of_canceled));
    if !cart_trace.asked_refund && !given_back && !audit.refunds.is_empty() {
        wrong.push(format!("{:?} was never asked for", audit.refunds));
    }
    if !cart_trace.doubtful && state != CartState::Active {
        // Lines that the staff revoked may be there or not.
        let stays = |line: &&LineView| !fixture.may_be_gone(cart_trace.cart, line.line, &line.entity);
        let told = cart_trace.lines.values().filter(stays);
        let told: Vec<_> = told.map(|line| (line.line, &line.entity, &line.content)).collect();
        let has = order.map_or(&audit.cart.lines, |order| &order.lines);
        let has = has.iter().filter(stays);
        let has: Vec<_> = has.map(|line| (line.line, &line.entity, &line.content)).collect();
        if told != has && state != CartState::CheckingOut {
            wrong.push(format!("it is {state:?}; its buyer was told of {told:?}, and it has {has:?}"));
        }
    }
    wrong
}

/// Checks the sales of a cart. Each line of its order that was not refunded must be sold to it, and nothing else.
fn sold(audit: &CartAudit, sales: &BTreeMap<(Entity, HoldId), SaleView>) -> Vec<String> {
    if audit.cart.state != CartState::Done {
        return Vec::new();
    }
    let order: OrderId = audit.cart.id.order();
    let mut wrong = Vec::new();
    for claim in &audit.holds {
        let sale = sales.get(&(claim.entity.clone(), claim.hold));
        let fits = match (&claim.portion, sale) {
            (Some(needed), Some(sale)) => sale.order == order && sale.portion.covers(needed),
            // Quotas are sold or released with the lines that they belong to.
            (Some(Portion::Quota { .. }), None) => true,
            (Some(_), None) => false,
            (None, sale) => sale.is_none(),
        };
        if !fits {
            wrong.push(format!("{claim:?} is not what {} has sold: {sale:?}", claim.entity));
        }
    }
    wrong
}

/// Compares the uses of codes with the seats and places that are bought with them: each use has one.
fn uses(audits: &BTreeMap<CartId, CartAudit>, sales: &BTreeMap<(Entity, HoldId), SaleView>) -> Vec<String> {
    let of_codes = sales.iter().filter(|((entity, _), _)| matches!(entity, Entity::Code(_)));
    let wrong = of_codes.filter_map(|((code, hold), sale)| {
        let audit = audits.get(&hold.cart)?;
        let claim = audit.holds.iter().find(|claim| claim.entity == *code && claim.hold == *hold);
        let needed = claim.and_then(|claim| claim.portion.as_ref());
        let what = format!("{code} has {sale:?}, and cart {} needs {needed:?}", hold.cart);
        (needed != Some(&sale.portion)).then_some(what)
    });
    wrong.collect()
}

/// Checks the grants of each seat and every map that was read, in the order of versions.
fn seats(client: &ClientStub, cart_traces: &CartTraces, walls_are_right: bool, fixture: &Fixture) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_session: BTreeMap<&Id, BTreeMap<u64, Vec<&Grant>>> = BTreeMap::new();
    for grant in &cart_traces.grants {
        by_session.entry(&grant.session).or_default().entry(grant.version).or_default().push(grant);
    }
    let oracle = client.oracle.lock();
    for (session, grants) in by_session {
        let may = |grant: &Grant, now_ms| {
            let wall_ms = BEGIN_MS + now_ms + client.wall_clocks.off_ms(now_ms);
            may_be_free(grant, (now_ms, wall_ms), cart_traces, walls_are_right, fixture)
        };
        // The last grant of each seat.
        let mut has: BTreeMap<Seat, &Grant> = BTreeMap::new();
        let mut later = grants.into_iter().peekable();
        let maps = oracle.maps.range((session.clone(), 0)..=(session.clone(), u64::MAX));
        let maps = maps.map(|((_, version), (map, times))| (*version, Some((map, times))));
        for (upto, read) in maps.chain([(u64::MAX, None)]) {
            while let Some((version, grants)) = later.next_if(|(version, _)| *version <= upto) {
                for grant in grants {
                    if let Some(before) = has.insert(grant.seat, grant)
                        && !may(before, grant.times.1)
                    {
                        wrong.push(format!("{session} at version {version}: {grant:?} although {before:?}"));
                    }
                }
            }
            let Some((map, times)) = read else { continue };
            for grant in has.values() {
                let state = fixture::state_in(&map.seats, grant.seat);
                if state == SeatState::Free as u8 && !may(grant, times.1) {
                    wrong.push(format!("{session} at version {upto}, read at {times:?}: free although {grant:?}"));
                }
            }
        }
    }
    wrong
}

/// Whether a seat may be another cart's at `now_ms` of the run, when wall clocks showed `wall_ms`.
fn may_be_free(
    grant: &Grant,
    (now_ms, wall_ms): Times,
    cart_traces: &CartTraces,
    walls_are_right: bool,
    fixture: &Fixture,
) -> bool {
    let canceled = fixture.canceled_ms(&grant.session).is_some_and(|at_ms| at_ms <= now_ms);
    if canceled || fixture.taken_from(grant.cart).is_some_and(|at_ms| at_ms <= now_ms) {
        return true;
    }
    // A cart that was under way at the end of the run has no trace.
    let Some(cart_trace) = cart_traces.carts.get(&grant.cart) else { return true };
    let let_go = cart_trace.lets_go_ms.is_some_and(|at_ms| at_ms <= now_ms);
    if let_go || cart_trace.order.is_some() {
        return let_go;
    }
    !walls_are_right || cart_trace.lives_until().0 <= wall_ms + CLOCKS_MS
}
