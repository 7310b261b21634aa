//! A small run that is right in everything, then broken one way at a time: each breach must be found, and only it.

use boxoffice_core::{
    answer::{CartState, CartView, HoldView, LineView, SaleView, SeatCounts},
    id::{CartId, Entity, HoldId, OrderId, RequestHash},
    money::{Currency, Money},
    portion::{Content, Portion, PricedSeat},
    refusal::TakenSeat,
    seat::{Seat, SeatSet, SeatState},
};

use super::*;
use crate::history::{CartRecord, CheckoutOutcome, CheckoutRecord, HoldOutcome, HoldRecord, Span};

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
    HoldOutcome::Granted { session_version: Some(version), deadline: Timestamp(2_000), price: PRICE * count }
}

fn refused(numbers: &[u32]) -> HoldOutcome {
    let named = seats(numbers).into_iter().map(|seat| TakenSeat { seat, state: SeatState::Held }).collect();
    HoldOutcome::Refused { code: 201, named }
}

/// Cart 1 bought seats 0 and 1, cart 2 holds 5 and 6, cart 3 wanted 1 and 2 and was refused for 1.
struct Run {
    history: History,
    audited: Audited,
}

fn right() -> Run {
    let bought = CheckoutOutcome::Bought { order: BUYER.order(), total: 2 * PRICE, sold: vec![(0, 4)] };
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
        }],
        areas: vec![],
        sales: vec![SaleView {
            order: BUYER.order(),
            hold: sold(BUYER),
            portion: portion(&[0, 1]),
            at: Timestamp(500),
        }],
        violations: vec![],
    };
    let audited = Audited {
        sessions: [(0, session)].into(),
        carts: vec![done_cart()],
        at: Timestamp(1_000),
        ..Audited::default()
    };
    Run { history: History { carts: vec![buyer, holder, late], ..History::default() }, audited }
}

fn portion(flat: &[u32]) -> Portion {
    Portion::Seats(SeatSet::new(seats(flat)).expect("some seats"))
}

fn sold(cart: CartId) -> HoldId {
    HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 }
}

fn done_cart() -> CartAudit {
    let lines = vec![LineView {
        line: 1,
        entity: Entity::Session(house().session_id(0)),
        content: Content::Seats(seats(&[0, 1]).into_iter().map(|seat| PricedSeat { seat, price: PRICE }).collect()),
        late: false,
    }];
    let total = Money { amount: 2 * PRICE, currency: Currency::new("EUR").expect("a currency") };
    let cart = CartView {
        id: BUYER,
        state: CartState::Done,
        customer: None,
        opened_at: Timestamp(1),
        deadline: Timestamp(2_000),
        lines,
        lines_version: 0,
        taken: Vec::new(),
        total: Some(total),
        order: Some(BUYER.order()),
        ended: None,
    };
    CartAudit { cart, holds: vec![], payment: None, refunds: vec![], voids: vec![], owed: 0, violations: vec![] }
}

impl Run {
    fn session(&mut self) -> &mut SessionAudit {
        self.audited.sessions.get_mut(&0).expect("session 0 is audited")
    }

    fn findings(&self) -> Findings {
        check(Sold { house: &house(), price: PRICE, goods: &Goods::default() }, &self.history, &self.audited)
    }

    #[track_caller]
    fn breaks(&self, expected: &[Breach]) {
        let findings = self.findings();
        let got: Vec<Breach> = findings.breaches.keys().copied().collect();
        assert_eq!(got, expected, "{:#?}", findings.examples);
    }
}

mod goods;

#[test]
fn a_right_run_is_clean() {
    let findings = right().findings();
    assert!(findings.clean(), "{:#?}", findings.examples);
    assert_eq!((findings.seats_sold, findings.seats_held, findings.sales), (2, 2, 1));
}

#[test]
fn a_seat_sold_twice() {
    let mut run = right();
    run.session().sales[0].portion = portion(&[0, 5]);
    run.breaks(&[Breach::Twice, Breach::Lost, Breach::WrongOrder]);
}

#[test]
fn an_acknowledged_order_that_is_gone() {
    let mut run = right();
    run.session().sales.clear();
    run.session().counts = SeatCounts { free: 8, held: 2, sold: 0, blocked: 0 };
    run.audited.carts.clear();
    run.breaks(&[Breach::Lost]);
}

#[test]
fn an_acknowledged_hold_that_is_gone_before_its_deadline() {
    let mut run = right();
    run.session().holds.clear();
    run.session().counts = SeatCounts { free: 8, held: 0, sold: 2, blocked: 0 };
    run.breaks(&[Breach::Lost]);
    run.audited.at = Timestamp(2_000);
    run.breaks(&[]);
}

#[test]
fn a_sale_nobody_asked_for() {
    let mut run = right();
    run.session().sales.push(SaleView {
        order: OrderId(99),
        hold: sold(CartId(99)),
        portion: portion(&[9]),
        at: Timestamp(1),
    });
    run.session().counts = SeatCounts { free: 5, held: 2, sold: 3, blocked: 0 };
    run.breaks(&[Breach::Unexplained]);
}

