//! Facts that differ from what buyers were told. Each is named in a sentence.

use boxoffice_client::{
    BoughtAs, CartId, CodeView, Content, Currency, Entity, Id, LineView, PricedSeat, Seat, Timestamp,
};
use boxoffice_workload::house::House;

use super::{
    audit::{Bought, SessionFacts, compare_code, compare_order, compare_session},
    ledger::{Ask, CODE_NOT_VALID, Differences, Ledger, NOT_ON_SALE, PRICE_SOLD_OUT, SEAT_BLOCKED},
    terms::{SaleTerms, TicketKind},
};
use crate::scenario::Scenario;

const OPENS: Timestamp = Timestamp(10_000);
const RELEASED: Timestamp = Timestamp(20_000);

fn terms() -> SaleTerms {
    let small =
        ["house.rows=10", "house.seats=10", "onsale.allotment_rows=1", "onsale.under26_max=2", "onsale.codes=3"];
    let scenario = Scenario::load("onsale", &small.map(str::to_owned)).expect("it is built in");
    let house = House { prefix: "r1".into(), groups: 1, venues: 1, sessions: 1, rows: 10, seats: 10 };
    SaleTerms::new(
        scenario.onsale.as_ref().expect("it has an on-sale"),
        &house,
        Currency::new("EUR").expect("a currency"),
    )
}

fn ask(cart: u128, kinds: &[TicketKind], code: Option<u32>, called_us: u64) -> Ask {
    Ask { cart: CartId(cart), session: 0, kinds: kinds.to_vec(), code, called_us }
}

/// A line with these tickets at their right prices.
fn line(terms: &SaleTerms, tickets: &[((u16, u16), TicketKind, bool)]) -> LineView {
    let priced = |&((row, seat), kind, with_code): &((u16, u16), TicketKind, bool)| {
        let seat = Seat { row, seat };
        let offer = if with_code { Id::new("members").expect("an id") } else { kind.offer() };
        let bought_as = BoughtAs {
            terms: 0,
            list_price: terms.list_price(seat, kind).expect("it is sold"),
            price_type: Some(kind.id()),
            offer: Some(offer),
            tax: None,
            code_group: with_code.then(|| terms.group()),
        };
        let price = terms.price(seat, kind, with_code).expect("it is sold");
        PricedSeat { seat, price, bought_as: Some(bought_as.into()) }
    };
    let seats = Content::Seats(tickets.iter().map(priced).collect());
    LineView::new(1, Entity::Session(terms.house.session_id(0)), seats, false)
}

fn total(line: &LineView) -> i64 {
    line.content.seats().iter().map(|priced| priced.price).sum()
}

/// A ledger with an opening and a release, in which a member, a young buyer and one of the allotment have bought.
fn sold() -> (SaleTerms, Ledger) {
    let terms = terms();
    let ledger = Ledger::new(&terms);
    ledger.opens(0, OPENS);
    let buy = |ask: Ask, line: LineView, node_ms: u64| {
        ledger.ask(&ask);
        ledger.granted(&ask, std::slice::from_ref(&line), (ask.called_us + 5, node_ms));
        ledger.bought(ask.cart, std::slice::from_ref(&line), total(&line));
    };
    let (adult, under26) = (TicketKind::Adult, TicketKind::Under26);
    buy(ask(1, &[adult; 2], Some(0), 10), line(&terms, &[((0, 0), adult, true), ((0, 1), adult, true)]), 1_000);
    buy(ask(2, &[under26], None, 20), line(&terms, &[((3, 4), under26, false)]), 11_000);
    ledger.releases(0, Some(RELEASED), 30);
    buy(ask(3, &[adult; 2], None, 40), line(&terms, &[((9, 0), adult, false), ((9, 1), adult, false)]), 21_000);
    (terms, ledger)
}

/// What a node says that has sold just that.
fn facts() -> SessionFacts {
    let sale = |row, seat, cart: u128, at| (Seat { row, seat }, CartId(cart).order(), Timestamp(at));
    SessionFacts {
        sold: 5,
        counted: 1,
        is_released: true,
        sales: vec![
            sale(0, 0, 1, 1_010),
            sale(0, 1, 1, 1_010),
            sale(3, 4, 2, 11_010),
            sale(9, 0, 3, 21_010),
            sale(9, 1, 3, 21_010),
        ],
        ..SessionFacts::default()
    }
}

