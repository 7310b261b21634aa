//! The gateway's ledger: charges, and the steps that were requested, by idempotency key.

use std::{collections::BTreeMap, ops::Bound};

use boxoffice_core::{
    id::{OrderId, hash64},
    money::Money,
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStep},
    time::Timestamp,
};
use boxoffice_wire::{
    payment::{
        AuthorizationBody, GatewayAnswer, ListedAttempt, ListedPage, ListedState, MoveBody, StepBody, StepKey, VoidBody,
    },
    repr::rfc3339,
};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::plan::{MalformedBody, Plan, StepPlan, Verdict};

/// Charges that the ledger keeps in memory. Further authorizations get 503.
pub const CHARGES_MAX: usize = 1_000_000;

/// The state of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeState {
    /// Not decided yet.
    Pending,
    Declined,
    /// The amount is set aside.
    Authorized,
    /// The amount is taken.
    Captured,
    /// The authorization is given up. Also the state of an attempt that was voided before it was authorized.
    Voided,
}

/// One attempt to pay. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The attempt: `<cart>-<number>`.
    pub key: String,
    /// The order that the payment is for, 32 hexadecimal digits. Empty if the gateway only got a void.
    pub order: String,
    /// When it was asked for first, in milliseconds since 1970.
    #[serde(default)]
    pub at_ms: u64,
    /// The client's payment token, which is also the charge's plan.
    pub source: SmolStr,
    pub state: ChargeState,
    /// The gateway's name for the charge, once it is authorized.
    pub reference: Option<SmolStr>,
    /// The currency of all amounts. Empty if the gateway only got a void.
    pub currency: SmolStr,
    /// The amount that was requested.
    pub asked: i64,
    /// The amount that was set aside, even if it was voided later.
    pub authorized: i64,
    /// The amount that was taken.
    pub captured: i64,
    /// The amount that was paid back.
    pub refunded: i64,
}

/// Sums of one currency, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Set aside now, neither taken nor voided.
    pub authorized: i64,
    /// Taken.
    pub captured: i64,
    /// Set aside and voided.
    pub voided: i64,
    /// Paid back.
    pub refunded: i64,
}

/// The ledger as `GET /ledger` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// All charges, by key.
    pub charges: Vec<Charge>,
    /// Sums by currency.
    pub totals: BTreeMap<SmolStr, Totals>,
    /// Valid requests, including repeats.
    pub requests: u64,
    /// Accepted connections.
    pub connections: u64,
}

/// Whether a body repeats another one. The reference of a void is a hint. The node may have learned it after its first request,
/// so a repeat may have it or not.
fn is_repeat(body: &StepBody, first: &StepBody) -> bool {
    match (body, first) {
        (StepBody::Void(one), StepBody::Void(other)) => {
            one.reference.is_none() || other.reference.is_none() || one.reference == other.reference
        }
        (one, other) => one == other,
    }
}

/// Rates of faults for charges whose source is `ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRates {
    /// The share of authorizations that are declined, from 0 to 1.
    pub decline: f64,
    /// The share of steps whose first request is done and never answered, from 0 to 1.
    pub timeout: f64,
    /// Selects the steps with faults. The same keys get the same faults under the same seed.
    pub seed: u64,
}

impl FaultRates {
    fn is_hit(&self, rate: f64, fault: &str, key: StepKey) -> bool {
        let hash = hash64(format!("{}/{fault}/{key}", self.seed).as_bytes());
        // A float holds the upper 53 bits exactly.
        ((hash >> 11) as f64) < rate * (1u64 << 53) as f64
    }

    fn plan(&self, key: StepKey) -> StepPlan {
        let declined = key.step == PaymentStep::Authorize && self.is_hit(self.decline, "decline", key);
        StepPlan {
            verdict: if declined { Verdict::Reject } else { Verdict::Approve },
            timeouts: u32::from(self.is_hit(self.timeout, "timeout", key)),
            ..StepPlan::default()
        }
    }
}

/// The answer to a request, or the fault in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer(GatewayAnswer),
    Pending,
    /// 500, without doing the step.
    Error,
    /// The connection is dropped.
    Disconnect,
    /// The connection stays open, without an answer.
    Hang,
    Malformed(MalformedBody),
    /// 409: another body under this key.
    Conflict,
    /// 503: [`CHARGES_MAX`].
    LedgerFull,
}

/// The effects of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) reply: Reply,
    pub(crate) delay_ms: u64,
    /// The step is pending. The caller must call [`Ledger::decide`] after this time.
    pub(crate) decide_in_ms: Option<u64>,
    /// The request decided the step, and a webhook must report this answer twice.
    pub(crate) notify_twice: Option<GatewayAnswer>,
}