#[test]
fn a_refused_hold_that_left_something_behind() {
    let mut run = right();
    let left = HoldView {
        hold: HoldId { cart: LATE, request: RequestHash(1), part: 0, attempt: 0 },
        revision: 1,
        deadline: Timestamp(2_000),
        portion: portion(&[2]),
    };
    run.session().holds.push(left);
    run.session().counts = SeatCounts { free: 5, held: 3, sold: 2, blocked: 0 };
    run.breaks(&[Breach::Unexplained]);
}

#[test]
fn a_sale_to_a_cart_that_was_told_no() {
    let mut run = right();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome = CheckoutOutcome::Refused { code: 302 };
    run.breaks(&[Breach::Lost, Breach::Unexplained, Breach::WrongState]);
}

#[test]
fn refused_for_a_seat_that_nobody_had() {
    let mut run = right();
    run.history.carts[2].holds[0].outcome = refused(&[1, 2]);
    run.breaks(&[Breach::RefusedWhileFree]);
    // Refused before the only buyer had even asked.
    let mut run = right();
    run.history.carts[2].holds[0].span = Span { called_us: 5, returned_us: 9 };
    run.breaks(&[Breach::RefusedWhileFree]);
}

#[test]
fn refused_without_naming_every_taken_seat() {
    let mut run = right();
    run.history.carts[2].holds[0] = hold(&[1, 5], 40, 50, refused(&[1]));
    run.breaks(&[Breach::RefusedWhileFree]);
    run.history.carts[2].holds[0] = hold(&[1, 5], 30, 50, refused(&[1]));
    run.breaks(&[]);
}

#[test]
fn an_unknown_hold_explains_a_refusal_and_a_held_seat_but_need_not_be_there() {
    let mut run = right();
    run.history.carts[1].holds[0].outcome = HoldOutcome::Unknown;
    run.history.carts[2].holds[0] = hold(&[2, 5], 40, 50, refused(&[5]));
    run.breaks(&[]);
    run.session().holds.clear();
    run.session().counts = SeatCounts { free: 8, held: 0, sold: 2, blocked: 0 };
    run.breaks(&[]);
}

#[test]
fn an_unknown_checkout_is_right_either_way_but_only_whole() {
    let mut run = right();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome = CheckoutOutcome::Unknown;
    run.breaks(&[]);
    run.session().sales[0].portion = portion(&[0]);
    run.session().counts = SeatCounts { free: 7, held: 2, sold: 1, blocked: 0 };
    run.audited.carts.clear();
    run.breaks(&[Breach::Lost]);
}

#[test]
fn counts_that_are_not_those_of_the_map() {
    let mut run = right();
    run.session().counts.free = 7;
    run.breaks(&[Breach::Miscounted]);
    let mut run = right();
    run.session().counts = SeatCounts { free: 5, held: 2, sold: 3, blocked: 0 };
    run.breaks(&[Breach::Miscounted]);
}

#[test]
fn orders_with_wrong_totals_and_lines() {
    let mut run = right();
    run.history.carts[0].checkout.as_mut().expect("it bought").outcome =
        CheckoutOutcome::Bought { order: BUYER.order(), total: PRICE, sold: vec![] };
    run.breaks(&[Breach::WrongOrder]);
    let mut run = right();
    run.audited.carts[0].cart.total = None;
    run.breaks(&[Breach::WrongOrder]);
    let mut run = right();
    let Content::Seats(seats) = &mut run.audited.carts[0].cart.lines[0].content else { panic!("a line of seats") };
    std::sync::Arc::make_mut(seats)[0].seat = house().seat(9);
    run.breaks(&[Breach::WrongOrder]);
}

#[test]
fn carts_in_wrong_states() {
    let mut run = right();
    run.audited.carts[0].cart.order = None;
    run.breaks(&[Breach::WrongState]);
    let mut run = right();
    run.audited.carts[0].cart.state = CartState::Expired;
    run.audited.carts[0].cart.order = None;
    run.breaks(&[Breach::Lost, Breach::Unexplained]);
}

#[test]
fn versions_told_twice_or_back_in_time() {
    let mut run = right();
    run.history.carts[1].holds[0].outcome = granted(2, 2);
    run.breaks(&[Breach::WrongVersion]);
    // The hold that was answered at 35 µs is told version 9, after a sale that was only asked for at 60 µs and told 4.
    let mut run = right();
    run.history.carts[1].holds[0].outcome = granted(9, 2);
    run.breaks(&[Breach::WrongVersion]);
    let mut run = right();
    run.history.carts[0].versions = vec![1, 3, 3];
    run.breaks(&[Breach::WrongVersion]);
}

#[test]
fn what_is_certain_but_not_sold_yet() {
    let mut run = right();
    let sale = run.session().sales.remove(0);
    run.session().holds.push(HoldView {
        hold: HoldId { cart: BUYER, request: RequestHash(1), part: 0, attempt: 0 },
        revision: 1,
        deadline: Timestamp(2_000),
        portion: sale.portion,
    });
    run.session().counts = SeatCounts { free: 6, held: 4, sold: 0, blocked: 0 };
    run.audited.carts[0].owed = 1;
    run.breaks(&[Breach::Unsettled]);
}

#[test]
fn what_the_server_reports_itself_is_passed_on() {
    let mut run = right();
    run.session().violations.push("P5: seats_free is 7, the map has 6".into());
    run.breaks(&[Breach::Reported]);
    assert_eq!(run.findings().examples, ["reported by the server: session t-s0: P5: seats_free is 7, the map has 6"]);
}
