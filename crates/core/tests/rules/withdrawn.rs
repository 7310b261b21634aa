//! Attempts to pay that end before the gateway has answered, because a show is canceled, or because the buyer ends them. The table
//! has every course, with both orders of the gateway's answer, and runs again with a crash of the cart's host at every step.

use boxoffice_core::{
    answer::{Answer, CartState, Taker},
    cart::Cart,
    command::{CartCommand, Command, HoldPolicy, ProductCommand, ProductDetails, SessionCommand, Want, WantedLine},
    host::Input,
    id::{CartId, Entity},
    payment::{GatewayOutcome, OnDecline, PaymentCounts, PaymentKey, PaymentStep},
    refusal::Refusal,
    rules::Rules,
    seat::{Seat, SeatSet},
    state_map::State,
};
use expect_test::expect;

use crate::{
    catalogue::open,
    fixture::{Fixture, Message, Ticket},
    script::{cart, check, euros, hold_lines, id, layout, pay, product},
    test_gateway::CallFate::{self, CallLost, Declines, OtherAmount, ReplyLost},
};

/// What ends the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The session of the first line is canceled.
    Session,
    /// The buyer ends the attempt.
    Buyer,
    /// Both, the buyer first.
    Both,
}

/// When it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The gateway has not got the call yet.
    Before,
    /// The gateway has decided, and its answer is on its way.
    OnItsWay,
    /// The answer is there.
    After,
}

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
    /// Answers of the gateway that are held back.
    held_back: Vec<Message>,
    holds_back: bool,
}

fn buyer() -> CartId {
    cart("a")
}

