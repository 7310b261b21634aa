//! The payment gateway of a run, with faults of its own. Calls are lost, slow, declined, answered late or not at all,
//! or decided later and reported by webhook, possibly twice. At times the gateway is out.
//!
//! It keeps to the contract of `docs/reference/gateway.md`. A repeated step is done once, and a void ends an attempt in
//! any state. No client may be charged without a sale, and no order stays unpaid (P11).

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use boxoffice_core::{
    answer::{CartAudit, CartState, Order},
    command::{CartCommand, Command, Payment},
    id::{CartId, OrderId},
    payment::{GatewayCall, GatewayOutcome, PaymentKey, PaymentStatus, PaymentStep, RefundStatus, VoidStatus},
};
use boxoffice_env::gateway::{Gateway, OnOutcome};
use boxoffice_gateway::{
    ledger::{Charge, ChargeState, Ledger},
    plan::Verdict,
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::time::sleep;
use tracing_mutex::parkinglot::Mutex;

use crate::{
    rng::{around, rng},
    settings::Settings,
    tally::Tally,
    trace::Trace,
};

/// A node's time-out for calls to its gateway, in milliseconds.
const TIMEOUT_MS: u64 = 4_000;
/// The longest way of a message in one direction without a fault, in milliseconds.
const ONE_WAY_MS: u64 = 60;
/// Attempts to deliver a webhook.
const WEBHOOKS_MAX: usize = 5;

/// A source whose payment the buyer never confirms. The gateway waits for that, and declines it then.
pub(crate) const UNFINISHED: &str = "unfinished";
/// How long the gateway waits for it, in milliseconds.
const UNFINISHED_MS: u64 = 600_000;

/// The rates of faults, in hundredths of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GatewayFaults {
    /// The call never arrives.
    lost_call: u32,
    /// The step is done, and the answer is lost.
    lost_answer: u32,
    /// The call arrives late, at times after the node's time-out.
    slow: u32,
    /// The step is decided later and reported by webhook.
    pending: u32,
    /// The gateway also sends webhooks, at any later time and several times.
    webhook: u32,
    /// The payment is declined.
    declined: u32,
    /// Another amount is authorized.
    other_amount: u32,
    /// A capture, void or refund fails for good.
    refused: u32,
    /// The length of the outage in each [`OUTAGE_EVERY_MS`], in milliseconds.
    outage_ms: u64,
}

/// The interval of outages, in milliseconds.
const OUTAGE_EVERY_MS: u64 = 120_000;

#[derive(Default)]
struct Books {
    /// That of the gateway for trials. The verdicts come from here.
    ledger: Ledger,
    /// When payments that nobody confirms were begun, in milliseconds of the run.
    unfinished: BTreeMap<PaymentKey, u64>,
    /// Violations.
    wrong: Vec<String>,
    tally: Tally,
}

/// The gateway, which all machines share.
pub(crate) struct SimGateway {
    faults: Mutex<GatewayFaults>,
    rng: Mutex<SmallRng>,
    books: Mutex<Books>,
    trace: Arc<Trace>,
    webhooks: OnceLock<Weak<dyn Webhooks>>,
}

/// The receiver of webhooks.
pub(crate) trait Webhooks: Send + Sync {
    /// Delivers a webhook once, and returns whether it was acknowledged.
    fn deliver<'a>(&'a self, rng: &'a mut SmallRng, paid: Command) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// A machine's client of the gateway.
pub(crate) struct GatewayClient(pub(crate) Arc<SimGateway>);

impl Gateway for GatewayClient {
    fn call(&self, call: GatewayCall, done: OnOutcome) {
        tokio::spawn(Arc::clone(&self.0).serve(call, done));
    }
}

impl SimGateway {
    /// A gateway with the faults of the seed.
    pub(crate) fn new(settings: &Settings, trace: &Arc<Trace>) -> Arc<SimGateway> {
        let mut rng = rng(settings.seed, "bank", 0);
        let mut some = |most: u32| if rng.random() { rng.random_range(0..=most) } else { 0 };
        let faults = GatewayFaults {
            lost_call: some(20),
            lost_answer: some(20),
            slow: some(20),
            pending: some(20),
            webhook: some(30),
            declined: some(30),
            other_amount: some(8),
            refused: some(8),
            outage_ms: 1_000 * u64::from(some(60)),
        };
        trace.note(&format!("bank: {faults:?}"));
        SimGateway::with(faults, rng, trace)
    }

