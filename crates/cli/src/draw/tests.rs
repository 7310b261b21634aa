use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{
    id::Id,
    layout::{Labels, Layout, Point, Row, Run},
    money::{Currency, Money},
    seat::SeatState,
};
use expect_test::{Expect, expect};

use super::{DrawOptions, Names, Plan, draw, house};

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

fn run(gap: u16, count: u16, first: i32, category: &str) -> Run {
    let labels = Labels::Numbers { first, step: 1 };
    Run { gap, count, labels, category: id(category), accessible: false, points: Vec::new() }
}

fn row(label: &str, section: Option<&str>, runs: Vec<Run>) -> Row {
    Row { label: label.into(), section: section.map(id), runs }
}

fn layout(rows: Vec<Row>) -> Layout {
    Layout::new(rows, None).expect("a layout")
}

fn royal() -> Layout {
    layout(["A", "B", "C", "D", "E"].map(|label| row(label, None, vec![run(0, 16, 1, "standard")])).into())
}

/// Rows of one to five seats (TH), the last with an aisle and a wheelchair place, then a balcony.
fn ragged() -> Layout {
    let mut rows: Vec<Row> =
        (1..5).map(|count| row(&count.to_string(), Some("stalls"), vec![run(0, count, 1, "standard")])).collect();
    let mut wheelchair = run(1, 1, 5, "premium");
    wheelchair.accessible = true;
    rows.push(row("5", Some("stalls"), vec![run(0, 2, 1, "standard"), run(1, 2, 3, "premium"), wheelchair]));
    rows.push(row("1", Some("balcony"), vec![run(0, 6, 1, "cheap")]));
    layout(rows)
}

fn plan(layout: Layout, taken: &[(&str, SeatState)], own: &str) -> Plan {
    let names = Names::of(&layout);
    let mut states = vec![SeatState::Free; layout.seats() as usize];
    for (words, state) in taken {
        for index in names.read([*words]).expect("seats") {
            states[index as usize] = *state;
        }
    }
    let own = if own.is_empty() { BTreeSet::new() } else { names.read([own]).expect("seats").into_iter().collect() };
    let price = |amount| Money { amount, currency: Currency::new("EUR").expect("a currency") };
    let prices = vec![(id("cheap"), price(700)), (id("premium"), price(2500)), (id("standard"), price(1000))];
    Plan { layout: Arc::new(layout), prices, states, own }
}

