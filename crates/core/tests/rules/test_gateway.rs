//! A gateway that the test controls, with its ledger and its answers.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::{
    money::Money,
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
};

use crate::random_runs::Rng;

/// The fate of the first attempt of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFate {
    Succeeds,
    /// The call is declined or fails permanently.
    Declines,
    /// The call succeeds, and the reply is lost.
    ReplyLost,
    /// The call is lost and has no effect.
    CallLost,
    /// Another amount is authorized.
    OtherAmount,
}

/// The money of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) authorized: Option<i64>,
    pub(crate) declined: bool,
    pub(crate) captured: Option<i64>,
    pub(crate) voided: bool,
    pub(crate) refunded: BTreeMap<u32, i64>,
}

#[derive(Default)]
pub(crate) struct TestGateway {
    pub(crate) accounts: BTreeMap<PaymentKey, Account>,
    /// The fates of the next calls of a kind. Later calls succeed, or go at random.
    plan: BTreeMap<&'static str, VecDeque<CallFate>>,
    pub(crate) rng: Option<Rng>,
    /// Final outcomes, by attempt and step.
    outcomes: Vec<(PaymentKey, PaymentStep, GatewayOutcome)>,
}

/// The kind of a step, in a word.
pub(crate) fn kind(step: PaymentStep) -> &'static str {
    match step {
        PaymentStep::Authorize => "authorize",
        PaymentStep::Capture => "capture",
        PaymentStep::Void => "void",
        PaymentStep::Refund(_) => "refund",
    }
}

impl TestGateway {
    /// Raises the numbers of all attempts.
    pub(crate) fn raise(&mut self, attempts: u32) {
        let raised = |key: PaymentKey| PaymentKey { attempt: key.attempt + attempts, ..key };
        self.accounts =
            std::mem::take(&mut self.accounts).into_iter().map(|(key, account)| (raised(key), account)).collect();
        self.outcomes.iter_mut().for_each(|(key, ..)| *key = raised(*key));
    }

    /// Sets the fates of the next calls of a kind.
    pub(crate) fn plan(&mut self, kind: &'static str, fates: &[CallFate]) {
        self.plan.entry(kind).or_default().extend(fates);
    }

    fn call_fate(&mut self, step: PaymentStep) -> CallFate {
        if let Some(call_fate) = self.plan.get_mut(kind(step)).and_then(VecDeque::pop_front) {
            return call_fate;
        }
        let Some(rng) = &mut self.rng else { return CallFate::Succeeds };
        match (rng.below(10), step) {
            (0, _) => CallFate::ReplyLost,
            (1, _) => CallFate::CallLost,
            (2, PaymentStep::Authorize) => CallFate::OtherAmount,
            (3 | 4, PaymentStep::Authorize) => CallFate::Declines,
            (3, PaymentStep::Capture | PaymentStep::Void | PaymentStep::Refund(_)) => CallFate::Declines,
            _ => CallFate::Succeeds,
        }
    }

    /// Answers a call. A repeat gets the same outcome.
    pub(crate) fn answer(&mut self, call: &GatewayCall) -> GatewayOutcome {
        let (key, step) = (call.key(), call.step());
        let unknown = || GatewayOutcome::Unknown { reason: "no answer".into() };
        let call_fate = self.call_fate(step);
        let known = self.outcomes.iter().find(|(of, what, _)| (*of, *what) == (key, step));
        if let Some((.., outcome)) = known {
            let reply_lost = matches!(call_fate, CallFate::ReplyLost | CallFate::CallLost);
            return if reply_lost { unknown() } else { outcome.clone() };
        }
        if call_fate == CallFate::CallLost {
            return unknown();
        }
        let outcome = self.act(call, call_fate);
        self.outcomes.push((key, step, outcome.clone()));
        if call_fate == CallFate::ReplyLost { unknown() } else { outcome }
    }

    fn act(&mut self, call: &GatewayCall, call_fate: CallFate) -> GatewayOutcome {
        let account = self.accounts.entry(call.key()).or_default();
        let no = |text: &str| GatewayOutcome::Failed { reason: text.into() };
        match call {
            GatewayCall::Authorize { .. } if account.voided || call_fate == CallFate::Declines => {
                account.declined = true;
                GatewayOutcome::Declined { reason: "no money".into() }
            }
            GatewayCall::Authorize { amount, .. } => {
                let more = i64::from(call_fate == CallFate::OtherAmount);
                account.authorized = Some(amount.amount + more);
                let amount = Money { amount: amount.amount + more, ..*amount };
                GatewayOutcome::Authorized { reference: format!("auth-{}", call.key().attempt).into(), amount }
            }
            GatewayCall::Capture { amount, .. } => {
                assert!(!account.voided, "{call:?} after a void");
                assert_eq!(account.authorized, Some(amount.amount), "{call:?} without an authorization");
                if call_fate == CallFate::Declines {
                    return no("closed");
                }
                account.captured = Some(amount.amount);
                GatewayOutcome::Captured
            }
            GatewayCall::Void { .. } => {
                assert_eq!(account.captured, None, "{call:?} after a capture");
                if call_fate == CallFate::Declines {
                    return no("closed");
                }
                account.voided = true;
                GatewayOutcome::Voided
            }
            GatewayCall::Refund { refund, amount, .. } => {
                let Some(captured) = account.captured else { return no("never taken") };
                let before: i64 = account.refunded.values().sum();
                assert!(before + amount.amount <= captured, "{call:?} is more than was captured");
                if call_fate == CallFate::Declines {
                    return no("closed");
                }
                account.refunded.insert(*refund, amount.amount);
                GatewayOutcome::Refunded
            }
        }
    }

    /// All accounts as text.
    pub(crate) fn ledger(&self) -> String {
        let lines = self.accounts.iter().map(|(key, account)| {
            let mut words = Vec::new();
            words.extend(account.authorized.map(|amount| format!("authorized {amount}")));
            words.extend(account.declined.then(|| "declined".to_owned()));
            words.extend(account.captured.map(|amount| format!("captured {amount}")));
            words.extend(account.voided.then(|| "voided".to_owned()));
            words.extend(account.refunded.values().map(|amount| format!("refunded {amount}")));
            format!("{}-{}: {}", key.cart.0 as u8 as char, key.attempt, words.join(" "))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}