    /// A gateway that does what it is asked to.
    pub(crate) fn without_faults(settings: &Settings, trace: &Arc<Trace>) -> Arc<SimGateway> {
        SimGateway::with(GatewayFaults::default(), rng(settings.seed, "bank", 0), trace)
    }

    fn with(faults: GatewayFaults, rng: SmallRng, trace: &Arc<Trace>) -> Arc<SimGateway> {
        let (books, webhooks) = (Mutex::default(), OnceLock::new());
        Arc::new(SimGateway {
            faults: Mutex::new(faults),
            rng: Mutex::new(rng),
            books,
            trace: Arc::clone(trace),
            webhooks,
        })
    }

    pub(crate) fn set_webhooks(&self, webhooks: Weak<dyn Webhooks>) {
        self.webhooks.set(webhooks).expect("they are set once");
    }

    /// Ends all faults except declined payments.
    pub(crate) fn heal(&self) {
        let GatewayFaults { declined, .. } = *self.faults.lock();
        *self.faults.lock() = GatewayFaults { declined, ..GatewayFaults::default() };
    }

    /// Whether a fault of this rate happens now.
    fn is_hit(&self, rate: impl Fn(&GatewayFaults) -> u32) -> bool {
        let hundredths = rate(&self.faults.lock());
        self.rng.lock().random_range(0..100) < hundredths
    }

    pub(crate) fn tally(&self) -> Tally {
        self.books.lock().tally.clone()
    }

    fn count(&self, what: &'static str) {
        self.books.lock().tally.count(what);
    }

    fn is_out(&self) -> bool {
        self.trace.now_ms() % OUTAGE_EVERY_MS < self.faults.lock().outage_ms
    }

    /// Whether a call begins a payment that nobody confirms, and the gateway still waits for that.
    fn is_unfinished(&self, call: &GatewayCall) -> bool {
        let GatewayCall::Authorize { key, source, .. } = call else { return false };
        let now_ms = self.trace.now_ms();
        *source == UNFINISHED && now_ms < *self.books.lock().unfinished.entry(*key).or_insert(now_ms) + UNFINISHED_MS
    }

    /// Serves one call.
    async fn serve(self: Arc<Self>, call: GatewayCall, done: OnOutcome) {
        if self.is_unfinished(&call) {
            sleep(Duration::from_millis(ONE_WAY_MS)).await;
            return done(unknown());
        }
        let one_way_ms = self.rng.lock().random_range(1..=ONE_WAY_MS);
        let slow_ms = if self.is_hit(|faults| faults.slow) { around(&mut self.rng.lock(), TIMEOUT_MS) } else { 0 };
        let (lost_answer, pending) = (self.is_hit(|faults| faults.lost_answer), self.is_hit(|faults| faults.pending));
        let (lost_call, webhook) = (self.is_hit(|faults| faults.lost_call), self.is_hit(|faults| faults.webhook));
        self.count("gateway: calls");
        if lost_call || self.is_out() {
            self.count("gateway: calls lost");
            sleep(Duration::from_millis(TIMEOUT_MS)).await;
            return done(unknown());
        }
        let arrival_ms = one_way_ms + slow_ms;
        if pending || arrival_ms > TIMEOUT_MS {
            // The step is decided after the node's time-out.
            self.count("gateway: decided after the node's time-out");
            sleep(Duration::from_millis(arrival_ms.min(TIMEOUT_MS))).await;
            done(unknown());
            let later_ms = around(&mut self.rng.lock(), TIMEOUT_MS).min(60_000);
            sleep(Duration::from_millis(arrival_ms.saturating_sub(TIMEOUT_MS) + later_ms)).await;
            let outcome = self.execute(&call);
            if pending {
                self.send_webhook(&call, outcome).await;
            }
            return;
        }
        sleep(Duration::from_millis(arrival_ms)).await;
        let outcome = self.execute(&call);
        if lost_answer {
            self.count("gateway: answers lost");
            sleep(Duration::from_millis(TIMEOUT_MS - arrival_ms)).await;
            done(unknown());
        } else {
            sleep(Duration::from_millis(one_way_ms)).await;
            done(outcome.clone());
        }
        let mut more = webhook;
        while more {
            let later_ms = around(&mut self.rng.lock(), 10_000).min(90_000);
            sleep(Duration::from_millis(later_ms)).await;
            self.send_webhook(&call, outcome.clone()).await;
            more = self.rng.lock().random();
        }
    }

