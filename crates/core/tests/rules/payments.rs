//! The table of payments, with every course of an attempt, with and without late lines, for both policies. Each runs again with a
//! crash of the cart's host at every step.

use std::cell::Cell;

use boxoffice_core::{
    answer::{Answer, Answered, Outcome},
    cart::Cart,
    command::{CartCommand, Command, HoldPolicy, ProductCommand, ProductDetails, Want, WantedLine},
    host::Input,
    id::{CartId, Entity},
    payment::{GatewayOutcome, OnDecline, PaymentCounts, PaymentKey, PaymentStatus, PaymentStep, Settlement},
    refusal::Refusal,
    rules::Rules,
    state_map::State,
    time::Timestamp,
};
use expect_test::expect;

use crate::{
    fixture::{Fixture, Message, Ticket},
    script::{cart, euros, hold_lines, id, pay, product},
    test_gateway::CallFate::{self, CallLost, Declines, OtherAmount, ReplyLost, Succeeds},
};

/// The course of one attempt.
struct Path {
    name: &'static str,
    plan: &'static [(&'static str, &'static [CallFate])],
    then: &'static [Then],
}

/// A later event of the attempt.
#[derive(Clone, Copy)]
enum Then {
    /// An operator settles the attempt.
    Settle(bool),
    /// A webhook reports that the first attempt was authorized, declined or captured.
    Says(&'static str),
    /// Everything is refunded.
    Refund,
    /// An operator settles the failed steps.
    Seen,
}

const NEVER: &[CallFate] = &[ReplyLost; 12];
const PATHS: &[Path] = &[
    Path { name: "ok", plan: &[], then: &[] },
    Path { name: "declined", plan: &[("authorize", &[Declines])], then: &[] },
    Path { name: "declined, then late ok", plan: &[("authorize", &[Declines])], then: &[Then::Says("authorized")] },
    Path { name: "unheard, then ok", plan: &[("authorize", &[ReplyLost])], then: &[] },
    Path { name: "deaf, then ok", plan: &[("authorize", &[CallLost, CallLost])], then: &[] },
    Path { name: "deaf, then declined", plan: &[("authorize", &[CallLost, Declines])], then: &[] },
    Path { name: "unheard, settled yes", plan: &[("authorize", NEVER)], then: &[Then::Settle(true)] },
    Path { name: "unheard, settled no", plan: &[("authorize", NEVER)], then: &[Then::Settle(false)] },
    Path {
        name: "unheard, settled no, then late ok",
        plan: &[("authorize", NEVER)],
        then: &[Then::Settle(false), Then::Says("authorized"), Then::Says("authorized")],
    },
    Path { name: "ok twice", plan: &[], then: &[Then::Says("authorized"), Then::Says("captured")] },
    Path { name: "ok, then late no", plan: &[], then: &[Then::Says("declined"), Then::Settle(false)] },
    Path { name: "another amount", plan: &[("authorize", &[OtherAmount])], then: &[] },
    Path {
        name: "another amount, void unheard",
        plan: &[("authorize", &[OtherAmount]), ("void", &[ReplyLost, CallLost])],
        then: &[Then::Says("authorized")],
    },
    Path { name: "capture unheard", plan: &[("capture", &[ReplyLost])], then: &[] },
    Path { name: "capture deaf", plan: &[("capture", &[CallLost, CallLost])], then: &[] },
    Path { name: "capture fails", plan: &[("capture", &[Declines])], then: &[] },
    Path { name: "capture fails, refund", plan: &[("capture", &[Declines])], then: &[Then::Refund] },
    Path { name: "refund", plan: &[], then: &[Then::Refund] },
    Path { name: "refund unheard", plan: &[("refund", &[ReplyLost, CallLost])], then: &[Then::Refund] },
    Path { name: "refund fails", plan: &[("refund", &[Declines])], then: &[Then::Refund] },
    Path { name: "refund fails, seen to", plan: &[("refund", &[Declines])], then: &[Then::Refund, Then::Seen] },
    Path { name: "capture fails, seen to", plan: &[("capture", &[Declines])], then: &[Then::Seen] },
    Path {
        name: "another amount, void fails",
        plan: &[("authorize", &[OtherAmount]), ("void", &[CallLost, Declines])],
        then: &[Then::Says("authorized")],
    },
    Path {
        name: "another amount, void fails, seen to",
        plan: &[("authorize", &[OtherAmount]), ("void", &[Declines])],
        then: &[Then::Seen],
    },
    Path { name: "refund before the capture", plan: &[("capture", &[CallLost, Succeeds])], then: &[Then::Refund] },
];

/// A crash of the cart's host before a step. `survive` proposals survive. With `lose` the gateway's answers are lost.
#[derive(Clone, Copy, Debug)]
struct Crash {
    step: u32,
    survive: usize,
    lose: bool,
}

struct Run {
    fixture: Fixture,
    steps: u32,
    crash: Option<Crash>,
}

fn buyer() -> CartId {
    cart("a")
}

impl Run {
    fn new(late: bool, crash: Option<Crash>) -> Run {
        let mut fixture = Fixture::new(Rules::default());
        let hold = if late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd };
        let second = ProductDetails { hold, ..product(euros(300), 5) };
        for (name, details) in [("p", product(euros(250), 5)), ("q", second)] {
            fixture.send(Some("put"), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
        }
        let line =
            |name: &str, quantity| WantedLine::new(Entity::Product(id(name)), Want::Units { quantity, now: false });
        fixture.send(Some("hold"), Command::Cart(buyer(), hold_lines(vec![line("p", 2), line("q", 1)])));
        fixture.run();
        Run { fixture, steps: 0, crash }
    }

