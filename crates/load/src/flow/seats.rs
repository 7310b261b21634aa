//! A flow that buys seats.

use std::time::Duration;

use boxoffice_client::{At, Cart, Error, Held, Reply};
use boxoffice_core::{id::Id, refusal::TakenSeat};
use boxoffice_wire::reply::No;
use boxoffice_workload::{
    arrival::FlowNumber,
    flow::{Choice, Picker},
    history::{HeldSeats, HoldOutcome, HoldRecord, Span},
};

use super::{Flow, FlowOutcome, call_outcome, checkout::check_out, outcome_of, version_of};
use crate::{run_context::RunContext, scenario::FlowSpec, seat_blocks::SeatBlockPool};

/// Opens a cart, holds seats, and buys or abandons them. A flow with a block then reports its outcome to the pool.
pub(super) async fn buy(
    context: &RunContext,
    cart: &Cart,
    number: FlowNumber,
    block: Option<FlowNumber>,
    flow: &mut Flow,
) -> FlowOutcome {
    let (Some(spec), Some(picker)) = (&context.scenario.flow, &context.picker) else {
        unreachable!("the scenario check requires [flow] for flows that buy seats")
    };
    let outcome = match hold(context, cart, number, block, flow, spec, picker).await {
        Err(end) => end,
        Ok(()) if context.run_seed.abandons(number, spec.abandon_percent) => FlowOutcome::Abandoned,
        Ok(()) => check_out(context, cart, flow).await,
    };
    if let (Some(block), Some(seat_blocks)) = (block, &context.seat_blocks) {
        match outcome {
            // A failed flow may have bought its seats. The audit finds out.
            FlowOutcome::Done | FlowOutcome::Failed(_) => seat_blocks.mark_finished(),
            FlowOutcome::Refused(_) | FlowOutcome::Abandoned => {
                seat_blocks.give_back(block, Duration::from_millis(spec.again_ms));
            }
        }
    }
    outcome
}

/// Opens the cart if the scenario wants that, and holds seats. After a refusal it tries others, as often as the
/// scenario allows.
async fn hold(
    context: &RunContext,
    cart: &Cart,
    number: FlowNumber,
    block: Option<FlowNumber>,
    flow: &mut Flow,
    spec: &FlowSpec,
    picker: &Picker,
) -> Result<(), FlowOutcome> {
    if spec.open_first {
        open(context, cart, flow).await?;
    }
    let mut attempt = 0;
    loop {
        let choice = choose(context, number, block, attempt, spec, picker);
        let session = picker.house().session_id(choice.session);
        let called_us = context.now_us();
        let held = cart.hold_seats(&session, choice.seats.as_slice().iter().copied()).await;
        let span = Span { called_us, returned_us: context.now_us() };
        if let Ok(reply) = &held {
            flow.note_version(&reply.at);
        }
        let outcome = hold_outcome(&held, &session);
        if held.is_ok() && spec.contend_percent > 0 && !context.run_seed.abandons(number, spec.abandon_percent) {
            context.recent_holds.put(&choice);
        }
        flow.record.holds.push(HoldRecord { session: choice.session, seats: choice.seats, span, outcome });
        match held {
            Ok(_) => return Ok(()),
            Err(Error::Refused(_)) if attempt < spec.retries => {
                attempt += 1;
                flow.retried += 1;
            }
            Err(error) => return Err(outcome_of(&error)),
        }
    }
}

async fn open(context: &RunContext, cart: &Cart, flow: &mut Flow) -> Result<(), FlowOutcome> {
    let called_us = context.now_us();
    let opened = cart.open(context.customer_id(flow.record.customer), None).await;
    flow.opened = Some(Span { called_us, returned_us: context.now_us() });
    match opened {
        Ok(reply) => {
            flow.note_version(&reply.at);
            Ok(())
        }
        Err(error) => Err(outcome_of(&error)),
    }
}

/// The seats of an attempt. A contending flow wants seats that another flow just got.
fn choose(
    context: &RunContext,
    number: FlowNumber,
    block: Option<FlowNumber>,
    attempt: u32,
    spec: &FlowSpec,
    picker: &Picker,
) -> Choice {
    match block {
        Some(block) => SeatBlockPool::choice(picker, block),
        None if context.run_seed.contends(number, spec.contend_percent) => {
            let recent = context.recent_holds.any(&mut context.run_seed.rng(number, attempt));
            recent.unwrap_or_else(|| picker.choose(number, attempt))
        }
        None => picker.choose(number, attempt),
    }
}

fn hold_outcome(held: &Result<Reply<Held>, Error>, session: &Id) -> HoldOutcome {
    let named = |no: &No| {
        let named = no.seats.iter().zip(&no.states).map(|(&seat, &state)| TakenSeat { seat, state });
        named.collect()
    };
    call_outcome(held, |reply| held_seats(&reply.value, &reply.at, session), named)
}

/// The part of a granted hold that the history keeps.
pub(crate) fn held_seats(held: &Held, at: &[At], session: &Id) -> HeldSeats {
    let seats = held.lines.iter().flat_map(|line| line.content.seats());
    HeldSeats {
        session_version: version_of(at, session),
        deadline: held.deadline,
        price: seats.map(|seat| seat.price).sum(),
    }
}