impl Run {
    /// A cart with a seat of two sessions, or of one, and a unit, which may be one that is set aside only at the checkout.
    fn new(two: bool, late: bool, crash: Option<Crash>) -> Run {
        let mut fixture = Fixture::new(Rules { hold_ttl_ms: 600_000, ..Rules::default() });
        let layout = layout("aaaa");
        open(&mut fixture, &layout, &["s", "t"]);
        let hold = if late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd };
        let details = ProductDetails { hold, ..product(euros(300), 5) };
        fixture.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(Box::new(details))));
        let seat = |session: &str| {
            let seats = SeatSet::new([Seat { row: 0, seat: 1 }]).expect("a seat");
            WantedLine::new(Entity::Session(id(session)), Want::seats(seats, false))
        };
        let unit = WantedLine::new(Entity::Product(id("p")), Want::Units { quantity: 1, now: false });
        let mut lines = vec![seat("s")];
        lines.extend(two.then(|| seat("t")));
        lines.extend((two || late).then_some(unit));
        fixture.send(Some("hold"), Command::Cart(buyer(), hold_lines(lines)));
        fixture.run();
        Run { fixture, steps: 0, crash, held_back: Vec::new(), holds_back: false }
    }

    fn send(&mut self, request: &str, command: Command) -> Ticket {
        let ticket = self.fixture.send(Some(request), command);
        self.settle();
        ticket
    }

    /// Clients repeat what got no answer.
    fn insist(&mut self, request: &str, command: &Command) -> Ticket {
        let ticket = self.send(request, command.clone());
        if self.fixture.is_lost(ticket) { self.send(request, command.clone()) } else { ticket }
    }

    /// Runs everything that can happen now, step by step.
    fn settle(&mut self) {
        loop {
            if let Some(Crash { step, survive, lose }) = self.crash
                && step == self.steps
            {
                self.fixture.crash(&Entity::Cart(buyer()), survive);
                if lose {
                    self.fixture.calls.clear();
                    self.held_back.clear();
                    self.fixture.mail.retain(|mail| !matches!(mail.input, Input::Paid { .. }));
                }
                self.crash = None;
            }
            self.steps += 1;
            if let Some(message) = self.fixture.mail.pop_front() {
                if self.holds_back && matches!(message.input, Input::Paid { step: PaymentStep::Authorize, .. }) {
                    self.held_back.push(message);
                } else {
                    self.fixture.deliver(message);
                }
            } else if let Some(entity) = self.fixture.proposing().first() {
                self.fixture.commit(entity);
            } else if !self.fixture.gateway_open || !self.fixture.pay() {
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

    fn cart(&self) -> Box<Cart> {
        match self.fixture.states.get(&Entity::Cart(buyer())).as_deref() {
            Some(State::Cart(cart)) => cart.clone(),
            other => panic!("another state than a cart: {other:?}"),
        }
    }

    fn end_attempt(&mut self, end: End) {
        let stop = Command::Cart(buyer(), CartCommand::CancelCheckout { by_operator: false });
        let cancel = Command::Session(id("s"), SessionCommand::Cancel { reason: "ill".into() });
        if end != End::Session {
            self.insist("stop", &stop);
        }
        if end != End::Buyer {
            self.insist("cancel", &cancel);
        }
    }

    /// The last answer to the checkout.
    fn play(&mut self, end: End, when: When, fates: &[CallFate], policy: OnDecline) -> Result<Answer, Refusal> {
        self.fixture.gateway.plan("authorize", fates);
        self.fixture.gateway_open = when != When::Before;
        self.holds_back = when == When::OnItsWay;
        let checkout = Command::Cart(buyer(), pay(Some(policy), None));
        let mut ticket = self.send("pay", checkout.clone());
        self.end_attempt(end);
        self.fixture.gateway_open = true;
        self.holds_back = false;
        for message in std::mem::take(&mut self.held_back) {
            self.fixture.post(message);
        }
        self.settle();
        self.wait(60_000);
        for _ in 0..2 {
            if self.fixture.is_lost(ticket) {
                ticket = self.send("pay", checkout.clone());
                self.wait(60_000);
            }
        }
        let outcome = self.fixture.answers.get(&ticket).expect("the checkout is answered").clone();
        outcome.map(|answered| answered.answer)
    }

    fn describe(&self) -> String {
        let cart = self.cart();
        let audit = cart.audit().expect("it was opened");
        let refunds: String = audit.refunds.iter().map(|refund| format!(", refund {:?}", refund.status)).collect();
        let voids: String = audit.voids.iter().map(|void| format!(", void {:?}", void.status)).collect();
        let taken: String = audit
            .cart
            .taken
            .iter()
            .map(|taken| format!(", taken by {:?}: {} ({})", taken.by, taken.line.entity, taken.reason))
            .collect();
        let state = cart.state().expect("it was opened").as_str();
        let ledger = self.fixture.gateway.ledger();
        format!("{state}, {} lines{taken}{refunds}{voids} | {ledger}", audit.cart.lines.len())
    }

    /// What holds after every course: nothing of the canceled session is charged, and nothing stays held, owed or authorized.
    fn check_end(&mut self, end: End, outcome: &Result<Answer, Refusal>) {
        let cart = self.cart();
        let view = cart.view().expect("it was opened");
        if end != End::Buyer && view.state == CartState::Active {
            assert!(
                view.taken.iter().any(|taken| taken.by == Taker::Session && taken.reason == "ill"),
                "{}: the buyer can read why",
                self.describe()
            );
        }
        if let Err(refusal) = outcome {
            assert_eq!(cart.order(), None, "{}: {refusal}", self.describe());
        }
        self.wait(2 * 60 * 60 * 1000);
        let audit = self.fixture.states.audit();
        assert_eq!((audit.units.held, audit.holds, audit.owed), (0, 0, 0), "{}", self.describe());
        assert_eq!(self.fixture.states.payments(), PaymentCounts::default(), "{}", self.describe());
        self.fixture.check_money();
    }
}

const FATES: [(&str, &[CallFate]); 5] = [
    ("authorized", &[]),
    ("declined", &[Declines]),
    ("another amount", &[OtherAmount]),
    ("the answer is lost", &[ReplyLost]),
    ("the call is lost", &[CallLost, CallLost]),
];

fn courses() -> impl Iterator<Item = (End, When, &'static str, &'static [CallFate])> {
    [End::Session, End::Buyer, End::Both].into_iter().flat_map(|end| {
        [When::Before, When::OnItsWay, When::After]
            .into_iter()
            .flat_map(move |when| FATES.map(|(name, fates)| (end, when, name, fates)))
    })
}

fn outcome_text(outcome: &Result<Answer, Refusal>) -> String {
    match outcome {
        Ok(Answer::Order { .. }) => "order".into(),
        Ok(other) => format!("{other:?}"),
        Err(refusal) => refusal.name().into(),
    }
}

#[test]
pub(crate) fn every_attempt_that_ends_early() {
    let mut table = String::new();
    for (end, when, name, fates) in courses() {
        let mut run = Run::new(true, false, None);
        let outcome = run.play(end, when, fates, OnDecline::Keep);
        table += &format!("{end:?} {when:?}, {name}: {} -> {}\n", outcome_text(&outcome), run.describe());
        run.check_end(end, &outcome);
    }
    expect![[r#"
        Session Before, authorized: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Session Before, declined: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: declined voided
        Session Before, another amount: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Session Before, the answer is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Session Before, the call is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
        Session OnItsWay, authorized: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Session OnItsWay, declined: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: declined voided
        Session OnItsWay, another amount: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Session OnItsWay, the answer is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Session OnItsWay, the call is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
        Session After, authorized: order -> done, 3 lines, refund Refunded | a-1: authorized 2300 captured 2300 refunded 1000
        Session After, declined: payment_declined -> active, 2 lines, taken by Session: session/s (ill) | a-1: declined
        Session After, another amount: amount_mismatch -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Session After, the answer is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Session After, the call is lost: checkout_withdrawn -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
        Buyer Before, authorized: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2300 voided
        Buyer Before, declined: checkout_canceled -> active, 3 lines, void Voided | a-1: declined voided
        Buyer Before, another amount: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2301 voided
        Buyer Before, the answer is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2300 voided
        Buyer Before, the call is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: voided
        Buyer OnItsWay, authorized: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2300 voided
        Buyer OnItsWay, declined: checkout_canceled -> active, 3 lines, void Voided | a-1: declined voided
        Buyer OnItsWay, another amount: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2301 voided
        Buyer OnItsWay, the answer is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2300 voided
        Buyer OnItsWay, the call is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: voided
        Buyer After, authorized: order -> done, 3 lines | a-1: authorized 2300 captured 2300
        Buyer After, declined: payment_declined -> active, 3 lines | a-1: declined
        Buyer After, another amount: amount_mismatch -> active, 3 lines, void Voided | a-1: authorized 2301 voided
        Buyer After, the answer is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: authorized 2300 voided
        Buyer After, the call is lost: checkout_canceled -> active, 3 lines, void Voided | a-1: voided
        Both Before, authorized: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Both Before, declined: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: declined voided
        Both Before, another amount: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Both Before, the answer is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Both Before, the call is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
        Both OnItsWay, authorized: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Both OnItsWay, declined: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: declined voided
        Both OnItsWay, another amount: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Both OnItsWay, the answer is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Both OnItsWay, the call is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
        Both After, authorized: order -> done, 3 lines, refund Refunded | a-1: authorized 2300 captured 2300 refunded 1000
        Both After, declined: payment_declined -> active, 2 lines, taken by Session: session/s (ill) | a-1: declined
        Both After, another amount: amount_mismatch -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2301 voided
        Both After, the answer is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: authorized 2300 voided
        Both After, the call is lost: checkout_canceled -> active, 2 lines, taken by Session: session/s (ill), void Voided | a-1: voided
    "#]].assert_eq(&table);
}

#[test]
fn every_attempt_that_ends_early_with_crashes() {
    for (two, late) in [(true, false), (false, true)] {
        for (end, when, name, fates) in courses() {
            let mut whole = Run::new(two, late, None);
            let outcome = whole.play(end, when, fates, OnDecline::Keep);
            let steps = whole.steps;
            whole.check_end(end, &outcome);
            for step in (0..steps).step_by(2) {
                for survive in [0, 2] {
                    let lose = (step / 2 + survive as u32 / 2).is_multiple_of(2);
                    let crash = Crash { step, survive, lose };
                    let course = format!("{end:?} {when:?}, {name}, two {two}, late {late}, {crash:?}");
                    let _report = Report(&course);
                    let mut run = Run::new(two, late, Some(crash));
                    let outcome = run.play(end, when, fates, OnDecline::Keep);
                    run.check_end(end, &outcome);
                }
            }
        }
    }
}

/// Names the course if the test panics.
struct Report<'a>(&'a str);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the course was: {}", self.0);
        }
    }
}

