//! The same for units, bookings, purchases and charges: a correct run, then broken in one way at a time.

use boxoffice_core::answer::StockCounts;
use boxoffice_wire::view::{BookingState, BookingView, CustomerAudit, ProductAudit, ResourceAudit};

use super::*;
use crate::{
    goods::{Good, Slot},
    history::{BookingChange, ChangeRecord, GoodsHoldOutcome, GoodsHoldRecord},
};

fn goods() -> Goods {
    let products = Goods { products: 1, stock: 10, unit_price: 100, ..Goods::default() };
    Goods { prefix: "t".into(), resources: 1, customers: 1, ..products }
}

fn slot(begin: u64, end: u64) -> Slot {
    Slot { begin: Timestamp(begin), end: Timestamp(end) }
}

fn goods_hold(quantity: u32, outcome: GoodsHoldOutcome) -> GoodsHoldRecord {
    let span = Span { called_us: 10, returned_us: 20 };
    GoodsHoldRecord { good: Good::Product(0), quantity, span, outcome }
}

fn change(booking: u32, change: BookingChange, at_us: u64, outcome: Outcome<()>) -> ChangeRecord {
    let span = Span { called_us: at_us, returned_us: at_us + 5 };
    ChangeRecord { resource: 0, booking, change, span, outcome }
}

fn listed(booking: u32, begin: u64, end: u64) -> BookingView {
    BookingView {
        booking: goods().booking_id(booking).as_str().into(),
        begin: Timestamp(begin),
        end: Timestamp(end),
        state: BookingState::Reserved,
        details: "".into(),
        order: None,
    }
}

/// Cart 1 bought 3 units through the gateway for customer 0, cart 2 holds 2, cart 3 was refused 9. Booking 0 was moved
/// from 0–10 to 20–30. Before that, booking 1 was refused at 5–8. Booking 2 was made and canceled.
struct GoodsRun {
    history: History,
    audited: AuditedState,
}

fn correct_goods_run() -> GoodsRun {
    let granted = Outcome::Granted(Timestamp(2_000));
    let bought = Outcome::Granted(Bought { order: BUYER.order(), total: 300, sold: vec![] });
    let buyer = CartRecord {
        goods_holds: vec![goods_hold(1, granted), goods_hold(2, granted)],
        customer: Some(0),
        gateway: true,
        checkout: Some(CheckoutRecord { span: Span { called_us: 60, returned_us: 70 }, outcome: bought }),
        ..CartRecord::new(BUYER)
    };
    let holder = CartRecord { goods_holds: vec![goods_hold(2, granted)], ..CartRecord::new(HOLDER) };
    let refused = Outcome::Refused { code: 401, more: Some(5) };
    let late = CartRecord { goods_holds: vec![goods_hold(9, refused)], ..CartRecord::new(LATE) };
    let changes = vec![
        change(0, BookingChange::Reserve(slot(0, 10)), 10, Outcome::Granted(())),
        change(1, BookingChange::Reserve(slot(5, 8)), 20, Outcome::Refused { code: 501, more: () }),
        change(0, BookingChange::Move(slot(20, 30)), 30, Outcome::Granted(())),
        change(2, BookingChange::Reserve(slot(40, 50)), 40, Outcome::Granted(())),
        change(2, BookingChange::Cancel, 50, Outcome::Granted(())),
    ];
    let hold = |cart| HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 };
    let holds = vec![HoldView {
        hold: hold(HOLDER),
        revision: 1,
        deadline: Timestamp(2_000),
        portion: Portion::Units(2),
        customer: None,
        since: None,
    }];
    let sales = vec![SaleView {
        order: BUYER.order(),
        hold: hold(BUYER),
        portion: Portion::Units(3),
        at: Timestamp(500),
        customer: None,
    }];
    let counts = StockCounts { free: 5, held: 2, sold: 3 };
    let product =
        ProductAudit { product: goods().product_id(0), counts, holds, sales, violations: vec![], holders: Vec::new() };
    let resource = ResourceAudit {
        resource: goods().resource_id(0),
        bookings: 1,
        holds: vec![],
        sales: vec![],
        violations: vec![],
        holders: Vec::new(),
    };
    let customer = CustomerAudit {
        customer: goods().customer_id(0),
        quotas: vec![],
        holds: vec![],
        sales: vec![],
        purchases: vec![BUYER.order()],
        violations: vec![],
    };
    let charge = Charge { cart: BUYER, authorized: 0, captured: 300, refunded: 0 };
    let audited = AuditedState {
        products: [(0, product)].into(),
        resources: [(0, (resource, vec![listed(0, 20, 30)]))].into(),
        customers: [(0, customer)].into(),
        charges: Some(vec![charge]),
        at: Timestamp(1_000),
        ..AuditedState::default()
    };
    GoodsRun { history: History { carts: vec![buyer, holder, late], changes }, audited }
}

