//! The last look: everything is read once more after healing, and held against what the buyers were told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, CartAudit, CartState, LineView, Order, SaleView},
    command::{Command, SessionCommand},
    id::{CartId, Entity, HoldId, Id, OrderId},
    portion::Portion,
    seat::{Seat, SeatState},
};
use boxoffice_node::audit::Depth;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::{
    bank::Bank,
    buyer::{Grant, Stories, Story},
    clock::BEGIN_MS,
    desk::Desk,
    leftovers,
    oracle::Times,
    town::{self, Town},
};

/// How long after healing everything that is owed must have been delivered, in milliseconds.
const SETTLED_MS: u64 = 180_000;
/// How often a node is looked at again that has found something.
const BLUR_LOOKS: usize = 20;
/// A deadline that has passed by no more than this has passed for nobody who reads another clock.
pub(crate) const CLOCKS_MS: u64 = 2_000;

/// What the last look has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Orders there are.
    pub orders: u64,
    /// Carts that have become something.
    pub carts: u64,
}

/// Looks at everything; what is wrong goes to the oracle.
pub(crate) async fn judge(
    desk: &Desk,
    (town, bank): (&Town, &Bank),
    stories: &Stories,
    walls_are_right: bool,
    dice: &mut SmallRng,
) -> Seen {
    leftovers::outlive(desk.life_ms()).await;
    let mut seen = Seen::default();
    let wrong = |what: String| desk.oracle.lock().violation(what);
    for machine in &desk.members() {
        let owed = || machine.handle().map(|handle| handle.audit()).map(|audit| audit.owed + audit.payments_pending);
        settle(desk, machine.number, owed).await;
        let Some(handle) = machine.handle() else {
            wrong(format!("node {} does not serve at the end", machine.number));
            continue;
        };
        let mut audit = handle.audit_to(Depth::Records);
        // Followers apply each shard at its own pace: what is of the moment only is gone soon.
        for _ in 0..BLUR_LOOKS {
            if audit.violations.is_empty() {
                break;
            }
            sleep(Duration::from_millis(500)).await;
            audit = handle.audit_to(Depth::Records);
        }
        seen.orders = seen.orders.max(audit.orders);
        desk.trace.note(&format!("node {}: {audit:?}", machine.number));
        audit.violations.iter().for_each(|violation| wrong(format!("node {}: {violation}", machine.number)));
        // Looked at before any cart is asked: one that is asked looks at the time.
        let left = audit.carts.active + audit.carts.checking_out + audit.holds;
        if walls_are_right && left > 0 {
            let (carts, holds, number) = (audit.carts, audit.holds, machine.number);
            wrong(format!("node {number}: {carts:?} and {holds} holds are left when every life is over"));
        }
    }

    let mut audits = BTreeMap::new();
    for story in stories.carts.values() {
        let Some(outcome) = desk.read(dice, "judge", town::audit_of(&Entity::Cart(story.cart))).await else { continue };
        match outcome {
            Ok(answered) => match answered.answer {
                Answer::CartAudit(audit) => _ = audits.insert(story.cart, *audit),
                other => wrong(format!("the audit of {} says {other:?}", story.cart)),
            },
            Err(_) if town::is_unknown(&outcome) => {}
            Err(refusal) => wrong(format!("the audit of {} is refused: {refusal}", story.cart)),
        }
    }
    seen.carts = audits.len() as u64;
    let mut orders = BTreeMap::new();
    for story in stories.carts.values() {
        let order = match audits.get(&story.cart).is_some_and(|audit| audit.cart.state == CartState::Done) {
            true => order_of(desk, dice, story.cart).await,
            false => None,
        };
        orders.extend(order.iter().map(|order| (order.id, Arc::clone(order))));
        if audits.get(&story.cart).is_some_and(|audit| audit.cart.state == CartState::Active) {
            wrong(format!("cart {} lives on when its life is over", story.cart));
        }
        for what in cart(story, audits.get(&story.cart), order.as_deref(), town) {
            wrong(format!("cart {}: {what}", story.cart));
        }
        if let Some(expired_ms) = story.expired_ms.filter(|_| walls_are_right) {
            let deadline_ms = story.deadline.0 - BEGIN_MS;
            wrong(format!(
                "cart {} had expired at {expired_ms} ms, before its deadline at {deadline_ms} ms",
                story.cart
            ));
        }
    }

    for story in stories.carts.values() {
        let (Some(audit), Some(before_ms)) = (audits.get(&story.cart), story.checkout_ms) else { continue };
        desk.disowned(audit, before_ms).into_iter().for_each(&wrong);
    }
    bank.judge(&audits, &orders).into_iter().for_each(&wrong);

    let mut sales = BTreeMap::new();
    for inventory in town.inventories() {
        let Some(Ok(answered)) = desk.read(dice, "judge", town::audit_of(&inventory)).await else { continue };
        let (found, holds, violations) = match answered.answer {
            Answer::SessionAudit(audit) => (audit.sales, audit.holds, audit.violations),
            Answer::ProductAudit(audit) => (audit.sales, audit.holds, audit.violations),
            Answer::ResourceAudit(audit) => (audit.sales, audit.holds, audit.violations),
            Answer::CustomerAudit(audit) => (audit.sales, audit.holds, audit.violations),
            other => {
                wrong(format!("the audit of {inventory} says {other:?}"));
                continue;
            }
        };
        violations.iter().for_each(|violation| wrong(format!("{inventory}: {violation}")));
        holds.iter().for_each(|hold| wrong(format!("{inventory} holds {hold:?} when every life is over")));
        sales.extend(found.into_iter().map(|sale| ((inventory.clone(), sale.hold), sale)));
        if let Entity::Session(session) = &inventory {
            let map = Command::Session(session.clone(), SessionCommand::Map);
            // What it says is judged below, with all other maps.
            let _ = desk.read(dice, "judge", map).await;
        }
    }
    for audit in audits.values() {
        sold(audit, &sales).into_iter().for_each(|what| wrong(format!("cart {}: {what}", audit.cart.id)));
    }
    for what in leftovers::purchases(desk, town, &orders, dice).await {
        wrong(what);
    }
    for what in seats(desk, stories, walls_are_right, town) {
        wrong(what);
    }
    seen
}

