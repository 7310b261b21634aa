use std::sync::Arc;

use boxoffice_client::{
    CartId, CartState, CartView, Content, Currency, Entity, Id, Layout, LineView, Money, NewSession, No, Order,
    PaymentStatus, PricedSeat, Seat, SeatCounts, SeatState, SessionView, Timestamp, recorded,
};
use boxoffice_core::layout::{Labels, Row, Run};
use expect_test::expect;

use super::{
    input::Input,
    receipt,
    state::{PurchaseState, countdown},
    unpack,
};
use crate::draw::DrawOptions;

const OPTIONS: DrawOptions = DrawOptions { colours: false, columns: 60 };

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

fn euro() -> Currency {
    Currency::new("EUR").expect("a currency")
}

/// Two rows of six: the middle ones are premium.
fn session() -> SessionView {
    let run = |first, category| Run {
        gap: 0,
        count: 2,
        labels: Labels::Numbers { first, step: 1 },
        category: id(category),
        accessible: false,
        points: Vec::new(),
    };
    let row = |label: &str| Row {
        label: label.into(),
        section: None,
        runs: vec![run(1, "standard"), run(3, "premium"), run(5, "standard")],
    };
    let price = |amount| Money { amount, currency: euro() };
    SessionView {
        venue: id("royal"),
        session: NewSession {
            id: id("hamlet-tonight"),
            hall: id("main"),
            title: id("hamlet"),
            starts_at: Timestamp(1_798_140_600_000),
            ends_at: Timestamp(1_798_150_600_000),
            prices: vec![(id("premium"), price(2500)), (id("standard"), price(1000))],
            extras: Default::default(),
        },
        canceled: None,
        area_counts: Vec::new(),
        counts: SeatCounts { free: 12, held: 0, sold: 0, blocked: 0 },
        layout: Arc::new(Layout::new(vec![row("A"), row("B")], None).expect("a layout")),
        zone: None,
        sale: None,
    }
}

fn state() -> PurchaseState {
    let mut state = PurchaseState::new(session());
    state.plan.states = vec![SeatState::Free; 12];
    state
}

fn line(number: u32, row: u16, seats: &[(u16, i64)]) -> LineView {
    let seats = seats.iter().map(|(seat, price)| PricedSeat::new(Seat { row, seat: *seat }, *price));
    LineView::new(number, Entity::Session(id("hamlet-tonight")), Content::Seats(seats.collect()), false)
}

fn page(state: &PurchaseState, at: u64) -> String {
    let page = state.page(Timestamp(at), &OPTIONS);
    [page.head, page.body, page.foot].concat().join("\n") + "\n"
}

