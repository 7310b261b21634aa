//! The same for units, bookings, purchases and charges: a right run, then broken one way at a time.

use boxoffice_core::answer::{BookingState, BookingView, CustomerAudit, ProductAudit, ResourceAudit, StockCounts};

use super::*;
use crate::{
    goods::{Good, Span as Slot},
    history::{Change, ChangeOutcome, ChangeRecord, TakeOutcome, TakeRecord},
};

fn goods() -> Goods {
    let shop = Goods { products: 1, stock: 10, unit_price: 100, ..Goods::default() };
    Goods { prefix: "t".into(), resources: 1, customers: 1, ..shop }
}

fn slot(begin: u64, end: u64) -> Slot {
    Slot { begin: Timestamp(begin), end: Timestamp(end) }
}

fn take(quantity: u32, outcome: TakeOutcome) -> TakeRecord {
    let span = Span { called_us: 10, returned_us: 20 };
    TakeRecord { good: Good::Product(0), quantity, span, outcome }
}

fn change(booking: u32, change: Change, at_us: u64, outcome: ChangeOutcome) -> ChangeRecord {
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

/// Cart 1 bought 3 units through the gateway for customer 0, cart 2 holds 2, cart 3 was refused 9. Booking 0 was moved from
/// 0–10 to 20–30; booking 1 was refused at 5–8 before that; booking 2 came and went.
struct GoodsRun {
    history: History,
    audited: Audited,
}

fn right_goods() -> GoodsRun {
    let granted = TakeOutcome::Granted { deadline: Timestamp(2_000) };
    let bought = CheckoutOutcome::Bought { order: BUYER.order(), total: 300, sold: vec![] };
    let buyer = CartRecord {
        takes: vec![take(1, granted), take(2, granted)],
        customer: Some(0),
        gateway: true,
        checkout: Some(CheckoutRecord { span: Span { called_us: 60, returned_us: 70 }, outcome: bought }),
        ..CartRecord::new(BUYER)
    };
    let holder = CartRecord { takes: vec![take(2, granted)], ..CartRecord::new(HOLDER) };
    let refused = TakeOutcome::Refused { code: 401, free: Some(5) };
    let late = CartRecord { takes: vec![take(9, refused)], ..CartRecord::new(LATE) };
    let changes = vec![
        change(0, Change::Reserve(slot(0, 10)), 10, ChangeOutcome::Done),
        change(1, Change::Reserve(slot(5, 8)), 20, ChangeOutcome::Refused { code: 501 }),
        change(0, Change::Move(slot(20, 30)), 30, ChangeOutcome::Done),
        change(2, Change::Reserve(slot(40, 50)), 40, ChangeOutcome::Done),
        change(2, Change::Cancel, 50, ChangeOutcome::Done),
    ];
    let hold = |cart| HoldId { cart, request: RequestHash(1), part: 0, attempt: 0 };
    let holds =
        vec![HoldView { hold: hold(HOLDER), revision: 1, deadline: Timestamp(2_000), portion: Portion::Units(2) }];
    let sales =
        vec![SaleView { order: BUYER.order(), hold: hold(BUYER), portion: Portion::Units(3), at: Timestamp(500) }];
    let counts = StockCounts { free: 5, held: 2, sold: 3 };
    let product = ProductAudit { product: goods().product_id(0), counts, holds, sales, violations: vec![] };
    let resource = ResourceAudit {
        resource: goods().resource_id(0),
        bookings: 1,
        holds: vec![],
        sales: vec![],
        violations: vec![],
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
    let audited = Audited {
        products: [(0, product)].into(),
        resources: [(0, (resource, vec![listed(0, 20, 30)]))].into(),
        customers: [(0, customer)].into(),
        charges: Some(vec![charge]),
        at: Timestamp(1_000),
        ..Audited::default()
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
    fn breaks(&self, expected: &[Breach]) {
        let sold = Sold { house: &house(), price: PRICE, goods: &goods() };
        let findings = check(sold, &self.history, &self.audited);
        let got: Vec<Breach> = findings.breaches.keys().copied().collect();
        assert_eq!(got, expected, "{:#?}", findings.examples);
    }
}

#[test]
fn a_right_run_with_goods_is_clean() {
    right_goods().breaks(&[]);
}

#[test]
fn units_that_are_lost_unexplained_or_miscounted() {
    let mut run = right_goods();
    run.product().sales[0].portion = Portion::Units(2);
    run.product().counts = StockCounts { free: 6, held: 2, sold: 2 };
    run.breaks(&[Breach::Lost]);
    let mut run = right_goods();
    run.product().holds[0].portion = Portion::Units(4);
    run.product().counts = StockCounts { free: 3, held: 4, sold: 3 };
    run.breaks(&[Breach::Unexplained]);
    let mut run = right_goods();
    run.product().counts.free = 6;
    run.breaks(&[Breach::Miscounted]);
}

#[test]
fn units_that_are_refused_although_free() {
    let mut run = right_goods();
    run.history.carts[2].takes[0].quantity = 5;
    run.breaks(&[Breach::RefusedWhileFree]);
}

#[test]
fn an_unknown_take_is_right_either_way() {
    let mut run = right_goods();
    run.history.carts[1].takes[0].outcome = TakeOutcome::Unknown;
    run.breaks(&[]);
    run.product().holds.clear();
    run.product().counts = StockCounts { free: 7, held: 0, sold: 3 };
    run.breaks(&[]);
}

#[test]
fn what_was_declined_is_given_back_and_not_charged() {
    let mut run = right_goods();
    let outcome = CheckoutOutcome::Refused { code: 601 };
    run.history.carts[0].checkout = Some(CheckoutRecord { span: Span::default(), outcome });
    run.breaks(&[Breach::Unexplained, Breach::WrongPurchases, Breach::WrongCharge]);
    run.product().sales.clear();
    run.product().counts = StockCounts { free: 8, held: 2, sold: 0 };
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.clear();
    run.audited.charges = Some(vec![]);
    run.breaks(&[]);
}

#[test]
fn bookings_that_are_lost_unexplained_or_overlap() {
    let mut run = right_goods();
    run.bookings().clear();
    run.breaks(&[Breach::Lost, Breach::Miscounted]);
    let mut run = right_goods();
    run.bookings()[0] = listed(0, 0, 10);
    run.breaks(&[Breach::Unexplained]);
    let mut run = right_goods();
    run.bookings().push(listed(2, 29, 31));
    run.breaks(&[Breach::Twice, Breach::Unexplained, Breach::Miscounted]);
}

#[test]
fn a_time_that_is_refused_although_nobody_had_it() {
    let mut run = right_goods();
    // After booking 0 was moved away, and answered so.
    run.history.changes[1].span = Span { called_us: 36, returned_us: 40 };
    run.breaks(&[Breach::RefusedWhileFree]);
}

#[test]
fn an_order_that_stands_twice_or_not_with_its_customer() {
    let mut run = right_goods();
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.push(BUYER.order());
    run.breaks(&[Breach::WrongPurchases]);
    run.audited.customers.get_mut(&0).expect("customer 0 is audited").purchases.clear();
    run.breaks(&[Breach::WrongPurchases]);
}

#[test]
fn an_order_that_was_not_charged_or_twice() {
    let mut run = right_goods();
    let charge = Charge { cart: BUYER, authorized: 0, captured: 300, refunded: 0 };
    run.audited.charges = Some(vec![charge, charge]);
    run.breaks(&[Breach::WrongCharge]);
    run.audited.charges = Some(vec![]);
    run.breaks(&[Breach::WrongCharge]);
    run.audited.charges = Some(vec![Charge { authorized: 300, captured: 0, ..charge }]);
    run.breaks(&[Breach::Unsettled]);
}