struct Step {
    operation: StepBody,
    plan: StepPlan,
    requests: u32,
    /// `None` until the step is decided.
    answer: Option<GatewayAnswer>,
    /// The step will be decided later.
    is_pending: bool,
}

/// The state of the gateway.
#[derive(Default)]
pub struct Ledger {
    rates: FaultRates,
    charges: BTreeMap<PaymentKey, Charge>,
    steps: BTreeMap<String, Step>,
    authorizations: u64,
    requests: u64,
    /// When the request came, in milliseconds since 1970.
    now_ms: u64,
}

impl Ledger {
    pub(crate) fn new(rates: FaultRates) -> Ledger {
        Ledger { rates, ..Ledger::default() }
    }

    /// The current contents. The server counts `connections`.
    pub(crate) fn view(&self, connections: u64) -> LedgerView {
        let mut view = LedgerView { requests: self.requests, connections, ..LedgerView::default() };
        for charge in self.charges.values() {
            view.charges.push(charge.clone());
            if charge.reference.is_none() {
                continue;
            }
            let totals = view.totals.entry(charge.currency.clone()).or_default();
            match charge.state {
                ChargeState::Authorized => totals.authorized += charge.authorized,
                ChargeState::Voided => totals.voided += charge.authorized,
                ChargeState::Pending | ChargeState::Declined | ChargeState::Captured => {}
            }
            totals.captured += charge.captured;
            totals.refunded += charge.refunded;
        }
        view
    }

    /// The answer to an authorization, without requesting it. `None` if it was never requested, or only answered with
    /// errors so far.
    pub(crate) fn authorization(&self, key: PaymentKey) -> Option<Reply> {
        let step = self.steps.get(&key.to_string())?;
        match &step.answer {
            Some(answer) => Some(Reply::Answer(answer.clone())),
            None => step.is_pending.then_some(Reply::Pending),
        }
    }

    /// A page of all charges from an instant on, in milliseconds since 1970, behind the key `after`, by key.
    pub(crate) fn page(&self, since_ms: u64, after: Option<PaymentKey>, limit: usize) -> ListedPage {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut found = self.charges.range(behind).filter(|(_, charge)| charge.at_ms >= since_ms);
        let authorizations: Vec<ListedAttempt> = found.by_ref().take(limit).map(|(_, charge)| listed(charge)).collect();
        let last = authorizations.last().map(|attempt| attempt.key.clone());
        ListedPage { next: last.filter(|_| found.next().is_some()), authorizations }
    }

    /// Handles a request that came at `now_ms`, in milliseconds since 1970.
    pub(crate) fn handle(&mut self, operation: StepBody, now_ms: u64) -> Effects {
        self.requests += 1;
        self.now_ms = now_ms;
        let key = operation.key();
        let text = key.to_string();
        let reply_only = |reply, delay_ms| Effects { reply, delay_ms, decide_in_ms: None, notify_twice: None };
        if !self.steps.contains_key(&text) {
            if self.charges.len() >= CHARGES_MAX && !self.charges.contains_key(&key.attempt) {
                return reply_only(Reply::LedgerFull, 0);
            }
            let plan = self.plan(&operation);
            let step = Step { operation: operation.clone(), plan, requests: 0, answer: None, is_pending: false };
            self.steps.insert(text.clone(), step);
        }
        let step = self.steps.get_mut(&text).expect("the step was inserted if it was missing");
        if !is_repeat(&operation, &step.operation) {
            return reply_only(Reply::Conflict, 0);
        }
        step.requests = step.requests.saturating_add(1);
        let (plan, number) = (step.plan, step.requests);
        if number <= plan.errors {
            return reply_only(Reply::Error, plan.delay_ms);
        }
        let mut effects = reply_only(Reply::Pending, plan.delay_ms);
        if step.answer.is_none() && !step.is_pending {
            if let Some(late_ms) = plan.late_ms {
                step.is_pending = true;
                effects.decide_in_ms = Some(late_ms);
                self.add_pending_charge(&operation);
            } else {
                let answer = self.decide(&text);
                effects.notify_twice = plan.notify_twice.then_some(answer);
            }
        }
        if let Some(answer) = &self.steps[&text].answer {
            effects.reply = Reply::Answer(answer.clone());
        }
        let faults = [
            (plan.dropped, Reply::Disconnect),
            (plan.timeouts, Reply::Hang),
            (plan.malformed, Reply::Malformed(plan.malformed_body)),
        ];
        let mut last = plan.errors;
        for (times, reply) in faults {
            last = last.saturating_add(times);
            if number <= last {
                effects.reply = reply;
                break;
            }
        }
        effects
    }

