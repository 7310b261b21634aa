//! A small correct run, then broken in one way at a time. The check must find each breach, and nothing else.

use boxoffice_core::{
    answer::SeatCounts,
    id::{CartId, Entity, HoldId, OrderId, RequestHash},
    money::{Currency, Money},
    portion::{Content, Portion, PricedSeat},
    refusal::TakenSeat,
    seat::{Seat, SeatSet, SeatState},
};
use boxoffice_wire::view::{CartState, CartView, HoldView, LineView, SaleView};

use super::*;
use crate::history::{Bought, CartRecord, CheckoutRecord, HeldSeats, HoldOutcome, HoldRecord, Outcome, Span};

const PRICE: i64 = 1_000;
const BUYER: CartId = CartId(1);
const HOLDER: CartId = CartId(2);
const LATE: CartId = CartId(3);

fn house() -> House {
    House { prefix: "t".into(), groups: 1, venues: 1, sessions: 1, rows: 2, seats: 5 }
}

fn seats(numbers: &[u32]) -> Vec<Seat> {
    numbers.iter().map(|&number| house().seat(number)).collect()
}

fn hold(numbers: &[u32], called_us: u64, returned_us: u64, outcome: HoldOutcome) -> HoldRecord {
    let seats = SeatSet::new(seats(numbers)).expect("a few seats");
    HoldRecord { session: 0, seats, span: Span { called_us, returned_us }, outcome }
}

fn granted(version: u64, count: i64) -> HoldOutcome {
    Outcome::Granted(HeldSeats { session_version: Some(version), deadline: Timestamp(2_000), price: PRICE * count })
}

fn refused(numbers: &[u32]) -> HoldOutcome {
    let named = seats(numbers).into_iter().map(|seat| TakenSeat { seat, state: SeatState::Held }).collect();
    Outcome::Refused { code: 201, more: named }
}

/// Cart 1 bought seats 0 and 1, cart 2 holds 5 and 6, cart 3 wanted 1 and 2 and was refused for 1.
struct Run {
    history: History,
    audited: AuditedState,
}

fn correct_run() -> Run {
    let bought = Outcome::Granted(Bought { order: BUYER.order(), total: 2 * PRICE, sold: vec![(0, 4)] });
    let buyer = CartRecord {
        versions: vec![1, 2, 3],
        holds: vec![hold(&[0, 1], 10, 20, granted(2, 2))],
        checkout: Some(CheckoutRecord { span: Span { called_us: 60, returned_us: 70 }, outcome: bought }),
        ..CartRecord::new(BUYER)
    };
    let holder = CartRecord { holds: vec![hold(&[5, 6], 25, 35, granted(3, 2))], ..CartRecord::new(HOLDER) };
    let late = CartRecord { holds: vec![hold(&[1, 2], 40, 50, refused(&[1]))], ..CartRecord::new(LATE) };
    let session = SessionAudit {
        session: house().session_id(0),
        counts: SeatCounts { free: 6, held: 2, sold: 2, blocked: 0 },
        holds: vec![HoldView {
            hold: HoldId { cart: HOLDER, request: RequestHash(1), part: 0, attempt: 0 },
            revision: 1,
            deadline: Timestamp(2_000),
            portion: portion(&[5, 6]),
            customer: None,
            since: None,
        }],
        areas: vec![],
        sales: vec![SaleView {
            order: BUYER.order(),
            hold: sold(BUYER),
            portion: portion(&[0, 1]),
            at: Timestamp(500),
            customer: None,
        }],
        violations: vec![],
        holders: Vec::new(),
    };
    let audited = AuditedState {
        sessions: [(0, session)].into(),
        carts: vec![done_cart()],
        at: Timestamp(1_000),
        ..AuditedState::default()
    };
    Run { history: History { carts: vec![buyer, holder, late], ..History::default() }, audited }
}

fn portion(numbers: &[u32]) -> Portion {
    Portion::Seats(SeatSet::new(seats(numbers)).expect("some seats"))
}

fn sold(cart: CartId) -> HoldId {
    HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 }
}