    /// Sends the outcome of a step by webhook until a node has acknowledged it.
    async fn send_webhook(&self, call: &GatewayCall, outcome: GatewayOutcome) {
        let (key, step) = (call.key(), call.step());
        self.count("gateway: webhooks");
        for _ in 0..WEBHOOKS_MAX {
            let Some(webhooks) = self.webhooks.get().and_then(Weak::upgrade) else { return };
            let mut rng = SmallRng::clone(&self.rng.lock());
            // The shared generator must not repeat these numbers.
            let _: u64 = self.rng.lock().random();
            let paid = CartCommand::Paid { key, step, outcome: outcome.clone() };
            if webhooks.deliver(&mut rng, Command::Cart(key.cart, paid)).await {
                return;
            }
            sleep(Duration::from_millis(around(&mut rng, 3_000))).await;
        }
    }

    /// Executes a call. A repeated call gets the same outcome.
    fn execute(&self, call: &GatewayCall) -> GatewayOutcome {
        let (refuses, other_amount) = match call.step() {
            PaymentStep::Authorize => {
                (self.is_hit(|faults| faults.declined), self.is_hit(|faults| faults.other_amount))
            }
            PaymentStep::Capture | PaymentStep::Void | PaymentStep::Refund(_) => {
                (self.is_hit(|faults| faults.refused), false)
            }
        };
        let verdict = match call {
            GatewayCall::Authorize { source, .. } if refuses || *source == UNFINISHED => Verdict::Reject,
            GatewayCall::Authorize { amount, .. } if other_amount => Verdict::Amount(amount.amount + 1),
            _ if refuses => Verdict::Reject,
            _ => Verdict::Approve,
        };
        let books = &mut *self.books.lock();
        let is_new = !books.ledger.is_known(call);
        let charge = books.ledger.charges().get(&call.key()).cloned();
        let Some(outcome) = books.ledger.execute(call, verdict) else {
            books.wrong.push(format!("the gateway is asked for {call:?} under the key of another call"));
            return GatewayOutcome::Failed { reason: "another call had this key".into() };
        };
        if is_new {
            // An order whose payment was never taken is refunded in vain.
            let in_vain = matches!(call, GatewayCall::Refund { .. })
                && charge.as_ref().is_none_or(|charge| charge.state != ChargeState::Captured);
            if matches!(outcome, GatewayOutcome::Failed { .. }) && verdict == Verdict::Approve && !in_vain {
                books.wrong.push(format!("{call:?} is answered {outcome:?}: {charge:?}"));
            }
            if refuses || other_amount {
                books.tally.count(if other_amount { "gateway: other amounts" } else { "gateway: refusals" });
            }
            self.trace.note(&format!("bank: {} {:?}: {outcome:?}", call.key(), call.step()));
        }
        outcome
    }