#[track_caller]
fn session_differs(change: impl FnOnce(&mut SessionFacts), sentences: &[&str]) {
    let (terms, ledger) = sold();
    let (carts, mut differences) = ledger.take();
    let mut facts = facts();
    change(&mut facts);
    compare_session(&terms, 0, (Some(OPENS), Some(RELEASED)), &facts, &Bought::of(&carts), &mut differences);
    assert_eq!(differences.sentences(), sentences);
}

#[test]
fn a_right_sale_has_no_differences() {
    let (terms, ledger) = sold();
    session_differs(|_| {}, &[]);
    let (carts, mut differences) = ledger.take();
    let bought = Bought::of(&carts);
    let code = |sold| CodeView { group: terms.group(), uses: 2, ended: false, by_order: false, held: 0, sold };
    compare_code(&terms, 0, &code(2), bought.uses[&0], &mut differences);
    compare_code(&terms, 1, &code(0), 0, &mut differences);
    assert_eq!(differences.sentences(), [""; 0]);
}

#[test]
fn prices_are_those_of_the_table() {
    let terms = terms();
    let price = |row, kind, with_code| terms.price(Seat { row, seat: 0 }, kind, with_code);
    assert_eq!(price(0, TicketKind::Adult, false), Some(9_000));
    assert_eq!(price(0, TicketKind::Adult, true), Some(7_200));
    assert_eq!(price(9, TicketKind::Under26, false), Some(1_250));
    assert_eq!(price(9, TicketKind::Carer, false), None, "carers sit in the first two categories");
    assert_eq!(price(10, TicketKind::Adult, false), None, "there is no such row");
}

#[test]
fn a_session_that_differs_is_named() {
    session_differs(
        |facts| facts.sold = 6,
        &["a session has sold another number of seats than buyers were told: 6 of r1-s0, and 5"],
    );
    session_differs(
        |facts| facts.counted = 2,
        &["the pool counts another number than was sold of it: 2 of r1-s0, and 1 are sold"],
    );
    session_differs(
        |facts| facts.sales[2].2 = Timestamp(9_000),
        &["a seat was sold to everybody before the opening: row 4 seat 5 of r1-s0, 1 000 ms before"],
    );
    session_differs(
        |facts| facts.sales[4].2 = Timestamp(19_900),
        &["a seat of an allotment was sold before its release: row 10 seat 2 of r1-s0, 100 ms before"],
    );
    session_differs(
        |facts| {
            let again = facts.sales[0];
            facts.sales.push(again);
        },
        &["a seat is sold twice: row 1 seat 1 of r1-s0"],
    );
    session_differs(
        |facts| facts.sales[0].1 = CartId(7).order(),
        &["a seat is sold to another cart than the one that was told so: row 1 seat 1 of r1-s0 to \
           00000000000000000000000000000007, and the cart of 00000000000000000000000000000001 was told so"],
    );
    session_differs(
        |facts| {
            facts.sales.remove(3);
        },
        &["a seat that was bought is not sold: row 10 seat 1 of r1-s0 of cart 00000000000000000000000000000003"],
    );
    session_differs(
        |facts| (facts.is_released, facts.kept) = (false, 8),
        &["an allotment is not released in the end: 8 seats of r1-s0 are kept"],
    );
}

#[test]
fn a_code_that_differs_is_named() {
    let terms = terms();
    let differs = |held, sold, told| {
        let mut differences = Differences::default();
        let view = CodeView { group: terms.group(), uses: 2, ended: false, by_order: false, held, sold };
        compare_code(&terms, 1, &view, told, &mut differences);
        differences.sentences()
    };
    assert_eq!(
        differs(0, 1, 2),
        ["a code has another number of uses than tickets were bought with it: 1 of r1-CODE-1, and 2 tickets"]
    );
    assert_eq!(differs(0, 3, 3), ["a code has more uses than it may: 3 tickets with r1-CODE-1, which has 2"]);
    assert_eq!(differs(1, 1, 1), ["a code has uses in carts in the end: 1 of r1-CODE-1"]);
}