fn done_cart() -> CartAudit {
    let lines = vec![LineView::new(
        1,
        Entity::Session(house().session_id(0)),
        Content::Seats(seats(&[0, 1]).into_iter().map(|seat| PricedSeat::new(seat, PRICE)).collect()),
        false,
    )];
    let total = Money { amount: 2 * PRICE, currency: Currency::new("EUR").expect("a currency") };
    let cart = CartView {
        id: BUYER,
        state: CartState::Done,
        customer: None,
        opened_at: Timestamp(1),
        modified_at: Timestamp(1),
        deadline: Timestamp(2_000),
        lines,
        lines_version: 0,
        taken: Vec::new(),
        total: Some(total),
        order: Some(BUYER.order()),
        ended: None,
    };
    CartAudit {
        cart,
        holds: vec![],
        payment: None,
        refunds: vec![],
        voids: vec![],
        attempt: None,
        owed: 0,
        violations: vec![],
    }
}

impl Run {
    fn session(&mut self) -> &mut SessionAudit {
        self.audited.sessions.get_mut(&0).expect("session 0 is audited")
    }

    fn findings(&self) -> Findings {
        let inventory = RunInventory { house: &house(), price: PRICE, goods: &Goods::default() };
        check(inventory, &self.history, &self.audited)
    }

    #[track_caller]
    fn assert_breaches(&self, expected: &[Breach]) {
        let findings = self.findings();
        let got: Vec<Breach> = findings.breaches.keys().copied().collect();
        assert_eq!(got, expected, "{:#?}", findings.examples);
    }
}

mod goods;

#[test]
fn a_correct_run_has_no_breaches() {
    let findings = correct_run().findings();
    assert!(findings.is_clean(), "{:#?}", findings.examples);
    assert_eq!((findings.seats_sold, findings.seats_held, findings.sales), (2, 2, 1));
}

#[test]
fn a_seat_sold_twice() {
    let mut run = correct_run();
    run.session().sales[0].portion = portion(&[0, 5]);
    run.assert_breaches(&[Breach::Twice, Breach::Lost, Breach::WrongOrder]);
}

#[test]
fn an_acknowledged_order_that_is_gone() {
    let mut run = correct_run();
    run.session().sales.clear();
    run.session().counts = SeatCounts { free: 8, held: 2, sold: 0, blocked: 0 };
    run.audited.carts.clear();
    run.assert_breaches(&[Breach::Lost]);
}

#[test]
fn an_acknowledged_hold_that_is_gone_before_its_deadline() {
    let mut run = correct_run();
    run.session().holds.clear();
    run.session().counts = SeatCounts { free: 8, held: 0, sold: 2, blocked: 0 };
    run.assert_breaches(&[Breach::Lost]);
    run.audited.at = Timestamp(2_000);
    run.assert_breaches(&[]);
}

#[test]
fn a_sale_that_no_cart_requested() {
    let mut run = correct_run();
    run.session().sales.push(SaleView {
        order: OrderId(99),
        hold: sold(CartId(99)),
        portion: portion(&[9]),
        at: Timestamp(1),
        customer: None,
    });
    run.session().counts = SeatCounts { free: 5, held: 2, sold: 3, blocked: 0 };
    run.assert_breaches(&[Breach::Unexplained]);
}

#[test]
fn a_refused_hold_that_left_a_held_seat() {
    let mut run = correct_run();
    let leftover = HoldView {
        hold: HoldId { cart: LATE, request: RequestHash(1), part: 0, attempt: 0 },
        revision: 1,
        deadline: Timestamp(2_000),
        portion: portion(&[2]),
        customer: None,
        since: None,
    };
    run.session().holds.push(leftover);
    run.session().counts = SeatCounts { free: 5, held: 3, sold: 2, blocked: 0 };
    run.assert_breaches(&[Breach::Unexplained]);
}

#[test]
fn a_sale_to_a_cart_whose_checkout_was_refused() {
    let mut run = correct_run();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome = Outcome::Refused { code: 302, more: () };
    run.assert_breaches(&[Breach::Lost, Breach::Unexplained, Breach::WrongState]);
}

#[test]
fn a_refusal_of_a_free_seat() {
    let mut run = correct_run();
    run.history.carts[2].holds[0].outcome = refused(&[1, 2]);
    run.assert_breaches(&[Breach::RefusedWhileFree]);
    // The refusal came before the only buyer had sent its request.
    let mut run = correct_run();
    run.history.carts[2].holds[0].span = Span { called_us: 5, returned_us: 9 };
    run.assert_breaches(&[Breach::RefusedWhileFree]);
}