    fn send(&mut self, request: &str, command: CartCommand) -> Ticket {
        let ticket = self.fixture.send(Some(request), Command::Cart(buyer(), command));
        self.settle();
        ticket
    }

    /// Runs everything that can happen now, step by step.
    fn settle(&mut self) {
        loop {
            if let Some(Crash { step, survive, lose }) = self.crash
                && step == self.steps
            {
                let entity = Entity::Cart(buyer());
                self.fixture.crash(&entity, survive);
                if lose {
                    self.fixture.calls.clear();
                    self.fixture.mail.retain(|mail| !matches!(mail.input, Input::Paid { .. }));
                }
                self.crash = None;
            }
            self.steps += 1;
            if let Some(message) = self.fixture.mail.pop_front() {
                self.fixture.deliver(message);
            } else if let Some(entity) = self.fixture.proposing().first() {
                self.fixture.commit(entity);
            } else if !self.fixture.pay() {
                self.steps -= 1;
                return;
            }
        }
    }

    fn wait(&mut self, span_ms: u64) {
        let until = self.fixture.now.after(span_ms);
        while let Some(wake) = self.fixture.next_wake().filter(|wake| *wake <= until) {
            self.fixture.pass(wake);
            self.settle();
        }
        self.fixture.pass(until);
        self.settle();
    }

    fn then(&mut self, then: Then) {
        let key = PaymentKey { cart: buyer(), attempt: 1 };
        let authorized = self.fixture.gateway.accounts.get(&key).and_then(|account| account.authorized);
        let (step, outcome) = match then {
            Then::Settle(true) => {
                let outcome = Settlement::Authorized { reference: "auth-1".into() };
                return self.repeat_until_acknowledged("settle", &CartCommand::Settle { attempt: 1, outcome });
            }
            Then::Settle(false) => {
                return self.repeat_until_acknowledged(
                    "settle",
                    &CartCommand::Settle { attempt: 1, outcome: Settlement::Declined },
                );
            }
            Then::Seen => return self.settle_failed_steps(),
            Then::Refund => {
                return self
                    .repeat_until_acknowledged("refund", &CartCommand::Refund { lines: None, reason: "asked".into() });
            }
            Then::Says("authorized") => {
                let Some(amount) = authorized.or(Some(800)) else { return };
                let account = self.fixture.gateway.accounts.entry(key).or_default();
                account.authorized = Some(amount);
                let outcome = GatewayOutcome::Authorized { reference: "auth-1".into(), amount: euros(amount) };
                (PaymentStep::Authorize, outcome)
            }
            Then::Says("captured") => (PaymentStep::Capture, GatewayOutcome::Captured),
            Then::Says(_) => (PaymentStep::Authorize, GatewayOutcome::Declined { reason: "late".into() }),
        };
        self.repeat_until_acknowledged("paid", &CartCommand::Paid { key, step, outcome });
    }

