//! The checkout of a flow, with a recorded payment or through the gateway.

use std::time::{Duration, Instant};

use boxoffice_client::{Cart, Error, OrderView, Reply, gateway, recorded};
use boxoffice_core::payment::OnDecline;
use boxoffice_workload::history::{CheckoutOutcome, CheckoutRecord, HoldOutcome, Span};

use super::{Flow, FlowOutcome, outcome_of, version_of};
use crate::{run_context::RunContext, scenario::GatewaySpec};

/// The code of the refusal `payment_pending`.
const PAYMENT_PENDING: u16 = 602;

/// Time between two requests for the outcome of a payment.
const POLL_PAYMENT_EVERY: Duration = Duration::from_millis(200);

/// Buys what the cart holds.
pub(super) async fn check_out(context: &RunContext, cart: &Cart, flow: &mut Flow) -> FlowOutcome {
    let called_us = context.now_us();
    let bought = match &context.scenario.gateway {
        None => cart.checkout(recorded("card", "load-run"), None).await,
        Some(spec) => pay_through_gateway(cart, spec).await,
    };
    let span = Span { called_us, returned_us: context.now_us() };
    let (checkout, end) = match bought {
        Ok(reply) => {
            flow.note_version(&reply);
            let order = &reply.value.order;
            let sold = sold_versions(context, flow, &reply);
            (CheckoutOutcome::Bought { order: order.id, total: order.total.amount, sold }, FlowOutcome::Done)
        }
        Err(error) => not_bought(&error),
    };
    flow.record.checkout = Some(CheckoutRecord { span, outcome: checkout });
    end
}

/// Checks out, and asks for the outcome until the payment is no longer pending or the scenario's patience ends.
async fn pay_through_gateway(cart: &Cart, spec: &GatewaySpec) -> Result<Reply<OrderView>, Error> {
    // With the same request id a repeat asks how the payment ended. It does not pay again.
    let cart = cart.with_request_id(format!("pay-{}", cart.id()));
    let begun = Instant::now();
    loop {
        let answer = cart.checkout(gateway("ok", Some(OnDecline::Release)), None).await;
        let pending = matches!(&answer, Err(Error::Refused(no)) if no.code == PAYMENT_PENDING);
        if !pending || begun.elapsed() >= Duration::from_millis(spec.patience_ms) {
            return answer;
        }
        tokio::time::sleep(POLL_PAYMENT_EVERY).await;
    }
}

/// The sessions of a sale, each with its version in the answer.
fn sold_versions(context: &RunContext, flow: &Flow, reply: &Reply<OrderView>) -> Vec<(u32, u64)> {
    let Some(picker) = &context.picker else { return Vec::new() };
    let held = flow.record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. }));
    let version = |session: u32| version_of(&reply.at, &picker.house().session_id(session));
    held.filter_map(|hold| Some((hold.session, version(hold.session)?))).collect()
}

fn not_bought(error: &Error) -> (CheckoutOutcome, FlowOutcome) {
    let checkout = match error {
        Error::Refused(no) if no.code == PAYMENT_PENDING => CheckoutOutcome::Unknown,
        Error::Refused(no) => CheckoutOutcome::Refused { code: no.code },
        error if error.may_have_happened() => CheckoutOutcome::Unknown,
        _ => CheckoutOutcome::NotDone,
    };
    let end = match checkout {
        CheckoutOutcome::Unknown if error.refusal().is_some() => FlowOutcome::Failed("payment pending".into()),
        _ => outcome_of(error),
    };
    (checkout, end)
}