    /// Does the step of a call by this verdict, or repeats its answer. `None` if another call had its key. For callers that make
    /// the faults of a gateway themselves.
    pub fn execute(&mut self, call: &GatewayCall, verdict: Verdict) -> Option<GatewayOutcome> {
        let operation = StepBody::of(call);
        let key = operation.key().to_string();
        let plan = StepPlan { verdict, ..StepPlan::default() };
        let new = || Step { operation: operation.clone(), plan, requests: 0, answer: None, is_pending: false };
        let step = self.steps.entry(key.clone()).or_insert_with(new);
        if !is_repeat(&operation, &step.operation) {
            return None;
        }
        let answer = step.answer.clone().unwrap_or_else(|| self.decide(&key));
        answer.outcome(call.step()).ok()
    }

    /// Whether the step of a call was requested before.
    pub fn is_known(&self, call: &GatewayCall) -> bool {
        self.steps.contains_key(&StepBody::of(call).key().to_string())
    }

    /// All charges, by attempt.
    pub fn charges(&self) -> &BTreeMap<PaymentKey, Charge> {
        &self.charges
    }

    /// Does the step under this key, and remembers the answer.
    ///
    /// # Panics
    /// If the step was not requested.
    pub(crate) fn decide(&mut self, key: &str) -> GatewayAnswer {
        let step = self.steps.get(key).expect("only requested steps are decided");
        let (operation, verdict) = (step.operation.clone(), step.plan.verdict);
        let outcome = match &operation {
            StepBody::Authorize(body) => self.authorize(body, verdict),
            StepBody::Capture(body) => self.capture(body, verdict),
            StepBody::Void(body) => self.void(body, verdict),
            StepBody::Refund(body) => self.refund(body, verdict),
        };
        let answer = GatewayAnswer::of(&outcome);
        let step = self.steps.get_mut(key).expect("steps are not removed");
        step.answer = Some(answer.clone());
        step.is_pending = false;
        answer
    }

    /// Whether a webhook reports a step twice.
    pub(crate) fn notifies_twice(&self, key: &str) -> bool {
        self.steps.get(key).is_some_and(|step| step.plan.notify_twice)
    }

    fn plan(&self, operation: &StepBody) -> StepPlan {
        let key = operation.key();
        let source = match operation {
            StepBody::Authorize(body) => &body.source,
            StepBody::Capture(_) | StepBody::Void(_) | StepBody::Refund(_) => match self.charges.get(&key.attempt) {
                Some(charge) => &charge.source,
                None => return StepPlan::default(),
            },
        };
        match source.as_str() {
            "ok" => self.rates.plan(key),
            source => match Plan::parse(source) {
                Some(plan) => plan.step(key.step),
                None if key.step == PaymentStep::Authorize => {
                    StepPlan { verdict: Verdict::Reject, ..StepPlan::default() }
                }
                None => StepPlan::default(),
            },
        }
    }

    /// Adds the charge of a pending authorization, so that the ledger shows it before it is decided.
    fn add_pending_charge(&mut self, operation: &StepBody) {
        if let StepBody::Authorize(body) = operation {
            let pending = charge((body.key.attempt, self.now_ms), body.order, body, ChargeState::Pending);
            self.charges.entry(body.key.attempt).or_insert(pending);
        }
    }

    fn authorize(&mut self, body: &AuthorizationBody, verdict: Verdict) -> GatewayOutcome {
        let key = body.key.attempt;
        if self.charges.get(&key).is_some_and(|charge| charge.state == ChargeState::Voided) {
            return GatewayOutcome::Declined { reason: "it was voided before".into() };
        }
        let declined = (verdict == Verdict::Reject).then(|| match Plan::parse(&body.source) {
            Some(_) => "declined as asked".into(),
            None => format_smolstr!("no such source: {}", body.source),
        });
        let mut charge = charge((key, self.now_ms), body.order, body, ChargeState::Declined);
        let outcome = match declined {
            Some(reason) => GatewayOutcome::Declined { reason },
            None => {
                self.authorizations += 1;
                let reference = format_smolstr!("auth_{}", self.authorizations);
                let amount = match verdict {
                    Verdict::Amount(amount) => Money { amount, ..body.amount },
                    Verdict::Approve | Verdict::Reject => body.amount,
                };
                charge.state = ChargeState::Authorized;
                charge.reference = Some(reference.clone());
                charge.authorized = amount.amount;
                GatewayOutcome::Authorized { reference, amount }
            }
        };
        self.charges.insert(key, charge);
        outcome
    }