    /// The operator does the failed steps by hand and settles them.
    fn settle_failed_steps(&mut self) {
        let failed: Vec<_> = self.cart().open_payments().filter(|open| open.failed).collect();
        assert!(!failed.is_empty(), "{}", self.describe());
        for open in failed {
            let account = self.fixture.gateway.accounts.get_mut(&open.key).expect("it was authorized");
            let outcome = match open.step {
                PaymentStep::Authorize => panic!("an authorization does not fail permanently"),
                PaymentStep::Capture => {
                    account.captured = account.authorized;
                    Settlement::Captured
                }
                PaymentStep::Void => {
                    account.voided = true;
                    Settlement::Voided
                }
                PaymentStep::Refund(refund) => {
                    account.refunded.insert(refund, account.captured.expect("it was captured"));
                    Settlement::Refunded { refund }
                }
            };
            for request in ["seen", "seen again"] {
                self.repeat_until_acknowledged(
                    request,
                    &CartCommand::Settle { attempt: open.key.attempt, outcome: outcome.clone() },
                );
            }
        }
        assert_eq!(self.fixture.states.payments(), PaymentCounts::default(), "{}", self.describe());
    }

    fn cart(&self) -> Box<Cart> {
        match self.fixture.states.get(&Entity::Cart(buyer())).as_deref() {
            Some(State::Cart(cart)) => cart.clone(),
            other => panic!("another state than a cart: {other:?}"),
        }
    }

    /// Operators and the gateway repeat unacknowledged requests.
    fn repeat_until_acknowledged(&mut self, request: &str, command: &CartCommand) {
        let ticket = self.send(request, command.clone());
        if self.fixture.is_lost(ticket) {
            self.send(request, command.clone());
        }
    }

    /// Runs the whole path, and returns the last answer to the checkout.
    fn play(&mut self, path: &Path, on_decline: OnDecline) -> Option<Outcome> {
        for (kind, fates) in path.plan {
            self.fixture.gateway.plan(kind, fates);
        }
        let mut ticket = self.send("pay", pay(Some(on_decline), None));
        self.wait(30_000);
        if self.fixture.is_lost(ticket) {
            // The client has no answer, and repeats.
            ticket = self.send("pay", pay(Some(on_decline), None));
            self.wait(30_000);
        }
        for then in path.then {
            self.then(*then);
            self.wait(30_000);
        }
        self.fixture.answers.get(&ticket).cloned()
    }

    /// The state, held and sold units, payments, and steps that wait for an operator.
    fn describe(&self) -> String {
        let cart = self.cart();
        let units = self.fixture.states.audit().units;
        let audit = cart.audit().expect("it was opened");
        let money = audit.payment.map_or(String::new(), |payment| format!(", {payment:?}"));
        let refunds: String = audit.refunds.iter().map(|refund| format!(", refund {:?}", refund.status)).collect();
        let voids: String = audit.voids.iter().map(|void| format!(", void {:?}", void.status)).collect();
        let open: String = cart.open_payments().map(|open| format!(", {:?} is open", open.step)).collect();
        let state = cart.state().expect("it was opened").as_str();
        let ledger = self.fixture.gateway.ledger();
        format!("{state}, {} held, {} sold{money}{refunds}{voids}{open} | {ledger}", units.held, units.sold)
    }