async fn settle(desk: &Desk, number: u64, owed: impl Fn() -> Option<u64>) {
    let until_ms = desk.trace.now_ms() + SETTLED_MS;
    while owed() != Some(0) {
        if desk.trace.now_ms() > until_ms {
            let what =
                format!("node {number}: {:?} messages are owed {SETTLED_MS} ms after everything was healed", owed());
            return desk.oracle.lock().violation(what);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn order_of(desk: &Desk, dice: &mut SmallRng, cart: CartId) -> Option<Arc<Order>> {
    let command = Command::Cart(cart, boxoffice_core::command::CartCommand::Order);
    match desk.read(dice, "judge", command).await?.map(|answered| answered.answer) {
        Ok(Answer::Order { order, .. }) => Some(order),
        other => {
            desk.oracle.lock().violation(format!("the order of {cart} reads {other:?}"));
            None
        }
    }
}

/// What is wrong with a cart, by what its buyer was told.
fn cart(story: &Story, audit: Option<&CartAudit>, order: Option<&Order>, town: &Town) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(audit) = audit else {
        if !story.lines.is_empty() || story.order.is_some() || story.canceled {
            wrong.push(format!("it is not known, but its buyer was told {story:?}"));
        }
        return wrong;
    };
    wrong.extend(audit.violations.iter().map(ToString::to_string));
    let state = audit.cart.state;
    if story.order.as_deref() != order && (story.order.is_some() || !story.asked_checkout) {
        wrong.push(format!("its buyer was told of {:?} and it has {order:?}", story.order));
    }
    if story.canceled && state != CartState::Canceled {
        wrong.push(format!("its buyer was told that it is canceled, and it is {state:?}"));
    }
    let refunded: BTreeMap<u32, _> = audit.refunds.iter().map(|refund| (refund.number, refund)).collect();
    for (number, told) in &story.refunds {
        let same = refunded
            .get(number)
            .is_some_and(|refund| (&refund.lines, refund.amount, refund.at) == (&told.lines, told.amount, told.at));
        if !same {
            wrong.push(format!("its buyer was told of {told:?}, and it has {refunded:?}"));
        }
    }
    if story.declined && order.is_some() {
        wrong.push(format!("its buyer was told that the payment was declined, and it has {order:?}"));
    }
    let of_canceled = |line: &LineView| matches!(&line.entity, Entity::Session(id) if town.canceled_ms(id).is_some());
    let given_back = order.is_some_and(|order| order.lines.iter().any(of_canceled));
    if !story.asked_refund && !given_back && !audit.refunds.is_empty() {
        wrong.push(format!("nobody asked for {:?}", audit.refunds));
    }
    if !story.doubtful && state != CartState::Active {
        // What the staff wanted back may be there or not.
        let stays = |line: &&LineView| !town.may_be_gone(story.cart, line.line, &line.entity);
        let told = story.lines.values().filter(stays);
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

/// What is wrong with the sales of a cart: each line of an order that was not refunded is sold to it, and no other.
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
            // Quotas are used up or given back with what they were for.
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

/// What is wrong with the seats: from one cart to the next, and in every map that was read, in the order of versions.
fn seats(desk: &Desk, stories: &Stories, walls_are_right: bool, town: &Town) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_session: BTreeMap<&Id, BTreeMap<u64, Vec<&Grant>>> = BTreeMap::new();
    for grant in &stories.grants {
        by_session.entry(&grant.session).or_default().entry(grant.version).or_default().push(grant);
    }
    let oracle = desk.oracle.lock();
    for (session, grants) in by_session {
        let may = |grant: &Grant, now_ms| {
            let wall_ms = BEGIN_MS + now_ms + desk.walls.off_ms(now_ms);
            may_be_free(grant, (now_ms, wall_ms), stories, walls_are_right, town)
        };
        // Who was last told to have each seat.
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
                let state = town::state_in(&map.seats, grant.seat);
                if state == SeatState::Free as u8 && !may(grant, times.1) {
                    wrong.push(format!("{session} at version {upto}, read at {times:?}: free although {grant:?}"));
                }
            }
        }
    }
    wrong
}

/// Whether a seat may be somebody else's at `now_ms` of the run, when walls showed `wall_ms`.
fn may_be_free(grant: &Grant, (now_ms, wall_ms): Times, stories: &Stories, walls_are_right: bool, town: &Town) -> bool {
    let canceled = town.canceled_ms(&grant.session).is_some_and(|at_ms| at_ms <= now_ms);
    if canceled || town.taken_from(grant.cart).is_some_and(|at_ms| at_ms <= now_ms) {
        return true;
    }
    // A cart that is still under way when the run ends is in no story: nothing is known of it.
    let Some(story) = stories.carts.get(&grant.cart) else { return true };
    let let_go = story.lets_go_ms.is_some_and(|at_ms| at_ms <= now_ms);
    if let_go || story.order.is_some() {
        return let_go;
    }
    !walls_are_right || story.lives_until().0 <= wall_ms + CLOCKS_MS
}