#[test]
fn the_page_before_and_after_a_hold() {
    let mut state = state();
    state.typed = "b2".into();
    expect![[r#"
        hamlet-tonight: hamlet, royal / main, 2026-12-24 19:30 UTC
        12 free, 0 held, 0 sold, 0 blocked   live

                  stage
        A   1  2  3  4  5  6   standard 1–2 5–6, premium 3–4
        B   1  2  3  4  5  6   standard 1–2 5–6, premium 3–4

        ▒ held   █ sold   × blocked
        standard 10.00 EUR: 8 free
        premium 25.00 EUR: 4 free

        Which seats? Like B5 B6 or B5-B8; best 3 takes the best 3 adjacent seats; q leaves
        > b2
    "#]]
    .assert_eq(&page(&state, 0));
    for index in [7, 8, 9] {
        state.plan.states[index] = SeatState::Held;
    }
    state.set_lines(vec![line(0, 1, &[(1, 1000), (2, 2500), (3, 2500)])]);
    state.deadline = Some(Timestamp(1_800_000));
    state.typed.clear();
    state.message = "A1 is sold".into();
    expect![[r#"
        hamlet-tonight: hamlet, royal / main, 2026-12-24 19:30 UTC
        9 free, 3 held, 0 sold, 0 blocked   live

                  stage
        A   1  2  3  4  5  6   standard 1–2 5–6, premium 3–4
        B   1 ●● ●● ●●  5  6   standard 1–2 5–6, premium 3–4

        ▒ held   █ sold   × blocked   ● yours
        standard 10.00 EUR: 7 free
        premium 25.00 EUR: 2 free

        B2: 10.00 EUR
        B3, B4: 2 × 25.00 EUR = 50.00 EUR
        Total 60.00 EUR   held for 29:59 more
        A1 is sold
        Enter buys them, b gives them back (b B5: only that one), more seats add to them, q leaves
        > 
    "#]]
    .assert_eq(&page(&state, 1_000));
    state.connected = false;
    state.waiting = true;
    assert!(page(&state, 1_000).contains("reconnecting …"));
    assert_eq!(state.lines_of(&[8, 0]), [(0, vec![Seat { row: 1, seat: 2 }])]);
}

#[test]
fn an_ended_cart_leaves_no_hold() {
    let mut state = state();
    let mut cart = CartView {
        id: CartId(7),
        state: CartState::Active,
        customer: None,
        opened_at: Timestamp(0),
        modified_at: Timestamp(0),
        deadline: Timestamp(1_000),
        lines: vec![line(0, 0, &[(0, 1000)])],
        lines_version: 0,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    };
    state.take_cart(&cart);
    assert_eq!((state.holding(), state.deadline), (true, Some(Timestamp(1_000))));
    // An expired cart keeps its lines as history.
    cart.state = CartState::Expired;
    state.take_cart(&cart);
    assert_eq!((state.holding(), state.deadline, state.plan.own.len()), (false, None, 0));
}

#[test]
fn the_countdown_never_shows_too_much() {
    let left = |span: u64| countdown(Timestamp(10_000_000 + span), Timestamp(10_000_000));
    assert_eq!(left(1_800_000), "held for 30:00 more");
    assert_eq!(left(59_001), "held for 1:00 more");
    assert_eq!(left(59_000), "held for 0:59 more");
    assert_eq!(left(1), "held for 0:01 more");
    assert_eq!(left(0), "the time is up");
    assert_eq!(left(3_600_000), "held for 1:00:00 more");
    assert_eq!(countdown(Timestamp(1), Timestamp(2)), "the time is up");
}

#[test]
fn seats_that_are_given_back_keep_their_case() {
    let rows = session().layout.rows().to_vec();
    let lower = Row { label: "a".into(), ..rows[0].clone() };
    let names = crate::draw::Names::of(&Layout::new(vec![rows[0].clone(), lower], None).expect("a layout"));
    for (words, seat) in [("b A2", 1), ("b a2", 7), ("back a2", 7)] {
        assert_eq!(Input::read(words, &names, true), Ok(Input::GiveBack(Some(vec![seat]))), "{words}");
    }
}

#[test]
fn input_depends_on_the_hold() {
    let names = crate::draw::Names::of(&session().layout);
    let inputs =
        ["", "yes", "b", "b b2", "q", "B2 B3", "b2-b4", "best 3", "3 best", "3", "best", "best 21", "0", "C1", "b c9"];
    let read = |words: &&str, holding| match Input::read(words, &names, holding) {
        Ok(input) => format!("{input:?}"),
        Err(why) => format!("no: {why}"),
    };
    let table: Vec<String> =
        inputs.iter().map(|words| format!("{words:?}: {} | {}", read(words, false), read(words, true))).collect();
    expect![[r#"
        "": Nothing | Buy
        "yes": no: nothing is held yet; name seats first | Buy
        "b": no: nothing is held yet; name seats first | GiveBack(None)
        "b b2": no: nothing is held yet; name seats first | GiveBack(Some([7]))
        "q": Leave | Leave
        "B2 B3": Seats([7, 8]) | Seats([7, 8])
        "b2-b4": Seats([7, 8, 9]) | Seats([7, 8, 9])
        "best 3": Best(3) | Best(3)
        "3 best": Best(3) | Best(3)
        "3": Best(3) | Best(3)
        "best": Best(1) | Best(1)
        "best 21": no: 21: how many of the best seats? 1 to 20 | no: 21: how many of the best seats? 1 to 20
        "0": no: 0: how many of the best seats? 1 to 20 | no: 0: how many of the best seats? 1 to 20
        "C1": no: there is no seat C1; seats are called by row and seat, like A1 | no: there is no seat C1; seats are called by row and seat, like A1
        "b c9": no: nothing is held yet; name seats first | no: there is no seat c9; seats are called by row and seat, like A1
    "#]].assert_eq(&(table.join("\n") + "\n"));
}

#[test]
fn refusals_name_seats_and_their_states() {
    let (layout, names) = (session().layout, crate::draw::Names::of(&session().layout));
    let seats = [1, 2, 3, 4].map(|seat| Seat { row: 1, seat }).to_vec();
    let states = vec![SeatState::Held, SeatState::Sold, SeatState::Sold, SeatState::Blocked];
    let no = No { code: 201, name: "seats_taken".into(), message: "taken".into(), seats, states, ..No::default() };
    expect!["B2 is held by another buyer; B3, B4 are sold; B5 is blocked"]
        .assert_eq(&receipt::refusal(&no, &layout, &names));
    let unstated = No { states: Vec::new(), ..no.clone() };
    assert_eq!(receipt::refusal(&unstated, &layout, &names), "B2–B5");
    let unseated = No { seats: Vec::new(), ..unstated };
    assert_eq!(receipt::refusal(&unseated, &layout, &names), "taken");
}

#[test]
fn an_order_is_a_receipt() {
    let order = Order {
        id: CartId(0xbeef).order(),
        customer: None,
        at: Timestamp(1_798_140_600_000),
        lines: vec![line(0, 1, &[(1, 1000), (2, 2500), (3, 2500)]), line(1, 0, &[(0, 1000)])],
        total: Money { amount: 7000, currency: euro() },
        payment: recorded("terminal", ""),
        shipping: None,
        settling: true,
        payment_status: PaymentStatus::Recorded,
        refunds: Vec::new(),
        taxes: Vec::new(),
        sessions: Vec::new(),
    };
    let session = session();
    let names = crate::draw::Names::of(&session.layout);
    let words = receipt::order(&order, &session.layout, &names);
    expect![[r#"
        Sold. Order 0000000000000000000000000000beef, 2026-12-24 19:30 UTC
          A1, B2: 2 × 10.00 EUR = 20.00 EUR
          B3, B4: 2 × 25.00 EUR = 50.00 EUR
          total 70.00 EUR
        The seats are yours for certain; the map shows them as sold in a moment.
    "#]]
    .assert_eq(&(words.join("\n") + "\n"));
}

#[test]
fn packed_maps_are_two_bits_a_seat() {
    use SeatState::{Blocked, Free, Held, Sold};
    assert_eq!(unpack(&[0b11_10_01_00, 0b01], 5), [Free, Held, Sold, Blocked, Held]);
    assert_eq!(unpack(&[0], 5), [Free, Free, Free, Free, Blocked], "missing seats are not for sale");
}
