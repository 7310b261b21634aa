//! Flows that buy units of products, places in areas, or a slot of a resource.

use boxoffice_client::{Cart, Error, Held, Reply};
use boxoffice_wire::reply::No;
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{GoodsHoldRecord, Span},
};
use rand::{Rng, seq::index};

use super::{Flow, FlowOutcome, call_outcome, checkout::check_out, outcome_of};
use crate::{
    run_context::RunContext,
    scenario::{CartSpec, ProductPick, ShopSpec},
};

/// Holds units of products, concurrently or one by one, and buys or abandons them.
pub(super) async fn buy_units(context: &RunContext, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> FlowOutcome {
    let (spec, _) = cart_and_shop(context);
    let adds =
        products(context, number).into_iter().map(|product| take(context, cart, Good::Product(product), spec.quantity));
    let mut failed = None;
    if spec.concurrent {
        let mut answers = futures_util::future::join_all(adds).await;
        // The answers to concurrent requests arrive in any order.
        answers.sort_by_key(|(_, answer)| answer.as_ref().ok().and_then(|reply| flow.cart_version(&reply.at)));
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
        None if context.run_seed.abandons(number, spec.abandon_percent) => FlowOutcome::Abandoned,
        None => check_out(context, cart, flow).await,
    }
}

fn cart_and_shop(context: &RunContext) -> (&CartSpec, &ShopSpec) {
    let (Some(spec), Some(shop)) = (&context.scenario.cart, &context.scenario.shop) else {
        unreachable!("the scenario check requires [cart] and [shop] for flows that buy units")
    };
    (spec, shop)
}

/// The products that a flow puts into its cart, in order.
pub(super) fn products(context: &RunContext, number: FlowNumber) -> Vec<u32> {
    let (spec, shop) = cart_and_shop(context);
    let mut random = context.run_seed.rng(number, 0);
    match spec.pick {
        ProductPick::Uniform => (0..spec.adds).map(|_| random.random_range(0..shop.products)).collect(),
        ProductPick::Distinct => {
            let chosen = index::sample(&mut random, shop.products as usize, spec.adds as usize);
            chosen.into_iter().map(|product| product as u32).collect()
        }
    }
}

/// Holds places of one area, and buys or abandons them.
pub(super) async fn buy_places(context: &RunContext, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> FlowOutcome {
    let Some(spec) = &context.scenario.places else {
        unreachable!("the scenario check requires [places] for flows that buy places")
    };
    let quantity = context.run_seed.rng(number, 0).random_range(1..=spec.quantity_max);
    match hold_one(context, cart, flow, |attempt| area(context, number, attempt), quantity, spec.retries).await {
        Err(end) => end,
        Ok(()) if context.run_seed.abandons(number, spec.abandon_percent) => FlowOutcome::Abandoned,
        Ok(()) => check_out(context, cart, flow).await,
    }
}

/// The area of an attempt.
pub(super) fn area(context: &RunContext, number: FlowNumber, attempt: u32) -> Good {
    let Some(arena) = &context.scenario.arena else {
        unreachable!("the scenario check requires [arena] for flows that buy places")
    };
    let mut random = context.run_seed.rng(number, 1 + attempt);
    Good::Area { arena: random.random_range(0..arena.sessions), area: random.random_range(0..arena.areas) }
}

/// Holds a slot of one resource, and buys or abandons it.
pub(super) async fn buy_slot(context: &RunContext, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> FlowOutcome {
    let Some(spec) = &context.scenario.slots else {
        unreachable!("the scenario check requires [slots] for flows that buy slots")
    };
    match hold_one(context, cart, flow, |attempt| slot(context, number, attempt), 1, spec.retries).await {
        Err(end) => end,
        Ok(()) if context.run_seed.abandons(number, spec.abandon_percent) => FlowOutcome::Abandoned,
        Ok(()) => check_out(context, cart, flow).await,
    }
}

/// The slot of an attempt.
pub(super) fn slot(context: &RunContext, number: FlowNumber, attempt: u32) -> Good {
    let Some(calendar) = &context.scenario.calendar else {
        unreachable!("the scenario check requires [calendar] for flows that buy slots")
    };
    let mut random = context.run_seed.rng(number, attempt);
    let resource = random.random_range(0..calendar.resources);
    Good::Slot { resource, slot: context.random_slot(calendar, &mut random) }
}

/// Holds one good. After a refusal it tries others, as often as `retries` says.
async fn hold_one(
    context: &RunContext,
    cart: &Cart,
    flow: &mut Flow,
    choose: impl Fn(u32) -> Good,
    quantity: u32,
    retries: u32,
) -> Result<(), FlowOutcome> {
    let mut attempt = 0;
    loop {
        let (record, answer) = take(context, cart, choose(attempt), quantity).await;
        let Some(end) = note(flow, record, &answer) else { return Ok(()) };
        if !matches!(end, FlowOutcome::Refused(_)) || attempt == retries {
            return Err(end);
        }
        attempt += 1;
        flow.retried += 1;
    }
}

type HoldResult = Result<Reply<Held>, Error>;

/// Requests a hold of one good.
async fn take(context: &RunContext, cart: &Cart, good: Good, quantity: u32) -> (GoodsHoldRecord, HoldResult) {
    let called_us = context.now_us();
    let answer = match good {
        Good::Product(product) => cart.hold_stock(&context.goods.product_id(product), quantity).await,
        Good::Area { arena, area } => {
            cart.hold_places(&context.goods.arena_id(arena), &context.goods.area_id(area), quantity).await
        }
        Good::Slot { resource, slot } => {
            cart.hold_slot(&context.goods.resource_id(resource), slot.begin, slot.end).await
        }
    };
    let span = Span { called_us, returned_us: context.now_us() };
    let free = |no: &No| no.shortages.first().map(|short| short.free).or(no.free.map(u64::from));
    let outcome = call_outcome(&answer, |reply| reply.value.deadline, free);
    (GoodsHoldRecord { good, quantity, span, outcome }, answer)
}

/// Records the outcome of a hold. If the hold was not granted, returns how the flow ends.
fn note(flow: &mut Flow, record: GoodsHoldRecord, answer: &HoldResult) -> Option<FlowOutcome> {
    flow.record.goods_holds.push(record);
    match answer {
        Ok(reply) => {
            flow.note_version(&reply.at);
            None
        }
        Err(error) => Some(outcome_of(error)),
    }
}