/// A late authorization of an attempt that was ended is voided, whichever way the gateway says it.
#[test]
pub(crate) fn a_late_authorization_of_an_ended_attempt_is_voided() {
    let mut run = Run::new(false, false, None);
    run.fixture.gateway_open = false;
    run.send("pay", Command::Cart(buyer(), pay(None, None)));
    run.end_attempt(End::Buyer);
    let key = PaymentKey { cart: buyer(), attempt: 1 };
    let outcome = GatewayOutcome::Authorized { reference: "auth-1".into(), amount: euros(1_000) };
    run.send("webhook", Command::Cart(buyer(), CartCommand::Paid { key, step: PaymentStep::Authorize, outcome }));
    assert_eq!(run.cart().state(), Some(CartState::Active));
    run.fixture.gateway_open = true;
    run.wait(60_000);
    assert_eq!(run.describe(), "active, 1 lines, void Voided | a-1: authorized 1000 voided");
    // The buyer pays otherwise.
    let again = run.send("pay again", Command::Cart(buyer(), pay(None, None)));
    assert!(run.fixture.answers[&again].is_ok(), "{:?}", run.fixture.answers[&again]);
    let stop = run.send("stop again", Command::Cart(buyer(), CartCommand::CancelCheckout { by_operator: false }));
    assert_eq!(run.fixture.answers[&stop], Err(Refusal::CartNotActive("done".into())));
    run.check_end(End::Buyer, &Ok(Answer::Done));
}

