//! What was asked of the gateway and what it did: charges, and each step by its idempotency key.

use std::collections::BTreeMap;

use boxoffice_core::{
    id::{OrderId, hash64},
    money::Money,
    payment::{GatewayOutcome, PaymentKey, PaymentStep},
};
use boxoffice_wire::payment::{AuthorizationBody, GatewayAnswer, MoveBody, StepKey, VoidBody};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::plan::{Manner, Plan, Rubbish, Verdict};

/// Charges that are kept; beyond this nothing new is authorized (503): the ledger lives in memory.
pub const CHARGES_MAX: usize = 1_000_000;

/// How a charge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeState {
    /// Not decided yet.
    Pending,
    /// The payer's side said no.
    Declined,
    /// Set aside.
    Authorized,
    /// Taken.
    Captured,
    /// Given up; also an attempt that was given up before it was asked for.
    Voided,
}

/// One attempt to pay. Amounts are minor units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The attempt: `<cart>-<number>`.
    pub key: String,
    /// The order it is for, 32 hexadecimal digits; empty if only a void of it was heard of.
    pub order: String,
    /// The client's token.
    pub source: SmolStr,
    /// How it stands.
    pub state: ChargeState,
    /// Our name for it, once it was authorized.
    pub reference: Option<SmolStr>,
    /// Of all amounts; empty if only a void of it was heard of.
    pub currency: SmolStr,
    /// What was asked for.
    pub asked: i64,
    /// What was set aside, also if it was given up later.
    pub authorized: i64,
    /// What was taken.
    pub captured: i64,
    /// What was paid back.
    pub refunded: i64,
}

/// Sums of one currency, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Set aside now: neither taken nor given up.
    pub authorized: i64,
    /// Taken.
    pub captured: i64,
    /// Given up.
    pub voided: i64,
    /// Paid back.
    pub refunded: i64,
}

/// The ledger as `GET /ledger` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// Every charge, by key.
    pub charges: Vec<Charge>,
    /// Sums by currency.
    pub totals: BTreeMap<SmolStr, Totals>,
    /// Requests that were understood, repeats included.
    pub requests: u64,
    /// Connections that were accepted.
    pub connections: u64,
}

/// Something that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Authorize(AuthorizationBody),
    Capture(MoveBody),
    Void(VoidBody),
    Refund(MoveBody),
}

impl Wish {
    pub(crate) fn key(&self) -> StepKey {
        match self {
            Wish::Authorize(body) => body.key,
            Wish::Capture(body) | Wish::Refund(body) => body.key,
            Wish::Void(body) => body.key,
        }
    }

    /// Whether a repeat asks for the same. The reference of a void is a hint: who did not know it may have learned it.
    fn is_same(&self, other: &Wish) -> bool {
        match (self, other) {
            (Wish::Void(one), Wish::Void(other)) => {
                one.reference.is_none() || other.reference.is_none() || one.reference == other.reference
            }
            (one, other) => one == other,
        }
    }
}

/// How a process as a whole misbehaves, towards charges whose source is `ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// This share of authorizations is declined, from 0 to 1.
    pub decline: f64,
    /// For this share of steps the first request is done and never answered, from 0 to 1.
    pub timeout: f64,
    /// Which ones: the same keys meet the same fate under the same seed.
    pub seed: u64,
}

impl Shares {
    fn hits(&self, share: f64, what: &str, key: StepKey) -> bool {
        let lot = hash64(format!("{}/{what}/{key}", self.seed).as_bytes());
        // The upper 53 bits are exact in a float.
        ((lot >> 11) as f64) < share * (1u64 << 53) as f64
    }

    fn manner(&self, key: StepKey) -> Manner {
        let declined = key.step == PaymentStep::Authorize && self.hits(self.decline, "decline", key);
        Manner {
            verdict: if declined { Verdict::No } else { Verdict::Yes },
            timeouts: u32::from(self.hits(self.timeout, "timeout", key)),
            ..Manner::default()
        }
    }
}

/// What is sent back, if anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer(GatewayAnswer),
    Pending,
    /// 500, and nothing was done.
    Error,
    /// The connection is dropped.
    Nothing,
    /// The connection stays, without an answer.
    Never,
    Rubbish(Rubbish),
    /// 409: another body under this key.
    Conflict,
    /// 503: [`CHARGES_MAX`].
    Full,
}

/// What one request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) reply: Reply,
    pub(crate) delay_ms: u64,
    /// The step is decided so much later: [`Ledger::decide`] is to be called then.
    pub(crate) decide_in_ms: Option<u64>,
    /// The step was decided by this request, and is to be told twice.
    pub(crate) tell: Option<GatewayAnswer>,
}

struct Step {
    wish: Wish,
    manner: Manner,
    requests: u32,
    /// What was decided; `None` before.
    answer: Option<GatewayAnswer>,
    /// It is going to be decided later.
    waits: bool,
}

/// Everything the gateway remembers.
#[derive(Default)]
pub struct Ledger {
    shares: Shares,
    charges: BTreeMap<PaymentKey, Charge>,
    steps: BTreeMap<String, Step>,
    authorizations: u64,
    requests: u64,
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(shares: Shares) -> Ledger {
        Ledger { shares, ..Ledger::default() }
    }

    /// As it stands; `connections` are counted elsewhere.
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

    /// How an authorization stands, without asking for it: `None` if it was never asked for, or nothing was done yet.
    pub(crate) fn authorization(&self, key: PaymentKey) -> Option<Reply> {
        let step = self.steps.get(&key.to_string())?;
        match &step.answer {
            Some(answer) => Some(Reply::Answer(answer.clone())),
            None => step.waits.then_some(Reply::Pending),
        }
    }