fn check(plan: &Plan, columns: usize, picture: Expect) {
    let options = DrawOptions { colours: false, columns };
    for line in house(plan, &options) {
        assert!(line.chars().count() <= columns, "wider than {columns}: {line}");
    }
    let lines = draw(plan, &options);
    picture.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn the_royal_with_seats_of_every_state() {
    let taken = [("B6-B8", SeatState::Held), ("C1 C2", SeatState::Sold), ("E16", SeatState::Blocked)];
    check(
        &plan(royal(), &taken, "B7"),
        80,
        expect![[r#"
                                 stage
        A   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        B   1  2  3  4  5 ▒▒ ●● ▒▒  9 10 11 12 13 14 15 16
        C  ██ ██  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        D   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16
        E   1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 ××

        ▒ held   █ sold   × blocked   ● yours
        standard 10.00 EUR: 74 free
    "#]],
    );
    check(
        &plan(royal(), &taken, "B7"),
        40,
        expect![[r#"
                         stage
        A  a a a a a a a a a a a a a a a a
        B  a a a a a ▒ ● ▒ a a a a a a a a
        C  █ █ a a a a a a a a a a a a a a
        D  a a a a a a a a a a a a a a a a
        E  a a a a a a a a a a a a a a a ×

        ▒ held   █ sold   × blocked   ● yours
        a standard 10.00 EUR: 74 free
    "#]],
    );
    check(
        &plan(royal(), &taken, "B7"),
        20,
        expect![[r#"
                 stage
        A  aaaaaaaaaaaaaaaa
        B  aaaaa▒●▒aaaaaaaa
        C  ██aaaaaaaaaaaaaa
        D  aaaaaaaaaaaaaaaa
        E  aaaaaaaaaaaaaaa×

        ▒ held   █ sold   × blocked   ● yours
        a standard 10.00 EUR: 74 free
    "#]],
    );
    check(
        &plan(royal(), &taken, "B7"),
        12,
        expect![[r#"
             stage
        A  aaaaaaaa…
        B  aaaaa▒●▒…
        C  ██aaaaaa…
        D  aaaaaaaa…
        E  aaaaaaaa…

        ▒ held   █ sold   × blocked   ● yours
        a standard 10.00 EUR: 74 free
    "#]],
    );
}

#[test]
fn a_ragged_house_with_aisles_and_a_balcony() {
    let taken = [("5-1", SeatState::Sold), ("balcony/1-2-4", SeatState::Held)];
    check(
        &plan(ragged(), &taken, ""),
        80,
        expect![[r#"
                   stage
        — stalls —
        1            1            standard
        2          1  2           standard
        3         1  2  3         standard
        4       1  2  3  4        standard
        5  ██  2     3  4     5   standard 1–2, premium 3–5, accessible 5
        — balcony —
        1    1 ▒▒ ▒▒ ▒▒  5  6     cheap

        ▒ held   █ sold   × blocked
        standard 10.00 EUR: 11 free
        premium 25.00 EUR: 3 free
        cheap 7.00 EUR: 3 free
    "#]],
    );
}

#[test]
fn colours_are_there_only_if_wanted() {
    let plan = plan(layout(vec![row("A", None, vec![run(0, 3, 9, "standard")])]), &[("A9", SeatState::Held)], "A9");
    let coloured = draw(&plan, &DrawOptions { colours: true, columns: 80 });
    expect![[r#"
        [
            "     stage",
            "A  \u{1b}[1;30;43m●●\u{1b}[0m \u{1b}[32m10\u{1b}[0m \u{1b}[32m11\u{1b}[0m",
            "",
            "\u{1b}[33m▒\u{1b}[0m held   \u{1b}[31m█\u{1b}[0m sold   \u{1b}[90m×\u{1b}[0m blocked   \u{1b}[1;30;43m●\u{1b}[0m yours",
            "\u{1b}[32mstandard\u{1b}[0m 10.00 EUR: 2 free",
        ]
    "#]].assert_eq(&format!("{coloured:#?}\n"));
    assert!(!draw(&plan, &DrawOptions { colours: false, columns: 80 }).concat().contains('\x1b'));
}

#[test]
fn points_place_seats_unless_they_are_in_another_unit() {
    let mut near = run(0, 3, 1, "standard");
    near.points = vec![Point { x: 0, y: 0 }, Point { x: 100, y: 10 }, Point { x: 400, y: 0 }];
    let mut far = run(0, 3, 1, "standard");
    far.points = vec![Point { x: 0, y: 0 }, Point { x: 1, y: 0 }, Point { x: 900_000, y: 0 }];
    check(
        &plan(layout(vec![row("A", None, vec![near])]), &[], ""),
        80,
        expect![[r#"
                stage
        A   1  2        3

        ▒ held   █ sold   × blocked
        standard 10.00 EUR: 3 free
    "#]],
    );
    check(
        &plan(layout(vec![row("A", None, vec![far])]), &[], ""),
        80,
        expect![[r#"
             stage
        A   1  2  3

        ▒ held   █ sold   × blocked
        standard 10.00 EUR: 3 free
    "#]],
    );
}

fn read(layout: &Layout, words: &str) -> String {
    let names = Names::of(layout);
    match names.read([words]) {
        Ok(seats) => names.list(&seats),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_of_seats_are_read() {
    let layout = royal();
    let inputs = ["B5", "b5", "B-5", "B5 B6", "B5,B6,b7", "B5-B8", "B5-8", "B8–B5", "B5-B7 b6 A1", "A1-A16", " "];
    let read: Vec<String> = inputs.iter().map(|words| format!("{words:?} is {}", read(&layout, words))).collect();
    expect![[r#"
        "B5" is B5
        "b5" is B5
        "B-5" is B5
        "B5 B6" is B5, B6
        "B5,B6,b7" is B5–B7
        "B5-B8" is B5–B8
        "B5-8" is B5–B8
        "B8–B5" is B5–B8
        "B5-B7 b6 A1" is A1, B5–B7
        "A1-A16" is A1–A16
        " " is no seats were named; name some, like A1
    "#]]
    .assert_eq(&(read.join("\n") + "\n"));
}

#[test]
fn errors_about_seats_have_an_example() {
    let layout = royal();
    let inputs = ["Z9", "B17", "B5-C8", "B5-B17", "5", "", "B5-"];
    let read: Vec<String> = inputs.iter().map(|words| format!("{words:?}: {}", read(&layout, words))).collect();
    expect![[r#"
        "Z9": there is no seat Z9; seats are called by row and seat, like A1
        "B17": there is no seat B17; seats are called by row and seat, like A1
        "B5-C8": B5-C8: a range stays in one row; name each row by itself
        "B5-B17": there is no seat B5-B17; seats are called by row and seat, like A1
        "5": there is no seat 5; seats are called by row and seat, like A1
        "": no seats were named; name some, like A1
        "B5-": there is no seat B5-; seats are called by row and seat, like A1
    "#]]
    .assert_eq(&(read.join("\n") + "\n"));
}

#[test]
fn rows_with_numbers_and_equal_names_in_two_sections() {
    let layout = ragged();
    let inputs = [
        "5-1",
        "5-1-5-4",
        "5-1-4",
        "51",
        "1-1",
        "balcony/1-1",
        "BALCONY/1-1-6",
        "balcony/1-1-balcony/1-3",
        "stalls/1-1",
    ];
    let read: Vec<String> = inputs.iter().map(|words| format!("{words:?}: {}", read(&layout, words))).collect();
    expect![[r#"
        "5-1": 5-1
        "5-1-5-4": 5-1–5-4
        "5-1-4": 5-1–5-4
        "51": there is no seat 51; seats are called by row and seat, like stalls/1-1
        "1-1": 1-1 may be stalls/1-1 or balcony/1-1; say which
        "balcony/1-1": balcony/1-1
        "BALCONY/1-1-6": balcony/1-1–1-6
        "balcony/1-1-balcony/1-3": balcony/1-1–1-3
        "stalls/1-1": stalls/1-1
    "#]]
    .assert_eq(&(read.join("\n") + "\n"));
}

#[test]
fn every_name_that_is_written_can_be_read() {
    let mut named = run(0, 3, 1, "standard");
    named.labels = Labels::Names(vec!["1a".into(), "left box".into(), "x".into()]);
    let odd = layout(vec![row("Loge 1", None, vec![named.clone()]), row("1", None, vec![named])]);
    for layout in [royal(), ragged(), odd] {
        let names = Names::of(&layout);
        for index in 0..layout.seats() {
            assert_eq!(names.read([names.name(index)]), Ok(vec![index]), "{}", names.name(index));
        }
    }
}

#[test]
fn rows_that_differ_in_case_are_told_apart() {
    let two =
        layout(vec![row("A", None, vec![run(0, 3, 1, "standard")]), row("a", None, vec![run(0, 3, 1, "standard")])]);
    assert_eq!(
        ["A1", "a1", "A-2", "a1-a3", "a1-3"].map(|words| read(&two, words)),
        ["A1", "a1", "A2", "a1–a3", "a1–a3"]
    );
    // Seats of one row, a row of a section beside one without, and sections that differ in case.
    let mut cased = run(0, 2, 1, "standard");
    cased.labels = Labels::Names(vec!["x".into(), "X".into()]);
    let sections = layout(vec![
        row("1", Some("left"), vec![cased]),
        row("2", None, vec![run(0, 2, 1, "standard")]),
        row("2", Some("left"), vec![run(0, 2, 1, "standard")]),
        row("2", Some("Left"), vec![run(0, 2, 1, "standard")]),
    ]);
    for layout in [&two, &sections] {
        let names = Names::of(layout);
        for index in 0..layout.seats() {
            assert_eq!(names.read([names.name(index)]), Ok(vec![index]), "{}", names.name(index));
        }
    }
    assert_eq!(read(&sections, "1x"), "left/1x");
    assert_eq!(read(&sections, "1X"), "left/1X");
    // What could be several is still asked.
    assert!(read(&two, "A1").starts_with("A1") && read(&sections, "LEFT/2-1").contains("say which"));
}