    /// Compares the gateway's ledger with the carts after all messages are delivered, and returns the differences.
    pub(crate) fn check(
        &self,
        audits: &BTreeMap<CartId, CartAudit>,
        orders: &BTreeMap<OrderId, Arc<Order>>,
    ) -> Vec<String> {
        let books = self.books.lock();
        let mut wrong = books.wrong.clone();
        let mut charged: BTreeMap<CartId, PaymentKey> = BTreeMap::new();
        for (key, charge) in books.ledger.charges() {
            let Some(audit) = audits.get(&key.cart) else {
                if matches!(charge.state, ChargeState::Authorized | ChargeState::Captured) {
                    wrong.push(format!("{charge:?}, and there is no such cart"));
                }
                continue;
            };
            let order = orders.get(&key.cart.order());
            wrong.extend(differences(charge, audit, order.map(Arc::as_ref), *key));
            if charge.state == ChargeState::Captured
                && let Some(other) = charged.insert(key.cart, *key)
            {
                wrong.push(format!("{key} and {other} are charged for one order"));
            }
        }
        for order in orders.values() {
            let cart = order.id.cart();
            let Some(audit) = audits.get(&cart) else { continue };
            let asked = matches!(order.payment, Payment::Gateway { .. }) && order.total.amount > 0;
            let failed = matches!(audit.payment, Some(PaymentStatus::CaptureFailed { .. }));
            if asked && !failed && !charged.contains_key(&cart) {
                wrong.push(format!("the order of {cart} is not paid: {:?}", audit.payment));
            }
            if !asked && audit.payment != Some(PaymentStatus::Recorded) {
                wrong.push(format!("the order of {cart} was paid elsewhere, and says {:?}", audit.payment));
            }
        }
        for audit in audits.values() {
            let pending = audit.voids.iter().any(|void| void.status == VoidStatus::Pending)
                || audit.refunds.iter().any(|refund| refund.status == RefundStatus::Pending);
            let open = pending || audit.payment == Some(PaymentStatus::Authorized);
            if open || audit.cart.state == CartState::CheckingOut {
                wrong.push(format!("a payment is open at the end: {audit:?}"));
            }
        }
        wrong
    }
}

/// Compares the money of one attempt with its cart.
fn differences(charge: &Charge, audit: &CartAudit, order: Option<&Order>, key: PaymentKey) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut says = |what: &str| wrong.push(format!("{key} {what}: {charge:?}, {audit:?}"));
    let void = audit.voids.iter().find(|void| void.attempt == key.attempt).map(|void| &void.status);
    let failed = matches!(audit.payment, Some(PaymentStatus::CaptureFailed { .. }))
        || matches!(void, Some(VoidStatus::Failed { .. }));
    match charge.state {
        ChargeState::Authorized if !failed => says("is set aside for ever"),
        ChargeState::Voided if void != Some(&VoidStatus::Voided) => says("was given up, and its cart does not say so"),
        ChargeState::Captured => {
            if order.is_none_or(|order| order.total.amount != charge.captured) {
                says("was charged, and there is no order of it");
            }
            if audit.payment != Some(PaymentStatus::Captured) {
                says("was charged, and its order does not say so");
            }
            let paid_back = audit.refunds.iter().filter(|refund| refund.status == RefundStatus::Refunded);
            if paid_back.map(|refund| refund.amount.amount).sum::<i64>() != charge.refunded {
                says("paid back something else than its order says");
            }
        }
        ChargeState::Pending | ChargeState::Declined | ChargeState::Authorized | ChargeState::Voided => {}
    }
    wrong
}

fn unknown() -> GatewayOutcome {
    GatewayOutcome::Unknown { reason: "no answer".into() }
}

/// A random source of payment.
pub(crate) fn payment_source(rng: &mut SmallRng) -> &'static str {
    ["visa", "cash card", "bank transfer"].choose(rng).expect("there are some")
}
