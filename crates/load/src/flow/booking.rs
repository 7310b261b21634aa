//! A flow that makes, moves or cancels a booking without a cart.

use boxoffice_client::{Client, Error, When};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Slot,
    history::{Change, ChangeOutcome, ChangeRecord, Span},
};
use rand::Rng;

use super::{End, Flow, ended};
use crate::plan::Plan;

/// The first flows want the same times, some of them each; those after that do something at random.
pub(super) async fn change(plan: &Plan, client: &Client, number: FlowNumber, flow: &mut Flow) -> End {
    let (Some(rush), Some(calendar)) = (&plan.scenario.rush, &plan.scenario.calendar) else {
        unreachable!("a scenario with flows that book says what; it was checked")
    };
    let turn = number.index * plan.scenario.groups() + number.group;
    let wanted = turn / rush.wanters;
    if wanted < rush.wanted {
        // One time after the other, on one resource after the other; half of it is behind what is booked at random.
        let (resource, place) = (wanted % calendar.resources, wanted / calendar.resources);
        let first = (place * calendar.steps_max) % (calendar.steps - calendar.steps_max + 1);
        let slot = plan.slot(calendar, first, calendar.steps_max);
        return reserve(plan, client, resource, slot, flow).await;
    }

    let mut random = plan.run_seed.rng(number, 0);
    let lot: u8 = random.random_range(0..100);
    let slot = plan.random_slot(calendar, &mut random);
    let mine = if lot < rush.cancel_percent + rush.move_percent { plan.diary.take(&mut random) } else { None };
    match mine {
        Some((resource, booking)) if lot < rush.cancel_percent => {
            ask(plan, client, (resource, booking), Change::Cancel, flow).await
        }
        Some(mine) => ask(plan, client, mine, Change::Move(slot), flow).await,
        None => reserve(plan, client, random.random_range(0..calendar.resources), slot, flow).await,
    }
}

async fn reserve(plan: &Plan, client: &Client, resource: u32, slot: Slot, flow: &mut Flow) -> End {
    let booking = plan.diary.number();
    ask(plan, client, (resource, booking), Change::Reserve(slot), flow).await
}

/// Asks for a change, writes down what came of it, and puts what is there now back for others.
async fn ask(plan: &Plan, client: &Client, which: (u32, u32), change: Change, flow: &mut Flow) -> End {
    let (resource, booking) = which;
    let (resource_id, booking_id) = (plan.goods.resource_id(resource), plan.goods.booking_id(booking));
    let when = |slot: Slot| When::Utc { begin: slot.begin, end: slot.end };
    let called_us = plan.now_us();
    let answer = match change {
        Change::Reserve(slot) => {
            client.resource_reserve(&resource_id, &booking_id, when(slot), None, "a load run").await.map(drop)
        }
        Change::Move(slot) => client.resource_move(&resource_id, &booking_id, when(slot)).await.map(drop),
        Change::Cancel => client.resource_cancel(&resource_id, &booking_id, false).await.map(drop),
    };
    let span = Span { called_us, returned_us: plan.now_us() };
    let outcome = match &answer {
        Ok(()) => ChangeOutcome::Done,
        Err(Error::Refused(no)) => ChangeOutcome::Refused { code: no.code },
        Err(error) if error.may_have_happened() => ChangeOutcome::Unknown,
        Err(_) => ChangeOutcome::NotDone,
    };
    flow.changes.push(ChangeRecord { resource, booking, change, span, outcome });
    let is_there = match (change, outcome) {
        (Change::Reserve(_), outcome) => outcome == ChangeOutcome::Done,
        (Change::Cancel, outcome) => matches!(outcome, ChangeOutcome::NotDone | ChangeOutcome::Refused { .. }),
        // Nobody knows where it is now, so it is left alone.
        (Change::Move(_), outcome) => outcome != ChangeOutcome::Unknown,
    };
    if is_there {
        plan.diary.put(resource, booking);
    }
    match answer {
        Ok(()) => End::Done,
        Err(error) => ended(&error),
    }
}