#[test]
fn an_order_that_differs_is_named() {
    let (terms, ledger) = sold();
    let (carts, _) = ledger.take();
    let differs = |lines: &[LineView], total: i64| {
        let mut differences = Differences::default();
        compare_order(&terms, (CartId(2), &carts[&CartId(2)]), Some((total, lines)), &mut differences);
        differences.sentences()
    };
    let right = line(&terms, &[((3, 4), TicketKind::Under26, false)]);
    assert_eq!(differs(std::slice::from_ref(&right), 3_500), [""; 0]);
    let cart = CartId(2);
    assert_eq!(
        differs(std::slice::from_ref(&right), 3_400),
        [
            format!(
                "an order costs something else than its tickets in the table: {cart}: 34.00, and the table says 35.00"
            ),
            format!(
                "an order is another one than its buyer was told: {cart}: row 4 seat 5 as under26 for 35.00 instead of \
                 row 4 seat 5 as under26 for 35.00, for 34.00"
            ),
        ]
    );
    let mut differences = Differences::default();
    compare_order(&terms, (cart, &carts[&cart]), None, &mut differences);
    assert_eq!(differences.sentences(), [format!("an order is lost: the one of cart {cart}")]);
}

/// What the ledger finds by itself, while buyers are answered.
#[test]
fn a_wrong_answer_is_named() {
    let differs = |answer: &dyn Fn(&SaleTerms, &Ledger)| {
        let (terms, ledger) = sold();
        answer(&terms, &ledger);
        ledger.take().1.sentences()
    };
    let refused = |kinds: &'static [TicketKind], code, called_us, refusal| {
        differs(&move |_: &SaleTerms, ledger: &Ledger| {
            let ask = ask(9, kinds, code, called_us);
            ledger.ask(&ask);
            ledger.refused(&ask, refusal);
        })
    };
    // The first young buyer was granted at 25, and the first seat of the allotment at 45.
    let (young, none) = (&[TicketKind::Under26], [""; 0]);
    assert_eq!(refused(young, None, 24, NOT_ON_SALE), none);
    let late = "a buyer was refused as not on sale after the same offer had sold: under26 of r1-s0";
    assert_eq!(refused(young, None, 26, NOT_ON_SALE), [late]);
    assert_eq!(refused(&[TicketKind::Carer], None, 99, NOT_ON_SALE), none, "another offer");
    assert_eq!(refused(&[TicketKind::Adult], None, 44, SEAT_BLOCKED), none);
    assert_eq!(
        refused(&[TicketKind::Adult], None, 46, SEAT_BLOCKED),
        ["a seat was blocked after the allotment had sold: r1-s0"]
    );
    assert_eq!(
        refused(young, None, 50, PRICE_SOLD_OUT),
        ["a buyer was refused while the pool had room: 1 of r1-s0, of which at most 1 were taken"]
    );
    assert_eq!(refused(&[TicketKind::Under26; 2], None, 50, PRICE_SOLD_OUT), none, "one is left, and two are wanted");
    assert_eq!(refused(&[TicketKind::Adult], Some(1), 50, CODE_NOT_VALID), none);

    let granted =
        |tickets: &'static [((u16, u16), TicketKind, bool)], code, node_ms, change: &dyn Fn(LineView) -> LineView| {
            differs(&|terms: &SaleTerms, ledger: &Ledger| {
                let kinds: Vec<TicketKind> = tickets.iter().map(|(_, kind, _)| *kind).collect();
                let ask = ask(9, &kinds, code, 60);
                ledger.ask(&ask);
                ledger.granted(&ask, &[change(line(terms, tickets))], (65, node_ms));
            })
        };
    let same = |line: LineView| line;
    assert_eq!(
        granted(&[((5, 0), TicketKind::Adult, false)], None, 9_000, &same),
        ["a ticket was sold to everybody before the opening: row 6 seat 1 as adult of r1-s0, 1 000 ms before"]
    );
    assert_eq!(
        granted(&[((9, 5), TicketKind::Adult, false)], None, 19_000, &same),
        ["a seat of an allotment was granted before its release: row 10 seat 6 as adult of r1-s0"]
    );
    assert_eq!(
        granted(&[((5, 0), TicketKind::Adult, true)], None, 12_000, &same),
        ["a ticket was sold for a code that nobody showed: row 6 seat 1 as adult with a code of r1-s0"]
    );
    let dearer = |line: LineView| {
        let seats = line.content.seats().iter().map(|priced| PricedSeat { price: priced.price + 1, ..priced.clone() });
        LineView { content: Content::Seats(seats.collect()), ..line.clone() }
    };
    assert_eq!(
        granted(&[((5, 0), TicketKind::Adult, false)], None, 12_000, &dearer),
        [
            "a ticket has another price than the table: 50.01 for row 6 seat 1 as adult of r1-s0, and the table says 50.00"
        ]
    );
}
