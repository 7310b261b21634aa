//! The checkout of a flow, with a recorded payment or through the gateway.

use std::time::{Duration, Instant};

use boxoffice_client::{Cart, Error, Order, Reply, gateway, recorded};
use boxoffice_core::payment::OnDecline;
use boxoffice_workload::history::{Bought, CheckoutRecord, Outcome, Span};

use super::{Flow, FlowOutcome, call_outcome, outcome_of, version_of};
use crate::{run_context::RunContext, scenario::GatewaySpec};

/// The code of the refusal `payment_pending`.
const PAYMENT_PENDING: u16 = 602;

/// Time between two requests for the outcome of a payment.
const POLL_PAYMENT_EVERY: Duration = Duration::from_millis(200);

/// Buys what the cart holds, after the scenario's pause.
pub(super) async fn check_out(context: &RunContext, cart: &Cart, flow: &mut Flow) -> FlowOutcome {
    if context.scenario.think_ms > 0 {
        let from_us = context.now_us();
        tokio::time::sleep(Duration::from_millis(context.scenario.think_ms)).await;
        flow.thought_us = context.now_us() - from_us;
    }
    let called_us = context.now_us();
    let bought = match &context.scenario.gateway {
        None => cart.checkout(recorded("card", "load-run"), None).await,
        Some(spec) => pay_through_gateway(cart, spec).await,
    };
    let span = Span { called_us, returned_us: context.now_us() };
    if let Ok(reply) = &bought {
        flow.note_version(&reply.at);
    }
    let (outcome, end) = match &bought {
        Err(error) if is_pending(error) => (Outcome::Unknown, FlowOutcome::Failed("payment pending".into())),
        _ => {
            let answer = |reply: &Reply<Order>| {
                let order = &reply.value;
                Bought { order: order.id, total: order.total.amount, sold: sold_versions(context, flow, reply) }
            };
            (call_outcome(&bought, answer, |_| ()), bought.as_ref().err().map_or(FlowOutcome::Done, outcome_of))
        }
    };
    flow.record.checkout = Some(CheckoutRecord { span, outcome });
    end
}

/// Whether the payment is not decided yet.
fn is_pending(error: &Error) -> bool {
    error.refusal().is_some_and(|no| no.code == PAYMENT_PENDING)
}

/// Checks out, and asks for the outcome until the payment is no longer pending or the scenario's patience ends.
async fn pay_through_gateway(cart: &Cart, spec: &GatewaySpec) -> Result<Reply<Order>, Error> {
    // With the same request id a repeat asks how the payment ended. It does not pay again.
    let cart = cart.with_request_id(format!("pay-{}", cart.id()));
    let begun = Instant::now();
    loop {
        let answer = cart.checkout(gateway("ok", Some(OnDecline::Release)), None).await;
        if !answer.as_ref().is_err_and(is_pending) || begun.elapsed() >= Duration::from_millis(spec.patience_ms) {
            return answer;
        }
        tokio::time::sleep(POLL_PAYMENT_EVERY).await;
    }
}

/// The sessions of a sale, each with its version in the answer.
fn sold_versions(context: &RunContext, flow: &Flow, reply: &Reply<Order>) -> Vec<(u32, u64)> {
    let Some(picker) = &context.picker else { return Vec::new() };
    let held = flow.record.holds.iter().filter(|hold| hold.outcome.granted().is_some());
    let version = |session: u32| version_of(&reply.at, &picker.house().session_id(session));
    held.filter_map(|hold| Some((hold.session, version(hold.session)?))).collect()
}