    fn capture(&mut self, body: &MoveBody, verdict: Verdict) -> GatewayOutcome {
        self.change(body, verdict, |charge| match charge.state {
            ChargeState::Authorized if body.amount.amount <= charge.authorized => {
                charge.state = ChargeState::Captured;
                charge.captured = body.amount.amount;
                Ok(GatewayOutcome::Captured)
            }
            ChargeState::Authorized => Err("more than was set aside"),
            ChargeState::Captured => Err("it was captured before, under another key"),
            ChargeState::Voided => Err("it was voided"),
            ChargeState::Pending | ChargeState::Declined => Err("it was never authorized"),
        })
    }

    fn refund(&mut self, body: &MoveBody, verdict: Verdict) -> GatewayOutcome {
        self.change(body, verdict, |charge| match charge.state {
            ChargeState::Captured if body.amount.amount <= charge.captured - charge.refunded => {
                charge.refunded += body.amount.amount;
                Ok(GatewayOutcome::Refunded)
            }
            ChargeState::Captured => Err("more than was taken"),
            ChargeState::Pending | ChargeState::Declined | ChargeState::Authorized | ChargeState::Voided => {
                Err("it was never captured")
            }
        })
    }

    /// Makes the checks that captures and refunds have in common, then the change itself.
    fn change(
        &mut self,
        body: &MoveBody,
        verdict: Verdict,
        change: impl FnOnce(&mut Charge) -> Result<GatewayOutcome, &'static str>,
    ) -> GatewayOutcome {
        let changed = match self.charges.get_mut(&body.authorization) {
            _ if verdict == Verdict::Reject => Err("failed as asked"),
            None => Err("there is no such authorization"),
            Some(charge) if charge.reference.as_ref() != Some(&body.reference) => Err("this is not its reference"),
            Some(charge) if charge.currency != body.amount.currency.as_str() => Err("another currency"),
            Some(_) if body.amount.amount <= 0 => Err("not a positive amount"),
            Some(charge) => change(charge),
        };
        changed.unwrap_or_else(|reason| GatewayOutcome::Failed { reason: reason.into() })
    }

    fn void(&mut self, body: &VoidBody, verdict: Verdict) -> GatewayOutcome {
        let failed = |reason: &str| GatewayOutcome::Failed { reason: reason.into() };
        if verdict == Verdict::Reject {
            return failed("failed as asked");
        }
        let Some(charge) = self.charges.get_mut(&body.authorization) else {
            // The authorization may still arrive. It must find the charge voided then.
            let key = body.authorization;
            let voided = Charge {
                key: key.to_string(),
                order: String::new(),
                at_ms: self.now_ms,
                source: SmolStr::default(),
                state: ChargeState::Voided,
                reference: None,
                currency: SmolStr::default(),
                asked: 0,
                authorized: 0,
                captured: 0,
                refunded: 0,
            };
            self.charges.insert(key, voided);
            return GatewayOutcome::Voided;
        };
        if body.reference.is_some() && body.reference != charge.reference {
            return failed("this is not its reference");
        }
        match charge.state {
            ChargeState::Captured => failed("it was captured; refund it"),
            ChargeState::Declined => GatewayOutcome::Voided,
            ChargeState::Pending | ChargeState::Authorized | ChargeState::Voided => {
                charge.state = ChargeState::Voided;
                GatewayOutcome::Voided
            }
        }
    }
}

fn listed(charge: &Charge) -> ListedAttempt {
    ListedAttempt {
        key: charge.key.as_str().into(),
        status: match charge.state {
            ChargeState::Pending => ListedState::Pending,
            ChargeState::Declined => ListedState::Declined,
            ChargeState::Authorized => ListedState::Authorized,
            ChargeState::Captured => ListedState::Captured,
            ChargeState::Voided => ListedState::Voided,
        },
        at: rfc3339(Timestamp(charge.at_ms)).map_or_else(SmolStr::default, |at| at.as_str().into()),
        reference: charge.reference.clone(),
        currency: charge.currency.clone(),
        authorized: charge.authorized,
        captured: charge.captured,
        refunded: charge.refunded,
    }
}

fn charge((key, at_ms): (PaymentKey, u64), order: OrderId, body: &AuthorizationBody, state: ChargeState) -> Charge {
    Charge {
        key: key.to_string(),
        order: order.to_string(),
        at_ms,
        source: body.source.clone(),
        state,
        reference: None,
        currency: body.amount.currency.as_str().into(),
        asked: body.amount.amount,
        authorized: 0,
        captured: 0,
        refunded: 0,
    }
}
