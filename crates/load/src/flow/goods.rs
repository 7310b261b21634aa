//! Flows that buy units of products, places in areas, or a slot of a resource.

use boxoffice_client::{Cart, Error, Held, Reply};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Good,
    history::{Span, TakeOutcome, TakeRecord},
};
use rand::{Rng, seq::index};

use super::{End, Flow, ended, pay::check_out};
use crate::{plan::Plan, scenario::ProductPick};

/// Puts units of products into the cart, all at once or one after the other, and buys them or goes away.
pub(super) async fn buy_units(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let (Some(spec), Some(shop)) = (&plan.scenario.cart, &plan.scenario.shop) else {
        unreachable!("a scenario with flows that buy units says which; it was checked")
    };
    let mut random = plan.draw.random(number, 0);
    let products: Vec<u32> = match spec.pick {
        ProductPick::Uniform => (0..spec.adds).map(|_| random.random_range(0..shop.products)).collect(),
        ProductPick::Distinct => {
            let chosen = index::sample(&mut random, shop.products as usize, spec.adds as usize);
            chosen.into_iter().map(|product| product as u32).collect()
        }
    };
    let adds = products.into_iter().map(|product| take(plan, cart, Good::Product(product), spec.quantity));
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
        None if plan.draw.abandons(number, spec.abandon_percent) => End::Abandoned,
        None => check_out(plan, cart, flow).await,
    }
}

/// Holds places of one area, and buys them or goes away.
pub(super) async fn buy_places(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let (Some(spec), Some(arena)) = (&plan.scenario.places, &plan.scenario.arena) else {
        unreachable!("a scenario with flows that buy places says which; it was checked")
    };
    let quantity = plan.draw.random(number, 0).random_range(1..=spec.quantity_max);
    let choose = |attempt: u32| {
        let mut random = plan.draw.random(number, 1 + attempt);
        Good::Area { arena: random.random_range(0..arena.sessions), area: random.random_range(0..arena.areas) }
    };
    match hold_one(plan, cart, flow, choose, quantity, spec.retries).await {
        Err(end) => end,
        Ok(()) if plan.draw.abandons(number, spec.abandon_percent) => End::Abandoned,
        Ok(()) => check_out(plan, cart, flow).await,
    }
}

/// Holds a time of one resource, and buys it or goes away.
pub(super) async fn buy_slot(plan: &Plan, cart: &Cart, number: FlowNumber, flow: &mut Flow) -> End {
    let (Some(spec), Some(calendar)) = (&plan.scenario.slots, &plan.scenario.calendar) else {
        unreachable!("a scenario with flows that buy slots says which; it was checked")
    };
    let choose = |attempt: u32| {
        let mut random = plan.draw.random(number, attempt);
        let resource = random.random_range(0..calendar.resources);
        Good::Slot { resource, span: plan.random_slot(calendar, &mut random) }
    };
    match hold_one(plan, cart, flow, choose, 1, spec.retries).await {
        Err(end) => end,
        Ok(()) if plan.draw.abandons(number, spec.abandon_percent) => End::Abandoned,
        Ok(()) => check_out(plan, cart, flow).await,
    }
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
async fn take(plan: &Plan, cart: &Cart, good: Good, quantity: u32) -> (TakeRecord, Answer) {
    let called_us = plan.now_us();
    let answer = match good {
        Good::Product(product) => cart.hold_stock(&plan.goods.product_id(product), quantity).await,
        Good::Area { arena, area } => {
            cart.hold_places(&plan.goods.arena_id(arena), &plan.goods.area_id(area), quantity).await
        }
        Good::Slot { resource, span } => cart.hold_slot(&plan.goods.resource_id(resource), span.begin, span.end).await,
    };
    let span = Span { called_us, returned_us: plan.now_us() };
    let outcome = match &answer {
        Ok(reply) => TakeOutcome::Granted { deadline: reply.value.deadline },
        Err(Error::Refused(no)) => {
            let short = no.shortages.first().map(|short| short.free);
            TakeOutcome::Refused { code: no.code, free: short.or(no.free.map(u64::from)) }
        }
        Err(error) if error.may_have_happened() => TakeOutcome::Unknown,
        Err(_) => TakeOutcome::NotDone,
    };
    (TakeRecord { good, quantity, span, outcome }, answer)
}

/// Writes down what came of it; how the flow ends if it was not granted.
fn note(flow: &mut Flow, record: TakeRecord, answer: &Answer) -> Option<End> {
    flow.record.takes.push(record);
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