impl GoodsRun {
    fn product(&mut self) -> &mut ProductAudit {
        self.audited.products.get_mut(&0).expect("product 0 is audited")
    }

    fn bookings(&mut self) -> &mut Vec<BookingView> {
        &mut self.audited.resources.get_mut(&0).expect("resource 0 is audited").1
    }

    #[track_caller]
    fn assert_breaches(&self, expected: &[Breach]) {
        let inventory = RunInventory { house: &house(), price: PRICE, goods: &goods() };
        let findings = check(inventory, &self.history, &self.audited);
        let got: Vec<Breach> = findings.breaches.keys().copied().collect();
        assert_eq!(got, expected, "{:#?}", findings.examples);
    }
}

#[test]
fn a_correct_run_with_goods_has_no_breaches() {
    correct_goods_run().assert_breaches(&[]);
}

#[test]
fn units_that_are_lost_unexplained_or_miscounted() {
    let mut run = correct_goods_run();
    run.product().sales[0].portion = Portion::Units(2);
    run.product().counts = StockCounts { free: 6, held: 2, sold: 2 };
    run.assert_breaches(&[Breach::Lost]);
    let mut run = correct_goods_run();
    run.product().holds[0].portion = Portion::Units(4);
    run.product().counts = StockCounts { free: 3, held: 4, sold: 3 };
    run.assert_breaches(&[Breach::Unexplained]);
    let mut run = correct_goods_run();
    run.product().counts.free = 6;
    run.assert_breaches(&[Breach::Miscounted]);
}

#[test]
fn units_that_are_refused_although_free() {
    let mut run = correct_goods_run();
    run.history.carts[2].goods_holds[0].quantity = 5;
    run.assert_breaches(&[Breach::RefusedWhileFree]);
}

#[test]
fn an_unknown_goods_hold_may_have_happened_or_not() {
    let mut run = correct_goods_run();
    run.history.carts[1].goods_holds[0].outcome = Outcome::Unknown;
    run.assert_breaches(&[]);
    run.product().holds.clear();
    run.product().counts = StockCounts { free: 7, held: 0, sold: 3 };
    run.assert_breaches(&[]);
}

#[test]
fn a_declined_cart_is_released_and_not_charged() {
    let mut run = correct_goods_run();
    let outcome = Outcome::Refused { code: 601, more: () };
    run.history.carts[0].checkout = Some(CheckoutRecord { span: Span::default(), outcome });
    run.assert_breaches(&[Breach::Unexplained, Breach::WrongPurchases, Breach::WrongCharge]);
    run.product().sales.clear();
    run.product().counts = StockCounts { free: 8, held: 2, sold: 0 };
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.clear();
    run.audited.charges = Some(vec![]);
    run.assert_breaches(&[]);
}

#[test]
fn bookings_that_are_lost_unexplained_or_overlap() {
    let mut run = correct_goods_run();
    run.bookings().clear();
    run.assert_breaches(&[Breach::Lost, Breach::Miscounted]);
    let mut run = correct_goods_run();
    run.bookings()[0] = listed(0, 0, 10);
    run.assert_breaches(&[Breach::Unexplained]);
    let mut run = correct_goods_run();
    run.bookings().push(listed(2, 29, 31));
    run.assert_breaches(&[Breach::Twice, Breach::Unexplained, Breach::Miscounted]);
}

#[test]
fn a_slot_that_is_refused_although_free() {
    let mut run = correct_goods_run();
    // The refusal comes after the answer that booking 0 was moved away.
    run.history.changes[1].span = Span { called_us: 36, returned_us: 40 };
    run.assert_breaches(&[Breach::RefusedWhileFree]);
}

#[test]
fn an_order_that_is_twice_or_not_among_its_customers_purchases() {
    let mut run = correct_goods_run();
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.push(BUYER.order());
    run.assert_breaches(&[Breach::WrongPurchases]);
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.clear();
    run.assert_breaches(&[Breach::WrongPurchases]);
}

#[test]
fn an_order_that_was_charged_twice_or_not() {
    let mut run = correct_goods_run();
    let charge = Charge { cart: BUYER, authorized: 0, captured: 300, refunded: 0 };
    run.audited.charges = Some(vec![charge, charge]);
    run.assert_breaches(&[Breach::WrongCharge]);
    run.audited.charges = Some(vec![]);
    run.assert_breaches(&[Breach::WrongCharge]);
    run.audited.charges = Some(vec![Charge { authorized: 300, captured: 0, ..charge }]);
    run.assert_breaches(&[Breach::Unsettled]);
}