/// The buyer comes back from the bank's page after the cart's time, ends the attempt and has time to pay otherwise.
#[test]
fn a_buyer_who_ends_an_attempt_has_time_to_pay_otherwise() {
    check(
        "product p 9 1.00
         a open 600
         a hold p 2
         gateway authorize deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf
         a pay
         wait 700
         a cancel
         a stop as x
         a stop as x
         a get
         a stop
         a checkout
         a stop
         gateway",
        expect![[r#"
            product p 9 1.00 -> 9 free, 0 held, 0 sold
            a open 600 -> active, until 600.000
            a hold p 2 -> line 1 p 2, until 600.000
                7 free, 2 held, 0 sold
            gateway authorize deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf deaf
            a pay -> (waits as #4)
            wait 700
            a cancel -> no: cart_not_active, the cart is checking_out
            a stop as x -> active, line 1 p 2, total 2.00, until 1300.000
            a stop as x -> active, line 1 p 2, total 2.00, until 1300.000
            a get -> active, line 1 p 2, total 2.00, until 1300.000
            a stop -> active, line 1 p 2, total 2.00, until 1300.000
            a checkout -> order of line 1 p 2, total 2.00
                7 free, 0 held, 2 sold
            a stop -> no: cart_not_active, the cart is done
            gateway -> a-1: voided
        "#]],
    );
}

#[test]
pub(crate) fn a_canceled_show_ends_the_attempts_of_its_buyers() {
    check(
        "hall aa/bb
         session s 100000 5000
         session t 200000 5000
         a hold s 0.0 + t 1.0
         gateway authorize deaf deaf deaf
         a pay
         box cancel s
         answers
         a get
         wait 60
         a get
         a pay
         gateway",
        expect![[r#"
            hall aa/bb -> done
            session s 100000 5000 -> 4 free, 0 held, 0 sold, 0 blocked
            session t 200000 5000 -> 4 free, 0 held, 0 sold, 0 blocked
            a hold s 0.0 + t 1.0 -> line 1 s 0.0, line 2 t 1.0, until 1800.000
                s  a.
                s  ..
                t  ..
                t  a.
            gateway authorize deaf deaf deaf
            a pay -> (waits as #5)
            box cancel s -> done
                s  ..
                s  ..
            answers
                #5 no: checkout_withdrawn, something in the cart was taken away before it was paid, and the payment is given up: rain
            a get -> active, line 2 t 1.0, total 20.00, taken by its session (rain): line 1 s 0.0, until 1800.000
            wait 60
            a get -> active, line 2 t 1.0, total 20.00, taken by its session (rain): line 1 s 0.0, until 1800.000
            a pay -> (waits as #9)
            gateway -> a-1: voided
        "#]],
    );
}
