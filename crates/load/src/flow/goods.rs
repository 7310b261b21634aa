//! Flows that buy units of products, places in areas, or a slot of a resource.

use boxoffice_client::{Cart, Error, Held, Reply};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{GoodsHoldOutcome, GoodsHoldRecord, Span},
};
use rand::{Rng, seq::index};

use super::{End, Flow, ended, pay::check_out};
use crate::{
    plan::Plan,
    scenario::{CartSpec, ProductPick, ShopSpec},
};

/// Puts units of products into the cart, all at once or one after the other, and buys them or goes away.
pub(super) async fn buy_units(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let (spec, _) = shopping(plan);
    let adds =
        products(plan, number).into_iter().map(|product| take(plan, cart, Good::Product(product), spec.quantity));
    let mut failed = None;
    if spec.concurrent {
        let mut answers = futures_util::future::join_all(adds).await;
        // Answers of requests that were under way together come in any order.
        answers.sort_by_key(|(_, answer)| answer.as_ref().ok().and_then(|reply| cart_version(flow, reply)));
        for (record, answer) in answers {
            failed = note(flow, record, &answer).or(failed);
        }
    } else {
        for add in adds {
            let (record, answer) = add.await;
            failed = note(flow, record, &answer);
            if failed.is_some() {
                break;
            }
        }
    }
    match failed {
        Some(end) => end,
        None if plan.run_seed.abandons(number, spec.abandon_percent) => End::Abandoned,
        None => check_out(plan, cart, flow).await,
    }
}

fn shopping(plan: &Plan) -> (&CartSpec, &ShopSpec) {
    let (Some(spec), Some(shop)) = (&plan.scenario.cart, &plan.scenario.shop) else {
        unreachable!("a scenario with flows that buy units says which; it was checked")
    };
    (spec, shop)
}

/// The products that a flow puts into its cart, in this order.
pub(super) fn products(plan: &Plan, number: FlowNumber) -> Vec<u32> {
    let (spec, shop) = shopping(plan);
    let mut random = plan.run_seed.rng(number, 0);
    match spec.pick {
        ProductPick::Uniform => (0..spec.adds).map(|_| random.random_range(0..shop.products)).collect(),
        ProductPick::Distinct => {
            let chosen = index::sample(&mut random, shop.products as usize, spec.adds as usize);
            chosen.into_iter().map(|product| product as u32).collect()
        }
    }
}

/// Holds places of one area, and buys them or goes away.
pub(super) async fn buy_places(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let Some(spec) = &plan.scenario.places else {
        unreachable!("a scenario with flows that buy places says which; it was checked")
    };
    let quantity = plan.run_seed.rng(number, 0).random_range(1..=spec.quantity_max);
    match hold_one(plan, cart, flow, |attempt| area(plan, number, attempt), quantity, spec.retries).await {
        Err(end) => end,
        Ok(()) if plan.run_seed.abandons(number, spec.abandon_percent) => End::Abandoned,
        Ok(()) => check_out(plan, cart, flow).await,
    }
}

/// The area that an attempt of a flow wants places of.
pub(super) fn area(plan: &Plan, number: FlowNumber, attempt: u32) -> Good {
    let Some(arena) = &plan.scenario.arena else {
        unreachable!("a scenario with flows that buy places has arenas; it was checked")
    };
    let mut random = plan.run_seed.rng(number, 1 + attempt);
    Good::Area { arena: random.random_range(0..arena.sessions), area: random.random_range(0..arena.areas) }
}

/// Holds a time of one resource, and buys it or goes away.
pub(super) async fn buy_slot(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let Some(spec) = &plan.scenario.slots else {
        unreachable!("a scenario with flows that buy slots says which; it was checked")
    };
    match hold_one(plan, cart, flow, |attempt| slot(plan, number, attempt), 1, spec.retries).await {
        Err(end) => end,
        Ok(()) if plan.run_seed.abandons(number, spec.abandon_percent) => End::Abandoned,
        Ok(()) => check_out(plan, cart, flow).await,
    }
}

/// The time that an attempt of a flow wants.
pub(super) fn slot(plan: &Plan, number: FlowNumber, attempt: u32) -> Good {
    let Some(calendar) = &plan.scenario.calendar else {
        unreachable!("a scenario with flows that buy slots has a calendar; it was checked")
    };
    let mut random = plan.run_seed.rng(number, attempt);
    let resource = random.random_range(0..calendar.resources);
    Good::Slot { resource, slot: plan.random_slot(calendar, &mut random) }
}

/// Holds one good, trying others after a refusal.
async fn hold_one(
    plan: &Plan,
    cart: &Cart,
    flow: &mut Flow,
    choose: impl Fn(u32) -> Good,
    quantity: u32,
    retries: u32,
) -> Result<(), End> {
    let mut attempt = 0;
    loop {
        let (record, answer) = take(plan, cart, choose(attempt), quantity).await;
        let Some(end) = note(flow, record, &answer) else { return Ok(()) };
        if !matches!(end, End::Refused(_)) || attempt == retries {
            return Err(end);
        }
        attempt += 1;
        flow.retried += 1;
    }
}

type Answer = Result<Reply<Held>, Error>;

/// Asks for a good, and says what came of it.
async fn take(plan: &Plan, cart: &Cart, good: Good, quantity: u32) -> (GoodsHoldRecord, Answer) {
    let called_us = plan.now_us();
    let answer = match good {
        Good::Product(product) => cart.hold_stock(&plan.goods.product_id(product), quantity).await,
        Good::Area { arena, area } => {
            cart.hold_places(&plan.goods.arena_id(arena), &plan.goods.area_id(area), quantity).await
        }
        Good::Slot { resource, slot } => cart.hold_slot(&plan.goods.resource_id(resource), slot.begin, slot.end).await,
    };
    let span = Span { called_us, returned_us: plan.now_us() };
    let outcome = match &answer {
        Ok(reply) => GoodsHoldOutcome::Granted { deadline: reply.value.deadline },
        Err(Error::Refused(no)) => {
            let short = no.shortages.first().map(|short| short.free);
            GoodsHoldOutcome::Refused { code: no.code, free: short.or(no.free.map(u64::from)) }
        }
        Err(error) if error.may_have_happened() => GoodsHoldOutcome::Unknown,
        Err(_) => GoodsHoldOutcome::NotDone,
    };
    (GoodsHoldRecord { good, quantity, span, outcome }, answer)
}

/// Writes down what came of it; how the flow ends if it was not granted.
fn note(flow: &mut Flow, record: GoodsHoldRecord, answer: &Answer) -> Option<End> {
    flow.record.goods_holds.push(record);
    match answer {
        Ok(reply) => {
            flow.note_version(reply);
            None
        }
        Err(error) => Some(ended(error)),
    }
}

fn cart_version(flow: &Flow, reply: &Reply<Held>) -> Option<u64> {
    let cart = boxoffice_client::Entity::Cart(flow.record.cart);
    reply.at.iter().find(|at| at.entity == cart).map(|at| at.version)
}
