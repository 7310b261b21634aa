//! A flow that buys seats.

use std::time::Duration;

use boxoffice_client::{Cart, Error};
use boxoffice_core::refusal::TakenSeat;
use boxoffice_workload::{
    arrival::FlowNumber,
    history::{HoldOutcome, HoldRecord, Span},
};

use super::{End, Flow, ended, pay::check_out, version_of};
use crate::plan::{Plan, Pool};

/// Opens a cart, holds seats, buys or goes away; and says to the pool what became of its block.
pub(super) async fn buy(
    plan: &Plan,
    cart: &Cart,
    number: FlowNumber,
    block: Option<FlowNumber>,
    flow: &mut Flow,
) -> End {
    let end = hold_and_buy(plan, cart, number, block, flow).await;
    if let (Some(block), Some(pool), Some(spec)) = (block, &plan.pool, &plan.scenario.flow) {
        match end {
            // Of a failed one nobody knows; the audit tells whether it was sold.
            End::Done | End::Failed(_) => pool.is_over(),
            End::Refused(_) | End::Abandoned => pool.give_back(block, Duration::from_millis(spec.again_ms)),
        }
    }
    end
}

async fn hold_and_buy(plan: &Plan, cart: &Cart, number: FlowNumber, block: Option<FlowNumber>, flow: &mut Flow) -> End {
    let (Some(spec), Some(picker)) = (&plan.scenario.flow, &plan.picker) else {
        unreachable!("a scenario with flows that buy seats says which; it was checked")
    };
    if spec.open_first {
        let called_us = plan.now_us();
        let opened = cart.open(plan.customer_id(flow.record.customer), None).await;
        flow.opened = Some(Span { called_us, returned_us: plan.now_us() });
        match opened {
            Ok(reply) => flow.note_version(&reply),
            Err(error) => return ended(&error),
        }
    }

    let contends = plan.run_seed.contends(number, spec.contend_percent);
    let mut attempt = 0;
    loop {
        let choice = match block {
            Some(block) => Pool::choice(picker, block),
            None if contends => {
                let kept = plan.kept.any(&mut plan.run_seed.rng(number, attempt));
                kept.unwrap_or_else(|| picker.choose(number, attempt))
            }
            None => picker.choose(number, attempt),
        };
        let session = picker.house().session_id(choice.session);
        let called_us = plan.now_us();
        let held = cart.hold_seats(&session, choice.seats.as_slice().iter().copied()).await;
        let span = Span { called_us, returned_us: plan.now_us() };
        let outcome = match &held {
            Ok(reply) => {
                flow.note_version(reply);
                let seats = reply.value.lines.iter().flat_map(|line| line.content.seats());
                HoldOutcome::Granted {
                    session_version: version_of(&reply.at, &session),
                    deadline: reply.value.deadline,
                    price: seats.map(|seat| seat.price).sum(),
                }
            }
            Err(Error::Refused(no)) => {
                let named = no.seats.iter().zip(&no.states).map(|(&seat, &state)| TakenSeat { seat, state });
                HoldOutcome::Refused { code: no.code, named: named.collect() }
            }
            Err(error) if error.may_have_happened() => HoldOutcome::Unknown,
            Err(_) => HoldOutcome::NotDone,
        };
        if held.is_ok() && spec.contend_percent > 0 && !plan.run_seed.abandons(number, spec.abandon_percent) {
            plan.kept.put(&choice);
        }
        flow.record.holds.push(HoldRecord { session: choice.session, seats: choice.seats, span, outcome });
        match held {
            Ok(_) => break,
            Err(Error::Refused(_)) if attempt < spec.retries => {
                attempt += 1;
                flow.retried += 1;
            }
            Err(error) => return ended(&error),
        }
    }

    if plan.run_seed.abandons(number, spec.abandon_percent) {
        return End::Abandoned;
    }
    check_out(plan, cart, flow).await
}