    /// After all deadlines nothing is held, owed or authorized.
    fn end(&mut self) {
        self.wait(2 * 60 * 60 * 1000);
        let audit = self.fixture.states.audit();
        assert_eq!((audit.units.held, audit.holds, audit.owed), (0, 0, 0), "{}", self.describe());
        assert_eq!(
            (audit.payments.pending, audit.payments),
            (0, self.fixture.states.payments()),
            "{}",
            self.describe()
        );
        assert_eq!(audit.carts[0] + audit.carts[1], 0, "{}", self.describe());
        assert_eq!(audit.units.sold, if audit.orders > 0 && audit.refunds == 0 { 3 } else { 0 }, "{}", self.describe());
        self.fixture.check_money();
    }
}

fn outcome_text(outcome: Option<Outcome>) -> String {
    match outcome {
        None => "nothing".into(),
        Some(Err(Refusal::Lines(lines))) => format!("{} refusals", lines.len()),
        Some(Err(refusal)) => refusal.name().into(),
        Some(Ok(answered)) => match answered.answer {
            Answer::Order { settling, .. } => if settling { "order, settling" } else { "order" }.into(),
            other => format!("{other:?}"),
        },
    }
}

#[test]
fn every_course_of_an_attempt() {
    let mut table = String::new();
    for path in PATHS {
        for (late, policy) in variants() {
            let mut run = Run::new(late, None);
            let outcome = outcome_text(run.play(path, policy));
            let how = format!("{}{policy:?}", if late { "late, " } else { "" });
            table.push_str(&format!("{} ({how}): {outcome} -> {}\n", path.name, run.describe()));
            run.end();
        }
    }
    expect![[r#"
        ok (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        declined (Keep): payment_declined -> active, 3 held, 0 sold | a-1: declined
        declined (Release): payment_declined -> canceled, 0 held, 0 sold | a-1: declined
        declined (late, Keep): payment_declined -> active, 2 held, 0 sold | a-1: declined
        declined (late, Release): payment_declined -> canceled, 0 held, 0 sold | a-1: declined
        declined, then late ok (Keep): payment_declined -> active, 3 held, 0 sold, void Voided | a-1: authorized 800 declined voided
        declined, then late ok (Release): payment_declined -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 declined voided
        declined, then late ok (late, Keep): payment_declined -> active, 2 held, 0 sold, void Voided | a-1: authorized 800 declined voided
        declined, then late ok (late, Release): payment_declined -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 declined voided
        unheard, then ok (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, then ok (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, then ok (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, then ok (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        deaf, then ok (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        deaf, then ok (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        deaf, then ok (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        deaf, then ok (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        deaf, then declined (Keep): payment_declined -> active, 3 held, 0 sold | a-1: declined
        deaf, then declined (Release): payment_declined -> canceled, 0 held, 0 sold | a-1: declined
        deaf, then declined (late, Keep): payment_declined -> active, 2 held, 0 sold | a-1: declined
        deaf, then declined (late, Release): payment_declined -> canceled, 0 held, 0 sold | a-1: declined
        unheard, settled yes (Keep): payment_pending -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, settled yes (Release): payment_pending -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, settled yes (late, Keep): payment_pending -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, settled yes (late, Release): payment_pending -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        unheard, settled no (Keep): payment_pending -> active, 3 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no (Release): payment_pending -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no (late, Keep): payment_pending -> active, 2 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no (late, Release): payment_pending -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no, then late ok (Keep): payment_pending -> active, 3 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no, then late ok (Release): payment_pending -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no, then late ok (late, Keep): payment_pending -> active, 2 held, 0 sold, void Voided | a-1: authorized 800 voided
        unheard, settled no, then late ok (late, Release): payment_pending -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 800 voided
        ok twice (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok twice (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok twice (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok twice (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok, then late no (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok, then late no (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok, then late no (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        ok, then late no (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        another amount (Keep): amount_mismatch -> active, 3 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount (Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount (late, Keep): amount_mismatch -> active, 2 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount (late, Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void unheard (Keep): amount_mismatch -> active, 3 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void unheard (Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void unheard (late, Keep): amount_mismatch -> active, 2 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void unheard (late, Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        capture unheard (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture unheard (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture unheard (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture unheard (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture deaf (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture deaf (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture deaf (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture deaf (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture fails (Keep): order -> done, 0 held, 3 sold, CaptureFailed { reason: "closed" }, Capture is open | a-1: authorized 800
        capture fails (Release): order -> done, 0 held, 3 sold, CaptureFailed { reason: "closed" }, Capture is open | a-1: authorized 800
        capture fails (late, Keep): order -> done, 0 held, 3 sold, CaptureFailed { reason: "closed" }, Capture is open | a-1: authorized 800
        capture fails (late, Release): order -> done, 0 held, 3 sold, CaptureFailed { reason: "closed" }, Capture is open | a-1: authorized 800
        capture fails, refund (Keep): order -> done, 0 held, 0 sold, CaptureFailed { reason: "closed" }, refund Failed { reason: "the order's money was never captured" } | a-1: authorized 800
        capture fails, refund (Release): order -> done, 0 held, 0 sold, CaptureFailed { reason: "closed" }, refund Failed { reason: "the order's money was never captured" } | a-1: authorized 800
        capture fails, refund (late, Keep): order -> done, 0 held, 0 sold, CaptureFailed { reason: "closed" }, refund Failed { reason: "the order's money was never captured" } | a-1: authorized 800
        capture fails, refund (late, Release): order -> done, 0 held, 0 sold, CaptureFailed { reason: "closed" }, refund Failed { reason: "the order's money was never captured" } | a-1: authorized 800
        refund (Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund (Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund (late, Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund (late, Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund unheard (Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund unheard (Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund unheard (late, Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund unheard (late, Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund fails (Keep): order -> done, 0 held, 0 sold, Captured, refund Failed { reason: "closed" }, Refund(1) is open | a-1: authorized 800 captured 800
        refund fails (Release): order -> done, 0 held, 0 sold, Captured, refund Failed { reason: "closed" }, Refund(1) is open | a-1: authorized 800 captured 800
        refund fails (late, Keep): order -> done, 0 held, 0 sold, Captured, refund Failed { reason: "closed" }, Refund(1) is open | a-1: authorized 800 captured 800
        refund fails (late, Release): order -> done, 0 held, 0 sold, Captured, refund Failed { reason: "closed" }, Refund(1) is open | a-1: authorized 800 captured 800
        refund fails, seen to (Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund fails, seen to (Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund fails, seen to (late, Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund fails, seen to (late, Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        capture fails, seen to (Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture fails, seen to (Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture fails, seen to (late, Keep): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        capture fails, seen to (late, Release): order -> done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800
        another amount, void fails (Keep): amount_mismatch -> active, 3 held, 0 sold, void Failed { reason: "closed" }, Void is open | a-1: authorized 801
        another amount, void fails (Release): amount_mismatch -> canceled, 0 held, 0 sold, void Failed { reason: "closed" }, Void is open | a-1: authorized 801
        another amount, void fails (late, Keep): amount_mismatch -> active, 2 held, 0 sold, void Failed { reason: "closed" }, Void is open | a-1: authorized 801
        another amount, void fails (late, Release): amount_mismatch -> canceled, 0 held, 0 sold, void Failed { reason: "closed" }, Void is open | a-1: authorized 801
        another amount, void fails, seen to (Keep): amount_mismatch -> active, 3 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void fails, seen to (Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void fails, seen to (late, Keep): amount_mismatch -> active, 2 held, 0 sold, void Voided | a-1: authorized 801 voided
        another amount, void fails, seen to (late, Release): amount_mismatch -> canceled, 0 held, 0 sold, void Voided | a-1: authorized 801 voided
        refund before the capture (Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund before the capture (Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund before the capture (late, Keep): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
        refund before the capture (late, Release): order -> done, 0 held, 0 sold, Captured, refund Refunded | a-1: authorized 800 captured 800 refunded 800
    "#]].assert_eq(&table);
}

#[test]
fn a_crash_at_every_step_of_every_course() {
    let mut crashes = 0;
    for path in PATHS {
        for (late, policy) in variants() {
            let mut whole = Run::new(late, None);
            whole.play(path, policy);
            for step in 0..whole.steps {
                for (survive, lose) in [(0, false), (0, true), (1, true), (9, false), (9, true)] {
                    let crash = Crash { step, survive, lose };
                    let named = SeedReport(format!("{} late {late} {policy:?} {crash:?}", path.name));
                    let mut run = Run::new(late, Some(crash));
                    run.play(path, policy);
                    run.end();
                    drop(named);
                    crashes += 1;
                }
            }
        }
    }
    println!("{crashes} crashes");
    assert!(crashes > 5_000, "{crashes} crashes");
}

fn variants() -> impl Iterator<Item = (bool, OnDecline)> {
    let both = |late| [(late, OnDecline::Keep), (late, OnDecline::Release)];
    [false, true].into_iter().flat_map(both)
}

/// Prints the run if it panics.
struct SeedReport(String);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run panicked: {}", self.0);
        }
    }
}

/// An outcome that does not fit its step counts as unknown, and the step is asked for again.
#[test]
fn outcomes_that_do_not_fit_their_step_count_as_unknown() {
    let mut run = Run::new(false, None);
    run.fixture.gateway.plan("authorize", &[CallLost]);
    run.send("pay", pay(None, None));
    let key = PaymentKey { cart: buyer(), attempt: 1 };
    for outcome in [GatewayOutcome::Captured, GatewayOutcome::Voided, GatewayOutcome::Refunded] {
        let input = Input::Paid { key, step: PaymentStep::Authorize, outcome };
        run.fixture.post(Message { to: Entity::Cart(buyer()), input });
    }
    let other = PaymentKey { cart: cart("b"), attempt: 1 };
    let outcome = GatewayOutcome::Declined { reason: "of another cart".into() };
    let paid = CartCommand::Paid { key: other, step: PaymentStep::Authorize, outcome };
    let ticket = run.send("paid", paid);
    assert!(matches!(run.fixture.answers[&ticket], Err(Refusal::NotFound(_))));
    assert_eq!(run.fixture.now, Timestamp(0));
    run.wait(120_000);
    assert_eq!(run.describe(), "done, 0 held, 3 sold, Captured | a-1: authorized 800 captured 800");
}

/// The capture is known but not committed when the last session acknowledges its sale. The answer waits for the commit, and shows
/// the order as it was decided. Repeats get the same answer before and after the commit. Only a read of the order shows the
/// capture.
#[test]
fn a_capture_is_shown_when_it_is_committed() {
    let mut run = Run::new(false, None);
    let fixture = &mut run.fixture;
    let here = Entity::Cart(buyer());
    let is_cart = |entity: &Entity| *entity == Entity::Cart(buyer());
    let ticket = fixture.send(Some("pay"), Command::Cart(buyer(), pay(None, None)));
    // The checkout began, was authorized and decided. The capture is not committed, and no sale is acknowledged.
    for committed in [true, true, false] {
        fixture.run_but(is_cart, |_| false);
        assert_eq!(fixture.proposing(), std::slice::from_ref(&here));
        if committed {
            fixture.commit(&here);
        }
    }
    assert_eq!(fixture.gateway.ledger(), "a-1: authorized 800 captured 800");
    fixture.run_but(|_| true, |entity| !is_cart(entity));
    let status = |fixture: &Fixture, ticket: Ticket| match &fixture.answers[&ticket] {
        Ok(Answered { answer: Answer::Order { payment, settling: false, .. }, .. }) => payment.clone(),
        other => panic!("no order: {other:?}"),
    };
    let committed = |fixture: &Fixture| match fixture.states.get(&here).as_deref() {
        Some(State::Cart(cart)) => cart.money().expect("an order").0.clone(),
        other => panic!("no cart: {other:?}"),
    };
    assert_eq!(committed(fixture), PaymentStatus::Authorized);
    assert!(!fixture.answers.contains_key(&ticket), "the answer waits for earlier proposals");
    fixture.commit(&here);
    fixture.run();
    assert_eq!((committed(fixture), status(fixture, ticket)), (PaymentStatus::Captured, PaymentStatus::Authorized));
    let repeat = fixture.send(Some("pay"), Command::Cart(buyer(), pay(None, None)));
    let read = fixture.send(None, Command::Cart(buyer(), CartCommand::Order));
    fixture.run();
    assert_eq!((committed(fixture), status(fixture, repeat)), (PaymentStatus::Captured, PaymentStatus::Authorized));
    assert_eq!(status(fixture, read), PaymentStatus::Captured);
    let refund =
        fixture.send(Some("back"), Command::Cart(buyer(), CartCommand::Refund { lines: None, reason: "ill".into() }));
    fixture.run();
    assert!(fixture.answers[&refund].is_ok());
    let repeat = fixture.send(Some("pay"), Command::Cart(buyer(), pay(None, None)));
    fixture.run();
    assert_eq!(
        fixture.answers[&repeat].as_ref().map(|it| &it.answer),
        fixture.answers[&ticket].as_ref().map(|it| &it.answer)
    );
}

/// An operator can only settle existing steps, and a settled step stays settled.
#[test]
pub(crate) fn settlements_of_an_operator() {
    let mut run = Run::new(false, None);
    let settlements = Cell::new(0);
    let settle = |run: &mut Run, attempt, outcome| {
        settlements.update(|settlements| settlements + 1);
        let ticket = run.send(&format!("settle {}", settlements.get()), CartCommand::Settle { attempt, outcome });
        outcome_text(run.fixture.answers.get(&ticket).cloned())
    };
    let all = [Settlement::Captured, Settlement::Voided, Settlement::Refunded { refund: 1 }];
    let describe = |run: &mut Run| {
        let steps = [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)].map(|(attempt, of)| settle(run, attempt, all[of].clone()));
        format!("{}: {}\n", run.describe(), steps.join(", "))
    };
    let mut story = describe(&mut run);
    run.fixture.gateway.plan("authorize", &[OtherAmount]);
    run.fixture.gateway.plan("void", &[CallLost; 20]);
    run.send("pay", pay(Some(OnDecline::Keep), None));
    story += &describe(&mut run);
    run.send("pay again", pay(None, None));
    run.wait(10_000);
    story += &describe(&mut run);
    let refund = CartCommand::Refund { lines: None, reason: "ill".into() };
    run.fixture.gateway.plan("refund", &[CallLost; 20]);
    run.send("refund", refund);
    let refunded = settle(&mut run, 2, Settlement::Refunded { refund: 1 });
    story += &format!("refunded: {refunded}\n{}\n", run.describe());
    expect![[r#"
        active, 3 held, 0 sold | : not_found, not_found, not_found, not_found, not_found
        active, 3 held, 0 sold, void Voided | a-1: authorized 801: not_found, not_found, Done, not_found, not_found
        done, 0 held, 3 sold, Captured, void Voided | a-1: authorized 801; a-2: authorized 800 captured 800: not_found, not_found, Done, not_found, Done
        refunded: Done
        done, 0 held, 0 sold, Captured, refund Refunded, void Voided | a-1: authorized 801; a-2: authorized 800 captured 800
    "#]]
    .assert_eq(&story);
    run.wait(2 * 60 * 60 * 1000);
    assert_eq!(
        (run.fixture.states.audit().owed, run.fixture.states.payments()),
        (0, PaymentCounts::default()),
        "{}",
        run.describe()
    );
}

/// The gateway is removed from the configuration. Decided checkouts are answered as before, attempts under way stay open, and
/// no new attempt begins.
#[test]
fn without_a_gateway() {
    let mut run = Run::new(false, None);
    let other = cart("b");
    let units = |quantity| WantedLine::new(Entity::Product(id("p")), Want::Units { quantity, now: false });
    run.fixture.send(Some("hold"), Command::Cart(other, hold_lines(vec![units(1)])));
    run.settle();
    let first = run.send("pay", pay(None, None));
    run.fixture.gateway.plan("authorize", NEVER);
    run.fixture.send(Some("pay"), Command::Cart(other, pay(None, None)));
    run.wait(20_000);
    assert_eq!(run.fixture.states.payments(), PaymentCounts { pending: 1, failed: 0 });
    // The node restarts.
    run.fixture.crash(&Entity::Cart(buyer()), 9);
    run.fixture.crash(&Entity::Cart(other), 9);
    run.fixture.calls.clear();
    run.fixture.gateway_open = false;
    run.fixture.set_rules(Rules { gateway: false, ..Rules::default() });
    let third = cart("c");
    run.fixture.send(Some("hold"), Command::Cart(third, hold_lines(vec![units(1)])));
    let repeats =
        [buyer(), other, third].map(|cart| run.fixture.send(Some("pay"), Command::Cart(cart, pay(None, None))));
    let another = run.fixture.send(Some("pay again"), Command::Cart(buyer(), pay(None, None)));
    // There is no gateway to ask, so nothing happens.
    run.fixture.run();
    let wait = run.fixture.rules().payment_wait_ms;
    run.fixture.pass(run.fixture.now.after(wait));
    run.fixture.run();
    let answers = repeats.map(|ticket| run.fixture.answers.get(&ticket).cloned());
    assert_eq!(answers[0].as_ref().map(|it| it.as_ref().map(|it| &it.answer)), {
        let first = &run.fixture.answers[&first];
        Some(first.as_ref().map(|it| &it.answer))
    });
    assert_eq!(answers[1], Some(Err(Refusal::PaymentPending)));
    let refused = Some(Err(Refusal::BadRequest("no gateway is configured".into())));
    assert_eq!((&answers[2], run.fixture.answers.get(&another)), (&refused, refused.as_ref()));
    assert_eq!(run.fixture.states.payments(), PaymentCounts { pending: 1, failed: 0 });
    let state = |cart| match run.fixture.states.get(&Entity::Cart(cart)).as_deref() {
        Some(State::Cart(cart)) => cart.state().map(|state| state.as_str()),
        other => panic!("no cart: {other:?}"),
    };
    assert_eq!([buyer(), other, third].map(state), [Some("done"), Some("checking_out"), Some("active")]);
}
