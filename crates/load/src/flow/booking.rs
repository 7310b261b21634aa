//! A flow that makes, moves or cancels a booking without a cart.

use boxoffice_client::{Client, ResourceMove, ResourceReserve};
use boxoffice_workload::{
    arrival::FlowNumber,
    goods::Slot,
    history::{BookingChange, ChangeRecord, Outcome, Span},
};
use rand::Rng;

use super::{Flow, FlowOutcome, call_outcome, outcome_of};
use crate::run_context::RunContext;

/// The first flows compete: several of them want the same time. Each later flow makes a random change.
pub(super) async fn change(context: &RunContext, client: &Client, number: FlowNumber, flow: &mut Flow) -> FlowOutcome {
    let (Some(rush), Some(calendar)) = (&context.scenario.rush, &context.scenario.calendar) else {
        unreachable!("the scenario check requires [rush] and [calendar] for flows that book")
    };
    let turn = number.index * context.scenario.groups() + number.group;
    let wanted = turn / rush.wanters;
    if wanted < rush.wanted {
        // The wanted times follow each other, resource by resource. Half of them lie after the times of the random
        // bookings.
        let (resource, round) = (wanted % calendar.resources, wanted / calendar.resources);
        let first = (round * calendar.steps_max) % (calendar.steps - calendar.steps_max + 1);
        let slot = context.slot(calendar, first, calendar.steps_max);
        return reserve(context, client, resource, slot, flow).await;
    }

    let mut random = context.run_seed.rng(number, 0);
    let percent: u8 = random.random_range(0..100);
    let slot = context.random_slot(calendar, &mut random);
    let existing =
        if percent < rush.cancel_percent + rush.move_percent { context.bookings.take(&mut random) } else { None };
    match existing {
        Some((resource, booking)) if percent < rush.cancel_percent => {
            send(context, client, (resource, booking), BookingChange::Cancel, flow).await
        }
        Some(existing) => send(context, client, existing, BookingChange::Move(slot), flow).await,
        None => reserve(context, client, random.random_range(0..calendar.resources), slot, flow).await,
    }
}

async fn reserve(context: &RunContext, client: &Client, resource: u32, slot: Slot, flow: &mut Flow) -> FlowOutcome {
    let booking = context.bookings.next_number();
    send(context, client, (resource, booking), BookingChange::Reserve(slot), flow).await
}

/// Requests a change and records its outcome. If the booking exists afterwards, other flows may change it again.
async fn send(
    context: &RunContext,
    client: &Client,
    which: (u32, u32),
    change: BookingChange,
    flow: &mut Flow,
) -> FlowOutcome {
    let (resource, booking) = which;
    let (resource_id, booking_id) = (context.goods.resource_id(resource), context.goods.booking_id(booking));
    let called_us = context.now_us();
    let answer = match change {
        BookingChange::Reserve(slot) => {
            let (begin, end) = (Some(slot.begin), Some(slot.end));
            let body = ResourceReserve { begin, end, ..ResourceReserve::of(resource_id, booking_id) };
            client.resource_reserve(body).details("a load run").await.map(drop)
        }
        BookingChange::Move(slot) => {
            let (begin, end) = (Some(slot.begin), Some(slot.end));
            let body = ResourceMove { begin, end, ..ResourceMove::of(resource_id, booking_id) };
            client.resource_move(&body).await.map(drop)
        }
        BookingChange::Cancel => client.resource_cancel(&resource_id, &booking_id, false).await.map(drop),
    };
    let span = Span { called_us, returned_us: context.now_us() };
    let outcome = call_outcome(&answer, |()| (), |_| ());
    flow.changes.push(ChangeRecord { resource, booking, change, span, outcome });
    let exists = match (change, outcome) {
        (BookingChange::Reserve(_), outcome) => outcome == Outcome::Granted(()),
        (BookingChange::Cancel, outcome) => matches!(outcome, Outcome::NotDone | Outcome::Refused { .. }),
        // After a move with an unknown outcome the booking's time is unknown, so no flow changes it again.
        (BookingChange::Move(_), outcome) => outcome != Outcome::Unknown,
    };
    if exists {
        context.bookings.put(resource, booking);
    }
    match answer {
        Ok(()) => FlowOutcome::Done,
        Err(error) => outcome_of(&error),
    }
}
