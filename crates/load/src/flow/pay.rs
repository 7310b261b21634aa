//! The checkout of a flow, with a recorded payment or through the gateway.

use std::time::{Duration, Instant};

use boxoffice_client::{Cart, Error, gateway, recorded};
use boxoffice_core::payment::OnDecline;
use boxoffice_workload::history::{CheckoutOutcome, CheckoutRecord, HoldOutcome, Span};

use super::{End, Flow, ended, version_of};
use crate::plan::Plan;

/// The number of `payment_pending`.
const PAYMENT_PENDING: u16 = 602;

/// Between two questions how a payment ended.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Buys what the cart holds.
pub(super) async fn check_out(plan: &Plan, cart: &Cart, flow: &mut Flow) -> End {
    let called_us = plan.now_us();
    let bought = match &plan.scenario.gateway {
        None => cart.checkout(recorded("card", "load-run"), None).await,
        Some(spec) => {
            // The same request id each time: how the payment ended is asked for, it is not paid again.
            let cart = cart.with_request_id(format!("pay-{}", cart.id()));
            let begun = Instant::now();
            loop {
                let answer = cart.checkout(gateway("ok", Some(OnDecline::Release)), None).await;
                let pending = matches!(&answer, Err(Error::Refused(no)) if no.code == PAYMENT_PENDING);
                if !pending || begun.elapsed() >= Duration::from_millis(spec.patience_ms) {
                    break answer;
                }
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        }
    };
    let span = Span { called_us, returned_us: plan.now_us() };
    let (outcome, end) = match bought {
        Ok(reply) => {
            flow.note_version(&reply);
            let order = &reply.value.order;
            let sold = match &plan.picker {
                Some(picker) => {
                    let held =
                        flow.record.holds.iter().filter(|hold| matches!(hold.outcome, HoldOutcome::Granted { .. }));
                    let version = |session: u32| version_of(&reply.at, &picker.house().session_id(session));
                    held.filter_map(|hold| Some((hold.session, version(hold.session)?))).collect()
                }
                None => Vec::new(),
            };
            (CheckoutOutcome::Bought { order: order.id, total: order.total.amount, sold }, End::Done)
        }
        Err(error) => {
            let outcome = match &error {
                Error::Refused(no) if no.code == PAYMENT_PENDING => CheckoutOutcome::Unknown,
                Error::Refused(no) => CheckoutOutcome::Refused { code: no.code },
                error if error.may_have_happened() => CheckoutOutcome::Unknown,
                _ => CheckoutOutcome::NotDone,
            };
            let end = match outcome {
                CheckoutOutcome::Unknown if error.refusal().is_some() => End::Failed("payment pending".into()),
                _ => ended(&error),
            };
            (outcome, end)
        }
    };
    flow.record.checkout = Some(CheckoutRecord { span, outcome });
    end
}