    /// Takes a request.
    pub(crate) fn ask(&mut self, wish: Wish) -> Turn {
        self.requests += 1;
        let key = wish.key();
        let text = key.to_string();
        let silent = |reply, delay_ms| Turn { reply, delay_ms, decide_in_ms: None, tell: None };
        if !self.steps.contains_key(&text) {
            if self.charges.len() >= CHARGES_MAX && !self.charges.contains_key(&key.attempt) {
                return silent(Reply::Full, 0);
            }
            let manner = self.manner(&wish);
            self.steps
                .insert(text.clone(), Step { wish: wish.clone(), manner, requests: 0, answer: None, waits: false });
        }
        let step = self.steps.get_mut(&text).expect("it was put there if it was not");
        if !step.wish.is_same(&wish) {
            return silent(Reply::Conflict, 0);
        }
        step.requests = step.requests.saturating_add(1);
        let (manner, number) = (step.manner, step.requests);
        if number <= manner.errors {
            return silent(Reply::Error, manner.delay_ms);
        }
        let mut turn = silent(Reply::Pending, manner.delay_ms);
        if step.answer.is_none() && !step.waits {
            if let Some(late_ms) = manner.late_ms {
                step.waits = true;
                turn.decide_in_ms = Some(late_ms);
                self.wait(&wish);
            } else {
                let answer = self.decide(&text);
                turn.tell = manner.twice.then_some(answer);
            }
        }
        if let Some(answer) = &self.steps[&text].answer {
            turn.reply = Reply::Answer(answer.clone());
        }
        let bad = [
            (manner.lost, Reply::Nothing),
            (manner.timeouts, Reply::Never),
            (manner.rubbish, Reply::Rubbish(manner.kind)),
        ];
        let mut before = manner.errors;
        for (times, reply) in bad {
            before = before.saturating_add(times);
            if number <= before {
                turn.reply = reply;
                break;
            }
        }
        turn
    }

    /// Does what the step under this key asked for, and remembers the answer.
    pub(crate) fn decide(&mut self, key: &str) -> GatewayAnswer {
        let step = self.steps.get(key).expect("only steps that were asked for are decided");
        let (wish, verdict) = (step.wish.clone(), step.manner.verdict);
        let outcome = match &wish {
            Wish::Authorize(body) => self.authorize(body, verdict),
            Wish::Capture(body) => self.capture(body, verdict),
            Wish::Void(body) => self.void(body, verdict),
            Wish::Refund(body) => self.refund(body, verdict),
        };
        let answer = GatewayAnswer::of(&outcome);
        let step = self.steps.get_mut(key).expect("it was there above");
        step.answer = Some(answer.clone());
        step.waits = false;
        answer
    }

    /// Whether a step is told by webhook twice.
    pub(crate) fn is_told_twice(&self, key: &str) -> bool {
        self.steps.get(key).is_some_and(|step| step.manner.twice)
    }

    fn manner(&self, wish: &Wish) -> Manner {
        let key = wish.key();
        let source = match wish {
            Wish::Authorize(body) => &body.source,
            Wish::Capture(_) | Wish::Void(_) | Wish::Refund(_) => match self.charges.get(&key.attempt) {
                Some(charge) => &charge.source,
                None => return Manner::default(),
            },
        };
        match source.as_str() {
            "ok" => self.shares.manner(key),
            source => Plan::of(source).map(|plan| plan.of_step(key.step)).unwrap_or_default(),
        }
    }

    /// A charge shows as soon as it was asked for.
    fn wait(&mut self, wish: &Wish) {
        if let Wish::Authorize(body) = wish {
            let pending = charge(body.key.attempt, body.order, body, ChargeState::Pending);
            self.charges.entry(body.key.attempt).or_insert(pending);
        }
    }

    fn authorize(&mut self, body: &AuthorizationBody, verdict: Verdict) -> GatewayOutcome {
        let key = body.key.attempt;
        if self.charges.get(&key).is_some_and(|charge| charge.state == ChargeState::Voided) {
            return GatewayOutcome::Declined { reason: "it was voided before".into() };
        }
        let declined = match (Plan::of(&body.source), verdict) {
            (None, _) => Some(format_smolstr!("no such source: {}", body.source)),
            (Some(_), Verdict::No) => Some("declined as asked".into()),
            (Some(_), Verdict::Yes | Verdict::Amount(_)) => None,
        };
        let mut charge = charge(key, body.order, body, ChargeState::Declined);
        let outcome = match declined {
            Some(reason) => GatewayOutcome::Declined { reason },
            None => {
                self.authorizations += 1;
                let reference = format_smolstr!("auth_{}", self.authorizations);
                let amount = match verdict {
                    Verdict::Amount(amount) => Money { amount, ..body.amount },
                    Verdict::Yes | Verdict::No => body.amount,
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

    /// Checks what captures and refunds have in common.
    fn change(
        &mut self,
        body: &MoveBody,
        verdict: Verdict,
        change: impl FnOnce(&mut Charge) -> Result<GatewayOutcome, &'static str>,
    ) -> GatewayOutcome {
        let changed = match self.charges.get_mut(&body.authorization) {
            _ if verdict == Verdict::No => Err("failed as asked"),
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
        if verdict == Verdict::No {
            return failed("failed as asked");
        }
        let Some(charge) = self.charges.get_mut(&body.authorization) else {
            // Its authorization may still be on the way, and must find that it was given up.
            let key = body.authorization;
            let voided = Charge {
                key: key.to_string(),
                order: String::new(),
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

fn charge(key: PaymentKey, order: OrderId, body: &AuthorizationBody, state: ChargeState) -> Charge {
    Charge {
        key: key.to_string(),
        order: order.to_string(),
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