#[test]
fn a_refusal_that_does_not_name_every_taken_seat() {
    let mut run = correct_run();
    run.history.carts[2].holds[0] = hold(&[1, 5], 40, 50, refused(&[1]));
    run.assert_breaches(&[Breach::RefusedWhileFree]);
    run.history.carts[2].holds[0] = hold(&[1, 5], 30, 50, refused(&[1]));
    run.assert_breaches(&[]);
}

#[test]
fn an_unknown_hold_explains_a_refusal_and_a_held_seat_but_need_not_exist() {
    let mut run = correct_run();
    run.history.carts[1].holds[0].outcome = Outcome::Unknown;
    run.history.carts[2].holds[0] = hold(&[2, 5], 40, 50, refused(&[5]));
    run.assert_breaches(&[]);
    run.session().holds.clear();
    run.session().counts = SeatCounts { free: 8, held: 0, sold: 2, blocked: 0 };
    run.assert_breaches(&[]);
}

#[test]
fn an_unknown_checkout_may_have_happened_or_not_but_only_as_a_whole() {
    let mut run = correct_run();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome = Outcome::Unknown;
    run.assert_breaches(&[]);
    run.session().sales[0].portion = portion(&[0]);
    run.session().counts = SeatCounts { free: 7, held: 2, sold: 1, blocked: 0 };
    run.audited.carts.clear();
    run.assert_breaches(&[Breach::Lost]);
}

#[test]
fn counts_that_differ_from_the_map() {
    let mut run = correct_run();
    run.session().counts.free = 7;
    run.assert_breaches(&[Breach::Miscounted]);
    let mut run = correct_run();
    run.session().counts = SeatCounts { free: 5, held: 2, sold: 3, blocked: 0 };
    run.assert_breaches(&[Breach::Miscounted]);
}

#[test]
fn orders_with_wrong_totals_and_lines() {
    let mut run = correct_run();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome =
        Outcome::Granted(Bought { order: BUYER.order(), total: PRICE, sold: vec![] });
    run.assert_breaches(&[Breach::WrongOrder]);
    let mut run = correct_run();
    run.audited.carts[0].cart.total = None;
    run.assert_breaches(&[Breach::WrongOrder]);
    let mut run = correct_run();
    let Content::Seats(seats) = &mut run.audited.carts[0].cart.lines[0].content else { panic!("a line of seats") };
    std::sync::Arc::make_mut(seats)[0].seat = house().seat(9);
    run.assert_breaches(&[Breach::WrongOrder]);
}

#[test]
fn carts_in_wrong_states() {
    let mut run = correct_run();
    run.audited.carts[0].cart.order = None;
    run.assert_breaches(&[Breach::WrongState]);
    let mut run = correct_run();
    run.audited.carts[0].cart.state = CartState::Expired;
    run.audited.carts[0].cart.order = None;
    run.assert_breaches(&[Breach::Lost, Breach::Unexplained]);
}

#[test]
fn versions_returned_twice_or_back_in_time() {
    let mut run = correct_run();
    run.history.carts[1].holds[0].outcome = granted(2, 2);
    run.assert_breaches(&[Breach::WrongVersion]);
    // The hold that was answered at 35 µs got version 9. A sale that was requested at 60 µs got version 4.
    let mut run = correct_run();
    run.history.carts[1].holds[0].outcome = granted(9, 2);
    run.assert_breaches(&[Breach::WrongVersion]);
    let mut run = correct_run();
    run.history.carts[0].versions = vec![1, 3, 3];
    run.assert_breaches(&[Breach::WrongVersion]);
}

#[test]
fn an_order_whose_session_has_not_sold_yet() {
    let mut run = correct_run();
    let sale = run.session().sales.remove(0);
    run.session().holds.push(HoldView {
        hold: HoldId { cart: BUYER, request: RequestHash(1), part: 0, attempt: 0 },
        revision: 1,
        deadline: Timestamp(2_000),
        portion: sale.portion,
        customer: None,
        since: None,
    });
    run.session().counts = SeatCounts { free: 6, held: 4, sold: 0, blocked: 0 };
    run.audited.carts[0].owed = 1;
    run.assert_breaches(&[Breach::Unsettled]);
}

#[test]
fn violations_in_the_servers_audit_are_findings() {
    let mut run = correct_run();
    run.session().violations.push("P5: seats_free is 7, the map has 6".into());
    run.assert_breaches(&[Breach::Reported]);
    assert_eq!(run.findings().examples, ["reported by the server: session t-s0: P5: seats_free is 7, the map has 6"]);
}
